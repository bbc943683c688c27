"""Put the tables of the paper in their places, from what the benchmarks wrote.

    python benchmarks/accuracy.py --seeds 2 --fractions 0.01 0.035 --sets census-5 census-8 adult-5 adult-7 adult-9 \\
        --csv paper/results/accuracy.csv
    python benchmarks/copula.py --sets 8 --json paper/results/copula.json
    python benchmarks/attack.py census 0.035 1 | grep '^|' > paper/results/attack.txt
    python benchmarks/households.py --json paper/results/households.json
    python paper/make_tables.py            writes the tables into paper.md
    python paper/make_tables.py --check    says whether they are there already
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections import defaultdict
from pathlib import Path
from statistics import mean, median

HERE = Path(__file__).parent
RESULTS = HERE / "results"
LEAST = 50


def accuracy() -> str:
    """Errors of each estimator over combinations of keys and fractions, means over seeds."""
    with (RESULTS / "accuracy.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    cases: dict[str, dict[tuple[str, str], list[dict[str, str]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        cases[row["estimator"]][row["set"], row["fraction"]].append(row)
    lines = ["| estimator | median error | largest | mean log-loss |", "|---|---|---|---|"]
    for estimator, combinations in cases.items():
        errors, losses = [], []
        for samples in combinations.values():
            truth = mean(float(row["truth"]) for row in samples)
            if truth >= LEAST:
                errors.append(abs(mean(float(row["estimate"]) for row in samples) / truth - 1))
                losses.append(mean(float(row["log_loss"]) for row in samples))
        lines.append(f"| {estimator} | {median(errors):.1%} | {max(errors):.1%} | {mean(losses):.3f} |")
    return "\n".join(lines)


def copula() -> str:
    """rarecell and the better order of the copula, for each population and fraction."""
    rows = json.loads((RESULTS / "copula.json").read_text(encoding="utf-8"))
    lines = [
        "| population, sample | mean error: rarecell, copula | log-loss | not unique, of those above 0.95 |",
        "|---|---|---|---|",
    ]
    for source, fraction in sorted({(row["population"], row["fraction"]) for row in rows}):
        of = {
            method: [r for r in rows if (r["population"], r["fraction"], r["method"]) == (source, fraction, method)]
            for method in ("rarecell", "copula, ranked", "copula, sorted")
        }
        ours = of.pop("rarecell")
        theirs = min(of.values(), key=lambda some: mean(r["error"] for r in some))
        pairs = [
            ", ".join(f"{mean(r[what] for r in some):{form}}" for some in (ours, theirs))
            for what, form in (("error", ".4f"), ("log_loss", ".2f"))
        ]
        false = ", ".join(f"{sum(r['false'] for r in some):,} of {sum(r['certain'] for r in some):,}" for some in (ours, theirs))
        lines.append(f"| {source}, {fraction:.1%} | {pairs[0]} | {pairs[1]} | {false} |")
    return "\n".join(lines)


def attack() -> str:
    return (RESULTS / "attack.txt").read_text(encoding="utf-8").strip()


def households() -> str:
    rows = json.loads((RESULTS / "households.json").read_text(encoding="utf-8"))
    lines = [
        "| sample of households | unique: true, estimated | interval | persons in them: true, estimated |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {row['fraction']:.1%}, {row['households']:,} | {row['true']:,}, {row['estimated']:,.0f} | {row['low']:,.0f} to {row['high']:,.0f} | "
        f"{row['true_persons']:,}, {row['estimated_persons']:,.0f} |"
        for row in rows
    ]
    return "\n".join(lines)


TABLES = {"accuracy": accuracy, "copula": copula, "attack": attack, "households": households}


def with_tables(text: str) -> str:
    """The paper with its tables as the results have them."""
    for name, made in TABLES.items():
        place = re.compile(rf"(<!-- table: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if len(place.findall(text)) != 1:
            raise SystemExit(f"paper.md has no place for the table '{name}'.")
        table = made()
        text = place.sub(lambda found, table=table: f"{found[1]}{table}\n{found[2]}", text)
    return text


def main() -> None:
    paper = HERE / "paper.md"
    text = paper.read_text(encoding="utf-8")
    made = with_tables(text)
    if "--check" in sys.argv:
        raise SystemExit(
            0 if made == text else "The tables of paper.md are not those of paper/results: run paper/make_tables.py."
        )
    paper.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()

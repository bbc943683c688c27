"""How often was each promise tried, and was one ever broken?

Every promise of ``docs/why/promises.md`` that random cases can break is tried by the kinds of cases in ``tests/fuzz.py``. With
``--write`` the counts of the kinds that were tried are kept in ``promises.json``, and the table of the page is written anew from it; a
test asks that page, counts and script agree.

    python benchmarks/promises.py --share 0.1                       # about 580 cases
    python benchmarks/promises.py --seed 3 --write                  # about 5,800, six minutes of processor time
    python benchmarks/promises.py --seed 3 --write --kinds kill     # only these, the others as they were
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "why" / "promises.md"
KEPT = Path(__file__).with_suffix(".json")
BEGIN, END = "<!-- what was tried: written by benchmarks/promises.py -->", "<!-- end of what was tried -->"

CASES = {
    "csv": 1_000,
    "weights": 300,
    "encoding": 200,
    "hierarchy": 200,
    "frame": 400,
    "columnar": 700,
    "toml": 700,
    "command": 600,
    "run": 40,
    "folder": 400,
    "saved": 300,
    "cookie": 300,
    "levels": 100,
    "protect": 90,
    "twin": 60,
    "marks": 300,
    "outside": 50,
    "kill": 80,
}
"""Cases of each kind."""

EVERY_KIND = tuple(CASES)


@dataclass(frozen=True)
class Promise:
    """A promise, what is done to break it, and which cases do so; with ``counted``, only those that were recounted."""

    words: str
    tried: str
    kinds: tuple[str, ...]
    counted: bool = False

    def n_tried(self, counts: Mapping[tuple[str, str], int]) -> int:
        return sum(
            n for (kind, outcome), n in counts.items() if kind in self.kinds and (not self.counted or outcome == "counted")
        )

    def n_broken(self, counts: Mapping[tuple[str, str], int]) -> int:
        return sum(n for (kind, outcome), n in counts.items() if kind in self.kinds and outcome not in ENDED_WELL)


ENDED_WELL = ("counted", "read", "refused")

PROMISES = (
    Promise(
        "Any file ends in a result or in one paragraph.",
        "Text, Parquet, Arrow, frames, hierarchies and encodings, made and damaged at random.",
        ("csv", "weights", "encoding", "hierarchy", "frame", "columnar", "levels"),
    ),
    Promise(
        "A damaged run is told in one paragraph, or on one page of the app.",
        "Files of a finished run with an odd value in any place, read by every command, the library and the app.",
        ("saved",),
    ),
    Promise(
        "Counts are those of a plain reader, in memory and in the engine.",
        "The same files, where the damage left them well-formed, counted again by the standard library.",
        ("csv", "weights", "frame", "columnar"),
        counted=True,
    ),
    Promise(
        "Any option of any command ends in a result or in one paragraph, and the input stays as it was.",
        "Every command with options drawn from their declarations and odd values; configurations damaged at random.",
        ("command", "toml", "run"),
    ),
    Promise(
        "A protection keeps its tables and the keys that must stay, and lists every record that it changed.",
        "Random people, households and options; tables, keys and records counted in the released file.",
        ("protect",),
    ),
    Promise(
        "A twin has the tables that it names, in every cell.",
        "Random people and options; tables and columns counted in each twin.",
        ("twin",),
    ),
    Promise(
        "No byte of a protected file tells which records were swapped.",
        "Random values and styles of text, Parquet and Arrow files, compared with the file of the swapped values.",
        ("marks",),
    ),
    Promise(
        "A handover names no record, and neither the input nor the seed; its files are for their owner alone.",
        "Names of records, the hash of the input and the seed are looked for in every file; permissions.",
        ("outside",),
    ),
    Promise(
        "The old result or the new one, wherever a command is killed.",
        "assess, protect, handover and synthesise, killed at a random change of the disk, and looked at again.",
        ("kill",),
    ),
    Promise(
        "Nothing outside a run folder is deleted, and nothing in it that is not a result.",
        "Run folders with odd files, links, pipes and records that name other files.",
        ("folder",),
    ),
    Promise(
        "The app answers one browser.", "Cookie lines with pieces of other programs, with and without the right one.", ("cookie",)
    ),
    Promise(
        "Nothing is left behind in the temporary folder or beside the results.",
        "Every case above runs in folders that must be empty afterwards.",
        EVERY_KIND,
    ),
)


def table(counts: Mapping[tuple[str, str], int]) -> str:
    """The table of the page."""
    lines = [BEGIN, "| promise | what was tried | cases | broken |", "|---|---|---|---|"]
    lines += [f"| {one.words} | {one.tried} | {one.n_tried(counts):,} | {one.n_broken(counts):,} |" for one in PROMISES]
    return "\n".join([*lines, "", f"{sum(counts.values()):,} cases, counted by `python benchmarks/promises.py --write`.", END])


def kept_counts() -> Counter[tuple[str, str]]:
    """The counts that the page shows, by kind and outcome."""
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    return Counter({(kind, outcome): n for kind, of_kind in kept.items() for outcome, n in of_kind["ended"].items()})


def keep(counts: Mapping[tuple[str, str], int], seed: int) -> None:
    """Replace the counts of the kinds that were tried, and the table of the page."""
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    for kind in dict.fromkeys(kind for kind, _ in counts):
        kept[kind] = {"seed": seed, "ended": {outcome: n for (of, outcome), n in sorted(counts.items()) if of == kind}}
    KEPT.write_text(json.dumps({kind: kept[kind] for kind in CASES if kind in kept}, indent=1) + "\n", encoding="utf-8")
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(head + table(kept_counts()) + rest.partition(END)[2], encoding="utf-8")


def main() -> None:
    sys.path.insert(0, str(ROOT))
    from tests import fuzz

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1.0, help="of the cases")
    parser.add_argument("--kinds", default=",".join(CASES), help="of cases, separated by commas")
    parser.add_argument("--write", action="store_true", help="keep the counts, and write the table of the page anew")
    options = parser.parse_args()
    # What is compiled during a case would look like a hang on a busy computer.
    subprocess.run([sys.executable, "-m", "rarecell.run.rehearsal"], check=True)
    asked = [kind for kind in CASES if kind in options.kinds.split(",")]
    cases = [
        (kind, random.Random(f"{options.seed}:{kind}:{number}").randrange(10**9))
        for kind in asked
        for number in range(max(1, round(CASES[kind] * options.share)))
    ]
    began = time.monotonic()
    counts, bad = fuzz.fuzz(cases)
    print(table(counts))
    print(f"{time.monotonic() - began:.0f} s; ended badly: {[case for case, _, _ in bad]}", file=sys.stderr)
    if options.write:
        keep(counts, options.seed)
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()

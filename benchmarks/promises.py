"""How often was each promise tried, and was one ever broken?

Every promise of ``docs/why/promises.md`` that random cases can break is tried by the kinds of cases in ``tests/fuzz.py``. With
``--write`` the table of the page is written anew; a test asks that the page lists the promises of this script.

    python benchmarks/promises.py --share 0.1           # about 550 cases
    python benchmarks/promises.py --seed 3 --write      # about 5,500, half an hour of processor time
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "why" / "promises.md"
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
    "cookie": 300,
    "levels": 100,
    "protect": 150,
    "twin": 100,
    "marks": 300,
    "outside": 60,
    "kill": 150,
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


def table(counts: Mapping[tuple[str, str], int], command: str) -> str:
    """The table of the page."""
    lines = [BEGIN, "| promise | what was tried | cases | broken |", "|---|---|---|---|"]
    lines += [f"| {one.words} | {one.tried} | {one.n_tried(counts):,} | {one.n_broken(counts):,} |" for one in PROMISES]
    n_cases = sum(counts.values())
    return "\n".join([*lines, "", f"{n_cases:,} cases, written by `{command}`.", END])


def main() -> None:
    sys.path.insert(0, str(ROOT))
    from tests import fuzz

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1.0, help="of the cases")
    parser.add_argument("--write", action="store_true", help="write the table of the page anew")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    cases = [(kind, rng.randrange(10**9)) for kind, n in CASES.items() for _ in range(max(1, round(n * options.share)))]
    began = time.monotonic()
    counts: Counter[tuple[str, str]]
    counts, bad = fuzz.fuzz(cases)
    command = f"python benchmarks/promises.py --seed {options.seed}" + (
        f" --share {options.share:g}" if options.share != 1 else ""
    )
    written = table(counts, command)
    print(written)
    print(f"{time.monotonic() - began:.0f} s; ended badly: {[case for case, _, _ in bad]}", file=sys.stderr)
    if options.write:
        page = PAGE.read_text(encoding="utf-8")
        head, _, rest = page.partition(BEGIN)
        PAGE.write_text(head + written + rest.partition(END)[2], encoding="utf-8")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()

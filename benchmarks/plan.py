"""How long does it take to plan a release, and to try one recoding?

    python benchmarks/plan.py [--candidates 40]

Processor time on the census sample of 9,809 records with ten keys: forty recodings with the swaps that each needs to halve the correct
links, beside one assessment in the same run; and a recoding tried on counts, as the app does. Kernels are loaded before anything is timed.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

import rarecell as rc
from rarecell import datasets
from rarecell.run.config import RunConfig
from rarecell.run.plan import Trials


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """What some work gives, its processor seconds, and those on the clock."""
    before, clock = os.times(), time.perf_counter()
    result = work()
    after = os.times()
    return result, after.user + after.system - before.user - before.system, time.perf_counter() - clock


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--candidates", type=int, default=40)
    asked = parser.parse_args()
    path, keys = str(datasets.census_sample_path()), [*datasets.CENSUS_KEYS, "education", "race"]
    data: dict[str, Any] = {"keys": keys, "population": datasets.CENSUS_POPULATION}
    rc.plan(path, max_correct_links=3000, candidates=2, **data)

    before, assessing, _ = timed(lambda: rc.assess(path, **data))
    half = before.summary.risk.expected_correct_matches / 2
    found, planning, clock = timed(lambda: rc.plan(path, max_correct_links=half, candidates=asked.candidates, **data))
    trials, reading, _ = timed(lambda: Trials(RunConfig.from_mapping({"input": path, **data})))
    trials.of({})
    words = ["5-year bands", "10-year bands", "top 80", "5 groups", "edges 15 25 45 65"]
    _, trying, _ = timed(lambda: [trials.of({"age": one}) for one in words])

    print(f"{len(found.looked_at)} of {found.n_candidates} recodings with swaps, {len(found.points)} on the frontier")
    print(
        f"planning      {planning:6.1f} s processor time ({clock:.1f} s on the clock), {planning / assessing:.1f} times one assessment"
    )
    print(f"  each        {planning / len(found.looked_at):6.2f} s")
    print(f"assessment    {assessing:6.1f} s")
    print(f"one recoding tried on counts {trying / len(words):6.3f} s, after {reading:.2f} s for reading and counting once")


if __name__ == "__main__":
    main()

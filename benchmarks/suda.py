"""Minimal unsafe combinations and SUDA scores: how much faster than counting every key set?

Both files have eight keys of the Adult census extract, coded as integers, and all set sizes are searched; collapsing the
records and scoring them are part of the time. The rival ``every key set`` counts each of the 255 sets with polars and looks a found set's supersets up, which is the
plain level-wise method; its result must be the same. The package ``suda`` of PyPI is timed when it is installed, on the first
2,000 records and sets of at most three keys (it counts sets that are not minimal, so that its scores differ).
For orientation: sdcMicro's suda2, in C++, takes 0.4 s for 32,561 records and 1.4 s for 100,000.

    python benchmarks/suda.py
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from itertools import combinations
from pathlib import Path
from types import ModuleType

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.timing import seconds

import rarecell as rc
from rarecell.risk.unsafe import UnsafeCombinations, unsafe_combinations

KEYS = ("age", "workclass", "education", "marital_status", "occupation", "relationship", "race", "sex")
ADULT = Path(__file__).parent.parent / "tests" / "data" / "adult.parquet"


def training_part() -> pl.DataFrame:
    return pl.read_parquet(ADULT).filter(pl.col("part") == "adult.data").select(KEYS)


def hundred_thousand() -> pl.DataFrame:
    """Records redrawn from the file, five keys of each redrawn on their own, so that most cells are new."""
    adult = training_part()
    rng = np.random.default_rng(0)
    redrawn = adult[rng.integers(0, adult.height, 100_000)]
    shuffled = {
        key: adult[key][rng.integers(0, adult.height, 100_000)] for key in ("age", "workclass", "education", "occupation", "race")
    }
    return redrawn.with_columns(**shuffled)


def coded(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select(pl.col(key).rank("dense").cast(pl.Int32) - 1 for key in KEYS)


def scored(codes: pl.DataFrame) -> UnsafeCombinations:
    levels = [rc.Categories(key, tuple(range(int(codes[key].max()) + 1))) for key in KEYS]
    found = unsafe_combinations(rc.ContingencyTable.from_codes(codes.to_numpy(), levels))
    assert found.suda_score.size
    return found


def every_key_set(frame: pl.DataFrame) -> int:
    """Number of minimal unsafe combinations, by counting every set of keys."""
    n_found = 0
    lists: list[list[int]] = [[] for _ in range(frame.height)]
    for size in range(1, len(KEYS) + 1):
        for subset in combinations(range(len(KEYS)), size):
            mask = sum(1 << k for k in subset)
            alone = frame.select(pl.len().over([KEYS[k] for k in subset]) == 1).to_series().to_numpy()
            for record in np.flatnonzero(alone).tolist():
                if not any(smaller & ~mask == 0 for smaller in lists[record]):
                    lists[record].append(mask)
                    n_found += 1
    return n_found


def installed_suda() -> ModuleType | None:
    """The package of PyPI, found by its own path because this script has the same name."""
    try:
        path = importlib.metadata.distribution("suda").locate_file("suda.py")
    except importlib.metadata.PackageNotFoundError:
        return None
    spec = importlib.util.spec_from_file_location("pypi_suda", str(path))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    scored(coded(training_part()).head(1000))  # compiles the kernels
    for title, frame in (("Adult, training part", training_part()), ("Adult, keys redrawn", hundred_thousand())):
        codes = coded(frame)
        found = scored(codes)
        own = seconds(lambda codes=codes: scored(codes), repeats=7)
        plain = seconds(lambda codes=codes: every_key_set(codes), repeats=1)
        part = codes.head(3000)
        assert every_key_set(part) == len(scored(part).mask)
        print(f"{title}: {frame.height:,} records, {len(found.mask):,} minimal unsafe combinations")
        print(f"  rarecell       {own:8.3f} s")
        print(f"  every key set  {plain:8.3f} s   {plain / own:6.1f} times as long")
    suda = installed_suda()
    if suda is None:
        print("The package suda is not installed; `pip install suda` adds it to the comparison.")
        return
    part = coded(training_part().head(2000))
    own = seconds(lambda: scored(part), repeats=7)
    rival = seconds(lambda: suda.suda(part.to_pandas(), max_msu=3), repeats=1)
    print("Adult, first 2,000 records")
    print(f"  rarecell       {own:8.3f} s   all sizes")
    print(f"  PyPI suda      {rival:8.3f} s   {rival / own:6.1f} times as long, sizes up to 3")


if __name__ == "__main__":
    main()

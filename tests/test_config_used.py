"""Every option of a configuration is read by code that acts on it, in runs that use every role."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import make_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rarecell as rc
from rarecell.run import swaps
from rarecell.run.config import ProtectConfig, RunConfig
from rarecell.run.options import Count, Group, option, options_of

PACKAGE = Path(rc.__file__).parent

ONLY_PASSED_ON = {"run/config.py", "run/options.py", "cli/options.py", "app/forms.py"}
"""Modules that take options, check them and hand them on: reading an option there does nothing with it."""

ONLY_LOOK = {"refuse_what_voids", "needs_records", "refuse_unknown_names", "refuse_without_positions", "choosing", "inputs_of"}
"""Functions that refuse a request or say what it needs, and do nothing of what it asks for."""

OPTIONS = [(owner, option.name) for owner in (RunConfig, ProtectConfig) for option in options_of(owner)]

KEYS = ["age", "sex", "town"]


def people(n: int = 240) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    household = np.repeat(np.arange(n), rng.integers(1, 4, n))[:n]
    age = rng.integers(1, 9, n) * 10
    return pd.DataFrame(
        {
            "id": np.arange(n),
            "household": household,
            "age": age,
            "sex": rng.integers(0, 2, n),
            "town": rng.choice(list("abcd"), n)[household],
            "weight": 10.0 + age / 10,
            "income": rng.integers(10, 99, n) * 100,
            "illness": rng.choice(["none", "flu", "asthma"], n),
        }
    )


class Reads:
    """The options that code of the package read, by the class that has them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: set[tuple[type, str]] = set()
        for owner in (RunConfig, ProtectConfig):
            monkeypatch.setattr(owner, "__getattribute__", self._watching(owner), raising=False)

    def _watching(self, owner: type) -> Any:
        def read(config: object, name: str) -> Any:
            reader = sys._getframe(1).f_code
            place = Path(reader.co_filename)
            is_ours = place.is_relative_to(PACKAGE) and place.relative_to(PACKAGE).as_posix() not in ONLY_PASSED_ON
            if is_ours and reader.co_name not in ONLY_LOOK:
                self.names.add((owner, name))
            return object.__getattribute__(config, name)

        return read


ALLOWED: dict[str, Any] = {"treat": {"household": "drop", "id": "drop"}, "accept_leak": ("income", "illness", "weight")}
"""What lets a small file be released."""


def quick_run(folder: Path) -> RunConfig:
    people().to_csv(folder / "people.csv", index=False)
    path = str(folder / "people.csv")
    return RunConfig(input=path, keys=tuple(KEYS), population=2_000, model="independence", households_known="no")


def run_everything(folder: Path) -> None:
    """Assess and protect in small runs that together ask for everything that an option can ask for."""
    quick = quick_run(folder)
    rc.assess(replace(quick, scenario={"neighbour": {"keys": ("age", "sex")}}))
    rc.assess(replace(quick, strata="sex", populations={"0": 900, "1": 1_100}, population=None))
    rc.assess(replace(quick, household="household", households_known="yes"))
    rc.protect(replace(quick, protect=ProtectConfig(top=3, swap_seed=1, **ALLOWED)), out=folder / "first")
    roles = replace(quick, weight="weight", sensitive=("illness",), analysis={"m": {"means": "income by sex"}})
    for choice in (
        {"risk_above": 0.01, "suppress_rest": True, "released": str(folder / "first"), "l_diversity": 2, "max_change": 0.5},
        {"cell_probability_below": 0.01, "max_sure_links": 2.0},
        {"max_correct_links": 3.0, "k": 2},
        {"records": (1, 2, 3), "unlink": False},
    ):
        rc.protect(replace(roles, protect=ProtectConfig(**ALLOWED, **choice)))
    rc.protect(replace(quick, protect=ProtectConfig(formal={"epsilon": 12.0})), frame=people()[KEYS])
    places = ProtectConfig(
        swap_rate=0.05, similar=(("sex",),), households=True, risk_above=0.2, accept_leak=("income", "illness")
    )
    rc.protect(replace(quick, geography="town", household="household", protect=places))


@pytest.fixture(scope="module")
def reads(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reads]:
    with pytest.MonkeyPatch.context() as patched:
        watching = Reads(patched)
        run_everything(tmp_path_factory.mktemp("runs"))
        yield watching


@pytest.mark.parametrize(("owner", "name"), OPTIONS, ids=[name for _, name in OPTIONS])
def test_an_option_is_read(reads: Reads, owner: type, name: str) -> None:
    read_as = {"scenario": "scenarios"}.get(name, name)
    assert (owner, read_as) in reads.names, f"nothing acts on the option '{name}'"


def test_an_option_that_nothing_acts_on_is_told_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Such an option is declared, checked, saved and copied with the others, which does not count as reading it."""
    unused = option(Count(), "Nothing acts on this.", Group.SWAPS, default=7)
    with_unused = make_dataclass("WithUnused", [("unused", int, unused)], bases=(ProtectConfig,), frozen=True)
    watching = Reads(monkeypatch)
    rc.protect(replace(quick_run(tmp_path), protect=with_unused(top=3, swap_seed=1, **ALLOWED)), out=tmp_path / "run")
    assert "unused" in [declared.name for declared in options_of(with_unused)]
    assert (ProtectConfig, "top") in watching.names
    assert (ProtectConfig, "unused") not in watching.names


def test_a_function_that_acts_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    watching = Reads(monkeypatch)
    request = ProtectConfig(top=3)
    assert swaps.seed_of(RunConfig(input="x", keys=("a",), population=9), request) == 0
    assert watching.names == {(RunConfig, "seed"), (ProtectConfig, "swap_seed")}

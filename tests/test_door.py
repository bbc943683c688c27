"""The door for people who have a data frame: keywords in, values out, and no record on the screen."""

from __future__ import annotations

import ast
import inspect
import math
import re
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import rarecell as rc
from rarecell import datasets
from rarecell.cli.commands import main
from rarecell.errors import BadInput
from rarecell.run.config import ProtectConfig, RunConfig

KEYS = ["age", "sex", "region"]


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    draw = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "age": draw.integers(15, 95, 400),
            "sex": draw.choice(["f", "m"], 400),
            "region": draw.choice(["Uri", "Schwyz", "Glarus", "Zug"], 400, p=[0.1, 0.2, 0.3, 0.4]),
            "income": draw.normal(50.0, 9.0, 400).round(2),
        }
    )


@pytest.fixture(scope="module")
def assessed(people: pd.DataFrame) -> rc.Assessment:
    return rc.assess(people, keys=KEYS, population=20_000)


@pytest.fixture(scope="module")
def protected(people: pd.DataFrame) -> rc.Protection:
    return rc.protect(people, keys=KEYS, population=20_000, top=20)


OF_THE_TERMINAL = {"as_json", "quiet", "dry_run", "help_all", "timings", "details"}
"""Options that say what a terminal shows; those that say when a command fails begin with "fail"."""

CALLED_OTHERWISE = {"file": "data", "config": "data"}
"""Options whose parameter in Python has another name: a configuration is given in place of the data."""


@pytest.mark.parametrize("name", ["assess", "protect", "plan"])
def test_every_option_of_a_command_is_a_keyword(name: str) -> None:
    function = getattr(rc, name)
    keywords = set(inspect.signature(function).parameters)
    named = {str(option.name) for option in main.commands[name].params}
    options = {option for option in named - OF_THE_TERMINAL if not option.startswith("fail_")}
    assert {CALLED_OTHERWISE.get(option, option) for option in options} <= keywords


def test_everything_that_a_public_function_takes_or_returns_is_public() -> None:
    """Somebody who reads a signature finds what it names without looking for its module."""
    # Marginals are counted by whoever is not given any.
    never_needed = {"Marginals"}
    package = Path(rc.__file__).parent
    classes = {
        node.name
        for path in package.rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    }
    mentioned = set()
    for name in rc.__all__:
        function = getattr(rc, name)
        if inspect.isfunction(function):
            signature = inspect.signature(function)
            types = [*(parameter.annotation for parameter in signature.parameters.values()), signature.return_annotation]
            mentioned |= set(re.findall(r"\w+", " ".join(str(one) for one in types)))
    assert mentioned & classes - never_needed <= set(rc.__all__)
    assert "ReleaseFrontier" in mentioned & classes


def test_the_procedure_of_the_paper_is_one_keyword(people: pd.DataFrame) -> None:
    found = rc.assess(people, keys=KEYS, population=20_000, paper=True)
    assert found.summary.paper is not None
    assert (found.config.model, found.config.resolution, found.config.search) == ("single", "full", "local")
    with pytest.raises(BadInput, match="leave out criterion=, or paper="):
        rc.assess(people, keys=KEYS, population=20_000, paper=True, criterion="bic")
    assert rc.assess(people, keys=KEYS, population=20_000, paper=False, model="single").summary.paper is None


def test_a_frame_with_keywords_is_the_same_run_as_a_configuration(assessed: rc.Assessment, people: pd.DataFrame) -> None:
    config = RunConfig(input="people", keys=tuple(KEYS), population=20_000)
    assert rc.assess(config, frame=people).summary == assessed.summary


def test_an_intruder_is_named_by_its_keys(people: pd.DataFrame) -> None:
    short = rc.assess(people, keys=KEYS, population=20_000, scenario={"neighbour": KEYS[:2]})
    long = rc.assess(people, keys=KEYS, population=20_000, scenario={"neighbour": {"keys": KEYS[:2]}})
    assert short.summary.risk.scenarios == long.summary.risk.scenarios
    assert short.summary.risk.scenarios[0].keys == tuple(KEYS[:2])


def test_a_path_with_keywords_is_read(assessed: rc.Assessment, people: pd.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    people.to_csv(path, index=False)
    found = rc.assess(path, keys=KEYS, population=20_000)
    assert found.summary.risk == assessed.summary.risk
    assert isinstance(found.to_frame(), pa.Table)


def test_the_risk_of_every_record_comes_in_the_library_of_the_data(assessed: rc.Assessment, people: pd.DataFrame) -> None:
    risk = assessed.to_frame()
    assert isinstance(risk, pd.DataFrame)
    assert len(risk) == len(people)
    assert risk["unique_probability"].sum() == pytest.approx(assessed.summary.risk.expected_population_uniques)
    assert isinstance(assessed.to_frame(like=pl.DataFrame()), pl.DataFrame)


def test_the_protected_frame_differs_in_swapped_key_values_alone(protected: rc.Protection, people: pd.DataFrame) -> None:
    frame = protected.frame
    assert isinstance(frame, pd.DataFrame)
    assert frame["income"].equals(people["income"])
    n_changed = sum(int((frame[key] != people[key]).sum()) for key in KEYS)
    assert protected.summary.swap is not None
    assert n_changed == protected.summary.swap.values_changed > 0


def test_a_protected_file_as_a_table_is_what_would_be_written(people: pd.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    people.to_csv(path, index=False)
    done = rc.protect(path, keys=KEYS, population=20_000, top=20)
    done.save(tmp_path / "run")
    written = pd.read_csv(tmp_path / "run" / "protected.csv")
    assert done.frame.to_pandas().equals(written)


def test_a_saved_run_is_loaded_as_it_was(protected: rc.Protection, tmp_path: Path) -> None:
    protected.save(tmp_path / "run")
    loaded = rc.load(tmp_path / "run")
    # What was written, and when, is known once it is written.
    assert replace(loaded.summary, provenance=None) == protected.summary
    assert str(loaded) == str(protected)
    assert loaded.config.keys == tuple(KEYS)
    assert loaded.to_frame().to_pandas().equals(protected.assessment.to_frame())
    assert [one.values for one in loaded.riskiest()] == [one.values for one in protected.assessment.riskiest]
    with pytest.raises(rc.OutputExists):
        protected.save(tmp_path / "run")
    with pytest.raises(BadInput, match="not the folder of a finished run"):
        rc.load(tmp_path)


def test_results_show_themselves_in_one_line_and_without_records(assessed: rc.Assessment, protected: rc.Protection) -> None:
    for result in (assessed, protected):
        assert len(repr(result)) < 120
        assert "\n" not in repr(result)
        card = result._repr_html_()
        assert card.startswith("<div")
        assert "<svg" in card
        for value in ("Uri", "Schwyz", "Glarus", "Zug"):
            assert value not in card


def test_results_are_values(assessed: rc.Assessment) -> None:
    with pytest.raises(FrozenInstanceError):
        assessed.summary.records = 3  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        assessed.risk = None  # type: ignore[misc,assignment]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"keys": KEYS}, "size of the population"),
        ({"keys": KEYS, "populaton": 100}, "Did you mean 'population'"),
        ({"keys": "age", "population": 20_000}, "must be a list"),
        ({"keys": ["agee"], "population": 20_000}, "agee"),
    ],
    ids=str,
)
def test_a_mistake_is_said_in_one_paragraph(people: pd.DataFrame, options: dict[str, object], told: str) -> None:
    with pytest.raises(rc.RarecellError, match=told) as problem:
        rc.assess(people, **options)  # type: ignore[arg-type]
    assert "\n" not in str(problem.value)


def test_data_are_given_once(people: pd.DataFrame) -> None:
    config = RunConfig(input="people", keys=tuple(KEYS), population=20_000)
    with pytest.raises(BadInput, match="as well"):
        rc.assess(config, frame=people, seed=3)
    with pytest.raises(BadInput, match="twice"):
        rc.assess(people, frame=people, keys=KEYS, population=20_000)


def test_records_are_chosen_in_one_way() -> None:
    with pytest.raises(BadInput, match="by --risk-above and by --top"):
        ProtectConfig(risk_above=0.2, top=5)
    with pytest.raises(BadInput, match="2 ways"):
        ProtectConfig(records=(1,), max_record_risk=0.1)
    assert ProtectConfig(max_record_risk=0.1, max_population_uniques=2.0).chooses_records


def test_fewer_records_than_asked_for_are_explained(people: pd.DataFrame) -> None:
    done = rc.protect(people, keys=["sex", "region", "age"], population=20_000, top=390)
    n = done.assessment.risk.n_sample_uniques
    assert n < 390
    assert any(f"only {n} records are alone in the file" in note for note in done.summary.notes)


def test_nothing_to_protect_is_said(people: pd.DataFrame) -> None:
    done = rc.protect(people, keys=["sex", "region"], population=20_000, risk_above=0.9)
    assert "No record is risky enough" in str(done)


def test_records_without_a_household_are_not_one_large_household(people: pd.DataFrame) -> None:
    half = len(people) // 2
    lacking = people.assign(home=[None if row < half else f"h{row // 3}" for row in range(len(people))])
    named = people.assign(home=[f"alone {row}" if row < half else f"h{row // 3}" for row in range(len(people))])
    one, other = (rc.protect(at_home, keys=KEYS, population=20_000, household="home", top=5) for at_home in (lacking, named))
    for of_one, of_other in (
        (one.summary.risk.household, other.summary.risk.household),
        (one.summary.swap.released.households, other.summary.swap.released.households),
    ):
        assert of_one.to_dict() == pytest.approx(of_other.to_dict())
    of_one, of_other = (done.assessment.to_frame()["household_probability"].tolist() for done in (one, other))
    assert of_one == pytest.approx(of_other)


def test_both_household_risks_are_those_of_the_members_together(people: pd.DataFrame) -> None:
    at_home = people.assign(home=[f"h{row // 3}" for row in range(len(people))])
    risk = rc.assess(at_home, keys=KEYS, population=20_000, household="home").to_frame()
    for of_member, of_household in (
        ("unique_probability", "household_probability"),
        ("match_probability", "household_any_match_probability"),
    ):
        for _, members in risk.groupby(at_home["home"]):
            together = 1 - math.prod(1 - p for p in members[of_member])
            assert members[of_household].to_list() == pytest.approx([together] * len(members))
    assert (risk["household_any_match_probability"] >= risk["household_probability"] - 1e-12).all()


def test_what_is_printed_begins_with_the_decision(tmp_path: Path) -> None:
    frame = datasets.census_sample()
    wish = {"keys": ["age", "sex", "marital"], "population": datasets.CENSUS_POPULATION, "model": "independence"}
    for profile in ("safe-centre", "public"):
        done = rc.protect(frame, **wish, top=2, seed=1, profile=profile, out=tmp_path / profile)
        for result in (done.assessment, done, rc.load(tmp_path / profile)):
            assert str(result).startswith(f"{result.summary.release.profile.headline}. ")
    risky = rc.assess(frame, keys=datasets.CENSUS_KEYS, population=datasets.CENSUS_POPULATION, model="independence")
    assert str(risky).startswith("Do not release. ")

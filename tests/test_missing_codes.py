"""Codes that mean "missing": which are proposed, and that accepting them reaches every number of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell.data.describe import profile_file
from rarecell.data.missing_codes import joined_codes, parse_missing_codes, proposed_codes, says_missing
from rarecell.engine.source import Column
from rarecell.errors import BadInput, UnknownColumns


def proposed(counts: dict[Any, int], labels: dict[Any, str] | None = None) -> list[str]:
    is_number = all(isinstance(value, int | float) for value in counts)
    column = Column("x", "number" if is_number else "text", value_labels=labels or {})
    return [one.code for one in proposed_codes(column, counts, [float(value) for value in counts] if is_number else None)]


def flat(*values: int, n: int = 40) -> dict[Any, int]:
    return dict.fromkeys(values, n)


@pytest.mark.parametrize(
    ("counts", "codes"),
    [
        (flat(*range(21), 98, 99), ["98", "99"]),
        (flat(*range(90)) | {998: 130, 999: 90}, ["998", "999"]),
        (flat(1, 2, 3, 4, 5, 9), ["9"]),
        (flat(1, 2, 3, 4, 5, 7, 9), ["7", "9"]),
        (flat(1, 2, -9, -8), ["-9", "-8"]),
        (flat(*range(60), -1, -9), ["-9", "-1"]),
        ({-9: 12, **flat(*range(18, 90))}, ["-9"]),
        (dict.fromkeys(range(0, 40000, 37), 1) | {99999: 40}, ["99999"]),
        (dict.fromkeys(range(0, 40000, 37), 1) | {9998: 40}, ["9998"]),
    ],
)
def test_codes_that_stand_apart_are_proposed(counts: dict[Any, int], codes: list[str]) -> None:
    assert proposed(counts) == codes


@pytest.mark.parametrize(
    "counts",
    [
        flat(*range(100)),  # ages up to 99
        {**flat(*range(90)), 91: 3, 93: 2, 99: 1},  # one very old person
        flat(1, 2, 3, 4, 6, 7),  # NHANES: ethnicity
        flat(*range(1, 10)),  # sizes of households, regions
        {1: 300, 2: 320, 3: 180, 4: 150, 5: 60, 6: 20, 7: 8, 9: 1},
        flat(-2, -1, 0, 1, 2),  # a scale
        flat(-30, -12, -5, 0, 4, 12, 17),  # temperatures, profits
        flat(0, 1),
        flat(99, 1),
        dict.fromkeys(range(0, 40000, 37), 1),
        flat(1990, 1991, 1999),  # years
    ],
)
def test_values_that_mean_something_are_not_proposed(counts: dict[Any, int]) -> None:
    assert proposed(counts) == []


def test_labels_decide_before_numbers() -> None:
    counts = flat(1, 2, 3, 8, 9)
    assert proposed(counts, {8: "Don’t know", 9: "Abroad"}) == ["8"]
    assert proposed(flat(1, 2, 3), {1: "Yes", 2: "No", 3: "Refused"}) == ["3"]
    assert proposed(flat(*range(21), 97, 98, 99), {97: "97 or older", 99: "No answer"}) == ["98", "99"]
    assert proposed({"north": 10, "south": 12, "Unknown": 3}) == ["Unknown"]
    assert proposed({"north": 10, "south": 12, "refuge": 3}) == []


@pytest.mark.parametrize("label", ["Don't know", "DK/NA", "keine Angabe", "weiß nicht", "Non réponse", "No sabe", "NO ANSWER", "Missing", "Not applicable",
                                   "Refused", "don't know, refused", "NS/NC", "Inap"])  # fmt: skip
def test_labels_that_say_missing(label: str) -> None:
    assert says_missing(label)


@pytest.mark.parametrize(
    "label", ["Never", "No", "None", "Other", "Nobody knows him", "No children", "Not married", "Nauru", "Unknown artist", "0"]
)
def test_labels_that_say_something_else(label: str) -> None:
    assert not says_missing(label)


@settings(max_examples=60)
@given(st.dictionaries(st.integers(-10_000, 100_000), st.integers(1, 500), min_size=1, max_size=60))
def test_never_all_values_and_always_values_that_occur(counts: dict[int, int]) -> None:
    codes = proposed(counts)
    assert set(codes) < {str(value) for value in counts} or not codes


@settings(max_examples=40)
@given(
    st.dictionaries(
        st.sampled_from(["", "age", "income", "HH 1"]),
        st.lists(st.sampled_from(["-9", "99", "998", "k.A."]), min_size=1, max_size=3),
    )
)
def test_what_is_written_is_read(codes: dict[str, list[str]]) -> None:
    assert parse_missing_codes(joined_codes(codes)) == {name: tuple(of_column) for name, of_column in codes.items()}


def test_what_cannot_be_read_is_told() -> None:
    assert parse_missing_codes("proposed") is None
    for text in ("age=", "=9"):
        with pytest.raises(BadInput, match="name the column and its codes"):
            parse_missing_codes(text)


@pytest.fixture
def survey(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    n = 400
    age = rng.integers(18, 80, n)
    age[:30] = -9
    income = np.round(rng.lognormal(7, 0.5, n), 1)
    income[40:90] = 99998
    pd.DataFrame({"age": age, "sex": rng.choice(["m", "f"], n), "region": rng.integers(1, 6, n), "income": income}).to_csv(
        tmp_path / "survey.csv", index=False
    )
    return tmp_path / "survey.csv"


QUICK = {"keys": ["age", "sex", "region"], "population": 40_000, "model": "single", "resolution": "full"}


def test_describe_proposes_and_a_run_accepts(survey: Path, tmp_path: Path) -> None:
    profile = profile_file(survey)
    assert profile.proposed_missing == "age=-9; income=99998.0"
    named = rc.assess(survey, missing_codes=profile.proposed_missing, **QUICK)  # type: ignore[arg-type]
    short = rc.assess(survey, missing_codes="proposed", **QUICK)  # type: ignore[arg-type]
    assert named.summary.risk.expected_population_uniques == short.summary.risk.expected_population_uniques
    assert named.data.n_missing == {"age": 30, "sex": 0, "region": 0}
    as_text = rc.assess(survey, missing_codes="-9; income=99998", **QUICK)  # type: ignore[arg-type]
    assert as_text.data.n_missing == named.data.n_missing
    whole = as_text.data.whole_file(as_text.table)
    assert np.isnan(whole.columns["income"].values[40:90]).all()
    assert any("Read as missing: age=-9" in line for line in named.data.summary_lines())
    with pytest.raises(UnknownColumns, match="wage"):
        rc.assess(survey, missing_codes="wage=9", **QUICK)  # type: ignore[arg-type]


def test_codes_stay_in_the_protected_file_and_out_of_its_means(survey: Path, tmp_path: Path) -> None:
    done = rc.protect(survey, missing_codes="proposed", top=5, seed=1, out=tmp_path / "run", **QUICK)  # type: ignore[arg-type]
    assert done.summary.swap is not None
    before, after = (pd.read_csv(path) for path in (survey, tmp_path / "run" / "protected.csv"))
    assert (after["income"] == before["income"]).all()
    assert sorted(after["age"]) == sorted(before["age"])
    changes = done.summary.swap.file
    assert changes is None or all(one.before < 10_000 for one in changes.means if one.column == "income")


def test_a_blanked_value_reads_back_beside_a_code(survey: Path, tmp_path: Path) -> None:
    done = rc.protect(
        survey,
        missing_codes="age=-9",
        risk_above=0.9,
        k=2,
        seed=1,
        out=tmp_path / "run",
        **QUICK,  # type: ignore[arg-type]
    )
    assert done.summary.swap is not None
    assert done.summary.swap.suppression is not None
    blanks = done.summary.swap.suppression.by_key
    after = pd.read_csv(tmp_path / "run" / "protected.csv", dtype=str)
    assert sum(blanks.values()) > 0
    assert {name: int(after[name].isna().sum()) for name in QUICK["keys"]} == {
        name: blanks.get(name, 0) for name in QUICK["keys"]
    }  # type: ignore[attr-defined]
    # A code that was there stays a code; swaps may move it, and it is not blanked again.
    assert (after["age"] == "-9").sum() == 30

"""Analyses on both files: against formulas written out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rarecell as rc
from rarecell.errors import RarecellError
from rarecell.release.analyses import Analysis, compare, compared


def _columns(seed: int, n: int = 300) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    age, sex = rng.integers(20, 60, n), rng.integers(0, 2, n)
    income = 100 * age + 500 * sex + rng.normal(0, 300, n)
    owns = (rng.random(n) < 1 / (1 + np.exp(-(age - 40) / 10))).astype(int)
    return {"age": age.tolist(), "sex": np.array(["f", "m"])[sex].tolist(), "income": income.tolist(), "owns": owns.tolist()}


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("family", ["linear", "logistic"])
def test_regressions_are_those_of_the_formulas(family: str, is_weighted: bool) -> None:
    before, after = _columns(1), _columns(2)
    weights = np.random.default_rng(3).uniform(1, 9, 300) if is_weighted else None
    outcome = "income" if family == "linear" else "owns"
    analysis = Analysis.of("a", {"regression": f"{outcome} ~ age + sex", "family": family})
    found = {one.name: one for one in compare(analysis, before, after, weights)}
    for columns, side in ((before, "before"), (after, "after")):
        frame = pd.DataFrame(columns)
        design = np.column_stack([np.ones(300), (frame["sex"] == "m").astype(float), frame["age"]])
        w = np.ones(300) if weights is None else weights
        y = frame[outcome].to_numpy(dtype=float)
        if family == "linear":
            coefficients = np.linalg.solve(design.T @ (w[:, None] * design), design.T @ (w * y))
            fitted, curvature = design @ coefficients, w
        else:
            coefficients = np.zeros(3)
            for _ in range(30):
                fitted = 1 / (1 + np.exp(-design @ coefficients))
                curvature = w * fitted * (1 - fitted)
                coefficients += np.linalg.solve(design.T @ (curvature[:, None] * design), design.T @ (w * (y - fitted)))
        # The sandwich: weights enter squared in its middle, as those of a survey do.
        bread = np.linalg.inv(design.T @ (curvature[:, None] * design))
        scores = design * (w * (y - fitted))[:, None]
        errors = np.sqrt(np.diag(bread @ (scores.T @ scores) @ bread) * 300 / (300 - 3))
        for name, place in (("Intercept", 0), ("sex[T.m]", 1), ("age", 2)):
            assert getattr(found[name], side) == pytest.approx(coefficients[place], rel=1e-5)
            assert getattr(found[name], f"error_{side}") == pytest.approx(errors[place], rel=1e-5)


def test_means_and_totals_are_written_out() -> None:
    columns = {"income": [1.0, 3.0, 5.0, None, 10.0, 12.0], "region": ["n", "n", "n", "n", "s", "s"]}
    weights = np.array([1.0, 2.0, 1.0, 9.0, 4.0, 2.0])
    means = {one.name: one for one in compare(Analysis.of("m", {"means": "income by region"}), columns, columns, weights)}
    mean = (1 * 1 + 2 * 3 + 1 * 5) / 4
    error = math.sqrt(3 / 2 * ((1 * (1 - mean)) ** 2 + (2 * (3 - mean)) ** 2 + (1 * (5 - mean)) ** 2)) / 4
    assert means["n"].before == pytest.approx(mean)
    assert means["n"].error_before == pytest.approx(error)
    totals = {one.name: one for one in compare(Analysis.of("t", {"table": "region"}), columns, columns, weights)}
    assert (totals["n"].before, totals["s"].before) == (13.0, 6.0)
    drawn = np.array([0, 0, 0, 0, 4.0, 2.0])
    assert totals["s"].error_before == pytest.approx(math.sqrt(6 / 5 * ((drawn - 1.0) ** 2).sum()))


@given(st.floats(-5, 5), st.floats(-5, 5), st.floats(0.1, 3), st.floats(0.1, 3))
def test_overlap_of_intervals(before: float, after: float, error_before: float, error_after: float) -> None:
    one = compared("b", before, after, error_before, error_after)
    assert one.overlap <= 1.0 + 1e-12
    assert one.overlap == pytest.approx(compared("b", after, before, error_after, error_before).overlap)
    assert compared("b", before, before, error_before, error_before).overlap == pytest.approx(1.0)
    apart = abs(before - after) - 1.959963984540054 * (error_before + error_after)
    assert (one.overlap < 0) == (apart > 0) or abs(apart) < 1e-9


@pytest.mark.parametrize(
    ("given_options", "said"),
    [
        ({}, "needs one of"),
        ({"regression": "income"}, "not of the form"),
        ({"means": "income by region", "table": "a"}, "needs one of"),
        ({"regression": "a ~ b", "family": "poisson"}, "'linear' or 'logistic'"),
        ({"regression": "a ~ b", "wieghted": True}, "no option 'wieghted'"),
    ],
)
def test_analyses_that_make_no_sense(given_options: dict[str, Any], said: str) -> None:
    with pytest.raises(RarecellError, match=said):
        Analysis.of("x", given_options)


def test_a_whole_run_compares_the_analyses_of_its_configuration() -> None:
    people = pa.table(_columns(5, 400)).append_column("region", pa.array(np.random.default_rng(1).integers(0, 6, 400)))
    analysis = {
        "wage": {"regression": "income ~ age + sex + C(region)"},
        "mean": {"means": "income by sex"},
        "table": {"table": "region, sex"},
    }
    options: dict[str, Any] = {"keys": ["age", "sex", "region"], "population": 4_000, "model": "single", "resolution": "full"}
    done = rc.protect(people, top=25, analysis=analysis, **options)
    assert done.summary.swap is not None
    told = {one.name: one for one in done.summary.swap.analyses}
    assert set(told) == {"wage", "mean", "table"}
    for name, frame in (("before", people), ("after", done.frame)):
        columns = frame.to_pydict()
        expected = compare(Analysis.of("wage", analysis["wage"]), columns, columns)
        for one, term in zip(expected, told["wage"].terms, strict=True):
            assert getattr(term, name) == pytest.approx(one.before)
    # The keys move and the income stays, so that something changed.
    assert any(term.before != term.after for term in told["wage"].terms)
    with pytest.raises(RarecellError, match="no column 'incme'"):
        rc.protect(people, top=5, analysis={"m": {"means": "incme by sex"}}, **options)


@pytest.mark.parametrize(
    "formula",
    [
        "income ~ __import__('os').getpid()",
        "income ~ age + open('x')",
        "income ~ np.load('x')",
        "income ~ np.log.__class__(age)",
        "income ~ age.__class__",
        "income ~ C(f\"{__import__('os')}\")",
        "income ~ [x for x in age]",
        "income ~ (lambda: age)()",
        "income ~ I(age); age",
        "income ~ Q(f'age')",
        "income ~ age + nope",
        "income ~ (age",
        "income ~ 'age",
    ],
)
def test_a_formula_runs_no_other_code(formula: str) -> None:
    with pytest.raises(RarecellError):
        Analysis.of("a", {"regression": formula}).columns(["income", "age", "sex"])


@pytest.mark.parametrize(
    "formula",
    ["np.log(income) ~ C(sex) * age + I(age ** 2)", "income ~ bs(age, df=4) + C(sex, Treatment('f'))", "income ~ age:sex + age - 1",
     "income ~ Q('number of pets')", "C(sex == 'f') ~ age", "income ~ C(sex, Sum) + center(age)"],
)  # fmt: skip
def test_formulas_as_users_write_them(formula: str) -> None:
    columns = {**_columns(5), "number of pets": np.random.default_rng(1).integers(0, 4, 300).tolist()}
    family = "logistic" if formula.startswith("C(") else "linear"
    analysis = Analysis.of("a", {"regression": formula, "family": family})
    used = analysis.columns(list(columns))
    assert used
    assert all(one.overlap == pytest.approx(1.0) for one in compare(analysis, {n: columns[n] for n in used}, columns))


def test_a_cell_that_empties_is_told() -> None:
    before, after = {"town": ["a", "a", "b"]}, {"town": ["a", "a", "c"]}
    found = {one.name: one for one in compare(Analysis.of("t", {"table": "town"}), before, after)}
    assert {name: (one.before, one.after) for name, one in found.items()} == {"a": (2.0, 2.0), "b": (1.0, 0.0), "c": (0.0, 1.0)}
    assert (found["b"].relative_bias, found["b"].overlap, found["c"].relative_bias) == (-1.0, 0.0, None)


def test_means_of_text_and_tables_of_nothing_are_refused() -> None:
    with pytest.raises(RarecellError, match="not numbers"):
        compare(Analysis.of("a", {"means": "sex by age"}), _columns(1), _columns(1))
    with pytest.raises(RarecellError, match="form of its kind"):
        Analysis.of("a", {"table": " "})


def test_a_regression_that_fails_without_a_word_is_one_paragraph(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise AssertionError

    monkeypatch.setattr("statsmodels.formula.api.wls", fails)
    columns = _columns(1)
    with pytest.raises(RarecellError, match=r"could not be run: AssertionError\. Check"):
        compare(Analysis.of("a", {"regression": "income ~ age"}), columns, columns, None)

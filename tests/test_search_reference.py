"""Certified optima that independent programs found, too."""

from __future__ import annotations

import pyarrow.compute as pc
import pytest

import rarecell as rc
from rarecell.model.average import AverageModel
from rarecell.search.select import penalty_path
from tests.reference import ADULT_KEYS, adult_population, adult_table, census_table, cliques_by_number, table_of


@pytest.mark.parametrize(
    ("keys", "aic", "cliques"),
    [
        (ADULT_KEYS[:8], 751245.83, ("467", "138", "148", "258", "358", "468")),
        ((*ADULT_KEYS, "hours_per_week"), 938575.30, ("138", "148", "258", "358", "468", "39", "79", "5 10")),
    ],
)
def test_the_optimum_is_the_one_junctor_finds(keys: tuple[str, ...], aic: float, cliques: tuple[str, ...]) -> None:
    people = adult_population()
    people = people.filter(pc.equal(people["part"], "adult.data"))
    table = table_of(people, keys)
    assert table.n_records == 32561
    found = rc.select_model(table, search="exact")
    assert found.certified_optimal
    model = found.best
    assert 2 * model.degrees_of_freedom - 2 * model.log_likelihood_kernel == pytest.approx(aic, abs=0.005)
    named = {frozenset(keys[int(n) - 1] for n in (clique.split() if " " in clique else clique)) for clique in cliques}
    assert {frozenset(clique) for clique in model.cliques} == named


@pytest.mark.parametrize(
    ("table", "cliques"),
    [(census_table, "15 16 36 46 37 28 38"), (adult_table, "14 25 35 46 67 568 79")],
    ids=["census", "adult"],
)
def test_the_aic_optimum_of_the_reference_samples(table: object, cliques: str) -> None:
    sample = table()
    found = rc.select_model(sample)
    assert found.certified_optimal
    assert {frozenset(c) for c in found.best.cliques} == {frozenset(c) for c in cliques_by_number(sample, cliques)}


@pytest.mark.parametrize(
    ("table", "population", "expected"),
    [(census_table, 277_677, 242.584), (adult_table, 48_842, 2449.234)],
    ids=["census", "adult"],
)
def test_the_average_over_penalties_of_the_reference_samples(table: object, population: int, expected: float) -> None:
    sample = table()
    average = AverageModel([one.best for one in penalty_path(sample)])
    assert rc.record_risk(sample, average, population=population).expected_population_uniques == pytest.approx(expected, abs=5e-4)

"""The light beside an estimate, and options that say when they play no part."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import rarecell as rc
from rarecell import datasets
from rarecell.risk.diagnostics import FitDiagnostics
from rarecell.risk.interval import RiskInterval
from rarecell.risk.reliability import CountedUniques, reliability
from tests.reference import census_table


@pytest.fixture(scope="module")
def frame() -> pa.Table:
    return datasets.census_sample()


def test_a_sample_under_tried_conditions_is_green(frame: pa.Table) -> None:
    found = rc.assess(frame, keys=list(datasets.CENSUS_KEYS), population=277_677)
    light = found.summary.risk.reliability
    assert light is not None
    assert light.light == "green"
    assert light.sentence


def test_a_tiny_sample_is_amber_and_says_why(frame: pa.Table) -> None:
    found = rc.assess(frame.slice(0, 150), keys=["age", "sex", "marital"], population=4_000_000)
    light = found.summary.risk.reliability
    assert light is not None
    assert light.light != "green"
    assert any("150 records" in reason for reason in light.reasons)
    assert any("of the population" in reason for reason in light.reasons)


def test_a_register_speaks_against_an_estimate_on_either_side_of_its_interval() -> None:
    assert CountedUniques(10, (10.0, 20.0)).reason is None
    assert CountedUniques(20, (10.0, 20.0)).reason is None
    for count, too in ((9, "too high"), (21, "too low")):
        reason = CountedUniques(count, (10.0, 20.0)).reason
        assert reason is not None
        assert too in reason


def test_a_single_model_that_misses_dependence_is_red(frame: pa.Table) -> None:
    found = rc.assess(frame, keys=list(datasets.CENSUS_KEYS), population=277_677, model="independence")
    assert found.summary.risk.reliability is not None
    assert found.summary.risk.reliability.light == "red"


def test_weights_of_extreme_spread_are_told(frame: pa.Table) -> None:
    weight = np.maximum(28 * np.exp(2.0 * np.random.default_rng(0).standard_normal(frame.num_rows)), 1)
    found = rc.assess(frame.append_column("weight", pa.array(weight)), keys=["age", "sex", "marital"], weight="weight")
    assert found.summary.risk.design is not None
    assert found.summary.risk.design.spread > 4
    assert any("design effect" in reason for reason in found.summary.risk.reliability.reasons)


def test_a_few_enormous_weights_are_told_even_if_their_records_are_not_unique(frame: pa.Table) -> None:
    alike = np.flatnonzero((np.array(frame["age"]) == 40) & (np.array(frame["sex"]) == 0))[:3]
    weight = np.full(frame.num_rows, 28.0)
    weight[alike] = 1e6
    found = rc.assess(frame.append_column("weight", pa.array(weight)), keys=["sex", "marital"], weight="weight", model="single")
    assert any("design effect" in reason for reason in found.summary.risk.reliability.reasons)


def test_equal_weights_say_that_they_change_nothing(frame: pa.Table) -> None:
    weighed = frame.append_column("weight", pa.array(np.full(frame.num_rows, 20.0)))
    found = rc.assess(weighed, keys=["age", "sex"], weight="weight", population=277_677, model="single")
    assert found.summary.risk.design.sentence == "Every record has the same weight, so the weights change nothing."
    assert any(f"stand for {20 * frame.num_rows:,} people, but the population is 277,677" in note for note in found.summary.notes)


def test_the_interval_of_a_census_has_no_width(frame: pa.Table) -> None:
    found = rc.assess(frame, keys=["age", "sex", "marital"], population=frame.num_rows)
    n_uniques = found.summary.risk.sample_uniques
    assert tuple(found.summary.risk.interval) == (n_uniques, n_uniques)


def test_an_option_that_plays_no_part_says_so(frame: pa.Table) -> None:
    keys = ["age", "sex", "marital"]
    found = rc.assess(frame, keys=keys, population=277_677, form="poisson")
    assert any("'poisson' has no effect" in note for note in found.summary.notes)
    single = rc.assess(frame, keys=keys, population=277_677, form="poisson", model="single")
    assert not any("has no effect" in note for note in single.summary.notes)


def test_restarts_and_named_models_that_play_no_part_say_so(frame: pa.Table) -> None:
    keys = ["age", "sex", "marital"]
    found = rc.assess(frame, keys=keys, population=277_677, restarts=7, search="exact")
    assert any("7 restarts have no effect" in note for note in found.summary.notes)
    named = rc.assess(frame, keys=keys, population=277_677, cliques=[["age"], ["sex", "marital"]])
    assert any("named has no effect" in note for note in named.summary.notes)
    single = rc.assess(frame, keys=keys, population=277_677, cliques=[["age"], ["sex", "marital"]], model="single")
    assert not any("no effect" in note for note in single.summary.notes)


def test_less_detail_never_raises_the_number_of_population_uniques(frame: pa.Table) -> None:
    found = rc.assess(frame, keys=["age", "sex", "marital", "citizenship"], population=277_677)
    baseline = found.summary.risk.expected_population_uniques
    for cost in found.summary.risk.key_costs:
        steps = [baseline, *(step.expected_population_uniques for step in cost.coarsened), cost.without]
        assert all(coarser <= finer + 1e-9 for finer, coarser in pairwise(steps))


def test_strata_that_are_a_key_with_coarser_groups_do_not_fail(frame: pa.Table) -> None:
    ages = np.array(frame["age"]) // 3
    frame = frame.set_column(frame.column_names.index("age"), "age", pa.array(ages))
    sizes = {str(level): int(28 * n) + 1 for level, n in zip(*np.unique(ages, return_counts=True), strict=True)}
    found = rc.assess(frame, keys=["age", "sex", "marital", "relationship"], strata="age", populations=sizes)
    assert any(cost.key == "age" and cost.coarsened for cost in found.summary.risk.key_costs)
    assert found.summary.population == sum(sizes.values())


def test_an_estimate_that_is_not_known_to_within_a_tenth_is_amber(frame: pa.Table) -> None:
    found = rc.assess(frame.slice(0, 2_000), keys=list(datasets.CENSUS_KEYS), population=300_000)
    low, high = found.summary.risk.interval
    assert high > 1.5 * low
    assert found.summary.risk.reliability.light == "amber"
    assert any("not known to within a tenth" in reason for reason in found.summary.risk.reliability.reasons)


def test_the_risk_is_told_for_half_and_twice_the_population(frame: pa.Table) -> None:
    keys = ["age", "sex", "marital", "citizenship"]
    found = rc.assess(frame, keys=keys, population=277_677)
    half, double = found.summary.risk.other_populations
    assert (half.population, double.population) == (277_677 / 2, 2 * 277_677)
    for other in (half, double):
        again = rc.record_risk(found.table, found.choice.risk_model, population=other.population)
        assert other.expected_population_uniques == pytest.approx(again.expected_population_uniques)
        assert other.expected_correct_matches == pytest.approx(again.expected_correct_matches)
    assert half.expected_population_uniques > found.summary.risk.expected_population_uniques > double.expected_population_uniques
    small = rc.assess(frame.slice(0, 300), keys=keys, population=400)
    assert small.summary.risk.other_populations[0].population == 300
    assert small.summary.risk.other_populations[0].expected_population_uniques == pytest.approx(small.summary.risk.sample_uniques)


def test_chance_alone_must_be_larger_for_a_caution_than_what_is_not_known() -> None:
    """A width that single records explain is amber from 12 % on, what is beyond it from 6 % on."""
    table = census_table()
    risk = rc.record_risk(table, rc.fit_backoff(table, n_orders=2), population=277_677)
    estimate = risk.expected_population_uniques
    p = risk.unique_probability[risk.sample_count == 1]
    chance = float(np.sqrt((p * (1.0 - p)).sum()) / estimate)
    assert 0.03 < chance < 0.1
    fit = FitDiagnostics(None, None, {1: 0}, {}, 0.0, False)

    def light(beyond: float) -> str:
        half = 1.96 * np.hypot(chance, beyond)
        ends = float(estimate * np.exp(-half)), float(estimate * np.exp(half))
        interval = RiskInterval(0.95, ends, ends, estimate, estimate, "estimate", 1, "", risk.n_sample_uniques)
        return reliability(risk, fit, None, interval=interval).light

    assert [light(beyond) for beyond in (0.0, 0.05, 0.07, 0.3)] == ["green", "green", "amber", "red"]


def test_half_a_per_cent_is_what_a_whole_number_of_records_makes_of_it() -> None:
    table = census_table()
    model = rc.fit_backoff(table, n_orders=2)
    fit = FitDiagnostics(None, None, {1: 0}, {}, 0.0, False)
    for share, is_tried in ((0.00499, True), (0.0049, False)):
        risk = rc.record_risk(table, model, population=table.n_records / share)
        assert (reliability(risk, fit, None).light == "green") == is_tried

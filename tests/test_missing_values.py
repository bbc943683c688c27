"""Missing values that match anything: against pairs looked at one by one, and against populations that are known."""

from __future__ import annotations

from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell import datasets
from rarecell.risk.interval import risk_interval
from rarecell.risk.missing_values import SumLimits, matching_anything, register_complete, unseen_patterns
from rarecell.risk.records import record_risk
from tests.naive import missing_values as naive
from tests.reference import adult_population
from tests.test_risk_records import KnownModel


def with_missing(levels: list[int], lacking: list[bool]) -> list[rc.Categories]:
    """Keys of so many known levels, some with a missing one."""
    return [
        rc.Categories(chr(ord("a") + k), (*range(n), None) if lacks else tuple(range(n)))
        for k, (n, lacks) in enumerate(zip(levels, lacking, strict=True))
    ]


@st.composite
def worlds(draw: st.DrawFn) -> tuple[rc.ContingencyTable, np.ndarray]:
    """A small table with missing values, and the probability of every cell."""
    n_keys = draw(st.integers(2, 4))
    levels = draw(st.lists(st.integers(2, 4), min_size=n_keys, max_size=n_keys))
    lacking = draw(st.lists(st.booleans(), min_size=n_keys, max_size=n_keys))
    keys = with_missing(levels, lacking)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = tuple(c.n_levels for c in keys)
    probability = rng.dirichlet(np.full(int(np.prod(shape)), 0.4)).reshape(shape)
    drawn = rng.choice(probability.size, draw(st.integers(1, 30)), p=probability.ravel())
    codes = np.stack(np.unravel_index(drawn, shape), axis=1).astype(np.int32)
    return rc.ContingencyTable.from_codes(codes, keys), probability


@given(worlds())
@settings(max_examples=60, deadline=None)
def test_counts_and_probabilities_are_those_of_compatible_cells(world: tuple[rc.ContingencyTable, np.ndarray]) -> None:
    table, probability = world
    model = KnownModel(table, probability)
    own = record_risk(table, model, population=500)
    found = matching_anything(own, model)
    counts = [naive.compatible_records(table, cell) for cell in range(table.n_cells)]
    assert found.sample_count.tolist() == counts
    for cell in np.flatnonzero(np.array(counts) == 1):
        total = naive.compatible_probability(table, probability, cell)
        n_unseen = 500 - table.n_records
        assert np.exp(found.log_cell_probability[cell]) == pytest.approx(min(total, 1.0))
        assert found.unique_probability[cell] == pytest.approx((1 - min(total, 1.0)) ** n_unseen, abs=1e-12)


@given(worlds())
@settings(max_examples=60, deadline=None)
def test_a_complete_register_matches_who_has_the_values_of_a_record(world: tuple[rc.ContingencyTable, np.ndarray]) -> None:
    table, probability = world
    model = KnownModel(table, probability)
    own = record_risk(table, model, population=500)
    found = register_complete(own, model)
    if not any(any(naive.lacking(table, row)) for row in table.cells):
        assert found is own
        return
    counts = [naive.certain_records(table, cell) for cell in range(table.n_cells)]
    assert found.sample_count.tolist() == counts
    for cell in np.flatnonzero(np.array(counts) == 1):
        total = min(naive.complete_probability(table, probability, cell), 1.0)
        # The people with a record's own values, missing ones included, are among those who match it.
        total = max(total, float(probability[tuple(table.cells[cell])]))
        assert found.unique_probability[cell] == pytest.approx((1 - total) ** (500 - table.n_records), abs=1e-12)


def test_the_estimate_for_a_complete_register_is_near_the_truth() -> None:
    """Answers of the census sample blanked at random; the truth is counted in the population, which has them all."""
    keys = ["age", "sex", "marital", "education"]
    people = datasets.census_population().select(keys)
    rng = np.random.default_rng(5)
    rows = np.sort(rng.choice(people.num_rows, 6_000, replace=False))
    sample = {key: people[key].to_numpy()[rows].astype(object) for key in keys}
    for key in keys:
        sample[key][rng.random(len(rows)) < 0.05] = None
    found = rc.assess(pa.table(sample), keys=keys, population=people.num_rows, missing="register-complete")
    true_values = np.stack([people[key].to_numpy() for key in keys], axis=1)
    known = np.stack([[value is not None for value in sample[key]] for key in keys], axis=1)
    n_unique = 0
    for pattern in np.unique(known, axis=0):
        if not pattern.any():
            continue
        _, of_person, size = np.unique(true_values[:, pattern], axis=0, return_inverse=True, return_counts=True)
        n_unique += int((size[of_person.ravel()[rows]][(known == pattern).all(axis=1)] == 1).sum())
    assert found.summary.risk.expected_population_uniques == pytest.approx(n_unique, rel=0.25)
    told = found.summary.missing
    assert told.register_complete is not None
    assert told.matches_anything is not None
    assert told.own_level is not None
    assert (
        told.matches_anything.expected_population_uniques
        < told.register_complete.expected_population_uniques
        < told.own_level.expected_population_uniques
    )
    assert "complete register" in found.summary.notes[0]


@given(worlds(), st.integers(0, 5))
@settings(max_examples=20, deadline=None)
def test_no_record_is_riskier_than_with_a_level_of_its_own(world: tuple[rc.ContingencyTable, np.ndarray], seed: int) -> None:
    table, _ = world
    model = rc.fit_backoff(table, n_orders=2, seed=seed)
    own = record_risk(table, model, population=10 * table.n_records)
    found = matching_anything(own, model)
    assert (found.unique_probability <= own.unique_probability + 1e-9).all()
    assert (found.match_probability <= own.match_probability + 1e-9).all()
    assert (found.sample_count >= own.sample_count).all()


def test_without_missing_values_nothing_changes() -> None:
    table = rc.ContingencyTable.from_codes(
        np.array([[0, 1], [1, 1], [1, 1]], dtype=np.int32), with_missing([2, 2], [False, True])
    )
    model = rc.DecomposableModel(table, cliques=[("a", "b")])
    risk = record_risk(table, model, population=30)
    assert matching_anything(risk, model) is risk


def test_the_number_of_population_uniques_is_right_where_the_probabilities_are_known() -> None:
    """Expected and true numbers over many simulated populations agree within four standard errors."""
    keys = with_missing([6, 5, 4], [True, True, False])
    shape = tuple(c.n_levels for c in keys)
    expected, true = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        probability = rng.dirichlet(np.full(int(np.prod(shape)), 0.5)).reshape(shape)
        population = np.stack(np.unravel_index(rng.choice(probability.size, 300, p=probability.ravel()), shape), axis=1)
        table = rc.ContingencyTable.from_codes(population[:60].astype(np.int32), keys)
        model = KnownModel(table, probability)
        found = matching_anything(record_risk(table, model, population=300), model)
        everybody = rc.ContingencyTable.from_codes(population.astype(np.int32), keys)
        alone = table.cells[found.sample_count == 1]
        n_people = [
            sum(n for cell, n in zip(everybody.cells, everybody.counts, strict=True) if naive.are_compatible(table, one, cell))
            for one in alone
        ]
        expected.append((found.expected_population_uniques, found.expected_correct_matches))
        true.append((sum(n == 1 for n in n_people), sum(1 / n for n in n_people)))
    difference = np.array(expected) - np.array(true)
    assert (np.abs(difference.mean(axis=0)) < 4 * difference.std(axis=0) / np.sqrt(len(difference))).all()
    assert np.array(true)[:, 0].sum() > 20


def test_sums_that_stop_early_overstate_the_risk() -> None:
    rng = np.random.default_rng(3)
    keys = with_missing([9, 8, 3], [True, True, True])
    codes = np.stack([rng.integers(0, c.n_levels, 120) for c in keys], axis=1).astype(np.int32)
    table = rc.ContingencyTable.from_codes(codes, keys)
    model = rc.fit_backoff(table, n_orders=2)
    own = record_risk(table, model, population=2_000)
    whole = matching_anything(own, model).unique_probability
    for limits in (SumLimits(values=3), SumLimits(cells=50), SumLimits(cells=0)):
        assert (matching_anything(own, model, limits=limits).unique_probability >= whole - 1e-12).all()
    assert matching_anything(own, model, limits=SumLimits(at_once=7)).unique_probability == pytest.approx(whole)


def test_the_interval_is_that_of_the_compatible_cells() -> None:
    rng = np.random.default_rng(4)
    keys = with_missing([9, 8, 6], [True, True, False])
    codes = np.stack([rng.integers(0, c.n_levels, 150) for c in keys], axis=1).astype(np.int32)
    table = rc.ContingencyTable.from_codes(codes, keys)
    model = rc.fit_backoff(table, n_orders=2)
    found = matching_anything(record_risk(table, model, population=600), model)
    low, high = risk_interval(found, model).population_uniques
    assert low <= found.expected_population_uniques <= high
    assert high <= found.n_sample_uniques


def survey() -> pa.Table:
    """The census sample in which one in thirty did not tell the age, one in fifty the citizenship."""
    frame = datasets.census_sample()
    rng = np.random.default_rng(5)
    for name, share in (("age", 1 / 30), ("citizenship", 1 / 50)):
        values = frame[name].to_pylist()
        hidden = rng.random(len(values)) < share
        blanked = pa.array([None if gone else value for value, gone in zip(values, hidden, strict=True)])
        frame = frame.set_column(frame.column_names.index(name), name, blanked)
    return frame


def test_a_run_tells_both_numbers() -> None:
    keys = ["age", "sex", "marital", "citizenship"]
    found = {
        policy: rc.assess(survey(), keys=keys, population=277_677, missing=policy) for policy in ("level", "matches-anything")
    }
    told = found["level"].summary.missing
    assert told.own_level is not None
    assert told.matches_anything is not None
    assert told.own_level == found["matches-anything"].summary.missing.own_level
    assert told.matches_anything == found["matches-anything"].summary.missing.matches_anything
    assert told.matches_anything.expected_population_uniques < told.own_level.expected_population_uniques
    n_less = told.own_level.records_above_threshold - told.matches_anything.records_above_threshold
    assert 0 < told.risky_only_by_missing <= n_less
    assert f"{n_less:,} fewer" in told.sentence
    for policy, numbers in (("level", told.own_level), ("matches-anything", told.matches_anything)):
        risk = found[policy].summary.risk
        assert risk.expected_population_uniques == pytest.approx(numbers.expected_population_uniques)
        assert risk.expected_correct_matches == pytest.approx(numbers.expected_correct_matches)
        assert risk.records_above_threshold == numbers.records_above_threshold
        assert risk.sample_uniques == numbers.sample_uniques
    assert "every value" in found["matches-anything"].summary.notes[0]


def test_a_protection_is_judged_by_the_same_intruder() -> None:
    keys = ["age", "sex", "marital", "citizenship", "relationship"]
    done = rc.protect(survey(), keys=keys, population=277_677, missing="matches-anything", risk_above=0.2)
    swap = done.summary.swap
    assert swap is not None
    assert swap.risk_before.expected_correct_matches == pytest.approx(done.summary.risk.expected_correct_matches)
    assert swap.risk_after.expected_correct_matches < swap.risk_before.expected_correct_matches
    assert swap.margins_identical


def test_a_file_without_missing_values_tells_one_number() -> None:
    found = rc.assess(datasets.census_sample(), keys=["age", "sex"], population=277_677, missing="matches-anything")
    assert found.summary.missing.own_level is None
    assert found.summary.missing.matches_anything is None


@given(st.lists(st.integers(0, 100), min_size=1, max_size=6), st.integers(0, 2**6 - 1), st.integers(0, 70))
@settings(max_examples=80, deadline=None)
def test_unseen_patterns_are_the_likeliest_if_keys_are_missing_independently(percents: list[int], seed: int, most: int) -> None:
    """Against all subsets of the keys, sorted by their probability."""
    share = np.array(percents) / 100.0
    seen = np.random.default_rng(seed).random((3, len(share))) < share
    found = unseen_patterns(seen, share, most)
    every = np.array(list(product([False, True], repeat=len(share))))
    probability = np.where(every, share, 1.0 - share).prod(axis=1)
    known = {tuple(row) for row in seen}
    able = sorted((p for p, row in zip(probability, every, strict=True) if p > 0.0 and tuple(row) not in known), reverse=True)
    assert len({tuple(row) for row in found}) == len(found)
    assert not known & {tuple(row) for row in found}
    assert np.where(found, share, 1.0 - share).prod(axis=1) == pytest.approx(able[:most])


def test_compatible_people_are_expected_as_many_as_there_are() -> None:
    """A twentieth of every answer of Adult is blanked; the truth is counted pair by pair in the population, blanks included."""
    keys = ["age", "education", "occupation", "race", "sex", "hours_per_week"]
    people = adult_population().select(keys)
    rng = np.random.default_rng(0)
    values = [people[key].to_numpy(zero_copy_only=False).astype(str) for key in keys]
    codes = np.stack([np.unique(value, return_inverse=True)[1].ravel() for value in values], axis=1)
    codes[rng.random(codes.shape) < 0.05] = -1
    rows = np.sort(rng.choice(people.num_rows, 4_884, replace=False))
    sample = pa.table({key: pa.array(codes[rows, k], mask=codes[rows, k] < 0) for k, key in enumerate(keys)})
    table = rc.Microdata(sample, keys=keys).table()
    finer = table.with_coarsenings(rc.automatic_coarsenings(table))
    model = rc.fit_backoff(finer, seed=0)
    risk = matching_anything(record_risk(finer, model, population=people.num_rows), model)
    assert finer.record_cell is not None
    alone = np.flatnonzero(risk.sample_count[finer.record_cell] == 1)
    n_people = np.zeros(len(alone), dtype=np.int64)
    for place, row in enumerate(codes[rows[alone]]):
        known = np.flatnonzero(row >= 0)
        n_people[place] = ((codes[:, known] == row[known]) | (codes[:, known] < 0)).all(axis=1).sum()
    cells = finer.record_cell[alone]
    expected = np.exp(risk.log_cell_probability[cells]).sum() * (people.num_rows - table.n_records)
    assert expected == pytest.approx((n_people - 1).sum(), rel=0.15)
    assert risk.expected_population_uniques == pytest.approx((n_people == 1).sum(), rel=0.35)

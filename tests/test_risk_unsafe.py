"""Minimal unsafe combinations, SUDA, DIS, k-anonymity and the individual risk: by hand, by enumeration, by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell._kernels.unsafe import MOST_MARKED_KEYS, minimal_unsafe_sets
from rarecell.errors import BadInput, PopulationTooSmall, UnknownChoice
from rarecell.risk import unsafe
from tests.naive import risk as naive
from tests.strategies import categories, tables


def bits(mask: int, n_keys: int) -> tuple[int, ...]:
    return tuple(k for k in range(n_keys) if mask >> k & 1)


@pytest.fixture
def labour() -> rc.ContingencyTable:
    """Ten persons; residence, sex, education, work."""
    residence, sex, education, work = ("rural", "urban"), ("f", "m"), ("p", "pc", "ps", "sc", "si"), ("e", "n", "u")
    persons = (
        *("urban f si e", "urban f si e", "urban f p n", "urban m sc e", "rural f sc u"),
        *("urban m sc e", "urban f pc n", "urban m ps u", "urban f si n", "urban f sc n"),
    )
    rows = [person.split() for person in persons]
    levels = (residence, sex, education, work)
    codes = np.array([[level.index(value) for level, value in zip(levels, row, strict=True)] for row in rows], dtype=np.int32)
    names = ("residence", "sex", "education", "work")
    return rc.ContingencyTable.from_codes(codes, [rc.Categories(n, level) for n, level in zip(names, levels, strict=True)])


def test_combinations_and_scores_by_hand(labour: rc.ContingencyTable) -> None:
    found = unsafe.unsafe_combinations(labour)
    cell_of = labour.record_cell
    assert cell_of is not None
    # Person 4 alone is rural; she is also the only unemployed woman and the only unemployed with secondary education.
    assert found.of_cell(cell_of[4]) == (("residence",), ("sex", "work"), ("education", "work"))
    # Person 7 alone has post-secondary education; he is also the only unemployed man and the only unemployed in town.
    assert found.of_cell(cell_of[7]) == (("education",), ("residence", "work"), ("sex", "work"))
    assert found.of_cell(cell_of[8]) == (("education", "work"),)
    # Person 9: secondary complete and not in the labour force; in town a woman with secondary education complete.
    assert found.of_cell(cell_of[9]) == (("education", "work"), ("residence", "sex", "education"))
    assert found.of_cell(cell_of[0]) == ()
    # Four keys: a combination of 1, 2, 3 keys weighs 3·2·1, 2·1, 1.
    np.testing.assert_array_equal(found.size_weights, [0, 6, 2, 1, 1])
    np.testing.assert_array_equal(found.suda_score[cell_of], [0, 0, 6, 0, 10, 0, 6, 10, 2, 3])
    np.testing.assert_allclose(found.contributions[cell_of[4]], [0.6, 0.2, 0.2, 0.4])
    np.testing.assert_allclose(found.contributions[cell_of[0]], 0.0)
    total = 6 + 10 + 6 + 10 + 2 + 3
    assert found.key_contributions["residence"] == pytest.approx((6 + 2 + 1) / total)
    assert found.key_contributions["education"] == pytest.approx((6 + 2 + 6 + 6 + 2 + 3) / total)
    assert "6 records" in str(found)


def test_dis_suda_by_hand(labour: rc.ContingencyTable) -> None:
    found = unsafe.unsafe_combinations(labour)
    fraction = 0.1
    n1, n2 = 6, 2
    dis = fraction * n1 / (fraction * n1 + 2 * (1 - fraction) * n2)
    assert unsafe.data_intrusion_simulation(labour, sampling_fraction=fraction) == pytest.approx(dis)
    power = 1 + (8 - 4) / 20
    score = found.suda_score
    adjustment = sum(1 / value**power for value in score if value)
    expected = [1 / (1 + (n1 / dis - n1) / (value**power * adjustment)) if value else 0.0 for value in score]
    np.testing.assert_allclose(found.dis_suda_score(sampling_fraction=fraction), expected, rtol=1e-12)
    np.testing.assert_allclose(found.dis_suda_score(sampling_fraction=1.0)[score > 0], 1.0)


def test_dis_estimates_the_probability_of_a_correct_match() -> None:
    """DIS against its definition: a match of a sample unique with a random population unit of its cell is right."""
    rng = np.random.default_rng(5)
    probability = rng.dirichlet(np.full(600, 0.4))
    population, n_records = 5000, 500
    correct = matches = estimate = 0.0
    for _ in range(60):
        population_count, sample_count = naive.population_and_sample(probability, population, n_records, rng)
        unique = sample_count == 1
        correct += unique.sum()
        matches += population_count[unique].sum()
        cells = np.flatnonzero(sample_count)
        table = rc.ContingencyTable.from_counts(cells[:, None], sample_count[cells], [rc.Categories("a", tuple(range(600)))])
        estimate += unsafe.data_intrusion_simulation(table, sampling_fraction=n_records / population) or 0.0
    assert estimate / 60 == pytest.approx(correct / matches, rel=0.05)


@settings(max_examples=60, deadline=None)
@given(tables(min_keys=1, max_keys=5, max_records=50), st.integers(1, 5))
def test_kernel_equals_enumeration(table: rc.ContingencyTable, max_size: int) -> None:
    found = unsafe.unsafe_combinations(table, max_size=max_size)
    pairs = list(zip(found.cell.tolist(), found.mask.tolist(), strict=True))
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == naive.minimal_unsafe_sets(table.cells.T, table.counts, min(max_size, table.n_keys))


@pytest.mark.parametrize("n_keys", [MOST_MARKED_KEYS, MOST_MARKED_KEYS + 1])
def test_marks_and_lists_find_the_same(n_keys: int) -> None:
    rng = np.random.default_rng(n_keys)
    codes = rng.integers(0, 3, (n_keys, 30)).astype(np.uint8)
    counts = rng.integers(1, 3, 30)
    cells, masks = minimal_unsafe_sets(codes, counts, 3, 4)
    pairs = list(zip(cells.tolist(), masks.tolist(), strict=True))
    assert len(pairs) > 100
    assert len(set(pairs)) == len(pairs)
    assert set(pairs) == naive.minimal_unsafe_sets(codes, counts, 4)


def test_kernel_with_the_largest_number_of_keys() -> None:
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 2, (64, 40)).astype(np.int32)
    cells, masks = minimal_unsafe_sets(codes, np.ones(40, dtype=np.int64), 2, 2)
    assert set(zip(cells.tolist(), masks.tolist(), strict=True)) == naive.minimal_unsafe_sets(
        codes, np.ones(40, dtype=np.int64), 2
    )


@settings(max_examples=40, deadline=None)
@given(tables(min_keys=2, max_keys=4))
def test_scores_do_not_depend_on_the_order_of_keys(table: rc.ContingencyTable) -> None:
    backwards = table.project(table.keys[::-1])
    assert table.record_cell is not None
    assert backwards.record_cell is not None
    forwards_score = unsafe.unsafe_combinations(table).suda_score[table.record_cell]
    np.testing.assert_allclose(unsafe.unsafe_combinations(backwards).suda_score[backwards.record_cell], forwards_score)


@settings(max_examples=40, deadline=None)
@given(tables(min_keys=1, max_keys=4))
def test_every_unique_has_a_combination(table: rc.ContingencyTable) -> None:
    found = unsafe.unsafe_combinations(table)
    assert set(found.cell.tolist()) == set(table.unique_cells.tolist())
    assert (found.suda_score[table.unique_cells] >= 1).all()
    marginals = table.marginals
    for cell, mask in zip(found.cell.tolist(), found.mask.tolist(), strict=True):
        assert marginals.at_cells(mask)[cell] == 1
        for k in bits(mask, table.n_keys):
            assert (
                marginals.at_cells(mask & ~(1 << k))[cell] if mask & ~(1 << k) else table.n_records
            ) > 1 or table.n_records == 1


def test_the_default_cap_bounds_the_work() -> None:
    assert unsafe._default_max_size(8, 90_000) == 8
    assert unsafe._default_max_size(12, 90_000) == 12
    assert unsafe._default_max_size(13, 90_000) < 13
    assert unsafe._default_max_size(64, 90_000) == 2
    assert unsafe._default_max_size(10, 1_000_000) == 4
    assert unsafe._default_max_size(10, 100_000_000) == 2


def test_a_cap_leaves_records_without_a_score() -> None:
    # Every value of a key occurs twice, every pair once.
    codes = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]], dtype=np.int32)
    table = rc.ContingencyTable.from_codes(codes, categories([2, 2, 2]))
    np.testing.assert_array_equal(unsafe.unsafe_combinations(table, max_size=1).suda_score, 0.0)
    np.testing.assert_array_equal(unsafe.unsafe_combinations(table, max_size=1).dis_suda_score(sampling_fraction=0.5), 0.0)
    np.testing.assert_array_equal(unsafe.unsafe_combinations(table).suda_score, 3.0)
    with pytest.raises(BadInput, match="1 or more"):
        unsafe.unsafe_combinations(table, max_size=0)


def test_k_anonymity_counts_records(labour: rc.ContingencyTable) -> None:
    assert dict(unsafe.k_anonymity(labour)) == {2: 6, 3: 10, 5: 10}


def weighted(counts: list[int], weights: list[float] | None) -> rc.ContingencyTable:
    return rc.ContingencyTable.from_counts(
        [[k] for k in range(len(counts))], counts, [rc.Categories("a", tuple(range(len(counts))))], weights=weights
    )


def test_individual_risk_has_the_closed_forms_of_mu_argus() -> None:
    table = weighted([1, 2, 3, 5], [50.0, 80.0, 3.0, 600.0])
    p = np.array([1, 2, 3, 5]) / [50.0, 80.0, 3.0, 600.0]
    odds = p / (1 - np.where(p < 1, p, 0))
    exact = unsafe.individual_risk(table)
    assert exact[0] == pytest.approx(odds[0] * np.log(1 / p[0]))
    assert exact[1] == pytest.approx(odds[1] - odds[1] ** 2 * np.log(1 / p[1]))
    assert exact[2] == pytest.approx(1 / 3)
    approximate = unsafe.individual_risk(table, method="sdcmicro")
    np.testing.assert_allclose(approximate[:3], exact[:3])
    assert approximate[3] == pytest.approx(p[3] / (5 - (1 - p[3])))
    assert approximate[3] == pytest.approx(exact[3], rel=0.02)


def test_individual_risk_is_the_expected_reciprocal_of_a_negative_binomial() -> None:
    from scipy.stats import nbinom

    table = weighted([1, 2, 4], [10.0, 30.0, 90.0])
    for cell, (count, total) in enumerate(zip([1, 2, 4], [10.0, 30.0, 90.0], strict=True)):
        extra = np.arange(20_000)
        expected = float(np.sum(nbinom.pmf(extra, count, count / total) / (count + extra)))
        assert unsafe.individual_risk(table)[cell] == pytest.approx(expected, rel=1e-9)


def test_individual_risk_never_exceeds_one_over_the_count() -> None:
    # Weights below one and of zero would give a risk above one.
    np.testing.assert_allclose(unsafe.individual_risk(weighted([1, 2], [0.2, 0.0])), [1.0, 0.5])


def test_individual_risk_without_weights_needs_the_population() -> None:
    table = weighted([1, 3], None)
    with pytest.raises(BadInput, match="population size"):
        unsafe.individual_risk(table)
    with pytest.raises(PopulationTooSmall):
        unsafe.individual_risk(table, population=3)
    with pytest.raises(UnknownChoice):
        unsafe.individual_risk(table, population=40, method="guess")
    assert unsafe.individual_risk(table, population=40)[0] == pytest.approx(0.1 / 0.9 * np.log(10))
    np.testing.assert_allclose(unsafe.individual_risk(table, population=4), [1.0, 1 / 3])


def test_a_sampling_fraction_outside_its_range_is_refused(labour: rc.ContingencyTable) -> None:
    with pytest.raises(BadInput, match="above 0"):
        unsafe.data_intrusion_simulation(labour, sampling_fraction=1.5)

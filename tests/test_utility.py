"""What a swap costs: distances, propensities and associations against their definitions."""

from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell.datasets import CENSUS_POPULATION, census_sample
from rarecell.outcome.swap import MarginDistances, SwapSummary
from rarecell.release.utility import (
    BothFiles,
    _Dummies,
    _quantiles,
    association_changes,
    cramers_v,
    hellinger_distances,
    propensity,
    utility,
)
from rarecell.swap.plan import plan_swaps
from rarecell.swap.summary import first_found_distance, swap_summary
from rarecell.swap.target import frontier
from tests.naive import swap as naive
from tests.reference import census_table, cliques_by_number
from tests.strategies import categories
from tests.strategies_swap import decomposable_cases, swapped_table, vertex_rows


@settings(max_examples=40)
@given(decomposable_cases(max_records=40), st.integers(0, 2**32))
def test_hellinger_distances_follow_the_definition_and_vanish_inside_cliques(model: rc.DecomposableModel, seed: int) -> None:
    table = model.table
    rng = np.random.default_rng(seed)
    assert table.record_cell is not None
    plan = plan_swaps(table, model, records=np.flatnonzero(rng.random(len(table.record_cell)) < 0.3))
    after = swapped_table(plan)
    assert (plan.table_after.cells == after.cells).all()
    assert (plan.table_after.counts == after.counts).all()
    before_rows, after_rows = vertex_rows(table), vertex_rows(after)
    for order, distances in hellinger_distances(BothFiles.of(table, plan.table_after)).items():
        assert [d.variables for d in distances] == [
            tuple(table.keys[k] for k in keys) for keys in combinations(range(table.n_keys), order)
        ]
        for found in distances:
            columns = [[table.keys.index(name) for name in found.variables]]
            expected = naive.hellinger(naive.margins(before_rows, columns)[0], naive.margins(after_rows, columns)[0])
            assert found.hellinger == pytest.approx(expected)
            if any(set(found.variables) <= set(clique) for clique in model.cliques):
                assert found.hellinger == 0.0


def test_many_keys_are_sampled_evenly() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (50, 12)).astype(np.int32)
    table = rc.ContingencyTable.from_codes(codes, categories([2] * 12))
    found = hellinger_distances(BothFiles.of(table, table), most=30)
    assert {order: len(distances) for order, distances in found.items()} == {1: 12, 2: 30, 3: 30}
    assert found[3][0].variables == ("a", "b", "c")
    assert found[3][-1].variables == ("j", "k", "l")


def test_the_propensity_of_a_regression_agrees_with_statsmodels() -> None:
    import statsmodels.api as sm

    rng = np.random.default_rng(1)
    before = rng.integers(0, 3, (400, 3)).astype(np.int32)
    after = before.copy()
    after[:80, 0] = rng.permutation(after[:80, 0])
    after[:60, 1] = 2
    keys = categories([3, 3, 3])
    one, other = (rc.ContingencyTable.from_codes(codes, keys) for codes in (before, after))
    both = np.concatenate([before, after])
    is_after = np.repeat([0, 1], 400)
    for order in (1, 2):
        columns = [np.ones(800)]
        for size in range(1, order + 1):
            for chosen in combinations(range(3), size):
                for levels in np.ndindex(*[2] * size):
                    columns.append((both[:, chosen] == np.array(levels) + 1).all(axis=1).astype(float))
        fit = sm.Logit(is_after, np.stack(columns, axis=1)).fit(disp=0)
        expected = float(((fit.predict() - 0.5) ** 2).mean())
        found = propensity(BothFiles.of(one, other), order=order)
        assert found.pmse == pytest.approx(expected, rel=0.02)
        assert found.n_parameters == len(columns)
        assert found.expected == pytest.approx((len(columns) - 1) / (8 * 800))
    assert propensity(BothFiles.of(one, one)).pmse == 0.0
    full = propensity(BothFiles.of(one, other), order=None)
    cells = {tuple(row) for row in both.tolist()}
    share = {cell: (both[is_after == 1] == cell).all(axis=1).sum() / (both == cell).all(axis=1).sum() for cell in cells}
    assert full.pmse == pytest.approx(np.mean([(share[tuple(row)] - 0.5) ** 2 for row in both.tolist()]))


def test_main_effects_cannot_tell_a_swapped_file() -> None:
    table, model, risk = census()
    plan = plan_swaps(table, model, records=risk.riskiest(100), risk=risk)
    both = BothFiles.of(table, plan.table_after)
    assert propensity(both, order=1).pmse == 0.0
    assert 0.0 < propensity(both, order=2).ratio < 0.2


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=40))
def test_cramers_v_follows_the_definition(pairs: list[tuple[int, int]]) -> None:
    joint = np.zeros((4, 3), dtype=np.int64)
    np.add.at(joint, tuple(np.array(pairs).T), 1)
    assert cramers_v(joint) == pytest.approx(naive.cramers_v(pairs))


@given(st.lists(st.tuples(st.floats(-5, 5), st.integers(1, 6)), min_size=1, max_size=12, unique_by=lambda pair: pair[0]))
def test_quantiles_of_counted_values_are_those_of_the_records(pairs: list[tuple[float, int]]) -> None:
    values, counts = np.array([value for value, _ in pairs]), np.array([n for _, n in pairs])
    shares = np.arange(1, 10) / 10
    with_missing = np.append(values, np.nan), np.append(counts, 3)
    np.testing.assert_allclose(_quantiles(*with_missing, shares), np.quantile(np.repeat(values, counts), shares), atol=1e-12)


def census() -> tuple[rc.ContingencyTable, rc.DecomposableModel, object]:
    table = census_table()
    model = rc.DecomposableModel(table, cliques=cliques_by_number(table, "15 16 36 46 37 28 38"))
    return table, model, rc.record_risk(table, model, population=CENSUS_POPULATION)


def test_associations_with_other_columns_are_those_of_the_two_files() -> None:
    table, model, risk = census()
    sample = census_sample()
    plan = plan_swaps(table, model, records=risk.riskiest(200), risk=risk)
    income = np.random.default_rng(0).random(table.n_records)
    income[:5] = np.nan
    found = association_changes(plan.release, {"race": sample["race"].to_numpy(), "income": income})
    assert {a.key for a in found} == {key for key in table.keys if plan.moves(key).any()}
    assert abs(found[0].change) == max(abs(a.change) for a in found)
    race = np.unique(sample["race"].to_numpy(), return_inverse=True)[1]
    k = table.keys.index("age")
    of_age = next(a for a in found if (a.key, a.column) == ("age", "race"))
    before = table.cells[table.record_cell, k]
    after = before.copy()
    after[plan.rows] = plan.new_cells[:, k]
    assert of_age.before == pytest.approx(naive.cramers_v(list(zip(before.tolist(), race.tolist(), strict=True))))
    assert of_age.after == pytest.approx(naive.cramers_v(list(zip(after.tolist(), race.tolist(), strict=True))))
    assert of_age.before != of_age.after
    group = np.where(np.isnan(income), 10, np.searchsorted(np.nanquantile(income, np.arange(1, 10) / 10), income, side="right"))
    of_income = next(a for a in found if (a.key, a.column) == ("age", "income"))
    assert of_income.after == pytest.approx(naive.cramers_v(list(zip(after.tolist(), group.tolist(), strict=True))))


def test_the_summary_holds_what_a_reader_needs() -> None:
    table, model, risk = census()
    plan = plan_swaps(table, model, records=risk.riskiest(50), risk=risk)
    whole = swap_summary(
        plan,
        risk,
        columns={"education": census_sample()["education"].to_numpy()},
        frontier=frontier(risk, plan, plan.links(plan.task.register_of(risk)), n_points=5),
        first_found_distance=first_found_distance(plan),
    )
    assert isinstance(whole, SwapSummary)
    assert json.loads(json.dumps(whole.to_dict())) == whole.to_dict()
    assert whole.requested == whole.swapped == 50
    assert whole.values_changed == plan.n_values_changed
    assert whole.share_changed == pytest.approx(plan.n_values_changed / (9809 * 8))
    assert whole.risk_after.expected_correct_matches < whole.risk_before.expected_correct_matches
    assert whole.risk_before.highest == pytest.approx(float(risk.unique_probability.max()))
    assert whole.hellinger["1"] == MarginDistances(mean=0.0, max=0.0)
    assert whole.hellinger["2"].max > 0.0
    assert whole.mean_distance < whole.first_found_mean_distance
    assert len(whole.frontier) == 5
    assert whole.frontier[-1].expected_population_uniques == pytest.approx(whole.risk_after.expected_population_uniques)
    assert "Hellinger" in str(utility(plan.release))
    empty = swap_summary(plan_swaps(table, model, records=[]), risk)
    assert empty.values_changed == 0
    assert empty.pmse == 0.0


@given(st.integers(1, 60), st.integers(1, 5), st.integers(1, 9), st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_products_with_dummies_are_those_of_the_whole_matrix(n_rows: int, n_margins: int, n_columns: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns = rng.integers(0, n_columns, (n_rows, n_margins)).astype(np.int32)
    design = np.zeros((n_rows, n_columns))
    np.add.at(design, (np.arange(n_rows)[:, None], columns), 1.0)
    dummies = _Dummies(columns, n_columns)
    coefficients, values = rng.normal(size=n_columns), rng.normal(size=n_rows)
    np.testing.assert_allclose(dummies.of_rows(coefficients), design @ coefficients, atol=1e-12)
    np.testing.assert_allclose(dummies.of_columns(values), design.T @ values, atol=1e-12)


def test_one_step_of_the_regression_is_enough_where_files_differ_little() -> None:
    table = census_table()
    plan = plan_swaps(table, rc.select_model(table, seed=0).best, records=np.arange(0, 9000, 300), seed=0)
    both = BothFiles.of(table, plan.table_after)
    whole = propensity(both)
    quick = propensity(both, most_terms=1)
    assert quick.n_parameters == whole.n_parameters
    assert quick.pmse == pytest.approx(whole.pmse, rel=0.5)

"""What a formal release says, what it keeps, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell.outcome.formal import FormalStatement
from rarecell.swap.formal.mechanism import Calibration, RootedTree, TreeEdge, reference_file, rooted_tree
from tests.strategies import categories
from tests.strategies_swap import decomposable_cases

CLIQUES = [("a", "b"), ("b", "c"), ("c", "d")]


def path_model(n_records: int = 800, seed: int = 3) -> rc.DecomposableModel:
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, 6, n_records)]
    for _ in range(3):
        columns.append((columns[-1] + rng.integers(0, 4, n_records)) % 6)
    table = rc.ContingencyTable.from_codes(np.stack(columns, axis=1).astype(np.int32), categories([6] * 4))
    return rc.DecomposableModel(table, cliques=CLIQUES)


@pytest.fixture(scope="module")
def model() -> rc.DecomposableModel:
    return path_model()


def test_epsilon_is_divided_so_that_edges_change_alike(model: rc.DecomposableModel) -> None:
    release = rc.formal_swaps(model.table, model, epsilon=6, seed=1)
    assert release.statement.epsilon == pytest.approx(6)
    assert math.fsum(edge.epsilon for edge in release.statement.edges) == pytest.approx(6)
    one, other = release.n_changed
    assert one == pytest.approx(other, rel=0.25)


def test_a_rate_is_met_and_more_of_it_costs_less_epsilon(model: rc.DecomposableModel) -> None:
    spent = []
    for rate in (0.02, 0.1, 0.3):
        release = rc.formal_swaps(model.table, model, rate=rate, seed=2)
        assert release.statement.expected_records_changed == pytest.approx(rate, rel=0.15)
        assert len(release) / model.table.n_records == pytest.approx(rate, abs=4 * math.sqrt(rate / 800) + 0.02)
        spent.append(release.statement.epsilon)
    assert spent == sorted(spent, reverse=True)


def test_no_epsilon_is_a_plain_shuffle(model: rc.DecomposableModel) -> None:
    release = rc.formal_swaps(model.table, model, epsilon=0, seed=1)
    assert release.statement.epsilon == 0
    assert release.statement.expected_records_changed > 0.6


def test_at_the_largest_epsilon_nothing_changes(model: rc.DecomposableModel) -> None:
    assert len(rc.formal_swaps(model.table, model, epsilon=300, seed=1)) == 0


def test_the_root_is_the_one_that_changes_least_for_its_epsilon(model: rc.DecomposableModel) -> None:
    chosen = rc.formal_swaps(model.table, model, rate=0.05, seed=4).statement
    for clique in CLIQUES:
        named = rc.formal_swaps(model.table, model, rate=0.05, root=clique, seed=4).statement
        assert named.root == clique
        assert chosen.epsilon <= named.epsilon + 1e-9


def test_hanging_from_the_root_costs_less_than_hanging_in_a_row() -> None:
    """Three cliques that share one key can hang in a row or all from the root; the separators are the same."""
    rng = np.random.default_rng(12)
    codes = rng.integers(0, [3, 5, 5, 5], (600, 4)).astype(np.int32)
    table = rc.ContingencyTable.from_codes(codes, categories([3, 5, 5, 5]))
    model = rc.DecomposableModel(table, cliques=[("a", "b"), ("a", "c"), ("a", "d")])
    high = rooted_tree(model.graph, 0b0011)
    assert {edge.parent for edge in high.edges} == {0b0011}
    lower = TreeEdge(0b0101, 0b1001, 0b0001, 0b1000, ((0b1001, 0b0001),))
    upper = TreeEdge(0b0011, 0b0101, 0b0001, 0b1100, ((0b0101, 0b0001), (0b1001, 0b0001)))
    in_a_row = RootedTree(0b0011, (lower, upper))
    calibration = Calibration(table, model.graph, reference_file(table, codes, model.graph, rng))
    for rate in (0.02, 0.1, 0.4):
        assert calibration.at_rate(high, rate).epsilon < calibration.at_rate(in_a_row, rate).epsilon
    for epsilon in (2.0, 8.0):
        assert calibration.at_epsilon(high, epsilon).share < calibration.at_epsilon(in_a_row, epsilon).share


def test_root_and_theta_depend_on_invariants_alone(model: rc.DecomposableModel) -> None:
    """Another file with the same clique margins has the same law of ε, whatever else differs: here, exactly the same curves at leaves."""
    table = model.table
    codes = table.cells[table.record_cell]
    other = reference_file(table, codes, model.graph, np.random.default_rng(8))
    assert (other != codes).any()
    again = rc.DecomposableModel(rc.ContingencyTable.from_codes(other, table.categories), cliques=CLIQUES)
    tree = rooted_tree(model.graph, model.graph.clique_masks[0])
    for edge in tree.edges:
        assert edge.is_free(table) == edge.is_free(again.table)
    leaf = tree.edges[0]
    curves = [Calibration(m.table, m.graph, f).curve(leaf).log_share for m, f in ((model, codes), (again, other))]
    assert curves[0] == pytest.approx(curves[1])


def test_rare_values_of_the_parent_clique_are_changed_more_for_the_same_epsilon() -> None:
    model = path_model(300, seed=5)
    plain = rc.formal_swaps(model.table, model, epsilon=8, root=("a", "b"), seed=1).statement
    targeted = rc.formal_swaps(
        model.table, model, epsilon=[edge.epsilon for edge in plain.edges], root=("a", "b"), rare=8, seed=1
    ).statement
    assert targeted.epsilon == pytest.approx(plain.epsilon)
    assert targeted.expected_uniques_changed > 1.5 * plain.expected_uniques_changed


def test_an_edge_that_cannot_change_costs_nothing() -> None:
    rng = np.random.default_rng(0)
    area = rng.integers(0, 8, 200)
    codes = np.stack([area, area // 4, rng.integers(0, 3, 200)], axis=1).astype(np.int32)
    table = rc.ContingencyTable.from_codes(codes, categories([8, 2, 3]))
    model = rc.DecomposableModel(table, cliques=[("a", "b"), ("a", "c")])
    release = rc.formal_swaps(table, model, epsilon=2, root=("a", "c"), seed=0)
    assert [edge.is_free for edge in release.statement.edges] == [True]
    assert release.statement.epsilon == 0
    assert len(release) == 0


def test_a_saturated_model_leaves_nothing_to_change() -> None:
    table = path_model(50).table
    release = rc.formal_swaps(table, rc.DecomposableModel(table, cliques=[table.keys]), epsilon=1, seed=0)
    assert release.statement.edges == ()
    assert len(release.rows) == 0


def test_values_move_as_they_are_and_everything_else_stays() -> None:
    model = path_model(400, seed=6)
    codes = model.table.cells[model.table.record_cell]
    frame = pd.DataFrame(codes, columns=list("abcd")).assign(income=np.arange(400.0))
    data = rc.Microdata(frame, keys=list("abcd"))
    own = rc.DecomposableModel(data.table(), cliques=CLIQUES)
    release = rc.formal_swaps(own.table, own, rate=0.3, root=("a", "b"), seed=9)
    result = release.apply(data)
    assert result.margins_identical
    after = result.frame
    for same in (["income"], ["a", "b"]):
        pd.testing.assert_frame_equal(frame[same], after[same])
    for clique in CLIQUES:
        assert frame.value_counts(list(clique)).to_dict() == after.value_counts(list(clique)).to_dict()
    changed = np.flatnonzero((frame != after).any(axis=1))
    assert np.array_equal(changed, np.sort(release.rows))
    audit = result.audit
    assert set(audit["record"]) == set(changed.tolist())
    for record, partner, variables in audit.itertuples(index=False):
        for key in variables.split(","):
            assert after.loc[record, key] == frame.loc[partner, key] != frame.loc[record, key]


@settings(max_examples=30)
@given(decomposable_cases(coarsened=True, max_records=30), st.integers(0, 1000))
def test_new_values_come_from_other_changed_rows(model: rc.DecomposableModel, seed: int) -> None:
    table = model.table
    release = rc.formal_swaps(table, model, epsilon=1, seed=seed)
    old = table.cells[table.cell_of(release.rows)]
    for k, key in enumerate(table.keys):
        taken = release.release.taken_from(key)
        assert np.array_equal(np.sort(taken), np.arange(len(release)))
        assert np.array_equal(old[taken, k], release.new_cells[:, k])
    for clique in model.graph.clique_masks:
        assert np.array_equal(release.table_after.marginals.counts(clique), table.marginals.counts(clique))


def test_dropped_records_stay_as_they_are() -> None:
    model = path_model(100, seed=7)
    codes = model.table.cells[model.table.record_cell].astype(np.int32)
    codes[:10, 3] = -1
    table = rc.ContingencyTable.from_codes(codes, model.table.categories)
    release = rc.formal_swaps(table, rc.DecomposableModel(table, cliques=CLIQUES), epsilon=0.5, seed=1)
    assert release.rows.min() >= 10


def test_without_a_seed_two_releases_differ(model: rc.DecomposableModel) -> None:
    one, other = (rc.formal_swaps(model.table, model, epsilon=2) for _ in range(2))
    assert not np.array_equal(one.rows, other.rows)


def test_the_sentence_has_epsilon_and_invariants_together(model: rc.DecomposableModel) -> None:
    statement = rc.formal_swaps(model.table, model, epsilon=5, root=("b", "c"), seed=0).statement
    assert "ε = 5 " in statement.sentence
    assert "the tables of a, b; b, c; c, d" in statement.sentence
    assert "b and c of every record" in statement.sentence
    assert "chosen on these data" in statement.sentence
    named = rc.formal_swaps(model.table, model, epsilon=5, is_model_chosen=False, seed=0).statement
    assert "chosen" not in named.sentence
    assert FormalStatement.from_dict(statement.to_dict()) == statement
    assert len(statement.cautions) == 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "either epsilon or rate"),
        ({"epsilon": 1, "rate": 0.1}, "either epsilon or rate"),
        ({"epsilon": -1}, "from 0 to 300"),
        ({"epsilon": math.inf}, "from 0 to 300"),
        ({"epsilon": 301}, "from 0 to 300"),
        ({"rate": 1.0}, "above 0 and below 1"),
        ({"epsilon": [1, 2]}, "without a root"),
        ({"epsilon": [1], "root": ("a", "b")}, "each needs one"),
        ({"epsilon": 1, "root": ("a", "c")}, "not a clique of the model"),
        ({"epsilon": 1, "rare": -1}, "0 or more"),
    ],
)
def test_what_makes_no_sense_is_refused(model: rc.DecomposableModel, options: dict[str, object], message: str) -> None:
    with pytest.raises(rc.RarecellError, match=message):
        rc.formal_swaps(model.table, model, **options)  # type: ignore[arg-type]


def test_a_model_without_a_junction_tree_is_refused(model: rc.DecomposableModel) -> None:
    cycle = rc.HierarchicalModel(model.table, [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")])
    with pytest.raises(rc.RarecellError, match="decomposable"):
        rc.formal_swaps(model.table, cycle, epsilon=1)  # type: ignore[arg-type]


def test_a_banded_key_is_released_as_its_bands() -> None:
    """Exact values within a band are not looked at when bands move, so they must not be released."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(0, 40, 200), "sex": rng.integers(0, 2, 200), "job": rng.integers(0, 3, 200)})
    data = rc.Microdata(frame, keys=["age", "sex", "job"], coding={"age": {"width": 10}})
    table = data.table()
    model = rc.DecomposableModel(table, cliques=[("age", "sex"), ("sex", "job")])
    release = rc.formal_swaps(table, model, epsilon=1, root=("sex", "job"), seed=0)
    after = release.apply(data).frame
    assert len(release) > 0
    assert after["age"].nunique() == 4

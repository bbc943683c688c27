"""What select_model promises: certificates, the n best models, estimates, progress, errors."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell.errors import BadInput, Cancelled, TooLarge, UnknownChoice
from rarecell.graph.chordal import ChordalGraph
from rarecell.progress import Progress, SilentProgress, StageTree
from rarecell.search import estimate_exact, penalty_path, select_model
from rarecell.search.bounds import TooManySets, all_sets
from rarecell.search.exact import cost_of
from rarecell.search.n_best import best_graphs
from rarecell.search.result import SearchLimits
from rarecell.search.score import make_score
from tests.naive import search as naive
from tests.naive.search import graph_score
from tests.strategies import coarsened_tables, tables
from tests.test_search_local import lumpy_table


@settings(max_examples=15, deadline=None)
@given(tables(max_keys=4), st.sampled_from(["aic", "bayes", 0.4]), st.integers(1, 12))
def test_n_best_models_are_those_of_the_full_list(table, criterion, n_best) -> None:
    score = make_score(table, criterion)
    scores = sorted((graph_score(score, graph) for graph in naive.chordal_graphs(table.n_keys)), reverse=True)
    found = select_model(table, criterion, n_best=n_best)
    assert [o.score for o in found.optima] == pytest.approx(scores[:n_best])
    assert len({o.graph for o in found.optima}) == min(n_best, len(scores))
    assert [graph_score(score, o.graph) for o in found.optima] == pytest.approx(scores[:n_best])


@settings(max_examples=8, deadline=None)
@given(coarsened_tables(max_keys=3, max_records=40), st.integers(2, 6))
def test_n_best_models_with_coarsenings(table, n_best) -> None:
    """Those of the closed chordal graphs: others with the same cliques but for coarsenings are the same models."""
    if table.n_vertices > 5:
        table = table.with_coarsenings(table.coarsenings[: 5 - table.n_keys])
    score = make_score(table, "aic")
    closed = [
        graph
        for graph in naive.chordal_graphs(table.n_vertices)
        if all(table.close(clique) == clique for clique in graph.clique_masks)
        and all(graph.has_edge(u, v) for chain in table.chains for u, v in combinations(chain, 2))
    ]
    scores = sorted((graph_score(score, graph) for graph in closed), reverse=True)
    found = select_model(table, "aic", n_best=n_best)
    assert [o.score for o in found.optima] == pytest.approx(scores[:n_best])
    assert len({o.graph for o in found.optima}) == min(n_best, len(closed))


def test_bounds_do_not_change_the_n_best() -> None:
    table = lumpy_table(4)
    plain = select_model(table, n_best=6)
    for limits in (SearchLimits(few_sets=0), SearchLimits(few_counts=0)):
        bounded = select_model(table, n_best=6, limits=limits)
        assert bounded.certified_optimal
        assert bounded.n_sets < plain.n_sets
        assert [o.graph for o in bounded.optima] == [o.graph for o in plain.optima]
    scored = all_sets(make_score(table, "aic"))
    assert [graph for graph, _ in best_graphs(scored.family, scored.q, 6)] == [o.graph for o in plain.optima]


def test_few_sets_are_compared_however_little_time_there_is() -> None:
    limits = SearchLimits(few_counts=0, greedy_seconds=1e-3, patience=1e9)
    assert select_model(lumpy_table(4), limits=limits).certified_optimal


def test_result_of_an_exact_search_is_certified() -> None:
    table = lumpy_table(1)
    found = select_model(table)
    assert found.certified_optimal
    assert (found.method, found.criterion, found.starts, found.times_met) == ("exact", "aic", 1, 1)
    assert str(found).startswith("Certified: no decomposable model has a better aic score")
    assert "at most 2 keys" in str(select_model(table, max_clique=2))
    assert isinstance(found.best, rc.DecomposableModel)
    assert found.score == pytest.approx(found.best.log_likelihood_kernel - found.best.degrees_of_freedom)


@settings(max_examples=20, deadline=None)
@given(coarsened_tables(), st.sampled_from([None, 1, 2, 3]))
def test_estimate_counts_the_sets(table, max_clique) -> None:
    scored = all_sets(make_score(table, "aic"), max_clique=max_clique)
    exact = cost_of(scored.family)
    estimate = estimate_exact(table, max_clique)
    assert (estimate.n_bytes, estimate.n_sets) == (exact.n_bytes, exact.n_sets)
    assert estimate.seconds == pytest.approx(exact.seconds, rel=1e-3)


def test_penalty_path_gives_sparser_models_as_the_penalty_grows() -> None:
    table = lumpy_table(3)
    path = penalty_path(table, (2.0, 0.5, 1.0))
    assert [result.criterion for result in path] == ["penalty 2", "penalty 0.5", "penalty 1"]
    freedom = [result.best.degrees_of_freedom for result in path]
    assert freedom[1] >= freedom[2] >= freedom[0]
    assert path[2].best.graph == select_model(table, "aic").best.graph


def test_auto_turns_to_greedy_search_when_exact_would_take_too_long() -> None:
    found = select_model(lumpy_table(0), restarts=2, limits=SearchLimits(auto_seconds=0.0))
    assert found.method == "greedy"
    assert not found.certified_optimal


def test_exact_search_out_of_reach_says_so() -> None:
    table = rc.ContingencyTable.from_counts(
        np.eye(26, dtype=np.int32), np.ones(26), [rc.Categories(f"k{k}", (0, 1)) for k in range(26)]
    )
    with pytest.raises(TooLarge, match="max_clique"):
        select_model(table, "bayes", "exact")


class StopsSoon:
    """Cancels after a few questions, and counts what it is told."""

    def __init__(self) -> None:
        self.n_asked = 0
        self.stages: list[str] = []

    def start(self, stage: str, total: float | None = None) -> None:
        self.stages.append(stage)

    def advance(self, amount: float = 1.0) -> None:
        pass

    def done(self) -> None:
        pass

    def cancelled(self) -> bool:
        self.n_asked += 1
        return self.n_asked > 3


@pytest.mark.parametrize("search", ["exact", "local", "greedy"])
def test_search_can_be_cancelled(search: str) -> None:
    progress = StopsSoon()
    with pytest.raises(Cancelled):
        select_model(lumpy_table(1, n_keys=11), search=search, restarts=200, progress=progress)
    assert progress.stages


def test_a_search_that_is_given_up_leaves_no_stage_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that comes later would count as a part of it."""

    def given_up(*_: object, progress: Progress, **__: object) -> None:
        progress.start("comparing sets")
        raise TooManySets("it takes too long")

    monkeypatch.setattr("rarecell.search.select.best_cliques", given_up)
    tree = StageTree()

    class Watched(SilentProgress):
        start, advance, done = tree.start, tree.advance, tree.done

    assert select_model(lumpy_table(1), restarts=2, progress=Watched()).method == "greedy"
    assert tree.open == []


def test_bad_options_are_refused() -> None:
    table = lumpy_table(0)
    with pytest.raises(UnknownChoice, match="thorough"):
        select_model(table, search="thorough")
    for options in ({"restarts": 0}, {"max_clique": 0}, {"n_best": 0}):
        with pytest.raises(BadInput, match=next(iter(options))):
            select_model(table, **options)


@pytest.mark.parametrize("penalty", [-1, -0.5, "-1", "nan", float("inf")])
def test_a_penalty_that_is_none_is_refused(penalty: float | str) -> None:
    """With a reward for each degree of freedom every search ends at the saturated model."""
    with pytest.raises(UnknownChoice):
        make_score(lumpy_table(0), penalty)


def test_one_key_and_one_record_are_models_too() -> None:
    table = rc.ContingencyTable.from_counts([[0]], [1], [rc.Categories("a", (0, 1))])
    for search in ("exact", "local", "greedy"):
        assert select_model(table, search=search, restarts=2).best.graph == ChordalGraph(1, (0,))

"""Keys with many levels: no step grows faster than n log n, searches keep to their time, and identifiers get advice."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell._kernels.agglomeration import merge_neighbours
from rarecell.data.recoding_text import boundaries, words_for
from rarecell.intruder.register import Persons
from rarecell.search import select_model
from rarecell.table.categories import Categories
from rarecell.table.coarsening import groups_after, key_coarsenings
from rarecell.table.distance import by_rank
from rarecell.table.uniqueness import IdentifyingKey


def slow_merges(joint: np.ndarray, totals: np.ndarray, n_others: float) -> list[tuple[int, int]]:
    """The neighbours whose merger loses least, again and again, from the formula."""

    def n_log_n(n: np.ndarray) -> np.ndarray:
        return np.where(n > 0, n * np.log(np.where(n > 0, n, 1)), 0.0)

    def loss(a: int, b: int) -> float:
        of_pair = (n_log_n(joint[a]) + n_log_n(joint[b]) - n_log_n(joint[a] + joint[b])).sum()
        return float(of_pair - n_others * (n_log_n(totals[a]) + n_log_n(totals[b]) - n_log_n(totals[a] + totals[b])))

    joint, totals = joint.copy(), totals.copy()
    alive = list(range(len(totals)))
    found = []
    while len(alive) > 1:
        losses = [loss(a, b) for a, b in itertools.pairwise(alive)]
        place = int(np.argmin(losses))
        a, b = alive[place], alive[place + 1]
        found.append((a, b))
        joint[a] += joint[b]
        totals[a] += totals[b]
        alive.remove(b)
    return found


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 24), st.integers(1, 5), st.integers(0, 10**6))
def test_merges_by_a_tree_are_those_of_the_slow_twin(n_levels: int, n_columns: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    joint = rng.integers(0, 30, (n_levels, n_columns)).astype(float) + rng.random((n_levels, n_columns))
    totals = joint.sum(axis=1)
    expected = slow_merges(joint, totals, 1.0)
    assert [tuple(row) for row in merge_neighbours(joint.copy(), totals.copy(), 1.0).tolist()] == expected
    for n_groups in range(1, n_levels + 1):
        group = np.arange(n_levels)
        for kept, gone in expected[: n_levels - n_groups]:
            group[group == gone] = kept
        assert np.array_equal(
            groups_after(np.array(expected, dtype=np.int64).reshape(-1, 2), n_groups), np.unique(group, return_inverse=True)[1]
        )


def table_of(n_records: int, n_levels: int, seed: int = 0) -> rc.ContingencyTable:
    rng = np.random.default_rng(seed)
    columns = {"place": rng.integers(0, n_levels, n_records), "sex": rng.integers(0, 2, n_records)}
    return rc.Microdata(pa.table(columns), keys=["place", "sex"], coding={"place": {"ordered": True}}).table()


def test_many_levels_are_named_like_few() -> None:
    """Tens of thousands of them: each step that looked at all levels for each group would take minutes here."""
    table = table_of(80_000, 20_000)
    coarsening = key_coarsenings(table, 0)[0]
    assert len(boundaries(table.categories[0], coarsening)) == coarsening.n_levels > 6000
    assert words_for(table.categories[0], coarsening) == f"{coarsening.n_levels} groups"


def test_the_cost_of_levels_grows_no_faster_than_n_log_n() -> None:
    """Processor time of all that is done for each key, at 15,000 and 60,000 levels; four times as many, squared, is sixteen."""

    def seconds(n_levels: int) -> float:
        table = table_of(4 * n_levels, n_levels)
        spent = []
        for _ in range(1 if n_levels > 20_000 else 2):
            started = time.process_time()
            for coarsening in key_coarsenings(table, 0):
                boundaries(table.categories[0], coarsening)
                words_for(table.categories[0], coarsening)
                assert len(coarsening.labels) == coarsening.n_levels
            spent.append(time.process_time() - started)
        return min(spent)

    seconds(1000)
    assert seconds(60_000) < 10 * seconds(15_000)


def test_cells_near_a_point_do_not_cost_a_look_at_every_level() -> None:
    """Within a distance smaller than that of two names there is one cell, found as quickly among 60,000 names as among 600."""
    n_points = 20_000

    def seconds(n_levels: int) -> float:
        rng = np.random.default_rng(3)
        columns = {"place": [f"p{i}" for i in rng.integers(0, n_levels, 60_000)], "sex": rng.integers(0, 2, 60_000)}
        table = rc.Microdata(pa.table(columns), keys=["place", "sex"]).table()
        points = table.cells[rng.integers(0, table.n_cells, n_points)]
        persons, near = Persons(table), by_rank(table, 1.0).near
        persons.ball(points[:1], np.array([0.5]), near)
        started = time.process_time()
        found, _ = persons.ball(points, np.full(n_points, 0.5), near)
        assert np.array_equal(found.cells, points)
        return time.process_time() - started

    assert seconds(60_000) < 8 * seconds(600)


def test_the_names_of_groups_are_those_of_their_members() -> None:
    table = table_of(400, 30)
    categories = table.categories[0]
    for coarsening in key_coarsenings(table, 0):
        for group, members in enumerate(coarsening.members()):
            assert np.array_equal(members, np.flatnonzero(coarsening.group_of_level == group))
            first, last = categories.labels[members[0]], categories.labels[members[-1]]
            assert coarsening.labels[group] == (first if len(members) == 1 else f"{first}–{last}")


def test_labels_are_made_once() -> None:
    categories = Categories("age", tuple(range(50)))
    assert categories.labels is categories.labels


@pytest.mark.parametrize("n_levels", [501, 900])
def test_a_key_that_identifies_by_itself_gets_advice(n_levels: int) -> None:
    frame = pa.table({"serial": [i % n_levels for i in range(1000)], "sex": [i % 2 for i in range(1000)]})
    with pytest.raises(IdentifyingKey, match=f"'serial' has {n_levels} different values among 1,000 records"):
        rc.assess(frame, keys=["serial", "sex"], population=100_000)


def test_the_advice_can_be_followed() -> None:
    frame = pa.table({"income": [i % 900 for i in range(1000)], "sex": [i % 2 for i in range(1000)]})
    with pytest.raises(IdentifyingKey) as told:
        rc.assess(frame, keys=["income", "sex"], population=100_000)
    assert "recode={'income': '20 groups'}" in str(told.value)
    found = rc.assess(frame, keys=["income", "sex"], population=100_000, recode={"income": "20 groups"}, model="single")
    assert {key.name: key.levels for key in found.summary.keys}["income"] == 20


def test_a_local_search_with_endless_restarts_keeps_to_its_time() -> None:
    rng = np.random.default_rng(1)
    frame = pa.table({name: rng.integers(0, 3, 500) for name in "abcdef"})
    table = rc.Microdata(frame, keys=list("abcdef")).table()
    select_model(table, search="local", restarts=2)
    found = select_model(table, search="local", restarts=1_000_000, max_seconds=0.5)
    assert 1 <= found.starts < 1_000_000
    assert found.time_limit == 0.5
    assert "time limit of 0.5 s" in found.proof
    # What the time allowed is what the same seed gives without a limit.
    again = select_model(table, search="local", restarts=found.starts)
    assert (again.score, again.starts, again.time_limit) == (found.score, found.starts, None)

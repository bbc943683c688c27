"""Weighted tables and shares of swapped records, against counting by hand."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell.errors import BadInput
from rarecell.release.utility import affected_groups, swapped_by_group, weight_classes, weighted_changes
from rarecell.swap.rules import SwapConstraints


def _planned(seed: int, n_records: int = 150, *, equal_weights: bool = False) -> tuple[pa.Table, Any, np.ndarray]:
    rng = np.random.default_rng(seed)
    weight = np.round(np.full(n_records, 12.5) if equal_weights else rng.uniform(1, 90, n_records), 2)
    people = pa.table({"age": rng.integers(0, 6, n_records), "town": rng.integers(0, 5, n_records),
                       "sex": rng.integers(0, 2, n_records), "weight": weight})  # fmt: skip
    data = rc.Microdata(people, keys=["age", "town", "sex"], weight="weight")
    table = data.table()
    model = rc.DecomposableModel(table, cliques=[("age", "sex"), ("town",)])
    plan = rc.plan_swaps(table, model, records=rng.permutation(n_records)[:20], seed=seed)
    assert len(plan)
    return people, plan, data.record_weights()


def _totals(people: dict[str, list[Any]], names: tuple[str, ...], weights: list[float]) -> dict[tuple[Any, ...], float]:
    found: dict[tuple[Any, ...], float] = defaultdict(float)
    for cell, weight in zip(zip(*(people[name] for name in names), strict=True), weights, strict=True):
        found[cell] += weight
    return found


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.booleans())
def test_weighted_totals_as_counted_in_both_files(seed: int, equal_weights: bool) -> None:
    people, plan, weights = _planned(seed, equal_weights=equal_weights)
    after = plan.apply(rc.Microdata(people, keys=["age", "town", "sex"])).frame.to_pydict()
    before = people.to_pydict()
    margins = [("town",), ("age", "sex"), ("town", "age"), ("town", "age", "sex")]
    for told, names in zip(weighted_changes(plan.release, weights[plan.rows], margins), margins, strict=True):
        one, other = (_totals(file, names, weights.tolist()) for file in (before, after))
        changes = {cell: other.get(cell, 0.0) - one.get(cell, 0.0) for cell in {*one, *other}}
        is_changed = {cell: change for cell, change in changes.items() if abs(change) > 1e-6}
        assert told.changed == len(is_changed)
        assert told.moved == pytest.approx(sum(map(abs, is_changed.values())) / 2 / weights.sum(), abs=1e-9)
        worst = max((abs(c) / one[cell] if one.get(cell) else np.inf for cell, c in is_changed.items()), default=0.0)
        assert (np.inf if told.largest is None else told.largest) == pytest.approx(worst)
        counts = [_totals(file, names, [1.0] * len(weights)) for file in (before, after)]
        assert told.counts_identical == (counts[0] == counts[1])
        assert ("counts of records are exactly as they were" in told.sentence) == told.counts_identical
        if equal_weights and told.counts_identical:
            assert told.changed == 0


def test_like_weights_move_less() -> None:
    people, _, weights = _planned(3, 400)
    data = rc.Microdata(people, keys=["age", "town", "sex"], weight="weight")
    table = data.table()
    model = rc.DecomposableModel(table, cliques=[("age", "sex"), ("town",)])
    records = np.arange(60)
    moved = []
    for constraints in (None, SwapConstraints(within=("class",))):
        plan = rc.plan_swaps(
            table, model, records=records, constraints=constraints, columns={"class": weight_classes(weights, 10)}
        )
        moved.append(weighted_changes(plan.release, weights[plan.rows], [("town",)])[0].moved / len(plan))
    assert moved[1] < 0.5 * moved[0]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=80), st.integers(1, 12))
def test_classes_of_weights(weights: list[int], n_classes: int) -> None:
    found = weight_classes(weights, n_classes)
    assert found.max() < n_classes
    for (a, one), (b, other) in zip(enumerate(weights), enumerate(weights[::-1]), strict=True):
        b = len(weights) - 1 - b
        assert one != other or found[a] == found[b]
        assert one >= other or found[a] <= found[b]


def test_shares_of_swapped_records() -> None:
    # 2 of 3 in town a and none of 9 in town b.
    told = swapped_by_group("town", ["a", "b"], np.array([0, 1]), [3, 9], np.array([0, 0]))
    assert [(one.level, one.records, one.swapped, one.ratio) for one in told] == [("a", 3, 2, 4.0), ("b", 9, 0, 0.0)]
    assert told[0].share == pytest.approx(2 / 3)


def test_groups_of_every_key() -> None:
    people, plan, _ = _planned(5)
    told = {(one.column, one.level): one for one in affected_groups(plan.release)}
    for key in ("age", "town", "sex"):
        values = np.array(people.column(key).to_pylist())
        for level in np.unique(values).tolist():
            one = told[key, str(level)]
            assert one.records == int((values == level).sum())
            assert one.swapped == int((values[plan.rows] == level).sum())


def test_weights_are_needed() -> None:
    people, plan, _ = _planned(1)
    with pytest.raises(BadInput, match="weights were given"):
        weighted_changes(plan.release, [1.0], [("town",)])
    table = rc.Microdata(people, keys=["age", "town", "sex"]).table()
    without = replace(plan.release, before=table)
    with pytest.raises(BadInput, match="no survey weights"):
        weighted_changes(without, np.ones(len(plan.rows)), [("town",)])

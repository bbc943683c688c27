"""Recodings and swaps together: ladders, costs, the frontier against all combinations, suppression."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell.data.likeness import Likeness
from rarecell.data.recoding_text import parse_recoding
from rarecell.errors import BadInput, Cancelled
from rarecell.planning import ReleaseTarget, plan_release
from rarecell.planning.planner import Fitted
from rarecell.planning.recodings import (
    OtherColumn,
    association_kept,
    entropy,
    ladder,
    ladders,
    mutual_information,
    recoded,
)
from rarecell.progress import SilentProgress
from rarecell.release.blanks import CellRisk, joined, suppress_rest
from tests.naive import release as naive

POPULATION = 3_000


def people(seed: int = 0, n: int = 160) -> pa.Table:
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 70, n)
    job = np.minimum(rng.geometric(0.12, n), 23) + (age > 45)
    return pa.table(
        {"age": age, "job": [f"j{number:02d}" for number in job], "sex": rng.choice(["f", "m"], n), "income": age // 3}
    )


def fit(table: rc.ContingencyTable) -> Fitted:
    """Independence: quick, and enough for a test."""
    model = rc.DecomposableModel(table, cliques=[(key,) for key in table.keys])
    return Fitted(table, model, model, rc.record_risk(table, model, population=POPULATION))


def table_of(frame: pa.Table, **options: object) -> rc.ContingencyTable:
    return rc.Microdata(frame, ["age", "job", "sex"], **options).table()


# ---------------------------------------------------------------------- ladders


def test_steps_get_coarser_and_say_how() -> None:
    frame = people()
    data = rc.Microdata(frame, ["age", "job", "sex"])
    table = data.table()
    likeness = data.likeness(table)
    for key in table.keys:
        steps = ladder(table, key, likeness[key])
        assert [step.n_levels for step in steps] == sorted({step.n_levels for step in steps}, reverse=True)
        assert steps[0].coarsening is None
        for step in steps[1:]:
            assert len(step.groups) == step.n_levels
            released = table_of(frame, coding={key: parse_recoding(step.words, key=key)})
            expected = recoded(table, [step])
            assert np.array_equal(released.cells, expected.cells)
            assert np.array_equal(released.counts, expected.counts)
            assert [c.labels for c in released.categories] == [c.labels for c in expected.categories] or "edges" in step.words
    assert [step.words for step in ladder(table, "age", Likeness.of_table(table)["age"])][:3] == [
        "as it is",
        "bands of 5",
        "bands of 10",
    ]
    assert len(ladder(table, "sex", Likeness.of_table(table)["sex"])) == 1


def test_a_hierarchy_is_the_ladder_of_its_key(tmp_path) -> None:  # type: ignore[no-untyped-def]
    lines = [f"j{n:02d};{'low' if n < 4 else 'middle' if n < 7 else 'high'};{'low' if n < 4 else 'other'}" for n in range(1, 25)]
    (tmp_path / "h.csv").write_text("\n".join(lines))
    table = table_of(people(), hierarchies={"job": tmp_path / "h.csv"})
    assert [step.words for step in ladder(table, "job", Likeness.of_table(table)["job"])] == ["as it is", "level 1", "level 2"]
    assert [len(steps) for steps in ladders(table, ["age"])][1:] == [1, 1]


# ---------------------------------------------------------------------- costs


def test_entropy_and_mutual_information_by_hand() -> None:
    assert entropy(np.array([4, 4])) == 1.0
    assert entropy(np.array([5, 0])) == 0.0
    assert mutual_information(np.array([[3, 0], [0, 3]])) == pytest.approx(1.0)
    assert mutual_information(np.array([[2, 2], [1, 1]])) == pytest.approx(0.0)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 1000))
def test_merging_levels_never_adds_information(seed: int) -> None:
    frame = people(seed)
    table = table_of(frame)
    column = OtherColumn.of_records(table, "income", np.array(frame["income"].to_pylist(), dtype=np.int32))
    before = association_kept([column], [ladder(table, key, Likeness.of_table(table)[key])[0] for key in table.keys], None)
    assert before == pytest.approx(1.0)
    kept = 1.0
    for step in ladder(table, "age", Likeness.of_table(table)["age"]):
        now = association_kept([column], [step], None)
        assert now is not None
        assert now <= 1.0 + 1e-12
        kept = min(kept, now)
    assert kept < 1.0


# ---------------------------------------------------------------------- the frontier


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 1000), links=st.sampled_from([0.5, 3.0, 20.0]))
def test_the_frontier_is_what_no_combination_beats(seed: int, links: float) -> None:
    table = table_of(people(seed))
    target = ReleaseTarget(max_correct_links=links)
    found = plan_release(table, fit, target=target, most=1_000)
    every = naive.all_combinations(ladders(table))
    assert found.n_candidates == len(found.looked_at) == len(every)

    by_name = {tuple(sorted(point.recoding.items())): point for point in found.looked_at}
    before = naive.information(naive.recoded_counts(table, tuple(steps[0] for steps in ladders(table))), table.n_keys)
    costs = {}
    for steps in every:
        point = by_name[tuple(sorted((s.key, s.words) for s in steps if s.coarsening is not None))]
        cells = naive.recoded_counts(table, tuple(steps))
        assert point.sample_uniques == sum(count == 1 for count in cells.values())
        assert point.information_lost == pytest.approx(1 - naive.information(cells, table.n_keys) / before, abs=1e-9)
        assert point.is_met == (point.correct_links <= links)
        if point.is_met:
            costs[point.options] = (round(point.information_lost, 12), float(point.records_changed))
    expected = {cost for cost in costs.values() if not any(naive.beaten(cost, other) for other in costs.values())}
    if costs:
        assert {(round(p.information_lost, 12), float(p.records_changed)) for p in found.points} == expected
        assert all(point.is_met for point in found.points)
        assert found.cheapest
    else:
        assert not found.cheapest
        assert "None of" in str(found)


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_a_point_counts_the_file_that_its_recoding_gives(seed: int) -> None:
    """A plan must judge the groups that a release will have, whatever other keys are put into bands."""
    frame = people(seed)
    data = rc.Microdata(frame, ["age", "job", "sex"])
    table, target = data.table(), ReleaseTarget(max_correct_links=3.0)
    found = plan_release(table, fit, target=target, likeness=data.likeness(table), most=1_000)
    both = [point for point in found.looked_at if {"age", "job"} <= set(point.recoding)]
    assert both
    for point in [*both, *found.points]:
        codings = {key: parse_recoding(words, key=key) for key, words in point.recoding.items()}
        released = table_of(frame, coding=codings)
        assert released.size_indices.get(1, 0) == point.sample_uniques
        assert {c.key: c.n_levels for c in released.categories} == {key: after for key, (_, after) in point.levels.items()}
        alone = {
            label
            for c in released.categories
            if c.key == "job"
            for label in c.labels
            if "other" not in label and "+" not in label
        }
        if "first" in point.recoding.get("job", ""):
            assert alone == {group[:2] for group in point.groups["job"]}
        elif "job" in point.recoding:
            assert alone == {group for group in point.groups["job"] if "+" not in group}


def test_of_many_candidates_the_promising_are_looked_at() -> None:
    table = table_of(people(3, n=400))
    target = ReleaseTarget(max_correct_links=10.0)
    whole, part = (plan_release(table, fit, target=target, most=most) for most in (1_000, 6))
    assert len(part.looked_at) == 6 < len(whole.looked_at)
    assert any(not point.recoding for point in part.looked_at)
    # What is found is among what there is, and the best of it is not far off.
    assert {p.options for p in part.looked_at} <= {p.options for p in whole.looked_at}
    assert part.cheapest["fewest swaps"].records_changed <= 2 * whole.cheapest["fewest swaps"].records_changed + 20


def test_numbers_of_a_confirmed_frontier_come_from_the_careful_fit() -> None:
    table = table_of(people())
    calls: list[int] = []

    def careful(changed: rc.ContingencyTable) -> Fitted:
        calls.append(changed.n_cells)
        fitted = fit(changed)
        risk = rc.record_risk(changed, fitted.model, population=POPULATION // 2)  # type: ignore[arg-type]
        return Fitted(changed, fitted.model, fitted.model, risk)

    target = ReleaseTarget(max_record_risk=0.5)
    quick = plan_release(table, fit, target=target)
    found = plan_release(table, fit, target=target, confirm=careful)
    assert len(calls) == len(quick.points)
    assert found.points[0].correct_links_recoded > quick.points[0].correct_links_recoded


def test_planning_tells_how_far_it_is_and_can_be_stopped() -> None:
    class Impatient(SilentProgress):
        done_so_far = 0.0

        def advance(self, amount: float = 1.0) -> None:
            self.done_so_far += amount

        def cancelled(self) -> bool:
            return self.done_so_far >= 3

    progress = Impatient()
    with pytest.raises(Cancelled):
        plan_release(table_of(people()), fit, target=ReleaseTarget(max_record_risk=0.1), progress=progress)
    assert progress.done_so_far == 3


def test_targets_are_checked() -> None:
    for wrong in ({}, {"max_correct_links": -1.0}, {"max_record_risk": 1.5}):
        with pytest.raises(BadInput):
            ReleaseTarget(**wrong)
    with pytest.raises(BadInput, match="at least 1"):
        plan_release(table_of(people()), fit, target=ReleaseTarget(1.0), most=0)


# ---------------------------------------------------------------------- suppression


def _cell_risk(table: rc.ContingencyTable) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    risk = fit(table).risk
    return risk.unique_probability, risk.match_probability


def _by_remaining_keys(risk: Mapping[tuple[str, ...], float]) -> CellRisk:
    """A risk that depends on the keys of the table alone; half of it is the probability of a link."""

    def of_cells(table: rc.ContingencyTable) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
        everywhere = np.full(table.n_cells, risk[tuple(table.keys)])
        return everywhere, everywhere / 2.0

    return of_cells


def _two_keys() -> rc.ContingencyTable:
    keys = [rc.Categories("a", (1, 2)), rc.Categories("b", (1, 2))]
    return rc.ContingencyTable.from_counts([[0, 0], [1, 1]], [1, 1], keys)


def test_a_risk_at_the_threshold_is_low_enough_and_one_above_it_is_not() -> None:
    table = _two_keys()
    rows, cells, before = np.array([0]), table.cells[:1], np.array([0.9])
    cell_risk = _by_remaining_keys({("a",): 0.3, ("b",): 0.2})
    at = suppress_rest(table, rows, cells, before, cell_risk, threshold=0.2)
    assert (list(at.blanked), at.risk_after.tolist(), at.links_after.tolist()) == (["a"], [0.2], [0.1])
    below = suppress_rest(table, rows, cells, before, cell_risk, threshold=0.19)
    assert (sorted(below.blanked), below.risk_after.tolist()) == (["a", "b"], [0.0])
    fixed = suppress_rest(table, rows, cells, before, cell_risk, threshold=0.19, may_blank={"a"})
    assert (fixed.unreached.tolist(), fixed.n_values, fixed.has_fixed_keys) == ([0], 0, True)


def test_blanks_for_several_intruders_are_those_of_each_and_nobody_left_is_forgotten() -> None:
    table = _two_keys()
    cell_risk = _by_remaining_keys({("a",): 0.1, ("b",): 0.1, ("a", "b"): 0.9})
    first = suppress_rest(table, np.array([0]), table.cells[:1], np.array([0.9]), cell_risk, threshold=0.1, may_blank={"a"})
    second = suppress_rest(table, np.array([0, 1]), table.cells, np.full(2, 0.9), cell_risk, threshold=0.1, may_blank=set())
    third = suppress_rest(table, np.array([1]), table.cells[1:], np.array([0.9]), cell_risk, threshold=0.1, may_blank={"b"})
    both = joined([first, second, third], table, lambda rows: table.cells[rows], lambda rows: np.full(len(rows), 0.9), cell_risk)
    assert both.rows.tolist() == [0, 1]
    assert {key: of_key.tolist() for key, of_key in both.blanked.items()} == {"a": [True, False], "b": [False, True]}
    assert both.unreached.tolist() == [0, 1]
    assert both.risk_after.tolist() == [0.1, 0.1]


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 1000), threshold=st.sampled_from([0.0, 0.05, 0.3]))
def test_the_fewest_values_are_blanked(seed: int, threshold: float) -> None:
    table = table_of(people(seed, n=60))
    risk = _cell_risk(table)[0]
    assert table.record_cell is not None
    rows = np.flatnonzero(risk[table.record_cell] > threshold)[:12]
    cells = table.cells[table.record_cell[rows]]
    found = suppress_rest(table, rows, cells, risk[table.record_cell[rows]], _cell_risk, threshold=threshold)
    assert len(found.unreached) == 0
    assert (found.risk_after <= threshold).all()
    for position, row in enumerate(found.rows.tolist()):
        n_blank = sum(bool(of_key[position]) for of_key in found.blanked.values())
        # No smaller set does, and the risk is that of the keys that are left.
        for size in range(n_blank + 1):
            for blank in combinations(table.keys, size):
                kept = [key for key in table.keys if key not in blank]
                if not kept:
                    continue
                fewer = table.project(kept)
                assert fewer.record_cell is not None
                left = _cell_risk(fewer)[0][fewer.record_cell[row]]
                assert size == n_blank or left > threshold
                if size == n_blank and set(blank) == {key for key, of_key in found.blanked.items() if of_key[position]}:
                    assert found.risk_after[position] == pytest.approx(left)
    assert found.n_values == sum(len(names.split(",")) for names in found.audit()["variables"] if names)  # type: ignore[attr-defined]


def test_a_value_that_is_missing_already_is_not_blanked() -> None:
    """Blanking it changes nothing in the file, so it must not count as protection."""
    frame = people()
    jobs = [None if row % 50 == 0 else job for row, job in enumerate(frame["job"].to_pylist())]
    table = table_of(frame.set_column(1, "job", pa.array(jobs)))
    risk = _cell_risk(table)[0]
    assert table.record_cell is not None
    rows = np.flatnonzero(risk[table.record_cell] > 0.1)
    cells = table.cells[table.record_cell[rows]]
    found = suppress_rest(table, rows, cells, risk[table.record_cell[rows]], _cell_risk, threshold=0.1)
    lacking = np.array([jobs[row] is None for row in found.rows.tolist()])
    assert lacking.sum() > 3
    assert not found.blanked["job"][lacking].any()
    assert found.blanked["job"].any()


def test_nothing_to_blank() -> None:
    table = table_of(people())
    empty = np.zeros(0, dtype=np.int64)
    found = suppress_rest(table, empty, np.zeros((0, 3), dtype=np.int32), np.zeros(0), _cell_risk, threshold=0.1)
    assert found.n_values == 0
    assert "0 key values of 0 records" in str(found)

"""Plans: margins recounted, constraints kept, vacated cells empty, the same from the same seed."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell._kernels import swapping as kernels
from rarecell.datasets import CENSUS_POPULATION, census_sample
from rarecell.engine.streaming import drawing_order
from rarecell.errors import BadInput, Cancelled
from rarecell.intruder.nearest import nearest_links
from rarecell.intruder.residual_risk import risk_after
from rarecell.progress import SilentProgress
from rarecell.risk.records import RecordRisk
from rarecell.swap import reasons
from rarecell.swap.apply import compare_margins
from rarecell.swap.households import plan_household_swaps
from rarecell.swap.partners import SCREENING_WEIGHT, PartnerSearch
from rarecell.swap.plan import SwapPlan, plan_swaps, plan_task
from rarecell.swap.rules import SwapConstraints
from rarecell.swap.summary import first_found_distance
from rarecell.swap.swappable import swappability
from rarecell.swap.target import SwapTarget, frontier, plan_to_target, risk_after_pairs, spread_evenly
from rarecell.swap.task import LINK_WEIGHT, SwapTask
from rarecell.table.distance import Distances
from tests.naive import swap as naive
from tests.naive.intruder import distance_by_rank
from tests.reference import census_table, cliques_by_number
from tests.strategies import categories
from tests.strategies_swap import AnyModel, decomposable_cases, follows, hierarchical_cases, members, swapped_table, vertex_rows


@cache
def census_risk() -> tuple[rc.ContingencyTable, rc.DecomposableModel, RecordRisk]:
    table = census_table()
    model = rc.DecomposableModel(table, cliques=cliques_by_number(table, "15 16 36 46 37 28 38"))
    return table, model, rc.record_risk(table, model, population=CENSUS_POPULATION)


def check_plan(plan: SwapPlan, columns: dict[str, np.ndarray] | None = None, keep: list[list[str]] | None = None) -> None:
    """Everything a plan promises, recounted from its records."""
    table = plan.table
    rows = vertex_rows(table)
    extra = [tuple(int(values[r]) for values in (columns or {}).values()) for r in range(len(rows))]
    names = [*table.vertex_names, *(columns or {})]
    assert len(set(plan.rows.tolist())) == len(plan.rows)
    after = list(rows)
    moving = follows(table)
    assert sorted(plan.sources.tolist()) == sorted(plan.rows.tolist())
    for place, (row, giver) in enumerate(zip(plan.rows.tolist(), plan.sources.tolist(), strict=True)):
        keys = plan.variables(place % len(plan))
        moved = [v for key in keys for v in (table.keys.index(key), *moving[table.keys.index(key)])]
        after[row] = naive.exchanged(rows[row], rows[giver], moved)
        assert all(after[row][table.keys.index(key)] != rows[row][table.keys.index(key)] for key in keys)
    sets = [members(table.close(mask)) for mask in plan.model.generator_masks] + [
        [names.index(n) for n in each] for each in keep or []
    ]
    before_full = [row + more for row, more in zip(rows, extra, strict=True)]
    after_full = [row + more for row, more in zip(after, extra, strict=True)]
    assert naive.margins(before_full, sets) == naive.margins(after_full, sets)
    vacated = {rows[r][: table.n_keys] for r in plan.requested.tolist() if r in set(plan.rows.tolist())}
    entered = {after[r][: table.n_keys] for r in plan.rows.tolist()}
    assert not vacated & entered
    changed = sum(
        a != b
        for old, new in zip(rows, after, strict=True)
        for a, b in zip(old[: table.n_keys], new[: table.n_keys], strict=True)
    )
    assert plan.n_values_changed == changed
    unswapped = {left.record for left in plan.unswapped}
    assert unswapped.isdisjoint(plan.rows.tolist())
    assert unswapped | (set(plan.rows.tolist()) & set(plan.requested.tolist())) == set(plan.requested.tolist())
    assert all(check.is_identical for check in compare_margins(plan))
    recollapsed = {
        tuple(cell): n for cell, n in zip(plan.table_after.cells.tolist(), plan.table_after.counts.tolist(), strict=True)
    }
    assert recollapsed == dict(naive.margins(after, [range(table.n_keys)])[0])


@settings(max_examples=60)
@given(
    st.one_of(
        decomposable_cases(max_records=40), decomposable_cases(coarsened=True, max_records=40), hierarchical_cases(max_records=40)
    ),
    st.integers(0, 2**32),
)
def test_random_plans_keep_every_promise(model: rc.DecomposableModel | AnyModel, seed: int) -> None:
    table = model.table
    rng = np.random.default_rng(seed)
    assert table.record_cell is not None
    records = np.flatnonzero(rng.random(len(table.record_cell)) < 0.3)
    plan = plan_swaps(table, model, records=records, risk=rng.random(table.n_cells), population=500, seed=3)
    check_plan(plan)
    can_swap = swappability(table, model).record_is_swappable
    for left in plan.unswapped:
        assert (left.reason == reasons.FIXED_BY_MODEL) == (not can_swap[left.record])
    if not plan.unswapped:
        assert plan.penalised_cost >= plan.cost_at_least - 1e-6


@settings(max_examples=40)
@given(decomposable_cases(max_records=30), st.data())
def test_further_margins_and_constraints_are_kept(model: rc.DecomposableModel, data: st.DataObject) -> None:
    table = model.table
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    assert table.record_cell is not None
    n_records = len(table.record_cell)
    columns = {"x": rng.integers(0, 2, n_records), "region": rng.integers(0, 2, n_records)}
    keep = [data.draw(st.lists(st.sampled_from([*table.keys, "x"]), min_size=1, max_size=3, unique=True))]
    constraints = SwapConstraints(
        never_swap=(table.keys[0],),
        within=("region",),
        forbidden=({table.keys[1]: "0", "x": "1"},),
        untouched=({table.keys[-1]: "1"},),
        untouched_records=(0,),
    )
    records = np.flatnonzero(rng.random(n_records) < 0.4)
    plan = plan_swaps(table, model, records=records, keep=keep, columns=columns, constraints=constraints)
    check_plan(plan, columns, keep)
    rows = vertex_rows(table)
    touched = plan.rows.tolist()
    assert 0 not in touched
    assert all(rows[r][table.n_keys - 1] != 1 for r in touched)
    assert all(table.keys[0] not in plan.variables(pair) for pair in range(len(plan)))
    assert (columns["region"][plan.records] == columns["region"][plan.partners]).all()
    for row, new in zip(touched, plan.new_cells.tolist(), strict=True):
        old_breaks = rows[row][1] == 0 and columns["x"][row] == 1
        assert not (new[1] == 0 and columns["x"][row] == 1) or old_breaks
    for left in plan.unswapped:
        if left.record == 0 or rows[left.record][table.n_keys - 1] == 1:
            assert left.reason == reasons.UNTOUCHED


def test_reasons_are_told_apart() -> None:
    # a and b independent: (0,0) can only swap with (1,1).
    codes = np.array([[0, 0], [1, 1], [0, 1], [0, 1], [-1, 0]], dtype=np.int32)
    table = rc.ContingencyTable.from_codes(codes, categories([2, 2]))
    model = rc.DecomposableModel(table, cliques=[("a",), ("b",)])

    def reason(record: int, **options: object) -> str:
        plan = plan_swaps(table, model, records=[record], **options)  # type: ignore[arg-type]
        return plan.unswapped[0].reason if plan.unswapped else "swapped"

    assert reason(0) == "swapped"
    assert reason(2) == reasons.FIXED_BY_MODEL
    assert reason(4) == reasons.DROPPED
    assert reason(0, keep=[("a", "b")]) == reasons.FIXED_BY_KEEP
    work = {"work": ["x", "y", "x", "x", "x"]}
    assert reason(0, keep=[("a", "work"), ("b", "work")], columns=work) == reasons.FIXED_BY_KEEP
    assert reason(0, keep=[("a", "work")], columns=work) == "swapped"
    assert reason(0, constraints=SwapConstraints(untouched=({"a": "0"},))) == reasons.UNTOUCHED
    assert reason(0, constraints=SwapConstraints(untouched_records=[1])) == reasons.CONSTRAINED
    assert reason(0, constraints=SwapConstraints(never_swap=("a", "b"))) == reasons.CONSTRAINED
    assert reason(0, constraints=SwapConstraints(forbidden=({"a": "1", "b": "0"},))) == reasons.CONSTRAINED
    three = np.array([[0, 0], [0, 0], [1, 1]], dtype=np.int32)
    crowded = rc.ContingencyTable.from_codes(three, categories([2, 2]))
    plan = plan_swaps(crowded, rc.DecomposableModel(crowded, cliques=[]), records=[0, 1])
    assert len(plan) == 1
    assert plan.reasons == {reasons.TAKEN: 1}


def test_bad_records_and_risks_are_refused() -> None:
    table, model, _ = census_risk()
    with pytest.raises(BadInput, match="no record 9,810; counted from 1"):
        plan_swaps(table, model, records=[3, 9809])
    with pytest.raises(BadInput, match="mask"):
        plan_swaps(table, model, records=np.ones(3, dtype=bool))
    with pytest.raises(BadInput, match="occupied"):
        plan_swaps(table, model, records=[1], risk=[0.5])
    with pytest.raises(BadInput, match="identities"):
        plan_swaps(table, model, records=[1], record_ids=["a"])
    assert len(plan_swaps(table, model, records=[])) == 0


# ---------------------------------------------------------------------- the census sample


@pytest.mark.parametrize("which", ["top 50", "cell probability below 1e-7", "risk above 0.5"])
def test_risky_records_of_the_census_sample_are_protected(which: str) -> None:
    table, model, risk = census_risk()
    records = {
        "top 50": risk.riskiest(50),
        "cell probability below 1e-7": risk.cell_probability_below(1e-7),
        "risk above 0.5": risk.above(0.5),
    }[which]
    assert len(records) == {"top 50": 50, "cell probability below 1e-7": 17, "risk above 0.5": 230}[which]
    plan = plan_swaps(table, model, records=records, risk=risk, seed=0)
    assert not plan.unswapped
    assert plan.n_protected == len(records)
    check_plan(plan)
    links = plan.links(plan.task.register_of(risk))
    after = risk_after(risk, plan.release, links)
    assert links.link.sum() < 0.02 * risk.expected_correct_matches
    assert (
        after.expected_population_uniques
        < risk.expected_population_uniques - 0.95 * risk.unique_probability[table.record_cell[records]].sum()
    )
    assert after.counts[table.record_cell[records]].max() == 0
    assert plan.distance.mean() < 0.45 * first_found_distance(plan)
    # The bound is that of pairs; rings may cost more.
    assert plan.penalised_cost <= 1.2 * plan.cost_at_least


def test_swapping_without_a_plan_is_measured_in_the_units_of_the_plan() -> None:
    table, model, risk = census_risk()
    # With a price on links, heavier distances would also change which values are exchanged.
    plan = plan_swaps(table, model, records=risk.riskiest(20), risk=risk, link_weight=0.0, seed=1)
    tenfold = replace(plan.task, distances=Distances(weights=dict.fromkeys(table.keys, 10.0)))
    assert first_found_distance(replace(plan, task=tenfold)) == pytest.approx(10.0 * first_found_distance(plan))


def test_risk_after_is_what_the_nearest_intruder_finds() -> None:
    table, model, risk = census_risk()
    plan = plan_swaps(table, model, records=risk.above(0.3), risk=risk, link_weight=0.1)
    register = plan.task.register_of(risk)
    links = plan.links(register)
    after, found = risk_after(risk, plan.release, links), nearest_links(plan.release, register)
    assert links.link.sum() > 1.0
    assert after.expected_correct_matches == pytest.approx(found.total)
    assert after.expected_population_uniques == pytest.approx(found.certain.sum())
    assert after.swapped_link.sum() == pytest.approx(found.of_moved)
    swapped = swapped_table(plan)
    assert after.n_sample_uniques == len(swapped.unique_cells) == len(found.link)
    assert (after.counts == swapped.marginals.lookup(table.all_keys, table.cells)).all()
    unswapped = np.setdiff1d(np.arange(table.n_records), plan.rows)
    assert swapped.record_cell is not None
    assert table.record_cell is not None
    alone = unswapped[swapped.counts[swapped.record_cell[unswapped]] == 1]
    assert after.unique_probability.sum() == pytest.approx(risk.unique_probability[table.record_cell[alone]].sum())
    empty = risk_after_pairs(risk, plan, links, np.zeros(len(plan), dtype=bool))
    assert empty.expected_population_uniques == pytest.approx(risk.expected_population_uniques)
    half = risk_after_pairs(risk, plan, links, np.arange(0, len(plan), 2))
    part = plan.subset(np.arange(0, len(plan), 2))
    assert half.n_sample_uniques == len(part.table_after.unique_cells)


def test_partners_are_chosen_against_the_nearest_intruder() -> None:
    table, model, risk = census_risk()
    task = SwapTask(table, model, risk=risk)
    records = risk.above(0.2)
    near, safe = (plan_task(replace(task, link_weight=weight), records) for weight in (0.0, LINK_WEIGHT))
    fresh = replace(task.register_of(risk), unseen=replace(task.register_of(risk).unseen, seed=5))
    before, after = (plan.links(fresh).link.sum() for plan in (near, safe))
    assert before > 30
    assert after < 0.05 * before
    assert not safe.unswapped


def test_decoys_are_further_records_and_keep_every_margin() -> None:
    table, model, risk = census_risk()
    records = risk.riskiest(60)
    plain, hidden = (plan_swaps(table, model, records=records, risk=risk, decoys=share, seed=2) for share in (0.0, 0.5))
    assert plain.n_decoys == 0
    assert 20 <= hidden.n_decoys <= 30
    assert hidden.n_protected == 60
    assert len(hidden) == len(plain) + hidden.n_decoys
    check_plan(hidden)
    decoys = hidden.records[~np.isin(hidden.records, records)]
    assert risk.sample_count[table.record_cell[decoys]].mean() > 2  # type: ignore[index]
    with pytest.raises(BadInput, match="decoys"):
        plan_swaps(table, model, records=records, decoys=-1.0)


def test_the_seed_decides_and_nothing_else() -> None:
    table, model, risk = census_risk()
    options = {"records": risk.riskiest(120), "risk": risk}
    one, same, other = (plan_swaps(table, model, seed=seed, **options) for seed in (1, 1, 2))  # type: ignore[arg-type]
    assert one.to_frame().equals(same.to_frame())
    assert not one.to_frame().equals(other.to_frame())
    assert set(one.requested) == set(other.requested)
    # Chance decides among partners that cost almost the same, and hardly anything else.
    assert one.cost.sum() == pytest.approx(other.cost.sum(), rel=0.05)
    # With identities of their own the same persons are chosen, wherever they stand in the file.
    order = np.random.default_rng(0).permutation(table.n_records)
    codes = table.cells[table.record_cell]
    shuffled = rc.ContingencyTable.from_codes(codes[order], table.categories)
    new_place = np.argsort(order)
    again = plan_swaps(
        shuffled,
        rc.DecomposableModel(shuffled, graph=model.graph),
        records=new_place[one.requested],
        risk=risk.unique_probability,
        population=CENSUS_POPULATION,
        record_ids=order,
        seed=1,
    )
    pairs = {(r, p, m) for r, p, m in zip(one.records.tolist(), one.partners.tolist(), one.moved.tolist(), strict=True)}
    found = {(order[r], order[p], m) for r, p, m in zip(again.records, again.partners, again.moved.tolist(), strict=True)}
    # A pair of two risky records may be named from either side.
    assert {(frozenset(p[:2]), p[2]) for p in pairs} == {(frozenset(p[:2]), p[2]) for p in found}


@settings(max_examples=40)
@given(decomposable_cases(max_records=40), st.integers(0, 5))
def test_a_table_of_counts_plans_the_same_swaps(model: rc.DecomposableModel, seed: int) -> None:
    """Its record number k of a cell is the one that is drawn as the k-th of the cell where records are known."""
    table = model.table
    assert table.record_cell is not None
    rng = np.random.default_rng(seed)
    counted = rc.ContingencyTable.from_counts(table.cells, table.counts, table.categories).with_coarsenings(table.coarsenings)
    drawn = np.lexsort((drawing_order(seed, range(table.n_records)), table.record_cell))
    requested = rng.choice(table.n_records, table.n_records // 3, replace=False)
    options = {"risk": rng.random(table.n_cells), "population": 500, "seed": seed}
    known = plan_swaps(table, model, records=drawn[requested], **options)
    by_number = plan_swaps(counted, rc.DecomposableModel(counted, graph=model.graph), records=requested, **options)
    assert known.records.tolist() == drawn[by_number.records].tolist()
    assert known.partners.tolist() == drawn[by_number.partners].tolist()
    assert known.moved.tolist() == by_number.moved.tolist()
    assert {(each.record, each.reason) for each in known.unswapped} == {
        (drawn[each.record], each.reason) for each in by_number.unswapped
    }
    assert compare_margins(known) == compare_margins(by_number)
    assert np.array_equal(known.table_after.cells, by_number.table_after.cells)
    assert np.array_equal(known.table_after.counts, by_number.table_after.counts)


def test_targets_are_reached_by_the_same_swaps_from_counts() -> None:
    table, model, risk = census_risk()
    assert table.record_cell is not None
    counted = rc.ContingencyTable.from_counts(table.cells, table.counts, table.categories)
    its_model = rc.DecomposableModel(counted, graph=model.graph)
    its_risk = rc.record_risk(counted, its_model, population=CENSUS_POPULATION)
    drawn = np.lexsort((drawing_order(7, range(table.n_records)), table.record_cell))
    known = plan_to_target(SwapTask(table, model, risk=risk, seed=7), risk, SwapTarget(150, 0.3))
    found = plan_to_target(SwapTask(counted, its_model, risk=its_risk, seed=7), its_risk, SwapTarget(150, 0.3))
    assert known.sentence == found.sentence
    assert known.plan.rows.tolist() == drawn[found.plan.rows].tolist()
    assert known.frontier == found.frontier
    assert first_found_distance(known.plan) == first_found_distance(found.plan)


def test_weights_of_distances_steer_the_choice() -> None:
    table, model, risk = census_risk()
    plain = plan_swaps(table, model, records=risk.riskiest(80), risk=risk)
    dear = plan_swaps(table, model, records=risk.riskiest(80), risk=risk, distances=Distances(weights={"age": 50.0}))
    assert dear.moves("age").sum() < plain.moves("age").sum()


def test_a_cancelled_plan_stops() -> None:
    class Impatient(SilentProgress):
        def cancelled(self) -> bool:
            return True

    table, model, risk = census_risk()
    with pytest.raises(Cancelled):
        plan_swaps(table, model, records=risk.riskiest(5), progress=Impatient())


def test_coarsenings_keep_their_own_margins_on_the_census_sample() -> None:
    from rarecell.table.coarsening import automatic_coarsenings

    base = census_table()
    table = base.with_coarsenings(automatic_coarsenings(base))
    coarse = [name for name in table.vertex_names if name.startswith("age/")]
    model = rc.DecomposableModel(table, cliques=[("relationship", "spouse"), (coarse[-1], "spouse"), ("marital", "spouse")])
    risk = rc.record_risk(table, model, population=CENSUS_POPULATION)
    plan = plan_swaps(table, model, records=risk.riskiest(100), risk=risk)
    check_plan(plan)
    assert plan.n_protected == 100


# ---------------------------------------------------------------------- targets


def test_a_plan_grows_until_the_target_is_met_and_no_further() -> None:
    table, model, risk = census_risk()
    found = plan_to_target(SwapTask(table, model, risk=risk), risk, SwapTarget(max_population_uniques=150))
    assert found.is_met
    assert found.after.expected_population_uniques <= 150
    check_plan(found.plan)
    fewer = plan_to_target(SwapTask(table, model, risk=risk), risk, SwapTarget(max_population_uniques=200))
    assert fewer.plan.n_values_changed < found.plan.n_values_changed
    changed = [point.values_changed for point in found.frontier]
    left = [point.expected_population_uniques for point in found.frontier]
    assert all(a < b for a, b in pairwise(changed))
    assert left[0] == pytest.approx(risk.expected_population_uniques)
    assert left[-1] < left[0]
    assert "enough for at most 150" in str(found)
    assert (
        frontier(risk, found.plan, found.plan.links(found.plan.task.register_of(risk)))[-1].values_changed
        == found.plan.n_values_changed
    )


def test_no_record_above_a_risk() -> None:
    table, model, risk = census_risk()
    found = plan_to_target(SwapTask(table, model, risk=risk), risk, SwapTarget(max_record_risk=0.4))
    assert found.is_met
    assert found.after.highest <= 0.4
    assert plan_to_target(SwapTask(table, model, risk=risk), risk, SwapTarget(max_record_risk=1.0)).plan.n_values_changed == 0
    with pytest.raises(BadInput, match="No target"):
        SwapTarget()


def test_a_target_is_met_as_it_will_be_reported_and_decoys_hide_what_was_needed() -> None:
    table, model, risk = census_risk()
    wish = SwapTarget(max_correct_links=300.0, max_record_risk=0.3)
    plans = {}
    for decoys in (0.0, 0.5):
        task = SwapTask(table, model, risk=risk, decoys=decoys, seed=3)
        found = plan_to_target(task, risk, wish)
        assert found.is_met
        fresh = risk_after(risk, found.plan.release, found.plan.links(task.register_of(risk)))
        assert wish.is_met(fresh)
        assert found.after.expected_correct_matches == pytest.approx(fresh.expected_correct_matches)
        plans[decoys] = found.plan
    n_needed = len(plans[0.5]) - plans[0.5].n_decoys
    assert plans[0.0].n_decoys == 0
    assert plans[0.5].n_decoys == pytest.approx(0.5 * n_needed, rel=0.15)
    assert n_needed <= len(plans[0.0])


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 2**32 - 1))
def test_any_part_of_an_order_has_its_share_of_decoys(n_others: int, n_decoys: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    order = rng.permutation(n_others + n_decoys)
    is_decoy = np.zeros(len(order), dtype=bool)
    is_decoy[rng.permutation(len(order))[:n_decoys]] = True
    found = spread_evenly(order, is_decoy, seed)
    assert sorted(found.tolist()) == sorted(order.tolist())
    assert found[~is_decoy[found]].tolist() == order[~is_decoy[order]].tolist()
    for n in range(1, len(order) + 1):
        share = is_decoy[found[:n]].sum()
        assert abs(share - n * n_decoys / len(order)) <= 1.0


def test_a_target_out_of_reach_is_said_to_be() -> None:
    codes = np.array([[0, 0, 0], [1, 1, 0], [1, 0, 1], [0, 0, 1], [0, 0, 1]], dtype=np.int32)
    table = rc.ContingencyTable.from_codes(codes, categories([2, 2, 2]))
    model = rc.DecomposableModel(table, cliques=[("a", "b", "c")])
    risk = rc.record_risk(table, model, population=6)
    found = plan_to_target(SwapTask(table, model, risk=risk), risk, SwapTarget(max_population_uniques=0.1))
    assert not found.is_met
    assert "out of reach" in str(found)
    assert reasons.FIXED_BY_MODEL in str(found)


# ---------------------------------------------------------------------- households


@settings(max_examples=40)
@given(decomposable_cases(max_records=60), st.integers(0, 2**32))
def test_households_are_swapped_whole_with_others_of_the_same_composition(model: rc.DecomposableModel, seed: int) -> None:
    table = model.table
    rng = np.random.default_rng(seed)
    assert table.record_cell is not None
    n_records = len(table.record_cell)
    household = rng.integers(0, max(1, n_records // 2), n_records)
    records = np.flatnonzero(rng.random(n_records) < 0.2)
    plan = plan_household_swaps(SwapTask(table, model, seed=1), households=household, records=records)
    rows = vertex_rows(table)
    partner_of: dict[int, int] = {}
    for one, other in zip(household[plan.records].tolist(), household[plan.partners].tolist(), strict=True):
        assert one != other
        assert partner_of.setdefault(one, other) == other
        assert partner_of.setdefault(other, one) == one
    for one, other in partner_of.items():
        assert (household == one).sum() == (household == other).sum()
    swapped = {r for r in records.tolist() if household[r] in partner_of}
    assert swapped == set(records.tolist()) - {left.record for left in plan.unswapped}
    after = {row: tuple(cell) for row, cell in zip(plan.rows.tolist(), plan.new_cells.tolist(), strict=True)}
    for record in swapped:
        assert after[record] != rows[record]
    vacated = {rows[record] for record in swapped}
    assert not vacated & set(after.values())
    assert all(check.is_identical for check in compare_margins(plan))


def test_the_cost_of_a_household_is_that_of_its_members() -> None:
    rng = np.random.default_rng(8)
    codes = rng.integers(0, 3, (60, 3)).astype(np.int32)
    table = rc.ContingencyTable.from_codes(codes, categories([3, 3, 3]))
    model = rc.DecomposableModel(table, cliques=[])
    search = PartnerSearch(SwapTask(table, model, population=table.n_records + 20))
    intruder = distance_by_rank(table.categories, SCREENING_WEIGHT)
    cells = [tuple(cell) for cell in table.cells.tolist()]
    closed = {cell for cell in cells if rng.random() < 0.15}
    search.is_closed[:] = [cell in closed for cell in cells]
    assert table.record_cell is not None
    units, start = table.record_cell, np.arange(0, 61, 2)
    is_risky = np.array([cells[u] in closed for u in units])
    pairs = np.array([(h, g) for h in range(30) for g in range(30) if h != g])
    found = np.zeros(len(pairs))
    kernels.household_costs(search.task(), units, start, pairs, np.uint64(0b011), is_risky, found)
    counts = dict(zip(cells, table.counts.tolist(), strict=True))
    probability = dict(zip(cells, np.exp(model.log_cell_probability()).tolist(), strict=True))

    def apart(one: naive.Row, other: naive.Row, moved: list[int]) -> float:
        return search.distances.between(table, one, other, sum(1 << k for k in moved))

    def cost(one: naive.Row, other: naive.Row, moved: list[int]) -> float:
        return naive.exchange_cost(
            one,
            other,
            moved,
            apart=apart(one, other, moved),
            counts=counts,
            closed=closed,
            probability=probability,
            link=dict(zip(cells, search.around.link.tolist(), strict=True)),
            intruder=intruder,
            n_unseen=20.0,
            link_weight=LINK_WEIGHT,
        )

    for p, (h, g) in enumerate(pairs.tolist()):
        rows = [(2 * h + member, 2 * g + member) for member in range(2)]
        in_pair = [(cells[units[one]], cells[units[other]]) for one, other in rows]
        risky = [bool(is_risky[one] or is_risky[other]) for one, other in rows]
        expected = naive.household_cost(in_pair, risky, [0, 1], 3, cost, closed, apart)
        assert found[p] == pytest.approx(expected)
    assert np.isfinite(found).any()
    assert np.isinf(found).any()


def test_households_of_the_census_sample() -> None:
    table, model, risk = census_risk()
    sample = census_sample()
    household = sample["household"].to_numpy()
    plan = plan_household_swaps(
        SwapTask(table, model, risk=risk, columns={"education": sample["education"].to_numpy()}),
        households=household,
        records=risk.riskiest(50),
        composition=["education"],
    )
    assert plan.n_protected >= 45
    education = sample["education"].to_numpy()
    assert (education[plan.records] == education[plan.partners]).all()
    assert all(check.is_identical for check in compare_margins(plan))

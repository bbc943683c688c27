"""Rings of four: every kept margin stays, nobody undoes another, and only cheap ones are made."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell.swap.apply import compare_margins
from rarecell.swap.choosing import priced_exchanges
from rarecell.swap.households import plan_household_swaps
from rarecell.swap.partners import PartnerSearch
from rarecell.swap.plan import SwapPlan, plan_task, with_rings
from rarecell.swap.rings import WORTH, _pairs_to_merge, _prices
from rarecell.swap.rules import SwapConstraints
from rarecell.swap.task import SwapTask
from tests.strategies_swap import decomposable_cases


def _planned(seed: int, n: int = 400) -> SwapPlan:
    """A plan on a chain a – b – c – d of keys, so that many pairs exchange the same keys beside the same values."""
    draw = np.random.default_rng(seed)
    a = draw.integers(0, 12, n)
    b = (a // 4 + draw.integers(0, 2, n)) % 3
    c = (b + draw.integers(0, 2, n)) % 3
    d = (4 * c + draw.integers(0, 12, n)) % 14
    people = pa.table({"a": a, "b": b, "c": c, "d": d})
    table = rc.Microdata(people, keys=["a", "b", "c", "d"]).table(records=True)
    model = rc.DecomposableModel(table, cliques=[("a", "b"), ("b", "c"), ("c", "d")])
    risk = rc.record_risk(table, model, population=20 * n)
    return plan_task(SwapTask(table, model, risk=risk, seed=seed), risk.riskiest(120))


@settings(max_examples=40, deadline=None)
@given(decomposable_cases(max_records=30), st.integers(0, 1000))
def test_every_kept_margin_stays_and_values_come_from_the_giver(model: rc.DecomposableModel, seed: int) -> None:
    table = model.table
    plan = plan_task(SwapTask(table, model, population=3 * table.n_records, seed=seed), np.arange(table.n_rows))
    assert all(check.is_identical for check in compare_margins(plan))
    # Everybody who gives a part receives one, and every part is received once.
    assert sorted(plan.sources.tolist()) == sorted(plan.rows.tolist())
    cells = {row: table.cells[table.cell_of(row)] for row in plan.rows.tolist()}
    for place, (row, giver) in enumerate(zip(plan.rows.tolist(), plan.sources.tolist(), strict=True)):
        mask = int(plan.moved[place % len(plan)])
        expected = [int(cells[giver][k] if mask >> k & 1 else cells[row][k]) for k in range(table.n_keys)]
        assert plan.new_cells[place].tolist() == expected
        assert plan.new_cells[place].tolist() != cells[row].tolist()
    for some in (plan.subset(np.arange(0, len(plan), 3)), plan.subset(np.arange(len(plan)) % 2 == 1)):
        assert all(check.is_identical for check in compare_margins(some))
        assert sorted(some.sources.tolist()) == sorted(some.rows.tolist())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_in_a_ring_nobody_receives_from_whom_they_give_to(seed: int) -> None:
    plan = _planned(seed)
    sizes = Counter(plan.ring.tolist())
    in_ring = np.array([sizes[ring] > 1 for ring in plan.ring.tolist()])
    assert in_ring.mean() > 0.4
    ring_of = dict(zip(plan.rows.tolist(), np.tile(plan.ring, 2).tolist(), strict=True))
    giver = dict(zip(plan.rows.tolist(), plan.sources.tolist(), strict=True))
    for row in plan.rows[np.tile(in_ring, 2)].tolist():
        way = [row]
        while giver[way[-1]] != row:
            way.append(giver[way[-1]])
        assert len(way) == 2 * sizes[ring_of[row]] >= 4
    for row in plan.rows[np.tile(~in_ring, 2)].tolist():
        assert giver[giver[row]] == row


def test_a_ring_costs_what_its_receivers_cost_and_little_more_than_pairs() -> None:
    plan = _planned(4)
    search = PartnerSearch(plan.task)
    here, there = (search.units.unit_of(rows) for rows in (plan.rows, plan.sources))
    moved = np.tile(plan.moved, 2)
    apart, _ = priced_exchanges(search, here, there, moved)
    in_ring = np.bincount(plan.ring, minlength=len(plan))[plan.ring] > 1
    by_pair = 0.5 * apart.reshape(2, -1).sum(axis=0)
    assert plan.distance[in_ring] == pytest.approx(by_pair[in_ring])
    one, other = (search.units.unit_of(rows) for rows in (plan.records, plan.partners))
    distance, link = priced_exchanges(search, one, other, plan.moved)
    as_pairs = distance + plan.task.link_weight * link
    of_ring, of_pairs = (np.bincount(plan.ring, values, len(plan)) for values in (plan.cost, as_pairs))
    # A pair's cost has a random part of at most a hundredth.
    n_merges = np.maximum(np.bincount(plan.ring, minlength=len(plan)) - 1, 0)
    assert (of_ring <= of_pairs + n_merges * WORTH + 0.02 + 1e-9).all()


@pytest.mark.parametrize("seed", [1, 2])
def test_no_two_pairs_stay_that_could_be_merged_cheaply(seed: int) -> None:
    plan = _planned(seed)
    search = PartnerSearch(plan.task)
    lone = np.flatnonzero(np.bincount(plan.ring, minlength=len(plan))[plan.ring] == 1)
    one, other = (search.units.unit_of(rows) for rows in (plan.records, plan.partners))
    first, second = _pairs_to_merge(search, one, other, plan.moved)
    both = np.isin(first, lone) & np.isin(second, lone)
    if not both.any():
        # Every pair that has another one to be merged with is in a ring.
        return
    units = np.stack([one[first], other[first], one[second], other[second]], axis=1)[both]
    moved = plan.moved[first[both]]
    _, price = _prices(search, units, moved, np.stack([moved] * 4, axis=1))
    for prices in price:
        now = prices[0, 1] + prices[1, 0] + prices[2, 3] + prices[3, 2]
        for ring in ((0, 3, 2, 1), (0, 2, 3, 1), (0, 1, 3, 2), (0, 1, 2, 3)):
            total = sum(prices[ring[k], ring[(k + 1) % 4]] for k in range(4))
            assert total - now > WORTH - 1e-9


@settings(max_examples=40, deadline=None)
@given(decomposable_cases(max_records=30), st.integers(0, 1000))
def test_rings_of_whole_sides_keep_every_margin_too(model: rc.DecomposableModel, seed: int) -> None:
    table = model.table
    task = SwapTask(table, model, population=3 * table.n_records, rings=False, seed=seed)
    pairs = plan_task(task, np.arange(table.n_rows))
    plan = with_rings(PartnerSearch(task), pairs, by_sides=True, worth=10.0)
    assert all(check.is_identical for check in compare_margins(plan))
    assert sorted(plan.sources.tolist()) == sorted(plan.rows.tolist())
    for ring in np.unique(plan.ring):
        assert len(np.unique(plan.moved[plan.ring == ring])) == 1
    # What changes in a pair changes in the ring; as pairs, the wider masks do nothing else.
    before, after = (each.release.true != each.release.released for each in (pairs, plan))
    assert (after | ~before).all()
    assert (replace(plan, givers=None).release.released == pairs.release.released).all()


@pytest.mark.parametrize("seed", [1, 2])
def test_more_pairs_are_merged_by_sides(seed: int) -> None:
    draw = np.random.default_rng(seed)
    people = pa.table({key: draw.integers(0, n, 300) for key, n in (("a", 9), ("b", 9), ("c", 2), ("d", 9), ("e", 9))})
    table = rc.Microdata(people, keys=["a", "b", "c", "d", "e"]).table(records=True)
    model = rc.DecomposableModel(table, cliques=[("a", "b", "c"), ("c", "d", "e")])
    risk = rc.record_risk(table, model, population=6_000)
    task = SwapTask(table, model, risk=risk, rings=False, seed=seed)
    pairs = plan_task(task, risk.riskiest(100))
    n_rings = []
    for by_sides in (False, True):
        merged = with_rings(PartnerSearch(task), pairs, by_sides=by_sides)
        assert all(check.is_identical for check in compare_margins(merged))
        n_rings.append(int((np.bincount(merged.ring, minlength=len(pairs))[merged.ring] > 1).sum()))
    assert n_rings[1] > n_rings[0]


def test_the_list_of_swaps_names_giver_and_receiver() -> None:
    plan = _planned(5)
    audit = plan.audit()
    assert audit["record"] == plan.rows.tolist()
    assert audit["partner"] == plan.sources.tolist()
    changed = plan.release.true != plan.release.released
    for row, names in zip(changed, audit["variables"], strict=True):
        assert names.split(",") == [key for key, is_new in zip("abcd", row, strict=True) if is_new]
    assert plan.n_values_changed == sum(len(names.split(",")) for names in audit["variables"])


# ---------------------------------------------------------------------- whole households


def _planned_households(seed: int, never_swap: tuple[str, ...], n_homes: int = 500) -> tuple[SwapPlan, np.ndarray]:
    """Whole households exchange values on a chain region – sex – age – job of keys; all members share the region."""
    draw = np.random.default_rng(seed)
    home = np.repeat(np.arange(n_homes), draw.integers(1, 4, n_homes))
    region = draw.integers(0, 9, n_homes)[home]
    sex = draw.integers(0, 2, len(home))
    age = 6 * sex + draw.integers(0, 12, len(home))
    job = (age // 6 + draw.integers(0, 5, len(home))) % 7
    people = pa.table({"region": region, "sex": sex, "age": age, "job": job})
    table = rc.Microdata(people, keys=["region", "sex", "age", "job"]).table(records=True)
    model = rc.DecomposableModel(table, cliques=[("region", "sex"), ("sex", "age"), ("age", "job")])
    risk = rc.record_risk(table, model, population=20 * len(home))
    task = SwapTask(table, model, risk=risk, constraints=SwapConstraints(never_swap=never_swap), seed=seed)
    return plan_household_swaps(task, households=home, records=risk.riskiest(150)), home


@pytest.mark.parametrize(("seed", "never_swap"), [(1, ()), (2, ()), (1, ("age", "job")), (2, ("age", "job"))])
def test_households_in_rings_keep_margins_and_what_members_share(seed: int, never_swap: tuple[str, ...]) -> None:
    plan, home = _planned_households(seed, never_swap)
    table = plan.table
    before = table.cells[table.cell_of(np.arange(table.n_rows))]
    after = before.copy()
    after[plan.rows] = plan.new_cells
    assert all(check.is_identical for check in compare_margins(plan))
    for names in ((0, 1), (1, 2), (2, 3)):
        margins = [Counter(map(tuple, codes[:, names].tolist())) for codes in (before, after)]
        assert margins[0] == margins[1]
    # Every receiver has the giver's values where something moves, and its own elsewhere.
    assert sorted(plan.sources.tolist()) == sorted(plan.rows.tolist())
    for place, (row, giver) in enumerate(zip(plan.rows.tolist(), plan.sources.tolist(), strict=True)):
        mask = int(plan.moved[place % len(plan)])
        assert after[row].tolist() == [int(before[giver if mask >> k & 1 else row, k]) for k in range(table.n_keys)]
    # The members of a household receive from those of one other, and still share their region.
    giver_of: dict[int, int] = {}
    for to, by in zip(home[plan.rows].tolist(), home[plan.sources].tolist(), strict=True):
        assert giver_of.setdefault(to, by) == by != to
    for number in giver_of:
        assert len(set(after[home == number, 0].tolist())) == 1
    if never_swap:
        several = np.bincount(home)[home] > 1
        assert (before[several, 0] != after[several, 0]).any()
        assert several[np.isin(home, [number for number, giver in giver_of.items() if giver_of[giver] != number])].any()
    # Households are handed round: in a ring nobody receives from whom they give to.
    in_rings = [number for number, giver in giver_of.items() if giver_of[giver] != number]
    assert len(in_rings) > 0.1 * len(giver_of)
    for number in in_rings:
        way = [number]
        while giver_of[way[-1]] != number:
            way.append(giver_of[way[-1]])
        assert len(way) >= 4
        assert len({int((home == each).sum()) for each in way}) == 1

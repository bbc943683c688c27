"""Targeted record swapping: what must hold of every pair, and of the tables that are kept."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rarecell.errors import BadInput, RarecellError
from rarecell.swap.areas import AreaSwapTask, plan_area_swaps, risk_levels

AREAS = ("region", "district", "town")


@st.composite
def _files(draw: st.DrawFn) -> dict[str, Any]:
    """A file of households or single records in towns, with levels of risk."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_units = draw(st.integers(2, 60))
    has_households = draw(st.booleans())
    size = rng.integers(1, 4, n_units) if has_households else np.ones(n_units, dtype=int)
    town_of_unit = rng.integers(0, draw(st.integers(1, 8)), n_units)
    unit, town = np.repeat(np.arange(n_units), size), np.repeat(town_of_unit, size)
    order = rng.permutation(len(unit))
    unit, town = unit[order], town[order]
    n_records = len(unit)
    columns = {
        # Names of towns are not unique: town 0 of every district.
        "region": np.char.add("r", (town // 4).astype(str)),
        "district": np.char.add("d", (town // 2).astype(str)),
        "town": np.char.add("t", town.astype(str)),
        "sex": rng.integers(0, 2, n_records),
        "age": rng.integers(0, 3, n_records),
        "size": size[unit],
    }
    risk = np.where(rng.random(n_records) < 0.3, rng.integers(0, 3, n_records), 3)
    similar = [((),), (("sex", "age"), ("sex",)), (("size",),)][draw(st.integers(0, 2))]
    keep = [(), (("town", "sex"),), (("region", "age"), ("district", "sex"), ("age", "sex"))][draw(st.integers(0, 2))]
    return {
        "columns": columns,
        "risk": risk,
        "similar": similar,
        "keep": keep,
        "households": unit if has_households else None,
        "unit": unit,
        "rate": draw(st.sampled_from([0.0, 0.1, 0.5, 1.0])),
        "seed": draw(st.integers(0, 5)),
    }


def _task(file: dict[str, Any]) -> AreaSwapTask:
    return AreaSwapTask(file["columns"], AREAS, file["similar"], file["keep"], households=file["households"])


def _swapped(columns: dict[str, np.ndarray], swaps: Any) -> dict[str, np.ndarray]:
    after = {name: values.copy() for name, values in columns.items()}
    for area in AREAS:
        after[area][swaps.rows] = columns[area][swaps.givers]
    return after


def _counted(columns: dict[str, np.ndarray], names: tuple[str, ...]) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*(columns[name].tolist() for name in names), strict=True))


@settings(max_examples=250, deadline=None)
@given(_files())
def test_what_must_hold_of_every_pair(file: dict[str, Any]) -> None:
    columns, unit = file["columns"], file["unit"]
    swaps = plan_area_swaps(_task(file), file["risk"], rate=file["rate"], seed=file["seed"])
    rows = np.concatenate([swaps.records, swaps.partners])
    assert len(np.unique(rows)) == len(rows)
    # Everybody who gives an area receives one.
    assert sorted(swaps.givers.tolist()) == sorted(rows.tolist())
    of_pairs = np.concatenate([swaps.partners, swaps.records])
    levels, profiles = np.tile(swaps.level, 2), np.tile(swaps.profile, 2)
    for others in (of_pairs, swaps.givers):
        for row, other, level, profile in zip(rows, others, levels, profiles, strict=True):
            assert columns[AREAS[level]][row] != columns[AREAS[level]][other]
            if level:
                assert columns[AREAS[level - 1]][row] == columns[AREAS[level - 1]][other]
            for name in file["similar"][profile]:
                assert columns[name][row] == columns[name][other]
    # Whole households move, and each to one place.
    assert set(np.flatnonzero(np.isin(unit, unit[rows]))) == set(rows.tolist())
    after = _swapped(columns, swaps)
    for area in AREAS:
        assert all(len(set(after[area][unit == u])) == 1 for u in np.unique(unit))
    # One-way tables of areas never change, nor does any table that was to be kept.
    for names in (*((area,) for area in AREAS), *file["keep"]):
        assert _counted(after, names) == _counted(columns, names)
    # Areas still nest.
    assert set(_counted(after, AREAS)) <= set(_counted(columns, AREAS))


@settings(max_examples=150, deadline=None)
@given(_files())
def test_a_household_receives_the_place_of_one_other_in_a_pair_or_a_longer_ring(file: dict[str, Any]) -> None:
    unit = file["unit"]
    swaps = plan_area_swaps(_task(file), file["risk"], rate=file["rate"], seed=file["seed"])
    giver: dict[int, int] = {}
    for row, source in zip(swaps.rows, swaps.givers, strict=True):
        assert giver.setdefault(int(unit[row]), int(unit[source])) == unit[source]
    pairs = {frozenset((int(unit[a]), int(unit[b]))) for a, b in zip(swaps.records, swaps.partners, strict=True)}
    in_pairs = set()
    for start in giver:
        way = [start]
        while giver[way[-1]] != start:
            way.append(giver[way[-1]])
        assert len(way) % 2 == 0
        # A ring is made of whole pairs, and nobody in it receives from whom they give to.
        assert all(not pair & set(way) or pair <= set(way) for pair in pairs)
        if len(way) == 2:
            in_pairs.add(frozenset(way))
    assert in_pairs <= pairs


def test_nearly_everybody_is_in_a_ring_where_many_are_alike() -> None:
    rng = np.random.default_rng(8)
    columns = {"town": rng.integers(0, 12, 4_000), "sex": rng.integers(0, 2, 4_000)}
    swaps = plan_area_swaps(AreaSwapTask(columns, ("town",), (("sex",),)), np.ones(4_000, dtype=int), rate=0.1)
    of_pairs = np.concatenate([swaps.partners, swaps.records])
    giver = dict(zip(swaps.rows.tolist(), swaps.givers.tolist(), strict=True))
    undone = [row for row, source in giver.items() if giver[source] == row]
    assert len(swaps) == 200
    assert not undone
    assert (swaps.givers == of_pairs).mean() == pytest.approx(0.5, abs=0.05)


@settings(max_examples=150, deadline=None)
@given(_files())
def test_whoever_is_left_had_no_partner_left(file: dict[str, Any]) -> None:
    columns, unit = file["columns"], file["unit"]
    task = _task(file)
    swaps = plan_area_swaps(task, file["risk"], rate=0.0, seed=file["seed"])
    units = np.unique(unit)
    risk = {u: int(file["risk"][unit == u].min()) for u in units}
    at = {u: swaps.level[np.flatnonzero(np.isin(np.concatenate([swaps.records, swaps.partners]), np.flatnonzero(unit == u)))
                         % max(1, len(swaps))] for u in units}  # fmt: skip
    is_used = {u: len(at[u]) > 0 for u in units}
    left = [u for u in units if risk[u] < 3 and not (is_used[u] and at[u].max() <= risk[u])]
    assert swaps.n_left == len(left)
    assert swaps.n_risky == sum(level < 3 for level in risk.values())

    def kind(u: int, names: tuple[str, ...]) -> list[tuple[Any, ...]]:
        return sorted(tuple(columns[name][row].item() for name in names) for row in np.flatnonzero(unit == u))

    for u in left:
        if is_used[u]:
            continue
        level, row = risk[u], np.flatnonzero(unit == u)[0]
        for v in units:
            other = np.flatnonzero(unit == v)[0]
            is_elsewhere = columns[AREAS[level]][row] != columns[AREAS[level]][other]
            is_near = level == 0 or columns[AREAS[level - 1]][row] == columns[AREAS[level - 1]][other]
            if v != u and not is_used[v] and is_elsewhere and is_near:
                for profile in file["similar"]:
                    names = (*profile, *task.alike_for(level))
                    assert kind(u, names) != kind(v, names)


@settings(max_examples=60, deadline=None)
@given(_files())
def test_the_rate_is_reached_when_partners_can_be_found(file: dict[str, Any]) -> None:
    nobody = np.full(len(file["unit"]), 3)
    task = AreaSwapTask(file["columns"], AREAS, households=file["households"])
    swaps = plan_area_swaps(task, nobody, rate=file["rate"], seed=file["seed"])
    n_units = len(np.unique(file["unit"]))
    assert swaps.n_units == n_units
    # Both of a pair count, so one more than asked for may be swapped.
    assert swaps.n_swapped <= round(file["rate"] * n_units) + 1
    assert swaps.n_swapped == 2 * len({file["unit"][row] for row in swaps.records.tolist()})
    assert not swaps.is_risky.any()


def test_a_large_file_reaches_its_rate_and_another_seed_takes_others() -> None:
    rng = np.random.default_rng(3)
    town = rng.integers(0, 40, 20_000)
    columns = {"region": town // 10, "town": town, "age": rng.integers(0, 8, 20_000), "sex": rng.integers(0, 2, 20_000)}
    task = AreaSwapTask(columns, ("region", "town"), similar=(("age", "sex"),), keep=(("town", "age"),))
    nobody = np.full(20_000, 2)
    found = [plan_area_swaps(task, nobody, rate=0.05, seed=seed) for seed in (0, 0, 1)]
    assert found[0].n_swapped == 1_000
    assert found[0].records.tolist() == found[1].records.tolist()
    assert found[0].records.tolist() != found[2].records.tolist()
    # Chance knows no group: every age is swapped about as often as it occurs.
    share = np.bincount(columns["age"][found[0].records]) / len(found[0])
    assert share == pytest.approx(np.full(8, 1 / 8), abs=0.05)


def test_the_order_of_the_file_does_not_matter_when_records_have_names() -> None:
    rng = np.random.default_rng(4)
    columns = {"town": rng.integers(0, 5, 300), "age": rng.integers(0, 3, 300)}
    risk = (rng.random(300) > 0.2).astype(int)
    order = rng.permutation(300)
    names = np.array([f"p{k}" for k in range(300)])
    one = plan_area_swaps(AreaSwapTask(columns, ("town",), (("age",),)), risk, rate=0.3, record_ids=names, seed=2)
    shuffled = {name: values[order] for name, values in columns.items()}
    task = AreaSwapTask(shuffled, ("town",), (("age",),))
    two = plan_area_swaps(task, risk[order], rate=0.3, record_ids=names[order], seed=2)

    def pairs(swaps: Any, named: np.ndarray) -> set[frozenset[str]]:
        return {frozenset((named[a], named[b])) for a, b in zip(swaps.records, swaps.partners, strict=True)}

    assert pairs(one, names) == pairs(two, names[order])


def test_the_coarsest_level_of_risk_counts() -> None:
    masks = [[False, False, True], [False, True, True], [False, True, True]]
    assert risk_levels(masks).tolist() == [3, 1, 0]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"areas": ()}, "no column of areas"),
        ({"similar": (("town",),)}, "which is what they exchange"),
        ({"keep": (("twon", "sex"),)}, "Did you mean 'town'"),
        ({"households": [1, 1, 2, 2]}, "lies in two areas of 'town'"),
    ],
)
def test_tasks_that_cannot_be_done(changes: dict[str, Any], said: str) -> None:
    columns = {"town": ["a", "b", "a", "b"], "sex": ["f", "m", "f", "m"]}
    with pytest.raises(RarecellError, match=said):
        plan_area_swaps(AreaSwapTask(**{"columns": columns, "areas": ("town",), **changes}), [0, 0, 0, 0])


def test_a_rate_is_a_share() -> None:
    task = AreaSwapTask({"town": ["a", "b"]}, ("town",))
    with pytest.raises(BadInput, match="between 0 and 1"):
        plan_area_swaps(task, [0, 0], rate=5)
    with pytest.raises(BadInput, match="for 3 records"):
        plan_area_swaps(task, [0, 0, 0])


@settings(max_examples=60, deadline=None)
@given(_files(), st.floats(0.0, 1.0))
def test_everybody_who_moves_is_told_once_with_the_reason(file: dict[str, Any], rate: float) -> None:
    swaps = plan_area_swaps(_task(file), file["risk"], rate=rate, seed=file["seed"])
    n_in_chance_pairs = len(
        {file["unit"][row] for row in np.concatenate([swaps.records, swaps.partners])[np.tile(~swaps.is_risky, 2)]}
    )
    assert swaps.n_by_chance == n_in_chance_pairs
    assert swaps.n_partners >= 0
    assert swaps.n_by_chance >= 0
    assert swaps.n_risky - swaps.n_left + swaps.n_partners + swaps.n_by_chance == swaps.n_swapped
    is_exceeded = swaps.n_swapped > round(rate * swaps.n_units) + 1 and rate > 0.0
    is_missed = swaps.n_swapped < round(rate * swaps.n_units) - 1
    assert ("exceeded" in (swaps.warning or "")) == is_exceeded
    assert ("not reached" in (swaps.warning or "")) == is_missed


@settings(max_examples=100, deadline=None)
@given(_files(), st.integers(0, 2**32 - 1))
def test_partners_are_alike_and_nobody_untouched_moves(file: dict[str, Any], seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns, unit = {**file["columns"], "weight": rng.integers(0, 2, len(file["unit"]))}, file["unit"]
    untouched = rng.random(len(unit)) < 0.2
    task = AreaSwapTask(
        columns, AREAS, file["similar"], file["keep"], households=file["households"], alike=("weight",), untouched=untouched
    )
    swaps = plan_area_swaps(task, file["risk"], rate=file["rate"], seed=file["seed"])
    assert (columns["weight"][swaps.records] == columns["weight"][swaps.partners]).all()
    moved = unit[np.concatenate([swaps.records, swaps.partners])]
    assert not set(moved.tolist()) & set(unit[untouched].tolist())
    assert swaps.n_swapped == len(np.unique(moved))

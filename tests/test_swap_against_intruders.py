"""Plans against an intruder who looks nearby: of records and of households, and whatever the user wants to stay."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell.datasets import census_population, census_sample
from rarecell.intruder.nearest import moved_links, nearest_links
from rarecell.intruder.register import Register
from rarecell.release.release import Release
from rarecell.run.demo import _population
from rarecell.swap.apply import compare_margins
from rarecell.swap.households import plan_household_swaps
from rarecell.swap.plan import SwapPlan, plan_task
from rarecell.swap.rules import SwapConstraints
from rarecell.swap.task import LINK_WEIGHT, SwapTask
from tests.strategies_swap import decomposable_cases
from tests.test_swap_plan import census_risk

HOUSEHOLD = census_sample()["household"].to_numpy()
EDUCATION = census_sample()["education"].to_numpy()


@cache
def everybody() -> Register:
    return Register.counted(_population(census_population(), census_risk()[0]))


def found_nearby(plan: SwapPlan) -> float:
    """Swapped records that an intruder with the true register finds."""
    return nearest_links(plan.release, everybody()).of_moved


def tried(weight: float, *, households: bool = False, **wishes: Any) -> SwapPlan:
    table, model, risk = census_risk()
    task = SwapTask(
        table,
        model,
        risk=risk,
        register=Register.modelled(risk, model),
        link_weight=weight,
        columns={"education": EDUCATION},
        **wishes,
    )
    records = risk.above(0.2)
    return plan_household_swaps(task, households=HOUSEHOLD, records=records) if households else plan_task(task, records)


@pytest.mark.parametrize(
    "wishes",
    [
        {"keep": [("sex", "age")]},
        {"keep": [("education", "sex")]},
        {"constraints": SwapConstraints(within=("education",))},
        {"constraints": SwapConstraints(never_swap=("citizenship",))},
        {"households": True},
        {"households": True, "constraints": SwapConstraints(never_swap=("citizenship",))},
    ],
    ids=["keep keys", "keep a column", "within", "never swap", "households", "households, never swap"],
)
def test_whatever_must_stay_an_intruder_who_looks_nearby_finds_few(wishes: dict[str, Any]) -> None:
    near, safe = tried(0.0, **wishes), tried(LINK_WEIGHT, **wishes)
    before, after = found_nearby(near), found_nearby(safe)
    assert before > 20
    assert after < 0.12 * before
    assert after < 0.02 * float(nearest_links(Release.unchanged(safe.table), everybody()).total)
    assert safe.n_protected >= 0.97 * near.n_protected
    assert all(check.is_identical for check in compare_margins(safe))
    rules = wishes.get("constraints", SwapConstraints())
    assert not any(safe.moves(key).any() for key in rules.never_swap)
    if rules.within:
        assert (EDUCATION[safe.rows] == EDUCATION[safe.sources]).all()


def household_plan(model: rc.DecomposableModel, seed: int, **wishes: Any) -> tuple[SwapPlan, np.ndarray]:
    table, rng = model.table, np.random.default_rng(seed)
    assert table.record_cell is not None
    n_records = len(table.record_cell)
    household = rng.integers(0, max(1, n_records // 2), n_records)
    records = np.flatnonzero(rng.random(n_records) < 0.2)
    return plan_household_swaps(SwapTask(table, model, seed=1, **wishes), households=household, records=records), household


@settings(max_examples=30, deadline=None)
@given(decomposable_cases(max_records=60), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.5, 2.0]))
def test_every_household_swaps_once_and_whole_with_decoys_or_without(
    model: rc.DecomposableModel, seed: int, decoys: float
) -> None:
    plan, household = household_plan(model, seed, decoys=decoys)
    assert len(set(plan.rows.tolist())) == len(plan.rows)
    partner: dict[int, int] = {}
    for one, other in zip(household[plan.records].tolist(), household[plan.partners].tolist(), strict=True):
        assert partner.setdefault(one, other) == other
        assert partner.setdefault(other, one) == one
        assert (household == one).sum() == (household == other).sum()
    assert all(check.is_identical for check in compare_margins(plan))
    asked = set(household[plan.requested].tolist())
    further = [pair for pair in set(map(frozenset, partner.items())) if not pair & asked]
    # A household that somebody asked for takes a partner that nobody did; pairs without either are decoys.
    assert len(further) <= round(decoys * len(asked))
    if decoys == 0.0:
        assert not further


@settings(max_examples=30, deadline=None)
@given(decomposable_cases(max_records=60), st.integers(0, 2**32 - 1))
def test_what_a_household_plan_expects_is_no_better_than_the_truth(model: rc.DecomposableModel, seed: int) -> None:
    """With everybody known, the links that a plan counts for its pairs are at least those that are made."""
    table, rng = model.table, np.random.default_rng(seed)
    codes = np.concatenate(
        [
            np.repeat(table.cells, table.counts, axis=0),
            np.stack([rng.integers(0, c.n_levels, 30) for c in table.categories], axis=1),
        ]
    )
    register = Register.counted(rc.ContingencyTable.from_codes(codes.astype(np.int32), table.categories))
    plan, _ = household_plan(model, seed, register=register)
    release = plan.release
    made = moved_links(release, register).highest.sum()
    counted = (plan.cost - plan.distance).sum() / LINK_WEIGHT
    assert made <= counted + 1e-9


def test_household_decoys_of_the_census_sample() -> None:
    table, model, risk = census_risk()
    records = risk.riskiest(60)
    plain, hidden, other = (
        plan_household_swaps(SwapTask(table, model, risk=risk, decoys=decoys, seed=seed), households=HOUSEHOLD, records=records)
        for decoys, seed in ((0.0, 0), (0.5, 0), (0.5, 9))
    )
    n_asked = len(np.unique(HOUSEHOLD[records]))
    moved = [len(np.unique(HOUSEHOLD[plan.rows])) for plan in (plain, hidden)]
    assert 0.8 * n_asked <= moved[1] - moved[0] <= n_asked + 1
    assert hidden.n_protected == plain.n_protected
    assert other.rows.tolist() != hidden.rows.tolist()

"""Targets against somebody who knows that a person is in the file, and rows matched one to one."""

from __future__ import annotations

from itertools import permutations
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

import rarecell as rc
from rarecell import datasets
from rarecell._kernels.matching import assign
from rarecell.errors import BadInput
from rarecell.intruder.assignment import assignment_links
from rarecell.intruder.participant import participant_links, tried_participants
from rarecell.intruder.register import Persons
from rarecell.release.release import Release
from rarecell.swap.target import Participants, SwapTarget
from rarecell.table.distance import by_rank
from tests.naive import intruder as naive
from tests.strategies_intruder import Attack, attacks

FEW = settings(max_examples=40, deadline=None)
KEYS = ["sex", "age", "marital"]


@given(attacks(), st.sampled_from([1.0, 3.0, 10.0]))
@FEW
def test_the_nearest_others_beside_every_pair(attack: Attack, weight: float) -> None:
    table = attack.table(attack.register)
    apart = naive.distance_by_rank(attack.categories, weight)
    least, number = Persons(table).nearest(attack.original, by_rank(table, weight).near)
    for point, distance, n in zip(attack.original, least, number, strict=True):
        others = [apart(point, person) for person in attack.register if not np.array_equal(point, person)]
        expected = min(others, default=np.inf)
        assert distance == pytest.approx(expected)
        assert n == sum(abs(one - expected) < 1e-9 for one in others)


@given(attacks())
@FEW
def test_the_highest_probability_is_that_of_the_worst_distance_of_each_person(attack: Attack) -> None:
    release = Release.of_codes(attack.original, attack.released, attack.categories)
    links, highest = tried_participants(release)
    expected = np.zeros(len(attack.original))
    for apart in naive.family(attack.categories, attack.original):
        for row, found in naive.participant_links(attack.original, attack.released, apart).items():
            expected[row] = max(expected[row], found)
    known = links.row >= 0
    assert highest[known].tolist() == pytest.approx(expected[links.row[known]].tolist())
    assert links.total == participant_links(release).total


@given(st.integers(1, 7), st.integers(0, 3), st.integers(0, 2**32 - 1))
@FEW
def test_assignments_cost_as_little_as_any(n_rows: int, n_more: int, seed: int) -> None:
    cost = np.random.default_rng(seed).integers(0, 6, (n_rows, n_rows + n_more)).astype(np.float64)
    column = assign(cost)
    assert len(set(column.tolist())) == n_rows
    rows, best = linear_sum_assignment(cost)
    assert cost[np.arange(n_rows), column].sum() == pytest.approx(cost[rows, best].sum())


@given(attacks(max_records=6), st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_rows_matched_one_to_one_beside_all_permutations(attack: Attack, seed: int) -> None:
    """A cheapest assignment is found, and a person's chance is the mean over the ways to tell equal rows and persons apart."""
    release = Release.of_codes(attack.original, attack.released, attack.categories)
    near = by_rank(release.before, 1.0)
    apart = naive.distance_by_rank(attack.categories, 1.0)
    n = len(attack.original)
    cost = np.array([[apart(one, other) for other in attack.released] for one in attack.original])
    ways = [(sum(cost[i, way[i]] for i in range(n)), way) for way in permutations(range(n))]
    least = min(total for total, _ in ways)
    found = assignment_links(release, family=[near], seed=seed)
    assert found is not None
    # Whoever is alone before and after, and is matched with the own row in every cheapest assignment, is surely found.
    cheapest = [way for total, way in ways if total <= least + 1e-9]
    by_row = dict(zip(found.row.tolist(), found.link.tolist(), strict=True))
    for row, link in by_row.items():
        if row < 0:
            continue
        right = [way[row] == row for way in cheapest]
        if not any(right):
            assert link == 0.0
        if all(right):
            assert link == 1.0


def test_nothing_done_is_found_by_everybody() -> None:
    codes = np.array([[0, 0], [1, 1], [0, 1], [0, 1]], dtype=np.int32)
    categories = (rc.Categories("a", (0, 1), False), rc.Categories("b", (0, 1), False))
    found = assignment_links(Release.of_codes(codes, codes, categories))
    assert found is not None
    assert found.total == 2.0


def _found(done: rc.Protection, name: str) -> float:
    one = done.summary.swap.intruder(name)
    assert one is not None
    return one.after


@pytest.mark.parametrize("word", ["participant", "prosecutor"])
def test_a_target_against_participants_is_reached(word: str) -> None:
    sample = datasets.census_sample()
    done = rc.protect(sample, keys=KEYS, population=277_677, max_correct_links=25, against=word)
    target = done.summary.swap.target
    assert target is not None
    assert target.met
    assert _found(done, "participant") <= 25
    assert done.summary.swap.margins_identical
    # The number that was planned for is the one that an attack on the written file finds.
    attacked = rc.attack(done.frame, original=sample, keys=KEYS, population=277_677)
    counted = next(one for one in attacked.summary.intruders if one.name == "participant")
    assert counted.after == pytest.approx(_found(done, "participant"))


def test_a_file_that_is_the_population_is_protected_against_participants() -> None:
    sample = datasets.census_sample().slice(0, 3_000)
    wishes = {"keys": KEYS, "max_correct_links": 15, "population": 3_000}
    by_number = rc.protect(sample, **wishes)
    by_register = rc.protect(sample, register=sample, **wishes)
    for done in (by_number, by_register):
        assert "known to be in the file" in done.summary.swap.target.sentence
        assert _found(done, "assignment") >= 0.0
        before = done.summary.swap.intruder("assignment").before
        assert before == done.summary.swap.intruder("participant").before
    assert rc.protect(sample, **{**wishes, "population": 90_000}).summary.swap.intruder("assignment") is None
    nearest = rc.protect(sample, against="nearest", **wishes)
    assert "known to be in the file" not in nearest.summary.swap.target.sentence


def test_what_cannot_be_asked_against_participants_is_said() -> None:
    sample = datasets.census_sample()
    with pytest.raises(BadInput, match="says whom a target is meant against"):
        rc.protect(sample, keys=KEYS, population=277_677, top=3, against="participant")
    with pytest.raises(BadInput, match="needs none"):
        rc.protect(sample, keys=KEYS, population=277_677, max_population_uniques=3, against="participant")
    scenario = {"neighbour": {"keys": ["sex", "age"]}}
    with pytest.raises(BadInput, match="Leave out the scenarios"):
        rc.protect(sample, keys=KEYS, population=277_677, max_correct_links=3, against="participant", scenario=scenario)
    impossible = rc.protect(sample.slice(0, 500), keys=KEYS, population=277_677, max_record_risk=0.0, against="participant")
    assert not impossible.summary.swap.target.met
    assert "out of reach" in impossible.summary.swap.target.sentence


def test_a_target_is_met_at_its_limits_and_not_beyond() -> None:
    target = SwapTarget(max_population_uniques=2.0, max_correct_links=5.0, max_record_risk=0.2)
    assert target.is_met_by(2.0, 5.0, 0.2)
    for beyond in ((2.1, 5.0, 0.2), (2.0, 5.1, 0.2), (2.0, 5.0, 0.21)):
        assert not target.is_met_by(*beyond)
    assert target.in_words(9.0, 8.0, 0.7) == "9 expected population uniques, 8 expected correct links and a highest risk of 0.700"


@pytest.mark.parametrize(
    ("limits", "total", "highest", "holds"),
    [
        ({"max_correct_links": 5.0}, 5.0, 1.0, True),
        ({"max_correct_links": 5.0}, 5.5, 0.0, False),
        ({"max_record_risk": 0.5}, 99.0, 0.5, True),
        ({"max_record_risk": 0.5}, 0.0, 0.51, False),
        ({"max_correct_links": 5.0, "max_record_risk": 0.5}, 5.0, 0.51, False),
        ({"max_correct_links": 5.0, "max_record_risk": 0.5}, 5.5, 0.5, False),
    ],
)
def test_a_target_against_participants_limits_persons_and_probabilities(
    limits: dict[str, float], total: float, highest: float, holds: bool
) -> None:
    found = cast(Participants, SimpleNamespace(links=SimpleNamespace(total=total), highest=highest))
    assert SwapTarget(**limits, against="participant").holds_for(found) is holds

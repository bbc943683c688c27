"""What is found by an intruder who has the program and the register?

Such an intruder protects files of their own with the same options and learns from them what becomes of whom. A released row may be
that of somebody with the same values, or of anybody who differs from it on a set of keys that the program moves together. How
likely each of these suspects is depends on

- which keys moved, and how far;
- how many people live in the suspect's cell, and how many rows of the released file are still there;
- whether the released file holds a mate: a row with the values that the suspect would have given away, and equal to the released
  row where giver and receiver agree; whether undoing the exchange takes that mate to a cell where people live; and whether
  nobody lives where it is now (:mod:`rarecell._kernels.shadow`).

These are the features of a conditional logit, P(suspect) ∝ n·exp(Σ β): a probability for each suspect given everybody who could have
become this row, which is calibrated on what it was fitted to. The intruder links to the person with the largest probability and
knows how sure the link is.

The office knows its own moves. Fitted to these, without a shadow run, β is what an intruder could at best have learned from runs of
their own, and the links are an upper bound (:func:`shadow_links`). :func:`learned` fits it to shadow runs instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels import shadow as kernels
from rarecell._kernels.hashing import HashedCells, fill_slots, free_slots, hash_rows, mixed_many
from rarecell._kernels.shadow import Alike, Choices, MoveKind, Places, Suspects
from rarecell.intruder.informed import differing
from rarecell.intruder.links import Links, Sure
from rarecell.intruder.nearest import exact_links, model_error
from rarecell.intruder.register import CLASSES, Register
from rarecell.machine.threads import on_all_cores
from rarecell.release.release import Claims, Release
from rarecell.table.contingency import ContingencyTable

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Cells = NDArray[np.int32]

SURE = (0.5, 0.8, 0.95)
"""Certainties above which links are counted."""

N_REGISTERS = 2
"""Number of registers that are drawn if there is no real one."""

MOST_CLAIMS = 800
"""If there are more claims than this about records that moved, or that stayed, a random part of them represents all."""

OFF_BY = (0.6, 1.25)
"""Lowest and highest ratio of the links in known populations to those expected from the model, chance aside.

Whether a moved record is found depends on who lives around it, which the model knows worst where nobody was sampled; and what an
intruder learns from shadow runs is less than the most that could be learned."""

MOST_KINDS = 48
"""Number of sets of keys that are considered, the most frequent ones."""

ALIKE = 0.98
"""Giver and receiver agree on a key if they do so in this share of the moves."""

RIDGE = 0.5
"""Weight of the squares of β, which keeps features that never occur at 0."""

MOST_STEPS = 30
"""Largest number of steps of Newton's method."""

_TIED = 1e-9


@dataclass(frozen=True, eq=False)
class Moves:
    """The sets of keys that a program moves together, and the keys on which giver and receiver agree, as bit masks."""

    moved: NDArray[np.uint64]
    agreed: NDArray[np.uint64]

    @classmethod
    def of(cls, releases: Sequence[Release], most_kinds: int = MOST_KINDS) -> Moves:
        """The moves that occur in some releases, at most so many kinds."""
        each = [differing(release.true, release.released) for release in releases]
        masks, number = np.unique(np.concatenate(each), return_counts=True)
        number[masks == 0] = 0
        frequent = np.sort(np.argsort(-number, kind="stable")[: min(most_kinds, int((number > 0).sum()))])
        agreed = [_agreed(releases, each, int(mask)) for mask in masks[frequent].tolist()]
        return cls(masks[frequent], np.array(agreed, dtype=np.uint64))


def _agreed(releases: Sequence[Release], masks: Sequence[NDArray[np.uint64]], mask: int) -> int:
    """The keys outside ``mask`` on which those who give these keys agree with those who receive them."""
    if not all(release.taken for release in releases):
        return _agreed_as_guessed(releases, masks, mask)
    n_alike: NDArray[np.int64] | int = 0
    n_moves = 0
    for release, of_release in zip(releases, masks, strict=True):
        rows = np.flatnonzero(of_release == np.uint64(mask))
        first = next(k for k in range(release.before.n_keys) if mask >> k & 1)
        giver = release.taken[release.before.keys[first]][rows]
        n_alike = n_alike + (release.true[rows] == release.true[giver]).sum(axis=0)
        n_moves += len(rows)
    alike = np.asarray(n_alike) >= ALIKE * n_moves
    return sum(1 << k for k in np.flatnonzero(alike).tolist() if not mask >> k & 1)


def _agreed_as_guessed(releases: Sequence[Release], masks: Sequence[NDArray[np.uint64]], mask: int) -> int:
    """The same where two files were compared, and nobody knows who gave what.

    If values were exchanged, some changed record had, before, the values that a record received, and agrees with it elsewhere. From all
    keys outside ``mask``, the one is left out, again and again, without which most records find such a giver, until nearly all do.
    """
    n_keys = releases[0].before.n_keys
    agreed, n_moves = [k for k in range(n_keys) if not mask >> k & 1], 0
    # The hash of a set of keys is the sum of those of its keys, so what a key adds is taken off again where it is left out.
    received, given = list[NDArray[np.uint64]](), list[NDArray[np.uint64]]()
    for release, of_release in zip(releases, masks, strict=True):
        rows = of_release == np.uint64(mask)
        received.append(np.stack([mixed_many(release.released[rows, k].astype(np.int64), k) for k in range(n_keys)]))
        given.append(np.stack([mixed_many(release.true[:, k].astype(np.int64), k) for k in range(n_keys)]))
        n_moves += int(rows.sum())
    everywhere = [(of_received.sum(axis=0), of_given.sum(axis=0)) for of_received, of_given in zip(received, given, strict=True)]

    def n_with_giver(left_out: int | None = None) -> int:
        n_found = 0
        for sums, *parts in zip(everywhere, received, given, strict=True):
            taken, offered = sums if left_out is None else (of - part[left_out] for of, part in zip(sums, parts, strict=True))
            n_found += int(np.isin(taken, offered).sum())
        return n_found

    while agreed and n_with_giver() < ALIKE * n_moves:
        left_out = max(agreed, key=n_with_giver)
        agreed.remove(left_out)
        everywhere = [
            (taken - parts[left_out], offered - of_given[left_out])
            for (taken, offered), parts, of_given in zip(everywhere, received, given, strict=True)
        ]
    return sum(1 << k for k in agreed)


@dataclass(frozen=True, eq=False)
class Learned:
    """What an intruder knows about a program: the moves it makes, and how likely each kind is.

    Attributes
    ----------
    moves : Moves
        Sets of keys that move together.
    beta : ndarray
        Weights of the features.
    believed, right : ndarray
        The share of right links, which only rises, against the probability of the person chosen.
    """

    moves: Moves
    beta: Floats
    believed: Floats
    right: Floats

    def certainty(self, believed: Floats) -> Floats:
        """How sure a link is whose person has this probability."""
        place = np.searchsorted(self.believed, believed, side="right") - 1
        return np.where(place >= 0, self.right[place], 0.0)


# ---------------------------------------------------------------------- suspects and their features


def _hashed_places(table: ContingencyTable) -> Places:
    codes = np.ascontiguousarray(table.cells)
    cells = HashedCells.of(codes, table.counts, [c.n_levels for c in table.categories])
    return Places(codes, cells.counts, cells.hashed, cells.slots, cells.mixing, cells.start)


def _keys_in(mask: int, n_keys: int) -> Integers:
    return np.array([k for k in range(n_keys) if mask >> k & 1], dtype=np.int64)


def _kind(file: Places, moved: Integers, agreed: Integers) -> MoveKind:
    part = np.empty(len(file.hashed), dtype=np.uint64)
    kernels.partial_hashes(file, np.concatenate([moved, agreed]), part)
    order = np.argsort(part, kind="stable").astype(np.int64)
    slots = free_slots(len(part), np.int64)
    fill_slots(part[order], slots)
    return MoveKind(moved, agreed, part[order], order, slots)


def _alike(people: Places, file: Places, stays: Integers, moved: Integers, claims: Cells) -> Alike:
    """The people who agree with some claim on the keys that stay; nobody else is looked at again."""
    rest = hash_rows(np.ascontiguousarray(claims[:, stays]), people.mixing, people.start[stays])
    groups, of_claim = np.unique(rest, return_inverse=True)
    slots, group = free_slots(len(groups), np.int64), np.empty(len(people.hashed), dtype=np.int64)
    fill_slots(groups, slots)
    kernels.find_groups(people, stays, groups, slots, group)
    chosen = np.flatnonzero(group >= 0)
    of_cell: NDArray[np.integer[Any]] = group[chosen]
    if len(groups) < 2**16:
        # Small numbers are sorted by counting them.
        of_cell = of_cell.astype(np.uint16)
    order = chosen[np.argsort(of_cell, kind="stable")]
    start = np.concatenate([[0], np.cumsum(np.bincount(of_cell, minlength=len(groups)))]).astype(np.int64)
    codes, hashed = np.empty((len(moved), len(order)), dtype=np.int32), np.empty(len(order), dtype=np.uint64)
    numbers = (np.empty(len(order), dtype=np.int64) for _ in range(2))
    alike = Alike(of_claim.astype(np.int64), start, codes, hashed, *numbers)
    kernels.gather(people, file, moved, order, alike)
    return alike


def suspects_of(people: Places, file: Places, claims: Claims, moved: int, agreed: int, spread: Floats) -> Suspects:
    """The people who could have become each claim's row by moving this set of keys, with what is known of them."""
    released, true = (np.ascontiguousarray(cells) for cells in (claims.released, claims.true))
    hashed, true_hashed = (hash_rows(cells, people.mixing, people.start) for cells in (released, true))
    n_keys = released.shape[1]
    of_moved, of_agreed, stays = (_keys_in(mask, n_keys) for mask in (moved, agreed, ~moved))
    alike, kind = _alike(people, file, stays, of_moved, released), _kind(file, of_moved, of_agreed)
    n = int(np.minimum(np.diff(alike.start)[alike.group], kernels.N_FEATURES).sum())
    owner, features, of_people = (np.empty(n, dtype=np.int64) for _ in range(3))
    room = Suspects(owner, features, of_people, np.empty(n, dtype=bool))
    lived_in = _counts_at(people, file.hashed)
    n = kernels.list_suspects(people, file, lived_in, kind, alike, released, hashed, true_hashed, spread, room)
    return Suspects(owner[:n], features[:n], of_people[:n], room.is_truth[:n])


_SIZES = (kernels.N_CLASSES, kernels.N_LEFT, kernels.N_STEPS, *[kernels.N_MATES] * 3)
_MOVED = 1 + kernels.N_CLASSES
N_FIXED = _MOVED + sum(_SIZES)
"""Number of places in β beside the sets of keys: nobody listed; people with the same values, by class; then, for people who moved, those of
their cell, rows left in it, how far, mates, homes and orphans."""


def _columns(suspects: Suspects, number: int) -> NDArray[np.int16]:
    """Places in β of suspects who moved by the set of keys with this number."""
    start = _MOVED + np.cumsum([0, *_SIZES[:-1]])
    parts = [first + part for first, part in zip(start.tolist(), kernels.features_of(suspects.features), strict=True)]
    return np.stack([np.full(len(suspects.owner), N_FIXED + number), *parts], axis=1).astype(np.int16)


def _counts_at(places: Places, hashed: NDArray[np.uint64]) -> Integers:
    counts = np.zeros(len(hashed), dtype=np.int64)
    kernels.counts_at(places, hashed, counts)
    return counts


@dataclass(frozen=True, eq=False)
class Tried:
    """Claims with everybody who could have become their row."""

    choices: Choices
    is_person: NDArray[np.bool_]


def _tried(claims: Claims, weight: Floats, people: Places, file: Places, moves: Moves, spread: Floats) -> Tried:
    """List the suspects of each claim: nobody listed, people with the same values, and people who moved."""
    n = len(claims)
    true_hash, own_hash = (
        hash_rows(np.ascontiguousarray(cells), people.mixing, people.start) for cells in (claims.true, claims.released)
    )
    n_same = _counts_at(people, own_hash)
    same = np.flatnonzero(n_same > 0)
    owner, number, is_truth = (
        [np.arange(n), same],
        [np.ones(n), n_same[same]],
        [np.zeros(n, dtype=bool), (own_hash == true_hash)[same]],
    )
    features = [_alone(np.zeros(n)), _alone(1 + np.searchsorted(CLASSES, n_same[same]))]
    kinds = zip(moves.moved.tolist(), moves.agreed.tolist(), strict=True)
    each = on_all_cores(suspects_of, [(people, file, claims, moved, agreed, spread) for moved, agreed in kinds])
    for kind, suspects in enumerate(each):
        owner.append(suspects.owner)
        number.append(suspects.people)
        is_truth.append(suspects.is_truth)
        features.append(_columns(suspects, kind))
    order = np.argsort(np.concatenate(owner), kind="stable")
    of_claim, truths = np.concatenate(owner)[order], np.concatenate(is_truth)[order]
    first = np.searchsorted(of_claim, np.arange(n))
    # If the truth is not among the suspects, it is nobody listed, who comes first.
    truth, is_person = first.copy(), np.ones(len(order), dtype=bool)
    truth[of_claim[truths]] = np.flatnonzero(truths)
    is_person[first] = False
    end = np.searchsorted(of_claim, np.arange(n), side="right")
    choices = Choices(
        end, np.concatenate(features)[order], np.log(np.concatenate(number)[order].astype(np.float64)), truth, weight
    )
    return Tried(choices, is_person)


def _alone(feature: NDArray[np.generic]) -> NDArray[np.int16]:
    columns = np.full((len(feature), 1 + len(_SIZES)), -1, dtype=np.int16)
    columns[:, 0] = feature
    return columns


# ---------------------------------------------------------------------- fitting


def fitted(choices: Sequence[Choices], n_features: int) -> Floats:
    """β of the conditional logit by Newton's method, steps halved until the penalised likelihood rises."""
    beta = np.zeros(n_features)
    probability = [np.empty(len(part.log_people)) for part in choices]

    def value(at: Floats) -> float:
        likelihood = sum(kernels.probabilities(part, at, p) for part, p in zip(choices, probability, strict=True))
        return float(likelihood - 0.5 * RIDGE * at @ at)

    now = value(beta)
    for _ in range(MOST_STEPS):
        gradient, curvature = -RIDGE * beta, RIDGE * np.eye(n_features)
        for part, p in zip(choices, probability, strict=True):
            kernels.slope(part, p, gradient, curvature)
        step = np.linalg.solve(curvature, gradient)
        length = 1.0
        while (then := value(beta + length * step)) < now - 1e-9 and length > 1e-4:
            length *= 0.5
        if then <= now + 1e-7:
            value(beta)
            break
        beta, now = beta + length * step, then
    return beta


def rising(value: Floats, weight: Floats) -> Floats:
    """The non-decreasing sequence nearest to ``value`` by weighted squares: neighbours that fall are pooled (Ayer and others 1955)."""
    blocks: list[list[float]] = []
    for mean, its_weight in zip(value.tolist(), weight.tolist(), strict=True):
        blocks.append([mean * its_weight, its_weight, 1])
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] >= blocks[-1][0] * blocks[-2][1]:
            last = blocks.pop()
            blocks[-1] = [a + b for a, b in zip(blocks[-1], last, strict=True)]
    return np.repeat([total / mass for total, mass, _ in blocks], [int(length) for *_, length in blocks])


# ---------------------------------------------------------------------- links


@dataclass(frozen=True, eq=False)
class Case:
    """The claims about a release, those that are tried, and how many each of these stands for."""

    release: Release
    claims: Claims
    tried: Integers
    weight: Floats
    is_moved: NDArray[np.bool_]

    @classmethod
    def of(cls, release: Release, most_claims: int = MOST_CLAIMS) -> Case:
        cells = release.before.cells[release.unmoved_cells]
        stayed, moved = Claims(release.unmoved_rows(), cells, cells), release.moved_claims
        tried, weight = [], []
        for part, first in ((stayed, 0), (moved, len(stayed))):
            chosen = np.arange(len(part))
            if len(part) > most_claims:
                chosen = np.sort(np.random.default_rng(first > 0).choice(chosen, most_claims, replace=False))
            tried.append(first + chosen)
            weight.append(np.full(len(chosen), len(part) / max(len(chosen), 1)))
        claims = Claims(
            np.concatenate([stayed.row, moved.row]),
            np.concatenate([stayed.true, moved.true]),
            np.concatenate([stayed.released, moved.released]),
        )
        is_moved = np.arange(len(claims)) >= len(stayed)
        return cls(release, claims, np.concatenate(tried), np.concatenate(weight), is_moved)

    def suspects(self, register: ContingencyTable, moves: Moves) -> Tried:
        people, file = _hashed_places(register), _hashed_places(self.release.after)
        spread = np.array([c.n_levels - 1.0 if c.is_ordered and c.n_levels > 1 else np.inf for c in register.categories])
        return _tried(self.claims.part(self.tried), self.weight, people, file, moves, spread)

    def for_all(self, of_tried: Floats) -> Floats:
        """A number for each claim; those not tried are given the mean of those of their kind that were."""
        of_claims = np.zeros(len(self.claims))
        for is_moved in (False, True):
            same = self.is_moved[self.tried] == is_moved
            of_claims[self.is_moved == is_moved] = of_tried[same].mean() if same.any() else 0.0
        of_claims[self.tried] = of_tried
        return of_claims


def _guessed(tried: Tried, beta: Floats) -> tuple[Floats, Floats]:
    """For each claim, the probability that its link is right, and the one that the model gives to the person chosen."""
    probability = np.empty(len(tried.is_person))
    kernels.probabilities(tried.choices, beta, probability)
    believed, link = np.zeros(len(tried.choices.end)), np.zeros(len(tried.choices.end))
    kernels.best_guesses(tried.choices, probability, tried.is_person, _TIED, believed, link)
    return link, believed


def _learned(moves: Moves, each: Sequence[Tried]) -> Learned:
    beta = fitted([tried.choices for tried in each], N_FIXED + len(moves.moved))
    guessed = [_guessed(tried, beta) for tried in each]
    link, believed = (np.concatenate(parts) for parts in zip(*guessed, strict=True))
    weight = np.concatenate([tried.choices.weight for tried in each])
    # Links that are believed alike are right alike.
    values, which = np.unique(np.round(believed, 9), return_inverse=True)
    mass = np.asarray(np.bincount(which, weight), dtype=np.float64)
    return Learned(moves, beta, values, rising(np.bincount(which, weight * link) / mass, mass))


def learned(runs: Sequence[tuple[Release, ContingencyTable]]) -> Learned:
    """What can be learned from releases of one's own, each with the register its people are from."""
    moves = Moves.of([release for release, _ in runs])
    return _learned(moves, [Case.of(release).suspects(people, moves) for release, people in runs])


def registers_held(register: Register, n_registers: int = N_REGISTERS) -> tuple[ContingencyTable, ...]:
    """The registers that an intruder holds in turn: the real one, or some that the model considers possible.

    They do not depend on the release, so whoever compares several releases draws them once.
    """
    if register.is_real:
        return (register.known.table,)
    return tuple(register.drawn_people(draw, n_registers) for draw in range(n_registers))


def shadow_links(
    release: Release,
    register: Register,
    *,
    knows: Learned | None = None,
    n_registers: int = N_REGISTERS,
    most_claims: int = MOST_CLAIMS,
    most_kinds: int = MOST_KINDS,
    held: Sequence[ContingencyTable] | None = None,
) -> Links:
    """Links to the most likely person, for records that are alone in their cell of the released file.

    Parameters
    ----------
    release : Release
        The original and the released file.
    register : Register
        The people the intruder knows. Where not everybody is known, ``n_registers`` are drawn, and the intruder holds each in turn.
    knows : Learned, optional
        What was learned from shadow runs; by default, the most that could be.
    n_registers : int, optional
        Number of registers drawn.
    most_claims : int, optional
        If there are more claims than this about records that moved, or that stayed, a random part of them represents all.
    most_kinds : int, optional
        Number of sets of keys that are considered, the most frequent ones; whoever moved another set is not found.
    held : sequence of ContingencyTable, optional
        The :func:`registers_held`, if already drawn.
    """
    if not len(release.rows):
        exact = exact_links(release, register)
        return Links(
            "shadow",
            exact.row,
            exact.link,
            exact.certain,
            exact.moved,
            exact.interval,
            certainty=exact.link,
            sure=_sure(exact.link, exact.link, np.ones(len(exact.link))),
        )
    # One register can be held against more claims than several.
    case, moves = (
        Case.of(release, most_claims * (1 + register.is_real)),
        Moves.of([release], most_kinds) if knows is None else knows.moves,
    )

    def held_against(people: ContingencyTable) -> tuple[Floats, Floats, tuple[Sure, ...]]:
        tried = case.suspects(people, moves)
        mind = _learned(moves, [tried]) if knows is None else knows
        right, believed = _guessed(tried, mind.beta)
        certain = mind.certainty(np.round(believed, 9))
        return right, certain, _sure(certain, right, case.weight)

    each = on_all_cores(held_against, [(people,) for people in (registers_held(register, n_registers) if held is None else held)])
    link, certainty, sure = zip(*each, strict=True)
    n = len(case.claims)
    mean_link, of_claims = case.for_all(np.mean(link, axis=0)), np.zeros(n)
    of_claims[case.tried] = np.mean(certainty, axis=0)
    return Links(
        "shadow",
        case.claims.row,
        mean_link,
        np.zeros(n),
        case.is_moved,
        _interval(link, case, register),
        certainty=of_claims,
        sure=tuple(
            Sure(
                above,
                float(np.mean([sure_links.claimed for sure_links in parts])),
                float(np.mean([sure_links.right for sure_links in parts])),
            )
            for above, parts in zip(SURE, zip(*sure, strict=True), strict=True)
        ),
    )


def _sure(certainty: Floats, link: Floats, weight: Floats) -> tuple[Sure, ...]:
    return tuple(
        Sure(above, float(weight[certainty > above].sum()), float((weight * link)[certainty > above].sum())) for above in SURE
    )


def _interval(by_register: Sequence[Floats], case: Case, register: Register) -> tuple[float, float]:
    """95 % interval of the right claims: chance, claims not tried, registers drawn, the model's error, and how far moved records are off."""
    link = np.mean(by_register, axis=0)
    totals = np.array([case.weight @ of_register for of_register in by_register])
    total, of_moved = float(totals.mean()), float((case.weight * link)[case.is_moved[case.tried]].sum())
    # A claim stands for others like it, of which a random part was tried.
    variance = float(((case.weight**2 - case.weight) * link * (1.0 - link)).sum())
    low, high = total, total
    if not register.is_real:
        error = model_error(case.release, register)
        variance += total + float(totals.var()) + (error.spread * total) ** 2
        low, high = (total + (ratio - 1.0) * of_moved for ratio in OFF_BY)
        high += error.understated * total
    spread = 1.96 * float(np.sqrt(variance))
    return max(0.0, low - spread), min(high + spread, float(len(case.claims)))

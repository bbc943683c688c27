"""Who could have become a released record, and does the file hold the row with which values were exchanged?

A person in cell c can have become the released row r if the two differ on a set of keys D that a protection moves. Then somebody
else received the values c_D. If giver and receiver agree on the keys S, a row m of the released file with m_D = c_D and m_S = r_S is a
possible mate; undoing the exchange gives m the values r_D, and the more convincing if people live in that cell, or if nobody lives
in the cell that m is in now.

A cell's hash is a sum of random numbers, one for each level of each key (:func:`rarecell._kernels.hashing.hash_rows`), so the hash
of some of the keys, or of a row after an exchange, follows with one step for each key.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.compiled import njit
from rarecell._kernels.distance import borrowing
from rarecell._kernels.hashing import slot_of_position

MOST_MATES = 12
"""Number of possible mates that are looked at; more say no more."""


class Places(NamedTuple):
    """Cells with the number of people or rows in each, and a hash table of them."""

    codes: NDArray[np.int32]
    counts: NDArray[np.int64]
    hashed: NDArray[np.uint64]
    slots: NDArray[np.int64]
    mixing: NDArray[np.uint64]
    start: NDArray[np.int64]


class MoveKind(NamedTuple):
    """A kind of move: the keys that move (D), those on which giver and receiver agree (S), and the rows of the released file by both.

    ``part`` are the hashes of the rows' values of D and S, sorted, ``part_order`` the rows, and ``slots`` a hash table of ``part``.
    """

    moved: NDArray[np.int64]
    agreed: NDArray[np.int64]
    part: NDArray[np.uint64]
    part_order: NDArray[np.int64]
    slots: NDArray[np.int64]


class Alike(NamedTuple):
    """Cells of people that agree with some claim on every key that does not move, those of a group side by side.

    ``group`` is the group of each claim and ``start`` where each group begins, and the last one ends. Of every cell there are the values
    of the keys that move (``codes``, a row for each of these keys), the hash of all keys, the number of people, and one number for that and
    how many rows of the released file are still there (``standing``).
    """

    group: NDArray[np.int64]
    start: NDArray[np.int64]
    codes: NDArray[np.int32]
    hashed: NDArray[np.uint64]
    people: NDArray[np.int64]
    standing: NDArray[np.int64]


class Suspects(NamedTuple):
    """People who could have become each claim's row, those of a claim with the same features together.

    ``owner`` is the claim, ``features`` one number for what is known of the suspects (:func:`features_of`), ``people`` how many they are,
    and ``is_truth`` whether the claim's own person is among them.
    """

    owner: NDArray[np.int64]
    features: NDArray[np.int64]
    people: NDArray[np.int64]
    is_truth: NDArray[np.bool_]


N_CLASSES, N_LEFT, N_STEPS, N_MATES = 5, 3, 5, 5
"""Number of classes of people in a cell, of rows left there, of distances, and of mates, their homes, and orphans."""

N_FEATURES = N_CLASSES * N_LEFT * N_STEPS * N_MATES**3


def features_of(number: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    """People of the cell, rows left in it, how far, mates, homes and orphans, by class, from the one number of :class:`Suspects`."""
    return np.unravel_index(number, (N_CLASSES, N_LEFT, N_STEPS, N_MATES, N_MATES, N_MATES))


@borrowing
def class_of_people(n):
    """One person, two or three, four to nine, 10 to 99, and more."""
    return 0 if n <= 1 else 1 if n <= 3 else 2 if n <= 9 else 3 if n <= 99 else 4


@borrowing
def _class_of_mates(n):
    """None, one, two or three, four to nine, and more."""
    return 0 if n == 0 else 1 if n == 1 else 2 if n <= 3 else 3 if n <= 9 else 4


@borrowing
def _class_of_steps(apart):
    """No ordered key moved, or by at most 5, 15, 40 % of its range, all keys together, or further."""
    return 0 if apart == 0.0 else 1 if apart <= 0.05 else 2 if apart <= 0.15 else 3 if apart <= 0.4 else 4


@borrowing
def _partly(places, codes, row, keys):
    """Hash of some of the keys of a row."""
    total = np.uint64(0)
    for k in keys:
        total += places.mixing[places.start[k] + codes[row, k]]
    return total


@borrowing
def _people_at(people, hashed):
    position = people.slots[slot_of_position(people.slots, people.hashed, hashed)]
    return np.int64(0) if position < 0 else people.counts[position]


@njit(cache=True, nogil=True)
def counts_at(places, hashed, counts):
    """Number of people or rows in the cell with each hash."""
    for row in range(len(hashed)):
        counts[row] = _people_at(places, hashed[row])


@njit(cache=True, nogil=True)
def partial_hashes(places, keys, hashes):
    """Hash of some of the keys of every cell."""
    for row in range(len(hashes)):
        hashes[row] = _partly(places, places.codes, row, keys)


@njit(cache=True, nogil=True)
def find_groups(places, keys, groups, slots, group):
    """The group of each cell: the place among ``groups`` of the hash of some of its keys; −1 if it is not among them."""
    for row in range(len(group)):
        group[row] = slots[slot_of_position(slots, groups, _partly(places, places.codes, row, keys))]


@njit(cache=True, nogil=True)
def gather(people, file, moved, order, alike):
    """Write what is known of the cells in ``order`` side by side."""
    for place in range(len(order)):
        cell = order[place]
        for k in range(len(moved)):
            alike.codes[k, place] = people.codes[cell, moved[k]]
        n_people, n_rows = people.counts[cell], _people_at(file, people.hashed[cell])
        left = 0 if n_rows == 0 else 1 if n_rows < n_people else 2
        alike.hashed[place], alike.people[place] = people.hashed[cell], n_people
        alike.standing[place] = class_of_people(n_people) * N_LEFT + left


@njit(cache=True, nogil=True)
def list_suspects(people, file, lived_in, kind, alike, claims, hashed, true, spread, suspects):
    """List the people who differ from a claim on exactly the keys that move, with what is known of them; returns the number of entries.

    Claims are given by their codes and the ``hashed`` of all keys, ``true`` is the hash of each claim's true cell, and ``spread`` the range
    of each key, infinite if it has no order. ``lived_in`` is the number of people in the cell of each row of the released file.
    """
    n = 0
    place_of = np.full(N_FEATURES, -1, dtype=np.int64)
    n_moved = len(kind.moved)
    largest = 0
    for group in range(len(alike.start) - 1):
        largest = max(largest, alike.start[group + 1] - alike.start[group])
    n_alike = np.zeros(largest, dtype=np.int32)
    for i in range(len(claims)):
        first = n
        begin = alike.start[alike.group[i]]
        size = alike.start[alike.group[i] + 1] - begin
        own = _partly(people, claims, i, kind.moved)
        agreed = _partly(people, claims, i, kind.agreed)
        rest = hashed[i] - own
        for j in range(size):
            n_alike[j] = 0
        # Key by key, so that several cells are compared at once.
        for k in range(n_moved):
            values, value = alike.codes[k, begin : begin + size], claims[i, kind.moved[k]]
            for j in range(size):
                n_alike[j] += values[j] == value
        for j in range(size):
            if n_alike[j] > 0:
                continue
            place = begin + j
            missing = alike.hashed[place] - rest
            n_mates, n_homes, n_orphans = 0, 0, 0
            at = kind.slots[slot_of_position(kind.slots, kind.part, missing + agreed)]
            while 0 <= at < len(kind.part) and kind.part[at] == missing + agreed and n_mates < MOST_MATES:
                mate = kind.part_order[at]
                at += 1
                n_mates += file.counts[mate]
                if _people_at(people, file.hashed[mate] - missing + own) > 0:
                    n_homes += file.counts[mate]
                    if lived_in[mate] == 0:
                        n_orphans += file.counts[mate]
            apart = 0.0
            for k in range(n_moved):
                if spread[kind.moved[k]] < np.inf:
                    apart += abs(alike.codes[k, place] - claims[i, kind.moved[k]]) / spread[kind.moved[k]]
            features = alike.standing[place] * N_STEPS + _class_of_steps(apart)
            for number in (n_mates, n_homes, n_orphans):
                features = features * N_MATES + _class_of_mates(number)
            if place_of[features] < 0:
                place_of[features] = n
                suspects.owner[n], suspects.features[n], suspects.people[n], suspects.is_truth[n] = i, features, 0, False
                n += 1
            suspects.people[place_of[features]] += alike.people[place]
            if alike.hashed[place] == true[i]:
                suspects.is_truth[place_of[features]] = True
        for entry in range(first, n):
            place_of[suspects.features[entry]] = -1
    return n


# How likely is each suspect?
#
# A conditional logit: among the suspects j of a claim, P(j) ∝ n_j·exp(Σ β over the features of j), where n_j is the number of people
# the suspect stands for. A feature is a place in β; −1 is none.


class Choices(NamedTuple):
    """Suspects of all claims, claim by claim: ``end`` of each claim, features, log of the number of people, place of the truth (or −1)."""

    end: NDArray[np.int64]
    features: NDArray[np.int16]
    log_people: NDArray[np.float64]
    truth: NDArray[np.int64]
    weight: NDArray[np.float64]


@njit(cache=True, nogil=True)
def probabilities(choices, beta, probability):
    """P(j) of every suspect, all people of its cell together; returns the weighted log-likelihood of the truths."""
    total = 0.0
    first = 0
    for i in range(len(choices.end)):
        last = choices.end[i]
        highest = -np.inf
        for j in range(first, last):
            value = choices.log_people[j]
            for g in range(choices.features.shape[1]):
                feature = choices.features[j, g]
                if feature >= 0:
                    value += beta[feature]
            probability[j] = value
            highest = max(highest, value)
        mass = 0.0
        for j in range(first, last):
            probability[j] = np.exp(probability[j] - highest)
            mass += probability[j]
        for j in range(first, last):
            probability[j] /= mass
        if choices.truth[i] >= 0:
            total += choices.weight[i] * np.log(max(probability[choices.truth[i]], 1e-300))
        first = last
    return total


@njit(cache=True, nogil=True)
def slope(choices, probability, gradient, curvature):
    """Gradient and negative second derivative of the log-likelihood: Σ (x_truth − x̄) and Σ (E xxᵀ − x̄x̄ᵀ).

    The second derivative is symmetric, so one side of the diagonal is added up and copied to the other at the end.
    """
    n_features, n_groups = len(gradient), choices.features.shape[1]
    added = np.zeros((n_features, n_features))
    mean, has_mean = np.zeros(n_features), np.empty(n_features, dtype=np.int64)
    first = 0
    for i in range(len(choices.end)):
        last, weight = choices.end[i], choices.weight[i]
        if choices.truth[i] >= 0:
            mean[:] = 0.0
            for j in range(first, last):
                p = probability[j]
                for g in range(n_groups):
                    a = choices.features[j, g]
                    if a < 0:
                        continue
                    mean[a] += p
                    for h in range(g + 1):
                        b = choices.features[j, h]
                        if b >= 0:
                            # A place that stands in two groups meets itself from both sides.
                            added[max(a, b), min(a, b)] += 2.0 * weight * p if a == b and h < g else weight * p
            for g in range(n_groups):
                a = choices.features[choices.truth[i], g]
                if a >= 0:
                    gradient[a] += weight
            n_with = 0
            for a in range(n_features):
                if mean[a] != 0.0:
                    gradient[a] -= weight * mean[a]
                    has_mean[n_with] = a
                    n_with += 1
                    for place in range(n_with):
                        b = has_mean[place]
                        added[a, b] -= weight * mean[a] * mean[b]
        first = last
    for a in range(n_features):
        curvature[a, a] += added[a, a]
        for b in range(a):
            curvature[a, b] += added[a, b]
            curvature[b, a] += added[a, b]


@njit(cache=True, nogil=True)
def best_guesses(choices, probability, is_person, tolerance, certainty, link):
    """Link each claim to the most likely single person, one of several equally likely ones at random.

    Entries hold people with the same features, who are equally likely. ``is_person`` is False for the suspect that stands for "nobody listed". ``certainty`` is the probability of the person chosen,
    ``link`` the probability that the guess is right.
    """
    first = 0
    for i in range(len(choices.end)):
        last = choices.end[i]
        highest = 0.0
        for j in range(first, last):
            if is_person[j]:
                highest = max(highest, probability[j] * np.exp(-choices.log_people[j]))
        n_tied = 0.0
        is_in = False
        for j in range(first, last):
            if is_person[j] and probability[j] * np.exp(-choices.log_people[j]) >= highest * (1.0 - tolerance) and highest > 0.0:
                n_tied += np.exp(choices.log_people[j])
                is_in = is_in or j == choices.truth[i]
        certainty[i] = highest
        link[i] = 1.0 / n_tied if is_in else 0.0
        first = last

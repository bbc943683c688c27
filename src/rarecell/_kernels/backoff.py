"""Counts in contexts and leave-one-out likelihoods of back-off conditionals.

Cells are grouped by the values of a growing set of vertices; the group of a cell is one integer, and a set that grows by
one vertex refines the groups. A *pair* is a group by context and value. All its cells have the same probability, so only
grouping goes through the rows; everything else goes through the pairs.
"""

from __future__ import annotations

import numpy as np

from rarecell._kernels.compiled import njit
from rarecell._kernels.hashing import slot_of_key

_FEW_RECORDS = 16.0
_SMALL = 1e-120
"""A product above this stays above zero when a pair of few records joins: only pairs of one record have tiny probabilities."""


@njit(cache=True, nogil=True)
def refine(groups, n_groups, codes, n_levels, owner, number, refined):
    """Number the distinct pairs of group and code in order of appearance; returns how many there are.

    ``owner`` and ``number`` are scratch arrays whose length is a power of two and at least twice the number of cells. Where
    they have a place for every possible pair, no hashing is needed.
    """
    n_refined = 0
    if n_groups * n_levels <= len(number):
        number[: n_groups * n_levels] = -1
        for i in range(len(groups)):
            place = groups[i] * n_levels + codes[i]
            if number[place] == -1:
                number[place] = n_refined
                n_refined += 1
            refined[i] = number[place]
        return n_refined
    owner[:] = -1
    for i in range(len(groups)):
        key = np.int64(groups[i]) * n_levels + codes[i]
        slot = slot_of_key(owner, key)
        if owner[slot] == -1:
            owner[slot] = key
            number[slot] = n_refined
            n_refined += 1
        refined[i] = number[slot]
    return n_refined


@njit(cache=True, nogil=True)
def tally(pairs, n_pairs, contexts, n_contexts, counts):
    """For each pair, the number of its records, that of its context, the number of pairs in its context, and its first row."""
    of_pair = np.zeros(n_pairs)
    of_context = np.zeros(n_contexts)
    n_values = np.zeros(n_contexts)
    first = np.full(n_pairs, -1, dtype=np.int64)
    for i in range(len(counts)):
        of_pair[pairs[i]] += counts[i]
        of_context[contexts[i]] += counts[i]
        if first[pairs[i]] == -1:
            first[pairs[i]] = i
            n_values[contexts[i]] += 1.0
    return of_pair, of_context[contexts[first]], n_values[contexts[first]], first


@njit(cache=True, nogil=True)
def leave_one_out(of_pair, of_context, n_values, shorter, strength, power, discount, left_out):
    """Log-likelihood of every record given all others, and the probability of each pair's value without one of its records.

    ``shorter`` is that probability in the next shorter context, which counts as ``strength`` records, or with a ``power``
    of one half as ``strength`` times the root of the records in this context, plus ``discount`` for each value seen here.
    """
    total = 0.0
    for i in range(len(of_pair)):
        others = of_context[i] - 1.0
        weight = strength if power == 0.0 else strength * np.sqrt(others)
        own = _own_part(of_pair[i], n_values[i], shorter[i], discount)
        p = (own + weight * shorter[i]) / (others + weight) if others > 0.0 else shorter[i]
        left_out[i] = p
        total += of_pair[i] * np.log(p)
    return total


@njit(cache=True, nogil=True)
def _own_part(n, n_values, shorter, discount):
    """What the other records of a context say for the value of one of its ``n`` records; the discount goes to ``shorter``."""
    if n > 1.0:
        return n - 1.0 - discount + discount * n_values * shorter
    return discount * (n_values - 1.0) * shorter


@njit(cache=True, nogil=True)
def _take_logarithms(product, total):
    for s in range(len(product)):
        total[s] += np.log(product[s])
        product[s] = 1.0


@njit(cache=True, nogil=True)
def leave_one_out_of_all(of_pair, of_context, n_values, shorter, strengths, power, discount, total):
    """Add to ``total`` the log-likelihood of :func:`leave_one_out` for each strength.

    Logarithms would take most of the time, and most pairs have few records, so probabilities are multiplied until the product
    becomes small. It is smallest at the first or the last strength, because each probability is monotone in the strength.
    """
    n_strengths = len(strengths)
    product, p = np.ones(n_strengths), np.empty(n_strengths)
    for i in range(len(of_pair)):
        others, n, q = of_context[i] - 1.0, of_pair[i], shorter[i]
        scale = 1.0 if power == 0.0 else np.sqrt(others)
        own = _own_part(n, n_values[i], q, discount)
        for s in range(n_strengths):
            weight = strengths[s] * scale
            p[s] = (own + weight * q) / (others + weight) if others > 0.0 else q
        if n <= _FEW_RECORDS:
            for _ in range(int(n)):
                for s in range(n_strengths):
                    product[s] *= p[s]
            if min(product[0], product[n_strengths - 1]) < _SMALL:
                _take_logarithms(product, total)
        else:
            for s in range(n_strengths):
                total[s] += n * np.log(p[s])
    _take_logarithms(product, total)


@njit(cache=True, nogil=True)
def best_weight(of_pair, of_context, n_values, shorter, strengths, powers, discounts):
    """The strength, power and discount with the largest leave-one-out likelihood, and that likelihood.

    A discount above 0 goes with the constant power only.
    """
    best, strength, power, discount = -np.inf, strengths[0], powers[0], discounts[0]
    for candidate in powers:
        for tried in discounts:
            if candidate > 0.0 and tried > 0.0:
                continue
            total = np.zeros(len(strengths))
            leave_one_out_of_all(of_pair, of_context, n_values, shorter, strengths, candidate, tried, total)
            for s in range(len(strengths)):
                if total[s] > best:
                    best, strength, power, discount = total[s], strengths[s], candidate, tried
    return best, strength, power, discount


@njit(cache=True, nogil=True)
def without_some(in_pair, in_context, n_values, shorter, strength, power, discount, left_out):
    """Log-likelihood of records, and the probability of each, given the numbers of others that count for it."""
    total = 0.0
    for i in range(len(in_pair)):
        p = shorter[i]
        if in_context[i] > 0.0:
            weight = strength if power == 0.0 else strength * np.sqrt(in_context[i])
            own = in_pair[i] - discount if in_pair[i] > 0.0 else 0.0
            p = (own + (weight + discount * n_values[i]) * p) / (in_context[i] + weight)
        left_out[i] = p
        total += np.log(p)
    return total


@njit(cache=True, nogil=True)
def best_weight_without(in_pair, in_context, n_values, shorter, strengths, powers, discounts):
    """:func:`best_weight` for records of which each is predicted from numbers of others of its own; see :func:`without_some`."""
    n_strengths = len(strengths)
    best, strength, power, discount = -np.inf, strengths[0], powers[0], discounts[0]
    for candidate in powers:
        for tried in discounts:
            if candidate > 0.0 and tried > 0.0:
                continue
            total, product = np.zeros(n_strengths), np.ones(n_strengths)
            for i in range(len(in_pair)):
                others, q = in_context[i], shorter[i]
                if others == 0.0:
                    # The same for every candidate.
                    continue
                scale = 1.0 if candidate == 0.0 else np.sqrt(others)
                own = (in_pair[i] - tried if in_pair[i] > 0.0 else 0.0) + tried * n_values[i] * q
                for s in range(n_strengths):
                    weight = strengths[s] * scale
                    product[s] *= (own + weight * q) / (others + weight)
                if min(product[0], product[n_strengths - 1]) < _SMALL:
                    _take_logarithms(product, total)
            _take_logarithms(product, total)
            for s in range(n_strengths):
                if total[s] > best:
                    best, strength, power, discount = total[s], strengths[s], candidate, tried
    return best, strength, power, discount


@njit(cache=True, nogil=True)
def shrink(mean, rest, variance, of_pair, of_context, n_values, strength, power, discount):
    """Replace posteriors in a shorter context by those in a longer one, where that was seen; ``Betas.given`` has the reasons."""
    for i in range(len(mean)):
        if of_context[i] == 0.0:
            continue
        is_seen = 1.0 if of_pair[i] > 0.0 else 0.0
        weight = strength if power == 0.0 else strength * np.sqrt(of_context[i])
        total = of_context[i] + weight
        own = of_pair[i] - discount * is_seen
        others = of_context[i] - of_pair[i] - discount * (n_values[i] - is_seen)
        given = weight + discount * n_values[i]
        q, not_q, v = mean[i], rest[i], variance[i]
        within = (own * given * not_q**2 + own * others + given * others * q**2) / total
        between = given * ((q * not_q - v) * (1.0 - discount) + (given + 1.0) * v)
        mean[i] = (own + given * q) / total
        rest[i] = (others + given * not_q) / total
        variance[i] = (within + between) / (total * (total + 1.0))


@njit(cache=True, nogil=True)
def add_at(total, values, position):
    """Add to each row of ``total`` the row of ``values`` at its position."""
    for i in range(len(position)):
        for k in range(total.shape[1]):
            total[i, k] += values[position[i], k]

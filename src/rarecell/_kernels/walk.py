"""Sums of a product of small tables over all cells of a large one, which is walked but never stored.

The cells form a tree: it branches first by the levels of the first key and last by those of the last key but one; the
last key is a vector at the leaves. Products of factors are kept on the way down and sums collected on the way up, so a
cell costs a few operations however many factors there are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.compiled import njit


class FactorLayout(NamedTuple):
    """Where the factors of a clique lie in one flat array of tables.

    A factor is a table over some keys, last key fastest. Its depth is the last key it has besides the vector key.

    Attributes
    ----------
    levels : ndarray of int64
        Number of levels of each key; there are at least three keys, and the last one is the vector.
    first_scalar : ndarray of int64
        Factors of depth d that lack the vector key are those from ``first_scalar[d]`` to ``first_scalar[d + 1]``.
    first_vector : ndarray of int64
        The same for factors that have it.
    offset : ndarray of int64
        Where the table of each factor starts.
    stride : ndarray of int64
        Step in the table for each factor and key, 0 for a key it lacks.
    """

    levels: NDArray[np.int64]
    first_scalar: NDArray[np.int64]
    first_vector: NDArray[np.int64]
    offset: NDArray[np.int64]
    stride: NDArray[np.int64]


@njit(cache=True)
def _locate(layout, first, depth, code, place):
    """Write to ``place`` where the factors of this depth lie at ``code``."""
    offset, stride = layout.offset, layout.stride
    for f in range(first[depth], first[depth + 1]):
        where = offset[f]
        for j in range(depth + 1):
            where += stride[f, j] * code[j]
        place[f] = where


@njit(cache=True, fastmath=True)
def _enter(layout, depth, tables, place, above, here):
    """Set ``here`` to ``above`` times the factors of this depth; returns the product of those without the vector key."""
    first_scalar, first_vector = layout.first_scalar, layout.first_vector
    scale = 1.0
    for f in range(first_scalar[depth], first_scalar[depth + 1]):
        scale *= tables[place[f]]
    for a in range(len(here)):
        here[a] = above[a] * scale
    for f in range(first_vector[depth], first_vector[depth + 1]):
        factor = tables[place[f] : place[f] + len(here)]
        for a in range(len(here)):
            here[a] *= factor[a]
    return scale


@njit(cache=True, fastmath=True)
def _leave(layout, depth, place, here, above, sums):
    """Add ``here``, what was summed below a node, to the factors of this depth and to the node above."""
    first_scalar, first_vector = layout.first_scalar, layout.first_vector
    total = 0.0
    for a in range(len(here)):
        total += here[a]
        above[a] += here[a]
    for f in range(first_scalar[depth], first_scalar[depth + 1]):
        sums[place[f]] += total
    for f in range(first_vector[depth], first_vector[depth + 1]):
        target = sums[place[f] : place[f] + len(here)]
        for a in range(len(here)):
            target[a] += here[a]


@njit(cache=True, fastmath=True)
def _leaves(layout, depth, tables, place, above, below, sums):
    """Process all nodes of the last depth under one node; ``place`` is that of their first code."""
    # Arrays are taken out of the tuple once: in a loop, counting references would cost as much as the loop itself.
    stride = layout.stride
    low, high = layout.first_scalar[depth], layout.first_scalar[depth + 1]
    first, last = layout.first_vector[depth], layout.first_vector[depth + 1]
    here = np.empty(len(above))
    for _ in range(layout.levels[depth]):
        if last - first == 1:
            # The usual case, one factor with the vector key, in one pass over it.
            scale, total = 1.0, 0.0
            for f in range(low, high):
                scale *= tables[place[f]]
            factor = tables[place[first] : place[first] + len(here)]
            target = sums[place[first] : place[first] + len(here)]
            for a in range(len(here)):
                value = above[a] * factor[a] * scale
                total += value
                target[a] += value
                below[a] += value
            for f in range(low, high):
                sums[place[f]] += total
        else:
            _enter(layout, depth, tables, place, above, here)
            _leave(layout, depth, place, here, below, sums)
        for f in range(low, high):
            place[f] += stride[f, depth]
        for f in range(first, last):
            place[f] += stride[f, depth]


@njit(cache=True, fastmath=True)
def _walk_branch(layout, first_code, tables, sums):
    """Walk all cells whose first key has ``first_code``; returns their total. There are at least three keys."""
    deepest = len(layout.levels) - 2
    width = layout.levels[deepest + 1]
    code = np.zeros(deepest + 1, dtype=np.int64)
    code[0] = first_code
    place = np.zeros(len(layout.offset), dtype=np.int64)
    product, below = np.ones((deepest + 1, width)), np.zeros((deepest + 1, width))
    depth = 0
    while depth >= 0:
        _locate(layout, layout.first_scalar, depth, code, place)
        _locate(layout, layout.first_vector, depth, code, place)
        if depth < deepest:
            below[depth + 1] = 0.0
            if _enter(layout, depth, tables, place, product[depth], product[depth + 1]) > 0.0:
                depth += 1
                code[depth] = 0
                continue
        else:
            _leaves(layout, depth, tables, place, product[depth], below[depth], sums)
            depth -= 1
        while depth >= 0:
            _leave(layout, depth, place, below[depth + 1], below[depth], sums)
            code[depth] += 1
            if depth > 0 and code[depth] < layout.levels[depth]:
                break
            depth -= 1
    return below[0].sum()


@njit(cache=True, nogil=True)
def walk(layout, tables, part, n_parts):
    """Sum of the product of all factors over the cells, and its marginal on each factor, in the layout of ``tables``.

    Only every ``n_parts``-th level of the first key is walked, from ``part`` on: the parts add up to the whole, and can
    be walked by several threads.
    """
    sums = np.zeros(len(tables))
    total = 0.0
    for code in range(part, layout.levels[0], n_parts):
        total += _walk_branch(layout, code, tables, sums)
    return total, sums

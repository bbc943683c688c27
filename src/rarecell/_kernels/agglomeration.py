"""Merging the levels of a key one pair at a time, so as to lose as little as possible of what they say about other keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.compiled import njit
from rarecell._kernels.margins import n_log_n

if TYPE_CHECKING:
    from rarecell.edges import Array


@njit(cache=True)
def _loss(joint, totals, n_others, a, b):
    """Drop in the pairwise log-likelihoods when levels a and b become one; at least 0."""
    loss = -n_others * (n_log_n(totals[a]) + n_log_n(totals[b]) - n_log_n(totals[a] + totals[b]))
    for w in range(joint.shape[1]):
        if joint[a, w] > 0.0 and joint[b, w] > 0.0:
            loss += n_log_n(joint[a, w]) + n_log_n(joint[b, w]) - n_log_n(joint[a, w] + joint[b, w])
    return loss


@njit(cache=True)
def _join(joint, totals, a, b):
    """Add level b to level a. Written as loops, because sums of whole rows take seconds to compile."""
    totals[a] += totals[b]
    for w in range(joint.shape[1]):
        joint[a, w] += joint[b, w]


@njit(cache=True)
def _put(tree, n_leaves, position, value):
    """Set a value in a tree in which every node holds the smaller of its two children."""
    node = n_leaves + position
    tree[node] = value
    while node > 1:
        node //= 2
        left, right = tree[2 * node], tree[2 * node + 1]
        tree[node] = left if left < right else right


@njit(cache=True)
def _first_smallest(tree, n_leaves):
    """Position of the smallest value; the first of several."""
    node = 1
    while node < n_leaves:
        node = 2 * node if tree[2 * node] <= tree[2 * node + 1] else 2 * node + 1
    return node - n_leaves


def merge_neighbours(joint: Array, totals: Array, n_others: float) -> NDArray[np.int64]:
    """Merges of ordered levels: row t says which two groups, each named by its first level, become one in step t.

    ``joint`` has a row for each level, and the levels of all other keys side by side as columns; it is overwritten. The
    losses are kept in a tree, so that n levels take n log n steps besides computing the losses.
    """
    n = len(totals)
    merges = np.zeros((max(n - 1, 0), 2), dtype=np.int64)
    n_leaves = 1 << max(n - 1, 0).bit_length()
    _merge_neighbours(joint, totals, n_others, np.arange(1, n + 1), np.arange(-1, n), np.full(2 * n_leaves, np.inf), merges)
    return merges


@njit(cache=True)
def _merge_neighbours(joint, totals, n_others, following, before, loss, merges):
    n, n_leaves = len(totals), len(loss) // 2
    for a in range(n - 1):
        _put(loss, n_leaves, a, _loss(joint, totals, n_others, a, a + 1))
    for t in range(n - 1):
        a = _first_smallest(loss, n_leaves)
        b = following[a]
        merges[t, 0], merges[t, 1] = a, b
        _join(joint, totals, a, b)
        following[a] = following[b]
        before[following[a]] = a
        _put(loss, n_leaves, b, np.inf)
        _put(loss, n_leaves, a, _loss(joint, totals, n_others, a, following[a]) if following[a] < n else np.inf)
        if before[a] >= 0:
            _put(loss, n_leaves, before[a], _loss(joint, totals, n_others, before[a], a))


def merge_any(joint: Array, totals: Array, n_others: float) -> NDArray[np.int64]:
    """Merges of unordered levels, in the form of :func:`merge_neighbours`."""
    n = len(totals)
    root = np.zeros(1, dtype=np.int64)
    return np.asarray(merge_within(joint, totals, n_others, np.zeros(n, dtype=np.int64), root, np.full(1, n), False))


@njit(cache=True)
def merge_within(joint, totals, n_others, home, above, n_inside, neighbours_only):
    """Merges that leave no node of a tree half merged with another, in the form of :func:`merge_neighbours`.

    ``home`` is the smallest node around each level, ``above`` the node around each node, and ``n_inside`` the number of levels
    and nodes directly inside each; node 0 is around everything. Two groups are merged only if the same node is around them. A node
    whose groups have all been merged is a group itself, with the next larger node around it. All three arrays are overwritten.
    """
    n = len(totals)
    merges = np.zeros((max(n - 1, 0), 2), dtype=np.int64)
    is_alive = np.ones(n, dtype=np.bool_)
    last = np.arange(n)
    loss = np.full((n, n), np.inf)
    for a in range(n):
        for b in range(a + 1, n):
            if home[a] == home[b] and not (neighbours_only and b != a + 1):
                loss[a, b] = _loss(joint, totals, n_others, a, b)
    for t in range(n - 1):
        position = int(np.argmin(loss))
        a, b = position // n, position % n
        merges[t, 0], merges[t, 1] = a, b
        _join(joint, totals, a, b)
        is_alive[b] = False
        last[a] = last[b] if last[b] > last[a] else last[a]
        node = home[a]
        n_inside[node] -= 1
        if n_inside[node] == 1 and node > 0:
            home[a] = above[node]
        for c in range(n):
            loss[b, c] = loss[c, b] = np.inf
        for c in range(n):
            if is_alive[c] and c != a:
                low, high = (a, c) if a < c else (c, a)
                may = home[low] == home[high] and not (neighbours_only and last[low] + 1 != high)
                loss[low, high] = _loss(joint, totals, n_others, low, high) if may else np.inf
    return merges


@njit(cache=True)
def joint_tables(cells, counts, key, group, first, n_groups):
    """Number of records in each group of a key, by the levels of each other key.

    ``group`` is the group of each level of ``key``, −1 to leave it out; the levels of key j take the columns from
    ``first[j]`` on, or none where that is −1. All tables are filled in one pass over the cells.
    """
    joint = np.zeros((n_groups, first[-1]))
    for i in range(cells.shape[0]):
        row = group[cells[i, key]]
        if row < 0:
            continue
        for j in range(cells.shape[1]):
            if first[j] >= 0:
                joint[row, first[j] + cells[i, j]] += counts[i]
    return joint

"""Moves between neighbouring decomposable models, and the climb along the best of them.

Graphs are arrays of neighbour masks as in :mod:`rarecell._kernels.chordal`. They are *closed*: a vertex is adjacent to
the coarser vertices of its key, and to the coarser vertices of the keys it is adjacent to. A move is named by two
vertices u and v of different keys.

- Not adjacent: join u and v, and with them their coarser vertices. With S = N(u) ∩ N(v), legal when S separates u from
  v; the score changes by q(S∪uv) + q(S) − q(S∪u) − q(S∪v).
- Adjacent: part u and v, and with them their finer vertices. Legal when K = S∪uv is complete; with A and B the vertices
  of K that are u or finer, and v or finer, the score changes by q(K∖A) + q(K∖B) − q(K) − q(K∖(A∪B)).

Without coarsenings these are the single edges of Algorithm 1 of Takemura and Endo (2006).

Set scores come from an open-addressing table. A kernel that needs a set which is not there names it, with an upper
bound on what the move could gain, and gives up; it is called again when the table has been filled.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.chordal import ONE, ZERO, bit, cliques_and_separators, is_complete, lowest_bit, popcount, reachable
from rarecell._kernels.compiled import njit
from rarecell._kernels.hashing import home_slot

JOIN_COMPONENTS = 1
ADD = 2
DELETE = 4
TIE = 1e-9
"""A move that gains as much as the best so far, up to rounding, does not replace it."""


class VertexMasks(NamedTuple):
    """The vertices of a table: key, levels, and masks of each vertex with all coarser or all finer ones of its key."""

    key: NDArray[np.int64]
    levels: NDArray[np.float64]
    with_coarser: NDArray[np.uint64]
    with_finer: NDArray[np.uint64]


class SetScores(NamedTuple):
    """Known values of q by reduced mask, NaN in free slots, and the limits on a move.

    ``limits`` holds the penalty per possible cell (NaN when the score is not a penalised likelihood), the largest number
    of possible cells of a clique, the largest number of keys in a clique, and the smallest gain that counts.
    """

    masks: NDArray[np.uint64]
    values: NDArray[np.float64]
    limits: NDArray[np.float64]


class NeededScores(NamedTuple):
    """Sets whose score is needed, and the most each could gain; ``n`` holds how many there are and how many found no room."""

    masks: NDArray[np.uint64]
    bounds: NDArray[np.float64]
    n: NDArray[np.int64]


@njit(cache=True, nogil=True)
def slot_of(masks: NDArray[np.uint64], values: NDArray[np.float64], mask: np.uint64) -> int:
    """Where ``mask`` is in the table, or the free slot where it belongs."""
    # The empty set is a key like any other, so it is the value that says whether a slot is free.
    slot = home_slot(mask, masks.shape[0])
    while masks[slot] != mask and not np.isnan(values[slot]):
        slot = (slot + 1) & (masks.shape[0] - 1)
    return int(slot)


@njit(cache=True, nogil=True)
def insert(
    masks: NDArray[np.uint64], values: NDArray[np.float64], new_masks: NDArray[np.uint64], new_values: NDArray[np.float64]
) -> None:
    """Put scores into a table that has room for them."""
    for i in range(new_masks.shape[0]):
        slot = slot_of(masks, values, new_masks[i])
        masks[slot] = new_masks[i]
        values[slot] = new_values[i]


@njit(cache=True, nogil=True)
def lookup(masks: NDArray[np.uint64], values: NDArray[np.float64], sets: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Scores of the wanted sets, NaN where they are not known."""
    scores = np.empty(sets.shape[0])
    for i in range(sets.shape[0]):
        scores[i] = values[slot_of(masks, values, sets[i])]
    return scores


@njit(cache=True, nogil=True)
def reduce_mask(vertices: VertexMasks, mask: np.uint64) -> np.uint64:
    """Keep only the finest vertex of each key."""
    kept = mask
    rest = mask
    while rest != ZERO:
        v = lowest_bit(rest)
        rest &= rest - ONE
        kept &= ~(vertices.with_coarser[v] & ~bit(v))
    return kept


@njit(cache=True, nogil=True)
def n_cells(vertices: VertexMasks, reduced: np.uint64) -> float:
    """Number of possible cells of a reduced set."""
    product = 1.0
    rest = reduced
    while rest != ZERO:
        product *= vertices.levels[lowest_bit(rest)]
        rest &= rest - ONE
    return product


@njit(cache=True, nogil=True)
def _need(missing: NeededScores, mask: np.uint64, bound: float) -> None:
    if missing.n[0] < missing.masks.shape[0]:
        missing.masks[missing.n[0]] = mask
        missing.bounds[missing.n[0]] = bound
        missing.n[0] += 1
    else:
        missing.n[1] += 1


@njit(cache=True, nogil=True)
def _score(scores: SetScores, missing: NeededScores, reduced: np.uint64) -> float:
    """q of a reduced set; NaN, and named in ``missing``, when it is not known."""
    value = scores.values[slot_of(scores.masks, scores.values, reduced)]
    if np.isnan(value):
        _need(missing, reduced, np.inf)
    return float(value)


@njit(cache=True, nogil=True)
def change_of_joining(
    vertices: VertexMasks, scores: SetScores, missing: NeededScores, parts: tuple[np.uint64, np.uint64, np.uint64, np.uint64]
) -> float:
    """q(whole) + q(S) − q(one side) − q(other side) of ``parts`` (whole, S, one side, other side).

    NaN when a score is not known, with the sets named in ``missing``; −inf, with nothing named, where even perfect
    dependence between the two sides would gain nothing.
    """
    penalty = scores.limits[0]
    whole = reduce_mask(vertices, parts[0])
    separator, side, opposite = reduce_mask(vertices, parts[1]), reduce_mask(vertices, parts[2]), reduce_mask(vertices, parts[3])
    q_separator, q_side, q_opposite = (
        _score(scores, missing, separator),
        _score(scores, missing, side),
        _score(scores, missing, opposite),
    )
    q_whole = scores.values[slot_of(scores.masks, scores.values, whole)]
    change = q_whole + q_separator - q_side - q_opposite
    if not np.isnan(q_whole) or np.isnan(q_separator + q_side + q_opposite):
        return float(change)
    bound = np.inf
    if not np.isnan(penalty):
        # n times the conditional information is at most n times either conditional entropy.
        cells_separator = n_cells(vertices, separator)
        cells_side, cells_opposite = n_cells(vertices, side), n_cells(vertices, opposite)
        entropy_side = q_separator - q_side + penalty * (cells_separator - cells_side)
        entropy_opposite = q_separator - q_opposite + penalty * (cells_separator - cells_opposite)
        bound = min(entropy_side, entropy_opposite) - penalty * (
            n_cells(vertices, whole) + cells_separator - cells_side - cells_opposite
        )
        if bound <= 0.0:
            return -np.inf
    _need(missing, whole, bound)
    return np.nan


@njit(cache=True, nogil=True)
def is_legal(nb: NDArray[np.uint64], vertices: VertexMasks, limits: NDArray[np.float64], u: int, v: int, allowed: int) -> bool:
    """Whether the move (u, v) is allowed and keeps the graph chordal and its cliques within the limits."""
    common = nb[u] & nb[v]
    if nb[u] & bit(v) != ZERO:
        return allowed & DELETE != 0 and is_complete(nb, common)
    if allowed & ADD == 0 and (allowed & JOIN_COMPONENTS == 0 or common != ZERO):
        return False
    whole = reduce_mask(vertices, common | bit(u) | bit(v))
    if popcount(whole) > limits[2] or n_cells(vertices, whole) > limits[1]:
        return False
    return bool(reachable(nb, bit(u), ~common) & bit(v) == ZERO)


@njit(cache=True, nogil=True)
def change_of_move(
    nb: NDArray[np.uint64], vertices: VertexMasks, scores: SetScores, missing: NeededScores, u: int, v: int, allowed: int
) -> float:
    """Score change of the move (u, v); −inf when it is not legal or not allowed, NaN when a score is missing."""
    if not is_legal(nb, vertices, scores.limits, u, v, allowed):
        return -np.inf
    common = nb[u] & nb[v]
    whole = common | bit(u) | bit(v)
    if nb[u] & bit(v) == ZERO:
        return float(change_of_joining(vertices, scores, missing, (whole, common, common | bit(u), common | bit(v))))
    without_u = whole & ~vertices.with_finer[u]
    without_v = whole & ~vertices.with_finer[v]
    return float(
        _score(scores, missing, reduce_mask(vertices, without_u))
        + _score(scores, missing, reduce_mask(vertices, without_v))
        - _score(scores, missing, reduce_mask(vertices, whole))
        - _score(scores, missing, reduce_mask(vertices, without_u & without_v))
    )


@njit(cache=True, nogil=True)
def value_of(nb: NDArray[np.uint64], vertices: VertexMasks, scores: SetScores, missing: NeededScores) -> float:
    """Score of a whole graph, summed over its cliques less its separators; NaN when a score is missing."""
    cliques, separators = cliques_and_separators(nb)
    total = 0.0
    for clique in cliques:
        total += _score(scores, missing, reduce_mask(vertices, clique))
    for separator in separators:
        total -= _score(scores, missing, reduce_mask(vertices, separator))
    return float(total)


@njit(cache=True, nogil=True)
def make_move(nb: NDArray[np.uint64], vertices: VertexMasks, u: int, v: int) -> None:
    """Join or part u and v in place, with their coarser or finer vertices."""
    is_joined = nb[u] & bit(v) != ZERO
    side_u = vertices.with_finer[u] if is_joined else vertices.with_coarser[u]
    side_v = vertices.with_finer[v] if is_joined else vertices.with_coarser[v]
    for w in range(nb.shape[0]):
        if side_u & bit(w) != ZERO:
            nb[w] = nb[w] & ~side_v if is_joined else nb[w] | side_v
        elif side_v & bit(w) != ZERO:
            nb[w] = nb[w] & ~side_u if is_joined else nb[w] | side_u


@njit(cache=True, nogil=True)
def best_move(
    nb: NDArray[np.uint64], vertices: VertexMasks, scores: SetScores, missing: NeededScores, allowed: int, least: float
) -> tuple[int, int, float]:
    """The legal move with the largest change above ``least``, ties to the first pair; (−1, −1, least) when there is none.

    Moves that need the sets named in ``missing`` during the call could be better.
    """
    best_u, best_v, best = -1, -1, least
    known = missing.n[0]
    for u in range(nb.shape[0]):
        for v in range(u + 1, nb.shape[0]):
            if vertices.key[u] == vertices.key[v]:
                continue
            change = change_of_move(nb, vertices, scores, missing, u, v, allowed)
            if change > best + TIE:
                best_u, best_v, best = u, v, change
    kept = known
    for i in range(known, missing.n[0]):
        if missing.bounds[i] > best:
            missing.masks[kept] = missing.masks[i]
            missing.bounds[kept] = missing.bounds[i]
            kept += 1
    missing.n[0] = kept
    return best_u, best_v, best


@njit(cache=True, nogil=True)
def climb(
    nb: NDArray[np.uint64],
    vertices: VertexMasks,
    scores: SetScores,
    missing: NeededScores,
    allowed: int,
    changes: NDArray[np.float64],
) -> tuple[int, bool]:
    """Make the best move again and again, in place; returns the number of moves made and whether none improves.

    The gains go to ``changes``; the climb also stops when that is full or a score is missing.
    """
    for step in range(changes.shape[0]):
        before = missing.n.sum()
        u, v, change = best_move(nb, vertices, scores, missing, allowed, scores.limits[3])
        if missing.n.sum() > before:
            return step, False
        if u < 0:
            return step, True
        make_move(nb, vertices, u, v)
        changes[step] = change
    return changes.shape[0], False


@njit(cache=True, nogil=True)
def shake(
    nb: NDArray[np.uint64], vertices: VertexMasks, limits: NDArray[np.float64], draws: NDArray[np.int64], n_moves: int
) -> None:
    """Make the first ``n_moves`` legal moves among those drawn, in place; each row of ``draws`` is a pair of vertices."""
    made = 0
    for i in range(draws.shape[0]):
        u, v = draws[i, 0], draws[i, 1]
        if made == n_moves:
            return
        if vertices.key[u] != vertices.key[v] and is_legal(nb, vertices, limits, u, v, ADD | DELETE):
            make_move(nb, vertices, u, v)
            made += 1

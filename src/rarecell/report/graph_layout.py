"""Where does each vertex of a model's graph go, so that the eye can follow its edges?

Vertices are boxes with text. Each connected part is laid out by stress majorisation from several fixed starts; the
arrangement with the fewest crossings and the clearest boxes is taken, and overlapping boxes are pushed apart. The same
graph always gets the same picture.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]
Edge = tuple[int, int]

EDGE_LENGTH = 120.0
_STARTS = 12
_GAP = 26.0
"""Smallest gap between two boxes, in pixels."""


def place_vertices(sizes: Points, edges: Sequence[Edge]) -> Points:
    """Place the vertices; all centres are at least half a box from zero.

    Parameters
    ----------
    sizes : array of shape (n, 2)
        Width and height of each vertex's box.
    edges : sequence of tuple of int
        Pairs of positions of vertices.

    Returns
    -------
    array of shape (n, 2)
        The centres.
    """
    return _placed(tuple(map(tuple, sizes.tolist())), tuple(edges)).copy()


@functools.lru_cache(maxsize=8)
def _placed(boxes: tuple[tuple[float, ...], ...], edges: tuple[Edge, ...]) -> Points:
    """Cached, because both editions of a report show the same graph."""
    sizes = np.array(boxes).reshape(-1, 2)
    n = len(sizes)
    centres = np.zeros((n, 2))
    left = 0.0
    for part in _connected_parts(n, edges):
        inside = {vertex: position for position, vertex in enumerate(part)}
        own_edges = [(inside[u], inside[v]) for u, v in edges if u in inside]
        placed = _place_part(sizes[part], own_edges)
        placed -= (placed - sizes[part] / 2).min(axis=0)
        placed[:, 0] += left
        left = float((placed[:, 0] + sizes[part][:, 0] / 2).max()) + 2 * _GAP
        centres[part] = placed
    return centres


def crossings(centres: Points, edges: Sequence[Edge]) -> int:
    """Number of pairs of edges that cross away from their ends."""
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2)
    first, second = np.triu_indices(len(ends), 1)
    a, b, c, d = ends[first, 0], ends[first, 1], ends[second, 0], ends[second, 1]

    def side(p: NDArray[np.int64], q: NDArray[np.int64], r: NDArray[np.int64]) -> Points:
        """Positive where r lies to the left of the line from p to q."""
        u, v = centres[q] - centres[p], centres[r] - centres[p]
        turned: Points = u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]
        return turned

    is_apart = (a != c) & (a != d) & (b != c) & (b != d)
    return int((is_apart & (side(a, b, c) * side(a, b, d) < 0) & (side(c, d, a) * side(c, d, b) < 0)).sum())


def overlaps(centres: Points, sizes: Points) -> int:
    """Number of pairs of boxes that overlap."""
    difference = np.abs(centres[:, None, :] - centres[None, :, :])
    is_over = (difference < (sizes[:, None, :] + sizes[None, :, :]) / 2).all(axis=2)
    return int(np.triu(is_over, 1).sum())


def _connected_parts(n: int, edges: Sequence[Edge]) -> list[list[int]]:
    """Vertices of each part, the largest part first."""
    group = list(range(n))
    for u, v in edges:
        kept, merged = group[u], group[v]
        group = [kept if g == merged else g for g in group]
    parts: dict[int, list[int]] = {}
    for vertex, label in enumerate(group):
        parts.setdefault(label, []).append(vertex)
    return sorted(parts.values(), key=lambda part: (-len(part), part))


def _place_part(sizes: Points, edges: Sequence[Edge]) -> Points:
    n = len(sizes)
    if n == 1:
        return np.zeros((1, 2))
    wanted = _graph_distances(n, edges) * EDGE_LENGTH
    best: tuple[float, Points] | None = None
    for start in range(_STARTS):
        rng = np.random.default_rng(start)
        angle = 2 * np.pi * (np.argsort(rng.random(n)) if start else np.arange(n)) / n
        centres = np.column_stack([np.cos(angle), np.sin(angle)]) * EDGE_LENGTH + rng.normal(scale=1.0, size=(n, 2))
        centres = _majorise(centres, wanted)
        centres = _wide(centres)
        centres = _pushed_apart(centres, sizes, edges)
        cost = _cost(centres, sizes, edges)
        if best is None or cost < best[0] - 1e-9:
            best = (cost, centres)
    assert best is not None
    return best[1]


def _graph_distances(n: int, edges: Sequence[Edge]) -> Points:
    distance = np.full((n, n), np.inf)
    np.fill_diagonal(distance, 0.0)
    for u, v in edges:
        distance[u, v] = distance[v, u] = 1.0
    for k in range(n):
        distance = np.minimum(distance, distance[:, [k]] + distance[[k], :])
    return distance


def _majorise(centres: Points, wanted: Points, *, rounds: int = 150) -> Points:
    """Stress majorisation with weights d⁻² (Gansner, Koren and North 2004): the stress never rises."""
    n = len(centres)
    weight = np.zeros_like(wanted)
    apart = ~np.eye(n, dtype=bool)
    weight[apart] = wanted[apart] ** -2
    laplacian = np.diag(weight.sum(axis=1)) - weight
    inverse = np.linalg.pinv(laplacian)
    for _ in range(rounds):
        difference = centres[:, None, :] - centres[None, :, :]
        length = np.maximum(np.linalg.norm(difference, axis=2), 1e-9)
        pull = weight * wanted / length
        np.fill_diagonal(pull, 0.0)
        moved: Points = inverse @ ((np.diag(pull.sum(axis=1)) - pull) @ centres)
        if np.abs(moved - centres).max() < 0.05:
            return moved
        centres = moved
    return centres


def _wide(centres: Points) -> Points:
    """Rotate so that the longest direction is horizontal, and stretch a little: boxes are wider than high."""
    centred = centres - centres.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    if len(axes) < 2:
        return np.asarray(centred)
    turned: Points = centred @ axes.T
    # The sign of a singular vector is arbitrary: put the first vertex in the upper left.
    turned *= np.where(turned[0] > 0, -1.0, 1.0)
    stretched: Points = turned * np.array([1.35, 0.95])
    return stretched


def _pushed_apart(centres: Points, sizes: Points, edges: Sequence[Edge]) -> Points:
    """Move boxes that overlap or lie on an edge of others, until none does or the rounds run out."""
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2)
    for _ in range(150):
        step = _steps_between_boxes(centres, sizes)
        offset, normal = _offsets_from_edges(centres, ends)
        lack = np.maximum(sizes[:, 1] / 2 + _GAP / 2 - np.abs(offset), 0.0)
        step += 0.6 * (normal * (lack * np.where(offset >= 0, 1.0, -1.0))[:, :, None]).sum(axis=0)
        if np.abs(step).max() < 0.05:
            break
        centres = centres + step
    return centres


def _steps_between_boxes(centres: Points, sizes: Points) -> Points:
    """Half of the overlap of each pair of boxes, along the axis where it is smallest."""
    difference = centres[:, None, :] - centres[None, :, :]
    lack = (sizes[:, None, :] + sizes[None, :, :]) / 2 + _GAP - np.abs(difference)
    is_close = (lack > 0.01).all(axis=2) & ~np.eye(len(sizes), dtype=bool)
    along_x = lack[:, :, 0] <= lack[:, :, 1]
    chosen = np.stack([is_close & along_x, is_close & ~along_x], axis=2)
    # Boxes on the very same spot are separated by their order.
    order = np.sign(np.arange(len(sizes))[:, None] - np.arange(len(sizes))[None, :])[:, :, None]
    direction = np.where(difference == 0, order, np.sign(difference))
    steps: Points = (np.where(chosen, lack, 0.0) / 2 * direction).sum(axis=1)
    return steps


def _offsets_from_edges(centres: Points, ends: NDArray[np.int64]) -> tuple[Points, Points]:
    """Signed distance of each vertex from the middle part of each edge (infinite elsewhere), and the edges' normals."""
    start = centres[ends[:, 0]]
    along = centres[ends[:, 1]] - start
    length = np.maximum(np.hypot(along[:, 0], along[:, 1]), 1e-9)[:, None]
    normal = np.column_stack([-along[:, 1], along[:, 0]]) / length
    away = centres[None, :, :] - start[:, None, :]
    place = (away * along[:, None, :]).sum(axis=2) / length**2
    offset = (away * normal[:, None, :]).sum(axis=2)
    offset[(place <= 0.05) | (place >= 0.95)] = np.inf
    for column in (0, 1):
        offset[np.arange(len(ends)), ends[:, column]] = np.inf
    return offset, np.broadcast_to(normal[:, None, :], (*offset.shape, 2))


def _cost(centres: Points, sizes: Points, edges: Sequence[Edge]) -> float:
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2)
    offset, _ = _offsets_from_edges(centres, ends)
    n_hidden = int((np.abs(offset) < sizes[:, 1] / 2).sum())
    lengths = np.hypot(*(centres[ends[:, 0]] - centres[ends[:, 1]]).T)
    extent = np.ptp(centres, axis=0)
    return (
        10.0 * overlaps(centres, sizes)
        + 3.0 * crossings(centres, edges)
        + 4.0 * n_hidden
        + float(lengths.mean() + extent[0] / 4 + extent[1] / 2) / EDGE_LENGTH
    )


def hull(points: Points) -> Points:
    """Corners of the convex hull in order (Andrew's monotone chain)."""
    ordered = sorted({(float(x), float(y)) for x, y in points})
    if len(ordered) < 3:
        return np.array(ordered)

    def half(sequence: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
        chain: list[tuple[float, float]] = []
        for x, y in sequence:
            while len(chain) >= 2 and (
                (chain[-1][0] - chain[-2][0]) * (y - chain[-2][1]) - (chain[-1][1] - chain[-2][1]) * (x - chain[-2][0]) <= 0
            ):
                chain.pop()
            chain.append((x, y))
        return chain[:-1]

    return np.array(half(ordered) + half(ordered[::-1]))

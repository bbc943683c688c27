"""What does the model look like: its graph with the cliques, and the tree that joins them?

Takes ``model`` of ``summary.json`` and draws SVG. A clique that holds a key also holds every coarsening of it; text and
pictures show only the finest member of each key, since the others follow from it.
"""

from __future__ import annotations

import functools
import itertools
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rarecell.graph.junction import maximum_weight_tree
from rarecell.graph.masks import holds, mask_of
from rarecell.outcome.summary import ModelSummary, Vertex
from rarecell.report.svg import finished_svg

_CHARACTER = 7.4
"""Width of a character in pixels: enough for the widest of the usual fonts at 13 pixels."""

N_TINTS = 8
"""Tints of cliques in the style sheet: ``--clique-1`` and so on."""


@dataclass(frozen=True)
class ModelPicture:
    """The structure of a model as it is shown.

    Attributes
    ----------
    names : tuple of str
        Vertices shown: all keys, and the coarsenings that take part in a clique by themselves.
    levels : mapping of str to int
        Number of levels of each vertex.
    key_of : mapping of str to str
        The key that each vertex belongs to.
    cliques : tuple of tuple of str
        The cliques, with only the finest member of each key.
    parents : tuple of int
        Position of each clique's parent in the junction tree; -1 for the root.
    separators : tuple of tuple of str
        What each clique shares with its parent.
    order : tuple of int
        The cliques from the root on, each after its parent.
    """

    names: tuple[str, ...]
    levels: Mapping[str, int]
    key_of: Mapping[str, str]
    cliques: tuple[tuple[str, ...], ...]
    parents: tuple[int, ...]
    separators: tuple[tuple[str, ...], ...]
    order: tuple[int, ...]

    @classmethod
    def of(cls, model: ModelSummary) -> ModelPicture:
        """Build from the model of a summary."""
        return cls.of_structure(model.vertices, model.cliques)

    @classmethod
    def of_structure(cls, vertices: Sequence[Vertex], of_model: Sequence[tuple[str, ...]]) -> ModelPicture:
        """Build from the vertices of a model and its cliques."""
        levels = {vertex.name: vertex.levels for vertex in vertices}
        key_of = {vertex.name: vertex.key for vertex in vertices}
        position = {name: k for k, name in enumerate(levels)}

        def finest(names: Sequence[str]) -> tuple[str, ...]:
            best: dict[str, str] = {}
            for name in sorted(names, key=lambda name: (-levels[name], position[name])):
                best.setdefault(key_of[name], name)
            return tuple(sorted(best.values(), key=position.__getitem__))

        masks = [mask_of(position[name] for name in clique) for clique in of_model]
        parents, order = _rooted(masks)
        separators = []
        for place, parent in enumerate(parents):
            shared = masks[place] & masks[parent] if parent >= 0 else 0
            separators.append(finest([name for name, k in position.items() if holds(shared, k)]))
        cliques = tuple(finest(clique) for clique in of_model)
        used = {name for clique in cliques for name in clique} | {name for name in levels if key_of[name] == name}
        names = tuple(name for name in levels if name in used)
        return cls(names, levels, key_of, cliques, tuple(parents), tuple(separators), tuple(order))

    @property
    def edges(self) -> list[tuple[str, str]]:
        """Pairs of vertices that lie together in a clique."""
        edges = {(first, second) for clique in self.cliques for k, first in enumerate(clique) for second in clique[k + 1 :]}
        return sorted(edges, key=lambda edge: (self.names.index(edge[0]), self.names.index(edge[1])))

    @property
    def resolutions(self) -> list[tuple[str, str]]:
        """Pairs of neighbouring resolutions of a key, to be joined by a dotted line."""
        pairs: list[tuple[str, str]] = []
        for key in dict.fromkeys(self.key_of.values()):
            chain = sorted((n for n in self.names if self.key_of[n] == key), key=lambda n: -self.levels[n])
            pairs.extend(itertools.pairwise(chain))
        return pairs

    @property
    def separating(self) -> set[str]:
        """Vertices that lie in a separator."""
        return {name for separator in self.separators for name in separator}


def _rooted(masks: Sequence[int]) -> tuple[list[int], list[int]]:
    """Parents and order of a junction tree, rooted where it is least deep."""
    around: list[list[int]] = [[] for _ in masks]
    for a, b in maximum_weight_tree(masks):
        around[a].append(b)
        around[b].append(a)
    best: tuple[tuple[int, int], list[int], list[int]] | None = None
    for root in range(len(masks)):
        parents, order, depth = [-1] * len(masks), [], [0] * len(masks)
        stack = [root]
        while stack:
            clique = stack.pop()
            order.append(clique)
            for child in sorted((c for c in around[clique] if c != parents[clique]), reverse=True):
                parents[child] = clique
                depth[child] = depth[clique] + 1
                stack.append(child)
        cost = (max(depth), sum(depth))
        if best is None or cost < best[0]:
            best = (cost, parents, order)
    return (best[1], best[2]) if best else ([], [])


# ---------------------------------------------------------------------- drawing


def _add(parent: ElementTree.Element, tag: str, /, **attributes: object) -> ElementTree.Element:
    written = {
        name.replace("_", "-"): f"{value:.1f}" if isinstance(value, float) else str(value) for name, value in attributes.items()
    }
    return ElementTree.SubElement(parent, tag, written)


def _write(parent: ElementTree.Element, words: str, x: float, y: float, /, **attributes: object) -> ElementTree.Element:
    """Write text centred at x, unless another anchor is given."""
    element = _add(parent, "text", x=x, y=y, **{"text_anchor": "middle", "fill": "var(--ink)", "font_size": 13, **attributes})
    element.text = words
    return element


def _box(parent: ElementTree.Element, x: float, y: float, width: float, height: float, /, **attributes: object) -> None:
    look = {"rx": 9, "fill": "var(--paper)", "stroke": "var(--ink)", "stroke_width": 1.4, **attributes}
    _add(parent, "rect", x=x, y=y, width=width, height=height, **look)


def _tint(clique: int) -> str:
    return f"var(--clique-{clique % N_TINTS + 1})"


def _canvas(width: float, height: float) -> ElementTree.Element:
    return ElementTree.Element("svg", {"viewBox": f"0 0 {width:.0f} {height:.0f}"})


def _badge(parent: ElementTree.Element, x: float, y: float, clique: int) -> None:
    _add(parent, "circle", cx=x, cy=y, r=10.0, fill="var(--paper)", stroke=_tint(clique), stroke_width=2.0)
    _write(parent, str(clique + 1), x, y + 4.2, font_size=12, font_weight="bold")


def graph_svg(picture: ModelPicture, *, name: str = "graph") -> str:
    """Draw the graph of the model: boxes are keys and coarsenings, tinted areas and numbered edges are cliques."""
    labels = {vertex: _levels(picture.levels[vertex]) for vertex in picture.names}
    widths = [max(len(v) * _CHARACTER * 1.08, len(labels[v]) * _CHARACTER * 0.84) + 26 for v in picture.names]
    sizes = np.array([[width, 42.0 if labels[v] else 30.0] for width, v in zip(widths, picture.names, strict=True)])
    index = {vertex: k for k, vertex in enumerate(picture.names)}
    edges = [(index[a], index[b]) for a, b in picture.edges]
    threads = [(index[a], index[b]) for a, b in picture.resolutions]
    centres = place_vertices(sizes, sorted({*edges, *threads}))
    margin = 34.0
    centres = centres + margin
    extent = (centres + sizes / 2).max(axis=0) + margin
    root = _canvas(float(extent[0]), float(extent[1]))

    badges: list[tuple[float, float, int]] = []
    for number, clique in enumerate(picture.cliques):
        inside = [index[v] for v in clique]
        middle = centres[inside].mean(axis=0)
        if len(clique) == 1:
            middle = centres[inside[0]] - sizes[inside[0]] / 2
        if len(clique) >= 3:
            corners = np.concatenate([centres[k] + sizes[k] / 2 * corner for k in inside for corner in _CORNERS])
            outline = hull(corners.reshape(-1, 2))
            points = " ".join(f"{x:.1f},{y:.1f}" for x, y in outline)
            area = _add(root, "g", opacity="0.2")
            tint = _tint(number)
            _add(area, "polygon", points=points, fill=tint, stroke=tint, stroke_width=22, stroke_linejoin="round")
        badges.append((float(middle[0]), float(middle[1]), number))
    for a, b in threads:
        _line(root, centres[a], centres[b], stroke="var(--muted)", stroke_width=1.5, stroke_dasharray="2 5")
    pair_of = {frozenset(clique): number for number, clique in enumerate(picture.cliques) if len(clique) == 2}
    for a, b in edges:
        pair = pair_of.get(frozenset((picture.names[a], picture.names[b])))
        stroke = "var(--muted)" if pair is None else _tint(pair)
        _line(root, centres[a], centres[b], stroke=stroke, stroke_width=1.5 if pair is None else 3.0)
    for k, vertex in enumerate(picture.names):
        _draw_vertex(root, picture, vertex, labels[vertex], centres[k], sizes[k])
    for x, y, number in badges:
        free_x, free_y = _free_spot(x, y, centres, sizes, badges[:number])
        badges[number] = (free_x, free_y, number)
        _badge(root, free_x, free_y, number)
    words = graph_description(picture)
    return finished_svg(root, name=name, title="Graph of the model", description=words, width=float(extent[0]))


def _draw_vertex(
    root: ElementTree.Element,
    picture: ModelPicture,
    vertex: str,
    label: str,
    centre: Points,
    size: Points,
) -> None:
    """Draw a box with the name: dashed for a coarsening, with a double border for a member of a separator."""
    x, y = (float(c) for c in centre - size / 2)
    width, height = (float(c) for c in size)
    is_key = picture.key_of[vertex] == vertex
    _box(root, x, y, width, height, **({} if is_key else {"stroke_dasharray": "5 3"}))
    if vertex in picture.separating:
        _box(root, x + 3, y + 3, width - 6, height - 6, rx=6.5, fill="none", stroke_width=1.0)
    middle, baseline = float(centre[0]), float(centre[1]) + (-1.5 if label else 4.5)
    _write(root, vertex, middle, baseline, font_size=13.5, font_weight="bold" if is_key else "normal")
    if label:
        _write(root, label, middle, baseline + 15, font_size=11.5, fill="var(--muted)")


_CORNERS = [np.array(corner) for corner in ((-1, -1), (-1, 1), (1, 1), (1, -1))]


def _free_spot(
    x: float, y: float, centres: Points, sizes: Points, taken: Sequence[tuple[float, float, int]]
) -> tuple[float, float]:
    """The spot nearest to (x, y) where a badge covers neither a box nor another badge."""
    for radius in range(0, 90, 6):
        for angle in np.linspace(0, 2 * np.pi, 16, endpoint=False):
            spot = np.array([x + radius * np.cos(angle), y + radius * np.sin(angle)])
            in_box = (np.abs(centres - spot) < sizes / 2 + 11).all(axis=1).any()
            on_badge = any(np.hypot(spot[0] - a, spot[1] - b) < 23 for a, b, _ in taken)
            if not in_box and not on_badge and spot.min() > 12:
                return float(spot[0]), float(spot[1])
    return x, y


def _line(root: ElementTree.Element, start: Points, end: Points, **attributes: object) -> None:
    _add(root, "line", x1=float(start[0]), y1=float(start[1]), x2=float(end[0]), y2=float(end[1]), **attributes)


def _levels(n: int) -> str:
    return f"{n:,} levels" if n else ""


def graph_description(picture: ModelPicture) -> str:
    """Describe the picture in words, for those who cannot see it."""
    cliques = "; ".join(f"clique {k + 1}: {', '.join(clique)}" for k, clique in enumerate(picture.cliques))
    separating = ", ".join(name for name in picture.names if name in picture.separating)
    return f"A graph of {len(picture.names)} vertices. {cliques[:1].upper()}{cliques[1:]}." + (
        f" In a separator: {separating}." if separating else ""
    )


def junction_tree_svg(picture: ModelPicture) -> str:
    """Draw the junction tree as an outline: each clique hangs on its parent by the separator written on the branch."""
    row, indent = 46.0, 34.0
    depth = [0] * len(picture.cliques)
    line_of = {clique: k for k, clique in enumerate(picture.order)}
    for clique in picture.order:
        if picture.parents[clique] >= 0:
            depth[clique] = depth[picture.parents[clique]] + 1
    root = _canvas(1, 1)
    branches = _add(root, "g", fill="none", stroke="var(--muted)", stroke_width=1.5)
    right = 0.0
    for clique in picture.order:
        y = 24.0 + row * line_of[clique]
        x = 14.0 + indent * depth[clique]
        parent = picture.parents[clique]
        start = x
        if parent >= 0:
            parent_y = 24.0 + row * line_of[parent]
            trunk = 14.0 + indent * depth[parent] + 10
            text = " · ".join(picture.separators[clique]) or "nothing"
            width = len(text) * _CHARACTER + 22
            _add(branches, "path", d=f"M{trunk:.1f},{parent_y + 16:.1f}V{y - 8:.1f}q0,8 8,8H{x + width + 20:.1f}")
            _box(root, x, y - 12, width, 24.0, rx=12, fill="var(--raised)", stroke="var(--muted)", stroke_width=1.0)
            _write(root, text, x + width / 2, y + 4.5, font_size=12.5)
            start = x + width + 20
        new = [v for v in picture.cliques[clique] if v not in picture.separators[clique]]
        shared = [v for v in picture.cliques[clique] if v in picture.separators[clique]]
        width = (len(" · ".join(new)) * 1.1 + len(" · ".join(shared)) + (3 if shared and new else 0)) * _CHARACTER + 46
        _box(root, start, y - 16, width, 32.0, stroke=_tint(clique), stroke_width=2.0)
        _badge(root, start + 18, y, clique)
        label = _write(root, "" if new else " · ".join(shared), start + 35, y + 4.5, text_anchor="start", fill="var(--muted)")
        if new:
            strong = _add(label, "tspan", font_weight="bold", fill="var(--ink)")
            strong.text = " · ".join(new)
            strong.tail = " · " + " · ".join(shared) if shared else None
        right = max(right, start + width)
    height = 24.0 + row * (len(picture.order) - 1) + 26
    root.set("viewBox", f"0 0 {right + 8:.0f} {height:.0f}")
    words = tree_description(picture)
    return finished_svg(root, name="tree", title="Junction tree of the model", description=words, width=right + 8)


def tree_description(picture: ModelPicture) -> str:
    """Describe the tree in words."""
    sentences = []
    for clique in picture.order:
        parent = picture.parents[clique]
        if parent >= 0:
            shared = ", ".join(picture.separators[clique]) or "nothing"
            sentences.append(f"Clique {clique + 1} hangs on clique {parent + 1}; they share {shared}.")
        else:
            sentences.append(f"The root is clique {clique + 1}.")
    return " ".join(sentences)


# Where does each vertex of a model's graph go, so that the eye can follow its edges?
#
# Vertices are boxes with text. Each connected part is laid out by stress majorisation from several fixed starts; the
# arrangement with the fewest crossings and the clearest boxes is taken, and overlapping boxes are pushed apart. The same
# graph always gets the same picture.


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
        first, merged = group[u], group[v]
        group = [first if g == merged else g for g in group]
    parts: dict[int, list[int]] = {}
    for vertex, label in enumerate(group):
        parts.setdefault(label, []).append(vertex)
    return sorted(parts.values(), key=lambda part: (-len(part), part))


def _place_part(sizes: Points, edges: Sequence[Edge]) -> Points:
    n = len(sizes)
    if n == 1:
        return np.zeros((1, 2))
    lengths = _graph_distances(n, edges) * EDGE_LENGTH
    best: tuple[float, Points] | None = None
    for start in range(_STARTS):
        rng = np.random.default_rng(start)
        angle = 2 * np.pi * (np.argsort(rng.random(n)) if start else np.arange(n)) / n
        centres = np.column_stack([np.cos(angle), np.sin(angle)]) * EDGE_LENGTH + rng.normal(scale=1.0, size=(n, 2))
        centres = _majorise(centres, lengths)
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


def _majorise(centres: Points, lengths: Points, *, rounds: int = 150) -> Points:
    """Stress majorisation with weights d⁻² (Gansner, Koren and North 2004): the stress never rises."""
    n = len(centres)
    weight = np.zeros_like(lengths)
    apart = ~np.eye(n, dtype=bool)
    weight[apart] = lengths[apart] ** -2
    laplacian = np.diag(weight.sum(axis=1)) - weight
    inverse = np.linalg.pinv(laplacian)
    for _ in range(rounds):
        difference = centres[:, None, :] - centres[None, :, :]
        length = np.maximum(np.linalg.norm(difference, axis=2), 1e-9)
        pull = weight * lengths / length
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

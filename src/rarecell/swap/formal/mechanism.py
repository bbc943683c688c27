"""What does a file look like after every kernel has run, leaves first?

The kernel of an edge rearranges the parts on its side among rows that agree on its separator, so every clique margin stays.
Each kernel works on the output of the kernels below it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rarecell._kernels import shuffling as kernels
from rarecell._kernels.counting import collapse_records
from rarecell._kernels.hashing import mixed_many
from rarecell.graph.chordal import ChordalGraph
from rarecell.graph.masks import each_member, members
from rarecell.progress import SILENT, Progress, checkpoint
from rarecell.table.contingency import ContingencyTable


@dataclass(frozen=True, eq=False)
class Rearranged:
    """A file after the kernels.

    Attributes
    ----------
    codes : array of int
        Key codes of each row.
    n_changed : tuple of int
        Number of rows whose part changed, for each edge of the tree.
    """

    codes: NDArray[np.int32]
    n_changed: tuple[int, ...]


def rearranged(
    table: ContingencyTable,
    codes: NDArray[np.int32],
    tree: RootedTree,
    thetas: Sequence[float],
    rng: np.random.Generator,
    *,
    rare: int = 0,
    progress: Progress = SILENT,
) -> Rearranged:
    """Run the kernels of ``tree`` on a file of key codes.

    ``table`` supplies the vertices and clique margins. Rows whose value of the parent clique occurs at most ``rare`` times are
    always shuffled: they have a θ of 1, which depends only on an invariant of the row.
    """
    new = np.array(codes, order="F")
    n_changed = []
    for edge, theta in zip(tree.edges, thetas, strict=True):
        checkpoint(progress, "shuffling along the edges")
        is_always = always_shuffled(table, new, edge, rare)
        source = strata_of_edge(table, new, edge, is_always).shuffled(theta, rng)
        changed = np.zeros(len(new), dtype=bool)
        for k in edge.keys_moved(table):
            moved = new[source, k]
            changed |= moved != new[:, k]
            new[:, k] = moved
        n_changed.append(int(changed.sum()))
    return Rearranged(new, tuple(n_changed))


def always_shuffled(table: ContingencyTable, codes: NDArray[np.int32], edge: TreeEdge, rare: int) -> NDArray[np.bool_] | None:
    """Return which rows have a value of the parent clique that occurs at most ``rare`` times; None if there are none."""
    if rare < 1:
        return None
    is_rare = np.asarray(table.marginals.lookup(edge.parent, codes) <= rare)
    return is_rare if is_rare.any() else None


# Which rows may exchange their parts along an edge, and which of them carry the same part?
#
# Rows are sorted by stratum (the value of the separator) and type (the part that moves). Types of equal size form one group,
# because the distribution of a shuffle depends on sizes alone.


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


@dataclass(frozen=True, eq=False)
class Strata:
    """The rows of a file, as the kernel of one edge sees them.

    Attributes
    ----------
    rows : array of int
        Rows sorted by stratum and type; within a type, those that are always shuffled come last.
    sizes : array of int
        For each type, the number of rows that may keep their part, and the number of rows that are always shuffled.
    stratum_start : array of int
        First type of each stratum, followed by the number of types.
    groups : array of int
        Distinct pairs of sizes in each stratum, and how many of its types have them.
    group_start : array of int
        First group of each stratum, followed by the number of groups.
    """

    rows: NDArray[np.int64]
    sizes: NDArray[np.int64]
    stratum_start: NDArray[np.int64]
    groups: NDArray[np.int64]
    group_start: NDArray[np.int64]

    @classmethod
    def of(
        cls, separator: Sequence[NDArray[np.int32]], side: Sequence[NDArray[np.int32]], is_always: NDArray[np.bool_] | None = None
    ) -> Strata:
        """Build the strata of rows with these codes of the separator and of the side that moves."""
        columns = [*separator, *side]
        n_codes = [int(column.max(initial=0)) + 1 for column in columns]
        cells, counts, type_of_row = collapse_records(columns, n_codes)
        begins = np.ones(len(counts), dtype=bool)
        begins[1:] = (cells[1:, : len(separator)] != cells[:-1, : len(separator)]).any(axis=1)
        stratum = np.cumsum(begins) - 1
        always = np.zeros(len(counts), dtype=np.int64)
        order = type_of_row
        if is_always is not None:
            always = np.bincount(type_of_row[is_always], minlength=len(counts)).astype(np.int64)
            order = 2 * type_of_row + is_always
        held = counts.astype(np.int64) - always
        groups, group_start = _groups(stratum, held, always)
        starts = np.append(np.flatnonzero(begins), len(counts))
        return cls(np.argsort(order, kind="stable"), np.column_stack([held, always]), starts, groups, group_start)

    def shuffled(self, theta: float, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw for each row the row whose part it gets: P ∝ θ^(rows whose part changes, unless they are always shuffled)."""
        rows = self.rows.copy()
        source = np.arange(len(rows))
        kernels.shuffle_strata(theta, self.stratum_start, self.sizes, self.groups, self.group_start, rows, source, rng)
        return source

    def mean_changed(self, thetas: ArrayLike) -> NDArray[np.float64]:
        """Compute for each θ the expected number of rows whose part changes, without those that are always shuffled.

        Strata with the same sizes are computed once and multiplied.
        """
        strata, times = self._distinct()
        given = np.asarray(thetas, dtype=np.float64)
        return np.asarray(kernels.total_mean_changed(given, self.groups, self.group_start, strata, times, _NODES, _WEIGHTS))

    def _distinct(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """One stratum of each composition with more than one type, and the number of strata with that composition."""
        mixed = np.zeros(len(self.groups), dtype=np.uint64)
        for part in self.groups.astype(np.uint64).T:
            mixed = mixed_many(mixed ^ part, 0)
        several = np.flatnonzero(np.diff(self.stratum_start) > 1)
        summed = np.add.reduceat(mixed, self.group_start[:-1])[several]
        _, first, times = np.unique(summed, return_index=True, return_counts=True)
        return several[first], times


def strata_of_edge(
    table: ContingencyTable, codes: NDArray[np.int32], edge: TreeEdge, is_always: NDArray[np.bool_] | None = None
) -> Strata:
    """Build the strata of ``edge`` in a file of key codes."""
    separator = [table.map_cells(codes, v) for v in each_member(table.reduce(edge.separator))]
    return Strata.of(separator, [codes[:, k] for k in edge.keys_moved(table)], is_always)


def _groups(
    stratum: NDArray[np.int64], held: NDArray[np.int64], always: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    order = np.lexsort((always, held, stratum))
    sizes = np.stack([stratum[order], held[order], always[order]], axis=1)
    begins = np.ones(len(sizes), dtype=bool)
    begins[1:] = (sizes[1:] != sizes[:-1]).any(axis=1)
    first = np.flatnonzero(begins)
    times = np.diff(np.append(first, len(sizes)))
    groups = np.column_stack([sizes[first, 1:], times]).astype(np.int64)
    return groups, np.searchsorted(sizes[first, 0], np.arange(stratum[-1] + 2))


# Along which edges of the junction tree do parts of records move, and in what order?
#
# Once a clique is chosen as the root, each edge of the tree has a separator S and a side R away from the root. Parts on R move
# between records that agree on S. An edge comes after all edges below it: leaves first.


@dataclass(frozen=True)
class TreeEdge:
    """An edge of a rooted junction tree, with vertex sets as bit masks.

    Attributes
    ----------
    parent, child : int
        The cliques it joins; the parent is nearer to the root.
    separator : int
        What the two cliques share.
    side : int
        Everything on the child's side except the separator; this is what moves.
    below : tuple of pairs of int
        Child and separator of this edge and of every edge below it.
    """

    parent: int
    child: int
    separator: int
    side: int
    below: tuple[tuple[int, int], ...]

    def keys_moved(self, table: ContingencyTable) -> tuple[int, ...]:
        """Return the positions of the keys on the side that moves; a coarsening moves with its key."""
        return members(self.side & table.all_keys)

    def is_free(self, table: ContingencyTable) -> bool:
        """Return whether all records of a stratum have the same side, in this file and all others with its clique margins.

        This is so if a stratum has a single record, or if each clique from here down adds nothing to its separator.
        """
        marginals = table.marginals
        adds_nothing = np.ones(table.n_cells, dtype=bool)
        for child, separator in self.below:
            adds_nothing &= marginals.at_cells(child) == marginals.at_cells(separator)
        return bool((adds_nothing | (marginals.at_cells(self.separator) == 1)).all())


@dataclass(frozen=True)
class RootedTree:
    """A junction tree with a root, and its edges, leaves first."""

    root: int
    edges: tuple[TreeEdge, ...]


def rooted_tree(graph: ChordalGraph, root: int) -> RootedTree:
    """Build the junction tree with this root in which every clique is as near to the root as its separator allows.

    A separator may lie in several cliques, and its subtree may be attached to any of them. The nearer to the root it is attached,
    the smaller the sides of the edges in between: fewer values move for the same ε.
    """
    cliques = graph.clique_masks
    around: list[list[int]] = [[] for _ in cliques]
    for clique, neighbour in graph.junction_tree:
        around[clique].append(neighbour)
        around[neighbour].append(clique)
    first = cliques.index(root)
    parent = {first: -1}
    order = [first]
    for place in order:
        for neighbour in around[place]:
            if neighbour not in parent:
                parent[neighbour] = place
                order.append(neighbour)
    for place in order[1:]:
        separator = cliques[place] & cliques[parent[place]]
        while parent[parent[place]] >= 0 and separator & ~cliques[parent[parent[place]]] == 0:
            parent[place] = parent[parent[place]]
    children: dict[int, list[int]] = {place: [] for place in order}
    for place in order[1:]:
        children[parent[place]].append(place)
    edges: list[TreeEdge] = []

    def visit(place: int) -> tuple[int, tuple[tuple[int, int], ...]]:
        """Return all vertices of a subtree and its cliques with their separators; its edges are noted on the way back."""
        vertices = cliques[place]
        below: list[tuple[int, int]] = []
        separator = cliques[place] & cliques[parent[place]] if place != first else 0
        for child in sorted(children[place]):
            of_child, cliques_below = visit(child)
            vertices |= of_child
            below.extend(cliques_below)
        if place == first:
            return vertices, tuple(below)
        whole = ((cliques[place], separator), *below)
        edges.append(TreeEdge(cliques[parent[place]], cliques[place], separator, vertices & ~separator, whole))
        return vertices, whole

    visit(first)
    return RootedTree(root, tuple(edges))


# Which root, and which θ for each edge? Both are chosen from invariants alone.
#
# A θ that depended on the file itself would reveal something about it. It may depend only on what every file with the same clique
# margins shares. So everything here is computed on a *reference file*, drawn uniformly from all files with the invariants of this
# one by running the kernels at θ = 1 with separate randomness. (Its table is a draw from the model given its margins.)
#
# The expected share of rows whose part changes falls as ε = −ln θ grows. ε is divided so that each edge changes the same share of
# rows. A rate is the share of records that change at any edge, as if edges were independent of each other. Given ε or a rate, the
# root is the one that changes least for its ε. An edge whose side cannot change costs nothing.


EPSILONS = np.array(
    [0, 0.25, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 20, 24, 32, 40], dtype=np.float64
)
"""Values of ε at which the share of changed rows is computed; its logarithm is interpolated linearly in between."""

_LEAST_SHARE = 1e-15


@dataclass(frozen=True, eq=False)
class ChangeCurve:
    """The share of rows that change along an edge, as a function of its ε; ``log_share`` is at :data:`EPSILONS` and falls."""

    log_share: NDArray[np.float64]

    @classmethod
    def of(cls, n_changed: NDArray[np.float64], n_records: int) -> ChangeCurve:
        share = np.maximum(n_changed / n_records, _LEAST_SHARE)
        return cls(np.minimum.accumulate(np.log(share)) - 1e-12 * np.arange(len(share)))

    def epsilon_for(self, share: float) -> float:
        """Return the ε at which this share of rows changes; 0 if even a plain shuffle changes no more."""
        log_share = math.log(share)
        if log_share >= self.log_share[0]:
            return 0.0
        return float(np.interp(-log_share, -self.log_share, EPSILONS))


@dataclass(frozen=True)
class Calibrated:
    """A rooted tree with the ε of each edge, and which edges cost nothing because their side cannot change."""

    tree: RootedTree
    epsilons: tuple[float, ...]
    is_free: tuple[bool, ...]
    share_per_edge: float

    @property
    def epsilon(self) -> float:
        return math.fsum(self.epsilons)

    @property
    def share(self) -> float:
        """Share of records that change at some edge, as if edges were independent of each other."""
        return -math.expm1(self.is_free.count(False) * math.log1p(-min(self.share_per_edge, 1 - 1e-15)))

    @property
    def thetas(self) -> tuple[float, ...]:
        return tuple(math.exp(-epsilon) for epsilon in self.epsilons)


class Calibration:
    """Change curves of edges, each computed once, on one reference file."""

    def __init__(self, table: ContingencyTable, graph: ChordalGraph, reference: NDArray[np.int32], *, rare: int = 0) -> None:
        self.table, self.graph, self.reference, self.rare = table, graph, reference, rare
        self._curves: dict[tuple[int, int, int], ChangeCurve] = {}
        self._free: dict[TreeEdge, bool] = {}

    def curve(self, edge: TreeEdge) -> ChangeCurve:
        parent = edge.parent if self.rare else 0
        known = (edge.separator, edge.side, parent)
        if known not in self._curves:
            is_always = always_shuffled(self.table, self.reference, edge, self.rare)
            strata = strata_of_edge(self.table, self.reference, edge, is_always)
            self._curves[known] = ChangeCurve.of(strata.mean_changed(np.exp(-EPSILONS)), len(self.reference))
        return self._curves[known]

    def is_free(self, edge: TreeEdge) -> bool:
        if edge not in self._free:
            self._free[edge] = edge.is_free(self.table)
        return self._free[edge]

    # ------------------------------------------------------------------ one tree

    def at_rate(self, tree: RootedTree, rate: float) -> Calibrated:
        """Calibrate so that each edge changes the same share of rows, and about ``rate`` of the records change at some edge."""
        n_paid = sum(not self.is_free(edge) for edge in tree.edges)
        share = -math.expm1(math.log1p(-rate) / max(n_paid, 1))
        return self._at_share(tree, share)

    def at_epsilon(self, tree: RootedTree, epsilon: float) -> Calibrated:
        """Divide ε among the edges so that each changes the same share of rows."""
        low, high = math.log(_LEAST_SHARE), 0.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self._at_share(tree, math.exp(middle)).epsilon > epsilon else (low, middle)
        calibrated = self._at_share(tree, math.exp(high))
        paid = [place for place, is_free in enumerate(calibrated.is_free) if not is_free]
        if not paid:
            return calibrated
        epsilons = list(calibrated.epsilons)
        # What the curves leave unspent or overspend is spread over the edges, so that the sum is the ε that was asked for.
        factor = epsilon / calibrated.epsilon if calibrated.epsilon > 0 else 0.0
        for place in paid:
            epsilons[place] = epsilons[place] * factor if calibrated.epsilon > 0 else epsilon / len(paid)
        return Calibrated(tree, tuple(epsilons), calibrated.is_free, calibrated.share_per_edge)

    def with_epsilons(self, tree: RootedTree, epsilons: Sequence[float]) -> Calibrated:
        """Use the given ε of each edge; nothing is spent where nothing can change."""
        is_free = tuple(self.is_free(edge) for edge in tree.edges)
        return Calibrated(
            tree, tuple(0.0 if free else float(e) for e, free in zip(epsilons, is_free, strict=True)), is_free, math.nan
        )

    def _at_share(self, tree: RootedTree, share: float) -> Calibrated:
        is_free = tuple(self.is_free(edge) for edge in tree.edges)
        epsilons = (0.0 if free else self.curve(edge).epsilon_for(share) for edge, free in zip(tree.edges, is_free, strict=True))
        return Calibrated(tree, tuple(epsilons), is_free, share)

    # ------------------------------------------------------------------ all roots

    def best(self, of_tree: Callable[[RootedTree], Calibrated]) -> Calibrated:
        """Choose the root that changes least for its ε; among equal ones, the first in the order of the cliques.

        The share that changes falls with ε. If one of the two is given, the lower curve is the one with less of the other.
        """
        by_root = [of_tree(rooted_tree(self.graph, clique)) for clique in self.graph.clique_masks]
        costs = [(round(calibrated.epsilon, 9), round(calibrated.share, 12)) for calibrated in by_root]
        return by_root[min(range(len(by_root)), key=lambda place: (*costs[place], place))]


def reference_file(
    table: ContingencyTable, codes: NDArray[np.int32], graph: ChordalGraph, rng: np.random.Generator
) -> NDArray[np.int32]:
    """Draw a file uniformly from all files with the clique margins of this one; the root does not matter."""
    tree = rooted_tree(graph, graph.clique_masks[0])
    return rearranged(table, codes, tree, [1.0] * len(tree.edges), rng).codes

"""Which root, and which θ for each edge? Both are chosen from invariants alone.

A θ that depended on the file itself would reveal something about it. It may depend only on what every file with the same clique
margins shares. So everything here is computed on a *reference file*, drawn uniformly from all files with the invariants of this
one by running the kernels at θ = 1 with separate randomness. (Its table is a draw from the model given its margins.)

The expected share of rows whose part changes falls as ε = −ln θ grows. ε is divided so that each edge changes the same share of
rows. A rate is the share of records that change at any edge, as if edges were independent of each other. Given ε or a rate, the
root is the one that changes least for its ε. An edge whose side cannot change costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rarecell.graph.chordal import ChordalGraph
from rarecell.swap.formal.mechanism import RootedTree, TreeEdge, always_shuffled, rearranged, rooted_tree, strata_of_edge
from rarecell.table.contingency import ContingencyTable

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
        wanted = math.log(share)
        if wanted >= self.log_share[0]:
            return 0.0
        return float(np.interp(-wanted, -self.log_share, EPSILONS))


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
        found = self._at_share(tree, math.exp(high))
        paid = [place for place, is_free in enumerate(found.is_free) if not is_free]
        if not paid:
            return found
        epsilons = list(found.epsilons)
        # What the curves leave unspent or overspend is spread over the edges, so that the sum is the ε that was asked for.
        factor = epsilon / found.epsilon if found.epsilon > 0 else 0.0
        for place in paid:
            epsilons[place] = epsilons[place] * factor if found.epsilon > 0 else epsilon / len(paid)
        return Calibrated(tree, tuple(epsilons), found.is_free, found.share_per_edge)

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
        found = [of_tree(rooted_tree(self.graph, clique)) for clique in self.graph.clique_masks]
        costs = [(round(one.epsilon, 9), round(one.share, 12)) for one in found]
        return found[min(range(len(found)), key=lambda place: (*costs[place], place))]


def reference_file(
    table: ContingencyTable, codes: NDArray[np.int32], graph: ChordalGraph, rng: np.random.Generator
) -> NDArray[np.int32]:
    """Draw a file uniformly from all files with the clique margins of this one; the root does not matter."""
    tree = rooted_tree(graph, graph.clique_masks[0])
    return rearranged(table, codes, tree, [1.0] * len(tree.edges), rng).codes

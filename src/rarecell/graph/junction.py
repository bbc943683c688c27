"""In what order, and along what tree, are the cliques of a chordal graph connected?

The functions take cliques as bit masks in a fixed order; :class:`~rarecell.graph.chordal.ChordalGraph` calls them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from rarecell.graph.masks import is_inside


@dataclass(frozen=True)
class PerfectSequence:
    """Cliques in an order with the running intersection property.

    Attributes
    ----------
    cliques : tuple of int
        Cliques as bit masks; what each shares with all earlier cliques lies within a single one of them.
    separators : tuple of int
        What each clique shares with all earlier ones; the first is empty. The cell probability of a decomposable model
        is the product over the sequence of n(clique) / n(separator), where n(empty set) is the number of records.
    residuals : tuple of int
        What each clique adds to the earlier ones; the residuals partition the vertices.
    parents : tuple of int
        Position of the first earlier clique that contains the whole separator; -1 for the first clique.
    """

    cliques: tuple[int, ...]
    separators: tuple[int, ...]
    residuals: tuple[int, ...]
    parents: tuple[int, ...]

    @classmethod
    def of(cls, cliques: Sequence[int], separators: Sequence[int]) -> PerfectSequence:
        """Build the sequence, with its residuals and parents; ``separators`` starts with the empty one."""
        parents = [-1] * min(1, len(cliques))
        for place in range(1, len(cliques)):
            separator = separators[place]
            parents.append(next(p for p in range(place) if is_inside(separator, cliques[p])))
        residuals = tuple(clique & ~separator for clique, separator in zip(cliques, separators, strict=True))
        return cls(tuple(cliques), tuple(separators), residuals, tuple(parents))


def maximum_weight_tree(cliques: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """A junction tree: the spanning tree of the cliques with the largest total size of intersections.

    Kruskal's algorithm runs over all pairs of cliques, heaviest first and then in the order of the cliques. A spanning
    tree has the running intersection property exactly when its weight is maximal [1]_. Disjoint cliques are joined as
    well, so that a disconnected graph has a tree, not a forest.

    Parameters
    ----------
    cliques : sequence of int
        The cliques of a chordal graph as bit masks.

    Returns
    -------
    tuple of (int, int)
        Positions of the two cliques of each edge, lower position first; the edges are sorted.

    References
    ----------
    .. [1] Shibata (1988). On the tree representation of chordal graphs. Journal of Graph Theory 12, 421-428.
    """
    pairs = [(-(cliques[a] & cliques[b]).bit_count(), a, b) for a in range(len(cliques)) for b in range(a + 1, len(cliques))]
    group = list(range(len(cliques)))
    edges = []
    for _, a, b in sorted(pairs):
        if group[a] != group[b]:
            edges.append((a, b))
            merged, kept = group[b], group[a]
            group = [kept if g == merged else g for g in group]
    return tuple(sorted(edges))


def n_junction_trees(cliques: Sequence[int], tree: Sequence[tuple[int, int]], multiplicity: Mapping[int, int]) -> int:
    """Number of different junction trees of the same cliques, an exact integer.

    For a separator S of multiplicity ν, let t be the number of cliques that contain S, and f_0, …, f_ν the sizes of the
    groups they form when joined through separators strictly larger than S. Independently of the other separators, the
    groups can be connected in t^(ν−1) Π f_j ways [1]_. One junction tree is enough to find the groups.

    References
    ----------
    .. [1] Thomas and Green (2009). Enumerating the junction trees of a decomposable graph. Journal of Computational
       and Graphical Statistics 18, 930-940.
    """
    number = 1
    for separator, repeated in multiplicity.items():
        holders = [place for place, clique in enumerate(cliques) if is_inside(separator, clique)]
        group = {place: place for place in holders}
        for a, b in tree:
            shared = cliques[a] & cliques[b]
            if shared != separator and is_inside(separator, shared):
                merged, kept = group[b], group[a]
                group = {place: kept if g == merged else g for place, g in group.items()}
        labels = list(group.values())
        sizes = [labels.count(label) for label in set(labels)]
        assert len(sizes) == repeated + 1, "a separator parts its cliques into one group more than its multiplicity"
        number *= len(holders) ** (repeated - 1) * prod(sizes)
    return number

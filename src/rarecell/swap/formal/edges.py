"""Along which edges of the junction tree do parts of records move, and in what order?

Once a clique is chosen as the root, each edge of the tree has a separator S and a side R away from the root. Parts on R move
between records that agree on S. An edge comes after all edges below it: leaves first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rarecell.graph.chordal import ChordalGraph
from rarecell.graph.masks import members
from rarecell.table.contingency import ContingencyTable


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
    for one, other in graph.junction_tree:
        around[one].append(other)
        around[other].append(one)
    first = cliques.index(root)
    parent = {first: -1}
    order = [first]
    for place in order:
        for other in around[place]:
            if other not in parent:
                parent[other] = place
                order.append(other)
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

"""Which chordal graph contains all the edges of a given graph and few others?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rarecell.graph.chordal import ChordalGraph
from rarecell.graph.masks import all_below, each_member, single


def least_fill(neighbours: Sequence[int], n_cells: Callable[[int], int]) -> ChordalGraph:
    """A chordal graph with all the edges of the given graph.

    Vertices are eliminated one by one: each time the vertex whose neighbours lack the fewest edges among themselves. Ties
    go to the vertex whose clique has the fewest cells, then to the first. The missing edges are added.
    """
    filled = list(neighbours)
    left = all_below(len(filled))

    def cost(v: int) -> tuple[int, int, int]:
        around = filled[v] & left
        n_lacking = sum((around & ~filled[w] & ~single(w)).bit_count() for w in each_member(around))
        return n_lacking, n_cells(around | single(v)), v

    while left:
        v = min(each_member(left), key=cost)
        around = filled[v] & left
        for w in each_member(around):
            filled[w] |= around & ~single(w)
        left &= ~single(v)
    return ChordalGraph.from_neighbours(filled)

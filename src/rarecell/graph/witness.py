"""Why is a graph not chordal, or why may an edge not change? The answer is a cycle, a path or a pair of vertices."""

from __future__ import annotations

from collections.abc import Sequence

from rarecell.graph.masks import all_below, components, each_member, holds, lowest_member, mask_of, single


def chordless_cycle(neighbours: Sequence[int]) -> tuple[int, ...] | None:
    """A cycle of length four or more without a chord, or None when the graph is chordal.

    For each vertex v in turn,

    1. remove v and its neighbours, and go through the components that are left;
    2. in a chordal graph, the neighbours of v that touch a component form a complete set;
    3. where two of them are not neighbours, a shortest path between them through the component, closed by v, is the
       cycle: no inner vertex of the path is a neighbour of v, and a shortest path has no chord.

    A chordless cycle would be noticed at any of its vertices, so finding none proves that the graph is chordal.

    Parameters
    ----------
    neighbours : sequence of int
        The neighbours of each vertex as a bit mask.

    Returns
    -------
    tuple of int or None
        The cycle, starting at its lowest vertex and going towards the lower of the two neighbours of that vertex in it.
    """
    everything = all_below(len(neighbours))
    for v, around in enumerate(neighbours):
        for component in components(neighbours, everything & ~around & ~single(v)):
            touching = 0
            for w in each_member(component):
                touching |= neighbours[w] & around
            pair = missing_edge(neighbours, touching)
            if pair is not None:
                a, b = pair
                path = shortest_path(neighbours, a, b, component | mask_of(pair))
                assert path is not None, "both ends touch a connected component"
                # No lower vertex lies on a chordless cycle, or one would have been found there; and a < b.
                return (v, *path)
    return None


def missing_edge(neighbours: Sequence[int], within: int) -> tuple[int, int] | None:
    """The first two vertices of ``within`` that are not neighbours, or None when it is complete."""
    for v in each_member(within):
        strangers = within & ~neighbours[v] & ~single(v)
        if strangers:
            return v, lowest_member(strangers)
    return None


def shortest_path(neighbours: Sequence[int], start: int, end: int, allowed: int) -> tuple[int, ...] | None:
    """A shortest path through ``allowed``, which contains both ends, or None; ties go to the lowest vertex."""
    layers = [single(start)]
    seen = single(start)
    while not holds(seen, end):
        following = 0
        for v in each_member(layers[-1]):
            following |= neighbours[v]
        following &= allowed & ~seen
        if not following:
            return None
        layers.append(following)
        seen |= following
    path = [end]
    for layer in reversed(layers[:-1]):
        path.append(lowest_member(layer & neighbours[path[-1]]))
    return tuple(reversed(path))


def addition_obstacle(neighbours: Sequence[int], u: int, v: int) -> tuple[int, ...] | None:
    """A path from ``u`` to ``v`` that avoids their common neighbours, or None when there is none.

    The edge ``uv`` would close the path, which is a shortest one, to a chordless cycle: the path has no chord, and it has
    at least three edges, because a vertex adjacent to both ends is a common neighbour.
    """
    everything = all_below(len(neighbours))
    return shortest_path(neighbours, u, v, everything & ~(neighbours[u] & neighbours[v]))


def deletion_obstacle(neighbours: Sequence[int], u: int, v: int) -> tuple[int, int] | None:
    """Two common neighbours ``s`` and ``t`` of ``u`` and ``v`` that are not neighbours, or None.

    Without the edge ``uv`` the cycle ``u``, ``s``, ``v``, ``t`` would have no chord.
    """
    return missing_edge(neighbours, neighbours[u] & neighbours[v])

"""How is a set of vertices stored and taken apart?

As a bit mask: bit ``v`` of a Python integer tells whether vertex ``v`` belongs to the set. Union, intersection and
difference are ``|``, ``&`` and ``& ~``; every other operation has a function here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

MAX_VERTICES = 64
"""A set of vertices fits into one machine word."""


def single(vertex: int) -> int:
    """The mask that contains a single vertex.

    >>> single(3)
    8
    """
    return 1 << vertex


def all_below(n_vertices: int) -> int:
    """The mask that contains the vertices 0, 1, …, ``n_vertices`` − 1.

    >>> members(all_below(3))
    (0, 1, 2)
    """
    return (1 << n_vertices) - 1


def mask_of(vertices: Iterable[int]) -> int:
    """The mask that contains the given vertices.

    >>> mask_of([0, 3])
    9
    """
    mask = 0
    for v in vertices:
        mask |= single(v)
    return mask


def holds(mask: int, vertex: int) -> bool:
    """Whether a vertex belongs to a mask.

    >>> holds(9, 3), holds(9, 2)
    (True, False)
    """
    return mask >> vertex & 1 == 1


def is_inside(mask: int, other: int) -> bool:
    """Whether every vertex of ``mask`` belongs to ``other``; a set is inside itself.

    >>> is_inside(1, 9), is_inside(3, 9)
    (True, False)
    """
    return mask & ~other == 0


def members(mask: int) -> tuple[int, ...]:
    """The vertices of a mask, in ascending order.

    >>> members(9)
    (0, 3)
    """
    return tuple(each_member(mask))


def each_member(mask: int) -> Iterator[int]:
    """Iterate over the vertices of a mask in ascending order."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def lowest_member(mask: int) -> int:
    """The lowest vertex of a non-empty mask."""
    return (mask & -mask).bit_length() - 1


def subsets(mask: int) -> NDArray[np.int64]:
    """All subsets of a mask of at most 63 vertices, including the empty set and the mask itself, in ascending order.

    >>> subsets(5).tolist()
    [0, 1, 4, 5]
    """
    subsets_so_far = np.zeros(1, dtype=np.int64)
    for v in each_member(mask):
        subsets_so_far = np.concatenate([subsets_so_far, subsets_so_far | single(v)])
    return subsets_so_far


def in_canonical_order(masks: Iterable[int]) -> tuple[int, ...]:
    """Masks sorted by their ascending tuples of members: {0, 2} before {0, 3} before {1}."""
    return tuple(sorted(masks, key=members))


def reachable(neighbours: Sequence[int], start: int, allowed: int) -> int:
    """Vertices of ``allowed`` that can be reached from ``start`` through vertices of ``allowed`` alone."""
    reached = frontier = start & allowed
    while frontier:
        fresh = neighbours[lowest_member(frontier)] & allowed & ~reached
        reached |= fresh
        frontier = frontier & (frontier - 1) | fresh
    return reached


def components(neighbours: Sequence[int], allowed: int) -> tuple[int, ...]:
    """Connected components of the subgraph induced by ``allowed``, in the order of their lowest vertices."""
    parts = []
    while allowed:
        component = reachable(neighbours, allowed & -allowed, allowed)
        parts.append(component)
        allowed &= ~component
    return tuple(parts)

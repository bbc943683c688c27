"""Sets of vertices as bit masks: bit ``v`` of a Python integer says whether vertex ``v`` belongs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

MAX_VERTICES = 64


def mask_of(vertices: Iterable[int]) -> int:
    """The mask that holds the given vertices.

    >>> mask_of([0, 3])
    9
    """
    mask = 0
    for v in vertices:
        mask |= 1 << v
    return mask


def members(mask: int) -> tuple[int, ...]:
    """The vertices of a mask, ascending.

    >>> members(9)
    (0, 3)
    """
    return tuple(each_member(mask))


def each_member(mask: int) -> Iterator[int]:
    """The vertices of a mask one by one, ascending."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def lowest_member(mask: int) -> int:
    """The lowest vertex of a mask that is not empty."""
    return (mask & -mask).bit_length() - 1


def in_canonical_order(masks: Iterable[int]) -> tuple[int, ...]:
    """Masks sorted by their members as ascending tuples: {0, 2} before {0, 3} before {1}."""
    return tuple(sorted(masks, key=members))


def reachable(neighbours: Sequence[int], start: int, allowed: int) -> int:
    """Vertices of ``allowed`` that can be reached from those of ``start`` through ``allowed`` alone."""
    reached = frontier = start & allowed
    while frontier:
        fresh = neighbours[lowest_member(frontier)] & allowed & ~reached
        reached |= fresh
        frontier = frontier & (frontier - 1) | fresh
    return reached


def components(neighbours: Sequence[int], allowed: int) -> tuple[int, ...]:
    """Connected components of the subgraph induced by ``allowed``, by their lowest vertex."""
    found = []
    while allowed:
        component = reachable(neighbours, allowed & -allowed, allowed)
        found.append(component)
        allowed &= ~component
    return tuple(found)

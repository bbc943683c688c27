"""How many cells are left when some combinations of levels cannot occur?

Degrees of freedom count possible cells. With structural zeros, a cell is possible when it contains none of the excluded
combinations. A combination of groups of levels is excluded when all combinations of their levels are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from rarecell.graph.masks import mask_of, members
from rarecell.table.contingency import ContingencyTable

LARGEST_ARRAY = 2**24
"""Number of cells of the largest array used in counting."""

Factor = tuple[tuple[int, ...], NDArray[np.generic]]
"""Vertices in ascending order, and an array with one axis for each."""


class Compatibility:
    """Which combinations of key levels are excluded, as arrays, and how many cells of any set of vertices are left.

    Parameters
    ----------
    table : ContingencyTable
        The contingency table; sets consist of its vertices.
    excluded : mapping of tuple of int to numpy.ndarray
        For each tuple of ascending key positions, a Boolean array over their levels, True where excluded.
    largest_array : int
        Number of cells of the largest array used in counting; a set that needs a larger one gets an upper bound.
    """

    def __init__(
        self,
        table: ContingencyTable,
        excluded: Mapping[tuple[int, ...], NDArray[np.bool_]],
        *,
        largest_array: int = LARGEST_ARRAY,
    ) -> None:
        self.table = table
        self.excluded = {keys: array for keys, array in excluded.items() if array.any()}
        self._largest_array = largest_array
        self._lifted: dict[tuple[tuple[int, ...], tuple[int, ...]], NDArray[np.bool_]] = {}
        self._counts: dict[int, int] = {}

    def violates(self, cells: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Whether each cell (key codes, one row per cell) contains an excluded combination."""
        is_excluded = np.zeros(len(cells), dtype=bool)
        for keys, array in self.excluded.items():
            is_excluded |= array[tuple(cells[:, k] for k in keys)]
        return is_excluded

    def n_cells(self, mask: int) -> int:
        """Number of value combinations of a set of vertices that contain no excluded combination."""
        reduced = self.table.reduce(mask)
        if reduced not in self._counts:
            self._counts[reduced] = self._count(reduced)
        return self._counts[reduced]

    def n_cells_many(self, masks: NDArray[np.uint64]) -> NDArray[np.float64]:
        """:meth:`n_cells` of many sets; exact below 2^53."""
        return np.array([float(self.n_cells(mask)) for mask in masks.tolist()])

    # ------------------------------------------------------------------ counting

    def _count(self, reduced: int) -> int:
        vertices = members(reduced)
        vertex_of_key = {int(self.table.vertex_key[v]): v for v in vertices}
        factors = []
        for keys in self.excluded:
            if all(k in vertex_of_key for k in keys):
                scope = tuple(vertex_of_key[k] for k in keys)
                order = np.argsort(scope)
                allowed = self._allowed(keys, scope).transpose(order)
                if not allowed.all():
                    factors.append((tuple(sorted(scope)), allowed))
        total = 1
        for v in vertices:
            if not any(v in scope for scope, _ in factors):
                total *= int(self.table.vertex_levels[v])
        groups = _linked(factors)
        if len(groups) == 1 and total == 1:
            return self._eliminate(groups[0])
        # Sets that share a group of linked vertices also share its count.
        return total * math.prod(self.n_cells(mask_of(_scope(group))) for group in groups)

    def _allowed(self, keys: tuple[int, ...], scope: tuple[int, ...]) -> NDArray[np.bool_]:
        """What is not excluded among these keys, at the resolution of the vertices in ``scope``."""
        if (keys, scope) not in self._lifted:
            allowed = ~self.excluded[keys]
            for axis, v in enumerate(scope):
                if v >= self.table.n_keys:
                    group = self.table.coarsenings[v - self.table.n_keys].group_of_level
                    by_group = np.zeros((int(self.table.vertex_levels[v]), *np.delete(allowed.shape, axis)), dtype=bool)
                    np.logical_or.at(by_group, group, np.moveaxis(allowed, axis, 0))
                    allowed = np.moveaxis(by_group, 0, axis)
            self._lifted[keys, scope] = allowed
        return self._lifted[keys, scope]

    def _eliminate(self, factors: Sequence[Factor]) -> int:
        """Sum of the product of the factors over all their vertices, one vertex at a time."""
        levels = self.table.vertex_levels
        n_formal = math.prod(int(levels[v]) for v in _scope(factors))
        dtype = np.dtype(np.int64) if n_formal < 2**62 else np.dtype(object)
        left: list[Factor] = [(scope, array.astype(dtype)) for scope, array in factors]
        while _scope(left):

            def size(v: int) -> tuple[int, int]:
                joint = _scope([factor for factor in left if v in factor[0]])  # noqa: B023 - called at once
                return math.prod(int(levels[w]) for w in joint), v

            vertex = min(_scope(left), key=size)
            holding = [factor for factor in left if vertex in factor[0]]
            left = [factor for factor in left if vertex not in factor[0]]
            left += self._summed_out(vertex, holding)
        return math.prod(int(array) for _, array in left)

    def _summed_out(self, vertex: int, factors: list[Factor]) -> list[Factor]:
        """The product of ``factors`` summed over ``vertex``.

        Where the array of the product would be too large, an upper bound replaces it: the factors are divided into
        products that are small enough; the first is summed, and of each of the others the maximum is taken (mini-buckets,
        Dechter and Rish 2003).
        """
        buckets: list[list[Factor]] = []
        for factor in sorted(factors, key=lambda factor: -factor[1].size):
            for bucket in buckets:
                if math.prod(int(self.table.vertex_levels[v]) for v in _scope([*bucket, factor])) <= self._largest_array:
                    bucket.append(factor)
                    break
            else:
                buckets.append([factor])
        results = []
        for position, bucket in enumerate(buckets):
            scope = _scope(bucket)
            product = reduce(np.multiply, (_expanded(factor, scope) for factor in bucket))
            axis = scope.index(vertex)
            merged = product.sum(axis=axis) if position == 0 else product.max(axis=axis)
            results.append((tuple(v for v in scope if v != vertex), np.asarray(merged)))
        return results


def _scope(factors: Sequence[Factor]) -> tuple[int, ...]:
    return tuple(sorted({v for scope, _ in factors for v in scope}))


def _expanded(factor: Factor, scope: tuple[int, ...]) -> NDArray[np.generic]:
    """The factor's array with an axis of length 1 for each vertex of ``scope`` that the factor lacks."""
    own, array = factor
    lengths = iter(array.shape)
    return array.reshape([next(lengths) if v in own else 1 for v in scope])


def _linked(factors: Sequence[Factor]) -> list[list[Factor]]:
    """The factors in groups that share no vertex with each other."""
    groups: list[list[Factor]] = []
    for factor in factors:
        touching = [group for group in groups if set(_scope(group)) & set(factor[0])]
        groups = [group for group in groups if group not in touching]
        groups.append([factor, *(member for group in touching for member in group)])
    return groups

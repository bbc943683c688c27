"""Which interactions can a regularised model have, and where are their parameters stored?

A *term* gives a separate parameter to every combination of levels of some vertices, at most one vertex per key. Terms on
the same keys at different resolutions add up: the term of age bands and region describes what the years of a band have in
common, the term of age and region what remains for single years.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from rarecell.graph.masks import mask_of
from rarecell.table.contingency import ContingencyTable
from rarecell.table.marginals import Marginals

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Term:
    """An interaction of vertices: the table of keys that it belongs to, and its parameter for each cell of that table."""

    vertices: tuple[int, ...]
    scope: int
    parameter_of_cell: NDArray[np.int64]
    n_parameters: int


class Interactions:
    """Main effects of all keys and a list of terms, as one vector of parameters.

    Attributes
    ----------
    scopes : list of tuple of int
        The sets of keys that have a table; first each key alone, for its main effect.
    start : numpy.ndarray
        Where the table of each scope starts in the flat array of all tables.
    counts : numpy.ndarray
        The observed marginal counts in the layout of that array.
    terms : list of Term
        The terms; their parameters follow the main effects in this order.
    first : numpy.ndarray
        Where the parameters of each term start.
    """

    def __init__(self, marginals: Marginals, vertex_sets: Iterable[tuple[int, ...]]) -> None:
        self.marginals = marginals
        table = marginals.table
        self.table = table
        self.levels = [c.n_levels for c in table.categories]
        wanted = list(vertex_sets)
        keys_of = [tuple(sorted(int(table.vertex_key[v]) for v in vertices)) for vertices in wanted]
        self.scopes: list[tuple[int, ...]] = [(k,) for k in range(table.n_keys)]
        self.scopes += sorted(set(keys_of), key=lambda keys: (len(keys), keys))
        position = {keys: s for s, keys in enumerate(self.scopes)}
        sizes = [math.prod(self.levels[k] for k in keys) for keys in self.scopes]
        self.start: NDArray[np.int64] = np.cumsum([0, *sizes])
        self.n_main = int(self.start[table.n_keys])
        self.counts: Vector = np.concatenate([full_marginal(marginals, keys) for keys in self.scopes])
        self.terms = [
            _term(table, v, position[k]) for v, k in sorted(zip(wanted, keys_of, strict=True), key=lambda pair: position[pair[1]])
        ]
        self.first: NDArray[np.int64] = self.n_main + np.cumsum([0, *(term.n_parameters for term in self.terms)])

    @property
    def n_parameters(self) -> int:
        return int(self.first[-1])

    def log_tables(self, parameters: Vector) -> Vector:
        """The logarithm of each table: the sum of its terms."""
        found = np.zeros(int(self.start[-1]))
        found[: self.n_main] = parameters[: self.n_main]
        for term, first in zip(self.terms, self.first, strict=False):
            found[self.start[term.scope] : self.start[term.scope + 1]] += parameters[first + term.parameter_of_cell]
        return found

    def gathered(self, tables: Vector) -> Vector:
        """For each parameter, the sum of the table entries that belong to it: the transpose of :meth:`log_tables`."""
        found = np.zeros(self.n_parameters)
        found[: self.n_main] = tables[: self.n_main]
        for term, first in zip(self.terms, self.first, strict=False):
            part = tables[self.start[term.scope] : self.start[term.scope + 1]]
            found[first : first + term.n_parameters] = np.bincount(
                term.parameter_of_cell, weights=part, minlength=term.n_parameters
            )
        return found

    def spread(self, values: Sequence[float] | Vector, *, main: float) -> Vector:
        """The value of each term repeated for its parameters; ``main`` for the main effects."""
        repeats = np.diff(self.first)
        return np.concatenate([np.full(self.n_main, main), np.repeat(np.asarray(values, dtype=float), repeats)])

    def by_term(self, values: Vector) -> Vector:
        """For each term, the sum of ``values`` over its parameters."""
        return np.array([values[low:high].sum() for low, high in zip(self.first, self.first[1:], strict=False)])

    def log_weight(self, tables: Vector, cells: NDArray[np.int32]) -> Vector:
        """For each cell, given by key codes, the sum of the entries of all tables."""
        total = np.zeros(len(cells))
        for scope, low in zip(self.scopes, self.start, strict=False):
            place = np.zeros(len(cells), dtype=np.int64)
            for k in scope:
                place = place * self.levels[k] + cells[:, k]
            total += tables[low + place]
        return total


def resolutions(table: ContingencyTable, keys: Sequence[int]) -> list[tuple[int, ...]]:
    """All choices of one vertex for each key."""
    return list(product(*(table.chains[k] for k in keys)))


def full_marginal(marginals: Marginals, keys: Sequence[int]) -> Vector:
    """Counts of all cells of some keys, including empty ones, as a flat array in which the last key varies fastest."""
    mask = mask_of(keys)
    found = np.zeros(math.prod(marginals.table.categories[k].n_levels for k in keys))
    marginal = marginals.project(mask)
    assert marginal.keys is not None, "a marginal that is stored in full can be numbered"
    found[marginal.keys] = marginal.counts
    return found


def _term(table: ContingencyTable, vertices: tuple[int, ...], scope: int) -> Term:
    by_key = sorted(vertices, key=lambda v: int(table.vertex_key[v]))
    parameter = np.zeros((), dtype=np.int64)
    for v in by_key:
        n_levels = table.categories[int(table.vertex_key[v])].n_levels
        group = np.arange(n_levels) if v < table.n_keys else table.coarsenings[v - table.n_keys].group_of_level.astype(np.int64)
        parameter = parameter[..., None] * int(table.vertex_levels[v]) + group
    return Term(tuple(by_key), scope, parameter.reshape(-1), math.prod(int(table.vertex_levels[v]) for v in by_key))

"""What does a back-off network become when the same records are released with one key less, or with a coarser one?

Most of it stays. A network of the coarser table, with the other keys in the same order, predicts most vertices from the same
contexts as before, and counts the same records in them. So what is known from the finer table is taken from there: how much each
context helps, the weights of contexts, and the probabilities. Only conditionals that use the changed key are fitted anew.

The result is the network that :class:`~rarecell.model.backoff.BackoffNetwork` would fit to the coarser table, but for rounding.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels import backoff as kernels
from rarecell._kernels.counting import CellIndex
from rarecell.model.backoff import BackoffModel, BackoffNetwork, moments_at_occupied, random_orders
from rarecell.model.backoff_conditionals import Conditional, fitted_conditional
from rarecell.model.backoff_contexts import Context, FinerScores, Floats, Growth, Scores
from rarecell.progress import SILENT, Progress
from rarecell.table.coarsening import with_answered
from rarecell.table.contingency import Coarsening, ContingencyTable


class _Fit(NamedTuple):
    """The contexts of a conditional, and the moments of its logarithm at every cell of the finer table."""

    contexts: tuple[Context, ...]
    at_cells: Floats


class CoarserNetworks:
    """A network of a table, from which those of coarser tables follow.

    Parameters
    ----------
    table : ContingencyTable
        The finer table. In it, no key decides whether others have a value: :meth:`applies_to` says so.
    seed : int
        Seed of the order of the keys.
    progress : Progress
        Asked whether to stop.

    Attributes
    ----------
    model : BackoffModel
        The network of the finer table.
    """

    def __init__(self, table: ContingencyTable, *, seed: int = 0, progress: Progress = SILENT) -> None:
        self.table = table
        self._progress = progress
        self._finer = with_answered(table)
        self._scores: Scores = {}
        (order,) = random_orders(table.keys, 1, np.random.default_rng(seed))
        self._order = [table.keys[k] for k in order]
        network = BackoffNetwork(self._finer, order, scores=self._scores, progress=progress)
        self._fits: dict[tuple[int, ...], _Fit] = {}
        for conditional in network.conditionals:
            moments, place = network.moments_of(conditional)
            name = (conditional.vertex, *(context.mask for context in conditional.contexts))
            self._fits[name] = _Fit(conditional.contexts, moments[place])
        self._vertices = {
            (int(self._finer.vertex_key[v]), _bytes(self._finer.level_codes(v))): v for v in range(self._finer.n_vertices)
        }
        self.model = BackoffModel([network], table)

    @staticmethod
    def applies_to(table: ContingencyTable) -> bool:
        """Whether the same records are predicted whichever keys there are."""
        return all(decided is None for decided in with_answered(table).deciders)

    def without(self, key: str) -> BackoffModel:
        """The network without a key."""
        return self.of(self.table.project([other for other in self.table.keys if other != key]), key, None)

    def coarsened(self, coarsening: Coarsening) -> BackoffModel:
        """The network with a key replaced by its coarsening."""
        return self.of(self.table.recode(coarsening), coarsening.key, coarsening)

    def of(self, coarser: ContingencyTable, key: str, coarsening: Coarsening | None) -> BackoffModel:
        """The network of a table without ``key``, or, given its ``coarsening``, with that in its place."""
        table = with_answered(coarser)
        order = [table.keys.index(name) for name in self._order if name in table.keys]
        known = FinerScores(self._scores, self._numbers_there(table, key, coarsening))
        cell = self._one_cell_of_each(coarser, key, coarsening)
        at_cells = np.zeros((table.n_cells, 3))
        conditionals = []
        for vertex, masks in Growth(table, self._progress, finer=known).conditionals(tuple(order)):
            fit = self._fits.get((known.number_there[vertex], *map(known.mask_there, masks)))
            if fit is None:
                conditional, betas = fitted_conditional(table, vertex, masks)
                kernels.add_at(at_cells, *moments_at_occupied(table, conditional, betas))
            else:
                contexts = (replace(context, mask=mask) for context, mask in zip(fit.contexts, masks, strict=True))
                conditional = Conditional(vertex, tuple(contexts))
                kernels.add_at(at_cells, fit.at_cells, cell)
            conditionals.append(conditional)
        return BackoffModel([BackoffNetwork.of_conditionals(table, order, conditionals, at_cells)], coarser)

    def _numbers_there(self, table: ContingencyTable, key: str, coarsening: Coarsening | None) -> tuple[int, ...]:
        """For each vertex, that of the finer table which groups the records alike; numbers of their own for the others.

        Its siblings are alike as well, because those of a vertex follow from the vertex before it in the chain, which is the
        shortest of its contexts.
        """
        numbers = []
        for v in range(table.n_vertices):
            name = table.keys[table.vertex_key[v]]
            codes = table.level_codes(v)
            if name == key and coarsening is not None:
                codes = codes[coarsening.group_of_level]
            own = self._finer.n_vertices + v
            numbers.append(self._vertices.get((self._finer.keys.index(name), _bytes(codes)), own))
        return tuple(numbers)

    def _one_cell_of_each(self, coarser: ContingencyTable, key: str, coarsening: Coarsening | None) -> NDArray[np.int32]:
        """For each cell of the coarser table, one of the finer table that falls into it."""
        columns = [self.table.cells[:, self.table.keys.index(name)] for name in coarser.keys]
        if coarsening is not None:
            place = coarser.keys.index(key)
            columns[place] = coarsening.group_of_level[columns[place]]
        cell = np.empty(coarser.n_cells, dtype=np.int32)
        cell[CellIndex(coarser.cells, coarser.vertex_levels[: coarser.n_keys]).find(columns)] = np.arange(self.table.n_cells)
        return cell


def _bytes(codes: NDArray[np.int32]) -> bytes:
    return codes.astype(np.int32).tobytes()

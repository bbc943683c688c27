"""How is a vertex predicted from its contexts, and how uncertain is the prediction?

Along growing contexts, the distribution of a value is shrunk towards that in the previous context. The result is a mean and
a variance for every value in its longest context; a beta distribution with these two moments serves as its posterior.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rarecell._kernels import backoff as kernels
from rarecell.graph.masks import single
from rarecell.model.backoff_contexts import POWERS, STRENGTHS, Context, Floats, Rows, n_values, parent_of
from rarecell.table.contingency import ContingencyTable

if TYPE_CHECKING:
    from rarecell.edges import Integers


@dataclass(frozen=True)
class Conditional:
    """How a vertex is predicted: from growing contexts, the shortest first."""

    vertex: int
    contexts: tuple[Context, ...]

    @property
    def pair(self) -> int:
        """The vertex together with its longest context: cells that agree on these have the same probability."""
        return (self.contexts[-1].mask if self.contexts else 0) | single(self.vertex)


class Betas(NamedTuple):
    """Posteriors of conditional probabilities: mean, one minus the mean, and variance.

    Both the mean and its complement are stored, because 1 − mean is mere rounding error where a value is nearly certain.
    """

    mean: Floats
    rest: Floats
    variance: Floats

    @classmethod
    def uniform(cls, n_values: Floats) -> Betas:
        """The start of every chain of contexts: all values are equally likely, with no uncertainty about it."""
        return cls(1.0 / n_values, (n_values - 1.0) / n_values, np.zeros(len(n_values)))

    def at(self, places: Integers) -> Betas:
        return Betas(self.mean[places], self.rest[places], self.variance[places])

    def given(self, of_pair: Floats, of_context: Floats, context: Context) -> Betas:
        """The posteriors after the records of a longer context, of which ``of_pair`` have the value.

        Given its mean m, the probability has a beta distribution with variance m(1−m)/(T+1), where T is the number of records
        plus the weight of the shorter context; m itself varies with the shorter context. A context without records changes nothing.
        """
        found = Betas(self.mean.copy(), self.rest.copy(), self.variance.copy())
        kernels.shrink(*found, of_pair, of_context, context.strength, context.power)
        return found


def fitted_conditional(
    table: ContingencyTable, vertex: int, masks: Sequence[int], contexts: Sequence[Context] | None = None
) -> tuple[Conditional, Betas]:
    """Smooth every context by leave-one-out likelihood on all records, unless the fitted ``contexts`` are given.

    1. Rows are the pairs of the longest context; shorter contexts merge some of them.
    2. The pairs of the first context are values of the vertex; each further context adds a vertex and refines them.
    3. The weight of the shorter context is the best by leave-one-out likelihood.
    4. The mean and variance of the posterior follow from those in the shorter context.
    """
    longest = (masks[-1] if masks else 0) | single(vertex)
    rows = Rows(table, table.marginals.level_rows(longest), table.marginals.counts(longest))
    before = rows.codes(vertex)
    betas = Betas.uniform(n_values(table, vertex))
    left_out = betas.mean
    found: list[Context] = []
    for place, mask in enumerate(masks):
        if place == 0:
            given, pairs = rows.start(vertex, parent_of(table, vertex))
        else:
            added = (mask & ~masks[place - 1]).bit_length() - 1
            given, pairs = rows.refined(given, added), rows.refined(pairs, added)
        of_pair, of_context, first = rows.tally(given, pairs)
        shorter = before[first]
        betas, left_out = betas.at(shorter), left_out[shorter]
        if contexts is None:
            _, strength, power = kernels.best_weight(of_pair, of_context, left_out, STRENGTHS, POWERS)
            found.append(Context(mask, strength, power))
            one_less = np.empty(len(left_out))
            kernels.leave_one_out(of_pair, of_context, left_out, strength, power, one_less)
            left_out = one_less
        else:
            found.append(contexts[place])
        betas = betas.given(of_pair, of_context, found[-1])
        before = pairs.of_row
    return Conditional(vertex, tuple(found)), betas.at(before)

"""Back-off probabilities and leave-one-out likelihoods from the definition, one record at a time."""

from __future__ import annotations

import math

import numpy as np

import rarecell as rc
from rarecell.model.backoff import BackoffNetwork
from rarecell.model.backoff_conditionals import Conditional


def probability(network: BackoffNetwork, conditional: Conditional, records: np.ndarray, cell: np.ndarray) -> float:
    """P(value of the vertex at ``cell`` | its context) from plain records, the shortest context first."""
    table = network.table
    chain = table.chains[int(table.vertex_key[conditional.vertex])]
    step = chain.index(conditional.vertex)

    def code(row: np.ndarray, vertex: int) -> int:
        return int(table.map_cells(row[None, :], vertex)[0])

    key = int(table.vertex_key[conditional.vertex])
    siblings = set()
    for level in range(table.categories[key].n_levels):
        row = cell.copy()
        row[key] = level
        if step == 0 or code(row, chain[step - 1]) == code(cell, chain[step - 1]):
            siblings.add(code(row, conditional.vertex))
    n_records = {
        s: sum(n for r, n in zip(table.cells, table.counts, strict=True) if code(r, conditional.vertex) == s) for s in siblings
    }
    once, twice = (sum(n == k for n in n_records.values()) for k in (1, 2))
    p = 1.0 / (len(siblings) + once * (once - 1) / (2 * (twice + 1)))
    for context in conditional.contexts:
        given = [v for v in range(table.n_vertices) if context.mask >> v & 1]
        there = [r for r in records if all(code(r, v) == code(cell, v) for v in given)]
        same = sum(code(r, conditional.vertex) == code(cell, conditional.vertex) for r in there)
        weight = context.strength * len(there) ** context.power
        if there:
            d = context.discount
            n_values = len({code(r, conditional.vertex) for r in there})
            p = (max(same - d, 0) + (weight + d * n_values) * p) / (len(there) + weight)
    return p


def leave_one_out(network: BackoffNetwork, conditional: Conditional, records: np.ndarray) -> float:
    """Σ over records of log P(value | all other records)."""
    return sum(
        math.log(probability(network, conditional, np.delete(records, i, axis=0), record)) for i, record in enumerate(records)
    )


def leave_households_out(network: BackoffNetwork, conditional: Conditional, records: np.ndarray, household: np.ndarray) -> float:
    """Σ over records of log P(value | the records of all other households)."""
    return sum(
        math.log(probability(network, conditional, records[household != own], record))
        for own, record in zip(household, records, strict=True)
    )


def records_of(table: rc.ContingencyTable) -> np.ndarray:
    return np.repeat(table.cells, table.counts, axis=0)


def distinct_pairs(groups: np.ndarray, codes: np.ndarray) -> list[int]:
    """Number of each pair of group and code, in the order in which pairs appear."""
    number: dict[tuple[int, int], int] = {}
    return [number.setdefault((int(g), int(c)), len(number)) for g, c in zip(groups, codes, strict=True)]

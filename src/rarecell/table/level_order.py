"""Are the numbers of a key in a meaningful order?

Codes of marital status are whole numbers, and so are ages, but only neighbouring ages are alike. The data can tell the two
apart: where the order is meaningful, people with neighbouring values are alike in the other keys. Each level is described by
its shares in the other keys, and the total distance between neighbouring levels is compared with that of random orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rarecell.graph.masks import mask_of
from rarecell.table.contingency import Categories, ContingencyTable

Floats = NDArray[np.float64]

FEWEST_LEVELS = 5
"""Four levels have only twelve orders up to reversal, too few to tell a meaningful order from chance."""

FEWEST_RECORDS = 200
"""With fewer records the test cannot decide, and numbers are taken as ordered."""

MOST_LEVELS_IN_QUESTION = 30
"""Names are rarely coded with this many numbers; keys with more levels are ages, years, hours or incomes."""

N_ORDERS = 999
SIGNIFICANCE = 0.02


@dataclass(frozen=True)
class OrderTest:
    """Whether the levels of a key are in a meaningful order.

    Attributes
    ----------
    key : str
        The name of the key.
    is_ordered : bool
        Whether the data support the order.
    p_value : float
        Share of random orders whose neighbouring levels are at least as alike.
    """

    key: str
    is_ordered: bool
    p_value: float


def order_notes(table: ContingencyTable, tests: Sequence[OrderTest], *, declared: frozenset[str] = frozenset()) -> list[str]:
    """Tell the reader which keys had their numbers taken as names and which as ordered, where nobody said so."""
    names = [test.key for test in tests if not test.is_ordered]
    tested = [test.key for test in tests if test.is_ordered]
    untested = [c.key for c in table.categories if c.key not in (*declared, *tested) and _is_guessed(c)]
    notes = []
    if names:
        notes.append(
            f"The numbers of {_listed(names)} are taken as codes without an order: neighbouring values are no more alike in the other keys than "
            f'any others. If they are ordered, say so: --recode "{names[0]}=ordered".'
        )
    for keys, why in (
        (tested, ": neighbouring values are alike in the other keys"),
        (untested, ", because they are whole numbers"),
    ):
        if keys:
            notes.append(
                f"The numbers of {_listed(keys)} are taken as ordered{why}. If they are codes, such as those of regions, say so: "
                f'--recode "{_likeliest_codes(keys, table)}=unordered".'
            )
    return notes


def _likeliest_codes(keys: Sequence[str], table: ContingencyTable) -> str:
    """The key with the fewest levels: that of several whose numbers are most likely codes."""
    n_levels = {c.key: c.n_levels for c in table.categories}
    return min(keys, key=lambda key: n_levels[key])


def _listed(keys: Sequence[str]) -> str:
    return " and ".join(part for part in (", ".join(f"'{key}'" for key in keys[:-1]), f"'{keys[-1]}'") if part)


def _is_guessed(categories: Categories) -> bool:
    """Whether a key counts as ordered only because its values are whole numbers; two values are in order either way."""
    levels = [level for level in categories.levels if level is not None]
    return categories.is_ordered and len(levels) > 2 and all(type(level) is int for level in levels)


def is_in_question(categories: Categories) -> bool:
    """Whether a key counts as ordered only because its values are whole numbers, and few of them."""
    n_levels = sum(level is not None for level in categories.levels)
    return _is_guessed(categories) and FEWEST_LEVELS <= n_levels <= MOST_LEVELS_IN_QUESTION


def order_test(categories: Categories, others: Sequence[Floats], *, n_orders: int = N_ORDERS, seed: int = 0) -> OrderTest:
    """Compare the order of a key's levels with random orders.

    1. Describe each level by its shares in every other column, with half a record added to each count.
    2. Take as the distance between two levels the squared Hellinger distance of these shares, summed over the other columns.
    3. Add up the distances between neighbours, for the given order and for random orders.

    Parameters
    ----------
    categories : Categories
        The levels of the key.
    others : sequence of ndarray of float64
        For each other column, the number of records at each level of the key, in rows, and of the column.
    """
    n_levels = sum(level is not None for level in categories.levels)
    distance = np.zeros((n_levels, n_levels))
    for counts in others:
        # A missing level is the last one, and has no place in an order.
        joint = 0.5 + counts[:n_levels]
        root = np.sqrt(joint / joint.sum(axis=1, keepdims=True))
        distance += 1.0 - root @ root.T
    rng = np.random.default_rng(seed)
    given = float(distance[np.arange(n_levels - 1), np.arange(1, n_levels)].sum())
    at_least = 1
    for _ in range(n_orders):
        order = rng.permutation(n_levels)
        at_least += float(distance[order[:-1], order[1:]].sum()) <= given + 1e-12
    p_value = at_least / (n_orders + 1)
    return OrderTest(categories.key, p_value <= SIGNIFICANCE, p_value)


def counts_by_others(table: ContingencyTable, key: int) -> list[Floats]:
    """Number of records at each level of a key by those of every other key that has several."""
    return [_pair_counts(table, key, other) for other, c in enumerate(table.categories) if other != key and c.n_levels > 1]


def _pair_counts(table: ContingencyTable, key: int, other: int) -> Floats:
    """Number of records at each level of a key, in rows, and of another, in columns."""
    first, second = min(key, other), max(key, other)
    cells = table.marginals.cells_of(mask_of((first, second)))
    shape = (table.categories[first].n_levels, table.categories[second].n_levels)
    counts = np.zeros(shape)
    counts.ravel()[cells.keys] = cells.counts
    return counts if key == first else counts.T


def with_meant_orders(
    table: ContingencyTable, *, declared: frozenset[str] = frozenset()
) -> tuple[ContingencyTable, tuple[OrderTest, ...]]:
    """The table with whole numbers taken as ordered only where the data support it, and the tests that decided.

    Parameters
    ----------
    table : ContingencyTable
        The table, without automatic coarsenings.
    declared : frozenset of str
        Keys whose order was stated by the user or by the source.
    """
    if table.n_keys < 2 or table.n_records < FEWEST_RECORDS:
        return table, ()
    asked = [k for k, c in enumerate(table.categories) if c.key not in declared and is_in_question(c)]
    tests = tuple(order_test(table.categories[k], counts_by_others(table, k)) for k in asked)
    unordered = {test.key for test in tests if not test.is_ordered}
    if not unordered:
        return table, tests
    categories = tuple(replace(c, is_ordered=False) if c.key in unordered else c for c in table.categories)
    return replace(table, categories=categories), tests

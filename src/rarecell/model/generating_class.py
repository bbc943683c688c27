"""Which marginals does a hierarchical model fit, and how many parameters does it have?

A hierarchical log-linear model is specified by its *generating class*: the maximal sets of vertices that interact. Sets
are closed here: a vertex comes with the coarser vertices of its key, so that inclusion of sets corresponds to inclusion
of the spaces of functions on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from rarecell.errors import TooLarge, UnknownChoice
from rarecell.graph.chordal import ChordalGraph, least_fill, neighbours_of_cliques
from rarecell.graph.masks import in_canonical_order, mask_of, single
from rarecell.table.contingency import ContingencyTable

NAMED_CLASSES = {"all two-way": 2, "all three-way": 3}
"""Named generating classes, and the number of keys in each of their sets."""

MOST_INTERSECTIONS = 50_000
"""A generating class whose sets have more distinct intersections than this is refused."""


def generating_class(table: ContingencyTable, generators: str | Iterable[Sequence[str]]) -> tuple[int, ...]:
    """The maximal closed sets of vertices, in canonical order; a key in none of them is a set by itself.

    Parameters
    ----------
    table : ContingencyTable
        The contingency table.
    generators : str or iterable of sequence of str
        Groups of vertex names, or ``"all two-way"`` or ``"all three-way"``.
    """
    if isinstance(generators, str):
        if generators not in NAMED_CLASSES:
            raise UnknownChoice.of("The generating class", generators, [*NAMED_CLASSES, "a list of groups of names"])
        size = min(NAMED_CLASSES[generators], table.n_keys)
        masks = [mask_of(keys) for keys in combinations(range(table.n_keys), size)]
    else:
        masks = [table.mask_of(names) for names in generators]
    return maximal_sets(table, masks)


def maximal_sets(table: ContingencyTable, masks: Iterable[int]) -> tuple[int, ...]:
    """The maximal sets among ``masks`` and the single keys, closed and in canonical order."""
    closed = {table.close(mask) for mask in masks} | {table.close(single(k)) for k in range(table.n_keys)}
    every = np.array(sorted(closed), dtype=np.uint64)
    n_larger = np.array([np.count_nonzero((every & mask) == mask) for mask in every])
    return in_canonical_order(int(mask) for mask in every[n_larger == 1])


def signed_sets(generators: Sequence[int]) -> dict[int, int]:
    """Factors c(a) such that a sum over the generated interactions is Σ c(a) · (sum over all subsets of a).

    The sets a are the intersections of generators. Each interaction must be counted once, so the factor of a set is 1
    minus the sum of those of the larger sets (inclusion and exclusion). For the cliques of a chordal graph, the cliques
    have the factor 1 and the separators minus their multiplicity.
    """
    known = set(generators)
    fresh = set(generators)
    while fresh:
        fresh = {mask & generator for mask in fresh for generator in generators} - known
        known |= fresh
        if len(known) > MOST_INTERSECTIONS:
            raise TooLarge(
                f"The {len(generators):,} sets of the generating class have more than {MOST_INTERSECTIONS:,} different "
                "intersections, too many to count the parameters of the model. Name fewer or more regular sets."
            )
    ordered: NDArray[np.uint64] = np.array(sorted(known, key=lambda mask: (-mask.bit_count(), mask)), dtype=np.uint64)
    factor = np.zeros(len(ordered), dtype=np.int64)
    for place, mask in enumerate(ordered):
        holds_mask = (ordered[:place] & mask) == mask
        factor[place] = 1 - factor[:place][holds_mask].sum()
    return {int(mask): int(times) for mask, times in zip(ordered, factor, strict=True) if times}


def degrees_of_freedom(table: ContingencyTable, generators: Sequence[int]) -> int:
    """Number of free parameters of a multinomial model: the rank of the design matrix minus 1.

    The space of functions on a set of vertices has as many dimensions as the set has possible cells, and the spaces of
    several sets overlap in the functions on their intersections (Lauritzen 1996, section 4.3).
    """
    return sum(times * table.n_possible_cells(mask) for mask, times in signed_sets(generators).items()) - 1


def triangulation(table: ContingencyTable, generators: Sequence[int]) -> ChordalGraph:
    """A chordal graph in which every generator, and every key with its coarsenings, is complete."""
    return least_fill(neighbours_of_cliques(table.n_vertices, [*generators, *table.chain_masks]), table.n_possible_cells)

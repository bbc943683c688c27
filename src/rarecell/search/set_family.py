"""Which sets of vertices may be cliques or separators, and how are they linked?

Vertices of one key form a chain from coarse to fine, and a set that holds a vertex may as well hold the coarser
vertices of its key: the marginal is the same. So only *closed* sets matter, and a closed set is a vector of levels,
one for each key: 0 when the key is absent, r_k when it is present at full resolution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.exact import BlockLinks
from rarecell.graph.masks import single

Chains = Sequence[Sequence[int]]


def masks_of_levels(levels: NDArray[np.int64], chains: Chains) -> NDArray[np.uint64]:
    """Closed vertex masks of level vectors, one per row."""
    masks = np.zeros(len(levels), dtype=np.uint64)
    for k, chain in enumerate(chains):
        reached = np.zeros(len(chain) + 1, dtype=np.uint64)
        for step, v in enumerate(chain):
            reached[step + 1] = reached[step] | np.uint64(single(v))
        masks |= reached[levels[:, k]]
    return masks


def closed_levels(lengths: Sequence[int], max_keys: int) -> NDArray[np.int64]:
    """All level vectors of chains of these lengths with at most ``max_keys`` keys present, one per row."""
    rows = np.zeros((1, 0), dtype=np.int64)
    for length in lengths:
        rows = np.concatenate([np.insert(rows, rows.shape[1], level, axis=1) for level in range(length + 1)])
        rows = rows[(rows > 0).sum(axis=1) <= max_keys]
    return rows


@dataclass(frozen=True, eq=False)
class Family:
    """Admissible closed sets, sorted by level sum and then by vertex mask; with every set, all closed sets inside it.

    Attributes
    ----------
    chains : tuple of tuple of int
        Vertices of each key, coarsest first.
    levels : ndarray of int64
        Level reached on each chain, one row for each set.
    masks : ndarray of uint64
        The same sets as vertex masks.
    """

    chains: tuple[tuple[int, ...], ...]
    levels: NDArray[np.int64]
    masks: NDArray[np.uint64]

    @classmethod
    def of_levels(cls, levels: NDArray[np.int64], chains: Chains) -> Family:
        masks = masks_of_levels(levels, chains)
        order = np.lexsort((masks, levels.sum(axis=1)))
        return cls(tuple(tuple(chain) for chain in chains), levels[order], masks[order])

    @property
    def n_sets(self) -> int:
        return len(self.masks)

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """r_k: the number of vertices of each key."""
        return np.array([len(chain) for chain in self.chains], dtype=np.int64)

    @cached_property
    def rank_start(self) -> NDArray[np.int64]:
        """Where the sets of each level sum begin, and the end of the last."""
        sums = self.levels.sum(axis=1)
        starts: NDArray[np.int64] = np.searchsorted(sums, np.arange(self.lengths.sum() + 2))
        return starts

    @cached_property
    def n_open(self) -> NDArray[np.int64]:
        """For each set, the number of keys that are absent or coarsened."""
        counted: NDArray[np.int64] = (self.levels < self.lengths).sum(axis=1)
        return counted

    @property
    def n_states(self) -> int:
        """Entries of one table of the dynamic programme."""
        return int((1 << self.n_open).sum())

    @property
    def n_divisions(self) -> int:
        """Divisions of a rest that the dynamic programme compares: the part that takes longest."""
        return int((3.0**self.n_open).sum() / 2)

    def links(self) -> BlockLinks:
        """The tables that the kernels read."""
        n_sets, n_keys = self.levels.shape
        is_open = self.levels < self.lengths
        n_open = self.n_open
        local = np.cumsum(is_open, axis=1) - 1
        block = np.concatenate([[0], np.cumsum(1 << n_open)[:-1]]).astype(np.int64)
        by_mask = np.argsort(self.masks)
        sorted_masks = self.masks[by_mask]

        def position_of(masks: NDArray[np.uint64]) -> NDArray[np.int64]:
            position = np.minimum(np.searchsorted(sorted_masks, masks), n_sets - 1)
            return np.where(sorted_masks[position] == masks, by_mask[position], -1)

        raised = np.full((n_sets, n_keys), -1, dtype=np.int64)
        raise_fills = np.zeros((n_sets, n_keys), dtype=np.bool_)
        lowered = np.full((n_sets, n_keys), -1, dtype=np.int64)
        lower_opens = np.zeros((n_sets, n_keys), dtype=np.bool_)
        for x, chain in enumerate(self.chains):
            vertex_at = np.array([single(v) for v in chain], dtype=np.uint64)
            can = np.flatnonzero(is_open[:, x])
            level = self.levels[can, x]
            raised[can, local[can, x]] = position_of(self.masks[can] | vertex_at[level])
            raise_fills[can, local[can, x]] = level + 1 == len(chain)
            can = np.flatnonzero(self.levels[:, x] > 0)
            level = self.levels[can, x]
            lowered[can, x] = position_of(self.masks[can] ^ vertex_at[level - 1])
            lower_opens[can, x] = level == len(chain)
        # A full key does not count among the open keys up to it; an open key is the last of them.
        lower_bit = local + lower_opens
        kind, rests, rest_start = self._rests_by_remainder(is_open)
        return BlockLinks(block, kind, n_open, raised, raise_fills, lowered, lower_bit, lower_opens, rests, rest_start)

    def _rests_by_remainder(self, is_open: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.int64]]:
        """Local masks sorted by remainder; sets whose open keys have the same steps to go share one list."""
        to_go = self.lengths - self.levels
        if (self.lengths == 1).all():
            sequences, kind = np.tril(np.ones((len(self.chains) + 1, len(self.chains)), dtype=np.int64), -1), self.n_open
        else:
            packed = np.take_along_axis(to_go, np.argsort(~is_open, axis=1, kind="stable"), axis=1)
            sequences, kind = np.unique(packed, axis=0, return_inverse=True)
        total = int(self.lengths.sum())
        rests: list[NDArray[np.uint32]] = []
        rest_start = np.zeros((len(sequences), total + 2), dtype=np.int64)
        first = 0
        for t, sequence in enumerate(sequences):
            remainder = np.zeros(1, dtype=np.int64)
            for steps in sequence[sequence > 0]:
                remainder = np.concatenate([remainder, remainder + steps])
            rests.append(np.argsort(remainder, kind="stable").astype(np.uint32))
            rest_start[t] = first + np.concatenate([[0], np.cumsum(np.bincount(remainder, minlength=total + 1))])
            first += len(remainder)
        return kind.astype(np.int64).ravel(), np.concatenate(rests), rest_start

"""Which sets of vertices are there, and which of them are equivalent?

A *vertex* of a model is a key or a coarsening of a key. The coarsenings of one key are nested, so the vertices of a key
form a chain from coarse to fine, and a set of vertices tells no more than the finest vertex of each key in it. Inside
the package a set of vertices is a bit mask; :meth:`Vertices.mask_of` and :meth:`Vertices.names_of` convert to and from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rarecell.errors import BadInput, UnknownColumns
from rarecell.graph.masks import all_below, each_member, mask_of, single
from rarecell.table.categories import Categories, Coarsening


class Vertices:
    """What follows from the keys and coarsenings of a table alone: names, resolutions, sets."""

    categories: tuple[Categories, ...]
    coarsenings: tuple[Coarsening, ...]

    @cached_property
    def keys(self) -> tuple[str, ...]:
        return tuple(c.key for c in self.categories)

    @property
    def n_keys(self) -> int:
        return len(self.categories)

    @property
    def n_vertices(self) -> int:
        return self.n_keys + len(self.coarsenings)

    @cached_property
    def vertex_names(self) -> tuple[str, ...]:
        return (*self.keys, *(c.name for c in self.coarsenings))

    @cached_property
    def vertex_levels(self) -> NDArray[np.int64]:
        return np.array([*(c.n_levels for c in self.categories), *(c.n_levels for c in self.coarsenings)], dtype=np.int64)

    @cached_property
    def vertex_key(self) -> NDArray[np.int64]:
        """Position of the key that each vertex belongs to."""
        position = {key: k for k, key in enumerate(self.keys)}
        return np.array([*position.values(), *(position[c.key] for c in self.coarsenings)], dtype=np.int64)

    @cached_property
    def chains(self) -> tuple[tuple[int, ...], ...]:
        """For each key, its vertices from coarsest to finest; the key itself comes last."""
        chains: list[list[int]] = [[k] for k in range(self.n_keys)]
        for v in range(self.n_keys, self.n_vertices):
            chains[self.vertex_key[v]].insert(0, v)
        return tuple(tuple(chain) for chain in chains)

    @property
    def all_keys(self) -> int:
        """The keys as a bit mask of vertices."""
        return all_below(self.n_keys)

    @property
    def all_vertices(self) -> int:
        """The bit mask of all vertices."""
        return all_below(self.n_vertices)

    @cached_property
    def chain_masks(self) -> tuple[int, ...]:
        """For each key, the bit mask of its vertices."""
        return tuple(mask_of(chain) for chain in self.chains)

    @cached_property
    def coarser(self) -> tuple[int, ...]:
        """For each vertex, the bit mask of the coarser vertices of its key."""
        coarser = [0] * self.n_vertices
        for chain in self.chains:
            for place, v in enumerate(chain):
                coarser[v] = mask_of(chain[:place])
        return tuple(coarser)

    @cached_property
    def deciders(self) -> tuple[tuple[int, int] | None, ...]:
        """For each key, which other key decides whether anybody has a value, and from which of its codes on; None if none does.

        Code 0 of such a key, and of its coarsenings, is then nobody's, and certain below that code.
        """
        deciders: list[tuple[int, int] | None] = []
        for k, of_key in enumerate(self.categories):
            decided = of_key.has_nobody and all(
                level_codes[0] == 0 and (level_codes == 0).sum() == 1 for level_codes in map(self.level_codes, self.chains[k])
            )
            name, least = of_key.taken_with or ("", None)
            if not decided or name not in self.keys or not self.categories[self.keys.index(name)].is_ordered:
                deciders.append(None)
                continue
            levels = self.categories[self.keys.index(name)].levels
            deciders.append((self.keys.index(name), sum(level < least for level in levels)))
        return tuple(deciders)

    def map_cells(self, cells: NDArray[np.int32], vertex: int) -> NDArray[np.int32]:
        """Code of ``vertex`` at each of ``cells``, which hold key codes."""
        codes: NDArray[np.int32] = cells[:, self.vertex_key[vertex]]
        if vertex < self.n_keys:
            return codes
        return self.coarsenings[vertex - self.n_keys].group_of_level[codes]

    def level_codes(self, vertex: int) -> NDArray[np.int32]:
        """Code of ``vertex`` at each level of its key."""
        if vertex >= self.n_keys:
            return self.coarsenings[vertex - self.n_keys].group_of_level
        return np.arange(self.categories[vertex].n_levels, dtype=np.int32)

    def first_level(self, vertex: int) -> NDArray[np.int32]:
        """For each code of ``vertex``, the first level of its key that has it."""
        return self._first_levels[vertex]

    @cached_property
    def _first_levels(self) -> tuple[NDArray[np.int32], ...]:
        return tuple(
            np.unique(self.level_codes(vertex), return_index=True)[1].astype(np.int32) for vertex in range(self.n_vertices)
        )

    def mask_of(self, names: Iterable[str]) -> int:
        """Bit mask of the vertices with these names."""
        position = {name: v for v, name in enumerate(self.vertex_names)}
        chosen = list(names)
        unknown = [name for name in chosen if name not in position]
        if unknown and isinstance(names, str):
            raise BadInput(f"'{names}' was given where a list of names was expected; write ['{names}'].")
        if unknown:
            raise UnknownColumns.among(unknown, self.vertex_names, role="vertex")
        return mask_of(position[name] for name in chosen)

    def names_of(self, mask: int) -> tuple[str, ...]:
        """Names of the vertices in a bit mask."""
        return tuple(self.vertex_names[v] for v in each_member(mask))

    def reduce(self, mask: int) -> int:
        """Keep only the finest vertex of each key in ``mask``; the marginal stays the same."""
        if not self.coarsenings:
            return mask
        kept = mask
        for v in each_member(mask):
            kept &= ~self.coarser[v]
        return kept

    def reduce_many(self, masks: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """:meth:`reduce` of many sets at once."""
        kept = masks.copy()
        for chain in self.chains:
            seen_finer = np.zeros(len(masks), dtype=bool)
            for v in reversed(chain) if len(chain) > 1 else ():
                bit = np.uint64(single(v))
                kept[seen_finer] &= ~bit
                seen_finer |= (masks & bit) != 0
        return kept

    def close(self, mask: int) -> int:
        """Add the coarser vertices of its key to each vertex in ``mask``; the marginal stays the same."""
        closed = mask
        for v in each_member(mask):
            closed |= self.coarser[v]
        return closed

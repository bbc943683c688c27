"""Random generating classes for property-based tests."""

from __future__ import annotations

from hypothesis import strategies as st

import rarecell as rc


@st.composite
def generating_classes(draw: st.DrawFn, table: rc.ContingencyTable, *, max_sets: int = 4) -> list[tuple[str, ...]]:
    """A few groups of vertex names, some inside others, some overlapping in cycles."""
    masks = draw(st.lists(st.integers(1, 2**table.n_vertices - 1), min_size=0, max_size=max_sets))
    return [table.names_of(mask) for mask in masks]

"""Random tables for property-based tests, small enough to check by enumeration."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

import rarecell as rc


def categories(levels: list[int]) -> list[rc.Categories]:
    """Keys named a, b, c … with whole numbers as levels."""
    return [rc.Categories(chr(ord("a") + k), tuple(range(n)), True) for k, n in enumerate(levels)]


@st.composite
def tables(
    draw: st.DrawFn, *, min_keys: int = 2, max_keys: int = 5, max_levels: int = 4, max_records: int = 60
) -> rc.ContingencyTable:
    """A table of records drawn uniformly or from a lumpy distribution, so that empty and crowded cells both occur."""
    levels = draw(st.lists(st.integers(2, max_levels), min_size=min_keys, max_size=max_keys))
    n_records = draw(st.integers(1, max_records))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    columns = [
        np.minimum(rng.geometric(0.5, n_records) - 1, n - 1) if rng.random() < 0.5 else rng.integers(0, n, n_records)
        for n in levels
    ]
    return rc.ContingencyTable.from_codes(np.stack(columns, axis=1).astype(np.int32), categories(levels))


@st.composite
def coarsened_tables(draw: st.DrawFn, **options: int) -> rc.ContingencyTable:
    """A table in which some keys have a chain of one or two coarsenings."""
    table = draw(tables(**{"max_levels": 5, "max_keys": 4, **options}))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    found = []
    for category in table.categories:
        group = np.arange(category.n_levels)
        while group.max() >= 2 and rng.random() < 0.6:
            n_groups = int(rng.integers(2, group.max() + 1))
            merge = np.concatenate([np.arange(n_groups), rng.integers(0, n_groups, group.max() + 1 - n_groups)])
            group = rng.permutation(merge)[group]
            labels = tuple(f"g{g}" for g in range(n_groups))
            found.append(rc.Coarsening(f"{category.key}/{n_groups}", category.key, group.astype(np.int32), labels))
    return table.with_coarsenings(found)

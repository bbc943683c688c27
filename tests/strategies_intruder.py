"""Random originals, released files and registers for property-based tests of intruders."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

import rarecell as rc


@dataclass(frozen=True)
class Attack:
    """A row of codes for each record of the original and the released file, and for each person of the register."""

    categories: tuple[rc.Categories, ...]
    original: np.ndarray
    released: np.ndarray
    register: np.ndarray

    def table(self, codes: np.ndarray) -> rc.ContingencyTable:
        return rc.ContingencyTable.from_codes(codes, self.categories)


@st.composite
def attacks(draw: st.DrawFn, *, max_records: int = 20) -> Attack:
    """Keys with and without order; some records with other values; a register with the persons of the file and others."""
    levels = draw(st.lists(st.integers(2, 6), min_size=1, max_size=4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values = [tuple(np.cumsum(rng.integers(1, 4, n)).tolist()) for n in levels]
    categories = tuple(rc.Categories(f"key{k}", of_key, bool(rng.random() < 0.5)) for k, of_key in enumerate(values))
    n_records = draw(st.integers(1, max_records))

    def drawn(n: int) -> np.ndarray:
        return np.stack([rng.integers(0, size, n) for size in levels], axis=1).astype(np.int32)

    original = drawn(n_records)
    changes = rng.random(original.shape) < draw(st.sampled_from([0.0, 0.15, 0.5]))
    released = np.where(changes, drawn(n_records), original)
    register = np.concatenate([original[: int(rng.integers(0, n_records + 1))] if rng.random() < 0.2 else original])
    register = np.concatenate([register, drawn(int(rng.integers(1, 40)))])
    return Attack(categories, original, released, register)

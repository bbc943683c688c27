"""What a release says about each record, against a file that is simply written out."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rarecell.errors import BadInput
from rarecell.release.blanks import Suppression
from rarecell.release.release import Release
from rarecell.release.travel import Carried, Travel
from rarecell.table.contingency import Categories, ContingencyTable

KEYS = ("a", "b", "c")
CATEGORIES = tuple(Categories(key, (0, 1, 2)) for key in KEYS)


def _files(seed: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes before and after random exchanges of one key between rows, and the rows that took part."""
    draw = np.random.default_rng(seed)
    before = draw.integers(0, 3, (n, 3)).astype(np.int32)
    after, k = before.copy(), draw.integers(3)
    rows = np.sort(draw.choice(n, 2 * draw.integers(0, n // 2 + 1), replace=False))
    after[rows, k] = before[np.roll(rows, 1), k]
    return before, after, rows


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 14), st.booleans())
def test_a_release_agrees_with_the_file_written_out(seed: int, n: int, knows_records: bool) -> None:
    before, after, rows = _files(seed, n)
    order = np.lexsort(before.T[::-1])
    if not knows_records:
        # A table of counts numbers its records in the order of its cells.
        place = np.argsort(order)
        before, after, rows = before[order], after[order], place[rows]
    table = ContingencyTable.from_codes(before, CATEGORIES)
    if not knows_records:
        table = ContingencyTable.from_counts(table.cells, table.counts, CATEGORIES)
    release = Release(table, rows, before[rows], after[rows])
    numbers = Counter(map(tuple, after.tolist()))
    assert dict(zip(map(tuple, release.after.cells.tolist()), release.after.counts.tolist(), strict=True)) == numbers
    assert release.counts.tolist() == [numbers[tuple(cell)] for cell in table.cells.tolist()]
    assert release.moved_alone.tolist() == [numbers[tuple(after[row])] == 1 for row in rows]
    stayed = [row for row in range(n) if row not in rows and numbers[tuple(after[row])] == 1]
    assert sorted(release.unmoved_rows().tolist()) == stayed
    assert [tuple(table.cells[c]) for c in release.unmoved_cells] == [tuple(before[row]) for row in release.unmoved_rows()]
    assert release.n_new_uniques == sum(
        count == 1 for cell, count in numbers.items() if cell not in set(map(tuple, before.tolist()))
    )
    assert release.n_values_changed == int((before != after).sum())
    assert np.array_equal(release.codes(), after)
    # Seen through fewer keys, only rows that differ in these take part.
    fewer = release.project(["a", "c"])
    differs = (before[rows][:, [0, 2]] != after[rows][:, [0, 2]]).any(axis=1)
    assert fewer.rows.tolist() == rows[differs].tolist()
    assert Counter(map(tuple, after[:, [0, 2]].tolist())) == dict(
        zip(map(tuple, fewer.after.cells.tolist()), fewer.after.counts.tolist(), strict=True)
    )
    # Any part is a release of its own.
    some = np.arange(len(rows)) % 2 == 0
    half = before.copy()
    half[rows[some]] = after[rows[some]]
    assert np.array_equal(release.part(some).codes(), half)


def test_blanks_are_the_last_level_and_columns_travel_with_their_key() -> None:
    codes = np.array([[0, 0, 0], [1, 1, 1], [2, 2, 2], [0, 1, 2]], dtype=np.int32)
    table = ContingencyTable.from_codes(codes, CATEGORIES)
    released = codes[[0, 1]].copy()
    released[:, 0] = [1, 0]
    release = Release(table, np.array([0, 1]), codes[:2], released, {"a": np.array([1, 0]), "b": np.arange(2), "c": np.arange(2)})
    nothing = np.zeros(2)
    blanks = Suppression(np.array([1, 3]), {"b": np.array([True, True])}, nothing, nothing, nothing, np.zeros(0, dtype=np.int64))
    whole = release.with_blanks(blanks).with_travel(Travel((Carried("town", ("a",)),)))
    assert whole.categories[1].levels == (0, 1, 2, None)
    assert whole.codes().tolist() == [[1, 0, 0], [0, 3, 1], [2, 2, 2], [0, 3, 2]]
    assert whole.changed.row.tolist() == [0, 1, 3]
    towns = np.array([7, 8, 9, 9], dtype=np.int32)
    assert whole.codes_of("town", towns, whole.rows).tolist() == [8, 7, 9, 9]
    assert whole.codes_of("pets", towns, whole.rows).tolist() == [7, 8, 9, 9]
    assert release.n_values_changed == 2
    assert release.n_uniques_changed == 2


def test_two_files_of_different_length_are_refused() -> None:
    with pytest.raises(BadInput, match="same records"):
        Release.of_codes(np.zeros((2, 3), dtype=np.int32), np.zeros((1, 3), dtype=np.int32), CATEGORIES)

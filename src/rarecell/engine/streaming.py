"""What can be found while the records stream by, without storing them?

The cell of each record, the records that were drawn, and the counts of other columns against the keys: each takes one
pass over a source that hands out its records in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from rarecell._kernels.counting import CellIndex, count_pairs, count_values
from rarecell.edges import Level
from rarecell.engine.arrays import CountedPairs, KeyCells, as_arrow, code_chunk, plain_value
from rarecell.errors import BadInput

if TYPE_CHECKING:
    from rarecell.engine.source import Source


FIRST_VALUES = 64
"""Number of values that a column has room for at first."""


def key_codes(
    source: Source, cells: KeyCells, columns: Sequence[str] = ()
) -> Iterator[tuple[list[NDArray[np.int32]], list[pa.Array]]]:
    """Codes of the keys, one array per key and some records at a time, with other columns of these records as they stand.

    The code of a dropped record is −1 in at least one key.
    """

    def codes_of(array: pa.Array, code_of_raw: Mapping[Level, int]) -> NDArray[np.int32]:
        chunk = code_chunk(array)
        # A value may be listed in a chunk without occurring in it; it may then be in no record and have no code.
        new_code = [code_of_raw.get(plain_value(value), -1) for value in (*chunk.values.to_pylist(), None)]
        return np.asarray(np.array(new_code, dtype=np.int32)[chunk.codes])

    with ThreadPoolExecutor() as pool:
        for batch in source.batches([*cells.keys, *columns]):
            keys, others = batch.columns[: len(cells.keys)], batch.columns[len(cells.keys) :]
            yield list(pool.map(codes_of, keys, cells.code_of_raw)), others


def record_cells(source: Source, cells: KeyCells) -> Iterator[NDArray[np.int64]]:
    """The cell of each record, in record order and some records at a time; −1 for a dropped record."""
    index = CellIndex(cells.cells, cells.n_levels)
    for codes, _ in key_codes(source, cells):
        yield index.find(codes)


def drawn_rows(
    source: Source, cells: KeyCells, of_cells: NDArray[np.int64], rank: NDArray[np.int64], *, id_column: str | None, seed: int
) -> NDArray[np.int64]:
    """Row number of the ``rank[r]``-th record, in drawing order, of each cell ``of_cells[r]``."""
    is_asked = np.zeros(len(cells.cells) + 1, dtype=bool)
    is_asked[of_cells] = True
    rows, cell_of_row, first = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)], 0
    for piece in record_cells(source, cells):
        hit = np.flatnonzero(is_asked[piece])
        rows.append(first + hit)
        cell_of_row.append(piece[hit])
        first += len(piece)
    row, cell = np.concatenate(rows), np.concatenate(cell_of_row)
    names = row if id_column is None else source.take(row, [id_column])[id_column].to_pylist()
    order = np.lexsort((drawing_order(seed, names), cell))
    return np.asarray(row[order[np.searchsorted(cell[order], of_cells) + rank]])


def counted_pairs(
    source: Source,
    cells: KeyCells,
    keys: Sequence[str],
    columns: Sequence[str],
    *,
    most_values: int,
    first_values: int = FIRST_VALUES,
) -> dict[str, dict[str, CountedPairs]]:
    """For each column with at most ``most_values`` values, its pairs with each key.

    ``first_values`` is the number of values that each column has room for at first.
    """
    positions = [cells.keys.index(key) for key in keys]
    n_levels = [cells.n_levels[position] for position in positions]
    growing = [_GrowingCounts(n_levels, most_values, first_values) for _ in columns]
    with ThreadPoolExecutor() as pool:
        for codes, arrays in key_codes(source, cells, columns):
            kept = np.logical_and.reduce([of_key >= 0 for of_key in codes])
            # The codes of a dropped record become −1 in every key, so that none of its pairs is counted.
            of_keys = [np.where(kept, codes[position], -1) for position in positions]
            list(pool.map(lambda counts, array, of_keys=of_keys: counts.add(of_keys, array), growing, arrays))
    return {
        name: dict(zip(keys, counts.pairs(), strict=True))
        for name, counts in zip(columns, growing, strict=True)
        if counts.values is not None
    }


class _GrowingCounts:
    """Number of records for each pair of a key's code and a column's value, with one array column per value found so far.

    ``values`` becomes None when there are more than ``most_values``.
    """

    def __init__(self, n_levels: Sequence[int], most_values: int, first_values: int) -> None:
        self.values: dict[Level, int] | None = {}
        self._type: pa.DataType | None = None
        self._most_values = most_values
        self._joint = [np.zeros((n, first_values), dtype=np.int64) for n in n_levels]

    def add(self, of_keys: Sequence[NDArray[np.int32]], array: pa.Array) -> None:
        if self.values is None:
            return
        chunk = code_chunk(array)
        self._type = chunk.values.type
        # The place of a missing value comes after the values; a listed value need not occur.
        listed = pa.concat_arrays([chunk.values, pa.nulls(1, chunk.values.type)])
        n_records = np.zeros(len(listed), dtype=np.int64)
        count_values(chunk.codes, n_records)
        occurring = np.flatnonzero(n_records)
        place = np.zeros(len(listed), dtype=np.int64)
        if len(occurring) <= self._most_values:
            for position, value in zip(occurring, listed.take(as_arrow(occurring)).to_pylist(), strict=True):
                place[position] = self.values.setdefault(plain_value(value), len(self.values))
        if max(len(occurring), len(self.values)) > self._most_values:
            self.values, self._joint = None, []
            return
        while len(self.values) > self._joint[0].shape[1]:
            self._joint = [np.concatenate([joint, np.zeros_like(joint)], axis=1) for joint in self._joint]
        for codes, joint in zip(of_keys, self._joint, strict=True):
            count_pairs(codes, chunk.codes, place, joint)

    def pairs(self) -> list[CountedPairs]:
        assert self.values is not None
        values = pa.array(list(self.values), self._type)
        pairs = []
        for joint in self._joint:
            codes, places = np.nonzero(joint)
            pairs.append(CountedPairs(codes, values.take(places), joint[codes, places]))
        return pairs


# Which of several equal records is taken?
#
# Records of one unit are alike in everything that a swap considers, so any of them may be taken. They are taken in the
# order of a hash of the seed and the record's name: the value of its id column, or its number in the file. SHA-256 is the
# same on every engine, so the same seed takes the same records in memory, in a file and on Spark.


NamesOfRecords = Callable[[NDArray[np.int64]], Iterable[Level]]
"""A function that gives the name of each of these records: whole numbers or text."""


def hashed_text(seed: int, name: object) -> str:
    """The text whose SHA-256 decides; an engine that computes the hash itself uses the same text."""
    return f"{seed}|{name}"


def drawing_order(seed: int, names: Iterable[Level]) -> NDArray[np.uint64]:
    """The first eight bytes of each hash as a number; records are drawn in ascending order."""
    digests = b"".join(sha256(hashed_text(seed, name).encode()).digest()[:8] for name in names)
    return np.frombuffer(digests, dtype=">u8").astype(np.uint64)


def names_of_records(given: ArrayLike | NamesOfRecords | None, n_records: int) -> NamesOfRecords:
    """How records are named: by row number, unless the user gives a name for each or a function of row numbers."""
    if given is None:
        return lambda rows: rows.tolist()
    if callable(given):
        return given
    names = np.asarray(given)
    if names.shape != (n_records,):
        raise BadInput(f"{names.size:,} identities were given for {n_records:,} records; each record needs one.")
    return lambda rows: names[rows].tolist()

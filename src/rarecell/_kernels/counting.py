"""How many records share each combination of codes, and which combination does each record have?

A record is a row of small integers, one per key. The codes of a record are folded into one 64-bit integer, most
significant key first, so that the order of the integers is the lexicographic order of the cells. When the product of
the levels would exceed 64 bits, the integers built so far are replaced by their ranks, which keep the order, and folding
goes on: any number of keys of any size fits. Distinct integers are found by a histogram when their range is small.
Otherwise they are dealt out to parts by their leading bits, and each part, small enough for a core's own cache, is
sorted with the position of each record packed below its integer.

The kernels release the interpreter's lock and work on slices; :func:`collapse_records` hands one slice to each thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from rarecell._kernels.compiled import njit
from rarecell._kernels.hashing import fill_slots, find_slots, free_slots
from rarecell.edges import Integers
from rarecell.machine.threads import n_cores, on_all_cores

IntArray = Integers
Keys = npt.NDArray[np.int64]
# The distinct folded values of a stage, and the levels of the keys that were folded onto the ranks of the stage before.
_Stage = tuple[Keys, list[int]]

# Folded keys run from 0 to one below their span, which must fit a signed 64-bit integer.
_LARGEST_SPAN = 2**63
# A block of folded keys that stays in a core's own cache while all columns are folded into it.
_BLOCK = 65_536
# Below this many records a second thread costs more than it saves.
_WORTH_A_THREAD = 100_000
# A histogram is used up to this many possible values, or up to four times as many as there are records. Few records are sorted
# sooner than a large histogram is searched: for them there may be so many possible values per record.
_DENSE_SPAN = 2**22
_SPAN_PER_RECORD = 32
# Parts that keys are dealt out to before sorting: their ends stay in the cache, and a byte names one.
_N_PARTS = 256
# Fewer keys than this are sorted as they are.
_WORTH_DEALING = 65_536
# Leading bits of a key that decide its part: their table fits a core's own cache.
_PREFIX_BITS = 16


@njit(cache=True, nogil=True)
def fold_column(keys: IntArray, column: IntArray, n_levels: int) -> int:
    """Append a column as the least significant part of ``keys``, in place; returns the number of codes out of range.

    A negative code makes the key permanently negative: the record has no cell.
    """
    n_out_of_range = 0
    for record in range(keys.size):
        code = column[record]
        if code >= n_levels:
            n_out_of_range += 1
        if code < 0 or keys[record] < 0:
            keys[record] = -1
        else:
            keys[record] = keys[record] * n_levels + code
    return n_out_of_range


@njit(cache=True, nogil=True)
def recode(codes: IntArray, new_code: IntArray, recoded: IntArray) -> None:
    """Write the new code of each code to ``recoded``."""
    for record in range(codes.size):
        recoded[record] = new_code[codes[record]]


@njit(cache=True, nogil=True)
def fold_recoded(keys: IntArray, column: IntArray, new_code: IntArray, n_levels: int) -> int:
    """:func:`fold_column` for the new code of each code; nothing is out of range, because the new codes were checked."""
    for record in range(keys.size):
        code = new_code[column[record]]
        if code < 0 or keys[record] < 0:
            keys[record] = -1
        else:
            keys[record] = keys[record] * n_levels + code
    return 0


@njit(cache=True, nogil=True)
def unfold(keys: IntArray, n_levels: IntArray, codes: IntArray) -> None:
    """Undo :func:`fold_column` for several columns at once; ``keys`` is left with what was folded before them."""
    for row in range(keys.size):
        # Unsigned division does not have to round towards minus infinity and is twice as fast.
        rest = np.uint64(keys[row])
        for column in range(n_levels.size - 1, -1, -1):
            above = rest // np.uint64(n_levels[column])
            codes[row, column] = rest - above * np.uint64(n_levels[column])
            rest = above
        keys[row] = rest


@njit(cache=True, nogil=True)
def count_values(keys: IntArray, histogram: IntArray) -> None:
    """Add to ``histogram`` how often each key occurs."""
    for record in range(keys.size):
        histogram[keys[record]] += 1


def short_type(n_levels: int) -> type[np.integer[Any]]:
    """The shortest type that holds the codes of this many levels: looking up codes takes as long as fetching them from memory."""
    return next(kind for kind in (np.uint8, np.uint16, np.int32) if n_levels - 1 <= np.iinfo(kind).max)


@njit(cache=True, nogil=True)
def count_pairs(codes: IntArray, values: IntArray, place: IntArray, joint: IntArray) -> None:
    """Add to ``joint[code, place[value]]`` how often each pair occurs; records with a negative code are skipped."""
    for record in range(codes.size):
        if codes[record] >= 0:
            joint[codes[record], place[values[record]]] += 1


def collapse_records(
    codes: IntArray | Sequence[IntArray], levels: Sequence[int] | IntArray, new_codes: Sequence[IntArray] | None = None
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Distinct rows of codes in lexicographic order, how often each occurs, and the row of each record.

    Parameters
    ----------
    codes : integer array (n_records, n_keys), best Fortran-ordered, or a sequence of columns
        Codes from 0; a negative code takes its record out.
    levels : integers (n_keys,)
        Number of codes of each key.
    new_codes : sequence of integer array, optional
        For each key, the code that replaces each code; by default, codes are not replaced.

    Returns
    -------
    cells : int32 array (n_cells, n_keys)
        The distinct rows.
    counts : int64 array (n_cells,)
        How often each occurs.
    record_cell : int64 array (n_records,)
        Position of each record's cell in ``cells``; -1 for a record taken out.
    """
    columns = _columns(codes)
    n_levels = [int(count) for count in levels]
    if len(columns) != len(n_levels):
        raise ValueError(f"{len(columns)} columns of codes, but {len(n_levels)} numbers of levels")
    n_records = columns[0].size if columns else int(getattr(codes, "shape", (0,))[0])

    keys = np.zeros(n_records, dtype=np.int64)
    stages: list[_Stage] = []
    first, span = 0, 1
    for key, count in enumerate(n_levels):
        if span * count > _LARGEST_SPAN:
            _fold(keys, columns[first:key], n_levels[first:key], new_codes and new_codes[first:key])
            values, _, keys = _rank(keys, span)
            stages.append((values, n_levels[first:key]))
            first, span = key, values.size
        span *= count
    _fold(keys, columns[first:], n_levels[first:], new_codes and new_codes[first:])
    values, counts, record_cell = _rank(keys, span)
    stages.append((values, n_levels[first:]))
    return _decode(stages, len(n_levels)), counts, record_cell


class CellIndex:
    """Finds the cells of records among given cells.

    Parameters
    ----------
    cells : integer array (n_cells, n_keys)
        The cells; rows are distinct.
    levels : integers (n_keys,)
        Number of codes of each key.
    """

    def __init__(self, cells: IntArray, levels: Sequence[int] | IntArray) -> None:
        self._levels = [int(count) for count in levels]
        self._cells = cells
        self._fits = math.prod(self._levels) <= _LARGEST_SPAN
        if self._fits:
            self._keys = np.zeros(len(cells), dtype=np.int64)
            _fold(self._keys, _columns(cells), self._levels)
            self._slots = free_slots(len(cells), np.int64)
            fill_slots(self._keys, self._slots)

    def find(self, codes: IntArray | Sequence[IntArray]) -> Keys:
        """The cell of each record; -1 for a record with a negative code or in none of the cells."""
        columns = _columns(codes)
        n_records = columns[0].size
        if self._fits:
            keys, cell = np.zeros(n_records, dtype=np.int64), np.empty(n_records, dtype=np.int64)
            _fold(keys, columns, self._levels)

            def find_slice(_: int, part: slice) -> None:
                find_slots(keys[part], self._keys, self._slots, cell[part])

            _in_threads(find_slice, _slices(n_records))
            return cell
        both = [np.concatenate([cells, column]) for cells, column in zip(_columns(self._cells), columns, strict=True)]
        merged, _, position = collapse_records(both, self._levels)
        cell_of_merged = np.full(len(merged) + 1, -1, dtype=np.int64)
        cell_of_merged[position[: len(self._cells)]] = np.arange(len(self._cells))
        # A record that was taken out has position -1, which is the last place and is empty.
        return np.asarray(cell_of_merged[position[len(self._cells) :]], dtype=np.int64)


def _columns(codes: IntArray | Sequence[IntArray]) -> list[IntArray]:
    if isinstance(codes, np.ndarray):
        return [np.ascontiguousarray(codes[:, key]) for key in range(codes.shape[1])]
    return [np.ascontiguousarray(column) for column in codes]


def _slices(n_records: int, *, at_most: int | None = None) -> list[slice]:
    n_threads = min(n_cores(), n_records // _WORTH_A_THREAD, n_records if at_most is None else at_most)
    bounds = [n_records * thread // max(1, n_threads) for thread in range(max(1, n_threads) + 1)]
    return [slice(start, stop) for start, stop in pairwise(bounds)]


def _in_threads(work: Callable[[int, slice], Any], slices: Sequence[slice]) -> list[Any]:
    return on_all_cores(work, list(enumerate(slices)))


def _fold(keys: Keys, columns: Sequence[IntArray], n_levels: Sequence[int], new_codes: Sequence[IntArray] | None = None) -> None:
    if new_codes is not None and any(new.size and new.max() >= n for new, n in zip(new_codes, n_levels, strict=True)):
        raise ValueError("a new code is not below the number of levels of its key")

    def fold_slice(_: int, part: slice) -> int:
        n_out_of_range = 0
        for start in range(part.start, part.stop, _BLOCK):
            block = slice(start, min(start + _BLOCK, part.stop))
            for key, (column, count) in enumerate(zip(columns, n_levels, strict=True)):
                if new_codes is None:
                    n_out_of_range += fold_column(keys[block], column[block], count)
                else:
                    n_out_of_range += fold_recoded(keys[block], column[block], new_codes[key], count)
        return n_out_of_range

    if any(_in_threads(fold_slice, _slices(keys.size))):
        raise ValueError("a code is not below the number of levels of its key")


def _rank(keys: Keys, span: int) -> tuple[Keys, Keys, Keys]:
    """Distinct keys in order, their counts, and the rank of each record's key; negative keys have rank -1."""
    if keys.size and keys.min() < 0:
        kept = np.flatnonzero(keys >= 0)
        values, counts, kept_rank = _rank(keys[kept], span)
        record_rank = np.full(keys.size, -1, dtype=np.int64)
        record_rank[kept] = kept_rank
        return values, counts, record_rank
    if keys.size == 0 or span <= max(min(_DENSE_SPAN, _SPAN_PER_RECORD * keys.size), 4 * keys.size):
        return _rank_by_histogram(keys, min(span, 1) if keys.size == 0 else span)
    return _rank_by_sorting(keys)


def _rank_by_histogram(keys: Keys, span: int) -> tuple[Keys, Keys, Keys]:
    # Each thread counts into its own histogram, so there are only as many threads as the number of records justifies.
    slices = _slices(keys.size, at_most=keys.size // max(span, 1))
    histograms = np.zeros((len(slices), span), dtype=np.int32 if keys.size < 2**31 else np.int64)
    _in_threads(lambda thread, part: count_values(keys[part], histograms[thread]), slices)
    histogram = histograms[0] if len(slices) == 1 else histograms.sum(axis=0, dtype=histograms.dtype)
    n_values = int(np.count_nonzero(histogram))
    values, counts = np.empty(n_values, dtype=np.int64), np.empty(n_values, dtype=np.int64)
    rank_values(histogram, values, counts)
    record_rank = np.empty(keys.size, dtype=np.int64)
    _in_threads(lambda _, part: take_ranks(histogram, keys[part], record_rank[part]), _slices(keys.size))
    return values, counts, record_rank


def _rank_by_sorting(keys: Keys) -> tuple[Keys, Keys, Keys]:
    keys, records = _sorted_in_parts(keys)
    slices = _slices(keys.size)
    n_runs = _in_threads(lambda _, part: count_runs(keys, part.start, part.stop), slices)
    before = np.concatenate([[0], np.cumsum(n_runs)])
    run_starts = np.empty(int(before[-1]), dtype=np.int64)
    record_rank = np.empty(keys.size, dtype=np.int64)

    def number_slice(thread: int, part: slice) -> None:
        number_runs(keys, records, part.start, part.stop, before[thread], run_starts, record_rank)

    _in_threads(number_slice, slices)
    return keys[run_starts], np.diff(run_starts, append=keys.size), record_rank


def _sorted_in_parts(keys: Keys) -> tuple[Keys, IntArray]:
    """The keys in order, and the record that each of them came from."""
    if keys.size < _WORTH_DEALING:
        keys_out, records = keys.copy(), np.arange(keys.size, dtype=np.int32)
        _sort_part(keys_out, records)
        return keys_out, records
    slices = _slices(keys.size)
    shift = max(0, int(keys.max()).bit_length() - _PREFIX_BITS)
    # Consecutive prefixes go to one part until it has its share of a sample. So parts are of similar size, unless one
    # prefix is very common; such a part is merely slower to sort.
    sampled = np.bincount(keys[:: max(1, keys.size // (_N_PARTS * 64))] >> shift, minlength=2**_PREFIX_BITS)
    share = (np.cumsum(sampled) - sampled) * _N_PARTS // sampled.sum()
    part_of_prefix = np.minimum(share, _N_PARTS - 1).astype(np.uint8)
    parts = np.empty(keys.size, dtype=np.uint8)
    sizes = np.zeros((len(slices), _N_PARTS), dtype=np.int64)

    def find_slice(thread: int, part: slice) -> None:
        find_parts(keys[part], shift, part_of_prefix, parts[part], sizes[thread])

    _in_threads(find_slice, slices)
    # A thread's keys of a part go after all earlier parts, and after the keys that earlier threads have for that part.
    by_part = sizes.T.ravel()
    places = np.ascontiguousarray((np.cumsum(by_part) - by_part).reshape(sizes.T.shape).T)
    bounds = [*places[0].tolist(), keys.size]
    keys_out = np.empty_like(keys)
    records = np.empty(keys.size, dtype=np.int32 if keys.size < 2**31 else np.int64)

    def deal_slice(thread: int, part: slice) -> None:
        deal_out(keys[part], parts[part], part.start, places[thread], keys_out, records)

    _in_threads(deal_slice, slices)
    _in_threads(
        lambda _, part: _sort_part(keys_out[part], records[part]),
        [slice(start, stop) for start, stop in pairwise(bounds) if stop > start],
    )
    return keys_out, records


def _sort_part(keys: Keys, records: IntArray) -> None:
    base, n_position_bits = int(keys.min()), keys.size.bit_length()
    if (int(keys.max()) - base).bit_length() + n_position_bits <= 63:
        pack(keys, base, n_position_bits)
        keys.sort()
        unpack(keys, base, n_position_bits, records)
    else:
        order = np.argsort(keys, kind="stable")
        keys[:], records[:] = keys[order], records[order]


def _decode(stages: Sequence[_Stage], n_keys: int) -> npt.NDArray[np.int32]:
    """Codes of the distinct values of the last stage, from its least significant key back to the first key."""
    values = stages[-1][0].copy()
    cells = np.empty((values.size, n_keys), dtype=np.int32)
    last = n_keys
    for stage in range(len(stages) - 1, -1, -1):
        first = last - len(stages[stage][1])
        _unfold(values, np.array(stages[stage][1], dtype=np.int64), cells[:, first:last])
        if stage:
            values = stages[stage - 1][0][values]
        last = first
    return cells


def _unfold(values: Keys, n_levels: Keys, codes: npt.NDArray[np.int32]) -> None:
    _in_threads(lambda _, part: unfold(values[part], n_levels, codes[part]), _slices(values.size))


# Which rank does each folded key have among the distinct ones?
#
# Found by a histogram of all values, or by dealing keys out to parts, sorting each part with the positions packed below the
# keys, and numbering the runs of equal keys; :mod:`rarecell._kernels.counting` chooses.


@njit(cache=True, nogil=True)
def find_parts(keys: IntArray, shift: int, part_of_prefix: IntArray, parts: IntArray, sizes: IntArray) -> None:
    """Find the part of each key by its leading bits ``key >> shift``, and add to the ``sizes`` of the parts."""
    for record in range(keys.size):
        part = part_of_prefix[keys[record] >> shift]
        parts[record] = part
        sizes[part] += 1


@njit(cache=True, nogil=True)
def deal_out(keys: IntArray, parts: IntArray, first: int, places: IntArray, keys_out: IntArray, records_out: IntArray) -> None:
    """Move each key, and the number of its record counted from ``first``, to the next free place of its part."""
    for record in range(keys.size):
        place = places[parts[record]]
        places[parts[record]] = place + 1
        keys_out[place] = keys[record]
        records_out[place] = first + record


@njit(cache=True, nogil=True)
def pack(keys: IntArray, base: int, n_position_bits: int) -> None:
    """Put the position of each key below the key, in place: packed values are distinct and sort as the keys do."""
    for position in range(keys.size):
        keys[position] = ((keys[position] - base) << n_position_bits) | position


@njit(cache=True, nogil=True)
def unpack(keys: IntArray, base: int, n_position_bits: int, records: IntArray) -> None:
    """Undo :func:`pack` after sorting, and put ``records`` into the same order."""
    before = records.copy()
    mask = (1 << n_position_bits) - 1
    for position in range(keys.size):
        records[position] = before[keys[position] & mask]
        keys[position] = (keys[position] >> n_position_bits) + base


@njit(cache=True, nogil=True)
def rank_values(histogram: IntArray, values: IntArray, counts: IntArray) -> None:
    """List the occurring values with their counts, and overwrite ``histogram`` with their ranks."""
    rank = 0
    for value in range(histogram.size):
        if histogram[value] > 0:
            values[rank] = value
            counts[rank] = histogram[value]
            histogram[value] = rank
            rank += 1


@njit(cache=True, nogil=True)
def take_ranks(ranks: IntArray, keys: IntArray, record_rank: IntArray) -> None:
    """Write the rank of each record's key."""
    for record in range(keys.size):
        record_rank[record] = ranks[keys[record]]


@njit(cache=True, nogil=True)
def count_runs(keys: IntArray, start: int, stop: int) -> int:
    """Number of runs of equal keys that begin in ``start:stop`` of the sorted ``keys``."""
    n_runs = 0
    for position in range(start, stop):
        n_runs += position == 0 or keys[position] != keys[position - 1]
    return n_runs


@njit(cache=True, nogil=True)
def number_runs(
    keys: IntArray, records: IntArray, start: int, stop: int, rank: int, run_starts: IntArray, record_rank: IntArray
) -> None:
    """Number the runs of equal keys within ``start:stop``, ``rank`` runs having begun before ``start``."""
    rank -= 1
    for position in range(start, stop):
        if position == 0 or keys[position] != keys[position - 1]:
            rank += 1
            run_starts[rank] = position
        record_rank[records[position]] = rank

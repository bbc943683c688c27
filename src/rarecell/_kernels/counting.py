"""How many records share each combination of codes, and which one does each record have?

A record is a row of small integers, one per key. The codes of a record are folded into one 64-bit integer, most
significant key first, so that the order of the integers is the lexicographic order of the cells. When the product of
the levels would pass 64 bits, the integers built so far are replaced by their ranks, which keep the order, and folding
goes on: any number of keys of any size fits. Distinct integers are found by a histogram when their range is small and
by a stable radix sort otherwise.

The kernels release the interpreter's lock and work on slices; :func:`collapse_records` hands one slice to each thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

IntArray = npt.NDArray[np.integer[Any]]
Keys = npt.NDArray[np.int64]
# The distinct folded values of a stage, and the levels of the keys that were folded onto the ranks of the stage before.
_Stage = tuple[Keys, list[int]]

# A folded key must stay below 2**63, the largest signed integer being 2**63 - 1.
_LARGEST_SPAN = 2**63
# A block of folded keys that stays in a core's own cache while all columns are folded into it.
_BLOCK = 65_536
# Below this many records a second thread costs more than it saves.
_WORTH_A_THREAD = 100_000
# A histogram is used up to this many possible values, or up to as many as there are records.
_DENSE_SPAN = 2**22
# Digits of this many bits keep the write fronts of a radix pass within the first-level cache.
_DIGIT_BITS = 9


@njit(cache=True, nogil=True)
def fold_column(keys: IntArray, column: IntArray, n_levels: int) -> int:
    """Append a column as the least significant part of ``keys``, in place; the number of codes out of range.

    A negative code makes the key negative for good: the record has no cell.
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
def unfold(keys: IntArray, n_levels: IntArray, codes: IntArray) -> None:
    """Undo :func:`fold_column` for several columns at once; ``keys`` is left with what was folded before them."""
    for row in range(keys.size):
        rest = keys[row]
        for column in range(n_levels.size - 1, -1, -1):
            above = rest // n_levels[column]
            codes[row, column] = rest - above * n_levels[column]
            rest = above
        keys[row] = rest


@njit(cache=True, nogil=True)
def count_values(keys: IntArray, histogram: IntArray) -> None:
    """Add to ``histogram`` how often each key occurs."""
    for record in range(keys.size):
        histogram[keys[record]] += 1


@njit(cache=True, nogil=True)
def count_digits(keys: IntArray, shift: int, histogram: IntArray) -> None:
    """Add to ``histogram``, of a power of two of places, how often each digit ``key >> shift`` occurs."""
    mask = histogram.size - 1
    for record in range(keys.size):
        histogram[(keys[record] >> shift) & mask] += 1


@njit(cache=True, nogil=True)
def scatter_by_digit(
    keys: IntArray, records: IntArray, shift: int, positions: IntArray, keys_out: IntArray, records_out: IntArray
) -> None:
    """One pass of a radix sort: move each key and its record number to the next free place of its digit."""
    mask = positions.size - 1
    for record in range(keys.size):
        digit = (keys[record] >> shift) & mask
        position = positions[digit]
        positions[digit] = position + 1
        keys_out[position] = keys[record]
        records_out[position] = records[record]


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
    """The rank of each record's key."""
    for record in range(keys.size):
        record_rank[record] = ranks[keys[record]]


@njit(cache=True, nogil=True)
def count_runs(keys: IntArray, start: int, stop: int) -> int:
    """Number of runs of equal keys that begin in ``start:stop`` of the sorted ``keys``."""
    n_runs = 0
    for position in range(start, stop):
        if position == 0 or keys[position] != keys[position - 1]:
            n_runs += 1
    return n_runs


@njit(cache=True, nogil=True)
def number_runs(
    keys: IntArray, records: IntArray, start: int, stop: int, rank: int, run_starts: IntArray, record_rank: IntArray
) -> None:
    """Number the runs of the sorted ``keys`` within ``start:stop``, ``rank`` runs having begun before ``start``."""
    rank -= 1
    for position in range(start, stop):
        if position == 0 or keys[position] != keys[position - 1]:
            rank += 1
            run_starts[rank] = position
        record_rank[records[position]] = rank


def collapse_records(
    codes: IntArray | Sequence[IntArray], levels: Sequence[int] | IntArray
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Distinct rows of codes in lexicographic order, how often each occurs, and the row of each record.

    Parameters
    ----------
    codes : integer array (n_records, n_keys), best Fortran-ordered, or a sequence of columns
        Codes from 0; a negative code takes its record out.
    levels : integers (n_keys,)
        Number of codes of each key.

    Returns
    -------
    cells : int32 array (n_cells, n_keys)
    counts : int64 array (n_cells,)
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
            _fold(keys, columns[first:key], n_levels[first:key])
            values, _, keys = _rank(keys, span)
            stages.append((values, n_levels[first:key]))
            first, span = key, values.size
        span *= count
    _fold(keys, columns[first:], n_levels[first:])
    values, counts, record_cell = _rank(keys, span)
    stages.append((values, n_levels[first:]))
    return _decode(stages, len(n_levels)), counts, record_cell


def _columns(codes: IntArray | Sequence[IntArray]) -> list[IntArray]:
    if isinstance(codes, np.ndarray):
        return [np.ascontiguousarray(codes[:, key]) for key in range(codes.shape[1])]
    return [np.ascontiguousarray(column) for column in codes]


def _slices(n_records: int, *, at_most: int | None = None) -> list[slice]:
    n_threads = min(os.cpu_count() or 1, n_records // _WORTH_A_THREAD, n_records if at_most is None else at_most)
    bounds = [n_records * thread // max(1, n_threads) for thread in range(max(1, n_threads) + 1)]
    return [slice(start, stop) for start, stop in pairwise(bounds)]


def _in_threads(work: Callable[[int, slice], Any], slices: Sequence[slice]) -> list[Any]:
    if len(slices) == 1:
        return [work(0, slices[0])]
    with ThreadPoolExecutor(len(slices)) as pool:
        return list(pool.map(work, range(len(slices)), slices))


def _fold(keys: Keys, columns: Sequence[IntArray], n_levels: Sequence[int]) -> None:
    def fold_slice(_: int, part: slice) -> int:
        n_out_of_range = 0
        for start in range(part.start, part.stop, _BLOCK):
            block = slice(start, min(start + _BLOCK, part.stop))
            for column, count in zip(columns, n_levels, strict=True):
                n_out_of_range += fold_column(keys[block], column[block], count)
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
    if span <= max(_DENSE_SPAN, keys.size):
        return _rank_by_histogram(keys, span)
    return _rank_by_sorting(keys, span)


def _rank_by_histogram(keys: Keys, span: int) -> tuple[Keys, Keys, Keys]:
    # Each thread counts into a histogram of its own: no more threads than the records pay for.
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


def _rank_by_sorting(keys: Keys, span: int) -> tuple[Keys, Keys, Keys]:
    slices = _slices(keys.size)
    records: IntArray = np.arange(keys.size, dtype=np.int32 if keys.size < 2**31 else np.int64)
    spare = np.empty_like(keys), np.empty_like(records)
    n_bits = (span - 1).bit_length()
    digit_bits = -(-n_bits // -(-n_bits // _DIGIT_BITS))
    for shift in range(0, n_bits, digit_bits):
        _radix_pass((keys, records), spare, shift, digit_bits, slices)
        (keys, records), spare = spare, (keys, records)

    n_runs = _in_threads(lambda _, part: count_runs(keys, part.start, part.stop), slices)
    before = np.concatenate([[0], np.cumsum(n_runs)])
    run_starts = np.empty(int(before[-1]), dtype=np.int64)
    record_rank = np.empty(keys.size, dtype=np.int64)

    def number_slice(thread: int, part: slice) -> None:
        number_runs(keys, records, part.start, part.stop, before[thread], run_starts, record_rank)

    _in_threads(number_slice, slices)
    return keys[run_starts], np.diff(run_starts, append=keys.size), record_rank


def _radix_pass(
    source: tuple[Keys, IntArray], target: tuple[Keys, IntArray], shift: int, digit_bits: int, slices: Sequence[slice]
) -> None:
    keys, records = source
    histograms = np.zeros((len(slices), 2**digit_bits), dtype=np.int64)
    _in_threads(lambda thread, part: count_digits(keys[part], shift, histograms[thread]), slices)
    # A thread's records with digit d go after all smaller digits and after digit d of the threads before it.
    by_digit = histograms.T.ravel()
    positions = np.ascontiguousarray((np.cumsum(by_digit) - by_digit).reshape(-1, len(slices)).T)
    _in_threads(
        lambda thread, part: scatter_by_digit(keys[part], records[part], shift, positions[thread], *target), slices
    )


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

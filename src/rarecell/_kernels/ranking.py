"""Which rank does each folded key have among the distinct ones?

Found by a histogram of all values, or by dealing keys out to parts, sorting each part with the positions packed below the
keys, and numbering the runs of equal keys; :mod:`rarecell._kernels.counting` chooses.
"""

from __future__ import annotations

from rarecell._kernels.compiled import njit
from rarecell.edges import Integers

IntArray = Integers


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

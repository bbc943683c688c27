"""What does somebody learn who holds two releases of the same file?

Columns that are the same in both releases link their records. Among the records that agree on these columns, those with the same
key values in both releases are matched with each other. A record of one release whose values no record of the other has was swapped in one of the
two, whoever it belongs to. If exactly one record remains on each side, it is the same person with two sets of values: the intruder also
knows which values are in doubt.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.counting import collapse_records
from rarecell.edges import Array
from rarecell.errors import BadInput
from rarecell.outcome.swap import ReleasedBefore

Codes = Array


def compare_releases(
    links: Sequence[Codes], link_columns: Sequence[str], earlier: Sequence[Codes], new: Sequence[Codes]
) -> ReleasedBefore:
    """Compare two releases, record by record.

    Parameters
    ----------
    links : sequence of arrays of int
        Codes of the columns that are the same in both releases.
    link_columns : sequence of str
        Names of these columns.
    earlier, new : sequence of arrays of int
        Codes of each key in the two releases, coded alike.

    Returns
    -------
    ReleasedBefore
        What the holder of both releases learns.

    Examples
    --------
    >>> import numpy as np
    >>> pets, town = np.array([0, 0, 1]), np.array([0, 1, 1])
    >>> compare_releases([pets], ["pets"], [town], [np.array([0, 1, 0])]).exposed
    1
    """
    if not earlier or len(earlier) != len(new):
        raise BadInput("Two releases are compared by their keys; both need the same ones.")
    n_records = len(earlier[0])
    group, n_groups = _ranks(links, n_records)
    both, _ = _ranks([np.concatenate(pair) for pair in zip(earlier, new, strict=True)], 2 * n_records)
    pair, n_pairs = _ranks([np.tile(group, 2), both], 2 * n_records)
    n_earlier, n_new = (np.bincount(part, minlength=n_pairs) for part in (pair[:n_records], pair[n_records:]))
    surplus, recognised = n_earlier - n_new, int(n_earlier[n_new == 0].sum())
    group_of_pair = np.zeros(n_pairs, dtype=np.int64)
    group_of_pair[pair] = np.tile(group, 2)
    left = np.bincount(group_of_pair, weights=np.maximum(surplus, 0), minlength=n_groups)
    differing, exposed = int((both[:n_records] != both[n_records:]).sum()), int((left == 1).sum())
    return ReleasedBefore(
        records=n_records,
        differing=differing,
        linked=int((np.bincount(group, minlength=n_groups) == 1).sum()) if links else 0,
        exposed=exposed,
        recognised=recognised,
        link_columns=tuple(link_columns),
        sentence=_sentence(n_records, differing, recognised, exposed, link_columns),
    )


def _sentence(records: int, differing: int, recognised: int, exposed: int, link_columns: Sequence[str]) -> str:
    if not differing:
        return "Every record has the same key values as in the earlier release; holding both teaches nothing."
    by = f"the columns {', '.join(link_columns)}" if link_columns else "no column"
    return (
        f"{differing:,} of {records:,} records have other key values than in the earlier release. The two are linked by {by}; "
        f"{recognised:,} of these records are recognised as swapped in one of the two by whoever holds both, and {exposed:,} are left alone, so "
        "that both sets of values are known to be one person's. Release the same protected values again, or leave out a column that links them."
    )


def _ranks(columns: Sequence[Codes], n_records: int) -> tuple[NDArray[np.int64], int]:
    if not columns:
        return np.zeros(n_records, dtype=np.int64), 1
    cells, _, rank = collapse_records(list(columns), [int(column.max(initial=0)) + 1 for column in columns])
    return rank, len(cells)

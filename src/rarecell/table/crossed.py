"""How many records combine a given level of a key with a given value of another column?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from rarecell.edges import Level


class CrossedColumn(NamedTuple):
    """A column outside the keys, counted against some of them.

    ``levels`` holds the values of the column in the order of their codes, ``joint`` the number of records for each pair of
    levels, key by key, and ``of_rows`` the column's code in each of the requested records.
    """

    levels: Sequence[Level]
    joint: Mapping[str, NDArray[np.int64]]
    of_rows: NDArray[np.int32]

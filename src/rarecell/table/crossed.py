"""How many records have each pair of a key's level and another column's value?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from rarecell.edges import Level


class CrossedColumn(NamedTuple):
    """A column outside the keys, counted against some of them.

    ``levels`` are the values of the column in the order of their codes, ``joint`` has for each key the records of each pair of
    levels, and ``of_rows`` the code of the column in the records that were asked for.
    """

    levels: Sequence[Level]
    joint: Mapping[str, NDArray[np.int64]]
    of_rows: NDArray[np.int32]

"""Can households be put together again once their number is dropped?

Without the number, and with the rows shuffled, nobody knows who lives with whom, unless other columns tell: a weight, an income of the
household or a small area is the same for all members and rare. Such columns are looked for in the file as it would be released. A
household is put together again if its members, and nobody else, share the values of all columns that members share.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rarecell.errors import BadInput
from rarecell.outcome.words import counted, listed, number, verb
from rarecell.run.results import Assessment
from rarecell.run.treating import Treated
from rarecell.swap.plan import SwapPlan

SHARED = 0.98
"""A column is shared by the members if this part of them agrees with the first member of their household."""

BY_CHANCE = 0.9
"""A column that so many pairs of any records agree on says nothing about households."""


@dataclass(frozen=True)
class PutTogether:
    """Households that can be put together again, by the columns that tell; ``by_keys`` of them by keys alone."""

    columns: tuple[str, ...]
    households: int
    persons: int
    of: int
    by_keys: int

    @property
    def sentence(self) -> str:
        if not self.households:
            return "Without its number no household can be put together again by values that its members share."
        told = (
            f"Without the household number, {counted(self.households, 'household')} of {number(self.of)} with two or more members, "
            f"{counted(self.persons, 'person')}, can still be put together by values that all members share and nobody else has"
        )
        return f"{told}: {listed(self.columns)}." if self.columns else f"{told}: those of the keys."


def put_together(columns: dict[str, NDArray[np.int32]], keys: frozenset[str], household: NDArray[np.int64]) -> PutTogether:
    """Find the columns that members share, and count the households that they put together again.

    Parameters
    ----------
    columns : dict of str to array of int
        The released columns as codes.
    keys : frozenset of str
        Those of them that are keys.
    household : array of int
        The household of each record, which the released file does not have.
    """
    _, home, size = np.unique(household, return_inverse=True, return_counts=True)
    first = np.unique(home, return_index=True)[1][home]
    others = np.flatnonzero(np.arange(len(home)) != first)
    several = int((size > 1).sum())
    shared = {name: codes for name, codes in columns.items() if len(others) and _is_shared(codes, first, others)}

    def rebuilt(names: list[str]) -> NDArray[np.bool_]:
        """Which households of two or more are the only ones with their values of these columns."""
        group = np.zeros(len(home), dtype=np.int64)
        for name in names:
            group = np.unique(group * (int(shared[name].max()) + 2) + shared[name] + 1, return_inverse=True)[1]
        n_in_group = np.bincount(group)
        same = np.bincount(home, weights=group == group[first]) == size
        return np.asarray((size > 1) & same & (n_in_group[group[np.unique(home, return_index=True)[1]]] == size))

    by_keys = int(rebuilt([name for name in shared if name in keys]).sum())
    whole = rebuilt(list(shared))
    telling = [name for name in shared if name not in keys]
    # Columns that put nothing together beyond the others are not to blame.
    for name in sorted(telling, key=lambda name: int(shared[name].max())):
        fewer = [other for other in shared if other in keys or (other in telling and other != name)]
        if int(rebuilt(fewer).sum()) >= int(whole.sum()):
            telling.remove(name)
    return PutTogether(tuple(telling), int(whole.sum()), int(size[whole].sum()), several, by_keys)


def _is_shared(codes: NDArray[np.int32], first: NDArray[np.int64], others: NDArray[np.int64]) -> bool:
    agree = float((codes[others] == codes[first[others]]).mean())
    share = np.bincount(codes - codes.min()) / len(codes)
    return agree >= SHARED and float((share**2).sum()) <= BY_CHANCE


def refuse_put_together(found: Assessment, plan: SwapPlan, treated: Treated, accepted: tuple[str, ...]) -> str:
    """Stop if columns outside the keys put households together again; otherwise say how many still can be."""
    data = found.data
    household = data.household_codes()
    assert household is not None
    left_out = {*data.household_columns, *treated.dropped, *treated.values, *treated.recodes}
    names = [c.name for c in data.source.columns() if c.name not in left_out and c.name != data.id and c.kind != "other"]
    codes, categories = data.column_codes(names)
    columns = {c.key: np.array(codes[:, k]) for k, c in enumerate(categories)}
    for k, key in enumerate(data.keys):
        columns[key][plan.rows] = plan.release.released[:, k]
    for name, column in treated.after.items():
        if name not in treated.dropped:
            columns[name] = np.asarray(column.codes, dtype=np.int32)
    result = put_together(columns, frozenset(data.keys), household)
    telling = [name for name in result.columns if name not in accepted]
    if telling and result.households > result.by_keys:
        raise BadInput(
            f"{result.sentence} Drop or treat {verb(len(telling), 'this column', 'these columns')} "
            f'(--treat "{telling[0]}=drop", or coarser values), or accept it by name (--accept-leak {telling[0]}), which the report then '
            "says. Nothing was written."
        )
    return result.sentence

"""What is found by an intruder who knows more of a person than the keys?

Swaps move keys; other columns stay with their row. Whoever has such a column in a register need only compare people with the row's
own value of it, among whom the right person is and most others are not: the column is a key that was never protected. A column
that was changed too, because it travels with a key or was treated, is compared like a key that is equal or not.

The search is that of the nearest person (:mod:`rarecell.intruder.nearest`) in the table of the keys and the further columns, in
which a column that stays weighs more than all keys together.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rarecell.intruder.links import Links
from rarecell.intruder.nearest import moved_chances, nearest_links
from rarecell.intruder.register import Register
from rarecell.release.release import Release
from rarecell.table.contingency import ContingencyTable
from rarecell.table.distance import OUTWEIGHS_ALL, Distances, Yardstick, yardsticks

MOST_CLAIMS = 120
"""Where a column is only tried, and more moved records than this are alone, a random part of them represents all."""

COUNTING = "by counting the keys that differ"

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class BeyondKeys:
    """What is found with further columns.

    Attributes
    ----------
    columns : tuple of str
        The columns.
    before, after : float
        Expected right claims in the original and in the released file, over all records that are alone there by keys and columns.
    of_alone : float
        The part of ``after`` that comes from records that are alone by the keys as well.
    of_moved : float
        The part of ``after`` that comes from moved records.
    """

    columns: tuple[str, ...]
    before: float
    after: float
    of_alone: float
    of_moved: float


def widened(release: Release, wide: ContingencyTable, codes: NDArray[np.int32], released: NDArray[np.int32]) -> Release:
    """The release in the table of the keys and further columns.

    Parameters
    ----------
    release : Release
        What was done to the keys.
    wide : ContingencyTable
        The table of the original in the keys, in the same levels, and the further columns after them.
    codes, released : ndarray of int
        Codes of the further columns, for each of the rows of ``release``: in the original, and as they are released.
    """
    return Release(
        wide,
        release.rows,
        np.ascontiguousarray(np.concatenate([release.true, codes], axis=1), dtype=np.int32),
        np.ascontiguousarray(np.concatenate([release.released, released], axis=1), dtype=np.int32),
        gone=release.gone,
    )


def distances_beyond(
    table: ContingencyTable, columns: Sequence[str], distances: Distances | None = None, *, changed: Collection[str] = ()
) -> tuple[Yardstick, ...]:
    """The family of distances for a table whose last keys are the further columns; ``changed`` are those that do not stay."""
    keys = [key for key in table.keys if key not in columns]
    of_keys = Distances() if distances is None else distances.among(keys)
    family = yardsticks(table, Distances({**of_keys.kinds, **dict.fromkeys(columns, "nominal")}, of_keys.weights))
    stays = np.array([key in columns and key not in changed for key in table.keys])
    return tuple(
        Yardstick(each.name, each.near._replace(weight=np.where(stays, OUTWEIGHS_ALL, each.near.weight))) for each in family
    )


def links_beyond(
    release: Release,
    register: Register,
    columns: Sequence[str],
    *,
    distances: Distances | None = None,
    changed: Collection[str] = (),
) -> Links:
    """Links of an intruder who holds the keys and these columns of everybody, by the distance with which most is found.

    ``release`` is :func:`widened`, and ``register`` has people by keys and columns.
    """
    seen = register.seen(release)
    family = distances_beyond(seen.before, columns, distances, changed=changed)
    return nearest_links(seen, register, family=family)


def tried_beyond(
    release: Release,
    register: Register,
    columns: Sequence[str],
    *,
    distance: str,
    distances: Distances | None = None,
    changed: Collection[str] = (),
    seed: int = 0,
) -> BeyondKeys:
    """The same quickly, for columns that nobody named: by two distances, and by a part of the moved records where they are many.

    Parameters
    ----------
    release, register : Release, Register
        As for :func:`links_beyond`.
    columns : sequence of str
        The further columns.
    distance : str
        The distance with which most is found by the keys alone; the other one counts the keys that differ.
    distances : Distances, optional
        What the user said about distances.
    changed : collection of str, optional
        Columns that do not stay with their row.
    seed : int, optional
        Seed for drawing a part of the moved records.
    """
    seen = register.seen(release)
    table, cells = seen.before, seen.before.cells[seen.unmoved_cells]
    before, unmoved = (register.own_cell(of)[0] for of in (table.cells[table.counts == 1], cells))
    claimed = np.flatnonzero(seen.moved_alone)
    # In the order of their values: engines number records differently, and the same ones are to be drawn.
    claimed = claimed[np.lexsort(np.concatenate([seen.released[claimed], seen.true[claimed]], axis=1).T)]
    chosen = claimed
    if len(claimed) > MOST_CLAIMS:
        chosen = np.random.default_rng(seed).choice(claimed, MOST_CLAIMS, replace=False)
    claims, everyone = seen.moved.part(chosen), np.ones(len(chosen), dtype=bool)
    family = distances_beyond(table, columns, distances, changed=changed)
    tried = [each for each in family if each.name in (distance, COUNTING)] or list(family[:1])
    by_distance = moved_chances(claims, register, [each.near for each in tried], everyone)
    worst = max((chances.link for chances in by_distance), key=lambda link: float(link.sum())) * (
        len(claimed) / max(len(chosen), 1)
    )
    keys = [key for key in table.keys if key not in columns]
    by_keys = seen.project(keys).after
    alone, moved_alone = (by_keys.counts_of(of[:, : len(keys)]) == 1 for of in (cells, claims.released))
    return BeyondKeys(
        tuple(columns),
        float(before.sum()),
        float(unmoved.sum() + worst.sum()),
        float(unmoved[alone].sum() + worst[moved_alone].sum()),
        float(worst.sum()),
    )

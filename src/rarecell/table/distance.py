"""How far apart are two levels of a key?

==========  ============================================================================================
kind        distance, between 0 and 1
==========  ============================================================================================
ordinal     difference in rank over the largest difference in rank
numeric     difference in value over the range of values
nominal     0 when equal, else 1
a table     given by the user for each pair of levels; any number of 0 or more
==========  ============================================================================================

By default an ordered key is ordinal and any other key nominal. A missing value is at distance 1 from every level.
The distance of an exchange is the weighted sum over the exchanged keys.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rarecell._kernels.distance import Nearness
from rarecell.errors import BadInput, UnknownChoice, UnknownColumns
from rarecell.graph.masks import holds

if TYPE_CHECKING:
    from rarecell.table.contingency import Categories, ContingencyTable


KINDS = ("ordinal", "numeric", "nominal")
NOMINAL, PLACED, TABLED = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Distances:
    """The user's choice of distances.

    Parameters
    ----------
    kinds : mapping of str to str or array_like
        For a key, one of ``ordinal``, ``numeric`` and ``nominal``, or a square table of distances between its levels.
    weights : mapping of str to float
        For a key, the factor by which its distance is multiplied, 1 by default; 0 makes its changes free.
    """

    kinds: Mapping[str, str | ArrayLike] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)

    def among(self, keys: Collection[str]) -> Distances:
        """The same choices for some of the keys only."""
        return Distances(
            kinds={key: kind for key, kind in self.kinds.items() if key in keys},
            weights={key: weight for key, weight in self.weights.items() if key in keys},
        )

    def between(self, table: ContingencyTable, first: ArrayLike, second: ArrayLike, moved: int) -> float:
        """Return the weighted distance between two cells (key codes) on the keys of the mask ``moved``."""
        total = 0.0
        for k, (a, b) in enumerate(zip(np.asarray(first), np.asarray(second), strict=True)):
            if holds(moved, k):
                total += self._weight(table.keys[k]) * self._matrix(table.categories[k])[a, b]
        return total

    def _weight(self, key: str) -> float:
        return float(self.weights.get(key, 1.0))

    def _matrix(self, categories: Categories) -> NDArray[np.float64]:
        kind, places = self._places(categories)
        if kind == TABLED:
            return places.reshape(categories.n_levels, -1)
        if kind == NOMINAL:
            return 1.0 - np.eye(categories.n_levels)
        distance = np.abs(places[:, None] - places[None, :])
        is_missing = np.isnan(places)
        distance[is_missing] = distance[:, is_missing] = 1.0
        np.fill_diagonal(distance, 0.0)
        return distance

    def arrays(self, table: ContingencyTable) -> Nearness:
        """Return the form that kernels take: for each key its kind, weight, and places or table of distances."""
        unknown = [key for key in (*self.kinds, *self.weights) if key not in table.keys]
        if unknown:
            raise UnknownColumns.among(list(dict.fromkeys(unknown)), table.keys, role="key")
        negative = [key for key, weight in self.weights.items() if not weight >= 0]
        if negative:
            raise BadInput(f"Key '{negative[0]}' has the distance weight {self.weights[negative[0]]}; a weight is 0 or more.")
        by_key = [self._places(categories) for categories in table.categories]
        return Nearness(
            kind=np.array([kind for kind, _ in by_key], dtype=np.int64),
            start=np.cumsum([0, *(len(places) for _, places in by_key)])[:-1].astype(np.int64),
            n_levels=np.array([c.n_levels for c in table.categories], dtype=np.int64),
            place=np.concatenate([places for _, places in by_key]),
            weight=np.array([self._weight(key) for key in table.keys]),
        )

    def _places(self, categories: Categories) -> tuple[int, NDArray[np.float64]]:
        kind = self.kinds.get(categories.key, "ordinal" if categories.is_ordered else "nominal")
        n_real = categories.n_levels - categories.has_missing
        places = np.full(categories.n_levels, np.nan)
        if not isinstance(kind, str):
            return TABLED, _checked_table(categories, kind).ravel()
        if kind == "nominal":
            return NOMINAL, places
        if kind == "ordinal":
            places[:n_real] = np.arange(n_real) / max(1, n_real - 1)
        elif kind == "numeric":
            if not all(isinstance(level, Real) for level in categories.levels[:n_real]):
                raise BadInput(
                    f"Key '{categories.key}' was given a numeric distance, but its levels are not numbers; "
                    "use 'ordinal', 'nominal' or a table of distances."
                )
            values = np.array([float(level) for level in categories.levels[:n_real]])
            places[:n_real] = (values - values.min()) / max(np.ptp(values), np.finfo(float).tiny)
        else:
            raise UnknownChoice.of(f"The distance of key '{categories.key}'", kind, [*KINDS, "a table"])
        return PLACED, places


def _checked_table(categories: Categories, given: ArrayLike) -> NDArray[np.float64]:
    matrix = np.asarray(given, dtype=np.float64)
    n = categories.n_levels
    if matrix.shape != (n, n):
        raise BadInput(
            f"The table of distances of key '{categories.key}' has the shape {matrix.shape}; its {n} levels need ({n}, {n})."
        )
    if not (matrix >= 0).all() or not np.array_equal(matrix, matrix.T) or np.diag(matrix).any():
        raise BadInput(
            f"The table of distances of key '{categories.key}' must be symmetric, with 0 on its diagonal and no negative number."
        )
    return matrix


# Which distance does an intruder use? Nobody knows, so a family of them is tried.


OUTWEIGHS_ALL = 1_000.0
"""Weight of a column that counts more than all others together, in any distance of the family."""

WEIGHTS = (1.0, 3.0, 10.0)
"""How often an ordered key counts, relative to a key that is equal or not."""

_CODE_WEIGHT = 3.0
_BY_VALUE, _BY_DEVIATION = "value", "standard deviation"


@dataclass(frozen=True, eq=False)
class Yardstick:
    """One way to measure how far apart two people are, and its name."""

    name: str
    near: Nearness


def by_rank(table: ContingencyTable, weight: float, distances: Distances | None = None) -> Yardstick:
    """Ordered keys by rank, counted ``weight`` times; ``distances`` may say how far apart levels are."""
    kinds = {} if distances is None else dict(distances.kinds)
    weights = {c.key: weight for c in table.categories if kinds.get(c.key, "ordinal" if c.is_ordered else "nominal") != "nominal"}
    return Yardstick(f"by rank, ordered keys counted {_times(weight)}", Distances(kinds, weights).arrays(table))


def yardsticks(table: ContingencyTable, distances: Distances | None = None) -> tuple[Yardstick, ...]:
    """The distances that an intruder may use, each once.

    1. Ordered keys by rank, by value over range, and by standard deviation, counted 1, 3 and 10 times.
    2. Every key equal or not.
    3. Whole numbers both ways unless ``distances`` says which: each ordered one as a code, all unordered ones as ordered.

    What ``distances`` says of a key holds in all but the second.
    """
    declared = {} if distances is None else dict(distances.kinds)
    family = [by_rank(table, weight, distances) for weight in WEIGHTS]
    for scale in (_BY_VALUE, _BY_DEVIATION):
        family += [
            Yardstick(
                f"by {scale}, ordered keys counted {_times(weight)}",
                _rescaled(table, by_rank(table, weight, distances).near, declared, scale),
            )
            for weight in WEIGHTS
        ]
    family.append(Yardstick("by counting the keys that differ", Distances(dict.fromkeys(table.keys, "nominal")).arrays(table)))
    whole = [c for c in table.categories if c.key not in declared and _is_whole(c)]
    for of_key in whole:
        if of_key.is_ordered:
            as_code = by_rank(table, _CODE_WEIGHT, Distances({**declared, of_key.key: "nominal"})).near
            family.append(Yardstick(f"by rank, with '{of_key.key}' equal or not", as_code))
    codes = {c.key: "ordinal" for c in whole if not c.is_ordered}
    if codes:
        named = ", ".join(f"'{key}'" for key in codes)
        family.append(
            Yardstick(
                f"by rank, with codes of {named} as if they were ordered",
                by_rank(table, _CODE_WEIGHT, Distances({**declared, **codes})).near,
            )
        )
    distinct: dict[tuple[bytes, ...], Yardstick] = {}
    for yardstick in family:
        near = yardstick.near
        distinct.setdefault(tuple(np.round(part, 12).tobytes() for part in (near.kind, near.place, near.weight)), yardstick)
    return tuple(distinct.values())


def _times(weight: float) -> str:
    return "once" if weight == 1.0 else f"{weight:g} times"


def _is_whole(categories: Categories) -> bool:
    levels = [level for level in categories.levels if level is not None]
    return len(levels) > 2 and all(isinstance(level, int) and not isinstance(level, bool) for level in levels)


def _rescaled(table: ContingencyTable, near: Nearness, declared: Mapping[str, str | ArrayLike], scale: str) -> Nearness:
    """The same distance with other places of ordered keys: by value over range, or in standard deviations of the records."""
    place = near.place.copy()
    for k, of_key in enumerate(table.categories):
        if near.kind[k] != PLACED or of_key.key in declared:
            continue
        n_real = of_key.n_levels - of_key.has_missing
        if not n_real:
            continue
        levels = of_key.levels[:n_real]
        places = np.arange(n_real, dtype=np.float64)
        if all(isinstance(level, Real) and np.isfinite(float(level)) for level in levels):
            places = np.array([float(level) for level in levels])
        if scale == _BY_VALUE:
            places = (places - places.min()) / max(np.ptp(places), np.finfo(float).tiny)
        else:
            records = np.bincount(table.cells[:, k], weights=table.counts, minlength=of_key.n_levels)[:n_real]
            deviation = np.sqrt(np.cov(places, aweights=records, bias=True)) if (records > 0).sum() > 1 else 1.0
            places = places / float(deviation)
        place[near.start[k] : near.start[k] + n_real] = places
    return near._replace(place=place)

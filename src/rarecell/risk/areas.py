"""At which level of areas is a file safe, and which areas drive the risk?

Areas are nested: municipalities lie in districts, districts in regions. The risk is reported without any area, and at each level
as if the file were released with that level and no finer one, so that a data steward can choose the finest level that is safe.
Areas that are missing at some level form an area of their own within the next coarser one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.counting import collapse_records
from rarecell.errors import BadInput, UnknownColumns
from rarecell.risk.records import RecordRisk
from rarecell.table.contingency import Categories, ContingencyTable

NO_AREA = ""
"""Name of the level without areas."""

DRIVES = 2.0
"""An area drives the risk when its records have at least this many times the average risk at that level."""

MOST_DRIVERS = 10
"""Largest number of areas that are named as driving the risk."""


@dataclass(frozen=True)
class AreaRisk:
    """One area: its records, and the expected values for those that are unique in the file."""

    area: str
    records: int
    sample_uniques: int
    expected_population_uniques: float
    expected_correct_matches: float
    above_threshold: int


@dataclass(frozen=True)
class AreaLevel:
    """The file as if released with one level of areas.

    Attributes
    ----------
    column : str
        Column of the areas; empty for the file without areas.
    sample_uniques, above_threshold : int
        Records that are unique in the file so released, and those of them at or above the threshold.
    expected_population_uniques, expected_correct_matches : float
        Expected values for the whole file so released.
    areas : tuple of AreaRisk
        All areas, the one with the most expected population uniques first.
    """

    column: str
    sample_uniques: int
    expected_population_uniques: float
    expected_correct_matches: float
    above_threshold: int
    areas: tuple[AreaRisk, ...]

    @property
    def drivers(self) -> tuple[AreaRisk, ...]:
        """Areas whose records have at least twice the average risk and which hold at least 1 % of the total, riskiest first."""
        total, n_records = self.expected_population_uniques, sum(area.records for area in self.areas)
        found = [
            area
            for area in self.areas
            if area.expected_population_uniques >= 0.01 * total > 0
            and area.expected_population_uniques * n_records >= DRIVES * total * area.records
        ]
        return tuple(found[:MOST_DRIVERS])

    def __str__(self) -> str:
        released = f"Released with '{self.column}'" if self.column else "Released without any area"
        text = (
            f"{released}, {self.sample_uniques:,} records are unique in the file, {self.expected_population_uniques:,.1f} are expected "
            f"to be unique in the population, and {self.above_threshold:,} are above the threshold."
        )
        if self.drivers:
            text += f" Small areas that drive it: {', '.join(area.area for area in self.drivers)}."
        return text


def check_nesting(table: ContingencyTable, columns: Sequence[str]) -> None:
    """Raise an error that names an area which does not lie within a single coarser one, if there is any.

    Parameters
    ----------
    table : ContingencyTable
        Table with the areas among its keys.
    columns : sequence of str
        Area columns, coarsest first.
    """
    _expect_keys(table, columns)
    for coarse, fine in pairwise(columns):
        c, f = table.keys.index(coarse), table.keys.index(fine)
        levels = [table.categories[f].n_levels, table.categories[c].n_levels]
        pairs, _, _ = collapse_records([table.cells[:, f], table.cells[:, c]], levels)
        is_given = np.array([level is not None for level in table.categories[f].levels])
        pairs = pairs[is_given[pairs[:, 0]]]
        twice = np.flatnonzero(pairs[1:, 0] == pairs[:-1, 0])
        if len(twice):
            (area, one), (_, other) = pairs[twice[0]].tolist(), pairs[twice[0] + 1].tolist()
            labels = table.categories[c].labels
            raise BadInput(
                f"The areas do not nest: {fine} '{table.categories[f].labels[area]}' lies in {coarse} '{labels[one]}' and in "
                f"'{labels[other]}'. Give the areas from coarse to fine, or correct the data"
                + (f" ({len(twice):,} such cases)." if len(twice) > 1 else ".")
            )


def released_with(table: ContingencyTable, columns: Sequence[str], level: int) -> ContingencyTable:
    """The table as if the file were released with the areas of one level and no finer ones.

    Parameters
    ----------
    table : ContingencyTable
        Table with the areas among its keys, in addition to the keys that are released in any case.
    columns : sequence of str
        Area columns, coarsest first.
    level : int
        Position in ``columns``; −1 for no area at all.

    Returns
    -------
    ContingencyTable
        Its last key is the area, named after its column.
    """
    others = [key for key in table.keys if key not in columns]
    if level < 0:
        if not others:
            raise BadInput("Without its areas the file has no key left; name further columns that an intruder could know.")
        return table.project(others)
    used = list(columns[: level + 1])
    smaller = table.project([*others, *used])
    n_others = len(others)
    area, labels = _paths(smaller, n_others)
    categories = (*smaller.categories[:n_others], Categories(used[-1], labels))
    cells = np.column_stack([smaller.cells[:, :n_others], area]).astype(np.int32)
    return ContingencyTable.from_counts(
        cells, smaller.counts, categories, weights=smaller.weights, record_cell=smaller.record_cell
    )


def area_levels(
    table: ContingencyTable,
    columns: Sequence[str],
    *,
    risk_of: Callable[[ContingencyTable], RecordRisk],
    threshold: float = 0.2,
) -> tuple[AreaLevel, ...]:
    """The risk at every level of areas: first without any, then from the coarsest to the finest.

    Parameters
    ----------
    table : ContingencyTable
        Table with the areas among its keys.
    columns : sequence of str
        Area columns, coarsest first; they must be nested.
    risk_of : callable
        Estimates the risk of a table; called once for each level.
    threshold : float, optional
        Risk from which a record counts as risky.
    """
    check_nesting(table, columns)
    has_others = any(key not in columns for key in table.keys)
    return tuple(
        _level_of(risk_of(released_with(table, columns, level)), columns[level] if level >= 0 else NO_AREA, threshold)
        for level in range(-1 if has_others else 0, len(columns))
    )


def finest_safe(levels: Sequence[AreaLevel]) -> AreaLevel | None:
    """The finest level such that no record is above the threshold there or at any coarser level; None if there is none."""
    found = None
    for level in levels:
        if level.above_threshold:
            break
        found = level
    return found


def _level_of(risk: RecordRisk, column: str, threshold: float) -> AreaLevel:
    table, alone = risk.table, risk.sample_count == 1
    is_above = alone & (risk.unique_probability >= threshold)
    match = np.where(alone, risk.match_probability, 0.0)
    areas: list[AreaRisk] = []
    if column:
        code, categories = table.cells[:, -1], table.categories[-1]
        sums = [
            np.bincount(code, weights=values, minlength=categories.n_levels)
            for values in (table.counts, alone, risk.unique_probability, match, is_above)
        ]
        for name, records, uniques, expected, matches, above in zip(categories.labels, *sums, strict=True):
            areas.append(AreaRisk(name, int(records), int(uniques), float(expected), float(matches), int(above)))
        areas.sort(key=lambda area: (-area.expected_population_uniques, area.area))
    return AreaLevel(
        column,
        risk.n_sample_uniques,
        risk.expected_population_uniques,
        risk.expected_correct_matches,
        int(is_above.sum()),
        tuple(areas),
    )


def _expect_keys(table: ContingencyTable, columns: Sequence[str]) -> None:
    unknown = [column for column in columns if column not in table.keys]
    if unknown:
        raise UnknownColumns.among(unknown, table.keys, role="area")


def _paths(table: ContingencyTable, n_others: int) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """The area of each cell as a number, and the names of the areas; a missing area is named after the one it lies in."""
    of_areas = table.categories[n_others:]
    columns = [table.cells[:, n_others + k] for k in range(len(of_areas))]
    paths, _, area = collapse_records(columns, [c.n_levels for c in of_areas])
    names = []
    for path in paths.tolist():
        labels = [c.labels[code] for c, code in zip(of_areas, path, strict=True)]
        given = [label for c, code, label in zip(of_areas, path, labels, strict=True) if c.levels[code] is not None]
        if of_areas[-1].levels[path[-1]] is not None:
            names.append(labels[-1])
        else:
            names.append(f"missing in {given[-1]}" if given else "missing")
    # Areas of the same name within different coarser ones would not be nested, so only missing areas can share a name.
    seen: dict[str, int] = {}
    unique = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        unique.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return area, tuple(unique)

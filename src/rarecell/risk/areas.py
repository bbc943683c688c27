"""At which level of areas is a file safe, and which areas drive the risk?

Areas are nested: municipalities lie in districts, districts in regions. The risk is reported without any area, and at each level
as if the file were released with that level and no finer one, so that a data steward can choose the finest level that is safe.
Areas that are missing at some level form an area of their own within the next coarser one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.counting import collapse_records
from rarecell.errors import BadInput, UnknownColumns
from rarecell.outcome.roles import AreaLevelSummary, AreaSummary
from rarecell.risk.records import RecordRisk
from rarecell.table.contingency import Categories, ContingencyTable

NO_AREA = ""
"""Name of the level without areas."""

DRIVES = 2.0
"""An area drives the risk when its records have at least this many times the average risk at that level."""

MOST_DRIVERS = 10
"""Largest number of areas that are named as driving the risk."""


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
            (area, coarser), (_, second_coarser) = pairs[twice[0]].tolist(), pairs[twice[0] + 1].tolist()
            labels = table.categories[c].shown
            raise BadInput(
                f"The areas do not nest: {fine} '{table.categories[f].shown[area]}' lies in {coarse} '{labels[coarser]}' and in "
                f"'{labels[second_coarser]}'. Give the areas from coarse to fine, or correct the data"
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
    with_household: Callable[[str], NDArray[np.float64]] | None = None,
) -> tuple[AreaLevelSummary, ...]:
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
    with_household : callable, optional
        Gives the risk of every record of being recognised with its household, for the column of a level; the larger of both counts.
    """
    check_nesting(table, columns)
    has_others = any(key not in columns for key in table.keys)
    levels = []
    for level in range(-1 if has_others else 0, len(columns)):
        column = columns[level] if level >= 0 else NO_AREA
        of_household = None if with_household is None else with_household(column)
        levels.append(_level_of(risk_of(released_with(table, columns, level)), column, threshold, of_household))
    return tuple(levels)


def finest_safe(levels: Sequence[AreaLevelSummary]) -> AreaLevelSummary | None:
    """The finest level such that no record is above the threshold there or at any coarser level; None if there is none."""
    finest = None
    for level in levels:
        if level.above_threshold:
            break
        finest = level
    return finest


def _level_of(
    risk: RecordRisk, column: str, threshold: float, of_household: NDArray[np.float64] | None = None
) -> AreaLevelSummary:
    """The file as released with one level of areas, the one with the most expected records first."""
    table, alone = risk.table, risk.sample_count == 1
    above = (alone & (risk.unique_probability >= threshold)).astype(np.float64)
    recognised = risk.unique_probability
    if of_household is not None:
        above, recognised = _together(risk, of_household, threshold)
    match = np.where(alone, risk.match_probability, 0.0)
    areas: list[AreaSummary] = []
    if column:
        code, categories = table.cells[:, -1], table.categories[-1]
        sums = [
            np.bincount(code, weights=values, minlength=categories.n_levels)
            for values in (table.counts, alone, risk.unique_probability, match, above, recognised)
        ]
        for name, records, uniques, expected, matches, n_above, known in zip(categories.labels, *sums, strict=True):
            areas.append(
                AreaSummary(
                    area=name,
                    records=int(records),
                    sample_uniques=int(uniques),
                    expected_population_uniques=float(expected),
                    expected_correct_matches=float(matches),
                    above_threshold=round(n_above),
                    expected_recognised=None if of_household is None else float(known),
                )
            )
        areas.sort(key=lambda area: (-area.expected, area.area))
    total = float(recognised.sum())
    return AreaLevelSummary(
        column=column,
        sample_uniques=risk.n_sample_uniques,
        expected_population_uniques=risk.expected_population_uniques,
        expected_correct_matches=risk.expected_correct_matches,
        above_threshold=round(float(above.sum())),
        expected_recognised=None if of_household is None else total,
        areas=tuple(areas),
        drivers=_drivers(
            {area.area: (area.expected, float(area.records)) for area in areas if isinstance(area.records, int)}, total
        ),
    )


def _together(
    risk: RecordRisk, of_household: NDArray[np.float64], threshold: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For each cell, its records at the threshold or above, alone or with their household, and the sum of the larger risks."""
    cell = risk.table.cell_of_record
    held = cell >= 0
    larger = np.maximum(risk.unique_probability[cell[held]], of_household[held])
    is_above = (larger >= threshold) & (larger > 0.0)
    n_cells = risk.table.n_cells
    above, recognised = (np.bincount(cell[held], weights=values, minlength=n_cells) for values in (is_above, larger))
    return above.astype(np.float64), recognised.astype(np.float64)


def _drivers(of_area: Mapping[str, tuple[float, float]], total: float) -> tuple[str, ...]:
    """Areas whose records have at least twice the average risk and which hold at least 1 % of the total, riskiest first.

    ``of_area`` has the expected number recognised and the records of each area, in the order of the answer.
    """
    n_records = sum(records for _, records in of_area.values())
    driving = [
        area
        for area, (expected, records) in of_area.items()
        if expected >= 0.01 * total > 0 and expected * n_records >= DRIVES * total * records
    ]
    return tuple(driving[:MOST_DRIVERS])


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
        labels = [c.shown[code] for c, code in zip(of_areas, path, strict=True)]
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

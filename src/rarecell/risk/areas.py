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
            (area, one), (_, other) = pairs[twice[0]].tolist(), pairs[twice[0] + 1].tolist()
            labels = table.categories[c].shown
            raise BadInput(
                f"The areas do not nest: {fine} '{table.categories[f].shown[area]}' lies in {coarse} '{labels[one]}' and in "
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
    """
    check_nesting(table, columns)
    has_others = any(key not in columns for key in table.keys)
    return tuple(
        _level_of(risk_of(released_with(table, columns, level)), columns[level] if level >= 0 else NO_AREA, threshold)
        for level in range(-1 if has_others else 0, len(columns))
    )


def finest_safe(levels: Sequence[AreaLevelSummary]) -> AreaLevelSummary | None:
    """The finest level such that no record is above the threshold there or at any coarser level; None if there is none."""
    found = None
    for level in levels:
        if level.above_threshold:
            break
        found = level
    return found


def _level_of(risk: RecordRisk, column: str, threshold: float) -> AreaLevelSummary:
    """The file as released with one level of areas, the one with the most expected population uniques first."""
    table, alone = risk.table, risk.sample_count == 1
    is_above = alone & (risk.unique_probability >= threshold)
    match = np.where(alone, risk.match_probability, 0.0)
    areas: list[AreaSummary] = []
    of_area: dict[str, tuple[float, float]] = {}
    if column:
        code, categories = table.cells[:, -1], table.categories[-1]
        sums = [
            np.bincount(code, weights=values, minlength=categories.n_levels)
            for values in (table.counts, alone, risk.unique_probability, match, is_above)
        ]
        for name, records, uniques, expected, matches, above in zip(categories.labels, *sums, strict=True):
            of_area[name] = float(expected), float(records)
            areas.append(
                AreaSummary(
                    area=name,
                    records=int(records),
                    sample_uniques=int(uniques),
                    expected_population_uniques=float(expected),
                    expected_correct_matches=float(matches),
                    above_threshold=int(above),
                )
            )
        areas.sort(key=lambda area: (-area.expected_population_uniques, area.area))
    return AreaLevelSummary(
        column=column,
        sample_uniques=risk.n_sample_uniques,
        expected_population_uniques=risk.expected_population_uniques,
        expected_correct_matches=risk.expected_correct_matches,
        above_threshold=int(is_above.sum()),
        areas=tuple(areas),
        drivers=_drivers({area.area: of_area[area.area] for area in areas}, risk.expected_population_uniques),
    )


def _drivers(of_area: Mapping[str, tuple[float, float]], total: float) -> tuple[str, ...]:
    """Areas whose records have at least twice the average risk and which hold at least 1 % of the total, riskiest first.

    ``of_area`` has the expected population uniques and the records of each area, in the order of the answer.
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

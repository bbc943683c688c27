"""What did a swap cost the users of the data?

Margins inside a clique of the model are identical. What can change is the rest: tables across cliques, and the associations of
the swapped keys with the columns outside the keys, which stay with their row.

References
----------
Snoke, J., Raab, G., Nowok, B., Dibben, C. and Slavkovic, A. (2018). General and specific utility measures for synthetic
data. Journal of the Royal Statistical Society A 181, 663–688 (pMSE and its expectation).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rarecell._kernels import fitting
from rarecell._kernels.counting import collapse_records
from rarecell.errors import BadInput
from rarecell.graph.masks import mask_of
from rarecell.machine.solving import conjugate_gradients
from rarecell.machine.threads import in_parts
from rarecell.outcome.swap import AffectedGroup, AssociationChange, WeightedTable
from rarecell.outcome.words import percent
from rarecell.release.release import Release
from rarecell.table.columns import ColumnValues, CrossedColumn, code_column
from rarecell.table.contingency import ContingencyTable

if TYPE_CHECKING:
    from rarecell.edges import Array


MOST_MARGINS = 2_000
"""Largest number of margins of each order that are compared; if there are more, a sample spread evenly over the list."""

RIDGE = 0.1
"""Penalty on squared coefficients of the propensity regression, relative to sums over records."""

NEWTON_STEPS, CG_STEPS = 40, 50
"""Largest number of Newton steps of the propensity regression, and of conjugate gradient steps in each."""

MOST_TERMS = 4_000_000_000
"""Number of terms that the regression may add up; beyond that it takes fewer steps."""

Floats = NDArray[np.float64]


# ---------------------------------------------------------------------- margins


@dataclass(frozen=True, eq=False)
class BothFiles:
    """The cells of two files with the same keys and equally many records, and the number of records of each file in them.

    ``table`` is the table of the first file.
    """

    table: ContingencyTable
    cells: NDArray[np.int32]
    levels: tuple[int, ...]
    before: NDArray[np.int64]
    after: NDArray[np.int64]

    @classmethod
    def of(cls, before: ContingencyTable, after: ContingencyTable) -> BothFiles:
        levels = tuple(c.n_levels for c in before.categories)
        together = np.asfortranarray(np.concatenate([before.cells, after.cells]))
        cells, _, position = collapse_records(together, levels)
        counts = np.zeros((2, len(cells)), dtype=np.int64)
        counts[0, position[: before.n_cells]] = before.counts
        counts[1, position[before.n_cells :]] = after.counts
        return cls(before, cells, levels, counts[0], counts[1])

    @cached_property
    def _changed(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Cells with a different number of records in the second file, and how many more it has there."""
        more = self.after - self.before
        return self.cells[more != 0], more[more != 0]

    def changed_margin(self, keys: Sequence[int]) -> tuple[Floats, Floats]:
        """Return the counts in both files of those cells of a margin that may differ."""
        cells, more = self._changed
        _, counts, position = collapse_records([cells[:, k] for k in keys], [self.levels[k] for k in keys])
        first = np.zeros(len(counts), dtype=np.int64)
        first[position] = np.arange(len(position))
        before = self.table.marginals.lookup(mask_of(keys), cells[first]).astype(np.float64)
        return before, before + np.bincount(position, weights=more, minlength=len(counts))


@dataclass(frozen=True)
class MarginDistance:
    """Hellinger distance between a margin of the input and the same margin of the output."""

    variables: tuple[str, ...]
    hellinger: float


def hellinger_distances(
    both: BothFiles, *, orders: Sequence[int] = (1, 2, 3), most: int = MOST_MARGINS
) -> dict[int, tuple[MarginDistance, ...]]:
    """Compute the Hellinger distance √(½ Σ(√p−√q)²) of all one-, two- and three-way margins; exactly 0 if nothing changed.

    At most ``most`` margins of each order are compared.
    """
    names = both.table.keys
    by_order: dict[int, tuple[MarginDistance, ...]] = {}
    for order in orders:
        if order > len(names):
            continue
        n_sets = comb(len(names), order)
        chosen = set(np.unique(np.linspace(0, n_sets - 1, min(n_sets, most)).astype(np.int64)).tolist())
        distances = []
        for number, keys in enumerate(combinations(range(len(names)), order)):
            if number in chosen:
                apart = _hellinger(*both.changed_margin(keys), both.table.n_records)
                distances.append(MarginDistance(tuple(names[k] for k in keys), apart))
        by_order[order] = tuple(distances)
    return by_order


def _hellinger(before: Floats, after: Floats, n_records: int) -> float:
    apart = np.sqrt(before[before != after] / n_records) - np.sqrt(after[before != after] / n_records)
    return float(np.sqrt(0.5 * (apart**2).sum()))


# ---------------------------------------------------------------------- propensity


@dataclass(frozen=True)
class Propensity:
    """How well a classifier tells the two files apart: the mean squared distance of its score from ½.

    ``ratio`` is ``pmse`` relative to its expectation for two independent samples of one population; a value well below 1 means
    that the files differ less than such samples.
    """

    pmse: float
    expected: float
    n_parameters: int

    @property
    def ratio(self) -> float:
        return self.pmse / self.expected if self.expected else 0.0


def propensity(both: BothFiles, *, order: int | None = 2, most_terms: int = MOST_TERMS) -> Propensity:
    """Compute the pMSE of a logistic regression of "is from the swapped file" on the keys.

    Parameters
    ----------
    both : BothFiles
        The two files.
    order : int, optional
        Interactions up to this order are regressors: 1 for main effects, 2 for pairs as well. None is the classifier with all
        interactions, whose score in a cell is simply the share of the swapped file.
    most_terms : int, optional
        Largest number of products of a coefficient and a regressor to compute; it determines the number of steps.

    Returns
    -------
    Propensity
        The pMSE and its expectation.
    """
    total = both.before + both.after
    if order is None:
        score = both.after / total
        n_parameters = len(total)
    else:
        score, n_parameters = _logistic_scores(both, order, most_terms)
    pmse = float((total * (score - 0.5) ** 2).sum() / total.sum())
    return Propensity(pmse, (n_parameters - 1) / (8.0 * total.sum()), n_parameters)


def _logistic_scores(both: BothFiles, order: int, most_terms: int, *, tolerance: float = 0.05) -> tuple[Floats, int]:
    """Fitted probabilities by Newton's method; the linear systems are solved by conjugate gradients.

    A weak ridge penalty picks one of the many equivalent solutions that dummy variables allow, and keeps the coefficient of a
    combination that only one of the files has from diverging. ``tolerance`` is in records, for every margin cell. With very many
    cells fewer steps are taken; the first one alone is accurate if the files differ little, because all scores are then near ½.
    """
    design = _Dummies.of(both, order)
    total = (both.before + both.after).astype(np.float64)
    coefficients = np.zeros(design.n_columns)
    score = np.full(len(total), 0.5)
    n_steps = min(NEWTON_STEPS, max(1, most_terms // (2 * CG_STEPS * design.columns.size)))
    for _ in range(n_steps):
        gradient = design.of_columns(both.after - total * score) - RIDGE * coefficients
        if np.abs(gradient).max() <= tolerance:
            break
        weight = total * score * (1.0 - score)
        diagonal = design.of_columns(weight) + RIDGE

        def curved(x: Floats, weight: Floats = weight) -> Floats:
            return design.of_columns(weight * design.of_rows(x)) + RIDGE * x

        def scaled(x: Floats, diagonal: Floats = diagonal) -> Floats:
            return x / diagonal

        coefficients += conjugate_gradients(curved, gradient, scaled, tolerance=0.05, most_steps=CG_STEPS)
        score = 1.0 / (1.0 + np.exp(-design.of_rows(coefficients)))
    return score, _rank_of_dummies(both, order)


@dataclass(frozen=True, eq=False)
class _Dummies:
    """A column of ones, then one column for each occupied cell of each margin; ``columns`` lists those of each file cell."""

    columns: NDArray[np.int32]
    n_columns: int

    @classmethod
    def of(cls, both: BothFiles, order: int) -> _Dummies:
        margins = [keys for size in range(1, order + 1) for keys in combinations(range(both.cells.shape[1]), size)]
        columns = np.zeros((len(both.before), 1 + len(margins)), dtype=np.int32)
        n_columns = 1
        for place, keys in enumerate(margins, start=1):
            _, counts, position = collapse_records([both.cells[:, k] for k in keys], [both.levels[k] for k in keys])
            columns[:, place] = n_columns + position
            n_columns += len(counts)
        return cls(columns, n_columns)

    def of_rows(self, coefficients: Floats) -> Floats:
        """Return the sum of the coefficients of each row's columns."""
        rows = np.empty(len(self.columns))
        in_parts(lambda columns, part: fitting.add_columns(columns, coefficients, part), self.columns, rows)
        return rows

    def of_columns(self, values: Floats) -> Floats:
        """Return the sum of the values of each column's rows."""

        def add(columns: NDArray[np.int32], part: Floats) -> Floats:
            totals = np.zeros(self.n_columns)
            fitting.add_rows(columns, part, totals)
            return totals

        return np.asarray(np.sum(in_parts(add, self.columns, values), axis=0))


def _rank_of_dummies(both: BothFiles, order: int) -> int:
    """Free parameters of the regression: 1 + Σ over sets of Π (occupied levels − 1), as if all combinations occurred."""
    occupied = [len(np.unique(both.cells[:, k])) - 1 for k in range(both.cells.shape[1])]
    n_parameters = 1
    for size in range(1, order + 1):
        n_parameters += sum(int(np.prod([occupied[k] for k in keys])) for keys in combinations(range(len(occupied)), size))
    return min(n_parameters, len(both.before))


# ---------------------------------------------------------------------- all together


@dataclass(frozen=True, eq=False)
class UtilityReport:
    """What a plan changes, in numbers.

    Attributes
    ----------
    values_changed : int
        Number of key values that differ.
    share_changed : float
        Their share of all key values.
    hellinger : dict of int to tuple of MarginDistance
        Distances of the margins, by order.
    pairs_propensity, full_propensity : Propensity
        pMSE with interactions of pairs, and with all interactions.
    associations : tuple of AssociationChange
        Associations of keys with other columns.
    """

    values_changed: int
    share_changed: float
    hellinger: dict[int, tuple[MarginDistance, ...]]
    pairs_propensity: Propensity
    full_propensity: Propensity
    associations: tuple[AssociationChange, ...]

    def __str__(self) -> str:
        worst = max((d.hellinger for distances in self.hellinger.values() for d in distances), default=0.0)
        return (
            f"{self.values_changed:,} key values ({percent(self.share_changed)}) differ; no margin of up to {max(self.hellinger, default=0)} "
            f"keys is further than {worst:.4f} from the original (Hellinger distance)."
        )


def utility(release: Release, columns: Mapping[str, ColumnValues | CrossedColumn] | None = None) -> UtilityReport:
    """Compare a file with its original; ``columns`` holds columns outside the keys, with a value for each record."""
    table = release.before
    both = BothFiles.of(table, release.after)
    return UtilityReport(
        values_changed=release.n_values_changed,
        share_changed=release.n_values_changed / (table.n_records * table.n_keys),
        hellinger=hellinger_distances(both),
        pairs_propensity=propensity(both, order=min(2, table.n_keys)),
        full_propensity=propensity(both, order=None),
        associations=association_changes(release, columns or {}),
    )


# How did a swap change the associations between the keys and the other columns?
#
# Columns outside the keys stay with their row, so a key that moves is separated from them. The strength of each association is
# measured by Cramér's V, in the input and in the output.


MOST_VALUES = 40
"""A column with more distinct numbers than this is cut into ten groups of equal size before its association is measured."""


def crossed_column(release: Release, name: str, values: ColumnValues) -> CrossedColumn:
    """Cross-tabulate a column, given by a value for each record, with every key that moves."""
    table = release.before
    cell = table.cell_of_record
    codes, levels = code_column(name, values, len(cell))
    kept = cell >= 0
    joint = {}
    for k, categories in enumerate(table.categories):
        if release.moves(categories.key).any():
            sizes = (categories.n_levels, len(levels))
            pairs = table.cells[cell[kept], k].astype(np.int64) * sizes[1] + codes[kept]
            joint[categories.key] = np.bincount(pairs, minlength=sizes[0] * sizes[1]).reshape(sizes)
    return CrossedColumn(levels, joint, codes[release.rows])


def in_groups(column: CrossedColumn) -> CrossedColumn:
    """Cut a numeric column with many values into ten groups of equal size and one for missing; leave others as they are."""
    real = [level for level in column.levels if level is not None]
    if len(real) <= MOST_VALUES or not all(isinstance(level, (int, float)) for level in real) or not column.joint:
        return column
    numbers = np.array([np.nan if level is None else float(level) for level in column.levels])
    counts = next(iter(column.joint.values())).sum(axis=0)
    edges = _quantiles(numbers, counts, np.arange(1, 10) / 10)
    group = np.where(np.isnan(numbers), 10, np.searchsorted(edges, numbers, side="right"))
    joint = {}
    for key, table in column.joint.items():
        joint[key] = np.zeros((len(table), 11), dtype=np.int64)
        np.add.at(joint[key].T, group, table.T)
    return CrossedColumn(range(11), joint, group[column.of_rows].astype(np.int32))


def _quantiles(values: Floats, counts: NDArray[np.int64], shares: Floats) -> Floats:
    """Quantiles of values with these frequencies, by linear interpolation; NaN is left out."""
    order = np.argsort(values)[: int((~np.isnan(values)).sum())]
    ends = np.cumsum(counts[order])
    place = (ends[-1] - 1) * shares
    low, high = (values[order[np.searchsorted(ends, end(place), side="right")]] for end in (np.floor, np.ceil))
    return np.asarray(low + (high - low) * (place % 1.0))


def association_changes(release: Release, columns: Mapping[str, ColumnValues | CrossedColumn]) -> tuple[AssociationChange, ...]:
    """Compute Cramér's V of every key that moves with every given column, before and after; largest change first.

    Numeric columns with more than :data:`MOST_VALUES` distinct values are cut into ten groups.
    """
    changes = []
    for name, values in columns.items():
        crossed = in_groups(values if isinstance(values, CrossedColumn) else crossed_column(release, name, values))
        for key, before in crossed.joint.items():
            k = release.before.keys.index(key)
            after = before.copy()
            np.add.at(after, (release.true[:, k], crossed.of_rows), -1)
            np.add.at(after, (release.released[:, k], crossed.of_rows), 1)
            changes.append(
                AssociationChange(
                    key=key,
                    column=name,
                    before=cramers_v(before),
                    after=cramers_v(after),
                    moved=int(release.moves(key).sum()),
                )
            )
    return tuple(sorted(changes, key=lambda each: -abs(each.change)))


def cramers_v(joint: NDArray[np.int64]) -> float:
    """Cramér's V, √(χ² / (n (min(rows, columns) − 1))), over the levels that occur; 0 if either variable is constant."""
    joint = joint[joint.any(axis=1)][:, joint.any(axis=0)]
    smaller = min(joint.shape) - 1
    if smaller < 1:
        return 0.0
    expected = joint.sum(axis=1)[:, None] * joint.sum(axis=0)[None, :] / joint.sum()
    chi_square = ((joint - expected) ** 2 / expected).sum()
    return float(np.sqrt(chi_square / (joint.sum() * smaller)))


# On whom do swaps fall, and what do they do to weighted tables?
#
# Risky records are rare, so swaps affect small groups more than large ones, and a review board needs to see by how much. Survey
# weights stay with their row: where a margin of counts is kept exactly, the weighted totals of the same margin are kept only as
# far as the weights of partners are alike.


def swapped_by_group(column: str, labels: Sequence[str], codes: Array, counts: ArrayLike, rows: Array) -> list[AffectedGroup]:
    """Count the swapped records of each level of a column, most affected level first.

    Parameters
    ----------
    column : str
        Name of the column.
    labels : sequence of str
        Its levels.
    codes : array of int
        Level of each cell, or of each record.
    counts : array_like
        Number of records in each cell; 1 for a record.
    rows : array of int
        Level of each record that was swapped.

    Returns
    -------
    list of AffectedGroup
        One entry for each level.
    """
    total = np.bincount(codes, weights=np.asarray(counts, dtype=np.float64), minlength=len(labels)).astype(np.int64)
    swapped = np.bincount(rows, minlength=len(labels)).astype(np.int64)
    overall = swapped.sum() / max(1, int(total.sum()))
    groups = [
        AffectedGroup(
            column=column,
            level=label,
            records=int(n),
            swapped=int(s),
            ratio=float(s / n / overall) if n and overall else 0.0,
        )
        for label, n, s in zip(labels, total, swapped, strict=True)
    ]
    return sorted(groups, key=lambda group: (-group.ratio, -group.records, group.level))


def affected_groups(release: Release) -> list[AffectedGroup]:
    """Count the swapped records of each level of each key, by their values before the swap."""
    table = release.before
    groups: list[AffectedGroup] = []
    for k, categories in enumerate(table.categories):
        groups += swapped_by_group(categories.key, categories.shown, table.cells[:, k], table.counts, release.true[:, k])
    return groups


def weighted_changes(
    release: Release,
    weights: ArrayLike,
    margins: Sequence[Sequence[str]],
    *,
    everyone: tuple[Floats, Floats] | None = None,
) -> list[WeightedTable]:
    """Compare the weighted totals of some margins of the keys before and after a release.

    Parameters
    ----------
    release : Release
        What was done to the records.
    weights : array_like
        Weight of each of its rows.
    margins : sequence of sequences of str
        Sets of keys.
    everyone : tuple of ndarray, optional
        Weights of every record before and after, where they were recomputed.

    Returns
    -------
    list of WeightedTable
        One entry for each margin.
    """
    table, of_rows = release.before, np.asarray(weights, dtype=np.float64)
    if table.weights is None:
        raise BadInput("The table has no survey weights, so that it has no weighted totals.")
    if of_rows.shape != (len(release),):
        raise BadInput(f"{of_rows.size:,} weights were given for {len(release):,} swapped records.")
    zero = np.zeros(len(of_rows))
    stacked = np.concatenate([table.cells, release.true, release.released])
    totals = np.concatenate([table.weights, zero, zero])
    change = np.concatenate([np.zeros(table.n_cells), -of_rows, of_rows])
    moved = np.concatenate([np.zeros(table.n_cells), np.full(len(of_rows), -1.0), np.ones(len(of_rows))])
    if everyone is not None:
        # What every record adds to the cell that it is in, less what it added to the one that it was in.
        inside = np.flatnonzero(table.cell_of_record >= 0)
        change[: table.n_cells] = np.bincount(
            table.cell_of_record[inside], weights=(everyone[1] - everyone[0])[inside], minlength=table.n_cells
        )
        new = everyone[1][release.rows]
        change[table.n_cells : table.n_cells + len(of_rows)], change[table.n_cells + len(of_rows) :] = -new, new
    tables = []
    for names in margins:
        places = [table.keys.index(name) for name in names]
        levels = [table.categories[k].n_levels for k in places]
        cells, _, position = collapse_records([stacked[:, k] for k in places], levels)
        before, by, records = (_sums(position, w, len(cells)) for w in (totals, change, moved))
        tables.append(_compared(table, tuple(names), cells, before, by, bool((np.rint(records) == 0).all())))
    return tables


def _sums(position: NDArray[np.int64], values: Floats, n_cells: int) -> Floats:
    return np.bincount(position, weights=values, minlength=n_cells).astype(np.float64)


def _compared(
    table: ContingencyTable, names: tuple[str, ...], cells: NDArray[np.int32], before: Floats, by: Floats, same_counts: bool
) -> WeightedTable:
    total = before.sum()
    # Weights are sums of multiples of 2^-24, so a difference below this is a rounding error of the sums.
    is_changed = np.abs(by) > 1e-9 * max(1.0, total)
    if not is_changed.any():
        return _weighted(names, len(cells), 0, 0.0, "", 0.0, same_counts)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(is_changed, np.abs(by) / before, 0.0)
    worst = int(np.argmax(relative))
    categories = [table.categories[table.keys.index(name)] for name in names]
    words = ", ".join(f"{c.key} {c.shown[code]}" for c, code in zip(categories, cells[worst].tolist(), strict=True))
    moved = float(0.5 * np.abs(by[is_changed]).sum() / total)
    return _weighted(names, len(cells), int(is_changed.sum()), float(relative[worst]), words, moved, same_counts)


def _weighted(
    names: tuple[str, ...], n_cells: int, n_changed: int, largest: float, cell: str, moved: float, same_counts: bool
) -> WeightedTable:
    variables = ", ".join(names)
    counts = "counts of records are exactly as they were" if same_counts else "counts of records changed"
    if n_changed:
        most = f"by at most {percent(largest)}" if math.isfinite(largest) else "one of them from nothing"
        sentence = f"{variables}: {counts}; {n_changed:,} of {n_cells:,} weighted totals changed, {most} ({cell})."
    else:
        sentence = f"{variables}: {counts}, {'and so are' if same_counts else 'but no'} weighted totals."
    return WeightedTable(
        variables=names,
        cells=n_cells,
        changed=n_changed,
        largest=largest if math.isfinite(largest) else None,
        largest_cell=cell,
        moved=moved,
        counts_identical=same_counts,
        sentence=sentence,
    )


def weight_classes(weights: ArrayLike, n_classes: int) -> NDArray[np.int32]:
    """Put records into classes of similar weight and about equal size; equal weights share a class.

    Swapping within a class keeps weighted totals nearly unchanged.
    """
    values = np.asarray(weights, dtype=np.float64)
    distinct, position, counts = np.unique(values, return_inverse=True, return_counts=True)
    before = np.cumsum(counts) - counts
    of_value = (2 * before + counts) * n_classes // (2 * max(1, len(values)))
    return (
        np.asarray(np.unique(of_value, return_inverse=True)[1][position], dtype=np.int32)
        if len(distinct)
        else np.zeros(0, np.int32)
    )

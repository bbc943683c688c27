"""How is what groups of look-alike records give away about sensitive columns brought within limits?

First records exchange values of the column within separators (:mod:`rarecell.swap.sensitive`); what is still beyond the limits is
blanked, group by group. Recodings that leave fewer groups beyond them are found by a plan.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.counting import collapse_records
from rarecell.outcome.roles import AttributeTarget, nothing_given_away
from rarecell.release.release import Release
from rarecell.risk.attributes import (
    AttributeLimits,
    Groups,
    attribute_risk,
    groups_within,
    guess_gain_with_blanks,
    right_in_truth,
)
from rarecell.run import models
from rarecell.run.config import ProtectConfig, RunConfig
from rarecell.run.results import Assessment
from rarecell.search import select_model
from rarecell.swap.sensitive import exchange_values
from rarecell.table.contingency import Categories, ContingencyTable

SECONDS = 5.0
"""Time for finding a model of the keys and a sensitive column."""


def limits_of(request: ProtectConfig) -> AttributeLimits:
    return AttributeLimits(request.l_diversity, request.t_closeness, request.max_guess_gain)


def within_limits(
    request: ProtectConfig, assessment: Assessment, release: Release, *, untouched: NDArray[np.bool_] | None = None, seed: int = 0
) -> tuple[Release, tuple[AttributeTarget, ...]]:
    """The release with values of sensitive columns exchanged and blanked, and what came of it.

    Parameters
    ----------
    request : ProtectConfig
        The limits, and what must not change.
    assessment : Assessment
        The assessed file.
    release : Release
        What was done to the keys; columns may travel with them.
    untouched : ndarray of bool, optional
        Records that must stay as they are.
    seed : int
        Seed for choosing partners.
    """
    if not request.limits_attributes:
        return release, ()
    exchanged, hidden, targets = {}, {}, []
    for name in assessment.config.sensitive:
        column = _Sensitive.of(assessment, release, name)
        changed = column
        if name not in request.treat and name not in release.columns:
            agree = column.separator(assessment.config)
            stratum = column.stratum(assessment, (*agree, *request.within))
            may_move = np.ones(len(column.rows), dtype=bool) if untouched is None else ~untouched[column.rows]
            pairs = exchange_values(
                column.groups, column.group, column.value, stratum, limits_of(request), may_move=may_move, seed=seed
            )
            if pairs.shape[1]:
                exchanged[name] = column.rows[pairs]
                changed = column.exchanged(pairs, agree)
        rows, target = changed.blanked(column, limits_of(request))
        if len(rows):
            hidden[name] = rows
        targets.append(target)
    return release.with_columns(exchanged, hidden), tuple(targets)


@dataclass(frozen=True, eq=False)
class _Sensitive:
    """A sensitive column of a release: its records, the code of each record's true and released value, and the groups of equal keys.

    ``true_group`` is the group of the released file that has a person's true key values, −1 if none has; ``agree`` the columns on which
    records agree that exchanged values.
    """

    name: str
    rows: NDArray[np.int64]
    keys: tuple[Categories, ...]
    codes: NDArray[np.int32]
    categories: Categories
    true_value: NDArray[np.int64]
    value: NDArray[np.int64]
    groups: Groups
    group: NDArray[np.int64]
    true_group: NDArray[np.int64]
    agree: tuple[str, ...] = ()

    @classmethod
    def of(cls, assessment: Assessment, release: Release, name: str) -> _Sensitive:
        keys, table = release.codes(), release.before
        rows = np.flatnonzero((keys >= 0).all(axis=1))
        codes, (categories,) = assessment.data.column_codes([name])
        value = release.codes_of(name, codes[:, 0], release.rows)[rows].astype(np.int64)
        groups, group = Groups.of_records(release.categories, keys[rows], categories, value)
        # Whoever looks for a person knows the true values of the keys, and finds the group that has them in the released file.
        true = table.cells[table.cell_of_record[rows]]
        both = np.asfortranarray(np.concatenate([groups.cells, true]))
        cell = collapse_records(both, [c.n_levels for c in release.categories])[2]
        group_of_cell = np.full(int(cell.max()) + 1, -1, dtype=np.int64)
        group_of_cell[cell[: groups.n_groups]] = np.arange(groups.n_groups)
        true_group = group_of_cell[cell[groups.n_groups :]]
        true_value = codes[rows, 0].astype(np.int64)
        return cls(name, rows, release.categories, keys[rows], categories, true_value, value, groups, group, true_group)

    @property
    def has_value(self) -> NDArray[np.bool_]:
        return np.asarray(self.value < self.categories.n_levels - self.categories.has_missing)

    def separator(self, config: RunConfig) -> tuple[str, ...]:
        """The keys that are joined with the column in the best model of both."""
        band = self.groups.band_of_value
        column = Categories(self.name, tuple(range(int(band.max()) + 1)))
        codes = np.concatenate([self.codes, band[self.value][:, None].astype(np.int32)], axis=1)
        table = ContingencyTable.from_codes(codes, [*self.keys, column])
        penalty = models.penalty_of(config)
        best = select_model(table, criterion=penalty, search="greedy", restarts=1, seed=config.seed, max_seconds=SECONDS).best
        joined = {name for clique in best.cliques if self.name in clique for name in clique}
        return tuple(c.key for c in self.keys if c.key in joined)

    def stratum(self, assessment: Assessment, names: tuple[str, ...]) -> NDArray[np.int64]:
        """Records that agree on these columns, as they are released, have the same number."""
        columns, sizes = [], []
        for name in dict.fromkeys(names):
            place = next((k for k, c in enumerate(self.keys) if c.key == name), None)
            if place is not None:
                columns.append(self.codes[:, place])
                sizes.append(self.keys[place].n_levels)
            else:
                codes, (categories,) = assessment.data.column_codes([name])
                columns.append(codes[self.rows, 0])
                sizes.append(categories.n_levels)
        if not columns:
            return np.zeros(len(self.rows), dtype=np.int64)
        return np.asarray(collapse_records(columns, sizes)[2], dtype=np.int64)

    def exchanged(self, pairs: NDArray[np.int64], agree: tuple[str, ...]) -> _Sensitive:
        """The same column after exchanges between these records, by position."""
        value = self.value.copy()
        value[pairs[0]] = self.value[pairs[1]]
        groups, group = Groups.of_records(self.keys, self.codes, self.categories, value)
        return replace(self, value=value, groups=groups, group=group, agree=agree)

    def blanked(self, before: _Sensitive, limits: AttributeLimits) -> tuple[NDArray[np.int64], AttributeTarget]:
        """Blank the values of groups that are beyond the limits: which records lose theirs, and what came of it."""
        right = np.zeros(self.groups.n_groups)
        np.add.at(right, self.group, right_in_truth(self.groups, self.group, self.true_value))
        truth = Groups.of_records(self.keys, self.codes, self.categories, self.true_value)[0]
        kept = groups_within(self.groups, limits, right=right, truth=truth)
        is_blank = ~kept[self.group] & self.has_value
        # Without any value left there is nothing to measure.
        after = attribute_risk(self.groups.only(kept)) if is_blank.sum() < self.has_value.sum() else None
        if after is not None:
            after = replace(after, right=np.maximum(after.right, right[kept]))
        found_there = np.where((self.true_group >= 0) & kept[self.true_group], self.true_group, -1)
        as_before = attribute_risk(before.groups).summary()
        return self.rows[is_blank], AttributeTarget(
            column=self.name,
            l_diversity=limits.l_diversity,
            t_closeness=limits.t_closeness,
            max_guess_gain=limits.max_guess_gain,
            met=after is not None and not limits.failing(after).any(),
            values=int(self.has_value.sum()),
            exchanged=int((self.value != before.value).sum()),
            agree=self.agree,
            blanked=int(is_blank.sum()),
            right_in_truth=float(right_in_truth(self.groups, found_there, self.true_value).sum()),
            gain_with_blanks=guess_gain_with_blanks(self.groups, kept, right=right, truth=truth),
            before=as_before,
            after=nothing_given_away(as_before) if after is None else after.summary(),
        )

"""Which levels of a key are alike, so that a release may merge them into groups?

Levels are merged for readers, not for a model, so they must be alike in everything that the file says about people: in every
column, not in the keys alone. Employed and unemployed people may be alike in age, sex and region; their hours and incomes are not.

1. Every other column is read as at most eight kinds of answers: numbers in bands of about equal numbers of records, words as the
   commonest ones and the rest, no answer as a kind of its own. Weights, numbers of households and
   whatever numbers or names single records are left out.
2. At each step the two groups of levels are merged whose merger loses least of the log-likelihood of the two-way tables of the key
   with all these columns. Neighbours only are merged where the levels are ordered.
3. Where the user has given a hierarchy, levels are merged inside its smallest groups first; a group is merged with another one
   once both are complete and the hierarchy has them in the same larger group.
4. A code that stands for "no answer" is never merged with an answer.

The groups of a key depend on the file alone. Which other columns are keys, and how those are recoded, makes no difference, so the
same words give the same groups in the terminal, in the app and in a plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels import agglomeration as kernels
from rarecell.data.missing_codes import proposed_codes, written
from rarecell.data.whole_file import OrderedColumn, WholeFile
from rarecell.errors import BadInput
from rarecell.outcome.words import counted
from rarecell.table.categories import Categories, Coarsening, members_of_groups
from rarecell.table.coarsening import MOST_NOMINAL_LEVELS, groups_after, label_of_neighbours, rare_together
from rarecell.table.contingency import ContingencyTable
from rarecell.table.level_order import FEWEST_RECORDS, is_in_question, order_test

if TYPE_CHECKING:
    from rarecell.data.microdata import Microdata

MOST_KINDS = 8
"""Number of kinds of answers that a column is read as, besides no answer."""

MOST_COLUMNS = 100
"""Of a wider file, the first so many columns are compared."""

LONGEST_NAME = 60
"""Characters of the name of a group that is made of the names of its levels."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LevelProfiles:
    """The levels of a key and what people who have them are like.

    Attributes
    ----------
    categories : Categories
        The levels.
    counts : ndarray of float64
        Number of records at each level.
    answers : tuple of ndarray of float64
        For each other column, the number of records at each level, in rows, by kind of answer.
    no_answer : ndarray of bool
        Whether a level stands for "no answer" and is never merged with others.
    hierarchy : tuple of Coarsening
        The user's own groups, finer first.
    """

    categories: Categories
    counts: Floats
    answers: tuple[Floats, ...]
    no_answer: NDArray[np.bool_]
    hierarchy: tuple[Coarsening, ...] = ()

    @property
    def key(self) -> str:
        return self.categories.key

    @property
    def n_groups_without_answer(self) -> int:
        """Number of groups that hold no answers: missing values, and codes for them."""
        return int(self.categories.has_missing) + bool(self.no_answer.any())

    def ordered(self, is_ordered: bool | None) -> LevelProfiles:
        """The same where the user has said whether the levels are ordered; None for a user who has not."""
        if is_ordered is None:
            return self
        return replace(self, categories=replace(self.categories, is_ordered=is_ordered))

    def recoded(self, coarsening: Coarsening, *, is_ordered: bool) -> LevelProfiles:
        """The same once levels were merged or renamed by the user."""
        group, n = coarsening.group_of_level, coarsening.n_levels
        levels = tuple(None if label == "missing" else label for label in coarsening.labels)
        alone = np.bincount(group, minlength=n) == 1
        no_answer = np.zeros(n, dtype=bool)
        no_answer[group[self.no_answer]] = True
        no_answer[[level is None for level in levels]] = False
        sums = [_summed(answers, group, n) for answers in self.answers]
        return LevelProfiles(
            Categories(self.key, levels, is_ordered, self.categories.value_labels),
            np.bincount(group, weights=self.counts, minlength=n).astype(np.float64),
            tuple(sums),
            # Who merges such a code with an answer has decided that it is one.
            no_answer & alone,
            tuple(made for own in self.hierarchy if (made := _carried(own, coarsening)) is not None),
        )

    def groups(self, n_groups: int) -> Coarsening:
        """The levels in so many groups; those without an answer count as one, or two where codes stand beside missing values.

        Raises
        ------
        BadInput
            When the key has too few levels for that many groups, or fewer than two groups of answers are left.
        """
        n_answers = n_groups - self.n_groups_without_answer
        start = self._start()
        most = int(start.max(initial=-1))
        if not 2 <= n_answers <= most:
            least = 2 + self.n_groups_without_answer
            among = f"it has {self.categories.n_levels} levels, so between {least} and {most + self.n_groups_without_answer} groups are possible"
            if most < 2:
                among = f"its {self.categories.n_levels} levels are too few for groups"
            raise BadInput(f"Key '{self.key}' was to be put into {n_groups} groups; {among}.")
        answers = np.concatenate([_summed(answers[start >= 0], start[start >= 0], most + 1) for answers in self.answers], axis=1)
        totals = np.bincount(start[start >= 0], weights=self.counts[start >= 0], minlength=most + 1).astype(np.float64)
        merges = self._merges(start, answers, totals)
        group = np.where(start >= 0, groups_after(merges, n_answers)[start], n_answers)
        if self.no_answer.any() and self.categories.has_missing:
            group[-1] = n_answers + 1
        return self._named(group)

    def like(self, coarsening: Coarsening) -> Coarsening | None:
        """As many groups of answers as another coarsening of the key has levels; None where the key has too few for that."""
        n_answers = max(2, coarsening.n_levels - self.categories.has_missing)
        if n_answers > int(self._start().max(initial=-1)):
            return None
        return self.groups(n_answers + self.n_groups_without_answer)

    def _start(self) -> NDArray[np.int64]:
        """The group of each level before the first merger; −1 for levels without an answer."""
        is_answer = ~self.no_answer
        if self.categories.has_missing:
            is_answer[-1] = False
        start = np.full(self.categories.n_levels, -1, dtype=np.int64)
        if is_answer.sum() <= MOST_NOMINAL_LEVELS or (self.categories.is_ordered and not self.hierarchy):
            start[is_answer] = np.arange(is_answer.sum())
            return start
        few = [c.group_of_level for c in self.hierarchy if c.n_levels <= MOST_NOMINAL_LEVELS]
        of_answers = few[0][is_answer] if few else rare_together(self.counts[is_answer], 0)
        start[is_answer] = np.unique(of_answers, return_inverse=True)[1].ravel()
        return start

    def _merges(self, start: NDArray[np.int64], answers: Floats, totals: Floats) -> NDArray[np.int64]:
        """Which groups become one, step by step; no group of the hierarchy is left half merged with another."""
        n_columns = float(len(self.answers))
        is_ordered = self.categories.is_ordered and bool((np.diff(start[start >= 0]) >= 0).all())
        if is_ordered and not self.hierarchy:
            return kernels.merge_neighbours(answers, totals, n_columns)
        first = np.array([np.flatnonzero(start == group)[0] for group in range(len(totals))])
        chain = [c.group_of_level[first] for c in self.hierarchy]
        # Neighbours only, unless a user's groups are not of neighbours.
        is_ordered = is_ordered and all(bool((np.diff(groups) >= 0).all()) for groups in chain)
        home, above, n_inside = _nodes(chain, len(totals))
        return np.asarray(kernels.merge_within(answers, totals, n_columns, home, above, n_inside, is_ordered))

    def _named(self, group: NDArray[np.int64]) -> Coarsening:
        """A coarsening whose groups have the names that a reader of the released file sees, in the order of their first levels."""
        n_groups = int(group.max()) + 1
        first = np.array([np.flatnonzero(group == number)[0] for number in range(n_groups)])
        place = np.empty(n_groups, dtype=np.int64)
        place[np.argsort(first, kind="stable")] = np.arange(n_groups)
        group = place[group]
        labels: list[str] = []
        for members in members_of_groups(group, n_groups):
            name = self._name_of(members)
            labels.append(name if name not in labels else f"{name} ({len(labels) + 1})")
        return Coarsening(f"{self.key} in {n_groups} groups", self.key, group.astype(np.int32), tuple(labels))

    def _name_of(self, members: NDArray[np.int64]) -> str:
        labels = [self.categories.labels[level] for level in members]
        for own in self.hierarchy:
            group = int(own.group_of_level[members[0]])
            if len(members) > 1 and np.array_equal(np.flatnonzero(own.group_of_level == group), members):
                return own.labels[group]
        if len(members) > 1 and self.categories.is_ordered and (np.diff(members) == 1).all():
            return label_of_neighbours(labels[0], labels[-1])
        meanings = [str(self.categories.value_labels.get(self.categories.levels[level], "")).strip() for level in members]
        return joined_name(labels, meanings, commonest=int(np.argmax(self.counts[members])))


def _carried(own: Coarsening, merged: Coarsening) -> Coarsening | None:
    """A user's groups of levels that were merged since; None where merged levels lie in different groups."""
    groups = np.full(merged.n_levels, -1, dtype=np.int32)
    groups[merged.group_of_level] = own.group_of_level
    if not np.array_equal(groups[merged.group_of_level], own.group_of_level) or own.n_levels >= merged.n_levels:
        return None
    return replace(own, group_of_level=groups)


def joined_name(values: Sequence[str], meanings: Sequence[str], *, commonest: int = 0) -> str:
    """What levels that were merged are called: by the file's labels, by their values, or after the commonest of many.

    Examples
    --------
    >>> joined_name(["1", "2"], ["Employed", "Unemployed"]), joined_name(["01", "02"], ["", ""])
    ('Employed + Unemployed', '01 + 02')
    >>> joined_name([str(code) for code in range(100, 200)], [""] * 100, commonest=7)
    '107 and 99 others'
    """
    if len(values) == 1:
        return values[0]
    for names, sign in (([meaning or value for meaning, value in zip(meanings, values, strict=True)], " + "), (values, "+")):
        if len(sign.join(names)) <= LONGEST_NAME:
            return sign.join(names)
    return f"{values[commonest]} and {counted(len(values) - 1, 'other')}"


def _summed(counts: Floats, group: NDArray[np.int64] | NDArray[np.int32], n_groups: int) -> Floats:
    sums = np.zeros((n_groups, counts.shape[1]))
    np.add.at(sums, group, counts)
    return sums


def _nodes(chain: Sequence[NDArray[np.int32]], n_groups: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The hierarchy as a tree: the node around each group at the start, the node above each node, and what is directly inside each.

    A node with a single thing inside is that thing, and is left out.
    """
    home = np.zeros(n_groups, dtype=np.int64)
    above, n_inside = [0], [n_groups]
    for groups in reversed(chain):
        for node in np.unique(groups):
            inside = np.flatnonzero(groups == node)
            around = home[inside[0]]
            if 1 < len(inside) < n_inside[around]:
                above.append(int(around))
                n_inside.append(len(inside))
                n_inside[around] -= len(inside) - 1
                home[inside] = len(above) - 1
    return home, np.array(above, dtype=np.int64), np.array(n_inside, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Likeness:
    """The profiles of the levels of every key of a file."""

    of_key: Mapping[str, LevelProfiles]

    def __getitem__(self, key: str) -> LevelProfiles:
        return self.of_key[key]

    @classmethod
    def of_table(cls, table: ContingencyTable) -> Likeness:
        """The profiles where nothing is known but the keys."""
        columns = [table.cells[:, k] for k in range(table.n_keys)]
        kinds = {
            c.key: _kinds(OrderedColumn(c.key, codes, c.n_levels), table.counts)
            for c, codes in zip(table.categories, columns, strict=True)
        }
        return cls({key: _profiles(table, key, columns[k], table.counts, kinds) for k, key in enumerate(table.keys)})

    @classmethod
    def of_counts(cls, data: Microdata, table: ContingencyTable) -> Likeness:
        """The profiles of data whose other columns are too many records to look at."""
        declared, by_keys = data.declared_orders, cls.of_table(table)
        return cls({key: _judged(by_keys[key], data, is_declared=key in declared) for key in table.keys})

    @classmethod
    def of_data(cls, data: Microdata, table: ContingencyTable, whole: WholeFile) -> Likeness:
        """The profiles in every column of a file; ``table`` is that of its keys before any levels are put into groups."""
        kept = whole.cell >= 0
        cells = table.cells[whole.cell[kept]]
        left_out = {data.weight, *data.household_columns, *data.id_columns}
        names = [name for name in whole.columns if name not in left_out][:MOST_COLUMNS]
        ones = np.ones(int(kept.sum()), dtype=np.int64)
        kinds = {}
        for name in names:
            column = replace(whole.columns[name], codes=whole.columns[name].codes[kept])
            if not _names_records(column):
                kinds[name] = _kinds(column, ones)
        declared = data.declared_orders
        of_keys = {}
        for k, key in enumerate(table.keys):
            profiles = _profiles(table, key, cells[:, k], ones, kinds)
            of_keys[key] = _judged(profiles, data, is_declared=key in declared)
        return cls(of_keys)


def _profiles(
    table: ContingencyTable,
    key: str,
    codes: NDArray[np.int32],
    records: NDArray[np.int64],
    kinds: Mapping[str, tuple[NDArray[np.int64], int]],
) -> LevelProfiles:
    categories = table.categories[table.keys.index(key)]
    answers = [_crossed(codes, categories.n_levels, *of_column, records) for name, of_column in kinds.items() if name != key]
    counts = np.bincount(codes, weights=records, minlength=categories.n_levels).astype(np.float64)
    return LevelProfiles(
        categories,
        counts,
        tuple(answers) or (counts[:, None],),
        np.zeros(categories.n_levels, dtype=bool),
        tuple(c for c in table.coarsenings if c.key == key and not c.is_learned),
    )


def _crossed(
    codes: NDArray[np.int32], n_levels: int, kinds: NDArray[np.int64], n_kinds: int, records: NDArray[np.int64]
) -> Floats:
    pairs = codes.astype(np.int64) * n_kinds + kinds
    return np.bincount(pairs, weights=records, minlength=n_levels * n_kinds).astype(np.float64).reshape(n_levels, n_kinds)


def _kinds(column: OrderedColumn, records: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """The kind of answer of each record, and the number of kinds; no answer comes last."""
    is_there = column.codes >= 0
    numbers = np.bincount(column.codes[is_there], weights=records[is_there], minlength=column.n_levels)
    if column.n_levels <= MOST_KINDS:
        of_level = np.arange(column.n_levels)
    elif column.numbers is not None:
        middle = np.cumsum(numbers) - 0.5 * numbers
        of_level = np.minimum((MOST_KINDS * middle / max(numbers.sum(), 1.0)).astype(np.int64), MOST_KINDS - 1)
    else:
        of_level = np.full(column.n_levels, MOST_KINDS - 1)
        of_level[np.argsort(-numbers, kind="stable")[: MOST_KINDS - 1]] = np.arange(MOST_KINDS - 1)
    n_kinds = int(of_level.max(initial=0)) + 2
    return np.append(of_level, n_kinds - 1)[column.codes].astype(np.int64), n_kinds


def _names_records(column: OrderedColumn) -> bool:
    """Whether a column is different in nearly every record and not a measurement: a number or a name of records."""
    n_there = int((column.codes >= 0).sum())
    is_whole = column.numbers is None or bool((column.numbers == np.rint(column.numbers)).all())
    return n_there > 0 and is_whole and len(np.unique(column.codes[column.codes >= 0])) > 0.95 * n_there


def _judged(profiles: LevelProfiles, data: Microdata, *, is_declared: bool) -> LevelProfiles:
    """The profiles with codes for "no answer" set apart, and with an order only where people at neighbouring levels are alike."""
    categories, column = profiles.categories, data.columns[profiles.key]
    of_level = {level: int(n) for level, n in zip(categories.levels, profiles.counts, strict=True) if level is not None}
    numbers = [float(level) for level in of_level if isinstance(level, int | float) and not isinstance(level, bool)]
    codes = {proposal.code for proposal in proposed_codes(column, of_level, numbers if len(numbers) == len(of_level) else None)}
    no_answer = np.array([level is not None and written(level) in codes for level in categories.levels])
    for own in profiles.hierarchy:
        # Who puts such a code beside an answer has decided that it is one.
        no_answer &= np.array([bool(no_answer[own.group_of_level == group].all()) for group in own.group_of_level])
    # The order of codes for "no answer" means nothing.
    answered = np.flatnonzero([level is not None for level in categories.levels] & ~no_answer)
    asked = Categories(profiles.key, tuple(categories.levels[level] for level in answered), is_ordered=True)
    if not is_declared and profiles.counts.sum() >= FEWEST_RECORDS and is_in_question(asked):
        test = order_test(asked, [answers[answered] for answers in profiles.answers])
        categories = replace(categories, is_ordered=test.is_ordered)
    return replace(profiles, categories=categories, no_answer=no_answer)

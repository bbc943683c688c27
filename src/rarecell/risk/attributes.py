"""What does a group of look-alike records give away, even when nobody in it can be told apart?

Records that share their key values form a group. Anyone who knows that a person took part, and finds the person's group, learns
the sensitive value when the whole group shares it, and guesses better than from the file as a whole when most of the group do.
The measures are those of Machanavajjhala et al. (2007) and Li et al. (2007). Where limits are asked for, :func:`groups_within` says which
groups may keep their values.

- A missing value counts as one more value of its group, as in sdcMicro's ``ldiversity``, but nobody learns anything from it: a
  group with no other value is left out, and a guess about a person without a value is never right.
- A numeric column with more than :data:`MOST_VALUES` values is cut into that many bands with about the same number of records,
  because incomes of 30,000 and 30,001 are not diverse. The ordered distance of t-closeness uses the values themselves.
- t-closeness uses the ordered distance for numbers, dates and declared orders, and the nominal one otherwise.

References
----------
Machanavajjhala, A., Kifer, D., Gehrke, J. and Venkitasubramaniam, M. (2007). l-diversity: privacy beyond k-anonymity. ACM
Transactions on Knowledge Discovery from Data 1(1), 3.
Li, N., Li, T. and Venkatasubramanian, S. (2007). t-closeness: privacy beyond k-anonymity and l-diversity. ICDE, 106–115.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rarecell._kernels.counting import collapse_records
from rarecell.errors import BadInput, UnknownColumns
from rarecell.outcome.roles import AttributeSummary
from rarecell.outcome.words import between
from rarecell.risk.records import RecordRisk
from rarecell.table.contingency import Categories, ContingencyTable

if TYPE_CHECKING:
    from rarecell.edges import Array, Json

MOST_VALUES = 20
"""A numeric column with more values than this is cut into this many bands."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Groups:
    """Number of records for each group and value of a sensitive column.

    Attributes
    ----------
    keys : tuple of Categories
        The keys that define the groups.
    cells : ndarray of int
        Key codes of each group, in lexicographic order.
    sensitive : Categories
        Values of the sensitive column; a missing value is None and comes last.
    group, value, counts : ndarray of int
        Group, value and number of records of every pair that occurs, in the order of the groups.
    """

    keys: tuple[Categories, ...]
    cells: NDArray[np.int32]
    sensitive: Categories
    group: Integers
    value: Integers
    counts: Integers

    @classmethod
    def of(cls, table: ContingencyTable, column: str) -> Groups:
        """Groups of a table that has the sensitive column as one of its keys."""
        if column not in table.keys:
            raise UnknownColumns.among([column], table.keys, role="column")
        if table.n_keys < 2:
            raise BadInput(
                f"Groups need a key in addition to the sensitive column '{column}'; name the columns an intruder could know."
            )
        place = table.keys.index(column)
        others = [k for k in range(table.n_keys) if k != place]
        categories = tuple(table.categories[k] for k in others)
        cells = np.asfortranarray(table.cells[:, others])
        return cls._counted(categories, cells, table.categories[place], table.cells[:, place], table.counts)

    @classmethod
    def of_records(
        cls, keys: tuple[Categories, ...], cells: NDArray[np.int32], sensitive: Categories, value: Array
    ) -> tuple[Groups, Integers]:
        """The groups of records with these codes, and the group of each record."""
        of_record = collapse_records(np.asfortranarray(cells), [c.n_levels for c in keys])[2]
        counts = np.ones(len(cells), dtype=np.int64)
        return cls._counted(keys, np.asfortranarray(cells), sensitive, value, counts), np.asarray(of_record, dtype=np.int64)

    @classmethod
    def _counted(
        cls,
        keys: tuple[Categories, ...],
        cells: NDArray[np.int32],
        sensitive: Categories,
        value: Array,
        counts: Array,
    ) -> Groups:
        groups, _, group = collapse_records(cells, [c.n_levels for c in keys])
        pairs, _, position = collapse_records([group, value], [len(groups), sensitive.n_levels])
        sums = np.bincount(position, weights=counts, minlength=len(pairs)).astype(np.int64)
        occupied = sums > 0
        kept, new_group = np.unique(pairs[occupied, 0], return_inverse=True)
        return cls(keys, groups[kept], sensitive, new_group, pairs[occupied, 1].astype(np.int64), sums[occupied])

    def moved(self, old: NDArray[np.int32], new: NDArray[np.int32], value: Array) -> Groups:
        """The groups after some records have moved, with their sensitive values, from ``old`` to ``new`` key codes."""
        n_moved = len(old)
        cells = np.asfortranarray(np.concatenate([self.cells[self.group], old, new]))
        values = np.concatenate([self.value, value, value])
        counts = np.concatenate([self.counts, np.full(n_moved, -1), np.ones(n_moved, dtype=np.int64)])
        return self._counted(self.keys, cells, self.sensitive, values, counts)

    @property
    def n_groups(self) -> int:
        return len(self.cells)

    def only(self, kept: NDArray[np.bool_]) -> Groups:
        """Some of the groups, in the same order, with the values that occur in them."""
        chosen = kept[self.group]
        values, new_value = np.unique(self.value[chosen], return_inverse=True)
        sensitive = self.sensitive.with_levels(self.sensitive.levels[value] for value in values.tolist())
        cells = np.asfortranarray(self.cells[self.group[chosen]])
        return self._counted(self.keys, cells, sensitive, new_value, self.counts[chosen])

    @cached_property
    def band_of_value(self) -> Integers:
        """The band of each value: numbers of many values are cut into bands with about the same number of records, others stay apart."""
        levels = self.sensitive.levels
        known = len(levels) - self.sensitive.has_missing
        if known <= MOST_VALUES or not all(isinstance(level, (int, float)) for level in levels[:known]):
            return np.arange(len(levels))
        total = np.bincount(self.value, weights=self.counts, minlength=len(levels)).astype(np.int64)[:known]
        before = np.cumsum(total) - total
        # A value goes into the band of the middle one of its records, so equal values stay together.
        band = (2 * before + total) * MOST_VALUES // (2 * max(1, int(total.sum())))
        used, of_value = np.unique(band, return_inverse=True)
        return np.append(of_value, len(used)) if self.sensitive.has_missing else np.asarray(of_value)

    @cached_property
    def banded(self) -> Groups:
        """The same groups with every value as its band."""
        levels, band = self.sensitive.levels, self.band_of_value
        if band[-1] == len(band) - 1:
            return self
        known = len(levels) - self.sensitive.has_missing
        labels = []
        for b in range(int(band[known - 1]) + 1):
            members = np.flatnonzero(band[:known] == b)
            first, last = levels[members[0]], levels[members[-1]]
            labels.append(f"{first}" if first == last else between(f"{first}", f"{last}"))
        merged = Categories(
            self.sensitive.key, (*labels, *((None,) if self.sensitive.has_missing else ())), self.sensitive.is_ordered
        )
        cells = np.asfortranarray(self.cells[self.group])
        return self._counted(self.keys, cells, merged, band[self.value], self.counts)


@dataclass(frozen=True, eq=False)
class AttributeRisk:
    """What the groups of a file give away about one sensitive column.

    Arrays have one entry for each group.

    Attributes
    ----------
    column : str
        The sensitive column.
    groups : Groups
        The groups, with a numeric column of many values in bands.
    size, known : ndarray of int
        Number of records in each group, and number of those with a value.
    distinct : ndarray of int
        Distinct l-diversity.
    entropy : ndarray
        Entropy l-diversity, the exponential of the entropy.
    closeness : ndarray
        Distance t between the values of the group and those of the file; NaN where nobody has a value.
    is_ordered : bool
        Whether ``closeness`` is the ordered distance.
    right : ndarray of int
        Number of records with the most frequent value of their group, not counting missing values.
    right_from_file : int
        Number of people guessed right by always naming the most frequent value of the file.
    groups_as_read : Groups
        The groups with every value of the column, not in bands.
    """

    column: str
    groups: Groups = field(repr=False)
    size: Integers = field(repr=False)
    known: Integers = field(repr=False)
    distinct: Integers = field(repr=False)
    entropy: Floats = field(repr=False)
    closeness: Floats = field(repr=False)
    is_ordered: bool
    right: Integers | Floats = field(repr=False)
    right_from_file: int
    groups_as_read: Groups = field(repr=False)

    @cached_property
    def is_homogeneous(self) -> NDArray[np.bool_]:
        """Groups in which all records have the same value."""
        return np.asarray((self.distinct == 1) & (self.known == self.size))

    @property
    def n_records(self) -> int:
        return int(self.size.sum())

    @property
    def right_from_groups(self) -> int:
        """Number of people whose value is guessed right by naming the most frequent value of their group."""
        return int(self.right.sum())

    @property
    def guess_gain(self) -> float:
        """Share of the records whose value is guessed right from their group and not from the file as a whole, on balance."""
        return (self.right_from_groups - self.right_from_file) / max(1, self.n_records)

    @property
    def l_diversity(self) -> int:
        """Smallest distinct l-diversity among groups in which somebody has a value; 0 if there is no such group."""
        return int(self.distinct[self.known > 0].min(initial=np.iinfo(np.int64).max)) if (self.known > 0).any() else 0

    @property
    def entropy_l_diversity(self) -> float:
        """Smallest entropy l-diversity among groups in which somebody has a value; 0 if there is no such group."""
        return float(self.entropy[self.known > 0].min()) if (self.known > 0).any() else 0.0

    @property
    def t_closeness(self) -> float:
        """Largest distance between a group and the file."""
        return float(np.nanmax(self.closeness)) if (self.known > 0).any() else 0.0

    @property
    def n_homogeneous(self) -> int:
        """Number of groups of two or more records with a single value: nobody is unique, yet everyone's value is known."""
        return int((self.is_homogeneous & (self.size > 1)).sum())

    @property
    def records_in_homogeneous(self) -> int:
        """Number of records in those groups."""
        return int(self.size[self.is_homogeneous & (self.size > 1)].sum())

    @property
    def records_alone(self) -> int:
        """Number of records that are alone in their group and have a value, which is thereby known."""
        return int((self.is_homogeneous & (self.size == 1)).sum())

    def expected_without_participation(self, match_probability: ArrayLike) -> float:
        """Expected number of people in homogeneous groups whose value is learned without knowing who took part.

        A person with the values of a group is in the file with probability f/F; ``match_probability`` is E(1/F) of each group.
        """
        of_group = np.asarray(match_probability, dtype=np.float64)
        if of_group.shape != self.size.shape:
            raise BadInput(f"A match probability was given for {of_group.size:,} groups; there are {len(self.size):,}.")
        return float((self.size * np.minimum(1.0, self.size * of_group))[self.is_homogeneous].sum())

    def named(self, most: int = 20) -> list[Json]:
        """Homogeneous groups of two or more records, largest first, with their values: for internal use only."""
        homogeneous = np.flatnonzero(self.is_homogeneous & (self.size > 1))
        homogeneous = homogeneous[np.lexsort((homogeneous, -self.size[homogeneous]))][:most]
        first = np.searchsorted(self.groups.group, homogeneous)
        return [
            {
                "values": {c.key: c.shown[code] for c, code in zip(self.groups.keys, self.groups.cells[g].tolist(), strict=True)},
                "value": self.groups.sensitive.shown[self.groups.value[at]],
                "records": int(self.size[g]),
            }
            for g, at in zip(homogeneous.tolist(), first.tolist(), strict=True)
        ]

    def summary(self, risk: RecordRisk | None = None) -> AttributeSummary:
        """Figures for the whole file; no group is named.

        Given the risk of the same groups, also for intruders who do not know who took part.
        """
        is_same = risk is not None and np.array_equal(risk.table.cells, self.groups.cells)
        return AttributeSummary(
            column=self.column,
            groups=len(self.size),
            records=self.n_records,
            l_diversity=self.l_diversity,
            entropy_l_diversity=self.entropy_l_diversity,
            t_closeness=self.t_closeness,
            distance="ordered" if self.is_ordered else "nominal",
            right_from_groups=self.right_from_groups,
            right_from_file=self.right_from_file,
            homogeneous_groups=self.n_homogeneous,
            records_in_homogeneous_groups=self.records_in_homogeneous,
            records_alone=self.records_alone,
            expected_without_participation=(
                self.expected_without_participation(risk.match_probability) if risk is not None and is_same else None
            ),
        )

    def __str__(self) -> str:
        return (
            f"'{self.column}' is guessed right for {self.right_from_groups:,} of {self.n_records:,} people by whoever knows that they took "
            f"part and finds their group, for {self.right_from_file:,} by anyone who guesses from the whole file. {self.n_homogeneous:,} groups "
            f"of two or more records ({self.records_in_homogeneous:,} records) have one value only."
        )


def attribute_risk(groups: Groups, *, ordered: bool | None = None) -> AttributeRisk:
    """l-diversity, t-closeness and right guesses for one sensitive column.

    Parameters
    ----------
    groups : Groups
        Records by group and value, such as ``Groups.of(table, "income")``.
    ordered : bool, optional
        Whether neighbouring values are alike; by default, what the column's values suggest.

    Examples
    --------
    >>> import numpy as np, rarecell as rc
    >>> codes = np.array([[0, 0], [0, 0], [1, 0], [1, 1]], dtype=np.int32)
    >>> table = rc.ContingencyTable.from_codes(codes, [rc.Categories("town", ("a", "b")), rc.Categories("ill", ("no", "yes"))])
    >>> risk = attribute_risk(Groups.of(table, "ill"))
    >>> risk.l_diversity, risk.right_from_groups, risk.right_from_file, risk.t_closeness
    (1, 3, 3, 0.25)
    """
    seen = groups.banded
    has_missing = seen.sensitive.has_missing
    is_known = seen.value < seen.sensitive.n_levels - 1 if has_missing else np.ones(len(seen.value), dtype=bool)
    size = np.bincount(seen.group, weights=seen.counts, minlength=seen.n_groups).astype(np.int64)
    known = np.bincount(seen.group, weights=seen.counts * is_known, minlength=seen.n_groups).astype(np.int64)
    n_values = np.bincount(seen.group, minlength=seen.n_groups)
    share = seen.counts / size[seen.group]
    entropy = np.exp(-np.bincount(seen.group, weights=share * np.log(share), minlength=seen.n_groups))
    right = np.zeros(seen.n_groups, dtype=np.int64)
    np.maximum.at(right, seen.group[is_known], seen.counts[is_known])
    in_file = np.bincount(seen.value[is_known], weights=seen.counts[is_known], minlength=1).astype(np.int64)
    is_ordered = groups.sensitive.is_ordered if ordered is None else ordered
    closeness = _ordered_distance(groups) if is_ordered else _nominal_distance(seen)
    return AttributeRisk(
        column=groups.sensitive.key,
        groups=seen,
        size=size,
        known=known,
        distinct=np.where(known > 0, n_values, 0),
        entropy=entropy,
        closeness=closeness,
        is_ordered=is_ordered,
        right=right,
        right_from_file=int(in_file.max(initial=0)),
        groups_as_read=groups,
    )


@dataclass(frozen=True)
class AttributeLimits:
    """What groups may give away about a sensitive column; None where nothing was asked for."""

    l_diversity: int | None = None
    t_closeness: float | None = None
    max_guess_gain: float | None = None

    def failing(self, risk: AttributeRisk) -> NDArray[np.bool_]:
        """Groups whose values have to go; none if the file is within the limits."""
        fails = np.zeros(len(risk.size), dtype=bool)
        holds_values = risk.known > 0
        if self.l_diversity is not None:
            fails |= holds_values & (risk.distinct < self.l_diversity)
        if self.t_closeness is not None:
            # Sums of shares are exact to about 1e-15.
            fails |= holds_values & (np.nan_to_num(risk.closeness) > self.t_closeness + 1e-12)
        if self.max_guess_gain is not None and not fails.any() and risk.guess_gain > self.max_guess_gain:
            fails[_most_telling(risk, self.max_guess_gain)] = True
        return fails


def _most_telling(risk: AttributeRisk, limit: float) -> Integers:
    """The groups without which the gain is within the limit: those first that add most to it for each value that is lost.

    Guessing the file's most frequent value is right for m of a group's records, naming the group's own for r of them. The sum of
    r − m over the groups is the gain; without some groups it is at most the sum over the others, because another value may then be
    the most frequent one.
    """
    seen = risk.groups
    is_known = seen.value < seen.sensitive.n_levels - seen.sensitive.has_missing
    mode = int(np.bincount(seen.value[is_known], weights=seen.counts[is_known]).argmax())
    of_mode = np.bincount(seen.group, weights=seen.counts * (seen.value == mode), minlength=seen.n_groups).astype(np.int64)
    gain = risk.right - of_mode
    telling = np.flatnonzero(gain > 0)
    order = telling[np.argsort(-gain[telling] / risk.known[telling], kind="stable")]
    is_enough = gain.sum() - np.cumsum(gain[order]) <= limit * (risk.n_records - np.cumsum(risk.size[order]))
    return np.asarray(order[: int(is_enough.argmax()) + 1])


def right_in_truth(groups: Groups, group: Integers, true_value: Integers) -> Floats:
    """Probability that a guess is right about each of some people, given a released group of each and their true values.

    Whoever finds a group names its most frequent value, one of them at random where there are several. ``group`` is −1 for people whose
    group is not in the file: nobody guesses about them. A person without a true value is never guessed right.
    """
    seen, band = groups.banded, groups.band_of_value
    n_values = seen.sensitive.n_levels
    is_known = seen.value < n_values - seen.sensitive.has_missing
    most = np.zeros(seen.n_groups, dtype=np.int64)
    np.maximum.at(most, seen.group[is_known], seen.counts[is_known])
    is_named = is_known & (seen.counts == most[seen.group])
    n_named = np.bincount(seen.group[is_named], minlength=seen.n_groups)
    named = seen.group[is_named] * n_values + seen.value[is_named]
    probability = np.zeros(len(group))
    there = np.flatnonzero(group >= 0)
    of_person = group[there] * n_values + band[true_value[there]]
    probability[there] = np.isin(of_person, named) / np.maximum(n_named[group[there]], 1)
    return probability


def groups_within(
    groups: Groups, limits: AttributeLimits, *, right: Floats | None = None, truth: Groups | None = None
) -> NDArray[np.bool_]:
    """Which groups may keep their values of a sensitive column, so that what is released is within the limits.

    ``right`` is the number of people of each group about whom a guess is right in truth, and ``truth`` the same groups with true
    values, where values were exchanged.

    A group keeps all of its values or none: whoever knows the method would guess that a single blank hides the frequent value. The
    file that groups are compared with is the released one, so the groups that are left are measured again until all are within
    the limits. If none can be, no group keeps its values.

    Blanks tell something, too. If only groups were blank in which the file's most frequent value is not the most frequent one, a blank in a
    column of two values would name the other. So further groups are blanked, in which the frequent value is frequent, until somebody who
    names one value for all blanks is within the limit on guesses (:func:`guess_gain_with_blanks`).
    """
    kept = np.ones(groups.n_groups, dtype=bool)
    guesses = None if limits.max_guess_gain is None else _Guesses.of(groups, right, truth)
    while kept.any():
        risk = attribute_risk(groups.only(kept))
        failing = limits.failing(risk if right is None else replace(risk, right=np.maximum(risk.right, right[kept])))
        if failing.any():
            kept[np.flatnonzero(kept)[failing]] = False
        elif (
            guesses is not None and limits.max_guess_gain is not None and guesses.more(kept) > guesses.most(limits.max_guess_gain)
        ):
            kept = guesses.within(kept, limits.max_guess_gain)
        else:
            break
    return kept


def guess_gain_with_blanks(
    groups: Groups, kept: NDArray[np.bool_], *, right: Floats | None = None, truth: Groups | None = None
) -> float:
    """Share of people guessed right, beyond those guessed from the file as a whole, if only some groups show their values.

    The guess is the most frequent value of a group that shows its values, and for everybody else the value that most of them have:
    whoever knows which groups are blanked may know that. The file as a whole is the one before values were blanked.
    """
    guesses = _Guesses.of(groups, right, truth)
    return guesses.more(kept) / max(1, guesses.n_records)


SETS_TRIED = 16
"""Number of sets of telling groups for which it is counted how many others have to be blanked with them."""


@dataclass(frozen=True, eq=False)
class _Guesses:
    """True values by group, for guesses about people whose value is shown or blank.

    ``group``, ``value`` and ``counts`` have the records with a value; ``right`` is the number of right guesses in each group that shows
    its values, ``of_mode`` the number of its records with the file's most frequent value.
    """

    group: Integers
    value: Integers
    counts: Integers
    size: Integers
    right: Floats
    of_mode: Floats
    mode: int
    n_values: int

    @classmethod
    def of(cls, groups: Groups, right: Floats | None, truth: Groups | None) -> _Guesses:
        shown, band, n_known = groups.banded, groups.band_of_value, groups.sensitive.n_levels - groups.sensitive.has_missing
        is_shown = shown.value < shown.sensitive.n_levels - shown.sensitive.has_missing
        most = np.zeros(groups.n_groups)
        np.maximum.at(most, shown.group[is_shown], shown.counts[is_shown])
        true = groups if truth is None else truth
        has_value = true.value < n_known
        group, value, counts = true.group[has_value], band[true.value[has_value]], true.counts[has_value]
        n_values = int(band.max(initial=0)) + 1
        mode = int(np.bincount(value, weights=counts, minlength=n_values).argmax())
        return cls(
            group,
            value,
            counts,
            np.bincount(groups.group, weights=groups.counts, minlength=groups.n_groups).astype(np.int64),
            most if right is None else np.maximum(most, right),
            np.bincount(group, weights=counts * (value == mode), minlength=groups.n_groups).astype(np.float64),
            mode,
            n_values,
        )

    @property
    def n_records(self) -> int:
        return int(self.size.sum())

    def most(self, limit: float) -> float:
        """Number of people by whom a limit allows guesses to be better."""
        return limit * self.n_records + 1e-9

    def more(self, kept: NDArray[np.bool_]) -> float:
        """How many more people are guessed right than by the most frequent value of the file."""
        there = ~kept[self.group]
        blank = np.bincount(self.value[there], weights=self.counts[there], minlength=self.n_values)
        return float((self.right - self.of_mode)[kept].sum() + blank.max() - blank[self.mode])

    def within(self, kept: NDArray[np.bool_], limit: float) -> NDArray[np.bool_]:
        """The groups that still keep their values if as few as possible are blanked besides: telling groups, and others that cover them.

        Telling groups go in the order of what they tell for each record. For some numbers of them, the cover is the shortest run of other
        groups, those first in which the file's most frequent value has the largest share, with which guesses are within the limit.
        """
        gain = self.right - self.of_mode
        held = np.flatnonzero(kept)
        share = gain[held] / self.size[held]
        telling = held[share > 0.0][np.argsort(-share[share > 0.0], kind="stable")]
        others = held[share <= 0.0]
        cover = others[np.argsort(-self.of_mode[others] / self.size[others], kind="stable")]
        best, fewest = np.zeros(len(kept), dtype=bool), int(self.size[kept].sum())
        for n_telling in np.unique(np.linspace(0, len(telling), SETS_TRIED).astype(np.int64)).tolist():
            rest = kept.copy()
            rest[telling[:n_telling]] = False
            low, high = 0, len(cover) + 1
            while low < high:
                middle = (low + high) // 2
                tried = rest.copy()
                tried[cover[:middle]] = False
                if self.more(tried) <= self.most(limit):
                    high = middle
                else:
                    low = middle + 1
            if low > len(cover):
                continue
            rest[cover[:low]] = False
            n_blank = int(self.size[kept & ~rest].sum())
            if n_blank < fewest:
                best, fewest = rest, n_blank
        return best


def _without_missing(groups: Groups) -> Groups:
    if not groups.sensitive.has_missing:
        return groups
    kept = groups.value < groups.sensitive.n_levels - 1
    sensitive = replace(groups.sensitive, levels=groups.sensitive.levels[:-1])
    return replace(groups, sensitive=sensitive, group=groups.group[kept], value=groups.value[kept], counts=groups.counts[kept])


def _nominal_distance(groups: Groups) -> Floats:
    """½ Σ |q − p| over the values, where a missing value counts as a value."""
    n_groups, n_values = groups.n_groups, groups.sensitive.n_levels
    p = np.bincount(groups.value, weights=groups.counts, minlength=n_values) / groups.counts.sum()
    size = np.bincount(groups.group, weights=groups.counts, minlength=n_groups)
    q = groups.counts / size[groups.group]
    # Each value that a group lacks contributes its p; together these are 1 minus the p of the values it has.
    of_present = np.bincount(groups.group, weights=np.abs(q - p[groups.value]), minlength=n_groups)
    present = np.bincount(groups.group, weights=p[groups.value], minlength=n_groups)
    distance = 0.5 * (of_present + np.maximum(0.0, 1.0 - present))
    is_known = groups.value < n_values - groups.sensitive.has_missing
    known = np.bincount(groups.group, weights=is_known, minlength=n_groups)
    return np.asarray(np.where(known > 0, distance, np.nan))


def _ordered_distance(groups: Groups) -> Floats:
    """Σ |Q − P| / (m − 1) over the m values in order, with P and Q cumulative; missing values have no place in the order.

    Q is constant between two values of the group, so the sum over a stretch of values follows from sums of P up to the
    point where P passes Q. This avoids an array of groups by values.
    """
    known = _without_missing(groups)
    n_groups, n_values = known.n_groups, known.sensitive.n_levels
    size = np.bincount(known.group, weights=known.counts, minlength=n_groups)
    if n_values < 2 or not len(known.counts):
        return np.asarray(np.where(size > 0, 0.0, np.nan))
    total = np.bincount(known.value, weights=known.counts, minlength=n_values)
    cumulative = np.cumsum(total) / total.sum()
    area = np.append(0.0, np.cumsum(cumulative))

    def stretch(level: Floats, start: Integers, stop: Integers) -> Floats:
        """Σ |level − P| over the values from ``start`` to before ``stop``."""
        passes = np.clip(np.searchsorted(cumulative, level, side="right"), start, stop)
        below = level * (passes - start) - (area[passes] - area[start])
        return np.asarray(below + (area[stop] - area[passes]) - level * (stop - passes))

    is_first = np.append(True, known.group[1:] != known.group[:-1])
    reached = np.cumsum(known.counts)
    base = (reached - known.counts)[is_first][np.cumsum(is_first) - 1]
    level = (reached - base) / size[known.group]
    stop = np.where(np.append(is_first[1:], True), n_values, np.append(known.value[1:], 0))
    distance = np.bincount(known.group, weights=stretch(level, known.value, stop), minlength=n_groups)
    first_value = known.value[is_first]
    distance[known.group[is_first]] += area[first_value]
    return np.asarray(np.where(size > 0, distance / (n_values - 1), np.nan))

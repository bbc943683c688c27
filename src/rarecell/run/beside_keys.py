"""What is released beside the keys: which columns are treated, what does that cost, and which still give a treated key away?

The treatments themselves are in :mod:`rarecell.release.treatments`; here the columns of a file are read, treated, and measured before
and after. Random treatments are seeded like the swaps: secretly, when a release is written. :mod:`rarecell.risk.leaks` measures on
codes what columns tell; columns that a handover drops or renumbers, the record's id and the household number, are not looked at.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rarecell.data.coding import Coding, coarse_date, code_levels
from rarecell.data.counting import number_of_each
from rarecell.data.levels import settle
from rarecell.data.microdata import Microdata
from rarecell.data.names import joined_names, names_in
from rarecell.data.treatment_text import (
    BOTTOM,
    DATE,
    DROP,
    LEVELS,
    MICROAGGREGATE,
    NOISE,
    PRAM,
    ROUND,
    TOP,
    TreatmentStep,
    parse_treatments,
)
from rarecell.data.whole_file import Integers, OrderedColumn, WholeFile, ordered_codes, read_columns
from rarecell.data.written import levels_to_write
from rarecell.engine.arrays import EncodedColumn, as_arrow, code_chunk, unified
from rarecell.engine.changes import Changes, Recodes, WrittenLevels
from rarecell.engine.source import Column
from rarecell.errors import BadInput, UnknownColumns
from rarecell.outcome.release import LeakSummary, ReleaseSummary, TreatmentSummary
from rarecell.outcome.words import counted, number, percent, verb
from rarecell.release import treatments
from rarecell.release.release import Release
from rarecell.release.treatments import Moments, correlation_ratio, linked_share
from rarecell.risk.leaks import BLANKED, RECODED, SWAPPED, Concealed, Leak, leaks
from rarecell.run.config import ProtectConfig
from rarecell.table.contingency import Categories, ContingencyTable

# ---------------------------------------------------------------------- what is done to columns

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Treated:
    """New values for every record of some columns, levels for others, and columns that are not released.

    ``before`` and ``after`` have the columns as codes in the order of their values, for whoever looks at the whole file. ``words`` says
    what was done to columns that --treat does not name.
    """

    values: Mapping[str, pa.Array] = field(default_factory=dict)
    recodes: Recodes = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()
    before: Mapping[str, OrderedColumn] = field(default_factory=dict)
    after: Mapping[str, OrderedColumn] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)

    @property
    def changes(self) -> Changes:
        """What is written differently because of it."""
        return Changes(recodes=self.recodes, treated=self.values, dropped=self.dropped)


NOTHING = Treated()


def check_treatments(data: Microdata, words: Mapping[str, str]) -> None:
    """Refuse treatments that are not understood, or of columns that have to stay as they are."""
    steps = parse_treatments(words)
    named = [*words, *(name for of_column in steps.values() for step in of_column for name in step.together)]
    unknown = [name for name in dict.fromkeys(named) if name not in data.columns]
    if unknown:
        raise UnknownColumns.among(unknown, list(data.columns))
    for name in named:
        if name in data.keys:
            raise BadInput(f"'{name}' is a key. Say how it is to be released with --recode; --treat is for other columns.")
        if name in data.id_columns:
            raise BadInput(f"'{name}' names the record; a handover leaves it out. Leave it out of --treat.")
        if name in data.household_columns and steps.get(name, (TreatmentStep(DROP),))[0].kind != DROP:
            raise BadInput(f"'{name}' names the household; it can only be dropped, which unlinks the members in the release.")
    if not data.source.keeps_rows and any(step.kind != DROP for of_column in steps.values() for step in of_column):
        raise BadInput(
            f"The records of {data.source.name} stay on its machines, where columns can be dropped but not treated. Write the data to "
            "Parquet files and name these instead."
        )
    in_groups = [name for of_column in steps.values() for step in of_column for name in step.together]
    twice = [name for name in in_groups if name in words or in_groups.count(name) > 1]
    if twice:
        raise BadInput(f"'{twice[0]}' is to be treated twice; name it once.")


def treated_columns(data: Microdata, words: Mapping[str, str], *, seed: int) -> Treated:
    """Treat columns as words say."""
    if not words:
        return NOTHING
    check_treatments(data, words)
    values: dict[str, pa.Array] = {}
    recodes: dict[str, WrittenLevels] = {}
    before: dict[str, OrderedColumn] = {}
    dropped = []
    for name, steps in parse_treatments(words).items():
        if steps[0].kind == DROP:
            dropped.append(name)
            continue
        names = list(dict.fromkeys([name, *(other for step in steps for other in step.together)]))
        encoded = dict(zip(names, data.source.encode(names).columns, strict=True))
        for member, column in encoded.items():
            before[member] = ordered_codes(column, data.columns[member], decimal_mark=data.source.decimal_mark)
        rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
        if steps[0].kind == LEVELS:
            assert steps[0].coding is not None
            recodes[name] = _levels(data, name, encoded[name], steps[0].coding)
        elif steps[0].kind == PRAM:
            assert steps[0].share is not None
            values[name] = _randomised(encoded[name], before[name], steps[0].share, rng)
        elif steps[0].kind == DATE:
            values[name] = _coarse_dates(encoded[name], data.columns[name], before[name], steps[0].unit)
        else:
            values |= _numbers(data, names, before, steps, rng)
    after = _after(data, before, values, recodes)
    return Treated(values, recodes, frozenset(dropped), before, after)


def with_values(data: Microdata, treated: Treated, name: str, values: pa.Array, words: str) -> Treated:
    """The same with new values of one more column of numbers."""
    (encoded,) = data.source.encode([name]).columns
    before = ordered_codes(encoded, data.columns[name], decimal_mark=data.source.decimal_mark)
    return replace(
        treated,
        values={**treated.values, name: values},
        before={**treated.before, name: before},
        after={**treated.after, **_after(data, {}, {name: values}, {})},
        words={**treated.words, name: words},
    )


def _after(
    data: Microdata, before: Mapping[str, OrderedColumn], values: Mapping[str, pa.Array], recodes: Recodes
) -> dict[str, OrderedColumn]:
    after = {
        name: ordered_codes(unified([code_chunk(array)]), data.columns[name], decimal_mark=data.source.decimal_mark)
        for name, array in values.items()
    }
    for name, written in recodes.items():
        level_of = np.append(written.level_of_value, -1)
        encoded = data.source.encode([name]).columns[0]
        # Recodes list the distinct values in the order in which the source encodes them.
        after[name] = OrderedColumn(name, level_of[encoded.codes].astype(np.int32), max(1, len(written.levels)))
    return after


def _levels(data: Microdata, name: str, encoded: EncodedColumn, coding: Coding) -> WrittenLevels:
    raw = settle(encoded.values, data.columns[name], decimal_mark=data.source.decimal_mark)
    coded = code_levels(name, raw, number_of_each(encoded, None), coding, level_order=data.columns[name].level_order)
    return levels_to_write(encoded.values, coded.code_of_value, raw.values, Categories(name, coded.levels, coded.is_ordered))


def _randomised(encoded: EncodedColumn, column: OrderedColumn, keep: float, rng: np.random.Generator) -> pa.Array:
    # Codes of few values have no sign, and −1 would be one of them.
    code_of_value = encoded.codes.astype(np.int64)
    drawn = treatments.post_randomised(np.where(column.codes >= 0, code_of_value, -1), keep, rng)
    return encoded.values.take(as_arrow(np.where(drawn >= 0, drawn, code_of_value)))


def _coarse_dates(encoded: EncodedColumn, column: Column, before: OrderedColumn, unit: str) -> pa.Array:
    """Dates cut to the month, quarter or year: the first day of it where the column has a type, otherwise text without the day."""
    values, name = encoded.values, column.name
    if column.stored_date is not None and before.numbers is not None:
        if column.stored_date.has_leap_seconds:
            raise BadInput(
                f"Column '{name}' counts leap seconds (format %tC), which no table here has. Store it as %tc, or drop it."
            )
        return _plain_numbers(column.stored_date.cut(before.values, unit), before, 0)
    if pa.types.is_temporal(values.type):
        coarse = pc.floor_temporal(values, unit=unit).cast(values.type)
        return coarse.take(as_arrow(np.asarray(encoded.codes, dtype=np.int64)))
    dates = [None if value in (None, "") else coarse_date(value, name, unit) for value in values.to_pylist()]
    return pa.array(dates, pa.string()).take(as_arrow(np.asarray(encoded.codes, dtype=np.int64)))


def _numbers(
    data: Microdata,
    names: list[str],
    before: Mapping[str, OrderedColumn],
    steps: tuple[TreatmentStep, ...],
    rng: np.random.Generator,
) -> dict[str, pa.Array]:
    """Columns of numbers after some steps; the first is the one that was named, the others go along in groups."""
    for name in names:
        if before[name].numbers is None or before[name].is_date:
            raise BadInput(f"Column '{name}' is to be treated as numbers, but it holds words or dates.")
    columns = {name: before[name].values for name in names}
    first = names[0]
    for step in steps:
        if step.kind in (TOP, BOTTOM):
            columns[first] = treatments.coded_extremes(
                columns[first], threshold=step.number, share=step.share, is_top=step.kind == TOP
            )
        elif step.kind == ROUND:
            assert step.number is not None
            columns[first] = treatments.rounded(columns[first], step.number)
        elif step.kind == NOISE:
            assert step.share is not None
            columns[first] = treatments.noisy(columns[first], step.share, rng)
        elif step.kind == MICROAGGREGATE:
            assert step.number is not None
            together = treatments.microaggregated(
                np.stack([columns[n] for n in (first, *step.together)], axis=1), int(step.number)
            )
            columns |= dict(zip((first, *step.together), together.T, strict=True))
    more = 2 if any(step.kind in (TOP, BOTTOM, MICROAGGREGATE) for step in steps) else 0
    return {name: _plain_numbers(columns[name], before[name], more) for name in names}


def _plain_numbers(values: Floats, before: OrderedColumn, more: int) -> pa.Array:
    """Numbers with as many decimals as the column had, or a few more where they are means; whole ones as such."""
    assert before.numbers is not None
    digits = next((d for d in range(7) if np.allclose(before.numbers, np.round(before.numbers, d), rtol=0, atol=1e-9)), 7)
    rounded = np.round(values, digits + more)
    is_missing = np.isnan(rounded)
    if (rounded[~is_missing] == np.rint(rounded[~is_missing])).all() and digits == 0:
        return pa.array(np.where(is_missing, 0, rounded).astype(np.int64), mask=is_missing)
    return pa.array(rounded, mask=is_missing)


# ---------------------------------------------------------------------- what it costs and protects


def treatment_summaries(
    data: Microdata, table: ContingencyTable, words: Mapping[str, str], treated: Treated
) -> tuple[TreatmentSummary, ...]:
    """For each treated column, what it cost and what it protects."""
    weights = data.record_weights() if data.weight is not None else None
    cell = table.record_cell
    summaries = []
    for name in (*treated.values, *treated.recodes):
        group = next((column for column, text in words.items() if column == name or name in _together(text, column)), name)
        said = treated.words.get(name) or words[group]
        before, after = treated.before[name], treated.after[name]
        is_treated = name in treated.values
        changed = int((_comparable(before) != _comparable(after)).sum()) if is_treated else int((before.codes >= 0).sum())
        base = TreatmentSummary(column=name, words=said, records=changed)
        if is_treated and before.numbers is not None and after.numbers is not None and not before.is_date:
            base = _with_numbers(base, before.values, after.values, weights, table, cell)
        summaries.append(base)
    summaries = _linked_together(summaries, treated, cell)
    summaries += [TreatmentSummary(column=name, words=words[name], records=data.n_records) for name in sorted(treated.dropped)]
    return tuple(summaries)


def _linked_together(
    summaries: list[TreatmentSummary], treated: Treated, cell: NDArray[np.int64] | None
) -> list[TreatmentSummary]:
    """With what somebody finds who compares all treated columns of numbers at once, where there are several."""
    names = [summary.column for summary in summaries if summary.linked_after is not None]
    if len(names) < 2:
        return summaries
    before, after = (np.stack([of[name].values for name in names], axis=1) for of in (treated.before, treated.after))
    was, now = linked_share(before, before, cell), linked_share(before, after, cell)
    return [
        replace(summary, linked_together_before=was, linked_together_after=now) if summary.column in names else summary
        for summary in summaries
    ]


def _together(text: str, column: str) -> tuple[str, ...]:
    return tuple(name for step in parse_treatments({column: text})[column] for name in step.together)


def _comparable(column: OrderedColumn) -> Floats | NDArray[np.int64]:
    return np.nan_to_num(column.values, nan=np.inf) if column.numbers is not None else column.codes.astype(np.int64)


def _with_numbers(
    base: TreatmentSummary,
    before: Floats,
    after: Floats,
    weights: Floats | None,
    table: ContingencyTable,
    cell: NDArray[np.int64] | None,
) -> TreatmentSummary:
    moments_before, moments_after = Moments.of(before, weights), Moments.of(after, weights)
    key, was, now = "", None, None
    if cell is not None:
        codes = [np.where(cell >= 0, table.cells[cell, k], -1) for k in range(table.n_keys)]
        ratios = [(correlation_ratio(before, own, weights), correlation_ratio(after, own, weights)) for own in codes]
        worst = int(np.argmax([abs(a - b) for a, b in ratios]))
        key, (was, now) = table.keys[worst], ratios[worst]
    columns = before[:, None], after[:, None]
    with_keys = None if cell is None else (linked_share(columns[0], columns[0], cell), linked_share(*columns, cell))
    alone = linked_share(columns[0], columns[0]), linked_share(*columns)
    sentence = (
        f"'{base.column}' ({base.words}): the mean went from {number(moments_before.mean)} to {number(moments_after.mean)}, the standard deviation from "
        f"{number(moments_before.spread)} to {number(moments_after.spread)}; {percent(alone[1])} of the records are nearest to their own original, "
        f"{percent(alone[0])} before."
    )
    return TreatmentSummary(
        column=base.column,
        words=base.words,
        records=base.records,
        mean_before=moments_before.mean,
        mean_after=moments_after.mean,
        spread_before=moments_before.spread,
        spread_after=moments_after.spread,
        quantiles_before=moments_before.quantiles,
        quantiles_after=moments_after.quantiles,
        key=key,
        correlation_before=was,
        correlation_after=now,
        linked_before=alone[0],
        linked_after=alone[1],
        linked_with_keys_before=None if with_keys is None else with_keys[0],
        linked_with_keys_after=None if with_keys is None else with_keys[1],
        sentence=sentence,
    )


MOST_LEAKS = 30
"""Number of leaks that are reported."""


# ---------------------------------------------------------------------- what was concealed


def released_names(data: Microdata) -> list[str]:
    """Columns that are released as they are: all but the names of records and households, and what no column can be compared by."""
    left_out = {*data.id_columns, *data.household_columns} - set(data.keys)
    return [name for name, column in data.columns.items() if name not in left_out and column.kind != "other"]


@dataclass(frozen=True, eq=False)
class LeakSearch:
    """The columns of a file, ready to be held against what is done to its keys."""

    data: Microdata
    table: ContingencyTable
    whole: WholeFile
    treated: Treated = NOTHING

    @classmethod
    def of(cls, data: Microdata, table: ContingencyTable, treated: Treated = NOTHING) -> LeakSearch:
        return cls(data, table, data.whole_file(table), treated)

    def of_release(self, release: Release) -> tuple[Leak, ...]:
        """Columns that tell about keys that were recoded, swapped or blanked, the most telling first."""
        moved = {key: int(release.moves(key).sum()) for key in self.table.keys}
        gone = {key: int(np.asarray(of_key).sum()) for key, of_key in release.blanks.blanked.items()}
        travels = {carried.column: carried.keys for carried in release.travel.carried}
        return (*self.of_recodings, *self.of_moved(moved, gone, travels))

    def _shown(self, key: str) -> NDArray[np.int32]:
        """The level of a key that each record shows; −1 if the record was dropped."""
        cell = self.whole.cell
        codes = self.table.cells[cell, self.table.keys.index(key)]
        return np.where(cell >= 0, codes, -1).astype(np.int32)

    def _columns(self) -> list[OrderedColumn]:
        """Every column of the release; a recoded key as it is released."""
        columns = []
        for name in released_names(self.data):
            if name in self.treated.dropped:
                continue
            column = self.whole.columns[name]
            if name in self.treated.after and self.whole.is_complete:
                column = self.treated.after[name]
            if name in self.data.recodes:
                n_levels = self.table.categories[self.table.keys.index(name)].n_levels
                column = OrderedColumn(name, self._shown(name), n_levels)
            columns.append(column)
        return columns

    @property
    def _households(self) -> tuple[str, Integers] | None:
        """The household of each record, if membership is released and all members are among the records looked at."""
        names = self.data.household_columns
        if not names or set(names) <= self.treated.dropped or not self.whole.is_complete or self.table.record_cell is None:
            return None
        codes = self.data.household_codes()
        return None if codes is None else (joined_names(names), codes)

    @cached_property
    def of_recodings(self) -> tuple[Leak, ...]:
        """Columns that tell about the values behind the levels of recoded keys."""
        concealed = []
        for key in self.data.recodes:
            own, shown = self.whole.columns[key], self._shown(key)
            concealed.append(Concealed(key, RECODED, own.codes, shown, int((shown >= 0).sum()), own.numbers))
        return leaks(concealed, self._columns(), households=self._households) if concealed else ()

    def of_moved(
        self, moved: Mapping[str, int], blanked: Mapping[str, int], travels: Mapping[str, Iterable[str]]
    ) -> tuple[Leak, ...]:
        """Columns that tell about values that were swapped or blanked; numbers of records by key.

        ``travels`` has the keys that each travelling column moves with. Other keys are left out: swaps keep the tables of keys
        that have to do with each other.
        """
        beside = [column for column in self._columns() if column.name not in self.table.keys]
        leaks_found: list[Leak] = []
        for by, numbers in ((SWAPPED, moved), (BLANKED, blanked)):
            for key, n in numbers.items():
                if n:
                    values = self._shown(key)
                    concealed = Concealed(key, by, values, np.where(values >= 0, 0, -1), n, None)
                    stays = [column for column in beside if key not in travels.get(column.name, ())]
                    leaks_found += leaks([concealed], stays, households=self._households)
        return tuple(leaks_found)

    def derived_recoding(self, leak: Leak) -> str | None:
        """How to recode a column so that it shows no more of a recoded key than the key does, in words; None if no bands do it."""
        if leak.by != RECODED or len(leak.columns) != 1:
            return None
        column = self.whole.columns.get(leak.columns[0])
        if column is None or column.is_date or column.numbers is None or not (column.numbers == np.rint(column.numbers)).all():
            return None
        return derived_edges(column, self._shown(leak.key))


def derived_edges(column: OrderedColumn, shown: NDArray[np.int32], *, most: int = 60) -> str | None:
    """The edges at which a column of whole numbers passes from one shown level to the next, as ``edges 1940 1945``."""
    assert column.numbers is not None
    has_both = (column.codes >= 0) & (shown >= 0)
    n_shown = int(shown.max(initial=0)) + 1
    joint = np.bincount(column.codes[has_both].astype(np.int64) * n_shown + shown[has_both], minlength=column.n_levels * n_shown)
    of_value = joint.reshape(column.n_levels, n_shown)
    there = np.flatnonzero(of_value.sum(axis=1))
    if len(there) < 2:
        return None
    level = of_value[there].argmax(axis=1)
    changes = np.flatnonzero(level[1:] != level[:-1]) + 1
    if not 0 < len(changes) <= most or len(np.unique(level)) < len(changes) + 1:
        return None
    return "edges " + " ".join(f"{edge:.0f}" for edge in column.numbers[there[changes]])


# ---------------------------------------------------------------------- a release of any tool

ROW_ORDER = "the order of the records"
"""What the order of the records is called where it is looked at like a column."""


def leaks_between(original: Microdata, released: Microdata, rows: NDArray[np.int64] | None = None) -> tuple[Leak, ...]:
    """Columns of a released file, whichever tool made it, that tell about the original values of its keys.

    A key is recoded as far as several original values became one, and otherwise changed or blanked where its value is not the
    one that the same original value has elsewhere. ``rows`` has the row of the original for each row of the released file.
    """
    names = released_names(released)
    shown = read_columns(released.source, released.columns, list(dict.fromkeys([*names, *released.keys])))
    values = read_columns(original.source, original.columns, original.keys)
    concealed = []
    for key in original.keys:
        own, after = values[key], shown[key].codes
        codes = own.codes if rows is None else own.codes[rows]
        if len(codes) != len(after):
            return ()
        meant = _usual(codes, after, own.n_levels, shown[key].n_levels)
        here = (codes >= 0) & (meant >= 0)
        if len(np.unique(meant[here])) < len(np.unique(codes[here])):
            concealed.append(Concealed(key, RECODED, codes, np.where(here, meant, -1), int(here.sum()), own.numbers))
        for by, changed in ((SWAPPED, here & (after >= 0) & (after != meant)), (BLANKED, here & (after < 0))):
            if changed.any():
                concealed.append(Concealed(key, by, meant, np.where(here, 0, -1).astype(np.int32), int(changed.sum())))
    homes, codes_of = joined_names(released.household_columns), released.household_codes()
    order = OrderedColumn(ROW_ORDER, np.arange(len(next(iter(shown.values())).codes), dtype=np.int32), released.n_records)
    leaks_found: list[Leak] = []
    for change in concealed:
        beside = [shown[name] for name in names if change.by == RECODED or name not in released.keys]
        leaks_found += leaks([change], [*beside, order], households=None if codes_of is None else (homes, codes_of))
    return tuple(leaks_found)


def _usual(codes: Integers, after: Integers, n_levels: int, n_after: int) -> NDArray[np.int32]:
    """For each record, the released value that its original value has most often; −1 where it has none."""
    has_both = (codes >= 0) & (after >= 0)
    pair, n = np.unique(codes[has_both].astype(np.int64) * n_after + after[has_both], return_counts=True)
    order = np.argsort(n, kind="stable")
    usual = np.full(n_levels + 1, -1, dtype=np.int32)
    usual[pair[order] // n_after] = pair[order] % n_after
    return np.asarray(usual[codes])


# ---------------------------------------------------------------------- words


def leak_summaries(
    all_leaks: Sequence[Leak], table: ContingencyTable | None, accepted: Sequence[str] = ()
) -> tuple[LeakSummary, ...]:
    """The leaks worth telling, with a sentence for each."""
    listed = [leak for leak in all_leaks if leak.is_worth_telling][:MOST_LEAKS]
    return tuple(
        LeakSummary(
            column=" + ".join(leak.columns),
            columns=leak.columns,
            key=leak.key,
            treated=leak.by,
            determines=round(leak.determines, 4),
            how=leak.how,
            records=leak.records,
            restores=leak.restores,
            accepted=leak.restores and _is_accepted(leak, accepted),
            sentence=sentence_of(leak, table),
        )
        for leak in listed
    )


def _is_accepted(leak: Leak, accepted: Sequence[str]) -> bool:
    """Whether one of the columns was accepted by name; of a household that takes several columns, all of them."""
    return any(name in accepted or set(names_in(name)) <= set(accepted) for name in leak.columns)


def sentence_of(leak: Leak, table: ContingencyTable | None) -> str:
    """What columns tell about a key."""
    names = " and ".join(f"'{name}'" for name in leak.columns)
    what = {
        "values": f"{names} {verb(len(leak.columns), 'tells', 'together tell')}",
        "order": f"the order of {names} tells" if leak.columns[0] != ROW_ORDER else f"{ROW_ORDER} tells",
        "part": f"a part of {names}, such as some of its digits or words, tells",
        "sum": f"{names} added up or subtracted tell",
        "ratio": f"{names} multiplied or divided tell",
        "rows counted": f"counting the rows of one {names} tells",
    }.get(leak.how, f"the rows of one {names} tell together ({leak.how})")
    where = ""
    if leak.shown is not None and table is not None:
        where = f" among those shown as '{table.categories[table.keys.index(leak.key)].shown[leak.shown]}'"
    concealed = {
        RECODED: f"what the recoding of '{leak.key}' conceals",
        SWAPPED: f"the original value of '{leak.key}' where it was swapped",
        BLANKED: f"the value of '{leak.key}' where it was blanked",
    }[leak.by]
    return f"{what[0].upper()}{what[1:]} {percent(leak.determines)} of {concealed}{where}."


class ColumnsGiveKeysAway(BadInput):
    """Columns beside the keys restore what was done to a key."""


def refuse_leaks(all_leaks: Sequence[Leak], accepted: Sequence[str], search: LeakSearch) -> None:
    """Stop where columns restore a treated key, unless one of them was accepted by name; say what can be done."""
    open_ones = [leak for leak in all_leaks if leak.restores and not _is_accepted(leak, accepted)]
    if not open_ones:
        return
    sentences = " ".join(sentence_of(leak, search.table) for leak in open_ones[:6])
    if len(open_ones) > 6:
        sentences += f" And {counted(len(open_ones) - 6, 'more column')}."
    ways = []
    for leak in open_ones[:3]:
        words = search.derived_recoding(leak)
        if words is not None:
            ways.append(f"recode '{leak.columns[0]}' the same way (--treat \"{leak.columns[0]}={words}\")")
    swapped = sorted({leak.columns[-1] for leak in open_ones if leak.by == SWAPPED and len(leak.columns) == 1})
    if search.data.weight in swapped:
        ways.append("recompute the survey weights after the swaps (--rake)")
    travelling = [name for name in swapped if name != search.data.weight]
    if travelling:
        ways.append(f"let it travel with the swap (--carry {','.join(travelling)})")
    homes = search.data.household_columns
    first_columns = [homes if leak.columns[0] == joined_names(homes) else leak.columns[:1] for leak in open_ones]
    dropped = list(dict.fromkeys(name for names in first_columns for name in names))
    ways.append("leave it out of the release (" + " ".join(f'--treat "{name}=drop"' for name in dropped[:4]) + ")")
    ways.append(
        "accept it by name, which the report then says (" + " ".join(f"--accept-leak {name}" for name in dropped[:4]) + ")"
    )
    n = len(open_ones)
    first = f"{number(n)} {verb(n, 'column gives', 'columns or sets of columns give')} away what is done to a key. {sentences}"
    raise ColumnsGiveKeysAway(f"{first} Either {'; or '.join(ways)}.")


def around_keys(request: ProtectConfig, data: Microdata, release: Release, treated: Treated) -> ReleaseSummary:
    """What stands around the keys; columns that restore a key stop the run unless they were accepted by name."""
    search = LeakSearch.of(data, release.before, treated)
    # A recomputed column goes with the released keys; that it would tell the keys of the original is no sign that it tells what was done.
    leaks_of_release = [leak for leak in search.of_release(release) if leak.columns[0] not in treated.words]
    refuse_leaks(leaks_of_release, request.accept_leak, search)
    return ReleaseSummary(
        identifiers="renumbered" if set(data.household_columns) - treated.dropped else "dropped",
        leaks=leak_summaries(leaks_of_release, release.before, request.accept_leak),
        treatments=treatment_summaries(data, release.before, request.treat, treated),
    )

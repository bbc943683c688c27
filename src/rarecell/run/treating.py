"""What is done to columns that are no keys, what does it cost, and what does it protect?

The treatments themselves are in :mod:`rarecell.release.treatments`; here the columns of a file are read, treated, and measured before
and after. Random treatments are seeded like the swaps: secretly, when a release is written.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rarecell.data.coding import Coding, coarse_date, code_levels
from rarecell.data.counting import number_of_each
from rarecell.data.levels import settle
from rarecell.data.microdata import Microdata
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
    Step,
    parse_treatments,
)
from rarecell.data.whole_file import OrderedColumn, ordered_codes
from rarecell.data.written import levels_to_write
from rarecell.engine.arrays import EncodedColumn, as_arrow, code_chunk, unified
from rarecell.engine.changes import Changes, Recodes, WrittenLevels
from rarecell.errors import BadInput, UnknownColumns
from rarecell.outcome.release import TreatmentSummary
from rarecell.outcome.words import number, percent
from rarecell.release import treatments
from rarecell.release.treatments import Moments, correlation_ratio, linked_share
from rarecell.table.contingency import Categories, ContingencyTable

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Treated:
    """New values for every record of some columns, levels for others, and columns that are not released.

    ``before`` and ``after`` have the columns as codes in the order of their values, for whoever looks at the whole file.
    """

    values: Mapping[str, pa.Array] = field(default_factory=dict)
    recodes: Recodes = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()
    before: Mapping[str, OrderedColumn] = field(default_factory=dict)
    after: Mapping[str, OrderedColumn] = field(default_factory=dict)

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
        if name == data.id:
            raise BadInput(f"'{name}' names the record; a handover leaves it out. Leave it out of --treat.")
        if name in data.household_columns and steps.get(name, (Step(DROP),))[0].kind != DROP:
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
        for one, column in encoded.items():
            before[one] = ordered_codes(column, data.columns[one], decimal_mark=data.source.decimal_mark)
        rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
        if steps[0].kind == LEVELS:
            assert steps[0].coding is not None
            recodes[name] = _levels(data, name, encoded[name], steps[0].coding)
        elif steps[0].kind == PRAM:
            assert steps[0].share is not None
            values[name] = _randomised(encoded[name], before[name], steps[0].share, rng)
        elif steps[0].kind == DATE:
            values[name] = _coarse_dates(encoded[name], name, steps[0].unit)
        else:
            values |= _numbers(data, names, before, steps, rng)
    after = _after(data, before, values, recodes)
    return Treated(values, recodes, frozenset(dropped), before, after)


def _after(
    data: Microdata, before: Mapping[str, OrderedColumn], values: Mapping[str, pa.Array], recodes: Recodes
) -> dict[str, OrderedColumn]:
    found = {
        name: ordered_codes(unified([code_chunk(array)]), data.columns[name], decimal_mark=data.source.decimal_mark)
        for name, array in values.items()
    }
    for name, written in recodes.items():
        level_of = np.append(written.level_of_value, -1)
        encoded = data.source.encode([name]).columns[0]
        # Recodes list the distinct values in the order in which the source encodes them.
        found[name] = OrderedColumn(name, level_of[encoded.codes].astype(np.int32), max(1, len(written.levels)))
    return found


def _levels(data: Microdata, name: str, encoded: EncodedColumn, coding: Coding) -> WrittenLevels:
    raw = settle(encoded.values, data.columns[name], decimal_mark=data.source.decimal_mark)
    coded = code_levels(name, raw, number_of_each(encoded, None), coding, level_order=data.columns[name].level_order)
    return levels_to_write(encoded.values, coded.code_of_value, raw.values, Categories(name, coded.levels, coded.is_ordered))


def _randomised(encoded: EncodedColumn, column: OrderedColumn, keep: float, rng: np.random.Generator) -> pa.Array:
    codes = np.where(column.codes >= 0, encoded.codes, -1).astype(np.int64)
    drawn = treatments.post_randomised(codes, keep, rng)
    return encoded.values.take(as_arrow(np.where(drawn >= 0, drawn, encoded.codes).astype(np.int64)))


def _coarse_dates(encoded: EncodedColumn, name: str, unit: str) -> pa.Array:
    """Dates cut to the month, quarter or year: the first day of it where the column has a type, otherwise text without the day."""
    values = encoded.values
    if pa.types.is_temporal(values.type):
        coarse = pc.floor_temporal(values, unit=unit).cast(values.type)
        return coarse.take(as_arrow(np.asarray(encoded.codes, dtype=np.int64)))
    found = [None if value in (None, "") else coarse_date(value, name, unit) for value in values.to_pylist()]
    return pa.array(found, pa.string()).take(as_arrow(np.asarray(encoded.codes, dtype=np.int64)))


def _numbers(
    data: Microdata, names: list[str], before: Mapping[str, OrderedColumn], steps: tuple[Step, ...], rng: np.random.Generator
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
    found = np.round(values, digits + more)
    is_missing = np.isnan(found)
    if (found[~is_missing] == np.rint(found[~is_missing])).all() and digits == 0:
        return pa.array(np.where(is_missing, 0, found).astype(np.int64), mask=is_missing)
    return pa.array(found, mask=is_missing)


# ---------------------------------------------------------------------- what it costs and protects


def told_treatments(
    data: Microdata, table: ContingencyTable, words: Mapping[str, str], treated: Treated
) -> tuple[TreatmentSummary, ...]:
    """For each treated column, what it cost and what it protects."""
    weights = data.record_weights() if data.weight is not None else None
    cell = table.record_cell
    found = []
    for name in (*treated.values, *treated.recodes):
        group = next((one for one, text in words.items() if one == name or name in _together(text, one)), name)
        one, other = treated.before[name], treated.after[name]
        changed = int((_comparable(one) != _comparable(other)).sum()) if name in treated.values else int((one.codes >= 0).sum())
        base = TreatmentSummary(column=name, words=words[group], records=changed)
        if name in treated.values and one.numbers is not None and other.numbers is not None and not one.is_date:
            base = _with_numbers(base, one.values, other.values, weights, table, cell)
        found.append(base)
    found += [TreatmentSummary(column=name, words=words[name], records=data.n_records) for name in sorted(treated.dropped)]
    return tuple(found)


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
    one, other = Moments.of(before, weights), Moments.of(after, weights)
    key, was, now = "", None, None
    if cell is not None:
        codes = [np.where(cell >= 0, table.cells[cell, k], -1) for k in range(table.n_keys)]
        ratios = [(correlation_ratio(before, own), correlation_ratio(after, own)) for own in codes]
        worst = int(np.argmax([abs(a - b) for a, b in ratios]))
        key, (was, now) = table.keys[worst], ratios[worst]
    columns = before[:, None], after[:, None]
    with_keys = None if cell is None else (linked_share(columns[0], columns[0], cell), linked_share(*columns, cell))
    alone = linked_share(columns[0], columns[0]), linked_share(*columns)
    sentence = (
        f"'{base.column}' ({base.words}): the mean went from {number(one.mean)} to {number(other.mean)}, the standard deviation from "
        f"{number(one.spread)} to {number(other.spread)}; {percent(alone[1])} of the records are nearest to their own original, "
        f"{percent(alone[0])} before."
    )
    return TreatmentSummary(
        column=base.column,
        words=base.words,
        records=base.records,
        mean_before=one.mean,
        mean_after=other.mean,
        spread_before=one.spread,
        spread_after=other.spread,
        quantiles_before=one.quantiles,
        quantiles_after=other.quantiles,
        key=key,
        correlation_before=was,
        correlation_after=now,
        linked_before=alone[0],
        linked_after=alone[1],
        linked_with_keys_before=None if with_keys is None else with_keys[0],
        linked_with_keys_after=None if with_keys is None else with_keys[1],
        sentence=sentence,
    )

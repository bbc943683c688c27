"""Which columns of the released file give a treated key away, in words, and what can be done about it?

:mod:`rarecell.risk.leaks` measures it on codes; here the columns of a source become codes, without reading more than a sample of a
large file. Columns that a handover drops or renumbers, the record's id and the household number, are not looked at as columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rarecell.data.microdata import Microdata
from rarecell.engine.arrays import EncodedColumn, as_numpy, code_chunk, unified
from rarecell.engine.source import Column, Source
from rarecell.errors import BadInput
from rarecell.outcome.release import LeakSummary
from rarecell.outcome.words import counted, number, percent, verb
from rarecell.risk.leaks import BLANKED, RECODED, SWAPPED, Concealed, Integers, Leak, ReleasedColumn, leaks
from rarecell.table.contingency import ContingencyTable

MOST_RECORDS = 200_000
"""Of a larger file, a sample of this many records is looked at."""

MOST_TOLD = 30
"""Number of leaks that are reported."""


# ---------------------------------------------------------------------- columns as codes


def ordered_codes(encoded: EncodedColumn, column: Column, *, decimal_mark: str = ".") -> ReleasedColumn:
    """The codes of a column in the order of what its values mean: numbers, dates in any usual form, or words."""
    values = encoded.values
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    numbers = _numbers(values, column, decimal_mark)
    is_missing = as_numpy(pc.is_null(values)) if numbers is None else np.isnan(numbers)
    if column.user_missing:
        is_missing = is_missing | np.array([column.is_user_missing(value) for value in values.to_pylist()], dtype=bool)
    rank = np.full(len(values) + 1, -1, dtype=np.int32)
    there = np.flatnonzero(~is_missing)
    if numbers is not None:
        distinct, rank[there] = np.unique(numbers[there], return_inverse=True)
        is_date = column.kind == "date" or _is_date_text(values)
        return ReleasedColumn(column.name, rank[encoded.codes], max(1, len(distinct)), distinct, is_date)
    order = as_numpy(pc.array_sort_indices(pc.cast(values, pa.string()).take(pa.array(there))))
    rank[there[order]] = np.arange(len(there))
    return ReleasedColumn(column.name, rank[encoded.codes], max(1, len(there)))


_NUMBER = r"^\s*-?(\d+\.?\d*|\.\d+)\s*$"
_DATES = (
    (re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})([ T].*)?"), (1, 2, 3)),
    (re.compile(r"(\d{1,2})[./](\d{1,2})[./](\d{4})"), (3, 2, 1)),
)
"""Dates as text, and where their year, month and day stand; of 3/4/2024 the order of the days of a month is not needed."""


def _numbers(values: pa.Array, column: Column, decimal_mark: str) -> NDArray[np.float64] | None:
    """What distinct values mean as numbers, NaN for missing ones; None if they are words."""
    if column.kind in ("integer", "number", "boolean"):
        return _floats(values)
    if column.kind == "date":
        return _floats(values.cast(pa.timestamp("us")).cast(pa.int64()))
    if pa.types.is_null(values.type):
        return np.full(len(values), np.nan)
    text = pc.cast(values, pa.string())
    text = pc.if_else(pc.equal(text, ""), None, text)
    plain = pc.replace_substring(text, decimal_mark, ".") if decimal_mark != "." else text
    if pc.all(pc.match_substring_regex(plain, _NUMBER)).as_py() is not False:
        return _floats(pc.utf8_trim_whitespace(plain))
    listed = text.to_pylist()
    for pattern, (year, month, day) in _DATES:
        found = [None if value is None else pattern.fullmatch(value.strip()) for value in listed]
        if all(one is not None for one, value in zip(found, listed, strict=True) if value is not None):
            parts = [(np.nan,) * 3 if one is None else tuple(int(one[k]) for k in (year, month, day)) for one in found]
            return np.array([372.0 * y + 31.0 * m + d for y, m, d in parts])
    return None


def _is_date_text(values: pa.Array) -> bool:
    """Whether text that has the order of numbers is dates: a part of a date is not a number by itself."""
    if not pa.types.is_string(values.type) and not pa.types.is_large_string(values.type):
        return False
    return bool(pc.any(pc.match_substring_regex(values, r"\d[-./]\d+[-./]\d")).as_py())


def _floats(values: pa.Array) -> NDArray[np.float64]:
    floats = values.cast(pa.float64(), safe=False)
    return np.array(as_numpy(pc.fill_null(floats, float("nan"))), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class _Records:
    """Some records of a file: every column that may be released, as it stands there, and the cell of the keys of each record."""

    columns: Mapping[str, ReleasedColumn]
    cell: NDArray[np.int64]

    @classmethod
    def of(cls, data: Microdata, table: ContingencyTable) -> _Records:
        names = released_names(data)
        if data.household is not None:
            names.append(data.household)
        source, n = data.source, data.n_records
        if table.record_cell is not None and n <= MOST_RECORDS:
            return cls(read_columns(source, data.columns, names), table.record_cell)
        rng = np.random.default_rng(0)
        if table.record_cell is not None:
            rows = np.sort(rng.choice(n, MOST_RECORDS, replace=False))
            return cls(read_columns(source, data.columns, names, rows), table.cell_of(rows))
        numbers = np.sort(rng.choice(table.n_records, min(table.n_records, MOST_RECORDS // 4), replace=False))
        arrays = data.drawn_records(table, numbers, seed=0, columns=names)[1]
        return cls(_of_arrays(arrays, data.columns, source.decimal_mark), table.cell_of(numbers))


def released_names(data: Microdata) -> list[str]:
    """Columns that are released as they are: all but the names of records and households, and what no column can be compared by."""
    left_out = {data.id, data.household}
    return [name for name, column in data.columns.items() if name not in left_out and column.kind != "other"]


def read_columns(
    source: Source, columns: Mapping[str, Column], names: Sequence[str], rows: NDArray[np.int64] | None = None
) -> dict[str, ReleasedColumn]:
    """Columns of all records, or of those in some rows, as codes in the order of their values."""
    if rows is not None:
        return _of_arrays(source.take(rows, names), columns, source.decimal_mark)
    encoded = source.encode(names).columns
    return {
        name: ordered_codes(one, columns[name], decimal_mark=source.decimal_mark)
        for name, one in zip(names, encoded, strict=True)
    }


def _of_arrays(arrays: Mapping[str, pa.Array], columns: Mapping[str, Column], decimal_mark: str) -> dict[str, ReleasedColumn]:
    return {
        name: ordered_codes(unified([code_chunk(array)]), columns[name], decimal_mark=decimal_mark)
        for name, array in arrays.items()
    }


# ---------------------------------------------------------------------- what was concealed


@dataclass(frozen=True, eq=False)
class LeakSearch:
    """The columns of a file, ready to be held against what is done to its keys."""

    data: Microdata
    table: ContingencyTable
    records: _Records

    @classmethod
    def of(cls, data: Microdata, table: ContingencyTable) -> LeakSearch:
        return cls(data, table, _Records.of(data, table))

    def _shown(self, key: str) -> NDArray[np.int32]:
        """The level of a key that each record shows; −1 if the record was dropped."""
        cell = self.records.cell
        codes = self.table.cells[cell, self.table.keys.index(key)]
        return np.where(cell >= 0, codes, -1).astype(np.int32)

    def _columns(self) -> list[ReleasedColumn]:
        """Every column of the release; a recoded key as it is released."""
        found = []
        for name in released_names(self.data):
            column = self.records.columns[name]
            if name in self.data.recodes:
                n_levels = self.table.categories[self.table.keys.index(name)].n_levels
                column = ReleasedColumn(name, self._shown(name), n_levels)
            found.append(column)
        return found

    @property
    def _households(self) -> tuple[str, Integers] | None:
        """The household of each record, if membership is released and all members are among the records looked at."""
        name = self.data.household
        if name is None or len(self.records.cell) < self.table.n_records:
            return None
        codes = self.records.columns[name].codes.copy()
        alone = np.flatnonzero(codes < 0)
        codes[alone] = codes.max(initial=0) + 1 + np.arange(len(alone), dtype=codes.dtype)
        return name, codes

    def of_recodings(self) -> tuple[Leak, ...]:
        """Columns that tell about the values behind the levels of recoded keys."""
        concealed = []
        for key in self.data.recodes:
            own, shown = self.records.columns[key], self._shown(key)
            concealed.append(Concealed(key, RECODED, own.codes, shown, int((shown >= 0).sum()), own.numbers))
        return leaks(concealed, self._columns(), households=self._households) if concealed else ()

    def of_moved(
        self, moved: Mapping[str, int], blanked: Mapping[str, int], travels: Mapping[str, Iterable[str]]
    ) -> tuple[Leak, ...]:
        """Columns that tell about values that were swapped or blanked; numbers of records by key.

        ``travels`` has the keys that each travelling column moves with. Other keys are left out: swaps keep the tables of keys
        that have to do with each other.
        """
        others = [column for column in self._columns() if column.name not in self.table.keys]
        found: list[Leak] = []
        for by, numbers in ((SWAPPED, moved), (BLANKED, blanked)):
            for key, n in numbers.items():
                if n:
                    values = self._shown(key)
                    one = Concealed(key, by, values, np.where(values >= 0, 0, -1), n, None)
                    stays = [column for column in others if key not in travels.get(column.name, ())]
                    found += leaks([one], stays, households=self._households)
        return tuple(found)

    def derived_recoding(self, leak: Leak) -> str | None:
        """How to recode a column so that it shows no more of a recoded key than the key does, in words; None if no bands do it."""
        if leak.by != RECODED or len(leak.columns) != 1:
            return None
        column = self.records.columns.get(leak.columns[0])
        if column is None or column.is_date or column.numbers is None or not (column.numbers == np.rint(column.numbers)).all():
            return None
        return derived_edges(column, self._shown(leak.key))


def derived_edges(column: ReleasedColumn, shown: NDArray[np.int32], *, most: int = 60) -> str | None:
    """The edges at which a column of whole numbers passes from one shown level to the next, as ``edges 1940 1945``."""
    assert column.numbers is not None
    known = (column.codes >= 0) & (shown >= 0)
    n_shown = int(shown.max(initial=0)) + 1
    joint = np.bincount(column.codes[known].astype(np.int64) * n_shown + shown[known], minlength=column.n_levels * n_shown)
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
    order = ReleasedColumn(ROW_ORDER, np.arange(len(next(iter(shown.values())).codes), dtype=np.int32), released.n_records)
    found: list[Leak] = []
    for one in concealed:
        beside = [shown[name] for name in names if one.by == RECODED or name not in released.keys]
        found += leaks([one], [*beside, order])
    return tuple(found)


def _usual(codes: Integers, after: Integers, n_levels: int, n_after: int) -> NDArray[np.int32]:
    """For each record, the released value that its original value has most often; −1 where it has none."""
    known = (codes >= 0) & (after >= 0)
    pair, n = np.unique(codes[known].astype(np.int64) * n_after + after[known], return_counts=True)
    order = np.argsort(n, kind="stable")
    usual = np.full(n_levels + 1, -1, dtype=np.int32)
    usual[pair[order] // n_after] = pair[order] % n_after
    return np.asarray(usual[codes])


# ---------------------------------------------------------------------- words


def told_leaks(found: Sequence[Leak], table: ContingencyTable | None, accepted: Sequence[str] = ()) -> tuple[LeakSummary, ...]:
    """The leaks worth telling, with a sentence for each."""
    listed = [leak for leak in found if leak.is_worth_telling][:MOST_TOLD]
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
            accepted=leak.restores and any(name in accepted for name in leak.columns),
            sentence=sentence_of(leak, table),
        )
        for leak in listed
    )


def sentence_of(leak: Leak, table: ContingencyTable | None) -> str:
    """What columns tell about a key."""
    names = " and ".join(f"'{name}'" for name in leak.columns)
    what = {
        "values": f"{names} {verb(len(leak.columns), 'tells', 'together tell')}",
        "order": f"the order of {names} tells" if leak.columns[0] != ROW_ORDER else f"{ROW_ORDER} tells",
        "sum": f"{names} added up or subtracted tell",
        "rows counted": f"counting the rows of one {names} tells",
    }.get(leak.how, f"the rows of one {names} tell together ({leak.how})")
    where = ""
    if leak.shown is not None and table is not None:
        where = f" among those shown as '{table.categories[table.keys.index(leak.key)].labels[leak.shown]}'"
    concealed = {
        RECODED: f"what the recoding of '{leak.key}' conceals",
        SWAPPED: f"the original value of '{leak.key}' where it was swapped",
        BLANKED: f"the value of '{leak.key}' where it was blanked",
    }[leak.by]
    return f"{what[0].upper()}{what[1:]} {percent(leak.determines)} of {concealed}{where}."


class ColumnsGiveKeysAway(BadInput):
    """Columns beside the keys restore what was done to a key."""


def refuse_leaks(found: Sequence[Leak], accepted: Sequence[str], search: LeakSearch) -> None:
    """Stop where columns restore a treated key, unless one of them was accepted by name; say what can be done."""
    open_ones = [leak for leak in found if leak.restores and not any(name in accepted for name in leak.columns)]
    if not open_ones:
        return
    told = " ".join(sentence_of(leak, search.table) for leak in open_ones[:6])
    if len(open_ones) > 6:
        told += f" And {counted(len(open_ones) - 6, 'more column')}."
    ways = []
    for leak in open_ones[:3]:
        words = search.derived_recoding(leak)
        if words is not None:
            ways.append(f"recode '{leak.columns[0]}' the same way (--treat \"{leak.columns[0]}={words}\")")
    swapped = sorted({leak.columns[-1] for leak in open_ones if leak.by == SWAPPED and len(leak.columns) == 1})
    if swapped:
        ways.append(f"let it travel with the swap (--carry {','.join(swapped)})")
    dropped = list(dict.fromkeys(leak.columns[0] for leak in open_ones))
    ways.append("leave it out of the release (" + " ".join(f'--treat "{name}=drop"' for name in dropped[:4]) + ")")
    ways.append(
        "accept it by name, which the report then says (" + " ".join(f"--accept-leak {name}" for name in dropped[:4]) + ")"
    )
    n = len(open_ones)
    first = f"{number(n)} {verb(n, 'column gives', 'columns or sets of columns give')} away what is done to a key. {told}"
    raise ColumnsGiveKeysAway(f"{first} Either {'; or '.join(ways)}.")

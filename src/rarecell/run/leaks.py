"""Which columns of the released file give a treated key away, in words, and what can be done about it?

:mod:`rarecell.risk.leaks` measures it on codes. Columns that a handover drops or renumbers, the record's id and the household number, are not looked at as columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rarecell.data.microdata import Microdata
from rarecell.data.whole_file import Integers, OrderedColumn, WholeFile, read_columns
from rarecell.errors import BadInput
from rarecell.outcome.release import LeakSummary
from rarecell.outcome.words import counted, number, percent, verb
from rarecell.release.release import Release
from rarecell.risk.leaks import BLANKED, RECODED, SWAPPED, Concealed, Leak, leaks
from rarecell.run.treating import NOTHING, Treated
from rarecell.table.contingency import ContingencyTable

MOST_TOLD = 30
"""Number of leaks that are reported."""


# ---------------------------------------------------------------------- what was concealed


def released_names(data: Microdata) -> list[str]:
    """Columns that are released as they are: all but the names of records and households, and what no column can be compared by."""
    left_out = {data.id, *data.household_columns}
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
        found = []
        for name in released_names(self.data):
            if name in self.treated.dropped:
                continue
            column = self.whole.columns[name]
            if name in self.treated.after and self.whole.is_complete:
                column = self.treated.after[name]
            if name in self.data.recodes:
                n_levels = self.table.categories[self.table.keys.index(name)].n_levels
                column = OrderedColumn(name, self._shown(name), n_levels)
            found.append(column)
        return found

    @property
    def _households(self) -> tuple[str, Integers] | None:
        """The household of each record, if membership is released and all members are among the records looked at."""
        names = self.data.household_columns
        if not names or set(names) <= self.treated.dropped or not self.whole.is_complete or self.table.record_cell is None:
            return None
        codes = self.data.household_codes()
        return None if codes is None else (",".join(names), codes)

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
        column = self.whole.columns.get(leak.columns[0])
        if column is None or column.is_date or column.numbers is None or not (column.numbers == np.rint(column.numbers)).all():
            return None
        return derived_edges(column, self._shown(leak.key))


def derived_edges(column: OrderedColumn, shown: NDArray[np.int32], *, most: int = 60) -> str | None:
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
    order = OrderedColumn(ROW_ORDER, np.arange(len(next(iter(shown.values())).codes), dtype=np.int32), released.n_records)
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

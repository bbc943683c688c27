"""What is in a file: its columns with labels, levels and missing codes, and what each probably is?

Shown by ``rarecell describe`` and on the Keys page of the app.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rarecell.data.coding import code_lengths, leading
from rarecell.data.levels import settle
from rarecell.data.missing_codes import (
    MissingCode,
    joined_codes,
    parse_missing_codes,
    proposed_codes,
    shown_codes,
    with_missing_codes,
)
from rarecell.data.roles import ColumnFacts, may_number_a_part, suggest_role
from rarecell.engine import open_source
from rarecell.engine.duck import EngineSettings
from rarecell.errors import BadInput
from rarecell.outcome.plain import Plain
from rarecell.outcome.words import counted, listed
from rarecell.table.categories import shown_level

if TYPE_CHECKING:
    from rarecell.data.codebook import Codebook
    from rarecell.engine.source import Column, Source


_LEAST_LOOKED_AT, _MOST_LOOKED_AT, _MOST_VALUES = 1_000, 262_144, 50_000_000
"""Number of records by which a file is judged: fewer if it has many columns."""

_PREVIEW_COLUMNS, _PREVIEW_RECORDS = 12, 5
"""Number of columns and records shown as they are read."""

_FEW_LABELS = 60
"""Columns with at most this many values have all of them listed."""

_LARGEST_HOUSEHOLD = 15
"""Few households have more members than this."""

_FEWEST_HOUSEHOLDS, _MEAN_MEMBERS = 30, 8
"""Columns number households if there are so many at least, with so many members on average at most."""

_AT_ONCE = 100
"""Number of columns of a columnar file held in memory at once."""


@dataclass(frozen=True)
class ColumnProfile(Plain):
    """A column and what it probably is.

    ``levels`` counts the distinct values among the records examined, and ``examples`` are the commonest of them; ``labels``
    lists all of them if they are few; ``n_coded`` counts the records with a code that was declared to mean "missing", and
    ``missing_codes`` are such codes as the file declares them and ``proposed_missing`` further codes that look like it. ``role`` is the role suggested for a run, ``what`` says what the
    column looks like, and ``why`` gives the reason.
    """

    name: str
    kind: str
    levels: int
    n_missing: int
    examples: tuple[str, ...]
    role: str
    why: str
    labels: tuple[str, ...] = ()
    n_coded: int = 0
    label: str = ""
    what: str = "other"
    missing_codes: tuple[str, ...] = ()
    proposed_missing: tuple[MissingCode, ...] = ()


@dataclass(frozen=True)
class FileProfile(Plain):
    """A file and its columns; long files are judged by their first records."""

    n_records: int
    n_looked_at: int
    columns: tuple[ColumnProfile, ...]
    preview: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()
    sheets: tuple[str, ...] = ()
    sheet: str = ""

    @property
    def proposed_missing(self) -> str:
        """The codes that look as if they meant "missing", as the option for them is written; empty if there are none."""
        return joined_codes(
            {c.name: [proposal.code for proposal in c.proposed_missing] for c in self.columns if c.proposed_missing}
        )


@dataclass(frozen=True)
class Reading:
    """How a file is to be read, according to a person who knows it."""

    encoding: str = ""
    decimal: str = ""
    sheet: str = ""
    missing_codes: str = ""

    def codes(self, source: Source) -> Mapping[str, Sequence[str]]:
        """The codes for "missing" by column."""
        codes = parse_missing_codes(self.missing_codes)
        return proposed_missing_codes(source) if codes is None else codes


def profile_file(path: Path, reading: Reading | None = None, codebook: Codebook | None = None) -> FileProfile:
    """Look at the columns and the first records of a file; a codebook adds labels, codes for "missing" and roles."""
    asked = reading or Reading()
    source = open_source(
        path,
        settings=EngineSettings(encoding=asked.encoding or None, decimal=asked.decimal or None, sheet=asked.sheet or None),
    )
    columns = source.columns() if codebook is None else [codebook.applied(column) for column in source.columns()]
    said_missing = with_missing_codes({column.name: column for column in columns}, asked.codes(source))
    n_records = int(source.n_rows)
    n_looked_at = _looked_at(n_records, len(columns))
    profiles, preview = [], _Preview(columns)
    together: dict[str, NDArray[np.int32]] = {}
    for part in _parts(columns):
        readable = [column.name for column in part if column.kind != "other"]
        batch = next(iter(source.batches(readable)), None) if readable else None
        first = None if batch is None else batch.slice(0, n_looked_at)
        n_looked_at = n_looked_at if first is None else first.num_rows
        preview.add(readable, first)
        for column in part:
            if column.name not in readable or first is None:
                why = source.why_no_key(column.name) if column.kind == "other" else "has no value"
                profiles.append(ColumnProfile(column.name, column.kind, 0, 0, (), "none", f"{why[:1].upper()}{why[1:]}."))
                continue
            values = first.column(readable.index(column.name))
            if may_number_a_part(column.name, column.label):
                together[column.name] = pc.dictionary_encode(values, null_encoding="encode").indices.to_numpy()
            profiles.append(_profile(column, values, n_looked_at, said_missing[column.name], source.decimal_mark))
    notes, sheets, sheet = source.notes, source.sheets, source.sheet
    profiles = _with_household_of_two(profiles, together, n_looked_at)
    if codebook is not None:
        profiles = [_declared(profile, codebook) for profile in profiles]
    return FileProfile(n_records, n_looked_at, tuple(_one_of_each(profiles)), preview.rows, notes, sheets, sheet)


def _with_household_of_two(
    profiles: list[ColumnProfile], codes: Mapping[str, NDArray[np.int32]], n_records: int
) -> list[ColumnProfile]:
    """Give two columns the role of the household that they number together, if no column does so alone."""
    if any(profile.role == "household" for profile in profiles):
        return profiles
    able = {profile.name for profile in profiles if profile.role in ("none", "strata", "key") and profile.levels > 1}
    n_values = {name: int(of_column.max(initial=-1)) + 1 for name, of_column in codes.items()}
    pair = next(
        (
            (first, second)
            for first, second in combinations([name for name in codes if name in able], 2)
            # Two columns have no more combinations than the product of their values, which spares most pairs of a wide file.
            if n_values[first] * n_values[second] >= max(_FEWEST_HOUSEHOLDS, n_records / _MEAN_MEMBERS)
            and number_households(np.stack([codes[first], codes[second]], axis=1))
        ),
        (),
    )
    why = f"{' and '.join(pair)} together number households: records that share both stand together."
    return [
        replace(profile, role="household", what="household number", why=why) if profile.name in pair else profile
        for profile in profiles
    ]


def number_households(codes: NDArray[np.integer]) -> bool:
    """Whether the records that share the values of some columns stand together and are as many as a household has members."""
    groups = np.unique(codes, axis=0, return_inverse=True)[1].ravel()
    size = np.bincount(groups)
    n_runs = 1 + int((np.diff(groups) != 0).sum())
    is_small = 1.2 <= len(groups) / len(size) <= _MEAN_MEMBERS and size[size > _LARGEST_HOUSEHOLD].sum() <= 0.02 * len(groups)
    return bool(len(size) >= _FEWEST_HOUSEHOLDS and is_small and n_runs <= 1.02 * len(size))


def _declared(profile: ColumnProfile, codebook: Codebook) -> ColumnProfile:
    """A role that the codebook declares is not guessed; no other column is taken for a weight or an identifier then."""
    entry = codebook.columns.get(profile.name)
    if entry is not None and entry.role:
        return replace(profile, role=entry.role, what=entry.role, why=f"The {codebook.source} says so.")
    if profile.role in ("weight", "household", "id") and codebook.with_role(profile.role):
        return replace(profile, role="none", why=f"The {codebook.source} gives another column that role.")
    return profile


class _Preview:
    """The first records of the first columns as they are read: enough to see whether letters and numbers are right."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.names = [column.name for column in columns[:_PREVIEW_COLUMNS]]
        self._values: dict[str, list[str]] = {}

    def add(self, names: Sequence[str], batch: Any) -> None:
        for name in self.names:
            if batch is not None and name in names:
                head = batch.column(list(names).index(name)).slice(0, _PREVIEW_RECORDS).to_pylist()
                self._values[name] = ["" if value is None else _short(value) for value in head]

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """The names of the columns, then the records."""
        names = [name for name in self.names if name in self._values]
        return (tuple(names), *zip(*(self._values[name] for name in names), strict=True)) if names else ()


def _parts(columns: Sequence[Column]) -> Iterator[Sequence[Column]]:
    """Groups of columns examined together: all of a text file, which is read line by line, or some of a columnar file."""
    at_once = len(columns) if all(column.kind == "untyped" for column in columns) else _AT_ONCE
    for first in range(0, len(columns), max(1, at_once)):
        yield columns[first : first + at_once]


def _one_of_each(profiles: list[ColumnProfile]) -> list[ColumnProfile]:
    """A file has at most one weight, one household and one identifier: the first column keeps the role, or two that have it together."""
    holder: dict[str, str] = {}
    kept = []
    for profile in profiles:
        first = holder.setdefault(profile.role, profile.name)
        is_second = first != profile.name and not profile.why.startswith(f"{first} and {profile.name} together")
        if profile.role in ("weight", "household", "id") and is_second:
            profile = replace(profile, role="none", why=f"{profile.why} But {first} has that role already.")
        kept.append(profile)
    return kept


def _profile(column: Column, values: Any, n_records: int, said_missing: Column, decimal_mark: str = ".") -> ColumnProfile:
    present = _present(column, values)
    n_coded = sum(row["counts"] for row in present if said_missing.is_user_missing(row["values"]))
    present = [row for row in present if not said_missing.is_user_missing(row["values"])]
    n_missing = n_records - sum(row["counts"] for row in present)
    if column.stored_date is not None:
        # Numbers that stand for no date are shown as they are.
        with contextlib.suppress(BadInput):
            dates = settle(pa.array([row["values"] for row in present]), column).values
            present = [{**row, "values": date} for row, date in zip(present, dates, strict=True) if date is not None]
    # Values that occur once are not shown: on a screen they could reveal a person.
    repeated = [row for row in present if row["counts"] > 1]
    commonest = sorted(repeated, key=lambda row: (-row["counts"], str(row["values"])))[:4]
    examples = tuple(_short(shown_level(row["values"], column.value_labels)) for row in commonest)
    numbers = _numbers([row["values"] for row in present], decimal_mark)
    is_number = numbers is not None and bool(numbers)
    kind = "number" if is_number else "text" if column.kind in ("untyped", "text") else column.kind
    n_runs, is_rising = _order(values, numbers)
    suggestion = suggest_role(
        ColumnFacts(
            name=column.name,
            label=column.label,
            n_levels=len(present),
            n_records=n_records,
            numbers=numbers or None,
            total=sum(n * row["counts"] for n, row in zip(numbers or (), present, strict=False)),
            n_runs=n_runs,
            is_rising=is_rising,
            is_date=column.kind == "date" or column.stored_date is not None or _are_dates([row["values"] for row in present]),
            mean_length=_mean_length(present),
            value_labels=tuple(str(label) for label in column.value_labels.values()),
        )
    )
    labels = tuple(sorted(str(row["values"]) for row in present)) if len(present) <= _FEW_LABELS else ()
    declared = [code for code in column.user_missing if not str(code).startswith(".")]
    missing = tuple(dict.fromkeys(_short(shown_codes(code)) for code in declared))
    return ColumnProfile(
        column.name,
        "date" if suggestion.what == "date" else kind,
        len(present),
        n_missing,
        examples,
        suggestion.role,
        " ".join(
            filter(
                None,
                (
                    suggestion.why,
                    _as_codes([row["values"] for row in present])
                    if suggestion.role in ("key", "none") and suggestion.what != "date"
                    else "",
                ),
            )
        ),
        labels,
        n_coded,
        column.label,
        suggestion.what,
        missing,
        proposed_codes(column, {row["values"]: row["counts"] for row in present}, numbers or None),
    )


def _as_codes(values: Sequence[Any]) -> str:
    """How values that look like codes can be made coarser, in a sentence; empty if they do not."""
    lengths = code_lengths(values)
    if not lengths:
        return ""
    made = [f"“first {counted(n, 'character')}” makes {counted(len(set(leading(values, n))), 'group')}" for n in lengths]
    return f"The values look like codes, which can be recoded: {listed(made)}."


def _present(column: Column, values: Any) -> list[dict[str, Any]]:
    """The values of a column with the number of records that have each, without those that mean "missing"."""
    counted = values.value_counts().to_pylist()
    return [row for row in counted if row["values"] not in (None, "") and not column.is_user_missing(row["values"])]


def proposed_missing_codes(source: Source) -> dict[str, tuple[str, ...]]:
    """Codes of each column that look as if they meant "missing", as :func:`profile_file` proposes them."""
    if not source.keeps_rows:
        raise BadInput(
            f"Codes for missing values are proposed by looking at records in their order, which those of {source.name} do not have. Name the "
            'codes: --missing-codes "age=-9,99".'
        )
    columns = [column for column in source.columns() if column.kind != "other"]
    proposed = {}
    for part in _parts(columns):
        batch = next(iter(source.batches([column.name for column in part])), None)
        for column, values in zip(part, () if batch is None else batch.columns, strict=False):
            rows = _present(column, values.slice(0, _looked_at(source.n_rows, len(columns))))
            numbers = _numbers([row["values"] for row in rows], source.decimal_mark)
            codes = proposed_codes(column, {row["values"]: row["counts"] for row in rows}, numbers or None)
            if codes:
                proposed[column.name] = tuple(proposal.code for proposal in codes)
    return proposed


def _looked_at(n_records: int, n_columns: int) -> int:
    """Number of records by which a file is judged."""
    return min(n_records, max(_LEAST_LOOKED_AT, min(_MOST_LOOKED_AT, _MOST_VALUES // max(1, n_columns))))


def _order(values: Any, numbers: list[float] | None) -> tuple[int, bool]:
    """Number of groups of neighbouring records with the same value, and whether the values never fall."""
    column = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if len(column) < 2:
        return len(column), False
    first, second = column.slice(0, len(column) - 1), column.slice(1)
    differs = pc.fill_null(pc.not_equal(first, second), True)
    if numbers is not None and pa.types.is_string(column.type):
        try:
            column = pc.cast(column, pa.float64())
        except pa.ArrowInvalid:
            return int(pc.sum(differs).as_py()) + 1, False
        first, second = column.slice(0, len(column) - 1), column.slice(1)
    falls = pc.fill_null(pc.greater(first, second), False)
    return int(pc.sum(differs).as_py()) + 1, not pc.any(falls).as_py()


_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[./]\d{1,2}[./]\d{2,4}")


def _are_dates(values: Sequence[Any]) -> bool:
    return bool(values) and all(isinstance(value, str) and _DATE.match(value) for value in values[:200])


def _mean_length(present: Sequence[Any]) -> float:
    texts = [(len(row["values"]), int(row["counts"])) for row in present if isinstance(row["values"], str)]
    return float(sum(n * times for n, times in texts)) / max(sum(times for _, times in texts), 1)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 24 else f"{text[:23]}…"


def _numbers(values: list[Any], decimal_mark: str) -> list[float] | None:
    """The values as numbers, or None if one of them is not a number."""
    # With a decimal comma, a point makes a value text, as it does when the file is read for a run.
    swapped = str.maketrans({",": ".", ".": ","}) if decimal_mark == "," else {}
    try:
        return [float(value.translate(swapped) if isinstance(value, str) else value) for value in values]
    except (TypeError, ValueError):
        return None

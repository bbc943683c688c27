"""How many people share each record's values, when the office holds the population?

A register makes a model unnecessary: F of every cell is counted. The register may be any data the program reads; its engine
counts combinations of the keys, and no record of it is kept. Values are compared by meaning, not by how they are stored, so
``1`` in a Parquet file is ``1`` in a CSV file, and the register's values of a banded key are put into the file's bands.

Everyone in the file belongs to the population. Where the register has fewer people with some values than the file has
records, the two disagree; the number of records is then used, which overstates the risk rather than understating it.

An intruder who searches nearby values also needs the people whose values no record has. They are kept as well, in the combined
levels of the file and the register.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.counting import CellIndex
from rarecell.data.coding import Coding, code_levels
from rarecell.data.levels import RawLevels, settle
from rarecell.engine import open_source
from rarecell.engine.arrays import EncodedColumn
from rarecell.engine.source import Column, Source, levels_of
from rarecell.errors import BadInput, UnknownColumns
from rarecell.outcome.roles import CalibrationSummary
from rarecell.risk.records import RecordRisk
from rarecell.table.alignment import places, together
from rarecell.table.contingency import Categories, ContingencyTable

if TYPE_CHECKING:
    from rarecell.data.microdata import Microdata
    from rarecell.edges import Frame, Level
    from rarecell.engine.duck import EngineSettings

CALIBRATION_EDGES = (0.0, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Estimated probabilities between two consecutive edges are compared with the share that turned out true."""


@dataclass(frozen=True, eq=False)
class RegisterCounts:
    """Exact population counts of the occupied cells of a file.

    Attributes
    ----------
    table : ContingencyTable
        The cells of the file.
    in_register : ndarray of int
        Number of people in the register in each cell.
    n_register : int
        Number of people in the register.
    people : ContingencyTable
        Everyone in the register by their key values; people in a band that the file does not have are left out.
    place : tuple of ndarray of int
        For each key, the code in ``people`` of each level of ``table``.
    """

    table: ContingencyTable
    in_register: NDArray[np.int64] = field(repr=False)
    n_register: int
    people: ContingencyTable = field(repr=False)
    place: tuple[NDArray[np.int32], ...] = field(repr=False)

    @cached_property
    def population_count(self) -> NDArray[np.int64]:
        """F of each cell: the count in the register, but never less than the number of records in the file."""
        return np.maximum(self.in_register, self.table.counts)

    @cached_property
    def n_not_covered(self) -> int:
        """Number of records of the file for which the register has nobody."""
        return int(np.maximum(self.table.counts - self.in_register, 0).sum())

    @property
    def population_uniques(self) -> int:
        """Number of sample uniques that are unique in the population."""
        return int((self.population_count[self.table.unique_cells] == 1).sum())

    @property
    def correct_matches(self) -> float:
        """Σ 1/F over the sample uniques: the number of links that an intruder with the register is expected to get right."""
        return float((1.0 / self.population_count[self.table.unique_cells]).sum())

    def risk(self, estimated: RecordRisk) -> CountedRisk:
        """The counted risk of every record, in place of an estimated one."""
        self._expect_same_cells(estimated)
        return CountedRisk(
            **{part.name: getattr(estimated, part.name) for part in fields(estimated)}, population_count=self.population_count
        )

    def among(self, table: ContingencyTable) -> RegisterCounts:
        """The counts for another table of the same levels, such as a projection to fewer keys."""
        people = self.people.project(list(table.keys))
        place = tuple(
            places(of_key.levels, of_people.levels) for of_key, of_people in zip(table.categories, people.categories, strict=True)
        )
        cells = np.stack([of_key[table.cells[:, k]] for k, of_key in enumerate(place)], axis=1)
        position = people.marginals.positions(people.all_keys, np.ascontiguousarray(cells))
        in_register = np.where(position >= 0, people.counts[position], 0)
        return RegisterCounts(table, in_register, self.n_register, people, place)

    def _expect_same_cells(self, risk: RecordRisk) -> None:
        if not np.array_equal(risk.table.cells, self.table.cells):
            raise BadInput("The risk is that of another table than the register was counted for; use the table of the same data.")

    def calibration(self, risk: RecordRisk) -> tuple[CalibrationSummary, ...]:
        """Estimated probabilities of the sample uniques by band, compared with the share that was true."""
        self._expect_same_cells(risk)
        alone = self.table.unique_cells
        estimated, is_true = risk.unique_probability[alone], self.population_count[alone] == 1
        band = np.clip(np.searchsorted(CALIBRATION_EDGES, estimated, side="right") - 1, 0, len(CALIBRATION_EDGES) - 2)
        bands = []
        for b in np.unique(band).tolist():
            among = band == b
            bands.append(
                CalibrationSummary(
                    low=CALIBRATION_EDGES[b],
                    high=CALIBRATION_EDGES[b + 1],
                    records=int(among.sum()),
                    estimated=float(estimated[among].mean()),
                    true=float(is_true[among].mean()),
                )
            )
        return tuple(bands)

    def __str__(self) -> str:
        text = (
            f"The register of {self.n_register:,} people shows that {self.population_uniques:,} of the {len(self.table.unique_cells):,} "
            f"records that are unique in the file are unique in the population; an intruder who holds it gets "
            f"{self.correct_matches:,.1f} links right."
        )
        if self.n_not_covered:
            text += f" It does not cover {self.n_not_covered:,} records of the file; each is taken as if it were in it."
        return text


@dataclass(frozen=True, eq=False)
class CountedRisk(RecordRisk):
    """The risk of every record when the population is known: a sample unique either is unique in it or is not.

    Attributes
    ----------
    population_count : ndarray of int
        Number of people in each cell.
    """

    population_count: NDArray[np.int64] = field(kw_only=True, repr=False)

    @property
    def standard_error(self) -> None:
        """None, because nothing was fitted."""
        return None

    def riskiest(self, k: int) -> NDArray[np.int64]:
        """Numbers of the ``k`` sample uniques with the fewest people; ties are in the order of the cells."""
        alone = np.flatnonzero(self.sample_count == 1)
        return self._rows_of(alone[np.lexsort((alone, self.population_count[alone]))[: max(k, 0)]])

    @cached_property
    def unique_probability(self) -> NDArray[np.float64]:
        """1 for cells with one person in the population and one in the file, else 0."""
        return np.asarray((self.sample_count == 1) & (self.population_count == 1), dtype=np.float64)

    @cached_property
    def match_probability(self) -> NDArray[np.float64]:
        """1/F of each cell."""
        return np.asarray(1.0 / self.population_count)


def register_counts(
    data: Microdata, register: Frame, *, table: ContingencyTable | None = None, settings: EngineSettings | None = None
) -> RegisterCounts:
    """Count the people of a register in every cell of a file.

    Parameters
    ----------
    data : Microdata
        The file, with its keys and their coding.
    register : path or frame
        The population from any source: a path, or a frame of pandas, polars, pyarrow, DuckDB or Spark. Its columns must include
        the keys, under the same names.
    table : ContingencyTable, optional
        The table of ``data``, or a projection of it to fewer keys; by default that of all keys.
    settings : EngineSettings, optional
        How much of the machine reading may use.

    Returns
    -------
    RegisterCounts
        The number of people in each cell.

    Examples
    --------
    >>> import pyarrow as pa, rarecell as rc
    >>> data = rc.Microdata(pa.table({"age": [30, 40, 41], "sex": ["f", "m", "m"]}), keys=["age", "sex"])
    >>> register = pa.table({"age": [30, 40, 40, 41, 50], "sex": ["f", "m", "m", "m", "m"]})
    >>> counts = register_counts(data, register)
    >>> counts.in_register.tolist(), counts.population_uniques, counts.correct_matches
    ([1, 2, 1], 2, 2.5)
    """
    counted_for = data.table() if table is None else table
    source = open_source(register, settings=settings)
    columns = {column.name: column for column in source.columns()}
    unknown = [key for key in counted_for.keys if key not in columns]
    if unknown:
        raise UnknownColumns.among(unknown, list(columns), role="column of the register")
    in_file = {key: _FileKey.of(data, key) for key in counted_for.keys}
    recodes = _bands(source, columns, {key: file_key for key, file_key in in_file.items() if file_key.coding.cuts_values})
    grouped = source.counts(counted_for.keys, recodes=recodes)
    codes, everybody = [], []
    for of_key, column in zip(counted_for.categories, grouped.columns, strict=True):
        if of_key.key in recodes:
            of_value = np.array(column.values.to_pylist(), dtype=np.int32)
            joint = _Joint(of_key, of_value)
        else:
            raw = settle(column.values, columns[of_key.key], decimal_mark=source.decimal_mark)
            of_value = in_file[of_key.key].codes_of(raw)
            joint = _Joint.of(of_key, in_file[of_key.key].plain(raw), of_value)
        _refuse_nothing_in_common(of_key, of_value, source)
        codes.append(of_value[column.codes])
        everybody.append((joint, joint.codes[column.codes]))
    # The index is −1 for people who are in no cell of the file.
    cell = CellIndex(counted_for.cells, [c.n_levels for c in counted_for.categories]).find(codes)
    in_register = np.zeros(counted_for.n_cells, dtype=np.int64)
    np.add.at(in_register, cell[cell >= 0], grouped.counts[cell >= 0])
    people = _people([joint.categories for joint, _ in everybody], [own for _, own in everybody], grouped.counts)
    place = tuple(
        places(of_key.levels, joint.categories.levels)
        for of_key, (joint, _) in zip(counted_for.categories, everybody, strict=True)
    )
    return RegisterCounts(counted_for, in_register, int(grouped.counts.sum()), people, place)


def register_records(
    data: Microdata, register: Frame, columns: Sequence[str], *, settings: EngineSettings | None = None
) -> tuple[NDArray[np.int32], tuple[Categories, ...], NDArray[np.int64]]:
    """The people of a register one by one: their keys in the combined levels of file and register, and a number for ``columns``.

    A value of a banded key that lies in no band of the file becomes a level of its own. The number is the same for people who
    agree on all of ``columns``.
    """
    source = open_source(register, settings=settings)
    known = {column.name: column for column in source.columns()}
    unknown = [name for name in (*data.keys, *columns) if name not in known]
    if unknown:
        raise UnknownColumns.among(unknown, list(known), role="column of the register")
    encoded = source.encode([*data.keys, *columns]).columns
    codes, categories = [], []
    for key, of_key, column in zip(data.keys, data.table().categories, encoded, strict=False):
        in_file = _FileKey.of(data, key)
        raw = settle(column.values, known[key], decimal_mark=source.decimal_mark)
        if in_file.coding.cuts_values:
            of_value = in_file.banded_codes_of(raw)
            joint = _Joint(of_key, of_value)
            if (of_value < 0).any():
                real = of_key.levels[: of_key.n_levels - of_key.has_missing]
                wider = of_key.with_levels((*real, _OUTSIDE, *of_key.levels[len(real) :]))
                place = places(of_key.levels, wider.levels)
                joint = _Joint(wider, np.where(of_value < 0, len(real), place[of_value]).astype(np.int32))
        else:
            of_value = in_file.codes_of(raw)
            joint = _Joint.of(of_key, in_file.plain(raw), of_value)
        _refuse_nothing_in_common(of_key, of_value, source)
        codes.append(joint.codes[column.codes])
        categories.append(joint.categories)
    of_columns = np.zeros(len(codes[0]), dtype=np.int64)
    for column in encoded[len(data.keys) :]:
        of_columns = np.unique(of_columns * (len(column.values) + 1) + column.codes, return_inverse=True)[1]
    return np.stack(codes, axis=1), tuple(categories), of_columns


_OUTSIDE = "outside the bands of the file"


@dataclass(frozen=True, eq=False)
class _Joint:
    """Combined levels of a key in the file and the register, and the code of each value of the register; −1 for none."""

    categories: Categories
    codes: NDArray[np.int32]

    @classmethod
    def of(cls, of_key: Categories, values: Sequence[Level], in_file: NDArray[np.int32]) -> _Joint:
        further = [value for value, code in zip(values, in_file, strict=True) if code < 0]
        if not further:
            return cls(of_key, in_file)
        levels = together([of_key.levels, further], of_key.is_ordered)
        known = np.append(places(of_key.levels, levels), np.int32(-1))[in_file]
        return cls(of_key.with_levels(levels), np.where(in_file < 0, places(values, levels), known))


def _people(categories: Sequence[Categories], codes: Sequence[NDArray[np.int32]], counts: NDArray[np.int64]) -> ContingencyTable:
    cells = np.stack(codes, axis=1)
    known = (cells >= 0).all(axis=1)
    return ContingencyTable.from_counts(cells[known], counts[known], categories)


@dataclass(frozen=True, eq=False)
class _FileKey:
    """A key of the file: its distinct values by meaning, and their codes."""

    key: str
    values: Sequence[Level]
    codes: NDArray[np.int32]
    coding: Coding

    @classmethod
    def of(cls, data: Microdata, key: str) -> _FileKey:
        lookup = data.lookup(key)
        raw = settle(lookup.values, data.columns[key], decimal_mark=data.source.decimal_mark)
        coding = data.coding.get(key, Coding())
        declared = {str(value) for value in coding.missing}
        values = [None if value is None or str(value) in declared else value for value in raw.values]
        return cls(key, values, lookup.codes, coding)

    def codes_of(self, raw: RawLevels) -> NDArray[np.int32]:
        """The file's code for each value of the register; −1 for a value that the file does not have."""
        # Compared as text, so that the number 1 and the text "1" are the same.
        code_of = {_text(value): int(code) for value, code in zip(self.values, self.codes, strict=True)}
        return np.array([code_of.get(_text(value), -1) for value in self.plain(raw)], dtype=np.int32)

    def plain(self, raw: RawLevels) -> list[Level]:
        """Values of the register, with those that the file declares missing as None."""
        declared = {str(value) for value in self.coding.missing}
        return [None if value is None or str(value) in declared else value for value in raw.values]

    def banded_codes_of(self, raw: RawLevels) -> NDArray[np.int32]:
        """As :meth:`codes_of`, for a banded key: a value that the file lacks may lie in a band that it has."""
        if self.coding.quantiles is not None:
            raise BadInput(
                f"Key '{self.key}' is coded by quantiles of the file, which say nothing of values between them, so a register cannot be "
                "put into its bands. Give edges or a width instead."
            )
        if not raw.is_numeric and any(value is not None for value in raw.values):
            raise BadInput(
                f"Key '{self.key}' is coded in bands of numbers, but the register has values of it that are not numbers."
            )
        together = RawLevels((*self.values, *raw.values), is_ordered=True, is_numeric=True)
        coded = code_levels(self.key, together, np.ones(len(together.values), dtype=np.int64), self.coding)
        level = coded.code_of_value
        code_of_level = dict(zip(level[: len(self.values)].tolist(), self.codes.tolist(), strict=True))
        return np.array([code_of_level.get(of_value, -1) for of_value in level[len(self.values) :].tolist()], dtype=np.int32)


def _bands(source: Source, columns: Mapping[str, Column], keys: Mapping[str, _FileKey]) -> dict[str, EncodedColumn]:
    """Codes of the register's values of banded keys, so that people are counted by band and not by value."""
    encoded = {}
    for key, (values, _) in levels_of(source, list(keys)).items():
        raw = settle(values, columns[key], decimal_mark=source.decimal_mark)
        encoded[key] = EncodedColumn(values, keys[key].banded_codes_of(raw))
    return encoded


def _text(value: Level) -> str | None:
    return None if value is None else str(value)


def _refuse_nothing_in_common(of_key: Categories, codes: NDArray[np.int32], source: Source) -> None:
    # That both lack a value of somebody is nothing they have in common.
    known = of_key.n_levels - of_key.has_missing
    if len(codes) and known and not ((codes >= 0) & (codes < known)).any():
        raise BadInput(
            f"No value of key '{of_key.key}' in the register {source.name} occurs in the file, so their codes differ. Recode one of them; codes "
            "such as '01' and '1' are different."
        )

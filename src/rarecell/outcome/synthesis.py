"""What is a synthetic twin like, what does it keep, and what does it give away?"""

from __future__ import annotations

from dataclasses import dataclass

from rarecell.outcome.plain import Plain
from rarecell.outcome.unpaired import UnpairedMeasures
from rarecell.outcome.words import counted, listed

RESAMPLED, SMOOTHED, LEVELS = "resampled", "smoothed", "levels"
"""How the values of a column of a twin are made: from its band as they are, between neighbours in its band, or by level."""


@dataclass(frozen=True, kw_only=True)
class TwinColumn(Plain):
    """A column of a twin: its levels in the model, and how its values are made from them.

    ``rarest`` is the number of records in its rarest level: a single column is always kept exactly.
    """

    name: str
    levels: int
    values: str
    rarest: int


@dataclass(frozen=True, kw_only=True)
class KeptTable(Plain):
    """A table that is the same in the twin: its columns, occupied cells, records in the smallest, and cells that differ."""

    variables: tuple[str, ...]
    cells: int
    smallest: int
    differing: int


@dataclass(frozen=True, kw_only=True)
class TwinUtility(Plain):
    """How near the tables of a twin are to the original's.

    Attributes
    ----------
    hellinger : dict of str to tuple of float
        For tables of 1, 2 and 3 columns, the mean and the largest Hellinger distance.
    k_marginal : float
        SDNist's score of tables of two columns: 1,000 for identical ones.
    propensity_ratio : float
        Mean squared propensity over what chance alone would give; about 1 if no classifier can tell the files apart.
    """

    hellinger: dict[str, tuple[float, ...]]
    k_marginal: float
    propensity_ratio: float


@dataclass(frozen=True, kw_only=True)
class SynthesisSummary(Plain):
    """A synthetic twin: how it was drawn, what it keeps, and what it gives away.

    Attributes
    ----------
    records, files : int
        Number of records of each twin, and number of twins.
    keys : tuple of str
        Columns that an intruder could know; all of them unless some were named.
    columns : tuple of TwinColumn
        The columns of a twin.
    epsilon : float or None
        The ε of the draw; None if it was uniform.
    guarantee : str
        What is guaranteed, in a sentence, with what is not.
    certified_optimal : bool
        Whether the model is proved to be the best of all decomposable ones.
    least_count : int
        The smallest cell that a kept table of several columns may have.
    tables : tuple of KeptTable
        What is kept exactly.
    utility : TwinUtility
        How near all other tables are.
    measures : UnpairedMeasures or None
        What a twin gives away; None if it was not measured.
    notes : tuple of str
        What a reader must know.
    """

    records: int
    files: int
    keys: tuple[str, ...]
    columns: tuple[TwinColumn, ...]
    epsilon: float | None = None
    guarantee: str
    certified_optimal: bool
    least_count: int = 0
    tables: tuple[KeptTable, ...]
    utility: TwinUtility
    measures: UnpairedMeasures | None = None
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        kept = listed([" × ".join(table.variables) for table in self.tables])
        exact = f"{counted(self.records, 'record')} with the same tables as the original in every cell: {kept}."
        if self.measures is None:
            return f"{exact} What it gives away was not measured."
        return f"{exact} {self.measures}"

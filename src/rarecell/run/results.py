"""What does a run hand back to Python?

Immutable values. ``print`` shows the verdict and a notebook shows a small card; neither shows a record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rarecell.data.microdata import Microdata
from rarecell.machine.threads import on_all_cores
from rarecell.model.decomposable import DecomposableModel
from rarecell.outcome.plain import Shown, in_library_of
from rarecell.outcome.records import RemainingRecord, RiskyRecord
from rarecell.outcome.summary import RunSummary
from rarecell.outcome.verdict import Verdict, said, verdict
from rarecell.progress import SILENT, Progress, Stage, Stages
from rarecell.release.blanks import NOTHING_BLANK
from rarecell.release.release import Release
from rarecell.risk.families import Families
from rarecell.risk.records import RecordRisk, household_risk
from rarecell.risk.unsafe import UnsafeCombinations, individual_risk
from rarecell.run.beside_keys import NOTHING, Treated
from rarecell.run.config import RunConfig
from rarecell.run.models import ModelChoice
from rarecell.run.roles import HouseholdFile, KnownFamilies, Roles
from rarecell.swap.apply import apply_plan
from rarecell.swap.formal.release import FormalRelease
from rarecell.swap.plan import SwapPlan
from rarecell.swap.swappable import Swappability
from rarecell.table.contingency import ContingencyTable
from rarecell.table.structural_zeros import StructuralZeros

if TYPE_CHECKING:
    from rarecell.edges import Array, Frame, Json
    from rarecell.release.blanks import Suppression
    from rarecell.swap.apply import SwapResult


@dataclass(frozen=True, eq=False)
class HouseholdFindings:
    """What a run knows about its households: their risk and the file behind it, or why there is none."""

    families: Families | None
    notes: tuple[str, ...]
    file: HouseholdFile | None = None

    @property
    def known(self) -> KnownFamilies | None:
        """The households of a run that takes intruders to know them; None if it does not, or if their composition is unknown."""
        if self.families is None or self.file is None or self.file.config.households_known == "no":
            return None
        return KnownFamilies(self.families, self.file)


@dataclass(frozen=True, eq=False, repr=False)
class Findings:
    """What the steps of an assessment found; :class:`Assessment` explains the fields."""

    config: RunConfig
    data: Microdata
    table: ContingencyTable
    zeros: StructuralZeros
    choice: ModelChoice
    risk: RecordRisk
    swappability: Swappability
    roles: Roles
    households: HouseholdFindings | None
    undeclared: str | None

    @property
    def families(self) -> Families | None:
        """The households as records, with their risk; None without households, or if their composition is unknown."""
        return None if self.households is None else self.households.families

    @property
    def known_families(self) -> Families | None:
        """The same, if the run takes an intruder to know who lives with whom."""
        return self.families if self.config.households_known == "yes" else None

    @property
    def model(self) -> DecomposableModel:
        """The best single model; swaps keep its marginals."""
        return self.choice.best


@dataclass(frozen=True, eq=False, repr=False)
class Assessment(Findings, Shown):
    """What is known about a file after it has been assessed.

    Attributes
    ----------
    config : RunConfig
        Every choice of the run.
    data : Microdata
        The records, with the role of each column.
    table : ContingencyTable
        The table of the keys.
    zeros : StructuralZeros
        Combinations that look impossible.
    choice : ModelChoice
        The best single model, and the model that the risk comes from.
    risk : RecordRisk
        The risk of every record.
    swappability : Swappability
        Which records can be swapped.
    roles : Roles
        What areas, sensitive columns, scenarios and a register add.
    households : HouseholdFindings or None
        The households as records, if the run names them.
    undeclared : str or None
        A column that looks like a household, about which the run says nothing.
    unsafe : UnsafeCombinations
        The smallest combinations that single records out.
    riskiest : tuple of RiskyRecord
        Single records with their values: for internal use.
    summary : RunSummary
        Every number of the run, without any record.
    seconds : mapping of Stage to float
        How long each stage took.
    """

    unsafe: UnsafeCombinations
    riskiest: tuple[RiskyRecord, ...]
    summary: RunSummary
    seconds: Mapping[Stage, float]

    @property
    def verdict(self) -> Verdict:
        return verdict(self.summary)

    def to_frame(self, like: Frame = None) -> Frame:
        """The columns of ``risk.parquet`` for every record, in the dataframe library of the data or of ``like``."""
        return in_library_of(self.data.native_frame if like is None else like, risk_columns(self))

    def save(self, folder: str | Path, *, overwrite: bool = False, progress: Progress = SILENT) -> Path:
        """Write the files that ``rarecell assess --out`` writes, and return the folder."""
        from rarecell.run.files import save_assessment

        return save_assessment(self, folder, Stages(progress), overwrite=overwrite)

    def __str__(self) -> str:
        return said(self.summary)

    def __repr__(self) -> str:
        return f"<Assessment: {self.verdict.headline}>"


@dataclass(frozen=True, eq=False, repr=False)
class Protection(Shown):
    """A file that has been assessed and protected.

    Attributes
    ----------
    assessment : Assessment
        The file as it was.
    plan : SwapPlan or FormalRelease
        Who exchanges what with whom, or what was rearranged at random.
    release : Release
        What was done to the records: values that changed places, blanks, columns that travelled.
    summary : RunSummary
        Every number of the run; ``summary.swap`` has the risk before and after, and the cost.
    seconds : mapping of Stage to float
        How long each stage took.
    riskiest : tuple of RemainingRecord
        The riskiest records of the released file: all that stay at risk, and some more where they are few. For internal use.
    treated : Treated
        What was done to columns that are no keys.
    """

    assessment: Assessment
    plan: SwapPlan | FormalRelease
    release: Release
    summary: RunSummary
    seconds: Mapping[Stage, float] = field(default_factory=dict)
    riskiest: tuple[RemainingRecord, ...] = ()
    treated: Treated = NOTHING

    @property
    def suppression(self) -> Suppression | None:
        """Values blanked in addition to the swaps, if that was asked for."""
        return None if self.release.blanks is NOTHING_BLANK else self.release.blanks

    @property
    def remaining(self) -> tuple[RemainingRecord, ...]:
        """Records that stay at risk, with the reason and what helps: for internal use."""
        return tuple(record for record in self.riskiest if record.is_at_risk)

    @property
    def verdict(self) -> Verdict:
        return verdict(self.summary)

    @cached_property
    def result(self) -> SwapResult:
        """The result of carrying out the swaps on the data, with the comparison of margins."""
        return apply_plan(self.plan, self.assessment.data, release=self.release, others=self.treated.changes)

    @property
    def frame(self) -> Frame:
        """The protected data, in the type they came in; a pyarrow table if they came from a file."""
        return self.result.frame

    def save(self, folder: str | Path, *, overwrite: bool = False, progress: Progress = SILENT) -> Path:
        """Write the files that ``rarecell protect --out`` writes, and return the folder."""
        from rarecell.run.files import save_protection

        return save_protection(self, folder, Stages(progress), overwrite=overwrite)

    def __str__(self) -> str:
        return said(self.summary)

    def __repr__(self) -> str:
        return f"<Protection: {self.verdict.headline}>"


# What is reported about every record, in the risk file and in a data frame?
_PIECE = 1_000_000


def risk_columns(assessment: Assessment) -> dict[str, Array]:
    """The columns of the risk file, for all records at once."""
    pieces = list(risk_pieces(assessment, np.full(assessment.table.n_cells + 1, -1, dtype=np.int64)))
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}


def risk_of_cells(assessment: Assessment) -> dict[str, Array]:
    """What is reported about every cell; a record takes the numbers of its cell."""
    table, risk = assessment.table, assessment.risk
    return {
        "cell_count": risk.sample_count,
        "cell_probability": np.exp(risk.log_population_share),
        "unique_probability": risk.unique_probability,
        "match_probability": risk.match_probability,
        "swappable": assessment.swappability.is_swappable,
        "suda_score": assessment.unsafe.suda_score,
        "dis_suda_score": assessment.unsafe.dis_suda_score(sampling_fraction=min(1.0, table.n_records / risk.population)),
        "individual_risk": individual_risk(table, population=risk.population),
        **({} if risk.standard_error is None else {"standard_error": risk.standard_error}),
        **assessment.roles.of_cells(),
    }


def risk_pieces(assessment: Assessment, last_row: NDArray[np.int64]) -> Iterator[Json]:
    """Yield the risk file in batches, in the order of the input; ``last_row`` is filled with the last record of each cell."""
    of_cell = risk_of_cells(assessment)
    household: dict[str, NDArray[np.float64]] | None = None
    codes = assessment.data.household_codes()
    if codes is not None:
        of_record = assessment.risk.per_record()
        household = {
            "household_probability": household_risk(of_record["unique_probability"], codes),
            "household_any_match_probability": household_risk(of_record["match_probability"], codes),
        }
        if assessment.families is not None:
            unique, match = assessment.families.of_records()
            household |= {"household_unique_probability": unique, "household_match_probability": match}
    of_records: dict[str, Array] = dict(household or {})
    scenarios = assessment.roles.scenarios
    if scenarios is not None and scenarios.knows_families:
        of_records |= scenarios.per_record()
    first = 0
    for cells in _record_cells(assessment):
        dropped = np.flatnonzero(cells < 0)
        rows = np.arange(first, first + len(cells))
        piece: Json = {"record": assessment.data.source.places(rows)}
        last_row[cells] = rows
        piece.update(zip(of_cell, on_all_cores(np.take, [(values, cells) for values in of_cell.values()]), strict=True))
        for name, values in of_cell.items():
            piece[name][dropped] = 0 if values.dtype.kind in "ib" else "" if values.dtype.kind == "O" else np.nan
        piece.update({name: values[first : first + len(cells)] for name, values in of_records.items()})
        first += len(cells)
        yield piece


def _record_cells(assessment: Assessment) -> Iterator[NDArray[np.int64]]:
    if assessment.table.record_cell is None:
        yield from assessment.data.record_cells(assessment.table)
        return
    for start in range(0, len(assessment.table.record_cell), _PIECE):
        yield assessment.table.record_cell[start : start + _PIECE]

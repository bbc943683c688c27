"""Which families of a file could be recognised, and how likely is that?

The households of a run become rows and are assessed like a file of their own: the same kind of model, the same design, interval and
checks, and a register of households where the register of the run names them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rarecell.data.microdata import Microdata
from rarecell.engine import open_source
from rarecell.engine.duck import EngineSettings
from rarecell.machine.memory import MemoryLimit
from rarecell.model.protocol import CellModel
from rarecell.outcome.summary import Reliability
from rarecell.risk.diagnostics import fit_diagnostics
from rarecell.risk.families import Families, looks_like_households, unknown_composition, why_incomplete
from rarecell.risk.interval import model_error, risk_interval
from rarecell.risk.records import RecordRisk, record_risk
from rarecell.risk.register import RegisterCounts, register_records
from rarecell.risk.reliability import Counted, reliability, with_light
from rarecell.run import models
from rarecell.run.config import RunConfig
from rarecell.table.contingency import ContingencyTable
from rarecell.table.household_rows import HouseholdRows, Members, find_layout

if TYPE_CHECKING:
    from rarecell.edges import Frame


@dataclass(frozen=True, eq=False)
class HouseholdFindings:
    """What a run knows about its households: their risk and the model behind it, or why there is none."""

    families: Families | None
    model: CellModel | None
    notes: tuple[str, ...]


def find_families(data: Microdata, risk: RecordRisk, config: RunConfig, *, register: Frame = None) -> HouseholdFindings | None:
    """Assess the households of a run as records; None if the run names no household."""
    household = data.household_codes()
    if household is None:
        return None
    codes, categories = data.column_codes(data.keys)
    ordered = {c.key: c.is_ordered for c in risk.table.categories}
    categories = tuple(replace(c, is_ordered=ordered[c.key]) for c in categories)
    before = _named_order(data, config)
    plain = Members.of(codes, household)
    fraction = risk.table.n_records / risk.population
    reason = why_incomplete(codes, categories, plain, fraction=fraction)
    if reason is None and not (plain.size > 1).any():
        reason = "no household has two members in the file"
    if reason is not None:
        return HouseholdFindings(None, None, (unknown_composition(reason, plain.n_households),))
    layout = find_layout(codes, categories, household, before=before)
    rows = layout.rows(codes, household, before=before)
    table, population = _in_population(rows, data, risk, config)
    table = models.with_resolutions(table, config.resolution)
    model = models.risk_model(table, replace(config, cliques=()))
    sampling = "srs" if table.weights is None else "weights"
    of_rows = record_risk(table, model, population=population, sampling=sampling, form=config.form)
    fit = fit_diagnostics(
        table, model, population=of_rows.population, refit=lambda part: models.refitted(part, config), seed=config.seed
    )
    estimate = of_rows.expected_population_uniques, of_rows.expected_correct_matches
    interval = risk_interval(of_rows, model, seed=config.seed).widened(model_error(of_rows, fit), estimate)
    counted = _counted(data, rows, config, register) if config.register is not None else None
    found = None if counted is None else Counted(counted.population_uniques, interval.population_uniques)
    trust = _of_households(reliability(of_rows, fit, None, counted=found, interval=interval))
    families = Families(rows, of_rows, interval, trust, counted)
    notes = rows.sentences()
    if config.register is not None and counted is None:
        notes.append("The register does not name the household of its people, so the risk of families is estimated.")
    return HouseholdFindings(families, model, tuple(notes))


MOST_RECORDS = 200_000
"""Larger files are not searched for a household that nobody declared: reading every column would take too long."""


def undeclared_household(data: Microdata, config: RunConfig, risk: RecordRisk) -> str | None:
    """A column that looks like a household and has no role; None if there is none, or if the user said what is known."""
    if config.household is not None or config.households_known == "no" or risk.table.record_cell is None:
        return None
    if data.n_records > MOST_RECORDS or not data.source.keeps_rows:
        return None
    taken = {*data.keys, data.weight, data.id, data.strata, *data.areas, *data.sensitive}
    names = [column.name for column in data.source.columns() if column.kind != "other"]
    candidates = [name for name in names if name not in taken]
    if not candidates:
        return None
    codes, _ = data.column_codes(names)
    for name in candidates:
        others = [codes[:, k] for k, other in enumerate(names) if other not in (name, data.id)]
        if looks_like_households(codes[:, names.index(name)], others):
            return name
    return None


def asked_about(column: str) -> str:
    """The question about a household that nobody declared."""
    return (
        f"Column '{column}' looks like a household: few records share a value, they stand together, and they agree on other columns. "
        f"Whoever knows a person knows the family. If it is one, give --household {column}; if nobody can know who lives with whom, "
        "say --households-known no."
    )


def _of_households(of_rows: Reliability) -> Reliability:
    """The same light, in words for households: what is said of records is true of rows."""
    return with_light(of_rows.light, [reason.replace("record", "household") for reason in of_rows.reasons])


def _named_order(data: Microdata, config: RunConfig) -> tuple[NDArray[np.int64], ...]:
    """Ranks of the records by the columns that the user named for the order of the members."""
    if not config.household_order:
        return ()
    codes, _ = data.column_codes(config.household_order)
    return tuple(codes[:, k].astype(np.int64) for k in range(codes.shape[1]))


def _in_population(rows: HouseholdRows, data: Microdata, risk: RecordRisk, config: RunConfig) -> tuple[ContingencyTable, float]:
    """The table of the rows, with weights if records have them, and the number of households of the population.

    A household stands for as many households as its members stand for persons on average. Without weights the number of
    households is that of the persons, times households by records of the file.
    """
    weights = data.record_weights()
    if weights is None and config.strata is not None and risk.table.record_cell is not None:
        weights = np.append(risk.design.weight, 0.0)[risk.table.record_cell]
    if weights is None:
        n_records = int(rows.members.size.sum()) + rows.members.n_inmates
        return rows.table, max(risk.population * rows.members.n_households / n_records, float(rows.members.n_households))
    table = rows.weighed(weights)
    assert table.weights is not None
    scale = 1.0 if config.population is None else config.population / float(weights.sum())
    return table, max(scale * float(table.weights.sum()), float(table.n_records))


def _counted(data: Microdata, rows: HouseholdRows, config: RunConfig, register: Frame) -> RegisterCounts | None:
    """The households of the register in every row of the file; None if the register does not have the household columns."""
    people = config.register if register is None else register
    settings = EngineSettings(memory=MemoryLimit.of(config.memory))
    source = open_source(people, settings=settings)
    known = {column.name for column in source.columns()}
    if not known.issuperset((*data.household_columns, *config.household_order)):
        return None
    codes, categories, household = register_records(data, source, data.household_columns, settings=settings)
    before: tuple[NDArray[np.int64], ...] = ()
    if config.household_order:
        named, _ = Microdata(source, data.keys, settings=settings).column_codes(config.household_order)
        before = tuple(named[:, k].astype(np.int64) for k in range(named.shape[1]))
    return counted_rows(rows, rows.layout.with_levels(categories).rows(codes, household, before=before))


def counted_rows(rows: HouseholdRows, register: HouseholdRows) -> RegisterCounts:
    """Count the households of a register in every row of a file; both have the same columns."""
    table, people = rows.table, register.table
    place = []
    for column, of_file in zip(rows.layout.columns, table.categories, strict=True):
        if column.key < 0:
            place.append(np.arange(of_file.n_levels, dtype=np.int32))
            continue
        wider = people.categories[len(place)]
        code_of = {level: code for code, level in enumerate(wider.levels)}
        place.append(np.array([code_of[level] for level in of_file.levels], dtype=np.int32))
    cells = np.stack([of_key[table.cells[:, k]] for k, of_key in enumerate(place)], axis=1)
    position = people.marginals.positions(people.all_keys, np.ascontiguousarray(cells))
    in_register = np.where(position >= 0, people.counts[position], 0)
    return RegisterCounts(table, in_register, people.n_records, people, tuple(place))

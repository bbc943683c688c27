"""What do areas, sensitive columns, several intruders and a register add to the risk of a file?

Each of them is another look at the same data, as far as the run names it. Tables other than that of the keys get a model of
the same kind as the run's own, so that their numbers are those of separate runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rarecell.choices import MATCHES_ANYTHING, REGISTER_COMPLETE
from rarecell.data.crossing import wider_table
from rarecell.data.microdata import Microdata
from rarecell.engine.duck import EngineSettings
from rarecell.errors import BadInput
from rarecell.machine.memory import MemoryLimit
from rarecell.model.decomposable import DecomposableModel
from rarecell.model.protocol import CellModel
from rarecell.outcome.records import HomogeneousGroup
from rarecell.outcome.roles import (
    AreaLevelSummary,
    RegisterSummary,
)
from rarecell.outcome.summary import RiskSummary
from rarecell.outcome.words import number
from rarecell.risk.areas import area_levels, finest_safe
from rarecell.risk.attributes import AttributeRisk, Groups, attribute_risk
from rarecell.risk.doubles import Doubles, household_doubles, record_doubles
from rarecell.risk.families import Families, FamilyRisk
from rarecell.risk.records import RecordRisk, record_risk
from rarecell.risk.register import RegisterCounts, register_counts
from rarecell.risk.scenarios import Scenarios, assess_scenarios
from rarecell.run import models
from rarecell.run.config import RunConfig
from rarecell.run.models import with_design_weights
from rarecell.table.categories import NOBODY
from rarecell.table.contingency import Coarsening, ContingencyTable
from rarecell.table.household_rows import HouseholdRows, lay_out

if TYPE_CHECKING:
    from rarecell.edges import Array, Frame


N_NAMED = 20
"""Number of homogeneous groups of each sensitive column that the internal report names."""


@dataclass(frozen=True, eq=False)
class Roles:
    """What was found for each role; a part that the run does not name is empty. ``people`` is where the register is read."""

    areas: tuple[AreaLevelSummary, ...] = ()
    attributes: Mapping[str, AttributeRisk] = field(default_factory=dict)
    scenarios: Scenarios | None = None
    register: RegisterCounts | None = None
    area_risks: tuple[RecordRisk, ...] = ()
    people: Frame = None

    def homogeneous_groups(self) -> tuple[HomogeneousGroup, ...]:
        """Groups whose members share a sensitive value, with their values; for internal use only."""
        return tuple(
            HomogeneousGroup(column=name, value=group["value"], records=group["records"], values=group["values"])
            for name, risk in self.attributes.items()
            for group in risk.named(N_NAMED)
        )

    def of_cells(self) -> dict[str, Array]:
        """Further columns of the risk file: a value for each cell of the keys."""
        columns: dict[str, Array] = {}
        if self.scenarios is not None:
            columns |= self.scenarios.of_cells()
        if self.register is not None:
            columns["population_count"] = self.register.population_count
        return columns


def find_roles(
    data: Microdata, risk: RecordRisk, config: RunConfig, *, register: Frame = None, families: KnownFamilies | None = None
) -> Roles:
    """Find everything that the roles of the columns ask for, beyond the risk of the keys; ``register`` is a frame.

    Where intruders are taken to know the ``families``, areas and scenarios are judged by the larger risk, alone or with the family.
    """
    held = risk.table.record_cell is not None
    areas: tuple[AreaLevelSummary, ...] = ()
    of_levels: list[RecordRisk] = []

    def remembered(part: ContingencyTable) -> RecordRisk:
        of_levels.append(side_risk(part, data, config))
        return of_levels[-1]

    if data.areas:
        table = wider_table(data, data.areas, records=held)
        areas = area_levels(
            table,
            data.areas,
            risk_of=remembered,
            threshold=config.threshold,
            with_household=None if families is None else families.at_areas(),
        )
    attributes = {name: attribute_risk(Groups.of(wider_table(data, [name], records=held), name)) for name in config.sensitive}
    scenarios = None
    if config.scenario:
        scenarios = _scenarios(data, data.table(records=held), config)
    counts, people = None, None
    if config.register is not None:
        settings = EngineSettings(memory=MemoryLimit.of(config.memory))
        people = config.register if register is None else register
        if config.missing in (MATCHES_ANYTHING, REGISTER_COMPLETE) and any(data.n_missing.values()):
            raise BadInput(
                "People of a register are counted by their values, so a missing value of the file cannot be one that matches anything. Leave "
                f"out --missing {config.missing}, or the register."
            )
        counts = register_counts(data, people, table=data.table(records=held), settings=settings)
        if scenarios is not None:
            scenarios = replace(scenarios, each=tuple(scenario.known_by(counts) for scenario in scenarios.each))
    if scenarios is not None and families is not None:
        scenarios = replace(
            scenarios, each=tuple(replace(scenario, family=families.known_by(scenario.keys)) for scenario in scenarios.each)
        )
    return Roles(areas, attributes, scenarios, counts, tuple(of_levels), people)


def _scenarios(data: Microdata, table: ContingencyTable, config: RunConfig) -> Scenarios:
    models: list[CellModel] = []

    def risk_of(part: ContingencyTable) -> RecordRisk:
        risk, model = side_risk_and_model(part, data, config)
        models.append(model)
        return risk

    scenarios = assess_scenarios(table, config.scenarios, risk_of=risk_of)
    return replace(
        scenarios, each=tuple(replace(scenario, model=model) for scenario, model in zip(scenarios.each, models, strict=True))
    )


def side_model(table: ContingencyTable, config: RunConfig) -> DecomposableModel:
    """The best model of a table other than that of the run's keys, found as in a separate run."""
    return models.best_model(_prepared(table, config), replace(config, cliques=()))[0]


def side_risk(table: ContingencyTable, data: Microdata, config: RunConfig) -> RecordRisk:
    """The risk of a table other than that of the run's keys, under a model of the run's kind."""
    return side_risk_and_model(table, data, config)[0]


def side_risk_and_model(table: ContingencyTable, data: Microdata, config: RunConfig) -> tuple[RecordRisk, CellModel]:
    """:func:`side_risk`, and the model it comes from."""
    weighed = with_design_weights(data, table, config)
    prepared = _prepared(weighed, config)
    household = data.household_codes() if prepared.record_cell is not None else None
    model = models.risk_model(prepared, replace(config, cliques=()), household=household)
    return models.risk_of(prepared, model, config), model


def _prepared(table: ContingencyTable, config: RunConfig) -> ContingencyTable:
    """The table at the resolutions that models may use, with the structural zeros that concern its keys."""
    fine = models.with_resolutions(table, config.resolution)
    if config.zeros in ("swaps", "off"):
        return fine
    return fine.with_structural_zeros(models.structural_zeros(fine, config).project(fine.keys) or None)


# ---------------------------------------------------------------------- the summary


def with_roles(risk: RiskSummary, roles: Roles, of_run: RecordRisk) -> RiskSummary:
    """Add to the summary of the risk what was found for the roles."""
    safe = finest_safe(roles.areas) if roles.areas else None
    above: int | str | None = None
    if roles.scenarios is not None:
        if roles.scenarios.knows_families:
            highest = roles.scenarios.of_records[0]
            above = int((highest[highest > 0.0] >= risk.threshold).sum())
        else:
            is_above = roles.scenarios.worst_probability >= risk.threshold
            above = int(roles.scenarios.table.counts[is_above].sum()) if risk.threshold > 0 else risk.sample_uniques
    return replace(
        risk,
        areas=roles.areas,
        finest_safe_area=None if safe is None else safe.column,
        attributes=tuple(attribute.summary(of_run) for attribute in roles.attributes.values()),
        scenarios=()
        if roles.scenarios is None
        else tuple(each.summary(risk.threshold, of_run.table) for each in roles.scenarios.each),
        above_in_a_scenario=above,
        register=None if roles.register is None else of_register(roles.register, of_run, risk.interval),
    )


def of_register(counts: RegisterCounts, risk: RecordRisk, interval: tuple[float, float]) -> RegisterSummary:
    low, high = interval
    inside = low <= counts.population_uniques <= high
    return RegisterSummary(
        people=counts.n_register,
        population_uniques=counts.population_uniques,
        correct_matches=counts.correct_matches,
        records_not_covered=counts.n_not_covered,
        estimated_population_uniques=risk.expected_population_uniques,
        estimated_correct_matches=risk.expected_correct_matches,
        is_inside_interval=inside,
        calibration=counts.calibration(risk),
        sentence=(
            f"{counts} The model, which has not seen it, estimates {number(risk.expected_population_uniques, 1)} population uniques; the "
            f"true number lies {'inside' if inside else 'outside'} its interval."
        ),
    )


# Which records and households of a run are compared in the search for duplicates?


MOST_RECORDS_COMPARED = 200_000
"""Files with more records are not searched: reading every column would take too long."""


def find_doubles(data: Microdata, risk: RecordRisk, *, seed: int = 0) -> tuple[Doubles, ...]:
    """Compare records by every column, and households by their keys, as far as the run knows them."""
    of_record = risk.table.record_cell
    if of_record is None or len(of_record) > MOST_RECORDS_COMPARED or not data.source.keeps_rows:
        return ()
    is_counted = of_record >= 0
    keys = risk.table.cells[of_record[is_counted]]
    fraction = risk.table.n_records / risk.population
    if fraction >= 1.0:
        return ()
    no_columns = {*data.keys, *data.id_columns, data.weight, *data.household_columns}
    beside = [column.name for column in data.source.columns() if column.name not in no_columns and column.kind != "other"]
    columns = np.column_stack([keys, data.column_codes(beside)[0][is_counted]]) if beside else keys
    doubles = [record_doubles(columns, fraction=fraction, names=[*data.keys, *beside], seed=seed)] if beside else []
    households = data.household_codes()
    if households is not None:
        doubles.append(household_doubles(keys, households[is_counted], fraction=fraction))
    return tuple(search for search in doubles if search is not None)


# How likely are families recognised by somebody who knows other columns than all keys?


@dataclass(frozen=True, eq=False)
class KnownFamilies:
    """The households of a run, for intruders who know other columns than all keys."""

    families: Families
    file: HouseholdFile

    def known_by(self, keys: Collection[str]) -> FamilyRisk:
        """The risk from somebody who knows some of the keys of all members."""
        rows = self.families.rows.known_by(keys)
        return self.families if rows is self.families.rows else self.file.risk(rows, self.families.register)

    def quick_links(self, coarsenings: Mapping[str, Coarsening]) -> float:
        """Expected correct links to households if keys were released in groups, by a quick model; to compare recodings with."""
        rows = self.families.rows
        codes = rows.codes.copy()
        layout, categories = rows.layout, [*rows.table.categories]
        for k, column in enumerate(layout.columns):
            groups = None if column.key < 0 else coarsenings.get(layout.keys[column.key].key)
            if groups is None:
                continue
            group = groups.group_of_level
            if len(group) < layout.keys[column.key].n_levels:
                group = np.append(group, groups.n_levels).astype(np.int32)
            labels: tuple[object, ...] = tuple(range(int(group.max()) + 1))
            if column.place >= 0:
                group, labels = np.append(np.int32(0), group + 1).astype(np.int32), (NOBODY, *labels)
            codes[:, k] = group[codes[:, k]]
            categories[k] = replace(categories[k], levels=labels)
        table = ContingencyTable.from_codes(codes, categories)
        quick = replace(self.file.config, cliques=())
        model = models.quick_model(models.with_resolutions(table, quick.resolution), quick, n_orders=1)
        return record_risk(model.table, model, population=self.families.risk.population).expected_correct_matches

    def at_areas(self) -> Callable[[str], NDArray[np.float64]]:
        """The risk of every record with its household, as if the file were released with one column of areas, or none.

        Areas are nested, so the column of a level says all that coarser levels do.
        """
        data = self.file.data
        no_areas = [key for key in data.keys if key not in data.areas]
        wide = self.file.rows([*no_areas, *data.areas])

        def at(column: str) -> NDArray[np.float64]:
            columns = [*no_areas, *([column] if column else [])]
            if set(columns) == set(data.keys):
                return self.families.of_records()[0]
            return self.file.risk(wide.known_by(columns)).of_records()[0]

        return at


@dataclass(frozen=True, eq=False)
class HouseholdFile:
    """The file whose households are assessed, and the run that asks for it."""

    data: Microdata
    persons: RecordRisk
    config: RunConfig

    def rows(self, columns: Sequence[str]) -> HouseholdRows:
        """The households as rows of some columns, in the layout that suits these."""
        return household_rows(self.data, self.config, columns, {c.key: c.is_ordered for c in self.persons.table.categories})

    def risk(self, rows: HouseholdRows, register: RegisterCounts | None = None) -> FamilyRisk:
        """The risk of household rows under a model of the run's kind; ``register`` has the households of the population."""
        table, population = households_in_population(rows, self.data, self.persons, self.config)
        table = models.with_resolutions(table, self.config.resolution)
        model = models.risk_model(table, replace(self.config, cliques=()), of_households=True)
        sampling = "srs" if table.weights is None else "weights"
        of_rows = record_risk(table, model, population=population, sampling=sampling, form=self.config.form)
        return FamilyRisk(rows, of_rows, model, None if register is None else register.among(table))


def household_rows(
    data: Microdata, config: RunConfig, columns: Sequence[str], is_ordered: Mapping[str, bool] | None = None
) -> HouseholdRows:
    """The households of a file as rows of some columns; ``is_ordered`` says which of them were found to be ordered."""
    household = data.household_codes()
    assert household is not None
    codes, categories = data.column_codes(columns)
    if is_ordered is None:
        is_ordered = {c.key: c.is_ordered for c in data.table(records=True).categories}
    categories = tuple(replace(c, is_ordered=is_ordered.get(c.key, c.is_ordered)) for c in categories)
    return lay_out(codes, categories, household, before=named_order(data, config))


def named_order(data: Microdata, config: RunConfig) -> tuple[NDArray[np.int64], ...]:
    """Ranks of the records by the columns that the user named for the order of the members."""
    if not config.household_order:
        return ()
    codes, _ = data.column_codes(config.household_order)
    return tuple(codes[:, k].astype(np.int64) for k in range(codes.shape[1]))


def households_in_population(
    rows: HouseholdRows, data: Microdata, risk: RecordRisk, config: RunConfig
) -> tuple[ContingencyTable, float]:
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

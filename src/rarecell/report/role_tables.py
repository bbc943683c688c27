"""Which tables describe areas, sensitive columns, several intruders and a register?"""

from __future__ import annotations

from collections.abc import Sequence

from rarecell.outcome.roles import HomogeneousGroup
from rarecell.outcome.summary import RunSummary
from rarecell.outcome.words import number, percent
from rarecell.report.table import RISK_COLUMNS, Column, Table, names_column, text_column

MOST_AREAS = 25
"""Number of areas of a level that the page shows; the CSV file has them all."""


def role_tables(summary: RunSummary, groups: Sequence[HomogeneousGroup] = ()) -> list[Table]:
    """Every table of roles for which the summary has the numbers; ``groups`` are for the internal edition."""
    made = [
        _areas(summary),
        _every_area(summary),
        _attributes(summary),
        _scenarios(summary),
        *_register(summary),
        _groups(groups),
    ]
    made += [_affected(summary), _weighted(summary), _places(summary), _analyses(summary)]
    return [table for table in made if table.rows]


def _areas(summary: RunSummary) -> Table:
    rows = tuple(
        (
            level.column or "no area",
            len(level.areas),
            level.sample_uniques,
            level.expected_population_uniques,
            level.expected_correct_matches,
            level.above_threshold,
            level.drivers,
        )
        for level in summary.risk.areas
    )
    columns = (
        text_column("Released with"),
        Column("Areas"),
        *RISK_COLUMNS,
        names_column("Small areas that drive the risk"),
    )
    return Table("areas", "The risk at each level of areas, as if no finer one were released", columns, rows)


def _every_area(summary: RunSummary) -> Table:
    rows = tuple(
        (level.column, area.area, area.records, area.sample_uniques, area.expected_population_uniques, area.above_threshold)
        for level in reversed(summary.risk.areas)
        for area in level.areas
    )
    columns = (
        text_column("Level"),
        text_column("Area"),
        Column("Records"),
        Column("Unique in the file"),
        Column("Expected population uniques"),
        Column("Records above the threshold"),
    )
    return Table("risk-by-area", "The risk of each area, the riskiest first", columns, rows, rows[:MOST_AREAS])


def _attributes(summary: RunSummary) -> Table:
    after = {} if summary.swap is None else {one.column: one for one in summary.swap.attributes}
    rows = tuple(
        (
            f"{one.column}{when}",
            one.l_diversity,
            one.entropy_l_diversity,
            one.t_closeness,
            one.right_from_groups,
            one.right_from_file,
            one.homogeneous_groups,
            one.records_in_homogeneous_groups,
        )
        for before in summary.risk.attributes
        for when, one in ((" before", before), (" after", after.get(before.column)))[: 2 if after else 1]
        if one is not None
    )
    if not after:
        rows = tuple((row[0].removesuffix(" before"), *row[1:]) for row in rows)
    columns = (
        text_column("Sensitive column"),
        Column("Distinct l-diversity"),
        Column("Entropy l-diversity"),
        Column("t-closeness"),
        Column("People guessed right from their group"),
        Column("People guessed right from the whole file"),
        Column("Groups of two or more with one value"),
        Column("Records in them"),
    )
    return Table("attributes", "What groups of look-alike records give away", columns, rows)


def _scenarios(summary: RunSummary) -> Table:
    after = {} if summary.swap is None else {one.name: one for one in summary.swap.scenarios}
    rows = tuple(
        (
            one.name,
            one.keys,
            one.sample_uniques,
            one.expected_population_uniques,
            one.expected_correct_matches,
            one.records_above_threshold,
            *([after[one.name].expected_population_uniques] if after else []),
        )
        for one in summary.risk.scenarios
    )
    columns = (
        text_column("Intruder"),
        names_column("Knows"),
        *RISK_COLUMNS,
        *((Column("Expected population uniques after protection"),) if after else ()),
    )
    return Table("scenarios", "Several intruders", columns, rows)


def _register(summary: RunSummary) -> list[Table]:
    register = summary.risk.register
    if register is None:
        return []
    columns = (text_column("In the population"), Column("By the register"), Column("Estimated"))
    rows = (
        ("Unique records of the file", register.population_uniques, register.estimated_population_uniques),
        ("Correct matches", register.correct_matches, register.estimated_correct_matches),
    )
    bands = (
        Column("Estimated risk from", lambda v: f"{v:g}"),
        Column("up to", lambda v: f"{v:g}"),
        Column("Records"),
        Column("Mean estimate", percent),
        Column("Unique in the register", percent),
    )
    of_bands = tuple((band.low, band.high, band.records, band.estimated, band.true) for band in register.calibration)
    return [
        Table("register", "Exact numbers from the register next to the estimates", columns, rows),
        Table("calibration", "How good the estimate is on these data", bands, of_bands),
    ]


def _affected(summary: RunSummary) -> Table:
    told = () if summary.swap is None else summary.swap.affected
    rows = tuple((one.column, one.level, one.records, one.swapped, one.ratio) for one in told)
    columns = (
        text_column("Column"),
        text_column("Value"),
        Column("Records"),
        Column("Swapped"),
        Column("Times the share of the whole file"),
    )
    return Table("affected-groups", "Groups on which swaps fell most", columns, rows)


def _weighted(summary: RunSummary) -> Table:
    told = () if summary.swap is None else summary.swap.weighted
    rows = tuple(
        (
            one.variables,
            "exact" if one.counts_identical else "changed",
            "changed" if one.changed else "exact",
            one.changed,
            one.largest,
            one.moved,
        )
        for one in told
    )
    columns = (
        names_column("Table"),
        text_column("Counts of records"),
        text_column("Weighted totals"),
        Column("Totals that changed"),
        Column("Largest relative change", _change),
        Column("Share of weight in another cell", percent),
    )
    return Table("weighted-tables", "What swaps did to weighted totals", columns, rows)


def _analyses(summary: RunSummary) -> Table:
    told = () if summary.swap is None else summary.swap.analyses
    rows = tuple(
        (f"{one.name}: {one.formula}", term.name, term.before, term.after, term.error_before, term.relative_bias, term.overlap)
        for one in told
        for term in one.terms
    )
    columns = (
        text_column("Analysis"),
        text_column("Term"),
        Column("Original"),
        Column("Protected"),
        Column("Standard error"),
        Column("Relative bias", lambda value: "–" if value is None else percent(value)),
        Column("Overlap of intervals"),
    )
    return Table("analyses", "Your analyses on both files", columns, rows)


def _change(value: float | None) -> str:
    """Format a relative change; a total that was zero before has none."""
    return "from nothing" if value is None else percent(value)


def _places(summary: RunSummary) -> Table:
    places = None if summary.swap is None else summary.swap.places
    rows: tuple[tuple[str, int], ...] = ()
    if places is not None:
        rows = tuple((f"across {area}", n) for area, n in places.levels.items())
        rows += tuple((f"alike in: {profile}", n) for profile, n in places.profiles.items())
    return Table("places", "Pairs of records that changed places", (text_column("How"), Column("Pairs")), rows)


def _groups(groups: Sequence[HomogeneousGroup]) -> Table:
    rows = tuple((one.column, one.value, one.records, [f"{key} {value}" for key, value in one.values.items()]) for one in groups)
    columns = (
        text_column("Sensitive column"),
        text_column("Value"),
        Column("Records", number),
        names_column("Shared by all with"),
    )
    return Table("homogeneous-groups", "Groups that share a sensitive value", columns, rows)

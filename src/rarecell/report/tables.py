"""Which tables does a run have, for the page and for the CSV files beside it?

A table is made once from the summary. The page formats its numbers; the CSV file has them in full.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from rarecell.data.describe import ColumnProfile, FileProfile
from rarecell.outcome.planned import ReleasePoint
from rarecell.outcome.records import RemainingRecord, RiskyRecord
from rarecell.outcome.roles import HomogeneousGroup
from rarecell.outcome.summary import Count, EstimatorDetail, PaperTable, RunSummary
from rarecell.outcome.swap import IntruderSummary, KnownBeyond, RiskNumbers
from rarecell.outcome.words import counted, decade, first_of, number, people, percent, span
from rarecell.report.graph_picture import ModelPicture
from rarecell.report.sentences import estimator_name
from rarecell.report.table import RISK_COLUMNS, Column, Table, names_column, persons, text_column

LARGEST_SIZE_SHOWN = 10
"""Larger cells share one line of the page's table."""

MOST_REMAINING = 50
"""Number of records still at risk that the page shows; the file has all."""


def all_tables(
    summary: RunSummary,
    riskiest: Sequence[RiskyRecord] = (),
    groups: Sequence[HomogeneousGroup] = (),
    remaining: Sequence[RemainingRecord] = (),
) -> dict[str, Table]:
    """Every table for which the summary has the numbers, by name."""
    makers = (
        _keys,
        _missing_values,
        _families,
        _size_indices,
        _k_anonymity,
        _decades,
        _histogram,
        _key_costs,
        _unsafe_combinations,
        _key_contributions,
        _cliques,
        _fit,
        _estimators,
        _other_populations,
        _key_errors,
        _diagnostics,
        _expected_sizes,
        _before_after,
        _intruders,
        _beyond,
        _formal_edges,
        _not_swapped,
        _remaining,
        _kept_tables,
        _hellinger,
        _associations,
        _means,
        _leaks,
        _treatments,
        _frontier,
    )
    tables = [table for maker in makers if (table := maker(summary)) is not None and table.rows]
    tables += [*role_tables(summary, groups), *release_tables(summary)]
    if riskiest:
        tables.append(riskiest_table(summary, riskiest))
    if remaining:
        tables.append(remaining_table(summary, remaining))
    return {table.name: table.labelled(summary.labels) for table in tables}


def _keys(summary: RunSummary) -> Table:
    order = {True: "ordered", False: "unordered", None: "–"}
    rows = tuple(
        (key.name, key.levels, order[key.ordered], [part.levels for part in key.coarsenings], key.missing_records)
        for key in summary.keys
    )
    columns = (
        text_column("Key"),
        Column("Levels"),
        text_column("Order"),
        Column("Also offered in groups", lambda groups: ", ".join(str(n) for n in groups) or "–", is_number=False),
        Column("Records without a value"),
    )
    return Table("keys", "The keys: what an intruder is assumed to know", columns, rows)


def _missing_values(summary: RunSummary) -> Table | None:
    told = summary.missing
    if told.own_level is None or told.matches_anything is None:
        return None
    rows = tuple(
        (
            meaning,
            risk.sample_uniques,
            risk.expected_population_uniques,
            risk.expected_correct_matches,
            risk.records_above_threshold,
        )
        for meaning, risk in (
            ("a value of its own: the intruder knows who did not answer", told.own_level),
            (
                "compatible with every value: the intruder does not know, and the register lacks answers, too",
                told.matches_anything,
            ),
            ("known to a complete register: the intruder has the true value of everybody", told.register_complete),
        )
        if risk is not None
    )
    columns = (
        text_column("A missing value is"),
        *RISK_COLUMNS,
    )
    return Table("missing-values", "What missing answers have to do with the risk", columns, rows)


def _size_indices(summary: RunSummary) -> Table:
    sizes = summary.cells.size_indices
    caption, columns = "Occupied cells by the number of records in them", (text_column("Records in the cell"), Column("Cells"))
    if not all(size.isdigit() for size in sizes):
        return Table("size-indices", caption, columns, tuple(sizes.items()))
    rows = sorted((int(size), n) for size, n in sizes.items())
    large = sum(n for size, n in rows if size > LARGEST_SIZE_SHOWN and isinstance(n, int))
    page = [(size, n) for size, n in rows if size <= LARGEST_SIZE_SHOWN]
    more = [(f"{LARGEST_SIZE_SHOWN + 1} or more", large)] if large else []
    return Table("size-indices", caption, columns, tuple(rows), (*page, *more))


def _families(summary: RunSummary) -> Table | None:
    """Recognised as a person and recognised as a family, beside each other."""
    risk, families = summary.risk, summary.risk.families
    if families is None:
        return None
    columns = (
        text_column("Recognised"),
        Column("Unique in the file"),
        Column("Expected population uniques", persons),
        Column("Persons in them", persons),
        Column("Correct matches", persons),
        text_column("95 % interval"),
    )
    alone = risk.expected_population_uniques
    rows = (
        ("as a person", risk.sample_uniques, alone, alone, risk.expected_correct_matches, _ends(risk.interval)),
        (
            "as a family",
            families.sample_uniques,
            families.expected_population_uniques,
            families.expected_persons,
            families.expected_correct_matches,
            _ends(families.interval),
        ),
    )
    return Table("families", "Persons and families", columns, rows)


def _k_anonymity(summary: RunSummary) -> Table:
    rows = tuple((int(k), n) for k, n in sorted(summary.risk.k_anonymity.items(), key=lambda item: int(item[0])))
    return Table(
        "k-anonymity", "Records that violate k-anonymity", (Column("k"), Column("Records in cells smaller than k")), rows
    )


def _decades(summary: RunSummary) -> Table:
    rows = tuple(labelled_decades(summary.risk.cell_probability_decades))
    columns = (text_column("Cell probability from"), Column("Sample uniques"))
    return Table("cell-probability-decades", "Sample uniques by the decade of their cell probability", columns, rows)


def labelled_decades(decades: Mapping[str, Count]) -> list[tuple[str, Count]]:
    """Decades with their labels, most probable cells first; merged ones are already in order."""
    if all(label.lstrip("-").isdigit() for label in decades):
        return [(decade(k), n) for k, n in sorted(decades.items(), key=lambda item: -int(item[0]))]
    return list(decades.items())


def _histogram(summary: RunSummary) -> Table:
    edges = summary.risk.histogram.edges
    rows = tuple((edges[k], edges[k + 1], n) for k, n in enumerate(summary.risk.histogram.counts))
    columns = (Column("Risk from", lambda v: f"{v:g}"), Column("up to", lambda v: f"{v:g}"), Column("Records"))
    return Table("record-risk", "Records that are alone in the file, by their risk", columns, rows)


def _key_costs(summary: RunSummary) -> Table:
    rows: list[tuple[Any, ...]] = []
    for cost in sorted(summary.risk.key_costs, key=lambda cost: (cost.without is None, cost.without or 0.0)):
        for step in cost.coarsened:
            option = f'--recode "{step.recode}"' if step.recode else ""
            change = f"in {counted(step.levels, 'group')}" + (f": {first_of(step.groups)}" if step.groups else "")
            rows.append((cost.key, change, step.expected_population_uniques, option))
        if cost.without is not None:
            rows.append((cost.key, "left out", cost.without, ""))
    columns = (
        text_column("Key"),
        text_column("Change"),
        Column("Expected population uniques then", persons),
        text_column("Option"),
    )
    return Table("key-costs", "What each key costs: the risk when one key is coarser or left out", columns, tuple(rows))


def _unsafe_combinations(summary: RunSummary) -> Table:
    rows = tuple((row.variables, row.records) for row in summary.risk.unsafe_combinations)
    columns = (names_column("Variables"), Column("Records they single out"))
    return Table("unsafe-combinations", "Smallest combinations of variables that single records out", columns, rows)


def _key_contributions(summary: RunSummary) -> Table:
    rows = tuple(sorted(summary.risk.key_contributions.items(), key=lambda item: -item[1]))
    columns = (text_column("Key"), Column("Share of the unsafe combinations, weighted by SUDA score", percent))
    return Table("key-contributions", "How much each key takes part in unsafe combinations", columns, rows)


def _cliques(summary: RunSummary) -> Table | None:
    if not summary.model.cliques:
        return None
    picture = ModelPicture.of(summary.model)
    rows = []
    for clique in picture.order:
        parent = picture.parents[clique]
        shared = list(picture.separators[clique])
        rows.append((clique + 1, list(picture.cliques[clique]), parent + 1 if parent >= 0 else None, shared))
    columns = (
        Column("Clique", is_number=False),
        names_column("Variables"),
        Column("Hangs on clique", is_number=False),
        Column("Separator", lambda names: ", ".join(names) or "–", is_number=False),
    )
    return Table("cliques", "Cliques of the model and their separators, in the order of the junction tree", columns, tuple(rows))


def _fit(summary: RunSummary) -> Table:
    model = summary.model
    measures = (
        ("Degrees of freedom", model.degrees_of_freedom),
        ("Log-likelihood, multinomial coefficient counted", model.log_likelihood),
        ("Log-likelihood, kernel alone", model.log_likelihood_kernel),
        ("AIC", model.aic),
        ("BIC", model.bic),
    )
    rows = tuple((name, number(value, 3)) for name, value in measures if value is not None)
    return Table("fit", "Fit of the model", (text_column("Quantity"), Column("Value")), rows)


def paper_table(paper: PaperTable) -> Table:
    """The table of Takemura and Endo, for a run that follows their procedure."""
    decades = sorted({decade for model in paper.models for decade in model.decades}, key=int, reverse=True)
    rows = tuple(
        (
            " ".join("{" + ",".join(clique) + "}" for clique in model.cliques),
            model.log_likelihood,
            model.aic,
            model.degrees_of_freedom,
            model.times_met,
            model.expected_population_uniques,
            *(model.decades.get(decade, 0) for decade in decades),
            model.riskiest_shared_with_best,
        )
        for model in paper.models
    )
    columns = (
        text_column("Model"),
        Column("Log-likelihood", _two),
        Column("AIC", _two),
        Column("df"),
        Column("Met"),
        Column("τ1", _one_digit),
        *(Column(f"1e{decade}") for decade in decades),
        Column(f"Riskiest {paper.riskiest} shared"),
    )
    return Table(
        "paper-models",
        f"The best models of {number(paper.starts)} climbs; sample uniques by the decade of their cell probability",
        columns,
        rows,
    )


def _estimators(summary: RunSummary) -> Table:
    details = {row.name: row for row in summary.risk.estimator_details}
    values = summary.risk.estimators
    rows = []
    for name in dict.fromkeys([*values, *details]):
        detail = details.get(name, EstimatorDetail(name=name))
        value = values.get(name, detail.expected_population_uniques)
        said = " ".join(text for text in (detail.assumes, detail.message) if text)
        rows.append((estimator_name(name), value if detail.converged else None, said))
    columns = (
        text_column("Estimator"),
        Column("Expected population uniques", lambda value: "no result" if value is None else persons(value)),
        text_column("What it assumes"),
    )
    return Table("estimators", "Estimates of the number of population uniques", columns, tuple(rows))


def _other_populations(summary: RunSummary) -> Table:
    rows = tuple(
        (round(row.population), row.expected_population_uniques, row.expected_correct_matches)
        for row in summary.risk.other_populations
    )
    columns = (
        Column("Population", number),
        Column("Expected population uniques", persons),
        Column("Expected correct matches", persons),
    )
    return Table("other-populations", "If the population were half or twice as large", columns, rows)


def _key_errors(summary: RunSummary) -> Table | None:
    found, risk = summary.risk.key_errors, summary.risk
    if found is None:
        return None
    rows = (
        ("file and register agree", risk.expected_correct_matches, _ends(risk.interval_correct_matches)),
        ("with errors, by equal values", found.exact, _ends(found.interval_exact)),
        ("with errors, to the nearest person", found.nearest, _ends(found.interval_nearest)),
    )
    columns = (text_column("Register"), Column("Expected correct links", persons), text_column("95 % interval"))
    return Table("key-errors", "If some values differ between file and register", columns, rows)


def _diagnostics(summary: RunSummary) -> Table | None:
    fit = summary.risk.diagnostics
    if fit is None:
        return None
    rows = tuple((row.name, row.value, row.standard_error, row.z) for row in fit.statistics)
    columns = (text_column("Statistic"), Column("Value"), Column("Standard error"), Column("z", lambda z: number(z, 2)))
    return Table("diagnostics", "Does the model fit where it matters? Skinner and Shlomo's statistics", columns, rows)


def _expected_sizes(summary: RunSummary) -> Table | None:
    fit = summary.risk.diagnostics
    if fit is None:
        return None
    rows = tuple((row.size, row.observed, row.expected) for row in fit.size_indices)
    columns = (text_column("Records in the cell"), Column("Cells observed"), Column("Cells expected"))
    return Table("expected-size-indices", "Cells of each size, observed and expected under the model", columns, rows)


MEASURES: tuple[tuple[str, Callable[[RiskNumbers], float | None]], ...] = (
    ("Expected population uniques", lambda risk: risk.expected_population_uniques),
    ("Expected correct matches", lambda risk: risk.expected_correct_matches),
    ("Sample uniques", lambda risk: risk.sample_uniques),
    ("Highest risk of a record", lambda risk: risk.highest),
)
"""What is compared before and after a protection."""


def _before_after(summary: RunSummary) -> Table | None:
    if summary.swap is None:
        return None
    before, after = summary.swap.risk_before, summary.swap.risk_after
    rows = tuple((name, of(before), of(after)) for name, of in MEASURES if of(before) is not None)
    return Table(
        "before-after", "Risk before and after swapping", (text_column("Measure"), Column("Before"), Column("After")), rows
    )


def _intruders(summary: RunSummary) -> Table | None:
    return None if summary.swap is None or not summary.swap.intruders else intruders_table(summary.swap.intruders)


def _beyond(summary: RunSummary) -> Table | None:
    return None if summary.swap is None else beyond_table(summary.swap.beyond)


def beyond_table(beyond: Sequence[KnownBeyond]) -> Table | None:
    """By how much columns beside the keys raise what an intruder finds; None if none was tried."""
    if not beyond:
        return None
    rows = tuple((one.columns, one.before, one.after, one.of_alone, one.swapped) for one in beyond)
    columns = (
        names_column("An intruder who also knows"),
        Column("finds before", persons),
        Column("finds after", persons),
        Column("of them alone by the keys", persons),
        Column("of them swapped", persons),
    )
    known = f"; {people(beyond[0].nearest)} by the keys alone"
    return Table("beyond", f"Records that an intruder finds who knows more than the keys{known}", columns, rows)


def intruders_table(intruders: Sequence[IntruderSummary]) -> Table:
    """What each intruder finds, before and after; more columns where there is a register or a truth."""
    columns = [text_column("Intruder"), text_column("Who that is"), Column("Before", persons), Column("After", persons)]
    rows = [
        [intruder.name, f"Somebody who {intruder.knows}{_measured(intruder)}", intruder.before, intruder.after]
        for intruder in intruders
    ]
    title = "Records that an intruder is expected to link to the right person"
    if any(intruder.estimated_after is not None for intruder in intruders):
        title = "Records that an intruder links to the right person, counted in the register, beside what the model expected without it"
    for column, values in (
        (text_column("After, 95 % interval"), [_ends(intruder.interval_after) for intruder in intruders]),
        (text_column("Surer than 0.8"), [_sure(intruder) for intruder in intruders]),
        (Column("After, in truth", persons), [intruder.true_after for intruder in intruders]),
        (Column("Persons, before", persons), [intruder.persons_before for intruder in intruders]),
        (Column("Persons, after", persons), [intruder.persons_after for intruder in intruders]),
        (Column("Before, estimated", persons), [intruder.estimated_before for intruder in intruders]),
        (Column("After, estimated", persons), [intruder.estimated_after for intruder in intruders]),
    ):
        if any(value is not None for value in values):
            columns.append(column)
            rows = [[*row, value] for row, value in zip(rows, values, strict=True)]
    return Table("intruders", title, tuple(columns), tuple(tuple(row) for row in rows))


def frontier_table(points: Sequence[ReleasePoint], caption: str = "Ways to release the file") -> Table:
    """Ways to release a file, numbered as in the picture of the app; without the columns that no way has a number for."""
    columns: list[tuple[Column, Callable[[ReleasePoint], object]]] = [
        (text_column("Recoding"), lambda point: point.name),
        (Column("Information lost", percent), lambda point: point.information_lost),
        (Column("Records swapped"), lambda point: point.records_changed),
        (Column("Tables moved", partial(number, digits=3)), lambda point: point.hellinger_mean),
        (Column("Relations kept", _share), lambda point: point.association_kept),
        (Column("Means moved", _share), lambda point: point.means_moved),
        (Column("Cramér's V moved", partial(number, digits=3)), lambda point: point.relation_moved),
        (Column("Correct links left", partial(number, digits=1)), lambda point: point.correct_links),
        (Column("Highest risk", partial(number, digits=3)), lambda point: point.highest),
    ]
    known = [(column, value_of) for column, value_of in columns if any(value_of(point) is not None for point in points)]
    rows = tuple((place, *(value_of(point) for _, value_of in known)) for place, point in enumerate(points, start=1))
    return Table("ways", caption, (Column(""), *(column for column, _ in known)), rows)


def _measured(intruder: IntruderSummary) -> str:
    return f"; most is found with distances {intruder.distance}" if intruder.distance else ""


def _sure(intruder: IntruderSummary) -> str | None:
    """Links that an intruder can be sure of, and how many of them are right."""
    sure = next((one for one in intruder.sure if one.above == 0.8), None)
    return None if sure is None else f"{persons(sure.claimed)}, {persons(sure.right)} right"


def _ends(interval: tuple[float, ...]) -> str | None:
    """An interval in words; None for a number that was counted."""
    return span(interval) if len(interval) == 2 and interval[0] < interval[1] else None


def _formal_edges(summary: RunSummary) -> Table | None:
    if summary.swap is None or summary.swap.formal is None:
        return None
    rows = tuple((edge.moved, edge.separator, edge.epsilon) for edge in summary.swap.formal.statement.edges)
    columns = (names_column("Moves"), names_column("Between records that agree on"), Column("ε"))
    return Table("formal-edges", "ε, edge by edge", columns, rows)


def _not_swapped(summary: RunSummary) -> Table | None:
    if summary.swap is None:
        return None
    rows = tuple((row.reason, row.records) for row in summary.swap.not_swapped)
    return Table("not-swapped", "Records that could not be swapped", (text_column("Reason"), Column("Records")), rows)


def _remaining(summary: RunSummary) -> Table | None:
    if summary.swap is None:
        return None
    rows = tuple((row.reason, row.remedy, row.records) for row in summary.swap.remaining)
    columns = (text_column("Why"), text_column("What helps"), Column("Records"))
    return Table("remaining", "Records that stay at risk", columns, rows)


def _kept_tables(summary: RunSummary) -> Table | None:
    if summary.swap is None:
        return None
    rows = tuple((margin.variables, margin.cells) for margin in summary.swap.margins)
    columns = (names_column("Variables"), Column("Cells compared"))
    return Table("kept-tables", "Tables that are the same before and after", columns, rows)


def _hellinger(summary: RunSummary) -> Table | None:
    if summary.swap is None:
        return None
    names = {"1": "one variable", "2": "two variables", "3": "three variables"}
    rows = tuple(
        (names.get(order, f"{order} variables"), part.mean, part.max) for order, part in sorted(summary.swap.hellinger.items())
    )
    columns = (text_column("Tables of"), Column("Mean distance"), Column("Largest distance"))
    return Table("hellinger", "How far tables moved: Hellinger distance, 0 = same and 1 = nothing in common", columns, rows)


def _associations(summary: RunSummary) -> Table | None:
    if summary.swap is None:
        return None
    rows = tuple((row.key, row.column, row.before, row.after) for row in summary.swap.associations)
    columns = (text_column("Key"), text_column("Other column"), Column("Before", _three), Column("After", _three))
    return Table("associations", "Association of keys with columns that stayed in place (Cramér's V)", columns, rows)


def _means(summary: RunSummary) -> Table | None:
    if summary.swap is None or summary.swap.file is None:
        return None
    rows = tuple(
        (
            row.column,
            row.key,
            row.level,
            row.records,
            row.before,
            row.after,
            row.relative,
            row.standardised,
            row.median_before,
            row.median_after,
        )
        for row in summary.swap.file.means
    )
    columns = (
        text_column("Column"),
        text_column("Key"),
        text_column("Level"),
        Column("Records"),
        Column("Mean before"),
        Column("Mean after"),
        Column("Change", _signed_percent),
        Column("In standard deviations", _two),
        Column("Median before"),
        Column("Median after"),
    )
    caption = "Means of other columns that moved most, by level of a key, weighted where there are weights"
    return Table("means", caption, columns, rows)


def _leaks(summary: RunSummary) -> Table | None:
    if summary.release is None:
        return None
    rows = tuple(
        (
            row.column,
            row.key,
            row.treated,
            row.determines,
            row.how,
            "accepted" if row.accepted else "undoes it" if row.restores else "–",
        )
        for row in summary.release.leaks
    )
    columns = (
        text_column("Column"),
        text_column("Key"),
        text_column("Done to the key"),
        Column("Tells of what that conceals", percent),
        text_column("By"),
        text_column("Decision"),
    )
    return Table("leaks", "Columns that tell about a treated key", columns, rows)


def _treatments(summary: RunSummary) -> Table | None:
    if summary.release is None:
        return None
    rows = tuple(
        (
            treatment.column,
            treatment.words,
            treatment.records,
            treatment.mean_before,
            treatment.mean_after,
            treatment.spread_before,
            treatment.spread_after,
            treatment.linked_before,
            treatment.linked_after,
            treatment.linked_with_keys_before,
            treatment.linked_with_keys_after,
            treatment.linked_together_before,
            treatment.linked_together_after,
        )
        for treatment in summary.release.treatments
    )
    columns = (
        text_column("Column"),
        text_column("What was done"),
        Column("Values changed"),
        Column("Mean before"),
        Column("Mean after"),
        Column("Standard deviation before"),
        Column("Standard deviation after"),
        Column("Nearest to their own original before", _share),
        Column("After", _share),
        Column("Among those with the same keys before", _share),
        Column("After", _share),
        Column("By all treated columns at once before", _share),
        Column("After", _share),
    )
    return Table("treatments", "Columns that are no keys and were treated", columns, rows)


def _share(share: float | None) -> str:
    return "–" if share is None else percent(share)


def _signed_percent(share: float | None) -> str:
    if share is None:
        return "–"
    return f"{'−' if share < 0 else '+'}{percent(abs(share))}"


def _two(value: float) -> str:
    return number(value, 2)


def _three(value: float) -> str:
    return number(value, 3)


def _frontier(summary: RunSummary) -> Table | None:
    if summary.swap is None:
        return None
    rows = tuple((row.values_changed, row.expected_population_uniques) for row in summary.swap.frontier)
    columns = (Column("Values changed"), Column("Expected population uniques left", persons))
    return Table("frontier", "Risk left after this many changed values", columns, rows)


def columns_table(profile: FileProfile) -> Table:
    """The columns of a file: what each is, how many values it has, and what it probably is."""
    has_labels = any(column.label for column in profile.columns)
    has_codes = any(column.missing_codes or column.proposed_missing for column in profile.columns)
    rows = tuple(
        (
            column.name,
            *((column.label,) if has_labels else ()),
            column.levels,
            column.n_missing,
            *((_codes_for_missing(column),) if has_codes else ()),
            ", ".join(column.examples[:3]),
            column.what,
            column.why,
        )
        for column in profile.columns
    )
    columns = (
        text_column("Column"),
        *((text_column("Label"),) if has_labels else ()),
        Column("Values"),
        Column("Missing"),
        *((text_column("Missing codes"),) if has_codes else ()),
        text_column("Commonest"),
        text_column("Probably"),
        text_column("Why"),
    )
    return Table("columns", f"{number(profile.n_records)} records, {number(len(profile.columns))} columns", columns, rows)


def _codes_for_missing(column: ColumnProfile) -> str:
    proposed = [f"{one.code}? ({one.records:,})" for one in column.proposed_missing]
    return ", ".join((*column.missing_codes, *proposed))


def riskiest_table(summary: RunSummary, riskiest: Sequence[RiskyRecord]) -> Table:
    """The riskiest records with a column for each key. Contains values of records: for the internal edition only."""
    keys = [key.name for key in summary.keys]
    rows = tuple(
        (
            record.counted_from_1,
            record.unique_probability,
            record.match_probability,
            *(record.values.get(key, "") for key in keys),
            ", ".join(record.enough),
            "; ".join(record.why),
        )
        for record in riskiest
    )
    columns = (
        Column("Record, counted from 1"),
        Column("Chance of being unique in the population", percent),
        Column("Chance that a match is right", percent),
        *(text_column(key) for key in keys),
        text_column("Enough to single it out"),
        text_column("Why"),
    )
    return Table("riskiest-records", "The riskiest records", columns, rows, is_internal=True)


def remaining_table(summary: RunSummary, remaining: Sequence[RemainingRecord]) -> Table:
    """The records that stay at risk after protection, with their released values: for the internal edition only."""
    keys = [key.name for key in summary.keys]
    rows = tuple(
        (
            record.counted_from_1,
            record.risk,
            "yes" if record.swapped else "no",
            *(record.values.get(key, "") for key in keys),
            record.reason,
            record.remedy,
        )
        for record in remaining
    )
    columns = (
        Column("Record, counted from 1"),
        Column("Risk that is left", percent),
        text_column("Swapped"),
        *(text_column(key) for key in keys),
        text_column("Why"),
        text_column("What helps"),
    )
    return Table(
        "remaining-records", "Records that stay at risk, one by one", columns, rows, rows[:MOST_REMAINING], is_internal=True
    )


# Which tables describe areas, sensitive columns, several intruders and a register?


MOST_AREAS = 25
"""Number of areas of a level that the page shows; the CSV file has them all."""


WITH_FAMILY = (Column("Recognised alone or with the family", persons),)
"""A column for the larger of both risks, where households are known."""


def role_tables(summary: RunSummary, groups: Sequence[HomogeneousGroup] = ()) -> list[Table]:
    """Every table of roles for which the summary has the numbers; ``groups`` are for the internal edition."""
    made = [
        _areas(summary),
        _every_area(summary),
        _attributes(summary),
        _scenarios(summary),
        *_register(summary),
        _homogeneous_groups(groups),
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
            *([] if level.expected_recognised is None else [level.expected_recognised]),
            level.above_threshold,
            level.drivers,
        )
        for level in summary.risk.areas
    )
    *before, above = RISK_COLUMNS
    columns = (
        text_column("Released with"),
        Column("Areas"),
        *before,
        *(WITH_FAMILY if any(level.expected_recognised is not None for level in summary.risk.areas) else ()),
        above,
        names_column("Small areas that drive the risk"),
    )
    return Table("areas", "The risk at each level of areas, as if no finer one were released", columns, rows)


def _every_area(summary: RunSummary) -> Table:
    rows = tuple(
        (
            level.column,
            area.area,
            area.records,
            area.sample_uniques,
            area.expected_population_uniques,
            *([] if area.expected_recognised is None else [area.expected_recognised]),
            area.above_threshold,
        )
        for level in reversed(summary.risk.areas)
        for area in level.areas
    )
    columns = (
        text_column("Level"),
        text_column("Area"),
        Column("Records"),
        Column("Unique in the file"),
        Column("Expected population uniques", persons),
        *(WITH_FAMILY if any(level.expected_recognised is not None for level in summary.risk.areas) else ()),
        Column("Records above the threshold"),
    )
    return Table("risk-by-area", "The risk of each area, the riskiest first", columns, rows, rows[:MOST_AREAS])


def _attributes(summary: RunSummary) -> Table:
    after = {} if summary.swap is None else {attribute.column: attribute for attribute in summary.swap.attributes}
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
    after = {} if summary.swap is None else {scenario.name: scenario for scenario in summary.swap.scenarios}
    has_families = any(scenario.expected_recognised is not None for scenario in summary.risk.scenarios)
    rows = tuple(
        (
            scenario.name,
            scenario.keys,
            scenario.sample_uniques,
            scenario.expected_population_uniques,
            scenario.expected_correct_matches,
            *([scenario.expected_recognised] if has_families else []),
            scenario.records_above_threshold,
            *([after[scenario.name].expected_population_uniques] if after else []),
            *([after[scenario.name].expected_recognised] if after and has_families else []),
        )
        for scenario in summary.risk.scenarios
    )
    *before, above = RISK_COLUMNS
    columns = (
        text_column("Intruder"),
        names_column("Knows"),
        *before,
        *(WITH_FAMILY if has_families else ()),
        above,
        *((Column("Expected population uniques after protection", persons),) if after else ()),
        *((Column("Recognised alone or with the family after protection", persons),) if after and has_families else ()),
    )
    return Table("scenarios", "Several intruders", columns, rows)


def _register(summary: RunSummary) -> list[Table]:
    register = summary.risk.register
    if register is None:
        return []
    columns = (text_column("In the population"), Column("By the register", persons), Column("Estimated", persons))
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


def _homogeneous_groups(groups: Sequence[HomogeneousGroup]) -> Table:
    rows = tuple(
        (group.column, group.value, group.records, [f"{key} {value}" for key, value in group.values.items()]) for group in groups
    )
    columns = (
        text_column("Sensitive column"),
        text_column("Value"),
        Column("Records", number),
        names_column("Shared by all with"),
    )
    return Table("homogeneous-groups", "Groups that share a sensitive value", columns, rows, is_internal=True)


# What does a board see of a release: who is at risk, before and after, and where do the numbers come from?


MOST_ON_PAGE = 40
"""Number of groups that the page shows; the CSV file has them all."""


def release_tables(summary: RunSummary) -> list[Table]:
    """The tables of a release for which the summary has the numbers."""
    makers = (_provenance, _released_risk, _released_anonymity, _groups, _concentration, _suppressed)
    return [table for maker in makers if (table := maker(summary)) is not None and table.rows]


def _provenance(summary: RunSummary) -> Table | None:
    made = summary.provenance
    if made is None:
        return None
    rows: list[tuple[str, Any]] = [("Date", made.date), ("Input", made.input)]
    if made.input_sha256:
        rows.append(("SHA-256 of the input", made.input_sha256))
    rows.append(("Released file", made.released or "none"))
    if made.released_sha256:
        rows.append(("SHA-256 of the released file", made.released_sha256))
    recoded = "; ".join(f"{key.name}: {key.recode}" for key in summary.keys if key.recode)
    rows += [("Recoded keys", recoded or "none"), ("Program", f"rarecell {made.version}")]
    if made.seed is not None:
        rows.append(("Seed", made.seed))
    if made.run:
        rows.append(("Run", made.run))
    if made.by:
        rows.append(("Run by", made.by))
    return Table("provenance", "Where this comes from", (text_column("What"), text_column("Value")), tuple(rows))


def _released_risk(summary: RunSummary) -> Table | None:
    state = None if summary.swap is None else summary.swap.released
    if state is None:
        return None
    before = summary.risk.histogram
    same = before.edges == state.edges
    rows = tuple((state.edges[k], state.edges[k + 1], before.counts[k] if same else None, n) for k, n in enumerate(state.counts))
    columns = (Column("Risk from", lambda v: f"{v:g}"), Column("up to", lambda v: f"{v:g}"), Column("Before"), Column("After"))
    return Table("record-risk-after", "Records that are alone in the file, by their risk, before and after", columns, rows)


def _released_anonymity(summary: RunSummary) -> Table | None:
    state = None if summary.swap is None else summary.swap.released
    if state is None or not state.k_anonymity:
        return None
    before = summary.risk.k_anonymity
    rows = tuple((int(k), before.get(k), n) for k, n in sorted(state.k_anonymity.items(), key=lambda item: int(item[0])))
    columns = (Column("k"), Column("Before"), Column("After"))
    return Table("k-anonymity-after", "Records in cells smaller than k, before and after", columns, rows)


def _groups(summary: RunSummary) -> Table | None:
    if not summary.groups:
        return None
    has_after = summary.swap is not None and summary.groups[0].records_after is not None
    has_families = summary.groups[0].expected_recognised is not None
    counted_by = "Recognised alone or with the family" if has_families else "Expected population uniques"
    rows = []
    for group in sorted(summary.groups, key=lambda group: -group.expected / max(group.records, 1)):
        share = group.expected / group.records if group.records else 0.0
        row: list[Any] = [group.key, group.level, group.records, group.sample_uniques, group.expected, share]
        if has_after:
            swapped = (group.swapped or 0) / group.records if group.records else 0.0
            row += [group.expected_after, swapped]
        rows.append(tuple(row))
    columns = [
        text_column("Key"),
        text_column("Level"),
        Column("Records"),
        Column("Alone in the file, before"),
        Column(f"{counted_by}, before", persons),
        Column("of its records", percent),
    ]
    if has_after:
        columns += [Column(f"{counted_by}, after", persons), Column("Share of records swapped", percent)]
    page = tuple(rows[:MOST_ON_PAGE]) if len(rows) > MOST_ON_PAGE else None
    return Table("groups", "Risk by group, largest share first", tuple(columns), tuple(rows), page)


def _one_digit(value: Any) -> str:
    return number(value, 1)


def _concentration(summary: RunSummary) -> Table | None:
    swap = summary.swap
    after = () if swap is None or swap.released is None else swap.released.concentration
    if not after:
        rows = tuple((point.records, point.share) for point in summary.concentration)
        columns = [Column("Riskiest records"), Column("Share of the expected population uniques", percent)]
        title = "How risk is concentrated" if swap is None else "How risk is concentrated, before protection"
        return Table("concentration", title, tuple(columns), rows)
    states = (("before", summary.concentration), ("after", after))
    both = tuple((state, point.records, point.share) for state, points in states for point in points)
    heads = (text_column("File"), Column("Riskiest records"), Column("Share of the expected population uniques", percent))
    return Table("concentration", "How risk is concentrated, before and after protection", heads, both)


def _suppressed(summary: RunSummary) -> Table | None:
    found = None if summary.swap is None else summary.swap.suppression
    if found is None:
        return None
    columns = (text_column("Key"), Column("Values blanked"))
    return Table("suppressed", "Values that were blanked", columns, tuple(found.by_key.items()))

"""Which tables does a run have, for the page and for the CSV files beside it?

A table is made once from the summary. The page formats its numbers; the CSV file has them in full.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from rarecell.data.describe import ColumnProfile, FileProfile
from rarecell.data.roles import WHY_OTHER
from rarecell.outcome.planned import ReleasePoint
from rarecell.outcome.records import HomogeneousGroup, RemainingRecord, RiskyRecord
from rarecell.outcome.summary import Count, EstimatorDetail, PaperTable, RunSummary
from rarecell.outcome.swap import IntruderSummary, KnownBeyond, RiskNumbers
from rarecell.outcome.words import counted, decade, first_of, number, people, percent, span
from rarecell.progress import label_of
from rarecell.report.graph_picture import ModelPicture
from rarecell.report.sentences import estimator_name
from rarecell.report.table import Column, Table, names_column, number_column, persons, text_column

_SHORTEST = 0.005
"""Seconds of a stage, below which nobody can say how many cores were busy."""

LARGEST_SIZE_SHOWN = 10
"""Larger cells share one line of the page's table."""

MOST_REMAINING = 50
"""Number of records still at risk that the page shows; the file has all."""


# ---------------------------------------------------------------------- how values are written


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


def _change(value: float | None) -> str:
    """Format a relative change; a total that was zero before has none."""
    return "from nothing" if value is None else percent(value)


def _one_digit(value: Any) -> str:
    return number(value, 1)


def _ends(interval: tuple[float, ...]) -> str | None:
    """An interval in words; None for a number that was counted."""
    return span(interval) if len(interval) == 2 and interval[0] < interval[1] else None


def _sure(intruder: IntruderSummary) -> str | None:
    """Links that an intruder can be sure of, and how many of them are right."""
    sure = next((links for links in intruder.sure if links.above == 0.8), None)
    return None if sure is None else f"{persons(sure.claimed)}, {persons(sure.right)} right"


def _measured(intruder: IntruderSummary) -> str:
    return f"; most is found with distances {intruder.distance}" if intruder.distance else ""


# ---------------------------------------------------------------------- what tables have in common


def parts_of(summary: RunSummary, path: str) -> Sequence[Any]:
    """A list of parts of a summary, by the names of its fields; empty where the run has no such part."""
    part: Any = summary
    for name in path.split("."):
        part = None if part is None else getattr(part, name)
    return () if part is None else part


@dataclass(frozen=True)
class Listing:
    """A table with a row for each of some parts of the summary: ``parts`` is where these are, as in ``swap.margins``."""

    name: str
    caption: str
    parts: str
    columns: tuple[Column, ...]

    def __call__(self, summary: RunSummary) -> Table:
        return Table.of(self.name, self.caption, parts_of(summary, self.parts), self.columns)


RISK_COLUMNS = (
    number_column("Unique in the file", "sample_uniques"),
    number_column("Expected population uniques", "expected_population_uniques", persons),
    number_column("Expected correct matches", "expected_correct_matches", persons),
)
"""The risk of a file, of a release of it, or to one intruder."""

WITH_FAMILY = number_column("Recognised alone or with the family", "expected_recognised", persons, is_optional=True)
"""The larger of both risks, where households are known."""


def timings_table(seconds: Mapping[str, float], processor_seconds: Mapping[str, float]) -> Table:
    """How long each outer stage took, and how many cores were busy with it."""
    stages = [(label_of(stage), seconds[stage], spent) for stage, spent in processor_seconds.items() if stage in seconds]
    whole = ("all stages", sum(clock for _, clock, _ in stages), sum(spent for _, _, spent in stages))
    with_decimals = Column("Seconds", lambda value: f"{value:.2f}")
    return Table(
        "timings",
        "How long each stage took",
        (
            text_column("Stage"),
            with_decimals,
            replace(with_decimals, heading="Of the processor"),
            Column("Cores", lambda value: "–" if value is None else f"{value:.1f}"),
        ),
        tuple((name, clock, spent, spent / clock if clock >= _SHORTEST else None) for name, clock, spent in (*stages, whole)),
    )


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
    missing = summary.missing
    if missing.own_level is None or missing.matches_anything is None:
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
            ("a value of its own: the intruder knows who did not answer", missing.own_level),
            (
                "compatible with every value: the intruder does not know, and the register also lacks answers",
                missing.matches_anything,
            ),
            ("known to a complete register: the intruder has the true value of everybody", missing.register_complete),
        )
        if risk is not None
    )
    columns = (text_column("A missing value is"), *RISK_COLUMNS, Column("Records above the threshold"))
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


_unsafe_combinations = Listing(
    "unsafe-combinations",
    "Smallest combinations of variables that single records out",
    "risk.unsafe_combinations",
    (names_column("Variables", "variables"), number_column("Records they single out", "records")),
)


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
        words = " ".join(text for text in (detail.assumes, detail.message) if text)
        rows.append((estimator_name(name), value if detail.converged else None, words))
    columns = (
        text_column("Estimator"),
        Column("Expected population uniques", lambda value: "no result" if value is None else persons(value)),
        text_column("What it assumes"),
    )
    return Table("estimators", "Estimates of the number of population uniques", columns, tuple(rows))


_other_populations = Listing(
    "other-populations",
    "If the population were half or twice as large",
    "risk.other_populations",
    (
        number_column("Population", lambda other: round(other.population)),
        number_column("Expected population uniques", "expected_population_uniques", persons),
        number_column("Expected correct matches", "expected_correct_matches", persons),
    ),
)


def _key_errors(summary: RunSummary) -> Table | None:
    errors, risk = summary.risk.key_errors, summary.risk
    if errors is None:
        return None
    rows = (
        ("file and register agree", risk.expected_correct_matches, _ends(risk.interval_correct_matches)),
        ("with errors, by equal values", errors.exact, _ends(errors.interval_exact)),
        ("with errors, to the nearest person", errors.nearest, _ends(errors.interval_nearest)),
    )
    columns = (text_column("Register"), Column("Expected correct links", persons), text_column("95 % interval"))
    return Table("key-errors", "If some values differ between file and register", columns, rows)


_diagnostics = Listing(
    "diagnostics",
    "Does the model fit where it matters? Skinner and Shlomo's statistics",
    "risk.diagnostics.statistics",
    (
        text_column("Statistic", "name"),
        number_column("Value", "value"),
        number_column("Standard error", "standard_error"),
        number_column("z", "z", _two),
    ),
)


_expected_sizes = Listing(
    "expected-size-indices",
    "Cells of each size, observed and expected under the model",
    "risk.diagnostics.size_indices",
    (
        text_column("Records in the cell", "size"),
        number_column("Cells observed", "observed"),
        number_column("Cells expected", "expected"),
    ),
)


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
    caption = "Risk before and after swapping"
    if summary.risk.known_families is not None:
        caption += ", of each person without the family"
    return Table("before-after", caption, (text_column("Measure"), Column("Before"), Column("After")), rows)


def _intruders(summary: RunSummary) -> Table | None:
    return None if summary.swap is None or not summary.swap.intruders else intruders_table(summary.swap.intruders)


def _beyond(summary: RunSummary) -> Table | None:
    return None if summary.swap is None else beyond_table(summary.swap.beyond)


def beyond_table(beyond: Sequence[KnownBeyond]) -> Table | None:
    """By how much columns beside the keys raise what an intruder finds; None if none was tried."""
    if not beyond:
        return None
    columns = (
        names_column("An intruder who also knows", "columns"),
        number_column("finds before", "before", persons),
        number_column("finds after", "after", persons),
        number_column("of them alone by the keys", "of_alone", persons),
        number_column("of them swapped", "swapped", persons),
    )
    by_keys = f"; {people(beyond[0].nearest)} by the keys alone"
    return Table.of("beyond", f"Records that an intruder finds who knows more than the keys{by_keys}", beyond, columns)


_INTRUDER_COLUMNS = (
    text_column("Intruder", "name"),
    text_column("Who that is", lambda intruder: f"Somebody who {intruder.knows}{_measured(intruder)}"),
    number_column("Before", "before", persons),
    number_column("After", "after", persons),
    text_column("After, 95 % interval", lambda intruder: _ends(intruder.interval_after), is_optional=True),
    text_column("Surer than 0.8", _sure, is_optional=True),
    number_column("After, in truth", "true_after", persons, is_optional=True),
    number_column("Persons, before", "persons_before", persons, is_optional=True),
    number_column("Persons, after", "persons_after", persons, is_optional=True),
    number_column("Before, estimated", "estimated_before", persons, is_optional=True),
    number_column("After, estimated", "estimated_after", persons, is_optional=True),
)


def intruders_table(intruders: Sequence[IntruderSummary]) -> Table:
    """What each intruder finds, before and after; more columns where there is a register or a truth."""
    title = "Records that an intruder is expected to link to the right person"
    if any(intruder.estimated_after is not None for intruder in intruders):
        title = "Records that an intruder links to the right person, counted in the register, beside what the model expected without it"
    return Table.of("intruders", title, intruders, _INTRUDER_COLUMNS)


_WAY_COLUMNS = (
    text_column("Recoding", "name"),
    number_column("Information lost", "information_lost", percent, is_optional=True),
    number_column("Records swapped", "records_changed", is_optional=True),
    number_column("Values blanked", "values_blanked", is_optional=True),
    number_column("Tables moved", "hellinger_mean", _three, is_optional=True),
    number_column("Relations kept", "association_kept", _share, is_optional=True),
    number_column("Means moved", "means_moved", _share, is_optional=True),
    number_column("Cramér's V moved", "relation_moved", _three, is_optional=True),
    number_column("Correct links left", "correct_links", persons, is_optional=True),
    number_column("Highest risk", "highest", _three, is_optional=True),
)


def frontier_table(points: Sequence[ReleasePoint], caption: str = "Ways to release the file") -> Table:
    """Ways to release a file, numbered as in the picture of the app; without the columns that no way has a number for."""
    table = Table.of("ways", caption, points, _WAY_COLUMNS)
    rows = tuple((place, *row) for place, row in enumerate(table.rows, start=1))
    return replace(table, columns=(Column(""), *table.columns), rows=rows)


_formal_edges = Listing(
    "formal-edges",
    "ε, edge by edge",
    "swap.formal.statement.edges",
    (
        names_column("Moves", "moved"),
        names_column("Between records that agree on", "separator"),
        number_column("ε", "epsilon"),
    ),
)


_not_swapped = Listing(
    "not-swapped",
    "Records that could not be swapped",
    "swap.not_swapped",
    (text_column("Reason", "reason"), number_column("Records", "records")),
)


_remaining = Listing(
    "remaining",
    "Records that stay at risk",
    "swap.remaining",
    (text_column("Why", "reason"), text_column("What helps", "remedy"), number_column("Records", "records")),
)


_kept_tables = Listing(
    "kept-tables",
    "Tables that are the same before and after",
    "swap.margins",
    (names_column("Variables", "variables"), number_column("Cells compared", "cells")),
)


def _hellinger(summary: RunSummary) -> Table | None:
    if summary.swap is None:
        return None
    names = {"1": "one variable", "2": "two variables", "3": "three variables"}
    rows = tuple(
        (names.get(order, f"{order} variables"), part.mean, part.max) for order, part in sorted(summary.swap.hellinger.items())
    )
    columns = (text_column("Tables of"), Column("Mean distance"), Column("Largest distance"))
    return Table("hellinger", "How far tables moved: Hellinger distance, 0 = same and 1 = nothing in common", columns, rows)


_associations = Listing(
    "associations",
    "Association of keys with columns that stayed in place (Cramér's V)",
    "swap.associations",
    (
        text_column("Key", "key"),
        text_column("Other column", "column"),
        number_column("Before", "before", _three),
        number_column("After", "after", _three),
    ),
)


_means = Listing(
    "means",
    "Means of other columns that moved most, by level of a key, weighted where there are weights",
    "swap.file.means",
    (
        text_column("Column", "column"),
        text_column("Key", "key"),
        text_column("Level", "level"),
        number_column("Records", "records"),
        number_column("Mean before", "before"),
        number_column("Mean after", "after"),
        number_column("Change", "relative", _signed_percent),
        number_column("In standard deviations", "standardised", _two),
        number_column("Median before", "median_before"),
        number_column("Median after", "median_after"),
    ),
)


_leaks = Listing(
    "leaks",
    "Columns that tell about a treated key",
    "release.leaks",
    (
        text_column("Column", "column"),
        text_column("Key", "key"),
        text_column("Done to the key", "treated"),
        number_column("Tells of what that conceals", "determines", percent),
        text_column("By", "how"),
        text_column("Decision", lambda leak: "accepted" if leak.accepted else "undoes it" if leak.restores else "–"),
    ),
)


_treatments = Listing(
    "treatments",
    "Columns that are not keys and were treated",
    "release.treatments",
    (
        text_column("Column", "column"),
        text_column("What was done", "words"),
        number_column("Values changed", "records"),
        number_column("Mean before", "mean_before"),
        number_column("Mean after", "mean_after"),
        number_column("Standard deviation before", "spread_before"),
        number_column("Standard deviation after", "spread_after"),
        number_column("Nearest to their own original before", "linked_before", _share),
        number_column("After", "linked_after", _share),
        number_column("Among those with the same keys before", "linked_with_keys_before", _share),
        number_column("After", "linked_with_keys_after", _share),
        number_column("By all treated columns at once before", "linked_together_before", _share),
        number_column("After", "linked_together_after", _share),
    ),
)


_frontier = Listing(
    "frontier",
    "Risk left after this many changed values",
    "swap.frontier",
    (
        number_column("Values changed", "values_changed"),
        number_column("Expected population uniques left", "expected_population_uniques", persons),
    ),
)


def columns_table(profile: FileProfile, *, with_others: bool = True) -> Table:
    """The columns of a file: what each is, how many values it has, and what it probably is.

    ``with_others`` says whether the same advice stands beside each of the columns that look like nothing in particular.
    """
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
            column.why if with_others or column.why != WHY_OTHER else "",
        )
        for column in profile.columns
    )
    columns = (
        text_column("Column"),
        *((text_column("Label"),) if has_labels else ()),
        Column("Values"),
        Column("Missing"),
        *((text_column("Missing codes"),) if has_codes else ()),
        text_column("Most common"),
        text_column("Probably"),
        text_column("Why"),
    )
    return Table("columns", f"{counted(profile.n_records, 'record')}, {counted(len(profile.columns), 'column')}", columns, rows)


def _codes_for_missing(column: ColumnProfile) -> str:
    proposed = [f"{code.code}? ({code.records:,})" for code in column.proposed_missing]
    return ", ".join((*column.missing_codes, *proposed))


def riskiest_table(summary: RunSummary, riskiest: Sequence[RiskyRecord]) -> Table:
    """The riskiest records with a column for each key. Contains values of records: for the internal edition only."""
    columns = (
        number_column("Record, counted from 1", "counted_from_1"),
        number_column("Chance of being unique in the population", "unique_probability", percent),
        number_column("Chance that a match is right", "match_probability", percent),
        *_key_columns(summary),
        text_column("Enough to single it out", lambda record: ", ".join(record.enough)),
        text_column("Why", lambda record: "; ".join(record.why)),
    )
    return Table.of("riskiest-records", "The riskiest records", riskiest, columns, is_internal=True)


def _key_columns(summary: RunSummary) -> list[Column]:
    """A column for each key with the values of records."""
    return [text_column(key.name, partial(_value_of, key.name)) for key in summary.keys]


def _value_of(key: str, record: RiskyRecord | RemainingRecord) -> str:
    return record.values.get(key, "")


def remaining_table(summary: RunSummary, remaining: Sequence[RemainingRecord]) -> Table:
    """The records that stay at risk after protection, with their released values: for the internal edition only."""
    columns = (
        number_column("Record, counted from 1", "counted_from_1"),
        number_column("Risk that is left", "risk", percent),
        text_column("Swapped", lambda record: "yes" if record.swapped else "no"),
        *_key_columns(summary),
        text_column("Why", "reason"),
        text_column("What helps", "remedy"),
    )
    caption = "Records that stay at risk, one by one"
    return Table.of("remaining-records", caption, remaining, columns, most_on_page=MOST_REMAINING, is_internal=True)


# Which tables describe areas, sensitive columns, several intruders and a register?


MOST_AREAS = 25
"""Number of areas of a level that the page shows; the CSV file has them all."""


def role_tables(summary: RunSummary, groups: Sequence[HomogeneousGroup] = ()) -> list[Table]:
    """Every table of roles for which the summary has the numbers; ``groups`` are for the internal edition."""
    tables = [
        _areas(summary),
        _every_area(summary),
        _attributes(summary),
        _scenarios(summary),
        *_register(summary),
        _homogeneous_groups(groups),
    ]
    tables += [_affected(summary), _weighted(summary), _places(summary), _analyses(summary)]
    return [table for table in tables if table.rows]


_areas = Listing(
    "areas",
    "The risk at each level of areas, as if no finer one were released",
    "risk.areas",
    (
        text_column("Released with", lambda level: level.column or "no area"),
        number_column("Areas", lambda level: len(level.areas)),
        *RISK_COLUMNS,
        WITH_FAMILY,
        number_column("Records above the threshold", "above_threshold"),
        names_column("Small areas that drive the risk", "drivers"),
    ),
)


def _every_area(summary: RunSummary) -> Table:
    columns = (
        text_column("Level", lambda row: row[0]),
        text_column("Area", lambda row: row[1].area),
        number_column("Records", lambda row: row[1].records),
        number_column("Unique in the file", lambda row: row[1].sample_uniques),
        number_column("Expected population uniques", lambda row: row[1].expected_population_uniques, persons),
        replace(WITH_FAMILY, of=lambda row: row[1].expected_recognised),
        number_column("Records above the threshold", lambda row: row[1].above_threshold),
    )
    areas = [(level.column, area) for level in reversed(summary.risk.areas) for area in level.areas]
    return Table.of("risk-by-area", "The risk of each area, the riskiest first", areas, columns, most_on_page=MOST_AREAS)


def _attributes(summary: RunSummary) -> Table:
    after = {} if summary.swap is None else {attribute.column: attribute for attribute in summary.swap.attributes}
    named = [
        (f"{before.column}{when}", measures)
        for before in summary.risk.attributes
        for when, measures in ((" before", before), (" after", after.get(before.column)))
        if measures is not None
    ]
    if not after:
        named = [(before.column, before) for before in summary.risk.attributes]
    columns = (
        text_column("Sensitive column", lambda row: row[0]),
        number_column("Distinct l-diversity", lambda row: row[1].l_diversity),
        number_column("Entropy l-diversity", lambda row: row[1].entropy_l_diversity),
        number_column("t-closeness", lambda row: row[1].t_closeness),
        number_column("People guessed right from their group", lambda row: row[1].right_from_groups),
        number_column("People guessed right from the whole file", lambda row: row[1].right_from_file),
        number_column("Groups of two or more with one value", lambda row: row[1].homogeneous_groups),
        number_column("Records in them", lambda row: row[1].records_in_homogeneous_groups),
    )
    return Table.of("attributes", "What groups of look-alike records give away", named, columns)


def _scenarios(summary: RunSummary) -> Table:
    after = {} if summary.swap is None else {scenario.name: scenario for scenario in summary.swap.scenarios}
    columns = (
        text_column("Intruder", "name"),
        names_column("Knows", "keys"),
        *RISK_COLUMNS,
        WITH_FAMILY,
        number_column("Records above the threshold", "records_above_threshold"),
        number_column(
            "Expected population uniques after protection",
            lambda scenario: after[scenario.name].expected_population_uniques if after else None,
            persons,
            is_optional=True,
        ),
        number_column(
            "Recognised alone or with the family after protection",
            lambda scenario: after[scenario.name].expected_recognised if after else None,
            persons,
            is_optional=True,
        ),
    )
    return Table.of("scenarios", "Several intruders", summary.risk.scenarios, columns)


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


_affected = Listing(
    "affected-groups",
    "Groups on which swaps fell most",
    "swap.affected",
    (
        text_column("Column", "column"),
        text_column("Value", "level"),
        number_column("Records", "records"),
        number_column("Swapped", "swapped"),
        number_column("Times the share of the whole file", "ratio"),
    ),
)


_weighted = Listing(
    "weighted-tables",
    "What swaps did to weighted totals",
    "swap.weighted",
    (
        names_column("Table", "variables"),
        text_column("Counts of records", lambda table: "exact" if table.counts_identical else "changed"),
        text_column("Weighted totals", lambda table: "changed" if table.changed else "exact"),
        number_column("Totals that changed", "changed"),
        number_column("Largest relative change", "largest", _change),
        number_column("Share of weight in another cell", "moved", percent),
    ),
)


def _analyses(summary: RunSummary) -> Table:
    columns = (
        text_column("Analysis", lambda row: f"{row[0].name}: {row[0].formula}"),
        text_column("Term", lambda row: row[1].name),
        number_column("Original", lambda row: row[1].before),
        number_column("Protected", lambda row: row[1].after),
        number_column("Standard error", lambda row: row[1].error_before),
        number_column("Relative bias", lambda row: row[1].relative_bias, _share),
        number_column("Overlap of intervals", lambda row: row[1].overlap),
    )
    terms = [(analysis, term) for analysis in parts_of(summary, "swap.analyses") for term in analysis.terms]
    return Table.of("analyses", "Your analyses on both files", terms, columns)


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
    provenance = summary.provenance
    if provenance is None:
        return None
    rows: list[tuple[str, Any]] = [("Date", provenance.date), ("Input", provenance.input)]
    if provenance.input_sha256:
        rows.append(("SHA-256 of the input", provenance.input_sha256))
    rows.append(("Released file", provenance.released or "none"))
    if provenance.released_sha256:
        rows.append(("SHA-256 of the released file", provenance.released_sha256))
    recoded = "; ".join(f"{key.name}: {key.recode}" for key in summary.keys if key.recode)
    rows += [("Recoded keys", recoded or "none"), ("Program", f"rarecell {provenance.version}")]
    if provenance.seed is not None:
        rows.append(("Seed", provenance.seed))
    if provenance.run:
        rows.append(("Run", provenance.run))
    if provenance.by:
        rows.append(("Run by", provenance.by))
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
    suppression = None if summary.swap is None else summary.swap.suppression
    if suppression is None:
        return None
    columns = (text_column("Key"), Column("Values blanked"))
    return Table("suppressed", "Values that were blanked", columns, tuple(suppression.by_key.items()))

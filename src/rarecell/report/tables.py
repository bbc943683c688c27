"""Which tables does a run have, for the page and for the CSV files beside it?

A table is made once from the summary. The page formats its numbers, the CSV file has them in full.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rarecell.report.charts import power_of_ten
from rarecell.report.graph_picture import ModelPicture
from rarecell.report.words import estimator_name, number, percent

Format = Callable[[Any], str]

LARGEST_SIZE_SHOWN = 10
"""Larger cells are in one line of the page's table."""


@dataclass(frozen=True)
class Column:
    """A column: its heading, how its values are written on the page, and whether they are numbers."""

    heading: str
    write: Format = number
    is_number: bool = True


@dataclass(frozen=True)
class Table:
    """A table: the name of its CSV file, its caption, its columns and its values; a long one has fewer rows on the page."""

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    page_rows: tuple[tuple[Any, ...], ...] | None = None

    def written(self) -> list[list[str]]:
        """The cells as the page shows them."""
        return [
            [column.write(value) for column, value in zip(self.columns, row, strict=True)] for row in self.page_rows or self.rows
        ]

    def to_csv(self) -> str:
        """The values in full, with a heading."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([column.heading for column in self.columns])
        writer.writerows([[_harmless(value) for value in row] for row in self.rows])
        return out.getvalue()


def _harmless(value: Any) -> Any:
    """Text that a spreadsheet would run as a formula gets an apostrophe in front; lists are joined."""
    if isinstance(value, list | tuple):
        value = " ".join(str(item) for item in value)
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return value


def _text(heading: str) -> Column:
    return Column(heading, number, is_number=False)


def _names(heading: str) -> Column:
    return Column(heading, lambda names: ", ".join(names), is_number=False)


def all_tables(summary: Mapping[str, Any], riskiest: Sequence[Mapping[str, Any]] | None = None) -> dict[str, Table]:
    """Every table that the summary has the numbers for, by name."""
    makers = (
        _keys,
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
        _diagnostics,
        _expected_sizes,
        _before_after,
        _not_swapped,
        _kept_tables,
        _hellinger,
        _associations,
        _frontier,
    )
    found = [table for maker in makers if (table := maker(summary)) is not None and table.rows]
    if riskiest:
        found.append(riskiest_table(summary, riskiest))
    return {table.name: table for table in found}


def _keys(summary: Mapping[str, Any]) -> Table:
    rows = []
    for key in summary.get("keys", ()):
        coarser = [part["levels"] for part in key.get("coarsenings", ())]
        order = {True: "ordered", False: "unordered"}.get(key.get("ordered"), "–")
        rows.append((key["name"], key.get("levels"), order, coarser, key.get("missing_records", 0)))
    columns = (
        _text("Key"),
        Column("Levels"),
        _text("Order"),
        Column("Also offered in groups", lambda groups: ", ".join(str(n) for n in groups) or "–", is_number=False),
        Column("Records without a value"),
    )
    return Table("keys", "The keys: what an intruder is assumed to know", columns, tuple(rows))


def _size_indices(summary: Mapping[str, Any]) -> Table:
    sizes = summary.get("cells", {}).get("size_indices", {})
    caption, columns = "Occupied cells by the number of records in them", (_text("Records in the cell"), Column("Cells"))
    if not all(str(size).isdigit() for size in sizes):
        return Table("size-indices", caption, columns, tuple(sizes.items()))
    rows = sorted((int(size), n) for size, n in sizes.items())
    large = sum(n for size, n in rows if size > LARGEST_SIZE_SHOWN)
    page = [(size, n) for size, n in rows if size <= LARGEST_SIZE_SHOWN]
    more = [(f"{LARGEST_SIZE_SHOWN + 1} or more", large)] if large else []
    return Table("size-indices", caption, columns, tuple(rows), (*page, *more))


def _k_anonymity(summary: Mapping[str, Any]) -> Table:
    counts = summary.get("risk", {}).get("k_anonymity", {})
    rows = tuple((int(k), n) for k, n in sorted(counts.items(), key=lambda item: int(item[0])))
    return Table(
        "k-anonymity", "Records that violate k-anonymity", (Column("k"), Column("Records in cells smaller than k")), rows
    )


def _decades(summary: Mapping[str, Any]) -> Table:
    decades = summary.get("risk", {}).get("cell_probability_decades", {})
    if isinstance(decades, Mapping):
        rows = [(power_of_ten(k), n) for k, n in sorted(decades.items(), key=lambda item: -int(item[0]))]
    else:
        rows = list(decades)
    columns = (_text("Cell probability from"), Column("Sample uniques"))
    return Table("cell-probability-decades", "Sample uniques by the decade of their cell probability", columns, tuple(rows))


def _histogram(summary: Mapping[str, Any]) -> Table | None:
    histogram = summary.get("risk", {}).get("histogram")
    if not histogram:
        return None
    edges = histogram["edges"]
    rows = tuple((edges[k], edges[k + 1], n) for k, n in enumerate(histogram["counts"]))
    columns = (Column("Risk from", lambda v: f"{v:g}"), Column("up to", lambda v: f"{v:g}"), Column("Records"))
    return Table("record-risk", "Records that are alone in the file, by their risk", columns, rows)


def _key_costs(summary: Mapping[str, Any]) -> Table:
    rows: list[tuple[Any, ...]] = []
    costs = summary.get("risk", {}).get("key_costs", ())
    for cost in sorted(costs, key=lambda cost: (cost.get("without") is None, cost.get("without") or 0.0)):
        for step in cost.get("coarsened", ()):
            rows.append((cost["key"], f"in {step['levels']} groups", step["expected_population_uniques"]))
        if cost.get("without") is not None:
            rows.append((cost["key"], "left out", cost["without"]))
    columns = (_text("Key"), _text("Change"), Column("Expected population uniques then"))
    return Table("key-costs", "What each key costs: the risk when one key is coarser or left out", columns, tuple(rows))


def _unsafe_combinations(summary: Mapping[str, Any]) -> Table:
    rows = tuple((row["variables"], row["records"]) for row in summary.get("risk", {}).get("unsafe_combinations", ()))
    columns = (_names("Variables"), Column("Records they single out"))
    return Table("unsafe-combinations", "Smallest combinations of variables that single records out", columns, rows)


def _key_contributions(summary: Mapping[str, Any]) -> Table:
    shares = summary.get("risk", {}).get("key_contributions", {})
    rows = tuple(sorted(shares.items(), key=lambda item: -item[1]))
    columns = (_text("Key"), Column("Share of the unsafe combinations, weighted by SUDA score", percent))
    return Table("key-contributions", "How much each key takes part in unsafe combinations", columns, rows)


def _cliques(summary: Mapping[str, Any]) -> Table | None:
    if not summary.get("model", {}).get("cliques"):
        return None
    picture = ModelPicture.of(summary["model"])
    rows = []
    for clique in picture.order:
        parent = picture.parents[clique]
        shared = list(picture.separators[clique])
        rows.append((clique + 1, list(picture.cliques[clique]), parent + 1 if parent >= 0 else None, shared))
    columns = (
        Column("Clique", is_number=False),
        _names("Variables"),
        Column("Hangs on clique", is_number=False),
        Column("Separator", lambda names: ", ".join(names) or "–", is_number=False),
    )
    return Table("cliques", "Cliques of the model and their separators, in the order of the junction tree", columns, tuple(rows))


def _fit(summary: Mapping[str, Any]) -> Table:
    model = summary.get("model", {})
    parts = (
        ("degrees_of_freedom", "Degrees of freedom", 0),
        ("log_likelihood", "Log-likelihood, multinomial coefficient counted", 3),
        ("log_likelihood_kernel", "Log-likelihood, kernel alone", 3),
        ("aic", "AIC", 3),
        ("bic", "BIC", 3),
    )
    rows = tuple(
        (label, number(model[name], None if isinstance(model[name], int) else digits))
        for name, label, digits in parts
        if name in model
    )
    return Table("fit", "Fit of the model", (_text("Quantity"), Column("Value")), rows)


def _estimators(summary: Mapping[str, Any]) -> Table:
    risk = summary.get("risk", {})
    details = {row["name"]: row for row in risk.get("estimator_details", ())}
    values = dict(risk.get("estimators", {}))
    rows = []
    for name in dict.fromkeys([*values, *details]):
        detail = details.get(name, {})
        value = values.get(name, detail.get("expected_population_uniques"))
        has_failed = detail.get("converged") is False
        said = " ".join(text for text in (detail.get("assumes"), detail.get("message")) if text)
        rows.append((estimator_name(name), None if has_failed else value, said))
    columns = (
        _text("Estimator"),
        Column("Expected population uniques", lambda value: "no result" if value is None else number(value)),
        _text("What it assumes"),
    )
    return Table("estimators", "Estimates of the number of population uniques", columns, tuple(rows))


def _diagnostics(summary: Mapping[str, Any]) -> Table:
    rows = tuple(
        (row["name"], row.get("value"), row.get("standard_error"), row.get("z"))
        for row in summary.get("risk", {}).get("diagnostics", {}).get("statistics", ())
    )
    columns = (
        _text("Statistic"),
        Column("Value"),
        Column("Standard error"),
        Column("z", lambda z: number(z, 2) if z is not None else "–"),
    )
    return Table("diagnostics", "Does the model fit where it matters? Skinner and Shlomo's statistics", columns, rows)


def _expected_sizes(summary: Mapping[str, Any]) -> Table:
    rows = tuple(
        (row["size"], row.get("observed"), row.get("expected"))
        for row in summary.get("risk", {}).get("diagnostics", {}).get("size_indices", ())
    )
    columns = (_text("Records in the cell"), Column("Cells observed"), Column("Cells expected"))
    return Table("expected-size-indices", "Cells of each size, observed and expected under the model", columns, rows)


_MEASURES = {
    "expected_population_uniques": "Expected population uniques",
    "expected_correct_matches": "Expected correct matches",
    "sample_uniques": "Sample uniques",
    "records_above_threshold": "Records above the threshold",
    "highest": "Highest risk of a record",
}


def measure_name(name: str) -> str:
    return _MEASURES.get(name, name.replace("_", " ").capitalize())


def _before_after(summary: Mapping[str, Any]) -> Table:
    swap = summary.get("swap", {})
    before, after = swap.get("risk_before", {}), swap.get("risk_after", {})
    numbers = [name for name in before if name in after and isinstance(before[name], int | float)]
    rows = tuple((measure_name(name), before[name], after[name]) for name in numbers)
    return Table("before-after", "Risk before and after swapping", (_text("Measure"), Column("Before"), Column("After")), rows)


def _not_swapped(summary: Mapping[str, Any]) -> Table:
    rows = tuple((row["reason"], row["records"]) for row in summary.get("swap", {}).get("not_swapped", ()))
    return Table("not-swapped", "Records that could not be swapped", (_text("Reason"), Column("Records")), rows)


def _kept_tables(summary: Mapping[str, Any]) -> Table:
    rows = tuple((margin["variables"], margin.get("cells")) for margin in summary.get("swap", {}).get("margins", ()))
    columns = (_names("Variables"), Column("Cells compared"))
    return Table("kept-tables", "Tables that are the same before and after", columns, rows)


def _hellinger(summary: Mapping[str, Any]) -> Table:
    rows = []
    for order, part in sorted(summary.get("swap", {}).get("hellinger", {}).items()):
        tables = {"1": "one variable", "2": "two variables", "3": "three variables"}.get(str(order), f"{order} variables")
        if isinstance(part, Mapping):
            rows.append((tables, part.get("mean"), part.get("max")))
        else:
            rows.append((tables, part, None))
    columns = (_text("Tables of"), Column("Mean distance"), Column("Largest distance"))
    return Table(
        "hellinger", "How far tables moved: Hellinger distance, 0 = same and 1 = nothing in common", columns, tuple(rows)
    )


def _associations(summary: Mapping[str, Any]) -> Table:
    rows = tuple(
        (row.get("key"), row.get("column"), row.get("before"), row.get("after"))
        for row in summary.get("swap", {}).get("associations", ())
    )
    columns = (_text("Key"), _text("Other column"), Column("Before", _three), Column("After", _three))
    return Table("associations", "Association of keys with columns that stayed in place (Cramér's V)", columns, rows)


def _three(value: Any) -> str:
    return number(value, 3) if isinstance(value, float) else number(value)


def _frontier(summary: Mapping[str, Any]) -> Table:
    rows = tuple(
        (row["values_changed"], row["expected_population_uniques"]) for row in summary.get("swap", {}).get("frontier", ())
    )
    columns = (Column("Values changed"), Column("Expected population uniques left"))
    return Table("frontier", "Risk left after so many changed values", columns, rows)


RISKIEST_HEADINGS = {
    "record": "Record",
    "unique_probability": "Chance of being unique in the population",
    "match_probability": "Chance that a match is right",
    "enough": "Enough to single it out",
    "why": "Why",
}
"""Headings of the table of the riskiest records; the keys stand between the first three and the last two."""


def riskiest_table(summary: Mapping[str, Any], riskiest: Sequence[Mapping[str, Any]]) -> Table:
    """The riskiest records with a column for each key. Values of records: for the internal edition alone."""
    keys = [key["name"] for key in summary.get("keys", ())] or list(riskiest[0]["values"])
    rows = tuple(
        (
            record["record"],
            record.get("unique_probability"),
            record.get("match_probability"),
            *(str(record["values"].get(key, "")) for key in keys),
            ", ".join(smallest_combination(record)),
            "; ".join(record.get("why", ())),
        )
        for record in riskiest
    )
    headings = RISKIEST_HEADINGS
    columns = (
        Column(headings["record"]),
        Column(headings["unique_probability"], percent),
        Column(headings["match_probability"], percent),
        *(_text(key) for key in keys),
        _text(headings["enough"]),
        _text(headings["why"]),
    )
    return Table("riskiest-records", "The riskiest records", columns, rows)


def smallest_combination(record: Mapping[str, Any]) -> Sequence[str]:
    """The variables of the smallest combination that singles a record out."""
    found: Sequence[str] = min(record.get("unsafe_combinations") or (), key=len, default=())
    return found

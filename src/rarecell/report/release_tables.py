"""What does a board see of a release: who is at risk, before and after, and where do the numbers come from?"""

from __future__ import annotations

from typing import Any

from rarecell.outcome.summary import RunSummary
from rarecell.outcome.words import number, percent
from rarecell.report.table import Column, Table, text_column

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
    rows = []
    for group in sorted(summary.groups, key=lambda group: -group.expected_population_uniques / max(group.records, 1)):
        share = group.expected_population_uniques / group.records if group.records else 0.0
        row: list[Any] = [group.key, group.level, group.records, group.sample_uniques, group.expected_population_uniques, share]
        if has_after:
            swapped = (group.swapped or 0) / group.records if group.records else 0.0
            row += [group.expected_population_uniques_after, swapped]
        rows.append(tuple(row))
    columns = [
        text_column("Key"),
        text_column("Level"),
        Column("Records"),
        Column("Alone in the file, before"),
        Column("Expected population uniques, before", _one_digit),
        Column("of its records", percent),
    ]
    if has_after:
        columns += [Column("Expected population uniques, after", _one_digit), Column("Share of records swapped", percent)]
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

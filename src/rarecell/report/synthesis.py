"""What does a data steward read about a synthetic twin? The same tables at the terminal and on a page of its own."""

from __future__ import annotations

from rarecell.outcome.synthesis import SynthesisSummary
from rarecell.outcome.words import number, percent
from rarecell.report import content_hash, report_environment, style_sheet
from rarecell.report.table import Column, Table, names_column, text_column

_MADE = {
    "levels": "as they are",
    "resampled": "from the band, each amount of the original once",
    "smoothed": "between neighbours in the band, none of the original",
}


def _risk(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def synthesis_tables(summary: SynthesisSummary) -> tuple[Table, ...]:
    """What the twin keeps, how near everything else is, what it gives away, and how its columns are made."""
    kept = Table(
        "tables",
        "Tables that are the original's, cell by cell",
        (names_column("Columns"), Column("Occupied cells"), Column("Records in the smallest"), Column("Cells that differ")),
        tuple((table.variables, table.cells, table.smallest, table.differing) for table in summary.tables),
    )
    near = Table(
        "utility",
        "How near all other tables are",
        (text_column("Tables of"), Column("Mean Hellinger distance", _three), Column("Largest", _three)),
        tuple(
            (f"{order} column{'s' if order != '1' else ''}", *distances) for order, distances in summary.utility.hellinger.items()
        ),
    )
    columns = Table(
        "columns",
        "Columns of the twin",
        (text_column("Column"), Column("Levels in the model"), text_column("Values"), Column("Records in the rarest level")),
        tuple((column.name, column.levels, _MADE[column.values], column.rarest) for column in summary.columns),
    )
    return (kept, near, *_given_away(summary), columns)


def _three(value: object) -> str:
    return number(value, 3)


def _given_away(summary: SynthesisSummary) -> tuple[Table, ...]:
    measures = summary.measures
    if measures is None:
        return ()
    attacks = Table(
        "attacks",
        "What the twin gives away about the people it was made from",
        (
            text_column("Attack"),
            Column("Succeeds on them", percent),
            Column("On people left out", percent),
            Column("Risk", _risk),
            text_column("95 % interval"),
            Column("Risk of the file itself", _risk),
        ),
        tuple(
            (
                f"{attack.attack} of {attack.column}" if attack.column else attack.attack,
                attack.people,
                attack.control,
                attack.risk,
                f"{attack.interval[0]:.2f} to {attack.interval[1]:.2f}",
                attack.original,
            )
            for attack in measures.attacks
        ),
    )
    copies = Table(
        "copies",
        "How much of the file stands in the twin as it was",
        (text_column("Measure"), Column("Share", percent)),
        (
            ("people who are unique on all columns and stand in the twin", measures.unique_exact_matches),
            ("people who are unique on the keys and stand in the twin once", measures.replicated_uniques),
            ("records of the twin nearer to these people than to people left out; 50 % copies nobody", measures.nearer_to_people),
        ),
    )
    return attacks, copies


def synthesis_page(summary: SynthesisSummary, version: str) -> str:
    """Render the summary as a self-contained page."""
    style = style_sheet()
    return (
        report_environment()
        .get_template("synthesis.html")
        .render(summary=summary, tables=synthesis_tables(summary), style=style, style_hash=content_hash(style), version=version)
    )

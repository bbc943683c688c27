"""What does a data steward read about a synthetic twin? The same tables at the terminal and on a page of its own."""

from __future__ import annotations

from dataclasses import replace

from rarecell.outcome.swap import AnalysisSummary
from rarecell.outcome.synthesis import KeptTable, SynthesisSummary, TwinUtility, UnpairedMeasures
from rarecell.outcome.words import number, percent
from rarecell.report.page import content_hash, report_environment, style_sheet
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
    columns = Table(
        "columns",
        "Columns of the twin",
        (text_column("Column"), Column("Levels in the model"), text_column("Values"), Column("Records in the rarest level")),
        tuple((column.name, column.levels, _MADE[column.values], column.rarest) for column in summary.columns),
    )
    analyses = tuple(_analysis_table(analysis) for analysis in summary.analyses)
    return (_kept(summary), *_near(summary), *analyses, *_given_away(summary), columns)


def _kept(summary: SynthesisSummary) -> Table:
    """The tables that are kept, one by one; by size of the household where households were drawn, because they are many."""
    title = "Tables that are the original's, cell by cell"
    counts = (Column("Occupied cells"), Column("Records in the smallest"), Column("Cells that differ"))
    if summary.households is None:
        rows = tuple((table.variables, table.cells, table.smallest, table.differing) for table in summary.tables)
        return Table("tables", title, (names_column("Columns"), *counts), rows)
    by_size: dict[str, list[KeptTable]] = {}
    for table in summary.tables:
        by_size.setdefault(table.rows, []).append(table)
    return Table(
        "tables",
        title,
        (text_column("Tables of"), Column("Number"), *counts),
        tuple(
            (
                name,
                len(kept),
                sum(table.cells for table in kept),
                min(table.smallest for table in kept),
                sum(table.differing for table in kept),
            )
            for name, kept in by_size.items()
        ),
    )


def _near(summary: SynthesisSummary) -> tuple[Table, ...]:
    """How near all other tables are, beside a twin without a smallest cell; and what exchanges did."""
    free = summary.utility_without_limit
    heads = [text_column("Measure"), text_column("Twin")]
    rows: list[list[object]] = [[words, value] for words, value in _nearness(summary.utility)]
    if free is not None:
        heads.append(text_column("Cells of any size"))
        for row, (_, value) in zip(rows, _nearness(free), strict=True):
            row.append(value)
    limited = "" if free is None else f", and what keeping no cell below {summary.least_count:,} costs"
    near = Table("utility", f"How near all other tables are{limited}", tuple(heads), tuple(map(tuple, rows)))
    exchanges = summary.exchanges
    if exchanges is None:
        return (near,)
    done = Table(
        "exchanges",
        "What exchanges within the kept tables did",
        (text_column("Measure"), text_column("As drawn"), text_column("After exchanges")),
        (
            ("unique people who stand in it as they are", percent(exchanges.copies_drawn), percent(exchanges.copies)),
            (_SCORE, f"{exchanges.k_marginal_drawn:.1f}", f"{exchanges.k_marginal:.1f}"),
        ),
    )
    return near, done


_SCORE = "SDNist's score of tables of 2 columns, of 1,000"


def _nearness(utility: TwinUtility) -> list[tuple[str, str]]:
    """Every measure in words, with its value."""
    rows = []
    for order, (mean, largest) in utility.hellinger.items():
        tables = f"Hellinger distance of tables of {order} column{'s' if order != '1' else ''}"
        rows += [(f"{tables}, mean", number(mean, 3)), (f"{tables}, largest", number(largest, 3))]
    rows.append((_SCORE, f"{utility.k_marginal:.1f}"))
    rows.append(("propensity ratio, about 1 if the files look alike", f"{utility.propensity_ratio:.2f}"))
    return rows


def _given_away(summary: SynthesisSummary) -> tuple[Table, ...]:
    """What the twin gives away about persons and households, and what a swap of the same file does."""
    if summary.measures is None:
        return ()
    tables = [*unpaired_tables(summary.measures)]
    families, swap = summary.family_measures, summary.swap_measures
    if families is not None:
        tables += [
            replace(table, name=f"family-{table.name}", caption=f"{table.caption}: households, each as one record")
            for table in unpaired_tables(families)
        ]
    if swap is not None:
        tables.insert(len(unpaired_tables(summary.measures)), _beside_swap(summary.measures, swap))
    return tuple(tables)


def _beside_swap(twin: UnpairedMeasures, swap: UnpairedMeasures) -> Table:
    """The same measures of the twin, of a swap of everybody who is alone on the keys, and of the original."""
    risk_of = {attack.name: attack.risk for attack in swap.attacks}
    rows: list[tuple[object, ...]] = [
        (
            "unique people who stand in it as they are",
            percent(twin.unique_exact_matches),
            percent(swap.unique_exact_matches),
            percent(1.0),
        ),
    ]
    rows += [
        (f"risk of {attack.name}", _risk(attack.risk), _risk(risk_of[attack.name]), _risk(attack.original))
        for attack in twin.attacks
        if attack.name in risk_of
    ]
    heads = (text_column("Measure"), text_column("Twin"), text_column("Swap"), text_column("Original"))
    return Table("beside-swap", "The twin beside a swap of everybody who is alone on the keys", heads, tuple(rows))


def _analysis_table(analysis: AnalysisSummary) -> Table:
    """An analysis on both files, side by side."""
    return Table(
        f"analysis-{analysis.name}",
        f"{analysis.name}: {analysis.kind}, {analysis.formula}",
        (text_column("Term"), Column("Original", _three), Column("Twin", _three), Column("Overlap of the intervals", percent)),
        tuple((term.name, term.before, term.after, term.overlap) for term in analysis.terms),
    )


def _three(value: object) -> str:
    return number(value, 3)


def unpaired_tables(measures: UnpairedMeasures) -> tuple[Table, ...]:
    """What a file without pairs gives away; for any such file, whoever made it."""
    copies = [
        ("people who are unique on all columns and stand in the file", measures.unique_exact_matches),
        ("people who are unique on the keys and stand in the file once", measures.replicated_uniques),
    ]
    if measures.left_out_matches is not None:
        copies.insert(
            1,
            (
                "people left out, different from all of these, who stand in the file; that many by chance",
                measures.left_out_matches,
            ),
        )
    if measures.nearer_to_people is not None:
        copies.append(
            ("its records nearer to these people than to people left out; half if it copies nobody", measures.nearer_to_people)
        )
    tables = [
        Table(
            "copies",
            "How much of the original stands in the file as it was",
            (text_column("Measure"), Column("Share", percent)),
            tuple(copies),
        )
    ]
    if measures.attacks:
        columns = (
            text_column("Attack"),
            Column("Succeeds on them", percent),
            Column("On people left out", percent),
            Column("Risk", _risk),
            text_column("95 % interval"),
            Column("Risk of the original", _risk),
        )
        rows = tuple(
            (
                attack.name,
                attack.people,
                attack.control,
                attack.risk,
                f"{attack.interval[0]:.2f} to {attack.interval[1]:.2f}",
                attack.original,
            )
            for attack in measures.attacks
        )
        tables.insert(0, Table("attacks", "What the file gives away about the people it was made from", columns, rows))
    if measures.columns:
        tables.append(
            Table(
                "attribution",
                "What the keys give away of other columns",
                (text_column("Column"), Column("DiSCO", percent), Column("TCAP", _share)),
                tuple((column.column, column.disco, column.tcap) for column in measures.columns),
            )
        )
    return tuple(tables)


def _share(value: object) -> str:
    return percent(value) if isinstance(value, float) else number(value)


def synthesis_page(summary: SynthesisSummary, version: str) -> str:
    """Render the summary as a self-contained page."""
    style = style_sheet()
    return (
        report_environment()
        .get_template("synthesis.html")
        .render(summary=summary, tables=synthesis_tables(summary), style=style, style_hash=content_hash(style), version=version)
    )

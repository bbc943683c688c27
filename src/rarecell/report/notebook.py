"""What does a notebook show of data, tables, models, risks and plans?

A small card for each: a sentence, a few numbers, and a picture where it says more. It shows no value of a record unless
asked to, since notebooks are passed on with their output.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import singledispatch
from html import escape
from typing import Any

import numpy as np

from rarecell.data.microdata import Microdata
from rarecell.data.names import names_in
from rarecell.errors import BadInput
from rarecell.model.average import AverageModel
from rarecell.model.decomposable import DecomposableModel
from rarecell.model.hierarchical import HierarchicalModel
from rarecell.outcome.records import RiskyRecord
from rarecell.outcome.summary import RunSummary, Vertex
from rarecell.outcome.swap import AttackSummary
from rarecell.outcome.verdict import verdict
from rarecell.outcome.words import about, about_times, counted, listed, number, span, verb
from rarecell.planning.planner import ReleaseFrontier
from rarecell.report import charts
from rarecell.report.first_page import first_page
from rarecell.report.graph_picture import ModelPicture, graph_svg
from rarecell.report.page import style_sheet
from rarecell.report.pictures import all_pictures
from rarecell.report.sentences import family_sentences, fixed_sentence, household_sentence, model_sentences, steps
from rarecell.report.svg import PALETTE
from rarecell.report.table import Table, text_column
from rarecell.report.tables import frontier_table, intruders_table
from rarecell.risk.records import RecordRisk
from rarecell.search.result import SearchResult
from rarecell.swap.apply import SwapResult
from rarecell.swap.plan import SwapPlan
from rarecell.table.contingency import ContingencyTable

N_SHOWN = 10
"""Number of records that a card lists if it is asked for records."""

_TONES = {"risk": PALETTE["risk"], "watch": PALETTE["truth"], "safe": PALETTE["accent"]}


class Card(str):
    """A piece of HTML that a notebook shows by itself."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return str(self)


def card(result: Any, *, show_records: bool = False) -> Card:
    """Make a small card of a result for a notebook.

    Parameters
    ----------
    result : Microdata, ContingencyTable, SearchResult, a model, RecordRisk, SwapPlan, SwapResult, Assessment, Protection, SavedRun, \
Attack or ReleaseFrontier
        The result to show.
    show_records : bool
        Also list a few single records: for internal use, never in a notebook that is passed on.

    Returns
    -------
    Card
        HTML with its own colours, which needs neither a style sheet nor a script.

    Examples
    --------
    >>> import rarecell as rc
    >>> from rarecell import datasets
    >>> data = rc.Microdata(datasets.census_sample(), keys=["age", "sex"])
    >>> "9,809" in rc.card(data.table())
    True
    """
    summary = getattr(result, "summary", None)
    if isinstance(summary, RunSummary):
        whole = _run_card(summary)
        if show_records:
            riskiest = getattr(getattr(result, "assessment", result), "riskiest", ())
            whole += _records(riskiest() if callable(riskiest) else riskiest)
        return Card(whole)
    if isinstance(summary, AttackSummary):
        return Card(_framed(_attack(summary) + (_likeliest(result.likeliest(N_SHOWN)) if show_records else "")))
    return Card(_framed(_body(result, show_records)))


# ---------------------------------------------------------------------- pieces


def _run_card(summary: RunSummary) -> str:
    """The verdict, three numbers in every state of the file and one picture, and no record."""
    page, judgement = first_page(summary), verdict(summary)
    style = "".join(f"--{role}:{colour};" for role, colour in {**PALETTE, "on-line": PALETTE["ink"]}.items())
    picture = all_pictures(summary).get("funnel" if summary.swap is None else "before_after")
    reliability = f" Reliability: {judgement.light}." if judgement.light else ""
    return (
        f'<div style="{style}max-width:46em;border-left:4px solid {_TONES[page.tone]};padding:.2em 0 .2em 1em">'
        f"<p><b>{escape(page.headline)}.</b> {escape(judgement.headline)}. {escape(' '.join(judgement.sentences))}{reliability}</p>"
        f"{_html_table(page.numbers)}{picture.svg if picture else ''}</div>"
    )


def _html_table(table: Table) -> str:
    """A table with its own style, for a notebook."""
    style = 'style="text-align:left;padding:.1em 1.2em .1em 0"'
    head = "".join(f"<th {style}>{escape(column.heading)}</th>" for column in table.columns)
    body = "".join(f"<tr>{''.join(f'<td {style}>{escape(value)}</td>' for value in row)}</tr>" for row in table.written())
    return f'<table style="border:0"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _framed(body: str) -> str:
    tints = dict(reversed(re.findall(r"--(clique-\d): (#\w+)", style_sheet())))
    colours = "".join(f"--{role}:{colour};" for role, colour in {"paper": "#ffffff", **PALETTE, **tints}.items())
    return f'<div style="{colours}max-width:46em;border-left:4px solid {PALETTE["accent"]};padding:.2em 0 .2em 1em">{body}</div>'


def _sentence(words: str) -> str:
    return f"<p>{escape(words)}</p>"


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return _html_table(Table("", "", tuple(text_column(header) for header in headers), tuple(tuple(row) for row in rows)))


def _records(riskiest: Sequence[RiskyRecord]) -> str:
    rows = [
        (
            number(record.counted_from_1),
            ", ".join(f"{key} {value}" for key, value in record.values.items()),
            f"{record.unique_probability:.3f}",
        )
        for record in riskiest[:N_SHOWN]
    ]
    return _sentence("The riskiest records, counted from 1. Do not share.") + _table(["record", "values", "risk"], rows)


@singledispatch
def _body(result: Any, show_records: bool) -> str:
    describe = getattr(result, "describe", None)
    if describe is None:
        raise BadInput(f"There is no card for {type(result).__name__}; print shows it in words.")
    return _sentence(_capital(describe()))


def _capital(words: str, end: str = ".") -> str:
    return f"{words[:1].upper()}{words[1:]}".rstrip(".") + end


# ---------------------------------------------------------------------- results


@_body.register
def _(result: Microdata, show_records: bool) -> str:
    roles = {"keys": result.keys}
    for role in ("weight", "household", "geography", "strata", "sensitive", "id"):
        named = getattr(result, role)
        roles[role] = (named,) if isinstance(named, str) else tuple(named or ())
    n_without = len(set(result.columns) - {column for columns in roles.values() for column in columns})
    rows = [(role, ", ".join(columns)) for role, columns in roles.items() if columns]
    return _sentence(
        f"{_capital(result.source.name, end='')}: {len(result.columns)} columns, {n_without} of them without a role."
    ) + _table(["role", "columns"], rows)


@_body.register
def _(result: ContingencyTable, show_records: bool) -> str:
    sizes = {"1": 0, "2": 0, "3 or 4": 0, "5 or more": 0}
    for size, cells in result.size_indices.items():
        sizes["1" if size == 1 else "2" if size == 2 else "3 or 4" if size < 5 else "5 or more"] += cells
    return (
        _sentence(str(result))
        + _table(["key", "levels"], [(category.key, number(category.n_levels)) for category in result.categories])
        + _table(["records in a cell", "cells"], [(size, number(cells)) for size, cells in sizes.items()])
    )


@_body.register
def _(result: SearchResult, show_records: bool) -> str:
    return _sentence(f"{result.proof}.") + _graph(result.best)


@_body.register
def _(result: DecomposableModel, show_records: bool) -> str:
    return _sentence(_capital(result.describe())) + _graph(result)


@_body.register
def _(result: AverageModel, show_records: bool) -> str:
    drawn = next((model for model in result.members if isinstance(model, DecomposableModel)), None)
    picture = "" if drawn is None else _sentence("One of the models:") + _graph(drawn)
    return _sentence(_capital(result.describe())) + picture


@_body.register
def _(result: HierarchicalModel, show_records: bool) -> str:
    return _sentence(_capital(result.describe())) + _graph(result)


def _graph(model: DecomposableModel | HierarchicalModel) -> str:
    table = model.table
    vertices = tuple(
        Vertex(name=table.vertex_names[v], key=table.keys[table.vertex_key[v]], levels=int(table.vertex_levels[v]))
        for v in range(table.n_vertices)
    )
    groups = model.cliques if isinstance(model, DecomposableModel) else model.generators
    return graph_svg(ModelPicture.of_structure(vertices, tuple(tuple(group) for group in groups)), name="model")


@_body.register
def _(result: RecordRisk, show_records: bool) -> str:
    alone = result.unique_probability[result.sample_count == 1]
    counts, edges = np.histogram(alone, bins=np.linspace(0, 1, 11))
    chart = charts.record_risk_histogram([float(edge) for edge in edges], [int(count) for count in counts])
    picture = chart.svg(
        name="risk", title="Risk of records", description=f"Risk of {len(alone):,} sample uniques in ten classes."
    )
    body = _sentence(str(result)) + picture
    if not show_records:
        return body
    rows = result.riskiest(N_SHOWN)
    risks = np.sort(alone)[::-1][: len(rows)]
    listed_rows = [(number(int(row) + 1), f"{risk:.3f}") for row, risk in zip(rows, risks, strict=True)]
    return body + _sentence("The riskiest records, counted from 1. Do not share.") + _table(["record", "risk"], listed_rows)


@_body.register
def _(result: SwapPlan, show_records: bool) -> str:
    body = _sentence(str(result))
    audit = result.audit()
    changed: dict[str, int] = {}
    for variables in audit["variables"]:
        for name in names_in(str(variables)):
            changed[name] = changed.get(name, 0) + 1
    if changed:
        body += _table(["exchanged", "swaps"], [(name, number(n)) for name, n in sorted(changed.items(), key=lambda kv: -kv[1])])
    if not show_records:
        return body
    rows = list(zip(audit["record"], audit["partner"], audit["variables"], strict=True))[:N_SHOWN]
    shown = [(number(int(record) + 1), number(int(partner) + 1), str(names)) for record, partner, names in rows]
    return body + _sentence("Swaps, records counted from 1. Do not share.") + _table(["record", "partner", "exchanged"], shown)


@_body.register
def _(result: SwapResult, show_records: bool) -> str:
    checked = [(", ".join(margin.variables), number(margin.n_cells), number(margin.n_differing)) for margin in result.margins]
    return _sentence(str(result)) + _table(["kept table", "cells", "that differ"], checked)


@_body.register
def _(result: ReleaseFrontier, show_records: bool) -> str:
    return _sentence(str(result)) + _html_table(frontier_table(result.points))


def _attack(summary: AttackSummary) -> str:
    return _sentence(summary.sentence) + _html_table(intruders_table(summary.intruders))


def _likeliest(records: Sequence[tuple[int, float]]) -> str:
    rows = [(number(row + 1) if row >= 0 else "–", f"{probability:.3f}") for row, probability in records]
    return _sentence("The records most likely to be linked, counted from 1. Do not share.") + _table(
        ["record", "probability"], rows
    )


# ---------------------------------------------------------------------- in words


class Explanation(str):
    """Text that prints as paragraphs, and that a notebook shows as paragraphs."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return "".join(f"<p>{escape(part)}</p>" for part in self.split("\n\n"))


def explain(result: Any) -> Explanation:
    """Explain a result in words: what was asked, what was found, how certain it is, and what to do next.

    Parameters
    ----------
    result : Assessment, Protection or SavedRun
        The result to explain.

    Returns
    -------
    Explanation
        Text in paragraphs, without any value of a record.
    """
    summary = getattr(result, "summary", None)
    if not isinstance(summary, RunSummary):
        raise BadInput(f"Only a run can be explained: an Assessment, a Protection or a loaded run, not {type(result).__name__}.")
    risk = summary.risk
    question = (
        f"The question. The file has {number(summary.records)} records, drawn from a population of {number(summary.population)}. Somebody "
        f"is assumed to know {listed([key.name for key in summary.keys])} of persons in it, and to look for them in the file."
    )
    alone = (
        f"What the file shows. These keys could take {number(summary.cells.formal)} combinations of values; {number(summary.cells.occupied)} occur. "
        f"{counted(risk.sample_uniques, 'record')} {verb(risk.sample_uniques, 'is', 'are')} alone with such a combination. That by itself does not make "
        "a record recognisable, because it may have a double in the population, outside the file."
    )
    finding = (
        f"What was estimated. Of these, {about(risk.expected_population_uniques)} can be expected to be alone in the "
        f"population as well (95 % interval {span(risk.interval)}). An intruder who matches "
        f"every unique record would be right {about_times(risk.expected_correct_matches)}."
    )
    model = "Where that comes from. " + " ".join(model_sentences(summary, is_drawn=False))
    rest = [text for text in (family_sentences(summary), household_sentence(summary), fixed_sentence(summary)) if text]
    judged = f"The judgement. {verdict(summary)}"
    following = "What to do next. " + " ".join(
        f"{step.text}: {step.command}." if step.command else _capital(step.text) for step in steps(summary)
    )
    return Explanation("\n\n".join([question, alone, finding, model, *rest, judged, following]))

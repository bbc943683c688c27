"""What does a notebook show of a run? The verdict, three numbers in every state of the file and one picture, and no record."""

from __future__ import annotations

from html import escape

from rarecell.outcome.summary import RunSummary
from rarecell.outcome.verdict import verdict
from rarecell.report.drawing import PALETTE
from rarecell.report.first_page import first_page
from rarecell.report.pictures import all_pictures
from rarecell.report.table import Table

_TONES = {"risk": PALETTE["risk"], "watch": PALETTE["truth"], "safe": PALETTE["accent"]}


def card(summary: RunSummary) -> str:
    """Make a piece of HTML with its own colours, which needs neither a style sheet nor a script."""
    page, judgement = first_page(summary), verdict(summary)
    style = "".join(f"--{role}:{colour};" for role, colour in {**PALETTE, "on-line": PALETTE["ink"]}.items())
    picture = all_pictures(summary).get("funnel" if summary.swap is None else "before_after")
    reliability = f" Reliability: {judgement.light}." if judgement.light else ""
    return (
        f'<div style="{style}max-width:46em;border-left:4px solid {_TONES[page.tone]};padding:.2em 0 .2em 1em">'
        f"<p><b>{escape(page.headline)}.</b> {escape(judgement.headline)}. {escape(' '.join(judgement.sentences))}{reliability}</p>"
        f"{html_table(page.numbers)}{picture.svg if picture else ''}</div>"
    )


def html_table(table: Table) -> str:
    """A table with its own style, for a notebook."""
    style = 'style="text-align:left;padding:.1em 1.2em .1em 0"'
    head = "".join(f"<th {style}>{escape(column.heading)}</th>" for column in table.columns)
    body = "".join(f"<tr>{''.join(f'<td {style}>{escape(value)}</td>' for value in row)}</tr>" for row in table.written())
    return f'<table style="border:0"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'

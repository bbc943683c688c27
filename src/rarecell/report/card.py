"""What does a notebook show of a run? A small card: the verdict, three numbers and one picture, and no record."""

from __future__ import annotations

from html import escape

from rarecell.outcome.summary import RunSummary
from rarecell.outcome.verdict import verdict
from rarecell.outcome.words import expected, number
from rarecell.report.drawing import PALETTE
from rarecell.report.pictures import all_pictures

_TONES = {"risk": PALETTE["risk"], "watch": PALETTE["truth"], "safe": PALETTE["accent"]}


def card(summary: RunSummary) -> str:
    """Make a piece of HTML with its own colours, which needs neither a style sheet nor a script."""
    judgement = verdict(summary)
    after = None if summary.swap is None else summary.swap.risk_after
    risk = summary.risk
    numbers = (
        ("unique in the file", number(risk.sample_uniques)),
        (
            "expected to be unique in the population",
            expected(risk.expected_population_uniques if after is None else after.expected_population_uniques),
        ),
        (
            "correct matches to expect",
            expected(risk.expected_correct_matches if after is None else after.expected_correct_matches),
        ),
    )
    cells = "".join(
        f'<td style="padding:0 1.5em 0 0;text-align:left;vertical-align:top"><b style="font-size:1.4em">{escape(value)}</b><br>{escape(what)}</td>'
        for what, value in numbers
    )
    style = "".join(f"--{role}:{colour};" for role, colour in {**PALETTE, "on-line": PALETTE["ink"]}.items())
    picture = all_pictures(summary).get("funnel" if after is None else "before_after")
    return (
        f'<div style="{style}max-width:46em;border-left:4px solid {_TONES[judgement.tone]};padding:.2em 0 .2em 1em">'
        f"<p><b>{escape(judgement.headline)}.</b> {escape(' '.join(judgement.sentences))}</p>"
        f'<table style="border:0"><tr>{cells}</tr></table>{picture.svg if picture else ""}</div>'
    )

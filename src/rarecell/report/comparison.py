"""What differs between runs?

One list of measures for the terminal, the page and the app. A measure says whether it describes the file before protection or
the released file; an unprotected run has no numbers for the latter.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rarecell.engine.output import atomic_path
from rarecell.outcome.summary import RunSummary
from rarecell.outcome.swap import SwapSummary
from rarecell.outcome.words import NONE, number, percent
from rarecell.report.page import content_hash, report_environment, style_sheet
from rarecell.report.table import Column, Table, persons, text_column

Shown = Callable[[RunSummary], object]


@dataclass(frozen=True)
class Measure:
    """A number or word that describes a run, and its heading."""

    group: str
    heading: str
    of: Shown
    write: Callable[[object], str] = lambda value: number(value, 3)


def _recodings(run: RunSummary) -> str:
    return "; ".join(f"{key.name}: {key.recode}" for key in run.keys if key.recode) or "none"


def _of_swap(of: Callable[[SwapSummary], object]) -> Shown:
    return lambda run: None if run.swap is None else of(run.swap)


def _share(value: object) -> str:
    return percent(value) if isinstance(value, float) else number(value)


_DATA, _BEFORE, _DONE, _AFTER = "the data", "before protection", "what was done", "after protection"

MEASURES: tuple[Measure, ...] = (
    Measure(_DATA, "records", lambda run: run.records),
    Measure(_DATA, "population", lambda run: run.population),
    Measure(_DATA, "keys", lambda run: f"{len(run.keys)}: {', '.join(key.name for key in run.keys)}"),
    Measure(_DATA, "recoded", _recodings),
    Measure(_DATA, "cells, formal", lambda run: run.cells.formal),
    Measure(_DATA, "cells, occupied", lambda run: run.cells.occupied),
    Measure(_BEFORE, "unique in the file", lambda run: run.risk.sample_uniques),
    Measure(_BEFORE, "expected population uniques", lambda run: run.risk.expected_population_uniques, persons),
    Measure(_BEFORE, "expected correct matches", lambda run: run.risk.expected_correct_matches, persons),
    Measure(_BEFORE, "records above the threshold", lambda run: run.risk.records_above_threshold),
    Measure(_BEFORE, "highest risk", lambda run: run.risk.highest),
    Measure(_BEFORE, "unique records that can be swapped", lambda run: run.risk.swappable_uniques),
    Measure(_BEFORE, "criterion", lambda run: run.model.criterion),
    Measure(_BEFORE, "AIC", lambda run: run.model.aic),
    Measure(_BEFORE, "degrees of freedom", lambda run: run.model.degrees_of_freedom),
    Measure(_BEFORE, "cliques", lambda run: len(run.model.cliques)),
    Measure(_DONE, "chosen records swapped", _of_swap(lambda swap: swap.swapped)),
    Measure(_DONE, "key values changed", _of_swap(lambda swap: swap.values_changed)),
    Measure(_DONE, "share of key values changed", _of_swap(lambda swap: swap.share_changed), _share),
    Measure(_DONE, "values blanked", _of_swap(lambda swap: swap.suppression and swap.suppression.values)),
    Measure(
        _DONE,
        "two-way tables moved (Hellinger)",
        _of_swap(lambda swap: swap.hellinger["2"].mean if "2" in swap.hellinger else None),
    ),
    Measure(_AFTER, "expected population uniques", _of_swap(lambda swap: swap.risk_after.expected_population_uniques), persons),
    Measure(_AFTER, "expected correct matches", _of_swap(lambda swap: swap.risk_after.expected_correct_matches), persons),
    Measure(_AFTER, "highest risk", _of_swap(lambda swap: swap.risk_after.highest)),
)
"""The measures compared between runs."""


def short_names(folders: Sequence[str]) -> list[str]:
    """Names of runs without the folders they share."""
    paths = [os.path.normpath(folder) for folder in folders]
    if len(paths) > 1:
        shared = os.path.commonpath([os.path.abspath(folder) for folder in paths])
        cut = [os.path.relpath(os.path.abspath(folder), shared) for folder in paths]
        if len(set(cut)) == len(cut) and "." not in cut:
            return cut
    return paths


def comparison(names: Sequence[str], runs: Sequence[RunSummary]) -> Table:
    """Put runs side by side; measures that no run has are left out, and those that differ are marked."""
    rows = []
    for measure in MEASURES:
        values = [measure.write(measure.of(run)) for run in runs]
        if any(value != NONE for value in values):
            differs = "" if len(set(values)) == 1 else "≠"
            rows.append((measure.group, measure.heading, *values, differs))
    columns = (text_column("State"), text_column("Measure"), *(Column(name, str) for name in names), text_column("Differs"))
    return Table("comparison", f"{len(runs)} runs side by side", columns, tuple(rows))


def comparison_page(names: Sequence[str], runs: Sequence[RunSummary]) -> str:
    """Render the comparison as a self-contained page."""
    style = style_sheet()
    return (
        report_environment()
        .get_template("comparison.html")
        .render(table=comparison(names, runs), names=names, style=style, style_hash=content_hash(style), version=runs[0].rarecell)
    )


def write_comparison(path: Path, names: Sequence[str], runs: Sequence[RunSummary]) -> Path:
    """Write :func:`comparison_page`, readable by its owner alone."""
    with atomic_path(path) as temporary:
        temporary.write_text(comparison_page(names, runs), encoding="utf-8")
    return path

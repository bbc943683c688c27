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
from rarecell.outcome.summary import FamilySummary, RunSummary
from rarecell.outcome.swap import IntruderSummary, SwapSummary
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


def _families_known(run: RunSummary) -> str | None:
    return None if run.risk.families is None else "yes" if run.risk.known_families else "no"


def _of_families(of: Callable[[FamilySummary], object]) -> Shown:
    return lambda run: None if run.risk.known_families is None else of(run.risk.known_families)


def _household_intruder(run: RunSummary) -> IntruderSummary | None:
    return None if run.swap is None or run.risk.known_families is None else run.swap.intruder("household")


def _households_found(run: RunSummary) -> float | None:
    return None if (found := _household_intruder(run)) is None else found.after


def _recognised_after(run: RunSummary) -> float | None:
    """Records that can be recognised in the released file, alone or with their family."""
    found = _household_intruder(run)
    if found is None or found.persons_certain is None or run.swap is None:
        return None
    return max(found.persons_certain, run.swap.risk_after.expected_population_uniques)


def _above_before(run: RunSummary) -> object:
    """Records at the threshold or above, alone or with their family where that is known."""
    families = run.risk.known_families
    return run.risk.records_above_threshold if families is None else families.records_above_threshold


def _highest_before(run: RunSummary) -> float | None:
    families = run.risk.known_families
    risks = [run.risk.highest, None if families is None else families.highest]
    return max((risk for risk in risks if risk is not None), default=None)


def _share(value: object) -> str:
    return percent(value) if isinstance(value, float) else number(value)


_DATA, _BEFORE, _DONE, _AFTER = "the data", "before protection", "what was done", "after protection"

MEASURES: tuple[Measure, ...] = (
    Measure(_DATA, "records", lambda run: run.records),
    Measure(_DATA, "population", lambda run: run.population),
    Measure(_DATA, "keys", lambda run: f"{len(run.keys)}: {', '.join(key.name for key in run.keys)}"),
    Measure(_DATA, "recoded", _recodings),
    Measure(_DATA, "families known to intruders", _families_known),
    Measure(_DATA, "cells, formal", lambda run: run.cells.formal),
    Measure(_DATA, "cells, occupied", lambda run: run.cells.occupied),
    Measure(_BEFORE, "unique in the file", lambda run: run.risk.sample_uniques),
    Measure(_BEFORE, "expected population uniques", lambda run: run.risk.expected_population_uniques, persons),
    Measure(_BEFORE, "expected correct matches", lambda run: run.risk.expected_correct_matches, persons),
    Measure(_BEFORE, "recognised alone or with the family", _of_families(lambda families: families.expected_records), persons),
    Measure(_BEFORE, "households linked correctly", _of_families(lambda families: families.expected_correct_matches), persons),
    Measure(_BEFORE, "records above the threshold", _above_before),
    Measure(_BEFORE, "highest risk", _highest_before),
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
    Measure(_AFTER, "recognised alone or with the family", _recognised_after, persons),
    Measure(_AFTER, "households linked correctly", _households_found, persons),
    Measure(
        _AFTER, "records above the threshold", _of_swap(lambda swap: swap.released and swap.released.records_above_threshold)
    ),
    Measure(_AFTER, "highest risk", lambda run: None if run.swap is None else run.highest_risk),
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

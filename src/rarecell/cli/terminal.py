"""What does a person at a terminal see?

Tables and progress by rich when somebody watches, plain lines when the output goes to a file or a pipe. Results go to
stdout, progress and notes to stderr.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichBars
from rich.table import Table

from rarecell.machine.signals import when_asked_to_end


class RichProgress:
    """Shows each stage as a bar with the time that remains; Ctrl-C asks the work to stop at its next checkpoint."""

    def __init__(self, bars: RichBars) -> None:
        self._bars = bars
        self._task: Any = None
        self._stop = threading.Event()

    def start(self, stage: str, total: float | None = None) -> None:
        self.done()
        self._task = self._bars.add_task(stage, total=total)

    def advance(self, amount: float = 1.0) -> None:
        if self._task is not None:
            self._bars.advance(self._task, amount)

    def done(self) -> None:
        if self._task is not None:
            self._bars.remove_task(self._task)
            self._task = None

    def cancelled(self) -> bool:
        return self._stop.is_set()

    def stop(self) -> None:
        self._stop.set()


@contextmanager
def watched(*, quiet: bool = False) -> Iterator[RichProgress]:
    """Progress on stderr. The first Ctrl-C lets the work end cleanly; a second one ends it at once."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    bars = RichBars(*columns, console=console, transient=True, disable=quiet or not console.is_terminal)
    progress = RichProgress(bars)

    def on_interrupt() -> None:
        if progress.cancelled():
            raise KeyboardInterrupt
        progress.stop()

    with when_asked_to_end(on_interrupt), bars, _told_of_first_use(bars):
        yield progress


@contextmanager
def _told_of_first_use(bars: RichBars) -> Iterator[None]:
    """Say why the first run takes longer, when something has to be compiled and somebody watches."""
    if bars.disable:
        yield
        return
    from rarecell._kernels.compilation import when_compiling

    with when_compiling(
        lambda: bars.console.print("Compiling for this computer. It takes up to a minute, and only the first time.")
    ):
        yield


def _console() -> Console:
    return Console(file=sys.stdout, highlight=False, soft_wrap=not sys.stdout.isatty())


def number(value: float | None, digits: int = 1) -> str:
    """A number as a person reads it; a dash where there is none."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.{digits}f}"


def rows(title: str, headers: Sequence[str], lines: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> None:
    """Print a table: boxed for a person, columns of plain text for a pipe."""
    console = _console()
    if console.is_terminal:
        table = Table(title=title, title_justify="left", title_style="bold")
        for place, header in enumerate(headers):
            table.add_column(header, justify="right" if place in right else "left")
        for line in lines:
            table.add_row(*line)
        console.print(table)
        return
    print(f"\n{title}")
    widths = [max(len(row[place]) for row in (headers, *lines)) for place in range(len(headers))]
    for row in (headers, *lines):
        parts = [
            text.rjust(w) if place in right else text.ljust(w) for place, (text, w) in enumerate(zip(row, widths, strict=True))
        ]
        print("  " + "  ".join(parts).rstrip())


def show_assessment(summary: Mapping[str, Any]) -> None:
    """The summary of a run, most important first."""
    console = _console()
    risk, cells, model = summary["risk"], summary["cells"], summary["model"]
    for note in summary.get("notes", ()):
        console.print(f"Note: {note}", markup=False)
    console.print(risk["verdict"], style="bold", markup=False)
    truth = summary.get("truth", {})

    def interval(name: str) -> str:
        low, high = risk[name]
        return f"{number(low, 0)} to {number(high, 0)}"

    lines = [
        ("records in the file", number(summary["records"]), "", ""),
        ("population", number(summary["population"]), "", ""),
        ("unique in the file", number(risk["sample_uniques"]), "", ""),
        (
            "of these unique in the population",
            number(risk["expected_population_uniques"]),
            interval("interval"),
            number(truth.get("population_uniques")) if truth else "",
        ),
        (
            "correct matches an intruder can expect",
            number(risk["expected_correct_matches"]),
            interval("interval_correct_matches"),
            number(truth.get("correct_matches")) if truth else "",
        ),
        (f"records with a risk of {risk['threshold']:g} or more", number(risk["records_above_threshold"]), "", ""),
        ("unique records that can be swapped", number(risk["swappable_uniques"]), "", ""),
    ]
    headers = ["", "estimate", "95 % interval"] + (["truth"] if truth else [])
    rows("Risk", headers, [line[: len(headers)] for line in lines], right=(1, 2, 3))
    rows(
        "Keys",
        ["key", "levels", "population uniques without it", "if coarsened"],
        [
            (
                cost["key"],
                str(next(k["levels"] for k in summary["keys"] if k["name"] == cost["key"])),
                number(cost["without"]),
                ", ".join(f"{c['levels']} groups: {number(c['expected_population_uniques'])}" for c in cost["coarsened"]),
            )
            for cost in risk["key_costs"]
        ],
        right=(1, 2),
    )
    rows(
        "Estimators of the number of population uniques",
        ["estimator", "value", "assumes"],
        [(e["name"], number(e["expected_population_uniques"]), e["message"] or e["assumes"]) for e in risk["estimator_details"]],
        right=(1,),
    )
    search = model["search"]
    console.print()
    console.print(f"Model: {model['describe']}.", markup=False)
    console.print(search["sentence"], markup=False)
    console.print(risk["diagnostics"]["sentence"], markup=False)
    console.print(f"{number(cells['occupied'])} of {number(cells['formal'])} cells are occupied.", markup=False)


def show_swap(swap: Mapping[str, Any]) -> None:
    """What a protection did."""
    before, after = swap["risk_before"], swap["risk_after"]
    console = _console()
    console.print()
    console.print(swap["verdict"], style="bold", markup=False)
    rows(
        "Protection",
        ["", "before", "after"],
        [
            (label, number(before[name]), number(after[name]))
            for label, name in (
                ("expected population uniques that would be matched", "expected_population_uniques"),
                ("correct matches an intruder can expect", "expected_correct_matches"),
            )
        ],
        right=(1, 2),
    )
    for reason in swap["not_swapped"]:
        console.print(f"Not swapped: {reason['records']:,} records, because {reason['reason']}.", markup=False)


def show_comparison(names: Sequence[str], summaries: Sequence[Mapping[str, Any]]) -> None:
    """Two runs side by side, with what differs marked."""

    def line(label: str, *path: str) -> tuple[str, ...]:
        values = []
        for summary in summaries:
            found: Any = summary
            for step in path:
                found = found.get(step) if isinstance(found, Mapping) else None
            if isinstance(found, list):
                found = (
                    f"{len(found)}: {', '.join(str(item['name']) for item in found)}" if path[-1] == "keys" else str(len(found))
                )
            values.append(
                number(found, 3)
                if isinstance(found, int | float) and not isinstance(found, bool)
                else str(found if found is not None else "–")
            )
        return (label, *values, "" if len(set(values)) == 1 else "≠")

    rows(
        "Two runs",
        ["", *names, ""],
        [
            line("records", "records"),
            line("population", "population"),
            line("keys", "keys"),
            line("cells, formal", "cells", "formal"),
            line("cells, occupied", "cells", "occupied"),
            line("unique in the file", "risk", "sample_uniques"),
            line("expected population uniques", "risk", "expected_population_uniques"),
            line("expected correct matches", "risk", "expected_correct_matches"),
            line("records above the threshold", "risk", "records_above_threshold"),
            line("unique records that can be swapped", "risk", "swappable_uniques"),
            line("criterion", "model", "criterion"),
            line("AIC", "model", "aic"),
            line("degrees of freedom", "model", "degrees_of_freedom"),
            line("cliques", "model", "cliques"),
            line("records swapped", "swap", "swapped"),
            line("share of key values changed", "swap", "share_changed"),
            line("expected population uniques after", "swap", "risk_after", "expected_population_uniques"),
        ],
        right=(1, 2),
    )

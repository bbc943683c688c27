"""What does a person at a terminal see?

Sentences that are wrapped and a line of progress if somebody is watching, plain lines if the output goes to a file or a pipe.
Results go to stdout, progress to stderr.
"""

from __future__ import annotations

import shlex
import signal
import sys
import textwrap
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import zip_longest

import click

from rarecell.cli.bar import ProgressLine, is_watched
from rarecell.cli.layout import echo, table_lines, terminal_width
from rarecell.machine.memory import gigabytes, peak_memory
from rarecell.machine.signals import when_asked_to_end
from rarecell.outcome.formal import FormalSummary
from rarecell.outcome.planned import ReleasePoint, n_recodings
from rarecell.outcome.release import LeakSummary
from rarecell.outcome.summary import RunSummary
from rarecell.outcome.swap import AttackSummary
from rarecell.outcome.verdict import verdict
from rarecell.outcome.words import counted, first_of, listed, number, percent, verb, with_labels
from rarecell.planning.planner import ReleaseFrontier
from rarecell.report.comparison import comparison
from rarecell.report.first_page import first_page
from rarecell.report.sentences import NextStep, family_sentences, household_sentence, steps
from rarecell.report.table import Table
from rarecell.report.tables import all_tables, beyond_table, frontier_table, intruders_table, paper_table, timings_table
from rarecell.run.config import RunConfig, words_of
from rarecell.run.plan import command_for


@contextmanager
def watched(*, quiet: bool = False, timings: bool = False) -> Iterator[ProgressLine]:
    """Show progress on stderr. The first Ctrl-C lets the work end cleanly; a second one ends it at once.

    Once the verdict has been printed, the first Ctrl-C ends the run without the rest of its advice and keeps its results.

    With ``timings``, say at the end how long each stage took and how much memory the run held.
    """
    progress = ProgressLine(sys.stderr, is_shown=not quiet and is_watched(), is_quiet=quiet)

    def on_interrupt(signal_number: int) -> None:
        if signal_number == signal.SIGINT and progress.end_early():
            return
        if progress.cancelled():
            raise KeyboardInterrupt
        progress.stop()

    with when_asked_to_end(on_interrupt), progress, _first_use_announced(progress):
        yield progress
    if timings:
        show_timings(timings_table(*progress.timings()), peak_memory())


def show_timings(timings: Table, peak: int | None) -> None:
    """Print on stderr how long each stage took, how many cores worked at it, and how much memory the run held."""
    headings = [column.heading for column in timings.columns]
    for line in table_lines(headings, timings.written(), right=(1, 2, 3), width=terminal_width()):
        echo(line, err=True)
    if peak is not None:
        echo(f"The run held {gigabytes(peak)} of memory at its peak.", err=True)


@contextmanager
def _first_use_announced(progress: ProgressLine) -> Iterator[None]:
    """If something has to be compiled, say why the first run takes longer, and use another core for it."""
    from rarecell._kernels.compiled import second_compiler, when_compiling

    with ExitStack() as until_the_end:

        def at_first_use() -> None:
            if progress.is_shown:
                progress.say("Compiling for this computer. It takes up to a minute, and only the first time.")
            until_the_end.enter_context(second_compiler("rarecell.run.rehearsal"))

        with when_compiling(at_first_use):
            yield


def say(text: str, *, bold: bool = False) -> None:
    """Print a sentence: wrapped at a terminal, on one line in a file or a pipe."""
    if sys.stdout.isatty():
        text = textwrap.fill(text, terminal_width(), break_long_words=False, break_on_hyphens=False)
    echo(click.style(text, bold=True) if bold else text)


def rows(title: str, headers: Sequence[str], lines: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> None:
    """Print a table within the width of the terminal."""
    echo()
    say(title, bold=True)
    for line in table_lines(headers, lines, right=right, width=terminal_width()):
        echo(line)


def show_table(table: Table) -> None:
    """Print a table of the report."""
    right = [place for place, column in enumerate(table.columns) if column.is_number]
    rows(table.caption, [column.heading for column in table.columns], table.written(), right=right)


def show_run(
    summary: RunSummary, *, has_details: bool = False, place: str | None = None, config: RunConfig | None = None
) -> None:
    """Print the page for the board; with details, every table of the report as well.

    ``place`` is the run folder, for commands that can be pasted. Commands after a run without a folder restate its choices, ``config``.
    """
    page = first_page(summary, place=place)
    say(f"{page.headline}.", bold=True)
    say(f"{verdict(summary).headline}.")
    if page.rule:
        say(f"{page.rule} Its limits: {'; '.join(page.limits)}.")
    show_table(page.numbers)
    for title, sentences in (
        ("What was done", page.done),
        ("What it cost", page.cost),
        ("What remains", page.remains),
        *page.against,
        ("Notes on the data", summary.notes),
    ):
        _show_list(title, [with_labels(sentence, summary.labels) for sentence in sentences])
    if summary.swap is not None and summary.swap.formal is not None:
        _show_formal(summary.swap.formal)
    _show_steps(summary, place, None if place else config)
    if summary.paper is not None:
        show_table(paper_table(summary.paper))
    if has_details:
        _show_details(summary)


def _show_list(title: str, sentences: Sequence[str]) -> None:
    if sentences:
        echo()
        say(title, bold=True)
    for sentence in sentences:
        _say_item(sentence)


def _say_item(text: str) -> None:
    if sys.stdout.isatty():
        text = textwrap.fill(text, terminal_width() - 4, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    echo(f"  – {text}")


def _show_steps(summary: RunSummary, place: str | None, config: RunConfig | None) -> None:
    echo()
    say("What to do next", bold=True)
    for step in steps(summary, place=place):
        shown = step if config is None or not step.command else _restated(step, config)
        _say_item(f"{shown.text.rstrip('.')}{':' if shown.command else '.'}")
        if shown.command:
            # On its own line, however long: it is there to be copied.
            echo(f"      {shown.command}")


def _restated(step: NextStep, config: RunConfig) -> NextStep:
    """A step that goes on from a run that left no folder: the choices of the run stand in its command."""
    _, word, *options = shlex.split(step.command)
    if word == "handover":
        words = shlex.join(["rarecell", "protect", *words_of(config, "protect"), "--out", "protected"])
        return replace(step, text="Write the file, with its report, and hand it over", command=words)
    if config.protect is not None and {*options} & {"--risk-above", "--max-correct-links", "--max-record-risk"}:
        config = replace(config, protect=config.protect.without_choice)
    return replace(step, command=step.command.replace("--config run.toml", shlex.join(words_of(config, word)), 1))


def _show_details(summary: RunSummary) -> None:
    for table in all_tables(summary).values():
        show_table(table)
    echo()
    risk, cells = summary.risk, summary.cells
    for sentence in (
        f"Model: {summary.model.describe}.",
        summary.model.search.sentence,
        summary.missing.sentence,
        "" if risk.diagnostics is None else risk.diagnostics.sentence,
        "" if risk.design is None else risk.design.sentence,
        "" if risk.register is None else risk.register.sentence,
        family_sentences(summary),
        household_sentence(summary),
        f"{number(cells.occupied)} of {number(cells.formal)} cells are occupied.",
    ):
        if sentence:
            say(sentence)


def _show_formal(formal: FormalSummary) -> None:
    """Print the sentence of a formal release with its invariants, and the cautions: ε is never quoted without them."""
    echo()
    say(formal.sentence)
    say(formal.expectation)
    for caution in (formal.possibility, *formal.cautions):
        if caution is not None:
            say(f"Mind: {caution}")


def show_attack(summary: AttackSummary) -> None:
    """Print what the intruders found in a released file."""
    say(summary.sentence, bold=True)
    if summary.recoded:
        say(f"Recoded in the released file, and so in what an intruder holds: {listed(summary.recoded)}.")
    if summary.not_released:
        n = summary.not_released
        say(f"{counted(n, 'record')} of the original {verb(n, 'is', 'are')} not in the released file.")
    if summary.not_in_register:
        n = summary.not_in_register
        say(f"The register has nobody with the values of {counted(n, 'record')} of the original; they count as not found.")
    show_table(intruders_table(summary.intruders))
    further = beyond_table(summary.beyond)
    if further is not None:
        show_table(further)
    if summary.consistency is not None:
        say(summary.consistency.sentence)
    show_leaks(summary.leaks)


def show_leaks(leaks: Sequence[LeakSummary]) -> None:
    """Print the columns that tell about a treated key."""
    if leaks:
        lines = [(leak.column, leak.key, leak.treated, percent(leak.determines), leak.how) for leak in leaks]
        rows("Columns that tell about a treated key", ["column", "key", "", "tells", "by"], lines, right=(3,))
    for leak in leaks:
        if leak.restores:
            say(leak.sentence)


def show_likeliest(records: Sequence[tuple[int, float]]) -> None:
    """Print the records most likely to be linked, counted from 1 as in reports; for internal use."""
    if records:
        lines = [(number(row + 1) if row >= 0 else "–", number(probability, 3)) for row, probability in records]
        title = "Most likely linked by the nearest intruder, counted from 1 in the original (for internal use)"
        rows(title, ["record", "probability"], lines, right=(0, 1))


# How is a plan for a release shown at a terminal?


def show_frontier(frontier: ReleaseFrontier, config: RunConfig) -> None:
    """Print the frontier as a table, then the cheapest options in words, each with its command."""
    which = "least recoded first" if frontier.cheapest else "none of which gets there; the nearest, least recoded first"
    has_associations = any(point.association_kept is not None for point in frontier.points)
    has_means = any(point.means_moved is not None for point in frontier.points)
    caption = f"Ways to release the file with {frontier.target}, {which}"
    show_table(frontier_table(frontier.points, caption))
    echo()
    say(
        f"{_how_many(frontier)} 'Tables moved' is the mean Hellinger distance of two-way tables of the recoded keys."
        + (" 'Relations kept' is the share of what the keys tell about other columns." if has_associations else "")
        + (" 'Means moved' is the largest change of a mean of another column by level of a key." if has_means else "")
        + (" 'Cramér's V moved' is its largest change for a key and another column." if has_associations else "")
    )
    for name, point in frontier.cheapest.items():
        echo()
        say(f"{name[:1].upper()}{name[1:]}: {point}")
        _show_groups(point)
        echo(f"  {command_for(point, frontier.target, config)}")
    other_points = [
        (place, point) for place, point in enumerate(frontier.points, start=1) if point not in frontier.cheapest.values()
    ]
    if frontier.cheapest and other_points:
        echo("\nFor another line of the table, take these options in the same command:")
        for place, point in other_points:
            echo(f"  {place}  {point.options or 'no --recode'}")
    for way in frontier.refused:
        echo()
        say(str(way))
    if not frontier.cheapest:
        echo()
        say(str(frontier))
        first = "Plan again with an option that a refusal offers, allow" if frontier.refused else "Allow"
        say(f"{first} a higher risk, offer coarser levels with --hierarchy, leave a key out, or add --suppress-rest to protect.")


def _how_many(frontier: ReleaseFrontier) -> str:
    """How many combinations were tried, and how many of them fall short."""
    tried = n_recodings(frontier.looked_at)
    short = tried - n_recodings(point for point in frontier.looked_at if point.is_met)
    of = f"All {number(tried)}" if tried == frontier.n_candidates > 1 else f"{number(tried)} of {number(frontier.n_candidates)}"
    sentence = (
        f"{of} {verb(frontier.n_candidates, 'combination', 'combinations')} of recodings {verb(tried, 'was', 'were')} tried"
    )
    if frontier.cheapest:
        sentence += f"; {number(short)} {verb(short, 'does', 'do')} not reach the target" if short else ""
        cost = "swaps and blanks" if frontier.target.limits_groups else "records swapped"
        return f"{sentence}. None of the others keeps more information with fewer {cost}."
    return f"{sentence}; none reaches the target."


def _show_groups(point: ReleasePoint) -> None:
    for key, groups in point.groups.items():
        before, after = point.levels[key]
        sentence = f"{key} in {counted(after, 'level')} instead of {number(before)}: {first_of(groups)}"
        echo(textwrap.fill(sentence, terminal_width(), initial_indent="  ", subsequent_indent="    "))


# How are several runs laid side by side in a terminal?
#
# As many runs as fit share a table; nothing is cut off, so long names and lists wrap inside their column.


_NARROWEST, _WIDEST = 12, 32
"""Characters of a column of values, at least and at most."""
_LABEL = 30
_SAID = {"before protection": ", before", "after protection": ", after"}


def show_comparison(names: Sequence[str], summaries: Sequence[RunSummary]) -> None:
    """Print runs side by side, as many at a time as fit into the terminal; measures that differ are marked."""
    table = comparison(names, summaries)
    # Margin, label, the mark of a difference and the gaps around it are the same for any number of runs.
    room = terminal_width() - _LABEL - 2 - 3
    most = max(1, room // (_NARROWEST + 2))
    n_tables = -(-len(names) // most)
    each = -(-len(names) // n_tables)
    width = max(_NARROWEST, min(_WIDEST, room // each - 2))
    for first in range(0, len(names), each):
        shown = list(range(first, min(first + each, len(names))))
        _show_some(table, names, shown, width)


def _show_some(table: Table, names: Sequence[str], shown: Sequence[int], width: int) -> None:
    title = table.caption if len(shown) == len(names) else f"{table.caption}: {_which(shown)}"
    lines = _wrapped("", [names[run] for run in shown], "", width)
    for state, heading, *values, differs in table.written():
        lines += _wrapped(f"{heading}{_SAID.get(state, '')}", [values[run] for run in shown], differs, width)
    rows(title, [""] * (len(shown) + 2), lines, right=range(1, len(shown) + 1))


def _which(shown: Sequence[int]) -> str:
    return f"run {shown[0] + 1}" if len(shown) == 1 else f"runs {shown[0] + 1} to {shown[-1] + 1}"


def _wrapped(label: str, values: Sequence[str], differs: str, width: int) -> list[tuple[str, ...]]:
    """A measure as lines of a table: its label and values wrapped, the mark on the first line."""
    cells = [textwrap.wrap(label, _LABEL, subsequent_indent="  "), *(textwrap.wrap(value, width) for value in values), [differs]]
    return list(zip_longest(*cells, fillvalue=""))

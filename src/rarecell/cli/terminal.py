"""What does a person at a terminal see?

Sentences that are wrapped and a line of progress if somebody is watching, plain lines if the output goes to a file or a pipe.
Results go to stdout, progress to stderr.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import zip_longest

import click

from rarecell.cli.bar import ProgressLine, is_watched
from rarecell.cli.layout import table_lines, terminal_width
from rarecell.machine.signals import when_asked_to_end
from rarecell.outcome.formal import FormalSummary
from rarecell.outcome.release import LeakSummary
from rarecell.outcome.summary import RiskSummary, RunSummary
from rarecell.outcome.swap import AttackSummary, IntruderSummary, SwapSummary
from rarecell.outcome.words import counted, first_of, listed, number, percent, span, verb
from rarecell.planning.planner import ReleaseFrontier, ReleasePoint
from rarecell.report.comparison import comparison
from rarecell.report.table import Table
from rarecell.run.config import RunConfig
from rarecell.run.plan import command_for


@contextmanager
def watched(*, quiet: bool = False) -> Iterator[ProgressLine]:
    """Show progress on stderr. The first Ctrl-C lets the work end cleanly; a second one ends it at once."""
    progress = ProgressLine(sys.stderr, is_shown=not quiet and is_watched())

    def on_interrupt() -> None:
        if progress.cancelled():
            raise KeyboardInterrupt
        progress.stop()

    with when_asked_to_end(on_interrupt), progress, _told_of_first_use(progress):
        yield progress


@contextmanager
def _told_of_first_use(progress: ProgressLine) -> Iterator[None]:
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
    click.echo(click.style(text, bold=True) if bold else text)


def rows(title: str, headers: Sequence[str], lines: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> None:
    """Print a table within the width of the terminal."""
    click.echo()
    say(title, bold=True)
    for line in table_lines(headers, lines, right=right, width=terminal_width()):
        click.echo(line)


def show_assessment(summary: RunSummary) -> None:
    """Print the summary of a run, most important first."""
    for note in summary.notes:
        say(f"Note: {note}")
    say(summary.risk.verdict, bold=True)
    if summary.risk.reliability is not None:
        light = summary.risk.reliability
        say(f"Reliability: {light.light}. {light.sentence}")
    _show_risk(summary)
    _show_missing(summary)
    show_roles(summary.risk, rows, say)
    _show_keys(summary)
    rows(
        "Estimators of the number of population uniques",
        ["estimator", "value", "assumes"],
        [(e.name, number(e.expected_population_uniques, 1), e.message or e.assumes) for e in summary.risk.estimator_details],
        right=(1,),
    )
    _show_paper(summary)
    click.echo()
    say(f"Model: {summary.model.describe}.")
    say(summary.model.search.sentence)
    risk = summary.risk
    if risk.diagnostics is not None:
        say(risk.diagnostics.sentence)
    if risk.design is not None:
        say(risk.design.sentence)
    cells = summary.cells
    say(f"{number(cells.occupied)} of {number(cells.formal)} cells are occupied.")


def _show_paper(summary: RunSummary) -> None:
    """Print the table of Takemura and Endo, for a run that follows their procedure."""
    if summary.paper is None:
        return
    decades = sorted({decade for model in summary.paper.models for decade in model.decades}, key=int, reverse=True)
    rows(
        f"The best models of {number(summary.paper.starts)} climbs; sample uniques by the decade of their cell probability",
        [
            "model",
            "log-likelihood",
            "AIC",
            "df",
            "met",
            "τ1",
            *(f"1e{d}" for d in decades),
            f"riskiest {summary.paper.riskiest} shared",
        ],
        [
            (
                " ".join("{" + ",".join(clique) + "}" for clique in model.cliques),
                number(model.log_likelihood, 2),
                number(model.aic, 2),
                number(model.degrees_of_freedom),
                number(model.times_met),
                number(model.expected_population_uniques, 1),
                *(number(model.decades.get(decade, 0)) for decade in decades),
                number(model.riskiest_shared_with_best),
            )
            for model in summary.paper.models
        ],
        right=tuple(range(1, 7 + len(decades))),
    )


def _show_risk(summary: RunSummary) -> None:
    risk, truth = summary.risk, summary.truth
    lines = [
        ("records in the file", number(summary.records), "", ""),
        ("population", number(summary.population), "", ""),
        ("unique in the file", number(risk.sample_uniques), "", ""),
        (
            "of these unique in the population",
            number(risk.expected_population_uniques, 1),
            span(risk.interval),
            number(truth.population_uniques) if truth else "",
        ),
        (
            "correct matches an intruder can expect",
            number(risk.expected_correct_matches, 1),
            span(risk.interval_correct_matches),
            number(truth.correct_matches, 1) if truth else "",
        ),
        (f"records with a risk of {risk.threshold:g} or more", number(risk.records_above_threshold), "", ""),
        ("unique records that can be swapped", number(risk.swappable_uniques), "", ""),
    ]
    headers = ["", "estimate", "95 % interval"] + (["truth"] if truth else [])
    rows("Risk", headers, [line[: len(headers)] for line in lines], right=(1, 2, 3))


def _show_missing(summary: RunSummary) -> None:
    """Print what missing answers have to do with the risk, if there are any."""
    told = summary.missing
    if told.own_level is None or told.matches_anything is None:
        return
    rows(
        "A missing value is",
        ["", "unique in file", "pop. uniques", "matches", "above threshold"],
        [
            (
                meaning,
                number(risk.sample_uniques),
                number(risk.expected_population_uniques, 1),
                number(risk.expected_correct_matches, 1),
                number(risk.records_above_threshold),
            )
            for meaning, risk in (("a value of its own", told.own_level), ("any value", told.matches_anything))
        ],
        right=(1, 2, 3, 4),
    )
    say(told.sentence)


def _show_keys(summary: RunSummary) -> None:
    levels = {key.name: key.levels for key in summary.keys}
    rows(
        "Keys",
        ["key", "levels", "population uniques without it", "if coarsened"],
        [
            (
                cost.key,
                str(levels[cost.key]),
                number(cost.without, 1),
                ", ".join(f"{step.levels} groups: {number(step.expected_population_uniques, 1)}" for step in cost.coarsened),
            )
            for cost in summary.risk.key_costs
        ],
        right=(1, 2),
    )
    options = [step for cost in summary.risk.key_costs for step in cost.coarsened if step.recode]
    if options:
        click.echo()
        say("Options that release a key coarser, and its levels then", bold=True)
        for step in options:
            # On its own line, however long: it is there to be copied.
            click.echo(f'  --recode "{step.recode}"')
            click.echo(
                textwrap.fill(first_of(step.groups), terminal_width(), initial_indent="      ", subsequent_indent="      ")
            )


def show_swap(swap: SwapSummary) -> None:
    """Print what a protection did."""
    before, after = swap.risk_before, swap.risk_after
    click.echo()
    say(swap.verdict, bold=True)
    rows(
        "Protection",
        ["", "before", "after"],
        [
            (
                "expected population uniques that would be matched",
                number(before.expected_population_uniques, 1),
                number(after.expected_population_uniques, 1),
            ),
            (
                "correct matches an intruder can expect",
                number(before.expected_correct_matches, 1),
                number(after.expected_correct_matches, 1),
            ),
        ],
        right=(1, 2),
    )
    _show_intruders(swap)
    if swap.formal is not None:
        _show_formal(swap.formal)
    show_aftermath(swap, rows, say)
    for row in swap.not_swapped:
        say(f"Not swapped: {counted(row.records, 'record')}, because {row.reason}.")


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
    _intruder_rows(summary.intruders)
    show_leaks(summary.leaks)


def show_leaks(leaks: Sequence[LeakSummary]) -> None:
    """Print the columns that tell about a treated key."""
    if leaks:
        lines = [(one.column, one.key, one.treated, percent(one.determines), one.how) for one in leaks]
        rows("Columns that tell about a treated key", ["column", "key", "", "tells", "by"], lines, right=(3,))
    for one in leaks:
        if one.restores:
            say(one.sentence)


def show_likeliest(records: Sequence[tuple[int, float]]) -> None:
    """Print the records most likely to be linked, counted from 1 as in reports; for internal use."""
    if records:
        lines = [(number(row + 1) if row >= 0 else "–", number(probability, 3)) for row, probability in records]
        title = "Most likely linked by the nearest intruder, counted from 1 in the original (for internal use)"
        rows(title, ["record", "probability"], lines, right=(0, 1))


def _intruder_rows(intruders: Sequence[IntruderSummary]) -> None:
    has_truth = any(one.true_after is not None for one in intruders)
    is_counted = any(one.estimated_after is not None for one in intruders)
    rows(
        f"Records linked to the right person{', counted in the register,' if is_counted else ''} by somebody who …",
        ["", "before", "after", *(["truth after"] if has_truth else []), *(["estimate after"] if is_counted else [])],
        [
            (
                f"{one.name}: {one.knows}",
                number(one.before, 1),
                number(one.after, 1),
                *([number(one.true_after, 1)] if has_truth else []),
                *([number(one.estimated_after, 1)] if is_counted else []),
            )
            for one in intruders
        ],
        right=tuple(range(1, 3 + has_truth + is_counted)),
    )


def _show_intruders(swap: SwapSummary) -> None:
    """Print what each intruder finds, and who stays exposed."""
    if swap.intruders:
        _intruder_rows(swap.intruders)
    if swap.remaining:
        rows(
            "Records that stay at risk",
            ["why", "what helps", "records"],
            [(one.reason, one.remedy, number(one.records)) for one in swap.remaining],
            right=(2,),
        )


def _show_formal(formal: FormalSummary) -> None:
    """Print the sentence of a formal release with its invariants, the ε of each edge, and the cautions."""
    click.echo()
    say(formal.sentence)
    say(formal.expectation)
    rows(
        "ε, edge by edge",
        ["moves", "between records that agree on", "ε"],
        [
            (listed(edge.moved), listed(edge.separator) or "nothing", "free" if edge.is_free else number(edge.epsilon))
            for edge in formal.statement.edges
        ],
        right=(2,),
    )
    for caution in (formal.possibility, *formal.cautions):
        if caution is not None:
            say(f"Mind: {caution}")


# How is a plan for a release shown at a terminal?


def show_frontier(found: ReleaseFrontier, config: RunConfig) -> None:
    """Print the frontier as a table, then the cheapest options in words, each with its command."""
    met = "that reach it" if found.cheapest else "that come nearest (none reaches it)"
    has_associations = any(point.association_kept is not None for point in found.points)
    headers = ["", "recoding", "information lost", "records swapped", "tables moved", "correct links left", "highest risk"]
    lines = [
        (
            str(place),
            point.name,
            percent(point.information_lost),
            number(point.records_changed),
            number(point.hellinger_mean, 3),
            number(point.correct_links, 1),
            number(point.highest, 3),
            *([number(point.association_kept and 100 * point.association_kept, 0) + " %"] if has_associations else []),
        )
        for place, point in enumerate(found.points, start=1)
    ]
    rows(
        f"Ways to release the file with {found.target}: those {met}, least recoded first",
        [*headers, *(["relation with other columns kept"] if has_associations else [])],
        lines,
        right=range(2, 8),
    )
    click.echo()
    say(f"{_how_many(found)} 'Tables moved' is the mean Hellinger distance of two-way tables of the recoded keys.")
    for name, point in found.cheapest.items():
        click.echo()
        say(f"{name[:1].upper()}{name[1:]}: {point}")
        _show_groups(point)
        click.echo(f"  {command_for(point, found.target, config)}")
    others = [(place, point) for place, point in enumerate(found.points, start=1) if point not in found.cheapest.values()]
    if found.cheapest and others:
        click.echo("\nFor another line of the table, take these options in the same command:")
        for place, point in others:
            click.echo(f"  {place}  {point.options or 'no --recode'}")
    if not found.cheapest:
        click.echo()
        say(str(found))
        say("Allow a higher risk, offer coarser levels with --hierarchy, leave a key out, or add --suppress-rest to protect.")


def _how_many(found: ReleaseFrontier) -> str:
    """How many combinations were tried, and how many of them fall short."""
    tried, short = len(found.looked_at), sum(not point.is_met for point in found.looked_at)
    said = f"{number(tried)} of {counted(found.n_candidates, 'combination')} of recodings {verb(tried, 'was', 'were')} tried"
    if found.cheapest:
        said += f"; {number(short)} {verb(short, 'does', 'do')} not reach the target" if short else ""
        return f"{said}. None beats these in both information and records swapped."
    return f"{said}; none reaches the target."


def _show_groups(point: ReleasePoint) -> None:
    for key, groups in point.groups.items():
        before, after = point.levels[key]
        said = f"{key}, {before} levels before, {after} then: {first_of(groups)}"
        click.echo(textwrap.fill(said, terminal_width(), initial_indent="  ", subsequent_indent="    "))


# What does a person at a terminal see of areas, sensitive columns, several intruders and a register?


Rows = Callable[..., None]
"""Prints a table: title, headers, lines."""


def show_roles(risk: RiskSummary, rows: Rows, say: Callable[[str], None]) -> None:
    """Print what the roles of the columns add to the risk, as far as the run names them."""
    _show_families(risk, rows, say)
    _show_areas(risk, rows, say)
    _show_scenarios(risk, rows)
    if risk.attributes:
        headers = ["column", "l", "entropy l", "t", "right from group", "right from file", "one-value groups", "records in them"]
        lines = [
            (
                one.column,
                str(one.l_diversity),
                number(one.entropy_l_diversity, 2),
                number(one.t_closeness, 3),
                number(one.right_from_groups),
                number(one.right_from_file),
                number(one.homogeneous_groups),
                number(one.records_in_homogeneous_groups),
            )
            for one in risk.attributes
        ]
        rows("Sensitive columns: what groups of look-alike records give away", headers, lines, right=range(1, 8))
    if risk.register is not None:
        say(risk.register.sentence)


def show_aftermath(swap: SwapSummary, rows: Rows, say: Callable[[str], None]) -> None:
    """Print what a protection did to places, intruders, weighted totals and groups."""
    if swap.places is not None:
        say(swap.places.sentence)
    if swap.carried:
        say(f"Columns that travelled with a swapped key: {', '.join(swap.carried)}.")
    if swap.earlier is not None:
        say(swap.earlier.sentence)
    for left in swap.left_behind:
        say(left.sentence)
    if swap.scenarios:
        lines = [
            (one.name, number(one.expected_population_uniques, 1), number(one.records_above_threshold)) for one in swap.scenarios
        ]
        rows("Scenarios after protection", ["intruder", "expected population uniques", "above threshold"], lines, right=(1, 2))
    for analysis in swap.analyses:
        terms = [
            (t.name, number(t.before, 3), number(t.after, 3), _bias(t.relative_bias), number(t.overlap, 2))
            for t in analysis.terms
        ]
        how = f"{analysis.kind}{', weighted' if analysis.weighted else ''}, {counted(analysis.records, 'record')}"
        headers = ["", "original", "protected", "relative bias", "overlap of intervals"]
        rows(f"{analysis.name}: {analysis.formula} ({how})", headers, terms, right=(1, 2, 3, 4))
    for table in swap.weighted:
        if table.changed:
            say(f"Weighted: {table.sentence}")
    if swap.affected:
        worst = swap.affected[0]
        say(
            f"Swaps fell most on {worst.column} {worst.level}: {worst.swapped:,} of {worst.records:,} records, {worst.ratio:.1f} times the "
            "share of the whole file."
        )


def _show_families(risk: RiskSummary, rows: Rows, say: Callable[[str], None]) -> None:
    """Print the risk of persons and of families beside each other."""
    families = risk.families
    if families is None:
        return
    lines = [
        (
            "as a person",
            number(risk.sample_uniques),
            number(risk.expected_population_uniques, 1),
            number(risk.expected_population_uniques, 1),
            number(risk.expected_correct_matches, 1),
            span(risk.interval),
        ),
        (
            "as a family",
            number(families.sample_uniques),
            number(families.expected_population_uniques, 1),
            number(families.expected_persons, 1),
            number(families.expected_correct_matches, 1),
            span(families.interval),
        ),
    ]
    headers = [
        "recognised",
        "unique in the file",
        "expected population uniques",
        "persons in them",
        "correct matches",
        "95 % interval",
    ]
    rows("Persons and families", headers, lines, right=range(1, 6))
    if not families.known:
        say(families.sentence)
    if families.reliability is not None:
        say(f"Reliability for families: {families.reliability.light}. {families.reliability.sentence}")


def _bias(share: float | None) -> str:
    """A signed change; a number that was zero before has none."""
    return "–" if share is None else percent(share).replace("-", "−")


def _show_areas(risk: RiskSummary, rows: Rows, say: Callable[[str], None]) -> None:
    if not risk.areas:
        return
    lines: Sequence[Sequence[str]] = [
        (
            level.column or "no area",
            number(len(level.areas)),
            number(level.sample_uniques),
            number(level.expected_population_uniques, 1),
            number(level.expected_correct_matches, 1),
            number(level.above_threshold),
            ", ".join(level.drivers),
        )
        for level in risk.areas
    ]
    headers = [
        "released with",
        "areas",
        "unique",
        "expected population uniques",
        "correct matches",
        "above threshold",
        "driven by",
    ]
    rows("Areas: the risk as if no finer level were released", headers, lines, right=range(1, 6))
    if risk.finest_safe_area is None:
        say("At no level of areas are all records below the threshold.")
    elif risk.finest_safe_area:
        say(f"The finest level at which all records are below the threshold: {risk.finest_safe_area}.")
    else:
        say("All records are below the threshold only without any area.")


def _show_scenarios(risk: RiskSummary, rows: Rows) -> None:
    if not risk.scenarios:
        return
    lines = [
        (
            one.name,
            ", ".join(one.keys),
            number(one.sample_uniques),
            number(one.expected_population_uniques, 1),
            number(one.expected_correct_matches, 1),
            number(one.records_above_threshold),
        )
        for one in risk.scenarios
    ]
    headers = ["intruder", "knows", "unique", "expected population uniques", "correct matches", "above threshold"]
    rows("Scenarios", headers, lines, right=range(2, 6))


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

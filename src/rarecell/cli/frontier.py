"""How is a plan for a release shown at a terminal?"""

from __future__ import annotations

import textwrap

import click

from rarecell.cli import terminal
from rarecell.cli.layout import terminal_width
from rarecell.outcome.words import counted, first_of, number, percent, verb
from rarecell.release.planner import ReleaseFrontier, ReleasePoint
from rarecell.run.config import RunConfig
from rarecell.run.planning import command_for


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
    terminal.rows(
        f"Ways to release the file with {found.target}: those {met}, least recoded first",
        [*headers, *(["relation with other columns kept"] if has_associations else [])],
        lines,
        right=range(2, 8),
    )
    click.echo()
    terminal.say(f"{_how_many(found)} 'Tables moved' is the mean Hellinger distance of two-way tables of the recoded keys.")
    for name, point in found.cheapest.items():
        click.echo()
        terminal.say(f"{name[:1].upper()}{name[1:]}: {point}")
        _show_groups(point)
        click.echo(f"  {command_for(point, found.target, config)}")
    others = [(place, point) for place, point in enumerate(found.points, start=1) if point not in found.cheapest.values()]
    if found.cheapest and others:
        click.echo("\nFor another line of the table, take these options in the same command:")
        for place, point in others:
            click.echo(f"  {place}  {point.options or 'no --recode'}")
    if not found.cheapest:
        click.echo()
        terminal.say(str(found))
        terminal.say(
            "Allow a higher risk, offer coarser levels with --hierarchy, leave a key out, or add --suppress-rest to protect."
        )


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

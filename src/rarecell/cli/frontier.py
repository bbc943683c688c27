"""How is a plan for a release shown at a terminal?"""

from __future__ import annotations

import click

from rarecell.cli import terminal
from rarecell.outcome.words import first_of, number, percent
from rarecell.release.planner import ReleaseFrontier, ReleasePoint
from rarecell.run.config import RunConfig
from rarecell.run.planning import command_for


def show_frontier(found: ReleaseFrontier, config: RunConfig) -> None:
    """Print the frontier as a table, then the cheapest options in words, each with its command."""
    met = "that reach it" if found.cheapest else "that come nearest (none reaches it)"
    has_associations = any(point.association_kept is not None for point in found.points)
    headers = ["", "recoding", "information lost", "records swapped", "correct links left", "highest risk"]
    lines = [
        (
            str(place),
            point.name,
            percent(point.information_lost),
            number(point.records_changed),
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
        right=range(2, 7),
    )
    click.echo(
        f"\n{number(len(found.looked_at))} of {number(found.n_candidates)} combinations of recodings were tried; none of them beats these "
        "in information and in records swapped at once."
    )
    for name, point in found.cheapest.items():
        click.echo(f"\n{name[:1].upper()}{name[1:]}: {point}")
        _show_groups(point)
        click.echo(f"  {command_for(point, found.target, config)}")
    if not found.cheapest:
        click.echo(f"\n{found}")
        click.echo(
            "Allow a higher risk, offer coarser levels with --hierarchy, leave a key out, or add --suppress-rest to protect."
        )


def _show_groups(point: ReleasePoint) -> None:
    for key, groups in point.groups.items():
        click.echo(f"  {key}: {first_of(groups)}")

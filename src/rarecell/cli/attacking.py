"""What would intruders find? The command that attacks a released file."""

from __future__ import annotations

import json
from typing import Any

import click

from rarecell.cli.options import FiniteRange
from rarecell.data.names import names_in


@click.command()
@click.argument("released")
@click.option(
    "--original", required=True, help="The file as it was, with the same records in the same order unless --id is given."
)
@click.option("--keys", required=True, help="Columns an intruder could know, separated by commas.")
@click.option("--register", default=None, help="A file with the keys of everybody; links are then counted.")
@click.option(
    "--population", type=FiniteRange(1), default=None, metavar="N", help="Without a register: persons in the population."
)
@click.option("--weight", default=None, help="Without a register: column of the original with survey weights.")
@click.option("--id", "id_column", default=None, help="Column that identifies a record in both files.")
@click.option(
    "--list", "n_listed", type=click.IntRange(0), default=0, metavar="K", help="Also list the K records most likely linked."
)
@click.option("--seed", type=click.IntRange(0), default=0, help="Seed of the model's draws.")
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as JSON.")
@click.option("--quiet", is_flag=True, help="No progress.")
def attack(**options: Any) -> None:
    """What would intruders find in RELEASED, a protected file made by this or any other tool?

    \b
    Example:
        rarecell attack protected.csv --original survey.csv \\
            --keys age,sex,region --population 1000000
    """
    from rarecell.cli import terminal
    from rarecell.run.attack import attack as attacked

    with terminal.watched(quiet=options["quiet"]) as progress:
        done = attacked(
            options["released"],
            original=options["original"],
            keys=list(names_in(options["keys"])),
            register=options["register"],
            population=options["population"],
            weight=options["weight"],
            id=options["id_column"],
            seed=options["seed"],
            progress=progress,
        )
    if options["as_json"]:
        click.echo(json.dumps(done.summary.to_dict(), indent=2))
    else:
        terminal.show_attack(done.summary)
        terminal.show_likeliest(done.likeliest(options["n_listed"]))

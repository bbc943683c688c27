"""Commands on single records of a finished run. Records are counted from 1, as in reports."""

from __future__ import annotations

import click


@click.command("explain-pair")
@click.argument("folder", type=click.Path(exists=True, file_okay=False))
@click.argument("record", type=click.IntRange(1))
@click.argument("partner", type=click.IntRange(1))
def explain_pair(folder: str, record: int, partner: int) -> None:
    """Explain why two records of the run in FOLDER, counted from 1, can or cannot be swapped.

    \b
    Example:
        rarecell explain-pair run 17 2048
    """
    from rarecell.cli import terminal
    from rarecell.run import one_record

    terminal.say(one_record.explain_pair(folder, record - 1, partner - 1))


_record_option = click.option(
    "--record", type=click.IntRange(1), required=True, metavar="K", help="The record, counted from 1 as in reports."
)


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False))
@_record_option
def explain(folder: str, record: int) -> None:
    """Explain why a record of the run in FOLDER is risky. This shows its values: for internal use.

    \b
    Example:
        rarecell explain run --record 17
    """
    from rarecell.cli import terminal
    from rarecell.run import one_record

    terminal.say(str(one_record.explain_record(folder, record - 1)))


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False))
@_record_option
@click.option("--top", type=click.IntRange(1), default=20, show_default=True, help="Exchanges to show.")
def partners(folder: str, record: int, top: int) -> None:
    """List with whom a record of the run in FOLDER could be swapped, and what would change. For internal use.

    \b
    Example:
        rarecell partners run --record 17
    """
    from rarecell.cli import terminal
    from rarecell.run import one_record

    found = one_record.partners(folder, record - 1, most=top)
    terminal.say(str(found))
    if not found.nearest:
        return
    terminal.rows(
        "Nearest exchanges",
        ["partner", "alike", "distance", "changes"],
        [
            (
                f"{one.partner + 1:,}",
                f"{one.n_partners:,}",
                f"{one.distance:.3f}",
                "; ".join(f"{key} {a} → {b}" for key, a, b in zip(one.keys, one.given, one.taken, strict=True)),
            )
            for one in found.nearest
        ],
        right=(0, 1, 2),
    )
    terminal.say("Partners are counted from 1; 'alike' are records with the same values, of which any would do.")


COMMANDS = (explain_pair, explain, partners)

"""The command line: parse, call the library, print.

Nothing heavy is imported before a command needs it, so that help is immediate. Exit codes: 0 done, 1 an error that the user
can fix (one paragraph), 2 wrong usage, 3 a risk above ``--fail-above``, one of the other gates, or a refusal by the profile that was named.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rarecell import __version__
from rarecell.choices import CHECK_FORMATS
from rarecell.cli.layout import echo
from rarecell.cli.options import (
    DETAILS,
    FAIL_ABOVE,
    GATES,
    JSON,
    OVERWRITE,
    PAPER,
    QUIET,
    READS,
    WRITES,
    FiniteRange,
    GroupedCommand,
    config_of,
    own,
    with_options,
)
from rarecell.data.names import joined_names, names_in
from rarecell.errors import BadInput, OutputExists, RarecellError
from rarecell.machine.disk import remove_stale_folders
from rarecell.machine.memory import is_shortage, refuse_small_address_space
from rarecell.machine.signals import interrupt, when_asked_to_end
from rarecell.machine.system import make_output_printable
from rarecell.outcome.check import Limits
from rarecell.run.config import words_of
from rarecell.run.options import Group, Shares

if TYPE_CHECKING:
    from rarecell.risk.key_sets import KeySet
    from rarecell.run.config import RunConfig
    from rarecell.run.results import Assessment, Protection


# Does a file pass the rules that were named on the command line?


def limits_of(options: Mapping[str, Any]) -> Limits:
    """The rules by number that were asked for."""
    return Limits(**{name: options.get(name) for name in ("fail_above", "fail_above_match", "fail_below")})


# What would intruders find? The command that attacks a released file.


@click.command(cls=GroupedCommand)
@click.argument("released")
@with_options(
    "attack",
    own(
        "--original",
        required=True,
        group=Group.FILE,
        is_main=True,
        help="The file as it was, with the same records in the same order unless --id is given.",
    ),
    own(
        "--made-by",
        metavar="RUN",
        group=Group.FILE,
        help="With --register: the run that protected the file, whose options trial runs repeat; the folder of RELEASED if it is one.",
    ),
    own("--list", "n_listed", type=click.IntRange(0), default=0, metavar="K", help="Also list the K records most likely linked."),
    own(
        "--unpaired",
        is_flag=True,
        group=Group.FILE,
        help="RELEASED is synthetic or resampled: its records belong to nobody.",
    ),
    own(
        "--control",
        metavar="FILE",
        group=Group.FILE,
        help="With --unpaired: people like those of the original who were left out.",
    ),
    JSON,
    QUIET,
)
def attack(**options: Any) -> None:
    """What would intruders find in RELEASED, a protected file made by this or any other tool?

    \b
    Example:
        rarecell attack protected.csv --original survey.csv \\
            --keys age,sex,region --population 1000000
        rarecell attack synthetic.csv --original survey.csv --unpaired \\
            --control held-out.csv --keys age,sex,region
    """
    from rarecell.cli import terminal
    from rarecell.run.attack import attack as attacked

    if options["unpaired"]:
        _attack_unpaired(options)
        return
    if options["control"]:
        raise BadInput("A control group is for files without pairs; add --unpaired.")

    with terminal.watched(quiet=options["quiet"], timings=options.get("timings", False)) as progress:
        done = attacked(
            options["released"],
            original=options["original"],
            keys=list(names_in(options["keys"] or "", "--keys")),
            register=options["register"],
            population=options["population"],
            weight=options["weight"],
            household=options["household"],
            also_known=list(names_in(options["also_known"] or "", "--also-known")),
            id=options["id"],
            **{name: options[name] for name in ("encoding", "sheet", "decimal")},
            key_error=Shares().read(options["key_error"], "--key-error") if options["key_error"] else None,
            made_by=options["made_by"],
            seed=options["seed"] or 0,
            progress=progress,
        )
    if options["as_json"]:
        echo(json.dumps(done.summary.to_dict(), indent=2))
    else:
        terminal.show_attack(done.summary)
        terminal.show_likeliest(done.likeliest(options["n_listed"]))


def _attack_unpaired(options: dict[str, Any]) -> None:
    from rarecell.cli import terminal
    from rarecell.report.synthesis import unpaired_tables
    from rarecell.run.attack import attack_unpaired

    with terminal.watched(quiet=options["quiet"]) as progress:
        measures = attack_unpaired(
            options["released"],
            original=options["original"],
            keys=list(names_in(options["keys"] or "", "--keys")),
            control=options["control"],
            **{name: options[name] for name in ("encoding", "sheet", "decimal")},
            seed=options["seed"] or 0,
            progress=progress,
        )
    if options["as_json"]:
        echo(json.dumps(measures.to_dict(), indent=2))
        return
    terminal.say(str(measures), bold=True)
    for table in unpaired_tables(measures):
        terminal.show_table(table)


# Commands on single records of a finished run. Records are counted from 1, as in reports.


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
    from rarecell.run import saved

    terminal.say(saved.explain_pair(folder, record - 1, partner - 1))


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
    from rarecell.outcome.words import with_labels
    from rarecell.run import saved

    terminal.say(with_labels(str(saved.explain_record(folder, record - 1)), saved.SavedRun.read(folder).summary.labels))


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
    from rarecell.run import saved

    candidates = saved.partners(folder, record - 1, most=top)
    terminal.say(str(candidates))
    if not candidates.nearest:
        return
    terminal.rows(
        "Nearest exchanges",
        ["partner", "alike", "distance", "changes"],
        [
            (
                f"{candidate.partner + 1:,}",
                f"{candidate.n_partners:,}",
                f"{candidate.distance:.3f}",
                "; ".join(f"{key} {a} → {b}" for key, a, b in zip(candidate.keys, candidate.given, candidate.taken, strict=True)),
            )
            for candidate in candidates.nearest
        ],
        right=(0, 1, 2),
    )
    terminal.say("Partners are counted from 1; 'alike' are records with the same values, of which any would do.")


COMMANDS = (explain_pair, explain, partners)


_EXIT_RISKY = 3


_FIRST_COMMANDS = {
    "From a file to its release": ("describe", "assess", "plan", "protect", "handover"),
    "The same in the browser, and a first look": ("app", "demo"),
}
"""The commands that a data steward needs, in the order in which they are used."""


class _Group(click.Group):
    """Turns an error that the user can fix into one paragraph and exit code 1, and lists commands with whole sentences."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        further = [name for name in self.list_commands(ctx) if not any(name in names for names in _FIRST_COMMANDS.values())]
        for heading, names in {**_FIRST_COMMANDS, "Further commands": further}.items():
            with formatter.section(heading):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(limit=1_000)) for name in names])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # No shell can give such a word, but a program that calls this one in its own process can.
        if odd := [word for word in args if "\0" in word]:
            raise click.UsageError(f"{odd[0]!r} has a NUL character in it.", ctx)
        if odd := [word for word in args if not _is_possible(word)]:
            raise click.UsageError(f"{odd[0]!r} has a character in it that no system can take.", ctx)
        return super().parse_args(ctx, args)

    def make_context(self, *given: Any, **named: Any) -> click.Context:
        # Help and version are printed while the words are read.
        make_output_printable()
        with _problems_told():
            return super().make_context(*given, **named)

    def invoke(self, ctx: click.Context) -> Any:
        if n_left := remove_stale_folders():
            folders = "a private folder" if n_left == 1 else f"{n_left} private folders"
            # Nobody's results depend on whether this can be printed.
            with contextlib.suppress(OSError):
                echo(f"rarecell: removed {folders} with copies of records, left behind by a run that was killed.", err=True)
        with _problems_told():
            refuse_small_address_space()
            with when_asked_to_end(interrupt):
                return super().invoke(ctx)


def _is_possible(word: str) -> bool:
    """Whether a system could have given this word: half a character is none."""
    try:
        os.fsencode(word)
    except UnicodeEncodeError:
        return False
    return True


@contextlib.contextmanager
def _problems_told() -> Iterator[None]:
    """Say in one paragraph what the user or the computer can mend, and end."""
    try:
        yield
    except RarecellError as problem:
        echo(f"rarecell: {problem}", err=True)
    except KeyboardInterrupt:
        echo("rarecell: interrupted. Nothing was written, and the input is untouched.", err=True)
    except BrokenPipeError:
        # The reader of our output has gone, as with `head`; Python must not complain when it closes stdout.
        sys.stdout = None
        raise click.exceptions.Exit(0) from None
    except (MemoryError, ImportError, RuntimeError) as problem:
        if not is_shortage(problem):
            raise
        echo(
            "rarecell: the system gave no more memory or threads. Nothing was written, and the input is untouched. Close other "
            "programs, raise the limits of this session (ulimit -v, ulimit -u, the limits of a container), or use fewer keys.",
            err=True,
        )
    except OSError as problem:
        # Files have errors of their own, with their names; this is one of printing.
        if problem.filename is not None:
            raise
        if isinstance(problem, FileNotFoundError):
            # No name is lacking, and no file: it is the folder in which the command was started.
            echo("rarecell: The folder that you are in is no longer there. Change to another one, and run again.", err=True)
        else:
            sys.stdout = None
            with contextlib.suppress(OSError):
                echo(f"rarecell: what was found could not be printed: {problem.strerror or problem}.", err=True)
    else:
        return
    raise click.exceptions.Exit(1)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="rarecell")
def main() -> None:
    """Which records of a microdata file could be recognised, how likely is that, and what protects them?

    \b
    Start with the demo, whose population is known:
        rarecell demo
    then with your own file. Each command prints the next one:
        rarecell describe survey.csv
    """


def refuse_place(place: str, *, overwrite: bool, endings: Sequence[str] = (), reads: Sequence[Path] = ()) -> None:
    """Refuse to write a document over what the command reads, over a result of a run, or over what is no file of that kind.

    Parameters
    ----------
    place : str
        The file that is to be written.
    overwrite : bool
        Whether it may replace a file.
    endings : sequence of str
        How its name may end; any way unless given.
    reads : sequence of Path
        Files and folders that the command reads.
    """
    from rarecell.run.publishing import is_result, is_written_here

    path = Path(place)
    if endings and path.suffix.lower() not in endings:
        raise BadInput(f"{place} does not end as such a document does. Name a file that ends in {' or '.join(endings)}.")
    if not os.path.lexists(path):
        return
    if path.is_symlink() or not path.is_file():
        raise BadInput(f"{place} is a link, a folder or a device, which is not replaced. Name a file.")
    if is_result(path.name) and is_written_here(path.parent):
        raise BadInput(f"{place} is a result of the run in that folder, which is not replaced. Name another file.")
    if any(os.path.samefile(path, part) for read in reads for part in (read, *_below(read)) if part.exists()):
        raise BadInput(f"{place} is read by this command, which does not replace it. Name another file.")
    if not overwrite:
        raise OutputExists(f"{place} already exists and would be overwritten. Name another file, or allow it with --overwrite.")


def _below(folder: Path) -> Sequence[Path]:
    return [*folder.rglob("*")] if folder.is_dir() else []


def _finish(result: Assessment | Protection, options: dict[str, Any], config: RunConfig | None = None) -> None:
    """Print the result and exit with its code."""
    from rarecell.cli import terminal

    summary = result.summary
    if options["as_json"]:
        echo(json.dumps(summary.to_dict(), indent=2))
    else:
        terminal.show_run(summary, has_details=options["details"], place=options["out"], config=config)
        if options["out"]:
            echo(f"\nResults are in {options['out']}. Start with {Path(options['out']) / 'report.html'}.", err=True)
        elif summary.swap is not None:
            echo("\nNo file was written: this was a trial. Give --out DIR to write the protected file and the report.", err=True)
    broken = [rule for rule in limits_of(options).outcomes(summary) if not rule.passed]
    for rule in broken:
        echo(f"rarecell: {rule.sentence}", err=True)
    judgement = None if summary.release is None else summary.release.profile
    if broken or (judgement is not None and judgement.sets_exit_code):
        sys.exit(_EXIT_RISKY)


def _run(act: Callable[..., Assessment | Protection], config: RunConfig, options: dict[str, Any]) -> None:
    from rarecell.cli import terminal

    if options["dry_run"]:
        from rarecell.run.assess import forecast

        echo(forecast(config))
        return
    with terminal.watched(quiet=options["quiet"], timings=options.get("timings", False)) as progress:
        result = act(config, out=options["out"], overwrite=options["overwrite"], progress=progress)
    _finish(result, options, config)


def coding_words(coding: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """How values of keys are read, as options of a command."""
    shown = {True: "true", False: "false"}
    return [
        "--coding "
        + shlex.quote(f"{key}=" + ", ".join(f"{n}={shown[v] if isinstance(v, bool) else json.dumps(v)}" for n, v in how.items()))
        for key, how in coding.items()
    ]


@main.command()
@click.argument("file", type=click.Path(path_type=str))
@click.option("--encoding", default="", help="Encoding of a text file that is not UTF-8, such as windows-1252.")
@click.option("--decimal", default="", help="Decimal mark in a text file, '.' or ','.")
@click.option("--sheet", default="", help="Sheet of a workbook.")
@click.option(
    "--codebook", metavar="META", help="A DDI-Codebook (XML) or a datapackage.json, for labels, missing codes and roles."
)
@JSON
def describe(file: str, encoding: str, decimal: str, sheet: str, codebook: str | None, as_json: bool) -> None:
    """Show the columns of FILE, with labels, values and missing codes, and what each probably is and why.

    \b
    Example:
        rarecell describe survey.dta
    """
    from rarecell.cli import terminal
    from rarecell.data.codebook import Codebook
    from rarecell.data.describe import Reading, profile_file
    from rarecell.data.missing_codes import PROPOSED
    from rarecell.data.roles import RELATIVE_WEIGHT, WHY_OTHER
    from rarecell.report.tables import columns_table

    book = Codebook.read(codebook) if codebook else None
    profile = profile_file(Path(file), Reading(encoding=encoding, decimal=decimal, sheet=sheet), book)
    if as_json:
        echo(json.dumps({**profile.to_dict(), "preview": []}, indent=2))
        return
    terminal.show_table(columns_table(profile, with_others=False))
    echo()
    if any(column.why == WHY_OTHER for column in profile.columns):
        terminal.say("Columns without a reason have no role yet. Make one a key if an outsider could know it about a person.")
    for note in profile.notes:
        terminal.say(f"Note: {note}")
    if profile.proposed_missing:
        terminal.say(
            "Codes with a question mark, with the number of records that have them, look as if they meant “missing”. Accept them all with "
            f"--missing-codes {PROPOSED}, or name those that do: --missing-codes {shlex.quote(profile.proposed_missing)}."
        )
    roles = {
        role: [c.name for c in profile.columns if c.role == role] for role in ("key", "weight", "household", "sensitive", "id")
    }
    if roles["key"]:
        options = []
        for option, value in (("sheet", sheet), ("encoding", encoding), ("decimal", decimal)):
            options += [f"--{option} {shlex.quote(value)}"] if value else []
        for option in ("key", "weight", "household", "id", "sensitive"):
            name = "keys" if option == "key" else option
            options += [f"--{name} {shlex.quote(joined_names(roles[option]))}"] if roles[option] else []
        has_sum = any(c.role == "weight" and c.what != RELATIVE_WEIGHT for c in profile.columns)
        options += [] if has_sum else ["--population N"]
        # A date is too fine for a key.
        options += [
            f"--recode {shlex.quote(f'{c.name}=date to year')}" for c in profile.columns if (c.role, c.what) == ("key", "date")
        ]
        options += [f"--missing-codes {PROPOSED}"] if profile.proposed_missing else []
        options += [] if book is None else coding_words(book.coding(tuple(roles["key"])))
        population = "" if has_sum else ", with the size of the population that the file was drawn from in place of N"
        terminal.say(f"These are suggestions; you know the data better. To assess the file with them{population}:")
        echo(f"  rarecell assess {shlex.quote(file)} {' '.join(options)} --out run")
    elif others := [name for name in profile.sheets if name != profile.sheet]:
        terminal.say("No column of this sheet looks like something an outsider could know. To look at another sheet:")
        for name in others:
            echo(f"  rarecell describe {shlex.quote(file)} --sheet {shlex.quote(name)}")
    else:
        terminal.say("No column looks like something an outsider could know. Name the keys yourself: rarecell assess --help.")


@main.command(cls=GroupedCommand)
@with_options("assess", *READS, *WRITES, *GATES)
def assess(**options: Any) -> None:
    """Estimate the identification risk of every record in FILE.

    \b
    Example:
        rarecell assess survey.csv --keys age,sex,region,job \\
            --population 1000000 --out run
    """
    from rarecell.run import assess

    _run(assess.assess, config_of("assess", options), options)


@main.command(cls=GroupedCommand)
@with_options(
    "check",
    *READS,
    PAPER,
    own("--profile", metavar="NAME", is_main=True, help="public, scientific, safe-centre, clinical, or a TOML file of your own."),
    FAIL_ABOVE,
    *GATES,
    own(
        "--format",
        "check_format",
        type=click.Choice(CHECK_FORMATS),
        default="text",
        show_default=True,
        is_main=True,
        help="What to print: lines of text, JSON, JUnit XML, or SARIF.",
    ),
    own(
        "--output", type=click.Path(dir_okay=False), metavar="FILE", is_main=True, help="Write it to FILE instead, replacing it."
    ),
)
def check(**options: Any) -> None:
    """Hold FILE against a release profile or rules, for a pipeline: exit code 0 when it keeps them, 3 when it does not.

    \b
    Examples:
        rarecell check survey.csv --keys age,sex,region \\
            --population 1000000 --profile public
        rarecell check --config run.toml --fail-above 0.2 \\
            --format junit --output check.xml
    """
    from rarecell.cli import terminal
    from rarecell.report.pipelines import FORMATS, write_check
    from rarecell.run import check
    from rarecell.run.inputs import inputs_of

    rules = {name: options[name] for name in ("profile", "fail_above", "fail_above_match", "fail_below")}
    if all(rule is None for rule in rules.values()):
        raise click.UsageError("Name what to hold the file against: --profile public, or a rule such as --fail-above 0.2.")
    config = config_of("check", options)
    if options["output"]:
        named = [Path(options[name]) for name in ("config", "profile") if options[name]]
        refuse_place(options["output"], overwrite=True, reads=[*inputs_of(config), *named])
    with terminal.watched(quiet=options["quiet"], timings=options.get("timings", False)) as progress:
        checked = check.check(config, progress=progress, **rules)
    form = "json" if options["as_json"] else options["check_format"]
    if options["output"]:
        write_check(Path(options["output"]), checked, form)
    else:
        echo(FORMATS[form](checked))
    if checked.broken:
        sys.exit(_EXIT_RISKY)


@main.command(cls=GroupedCommand)
@with_options("protect", *READS, *WRITES)
def protect(**options: Any) -> None:
    """Swap values of risky records in FILE so that every marginal of the model stays exactly as it was.

    \b
    Examples:
        rarecell protect survey.csv --keys age,sex,region \\
            --population 1000000 --risk-above 0.2 --out run
        rarecell protect survey.csv --keys age,sex,region \\
            --population 1000000 --formal epsilon=12 --out run
    """
    from rarecell.run import protect

    _run(protect.protect, config_of("protect", options), options)


@main.command(cls=GroupedCommand)
@with_options(
    "plan",
    *READS,
    PAPER,
    own(
        "--max-correct-links",
        type=FiniteRange(0),
        metavar="T",
        group=Group.RECORDS,
        is_main=True,
        help="At most T correct links in the released file.",
    ),
    own(
        "--max-record-risk",
        type=FiniteRange(0, 1),
        metavar="P",
        group=Group.RECORDS,
        is_main=True,
        help="No record above P in the released file.",
    ),
    own(
        "--recodable",
        metavar="A,B",
        group=Group.RECODING,
        is_main=True,
        help="Keys that may be recoded (default all that --recode does not name).",
    ),
    own(
        "--candidates",
        type=click.IntRange(1),
        default=40,
        show_default=True,
        group=Group.RECODING,
        help="How many recodings to try, each with its swaps.",
    ),
)
def plan(**options: Any) -> None:
    """Find recodings of keys, with swaps for what remains, that make FILE safe enough, and what each would cost.

    \b
    Example:
        rarecell plan survey.csv --keys age,sex,region,job \\
            --population 1000000 --max-correct-links 20
    """
    from rarecell.cli import terminal
    from rarecell.run import plan

    config = config_of("plan", options)
    with terminal.watched(quiet=options["quiet"], timings=options.get("timings", False)) as progress:
        frontier = plan.plan(
            config,
            max_correct_links=options["max_correct_links"],
            max_record_risk=options["max_record_risk"],
            recodable=names_in(options["recodable"] or "", "--recodable") or None,
            candidates=options["candidates"],
            progress=progress,
        )
    if options["as_json"]:
        echo(json.dumps(plan.as_json(frontier, config), indent=2))
    else:
        terminal.show_frontier(frontier, config)


@main.command()
@click.argument("file", type=click.Path(path_type=str))
@click.option("--columns", metavar="A,B", required=True, help="The columns of the twin; all others are left out.")
@click.option("--keys", metavar="A,B", help="Those that an intruder could know (default all of them).")
@click.option(
    "--household", metavar="COL", help="Draw whole households, numbered by this column, or by several, separated by commas."
)
@click.option(
    "--epsilon", type=FiniteRange(0), metavar="E", help="Draw with this ε instead of uniformly, as the formal mode does."
)
@click.option("--uniform", is_flag=True, help="Draw uniformly from all files with the same tables (the default).")
@click.option("--files", type=click.IntRange(1), default=1, show_default=True, help="How many twins to draw.")
@click.option(
    "--least-count",
    type=click.IntRange(0),
    default=0,
    metavar="K",
    help="Keep no table of several columns with a cell of fewer records; its cost is printed.",
)
@click.option(
    "--max-copies",
    type=FiniteRange(0, 1),
    metavar="SHARE",
    help="Exchange values within the kept tables until at most this share of the unique people stand in the twin as they are.",
)
@click.option(
    "--near-pairs", is_flag=True, help="Exchange values within the kept tables so that all tables of two columns come nearer."
)
@click.option(
    "--amounts",
    type=click.Choice(["resampled", "smoothed"]),
    default="resampled",
    show_default=True,
    help="Values of columns in bands: those of the band, or between neighbours in it.",
)
@click.option(
    "--analysis",
    multiple=True,
    metavar="NAME=WHAT",
    help="What users want to learn, run on both files: 'wage=regression=\"income ~ age + sex\"'; also means and table.",
)
@click.option("--no-measure", is_flag=True, help="Do not measure what the twin gives away.")
@click.option("--out", type=click.Path(file_okay=False), help="Folder for the twins and their report.")
@OVERWRITE
@JSON
@QUIET
def synthesise(**options: Any) -> None:
    """Draw a synthetic twin of FILE whose tables of the model are those of FILE, cell by cell.

    \b
    Example:
        rarecell synthesise survey.csv --columns age,sex,region,job,income \\
            --least-count 3 --out twin
    """
    from rarecell.cli import terminal
    from rarecell.report.synthesis import synthesis_tables
    from rarecell.run import synthesise
    from rarecell.run.config import RunConfig
    from rarecell.run.options import option_of

    if options["uniform"] and options["epsilon"] is not None:
        raise BadInput("A twin is drawn uniformly or with an ε, not both. Leave out --uniform or --epsilon.")
    with terminal.watched(quiet=options["quiet"], timings=options.get("timings", False)) as progress:
        done = synthesise.synthesise(
            options["file"],
            columns=names_in(options["columns"], "--columns"),
            keys=names_in(options["keys"] or "", "--keys"),
            household=options["household"],
            epsilon=options["epsilon"],
            files=options["files"],
            least_count=options["least_count"],
            max_copies=options["max_copies"],
            near_pairs=options["near_pairs"],
            amounts=options["amounts"],
            analysis=option_of(RunConfig, "analysis").kind.read(options["analysis"], "--analysis"),
            measure=not options["no_measure"],
            out=options["out"],
            overwrite=options["overwrite"],
            progress=progress,
        )
    if options["as_json"]:
        echo(json.dumps(done.summary.to_dict(), indent=2))
        return
    terminal.say(str(done), bold=True)
    households = () if done.summary.households is None else done.summary.households.sentences()
    for sentence in (done.summary.guarantee, *households, *done.summary.notes):
        terminal.say(sentence)
    for table in synthesis_tables(done.summary):
        terminal.show_table(table)


@main.command()
@click.option(
    "--out", type=click.Path(file_okay=False), default=None, help="Folder for the results (none are written without it)."
)
@DETAILS
@OVERWRITE
@JSON
@QUIET
def demo(**options: Any) -> None:
    """Assess and protect a census sample whose population is known, and compare the estimate with the truth.

    \b
    Example:
        rarecell demo --out demo
    """
    from rarecell.cli import terminal
    from rarecell.run import demo

    with terminal.watched(quiet=options["quiet"], timings=options.get("timings", False)) as progress:
        result = demo.demo(out=options["out"], overwrite=options["overwrite"], progress=progress)
    _finish(result, {**options, "fail_above": None})
    if not options["as_json"] and result.summary.truth is not None:
        families = result.summary.truth.families
        for sentence in (result.summary.truth.sentence, *([] if families is None else [families.sentence])):
            echo()
            terminal.say(sentence)


@main.command()
@click.argument("m", type=click.IntRange(1))
@click.option(
    "--list", "as_list", is_flag=True, help="Write the non-isomorphic chordal graphs on M vertices as graph6, one per line."
)
def graphs(m: int, as_list: bool) -> None:
    """Count the graphical, decomposable and non-isomorphic decomposable models of 1 to M variables.

    \b
    Example:
        rarecell graphs 8
    """
    from rarecell.graph import chordal_graphs, graph_counts, to_graph6

    if as_list:
        for listed in chordal_graphs(m):
            echo(to_graph6(listed.graph))
        return
    from rarecell.cli import terminal

    counts = graph_counts(m)

    def printed(value: int | None) -> str:
        return "–" if value is None else f"{value:,}"

    terminal.rows(
        "Models of m variables, beside Table 1 of Takemura and Endo (2006)",
        ["m", "graphical", "decomposable", "paper", "non-isomorphic decomposable", "paper"],
        [
            (
                str(c.n_vertices),
                f"{c.n_graphs:,}",
                f"{c.n_chordal:,}",
                printed(c.paper_n_chordal),
                f"{c.n_nonisomorphic_chordal:,}",
                printed(c.paper_n_nonisomorphic_chordal),
            )
            for c in counts
        ],
        right=range(6),
    )
    for c in counts:
        if c.note:
            terminal.say(f"m = {c.n_vertices}: {c.note}")


@main.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False))
@click.option("--html", "page", type=click.Path(dir_okay=False), help="Also write the comparison as a page.")
@click.option("--overwrite", is_flag=True, help="Allow the page to replace a file.")
def compare(runs: Sequence[str], page: str | None, overwrite: bool) -> None:
    """Show two or more runs side by side.

    \b
    Example:
        rarecell compare run-2024 run-2025 run-2026 --html compared.html
    """
    from rarecell.cli.terminal import show_comparison
    from rarecell.report.comparison import short_names, write_comparison
    from rarecell.run.saved import load

    if len(runs) < 2:
        raise click.UsageError("Name at least two folders of runs, such as: rarecell compare run-2024 run-2025.")
    if page is not None:
        refuse_place(page, overwrite=overwrite, endings=(".html", ".htm"))
    summaries, names = [load(folder).summary for folder in runs], short_names(runs)
    show_comparison(names, summaries)
    if page is not None:
        written = write_comparison(Path(page), names, summaries)
        echo(f"\nThe comparison is in {written}.", err=True)


@main.command()
@click.argument("run", type=click.Path(exists=True, file_okay=False))
@click.option("--template", "form", required=True, metavar="NAME", help="ema, iso27559, five-safes, or a TOML file of your own.")
@click.option("--output", type=click.Path(dir_okay=False), metavar="FILE", help="Write a .html or .md file instead of printing.")
@click.option("--overwrite", is_flag=True, help="Allow FILE to be replaced.")
@click.option("--internal", is_flag=True, help="Figures as they are; without it, small counts are hidden and others rounded.")
def report(run: str, form: str, output: str | None, overwrite: bool, internal: bool) -> None:
    """Fill a form from the RUN's numbers: each answer names its field of summary.json, or is left to the office.

    \b
    Example:
        rarecell report run --template ema --output anonymisation.html
    """
    from rarecell.report.form import Form, filled_form
    from rarecell.run.saved import load

    if output is not None:
        refuse_place(output, overwrite=overwrite, endings=(".html", ".md"))
    filled = filled_form(Form.named(form), load(run).summary, edition="internal" if internal else "external")
    if output is None:
        echo(filled.to_markdown())
    else:
        echo(f"The form is in {filled.write(Path(output))}.", err=True)


@main.command(cls=GroupedCommand)
@with_options(
    "scan",
    *READS,
    own(
        "--size",
        type=click.IntRange(1),
        default=None,
        group=Group.INTRUDERS,
        is_main=True,
        help="Keys an intruder is assumed to know. Default: 5, and of few keys all but one.",
    ),
    own("--top", type=click.IntRange(1), default=20, show_default=True, is_main=True, help="Sets to show."),
    own(
        "--time-limit",
        type=FiniteRange(0, min_open=True),
        metavar="SECONDS",
        default=30.0,
        show_default=True,
        is_main=True,
        help="Time after which the scan ends with the best so far.",
    ),
)
def scan(**options: Any) -> None:
    """Find the sets of keys in FILE that make most records unique: which few variables would an intruder need?

    Without --keys, every column is tried that somebody could know.

    \b
    Example:
        rarecell scan survey.csv --population 1000000
        rarecell scan survey.csv --keys age,sex,region,job,car,pets \\
            --size 3 --population 1000000
    """
    from rarecell.cli import terminal
    from rarecell.outcome.words import NONE, number, people
    from rarecell.risk.key_sets import scan_subsets
    from rarecell.run.inputs import read
    from rarecell.run.models import population_of
    from rarecell.run.roles import side_risk

    unasked: dict[str, str] = {}
    if not options["keys"] and not options["config"] and options["file"] and os.path.exists(options["file"]):
        names, unasked = _columns_somebody_knows(options)
        options["keys"] = joined_names(names)
    config, left_out = _without_names_and_amounts(config_of("scan", options))
    left_out |= unasked
    data = read(config)
    table = data.table()
    with terminal.watched(quiet=options["quiet"], timings=options.get("timings", False)) as progress:
        key_sets = scan_subsets(
            table,
            size=options["size"],
            population=population_of(table, config),
            top=options["top"],
            seed=config.seed,
            max_seconds=options["time_limit"],
            uniques_of=lambda part: side_risk(part, data, config).expected_population_uniques,
            on_first=None if options["quiet"] else lambda best: progress.say(first_answer(best)),
            progress=progress,
        )
    if options["as_json"]:
        echo(json.dumps(key_sets.to_dict(), indent=2))
        return
    terminal.rows(
        "Sets of keys that make most records unique",
        ["keys", "alone in the file", "alone in the population"],
        [
            (
                ", ".join(key_set.keys),
                number(key_set.sample_uniques),
                NONE if (alone := key_set.population_uniques) is None else people(alone),
            )
            for key_set in key_sets.sets
        ],
        right=(1, 2),
    )
    echo()
    terminal.say(str(key_sets))
    for what in dict.fromkeys(left_out.values()):
        columns = [f"'{column}'" for column, kind in left_out.items() if kind == what]
        listed = ", ".join(columns[:_MOST_NAMED]) + (
            f" and {len(columns) - _MOST_NAMED} more" if len(columns) > _MOST_NAMED else ""
        )
        if what == _NOT_REACHED:
            terminal.say(f"Left out, because {_MOST_SCANNED} columns are tried at a time: {listed}. Name others with --keys.")
        else:
            terminal.say(f"Left out, because hardly anybody knows {_PLURALS.get(what, what + 's')}: {listed}.")
    command = key_sets.assess_command(words_of(config, "assess", but=("keys",)))
    echo(f"Assess the riskiest set with:\n  {command}")


def first_answer(best: KeySet) -> str:
    """What is known of a scan after its first seconds."""
    return f"So far {', '.join(best.keys)} make most records unique: {best.sample_uniques:,}. Looking further."


_NOT_KNOWN = ("identifier", "household number", "person number", "survey weight", "amount", "free text")
"""What columns are called that single everybody out without being known to anybody."""

_MANY_AMOUNTS = 60
"""A sensitive column of numbers with more values than this is an amount, too."""

_MOST_SCANNED = 40
"""Of a file with more columns, so many are scanned: those that look like keys first."""


_NOT_REACHED = "further column"
_PLURALS = {"free text": "what is written in free text"}
_MOST_NAMED = 8
"""Columns that are named one by one."""


def _kinds_of_columns(file: str, *, encoding: str, decimal: str, sheet: str) -> dict[str, str]:
    """What each column of a file looks like."""
    from rarecell.data.describe import Reading, profile_file

    profile = profile_file(Path(file), Reading(encoding=encoding, decimal=decimal, sheet=sheet))
    return {
        column.name: "amount" if column.what == "sensitive" and column.levels > _MANY_AMOUNTS else column.what
        for column in profile.columns
        if column.kind != "other"
    }


def _columns_somebody_knows(options: Mapping[str, Any]) -> tuple[list[str], dict[str, str]]:
    """Columns of the file that neither name a record nor measure something; and what the others are."""
    kinds = _kinds_of_columns(options["file"], **{name: options[name] or "" for name in ("encoding", "decimal", "sheet")})
    roles = {name for role in ("weight", "household", "id") for name in names_in(options.get(role) or "")}
    names = [name for name, what in kinds.items() if what not in _NOT_KNOWN and name not in roles]
    chosen = sorted(sorted(names, key=lambda name: kinds[name] != "key")[:_MOST_SCANNED], key=names.index)
    left_out = {name: what for name, what in kinds.items() if what in _NOT_KNOWN}
    return chosen, left_out | dict.fromkeys((name for name in names if name not in chosen), _NOT_REACHED)


def _without_names_and_amounts(config: RunConfig) -> tuple[RunConfig, dict[str, str]]:
    """The configuration without keys that name a record or measure something, unless hardly any key is left; and what they are."""
    if config.sql or config.spark_table or not os.path.exists(config.input):
        return config, {}
    kinds = _kinds_of_columns(
        config.input, encoding=config.encoding or "", decimal=config.decimal or "", sheet=config.sheet or ""
    )
    left_out = {name: what for name, what in kinds.items() if what in _NOT_KNOWN and name not in config.recode}
    left_out = {name: what for name, what in left_out.items() if name in config.keys}
    keys = tuple(key for key in config.keys if key not in left_out)
    return (replace(config, keys=keys), left_out) if len(keys) >= 2 else (config, {})


@main.command()
@click.argument("run", type=click.Path(exists=True, file_okay=False))
@click.option("--signed-by", default="", metavar="NAME", help="Who is responsible for the release.")
@click.option("--reason", default="", help="Why the file may go although the profile says: do not release. It is recorded.")
@click.option("--keep-order", is_flag=True, help="Keep the order of the records (default: shuffled by a secret seed).")
@click.option("--keep-ids", is_flag=True, help="Keep the numbers of records and households (default: dropped, or drawn anew).")
@click.option("--unlink-households", is_flag=True, help="Leave the household number out: nobody sees who lives with whom.")
@click.option("--drop", default="", metavar="A,B", help="Further columns to leave out, separated by commas.")
@click.option("--accept", default="", metavar="A,B", help="Columns that may go although they look as if they named persons.")
@click.option("--overwrite", is_flag=True, help="Replace an earlier handover of this run.")
def handover(run: str, drop: str, accept: str, **options: Any) -> None:
    """Make the folder of RUN that may leave the office: the file, a codebook, a page for users, the external report.

    \b
    Example:
        rarecell handover run --signed-by "A. Steward"
    """
    from rarecell.run.handover import handover as handed_over
    from rarecell.run.handover import warnings_of

    folder = handed_over(run, drop=names_in(drop, "--drop"), accept=names_in(accept, "--accept"), **options)
    echo(
        f"The folder {folder} may leave the office. Everything else in {run} must not: release-key.parquet, for one, says which row is which "
        "record."
    )
    if not options["signed_by"]:
        echo('Nobody has signed. Whoever is responsible for the release is recorded with --signed-by "NAME" --overwrite.')
    for warning in warnings_of(run):
        echo(warning)


@main.command()
@click.argument("file", required=False, type=click.Path(path_type=str))
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False),
    help="Folder the app may read and write (default: this one, or that of FILE when it lies elsewhere).",
)
@click.option("--no-browser", is_flag=True, help="Print the address instead of opening a browser.")
def app(file: str | None, folder: str | None, no_browser: bool) -> None:
    """Open the app in the browser, on this computer only.

    \b
    Example:
        rarecell app survey.csv
    """
    from rarecell.app import serve

    if folder is None:
        lies_here = file is None or Path.cwd().resolve() in Path(file).resolve().parents
        folder = "." if lies_here or file is None else str(Path(file).resolve().parent)
    serve(folder, file=file, open_browser=not no_browser)


for _command in (*COMMANDS, attack):
    main.add_command(_command)

"""Which options does a command have, how does its help show them, and what do they mean for a run?

Options of a configuration are declared at its fields (:mod:`rarecell.run.config`); only what concerns a terminal is declared
here: where results go, what is printed, when a command fails. What is left out on the command line is left out of the
configuration.
"""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from rarecell.errors import BadInput
from rarecell.run.config import (
    PAPER_HELP,
    ProtectConfig,
    RunConfig,
    options_on,
    paper_options,
    read_plain,
    without_other_choices,
)
from rarecell.run.options import Count, Group, Number, Option, Pairs, Place, Switch, Word

if TYPE_CHECKING:
    from rarecell.edges import Json, ReadJson


class FiniteRange(click.FloatRange):
    """A finite number in a range: "nan" lies in no range, though comparisons do not exclude it, and "inf" is not a limit."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


# ---------------------------------------------------------------------- help in groups


class GroupedOption(click.Option):
    """An option that stands under a heading of the help, and in ``--help`` itself if it is one of the main ones."""

    def __init__(self, *words: Any, group: Group = Group.RESULTS, is_main: bool = False, **settings: Any) -> None:
        super().__init__(*words, **settings)
        self.group, self.is_main = group, is_main

    def get_help_extra(self, ctx: click.Context) -> Any:
        """What stands in brackets after the text: not the range, which the text says where it is not obvious."""
        return {name: value for name, value in super().get_help_extra(ctx).items() if name != "range"}


class GroupedCommand(click.Command):
    """A command whose help shows the main options under headings; ``--help-all`` shows every option."""

    shows_all = False

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        grouped = [option for option in self.get_params(ctx) if isinstance(option, GroupedOption)]
        ungrouped = [option for option in self.get_params(ctx) if not isinstance(option, GroupedOption | click.Argument)]
        shown = [option for option in grouped if self.shows_all or option.is_main]
        for group in Group:
            _section(ctx, formatter, group.value, [option for option in shown if option.group is group])
        _section(ctx, formatter, "Other options" if shown else "Options", ungrouped)
        if len(shown) < len(grouped):
            formatter.write_paragraph()
            formatter.write_text(f"{ctx.command_path} --help-all shows {len(grouped) - len(shown)} further options.")

    def full_help(self, ctx: click.Context) -> str:
        """The help with every option."""
        self.shows_all = True
        try:
            return self.get_help(ctx)
        finally:
            self.shows_all = False


def _section(ctx: click.Context, formatter: click.HelpFormatter, title: str, options: Sequence[click.Parameter]) -> None:
    records = [record for option in options if (record := option.get_help_record(ctx)) is not None]
    if records:
        with formatter.section(title):
            formatter.write_dl(records)


def _print_full_help(ctx: click.Context, option: click.Parameter, is_given: bool) -> None:
    if is_given and not ctx.resilient_parsing:
        command = ctx.command
        click.echo(command.full_help(ctx) if isinstance(command, GroupedCommand) else ctx.get_help(), color=ctx.color)
        ctx.exit()


# ---------------------------------------------------------------------- options of a command


def with_options(command: str, *further: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function with the declared options of a command and some of its own."""
    declared = [_clicked(option) for _, option in options_on(command) if option.name != "input"]

    def apply(function: Callable[..., Any]) -> Callable[..., Any]:
        full = click.option(
            "--help-all", is_flag=True, is_eager=True, expose_value=False, callback=_print_full_help, help="Show every option."
        )
        for decorator in reversed([*declared, *further, full]):
            function = decorator(function)
        return function

    return apply


def _clicked(option: Option) -> Callable[..., Any]:
    """An option of a configuration as one of the command line."""
    kind = option.kind
    settings: dict[str, Any] = {"metavar": kind.metavar or None, "multiple": kind.is_repeatable}
    if isinstance(kind, Switch):
        settings = {"is_flag": True}
    elif isinstance(kind, Word) and not kind.is_open:
        settings["type"] = click.Choice(tuple(kind.shown))
    elif isinstance(kind, Count):
        settings["type"] = click.IntRange(kind.low, None if kind.high == math.inf else int(kind.high))
    elif isinstance(kind, Number):
        settings["type"] = FiniteRange(kind.low, None if kind.high == math.inf else kind.high, min_open=kind.excludes_low)
    elif isinstance(kind, Place) and kind.is_folder:
        settings["type"] = click.Path(file_okay=False)
    help_text = option.help
    if isinstance(option.default, str | int | float) and not isinstance(option.default, bool):
        help_text += f" Default: {option.default:g}." if isinstance(option.default, float) else f" Default: {option.default}."
    if kind.is_repeatable:
        help_text += " Repeatable."
    return click.option(
        option.flag, option.name, cls=GroupedOption, group=option.group, is_main=option.is_main, help=help_text, **settings
    )


def own(*words: str, group: Group = Group.RESULTS, is_main: bool = False, **settings: Any) -> Callable[..., Any]:
    """An option that concerns the terminal, not the run."""
    return click.option(*words, cls=GroupedOption, group=group, is_main=is_main, **settings)


FILE = click.argument("file", required=False, type=click.Path(path_type=str))
CONFIG = own(
    "--config",
    type=click.Path(exists=True, dir_okay=False),
    group=Group.FILE,
    is_main=True,
    help="A run.toml; command-line options override it.",
)
JSON = own("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
QUIET = own("--quiet", is_flag=True, help="No progress.")
PAPER = own("--paper", is_flag=True, group=Group.RISK, help=PAPER_HELP)
DETAILS = own("--details", is_flag=True, is_main=True, help="Also print every table of the report.")
OVERWRITE = own("--overwrite", is_flag=True, help="Allow results to be overwritten.")
FAIL_ABOVE = own("--fail-above", type=FiniteRange(0, 1), metavar="P", help="Exit with 3 when a record's risk is above P.")
TIMINGS = own("--timings", is_flag=True, help="Say how long each stage took, how many cores worked, and the memory at the peak.")
READS = (FILE, CONFIG, JSON, QUIET, TIMINGS)
"""What every command that reads microdata has besides declared options."""

WRITES = (
    PAPER,
    own("--out", type=click.Path(file_okay=False), is_main=True, help="Folder for the results."),
    DETAILS,
    OVERWRITE,
    FAIL_ABOVE,
    own("--dry-run", is_flag=True, help="Estimate cells, memory and time, and stop."),
)
"""What a run has that may be written to a folder."""

GATES = (
    own(
        "--fail-above-match",
        type=FiniteRange(0, 1),
        metavar="P",
        help="Exit with 3 when a match with a record would be right with a probability above P.",
    ),
    own(
        "--fail-below",
        type=click.IntRange(1),
        metavar="K",
        help="Exit with 3 when a record shares its key values with fewer than K records, itself included.",
    ),
)
"""When an assessment fails."""


# ---------------------------------------------------------------------- the run they mean


def config_of(command: str, options: ReadJson) -> RunConfig:
    """Build the configuration: the file named by --config, then what the command line adds."""
    base: Json = read_plain(options["config"]) if options["config"] else {}
    run, protect = (
        _typed_values(command, RunConfig, options, base),
        _typed_values(command, ProtectConfig, options, base.get("protect", {})),
    )
    if options.get("paper"):
        try:
            run.update(paper_options(run))
        except BadInput as problem:
            raise click.UsageError(str(problem)) from None
    if options["file"]:
        run["input"] = options["file"]
    elif options["sql"] or options["spark_table"]:
        run["input"] = ""
    if command == "protect" and options["seed"] is not None:
        protect.setdefault("swap_seed", options["seed"])
    merged = {**base, **run}
    if command == "protect" or protect:
        merged["protect"] = {**without_other_choices(base.get("protect", {}), protect), **protect}
    choices = os.path.join(options["file"] or "", "run.toml")
    if options["file"] and not options["config"] and os.path.isfile(choices):
        raise click.UsageError(
            f"{options['file']} is the folder of a run, not microdata. To start from its choices: "
            f"rarecell {command} --config {shlex.quote(choices)}"
        )
    for needed, how in (
        ("input", "Name the microdata file."),
        ("keys", "Use --keys a,b,c to name the columns an intruder could know."),
    ):
        if needed not in merged and not (needed == "keys" and "scenario" in merged):
            raise click.UsageError(f"{how} 'rarecell {command} --help' has an example.")
    return RunConfig.from_mapping(merged, source=options["config"] or "the command line")


def _typed_values(command: str, owner: type, options: ReadJson, base: ReadJson) -> Json:
    """The options of one class that were given, as a configuration writes them; pairs are added to those of the configuration."""
    values: Json = {}
    for declared_by, option in options_on(command):
        value = options.get(option.name)
        if declared_by is not owner or value is None or value is False or value == () or value == "":
            continue
        kind = option.kind
        # Numbers, words and switches have been read by the command line already.
        is_text = isinstance(value, str | tuple)
        values[option.name] = kind.read(value if isinstance(value, tuple) else [value], option.flag) if is_text else value
        if isinstance(kind, Pairs) and isinstance(base.get(option.name), dict):
            values[option.name] = {**base[option.name], **values[option.name]}
    return values

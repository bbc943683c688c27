"""The command: parse, call the library, print.

Nothing heavy is imported before a command needs it, so that help is immediate. Exit codes: 0 done, 1 an error the user
can mend (one paragraph), 2 wrong usage, 3 a risk above ``--fail-above``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from rarecell import __version__
from rarecell.errors import RarecellError

_EXIT_RISKY = 3


class _Group(click.Group):
    """Turns an error the user can mend into one paragraph and exit code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except RarecellError as problem:
            click.echo(f"rarecell: {problem}", err=True)
            ctx.exit(1)
        except KeyboardInterrupt:
            click.echo("rarecell: interrupted. Nothing was written, and the input is untouched.", err=True)
            ctx.exit(1)
        except BrokenPipeError:
            # The reader of our output went away, as `head` does; Python must not complain when it closes stdout.
            sys.stdout = None  # type: ignore[assignment]
            ctx.exit(0)


def _names(text: str | None) -> tuple[str, ...]:
    """A comma-separated list of names."""
    return tuple(part.strip() for part in text.split(",") if part.strip()) if text else ()


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="rarecell")
def main() -> None:
    """Which records of a microdata file could be recognised, how likely is that, and what protects them?

    \b
    Begin with the demo, whose population is known:
        rarecell demo
    then take your own file:
        rarecell assess survey.csv --keys age,sex,region --population 1000000 --out run
    """


def _options(*decorators: Callable[..., Any]) -> Callable[..., Any]:
    def apply(command: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return apply


_run_options = _options(
    click.argument("file", required=False, type=click.Path(path_type=str)),
    click.option("--keys", help="Columns an intruder could know, separated by commas."),
    click.option("--population", type=int, help="Number of units the sample was drawn from."),
    click.option("--weight", help="Column of survey weights; gives the population when --population does not."),
    click.option("--household", help="Column that says which records live together."),
    click.option("--geography", help="Column of the area."),
    click.option("--strata", help="Column of the sampling strata."),
    click.option("--populations", help='Population of each stratum: "north=120000,south=80000".'),
    click.option("--sensitive", help="Columns an intruder would like to learn, separated by commas."),
    click.option("--id", "id_column", help="Column that names the record."),
    click.option(
        "--missing",
        type=click.Choice(["level", "drop", "refuse"]),
        help="What a missing key value means: its own level (default), a record to drop, or an error.",
    ),
    click.option(
        "--hierarchy",
        "hierarchies",
        multiple=True,
        metavar="KEY=CSV",
        help="Nested groups of a key's levels, one row a level. Repeatable.",
    ),
    click.option("--sql", help="A query to read instead of a file; FILE is then a database to attach, if any."),
    click.option("--spark-table", metavar="NAME", help="A table of Spark, or a path that Spark reads, instead of a file."),
    click.option("--criterion", help="aic (default), bic, bayes, skinner-shlomo, or a penalty for each degree of freedom."),
    click.option(
        "--search", type=click.Choice(["auto", "exact", "local", "greedy"]), help="How the model is searched for (default auto)."
    ),
    click.option(
        "--model",
        type=click.Choice(["average", "single", "bayes", "hierarchical", "regularised", "stacked", "independence", "saturated"]),
        help="Risk from the average over penalties and resolutions (default), or from one model.",
    ),
    click.option("--cliques", help='A model by name instead of a search: "a,b;b,c".'),
    click.option(
        "--resolution",
        type=click.Choice(["multi", "full"]),
        help="Offer keys with many levels at coarser resolutions too (multi, default), or not.",
    ),
    click.option(
        "--zeros",
        metavar="swaps|detect|off|FILE",
        help="Structural zeros: keep swaps from creating them (default), also count them out of the model, ignore them, or a list.",
    ),
    click.option("--max-clique", type=click.IntRange(1), help="Largest number of keys in a clique."),
    click.option("--restarts", type=click.IntRange(1), help="Starts of the local search (default 100)."),
    click.option(
        "--time-limit",
        type=click.FloatRange(0, min_open=True),
        metavar="SECONDS",
        help="Time after which a search among many keys ends with the best model so far (default 45).",
    ),
    click.option(
        "--form",
        type=click.Choice(["multinomial", "poisson", "poisson-gamma"]),
        help="Distribution of the population count of a cell.",
    ),
    click.option("--threshold", type=click.FloatRange(0, 1), help="Risk from which a record is listed (default 0.2)."),
    click.option("--memory", metavar="SIZE", help="What the run may use, such as 4GB (default half of the machine's memory)."),
    click.option("--seed", type=int, help="Seed of every random choice (default 0)."),
    click.option(
        "--config", type=click.Path(exists=True, dir_okay=False), help="A run.toml; options on the command line go before it."
    ),
    click.option("--out", type=click.Path(file_okay=False), help="Folder for the results."),
    click.option("--overwrite", is_flag=True, help="Allow results to be overwritten."),
    click.option("--json", "as_json", is_flag=True, help="Print summary.json instead of tables."),
    click.option("--fail-above", type=click.FloatRange(0, 1), metavar="P", help="Exit with 3 when a record's risk is above P."),
    click.option("--dry-run", is_flag=True, help="Say cells, memory and time, and do nothing."),
    click.option("--quiet", is_flag=True, help="No progress."),
)


_PASSED_ON = (
    *("population", "weight", "household", "geography", "strata", "missing", "sql", "spark_table", "criterion", "search"),
    *("model", "resolution", "max_clique", "restarts", "time_limit", "form", "threshold", "memory", "seed", "zeros"),
)
"""Options with the same name and meaning in a configuration."""


def _config(options: dict[str, Any], protect: dict[str, Any] | None = None) -> Any:
    """The configuration: the file named by --config, then what the command line adds."""
    import tomllib

    from rarecell.config import RunConfig
    from rarecell.errors import BadInput

    base: dict[str, Any] = {}
    if options["config"]:
        RunConfig.read(options["config"])  # every problem of the file itself is told first
        base = tomllib.loads(Path(options["config"]).read_text(encoding="utf-8"))
    given: dict[str, Any] = {name: options[name] for name in _PASSED_ON if options[name] is not None}
    if options["file"]:
        given["input"] = options["file"]
    elif options["sql"] or options["spark_table"]:
        given["input"] = ""
    if options["keys"]:
        given["keys"] = list(_names(options["keys"]))
    if options["populations"]:
        sizes = [part.rpartition("=") for part in _names(options["populations"])]
        if any(not name or not size.strip().isdigit() for name, _, size in sizes):
            raise click.UsageError("--populations takes the number of units of each stratum, as in north=120000,south=80000.")
        given["populations"] = {name.strip(): int(size) for name, _, size in sizes}
    if options["sensitive"]:
        given["sensitive"] = list(_names(options["sensitive"]))
    if options["id_column"]:
        given["id"] = options["id_column"]
    if options["cliques"]:
        given["cliques"] = [list(_names(part)) for part in options["cliques"].split(";")]
    if options["hierarchies"]:
        pairs = [text.partition("=") for text in options["hierarchies"]]
        if any(not path for _, _, path in pairs):
            raise BadInput("--hierarchy takes KEY=CSV, for example --hierarchy occupation=occupation.csv.")
        given["hierarchies"] = {key: path for key, _, path in pairs}
    merged = {**base, **given}
    if protect is not None:
        merged["protect"] = {**base.get("protect", {}), **protect}
    for needed, how in (
        ("input", "Name the microdata file."),
        ("keys", "Name the columns an intruder could know with --keys a,b,c."),
    ):
        if needed not in merged:
            raise click.UsageError(f"{how} 'rarecell assess --help' has an example.")
    return RunConfig.from_mapping(merged, source=options["config"] or "the command line")


def _finish(result: Any, options: dict[str, Any]) -> None:
    """Print the result and leave with the exit code it deserves."""
    from rarecell import terminal

    if options["as_json"]:
        click.echo(json.dumps(result.summary, indent=2))
    else:
        terminal.show_assessment(result.summary)
        if "swap" in result.summary:
            terminal.show_swap(result.summary["swap"])
        if options["out"]:
            click.echo(f"\nResults are in {options['out']}. Begin with {Path(options['out']) / 'report.html'}.", err=True)
    limit = options["fail_above"]
    highest = (
        result.summary["risk"]["highest"] if "swap" not in result.summary else result.summary["swap"]["risk_after"]["highest"]
    )
    if limit is not None and highest > limit:
        click.echo(f"rarecell: the highest risk of a record is {highest:.3g}, above the {limit:g} of --fail-above.", err=True)
        sys.exit(_EXIT_RISKY)


def _run(action: str, config: Any, options: dict[str, Any]) -> None:
    from rarecell import run, terminal

    if options["dry_run"]:
        click.echo(run.forecast(config))
        return
    with terminal.watched(quiet=options["quiet"]) as progress:
        act = run.assess if action == "assess" else run.protect
        result = act(config, out=options["out"], overwrite=options["overwrite"], progress=progress)
    _finish(result, options)


@main.command()
@_run_options
def assess(**options: Any) -> None:
    """Estimate the identification risk of every record in FILE.

    \b
    Example:
        rarecell assess survey.csv --keys age,sex,region,job --population 1000000 --out run
    """
    _run("assess", _config(options), options)


@main.command()
@_run_options
@click.option("--records", help="Row numbers to protect, from 0, separated by commas.")
@click.option("--risk-above", type=click.FloatRange(0, 1), metavar="P", help="Protect records with a risk above P.")
@click.option("--top", type=click.IntRange(1), metavar="K", help="Protect the K riskiest records.")
@click.option(
    "--cell-probability-below", type=float, metavar="P", help="Protect unique records whose cell has a probability below P."
)
@click.option(
    "--max-population-uniques", type=float, metavar="T", help="Protect until at most T population uniques are expected."
)
@click.option("--max-record-risk", type=click.FloatRange(0, 1), metavar="P", help="Protect until no record has a risk above P.")
@click.option("--keep", help='Further marginals that must not change: "sex,education;region,employed".')
@click.option("--never-swap", help="Keys that must stay with their record, separated by commas.")
@click.option("--within", help="Swap only between records that agree on these columns.")
@click.option("--households", is_flag=True, help="Swap whole households with others of the same composition.")
def protect(**options: Any) -> None:
    """Swap values of risky records in FILE so that every marginal of the model stays exactly as it was.

    \b
    Example:
        rarecell protect survey.csv --keys age,sex,region --population 1000000 --risk-above 0.2 --out run
    """
    chosen: dict[str, Any] = {
        name: options[name]
        for name in ("risk_above", "top", "cell_probability_below", "max_population_uniques", "max_record_risk")
        if options[name] is not None
    }
    if options["records"]:
        try:
            chosen["records"] = [int(number) for number in _names(options["records"])]
        except ValueError:
            raise click.UsageError("--records takes row numbers such as 3,17,250.") from None
    if options["keep"]:
        chosen["keep"] = [list(_names(part)) for part in options["keep"].split(";") if part.strip()]
    for name in ("never_swap", "within"):
        if options[name]:
            chosen[name] = list(_names(options[name]))
    if options["households"]:
        chosen["households"] = True
    _run("protect", _config(options, chosen), options)


@main.command()
@click.option(
    "--out", type=click.Path(file_okay=False), default=None, help="Folder for the results (none are written without it)."
)
@click.option("--overwrite", is_flag=True, help="Allow results to be overwritten.")
@click.option("--json", "as_json", is_flag=True, help="Print summary.json instead of tables.")
@click.option("--quiet", is_flag=True, help="No progress.")
def demo(**options: Any) -> None:
    """Assess and protect a census sample whose population is known, and hold the estimate against the truth.

    \b
    Example:
        rarecell demo --out demo
    """
    from rarecell import run, terminal

    with terminal.watched(quiet=options["quiet"]) as progress:
        result = run.demo(out=options["out"], overwrite=options["overwrite"], progress=progress)
    _finish(result, {**options, "fail_above": None})
    if not options["as_json"]:
        click.echo(f"\n{result.summary['truth']['sentence']}")


@main.command()
@click.argument("m", type=click.IntRange(1))
@click.option(
    "--list", "as_list", is_flag=True, help="Write the non-isomorphic chordal graphs on M vertices as graph6, one a line."
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
            click.echo(to_graph6(listed.graph))
        return
    from rarecell import terminal

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
            click.echo(f"m = {c.n_vertices}: {c.note}")


@main.command()
@click.argument("runs", nargs=2, type=click.Path(exists=True, file_okay=False))
def compare(runs: Sequence[str]) -> None:
    """Show two runs side by side.

    \b
    Example:
        rarecell compare run-2024 run-2025
    """
    from rarecell import terminal
    from rarecell.errors import BadInput

    summaries = []
    for folder in runs:
        try:
            summaries.append(json.loads((Path(folder) / "summary.json").read_text(encoding="utf-8")))
        except (OSError, ValueError) as problem:
            raise BadInput(f"{folder} is not the folder of a finished run: {problem}.") from None
    terminal.show_comparison(runs, summaries)


@main.command()
@click.argument("file", type=click.Path(path_type=str))
@click.option("--keys", required=True, help="Columns that come into question, separated by commas.")
@click.option("--population", type=int, required=True, help="Number of units the sample was drawn from.")
@click.option("--size", type=click.IntRange(1), default=5, show_default=True, help="Keys an intruder is assumed to know.")
@click.option("--top", type=click.IntRange(1), default=20, show_default=True, help="Sets to show.")
@click.option(
    "--time-limit",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    default=300.0,
    show_default=True,
    help="Time after which the scan ends with the best so far.",
)
@click.option("--seed", type=int, default=0, help="Seed of the random part that a first search looks at.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--quiet", is_flag=True, help="No progress.")
def scan(**options: Any) -> None:
    """Find the sets of keys in FILE that make most records unique: which few variables would an intruder need?

    \b
    Example:
        rarecell scan survey.csv --keys age,sex,region,job,car,pets --size 3 --population 1000000
    """
    from rarecell import terminal
    from rarecell.microdata import Microdata
    from rarecell.scan import scan_subsets

    table = Microdata(options["file"], keys=_names(options["keys"])).table()
    with terminal.watched(quiet=options["quiet"]) as progress:
        found = scan_subsets(
            table,
            size=options["size"],
            population=options["population"],
            top=options["top"],
            seed=options["seed"],
            max_seconds=options["time_limit"],
            progress=progress,
        )
    if options["as_json"]:
        click.echo(json.dumps(found.to_dict(), indent=2))
        return
    terminal.rows(
        "Sets of keys that make most records unique",
        ["keys", "unique in the file", "expected unique in the population (Pitman)"],
        [
            (", ".join(one.keys), terminal.number(one.sample_uniques), terminal.number(one.expected_population_uniques))
            for one in found.sets
        ],
        right=(1, 2),
    )
    click.echo(f"\n{found}")
    click.echo(f"Assess the riskiest set with:\n  {found.assess_command(options['file'], options['population'])}")


@main.command("explain-pair")
@click.argument("folder", type=click.Path(exists=True, file_okay=False))
@click.argument("record", type=click.IntRange(0))
@click.argument("partner", type=click.IntRange(0))
def explain_pair(folder: str, record: int, partner: int) -> None:
    """Say why two records of the run in FOLDER can or cannot be swapped.

    \b
    Example:
        rarecell explain-pair run 17 2048
    """
    from rarecell import run

    click.echo(run.explain_pair(folder, record, partner))


@main.command()
@click.argument("file", required=False, type=click.Path(path_type=str))
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False),
    default=".",
    help="Folder the app may read and write (default: this one).",
)
@click.option("--no-browser", is_flag=True, help="Print the address instead of opening a browser.")
def app(file: str | None, folder: str, no_browser: bool) -> None:
    """Open the app in the browser, on this computer only.

    \b
    Example:
        rarecell app survey.csv
    """
    from rarecell.app import serve

    serve(folder, file=file, open_browser=not no_browser)

"""Which options do the commands share, and what do they mean for a run?

Options of a configuration have the same names there; what is left out on the command line is left out of the configuration.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rarecell.choices import FORMS, MISSING, MODELS, RESOLUTIONS, SEARCHES, YES_NO
from rarecell.data.names import names_in
from rarecell.engine.places import without_password
from rarecell.errors import BadInput
from rarecell.machine.numbers import LARGEST_COUNT, LARGEST_INTEGER
from rarecell.run.config import RunConfig
from rarecell.swap.formal.wish import FormalWish

if TYPE_CHECKING:
    from rarecell.edges import Json, ReadJson


class FiniteRange(click.FloatRange):
    """A finite number in a range: "nan" lies in no range, though comparisons do not exclude it, and "inf" is not a limit."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


def _names(text: str | None) -> tuple[str, ...]:
    """A comma-separated list of names; a name with a comma in it stands in quotes."""
    return names_in(text) if text else ()


def _options(*decorators: Callable[..., Any]) -> Callable[..., Any]:
    def apply(command: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return apply


data_options = _options(
    click.argument("file", required=False, type=click.Path(path_type=str)),
    click.option("--keys", help="Columns an intruder could know, separated by commas."),
    click.option("--population", type=click.IntRange(1, LARGEST_COUNT), help="Number of units the sample was drawn from."),
    click.option("--weight", help="Column of survey weights; gives the population when --population does not."),
    click.option(
        "--missing",
        type=click.Choice(MISSING),
        help="What a missing key value means: its own level (default), compatible with every value (an intruder who does not know who "
        "failed to answer), a record to drop, or an error.",
    ),
    click.option(
        "--recode",
        multiple=True,
        metavar="KEY=HOW",
        help='How a key is to be released: "age=5-year bands, top 85", "age=edges 15 25 45", "age=5 groups", "job=level 2", '
        '"region=merge 01+02 as north"; "marital=ordered" or "unordered" where the data decide otherwise. Repeatable.',
    ),
    click.option("--sql", help="A query to read instead of a file; FILE is then a database to attach, if any."),
    click.option("--spark-table", metavar="NAME", help="A Spark table, or a path that Spark reads, instead of a file."),
    click.option("--encoding", metavar="NAME", help="Encoding of a text file that is not UTF-8: latin-1, windows-1252, utf-16."),
    click.option("--sheet", metavar="NAME", help="Sheet of a workbook (default: the first)."),
    click.option("--decimal", metavar="MARK", help="Decimal mark in a text file: . or , (default: inferred from the delimiter)."),
    click.option("--memory", metavar="SIZE", help="Memory the run may use, such as 4GB (default: half of the machine's)."),
    click.option(
        "--seed",
        type=click.IntRange(0, LARGEST_INTEGER),
        help="Seed of every random choice (default 0; a secret one for the swaps of a file that is written).",
    ),
    click.option("--config", type=click.Path(exists=True, dir_okay=False), help="A run.toml; command-line options override it."),
    click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables."),
    click.option("--quiet", is_flag=True, help="No progress."),
)
"""Options of every command that reads microdata."""

model_options = _options(
    data_options,
    click.option(
        "--household", metavar="COLUMNS", help="Column that identifies households; several that do so together: area,number."
    ),
    click.option(
        "--household-order",
        metavar="COLUMNS",
        help="Columns that give the order of the members of a household (default: found from the data, householder and age first).",
    ),
    click.option(
        "--households-known",
        type=click.Choice(YES_NO),
        help="Whether an intruder knows who lives with whom (default yes). With no, only persons are judged.",
    ),
    click.option("--geography", help='Column of the area, or nested areas from coarse to fine: "region>district".'),
    click.option("--register", metavar="FILE", help="The whole population, if you hold it: exact numbers next to the estimates."),
    click.option(
        "--scenario",
        "scenarios",
        multiple=True,
        metavar="NAME=KEYS",
        help="A further intruder and the keys it knows: neighbour=age,sex,region. Repeatable.",
    ),
    click.option("--strata", help="Column of the sampling strata."),
    click.option("--populations", help='Population of each stratum: "north=120000,south=80000".'),
    click.option("--sensitive", help="Columns an intruder would like to learn, separated by commas."),
    click.option("--id", "id_column", help="Column that names the record."),
    click.option(
        "--hierarchy",
        "hierarchies",
        multiple=True,
        metavar="KEY=CSV",
        help="Nested groups of a key's levels, one row for each level. Repeatable.",
    ),
    click.option("--criterion", help="aic (default), bic, bayes, skinner-shlomo, or a penalty for each degree of freedom."),
    click.option("--search", type=click.Choice(SEARCHES), help="How to search for the model (default auto)."),
    click.option(
        "--model",
        type=click.Choice(MODELS),
        metavar="NAME",
        help="Where the risk comes from: average (default: back-off models, averaged over orders of the keys), single (the best decomposable "
        "model), bayes, hierarchical, regularised, stacked, independence or saturated.",
    ),
    click.option(
        "--paper",
        is_flag=True,
        help="The procedure of Takemura and Endo: single AIC model, full resolution, local search with restarts, multinomial risk.",
    ),
    click.option("--cliques", help='A model by name instead of a search: "a,b;b,c".'),
    click.option(
        "--resolution",
        type=click.Choice(RESOLUTIONS),
        help="Offer keys with many levels at coarser resolutions too (multi, default), or not.",
    ),
    click.option(
        "--zeros",
        metavar="swaps|detect|off|FILE",
        help="Structural zeros: keep swaps from creating them (default), also leave them out of the model, ignore them, or read a list from FILE.",
    ),
    click.option("--max-clique", type=click.IntRange(1), help="Largest number of keys in a clique."),
    click.option("--restarts", type=click.IntRange(1), help="Starts of the local search (default 100)."),
    click.option(
        "--time-limit",
        type=FiniteRange(0, min_open=True),
        metavar="SECONDS",
        help="Time after which a search among many keys ends with the best model so far (default 45).",
    ),
    click.option(
        "--form",
        type=click.Choice(FORMS),
        help="Distribution of the population count of a cell.",
    ),
    click.option("--threshold", type=FiniteRange(0, 1), help="Risk from which a record is listed (default 0.2)."),
    click.option("--by", metavar="NAME", help="Who runs it, for the first page of the report."),
)
"""Options that say how the risk is estimated."""

run_options = _options(
    model_options,
    click.option("--out", type=click.Path(file_okay=False), help="Folder for the results."),
    click.option("--overwrite", is_flag=True, help="Allow results to be overwritten."),
    click.option("--fail-above", type=FiniteRange(0, 1), metavar="P", help="Exit with 3 when a record's risk is above P."),
    click.option("--dry-run", is_flag=True, help="Estimate cells, memory and time, and stop."),
)
"""Options of a run that may be written to a folder."""


plan_options = _options(
    model_options,
    click.option("--max-correct-links", type=FiniteRange(0), metavar="T", help="At most T correct links in the released file."),
    click.option("--max-record-risk", type=FiniteRange(0, 1), metavar="P", help="No record above P in the released file."),
    click.option("--recodable", help="Keys that may be recoded, separated by commas (default all that --recode does not name)."),
    click.option(
        "--candidates",
        type=click.IntRange(1),
        default=40,
        show_default=True,
        help="How many recodings to try, each with its swaps.",
    ),
)
"""Options of a plan, which writes nothing."""


gate_options = _options(
    click.option(
        "--fail-above-match",
        type=FiniteRange(0, 1),
        metavar="P",
        help="Exit with 3 when a match with a record would be right with a probability above P.",
    ),
    click.option(
        "--fail-below",
        type=click.IntRange(1),
        metavar="K",
        help="Exit with 3 when a record shares its key values with fewer than K records, itself included.",
    ),
)


protect_options = _options(
    click.option("--records", help="Records to protect, counted from 1, separated by commas."),
    click.option("--risk-above", type=FiniteRange(0, 1), metavar="P", help="Protect records with a risk above P."),
    click.option("--top", type=click.IntRange(1), metavar="K", help="Protect the K riskiest records."),
    click.option(
        "--cell-probability-below",
        type=FiniteRange(0),
        metavar="P",
        help="Protect unique records whose cell has a probability below P.",
    ),
    click.option(
        "--max-population-uniques",
        type=FiniteRange(0),
        metavar="T",
        help="Protect until at most T population uniques are expected.",
    ),
    click.option("--max-record-risk", type=FiniteRange(0, 1), metavar="P", help="Protect until no record has a risk above P."),
    click.option(
        "--max-correct-links",
        type=FiniteRange(0),
        metavar="T",
        help="Protect until somebody who links records to the nearest person is expected to be right at most T times.",
    ),
    click.option("--keep", help='Further marginals that must not change: "sex,education;region,employed".'),
    click.option("--never-swap", help="Keys that must stay with their record, separated by commas."),
    click.option("--within", help="Swap only between records that agree on these columns."),
    click.option(
        "--suppress-rest",
        is_flag=True,
        help="Blank the fewest key values of records that swaps leave above the risk asked for.",
    ),
    click.option(
        "--swap-rate",
        type=FiniteRange(0, 1),
        metavar="P",
        help="Least share of records (or --households) that change places between areas: all at risk, then others at random.",
    ),
    click.option(
        "--similar", help='Columns on which records that change places must agree, tried in order: "hhsize,age;hhsize".'
    ),
    click.option(
        "--released",
        type=click.Path(file_okay=False),
        metavar="DIR",
        help="Folder of an earlier protection of this file, which an intruder may hold as well.",
    ),
    click.option("--carry", help="Columns that travel with a swapped key, separated by commas."),
    click.option(
        "--weight-classes", type=click.IntRange(0), metavar="K", help="Classes of similar weight to swap within (default 10)."
    ),
    click.option("--households", is_flag=True, help="Swap whole households with others of the same composition."),
    click.option(
        "--decoys",
        type=FiniteRange(0, 10),
        metavar="SHARE",
        help="Also swap records that are not at risk, as a share of those that are: having moved is then no sign of risk.",
    ),
    click.option(
        "--formal",
        multiple=True,
        metavar="NAME=VALUE",
        help="Instead, change records at random with a stated ε: epsilon=12 or rate=0.05; also root=a,b and rare=3. Repeatable.",
    ),
)
"""Options that say which records to protect, and how."""


_PASSED_ON = (
    *(
        "population",
        "weight",
        "household",
        "households_known",
        "geography",
        "register",
        "strata",
        "missing",
        "sql",
        "encoding",
        "sheet",
        "decimal",
        "spark_table",
        "criterion",
        "search",
    ),
    *("model", "resolution", "max_clique", "restarts", "time_limit", "form", "threshold", "memory", "seed", "zeros", "by"),
)
"""Options with the same name and meaning in a configuration."""


def config_of(options: ReadJson, *, protect: ReadJson | None = None) -> RunConfig:
    """Build the configuration: the file named by --config, then what the command line adds."""
    base: Json = {}
    if options["config"]:
        RunConfig.read(options["config"])  # problems of the file itself are reported first
        base = tomllib.loads(Path(options["config"]).read_text(encoding="utf-8"))
    given: Json = {name: options[name] for name in _PASSED_ON if options.get(name) is not None}
    if options.get("paper"):
        from rarecell.run.keywords import paper_options

        try:
            given.update(paper_options(given))
        except BadInput as problem:
            raise click.UsageError(str(problem)) from None
    if options["file"]:
        given["input"] = options["file"]
    elif options["sql"] or options["spark_table"]:
        given["input"] = ""
    if options["keys"]:
        given["keys"] = list(_names(options["keys"]))
    if options.get("populations"):
        sizes = [part.rpartition("=") for part in _names(options["populations"])]
        if any(not name or not size.strip().isdigit() for name, _, size in sizes):
            raise click.UsageError("--populations takes the number of units of each stratum, as in north=120000,south=80000.")
        given["populations"] = {name.strip(): int(size) for name, _, size in sizes}
    if options.get("sensitive"):
        given["sensitive"] = list(_names(options["sensitive"]))
    if options.get("household_order"):
        given["household_order"] = list(_names(options["household_order"]))
    if options.get("id_column"):
        given["id"] = options["id_column"]
    if options.get("cliques"):
        given["cliques"] = [list(_names(part)) for part in options["cliques"].split(";")]
    if options.get("recode"):
        from rarecell.data.recoding_text import parse_recodings

        given["recode"] = {**base.get("recode", {}), **parse_recodings(options["recode"])}
    if options.get("scenarios"):
        named = [text.partition("=") for text in options["scenarios"]]
        if any(not name.strip() or not _names(keys) for name, _, keys in named):
            raise BadInput("--scenario takes NAME=KEYS, for example --scenario neighbour=age,sex,region.")
        given["scenario"] = {name.strip(): {"keys": list(_names(keys))} for name, _, keys in named}
    if options.get("hierarchies"):
        pairs = [text.partition("=") for text in options["hierarchies"]]
        if any(not path for _, _, path in pairs):
            raise BadInput("--hierarchy takes KEY=CSV, for example --hierarchy occupation=occupation.csv.")
        given["hierarchies"] = {key: path for key, _, path in pairs}
    merged = {**base, **given}
    if protect is not None:
        merged["protect"] = {**base.get("protect", {}), **protect}
    for needed, how in (
        ("input", "Name the microdata file."),
        ("keys", "Use --keys a,b,c to name the columns an intruder could know."),
    ):
        if needed not in merged and not (needed == "keys" and "scenario" in merged):
            raise click.UsageError(f"{how} 'rarecell assess --help' has an example.")
    return RunConfig.from_mapping(merged, source=options["config"] or "the command line")


def wishes_of(options: ReadJson) -> Json:
    """The part of a configuration that says what to protect."""
    chosen: Json = {
        name: options[name]
        for name in (
            "risk_above",
            "top",
            "cell_probability_below",
            "max_population_uniques",
            "max_correct_links",
            "max_record_risk",
            "decoys",
            "swap_rate",
            "weight_classes",
            "released",
        )
        if options[name] is not None
    }
    if options["seed"] is not None:
        chosen["swap_seed"] = options["seed"]
    if options["records"]:
        try:
            numbers = [int(number) for number in _names(options["records"])]
        except ValueError:
            raise click.UsageError("--records takes numbers of records such as 3,17,250.") from None
        if min(numbers) < 1:
            raise click.UsageError("--records counts from 1, as in reports; row numbers in files and in Python count from 0.")
        chosen["records"] = [number - 1 for number in numbers]
    if options["keep"]:
        chosen["keep"] = [list(_names(part)) for part in options["keep"].split(";") if part.strip()]
    if options["similar"]:
        chosen["similar"] = [list(_names(part)) for part in options["similar"].split(";")]
    for name in ("never_swap", "within", "carry"):
        if options[name]:
            chosen[name] = list(_names(options[name]))
    for name in ("households", "suppress_rest"):
        if options[name]:
            chosen[name] = True
    if options["formal"]:
        chosen["formal"] = FormalWish.plain(options["formal"])
    return chosen


def words_for_data(options: ReadJson) -> list[str]:
    """What the command line says about the data and the population, except the keys."""
    words = [without_password(options["file"])] if options["file"] else []
    for name in ("population", "weight", "missing", "sql", "encoding", "sheet", "decimal", "spark_table", "memory", "config"):
        if options[name] is not None:
            words += [f"--{name.replace('_', '-')}", str(options[name])]
    for recoding in options.get("recode", ()):
        words += ["--recode", recoding]
    return words

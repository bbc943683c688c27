"""An option is declared once: what the file, the command line, Python and the app make of it agrees."""

from __future__ import annotations

import inspect
import math
import shlex
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell.app import forms
from rarecell.cli.commands import main
from rarecell.cli.options import GroupedOption, config_of
from rarecell.data.missing_codes import parse_missing_codes
from rarecell.errors import BadInput, RarecellError
from rarecell.run.config import FormalConfig, ProtectConfig, RunConfig, options_on, words_of
from rarecell.run.options import (
    Count,
    Group,
    Intruder,
    Names,
    Number,
    NumberOrNumbers,
    Option,
    Pairs,
    Part,
    Rows,
    Sets,
    Switch,
    TomlTable,
    TomlTables,
    ValueKind,
    Word,
    options_of,
)
from rarecell.run.plan import command_for

LETTERS = st.characters(blacklist_categories=("Cs", "Cc", "Zs", "Zl", "Zp"), blacklist_characters="=")
ODD_NAMES = st.text(st.sampled_from(" \t\n,;\"'a"), max_size=6)
"""Names that a list has to quote, the empty one among them."""
NAMES = st.text(LETTERS, min_size=1, max_size=8).filter(lambda name: not name.startswith("-"))
TABLES = st.dictionaries(
    NAMES, st.text(LETTERS, max_size=8) | st.integers(-9, 9) | st.booleans() | st.lists(NAMES, max_size=2), min_size=1, max_size=3
)

OF_ONE_OPTION: dict[str, st.SearchStrategy[Any]] = {
    "criterion": st.sampled_from(["aic", "bic", "0.7"]),
    "geography": st.sampled_from(["region", "region>district"]),
    "stages": st.just("district: 40 of 312"),
    "profile": st.sampled_from(["public", "clinical"]),
    "treat": st.sampled_from([{"income": "top 99 %, round 100"}, {"wage": "noise 5 %", "phone": "drop"}]),
    "memory": st.sampled_from(["4GB", "2GiB"]),
    "missing_codes": st.sampled_from(["age=-9,99; income=998", "-9, 99", "proposed"]),
    "formal": st.just({"epsilon": (4.0, 5.5), "root": ("a", "b"), "rare": 3}),
}
"""Values of options whose kind says too little about them."""

UNDER_CONDITIONS = {
    *("input", "keys", "population", "strata", "populations", "weight", "sql", "spark_table", "scenario", "household", "similar"),
    "key_error",
    *("l_diversity", "t_closeness", "max_guess_gain", "rake"),
    *(
        "records",
        "risk_above",
        "top",
        "cell_probability_below",
        "swap_rate",
        *("max_population_uniques", "max_correct_links"),
        "formal",
    ),
}
"""Options that depend on others, each tried by itself below."""


def values(kind: ValueKind) -> st.SearchStrategy[Any]:
    """Values of a kind, as a field holds them."""
    if isinstance(kind, Word):
        return st.sampled_from(list(kind.shown))
    if isinstance(kind, NumberOrNumbers):
        return st.floats(0, 9) | st.tuples(st.floats(0, 9), st.floats(0, 9))
    if isinstance(kind, Count):
        return st.integers(kind.low, int(min(kind.high, 10**9)))
    if isinstance(kind, Number):
        return st.floats(kind.low, min(kind.high, 1e9), exclude_min=kind.excludes_low)
    if isinstance(kind, Switch):
        return st.just(True)
    if isinstance(kind, Names):
        return st.lists(NAMES | ODD_NAMES, min_size=1, max_size=3).map(tuple)
    if isinstance(kind, Sets):
        return st.lists(st.lists(NAMES | ODD_NAMES, min_size=1, max_size=3).map(tuple), min_size=1, max_size=3).map(tuple)
    if isinstance(kind, Rows):
        return st.lists(st.integers(0, 10**6), min_size=1, max_size=3).map(tuple)
    if isinstance(kind, Intruder):
        return st.lists(NAMES, min_size=1, max_size=3).map(lambda keys: {"keys": keys})
    if isinstance(kind, TomlTable):
        return TABLES
    if isinstance(kind, TomlTables):
        return st.lists(TABLES, min_size=1, max_size=2).map(tuple)
    if isinstance(kind, Pairs):
        return st.dictionaries(NAMES, values(kind.inner), min_size=1, max_size=3)
    return NAMES


def value_of(option: Option) -> st.SearchStrategy[Any]:
    return OF_ONE_OPTION.get(option.name, values(option.kind))


def chosen(owner: type) -> st.SearchStrategy[dict[str, Any]]:
    free = {option.name: value_of(option) for option in options_of(owner) if option.name not in UNDER_CONDITIONS}
    return st.fixed_dictionaries({}, optional=free).map(_without_what_travels)


def _without_what_travels(values: dict[str, Any]) -> dict[str, Any]:
    """No column of a kept table may travel with swapped keys."""
    travelling = set(values.get("carry", ()))
    kept = [names for names in values.get("keep", ()) if not travelling & set(names)]
    return values | ({"keep": type(values["keep"])(kept)} if "keep" in values else {})


@st.composite
def configs(draw: st.DrawFn) -> RunConfig:
    keys = tuple(draw(st.lists(NAMES, min_size=1, max_size=4, unique=True)))
    protect = ProtectConfig(**draw(chosen(ProtectConfig))) if draw(st.booleans()) else None
    run = draw(chosen(RunConfig))
    if draw(st.booleans()):
        run["scenario"] = {draw(NAMES): {"keys": [keys[0]]}}
    if draw(st.booleans()) and "register" not in run:
        run["key_error"] = draw(st.dictionaries(st.sampled_from([*keys, "*"]), st.floats(0, 0.99), min_size=1))
    if protect is not None and draw(st.booleans()):
        run["sensitive"] = ("longer-than-other-names",)
        limits = [
            option for option in options_of(ProtectConfig) if option.name in ("l_diversity", "t_closeness", "max_guess_gain")
        ]
        protect = replace(protect, **{option.name: draw(value_of(option)) for option in limits})
    if protect is not None and not protect.formal and draw(st.booleans()):
        # No treated column has this name.
        run["weight"], protect = "a-weight", replace(protect, rake=True)
    return RunConfig(input=draw(NAMES), keys=keys, population=draw(st.integers(1, 10**12)), protect=protect, **run)


def read_back(config: RunConfig, command: str) -> RunConfig:
    with main.commands[command].make_context(command, words_of(config, command)) as context:
        return config_of(command, context.params)


@given(configs())
@settings(max_examples=150, deadline=None)
def test_a_configuration_survives_toml(config: RunConfig) -> None:
    assert RunConfig.from_toml(config.to_toml()) == config


@given(configs())
@settings(max_examples=150, deadline=None)
def test_a_configuration_survives_a_command_line(config: RunConfig) -> None:
    protect = config.protect or ProtectConfig()
    if protect.swap_seed is None and config.seed != 0:
        # On the command line, a seed is also that of the swaps.
        protect = replace(protect, swap_seed=config.seed)
    assert read_back(config, "protect") == replace(config, protect=protect)


@pytest.mark.parametrize(
    "name",
    sorted(
        UNDER_CONDITIONS
        - {"input", "keys", "population", "similar", "scenario", "strata", "populations", "sql", "spark_table", "key_error"}
    ),
)
@given(data=st.data())
@settings(max_examples=10, deadline=None)
def test_an_option_by_itself_survives_both(name: str, data: st.DataObject) -> None:
    option = next(option for owner in (RunConfig, ProtectConfig) for option in options_of(owner) if option.name == name)
    value = data.draw(value_of(option))
    config = RunConfig(input="a.csv", keys=("a",), population=10, geography="b", sensitive=("c",), protect=ProtectConfig())
    if name == "rake":
        config = replace(config, weight="d")
    is_of_run = any(option.name == name for option in options_of(RunConfig))
    config = replace(config, **{name: value}) if is_of_run else replace(config, protect=ProtectConfig(**{name: value}))
    assert RunConfig.from_toml(config.to_toml()) == config
    assert read_back(config, "protect") == config


@pytest.mark.parametrize("owner", [RunConfig, ProtectConfig, FormalConfig])
def test_every_field_is_declared(owner: type) -> None:
    names = {part.name for part in fields(owner)} - {"protect"}
    assert {option.name for option in options_of(owner)} == names
    for option in options_of(owner):
        assert option.help.endswith("."), option.name
        assert option.name in (owner.__doc__ or "")


def test_a_name_belongs_to_one_class() -> None:
    assert not {option.name for option in options_of(RunConfig)} & {option.name for option in options_of(ProtectConfig)}


@pytest.mark.parametrize("command", ["assess", "protect", "plan", "scan", "attack"])
def test_a_command_has_the_options_that_are_declared_for_it(command: str) -> None:
    flags = {flag for parameter in main.commands[command].params for flag in parameter.opts}
    assert {option.flag for _, option in options_on(command) if option.name != "input"} <= flags


@pytest.mark.parametrize("command", ["assess", "protect", "plan"])
def test_a_function_names_the_options_of_its_command(command: str) -> None:
    parameters = inspect.signature(getattr(rc, command)).parameters
    assert {option.name for _, option in options_on(command)} - {"input"} <= set(parameters)


NUMBERS = [
    (owner, option)
    for owner in (RunConfig, ProtectConfig)
    for option in options_of(owner)
    if isinstance(option.kind, Count | Number)
]


@pytest.mark.parametrize(("owner", "option"), NUMBERS, ids=lambda given: getattr(given, "name", ""))
def test_a_number_outside_its_range_is_refused_everywhere(owner: type, option: Option) -> None:
    kind = option.kind
    assert isinstance(kind, Count | Number)
    outside = [kind.low - 1, *([] if kind.high == math.inf or kind.high > 2**60 else [kind.high + 1]), math.nan, math.inf]
    for value in outside:
        given = {option.name: value}
        with pytest.raises(RarecellError):
            RunConfig(**{"input": "a", "keys": ("a",), "population": 5, **given}) if owner is RunConfig else ProtectConfig(
                **given
            )
        command = next(command for command in ("assess", "protect") if command in option.on)
        words = ["a.csv", "--keys", "a", "--population", "5", f"{option.flag}={value}"]
        with pytest.raises(click.UsageError):
            main.commands[command].make_context(command, words)


@pytest.mark.parametrize("command", ["assess", "protect", "plan", "scan"])
def test_help_shows_the_main_options_and_help_all_every_one(command: str) -> None:
    short, full = (CliRunner().invoke(main, [command, words], terminal_width=80).output for words in ("--help", "--help-all"))
    options = [option for option in main.commands[command].params if isinstance(option, GroupedOption)]
    mains = [option for option in options if option.is_main]
    assert 5 <= len(mains) <= 16
    for option in options:
        assert f"  {option.opts[0]}" in full
        assert (f"  {option.opts[0]} " in short) == option.is_main
    assert f"--help-all shows {len(options) - len(mains)} further options" in short
    headings = [group.value for group in Group if f"{group.value}:" in full]
    assert [full.index(f"{heading}:") for heading in headings] == sorted(full.index(f"{heading}:") for heading in headings)
    assert all(len(line) <= 80 for line in full.splitlines())


def test_the_form_of_the_app_reads_what_it_shows() -> None:
    shown = {"file": ["a.csv"], "role:a": ["key"], "population": ["100"]}
    for option in forms.LABELLED:
        value = next((word for word in option.choices if word), "3")
        config = forms.assess_config({**shown, option.name: [value]}, Path("a.csv"))
        assert str(getattr(config, option.name)) == value
        assert forms.form_of(config, "a.csv")[option.name] == [value]


def test_what_the_form_does_not_show_is_taken_over() -> None:
    base = RunConfig(input="a.csv", keys=("a",), population=100, zeros="off", max_clique=3, by="A. Person")
    config = forms.assess_config({"role:a": ["key"], "population": ["100"]}, Path("a.csv"), base=base)
    assert (config.zeros, config.max_clique, config.by) == ("off", 3, "A. Person")


def test_words_of_tables_are_as_in_a_configuration() -> None:
    rules = next(option for option in options_of(ProtectConfig) if option.name == "rules")
    assert rules.kind.read(['age="<15", marital=["0", "1"]'], "--rule") == [{"age": "<15", "marital": ["0", "1"]}]
    with pytest.raises(BadInput, match="as in a run"):
        rules.kind.read(["age < 15"], "--rule")


def test_an_option_of_a_part_is_looked_up() -> None:
    formal = next(option for option in options_of(ProtectConfig) if option.name == "formal")
    assert isinstance(formal.kind, Part)
    with pytest.raises(BadInput, match="Did you mean 'epsilon'"):
        formal.kind.read(["epsilom=3"], "--formal")


# ---------------------------------------------------------------------- what once went wrong


@pytest.fixture
def survey(tmp_path: Path) -> Path:
    path = tmp_path / "survey.csv"
    path.write_text("age,sex\n" + "".join(f"{20 + i % 9},{i % 2}\n" for i in range(60)))
    return path


@pytest.mark.parametrize("command", ["assess", "protect", "plan"])
@pytest.mark.parametrize("further", [[], ["--model", "hierarchical", "--cliques", "age,sex"], ["--model", "stacked"]])
def test_a_criterion_that_is_none_is_refused_before_anything_is_read(command: str, further: list[str]) -> None:
    words = ["nowhere.csv", "--keys", "age,sex", "--population", "900", "--criterion", "banana", *further]
    done = CliRunner().invoke(main, [command, *words, *(["--dry-run"] if command != "plan" else [])])
    assert done.exit_code == 1
    assert "The criterion was given as 'banana'" in done.output


LISTS = {
    **{
        option.flag: option.kind
        for owner in (RunConfig, ProtectConfig)
        for option in options_of(owner)
        if "," in option.kind.metavar
    },
    "--scenario": Intruder(),
    "--missing-codes": None,
}
GAPS = [",a", "a,", "a,,b", ",", " , ", "a, ,b", "3,,4", "3,", ",3", "a=1,", ",0.1"]
GAPS_OF_SETS = ["a;", ";a", "a;;b", ";", "a,;b"]


def test_there_are_options_that_take_lists() -> None:
    assert {"--keys", "--records", "--keep", "--blank", "--key-error", "--populations"} <= set(LISTS)


@pytest.mark.parametrize("gap", [*GAPS, *GAPS_OF_SETS])
@pytest.mark.parametrize("flag", LISTS)
def test_nothing_between_the_members_of_a_list_is_refused(flag: str, gap: str) -> None:
    """A script whose variable is empty would leave out a key, and the risk would be too low."""
    kind = LISTS[flag]
    if kind is None:
        with pytest.raises(BadInput, match="codes for missing values"):
            parse_missing_codes(gap)
    elif gap in GAPS or isinstance(kind, Sets):
        with pytest.raises(BadInput, match=flag):
            kind.read([gap], flag)


@pytest.mark.parametrize(
    "words",
    [
        *(["attack", "r.csv", "--original", "o.csv", "--keys", gap] for gap in ("age,", ",")),
        ["attack", "r.csv", "--original", "o.csv", "--keys", "age", "--also-known", "a,,b"],
        ["synthesise", "a.csv", "--columns", "age,,sex"],
        ["synthesise", "a.csv", "--columns", "age,sex", "--keys", ",sex"],
        ["plan", "a.csv", "--keys", "age,sex", "--population", "9", "--recodable", "age,"],
        ["handover", ".", "--drop", "age,"],
        ["handover", ".", "--accept", ",age"],
    ],
)
def test_commands_refuse_the_same_in_lists_of_their_own(words: list[str]) -> None:
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 1, done.output
    assert f"{words[-2]} was given as '{words[-1]}', with nothing between two commas" in done.output


def test_a_list_without_records_is_refused(survey: Path) -> None:
    done = CliRunner().invoke(main, ["protect", str(survey), "--keys", "age,sex", "--population", "900", "--records", ","])
    assert done.exit_code == 1
    assert "--records was given as ','" in done.output


def test_a_configuration_need_not_name_the_file(survey: Path, tmp_path: Path) -> None:
    config = tmp_path / "run.toml"
    config.write_text('keys = ["age", "sex"]\npopulation = 900\nmodel = "independence"\n')
    done = CliRunner().invoke(main, ["assess", str(survey), "--config", str(config), "--quiet", "--json"])
    assert done.exit_code == 0, done.output
    lacks = CliRunner().invoke(main, ["assess", "--config", str(config)])
    assert lacks.exit_code == 2
    assert "Name the microdata file" in lacks.output
    config.write_text('keyz = ["age"]\n')
    assert "did you mean 'keys'" in CliRunner().invoke(main, ["assess", str(survey), "--config", str(config)]).output


def test_the_command_of_a_plan_keeps_the_rules_that_the_plan_obeyed(survey: Path) -> None:
    protect = ProtectConfig(keep=(("age", "sex"),), never_swap=("sex",), rules=({"age": "<15"},))
    config = RunConfig(str(survey), ("age", "sex"), 900, model="independence", seed=7, protect=protect)
    frontier = rc.plan(config, max_record_risk=0.9, candidates=1)
    words = shlex.split(command_for(frontier.points[0], frontier.target, config))[2:]
    with main.commands["protect"].make_context("protect", words) as context:
        read = config_of("protect", context.params)
    assert read.seed == 7
    assert read.protect is not None
    assert (read.protect.keep, read.protect.never_swap, read.protect.rules) == (
        protect.keep,
        protect.never_swap,
        protect.rules,
    )
    assert read.protect.max_record_risk == 0.9


def test_errors_in_python_name_keywords_and_those_of_a_command_its_options() -> None:
    people = pa.table({"age": [1, 2, 3] * 20, "sex": ["f", "m"] * 30})
    config = RunConfig(input="", keys=("age", "sex"), population=900, protect=ProtectConfig(top=1, unlink=True))
    with pytest.raises(BadInput, match="--unlink drops the household number; name its column with --household"):
        rc.protect(config, frame=people)
    with pytest.raises(BadInput, match="unlink= drops the household number; name its column with household="):
        rc.protect(people, keys=["age", "sex"], population=900, top=1, unlink=True)


def test_an_option_that_no_function_has_is_told_with_the_one_that_was_meant() -> None:
    frame = pa.table({"age": [1, 2], "sex": ["f", "m"]})
    for function, wrong, meant in ((rc.assess, "poplation", "population"), (rc.protect, "riskabove", "risk_above")):
        with pytest.raises(rc.RarecellError, match=rf"There is no option '{wrong}'\. Did you mean '{meant}'\?"):
            function(frame, keys=["age", "sex"], **{wrong: 0.5})
    with pytest.raises(rc.BadInput, match=r"^'risk_above' in the call was given as 'high'"):
        rc.protect(frame, keys=["age", "sex"], population=9, risk_above="high")


def test_what_is_no_run_is_told_without_the_words_of_the_system(tmp_path: Path) -> None:
    for place, why in ((tmp_path / "nowhere", "there is no such folder"), (tmp_path, "it has no results")):
        with pytest.raises(rc.BadInput, match=f"is not the folder of a finished run: {why}."):
            rc.load(place)


def test_an_option_of_another_function_is_refused_and_not_ignored() -> None:
    frame = pa.table({"age": [1, 2] * 20, "sex": ["f", "m"] * 20})
    with pytest.raises(rc.BadInput, match=r"rarecell\.assess does not take risk_above= or top="):
        rc.assess(frame, keys=["age", "sex"], population=90, risk_above=0.5, top=3)
    rc.assess(
        RunConfig(input="", keys=("age", "sex"), population=90, model="independence", protect=ProtectConfig(top=3)), frame=frame
    )


def test_a_whole_number_may_be_a_float_such_as_a_sum_of_weights() -> None:
    frame = pa.table({"age": [1, 2] * 20, "sex": ["f", "m"] * 20})
    assert rc.assess(frame, keys=["age", "sex"], population=90.0, model="independence").summary.population == 90
    with pytest.raises(rc.BadInput, match="must be a whole number"):
        rc.assess(frame, keys=["age", "sex"], population=90.5)

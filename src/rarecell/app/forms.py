"""How do the fields of a form become the configuration of a run, and vice versa?

The checks are those for a ``run.toml``: a form is turned into plain values and passed to :class:`~rarecell.run.config.RunConfig`.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rarecell.data.names import joined_names, joined_sets, names_in, sets_in
from rarecell.data.recoding_text import parse_recoding
from rarecell.data.roles import ROLES
from rarecell.data.treatment_text import parse_treatment
from rarecell.errors import BadInput, RarecellError, UnknownColumns
from rarecell.run.config import ProtectConfig, RunConfig
from rarecell.run.options import Count, Number, Option, ValueKind, named_as, option_of, options_of

if TYPE_CHECKING:
    from rarecell.edges import Json


Fields = Mapping[str, Sequence[str]]

Columns = Callable[[], Sequence[str]]
"""The columns of a file, which is read only when they are asked for."""

ROLES_OF_A_COLUMN = (*ROLES[:1], "key+geography", "key+strata", *ROLES[1:])
"""Roles of a column: an area or a stratum may also be known to an intruder."""

_SINGLE_ROLES = ("weight", "household", "strata", "id")
_SEVERAL_TOGETHER = ("household", "id")
"""Roles that several columns can have together: number of the area and of the household in it."""

_READING = ("encoding", "decimal", "sheet", "missing_codes")
LABELLED = tuple(option for option in options_of(RunConfig) if option.label)
"""Options that the form shows under "More choices", as they are declared."""

_ON_THE_PAGE = {
    *("sql", "spark_table", "cliques"),  # these belong to the data and the keys of the run before
    *("input", "keys", "population", "populations", "geography", "sensitive", "register", "scenario", "recode", "threshold"),
    *("coding", "hierarchies", "protect", *_SINGLE_ROLES, *_READING, *(option.name for option in LABELLED)),
}
_BEYOND_THE_FORM = tuple(option.name for option in options_of(RunConfig) if option.name not in _ON_THE_PAGE)
"""What a run takes over from the one it starts from, although the form does not show it."""


class FieldProblem(BadInput):
    """What is wrong with one field of a form, beside which the page shows it."""

    def __init__(self, message: str = "", *, field: str = "") -> None:
        super().__init__(message)
        self.field = field


@contextmanager
def about(field: str) -> Iterator[None]:
    """Whatever is wrong inside is wrong with this field."""
    try:
        yield
    except FieldProblem:
        raise
    except RarecellError as problem:
        raise FieldProblem(str(problem), field=field) from None


def first(fields: Fields, name: str) -> str:
    """The value of a field; empty if it was not sent."""
    values = fields.get(name) or [""]
    return values[0].strip()


def assess_config(
    fields: Fields,
    path: Path,
    *,
    levels: Mapping[str, int] | None = None,
    base: RunConfig | None = None,
) -> RunConfig:
    """Build the configuration that the Keys page asks for.

    Parameters
    ----------
    fields : Fields
        The form; columns come as ``role:<column>`` fields.
    path : Path
        The file.
    levels : mapping of str to int, optional
        Number of values of each column, by which nested areas are ordered.
    base : RunConfig, optional
        The run that this one starts from, for what the form does not show.
    """
    roles = _roles(fields)
    values: Json = {"input": str(path), "keys": roles["key"]}
    if not roles["key"]:
        raise BadInput("No column is marked as a key. Mark those that an outsider could know about a person.")
    for role in _SINGLE_ROLES:
        if len(roles[role]) > 1 and role not in _SEVERAL_TOGETHER:
            raise BadInput(f"{len(roles[role])} columns are marked as {role}: {', '.join(roles[role])}. Only one can be.")
        if roles[role]:
            values[role] = roles[role][0] if len(roles[role]) == 1 else joined_names(roles[role])
    if roles["geography"]:
        values["geography"] = ">".join(sorted(roles["geography"], key=lambda name: (levels or {}).get(name, 0)))
    recode = {name.removeprefix("recode:"): first(fields, name) for name in fields if name.startswith("recode:")}
    recode = {column: words for column, words in recode.items() if words}
    for column, words in recode.items():
        with about(f"recode:{column}"):
            if column not in roles["key"]:
                raise BadInput(
                    f"'{column}' is not a key, and only keys are recoded here. Other columns are treated when the file is protected."
                )
            parse_recoding(words, key=column)
    values |= {name: value for name, value in (("recode", recode), ("sensitive", roles["sensitive"])) if value}
    values |= _population(fields, roles)
    values |= {name: first(fields, name) for name in (*_READING, "register") if first(fields, name)}
    if first(fields, "threshold"):
        with about("threshold"):
            values["threshold"] = decimal_number(first(fields, "threshold"), "The threshold")
            option_of(RunConfig, "threshold").kind.judge(values["threshold"], "The threshold")
    values |= {option.name: _labelled(option, first(fields, option.name)) for option in LABELLED if first(fields, option.name)}
    if first(fields, "scenarios"):
        with about("scenarios"):
            values["scenario"] = scenarios_of(first(fields, "scenarios"))
    coding = {} if base is None else {key: dict(coding) for key, coding in base.coding.items() if key in roles["key"]}
    values |= {"coding": coding} if coding else {}
    config = RunConfig.from_mapping(values, source="the form")
    if base is None:
        return config
    hierarchies = {key: path for key, path in base.hierarchies.items() if key in config.keys}
    return replace(config, hierarchies=hierarchies, **{name: getattr(base, name) for name in _BEYOND_THE_FORM})


def _labelled(option: Option, text: str) -> Any:
    """The value of an option under "More choices", as a configuration writes it."""
    with about(option.name):
        if isinstance(option.kind, Count | Number):
            return _number(text, f"'{option.label}'", option.kind)
        return option.kind.read([text], option.flag)


def _roles(fields: Fields) -> dict[str, list[str]]:
    """The columns with each role."""
    roles: dict[str, list[str]] = {role: [] for role in ROLES}
    for name in fields:
        if name.startswith("role:"):
            for role in first(fields, name).split("+"):
                if role not in roles:
                    raise BadInput(f"Column '{name[5:]}' was given the role '{role}', which does not exist.")
                roles[role].append(name[5:])
    return roles


def _population(fields: Fields, roles: Mapping[str, Sequence[str]]) -> Json:
    """The size of the population, or of each of its strata."""
    if roles["strata"]:
        with about("populations"):
            sizes = stratum_sizes(first(fields, "populations"))
            if not sizes:
                raise BadInput(
                    f"'{roles['strata'][0]}' is marked as sampling stratum. Write the number of units of each stratum, a line each: north = 1200000."
                )
        return {"populations": sizes}
    population = first(fields, "population")
    with about("population"):
        if population:
            return {"population": whole_number(population, "The population")}
        if not roles["weight"]:
            raise BadInput(
                "The size of the population is empty. Write the number of units the sample was drawn from, or mark a column of weights."
            )
    return {}


def stratum_sizes(text: str) -> dict[str, int]:
    """Read the sizes of strata, one per line.

    Examples
    --------
    >>> stratum_sizes("north = 1.200.000\\nsouth: 800000")
    {'north': 1200000, 'south': 800000}
    """
    sizes: dict[str, int] = {}
    for line in text.splitlines():
        label, size = _pair(line, "The size of a stratum", "north = 1200000")
        if label and not size:
            raise BadInput(f"The size of stratum '{label}' is empty.")
        if label in sizes:
            raise BadInput(f"The size of stratum '{label}' is written twice.")
        if label:
            sizes[label] = whole_number(size, f"The size of stratum '{label}'")
    return sizes


def scenarios_of(text: str) -> dict[str, dict[str, list[str]]]:
    """Read what further intruders know, one per line.

    Examples
    --------
    >>> scenarios_of("neighbour: age, sex")
    {'neighbour': {'keys': ['age', 'sex']}}
    """
    scenarios: dict[str, dict[str, list[str]]] = {}
    for line in text.splitlines():
        name, keys = _pair(line, "An intruder", "neighbour: age, sex")
        if name:
            scenarios[name] = {"keys": _listed(keys)}
    return scenarios


def _pair(line: str, what: str, example: str) -> tuple[str, str]:
    """Split a line in two at whichever sign comes first."""
    if not line.strip():
        return "", ""
    places = [place for sign in "=:" if (place := line.rfind(sign) if sign == "=" else line.find(sign)) > 0]
    if not places:
        raise BadInput(f"{what} was written as '{line.strip()}'; write it like this: {example}.")
    place = min(places)
    return line[:place].strip(), line[place + 1 :].strip()


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.replace(";", ",").split(",") if part.strip()]


# ---------------------------------------------------------------------- protection

TARGET = "target"
"""The way to choose records by limits that are to be kept, all at once."""

LIMITS = {
    "max_correct_links": "The number of correct links",
    "max_record_risk": "The highest risk",
    "max_population_uniques": "The number of population uniques",
}
"""Limits of a target, and what each number is called."""

_WAYS = {
    "risk_above": "The threshold",
    "top": "The number of records",
    "k": "The least number of records with the same key values",
    "swap_rate": "The share of records that change places",
}
"""Other ways to choose records, and what each number is called."""

_NO_CHOICE: Json = {
    **dict.fromkeys((*LIMITS, *_WAYS, "records", "cell_probability_below")),
    "formal": {},
    "similar": (),
}
"""A protection that says nothing yet about which records, neither here nor in the terminal."""


def protect_config(fields: Fields, config: RunConfig, *, columns: Columns) -> RunConfig:
    """The configuration of a finished run plus what the Protect page adds.

    If the run was a protection, choices of it that the page does not show stay as they were.
    """
    way = first(fields, "way") or "risk_above"
    chosen = _chosen_records(fields, way)
    if way == "swap_rate" and first(fields, "similar"):
        with about("similar"):
            chosen["similar"] = sets_in(first(fields, "similar"), "The columns on which partners agree")
            _refuse_unknown(itertools.chain(*chosen["similar"]), columns)
    unknown = [name for name in fields.get("never_swap", ()) if name not in config.keys]
    if unknown:
        raise BadInput(f"'{unknown[0]}' is not a key of this run.")
    unknown = [name for name in fields.get("leave_out", ()) if name not in config.keys]
    if unknown:
        raise BadInput(f"'{unknown[0]}' is not a key of this run.")
    earlier = config.protect or ProtectConfig()
    suppress_rest = way == TARGET and bool(first(fields, "suppress_rest"))
    if suppress_rest and "max_record_risk" not in chosen:
        with about("max_record_risk"):
            raise BadInput(
                "Values are blanked in records above the highest risk, which is empty. Write it, or untick the blanks."
            )
    with about("keep"):
        keep = sets_in(first(fields, "keep"), "The tables to keep")
        _refuse_unknown(itertools.chain(*keep), columns)
    beside: Json = {name: _named(fields, name, columns) for name in BESIDE_KEYS}
    protect = replace(
        earlier,
        **{**_NO_CHOICE, **chosen, **beside},
        against=earlier.against if way == TARGET else None,
        blank=earlier.blank if suppress_rest or way == "k" else (),
        leave_out=tuple(fields.get("leave_out", ())),
        unlink=bool(first(fields, "unlink")),
        keep=keep,
        never_swap=tuple(fields.get("never_swap", ())),
        households=bool(first(fields, "households")),
        suppress_rest=suppress_rest,
        treat=_treatments(first(fields, "treat"), columns),
    )
    return replace(config, protect=protect)


def _chosen_records(fields: Fields, way: str) -> Json:
    """Which records are to be protected: one number, or the limits of a target."""
    if way != TARGET and way not in _WAYS:
        raise BadInput(f"There is no way to choose records called '{way}'.")
    given = {name: what for name, what in LIMITS.items() if first(fields, name)} if way == TARGET else {way: _WAYS[way]}
    if not given:
        with about(next(iter(LIMITS))):
            raise BadInput("No limit is written. Write at least one of those that are to be kept.")
    return {name: limit_of(fields, name, what) for name, what in given.items()}


def limit_of(fields: Fields, name: str, what: str) -> float:
    """The number in a field that is an option of a protection."""
    kind = option_of(ProtectConfig, name).kind
    with about(name):
        number = _number(first(fields, name), what, kind)
        kind.judge(number, what)
    return number


def protect_form(protect: ProtectConfig) -> dict[str, list[str]]:
    """What an earlier protection chose, as the fields of the Protect page."""
    way = TARGET if protect.has_target else next((way for way in _WAYS if getattr(protect, way) is not None), "")
    values: Json = {name: getattr(protect, name) for name in (*LIMITS, *_WAYS)}
    fields = {name: [as_written(value)] for name, value in values.items() if value is not None} | ({"way": [way]} if way else {})
    fields |= {name: ["1"] for name in ("households", "unlink", "suppress_rest") if getattr(protect, name)}
    fields |= {name: list(getattr(protect, name)) for name in ("never_swap", "leave_out")}
    fields |= {name: [joined_sets(getattr(protect, name))] for name in ("keep", "similar")}
    fields |= {name: [joined_names(getattr(protect, name))] for name in BESIDE_KEYS}
    return {**fields, "treat": ["\n".join(f"{column}={how}" for column, how in protect.treat.items())]}


BESIDE_KEYS = ("carry", "spare", "also_known", "accept_leak")
"""Options that name columns beside the keys."""


def _named(fields: Fields, name: str, columns: Columns) -> tuple[str, ...]:
    with about(name):
        named = names_in(first(fields, name), "A list of columns")
        _refuse_unknown(named, columns)
    return named


def _refuse_unknown(named: Iterable[str], columns: Columns) -> None:
    listed = list(dict.fromkeys(named))
    available = columns() if listed else ()
    unknown = [name for name in listed if name not in available]
    if unknown:
        raise UnknownColumns.among(unknown, available)


def _treatments(text: str, columns: Columns) -> dict[str, str]:
    """Treatments of columns, one on each line: ``income=top 99 %``."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    with about("treat"):
        treatments = dict(option_of(ProtectConfig, "treat").kind.read(lines, "--treat")) if lines else {}
        _refuse_unknown(treatments, columns)
        for column, words in treatments.items():
            parse_treatment(words, column=column)
    return treatments


def _number(text: str, what: str, kind: ValueKind) -> float:
    return whole_number(text, what) if isinstance(kind, Count) else decimal_number(text, what)


# ---------------------------------------------------------------------- back again


def form_of(config: RunConfig, file: str) -> dict[str, list[str]]:
    """A configuration as the fields of the Keys page; ``file`` is the name by which the browser knows its input."""
    fields: Json = {"file": file, "population": config.population, "threshold": config.threshold}
    fields |= {f"role:{key}": "key" for key in config.keys}
    fields |= {f"role:{name}": "sensitive" for name in config.sensitive}
    areas = [area.strip() for area in (config.geography or "").split(">") if area.strip()]
    fields |= {f"role:{area}": "geography" for area in areas}
    for role in _SINGLE_ROLES:
        named = getattr(config, role)
        several = names_in(named) if named is not None and role in _SEVERAL_TOGETHER else (named,)
        fields |= {f"role:{name}": role for name in several if name is not None}
    for key in config.keys:
        both = f"key+{fields.get(f'role:{key}', '')}"
        fields[f"role:{key}"] = both if both in ROLES_OF_A_COLUMN else "key"
    fields |= {f"recode:{key}": words for key, words in config.recode.items()}
    fields |= {name: getattr(config, name) for name in (*_READING, "register", *(option.name for option in LABELLED))}
    fields["populations"] = "\n".join(f"{label} = {size}" for label, size in config.populations.items())
    fields["scenarios"] = "\n".join(f"{name}: {', '.join(keys)}" for name, keys in config.scenarios.items())
    return {
        name: [as_written(value) if isinstance(value, float) else str(value)]
        for name, value in fields.items()
        if value not in (None, "")
    }


# Which number did a person write?
#
# Thousands may be separated by commas, points, spaces or apostrophes, and the decimal mark is a comma or a point. Text that could
# mean two numbers is refused, and both readings are named.


_SPACES = str.maketrans("", "", " \u00a0\u202f'’_")
_APART = re.compile("[+-]?[0-9]{1,3}(?:[ \u00a0\u202f'’,.][0-9]{3})+")
_MAY_BE_TWO = re.compile(r"[+-]?[1-9][0-9]{0,2}[,.][0-9]{3}")
_THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}(?:,[0-9]{3})+|[+-]?[0-9]{1,3}(?:\.[0-9]{3})+")


def whole_number(text: str, what: str) -> int:
    """Read a whole number as people write it.

    Examples
    --------
    >>> [whole_number(text, "The size") for text in ("1087835", "1,087,835", "1.087.835", "1'087'835", "1 087 835")]
    [1087835, 1087835, 1087835, 1087835, 1087835]
    """
    plain = text.translate(_SPACES)
    if not plain:
        raise BadInput(f"{what} is empty; write a whole number, for example 100.")
    if _THOUSANDS.fullmatch(plain) or _APART.fullmatch(text):
        plain = plain.replace(",", "").replace(".", "")
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", plain):
        raise BadInput(f"{what} was written as '{text}'; write a whole number, for example 100.")
    return int(plain)


def decimal_number(text: str, what: str) -> float:
    """Read a number with or without decimals as people write it.

    Examples
    --------
    >>> [decimal_number(text, "The threshold") for text in ("0.2", "0,2", "1'000.5", "1.087.835")]
    [0.2, 0.2, 1000.5, 1087835.0]
    """
    plain = text.translate(_SPACES)
    if not plain:
        raise BadInput(f"{what} is empty; write a number, for example 0.2.")
    if _MAY_BE_TWO.fullmatch(plain):
        apart, decimals = plain.replace(",", "").replace(".", ""), plain.replace(",", ".")
        raise BadInput(f"{what} was written as '{text}', which may mean {apart} or {decimals}. Write {apart} or {decimals}0.")
    if _THOUSANDS.fullmatch(plain):
        plain = plain.replace(",", "").replace(".", "")
    elif plain.count(",") == 1 and "." not in plain:
        plain = plain.replace(",", ".")
    try:
        number = float(plain)
    except ValueError:
        raise BadInput(f"{what} was written as '{text}'; write a number, for example 0.2.") from None
    if not math.isfinite(number):
        raise BadInput(f"{what} was written as '{text}', which is not a valid size.")
    return number


def as_written(number: float) -> str:
    """A number as :func:`decimal_number` reads it, in full.

    Examples
    --------
    >>> [as_written(number) for number in (0.2, 24.0, 1234567, 1.234)]
    ['0.2', '24', '1234567', '1.2340']
    """
    text = str(number).removesuffix(".0")
    return f"{text}0" if _MAY_BE_TWO.fullmatch(text) else text


# ---------------------------------------------------------------------- how messages name a field

_NAMES = {
    **{option.name: f"“{option.label}”" for option in LABELLED},
    "encoding": "“Text is written in”",
    "decimal": "“Decimals begin with”",
    "sheet": "“Sheet of the workbook”",
    "missing_codes": "“Codes that mean ‘missing’”",
    "keys": "the role “key”",
    "weight": "the role “survey weight”",
    "household": "the role “household”",
    "id": "the role “identifier”",
    "sensitive": "the role “sensitive”",
    "geography": "the role “area”",
    "strata": "the role “sampling stratum”",
    "population": "“Number of units the sample was drawn from”",
    "register": "“A file of the whole population”",
    "scenario": "“Further intruders”",
    "recode": "“Release it”",
    "threshold": "“Risk from which a record counts as risky”",
    "out": "“Folder for the results”",
    "risk_above": "“records with a risk above a threshold”",
    "top": "“the riskiest records, this many”",
    "max_correct_links": "“Correct links to expect, at most”",
    "max_population_uniques": "“Expected population uniques, at most”",
    "max_record_risk": "“Highest risk of a record”",
    "suppress_rest": "“blank as few values as possible”",
    "k": "“Records that share every released combination, at least”",
    "also_known": "“Columns that an intruder may also know”",
    "swap_rate": "“Share of the records or households”",
    "keep": "“Further tables to keep”",
    "never_swap": "“Keys that stay with their record”",
    "treat": "“What is done to them”",
    "leave_out": "“Keys to leave out of the file”",
    "carry": "“Columns that travel with a swapped key”",
    "spare": "“Columns whose means should move little”",
    "accept_leak": "“Columns that may be released although they give away what is done to a key”",
    "signed_by": "“Signed by”",
    "reason": "“Reason”",
    "drop": "“Columns to leave out”",
    "accept": "“Columns that may go”",
    "analysis": "“Analyses that users will run”",
    "unlink_households": "“leave the household number out”",
}
"""What the pages call the options that they show."""


def in_app(text: str) -> str:
    """A message with the fields of the pages in place of the options of a command.

    Examples
    --------
    >>> in_app("Choose another one with --sheet.")
    'Choose another one with “Sheet of the workbook”.'
    """
    return named_as(text, _NAMES.get)

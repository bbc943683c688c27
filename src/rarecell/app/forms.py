"""How do the fields of a form become the configuration of a run?

The same checks as for a ``run.toml``: a form is turned into plain values and handed to :class:`~rarecell.run.config.RunConfig`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rarecell.app.numbers import decimal_number, whole_number
from rarecell.data.recoding_text import parse_recoding
from rarecell.data.roles import ROLES
from rarecell.errors import BadInput
from rarecell.run.config import ProtectConfig, RunConfig

Fields = Mapping[str, Sequence[str]]

_SINGLE_ROLES = ("weight", "household", "geography", "strata", "id")
_WORDS = ("missing", "criterion", "search", "model", "resolution", "form")


def first(fields: Fields, name: str) -> str:
    """The value of a field, empty when it was not sent."""
    values = fields.get(name) or [""]
    return values[0].strip()


def assess_config(fields: Fields, path: Path) -> RunConfig:
    """The configuration that the Keys page asks for. Columns come as ``role:<column>`` fields."""
    roles: dict[str, list[str]] = {role: [] for role in ROLES}
    for name in fields:
        if name.startswith("role:"):
            role = first(fields, name)
            if role not in roles:
                raise BadInput(f"Column '{name[5:]}' was given the role '{role}', which there is not.")
            roles[role].append(name[5:])
    given: dict[str, Any] = {"input": str(path), "keys": roles["key"]}
    if not roles["key"]:
        raise BadInput("No column is marked as a key. Mark those that somebody outside could know about a person.")
    for role in _SINGLE_ROLES:
        if len(roles[role]) > 1:
            raise BadInput(f"{len(roles[role])} columns are marked as {role}: {', '.join(roles[role])}. Only one can be.")
        if roles[role]:
            given[role] = roles[role][0]
    recode = {key: first(fields, f"recode:{key}") for key in roles["key"] if first(fields, f"recode:{key}")}
    if recode:
        for key, words in recode.items():
            parse_recoding(words, key=key)
        given["recode"] = recode
    if roles["sensitive"]:
        given["sensitive"] = roles["sensitive"]
    population = first(fields, "population")
    if population:
        given["population"] = whole_number(population, "The population")
    elif not roles["weight"]:
        raise BadInput(
            "The size of the population is empty. Write the number of units the sample was drawn from, or mark a column of weights."
        )
    for name in _WORDS:
        if first(fields, name):
            given[name] = first(fields, name)
    for name, kind in (("threshold", float), ("seed", int), ("restarts", int)):
        if first(fields, name):
            given[name] = _number(first(fields, name), f"The {name}", kind)
    return RunConfig.from_mapping(given, source="the form")


def protect_config(fields: Fields, config: RunConfig) -> RunConfig:
    """The configuration of a finished run with what the Protect page adds."""
    way = first(fields, "way") or "risk_above"
    if way == "risk_above":
        chosen: dict[str, Any] = {"risk_above": _number(first(fields, "risk_above"), "The threshold", float)}
    elif way == "top":
        chosen = {"top": _number(first(fields, "top"), "The number of records", int)}
    elif way == "max_population_uniques":
        chosen = {"max_population_uniques": _number(first(fields, "max_population_uniques"), "The target", float)}
    else:
        raise BadInput(f"There is no way to choose records called '{way}'.")
    if "risk_above" in chosen and not 0 <= chosen["risk_above"] <= 1:
        raise BadInput(f"The threshold was given as {chosen['risk_above']:g}; a risk lies between 0 and 1.")
    if any(value < 0 for value in chosen.values()) or chosen.get("top") == 0:
        raise BadInput("Choose at least one record, and no negative number.")
    unknown = [name for name in fields.get("never_swap", ()) if name not in config.keys]
    if unknown:
        raise BadInput(f"'{unknown[0]}' is not a key of this run.")
    keep = tuple(tuple(name.strip() for name in part.split(",") if name.strip()) for part in first(fields, "keep").split(";"))
    protect = ProtectConfig(
        **chosen,
        keep=tuple(part for part in keep if part),
        never_swap=tuple(fields.get("never_swap", ())),
        households=bool(first(fields, "households")),
    )
    return replace(config, protect=protect)


def _number(text: str, what: str, kind: Callable[[str], Any]) -> Any:
    return whole_number(text, what) if kind is int else decimal_number(text, what)


def form_of(config: RunConfig, file: str) -> dict[str, list[str]]:
    """A configuration as the fields of the Keys page; ``file`` is the name by which the browser knows its input."""
    fields: dict[str, Any] = {"file": file, "population": config.population, "threshold": f"{config.threshold:g}"}
    fields |= {f"role:{key}": "key" for key in config.keys}
    for role in _SINGLE_ROLES:
        if getattr(config, role) is not None:
            fields[f"role:{getattr(config, role)}"] = role
    fields |= {f"role:{name}": "sensitive" for name in config.sensitive}
    fields |= {f"recode:{key}": words for key, words in config.recode.items()}
    fields |= {name: getattr(config, name) for name in (*_WORDS, "seed")}
    return {name: [str(value)] for name, value in fields.items() if value is not None}

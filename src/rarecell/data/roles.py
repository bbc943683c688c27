"""Which column is probably what?

A suggestion with its reason, from the names of columns and from their values in the first records; a person decides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rarecell.data.levels import RawLevels, settle
from rarecell.engine.source import Column, Source, code_chunk, unified

LOOKED_AT = 100_000
"""Records that suggestions are made from."""

MOST_LEVELS = 200
"""A key with more different values than this is suggested only when its name says so."""

LARGEST_HOUSEHOLD = 15
"""Records with the same value of a household column are on average no more than this."""


class SuggestedRole(NamedTuple):
    """A column, the role it probably has (``other`` for none), and why."""

    column: str
    role: str
    why: str


# Words as they appear in names of columns, whole or at the beginning of a word. German and French offices name theirs so.
_WORDS = {
    "household": "household hh hhid hhnr dwelling haushalt menage menages family familyid",
    "weight": "weight weights wgt wt wts pwgt perwt hhwt pweight fnlwgt gewicht poids ponderation hochrechnungsfaktor",
    "id": "id ident identifier serial pid persid personid respid caseid recordid rowid nummer uuid",
    "geography": (
        "region state county province district municipality commune gemeinde kreis bundesland canton kanton departement "
        "zip zipcode postcode postal plz nuts lau country puma area place city town geo geography tract ward"
    ),
    "sensitive": (
        "income salary wage wages earnings einkommen lohn revenu health diagnosis disease icd disability religion religious "
        "debt wealth tax benefit benefits welfare crime conviction political party hiv pregnancy"
    ),
    "key": (
        "age alter sex gender geschlecht sexe birth born birthplace birthyear birthdate dob marital married civil familienstand "
        "education edu educ schooling degree bildung occupation job profession beruf isco industry nace workclass race ethnic "
        "ethnicity citizenship citizen nationality nation native language relationship relation children child spouse employment "
        "employed household_size hhsize year migrant religion_group veteran tenure"
    ),
}
_PATTERNS = {role: frozenset(words.split()) for role, words in _WORDS.items()}


def suggest_roles(source: Source, *, n_records: int = LOOKED_AT) -> list[SuggestedRole]:
    """A role for every column, in the order of the columns; a household, a weight and an id are suggested once."""
    columns = source.columns()
    names = [column.name for column in columns]
    head = _first_records(source, names, n_records)
    suggested: list[SuggestedRole] = []
    for position, column in enumerate(columns):
        found = _suggest(column, head[position] if head else None, source.decimal_mark)
        if found.role in ("household", "weight", "id") and any(other.role == found.role for other in suggested):
            first = next(other.column for other in suggested if other.role == found.role)
            found = SuggestedRole(column.name, "other", f"looks like a second {found.role}; '{first}' is the first")
        suggested.append(found)
    return suggested


def _first_records(source: Source, names: Sequence[str], n_records: int) -> list[list[pa.Array]]:
    if not source.keeps_rows:
        return []
    chunks: list[list[pa.Array]] = [[] for _ in names]
    seen = 0
    for batch in source.batches(names):
        part = batch.slice(0, n_records - seen)
        for chunk, array in zip(chunks, part.columns, strict=True):
            chunk.append(array)
        seen += part.num_rows
        if seen >= n_records:
            break
    return chunks if seen else []


def _suggest(column: Column, chunks: list[pa.Array] | None, decimal_mark: str) -> SuggestedRole:
    name = column.name
    words = _words(name)
    by_name = [role for role, pattern in _PATTERNS.items() if words & pattern]
    if column.kind == "other":
        return SuggestedRole(name, "other", "holds values that are neither numbers nor words nor dates")
    if chunks is None:
        return SuggestedRole(name, by_name[0] if by_name else "other", _by_name(by_name))
    encoded = unified([code_chunk(chunk) for chunk in chunks])
    levels = settle(encoded.values, column, decimal_mark=decimal_mark)
    counts = np.bincount(encoded.codes, minlength=len(encoded.values))
    n_present = int(sum(count for value, count in zip(levels.values, counts, strict=True) if value is not None))
    n_levels = len({value for value in levels.values if value is not None})
    return _by_values(name, by_name, column, levels, n_levels, n_present)


def _by_values(
    name: str, by_name: Sequence[str], column: Column, levels: RawLevels, n_levels: int, n_present: int
) -> SuggestedRole:
    def role(which: str, why: str) -> SuggestedRole:
        return SuggestedRole(name, which, why)

    if n_levels == 0:
        return role("other", "has no value in the records looked at")
    if n_levels == 1:
        return role("other", "has the same value in every record looked at, so it tells nobody apart")
    has_decimals = levels.is_numeric and any(isinstance(value, float) for value in levels.values)
    is_own_value = n_levels == n_present and n_present >= 20 and not has_decimals
    if "weight" in by_name and levels.is_numeric and _smallest(levels) > 0:
        return role("weight", "its name says so, and all its values are positive numbers")
    if "household" in by_name and not has_decimals and 1 < n_present / n_levels <= LARGEST_HOUSEHOLD:
        return role("household", f"its name says so, and about {n_present / n_levels:.1f} records share a value")
    if is_own_value:
        return role("id", "every record looked at has a value of its own")
    if "id" in by_name and n_levels > n_present / 2:
        return role("id", "its name says so, and hardly two records share a value")
    if "sensitive" in by_name:
        return role("sensitive", "its name tells of something an intruder would like to learn")
    if "geography" in by_name:
        return role("geography", f"its name tells of a place, with {n_levels:,} different ones; usually a key as well")
    if "key" in by_name:
        return role("key", f"its name tells of something others may know, with {n_levels:,} different values")
    if n_levels <= MOST_LEVELS and not has_decimals:
        return role("key", f"it has {n_levels:,} different values that others may know; leave it out if they cannot")
    return role("other", f"it has {n_levels:,} different values; to be a key it would need bins")


def _by_name(by_name: Sequence[str]) -> str:
    return "its name says so; values were not looked at" if by_name else "its name tells nothing, and values were not looked at"


def _smallest(levels: RawLevels) -> Any:
    return min((value for value in levels.values if value is not None), default=0)


def _words(name: str) -> frozenset[str]:
    """The words of a column's name: ``maritalStatus_2`` has marital and status."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    words = [word for word in re.split(r"[^a-z]+", spaced.lower()) if word]
    return frozenset([*words, "".join(words), "_".join(words)])

"""What role does each column probably have?

Suggestions are based on the name and the first values of a column, and each comes with its reason. They are only a
starting point for a person who knows the data.
"""

from __future__ import annotations

import re

ROLES = ("key", "weight", "household", "geography", "strata", "sensitive", "id", "none")
"""Roles that a column can have."""

MANY_LEVELS = 200
"""A column with more values than this is seldom useful as a key without grouping."""

_KNOWN = (
    *("age", "sex", "gender", "birth", "born", "marital", "married", "spouse", "education", "degree", "school", "race", "ethnic"),
    *(
        "nationality",
        "citizen",
        "country",
        "origin",
        "language",
        "occupation",
        "job",
        "profession",
        "industry",
        "class",
        "employ",
    ),
    *("relationship", "relation", "child", "children", "family", "size", "region", "state", "county", "district", "municipality"),
    *("city", "town", "zip", "postcode", "area", "hours", "tenure", "religion", "height"),
    # Names used by German and French offices.
    *(
        "alter",
        "geschlecht",
        "sexe",
        "familienstand",
        "bildung",
        "beruf",
        "gemeinde",
        "kreis",
        "bundesland",
        "kanton",
        "commune",
        "plz",
    ),
)
_SECRET = (
    "income",
    "wage",
    "salary",
    "earning",
    "wealth",
    "tax",
    "debt",
    "diagnos",
    "disease",
    "health",
    "drug",
    "crime",
    "benefit",
)
_WEIGHT = ("weight", "wgt", "pwgtp", "perwt", "hhwt", "fnlwgt", "wt", "gewicht", "poids", "peso", "ponderation", "grossing")
_HOUSEHOLD = ("household", "hhid", "hh_id", "hhnr", "hh", "dwelling", "serialno", "haushalt", "menage", "family_id")
_ID = ("id", "identifier", "person_id", "persid", "pid", "caseid", "respid", "uuid", "serial", "case", "record")


def _says(name: str, words: tuple[str, ...]) -> str | None:
    """The word that is one part of a column's name; a long word may also just begin a part."""
    parts = [part for part in re.split(r"[^a-z]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()) if part]
    for word in words:
        if word in parts or word == name.lower() or (len(word) > 4 and any(part.startswith(word) for part in parts)):
            return word
    return None


def suggest_role(
    name: str, *, n_levels: int, n_records: int, numbers: list[float] | None = None, is_whole: bool = False
) -> tuple[str, str]:
    """Suggest a role for a column, with the reason."""
    if n_levels == 0:
        return "none", "No record has a value here."
    if n_levels == 1:
        return "none", "All records have the same value, so it cannot tell records apart."
    is_measured = numbers is not None and not is_whole
    if (word := _says(name, _WEIGHT)) and numbers is not None:
        if min(numbers) >= 1:
            return "weight", f"The name says “{word}”, and every value is 1 or more."
        return "none", f"The name says “{word}”, but some values are below 1, which a survey weight is not."
    if (word := _says(name, _HOUSEHOLD)) and n_levels > n_records / 20:
        return "household", f"The name says “{word}”, and few records share a value."
    if (word := _says(name, _ID)) and n_levels > n_records / 2:
        return "id", f"The name says “{word}”, and nearly every record has a different value."
    if word := _says(name, _SECRET):
        return "sensitive", f"The name says “{word}”: something an intruder would like to learn."
    if n_levels == n_records and n_records > 20 and not is_measured:
        return "id", "Every record has a different value."
    if word := _says(name, _KNOWN):
        if n_levels > MANY_LEVELS and is_measured:
            return (
                "none",
                f"The name says “{word}”, but {n_levels:,} different measurements are too fine for a key. Group them first.",
            )
        return "key", f"The name says “{word}”: something neighbours, colleagues or a register could know."
    if n_levels > MANY_LEVELS:
        return "none", f"{n_levels:,} different values, and the name says nothing known about people."
    return "none", "Make it a key if an outsider could know it about a person."

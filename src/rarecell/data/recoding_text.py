"""How is a recoding put into words on the command line, in run.toml, in Python and in the app?

All of them use one grammar. Phrases are separated by commas or semicolons outside quotes:

    5-year bands · bands of 5 · width 5         numbers in bands that begin at multiples of 5
    edges 15 25 45                              bands that begin at these numbers
    5 groups                                    groups of levels that are alike in the other columns
    5 quantiles                                 bands with about equal numbers of records
    top 85 · bottom 15                          values of 85 and above, or of 15 and below, as one level
    date to month · date to year                what is left of a date: the month, the quarter or the year
    first 3 characters                          the beginning of a code: 123 of the postcode 12345
    level 2                                     the second column of groups in the key's hierarchy
    merge 01+02+03 as north; merge 04+05        values merged, with or without a name
    missing 98+99                               values that mean "missing"
    ordered · unordered                         whether neighbouring values are alike, where numbers do not show it
    as it is                                    no recoding
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from rarecell.data.coding import Coding
from rarecell.errors import BadInput
from rarecell.outcome.words import counted

if TYPE_CHECKING:
    from rarecell.edges import Json
    from rarecell.table.contingency import Categories, Coarsening

AS_IT_IS = "as it is"
"""The recoding that changes nothing."""

GRAMMAR = (
    "'5-year bands', 'edges 15 25 45', '5 groups', '5 quantiles', 'top 85', 'bottom 15', 'date to month', "
    "'first 3 characters', 'level 2' of a hierarchy, 'merge 01+02 as north', 'missing 98+99', 'ordered', 'unordered'"
)
"""The phrases that are understood, for messages and help."""

_MOST_EDGES = 200
"""Above this number, edges are not listed one by one."""

_NUMBER = r"-?[0-9]+(?:\.[0-9]+)?"
_SEPARATOR = re.compile(r"""[;,](?=(?:[^"]*"[^"]*")*[^"]*$)""")
_PLUS = re.compile(r"""\+(?=(?:[^"]*"[^"]*")*[^"]*$)""")


def parse_recoding(words: str, *, key: str) -> Coding:
    """Parse words into the coding that they describe.

    Examples
    --------
    >>> parse_recoding("5-year bands, top 85", key="age")
    Coding(levels=None, ordered=None, edges=None, width=5, quantiles=None, top=85, bottom=None, merge=None, groups=None, hierarchy=None, date=None, first=None, missing=())
    """
    given: Json = {}
    phrases = [phrase.strip() for phrase in _SEPARATOR.split(words) if phrase.strip()]
    # Edges may be separated by commas, so a phrase that is just a number belongs to the edges before it.
    joined: list[str] = []
    for phrase in phrases:
        if joined and joined[-1].startswith("edges") and re.fullmatch(_NUMBER, phrase):
            joined[-1] += f" {phrase}"
        else:
            joined.append(phrase)
    for phrase in joined:
        for name, value in _meaning(phrase, key).items():
            if name == "merge":
                value = {**given.get("merge", {}), **value}
                if len(value) != len(given.get("merge", {})) + 1:
                    raise BadInput(f"The recoding '{words}' of key '{key}' gives two groups the same name; give each its own.")
            elif name in given:
                raise BadInput(f"The recoding '{words}' of key '{key}' gives '{name}' twice; give it once.")
            given[name] = value
    try:
        return Coding(**given)
    except BadInput as problem:
        raise BadInput(f"The recoding '{words}' of key '{key}': {problem}") from None


def _meaning(phrase: str, key: str) -> Json:
    for pattern, meaning in _PHRASES:
        match = pattern.fullmatch(phrase)
        if match is not None:
            return meaning(match)
    raise BadInput(f"The recoding '{phrase}' of key '{key}' is not understood. It is one of {GRAMMAR}.")


def _number(text: str) -> int | float:
    return int(text) if re.fullmatch(r"-?[0-9]+", text) else float(text)


def _values(text: str) -> tuple[str, ...]:
    return tuple(value.strip().strip('"') for value in _PLUS.split(text) if value.strip())


def _merge(match: re.Match[str]) -> Json:
    values = _values(match["values"])
    label = (match["label"] or "").strip().strip('"') or "+".join(values)
    return {"merge": {label: values}}


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text.replace("NUMBER", _NUMBER), re.IGNORECASE)


_PHRASES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Json]], ...] = (
    (_pattern(r"(NUMBER)(?:[- ]?(?:year|years|unit|units|wide))?[- ]bands?"), lambda m: {"width": _number(m[1])}),
    (_pattern(r"(?:in )?bands? of (NUMBER)(?: years?)?"), lambda m: {"width": _number(m[1])}),
    (_pattern(r"ordered"), lambda _: {"ordered": True}),
    (_pattern(r"unordered"), lambda _: {"ordered": False}),
    (_pattern(r"width (NUMBER)"), lambda m: {"width": _number(m[1])}),
    (_pattern(r"edges ((?:NUMBER\s*)+)"), lambda m: {"edges": tuple(_number(edge) for edge in m[1].split())}),
    (_pattern(r"(?:in )?([0-9]+) groups"), lambda m: {"groups": int(m[1])}),
    (_pattern(r"([0-9]+) (?:quantiles|equal groups)"), lambda m: {"quantiles": int(m[1])}),
    (_pattern(r"top(?:[- ]?cod(?:e|ed))?(?: at)? (NUMBER)"), lambda m: {"top": _number(m[1])}),
    (_pattern(r"bottom(?:[- ]?cod(?:e|ed))?(?: at)? (NUMBER)"), lambda m: {"bottom": _number(m[1])}),
    (_pattern(r"(?:date )?to (month|quarter|year)"), lambda m: {"date": m[1].lower()}),
    (_pattern(r"(?:the )?first ([0-9]+)(?: (?:characters?|digits?|letters?))?"), lambda m: {"first": int(m[1])}),
    (_pattern(r"level ([0-9]+)(?: of (?:the|its) hierarchy)?"), lambda m: {"hierarchy": int(m[1])}),
    # A quoted value may hold any word, "as" among them.
    (re.compile(r"""merge (?P<values>(?:"[^"]*"|[^"])+?)(?: as (?P<label>.+))?""", re.IGNORECASE), _merge),
    (re.compile(r"missing (?P<values>.+)", re.IGNORECASE), lambda m: {"missing": _values(m["values"])}),
    (_pattern(AS_IT_IS), lambda _: {}),
)


def words_of(coding: Coding) -> str:
    """Describe a coding in words that :func:`parse_recoding` understands.

    Examples
    --------
    >>> words_of(Coding(width=5, top=85))
    'bands of 5, top 85'
    """
    said = []
    if coding.width is not None:
        said.append(f"bands of {coding.width:g}")
    if coding.edges is not None:
        said.append("edges " + " ".join(_exactly(edge) for edge in coding.edges))
    if coding.groups is not None:
        said.append(f"{coding.groups} groups")
    if coding.quantiles is not None:
        said.append(f"{coding.quantiles} quantiles")
    if coding.date is not None:
        said.append(f"date to {coding.date}")
    if coding.first is not None:
        said.append(f"first {counted(coding.first, 'character')}")
    if coding.hierarchy is not None:
        said.append(f"level {coding.hierarchy}")
    for label, values in (coding.merge or {}).items():
        said.append(f"merge {'+'.join(_quoted(str(value)) for value in values)} as {_quoted(label)}")
    said += [f"{name} {bound:g}" for name, bound in (("top", coding.top), ("bottom", coding.bottom)) if bound is not None]
    if coding.missing:
        said.append("missing " + "+".join(_quoted(str(value)) for value in coding.missing))
    return ", ".join(said) or AS_IT_IS


def _quoted(text: str) -> str:
    return f'"{text}"' if re.search(r"[;,+ ]", text) else text


def _exactly(number: float) -> str:
    """A number that is read back as itself."""
    return str(int(number)) if float(number).is_integer() else repr(number)


def words_for(categories: Categories, coarsening: Coarsening) -> str:
    """Describe the recoding that gives a coarsening, for :func:`parse_recoding`."""
    return words_of(coding_for(categories, coarsening))


def coding_for(categories: Categories, coarsening: Coarsening) -> Coding:
    """The coding that gives a coarsening: edges for numbers, otherwise groups that are found from the data.

    Where both are possible, edges are better than a number of groups: they stay the same whatever else is recoded.
    """
    n_real = categories.n_levels - categories.has_missing
    groups = coarsening.group_of_level[:n_real]
    numbers = categories.levels[:n_real]
    keeps_missing = not categories.has_missing or coarsening.group_of_level[-1] not in groups
    are_whole = categories.is_ordered and all(isinstance(level, int) for level in numbers)
    if keeps_missing and are_whole and coarsening.n_levels <= _MOST_EDGES and bool((groups[1:] >= groups[:-1]).all()):
        starts = np.unique(groups, return_index=True)[1][1:]
        return Coding(edges=tuple(numbers[start] for start in starts))
    return Coding(groups=coarsening.n_levels)


_BEGINS = re.compile(rf"({_NUMBER})(?:\+|–.*| to .*)?")


def words_for_bands(categories: Categories, coarsening: Coarsening) -> str:
    """Describe a coarsening of a key whose levels are numbers or bands of numbers already; empty if they are not.

    The words say where each group of bands begins, so that they replace the recoding that made the bands.

    Examples
    --------
    >>> from rarecell.table.contingency import Categories, Coarsening
    >>> age = Categories("age", ("<20", "20–29", "30–39", "40+"), is_ordered=True)
    >>> words_for_bands(age, Coarsening("age/2", "age", np.array([0, 0, 1, 1], dtype=np.int32), ("<30", "30+")))
    'edges 30'
    """
    n_real = categories.n_levels - categories.has_missing
    groups = coarsening.group_of_level[:n_real]
    if not categories.is_ordered or bool((groups[1:] < groups[:-1]).any()):
        return ""
    starts = [_BEGINS.fullmatch(categories.labels[k]) for k in np.flatnonzero(np.diff(groups)) + 1]
    edges = [_number(start[1]) for start in starts if start is not None]
    if not edges or len(edges) < len(starts) or sorted(set(edges)) != edges:
        return ""
    return words_of(Coding(edges=tuple(edges)))


def boundaries(categories: Categories, coarsening: Coarsening, *, most: int = 12) -> tuple[str, ...]:
    """What each group of a coarsening holds, for a person to read: a range of ordered levels, or a list of others."""
    groups = []
    for label, levels in zip(coarsening.labels, coarsening.members(), strict=True):
        members = [categories.shown[level] for level in levels]
        if len(members) == 1:
            groups.append(members[0])
        elif categories.is_ordered:
            groups.append(label)
        else:
            more = f" and {len(members) - most} more" if len(members) > most else ""
            groups.append(" + ".join(members[:most]) + more)
    return tuple(groups)

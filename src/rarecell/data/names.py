"""Do the names that a user gave fit the columns of the data?

Nothing heavy is imported here, because configurations and the command line check names before anything is read.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rarecell.errors import BadInput, UnknownColumns, nearest_names
from rarecell.outcome.words import quoted

if TYPE_CHECKING:
    from rarecell.data.microdata import Microdata
    from rarecell.edges import ReadJson


_NAME = re.compile(r'\s*(?:"((?:[^"]|"")*)"([^,]*)|([^,]*)),')
_SET = re.compile(r'((?:[^;"]|"(?:[^"]|"")*"|")*);')
"""A name, which may be quoted, and the comma behind it; names, and the semicolon behind them."""


def joined_names(names: Iterable[str]) -> str:
    """Names in one text, separated by commas; a name is quoted as in a CSV file where it would be read as something else.

    Examples
    --------
    >>> joined_names(["age", "town, district"])
    'age,"town, district"'
    """
    return ",".join(map(quoted, names))


def names_in(text: str, what: str = "A list of names") -> tuple[str, ...]:
    """The names in a text that :func:`joined_names` made or a person typed; ``what`` is how the error calls the text.

    Nothing between two commas is refused: where a script put it, a key would be left out and the risk too low.

    Examples
    --------
    >>> names_in('age, "town, district"')
    ('age', 'town, district')
    """
    if not text.strip():
        return ()
    names = []
    for in_quotes, behind, plain in (match.groups() for match in _NAME.finditer(text + ",")):
        if in_quotes is None and not plain.strip():
            raise _nothing_between("commas", text, what)
        names.append(plain.strip() if in_quotes is None else in_quotes.replace('""', '"') + behind.rstrip())
    return tuple(names)


def joined_sets(sets: Iterable[Iterable[str]]) -> str:
    """Sets of names as one text; a name that has a comma, a semicolon or a quote in it is quoted.

    Examples
    --------
    >>> joined_sets([("age", "sex"), ("town; district",)])
    'age,sex;"town; district"'
    """
    return ";".join(",".join(quoted(name, ",;") for name in names) for names in sets)


def sets_in(text: str, what: str = "A list of sets of names") -> tuple[tuple[str, ...], ...]:
    """The sets of names in a text that :func:`joined_sets` made or a person typed; as in :func:`names_in`, none is empty.

    Examples
    --------
    >>> sets_in('age, sex; "town; district"')
    (('age', 'sex'), ('town; district',))
    """
    if not text.strip():
        return ()
    sets = tuple(names_in(part, what) for part in _SET.findall(text + ";"))
    if not all(sets):
        raise _nothing_between("semicolons", text, what)
    return sets


def _nothing_between(signs: str, text: str, what: str) -> BadInput:
    return BadInput(
        f"{what} was given as '{text}', with nothing between two {signs} or at an end. Write every name, and one sign between two; "
        'a column whose name is empty is called "".'
    )


@dataclass(frozen=True)
class SamplingStages:
    """A sample in two stages: areas first, then people in them.

    Attributes
    ----------
    column : str
        Column that says in which area a record lies.
    n_drawn, n_areas : int
        Number of areas drawn, and number of areas there are.
    """

    column: str
    n_drawn: int
    n_areas: int

    @classmethod
    def of(cls, text: str) -> SamplingStages:
        """Read ``"district: 40 of 312"``.

        Examples
        --------
        >>> SamplingStages.of("district: 40 of 312")
        SamplingStages(column='district', n_drawn=40, n_areas=312)
        """
        stages = re.fullmatch(r"\s*(.+?)\s*:\s*([0-9]+)\s+of\s+([0-9]+)\s*", text)
        if stages is None or not 0 < int(stages[2]) <= int(stages[3]):
            raise BadInput(
                f"The stages of the sample were given as '{text}'; name the column of the areas that were drawn first, how many were drawn, "
                'and how many there are: "district: 40 of 312".'
            )
        return cls(stages[1], int(stages[2]), int(stages[3]))

    @property
    def share(self) -> float:
        """Share of the areas that were drawn."""
        return self.n_drawn / self.n_areas


def nested_areas(text: str) -> tuple[str, ...]:
    """Split ``"region>district>municipality"`` into the columns of nested areas, coarsest first.

    Examples
    --------
    >>> nested_areas("region > district")
    ('region', 'district')
    """
    columns = tuple(part.strip() for part in text.split(">"))
    if not all(columns):
        raise BadInput(f"The areas were given as '{text}'; name their columns from coarse to fine, as in \"region>district\".")
    if len(set(columns)) < len(columns):
        raise BadInput(f"The areas were given as '{text}'; name each column once.")
    return columns


def columns_together(text: str | None, columns: Container[str], what: str) -> tuple[str, ...]:
    """The columns that identify a household or a record: the one of this name, or several that are separated by commas.

    Examples
    --------
    >>> columns_together("area,number", {"area", "number", "age"}, "household")
    ('area', 'number')
    """
    if text is None:
        return ()
    names = (text,) if text in columns else names_in(text)
    if not names:
        raise BadInput(f"The {what} was given as '{text}', which names no column.")
    return names


def scenario_keys(scenario: Mapping[str, ReadJson]) -> dict[str, tuple[str, ...]]:
    """The keys that each intruder knows."""
    by_scenario = {}
    for name, given in scenario.items():
        keys = given.get("keys")
        if set(given) != {"keys"} or isinstance(keys, str) or not isinstance(keys, Sequence):
            raise BadInput(f'Scenario \'{name}\' needs the list of keys that this intruder knows, as in keys = ["age", "sex"].')
        by_scenario[name] = tuple(str(key) for key in keys)
    return by_scenario


def check_scenarios(scenarios: Mapping[str, Sequence[str]], keys: Sequence[str]) -> None:
    """Refuse scenarios without keys, or with keys that are not among the keys of the run."""
    for name, known in scenarios.items():
        if not known:
            raise BadInput(f"Scenario '{name}' has no keys; name the columns that this intruder could know.")
        unknown = [key for key in known if key not in keys]
        if unknown:
            near = nearest_names(unknown[0], keys)
            hint = f" Did you mean {' or '.join(repr(key) for key in near)}?" if near else ""
            raise BadInput(
                f"Scenario '{name}' names '{unknown[0]}', which is not among the keys {', '.join(keys)}.{hint} Add it to --keys; or "
                "without --keys, those of all scenarios together are taken."
            )
        if len(set(known)) < len(known):
            raise BadInput(f"Scenario '{name}' names a key twice; name each once.")
    if len(scenarios) > 64:
        raise BadInput(f"{len(scenarios)} scenarios were given; at most 64 are possible.")


def all_keys(scenarios: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Every key that any scenario names, in order of first mention."""
    return tuple(dict.fromkeys(key for known in scenarios.values() for key in known))


def check_names(data: Microdata, coded: Sequence[str], with_hierarchy: Sequence[str]) -> None:
    """Find everything that is wrong with the columns named for roles, and report it all at once."""
    from rarecell.graph.masks import MAX_VERTICES

    single = {"weight": data.weight, "stratum": data.strata}
    roles = [("key", key) for key in data.keys]
    roles += [(role, name) for role, name in single.items() if name is not None]
    roles += [("household", name) for name in data.household_columns]
    roles += [("id", name) for name in data.id_columns]
    roles += [("geography", name) for name in data.areas]
    roles += [("sensitive column", name) for name in data.sensitive]
    available = list(data.columns)

    unknown = [_unknown(role, name, available) for role, name in roles if name not in data.columns]
    other = [_unknown("key", key, data.keys) for key in [*coded, *with_hierarchy] if key not in data.keys]
    if not data.keys:
        other.append("No key was named; name the columns an intruder could know, for example --keys age,sex,region.")
    if len(data.keys) > MAX_VERTICES:
        other.append(
            f"{len(data.keys)} keys were named and {MAX_VERTICES} are possible; leave out those an intruder cannot know."
        )
    other += [f"Key '{key}' is named {data.keys.count(key)} times; name it once." for key in _repeated(data.keys)]
    for name in dict.fromkeys(name for _, name in roles):
        taken = [role for role, column in roles if column == name]
        # An area may be part of what identifies a household or a person, because their numbers often start anew in each.
        also = {"geography", "stratum"} | ({"household"} if len(data.household_columns) > 1 else set())
        distinct = set(taken) - (also if "key" in taken else set())
        distinct -= {"id"} if len(data.id_columns) > 1 and len(distinct) > 1 else set()
        if len(distinct) > 1:
            other.append(f"Column '{name}' is given as {' and as '.join(sorted(distinct))}; it has one role.")
    for key in dict.fromkeys(data.keys):
        if key in data.columns and data.columns[key].kind == "other":
            other.append(f"Column '{key}' cannot be a key: it {data.source.why_no_key(key)}.")
    if data.weight in data.columns and data.columns[data.weight].kind in ("other", "date"):
        other.append(f"Column '{data.weight}' cannot be the weight: it does not hold numbers.")
    if unknown or other:
        listing = f" The data have: {', '.join(repr(str(name)) for name in available)}." if unknown else ""
        message = f"In {data.source.name}: {' '.join([*unknown, *other])}{listing}"
        raise UnknownColumns(message) if unknown and not other else BadInput(message)


def _unknown(role: str, name: str, available: Sequence[str]) -> str:
    near = nearest_names(str(name), available)
    hint = f" Did you mean {', '.join(repr(similar) for similar in near)}?" if near else ""
    return f"There is no {role} '{name}'.{hint}"


def _repeated(names: Sequence[str]) -> list[str]:
    return [name for name in dict.fromkeys(names) if names.count(name) > 1]

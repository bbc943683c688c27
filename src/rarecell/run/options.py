"""How is an option declared? Once, at its field.

A field of :class:`~rarecell.run.config.RunConfig` or :class:`~rarecell.run.config.ProtectConfig` is made by :func:`option`,
which says what kind of value it takes, what it means, and which commands have it. The command line and its help, ``run.toml``,
the keywords of the library, the commands that a plan prints and the fields of the app follow from that.

A *kind* knows the three forms of a value: as a configuration holds it (:meth:`ValueKind.typed` checks it), as words of a command line
(:meth:`ValueKind.read` and :meth:`ValueKind.words`, which undo each other), and which values are allowed (:meth:`ValueKind.judge`).
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from rarecell.choices import EVERY_KEY
from rarecell.data.names import joined_names, joined_sets, names_in, sets_in
from rarecell.errors import BadInput, UnknownChoice, nearest_names

if TYPE_CHECKING:
    from rarecell.edges import Json, ReadJson


# Which numbers and texts may be given at all? Comparisons with "nan" are always false: as a threshold it would silently switch a gate
# off. A number too large for the machine would end in a traceback, hours later.

LARGEST_COUNT = 2**53
"""Up to here every whole number is exact in floating point, so that counts stay exact."""

LARGEST_INTEGER = 2**63 - 1


def check_plain(value: Any, what: str) -> None:
    """Raise when a number, or one inside a list or table, is not finite or too large for the machine, or a text has NUL in it.

    Parameters
    ----------
    value : Any
        The value that a user gave.
    what : str
        What the error message calls it.
    """
    if isinstance(value, Mapping):
        for name, inner in value.items():
            check_plain(name, what)
            check_plain(inner, f"'{name}' of {what}")
    elif isinstance(value, list | tuple):
        for inner in value:
            check_plain(inner, what)
    elif isinstance(value, float) and not math.isfinite(value):
        raise BadInput(f"{what} was given as {value}, which is not a number to count or compare with. Give a finite number.")
    elif isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        raise BadInput(f"{what} was given as a whole number of {_n_digits(value)} digits. Give one of at most 18 digits.")
    elif isinstance(value, str) and "\0" in value:
        raise BadInput(f"{what} was given as {value!r}, with a NUL character, which no name of a file or a column has.")


def check_range(value: float | None, what: str, low: float, high: float = math.inf) -> None:
    """Raise when a number lies outside its range; None is allowed."""
    if value is None:
        return
    check_plain(value, what)
    if not low <= value <= high:
        expected = f"at least {low:g}" if high == math.inf else f"between {low:g} and {high:g}"
        raise BadInput(f"{what} was given as {value:g}; it must be {expected}.")


def _n_digits(value: int) -> int:
    return int(abs(value).bit_length() * math.log10(2)) + 1


class Group(Enum):
    """What an option is about: the headings of the help, in its order."""

    FILE = "The file"
    INTRUDERS = "What intruders know"
    PEOPLE = "The people in the file"
    RECODING = "How keys are released"
    RISK = "How the risk is estimated"
    RECORDS = "Which records to protect"
    KEPT = "What must not change"
    SWAPS = "How records are swapped"
    RESULTS = "Results"


READING = ("assess", "protect", "plan", "check", "scan")
"""Commands that read microdata by their keys."""

ASSESSING = ("assess", "protect", "plan", "check")
"""Commands that estimate risk."""

PROTECTING = ("protect",)
PLANNING = ("protect", "plan")
"""Commands that plan swaps."""


SURE = 0.99
"""The largest share of wrong values: with more, the register says nothing about a key."""


# ---------------------------------------------------------------------- kinds of values


class ValueKind:
    """A kind of value. Text, unless a subclass says otherwise."""

    metavar = "TEXT"
    is_repeatable = False
    """Whether the option is given once for each member, on the command line."""
    expected = "text"

    def typed(self, value: Any, name: str, source: str) -> Any:
        """A value of a configuration as its field holds it; an error names the field."""
        if not isinstance(value, str):
            raise self._refusal(value, name, source)
        return value

    def judge(self, value: Any, what: str) -> None:
        """Raise if a value is outside the range or the words that are allowed."""

    def read(self, texts: Sequence[str], flag: str) -> Any:
        """What words of a command line mean, as a configuration would write it."""
        return texts[-1]

    def words(self, value: Any) -> list[str]:
        """The words of a command line that mean a value."""
        return [str(value)]

    def _refusal(self, value: Any, name: str, source: str) -> BadInput:
        return BadInput(f"'{name}' in {source} was given as {value!r}; it must be {self.expected}.")


@dataclass(frozen=True)
class Text(ValueKind):
    """Any text: the name of a column, a size, a mark."""

    metavar: str = "TEXT"


@dataclass(frozen=True)
class Place(ValueKind):
    """A file or a folder."""

    metavar: str = "FILE"
    is_folder: bool = False


@dataclass(frozen=True)
class Word(ValueKind):
    """One word of a short list, with what the app shows for each; something else if the list is open."""

    shown: Mapping[str, str]
    metavar: str = ""
    is_open: bool = False

    def judge(self, value: Any, what: str) -> None:
        if not self.is_open and value not in self.shown:
            raise UnknownChoice.of(f"The option {what}", value, tuple(self.shown))


@dataclass(frozen=True)
class Count(ValueKind):
    """A whole number."""

    low: int = 0
    high: float = math.inf
    metavar: str = "N"
    expected = "a whole number"

    def typed(self, value: Any, name: str, source: str) -> Any:
        # A sum of weights is a float.
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._refusal(value, name, source)
        return value

    def judge(self, value: Any, what: str) -> None:
        check_range(value, what, self.low, self.high)

    def read(self, texts: Sequence[str], flag: str) -> Any:
        try:
            return int(texts[-1])
        except ValueError:
            raise BadInput(f"{flag} was given as '{texts[-1]}'; it must be a whole number.") from None


@dataclass(frozen=True)
class Number(ValueKind):
    """A number."""

    low: float = 0.0
    high: float = math.inf
    metavar: str = "X"
    excludes_low: bool = False
    expected = "a number"

    def typed(self, value: Any, name: str, source: str) -> Any:
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self._refusal(value, name, source)
        return value

    def judge(self, value: Any, what: str) -> None:
        check_range(value, what, self.low, self.high)
        if self.excludes_low and value is not None and not value > self.low:
            raise BadInput(f"{what} was given as {value:g}; it must be a number above {self.low:g}.")

    def read(self, texts: Sequence[str], flag: str) -> Any:
        try:
            return float(texts[-1])
        except ValueError:
            raise BadInput(f"{flag} was given as '{texts[-1]}'; it must be a number.") from None

    def words(self, value: Any) -> list[str]:
        return [f"{value:g}" if float(f"{value:g}") == value else repr(value)]


@dataclass(frozen=True)
class Switch(ValueKind):
    """True or false; given on the command line, it is true."""

    expected = "true or false"

    def typed(self, value: Any, name: str, source: str) -> Any:
        if not isinstance(value, bool):
            raise self._refusal(value, name, source)
        return value

    def read(self, texts: Sequence[str], flag: str) -> Any:
        return True

    def words(self, value: Any) -> list[str]:
        return []


@dataclass(frozen=True)
class Names(ValueKind):
    """Columns, or other names, separated by commas."""

    metavar: str = "A,B"
    expected = "a list"

    def typed(self, value: Any, name: str, source: str) -> Any:
        if not _is_list(value) or not all(isinstance(member, str) for member in value):
            raise self._refusal(value, name, source)
        return tuple(value)

    def read(self, texts: Sequence[str], flag: str) -> Any:
        return list(names_in(texts[-1], flag))

    def words(self, value: Any) -> list[str]:
        return [joined_names(value)]


@dataclass(frozen=True)
class Sets(ValueKind):
    """Sets of columns: ``a,b;c``."""

    metavar: str = "A,B;C,D"
    expected = "a list of lists"

    def typed(self, value: Any, name: str, source: str) -> Any:
        if not _is_list(value) or not all(_is_list(members) for members in value):
            raise self._refusal(value, name, source)
        return tuple(tuple(str(member) for member in members) for members in value)

    def read(self, texts: Sequence[str], flag: str) -> Any:
        return [list(names) for names in sets_in(texts[-1], flag)]

    def words(self, value: Any) -> list[str]:
        return [joined_sets(value)]


@dataclass(frozen=True)
class Rows(ValueKind):
    """Row numbers: counted from 0 in a configuration and in Python, from 1 on the command line, as in reports."""

    metavar: str = "K,L"
    expected = "a list"

    def typed(self, value: Any, name: str, source: str) -> Any:
        if not _is_list(value) or not all(isinstance(row, int) and not isinstance(row, bool) for row in value):
            raise self._refusal(value, name, source)
        return tuple(value)

    def read(self, texts: Sequence[str], flag: str) -> Any:
        listed = names_in(texts[-1], flag)
        try:
            numbers = [int(number) for number in listed]
        except ValueError:
            numbers = []
        if not numbers:
            raise BadInput(f"{flag} was given as '{texts[-1]}'; it takes numbers of records such as 3,17,250.")
        if min(numbers) < 1:
            raise BadInput(f"{flag} counts from 1, as in reports; row numbers in files and in Python count from 0.")
        return [number - 1 for number in numbers]

    def words(self, value: Any) -> list[str]:
        return [",".join(str(row + 1) for row in value)]


@dataclass(frozen=True)
class Pairs(ValueKind):
    """Values by name, each of the kind ``inner``: ``north=120000`` on the command line, a table in a configuration."""

    inner: ValueKind
    metavar: str = "NAME=VALUE"
    example: str = ""
    at_commas: bool = False
    """Whether one word may hold several pairs, separated by commas."""
    is_repeatable = True
    expected = "a table"

    def typed(self, value: Any, name: str, source: str) -> Any:
        if not isinstance(value, Mapping):
            raise self._refusal(value, name, source)
        return {member: self.inner_of(member).typed(held, f"{member}' of '{name}", source) for member, held in value.items()}

    def judge(self, value: Any, what: str) -> None:
        for member, held in value.items():
            self.inner_of(member).judge(held, f"'{member}' of {what}")

    def read(self, texts: Sequence[str], flag: str) -> Any:
        values: Json = {}
        for pair in [pair for text in texts for pair in names_in(text, flag)] if self.at_commas else texts:
            name, sign, word = pair.rpartition("=") if self.at_commas else pair.partition("=")
            if not sign or not name.strip() or not word.strip():
                raise BadInput(f"{flag} was given as '{pair}'; it takes {self.metavar}, for example {self.example}.")
            if name.strip() in values:
                raise BadInput(f"{flag} was given twice for '{name.strip()}'; give each once.")
            values[name.strip()] = self.inner_of(name.strip()).read([word.strip()], f"'{name.strip()}' of {flag}")
        return values

    def words(self, value: Any) -> list[str]:
        pairs = [f"{member}={self.inner_of(member).words(held)[0]}" for member, held in value.items()]
        return [joined_names(pairs)] if self.at_commas else pairs

    def inner_of(self, name: str) -> ValueKind:
        """The kind of the value with a name."""
        return self.inner


@dataclass(frozen=True)
class Shares(Pairs):
    """Shares by key, or one for all of them, which has the name :data:`EVERY_KEY`: ``0.05`` or ``age=0.05,sex=0.01``."""

    inner: ValueKind = field(default_factory=lambda: Number(high=SURE))
    metavar: str = "P or KEY=P,…"
    example: str = "age=0.05,sex=0.01"
    at_commas: bool = True
    expected = "a share such as 0.05, or a table of shares by key"

    def typed(self, value: Any, name: str, source: str) -> Any:
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = {EVERY_KEY: float(value)}
        return super().typed(value, name, source)

    def read(self, texts: Sequence[str], flag: str) -> Any:
        pairs = [pair for text in texts for pair in names_in(text, flag)]
        return super().read([joined_names([pair if "=" in pair else f"{EVERY_KEY}={pair}" for pair in pairs])], flag)


@dataclass(frozen=True)
class Part(Pairs):
    """The options of a further class, by name."""

    inner: ValueKind = field(default_factory=ValueKind)
    owner: type = object
    what: str = ""
    """What the class describes, for messages."""

    def inner_of(self, name: str) -> ValueKind:
        kinds = {declared.name: declared.kind for declared in options_of(self.owner)}
        if name not in kinds:
            near = nearest_names(name, list(kinds), limit=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise BadInput(f"{self.what} has no option '{name}'.{hint} It takes {', '.join(kinds)}.")
        return kinds[name]


@dataclass(frozen=True)
class TomlTable(ValueKind):
    """A small table of its own, written as in a configuration: ``regression="income ~ age"``."""

    metavar: str = "TABLE"
    expected = "a table"

    def typed(self, value: Any, name: str, source: str) -> Any:
        if not isinstance(value, Mapping):
            raise self._refusal(value, name, source)
        return value

    def read(self, texts: Sequence[str], flag: str) -> Any:
        try:
            return tomllib.loads(f"table = {{{texts[-1]}}}")["table"]
        except (ValueError, RecursionError):
            raise BadInput(f'{flag} was given as {{{texts[-1]}}}; write it as in a run.toml: name = "value".') from None

    def words(self, value: Any) -> list[str]:
        return [_inline(value)[1:-1]]


@dataclass(frozen=True)
class TomlTables(ValueKind):
    """A list of small tables, one for each time the option is given."""

    metavar: str = 'NAME="VALUE"'
    is_repeatable = True
    expected = "a list"

    def typed(self, value: Any, name: str, source: str) -> Any:
        if not _is_list(value) or not all(isinstance(table, Mapping) for table in value):
            raise self._refusal(value, name, source)
        return tuple(value)

    def read(self, texts: Sequence[str], flag: str) -> Any:
        return [TomlTable().read([text], flag) for text in texts]

    def words(self, value: Any) -> list[str]:
        return [TomlTable().words(table)[0] for table in value]


class Intruder(ValueKind):
    """The keys that an intruder knows; a table with more than that in a configuration."""

    expected = "a table"

    def typed(self, value: Any, name: str, source: str) -> Any:
        if not isinstance(value, Mapping):
            raise self._refusal(value, name, source)
        return value

    def read(self, texts: Sequence[str], flag: str) -> Any:
        return {"keys": list(names_in(texts[-1], flag))}

    def words(self, value: Any) -> list[str]:
        return [joined_names(value["keys"])]


class NumberOrNumbers(Number):
    """A number, or several separated by commas."""

    def typed(self, value: Any, name: str, source: str) -> Any:
        if _is_list(value):
            return tuple(super(NumberOrNumbers, self).typed(member, name, source) for member in value)
        return super().typed(value, name, source)

    def judge(self, value: Any, what: str) -> None:
        for member in value if isinstance(value, tuple) else (value,):
            super().judge(member, what)

    def read(self, texts: Sequence[str], flag: str) -> Any:
        numbers = [super(NumberOrNumbers, self).read([text], flag) for text in texts[-1].split(",")]
        return numbers if len(numbers) > 1 else numbers[0]

    def words(self, value: Any) -> list[str]:
        members = value if _is_list(value) else [value]
        return [",".join(super(NumberOrNumbers, self).words(member)[0] for member in members)]


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _inline(value: Any) -> str:
    """A value on one line of TOML."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_quoted(str(name))} = {_inline(held)}" for name, held in value.items()) + "}"
    if _is_list(value):
        return "[" + ", ".join(_inline(member) for member in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, int | float) else _quoted(str(value))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


# ---------------------------------------------------------------------- the declaration


@dataclass(frozen=True)
class Option:
    """What is said about an option at its field.

    Attributes
    ----------
    kind : ValueKind
        What values it takes.
    help : str
        What it means, in one sentence or two; how lists are written, whether it is repeatable and its default are added.
    group : Group
        What it is about.
    on : tuple of str
        Commands that have it.
    label : str
        What the app writes before its field; an option without a label is not offered there.
    is_main : bool
        Whether ``--help`` shows it; ``--help-all`` shows every option.
    is_saved : bool
        Whether ``run.toml`` says it even if it is the default.
    check : callable or None
        A further check of a value, which raises.
    name, flag, default
        The name of the field, that of the command line and its default, which the field itself gives.
    """

    kind: ValueKind
    help: str
    group: Group
    on: tuple[str, ...] = ASSESSING
    label: str = ""
    is_main: bool = False
    is_saved: bool = False
    check: Callable[[Any], object] | None = None
    name: str = ""
    flag: str = ""
    default: Any = None

    @property
    def choices(self) -> Mapping[str, str]:
        """The words of a short list, with what the app shows for each; none for other kinds."""
        return self.kind.shown if isinstance(self.kind, Word) else {}

    def judge(self, value: Any) -> None:
        """Raise if a value of the field is not allowed."""
        check_plain(value, f"'{self.name}'")
        if value is None:
            return
        self.kind.judge(value, f"'{self.name}'")
        if self.check is not None:
            self.check(value)

    def words(self, value: Any) -> list[str]:
        """The option on a command line."""
        if isinstance(self.kind, Switch):
            return [self.flag] if value else []
        return [word for text in self.kind.words(value) for word in (self.flag, text)]


def option(
    kind: ValueKind,
    meaning: str,
    group: Group,
    *,
    default: Any = MISSING,
    default_factory: Any = MISSING,
    flag: str = "",
    on: tuple[str, ...] = ASSESSING,
    label: str = "",
    is_main: bool = False,
    is_saved: bool = False,
    check: Callable[[Any], object] | None = None,
) -> Any:
    """Declare a field that is an option: see :class:`Option`."""
    declared = Option(kind, meaning, group, on, label, is_main, is_saved, check, flag=flag)
    if default_factory is not MISSING:
        return field(default_factory=default_factory, metadata={"option": declared})
    return field(default=default, metadata={"option": declared})


_DECLARED: dict[type, tuple[Option, ...]] = {}


def options_of(owner: type) -> tuple[Option, ...]:
    """The options that are fields of a class."""
    if owner not in _DECLARED:
        _DECLARED[owner] = tuple(_declared(owner))
    return _DECLARED[owner]


def option_of(owner: type, name: str) -> Option:
    """The option with this name."""
    return next(declared for declared in options_of(owner) if declared.name == name)


def _declared(owner: type) -> Iterator[Option]:
    for part in fields(owner):
        if "option" in part.metadata:
            default = part.default_factory() if part.default_factory is not MISSING else part.default
            declared: Option = part.metadata["option"]
            flag = declared.flag or f"--{part.name.replace('_', '-')}"
            yield replace(declared, name=part.name, flag=flag, default=None if default is MISSING else default)


def judged(values: Any) -> None:
    """Check every option of a configuration by itself."""
    for declared in options_of(type(values)):
        declared.judge(getattr(values, declared.name))


def typed(owner: type, values: ReadJson, source: str) -> Json:
    """Plain values as the fields of a class hold them; names and types are checked, and every unknown name is reported."""
    declared_options = {declared.name: declared for declared in options_of(owner)}
    unknown = [name for name in values if name not in declared_options]
    if unknown:
        hints = []
        for name in unknown:
            near = nearest_names(name, list(declared_options), limit=1)
            hints.append(f"'{name}'" + (f" (did you mean '{near[0]}'?)" if near else ""))
        raise BadInput(f"{source} has unknown options: {', '.join(hints)}. The known ones are: {', '.join(declared_options)}.")
    return {
        name: None
        if value is None and declared_options[name].default is None
        else declared_options[name].kind.typed(value, name, source)
        for name, value in values.items()
    }


def saved(values: Any) -> Iterator[tuple[str, Any]]:
    """Names and plain values of the options that differ from their defaults, and of those that are always said."""
    for declared in options_of(type(values)):
        value = getattr(values, declared.name)
        if value is not None and (declared.is_saved or value != declared.default):
            yield declared.name, plain(value)


def plain(value: object) -> Any:
    """Turn tuples into lists and mappings into dictionaries, as TOML requires."""
    if isinstance(value, Mapping):
        return {str(name): plain(held) for name, held in value.items()}
    if isinstance(value, tuple | list):
        return [plain(member) for member in value]
    return value


Owner = TypeVar("Owner")


def described(owner: type[Owner]) -> type[Owner]:
    """Add every option with its meaning to the documentation of a class."""
    annotations = {part.name: str(part.type) for part in fields(owner)}  # type: ignore[arg-type]
    lines = ["", "    Attributes", "    ----------"]
    for declared in options_of(owner):
        lines += [f"    {declared.name} : {annotations[declared.name]}", f"        {declared.help}"]
    owner.__doc__ = f"{(owner.__doc__ or '').rstrip()}\n" + "\n".join(lines) + "\n    "
    return owner


# ---------------------------------------------------------------------- how messages name an option

_FLAG = re.compile(r"""--([a-z][a-z-]*[a-z])(?: "([^"=]+)=([^"]+)"| ([\w,.%-]*\w)(?=[.,;:)]|$| or ))?""")
"""An option, and what stands behind it in quotes or up to the end of a phrase."""


def named_as(text: str, name_of: Callable[[str], str | None]) -> str:
    """A message in which options are called as elsewhere than in the terminal; ``name_of`` gives None for those without a name there."""

    def renamed(match: re.Match[str]) -> str:
        name, value = name_of(match[1].replace("-", "_")), match[3] or match[4]
        if name is None:
            return match[0]
        if not name.endswith("="):
            return name if value is None else f"{name}: {value}"
        return name if value is None else f"{name}{{{match[2]!r}: {value!r}}}" if match[2] else f"{name}{value!r}"

    return _FLAG.sub(renamed, text)


def in_python(text: str) -> str:
    """A message with the keywords of a call in place of the options of a command.

    Examples
    --------
    >>> in_python('Give --risk-above or --top, --household area,number, or --treat "job=drop".')
    "Give risk_above= or top=, household='area,number', or treat={'job': 'drop'}."
    """
    return named_as(text, lambda name: f"{name}=")

"""How does a typed outcome become JSON, and JSON become a typed outcome again?

Frozen dataclasses become dictionaries by the names of their fields and are read back by their types. A part that does not
apply is None and left out of the dictionary. Names unknown to this version are ignored, so that the summary of a newer
version can be read; a part that is missing or of another type is an error that says where.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Self, Union, get_args, get_origin, get_type_hints

from rarecell.errors import BadInput

if TYPE_CHECKING:
    from rarecell.edges import Json


class Plain:
    """A frozen dataclass that can be written as JSON and read back."""

    def to_dict(self) -> Json:
        """Nested dictionaries, lists and numbers, for JSON."""
        return _dictionary(self)

    @classmethod
    def from_dict(cls, given: object, *, where: str = "summary") -> Self:
        """Read what :meth:`to_dict` wrote."""
        made: Self = _dataclass(cls, given, where)
        return made


def _dictionary(part: Any) -> Json:
    values = ((field.name, getattr(part, field.name)) for field in fields(part))
    return {name: _plain(value) for name, value in values if value is not None}


def _plain(value: object) -> Any:
    if is_dataclass(value):
        return _dictionary(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value


@cache
def _types(cls: Any) -> Json:
    return get_type_hints(cls)


def _is_optional(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _dataclass(cls: Any, given: object, where: str) -> Any:
    if not isinstance(given, Mapping):
        raise _not(where, "a group of named numbers", given)
    found = {}
    for field in fields(cls):
        if given.get(field.name) is not None:
            found[field.name] = _value(_types(cls)[field.name], given[field.name], f"{where}.{field.name}")
        elif not _is_optional(field):
            raise BadInput(
                f"'{where}.{field.name}' is missing. The file was written by another program or version, or is damaged."
            )
    return cls(**found)


def _value(kind: Any, given: Any, where: str) -> Any:
    if is_dataclass(kind) and isinstance(kind, type):
        return _dataclass(kind, given, where)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _one_of(arguments, given, where)
    if origin is tuple:
        if not isinstance(given, list | tuple):
            raise _not(where, "a list", given)
        kinds = [arguments[0]] * len(given) if arguments[-1] is Ellipsis else arguments
        if len(kinds) != len(given):
            raise _not(where, f"a list of {len(kinds)}", given)
        return tuple(_value(each, inner, f"{where}[{n}]") for n, (each, inner) in enumerate(zip(kinds, given, strict=True)))
    if origin in (dict, Mapping):
        if not isinstance(given, Mapping):
            raise _not(where, "a group of named values", given)
        return {str(name): _value(arguments[1], inner, f"{where}.{name}") for name, inner in given.items()}
    return _scalar(kind, given, where)


def _one_of(kinds: tuple[Any, ...], given: Any, where: str) -> Any:
    problems = []
    for kind in kinds:
        if kind is type(None):
            if given is None:
                return None
            continue
        try:
            return _value(kind, given, where)
        except BadInput as problem:
            problems.append(problem)
    raise problems[-1]


_NAMES = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


def _scalar(kind: Any, given: Any, where: str) -> Any:
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if kind is float and is_number:
        return float(given)
    if kind is int and is_number and float(given).is_integer():
        return int(given)
    if kind in (str, bool) and isinstance(given, kind):
        return given
    raise _not(where, _NAMES.get(kind, str(kind)), given)


def _not(where: str, expected: str, given: object) -> BadInput:
    return BadInput(
        f"'{where}' is not {expected} but {type(given).__name__}. The file was written by another program, or is damaged."
    )

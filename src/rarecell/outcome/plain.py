"""In which forms does a result leave the program: as JSON, which is read back, as a card in a notebook, as a frame?

Frozen dataclasses become dictionaries by the names of their fields and are read back by their types. A part that does not
apply is None and left out of the dictionary. Names unknown to this version are ignored, so that the summary of a newer
version can be read; a part that is missing or of another type is an error that says where.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Self, Union, get_args, get_origin, get_type_hints

from rarecell.errors import BadInput

if TYPE_CHECKING:
    from rarecell.edges import Columns, Frame, Json


class Plain:
    """A frozen dataclass that can be written as JSON and read back."""

    def to_dict(self) -> Json:
        """Nested dictionaries, lists and numbers, for JSON."""
        return _dictionary(self)

    @classmethod
    def from_dict(cls, plain: object, *, where: str = "summary") -> Self:
        """Read what :meth:`to_dict` wrote."""
        part: Self = _dataclass(cls, plain, where)
        return part


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


def _dataclass(cls: Any, plain: object, where: str) -> Any:
    if not isinstance(plain, Mapping):
        raise _not(where, "a group of named numbers", plain)
    values = {}
    for field in fields(cls):
        if plain.get(field.name) is not None:
            values[field.name] = _value(_types(cls)[field.name], plain[field.name], f"{where}.{field.name}")
        elif not _is_optional(field):
            raise BadInput(
                f"'{where}.{field.name}' is missing. The file was written by another program or version, or is damaged."
            )
    return cls(**values)


def _value(kind: Any, plain: Any, where: str) -> Any:
    if is_dataclass(kind) and isinstance(kind, type):
        return _dataclass(kind, plain, where)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _one_of(arguments, plain, where)
    if origin is tuple:
        if not isinstance(plain, list | tuple):
            raise _not(where, "a list", plain)
        kinds = [arguments[0]] * len(plain) if arguments[-1] is Ellipsis else arguments
        if len(kinds) != len(plain):
            raise _not(where, f"a list of {len(kinds)}", plain)
        return tuple(_value(each, inner, f"{where}[{n}]") for n, (each, inner) in enumerate(zip(kinds, plain, strict=True)))
    if origin in (dict, Mapping):
        if not isinstance(plain, Mapping):
            raise _not(where, "a group of named values", plain)
        return {str(name): _value(arguments[1], inner, f"{where}.{name}") for name, inner in plain.items()}
    return _scalar(kind, plain, where)


def _one_of(kinds: tuple[Any, ...], plain: Any, where: str) -> Any:
    problems = []
    for kind in kinds:
        if kind is type(None):
            if plain is None:
                return None
            continue
        try:
            return _value(kind, plain, where)
        except BadInput as problem:
            problems.append(problem)
    raise problems[-1]


_NAMES = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


def _scalar(kind: Any, plain: Any, where: str) -> Any:
    is_number = isinstance(plain, int | float) and not isinstance(plain, bool)
    if is_number and (plain > sys.float_info.max or plain < -sys.float_info.max):
        raise BadInput(
            f"'{where}' is larger than any number of rarecell. The file was written by another program, or is damaged."
        )
    if kind is float and is_number:
        return float(plain)
    if kind is int and is_number and float(plain).is_integer():
        return int(plain)
    if kind in (str, bool) and isinstance(plain, kind):
        return plain
    raise _not(where, _NAMES.get(kind, str(kind)), plain)


def _not(where: str, expected: str, plain: object) -> BadInput:
    return BadInput(
        f"'{where}' is not {expected} but {type(plain).__name__}. The file was written by another program, or is damaged."
    )


def check_classes(edges: tuple[float, ...], counts: tuple[object, ...]) -> None:
    """Raise unless there is a count for each class between two neighbouring edges."""
    if len(counts) != max(len(edges) - 1, 0):
        raise BadInput(
            f"A histogram has {len(edges)} edges and {len(counts)} counts. The file was written by another program, or is damaged."
        )


# ---------------------------------------------------------------------- in a notebook


class Shown:
    """Shows itself in a notebook through :func:`rarecell.card`, without any value of a record.

    Cards are drawn in a higher layer; a result only knows what shows it, and calls that on demand.
    """

    __slots__ = ()

    def _repr_html_(self) -> str:
        import rarecell

        return str(rarecell.card(self))


# ---------------------------------------------------------------------- as a frame of the user's library


def in_library_of(like: Frame, columns: Columns, types: Mapping[str, str] | None = None) -> Frame:
    """Build a frame in the library of ``like``: pandas, polars or pyarrow; a pyarrow table if it is none of them.

    Parameters
    ----------
    like : frame or object
        The object whose library is used.
    columns : mapping of str to sequence
        The values by column name.
    types : mapping of str to str, optional
        ``Int64``, ``Float64`` or ``String`` by column name, for columns that may be empty; inferred from the values unless given.
    """
    # Imported here, so that only users who ask for a frame wait for the library.
    import narwhals.stable.v2 as nw

    frame = nw.from_native(like, pass_through=True)
    backend = frame.implementation if isinstance(frame, nw.DataFrame) else nw.Implementation.PYARROW
    schema = None if types is None else {name: getattr(nw, kind)() for name, kind in types.items()}
    return nw.from_dict(dict(columns), schema, backend=backend).to_native()

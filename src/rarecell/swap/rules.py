"""What must a swap never do?

Rules are small declarative tables that a configuration file can hold. A *condition* names columns and the values they must
have; it holds if all of them match:

    {"age" = "<15", "marital" = "0"}          nobody under 15 is married
    {"relationship" = ["0", "1"]}             heads of household and their spouses
    {"age" = "15..20"}  {"region" = "!=north"}  {"education" = "missing"}

A value that is one of the column's levels always means that level, so labels such as "<15" can be written as they are.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rarecell.edges import Json, Level, ReadJson
from rarecell.errors import BadInput, UnknownColumns

if TYPE_CHECKING:
    from rarecell.table.structural_zeros import StructuralZeros

Condition = ReadJson

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}


@dataclass(frozen=True, eq=False)
class SwapConstraints:
    """What a plan may not do.

    Attributes
    ----------
    never_swap : tuple of str
        Keys whose values stay with their record.
    within : tuple of str
        Columns on which both records must agree, such as a geography or a type of household.
    forbidden : tuple of Condition
        Combinations of values that a swap must not create.
    untouched : tuple of Condition
        Conditions for records that are never touched: one of them is enough.
    untouched_records : sequence of int or array of int
        Row numbers of further records that are never touched.
    structural_zeros : StructuralZeros or None
        Combinations of levels that cannot occur, which a swap must not create either.
    """

    never_swap: tuple[str, ...] = ()
    within: tuple[str, ...] = ()
    forbidden: tuple[Condition, ...] = ()
    untouched: tuple[Condition, ...] = ()
    untouched_records: Sequence[int] | NDArray[np.int64] = ()
    structural_zeros: StructuralZeros | None = None

    @property
    def keeps_out(self) -> bool:
        """Whether some records are never touched."""
        return bool(self.untouched) or len(self.untouched_records) > 0

    @classmethod
    def from_dict(cls, given: ReadJson) -> SwapConstraints:
        """Read a table of a configuration file and check every name in it."""
        known = [f.name for f in fields(cls) if f.name != "structural_zeros"]
        unknown = [name for name in given if name not in known]
        if unknown:
            raise UnknownColumns.among(unknown, known, role="swap constraint")
        for name in ("never_swap", "within"):
            if isinstance(given.get(name), str):
                raise BadInput(f"The swap constraint '{name}' is a list of columns, as in {name} = [\"{given[name]}\"].")
        named: Json = {name: tuple(value) for name, value in given.items()}
        return cls(**named)

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that a constraint reads, including keys."""
        conditions = [name for condition in (*self.forbidden, *self.untouched) for name in condition]
        return tuple(dict.fromkeys([*self.within, *conditions]))


def matching_levels(column: str, levels: Sequence[Level], value: Level) -> NDArray[np.bool_]:
    """Return which of ``levels`` the value of a condition means; a level that does not occur matches nothing.

    Raises
    ------
    BadInput
        If a comparison is made with levels that are not numbers.
    """
    if isinstance(value, (list, tuple, set, frozenset)):
        matches = np.zeros(len(levels), dtype=bool)
        for alternative in value:
            matches |= matching_levels(column, levels, alternative)
        return matches
    same = np.array([_is_level(level, value) for level in levels], dtype=bool)
    if same.any() or not isinstance(value, str):
        return same
    if value == "missing":
        return np.array([level is None for level in levels], dtype=bool)
    span = re.fullmatch(r"\s*(.+?)\s*\.\.\s*(.+?)\s*", value)
    if span:
        return _compared(column, levels, ">=", span[1]) & _compared(column, levels, "<=", span[2])
    for sign in _COMPARISONS:
        if value.startswith(sign):
            return _compared(column, levels, sign, value[len(sign) :].strip())
    return same


def _is_level(level: Level, value: Level) -> bool:
    if level is None or value is None:
        return level is None and value is None
    return bool(level == value) or str(level) == str(value)


def _number(text: Any) -> float | None:
    try:
        return float(text)
    except (TypeError, ValueError):
        return None


def _compared(column: str, levels: Sequence[Level], sign: str, bound: str) -> NDArray[np.bool_]:
    if sign == "!=":
        return np.array([level is not None and not _is_level(level, bound) for level in levels], dtype=bool)
    compare = _COMPARISONS[sign]
    numbers = [None if level is None else _number(level) for level in levels]
    limit = _number(bound)
    if limit is not None and all(number is not None for number, level in zip(numbers, levels, strict=True) if level is not None):
        return np.array([number is not None and compare(number, limit) for number in numbers], dtype=bool)
    if limit is None and all(isinstance(level, str) or hasattr(level, "isoformat") for level in levels if level is not None):
        return np.array([level is not None and compare(str(level), bound) for level in levels], dtype=bool)
    raise BadInput(
        f"A rule compares column '{column}' with '{sign}{bound}', but its values cannot be ordered so. "
        "Name the values themselves, as a list."
    )

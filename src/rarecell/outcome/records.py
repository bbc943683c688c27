"""Which records are risky, before or after protection, and why? Whatever holds values of records: for internal use only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rarecell.outcome.plain import Plain


class _Numbered:
    """Something about one record."""

    record: int | str | None

    @property
    def counted_from_1(self) -> int | str | None:
        """The number of the record as people count it; ``record`` is its row number from 0, or its id."""
        return self.record + 1 if isinstance(self.record, int) else self.record


@dataclass(frozen=True, kw_only=True)
class RiskyRecord(_Numbered, Plain):
    """A record with its values, its risk, and what makes it rare.

    ``record`` is its row number or id, or None where records are counted and not held. ``unsafe_combinations`` are the
    smallest sets of variables that single it out.
    """

    record: int | str | None = None
    values: Mapping[str, str]
    cell_probability: float | None = None
    unique_probability: float
    match_probability: float
    why: tuple[str, ...] = ()
    unsafe_combinations: tuple[tuple[str, ...], ...] = ()

    @property
    def enough(self) -> tuple[str, ...]:
        """The variables of the smallest combination that singles the record out."""
        return min(self.unsafe_combinations, key=len, default=())


@dataclass(frozen=True, kw_only=True)
class RemainingRecord(_Numbered, Plain):
    """A record of the released file with the values that are released, its risk, and, where it stays at risk, what helps.

    ``is_at_risk`` says that it reaches the threshold; then there are a ``reason`` and a ``remedy``. ``risk`` is the risk of being unique in the population for a record that was not swapped, and of being linked to its person
    for one that was.
    """

    record: int | str | None = None
    values: Mapping[str, str]
    risk: float
    swapped: bool
    is_at_risk: bool = True
    reason: str = ""
    remedy: str = ""


@dataclass(frozen=True, kw_only=True)
class HomogeneousGroup(Plain):
    """A group of two or more records that share a sensitive value, with its values; for internal use only."""

    column: str
    value: str
    records: int
    values: Mapping[str, str]

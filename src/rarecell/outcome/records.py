"""Why is a record risky? The riskiest records one by one, with their values: for internal use only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rarecell.outcome.plain import Plain


@dataclass(frozen=True, kw_only=True)
class RiskyRecord(Plain):
    """A record with its values, its risk, and what makes it rare.

    ``record`` is its row number or id; None where records are counted and not held. ``unsafe_combinations`` are the
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
    def counted_from_1(self) -> int | str | None:
        """The number of the record for people; ``record`` is its row number from 0, or its id."""
        return self.record + 1 if isinstance(self.record, int) else self.record

    @property
    def enough(self) -> tuple[str, ...]:
        """The variables of the smallest combination that singles the record out."""
        return min(self.unsafe_combinations, key=len, default=())

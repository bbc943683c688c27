"""Which combinations of values cannot occur at all?

Nobody under 15 is married, and a man has no maiden name. Such *structural zeros* are empty in the population, not just
in the sample. They need no parameters, and a swap must not create them. :mod:`rarecell.table.zero_detection` finds
candidates and states the evidence for each in words.

A structural zero never sets a probability to zero: a record that looks impossible but does occur is the riskiest of all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rarecell.errors import BadInput, UnknownColumns
from rarecell.table.contingency import Categories, ContingencyTable
from rarecell.table.full_marginals import FullMarginals
from rarecell.table.possible_cells import Compatibility

if TYPE_CHECKING:
    from rarecell.edges import Json, Level, ReadJson

Levels = tuple[tuple[str, Any], ...]
"""Pairs of key and level, in the order of the table's keys."""


@dataclass(frozen=True)
class ExcludedCombination:
    """Levels of two or more keys that never occur together.

    ``expected`` is the number of records the sample would be expected to have there if the combination were possible;
    None when a person named the combination.
    """

    levels: Levels
    expected: float | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(key for key, _ in self.levels)

    @property
    def evidence(self) -> str:
        names = " with ".join(f"{key} '{_label(level)}'" for key, level in self.levels)
        if self.expected is None:
            return f"{names} was named as impossible."
        how = "the two were unrelated" if len(self.levels) == 2 else "only pairs of the three were related"
        return f"No record has {names}, although {self.expected:,.1f} would be expected if {how}."


@dataclass(frozen=True)
class FunctionalDependency:
    """Each level of ``determinant`` occurs with only one level of ``dependent``: H(dependent | determinant) = 0.

    ``expected`` is the number of records expected to break the rule if the two keys were unrelated; None when a person
    named the rule.
    """

    determinant: str
    dependent: str
    expected: float | None = None

    @property
    def evidence(self) -> str:
        rule = f"{self.determinant} determines {self.dependent}"
        if self.expected is None:
            return f"{rule}: this was named as a rule."
        return (
            f"{rule} in all records, although {self.expected:,.1f} would be expected to break the rule if the two were unrelated."
        )


@dataclass(frozen=True)
class StructuralZeros:
    """The combinations and rules of what cannot occur: a list to read, edit and store.

    Examples
    --------
    >>> zeros = StructuralZeros.from_dict({"combinations": [{"levels": {"age": 7, "marital": "married"}}]})
    >>> print(zeros.combinations[0].evidence)
    age '7' with marital 'married' was named as impossible.
    """

    combinations: tuple[ExcludedCombination, ...] = ()
    dependencies: tuple[FunctionalDependency, ...] = ()
    not_searched: tuple[tuple[str, ...], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.combinations or self.dependencies)

    def project(self, keys: Iterable[str]) -> StructuralZeros:
        """The entries that concern only these keys."""
        kept = set(keys)
        return replace(
            self,
            combinations=tuple(c for c in self.combinations if kept.issuperset(c.keys)),
            dependencies=tuple(d for d in self.dependencies if kept >= {d.determinant, d.dependent}),
        )

    def to_dict(self) -> Json:
        """Plain lists and numbers, suitable for JSON and TOML; a missing level is written as ``"missing"``."""
        return {
            "combinations": [
                {"levels": {key: _plain(level) for key, level in c.levels}}
                | ({} if c.expected is None else {"expected": round(c.expected, 3)})
                for c in self.combinations
            ],
            "dependencies": [
                {"determinant": d.determinant, "dependent": d.dependent}
                | ({} if d.expected is None else {"expected": round(d.expected, 3)})
                for d in self.dependencies
            ],
        }

    @classmethod
    def from_dict(cls, stored: ReadJson) -> StructuralZeros:
        """Read what :meth:`to_dict` wrote, or a user's own list; levels are matched by value, otherwise by label."""
        try:
            found = cls(
                tuple(ExcludedCombination(tuple(c["levels"].items()), c.get("expected")) for c in stored.get("combinations", ())),
                tuple(
                    FunctionalDependency(d["determinant"], d["dependent"], d.get("expected"))
                    for d in stored.get("dependencies", ())
                ),
            )
        except (AttributeError, KeyError, TypeError) as problem:
            raise BadInput(
                "The list of structural zeros cannot be read. It needs 'combinations', each with 'levels' that name a level of "
                "two or more keys, and 'dependencies', each with 'determinant' and 'dependent'."
            ) from problem
        for combination in found.combinations:
            if len(combination.levels) < 2:
                raise BadInput(f"A structural zero joins levels of two or more keys; {dict(combination.levels)} names fewer.")
        return found

    def __str__(self) -> str:
        return (
            f"{len(self.combinations):,} combinations of levels and {len(self.dependencies):,} rules between keys look structural: "
            "empty or fixed although records would be expected otherwise."
        )


# ---------------------------------------------------------------------- applying to a table


def compatibility(table: ContingencyTable, zeros: StructuralZeros) -> Compatibility:
    """The excluded combinations as arrays over the levels of ``table``.

    Raises
    ------
    UnknownColumns
        When the table does not have a key that is named.
    BadInput
        When records contradict a combination or rule on the list.
    """
    excluded: dict[tuple[int, ...], NDArray[np.bool_]] = {}

    def array(keys: tuple[int, ...]) -> NDArray[np.bool_]:
        return excluded.setdefault(keys, np.zeros([table.categories[k].n_levels for k in keys], dtype=bool))

    for item in zeros.combinations:
        codes = sorted((_key_position(table, key), level) for key, level in item.levels)
        keys = tuple(k for k, _ in codes)
        cell = tuple(_code(table.categories[k], level) for k, level in codes)
        if None not in cell:  # a level that no record has needs no flag
            array(keys)[cell] = True
    margins = FullMarginals(table)
    for rule in zeros.dependencies:
        keys = tuple(sorted((_key_position(table, rule.determinant), _key_position(table, rule.dependent))))
        observed = margins.counts(keys) > 0
        broken = observed.sum(axis=keys.index(_key_position(table, rule.dependent))) > 1
        if broken.any():
            raise BadInput(
                f"{rule.determinant} is said to determine {rule.dependent}, but {int(broken.sum()):,} levels of "
                f"{rule.determinant} occur with several levels of {rule.dependent}. Take the rule off the list of structural zeros."
            )
        array(keys)[~observed] = True
    bound = Compatibility(table, excluded)
    contradicted = bound.violates(table.cells)
    if contradicted.any():
        wrong = next(item for item in zeros.combinations if _holds(table, item).any())
        raise BadInput(
            f"{int(table.counts[contradicted].sum()):,} records hold a combination that is listed as a structural zero, first "
            f"{' with '.join(f'{key} {_label(level)!r}' for key, level in wrong.levels)}. Correct the records or the list."
        )
    return bound


def _holds(table: ContingencyTable, item: ExcludedCombination) -> NDArray[np.bool_]:
    found = np.ones(table.n_cells, dtype=bool)
    for key, level in item.levels:
        k = _key_position(table, key)
        found &= table.cells[:, k] == _code(table.categories[k], level)
    return found


def _key_position(table: ContingencyTable, key: str) -> int:
    if key not in table.keys:
        raise UnknownColumns.among([key], table.keys, role="key")
    return table.keys.index(key)


def _code(categories: Categories, level: Level) -> int | None:
    """The code of a level given by value or by label; None when no record has it."""
    if level in categories.levels:
        return categories.levels.index(level)
    labels = categories.labels
    return labels.index(_label(level)) if _label(level) in labels else None


def _label(level: Level) -> str:
    return "missing" if level is None else str(level)


def _plain(level: Level) -> Any:
    """A level in a form that JSON and TOML can store."""
    return level if isinstance(level, str | bool | int | float) else _label(level)

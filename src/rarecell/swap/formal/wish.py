"""What did a user ask of a formal release?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from rarecell.errors import BadInput, nearest_names

if TYPE_CHECKING:
    from rarecell.edges import Json, ReadJson


@dataclass(frozen=True)
class FormalWish:
    """A formal release as requested by ``--formal`` or the table ``formal`` of a configuration.

    Attributes
    ----------
    epsilon : float, tuple of float or None
        The ε of the whole release, or one for each edge.
    rate : float or None
        Share of records to change, instead of ``epsilon``.
    root : tuple of str or None
        The clique whose values stay with each record; chosen automatically if None.
    rare : int
        Records whose value of the parent clique occurs at most this often are always shuffled.
    """

    epsilon: float | tuple[float, ...] | None = None
    rate: float | None = None
    root: tuple[str, ...] | None = None
    rare: int = 0

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.rate is None):
            raise BadInput(
                "A formal release takes either epsilon or rate, for example --formal epsilon=12 or --formal rate=0.05."
            )

    @classmethod
    def of(cls, given: ReadJson) -> FormalWish:
        """Read plain values, as found in a configuration."""
        known = [part.name for part in fields(cls)]
        for name in given:
            if name not in known:
                near = nearest_names(name, known, limit=1)
                hint = f" Did you mean '{near[0]}'?" if near else ""
                raise BadInput(f"A formal release has no option '{name}'.{hint} It takes {', '.join(known)}.")
        epsilon, rate, root, rare = (given.get(name) for name in known)
        return cls(
            None if epsilon is None else _number_or_numbers(epsilon),
            None if rate is None else _number("rate", rate),
            None if root is None else _names(root),
            0 if rare is None else _whole("rare", rare),
        )

    @classmethod
    def plain(cls, words: Sequence[str]) -> Json:
        """Return plain values from words of the command line, such as ``epsilon=12`` or ``root=age,sex``."""
        found: Json = {}
        for word in words:
            name, equals, value = word.partition("=")
            name = name.strip()
            if not equals or not value.strip():
                raise BadInput(f"--formal was given as '{word}'; it takes a name and a value, such as epsilon=12 or rate=0.05.")
            parts = [part.strip() for part in value.split(",")]
            if name == "root":
                found[name] = parts
            else:
                numbers = [_parsed(name, part) for part in parts]
                found[name] = numbers if len(numbers) > 1 else numbers[0]
        return found


def _parsed(name: str, text: str) -> float | int:
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        raise BadInput(f"'{name}' of a formal release was given as '{text}'; it must be a number.") from None


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadInput(f"'{name}' of a formal release was given as {value!r}; it must be a number.")
    return float(value)


def _number_or_numbers(value: object) -> float | tuple[float, ...]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(_number("epsilon", one) for one in value)
    return _number("epsilon", value)


def _names(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, Sequence) or not all(isinstance(one, str) for one in value):
        raise BadInput(f"'root' of a formal release was given as {value!r}; it must be a list of keys.")
    return tuple(value)


def _whole(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadInput(f"'{name}' of a formal release was given as {value!r}; it must be a whole number.")
    return value

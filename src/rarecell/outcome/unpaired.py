"""What does a file without pairs give away about the people it was made from?"""

from __future__ import annotations

from dataclasses import dataclass

from rarecell.outcome.plain import Plain
from rarecell.outcome.words import percent


@dataclass(frozen=True, kw_only=True)
class UnpairedAttack(Plain):
    """How often an attack succeeds on people whom a file was made from, on people left out, and the difference.

    Attributes
    ----------
    attack : str
        ``singling out``, ``linkability`` or ``inference``.
    column : str or None
        The column that is inferred.
    people, control : float
        Share of successes on either group.
    risk : float
        (people − control) / (1 − control).
    interval : pair of float
        Its bounds at 95 %.
    original : float
        The risk of the same attack on the original file.
    """

    attack: str
    column: str | None = None
    people: float
    control: float
    risk: float
    interval: tuple[float, float]
    original: float

    @property
    def name(self) -> str:
        return f"{self.attack} of {self.column}" if self.column else self.attack


@dataclass(frozen=True, kw_only=True)
class ColumnGivenAway(Plain):
    """What a file says about a column of somebody whose keys are known.

    ``disco`` is the share of people whose keys have a single value of the column in the file, which is theirs; ``tcap`` the share of
    right values among the file's records of that kind, None if there are none.
    """

    column: str
    disco: float
    tcap: float | None = None


@dataclass(frozen=True, kw_only=True)
class UnpairedMeasures(Plain):
    """What a file without pairs gives away.

    Attributes
    ----------
    people, control : int
        Numbers of records that the file was made from, and of people left out, with whom they are compared.
    unique_exact_matches : float
        Share of the people who are unique on all columns whose combination occurs in the file.
    replicated_uniques : float
        Share of the people who are unique on the keys and whose combination occurs once in the file.
    nearer_to_people : float or None
        Share of the file's records that are nearer to a person it was made from than to one left out; one half copies nobody.
    attacks : tuple of UnpairedAttack
        Singling out, linkability, and inference of each column; none without a control group.
    columns : tuple of ColumnGivenAway
        For each column that is no key, what the keys give away of it.
    """

    people: int
    control: int
    unique_exact_matches: float
    replicated_uniques: float
    nearer_to_people: float | None = None
    attacks: tuple[UnpairedAttack, ...] = ()
    columns: tuple[ColumnGivenAway, ...] = ()

    @property
    def worst(self) -> UnpairedAttack | None:
        """The attack whose risk is surely the highest: that with the largest lower bound."""
        return max(self.attacks, key=lambda attack: (attack.interval[0], attack.risk), default=None)

    def __str__(self) -> str:
        copied = f"{percent(self.unique_exact_matches)} of the people who are unique stand in it as they are."
        if self.worst is None:
            return f"{copied} Without people who were left out, it cannot be told what else the file itself gives away."
        return (
            f"{copied} The strongest attack is {self.worst.name}: its risk is {self.worst.risk:.2f}, and {self.worst.original:.2f} for the "
            "original file."
        )

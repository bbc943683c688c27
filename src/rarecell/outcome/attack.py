"""What did the intruders find in a released file?"""

from __future__ import annotations

from dataclasses import dataclass

from rarecell.outcome.plain import Plain
from rarecell.outcome.swap import IntruderSummary


@dataclass(frozen=True, kw_only=True)
class AttackSummary(Plain):
    """The result of ``rarecell attack``.

    Attributes
    ----------
    records, changed : records of the file, and those with another value of a key than in the original
    unique : records that are alone with their key values in the released file
    population : persons of the register, or of the population that the model speaks of
    is_counted : whether the links were counted in a register, or are expected by a model
    recoded : keys that were recoded
    at_random : links to the right person if each unique record were linked to anybody
    intruders : what each of them finds
    sentence : the result in two sentences
    """

    records: int
    changed: int
    unique: int
    population: float
    is_counted: bool
    recoded: tuple[str, ...] = ()
    at_random: float
    intruders: tuple[IntruderSummary, ...]
    sentence: str = ""

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
    records, changed : int
        Records of the file, and those whose key values differ from the original.
    unique : int
        Records that are alone with their key values in the released file.
    population : float
        Size of the register, or of the population that the model describes.
    is_counted : bool
        Whether the links were counted in a register; otherwise they are expected under a model.
    recoded : tuple of str
        Keys that were recoded.
    not_released : int
        Records of the original that the released file does not have.
    not_in_register : int
        Records of the original with values that nobody in the register has; no intruder who holds it finds them.
    at_random : float
        Links to the right person if each unique record were linked to a random person.
    intruders : tuple of IntruderSummary
        What each intruder finds.
    sentence : str
        The result in two sentences.
    """

    records: int
    changed: int
    unique: int
    population: float
    is_counted: bool
    recoded: tuple[str, ...] = ()
    not_released: int = 0
    not_in_register: int = 0
    at_random: float
    intruders: tuple[IntruderSummary, ...]
    sentence: str = ""

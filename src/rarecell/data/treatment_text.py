"""How is the treatment of a column that is no key put into words?

In the family of the words for recodings (:mod:`rarecell.data.recoding_text`). Phrases are separated by commas and done in order:

    top 99 % · bottom 1 %                  the highest percent, or the lowest, become their mean
    top 5000 · bottom 0                    so do values of 5000 and above, or of 0 and below
    round 100                              to a multiple of 100
    noise 5 %                              times a random number with mean 1 and a standard deviation of 5 %
    microaggregate 5                       the mean of groups of at least 5 alike records
    microaggregate 5 with wealth+debt      of records that are alike in all these columns
    date to month · date to year           the first day of the month, quarter or year
    pram · pram 90 %                       kept with this probability (80 %), otherwise drawn from the frequencies
    drop                                   the column is not released
    bands of 10 · edges 15 25 · merge …    levels, as for a key
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rarecell.data.coding import Coding
from rarecell.data.recoding_text import parse_recoding
from rarecell.errors import BadInput

GRAMMAR = (
    "'top 99 %', 'bottom 1 %', 'top 5000', 'round 100', 'noise 5 %', 'microaggregate 5', 'microaggregate 5 with wealth+debt', "
    "'date to month', 'pram', 'drop', or levels as for a key: 'bands of 10', 'edges 15 25 45', 'merge 01+02 as north'"
)
"""The phrases that are understood, for messages and help."""

DROP, TOP, BOTTOM, ROUND, NOISE, MICROAGGREGATE, DATE, PRAM, LEVELS = (
    *("drop", "top", "bottom", "round", "noise"),
    *("microaggregate", "date", "pram", "levels"),
)

KEEP = 0.8
"""Probability with which PRAM keeps a value, unless another one is given."""


@dataclass(frozen=True)
class TreatmentStep:
    """One phrase: what is done, with which number, which share, which other columns, or which levels."""

    kind: str
    number: float | None = None
    share: float | None = None
    unit: str = ""
    together: tuple[str, ...] = ()
    coding: Coding | None = None


_NUMBER = r"(-?[0-9]+(?:\.[0-9]+)?)"
_PHRASES = {
    kind: re.compile(pattern, re.IGNORECASE)
    for kind, pattern in {
        DROP: r"drop",
        TOP: rf"top {_NUMBER}( ?%)?",
        BOTTOM: rf"bottom {_NUMBER}( ?%)?",
        ROUND: rf"round(?: to)? {_NUMBER}",
        NOISE: rf"noise {_NUMBER} ?%",
        MICROAGGREGATE: r"microaggregate ([0-9]+)(?: with (.+))?",
        DATE: r"date to (month|quarter|year)",
        PRAM: rf"pram(?: {_NUMBER} ?%)?",
    }.items()
}


def parse_treatment(words: str, *, column: str) -> tuple[TreatmentStep, ...]:
    """The steps that words describe, in order.

    Examples
    --------
    >>> parse_treatment("top 99 %, round 100", column="income")
    (TreatmentStep(kind='top', number=None, share=0.99, unit='', together=(), coding=None), TreatmentStep(kind='round', number=100.0, share=None, unit='', together=(), coding=None))
    """
    phrases = [phrase.strip() for phrase in words.split(",") if phrase.strip()]
    steps = [step for phrase in phrases if (step := _step(phrase)) is not None]
    if len(steps) == len(phrases) and steps:
        if len(steps) > 1 and any(step.kind in (DROP, PRAM, DATE) for step in steps):
            raise BadInput(f"The treatment '{words}' of '{column}' goes together with no other; give it alone.")
        return tuple(steps)
    if steps:
        raise BadInput(f"The treatment '{words}' of '{column}' mixes levels with numbers; give one or the other.")
    try:
        coding = parse_recoding(words, key=column)
    except BadInput:
        raise BadInput(f"The treatment '{words}' of '{column}' is not understood. It is one of {GRAMMAR}.") from None
    if coding.groups is not None or coding.hierarchy is not None or not coding.changes_values:
        raise BadInput(f"The treatment '{words}' of '{column}' is for keys only. A treatment is one of {GRAMMAR}.")
    return (TreatmentStep(LEVELS, coding=coding),)


def _step(phrase: str) -> TreatmentStep | None:
    for kind, pattern in _PHRASES.items():
        match = pattern.fullmatch(phrase)
        if match is None:
            continue
        if kind in (TOP, BOTTOM):
            if not match[2]:
                return TreatmentStep(kind, number=float(match[1]))
            # 'bottom 1 %' are the lowest percent, as 'top 99 %' are the highest.
            return TreatmentStep(kind, share=_share(match[1], phrase) if kind == TOP else 1.0 - _share(match[1], phrase))
        if kind == ROUND:
            if float(match[1]) <= 0:
                raise BadInput(f"'{phrase}': a step for rounding must be above 0.")
            return TreatmentStep(kind, number=float(match[1]))
        if kind == NOISE:
            return TreatmentStep(kind, share=_share(match[1], phrase))
        if kind == MICROAGGREGATE:
            return TreatmentStep(
                kind, number=float(match[1]), together=tuple(name.strip() for name in (match[2] or "").split("+") if name.strip())
            )
        if kind == PRAM:
            return TreatmentStep(kind, share=KEEP if match[1] is None else _share(match[1], phrase))
        return TreatmentStep(kind, unit=match[1].lower() if kind == DATE else "")
    return None


def _share(text: str, phrase: str) -> float:
    share = float(text) / 100.0
    if not 0.0 < share < 1.0:
        raise BadInput(f"'{phrase}': a percentage must lie between 0 and 100.")
    return share


def parse_treatments(words: Mapping[str, str]) -> dict[str, tuple[TreatmentStep, ...]]:
    """The steps for each column."""
    return {column: parse_treatment(text, column=column) for column, text in words.items()}

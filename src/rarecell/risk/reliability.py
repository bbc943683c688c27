"""How far can the estimate be trusted?

A single traffic light that takes every check into account. Red: a check speaks against the estimate, and it is likely off by a
fifth or more. Amber: an error of a tenth or more is likely enough to be said, because the interval is wide, parts of the file show it, or
such estimates were seen to err, or were never tested, under these conditions. Green: nothing speaks against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rarecell.outcome.summary import Reliability
from rarecell.outcome.words import counted, percent
from rarecell.risk.design import evenly_taken
from rarecell.risk.design_effect import DesignEffect
from rarecell.risk.diagnostics import FitDiagnostics
from rarecell.risk.doubles import Doubles
from rarecell.risk.interval import RiskInterval, dependence_on_rare_levels
from rarecell.risk.records import RecordRisk

LEAST_FRACTION = 0.005
"""Smallest sampling fraction at which estimates were compared with known populations (``benchmarks/accuracy.py``)."""

FEW_RECORDS = 200
"""With fewer records than this, models of several keys cannot be told apart."""

WIDE = 0.12
"""Relative standard deviation of the estimate from which an error of more than a tenth is likely enough to say so."""

UNSURE = 0.06
"""The same for what is left of it without chance, which no model could foresee: the estimate itself is not known well."""

VERY_WIDE = 0.2
"""Relative standard deviation from which an error of more than a fifth is likely."""

MANY_UNIQUES = 50
"""Fewer population uniques than this are uncertain by chance alone, and seldom matter."""

SMALL_FRACTION = 0.015
"""Below this sampling fraction, estimates of small numbers of population uniques were off by up to a fifth."""

_ROUNDING = 0.01
"""A sample of a fraction is a whole number of records."""

DEPENDENT = 0.3
"""From this :func:`~rarecell.risk.interval.dependence_on_rare_levels` on, estimates were off by a tenth more often than chance has it."""


def with_light(light: str, reasons: Sequence[str]) -> Reliability:
    """A light and its reasons, in words as well."""
    sentence = "Nothing speaks against this estimate: every check passed."
    if light != "green":
        word = "A check speaks against this estimate." if light == "red" else "Take this estimate with care."
        sentence = " ".join((word, *reasons))
    return Reliability(light=light, reasons=tuple(reasons), sentence=sentence)


@dataclass(frozen=True)
class CountedUniques:
    """Population uniques counted in a register, and the interval that was estimated for their number."""

    population_uniques: int
    interval: tuple[float, float]

    @property
    def reason(self) -> str | None:
        """Why the count speaks against the estimate, if it does."""
        low, high = self.interval
        if low <= self.population_uniques <= high:
            return None
        too = "low" if self.population_uniques > high else "high"
        return (
            f"The register shows {counted(self.population_uniques, 'population unique')}, and the estimate with its interval of {low:,.0f} to "
            f"{high:,.0f} is too {too}."
        )


def reliability(
    risk: RecordRisk,
    fit: FitDiagnostics,
    design: DesignEffect | None,
    doubles: Sequence[Doubles] = (),
    counted: CountedUniques | None = None,
    interval: RiskInterval | None = None,
) -> Reliability:
    """The light of an estimate.

    Parameters
    ----------
    risk : RecordRisk
        The risk of the file.
    fit : FitDiagnostics
        Checks of the model that the risk was computed from.
    design : DesignEffect or None
        The effect of unequal weights.
    doubles : sequence of Doubles, optional
        Pairs of records and of households that agree on everything.
    counted : CountedUniques, optional
        What a register says about the number that was estimated.
    interval : RiskInterval, optional
        The interval of the estimate.
    """
    table = risk.table
    against = [counted.reason] if counted is not None and counted.reason is not None else []
    if fit.is_census:
        return with_light("red" if against else "green", against)
    against += [fit.conclusion] if fit.is_refuted else []
    against += [str(pairs) for pairs in doubles if pairs.is_suspicious]
    cautions = [fit.conclusion] if fit.is_suspicious and not fit.is_refuted else []
    if fit.repeats is not None and fit.repeats.is_suspicious:
        (against if fit.repeats.is_large else cautions).append(str(fit.repeats))
    fraction = table.n_records / risk.population
    if fraction < LEAST_FRACTION * (1.0 - _ROUNDING):
        cautions.append(
            f"The file holds {percent(fraction)} of the population; estimates were tested on known populations, with files that hold "
            f"{percent(LEAST_FRACTION)} or more."
        )
    is_many = risk.expected_population_uniques >= MANY_UNIQUES or fraction < SMALL_FRACTION
    if interval is not None and is_many and _is_wide(risk, interval):
        low, high = interval.population_uniques
        is_useless = interval.relative_deviation > VERY_WIDE and risk.expected_population_uniques >= MANY_UNIQUES
        (against if is_useless else cautions).append(
            f"The number of population uniques lies between {low:,.0f} and {high:,.0f}: it is not known to within a "
            f"{'fifth' if is_useless else 'tenth'}."
        )
    if table.n_records < FEW_RECORDS:
        cautions.append(f"The file has {table.n_records:,} records, too few to tell one model from another.")
    if dependence_on_rare_levels(risk) > DEPENDENT:
        cautions.append(
            "Many records have a value of a key that occurs fewer than five times in the file, and the estimate depends on them."
        )
    cautions += [
        f"The values of '{key}' have more nearly equal numbers of records than chance allows, as when areas are drawn first and then as many "
        'people in each. If the population has further values, the risk is understated: say so with --stages, such as "district: 40 of 312".'
        for key in evenly_taken(table)
        if key != risk.design.area
    ]
    if design is not None and design.is_extreme:
        cautions.append(f"The weights vary so much (design effect {design.spread:.1f}) that few records carry the estimate.")
    light = "red" if against else "amber" if cautions else "green"
    return with_light(light, (*against, *cautions))


def _is_wide(risk: RecordRisk, interval: RiskInterval) -> bool:
    """Whether the interval is wide, or wider than the chance that single records are unique explains."""
    deviation = interval.relative_deviation
    p = risk.unique_probability[risk.sample_count == 1]
    chance = np.sqrt(np.sum(p * (1.0 - p))) / max(float(p.sum()), 1e-300)
    return bool(deviation > WIDE or deviation**2 - chance**2 > UNSURE**2)

"""Does a file pass the rules that were named for it?

A rule compares one number of a run with what is allowed. A check is the list of them, for a pipeline: passed or not, and why.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rarecell.outcome.plain import Plain
from rarecell.outcome.summary import RunSummary


@dataclass(frozen=True, kw_only=True)
class RuleOutcome(Plain):
    """A rule, what was measured, what is allowed, and whether the file passes.

    Attributes
    ----------
    rule : str
        A name that stays the same from run to run, such as ``"highest-risk"``.
    says : str
        What the rule asks for, in words.
    measured, allowed : float or None
        The number of the run and its bound; None where the rule is not about a number.
    passed : bool
        Whether the file keeps the rule.
    sentence : str
        Why it does not, or what was found; begins with a small letter.
    """

    rule: str
    says: str
    measured: float | None = None
    allowed: float | None = None
    passed: bool
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Check(Plain):
    """Every rule that a file was held against.

    ``verdict`` is ``"release"``, ``"look"`` or ``"do not release"``.
    """

    file: str
    records: int | str
    verdict: str
    rules: tuple[RuleOutcome, ...]

    @property
    def broken(self) -> tuple[RuleOutcome, ...]:
        """The rules that the file does not keep."""
        return tuple(rule for rule in self.rules if not rule.passed)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Rules by number: ``--fail-above``, ``--fail-above-match`` and ``--fail-below``."""

    fail_above: float | None = None
    fail_above_match: float | None = None
    fail_below: int | None = None

    def outcomes(self, summary: RunSummary) -> Iterator[RuleOutcome]:
        """What each rule that was given says of a run."""
        if self.fail_above is not None:
            highest, limit = summary.highest_risk, self.fail_above
            passed = highest <= limit
            yield RuleOutcome(
                rule="highest-risk",
                says=f"no record is alone in the population with a probability above {limit:g}",
                measured=highest,
                allowed=limit,
                passed=passed,
                sentence=f"the highest risk of a record is {highest:.3g}, {_side(passed)} the {limit:g} of --fail-above.",
            )
        if self.fail_above_match is not None:
            highest, limit = summary.risk.highest_match or 0.0, self.fail_above_match
            passed = highest <= limit
            yield RuleOutcome(
                rule="highest-match",
                says=f"no match with a record is right with a probability above {limit:g}",
                measured=highest,
                allowed=limit,
                passed=passed,
                sentence=f"a match with a record would be right with probability {highest:.3g}, {_side(passed)} the {limit:g} of "
                "--fail-above-match.",
            )
        if self.fail_below is not None:
            smallest, least = summary.smallest_group, self.fail_below
            passed = smallest >= least
            yield RuleOutcome(
                rule="smallest-group",
                says=f"every record shares its key values with at least {least} records, itself included",
                measured=smallest,
                allowed=least,
                passed=passed,
                sentence=f"every record shares its key values with {least} records or more: the smallest number is {smallest}."
                if passed
                else f"some records share their key values with fewer than the {least} records of --fail-below: the smallest "
                f"number is {smallest}.",
            )


def _side(passed: bool) -> str:
    return "not above" if passed else "above"


def check_of(file: str, summary: RunSummary, rules: tuple[RuleOutcome, ...]) -> Check:
    """All rules together; a file that keeps them, but whose estimate cannot be trusted, is to be looked at."""
    light = summary.risk.reliability.light if summary.risk.reliability is not None else "green"
    if not all(rule.passed for rule in rules):
        verdict = "do not release"
    else:
        verdict = "look" if light == "red" else "release"
    return Check(file=file, records=summary.records, verdict=verdict, rules=rules)

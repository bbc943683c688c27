"""Does a file pass the rules that were named for it?

A rule compares what a run found with what is allowed: a limit of a release profile, or a number such as that of ``--fail-above``. A check
is the list of them, for a pipeline: passed or not, and why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rarecell.outcome.decision import decided, household_links, worst_links
from rarecell.outcome.plain import Plain
from rarecell.outcome.profile import DO_NOT_RELEASE, HEADLINES, LOOK, RELEASE, Profile
from rarecell.outcome.summary import RunSummary
from rarecell.outcome.words import capital


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
    is_unsure : bool
        Whether somebody should look at it although the file keeps it.
    is_looked_at : bool
        Whether the run has anything to say about it.
    sentence : str
        Why the file does not keep it, or what was found.
    remedy : str
        What helps.
    """

    rule: str
    says: str
    measured: float | None = None
    allowed: float | None = None
    passed: bool
    is_unsure: bool = False
    is_looked_at: bool = True
    sentence: str
    remedy: str = ""


@dataclass(frozen=True, kw_only=True)
class Check(Plain):
    """Every rule that a file was held against.

    ``verdict`` is ``"release"``, ``"look"`` or ``"do not release"``; ``profile`` is the name of the release profile, if one was named.
    """

    file: str
    records: int | str
    verdict: str
    profile: str | None = None
    rules: tuple[RuleOutcome, ...]

    @property
    def broken(self) -> tuple[RuleOutcome, ...]:
        """The rules that the file does not keep."""
        return tuple(rule for rule in self.rules if not rule.passed)

    def __str__(self) -> str:
        by = "" if self.profile is None else f" by the profile '{self.profile}'"
        said = [rule.sentence for rule in self.rules if not rule.passed or rule.is_unsure]
        return f"{HEADLINES[self.verdict]}{by}. {' '.join(map(capital, said)) or 'Every rule is kept.'}"


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
            # A run that did not compute it is not better for it.
            highest, limit = 1.0 if summary.highest_match is None else summary.highest_match, self.fail_above_match
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


_PROFILE_RULES = {
    "max_record_risk": "no record has a risk above {:g}",
    "max_match_risk": "no link to a record is right with a probability above {:g}",
    "max_correct_links": "at most {:g} links of an intruder are expected to be right",
    "max_correct_links_share": "links of an intruder are expected to be right for at most {:g} of the records, as a share",
    "max_household_links_share": "at most {:g} of the households are linked correctly, as a share",
    "least_k": "every record shares its key values with at least {:g} records, itself included",
    "least_l_diversity": "every group of equal key values has at least {:g} values of each sensitive column",
    "max_t_closeness": "no sensitive column is further than {:g} from the file in a group of equal key values",
    "max_guess_gain": "a sensitive value is guessed right from a group for at most {:g} of people more, as a share",
    "max_leak": "no other column gives away more than {:g} of the values of a key, as a share",
    "max_change": "no named statistic moves by more than {:g}, as a share",
}
"""Limits of a profile, in words."""


_OF_ATTRIBUTES = ("least_l_diversity", "max_t_closeness", "max_guess_gain")


def profile_rules(summary: RunSummary, profile: Profile) -> Iterator[RuleOutcome]:
    """Every limit of a release profile as a rule, with the reasons that the profile's verdict gives."""
    reasons = {reason.limit: reason for reason in reversed(decided(summary, profile).reasons)}
    measured = {
        "max_record_risk": summary.highest_risk,
        "max_match_risk": summary.highest_match,
        "least_k": float(summary.smallest_group),
        "max_correct_links": worst_links(summary, profile)[1],
        "max_correct_links_share": _share_of(worst_links(summary, profile)[1], summary.records),
        "max_household_links_share": None
        if summary.risk.known_families is None
        else _share_of(household_links(summary, profile), summary.risk.known_families.households),
    }
    words_of = {
        limit: words.format(value) for limit, words in _PROFILE_RULES.items() if (value := getattr(profile, limit)) is not None
    }
    words_of["worst_light"] = f"the reliability of the estimate is {profile.worst_light} or better"
    if "margins" in reasons:
        words_of["margins"] = "tables that had to stay the same are the same"
    unseen = _not_looked_at(summary)
    for limit, says in words_of.items():
        reason = reasons.get(limit)
        yield RuleOutcome(
            rule=limit.replace("_", "-"),
            says=says,
            measured=measured.get(limit),
            allowed=None if limit in ("worst_light", "margins") else float(getattr(profile, limit)),
            passed=reason is None or not reason.is_refusal,
            is_unsure=reason is not None and not reason.is_refusal,
            is_looked_at=reason is not None or limit not in unseen,
            sentence=reason.sentence
            if reason is not None
            else f"not looked at: {unseen[limit]}."
            if limit in unseen
            else f"{says}.",
            remedy="" if reason is None or not reason.remedy else f"{reason.remedy}.",
        )


def _share_of(part: float | None, whole: int | str) -> float | None:
    return part / whole if part is not None and isinstance(whole, int) and whole else None


def _not_looked_at(summary: RunSummary) -> dict[str, str]:
    """Limits that this run has nothing to say about, and why."""
    return {
        limit: why
        for limit, why, is_there in (
            ("max_household_links_share", "the run names no household", summary.risk.known_families is not None),
            *((limit, "the run names no sensitive column", bool(summary.risk.attributes)) for limit in _OF_ATTRIBUTES),
            ("max_leak", "no key was recoded or swapped", summary.swap is not None or any(key.recode for key in summary.keys)),
            ("max_change", "nothing was changed", summary.swap is not None),
        )
        if not is_there
    }


def check_of(
    file: str,
    summary: RunSummary,
    *,
    profile: Profile | None = None,
    limits: Limits | None = None,
    beside_keys: Iterable[RuleOutcome] = (),
) -> Check:
    """Hold what a run found against a profile, rules by number, or both; ``beside_keys`` is what was found in other columns."""
    rules = (
        *(profile_rules(summary, profile) if profile is not None else ()),
        *beside_keys,
        *(limits.outcomes(summary) if limits is not None else ()),
    )
    light = summary.risk.reliability.light if summary.risk.reliability is not None else "green"
    is_unsure = any(rule.is_unsure for rule in rules) or (profile is None and light == "red")
    verdict = DO_NOT_RELEASE if not all(rule.passed for rule in rules) else LOOK if is_unsure else RELEASE
    return Check(
        file=file,
        records=summary.records,
        verdict=verdict,
        profile=None if profile is None else profile.name,
        rules=rules,
    )

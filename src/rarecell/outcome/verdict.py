"""What is the result, in a few words that can be read aloud?

The only place that judges a run: terminal, report, app, notebook and ``summary.json`` all quote it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rarecell.outcome.decision import with_decision
from rarecell.outcome.profile import DEFAULT, PROFILES, Profile
from rarecell.outcome.roles import RegisterSummary
from rarecell.outcome.summary import FamilySummary, RunSummary
from rarecell.outcome.swap import SwapSummary
from rarecell.outcome.words import about, about_times, capital, counted, expected, number, people, percent, span, verb


@dataclass(frozen=True)
class Verdict:
    """The judgement of a run.

    Attributes
    ----------
    tone : str
        ``"risk"``, ``"watch"`` or ``"safe"``, for the colour beside it.
    headline : str
        The result in a few words.
    sentences : tuple of str
        Two sentences: the judgement and what it means.
    light : str
        The light of the reliability, part of what is printed; empty if it is not known.
    """

    tone: str
    headline: str
    sentences: tuple[str, str]
    light: str = ""

    def __str__(self) -> str:
        reliability = f" Reliability: {self.light}." if self.light else ""
        return f"{self.headline}. {' '.join(self.sentences)}{reliability}"


def verdict(summary: RunSummary) -> Verdict:
    """Judge a run by the threshold that its user chose."""
    judgement = before_protection(summary) if summary.swap is None else after_protection(summary, summary.swap)
    light = summary.risk.reliability
    return judgement if light is None else replace(judgement, light=light.light)


def judged(summary: RunSummary, profile: str | None = None) -> RunSummary:
    """The same summary with its verdicts in words and the decision of a profile.

    The profile is the one named, or that of an earlier judgement of the same run, or the default.
    """
    risk = replace(summary.risk, verdict=str(before_protection(summary)))
    swap = summary.swap and replace(summary.swap, verdict=str(after_protection(summary, summary.swap)))
    earlier = None if summary.release is None else summary.release.profile
    if profile is not None:
        limits, is_default = Profile.named(profile), False
    elif earlier is not None:
        limits, is_default = earlier.limits, earlier.is_default
    else:
        limits, is_default = PROFILES[DEFAULT], True
    return with_decision(replace(summary, risk=risk, swap=swap), limits, is_default=is_default)


def first_number(uniques: float, sample_uniques: int, records: int, *, has_families: bool = False) -> str:
    """What a run knows first, in words."""
    follows = "families, interval and checks follow" if has_families else "interval and checks follow"
    return (
        f"First estimate: {about(uniques)} of {counted(records, 'record')} could be recognised; {number(sample_uniques)} "
        f"{verb(sample_uniques, 'is', 'are')} alone in the file. {capital(follows)}."
    )


def early_verdict(summary: RunSummary) -> str:
    """The verdict of a run, in words, while its advice is still being computed."""
    return f"{_decision(summary)}{verdict(summary).headline}."


def said(summary: RunSummary) -> str:
    """A run as it is printed: whether the file may go by its profile, and what was found."""
    return f"{_decision(summary)}{verdict(summary)}"


def _decision(summary: RunSummary) -> str:
    profile = None if summary.release is None else summary.release.profile
    return "" if profile is None else f"{profile.headline}. "


def before_protection(summary: RunSummary) -> Verdict:
    risk = summary.risk
    if risk.known_families is not None:
        return _with_families(risk.known_families, summary)
    if risk.register is not None:
        return _counted_in(risk.register, summary)
    above, records = risk.records_above_threshold, number(summary.records)
    if above is None:
        uniques = risk.sample_uniques
        judgement = (
            f"{counted(uniques, 'record')} of {records} {verb(uniques, 'is', 'are')} alone in the file with these key values."
        )
        is_risky = risk.expected_population_uniques >= 1
    elif above == 0:
        judgement = f"No record of {records} has a risk of {risk.threshold:g} or more, the threshold of this run."
        is_risky = False
    else:
        judgement = (
            f"This file is not safe to release as it stands: {counted(above, 'record')} of {records} "
            f"{verb(above, 'has', 'have')} a risk of {risk.threshold:g} or more, the threshold of this run."
        )
        is_risky = True
    return Verdict(
        "risk" if is_risky else "safe",
        f"{_records(risk.expected_population_uniques)} could be recognised",
        (judgement, f"An intruder{_matching(risk.expected_correct_matches)}"),
    )


def family_sentence(families: FamilySummary) -> str:
    """The risk of the households of a file, in words."""
    counted_there = families.register
    if counted_there is not None:
        uniques, how = counted_there.population_uniques, "as counted in the register of households"
        return (
            f"Somebody who knows a family finds it by what its members have together: {counted(uniques, 'household')} of "
            f"{number(families.households)}, with {counted(counted_there.persons, 'person')}, {verb(uniques, 'is', 'are')} the only one of "
            f"{verb(uniques, 'its', 'their')} kind, {how}; the model expected {number(families.expected_population_uniques, 1)}."
        )
    return (
        f"Somebody who knows a family finds it by what its members have together: {about(families.expected_population_uniques)} of "
        f"{counted(families.households, 'household')}, with {about(families.expected_persons)} persons, are expected to be the only one of "
        f"their kind in the population (interval: {span(families.interval)})."
    )


def _with_families(families: FamilySummary, summary: RunSummary) -> Verdict:
    """Judge by the larger of two risks: of being recognised as a person, and with the family."""
    above, records = families.records_above_threshold, number(summary.records)
    threshold = f"a risk of {summary.risk.threshold:g} or more, the threshold of this run, alone or with the family"
    if above == 0:
        tone, judgement = "safe", f"No record of {records} has {threshold}."
    else:
        tone = "risk"
        judgement = f"This file is not safe to release as it stands: {counted(above, 'record')} of {records} {verb(above, 'has', 'have')} {threshold}."
    alone = people(summary.risk.expected_population_uniques).replace("no", "none")
    without = "" if alone == people(families.expected_records) else f", {alone} of them without their family"
    headline = f"{_records(families.expected_records)} could be recognised"
    return Verdict(
        tone, headline if families.expected_records < 0.05 else headline + without, (judgement, family_sentence(families))
    )


def _counted_in(register: RegisterSummary, summary: RunSummary) -> Verdict:
    """Judge by what was counted in a register rather than by the estimate; the external edition does not tell 0, 1 and 2 apart."""
    uniques, records = register.population_uniques, number(summary.records)
    uniques_in_words = (
        f"{counted(uniques, 'record')} of {records} {verb(uniques, 'has', 'have')} values that nobody else in the register has."
    )
    if uniques == 0:
        tone, judgement = "safe", f"Every record of {records} shares its values with somebody else in the register."
    elif isinstance(uniques, int):
        tone, judgement = "risk", f"This file is not safe to release as it stands: {uniques_in_words}"
    else:
        tone, judgement = "watch", f"{uniques_in_words[:1].upper()}{uniques_in_words[1:]}"
    how_many = "No record" if uniques == 0 else counted(uniques, "record")
    return Verdict(
        tone,
        f"{how_many[:1].upper()}{how_many[1:]} can be recognised by whoever holds the register",
        (
            judgement,
            f"An intruder who matches every record that is unique in the file would be right {about_times(register.correct_matches)}.",
        ),
    )


def after_protection(summary: RunSummary, swap: SwapSummary) -> Verdict:
    before, after = swap.risk_before.expected_population_uniques, swap.risk_after.expected_population_uniques
    reached = "" if swap.target is None else f"{swap.target.sentence} "
    came = "before"
    if summary.as_it_came is not None:
        before, came = summary.as_it_came.expected_population_uniques, "in the file as it came"
        before = before if summary.as_it_came.family_records is None else summary.as_it_came.family_records
    intruder = f"an intruder{_linking(swap.risk_after.expected_correct_matches)}"
    families, household = summary.risk.known_families, swap.intruder("household")
    if families is not None and household is not None and household.persons_certain is not None:
        if summary.as_it_came is None or summary.as_it_came.family_records is None:
            before, came = families.expected_records, "before"
        after = max(after, household.persons_certain)
        intruder = (
            f"an intruder who knows families and holds a register links {about(household.after)} households to their own, "
            f"{expected(household.before)} before, with {about(household.persons_after or 0.0)} persons."
        )
    return Verdict(
        "safe" if after < 1 else "watch",
        f"{_records(after)} could still be recognised{_than(before, came, after)}",
        (f"{reached}{what_was_done(swap)}", f"{what_was_kept(swap)}{_beside(swap)}; {intruder}"),
    )


def what_was_done(swap: SwapSummary, *, with_values: bool = True) -> str:
    """What happened to the records, in one sentence; ``with_values`` says whether it counts the values that changed."""
    if swap.formal is not None:
        statement = swap.formal.statement
        return (
            f"Values were rearranged at random with ε = {number(statement.epsilon)} for each record, subject to the invariants listed with "
            f"it; {percent(statement.expected_records_changed)} of the records were expected to change."
        )
    if swap.places is not None:
        places = swap.places
        return capital(
            f"{number(places.swapped)} of {counted(places.units, places.unit)} changed places, {percent(places.rate)}."
        )
    if not swap.keeps_model:
        # The external edition does not say how many changed places.
        return "Records changed places with others that are like them."
    if swap.requested == 0:
        return "No record is risky enough to be swapped."
    # The external edition does not give the number if it is small.
    is_counted = with_values and isinstance(swap.values_changed, int)
    changed = f", which changed {counted(swap.values_changed, 'value')}" if is_counted else ""
    if isinstance(swap.swapped, str):
        # The external edition names no number near that of the records asked for.
        of_those = "records" if isinstance(swap.requested, str) else f"of about {number(swap.requested)} risky records"
        return capital(f"{swap.swapped} {of_those} were swapped with a partner{changed}.")
    were = verb(swap.swapped, "was", "were")
    if swap.swapped != swap.requested:
        return f"{number(swap.swapped)} of {counted(swap.requested, 'chosen record')} {were} swapped with a partner{changed}."
    who = "The chosen record" if swap.swapped == 1 else f"All {counted(swap.swapped, 'chosen record')}"
    return f"{who} {were} swapped with a partner{changed}."


def _beside(swap: SwapSummary) -> str:
    """What is true of the columns beside the keys: tables of keys that stay exact do not keep the means of others."""
    if swap.file is None:
        return ""
    return f", {'but' if swap.file.column else 'and'} {swap.file.sentence}"


def what_was_kept(swap: SwapSummary) -> str:
    """Which tables are unchanged: those of the model, or those named by the user if whole records change places."""
    if not swap.margins_identical:
        return "Tables that had to be kept have CHANGED: do not release this file"
    blanked = swap.suppression is not None and swap.suppression.values != 0
    but = ", except for the values that were blanked" if blanked else ""
    if swap.keeps_model:
        return f"Every table that the model rests on is exactly as it was{but}"
    if swap.margins:
        return f"Every table that was to be kept is exactly as it was{but}, and tables with the areas have changed"
    return "Tables with the areas have changed, and no other table was asked to be kept"


def _than(before: float, when: str, after: float) -> str:
    """The number before, where it was another one."""
    return "" if people(before) == people(after) else f", {people(before)} {when}"


def _records(value: float) -> str:
    return "Hardly any record" if value < 0.05 else f"{capital(about(value))} records"


def _linking(links: float) -> str:
    return f" who holds a register and links every record that is unique in the file to the nearest person would be right {about_times(links)}."


def _matching(matches: float) -> str:
    return f" who knows the keys and matches every record that is unique in the file would be right {about_times(matches)}."

"""How are the numbers of a run explained to a data steward?

Every sentence of the report that depends on the numbers is made here, so that the report, the app and the documentation
say the same thing.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from rarecell.choices import MATCHES_ANYTHING, REGISTER_COMPLETE
from rarecell.outcome.decision import assess_command, decision_of, protect_command, then_recognised
from rarecell.outcome.summary import RiskSummary, RunSummary
from rarecell.outcome.words import FEWEST_PEOPLE, about, counted, first_of, listed, number, verb

ESTIMATOR_NAMES = {
    "average": "rarecell, average of models",
    "decomposable": "rarecell, best single model",
    "paper": "Takemura and Endo, made exact",
    "independence": "independent keys",
    "saturated": "saturated model",
    "ewens": "Ewens, maximum likelihood",
    "ewens_moment": "Ewens, s₁ moment",
    "pitman": "Pitman, maximum likelihood",
    "pitman_ratio": "Pitman, α = s₁/u",
    "additive": "Lancaster additive, second order",
    "zayatz": "Zayatz",
    "snb": "slide negative binomial",
}
"""Names of the estimators on a page."""


def estimator_name(name: str) -> str:
    return ESTIMATOR_NAMES.get(name, name.replace("_", " "))


@dataclass(frozen=True)
class NextStep:
    """What to do next: a sentence, the command for it, and the page of the app for it."""

    text: str
    command: str = ""
    page: str = ""
    button: str = ""
    choices: Mapping[str, str] = field(default_factory=dict)


def steps(summary: RunSummary, *, edition: str = "internal", place: str | None = None) -> list[NextStep]:
    """What to do next; ``place`` is the run folder relative to where the run was started."""
    if edition == "external":
        return [
            NextStep("What each number means is explained next to it and in the glossary."),
            NextStep(
                "Areas, sensitive columns, further intruders, analyses, weighted totals and swapped groups are in the internal edition only. "
                "Such numbers are of small groups, or could be compared with each other."
            ),
        ]
    folder = place or "."
    ways_out = {reason.command or reason.remedy: reason for reason in decision_of(summary, folder=folder).refusals}
    ways = [NextStep(way.remedy, way.command, way.page, way.button, way.choices) for way in ways_out.values()]
    return _before_release(summary, ways, folder) if summary.swap is not None else _after_assessment(summary, ways, folder)


def _before_release(summary: RunSummary, ways_out: list[NextStep], folder: str) -> list[NextStep]:
    assert summary.swap is not None
    steps_left = list(ways_out)
    if summary.swap.formal is not None:
        steps_left.append(
            NextStep(
                f"Some records may be as they were, with a risk of up to {summary.swap.risk_after.highest:.2f}: ε limits what the release "
                "reveals about any record and does not remove the risk of chosen ones. Do not protect the released file again, because "
                "that would spend further ε."
            )
        )
    if not ways_out:
        steps_left.append(
            NextStep(
                "Read what it cost, sign, and hand the file over",
                f'rarecell handover {shlex.quote(folder)} --signed-by "NAME"',
            )
        )
    steps_left.append(
        NextStep(
            "Do not share swaps.parquet, risk.parquet or this report: they say which records were risky. report-external.html may "
            "go with the file."
        )
    )
    return steps_left


def _after_assessment(summary: RunSummary, ways_out: list[NextStep], folder: str) -> list[NextStep]:
    if not ways_out:
        recoded = any(key.is_coarser for key in summary.keys) or bool(summary.left_out)
        what = "The recoded file may go. Write it" if recoded else "Nothing has to change. Write the file that goes out"
        command = protect_command(folder, "", "protected")
        return [NextStep(f"{what}, with its report, and hand it over", command, "protect", "Write the file")]
    gain = best_recode(summary.risk, folder)
    # What leads out may be the same change already.
    if gain is None or (gain.command and _recoding(gain) in map(_recoding, ways_out)):
        return ways_out
    return [*ways_out, gain]


def _recoding(step: NextStep) -> str:
    return step.command.partition(" --recode ")[2].partition(" --out ")[0]


def best_recode(risk: RiskSummary, folder: str = ".") -> NextStep | None:
    """The single change to a key that helps most, with its command; coarsening is preferred to leaving it out.

    None where few can be recognised anyway: the way out of what else stands against a release is another one.
    """
    now = risk.expected_population_uniques
    if round(now) < FEWEST_PEOPLE:
        return None
    choices = [
        (step.expected_population_uniques, cost.key, step.levels, step)
        for cost in risk.key_costs
        for step in cost.coarsened
        if step.levels >= 5
    ]
    if choices:
        uniques, key, levels, step = min(choices, key=lambda choice: choice[0])
        if uniques < 0.8 * now:
            how = f" ({first_of(step.groups)})" if step.groups else ""
            sentence = f"Or release {key} in {counted(levels, 'group')}{how}. {then_recognised(uniques, risk)}"
            command = assess_command(folder, f"--recode {shlex.quote(step.recode)}", "run-coarser") if step.recode else ""
            return NextStep(sentence, command, "recode", "Try coarser keys")
    without = [(cost.without, cost.key) for cost in risk.key_costs if cost.without is not None]
    if without:
        uniques, key = min(without)
        if uniques < 0.8 * now:
            return NextStep(f"Or leave {key} out. {then_recognised(uniques, risk)}", page="recode", button="Try coarser keys")
    return None


def model_sentences(summary: RunSummary, *, is_drawn: bool = True) -> list[str]:
    """Where the risk comes from, which model swaps keep and is drawn, and what its search proves."""
    model, risk = summary.model, summary.risk
    sentences = []
    if risk.model_describe:
        sentences.append(f"The risk comes from this: {risk.model_describe}")
    if model.describe and model.describe != risk.model_describe:
        which = "Drawn below, and kept by swaps, is" if is_drawn else "Swaps keep the tables of"
        sentences.append(f"{which} the best single model: {model.describe}")
    if model.search.sentence:
        sentences.append(model.search.sentence)
    return [f"{sentence[:1].upper()}{sentence[1:].rstrip('.')}." for sentence in sentences]


GLOSSARY: tuple[tuple[str, str], ...] = (
    (
        "AIC",
        "A score of a model: how well it fits, with a penalty for each of its parameters. The smaller of two is the better; BIC has a heavier penalty.",
    ),
    (
        "also known",
        "Said of a column that is not a key and is not swapped, but that somebody may hold in a register. Whoever knows it need only compare people with the row's own value of it.",
    ),
    (
        "assignment",
        "Somebody who holds every record of the file with its true keys and matches them with the released ones one to one. Tried where the file is the whole population.",
    ),
    (
        "back-off",
        "Estimating the probability of a rare combination from shorter ones, as far as the records support it; the default averages such models over orders of the keys.",
    ),
    ("cell", "One combination of key values. The records that agree on every key share a cell."),
    (
        "cell probability",
        "The share of the population that the model expects in a cell. The smaller it is, the more likely the only record in the cell is the only person.",
    ),
    (
        "clique",
        "A group of variables whose joint table the model reproduces exactly. Variables that share no clique are related only through others.",
    ),
    (
        "coarsening",
        "A key in fewer groups, for example age in ten bands. The model may relate a key to others at a coarser resolution than its own.",
    ),
    ("Cramér's V", "How strongly two variables are related, from 0, not at all, to 1, when one determines the other."),
    (
        "decomposable model",
        "A statement of which variables depend on which, whose graph has no cycle of four or more without a short cut; its probabilities are products and quotients of small tables.",
    ),
    ("decoy", "A record that is not at risk but was swapped anyway, so that having moved is no sign of risk."),
    (
        "E(1/F)",
        "The chance that a link of a record to one of the persons with its key values is right: one over their number, averaged over what that may be.",
    ),
    ("exact intruder", "Somebody who holds a register and links a record to a person with the same key values."),
    (
        "expected correct matches",
        "If somebody links every record that is unique in the file to the nearest person in a register, the number of links to expect to be right; before swapping that is a person with the same key values (τ₂).",
    ),
    (
        "expected population uniques",
        "The number of records that are expected to be the only one of their kind in the whole population (τ₁). Those can be recognised with certainty.",
    ),
    (
        "family",
        "A household of at most 12 members, compared as a whole: its size and the keys of its members together. It can be the only one of its kind although no member is.",
    ),
    (
        "family risk",
        "The probability that a family is the only one of its kind in the population; each member has it beside the risk as a person, and the larger of the two counts.",
    ),
    (
        "formal release",
        "A file whose values were rearranged at random with a stated ε: a bound on how much likelier one original than another makes what was released. It holds subject to invariants that are named with it, and says nothing about what those reveal.",
    ),
    ("Hellinger distance", "How far two tables of counts are apart, from 0, the same shares, to 1, nothing in common."),
    (
        "household intruder",
        "Somebody who holds a register, knows who lives with whom, and links whole households to the nearest one.",
    ),
    (
        "household row",
        "A household written as one record: its size, what all members share, and the keys of each member at a place of its own, such as the householder's first. The risk of families comes from a model of these rows.",
    ),
    (
        "household-shadow intruder",
        "The shadow intruder who also knows who lives with whom, and looks for whole households. What this intruder finds is counted in households, with the persons who live in them beside.",
    ),
    (
        "individual risk",
        "The chance of a correct match by the estimator of Benedetti and Franconi, from a record's weight and the number of records like it; sdcMicro and µ-ARGUS print it.",
    ),
    (
        "informed intruder",
        "Somebody who holds a register and also knows how the file was protected: which share of the records moved, which keys together and how far.",
    ),
    (
        "interval",
        "With probability 95 % the number lies between the two ends, unless the model is further off than it was on files whose truth is known.",
    ),
    ("junction tree", "The cliques in an order in which each new one touches the earlier ones in one separator only."),
    (
        "k-anonymity",
        "The smallest number of records that share their key values. It looks at the file alone: records that are unique there may have doubles outside.",
    ),
    (
        "kernel",
        "Of a likelihood: the part that depends on the model, without a constant that all models share; some programs and papers print it alone. Of a formal release: the random rearrangement along one edge of the junction tree.",
    ),
    ("key", "A variable that somebody trying to recognise a record could know about a person."),
    (
        "l-diversity",
        "The number of different values of a sensitive variable among records that share their key values. With one value, a match with any of them tells it.",
    ),
    ("margin", "The table of counts of some of the variables, the others summed over."),
    (
        "nearest intruder",
        "Somebody who holds a register and links a record to the person whose key values are nearest. The risk after swapping is the risk from this intruder.",
    ),
    ("participant", "Somebody who holds no register, but knows a person's keys and that the person is in the file."),
    (
        "pMSE",
        "How well a classifier tells original from protected records, from 0, not at all, upwards. A small value means that analyses see little difference.",
    ),
    ("register", "A list of the population, or of part of it, with names and keys, to which an intruder links records."),
    ("sample unique", "A record whose combination of key values no other record in the file has."),
    ("separator", "What two neighbouring cliques share. Given its variables, the two sides are independent."),
    (
        "shadow intruder",
        "Somebody who holds a register and this program, protects files of their own, learns from them what becomes of whom, and knows how sure each link is. What this intruder finds is the most that anybody could.",
    ),
    ("structural zero", "A combination of values that cannot occur, such as a married child of five. No swap makes one."),
    (
        "SUDA score",
        "Counts the smallest combinations of keys that single a record out in the file: the fewer keys they take, and the more such combinations there are, the higher the score. DIS-SUDA scales it to the file's chance of a correct match.",
    ),
    (
        "swap",
        "Exchanging some key values of a risky record with those of a partner, so that a link to a person is wrong or doubtful.",
    ),
    (
        "t-closeness",
        "How far the distribution of a sensitive variable among records that share their key values is from that in the whole file.",
    ),
    ("threshold", "The risk from which a record counts as risky; it is a choice, not a result."),
    (
        "unsafe combination",
        "A smallest set of variables that singles a record out: without any one of them it would not be unique.",
    ),
)
"""Every technical term of the report."""


def missing_sentence(summary: RunSummary) -> str:
    """What was done with records that lack a key value."""
    # The notes of a run begin with it; the external edition has no notes.
    if summary.notes:
        return ""
    if summary.swap is not None and summary.swap.suppression is not None and not summary.missing.records:
        return "Missing values are not counted here, because some were blanked."
    missing, dropped = summary.missing, summary.records_dropped
    counts = {key: n for key, n in missing.records.items() if n}
    if not counts and not dropped:
        return "No key value is missing." if missing.policy else ""
    where = listed([f"{key} ({counted(n, 'record')})" for key, n in counts.items()])
    where_missing = f"Values are missing in {where}. " if where else ""
    if missing.policy == "drop":
        return f"{where_missing}{counted(dropped, 'record')} with a missing key value {verb(dropped, 'was', 'were')} left out."
    if missing.policy == "level":
        return f"{where_missing}A missing value was taken as a value of its own."
    if missing.policy == MATCHES_ANYTHING:
        return f"{where_missing}A missing value was taken as compatible with every value."
    if missing.policy == REGISTER_COMPLETE:
        return f"{where_missing}A missing value was taken as known to an intruder with a complete register."
    return where_missing.strip()


def household_sentence(summary: RunSummary) -> str:
    """The risk of households, if the file has them: in the released file first, if there is one."""
    household = summary.risk.household
    if household is None:
        return ""
    matched = household.expected_with_a_correct_match
    also = (
        ""
        if matched is None
        else f" If every member is matched, a match is right in {about(matched)} of them (sdcMicro's household risk)."
    )
    start = "In" if summary.swap is None else "Before protection, in"
    return (
        f"A household is recognised when at least one of its members is. The file has {counted(household.households, 'household')}. "
        f"{_households_after(summary)}{start} {about(household.expected_with_an_identified_member)} of them a member is expected to be alone "
        f"in the population, and {counted(household.above_threshold, 'household')} {verb(household.above_threshold, 'reaches', 'reach')} "
        f"the threshold.{also}"
    )


def family_sentences(summary: RunSummary) -> str:
    """The risk of households as records, how they became rows, and how far that can be trusted."""
    families = summary.risk.families
    if families is None:
        return ""
    light = "" if families.reliability is None else f" Reliability: {families.reliability.light}. {families.reliability.sentence}"
    above = families.above_threshold
    return (
        f"{families.sentence} {counted(above, 'household')} {verb(above, 'reaches', 'reach')} the threshold. Person by person, "
        f"{about(summary.risk.expected_population_uniques)} records are expected to be alone in the population.{light}"
    )


def _households_after(summary: RunSummary) -> str:
    """The risk of households in the released file."""
    after = None if summary.swap is None or summary.swap.released is None else summary.swap.released.households
    if after is None:
        return ""
    reached = number(after.above_threshold) if after.above_threshold else "none"
    return (
        f"In the released file {about(after.expected_with_an_identified_member)} have a member who could be recognised, and "
        f"{reached} {verb(after.above_threshold, 'reaches', 'reach') if after.above_threshold else 'reaches'} the threshold. "
    )


def recoded_sentence(summary: RunSummary) -> str:
    """Which keys are released recoded, and what that means for the numbers before protection."""
    recoded = [
        f"{key.name} ({key.recode}: {counted(key.levels, 'level')}"
        f"{f' of {number(key.values_read)} values' if key.values_read is not None else ''})"
        for key in summary.keys
        if key.recode
    ]
    if not recoded:
        return ""
    return (
        f"Released recoded: {listed(recoded)}. 'Before' is the file with the recoded {'key' if len(recoded) == 1 else 'keys'} and without "
        "swaps."
    )


def fixed_sentence(summary: RunSummary) -> str:
    """Records that no swap can move."""
    n = summary.risk.fixed_records
    if not n:
        return ""
    return f"{counted(n, 'record')} {verb(n, 'is', 'are')} fixed by the tables that are kept: no swap could move {verb(n, 'it', 'them')}."

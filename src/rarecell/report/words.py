"""How are the numbers of a run said to a data steward?

Every sentence of the report that depends on the numbers is made here, so that the report, the app and the documentation
say the same thing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ESTIMATOR_NAMES = {
    "average": "rarecell, average of models",
    "decomposable": "rarecell, best single model",
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
"""What the estimators are called on a page."""


def estimator_name(name: str) -> str:
    return ESTIMATOR_NAMES.get(name, name.replace("_", " "))


def number(value: object, digits: int | None = None) -> str:
    """A number as a person reads it: thousands apart, few digits, a dash where there is none, text as it is."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if not isinstance(value, float):
        return str(value)
    if math.isnan(value) or math.isinf(value):
        return "–"
    if digits is None:
        size = abs(value)
        if size >= 100 or value.is_integer():
            digits = 0
        elif size >= 10:
            digits = 1
        elif size >= 0.1:
            digits = 2
        elif size >= 1e-4:
            digits = 1 - math.floor(math.log10(size))
        else:
            return _powered(value)
    return f"{value:,.{digits}f}".replace("-", "−")


def _powered(value: float) -> str:
    from rarecell.report.charts import power_of_ten

    exponent = math.floor(math.log10(abs(value)))
    return f"{value / 10**exponent:.1f} × {power_of_ten(exponent)}"


def about(value: float) -> str:
    """A rounded expectation in running text: fewer than one is said so."""
    if value < 0.05:
        return "practically none"
    if value < 1:
        return "fewer than one"
    return f"about {value:,.0f}" if value >= 10 else f"about {value:,.1f}"


def percent(share: float) -> str:
    size = 100 * share
    if size == 0:
        return "0 %"
    if 99.5 <= size < 100:
        return "> 99 %"
    return f"{size:.0f} %" if size >= 10 else f"{size:.1f} %" if size >= 0.1 else f"{size:.2g} %"


def counted(n: object, one: str, many: str | None = None) -> str:
    """``1 record``, ``12 records``; text such as *fewer than 3* takes the plural."""
    return f"{number(n)} {one if n == 1 else many or one + 's'}"


def listed(names: Sequence[str], *, joint: str = "and") -> str:
    """``a, b and c``."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} {joint} {names[-1]}"


# ---------------------------------------------------------------------- the first screen


@dataclass(frozen=True)
class Verdict:
    """What the first screen says.

    Attributes
    ----------
    tone : ``"risk"``, ``"watch"`` or ``"safe"``, for the colour beside it
    headline : the result in a few words
    sentences : two sentences, the judgement and what it means
    """

    tone: str
    headline: str
    sentences: tuple[str, str]


def verdict(summary: Mapping[str, Any]) -> Verdict:
    """The judgement of a run by the threshold its user chose."""
    risk = summary.get("risk", {})
    swap = summary.get("swap")
    records = number(summary.get("records"))
    before = float(risk.get("expected_population_uniques") or 0.0)
    if swap and "risk_after" in swap:
        after = float(swap["risk_after"].get("expected_population_uniques") or 0.0)
        matches = swap["risk_after"].get("expected_correct_matches")
        changed = number(swap.get("values_changed"))
        kept = (
            "Every table that the model rests on is exactly as it was"
            if swap.get("margins_identical")
            else "The tables that the model rests on were not compared"
        )
        return Verdict(
            "safe" if after < 1 else "watch",
            f"{_opened(after)} could still be recognised, {number(before, 0 if before >= 10 else 1)} before",
            (
                f"{counted(swap.get('swapped'), 'record')} of {number(swap.get('requested'))} asked for "
                f"{'was' if swap.get('swapped') == 1 else 'were'} swapped with a partner, which changed {changed} values.",
                f"{kept}; {_matches(matches, after=True)}",
            ),
        )
    threshold, above = risk.get("threshold"), risk.get("records_above_threshold")
    if threshold is not None and above is not None:
        is_risky = above != 0
        judgement = (
            f"This file is not safe to release as it stands: {counted(above, 'record')} of {records} "
            f"{'has' if above == 1 else 'have'} a risk of {threshold:g} or more, the threshold of this run."
            if is_risky
            else f"No record of {records} has a risk of {threshold:g} or more, the threshold of this run."
        )
    else:
        is_risky = before >= 1
        uniques = counted(risk.get("sample_uniques"), "record")
        judgement = f"{uniques} of {records} {'is' if risk.get('sample_uniques') == 1 else 'are'} alone in the file with these key values."
    return Verdict(
        "risk" if is_risky else "safe",
        f"{_opened(before)} could be recognised",
        (judgement, _matches(risk.get("expected_correct_matches"), after=False)),
    )


def _opened(expected: float) -> str:
    text = about(expected).replace("practically none", "hardly any")
    return f"{text[:1].upper()}{text[1:]} {'records' if text.startswith('about') else 'record'}"


def _matches(matches: object, *, after: bool) -> str:
    if not isinstance(matches, int | float):
        return "The number of correct matches was not computed."
    subject = "an intruder" if after else "An intruder"
    return f"{subject} who knows the keys and matches every record that is unique in the file would be right {about(float(matches))} times.".replace(
        "right practically none times", "right practically never"
    ).replace("right fewer than one times", "right less than once")


def steps(summary: Mapping[str, Any], *, edition: str = "internal") -> list[dict[str, str]]:
    """What to do next: sentences, some with a command."""
    risk = summary.get("risk", {})
    swap = summary.get("swap")
    if edition == "external":
        return [
            {
                "text": "This edition shows no value of any record and no count below three. What each number means is said beside it "
                "and in the glossary."
            }
        ]
    if swap:
        found = []
        left = sum(part.get("records", 0) for part in swap.get("not_swapped", ()) if isinstance(part.get("records"), int))
        if left:
            found.append(
                {
                    "text": f"Look at the {counted(left, 'record')} that could not be swapped, and make a key coarser or drop them if they matter."
                }
            )
        highest, threshold = swap.get("risk_after", {}).get("highest"), risk.get("threshold")
        if isinstance(highest, int | float) and isinstance(threshold, int | float) and highest > threshold:
            found.append(
                {
                    "text": f"The file still has records with a risk of up to {highest:.2f}. Do not release it before these are protected as well:",
                    "command": f"rarecell protect --config run.toml --risk-above {threshold:g} --out protected",
                }
            )
        else:
            found.append({"text": "See what the swaps cost in the section on protection, then release the protected file."})
        found.append(
            {
                "text": "Keep swaps.parquet, risk.parquet and this report inside: they say which records were risky. report-external.html may travel with the file."
            }
        )
        return found
    found = []
    above, threshold = risk.get("records_above_threshold"), risk.get("threshold")
    if above:
        found.append(
            {
                "text": f"Swap the {counted(above, 'risky record')} with partners, without changing the tables the model rests on:",
                "command": f"rarecell protect --config run.toml --risk-above {threshold:g} --out protected",
            }
        )
        gain = best_recode(risk)
        if gain:
            found.append({"text": gain})
    else:
        found.append(
            {"text": "Nothing has to change at this threshold. Keep this report with the file as the reason for releasing it."}
        )
    return found


def best_recode(risk: Mapping[str, Any]) -> str | None:
    """The single change of a key that helps most, coarsening before leaving out."""
    now = float(risk.get("expected_population_uniques") or 0.0)
    choices = [
        (float(step["expected_population_uniques"]), cost["key"], step)
        for cost in risk.get("key_costs", ())
        for step in cost.get("coarsened", ())
        if step.get("levels", 0) >= 5 and step.get("expected_population_uniques") is not None
    ]
    if choices:
        left, key, step = min(choices, key=lambda choice: choice[0])
        if left < 0.8 * now:
            return f"Or release {key} in {step['levels']} groups: {about(left)} instead of {number(now, 0)} records could then be recognised."
    without = [(float(cost["without"]), cost["key"]) for cost in risk.get("key_costs", ()) if cost.get("without") is not None]
    if without:
        left, key = min(without)
        if left < 0.8 * now:
            return f"Or leave {key} out: {about(left)} instead of {number(now, 0)} records could then be recognised."
    return None


def model_sentences(summary: Mapping[str, Any]) -> list[str]:
    """Where the risk comes from, which model is drawn, and what its search proves."""
    model, risk = summary.get("model", {}), summary.get("risk", {})
    said = []
    if risk.get("model_describe"):
        said.append(f"The risk comes from this: {risk['model_describe']}")
    if model.get("describe") and model.get("describe") != risk.get("model_describe"):
        said.append(f"Drawn below, and kept by swaps, is the best single model: {model['describe']}")
    search = model.get("search") or {}
    if search.get("sentence"):
        said.append(str(search["sentence"]))
    elif search.get("certified_optimal"):
        said.append("The search was exhaustive: no decomposable model of these variables is better")
    return [f"{sentence[:1].upper()}{sentence[1:].rstrip('.')}." for sentence in said]


GLOSSARY: tuple[tuple[str, str], ...] = (
    ("cell", "One combination of key values. The records that agree on every key share a cell."),
    (
        "cell probability",
        "The share of the population that the model expects in a cell. The smaller it is, the likelier the only record there is the only person.",
    ),
    (
        "clique",
        "A group of variables whose joint table the model reproduces exactly. Variables that share no clique are related only through others.",
    ),
    (
        "coarsening",
        "A key in fewer groups, for example age in ten bands. The model may relate a key to others at a coarser resolution than its own.",
    ),
    (
        "decomposable model",
        "A statement of which variables depend on which, whose graph has no cycle of four or more without a short cut; its probabilities are "
        "products and quotients of small tables.",
    ),
    (
        "expected correct matches",
        "If somebody links every record that is unique in the file to a person with the same key values, the number of links to expect to be right (τ₂).",
    ),
    (
        "expected population uniques",
        "The number of records that are expected to be the only one of their kind in the whole population (τ₁). Those can be recognised with certainty.",
    ),
    (
        "interval",
        "With probability 95 % the number lies between the two ends, unless the model is further off than it was on files whose truth is known.",
    ),
    ("junction tree", "The cliques in an order in which each new one touches the earlier ones in one separator only."),
    ("key", "A variable that somebody trying to recognise a record could know about a person."),
    ("margin", "The table of counts of some of the variables, the others summed over."),
    ("sample unique", "A record whose combination of key values no other record in the file has."),
    ("separator", "What two neighbouring cliques share. Given its variables, the two sides are independent."),
    ("swap", "Exchanging some key values of a risky record with those of a partner, so that a match is wrong or doubtful."),
    ("threshold", "The risk from which a record counts as risky; it is a choice, not a result."),
    (
        "unsafe combination",
        "A smallest set of variables that singles a record out: without any one of them it would not be unique.",
    ),
)
"""Every technical word of the report."""


def missing_sentence(summary: Mapping[str, Any]) -> str:
    """What was done with records that lack a key value."""
    if any("issing" in note for note in summary.get("notes", ())):
        return ""
    missing = summary.get("missing") or {}
    policy = missing.get("policy")
    counts = {key: n for key, n in (missing.get("records") or {}).items() if n}
    if not counts and not summary.get("records_dropped"):
        return "No key value is missing." if policy else ""
    where = listed([f"{key} ({counted(n, 'record')})" for key, n in counts.items()])
    told = f"Values are missing in {where}. " if where else ""
    if policy == "drop":
        return f"{told}{counted(summary.get('records_dropped'), 'record')} with a missing key value {'was' if summary.get('records_dropped') == 1 else 'were'} left out."
    if policy == "level":
        return f"{told}A missing value was taken as a value of its own."
    return told.strip()


def household_sentence(summary: Mapping[str, Any]) -> str:
    """The risk of households, when the file has them."""
    household = summary.get("risk", {}).get("household") or {}
    if "households" not in household:
        return ""
    said = f"A household is recognised when at least one of its members is. The file has {counted(household['households'], 'household')}."
    expected = household.get("expected_with_an_identified_member")
    if isinstance(expected, int | float):
        said += f" In {about(float(expected))} of them a member is expected to be alone in the population."
    if household.get("above_threshold") is not None:
        said += f" {counted(household['above_threshold'], 'household')} reach the threshold."
    return said


def fixed_sentence(summary: Mapping[str, Any]) -> str:
    """Records that no rearrangement could change."""
    fixed = summary.get("risk", {}).get("fixed_records") or {}
    n = fixed.get("records") if isinstance(fixed, Mapping) else fixed
    if not n:
        return ""
    return f"{counted(n, 'record')} {'is' if n == 1 else 'are'} fixed by the tables that are kept: no swap could change {'it' if n == 1 else 'them'}."

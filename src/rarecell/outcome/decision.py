"""May this file go, by the rule of a profile, and what leads out if it may not?

Every limit of the profile is held against the file as it would be released. A limit that is passed is a refusal; what lies within
its limit but not surely so is to be looked at. Each reason comes with the next command. What was done before is never advised
again: a file that was not swapped is swapped, one that was swapped is recoded or has the rest blanked, and one for which all of
that was done has a key to give up or another profile to be released under.
"""

from __future__ import annotations

import math
import posixpath
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from rarecell.outcome.profile import DEFAULT, DO_NOT_RELEASE, LIGHTS, LOOK, PROFILES, RELEASE, Profile, ProfileVerdict, Reason
from rarecell.outcome.release import ReleaseSummary
from rarecell.outcome.roles import AttributeSummary
from rarecell.outcome.summary import CoarsenedKey, RiskSummary, RunSummary
from rarecell.outcome.words import about_times, counted, listed, number, people, percent, quoted, verb


@dataclass(frozen=True)
class _Remedy:
    """What leads out of a refusal: in words, as a command, and as a page of the app."""

    text: str
    command: str = ""
    page: str = ""
    button: str = ""
    choices: Mapping[str, str] = field(default_factory=dict)
    """How the form of the page is filled in."""


def decided(summary: RunSummary, profile: Profile, *, folder: str = ".", is_default: bool = False) -> ProfileVerdict:
    """Judge the file as it would be released.

    Parameters
    ----------
    summary : RunSummary
        What the run found.
    profile : Profile
        What the office accepts.
    folder : str
        The run folder relative to where the run was started, for commands that can be pasted there.
    is_default : bool
        That nobody named the profile.
    """
    if not isinstance(summary.records, int):
        raise TypeError("The external edition hides numbers that a profile needs: judge the run itself.")
    reasons = (
        *_margins(summary),
        *_targets(summary, folder),
        *_record_risk(summary, profile, folder, is_named=not is_default),
        *_match_risk(summary, profile, folder),
        *_links(summary, profile, folder),
        *_households(summary, profile, folder),
        *_groups(summary, profile, folder),
        *_attributes(summary, profile, folder),
        *_leaks(summary, profile),
        *_change(summary, profile),
        *_light(summary, profile),
    )
    verdict = DO_NOT_RELEASE if any(reason.is_refusal for reason in reasons) else LOOK if reasons else RELEASE
    return ProfileVerdict(name=profile.name, verdict=verdict, reasons=reasons, limits=profile, is_default=is_default)


def _reason(limit: str, sentence: str, remedy: _Remedy, *, is_refusal: bool = True, is_requested: bool = False) -> Reason:
    return Reason(
        limit=limit,
        sentence=sentence,
        is_refusal=is_refusal,
        is_requested=is_requested,
        remedy=remedy.text,
        command=remedy.command,
        page=remedy.page,
        button=remedy.button,
        choices=remedy.choices,
    )


# ---------------------------------------------------------------------- the limits


def _margins(summary: RunSummary) -> Iterator[Reason]:
    if summary.swap is not None and not summary.swap.margins_identical:
        yield _reason(
            "margins",
            "Tables that had to stay the same have changed.",
            _Remedy("This is a fault of the program, and the file must not go. Report it with run.toml"),
        )


def _targets(summary: RunSummary, folder: str) -> Iterator[Reason]:
    """What the run itself was asked to reach and did not, whatever the profile allows."""
    swap = summary.swap
    if swap is None:
        return
    if swap.target is not None and not swap.target.met and not _blanks_reach(summary):
        yield _reason("target", swap.target.sentence, _out_of_reach(summary, folder), is_requested=True)
    k = None if swap.suppression is None else swap.suppression.k
    small = None if k is None else _in_smaller_groups(summary, k)
    if k is not None and small:
        stay = swap.suppression.must_stay if swap.suppression is not None else ()
        remedy = _coarser(summary, folder)
        if stay:
            options = f"--k {k} --blank {shlex.quote(','.join(quoted(key.name) for key in summary.keys))}"
            remedy = _Remedy(
                f"Allow values of {listed(stay)} to be blanked as well",
                protect_command(folder, options, "protected-again"),
                "protect",
                "Protect again",
                {"way": "k", "k": f"{k}"},
            )
        yield _reason(
            "k",
            f"At least {k} records were to share their key values, and {counted(small, 'record')} {verb(small, 'shares', 'share')} "
            f"theirs with fewer than {k - 1} others.",
            remedy,
            is_requested=True,
        )
    for column in swap.attribute_targets:
        if not column.met:
            yield _reason("attributes", column.sentence, _plan_for(folder, column.options), is_requested=True)


def _out_of_reach(summary: RunSummary, folder: str) -> _Remedy:
    """What to try where swaps do not reach a target."""
    swap = summary.swap
    assert swap is not None
    assert swap.target is not None
    if swap.target.against == "participant":
        return _larger_groups(summary, 2, folder)
    limit = swap.target.max_record_risk
    if limit is not None and summary.highest_risk > limit:
        return _less_record_risk(summary, limit, _above(summary, limit), folder, naming="")
    return _coarser(summary, folder)


def _plan_for(folder: str, options: str) -> _Remedy:
    """Look for coarser keys that reach a limit on what groups give away."""
    return _Remedy(
        "Let the program find coarser keys that get there, and what each would cost",
        f"rarecell plan --config {shlex.quote(_config(folder))} {options}",
        "recode",
        "Try coarser keys",
    )


def _blanks_reach(summary: RunSummary) -> bool:
    """Whether blanks reached what swaps alone did not; they help records, and leave families as easy to find as they were."""
    swap = summary.swap
    if swap is None or swap.target is None or swap.suppression is None or swap.target.against is not None:
        return False
    after = swap.risk_after
    household = None if summary.risk.known_families is None else swap.intruder("household")
    certain, links = (0.0, 0.0) if household is None else (household.persons_certain or 0.0, household.after)
    limits = (
        (swap.target.max_population_uniques, max(after.expected_population_uniques, certain)),
        (swap.target.max_record_risk, summary.highest_risk),
        (swap.target.max_correct_links, max(after.expected_correct_matches, links)),
    )
    return all(limit is None or reached <= limit for limit, reached in limits)


def _record_risk(summary: RunSummary, profile: Profile, folder: str, *, is_named: bool) -> Iterator[Reason]:
    limit, highest = profile.max_record_risk, summary.highest_risk
    if limit is None or highest <= limit:
        return
    how_many = _above(summary, limit)
    who = "At least one record has" if how_many is None else f"{counted(how_many, 'record')} {verb(how_many, 'has', 'have')}"
    # A run that aimed at this limit aims at it again, whoever judges the file.
    target = None if summary.swap is None else summary.swap.target
    is_aimed_at = target is not None and target.max_record_risk == limit
    naming = "" if is_named or is_aimed_at else f"--profile {profile.name} "
    remedy = _less_record_risk(summary, limit, how_many, folder, naming=naming)
    if summary.swap is None and (links := _allowed_links(summary, profile)) and worst_links(summary, profile)[1] > links[0]:
        # Swapping the risky records alone would leave too many links.
        remedy = _both_limits(limit, links[0], folder)
    yield _reason("max_record_risk", f"{who} a risk above {limit:g}; the highest is {_beyond(highest, limit)}.", remedy)


def _match_risk(summary: RunSummary, profile: Profile, folder: str) -> Iterator[Reason]:
    limit, highest = profile.max_match_risk, summary.highest_match
    if limit is None or (highest is not None and highest <= limit):
        return
    if highest is None:
        sentence = "The highest chance that a link is right was not computed for this file."
        yield _reason("max_match_risk", sentence, _Remedy("Assess the file again with this version"))
        return
    yield _reason(
        "max_match_risk",
        f"A link to some record would be right with probability {_beyond(highest, limit)}. The profile allows {limit:g}.",
        _coarser(summary, folder),
    )


def _beyond(value: float, limit: float) -> str:
    """A number that is above a limit, with enough digits to be seen above it."""
    return next((text for digits in (2, 3, 4) if float(text := f"{value:.{digits}f}") > limit), f"{value:g}")


def _above(summary: RunSummary, limit: float) -> int | None:
    """Records above a limit, where the run counted them at that limit."""
    risk, swap = summary.risk, summary.swap
    if limit != risk.threshold:
        return None
    before = risk.records_above_threshold if risk.known_families is None else risk.known_families.records_above_threshold
    counts = before if swap is None else None if swap.released is None else swap.released.records_above_threshold
    return counts if isinstance(counts, int) and counts > 0 else None


def _allowed_links(summary: RunSummary, profile: Profile) -> tuple[float, str, str] | None:
    """The strictest limit on correct links, its name, and in words what share of the records that is."""
    assert isinstance(summary.records, int)
    limits = [
        (profile.max_correct_links, "max_correct_links", ""),
        (
            None if profile.max_correct_links_share is None else profile.max_correct_links_share * summary.records,
            "max_correct_links_share",
            "" if profile.max_correct_links_share is None else f" ({percent(profile.max_correct_links_share)} of the records)",
        ),
    ]
    named = [(limit, name, words) for limit, name, words in limits if limit is not None]
    return min(named) if named else None


def _links(summary: RunSummary, profile: Profile, folder: str) -> Iterator[Reason]:
    allowed_links = _allowed_links(summary, profile)
    if allowed_links is None:
        return
    limit, name, words = allowed_links
    who, links, upper = worst_links(summary, profile)
    allowed = f"The profile allows {_at_most(limit)}{words}"
    if links > limit:
        yield _reason(
            name,
            f"{who} would be right {about_times(links)}. {allowed}.",
            _fewer_links(summary, profile, limit, folder),
        )
    elif upper is not None and upper > limit:
        yield _reason(
            name,
            f"{who} is expected to be right {people(links)} times, and could be {people(upper)} times. {allowed}.",
            _Remedy("Decide whether that is sure enough; a stricter target brings the upper end down"),
            is_refusal=False,
        )


def _at_most(limit: float) -> str:
    return f"{number(int(limit))}" if limit >= 1 else "fewer than 1"


def worst_links(summary: RunSummary, profile: Profile) -> tuple[str, float, float | None]:
    """Who of the profile's intruders finds most, how many that is, and the upper end of its interval."""
    risk, swap = summary.risk, summary.swap
    exact = "Somebody who matches every record that is alone in the file"
    if swap is None:
        if risk.register is not None:
            return exact, risk.register.correct_matches, None
        return exact, risk.expected_correct_matches, risk.interval_correct_matches[1]
    # Columns that the user named are part of the question, whatever the profile says. An assignment is tried only where the file holds
    # everybody; then everybody is known to be in it.
    named = [tried for tried in swap.intruders if tried.name in (*profile.intruders, "also-known", "assignment")]
    if not named:
        upper = swap.released.interval_correct_matches[1:] if swap.released is not None else ()
        return exact, swap.risk_after.expected_correct_matches, upper[0] if upper else None
    worst = max(named, key=lambda intruder: intruder.after)
    # In a table the register is that of the row above.
    return (
        f"Somebody who {worst.knows.replace('the same register', 'a register')}",
        worst.after,
        worst.interval_after[1] if len(worst.interval_after) == 2 else None,
    )


def _households(summary: RunSummary, profile: Profile, folder: str) -> Iterator[Reason]:
    families, share, links = summary.risk.known_families, profile.max_household_links_share, household_links(summary, profile)
    if families is None or share is None or links is None or not isinstance(families.households, int):
        return
    if links > share * families.households:
        yield _reason(
            "max_household_links_share",
            f"{people(links)} of {counted(families.households, 'household')} would be linked to the right one. The profile allows "
            f"{percent(share)}.",
            _unlinked(summary, folder, target_of(summary, profile) if summary.swap is None else {}),
        )


def household_links(summary: RunSummary, profile: Profile) -> float | None:
    """How many households the profile's intruders link to the right one; None if nobody knows who lives with whom."""
    families = summary.risk.known_families
    if families is None:
        return None
    # Whoever names the intruder who has the program means the one who knows families as well.
    names = ("household", *(f"household-{name}" for name in profile.intruders if name == "shadow"))
    tried = [intruder.after for intruder in summary.swap.intruders if intruder.name in names] if summary.swap else []
    # Unless somebody measured otherwise, swaps of single persons leave households as easy to find as they were.
    return max(tried, default=families.expected_correct_matches)


def _unlinked(summary: RunSummary, folder: str, limits: Mapping[str, str] = MappingProxyType({})) -> _Remedy:
    """Drop the household number; ``limits`` are aimed at, too, where nothing was swapped yet."""
    aims = "".join(f" --{name.replace('_', '-')} {limit}" for name, limit in limits.items())
    return _Remedy(
        "Leave out the column that says who lives together",
        protect_command(folder, f"--unlink{aims}", "protected-unlinked"),
        "protect",
        "Leave out who lives together",
        {"unlink": "1", **({"way": "target", **limits} if limits else {})},
    )


def _groups(summary: RunSummary, profile: Profile, folder: str) -> Iterator[Reason]:
    k = profile.least_k
    if k is None or k <= 1:
        return
    small = _in_smaller_groups(summary, k)
    if small is None:
        yield _reason(
            "least_k",
            f"Whether at least {k} records share their key values was not counted in the released file.",
            _Remedy("Ask for a k of 2, 3 or 5, which a run counts"),
            is_refusal=False,
        )
    elif small:
        yield _reason(
            "least_k",
            f"{counted(small, 'record')} {verb(small, 'shares', 'share')} key values with fewer than {k - 1} others.",
            _larger_groups(summary, k, folder),
        )


def _in_smaller_groups(summary: RunSummary, k: int) -> int | None:
    """Records of the released file that share their key values with too few others; None if that was not counted."""
    if summary.swap is not None:
        return None if summary.swap.released is None else summary.swap.released.k_anonymity.get(str(k))
    sizes = {int(size): n for size, n in summary.cells.size_indices.items() if isinstance(n, int)}
    return sum(size * n for size, n in sizes.items() if size < k)


def _attributes(summary: RunSummary, profile: Profile, folder: str) -> Iterator[Reason]:
    """What groups of equal key values give away about sensitive columns."""
    limits = [name for name in ("least_l_diversity", "max_t_closeness", "max_guess_gain") if getattr(profile, name) is not None]
    if not limits:
        return
    columns = summary.risk.attributes if summary.swap is None else summary.swap.attributes
    if not columns:
        yield _reason(
            limits[0],
            "The profile limits what groups give away about sensitive columns, but no sensitive column was named.",
            _Remedy("Name the sensitive columns with --sensitive"),
            is_refusal=False,
        )
        return
    options = " ".join(f"--{_OPTION_OF[name]} {getattr(profile, name):g}" for name in limits)
    remedy = _Remedy(
        "Blank as few values of the column as possible in the groups that give too much away, or release the keys in fewer groups",
        protect_command(folder, options, "protected" if summary.swap is None else "protected-again"),
        "recode",
        "Try coarser keys",
    )
    if summary.swap is not None and summary.swap.attribute_targets:
        remedy = _plan_for(folder, options)
    for column in columns:
        for limit, sentence in _given_away(column, profile):
            yield _reason(limit, sentence, remedy)


_OPTION_OF = {"least_l_diversity": "l-diversity", "max_t_closeness": "t-closeness", "max_guess_gain": "max-guess-gain"}
"""The option of a run that reaches a limit of a profile."""


def _given_away(column: AttributeSummary, profile: Profile) -> Iterator[tuple[str, str]]:
    """Limits that a sensitive column passes, with what is said of it; a column without any value is within all."""
    least, furthest, gain = profile.least_l_diversity, profile.max_t_closeness, profile.max_guess_gain
    if column.records == 0:
        return
    if least is not None and column.l_diversity < least:
        values = counted(column.l_diversity, "value")
        yield (
            "least_l_diversity",
            f"A group of records with equal key values has only {values} of '{column.column}'. The profile asks for at least {least}.",
        )
    if furthest is not None and column.t_closeness > furthest + ROUNDING:
        apart = _beyond(column.t_closeness, furthest)
        yield (
            "max_t_closeness",
            f"In a group of records with equal key values, '{column.column}' is {apart} away from the file. The profile allows {furthest:g}.",
        )
    if gain is not None and column.guess_gain > gain + ROUNDING:
        share = percent(column.guess_gain)
        yield (
            "max_guess_gain",
            f"Whoever finds a person's group guesses '{column.column}' right for {share} more people. The profile allows {percent(gain)}.",
        )


def _leaks(summary: RunSummary, profile: Profile) -> Iterator[Reason]:
    if profile.max_leak is None or summary.release is None:
        return
    for leak in summary.release.leaks:
        if leak.restores or leak.determines > profile.max_leak:
            what = leak.sentence or f"'{leak.column}' gives away {percent(leak.determines)} of what was done to '{leak.key}'."
            remedy = _Remedy(
                f"Leave '{leak.column}' out of the file, or make it as coarse as '{leak.key}'",
                page="protect",
                button=f"Leave out {leak.column}",
                choices={"treat": f"{leak.column}=drop"},
            )
            yield _reason("max_leak", what, remedy, is_refusal=not leak.accepted)


def _change(summary: RunSummary, profile: Profile) -> Iterator[Reason]:
    if profile.max_change is None or summary.swap is None:
        return
    for analysis in summary.swap.analyses:
        moved = [term for term in analysis.terms if abs(term.relative_bias or 0.0) > profile.max_change]
        if moved:
            worst = max(moved, key=lambda term: abs(term.relative_bias or 0.0))
            yield _reason(
                "max_change",
                f"{analysis.name}: {worst.name} moved by {percent(abs(worst.relative_bias or 0.0))}. The profile allows "
                f"{percent(profile.max_change)}.",
                _Remedy(
                    "Keep the table behind it with --keep, or keep its keys from being swapped with --never-swap",
                    page="protect",
                    button="Protect again, and keep a table",
                ),
            )


def _light(summary: RunSummary, profile: Profile) -> Iterator[Reason]:
    reliability = summary.risk.reliability
    if reliability is None or reliability.light == LIGHTS[0]:
        return
    register = summary.risk.register
    is_refusal = LIGHTS.index(reliability.light) > LIGHTS.index(profile.worst_light) if reliability.light in LIGHTS else True
    if register is not None and register.records_not_covered == 0:
        # What was counted stands, however wrong the estimate would have been.
        is_refusal = False
    why = f" {reliability.sentence}" if reliability.sentence else ""
    another = "a register with --register" if register is None else "a register that has everybody in the file"
    remedy = (
        f"Give what would make it surer: the right population, weights, or {another}"
        if is_refusal
        else "Read why, and decide whether that is sure enough"
    )
    out = _Remedy(remedy, page="keys", button="Choose population, weight or register") if is_refusal else _Remedy(remedy)
    yield _reason("worst_light", f"Reliability is {reliability.light}.{why}", out, is_refusal=is_refusal)


# ---------------------------------------------------------------------- what leads out


def _less_record_risk(summary: RunSummary, limit: float, how_many: int | None, folder: str, *, naming: str) -> _Remedy:
    """``naming`` is the option that names the profile, for a run whose configuration does not."""
    swap, risk = summary.swap, summary.risk
    threshold = "" if limit == risk.threshold else f" --threshold {limit:g}"
    if swap is None:
        return _Remedy(
            "Swap the risky records with partners",
            protect_command(folder, f"--risk-above {limit:g}{threshold}", "protected"),
            "protect",
            "Protect the risky records",
            {"way": "risk_above", "risk_above": f"{limit:g}"},
        )
    if (summary.highest_risk_of_families or 0.0) > limit:
        # Blanks do not help families.
        return _unlinked(summary, folder)
    if swap.formal is None and swap.places is None and swap.suppression is None:
        where = (
            "where they are needed"
            if how_many is None
            else f"in {verb(how_many, 'this record', f'these {number(how_many)} records')}"
        )
        return _Remedy(
            f"Blank as few values as possible {where}",
            protect_command(folder, f"{naming}--suppress-rest{threshold}", "protected-blanked"),
            "protect",
            "Protect again, and blank the rest",
            {"way": "target", "max_record_risk": f"{limit:g}", "suppress_rest": "1"},
        )
    return _coarser(summary, folder)


def _both_limits(record_risk: float, links: float, folder: str) -> _Remedy:
    """Swap until no record is too risky and few enough links are right."""
    target = _target(links)
    return _Remedy(
        "Swap as many records as it takes to keep both limits",
        protect_command(folder, f"--max-correct-links {target} --max-record-risk {record_risk:g}", "protected"),
        "protect",
        "Protect the risky records",
        {"way": "target", "max_correct_links": target, "max_record_risk": f"{record_risk:g}"},
    )


def target_of(summary: RunSummary, profile: Profile) -> dict[str, str]:
    """The limits of a profile that swaps can be made towards, by option."""
    links = _allowed_links(summary, profile)
    limits = {} if links is None else {"max_correct_links": _target(links[0])}
    return limits if profile.max_record_risk is None else {**limits, "max_record_risk": f"{profile.max_record_risk:.15g}"}


def _target(limit: float) -> str:
    """A limit on correct links as the value of an option; rounded upwards, what is reached would be above the limit."""
    if limit >= 1 or not limit:
        return f"{int(limit)}"
    step = 10.0 ** (math.floor(math.log10(limit)) - 1)
    return f"{math.floor(limit / step * (1.0 + 1e-12)) * step:.2g}"


def _fewer_links(summary: RunSummary, profile: Profile, limit: float, folder: str) -> _Remedy:
    """Find a way to so few links.

    A file that was not swapped aims at the highest risk of a record as well if that is broken; one that was swapped, if that is kept, so
    that it stays so. What swaps could not reach is not asked of them again.
    """
    swap = summary.swap
    target = _target(limit)
    record_risk = 1.0 if profile.max_record_risk is None else profile.max_record_risk
    is_aimed_at = record_risk < 1.0 and (summary.highest_risk <= record_risk) == (swap is not None)
    also = f" --max-record-risk {record_risk:g}" if is_aimed_at else ""
    limits = {"max_correct_links": target, **({"max_record_risk": f"{record_risk:g}"} if is_aimed_at else {})}
    if swap is None:
        return _Remedy(
            "Let the program find coarser keys and swaps that get there, and what each would cost",
            f"rarecell plan --config {shlex.quote(_config(folder))} --max-correct-links {target}{also}",
            "plan",
            "Find a plan",
            limits,
        )
    before = None if swap.target is None else swap.target.max_correct_links
    if swap.formal is None and swap.places is None and (before is None or before > float(target)):
        return _Remedy(
            "Swap as many records as it takes",
            protect_command(folder, f"--max-correct-links {target}{also}", "protected-again"),
            "protect",
            "Protect again, towards this target",
            {"way": "target", **limits},
        )
    return _coarser(summary, folder)


def _larger_groups(summary: RunSummary, k: int, folder: str) -> _Remedy:
    """Swap and blank until groups are large enough; where that was done, release a key in fewer groups."""
    if summary.swap is not None and summary.swap.suppression is not None:
        return _coarser(summary, folder)
    return _Remedy(
        f"Let the program swap and blank values until at least {k} records share theirs",
        protect_command(folder, f"--k {k}", "protected" if summary.swap is None else "protected-again"),
        "protect",
        "Protect the risky records",
    )


def _coarser(summary: RunSummary, folder: str) -> _Remedy:
    """Release a key in fewer groups; where that cannot help, give a key up or look for another way to release.

    Where hardly anybody can be recognised without the family, who lives together is what has to go.
    """
    now = summary.risk.expected_population_uniques
    if summary.risk.known_families is not None and people(now) == "no":
        return _unlinked(summary, folder)
    step = best_coarsening(summary)
    if step is not None:
        key, coarser = step
        left = coarser.expected_population_uniques
        gain = "" if people(left) == people(now) else f". {then_recognised(left, summary.risk)}"
        return _Remedy(
            f"Release {key} in {counted(coarser.levels, 'group')}{gain}",
            protect_command(folder, f"--recode {shlex.quote(coarser.recode)}", "protected-coarser"),
            "recode",
            "Try coarser keys",
            dict(zip(("key", "words"), coarser.recode.split("=", 1), strict=True)),
        )
    if len(summary.keys) < 2:
        return _Remedy("Release the file under stricter conditions, such as those of the profile safe-centre")
    costs = [(cost.without, cost.key) for cost in summary.risk.key_costs if cost.without is not None]
    uniques, key = min(costs) if costs else (None, summary.keys[0].name)
    alone = "" if summary.risk.known_families is None else " without their family"
    then = "" if uniques is None else f". Then {people(uniques)} records could be recognised{alone}"
    names = (*summary.left_out, key)
    return _Remedy(
        f"Leave {key} out of the file{then}. Or release it under stricter conditions, such as those of the profile safe-centre",
        protect_command(folder, f"--leave-out {shlex.quote(','.join(map(quoted, names)))}", "protected-without"),
        "protect",
        f"Leave out {key}",
        {"leave_out": key},
    )


def then_recognised(uniques: float, risk: RiskSummary) -> str:
    """How many records could be recognised after a change of the keys, beside how many can be now.

    Where families are known, these are the records that somebody recognises without them: what a change does to families takes a run.
    """
    then, now = people(uniques), people(risk.expected_population_uniques)
    # What the register would count takes a run.
    guess = "" if risk.register is None else ", as the model estimates"
    if risk.known_families is not None:
        return f"Then {then} records instead of {now} could be recognised without their family{guess}"
    return f"Then {then} records could be recognised instead of {now}{guess}"


ROUNDING = 1e-9
"""Sums of shares are exact to about this."""

LEAST_LEVELS = 3
"""A key in fewer groups than this says little; leaving it out is clearer."""

WORTHWHILE = 0.8
"""A change is worth advising if it leaves at most this share of the expected population uniques."""


def best_coarsening(summary: RunSummary) -> tuple[str, CoarsenedKey] | None:
    """The single coarser key that helps most, if one helps."""
    now = summary.risk.expected_population_uniques
    choices = [
        (step.expected_population_uniques, cost.key, step)
        for cost in summary.risk.key_costs
        for step in cost.coarsened
        if step.recode and step.levels >= LEAST_LEVELS and step.expected_population_uniques <= WORTHWHILE * now
    ]
    if not choices:
        return None
    _, key, step = min(choices, key=lambda choice: choice[0])
    return key, step


def protect_command(folder: str, options: str, name: str) -> str:
    """The command that protects with the choices of a run and further ones, to be pasted where the run was started."""
    return _command("protect", folder, options, name)


def assess_command(folder: str, options: str, name: str) -> str:
    """The command that assesses with the choices of a run and further ones, to be pasted where the run was started."""
    return _command("assess", folder, options, name)


def _command(command: str, folder: str, options: str, name: str) -> str:
    out = name if folder == "." else posixpath.normpath(posixpath.join(folder, "..", _another(name, posixpath.basename(folder))))
    words = [f"rarecell {command} --config", shlex.quote(_config(folder)), options, "--out", shlex.quote(out)]
    return " ".join(word for word in words if word)


def _another(name: str, taken: str) -> str:
    """A name for results that is not the one of the run itself.

    Examples
    --------
    >>> _another("protected", "run"), _another("protected", "protected"), _another("protected", "protected-2")
    ('protected', 'protected-2', 'protected-3')
    """
    if taken == name:
        return f"{name}-2"
    number = taken.removeprefix(f"{name}-")
    return f"{name}-{int(number) + 1}" if number != taken and number.isdecimal() else name


def _config(folder: str) -> str:
    return "run.toml" if folder == "." else posixpath.join(folder, "run.toml")


def decision_of(summary: RunSummary, *, folder: str = ".") -> ProfileVerdict:
    """The decision on a run by the profile that it was judged by, or else by the default, with commands for its folder."""
    stored = None if summary.release is None else summary.release.profile
    return decided(summary, profile_of(summary), folder=folder, is_default=stored is None or stored.is_default)


def profile_of(summary: RunSummary) -> Profile:
    """The profile that a run was judged by, or else the default."""
    stored = None if summary.release is None else summary.release.profile
    return PROFILES[DEFAULT] if stored is None else stored.limits


def with_decision(summary: RunSummary, profile: Profile, *, is_default: bool) -> RunSummary:
    """The same summary with the profile's verdict in its ``release`` part."""
    verdict = decided(summary, profile, is_default=is_default)
    return replace(summary, release=replace(summary.release or ReleaseSummary(), profile=verdict))

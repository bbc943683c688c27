"""What does a board read before it signs?

One page that report, terminal, app and notebook show alike: the verdict and the profile behind it, a few numbers in every state
of the file (as it came, recoded, released), what was done, what it cost, and what remains. Everything else stands behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from rarecell.data.treatment_text import DROP
from rarecell.outcome.decision import decision_of
from rarecell.outcome.profile import DO_NOT_RELEASE, LIGHTS, LOOK, RELEASE, Profile, ProfileVerdict, Reason
from rarecell.outcome.summary import RunSummary
from rarecell.outcome.swap import KnownBeyond, RiskNumbers, SwapSummary
from rarecell.outcome.verdict import verdict, what_was_done, what_was_kept
from rarecell.outcome.words import capital, counted, expected, listed, number, percent, span, verb, with_labels
from rarecell.report.table import Column, Table, persons, text_column

AS_IT_CAME, RECODED, RELEASED = "As it came", "Recoded", "Released"
"""The states of a file."""

TONES = {RELEASE: "safe", LOOK: "watch", DO_NOT_RELEASE: "risk"}
"""The colour beside each verdict."""

ROUNDED = (
    "Numbers are rounded: risks and expected numbers upwards, counts of records to multiples of five.",
    "Counts below three are not shown, and neither is any value of a record.",
)
"""What the external edition says about itself."""


@dataclass(frozen=True)
class FirstPage:
    """The page for the board.

    Attributes
    ----------
    tone : str
        ``"safe"``, ``"watch"`` or ``"risk"``, for the colour beside the headline.
    headline : str
        The verdict, in the fewest words.
    rule : str
        The profile that led to it.
    limits : tuple of str
        What the profile allows.
    numbers : Table
        Three numbers in every state of the file.
    done, cost, remains : tuple of str
        Sentences: what was done to the file, what that cost, and what remains.
    reasons : tuple of Reason
        What stands against a release, each with the way out.
    has_signature : bool
        Whether there is something to decide: the external edition has no box to sign.
    """

    tone: str
    headline: str
    rule: str
    limits: tuple[str, ...]
    numbers: Table
    done: tuple[str, ...]
    cost: tuple[str, ...]
    remains: tuple[str, ...]
    reasons: tuple[Reason, ...] = ()
    has_signature: bool = True

    @property
    def against(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Sentences under headings: what forbids a release, and what only has to be looked at."""
        refusals = tuple(reason.sentence for reason in self.reasons if reason.is_refusal)
        others = tuple(reason.sentence for reason in self.reasons if not reason.is_refusal)
        headings = ("Why not", refusals), ("Look at this as well" if refusals else "What to look at first", others)
        return tuple((heading, sentences) for heading, sentences in headings if sentences)


def first_page(summary: RunSummary, *, edition: str = "internal", place: str | None = None) -> FirstPage:
    """Make the first page of a run; ``place`` is the run folder relative to where the run was started."""
    is_internal = edition == "internal"
    judgement = None if summary.release is None else summary.release.profile
    if is_internal:
        judgement = decision_of(summary, folder=place or ".")

    def shown(sentences: Iterable[str]) -> tuple[str, ...]:
        return tuple(with_labels(sentence, summary.labels) for sentence in sentences)

    return FirstPage(
        tone=TONES[judgement.verdict] if judgement is not None else "watch",
        headline=verdict(summary).headline if judgement is None else judgement.headline,
        rule="" if judgement is None else _rule(judgement),
        limits=()
        if judgement is None
        else tuple(limits_in_words(judgement.limits, has_households=summary.risk.families is not None)),
        numbers=states_table(summary),
        done=shown(_done(summary)),
        cost=() if summary.swap is None else shown(_cost(summary.swap, is_internal=is_internal)),
        remains=shown(_remains(summary)) if is_internal else ROUNDED,
        reasons=judgement.reasons if judgement is not None and is_internal else (),
        has_signature=is_internal,
    )


def _rule(judgement: ProfileVerdict) -> str:
    profile = judgement.limits
    title = f" ({profile.title})" if profile.title else ""
    if judgement.is_default:
        return f"No profile was named, so the file was judged by '{profile.name}'{title}."
    return f"Judged by the profile '{profile.name}'{title}."


def limits_in_words(profile: Profile, *, has_households: bool = True) -> Iterator[str]:
    """What a profile allows, each limit as an item of a list; ``has_households`` says whether those of households matter."""
    if profile.max_record_risk is not None:
        yield f"a risk of at most {profile.max_record_risk:g} for a record"
    if profile.max_match_risk is not None:
        yield f"a chance of at most {profile.max_match_risk:g} that a link is right"
    if profile.max_correct_links is not None:
        yield f"at most {number(profile.max_correct_links)} correct links"
    if profile.max_correct_links_share is not None:
        yield f"correct links for at most {percent(profile.max_correct_links_share)} of the records"
    if profile.max_household_links_share is not None and has_households:
        yield f"correct links for at most {percent(profile.max_household_links_share)} of the households"
    if profile.least_k is not None:
        yield f"no fewer than {profile.least_k} records with the same key values"
    if profile.least_l_diversity is not None:
        yield f"no fewer than {profile.least_l_diversity} values of a sensitive column in a group of equal key values"
    if profile.max_t_closeness is not None:
        yield f"a distance of at most {profile.max_t_closeness:g} between a group of equal key values and the file"
    if profile.max_guess_gain is not None:
        yield f"at most {percent(profile.max_guess_gain)} more people whose sensitive value is guessed right"
    if profile.max_leak is not None:
        yield f"no column that gives away more than {percent(profile.max_leak)} of what was concealed"
    if profile.max_change is not None:
        yield f"a change of at most {percent(profile.max_change)} in a named statistic"
    if profile.worst_light != "red":
        yield f"a reliability of {' or '.join(LIGHTS[: LIGHTS.index(profile.worst_light) + 1])}"


# ---------------------------------------------------------------------- a few numbers, in every state


def states(summary: RunSummary) -> dict[str, RiskNumbers]:
    """The risk of the file in each of its states, in the order in which they came about."""
    risk, swap = summary.risk, summary.swap
    register = risk.register
    now = RiskNumbers(
        expected_population_uniques=risk.expected_population_uniques,
        expected_correct_matches=risk.expected_correct_matches,
        highest=risk.highest or 0.0,
    )
    if swap is not None:
        now = swap.risk_before
    elif register is not None and isinstance(register.population_uniques, int):
        now = RiskNumbers(
            expected_population_uniques=float(register.population_uniques),
            expected_correct_matches=register.correct_matches,
            highest=summary.highest_risk,
        )
    is_recoded = any(key.is_coarser for key in summary.keys) or bool(summary.left_out)
    by_name = {AS_IT_CAME: now}
    if is_recoded:
        by_name = {RECODED: now} if summary.as_it_came is None else {AS_IT_CAME: summary.as_it_came, RECODED: now}
    elif summary.as_it_came is not None:
        by_name = {AS_IT_CAME: summary.as_it_came}
    return by_name if swap is None else {**by_name, RELEASED: swap.risk_after}


@dataclass(frozen=True)
class _Measure:
    """A number in every state of the file; of the last state also what is open by chance, and what is true."""

    name: str
    by_state: tuple[object, ...]
    interval: str | None = None
    truth: object = None


@dataclass(frozen=True)
class _Together:
    """What is recognised where families are looked at as well: records, households that somebody finds, the highest risk of a record."""

    records: object = None
    households: object = None
    highest: float | None = None


def states_table(summary: RunSummary) -> Table:
    """The numbers that a board can compare: who could be recognised, how often an intruder is right, the riskiest record."""
    by_state, together = states(summary), _together(summary)
    uniques, links = _measures_of_persons(summary)
    measures = [uniques, links]
    highest: list[float | None] = [risk.highest for risk in by_state.values()]
    if together:
        measures = [
            _Measure(uniques.name, tuple(of.records for of in together.values())),
            replace(uniques, name="Of them, without their family"),
            links,
            _Measure("Households that somebody finds", tuple(of.households for of in together.values())),
        ]
        highest = [of.highest for of in together.values()]
    has_highest = summary.swap is not None or summary.risk.highest is not None
    if has_highest and any(risk is not None for risk in highest):
        shares = (None if risk is None else _share(risk, summary.risk.threshold) for risk in highest)
        measures.append(_Measure("Highest risk of a record", tuple(shares)))
    columns = [text_column("Measure"), *(Column(state, persons) for state in by_state)]
    rows = [(measure.name, *measure.by_state) for measure in measures]
    for heading, of in (("95 % interval", attrgetter("interval")), ("In truth", attrgetter("truth"))):
        if any(of(measure) is not None for measure in measures):
            columns.append(Column(heading, persons))
            rows = [(*row, of(measure)) for row, measure in zip(rows, measures, strict=True)]
    caption = "The file in numbers" if len(by_state) == 1 else "The file, before and after"
    return Table("states", caption, tuple(columns), tuple(rows))


def _measures_of_persons(summary: RunSummary) -> tuple[_Measure, _Measure]:
    """Who could be recognised, and how often somebody who links every record is right, families aside."""
    risks, risk, swap, truth = states(summary).values(), summary.risk, summary.swap, summary.truth
    uniques: tuple[float, ...] = ()
    links: tuple[float, ...] = ()
    if swap is None:
        # What was counted in a register has no interval around it.
        is_counted = risk.register is not None and isinstance(risk.register.population_uniques, int)
        uniques, links = ((), ()) if is_counted else (risk.interval, risk.interval_correct_matches)
    elif swap.released is not None:
        uniques, links = swap.released.interval, swap.released.interval_correct_matches
    true_uniques: object = None
    true_links: object = None
    if truth is not None:
        true_uniques, true_links = truth.population_uniques, truth.correct_matches
        if swap is not None:
            true_uniques, true_links = truth.population_uniques_after, truth.correct_matches_after
    return (
        _Measure(
            "Records that could be recognised",
            tuple(expected(of.expected_population_uniques) for of in risks),
            _ends(uniques),
            true_uniques,
        ),
        _Measure(
            "Links that somebody gets right",
            tuple(expected(of.expected_correct_matches) for of in risks),
            _ends(links),
            true_links,
        ),
    )


def _together(summary: RunSummary) -> dict[str, _Together]:
    """What is recognised in each state where families are looked at as well; nothing if they are known in none.

    Where families are unknown, nobody is recognised with theirs.
    """
    by_state, families, swap = states(summary), summary.risk.known_families, summary.swap
    came = by_state.get(AS_IT_CAME)
    came_together = None if came is None else came.family_records
    if families is None and came_together is None:
        return {}
    together = dict.fromkeys(by_state, _Together())
    if families is None:
        together = {
            state: _Together(expected(risk.expected_population_uniques), highest=risk.highest) for state, risk in by_state.items()
        }
    else:
        assessed = [*by_state][0 if summary.as_it_came is None or len(by_state) == 1 else 1]
        together[assessed] = _Together(
            expected(families.expected_records),
            expected(families.expected_correct_matches),
            None if families.highest is None else max(families.highest, by_state[assessed].highest),
        )
    if came is not None and came_together is not None:
        households = None if came.household_links is None else expected(came.household_links)
        together[AS_IT_CAME] = _Together(expected(came_together), households, came.highest)
    household = None if families is None or swap is None else swap.intruder("household")
    if swap is not None and household is not None:
        certain = household.persons_certain
        is_known = household.highest is not None or household.highest_risk is not None
        together[RELEASED] = _Together(
            None if certain is None else expected(max(certain, swap.risk_after.expected_population_uniques)),
            expected(household.after),
            summary.highest_risk if is_known else None,
        )
    return together


def recognisable(summary: RunSummary) -> tuple[str, ...]:
    """How many records could be recognised in each state of the file, with their families where these are known."""
    (_, *values) = states_table(summary).rows[0][: 1 + len(states(summary))]
    return tuple("–" if value is None else str(value) for value in values)


def _ends(interval: tuple[float, ...]) -> str | None:
    return span(interval) if len(interval) == 2 else None


def _share(risk: float, threshold: float) -> str:
    """A risk, written so that it lies on the same side of the threshold as it does; a small one is not written as none."""
    if 0 < risk < min(0.005, threshold):
        return "< 0.01"
    for digits in (2, 3, 4):
        text = f"{risk:.{digits}f}"
        if (float(text) < threshold) == (risk < threshold):
            return text
    return f"{risk:g}"


# ---------------------------------------------------------------------- in sentences


def _done(summary: RunSummary) -> Iterator[str]:
    for key in summary.keys:
        if key.is_coarser:
            of = "" if key.values_read is None else f" instead of {number(key.values_read)}"
            yield f"{key.name} was recoded ({key.recode}) to {counted(key.levels, 'level')}{of}."
    for name in summary.left_out:
        yield f"{name} was left out of the file."
    if summary.swap is None:
        if not any(key.is_coarser for key in summary.keys):
            yield "Nothing. These are the numbers of the file as it came."
        return
    swap = summary.swap
    if swap.target is not None:
        yield swap.target.sentence
    if swap.places is not None and swap.places.sentence:
        yield swap.places.sentence
    elif swap.requested != 0 or swap.target is None:
        yield what_was_done(swap, with_values=False)
    if swap.carried:
        yield f"Columns that travelled with a swapped key: {', '.join(swap.carried)}."
    yield from _beside_the_keys(summary)
    if summary.swap.suppression is not None and summary.swap.suppression.sentence:
        yield summary.swap.suppression.sentence
    for target in swap.attribute_targets:
        yield target.sentence
    if isinstance(summary.swap.decoys, int) and summary.swap.decoys:
        n = summary.swap.decoys
        yield f"{counted(n, 'further record')} {verb(n, 'was', 'were')} swapped at random, so that having moved is no sign of risk."


def _beside_the_keys(summary: RunSummary) -> Iterator[str]:
    """What was done to columns that are not keys."""
    treatments = () if summary.release is None else summary.release.treatments
    dropped = [
        treatment.column for treatment in treatments if treatment.words == DROP and treatment.column not in summary.left_out
    ]
    if dropped:
        yield f"{listed(dropped)} {verb(len(dropped), 'was', 'were')} left out of the file."
    treated = [f"{treatment.column} ({treatment.words})" for treatment in treatments if treatment.words != DROP]
    if treated:
        yield f"Treated as well: {listed(treated)}."


def _cost(swap: SwapSummary, *, is_internal: bool) -> Iterator[str]:
    if swap.values_changed == 0:
        yield "No key value was changed."
    elif isinstance(swap.values_changed, int):
        share = "" if swap.share_changed is None else f", {percent(swap.share_changed)} of all"
        yield f"{counted(swap.values_changed, 'key value')} changed{share}."
    yield f"{what_was_kept(swap)}."
    if swap.file is not None:
        yield f"{capital(swap.file.sentence).rstrip('.')}."
    if "2" in swap.hellinger:
        moved = swap.hellinger["2"].mean
        yield (
            f"Two-way tables moved by {number(moved, 3) if is_internal else f'{moved:g}'} on average (Hellinger distance, 0 to 1)."
            if moved >= 0.0005
            else "Two-way tables are as they were."
        )
    if swap.associations:
        worst = max(swap.associations, key=lambda row: row.before - row.after)
        before, after = number(worst.before, 3), number(worst.after, 3)
        if not is_internal:
            # Both are rounded, so that a difference of them is right to a hundredth, and which one is largest is not known.
            most = max(0.0, worst.before - worst.after) + 0.01
            yield f"Of the relations listed below, none fell by more than {number(most, 2)} (Cramér's V)."
        elif worst.before > worst.after and before != after:
            yield f"The relation of {worst.key} with {worst.column} suffered most: Cramér's V was {before} and is {after}."
    terms = [
        (abs(term.relative_bias), analysis, term) for analysis in swap.analyses for term in analysis.terms if term.relative_bias
    ]
    if terms:
        bias, analysis, term = max(terms, key=lambda moved: moved[0])
        yield f"Of your analyses, {term.name} in {analysis.name} moved most: by {percent(bias)}."


WORTH_TELLING = 1.1
"""Columns beside the keys are worth a warning if with them an intruder finds this many times what the keys alone find."""


def known_beyond(beyond: Sequence[KnownBeyond]) -> Iterator[str]:
    """What somebody finds who knows more than the keys: with the columns that were named, the worst one, and the worst together."""
    tried = [
        trial for trial in beyond if not trial.named and trial.after > max(WORTH_TELLING * trial.nearest, trial.nearest + 1.0)
    ]
    single, together = ([trial for trial in tried if (len(trial.columns) > 1) == is_set] for is_set in (False, True))
    for trial in (*(trial for trial in beyond if trial.named), *single[:1], *together):
        yield trial.sentence


def _remains(summary: RunSummary) -> Iterator[str]:
    swap, threshold = summary.swap, summary.risk.threshold
    if swap is not None:
        above = None if swap.released is None else swap.released.records_above_threshold
        if above is not None:
            where = f"at a risk of {threshold:g} or more"
            yield f"No record is {where}." if above == 0 else f"{counted(above, 'record')} {verb(above, 'is', 'are')} {where}."
        for part in swap.not_swapped:
            yield f"{counted(part.records, 'record')} {verb(part.records, 'was', 'were')} not swapped: {part.reason}."
        yield from known_beyond(swap.beyond)
        if swap.earlier is not None:
            yield swap.earlier.sentence
        yield from (column.sentence for column in swap.left_behind)
    light = summary.risk.reliability
    # A light that is not green is among the reasons.
    if light is not None and light.light == "green":
        yield f"Reliability: {light.light}. {light.sentence}".strip()

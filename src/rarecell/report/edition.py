"""What may be shown to outsiders?

The external edition is made from the same summary as the internal one by keeping only parts known to be harmless. It has no
value of any record and no free text. It has no count of one or two, neither shown nor deducible from the other numbers. It
has nothing exact that was computed from the records before they were swapped (:mod:`rarecell.report.rounding`), least of all
a hash of the input, by which every guess at the original could be proved. If there were few swaps, it says only that there were
few, and gives the risk before them in two numbers: any table of the original could be compared with the same table of the
released file, and the swaps that explain the differences are soon found. Anything this module does not know is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rarecell.outcome.formal import FormalSummary
from rarecell.outcome.release import ReleaseSummary, TreatmentSummary
from rarecell.outcome.roles import Provenance, RegisterSummary, ReleasedState
from rarecell.outcome.summary import (
    CellCounts,
    Count,
    DesignSummary,
    EstimatorDetail,
    FamilySummary,
    FitSummary,
    Histogram,
    HouseholdRisk,
    KeyCostSummary,
    MissingSummary,
    ModelSummary,
    RiskSummary,
    RunSummary,
)
from rarecell.outcome.swap import FrontierSummary, IntruderSummary, NotSwapped, RiskNumbers, SuppressionSummary, SwapSummary
from rarecell.outcome.verdict import family_sentence
from rarecell.report.rounding import rough, rough_change, rough_count, rough_count_up, rough_interval, rough_up

MODEL_WORDS = {
    "average": "an average of back-off networks over several orders of the keys",
    "bayes": "an average of decomposable models, weighted by their posterior probability",
    "hierarchical": "a hierarchical log-linear model",
    "regularised": "a log-linear model of pairs of keys, with priors on interactions",
    "stacked": "a mixture of models, weighted by how well they predict records held out",
    "independence": "a model of independent keys",
    "saturated": "the saturated model",
}
"""Where the risk comes from, without the numbers that the models say of themselves."""

SIZE_CLASSES: tuple[tuple[int, int | None], ...] = ((2, 2), (3, 5), (6, 10), (11, None))
"""Sizes of cells that are shown together, apart from cells with one record."""


def external(summary: RunSummary) -> RunSummary:
    """The part of a summary that may be shown outside.

    It is built field by field, so that a part unknown to this module is left out.
    """
    few = few_changes(summary.swap)
    structure = _structure(summary.model)
    blanked = blanked_values(summary.swap)
    return RunSummary(
        rarecell=summary.rarecell,
        records=shown(summary.records),
        population=summary.population,
        sampling_fraction=summary.sampling_fraction,
        records_dropped=shown(summary.records_dropped),
        # Beside the released file, missing values before would tell which blanks are not answers that were never given.
        missing=MissingSummary(
            policy=summary.missing.policy,
            records={} if blanked else {key: shown(n) for key, n in summary.missing.records.items()},
        ),
        labels=summary.labels,
        keys=tuple(
            replace(key, missing_records=NOT_SHOWN if blanked else shown(key.missing_records), values_read=None)
            for key in summary.keys
        ),
        cells=CellCounts(formal=summary.cells.formal, occupied=0, size_indices={}) if few else _cells(summary),
        model=_model(summary.model, structure),
        risk=_totals(summary.risk, structure) if few else _risk(summary.risk, structure),
        truth=summary.truth
        and replace(
            summary.truth,
            population_uniques=risk_shown(summary.truth.population_uniques),
            correct_matches=rough_up(summary.truth.correct_matches),
            sentence="",
            population_uniques_after=None
            if summary.truth.population_uniques_after is None
            else risk_shown(summary.truth.population_uniques_after),
            correct_matches_after=None
            if summary.truth.correct_matches_after is None
            else rough_up(summary.truth.correct_matches_after),
            families=None,
        ),
        as_it_came=summary.as_it_came and _expectations(summary.as_it_came),
        swap=summary.swap and _same_direction(external_swap(summary.swap), summary),
        release=summary.release and _release(summary.release),
        provenance=summary.provenance and _provenance(summary.provenance),
    )


def _release(release: ReleaseSummary) -> ReleaseSummary:
    """The profile and its verdict, whose reasons give numbers of the original, and which columns were treated in which way."""
    return ReleaseSummary(
        identifiers=release.identifiers,
        order=release.order,
        treatments=tuple(
            TreatmentSummary(column=treatment.column, words=treatment.words, records=NOT_SHOWN)
            for treatment in release.treatments
        ),
        profile=release.profile and replace(release.profile, reasons=()),
    )


def _same_direction(shown: SwapSummary, summary: RunSummary) -> SwapSummary:
    """The number of sample uniques after protection, rounded so that it rises or falls as the exact one does."""
    exact = None if summary.swap is None else summary.swap.released
    before, was = _total(_histogram(summary.risk.histogram).counts), summary.risk.sample_uniques
    if exact is None or shown.released is None or not isinstance(exact.sample_uniques, int) or not isinstance(was, int):
        return shown
    after = rough_shown(exact.sample_uniques)
    if isinstance(after, int) and isinstance(before, int):
        has_risen = exact.sample_uniques >= was
        after = max(after, before) if has_risen else min(after, before)
    return replace(shown, released=replace(shown.released, sample_uniques=after))


def _provenance(provenance: Provenance) -> Provenance:
    """Where a release comes from, without what could confirm a guess.

    With the seed, the choice among equal records could be repeated. With the hash of the original file, or the name of a run
    that was derived from it, somebody who undoes a swap would see whether the guess is right.
    """
    return replace(provenance, seed=None, input_sha256=None, run=provenance.run if provenance.released_sha256 else None)


def _structure(model: ModelSummary) -> str:
    """The model in words; its likelihood depends on more than the tables that are kept."""
    names = ", ".join(f"{{{', '.join(clique)}}}" for clique in model.cliques)
    return f"decomposable model with the cliques {names}; {model.degrees_of_freedom:,} degrees of freedom"


def _model(model: ModelSummary, structure: str) -> ModelSummary:
    """The structure, which the kept tables reveal anyway."""
    search = model.search
    sentence = search.conclusion or f"Found by a {search.method} search: a better one may exist."
    return replace(
        model,
        log_likelihood=None,
        log_likelihood_kernel=None,
        aic=None,
        bic=None,
        deviance=None,
        describe=structure,
        search=replace(search, starts=0, times_met=0, sentence=sentence),
    )


def _totals(risk: RiskSummary, structure: str) -> RiskSummary:
    """The risk in total, and nothing that a single record can change: all that is told of the risk before few swaps."""
    return RiskSummary(
        sample_uniques=NOT_SHOWN,
        expected_population_uniques=rough_up(risk.expected_population_uniques),
        expected_correct_matches=rough_up(risk.expected_correct_matches),
        interval=rough_interval(risk.interval),
        interval_correct_matches=rough_interval(risk.interval_correct_matches),
        interval_basis=risk.interval_basis,
        threshold=risk.threshold,
        histogram=Histogram(edges=(), counts=()),
        # Beside the histogram, a second classification of the same records would narrow down the first.
        cell_probability_decades={},
        model_describe=MODEL_WORDS.get(risk.model, structure),
        reliability=risk.reliability and replace(risk.reliability, reasons=(), sentence=""),
    )


def _risk(risk: RiskSummary, structure: str) -> RiskSummary:
    histogram = _histogram(risk.histogram)
    unsafe = tuple(
        replace(row, records=rough_count(row.records)) for row in risk.unsafe_combinations if row.records >= SMALLEST_COUNT
    )
    return replace(
        _totals(risk, structure),
        sample_uniques=_total(histogram.counts),
        records_above_threshold=_above_threshold(risk, histogram),
        histogram=histogram,
        swappable_uniques=_swappable(risk),
        estimators={name: None if value is None else rough_up(value) for name, value in risk.estimators.items()},
        estimator_details=tuple(_estimate(row) for row in risk.estimator_details),
        diagnostics=risk.diagnostics and _fit(risk.diagnostics),
        key_costs=tuple(_key_cost(cost) for cost in risk.key_costs),
        # How many were left out would tell that one or two records are behind some of those not listed.
        unsafe_combinations=unsafe,
        key_contributions={key: rough(share) for key, share in risk.key_contributions.items()},
        household=risk.household and _household(risk.household),
        families=risk.families and _families(risk.families),
        register=risk.register and _register(risk.register),
        design=risk.design and _design(risk.design),
    )


def _register(register: RegisterSummary) -> RegisterSummary:
    """The truth may be worse than the estimate, so it is told, rounded; how the two compare by band is not."""
    return RegisterSummary(
        people=register.people,
        population_uniques=risk_shown(register.population_uniques),
        correct_matches=rough_up(register.correct_matches),
        records_not_covered=NOT_SHOWN,
        estimated_population_uniques=rough_up(register.estimated_population_uniques),
        estimated_correct_matches=rough_up(register.estimated_correct_matches),
        is_inside_interval=register.is_inside_interval,
    )


def _design(design: DesignSummary) -> DesignSummary:
    return DesignSummary(
        with_equal_weights=rough(design.with_equal_weights), ratio=rough(design.ratio), spread=rough(design.spread), sentence=""
    )


def _estimate(row: EstimatorDetail) -> EstimatorDetail:
    estimate = row.expected_population_uniques
    return replace(row, expected_population_uniques=None if estimate is None else rough_up(estimate), parameters={}, message="")


def _above_threshold(risk: RiskSummary, histogram: Histogram) -> Count | None:
    """The total of the classes from the threshold on; nothing if the threshold lies within a class."""
    if risk.threshold not in histogram.edges:
        return None
    return _total(histogram.counts[histogram.edges.index(risk.threshold) :])


def _swappable(risk: RiskSummary) -> Count | None:
    uniques, swappable = risk.sample_uniques, risk.swappable_uniques
    if not isinstance(uniques, int) or not isinstance(swappable, int) or uniques - swappable < SMALLEST_COUNT:
        return None
    return rough_shown(swappable)


def _fit(fit: FitSummary) -> FitSummary:
    """Whether the model fits, without the numbers of cells and records used for the comparison."""
    statistics = tuple(
        replace(row, value=rough(row.value), standard_error=rough(row.standard_error), z=rough(row.z)) for row in fit.statistics
    )
    return FitSummary(sentence=fit.conclusion, conclusion=fit.conclusion, statistics=statistics)


def _household(household: HouseholdRisk) -> HouseholdRisk:
    return replace(
        household,
        households=rough_shown(household.households),
        expected_with_an_identified_member=rough_up(household.expected_with_an_identified_member),
        expected_with_a_correct_match=None
        if household.expected_with_a_correct_match is None
        else rough_up(household.expected_with_a_correct_match),
        above_threshold=rough_shown(household.above_threshold),
    )


def _families(families: FamilySummary) -> FamilySummary:
    """Rounded as the numbers of records are; how the estimate compares with a register is not told."""
    rounded_families = replace(
        families,
        households=rough_shown(families.households),
        sample_uniques=rough_shown(families.sample_uniques),
        expected_population_uniques=rough_up(families.expected_population_uniques),
        expected_correct_matches=rough_up(families.expected_correct_matches),
        expected_persons=rough_up(families.expected_persons),
        interval=rough_interval(families.interval),
        highest=None,
        highest_match=None,
        above_threshold=rough_shown(families.above_threshold),
        records_above_threshold=rough_shown(families.records_above_threshold),
        expected_records=rough_up(families.expected_records),
        reliability=families.reliability and replace(families.reliability, reasons=(), sentence=""),
        register=None,
    )
    return replace(rounded_families, sentence=family_sentence(rounded_families))


def _key_cost(cost: KeyCostSummary) -> KeyCostSummary:
    """Expectations only, without the numbers of sample uniques beside them."""
    return replace(
        cost,
        without=None if cost.without is None else rough_up(cost.without),
        coarsened=tuple(
            replace(step, sample_uniques=None, expected_population_uniques=rough_up(step.expected_population_uniques))
            for step in cost.coarsened
        ),
    )


# ---------------------------------------------------------------------- classes
#
# Classes are the same for every file: merging classes only where a count is small would reveal that it is. A class with
# fewer than three records, or none, is shown as words. Totals are made from what the classes show, so that they reveal
# nothing more.


def _histogram(histogram: Histogram) -> Histogram:
    return Histogram(edges=histogram.edges, counts=tuple(rough_shown(n) for n in histogram.counts))


def _cells(summary: RunSummary) -> CellCounts:
    """Cells by size class. Cells with one record are the sample uniques, which the histogram divides."""
    sizes = {int(size): int(n) for size, n in summary.cells.size_indices.items()}
    classes: dict[str, Count] = {"1": _total(_histogram(summary.risk.histogram).counts)}
    for first, last in SIZE_CLASSES:
        label = str(first) if first == last else f"{first} or more" if last is None else f"{first} to {last}"
        n = sum(n for size, n in sizes.items() if first <= size and (last is None or size <= last))
        # Where the other classes have too few cells for all records, there must be a large one: if that also said "fewer than
        # three", their number would be one or two.
        classes[label] = HIDDEN_FEW if last is None and n < FEW else rough_shown(n)
    occupied = _total(classes.values())
    return CellCounts(formal=summary.cells.formal, occupied=occupied if isinstance(occupied, int) else 0, size_indices=classes)


def _total(counts: Iterable[Count]) -> Count:
    """The sum of what is shown, where words count as one; if only words are shown, what they come to at most."""
    counts = tuple(counts)
    if any(isinstance(n, int) for n in counts):
        return rough_count(sum(n if isinstance(n, int) else 1 for n in counts))
    return f"fewer than {len(counts) * (SMALLEST_COUNT - 1) + 1}"


# What of a protection may be shown to outsiders?
#
# Little, and nothing exact. Of few swaps only that there were few: whatever else is said about them helps to find them.


POSSIBILITY = (
    "Combinations of values that look impossible may occur in the release: a rule that kept them out would void the guarantee."
)
"""Replaces what the internal edition says about such combinations in a formal release."""


def few_changes(swap: SwapSummary | None) -> bool:
    """Whether so little was changed that it could be found by comparing numbers of the original with the released file."""
    if swap is None:
        return False
    changed = swap.swapped if swap.formal is None else swap.formal.records_changed
    return not isinstance(changed, int) or changed < FEW


def blanked_values(swap: SwapSummary | None) -> SuppressionSummary | None:
    """That values were blanked, without how many; the file shows the rest."""
    if swap is None or not (
        (swap.suppression is not None and swap.suppression.values != 0)
        or any(target.blanked for target in swap.attribute_targets)
    ):
        return None
    return SuppressionSummary(records=NOT_SHOWN, values=NOT_SHOWN, sentence="Some values were blanked.")


def _formal(swap: SwapSummary, formal: FormalSummary) -> SwapSummary:
    """What a formal release actually did stays inside; only the risk and what follows from invariants goes out."""
    return SwapSummary(
        requested=shown(swap.requested),
        swapped=NOT_SHOWN,
        values_changed=NOT_SHOWN,
        risk_before=_expectations(swap.risk_before),
        risk_after=_expectations(swap.risk_after),
        margins_identical=swap.margins_identical,
        keeps_model=swap.keeps_model,
        intruders=_expected_of(swap.intruders),
        margins=swap.margins,
        formal=replace(formal, records_changed=None, uniques_changed=None, possibility=formal.possibility and POSSIBILITY),
    )


def external_swap(swap: SwapSummary) -> SwapSummary:
    if swap.formal is not None:
        return _formal(swap, swap.formal)
    if few_changes(swap) or not isinstance(swap.swapped, int) or not isinstance(swap.values_changed, int):
        return SwapSummary(
            requested=HIDDEN_FEW if isinstance(swap.requested, int) and swap.requested < FEW else rough_shown(swap.requested),
            swapped=HIDDEN_FEW,
            values_changed=NOT_SHOWN,
            risk_before=_expectations(swap.risk_before, of_highest=1),
            risk_after=_expectations(swap.risk_after, of_highest=1),
            intruders=_expected_of(swap.intruders),
            margins_identical=swap.margins_identical,
            keeps_model=swap.keeps_model,
            margins=swap.margins,
            suppression=blanked_values(swap),
            released=swap.released and _released(swap.released),
        )
    # A number of swapped records close to the number requested would reveal that few were not swapped.
    hides_failures = isinstance(swap.requested, int) and swap.requested - swap.swapped < SMALLEST_COUNT
    return SwapSummary(
        requested=rough_shown(swap.requested),
        swapped="all or nearly all" if hides_failures else rough_shown(swap.swapped),
        not_swapped=() if hides_failures else _merged_reasons(swap.not_swapped),
        values_changed=rough_shown(swap.values_changed),
        share_changed=None if swap.share_changed is None else rough_up(swap.share_changed, 1),
        # How far values moved would help to undo the swaps.
        mean_distance=None,
        first_found_mean_distance=None,
        risk_before=_expectations(swap.risk_before),
        risk_after=_expectations(swap.risk_after),
        intruders=_expected_of(swap.intruders),
        exposed=None if swap.exposed is None else rough_shown(swap.exposed),
        margins_identical=swap.margins_identical,
        keeps_model=swap.keeps_model,
        margins=swap.margins,
        hellinger={
            order: replace(part, mean=rough_up(part.mean, 1), max=rough_up(part.max, 1)) for order, part in swap.hellinger.items()
        },
        pmse=None if swap.pmse is None else rough_up(swap.pmse, 1),
        pmse_ratio=None if swap.pmse_ratio is None else rough_up(swap.pmse_ratio),
        associations=tuple(
            replace(row, before=rough_change(row.before), after=rough_change(row.after), moved=None)
            for row in swap.associations
            if row.moved is not None and row.moved >= FEW
        ),
        file=None if swap.file is None else replace(swap.file, largest=rough_up(swap.file.largest, 1), means=()),
        frontier=_frontier(swap.frontier),
        suppression=blanked_values(swap),
        released=swap.released and _released(swap.released),
    )


def _released(state: ReleasedState) -> ReleasedState:
    """How many records are unique in the released file, which anybody can count there, and how sure the estimates are."""
    return ReleasedState(
        sample_uniques=shown(state.sample_uniques),
        interval=_rough_ends(state.interval),
        interval_correct_matches=_rough_ends(state.interval_correct_matches),
    )


def _expected_of(intruders: Sequence[IntruderSummary]) -> tuple[IntruderSummary, ...]:
    """Intruders whose numbers are expected under the model; what a participant finds is a count of records of the file."""
    return tuple(
        replace(
            intruder,
            before=rough_up(intruder.before),
            after=rough_up(intruder.after),
            interval_before=_rough_ends(intruder.interval_before),
            interval_after=_rough_ends(intruder.interval_after),
            swapped=None,
            true_before=None,
            true_after=None,
            estimated_before=None,
            estimated_after=None,
            persons_before=None if intruder.persons_before is None else rough_up(intruder.persons_before),
            persons_after=None if intruder.persons_after is None else rough_up(intruder.persons_after),
            persons_certain=None if intruder.persons_certain is None else rough_up(intruder.persons_certain),
            highest=None,
            highest_risk=None,
            sure=(),
        )
        for intruder in intruders
        if intruder.name not in ("participant", "assignment")
    )


def _rough_ends(ends: tuple[float, ...]) -> tuple[float, ...]:
    return rough_interval((ends[0], ends[1])) if len(ends) == 2 else ()


def _frontier(points: Sequence[FrontierSummary]) -> tuple[FrontierSummary, ...]:
    """One point for each rounded number of values, without the first few swaps."""
    rounded_points = {
        rough_count(point.values_changed): replace(
            point,
            values_changed=rough_count(point.values_changed),
            expected_population_uniques=rough_up(point.expected_population_uniques),
            expected_correct_matches=None,
            highest=None,
        )
        for point in points
        if point.values_changed == 0 or point.values_changed >= 2 * FEW
    }
    return tuple(rounded_points.values())


def _expectations(risk: RiskNumbers, of_highest: int = 2) -> RiskNumbers:
    """Expected numbers, and the highest risk to ``of_highest`` digits."""
    return RiskNumbers(
        expected_population_uniques=rough_up(risk.expected_population_uniques),
        expected_correct_matches=rough_up(risk.expected_correct_matches),
        highest=min(1.0, rough_up(risk.highest, of_highest)),
        family_records=None if risk.family_records is None else rough_up(risk.family_records),
        household_links=None if risk.household_links is None else rough_up(risk.household_links),
    )


def _merged_reasons(reasons: Sequence[NotSwapped]) -> tuple[NotSwapped, ...]:
    """Merge reasons with few records into one line, adding a further reason if that line would itself be small."""
    shown = sorted(reasons, key=lambda reason: -reason.records)
    other = 0
    while shown and (is_small(shown[-1].records) or is_small(other)):
        other += shown.pop().records
    exact = (*shown, NotSwapped(reason="other reasons", records=other)) if other else tuple(shown)
    return tuple(replace(reason, records=rough_count(reason.records)) for reason in exact if not is_small(reason.records))


# How is a count written that must not be known exactly?


SMALLEST_COUNT = 3
"""Counts below this, except zero, are not shown outside."""

HIDDEN = f"fewer than {SMALLEST_COUNT}"
"""Written instead of a small count."""

NOT_SHOWN = "not shown"

FEW = 10
"""Fewer swaps than this, or moved values of a key, could be reconstructed from what is reported about them."""

HIDDEN_FEW = f"fewer than {FEW}"


def is_small(count: object) -> bool:
    return isinstance(count, int) and not isinstance(count, bool) and 0 < count < SMALLEST_COUNT


def shown(count: Count) -> Count:
    """A count that anybody can take from the file itself, or words if it is small."""
    return HIDDEN if is_small(count) else count


def rough_shown(count: Count) -> Count:
    """A rounded count of something the file itself no longer shows; words if it is small or zero."""
    if not isinstance(count, int) or isinstance(count, bool):
        return count
    return HIDDEN if count < SMALLEST_COUNT else rough_count(count)


def risk_shown(count: Count) -> Count:
    """The same for a count that is a risk: it does not look better than it is."""
    if isinstance(count, int) and not isinstance(count, bool) and count >= SMALLEST_COUNT:
        return rough_count_up(count)
    return rough_shown(count)

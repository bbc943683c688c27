"""What can be changed so that nobody is recognised and the statistics stay true?

Assess the file, make a release, judge it, write it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rarecell.data.names import names_in
from rarecell.data.treatment_text import DROP
from rarecell.errors import BadInput, UnknownColumns
from rarecell.intruder.nearest import MovedLinks
from rarecell.intruder.residual_risk import RiskAfter, risk_after
from rarecell.machine.threads import side_by_side
from rarecell.outcome.profile import DEFAULT, Profile
from rarecell.outcome.records import RemainingRecord
from rarecell.outcome.release import ReleaseSummary
from rarecell.outcome.roles import AttributeTarget, GroupRisk
from rarecell.outcome.swap import IntruderSummary, KeptMargin, SwapSummary
from rarecell.outcome.verdict import judged
from rarecell.outcome.words import counted, number, verb
from rarecell.progress import SILENT, Progress, Stage, Stages
from rarecell.release.release import Release
from rarecell.run import files, formal, swaps
from rarecell.run.after import (
    attributes_after,
    columns_left_behind,
    compared_with_earlier,
    groups_of,
    interval_after,
    left_at_risk,
    most_affected,
    released_state,
    role_columns,
    scenarios_after,
    together_after,
    together_before,
)
from rarecell.run.also_known import with_beyond
from rarecell.run.assess import assessed
from rarecell.run.beside_keys import Treated, around_keys, treated_columns
from rarecell.run.blanking import after_blanking, intruders_after_blanks, risk_left, suppressed, suppression_summary
from rarecell.run.config import PARTICIPANTS, ProtectConfig, RunConfig, as_config, takes_options
from rarecell.run.households import (
    HouseholdTrials,
    household_intruders,
    household_question,
    links_of_households,
    refuse_broken,
    refuse_put_together,
)
from rarecell.run.inputs import inputs_of
from rarecell.run.results import Assessment, Protection
from rarecell.run.sensitive import within_limits
from rarecell.run.utility import compared_analyses, file_utility, travelling, weighted_tables, with_raked_weights
from rarecell.swap.apply import MarginCheck, checked_margins
from rarecell.swap.families import FamilyPlan
from rarecell.swap.formal.release import FormalRelease
from rarecell.swap.plan import SwapPlan
from rarecell.swap.summary import first_found_distance, swap_summary
from rarecell.swap.target import frontier

if TYPE_CHECKING:
    from rarecell.edges import Columns, Frame


@takes_options("protect")
def protect(
    data: Frame,
    *,
    frame: Frame = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    progress: Progress = SILENT,
    **options: Any,
) -> Protection:
    """Assess a file, swap values of its risky records, and check that every kept margin is unchanged.

    Takes the parameters of :func:`rarecell.assess` and the fields of :class:`ProtectConfig`: ``risk_above``, ``top``, ``keep``,
    ``never_swap``, … The protected file is written to ``out`` in the format of the input, with partners chosen by a secret number.
    Without ``out`` nothing is written, ``Protection.frame`` has the protected data, and partners are chosen by ``seed``, so that a
    script can be repeated: give a ``swap_seed`` that nobody knows if that frame is released.

    Returns
    -------
    Protection
        The plan of swaps, and the risk before and after.

    Examples
    --------
    >>> import rarecell as rc
    >>> from rarecell import datasets
    >>> done = rc.protect(datasets.census_sample(), keys=["age", "sex", "marital"], population=277_677, top=5)
    >>> done.summary.swap.margins_identical
    True
    """
    config, frames = as_config(data, frame, options)
    config = swaps.with_earlier_seed(config, is_seed_given="seed" in options)
    if out is not None and "seed" not in options:
        config = swaps.with_secret_seed(config)
    config, request = as_released(with_choice(config))
    stages = Stages(progress)
    with files.run_folder(out, overwrite, inputs_of(config, frames.data)) as folder:
        assessment = assessed(config, stages, frames, request=request)
        result = protected(request, assessment, stages)
        if folder is not None:
            files.write_protection(folder, result, stages)
            files.publish(folder, "protect", assessment, stages)
    return result


def with_choice(config: RunConfig) -> RunConfig:
    """The same run; if it does not say which records to protect, those whose risk is above what its profile accepts."""
    request = config.protect or ProtectConfig()
    if request.chooses_records:
        return config
    limit = Profile.named(config.profile or DEFAULT).max_record_risk
    return replace(config, protect=replace(request, risk_above=config.threshold if limit is None else limit))


def as_released(config: RunConfig) -> tuple[RunConfig, ProtectConfig]:
    """The run as it judges a release, and what it is to protect.

    Without their number nobody knows households, and whoever has the released file cannot compare a key that it lacks.
    """
    config = _without_keys(config)
    request = choosing(config)
    return (replace(config, households_known="no") if request.unlink else config), request


def _without_keys(config: RunConfig) -> RunConfig:
    """The run without the keys that are left out of the released file, whatever it says about them."""
    assert config.protect is not None, "a run that protects has a choice"
    dropped = config.protect.leave_out
    if not dropped:
        return config
    kept = tuple(key for key in config.keys if key not in dropped)
    if not kept:
        raise BadInput("Every key is to be left out, so that nothing could be compared with a register. Keep one of them.")
    protect = replace(
        config.protect,
        treat={**config.protect.treat, **dict.fromkeys(dropped, DROP)},
        never_swap=tuple(key for key in config.protect.never_swap if key not in dropped),
        keep=tuple(names for names in config.protect.keep if not set(names) & set(dropped)),
        blank=tuple(key for key in config.protect.blank if key not in dropped),
    )
    return replace(
        config,
        keys=kept,
        protect=protect,
        recode={key: how for key, how in config.recode.items() if key not in dropped},
        coding={key: how for key, how in config.coding.items() if key not in dropped},
        hierarchies={key: how for key, how in config.hierarchies.items() if key not in dropped},
    )


def choosing(config: RunConfig) -> ProtectConfig:
    """What the run is to protect, and how; an error if that cannot be done."""
    assert config.protect is not None, "a run that protects has a choice"
    if config.protect.formal:
        formal.refuse_what_voids(config.protect)
    if config.protect.blank and not config.protect.suppress_rest and config.protect.k is None:
        raise BadInput("--blank names keys whose values may be blanked; give --suppress-rest or --k as well.")
    if config.protect.against is not None and not config.protect.has_target:
        raise BadInput("--against says whom a target is meant against; give --max-correct-links or --max-record-risk as well.")
    if config.protect.against in PARTICIPANTS and config.protect.max_population_uniques is not None:
        raise BadInput(
            "Population uniques are counted in the population; somebody who knows that a person is in the file needs none. Give "
            "--max-correct-links or --max-record-risk instead."
        )
    no_keys = [name for name in config.protect.blank if name not in config.keys]
    if no_keys:
        raise UnknownColumns.among(no_keys, list(config.keys), role="key")
    if not config.protect.unlink:
        return config.protect
    if config.household is None:
        raise BadInput("--unlink drops the household number; name its column with --household.")
    dropped = dict.fromkeys(names_in(config.household), DROP)
    return replace(config.protect, treat={**config.protect.treat, **dropped})


@dataclass(frozen=True, eq=False)
class Draft:
    """A release that was made and compared with what had to stay the same; not yet judged or written.

    ``columns`` are those outside the keys whose association with swapped keys is reported, ``around`` what stands beside the keys,
    ``targets`` what groups were to give away at most about sensitive columns.
    """

    plan: SwapPlan | FormalRelease
    release: Release
    margins: tuple[MarginCheck, ...]
    columns: Columns
    treated: Treated
    around: ReleaseSummary
    targets: tuple[AttributeTarget, ...] = ()


def protected(request: ProtectConfig, assessment: Assessment, stages: Stages) -> Protection:
    """Make a release of an assessed file, and judge it."""
    if assessment.undeclared is not None and request.treat.get(assessment.undeclared) != DROP:
        raise BadInput(
            f'{household_question(assessment.undeclared)} Or leave it out of the release (--treat "{assessment.undeclared}=drop"). Nothing was written.'
        )
    return _formally_protected(request, assessment, stages) if request.formal else _swapped(request, assessment, stages)


def _swapped(request: ProtectConfig, assessment: Assessment, stages: Stages) -> Protection:
    """Swap values of the records asked for, and blank what swaps leave at risk if that was asked for as well."""
    with stages.stage(Stage.PLAN):
        planned = swaps.planned_within(request, assessment, stages.progress)
        plan = planned.plan
        links = planned.links(swaps.reporting_register(assessment))
        risk = swaps.risk_as_known(assessment)
        before_blanks = risk_after(risk, plan.release, links)
        release = plan.release.with_blanks(suppressed(request, assessment, plan, before_blanks, stages.progress))
        after = after_blanking(before_blanks, release)
    with stages.stage(Stage.MARGINS):
        margins = (*checked_margins(plan), *planned.tables)
        refuse_broken(assessment, plan.release, request.cluster)
    with stages.stage(Stage.COST):
        draft = _draft(request, assessment, plan, release, margins)
        unlinked = refuse_put_together(assessment, plan, draft.treated, request.accept_leak) if request.unlink else ""
        households = None if request.unlink else links_of_households(assessment, plan.release)
        together = together_after(assessment, draft.release, after, None if households is None else households[0].nearest)
        swap = _judged_swaps(request, assessment, planned, draft, links, (before_blanks, after), households, together)
        swap = with_beyond(swap, assessment, draft.release, draft.columns, draft.treated, plan.task.distances)
        remaining, riskiest = left_at_risk(assessment, plan, after, together)
        swap = replace(swap, remaining=remaining)
        before = together_before(assessment.known_families, risk)
        columns = role_columns(assessment.data, assessment.config, risk)
        groups = groups_of(risk, draft.release, after, columns, (before, together))
    notes = (*_fewer_than_asked_for(request, assessment, plan), *planned.notes, *([unlinked] if unlinked else []))
    return _protection(assessment, draft, swap, notes, stages, groups=groups, riskiest=riskiest)


def _formally_protected(request: ProtectConfig, assessment: Assessment, stages: Stages) -> Protection:
    """Change records at random, with a stated ε."""
    with stages.stage(Stage.PLAN):
        formal_release = formal.released(request, assessment, stages.progress)
    with stages.stage(Stage.MARGINS):
        margins = checked_margins(formal_release)
    with stages.stage(Stage.COST):
        draft = _draft(request, assessment, formal_release, formal_release.release, margins)
        swap = formal.summarised(formal_release, assessment, draft.columns, margins)
        swap = replace(
            swap, file=file_utility(assessment, formal_release.release, limit=request.max_change, treated=draft.treated)
        )
    return _protection(assessment, draft, swap, formal.notes(request), stages, groups=assessment.summary.groups)


def _draft(
    request: ProtectConfig,
    assessment: Assessment,
    plan: SwapPlan | FormalRelease,
    release: Release,
    margins: tuple[MarginCheck, ...],
) -> Draft:
    """Add to a release what happens beside its keys: columns that travel, treated and blanked columns, and what these give away."""
    treated = treated_columns(assessment.data, request.treat, seed=swaps.seed_of(assessment.config, request))
    beside = swaps.other_columns(assessment.data, release)
    columns = {name: column for name, column in beside.items() if name not in treated.dropped}
    if isinstance(plan, SwapPlan):
        release = release.with_travel(travelling(request, assessment, release, columns))
    if request.rake:
        treated = with_raked_weights(assessment, release, treated, seed=swaps.seed_of(assessment.config, request))
    around = around_keys(request, assessment.data, release, treated)
    seed = swaps.seed_of(assessment.config, request)
    untouched = swaps.untouched_records(plan.task) if isinstance(plan, SwapPlan) else None
    release, targets = within_limits(request, assessment, release, untouched=untouched, seed=seed)
    return Draft(plan, release, margins, columns, treated, around, targets)


def _protection(
    assessment: Assessment,
    draft: Draft,
    swap: SwapSummary,
    notes: tuple[str, ...],
    stages: Stages,
    *,
    groups: tuple[GroupRisk, ...],
    riskiest: tuple[RemainingRecord, ...] = (),
) -> Protection:
    """The release with its verdict."""
    of_file = assessment.summary
    summary = replace(of_file, swap=swap, notes=(*of_file.notes, *notes), groups=groups, release=draft.around)
    summary = judged(summary, assessment.config.profile)
    return Protection(assessment, draft.plan, draft.release, summary, stages.seconds, riskiest, draft.treated)


def _judged_swaps(
    request: ProtectConfig,
    assessment: Assessment,
    planned: swaps.Planned,
    draft: Draft,
    links: MovedLinks,
    risks_left: tuple[RiskAfter, RiskAfter],
    households: tuple[HouseholdTrials, HouseholdTrials | None] | None,
    together: NDArray[np.float64] | None,
) -> SwapSummary:
    """What the swaps did, what intruders still find, and what it cost.

    ``risks_left`` is the risk that swaps leave, and blanks as well; ``households`` what is found of families, ``together`` the risk of every
    record with its family.
    """
    before_blanks, after = risks_left
    plan, target, risk, release = planned.plan, planned.target, swaps.risk_as_known(assessment), draft.release
    is_planned_singly = planned.places is None and not isinstance(plan, FamilyPlan)
    stay = {
        name: column
        for name, column in draft.columns.items()
        if name not in {*release.columns, *release.hidden, *release.exchanged}
    }

    def cost() -> SwapSummary:
        return swap_summary(
            plan,
            risk,
            columns=stay,
            margins_identical=all(check.is_identical for check in draft.margins),
            first_found_distance=first_found_distance(plan) if is_planned_singly else None,
            frontier=frontier(risk, plan, links) if target is None else target.frontier,
            links=links,
        )

    def judgement() -> tuple[tuple[IntruderSummary, ...], SwapSummary]:
        tried, of_swaps = side_by_side(
            lambda: swaps.intruder_summaries(assessment, plan.release, links, plan.task.distances, planned.shadow), cost
        )
        tried = intruders_after_blanks(tried, release, before_blanks, after)
        return (*tried, *(() if households is None else household_intruders(*households))), of_swaps

    # Only one of the two may read the file, because a connection to an engine answers one question at a time.
    (intruders, of_swaps), interval = side_by_side(judgement, lambda: interval_after(assessment, release, after))
    return replace(
        of_swaps,
        intruders=intruders,
        exposed=int((links.highest[plan.release.moved_alone] >= assessment.config.threshold).sum()),
        risk_after=risk_left(of_swaps.risk_after, release, after),
        margins=tuple(KeptMargin(variables=check.variables, cells=check.n_cells) for check in draft.margins),
        target=None if target is None else swaps.target_summary(request, target),
        keep=swaps.costs_of_keeping(assessment, request) if request.keep and planned.places is None else (),
        places=planned.places,
        keeps_model=planned.places is None,
        affected=most_affected(release),
        weighted=weighted_tables(assessment, plan, draft.treated),
        attributes=attributes_after(assessment, release, draft.targets),
        attribute_targets=draft.targets,
        scenarios=scenarios_after(assessment, release, plan.task.distances),
        carried=tuple(travels.column for travels in release.travel.carried),
        left_behind=columns_left_behind(release),
        analyses=compared_analyses(assessment, release, draft.treated),
        earlier=compared_with_earlier(assessment, release, draft.treated),
        suppression=suppression_summary(request, assessment, release),
        released=released_state(assessment, release, after, interval, intruders, together),
        file=file_utility(assessment, release, limit=request.max_change, treated=draft.treated),
    )


def _fewer_than_asked_for(request: ProtectConfig, assessment: Assessment, plan: SwapPlan) -> list[str]:
    """Explain why ``top`` served fewer records than it named."""
    n = len(plan.requested)
    if request.top is None or n >= request.top:
        return []
    if assessment.roles.scenarios is not None:
        at_risk = f"only {counted(n, 'record')} {verb(n, 'is', 'are')} at risk in a scenario"
        return [f"The {number(request.top)} riskiest records were asked for, but {at_risk}."]
    alone = f"only {counted(n, 'record')} {verb(n, 'is', 'are')} alone in the file with {verb(n, 'its', 'their')} key values"
    return [
        f"The {number(request.top)} riskiest records were asked for, but {alone}. Every other record shares its values with somebody in the "
        "file and cannot be unique in the population."
    ]

"""What can be changed so that nobody is recognised and the statistics stay true?

A protection is an assessment, a plan of swaps, and a check of what had to stay the same.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rarecell.data.names import names_in
from rarecell.data.treatment_text import DROP
from rarecell.errors import BadInput, UnknownColumns
from rarecell.intruder.nearest import MovedLinks
from rarecell.intruder.residual_risk import risk_after
from rarecell.machine.threads import side_by_side
from rarecell.outcome.profile import DEFAULT, Profile
from rarecell.outcome.release import ReleaseSummary
from rarecell.outcome.swap import KeptMargin, SwapSummary
from rarecell.outcome.verdict import judged
from rarecell.outcome.words import counted, number, verb
from rarecell.progress import SILENT, Progress, Stage, Stages
from rarecell.release.release import Release
from rarecell.run import files, formal, swaps
from rarecell.run.after import (
    after_blanking,
    after_formal,
    groups_of,
    interval_after,
    left_at_risk,
    must_stay,
    recounted_tables,
    released_state,
    role_columns,
    suppressed,
    with_aftermath,
    with_interval_of_links,
    with_suppression,
)
from rarecell.run.assess import assessed
from rarecell.run.beside_keys import LeakSearch, Treated, refuse_leaks, told_leaks, told_treatments, treated_columns
from rarecell.run.config import ProtectConfig, RunConfig, as_config, takes_options
from rarecell.run.households import asked_about, links_of_households, refuse_broken, refuse_put_together, told_household
from rarecell.run.inputs import inputs_of
from rarecell.run.results import Assessment, Protection
from rarecell.run.utility import file_utility, travelling
from rarecell.swap.apply import MarginCheck, checked_margins
from rarecell.swap.families import FamilyPlan
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

    Takes the parameters of :func:`assess` and the fields of :class:`ProtectConfig`: ``risk_above``, ``top``, ``keep``,
    ``never_swap``, … The protected file is written to ``out`` in the format of the input; without ``out`` nothing is
    written, and ``Protection.frame`` has the protected data.

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
    config, given = as_config(data, frame, options)
    if out is not None and "seed" not in options:
        config = swaps.with_secret_seed(config)
    config = with_choice(config)
    wanted = choosing(config)
    if wanted.unlink:
        config = replace(config, households_known="no")
    stages = Stages(progress)
    with files.run_folder(out, overwrite, inputs_of(config, given.data)) as folder:
        found = assessed(config, stages, given, wanted=wanted)
        result = protected(wanted, found, stages)
        if folder is not None:
            files.write_protection(folder, result, stages)
            files.publish(folder, "protect", found, stages)
    return result


def with_choice(config: RunConfig) -> RunConfig:
    """The same run; if it does not say which records to protect, those whose risk is above what its profile accepts."""
    wanted = config.protect or ProtectConfig()
    if wanted.chooses_records:
        return config
    limit = Profile.named(config.profile or DEFAULT).max_record_risk
    return replace(config, protect=replace(wanted, risk_above=config.threshold if limit is None else limit))


def choosing(config: RunConfig) -> ProtectConfig:
    """What the run is to protect, and how; an error if that cannot be done."""
    assert config.protect is not None, "a run that protects has a choice"
    if config.protect.formal:
        formal.refuse_what_voids(config.protect)
    if config.protect.blank and not config.protect.suppress_rest:
        raise BadInput("--blank names keys whose values may be blanked; give --suppress-rest as well.")
    no_keys = [name for name in config.protect.blank if name not in config.keys]
    if no_keys:
        raise UnknownColumns.among(no_keys, list(config.keys), role="key")
    if not config.protect.unlink:
        return config.protect
    if config.household is None:
        raise BadInput("--unlink drops the household number; name its column with --household.")
    dropped = dict.fromkeys(names_in(config.household), DROP)
    return replace(config.protect, treat={**config.protect.treat, **dropped})


def protected(wanted: ProtectConfig, found: Assessment, stages: Stages) -> Protection:
    """Plan the swaps for an assessed file, check what had to stay the same, and report the cost."""
    if found.undeclared is not None and wanted.treat.get(found.undeclared) != DROP:
        raise BadInput(
            f'{asked_about(found.undeclared)} Or leave it out of the release (--treat "{found.undeclared}=drop"). Nothing was written.'
        )
    if wanted.formal:
        return _formally_protected(wanted, found, stages)
    with stages.stage(Stage.PLAN):
        planned = swaps.planned_within(wanted, found, stages.progress)
        plan = planned.plan
        links = plan.links(swaps.reporting_register(found))
        risk = swaps.risk_as_known(found)
        after = risk_after(risk, plan.release, links)
        release = plan.release.with_blanks(suppressed(wanted, found, plan, after, stages.progress))
        after = after_blanking(after, release)
    with stages.stage(Stage.MARGINS):
        margins = (*checked_margins(plan), *planned.tables)
        refuse_broken(found, plan)
    with stages.stage(Stage.COST):
        columns = swaps.other_columns(found.data, release)
        release = release.with_travel(travelling(wanted, found, release, columns))
        treated = treated_columns(found.data, wanted.treat, seed=swaps.seed_of(found.config, wanted))
        around = _around(wanted, found, release, treated)
        unlinked = refuse_put_together(found, plan, treated, wanted.accept_leak) if wanted.unlink else ""
        stay = {name: column for name, column in columns.items() if name not in set(release.columns)}
        # Only one of the two may read the file, because a connection to an engine answers one question at a time.
        swap, interval = side_by_side(
            lambda: _told(wanted, found, planned, margins, links, stay), lambda: interval_after(found, release, after)
        )
        swap = with_suppression(
            with_aftermath(swap, found, plan, release),
            release.blanks,
            after,
            must_stay(wanted, found.table),
            recounted_tables(wanted, found, release),
        )
        swap = with_interval_of_links(replace(swap, released=released_state(found, release, after, interval)))
        remaining, riskiest = left_at_risk(found, plan, after)
        swap = replace(swap, remaining=remaining, file=file_utility(found, release, limit=wanted.max_change, treated=treated))
        groups = groups_of(risk, release, after, role_columns(found.data, found.config, risk))
    notes = (*found.summary.notes, *_fewer_than_asked_for(wanted, found, plan), *planned.notes, *([unlinked] if unlinked else []))
    whole = judged(replace(found.summary, swap=swap, notes=notes, groups=groups, release=around), found.config.profile)
    return Protection(found, plan, release, whole, stages.seconds, riskiest, treated)


def _fewer_than_asked_for(wanted: ProtectConfig, found: Assessment, plan: SwapPlan) -> list[str]:
    """Explain why ``top`` served fewer records than it named."""
    n = len(plan.requested)
    if wanted.top is None or n >= wanted.top:
        return []
    if found.roles.scenarios is not None:
        at_risk = f"only {counted(n, 'record')} {verb(n, 'is', 'are')} at risk in a scenario"
        return [f"The {number(wanted.top)} riskiest records were asked for, but {at_risk}."]
    alone = f"only {counted(n, 'record')} {verb(n, 'is', 'are')} alone in the file with {verb(n, 'its', 'their')} key values"
    return [
        f"The {number(wanted.top)} riskiest records were asked for, but {alone}. Every other record shares its values with somebody in the "
        "file and cannot be unique in the population."
    ]


def _formally_protected(wanted: ProtectConfig, found: Assessment, stages: Stages) -> Protection:
    with stages.stage(Stage.PLAN):
        made = formal.released(wanted, found, stages.progress)
    with stages.stage(Stage.MARGINS):
        margins = checked_margins(made)
    with stages.stage(Stage.COST):
        columns = swaps.other_columns(found.data, made.release)
        treated = treated_columns(found.data, wanted.treat, seed=swaps.seed_of(found.config, wanted))
        around = _around(wanted, found, made.release, treated)
        swap = after_formal(formal.told(made, found, columns, margins), found, made.release, columns)
        swap = replace(swap, file=file_utility(found, made.release, limit=wanted.max_change, treated=treated))
    notes = (*found.summary.notes, *formal.notes(wanted))
    whole = judged(replace(found.summary, swap=swap, notes=notes, release=around), found.config.profile)
    return Protection(found, made, made.release, whole, stages.seconds, treated=treated)


def _around(wanted: ProtectConfig, found: Assessment, release: Release, treated: Treated) -> ReleaseSummary:
    """What stands around the keys; columns that restore a key stop the run unless they were accepted by name."""
    searched = LeakSearch.of(found.data, release.before, treated)
    leaks = searched.of_release(release)
    refuse_leaks(leaks, wanted.accept_leak, searched)
    return ReleaseSummary(
        identifiers="renumbered" if set(found.data.household_columns) - treated.dropped else "dropped",
        leaks=told_leaks(leaks, release.before, wanted.accept_leak),
        treatments=told_treatments(found.data, release.before, wanted.treat, treated),
    )


def _told(
    wanted: ProtectConfig,
    found: Assessment,
    planned: swaps.Planned,
    margins: tuple[MarginCheck, ...],
    links: MovedLinks,
    columns: Columns,
) -> SwapSummary:
    plan, target, risk = planned.plan, planned.target, swaps.risk_as_known(found)
    release = plan.release
    is_planned_singly = planned.places is None and not isinstance(plan, FamilyPlan)

    def cost() -> SwapSummary:
        return swap_summary(
            plan,
            risk,
            columns=columns,
            margins_identical=all(check.is_identical for check in margins),
            first_found_distance=first_found_distance(plan) if is_planned_singly else None,
            frontier=frontier(risk, plan, links) if target is None else target.frontier,
            links=links,
        )

    intruders, swap = side_by_side(lambda: swaps.told_intruders(found, release, links, plan.task.distances), cost)
    household = None if wanted.unlink else links_of_households(found, plan)
    if household is not None:
        intruders = (*intruders, told_household(found, *household))
    return replace(
        swap,
        intruders=intruders,
        exposed=int((links.highest[release.moved_alone] >= found.config.threshold).sum()),
        margins=tuple(KeptMargin(variables=check.variables, cells=check.n_cells) for check in margins),
        target=None if target is None else swaps.told_target(wanted, target),
        keep=swaps.costs_of_keeping(found, wanted) if wanted.keep and planned.places is None else (),
        places=planned.places,
        keeps_model=planned.places is None,
    )

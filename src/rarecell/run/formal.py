"""What does a request for a formal release mean, and what would void its guarantee?

A guarantee that holds whatever an intruder knows leaves no room for choices that depend on the records. Options that make
such choices are refused here, each with its reason.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING

from rarecell.choices import ZEROS
from rarecell.errors import BadInput
from rarecell.intruder.nearest import moved_links
from rarecell.outcome.formal import FormalStatement, FormalSummary
from rarecell.outcome.swap import KeptMargin, SwapSummary
from rarecell.outcome.words import listed
from rarecell.progress import Progress
from rarecell.run.after import attributes_after, columns_that_tell, scenarios_after
from rarecell.run.config import FormalConfig, ProtectConfig
from rarecell.run.results import Assessment
from rarecell.run.swaps import intruder_summaries, reporting_register, risk_as_known
from rarecell.run.utility import compared_analyses
from rarecell.swap.apply import MarginCheck
from rarecell.swap.formal.release import FormalRelease, expect_records_at_hand, formal_swaps
from rarecell.swap.summary import release_summary
from rarecell.table.distance import Distances

if TYPE_CHECKING:
    from rarecell.edges import Columns

_CHOOSES = (
    "A formal release changes records at random, because a choice that depends on the records has no finite ε; leave out {}."
)
_REASONS = {
    "records": _CHOOSES,
    "risk_above": _CHOOSES,
    "top": _CHOOSES,
    "cell_probability_below": _CHOOSES,
    "max_population_uniques": _CHOOSES,
    "max_record_risk": _CHOOSES,
    "max_correct_links": _CHOOSES,
    "rules": "A rule about possible combinations makes some releases impossible for some files and so voids the guarantee; leave out {}.",
    "untouched": "Records that nothing may touch would be known to be true, which voids the guarantee; leave out {}.",
    "distances": "Near partners depend on the values exchanged, which voids the guarantee; leave out {}.",
    "weights": "Near partners depend on the values exchanged, which voids the guarantee; leave out {}.",
    "households": "A formal release moves parts of single records, not whole households; leave out {}.",
    "suppress_rest": "Blanking values of chosen records would reveal which they are, which voids the guarantee; leave out {}.",
    "max_sure_links": "Partners chosen against an intruder depend on the values exchanged, which voids the guarantee; leave out {}.",
    "decoys": "A formal release has no chosen records that decoys could hide; leave out {}.",
}


_LOOKED_AT = ("formal", "keep", "within", "never_swap", "swap_seed")
"""Options that are compatible with a formal release, or play no part in it."""

_UNKNOWN = "Nothing is proved about a formal release together with {0}; leave out {0}."


def refuse_what_voids(request: ProtectConfig) -> None:
    """Refuse options under which no ε could be stated, before anything is read."""
    defaults = ProtectConfig()
    for name in (part.name for part in fields(request)):
        if name not in _LOOKED_AT and getattr(request, name) != getattr(defaults, name):
            raise BadInput(_REASONS.get(name, _UNKNOWN).format(f"--{name.replace('_', '-')}"))
    FormalConfig.of(request.formal)


def released(request: ProtectConfig, assessment: Assessment, progress: Progress) -> FormalRelease:
    """Make the formal release that the user asked for."""
    refuse_what_voids(request)
    expect_records_at_hand(assessment.data)
    _refuse_lists_of_zeros(assessment.config.zeros)
    _refuse_margins_outside_cliques(request, assessment)
    formal = FormalConfig.of(request.formal)
    cliques = assessment.config.cliques
    is_named = bool(cliques) and all(name in assessment.table.keys for clique in cliques for name in clique)
    release = formal_swaps(
        assessment.table,
        assessment.model,
        epsilon=formal.epsilon,
        rate=formal.rate,
        root=formal.root,
        rare=formal.rare,
        is_model_chosen=not is_named,
        progress=progress,
    )
    _refuse_narrower_strata(request, release.statement)
    return release


def summarised(
    formal_release: FormalRelease, assessment: Assessment, columns: Columns, margins: tuple[MarginCheck, ...]
) -> SwapSummary:
    """Build the ``swap`` part of the summary; the nearest intruder is tried on the release, as on any other."""
    release = formal_release.release
    register = reporting_register(assessment)
    links = moved_links(register.seen(release), register)
    cost = release_summary(
        release,
        risk_as_known(assessment),
        links,
        columns=columns,
        margins_identical=all(check.is_identical for check in margins),
    )
    return replace(
        cost,
        intruders=intruder_summaries(assessment, release, links),
        margins=tuple(KeptMargin(variables=check.variables, cells=check.n_cells) for check in margins),
        formal=FormalSummary.of(
            formal_release.statement,
            records_changed=len(formal_release),
            uniques_changed=release.n_uniques_changed,
            n_impossible=len(assessment.zeros.combinations),
        ),
        attributes=attributes_after(assessment, release),
        scenarios=scenarios_after(assessment, release, Distances()),
        analyses=compared_analyses(assessment, release),
        left_behind=columns_that_tell(release, columns),
    )


def notes(request: ProtectConfig) -> tuple[str, ...]:
    """Notes for a user who gave a seed."""
    if request.swap_seed is None:
        return ()
    return ("The seed has no effect on the formal release: a seed that somebody knows would void its guarantee.",)


def _refuse_lists_of_zeros(zeros: str) -> None:
    if zeros not in ZEROS:
        raise BadInput(
            "A list of impossible combinations makes some releases impossible for some files and so voids the guarantee; leave out "
            f"--zeros {zeros}."
        )


def _refuse_margins_outside_cliques(request: ProtectConfig, assessment: Assessment) -> None:
    cliques = [set(assessment.table.names_of(assessment.table.close(clique))) for clique in assessment.model.graph.clique_masks]
    outside = [margin for margin in request.keep if not any(set(margin) <= clique for clique in cliques)]
    if outside:
        margins = "; ".join(", ".join(margin) for margin in outside)
        raise BadInput(
            f"--keep {margins} lies in no clique of the model, so a formal release cannot keep it. Name a model with --cliques that has it in "
            "a clique: it is then an invariant, and is stated as one."
        )


def _refuse_narrower_strata(request: ProtectConfig, statement: FormalStatement) -> None:
    for edge in statement.edges:
        beyond = [name for name in request.within if name not in edge.separator]
        if beyond:
            raise BadInput(
                f"--within {listed(beyond)} is more than the separator along which {listed(edge.moved)} moves, and would be a further "
                "invariant that is not stated. Name a model with --cliques that has it in every separator, or leave it out."
            )
    moving = [name for name in request.never_swap if name not in statement.root]
    if moving:
        raise BadInput(
            f"--never-swap {listed(moving)}: only the keys of the root clique, {listed(statement.root)}, stay with their record. Choose "
            "another root with --formal root=…, or leave it out."
        )

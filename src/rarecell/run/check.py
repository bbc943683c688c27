"""May this file go, in one answer for a pipeline?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rarecell.errors import BadInput
from rarecell.outcome.check import Check, Limits, RuleOutcome, check_of
from rarecell.outcome.profile import Profile
from rarecell.progress import SILENT, Progress
from rarecell.run.assess import assess
from rarecell.run.config import RunConfig, takes_options
from rarecell.run.handover import naming_columns, suspicion
from rarecell.run.households import household_question
from rarecell.run.results import Assessment

if TYPE_CHECKING:
    from rarecell.edges import Frame


@takes_options("check")
def check(
    data: Frame,
    *,
    profile: str | Profile | None = None,
    fail_above: float | None = None,
    fail_above_match: float | None = None,
    fail_below: int | None = None,
    progress: Progress = SILENT,
    **options: Any,
) -> Check:
    """Hold a file against a release profile or rules by number.

    Parameters
    ----------
    data : frame, path or RunConfig
        The records, as for :func:`assess`. Nothing is written.
    profile : str or Profile, optional
        ``"public"``, ``"scientific"``, ``"safe-centre"``, ``"clinical"``, the path of a TOML file, or a profile of your own.
    fail_above : float, optional
        The highest risk of a record that is allowed.
    fail_above_match : float, optional
        The highest probability that is allowed for a match with a record to be right.
    fail_below : int, optional
        The least number of records that must share their key values.
    progress : Progress
        Receives the stages as they begin and end, and can stop them.
    **options
        As for :func:`assess`.

    Returns
    -------
    Check
        The verdict, and for each rule what was measured, what is allowed, and whether the file passes.

    Examples
    --------
    >>> import rarecell as rc
    >>> from rarecell import datasets
    >>> done = rc.check(datasets.census_sample(), keys=["sex", "marital"], population=277_677, profile="public")
    >>> done.verdict
    'release'
    >>> [rule.rule for rule in done.rules if not rule.passed]
    []
    """
    limits = Limits(fail_above=fail_above, fail_above_match=fail_above_match, fail_below=fail_below)
    if profile is None and limits == Limits():
        raise BadInput("Name what the file is to be held against: a profile such as 'public', or a limit such as fail_above=0.2.")
    rule = Profile.named(profile) if isinstance(profile, str) else profile
    assessment = assess(data, progress=progress, **options)
    beside_keys = () if rule is None else rules_beside_keys(assessment)
    return check_of(_name_of(data), assessment.summary, profile=rule, limits=limits, beside_keys=beside_keys)


def rules_beside_keys(assessment: Assessment) -> tuple[RuleOutcome, ...]:
    """What stops a release although no number of the run shows it: families that nobody named, and columns that name persons."""
    data, household = assessment.data, assessment.undeclared
    families = RuleOutcome(
        rule="undeclared-household",
        says="no column looks like a household that the run does not name",
        passed=household is None,
        sentence="no column looks like a household that the run does not name."
        if household is None
        else household_question(household),
    )
    names = RuleOutcome(
        rule="names-persons",
        says="no column looks as if it named persons or singled them out",
        passed=True,
        sentence="no column looks as if it named persons or singled them out.",
    )
    if not data.source.keeps_rows:
        unseen = "not looked at: these data are not read row by row."
        return tuple(replace(rule, is_looked_at=False, sentence=unseen) for rule in (families, names))
    suspects = naming_columns(data.source, {*data.keys, *data.id_columns, *data.household_columns, data.weight})
    if suspects:
        remedy = "Leave them out of the file that goes out."
        names = replace(names, is_unsure=True, sentence=f"these {suspicion(suspects)}.", remedy=remedy)
    return families, names


def _name_of(data: Frame) -> str:
    """What to call the data in the answer."""
    if isinstance(data, RunConfig):
        return data.input or "the query"
    return str(data) if isinstance(data, str | Path) else "the frame"

"""May this file go, in one answer for a pipeline?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rarecell.errors import BadInput
from rarecell.outcome.check import Check, Limits, check_of
from rarecell.outcome.profile import Profile
from rarecell.progress import SILENT, Progress
from rarecell.run.assess import assess
from rarecell.run.config import RunConfig, takes_options

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
    summary = assess(data, progress=progress, **options).summary
    return check_of(_name_of(data), summary, profile=rule, limits=limits)


def _name_of(data: Frame) -> str:
    """What to call the data in the answer."""
    if isinstance(data, RunConfig):
        return data.input or "the query"
    return str(data) if isinstance(data, str | Path) else "the frame"

"""Does a file pass the rules that were named on the command line?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rarecell.outcome.summary import RunSummary


def too_risky(summary: RunSummary, options: Mapping[str, Any]) -> Iterator[str]:
    """Why the file does not pass the gates that were asked for, one sentence for each."""
    limit, match, least = (options.get(name) for name in ("fail_above", "fail_above_match", "fail_below"))
    if limit is not None and summary.highest_risk > limit:
        yield f"the highest risk of a record is {summary.highest_risk:.3g}, above the {limit:g} of --fail-above."
    highest = summary.risk.highest_match or 0.0
    if match is not None and highest > match:
        yield f"a match with a record would be right with probability {highest:.3g}, above the {match:g} of --fail-above-match."
    if least is not None and summary.smallest_group < least:
        yield (
            f"some records share their key values with fewer than the {least} records of --fail-below: the smallest number is "
            f"{summary.smallest_group}."
        )

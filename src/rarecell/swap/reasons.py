"""Why is a record left unchanged or at risk, and what can be done about it?"""

from __future__ import annotations

from dataclasses import dataclass

DROPPED = "a key value is missing"
UNTOUCHED = "the constraints rule out any change"
FIXED_BY_MODEL = "the margins of the model fix the count of the cell"
FIXED_BY_KEEP = "the further margins to keep fix the count of the cell"
CONSTRAINED = "no partner satisfies the constraints and leaves vacated cells empty"
NOT_FOUND = "no partner was found among the nearest records"
NO_HOUSEHOLD = "no other household of the same composition is available"
NO_PLACE = "no similar record in another area is left"
TAKEN = "all possible partners take part in other swaps"
EXPOSED = "every partner that was found leaves the person nearest to the new values"
LEFT_ALONE = "the records that shared its values were swapped away"
NOT_ASKED_FOR = "no protection was asked for"

_COARSER = "release a coarser key (--recode) or blank values (--suppress-rest)"
_REMEDIES = {
    UNTOUCHED: f"allow it to be swapped (untouched in run.toml), {_COARSER}",
    FIXED_BY_KEEP: f"keep fewer tables (--keep), {_COARSER}",
    CONSTRAINED: f"allow more partners (--within, --never-swap, rules in run.toml), {_COARSER}",
    NO_HOUSEHOLD: f"swap single records instead of households, {_COARSER}",
    NOT_ASKED_FOR: f"protect more records (a lower --risk-above), {_COARSER}",
}


def remedy(reason: str) -> str:
    """Return what a data steward can do for a record that stays at risk for this reason."""
    return _REMEDIES.get(reason, _COARSER)


@dataclass(frozen=True)
class Unswapped:
    """A chosen record that the plan leaves unchanged, and why."""

    record: int
    reason: str

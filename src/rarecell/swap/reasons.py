"""Why is a record left unchanged or at risk, and what can be done about it?"""

from __future__ import annotations

from dataclasses import dataclass

DROPPED = "a key is missing, so the record is in no cell"
UNTOUCHED = "the constraints say that it is never touched"
FIXED_BY_MODEL = "the margins of the model hold it: no exchange of any records lets it leave its cell"
FIXED_BY_KEEP = "the further margins to keep hold it"
CONSTRAINED = "no partner is allowed by the constraints and leaves vacated cells empty"
NOT_FOUND = "no partner was found among the nearest records"
NO_HOUSEHOLD = "no household of the same composition can take its place"
NO_PLACE = "nobody who is alike and lives in another area is left"
TAKEN = "its possible partners take part in other swaps"
EXPOSED = "its person is still the nearest to its new values; no partner was found with whom it is not"
LEFT_ALONE = "it shared its values with a record that was swapped, and is alone now"
NOT_ASKED_FOR = "it was not among the records to protect"

_COARSER = "release a key coarser (--recode) or blank values of it (--suppress-rest)"
_REMEDIES = {
    UNTOUCHED: f"let it be swapped, {_COARSER}",
    FIXED_BY_KEEP: f"keep fewer tables (--keep), {_COARSER}",
    CONSTRAINED: f"allow more partners (--within, --never-swap, --rules), {_COARSER}",
    NO_HOUSEHOLD: f"swap records in place of households, {_COARSER}",
    NOT_ASKED_FOR: f"protect it, too (a lower --risk-above), {_COARSER}",
}


def remedy(reason: str) -> str:
    """Return what a data steward can do for a record that stays at risk for this reason."""
    return _REMEDIES.get(reason, _COARSER)


@dataclass(frozen=True)
class Unswapped:
    """A chosen record that the plan leaves unchanged, and why."""

    record: int
    reason: str

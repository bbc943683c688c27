"""Why is a record left as it is?"""

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


@dataclass(frozen=True)
class Unswapped:
    """A chosen record that the plan leaves as it is, and why."""

    record: int
    reason: str

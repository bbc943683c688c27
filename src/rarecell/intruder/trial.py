"""What does each intruder find in a file, before and after it was protected?"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rarecell.intruder.household import KNOWS as KNOWS_FAMILIES
from rarecell.intruder.informed import informed_links
from rarecell.intruder.links import Links
from rarecell.intruder.nearest import MovedLinks, exact_links, nearest_links, unmoved_chances
from rarecell.intruder.participant import participant_links
from rarecell.intruder.register import Register
from rarecell.release.release import Release
from rarecell.table.distance import Distances

KNOWS = {
    "exact": "holds a register with the true keys of everybody and links records to persons with the same values",
    "nearest": "holds the same register and links each record to the person whose values are nearest",
    "informed": "holds the same register and also knows how the file was protected: which share of the records moved, and how far",
    "household": KNOWS_FAMILIES,
    "participant": "holds no register, but knows a person's keys and that the person is in this file",
}
"""What each intruder must know."""


@dataclass(frozen=True, eq=False)
class Found:
    """What an intruder finds before and after protection.

    Attributes
    ----------
    name : str
        The intruder.
    before, after : Links
        Links in the original and in the released file.
    """

    name: str
    before: Links
    after: Links

    @property
    def knows(self) -> str:
        """What this intruder must know, to follow "somebody who"."""
        return KNOWS[self.name]

    def __str__(self) -> str:
        return (
            f"Somebody who {self.knows} is expected to be right {self.after.total:,.1f} times, "
            f"{self.before.total:,.1f} times before."
        )


def try_intruders(
    release: Release, register: Register, *, distances: Distances | None = None, moved: MovedLinks | None = None
) -> tuple[Found, ...]:
    """Try every intruder on the original and on the released file.

    Parameters
    ----------
    release : Release
        The original and the released file.
    register : Register
        The people whom an intruder with a register knows.
    distances : Distances, optional
        How far apart levels are; by default, by rank.
    moved : MovedLinks, optional
        The :func:`~rarecell.intruder.nearest.moved_links` of the same release, if already computed.
    """
    release = register.seen(release)
    original = Release.unchanged(release.before)
    exact = exact_links(original, register)
    unmoved = unmoved_chances(release, register)
    nearest = nearest_links(release, register, distances=distances, moved=moved, unmoved=unmoved)
    informed = informed_links(release, register)
    if informed.total < nearest.total:
        # Whoever knows how the file was made can also link to the nearest person, and does so where that finds more.
        informed = replace(nearest, name="informed")
    return (
        Found("exact", exact, exact_links(release, register, unmoved=unmoved)),
        Found("nearest", exact, nearest),
        Found("informed", exact, informed),
        Found("participant", participant_links(original), participant_links(release, distances=distances)),
    )

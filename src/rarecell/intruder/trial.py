"""What does each intruder find in a file, before and after it was protected?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from rarecell.intruder.assignment import assignment_links
from rarecell.intruder.household import KNOWS_FAMILIES, HouseholdLinks
from rarecell.intruder.informed import informed_links
from rarecell.intruder.key_errors import KeyErrors, links_with_errors, shares_of_keys
from rarecell.intruder.links import Links
from rarecell.intruder.nearest import MovedLinks, exact_links, nearest_links, unmoved_chances
from rarecell.intruder.participant import participant_links
from rarecell.intruder.register import Register
from rarecell.intruder.shadow import Learned, shadow_links
from rarecell.outcome.swap import IntruderSummary, SureLinks
from rarecell.release.release import Release
from rarecell.table.contingency import ContingencyTable
from rarecell.table.distance import Distances

_TRUE_REGISTER = "a register with the true keys of everybody"

KNOWS = {
    "exact": "holds {register} and links records to persons with the same values",
    "nearest": "holds the same register and links each record to the person whose values are nearest",
    "informed": "holds the same register and also knows how the file was protected: which share of the records moved, and how far",
    "shadow": (
        "holds the same register and this program, has learned from trial runs all that the moves in this file could teach, and links each "
        "record to the person most likely to have become it"
    ),
    "trained": (
        "holds the same register and this program, has learned from trial runs with the same options on samples of the register, and links "
        "each record to the person most likely to have become it"
    ),
    "household": KNOWS_FAMILIES,
    "household-shadow": (
        "holds a register with the true keys of everybody, knows who lives with whom and has this program, has learned from trial runs all "
        "that the moves in this file could teach, and links each household to the one most likely to have become it"
    ),
    "also-known": "holds a register with the true keys of everybody, links each record to the nearest person and also knows",
    "assignment": "holds every record of this file with its true keys, and matches them with the released ones one to one",
    "participant": "holds no register, but knows a person's keys and that the person is in this file",
}
"""What each intruder must know; ``{register}`` stands for the register that the first one holds."""


@dataclass(frozen=True, eq=False)
class IntruderTrial:
    """What an intruder finds before and after protection.

    Attributes
    ----------
    name : str
        The intruder.
    before, after : Links
        Links in the original and in the released file.
    register : str
        What register the intruder holds, if not one with the true keys.
    """

    name: str
    before: Links
    after: Links
    register: str = ""

    @property
    def knows(self) -> str:
        """What this intruder must know, to follow "somebody who"."""
        return KNOWS[self.name].format(register=self.register or _TRUE_REGISTER)

    def summary(self) -> IntruderSummary:
        """The part of ``summary.json`` about this intruder."""
        return IntruderSummary(
            name=self.name,
            knows=self.knows,
            before=self.before.total,
            after=self.after.total,
            swapped=self.after.of_moved,
            interval_before=self.before.interval,
            interval_after=self.after.interval,
            distance=self.after.distance,
            sure=tuple(SureLinks(above=links.above, claimed=links.claimed, right=links.right) for links in self.after.sure),
        )

    def __str__(self) -> str:
        return (
            f"Somebody who {self.knows} is expected to be right {self.after.total:,.1f} times, "
            f"{self.before.total:,.1f} times before."
        )


def try_intruders(
    release: Release,
    register: Register,
    *,
    distances: Distances | None = None,
    moved: MovedLinks | None = None,
    key_error: Mapping[str, float] | None = None,
    taught: Learned | None = None,
    shadow: Links | None = None,
    seed: int = 0,
) -> tuple[IntruderTrial, ...]:
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
    key_error : mapping of str to float, optional
        Share of the values of each key that differ between file and register (:func:`~rarecell.intruder.key_errors.shares_of_keys`). The
        exact and the nearest intruder then meet such a register; what the others find is not reduced by it.
    taught : Learned, optional
        What was learned from trial runs of the program (:func:`~rarecell.intruder.shadow.learned`); an intruder who knows just that is
        then tried as well.
    shadow : Links, optional
        The :func:`~rarecell.intruder.shadow.shadow_links` of the same release, if already computed.
    seed : int, optional
        Seed of the registers with errors.
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
    shadow = shadow or shadow_links(release, register)
    if shadow.total < informed.total:
        shadow = at_least(shadow, informed)
    shares = None if not key_error or register.is_real else shares_of_keys(key_error, release.before.keys)
    first: tuple[IntruderTrial, ...]
    if shares is None:
        first = (
            IntruderTrial("exact", exact, exact_links(release, register, unmoved=unmoved)),
            IntruderTrial("nearest", exact, nearest),
        )
    else:
        errors = KeyErrors(release.before, shares)
        sides = zip(
            *(links_with_errors(file, register, errors, distances=distances, seed=seed) for file in (original, release)),
            strict=True,
        )
        first = tuple(
            IntruderTrial(before.name, before, after, f"a register of everybody {errors.words}") for before, after in sides
        )
    trials = (
        *first,
        IntruderTrial("informed", exact, informed),
        IntruderTrial("shadow", exact, shadow),
        *(
            []
            if taught is None
            else [IntruderTrial("trained", exact, replace(shadow_links(release, register, knows=taught), name="trained"))]
        ),
        IntruderTrial("participant", participant_links(original), participant_links(release, distances=distances)),
    )
    if not holds_everybody(release.before, register):
        return trials
    before, after = (assignment_links(each, distances=distances) for each in (original, release))
    return trials if before is None or after is None else (*trials, IntruderTrial("assignment", before, after))


MOST_HOUSEHOLD_CLAIMS = 400
"""If there are more claims than this about households that moved, or that stayed, a random part of them represents all."""


MOST_HOUSEHOLD_KINDS = 256
"""Number of sets of columns that are considered: a household row has many, and is moved by many sets of them."""


def household_shadow(nearest: HouseholdLinks, release: Release, register: Register) -> HouseholdLinks:
    """Links of an intruder who knows families, has the program, and takes the household that most likely became each released one.

    On household rows this is the shadow intruder of records (:mod:`rarecell.intruder.shadow`).

    Parameters
    ----------
    nearest : HouseholdLinks
        What links to the nearest household find; this way is open to somebody with the program, too, and is taken if it finds more.
    release : Release
        The :func:`~rarecell.intruder.household.household_release`.
    register : Register
        The households that the intruder knows, as rows of the same layout.
    """
    after = shadow_links(register.seen(release), register, most_claims=MOST_HOUSEHOLD_CLAIMS, most_kinds=MOST_HOUSEHOLD_KINDS)
    if after.total < nearest.after.total:
        after = at_least(after, nearest.after)
    return HouseholdLinks(nearest.before, replace(after, name="household-shadow"), nearest.size)


def holds_everybody(table: ContingencyTable, register: Register) -> bool:
    """Whether the people an intruder knows are those of the file, so that each of them has exactly one record."""
    if register.unseen is not None:
        return register.unseen.expected_total < 0.5
    people = register.known.table
    return people.n_records == table.n_records and bool((people.counts_of(table.cells) == table.counts).all())


def at_least(shadow: Links, other: Links) -> Links:
    """The links of another intruder, whose way is open to this one, too; how sure links are is what the shadow runs say."""
    certainty = np.zeros(len(other.row))
    place = {row: number for number, row in enumerate(shadow.row.tolist())}
    known = [(number, place[row]) for number, row in enumerate(other.row.tolist()) if row in place]
    if known:
        here, there = (list(part) for part in zip(*known, strict=True))
        certainty[here] = shadow.certainty[there]
    interval = min(other.interval[0], shadow.interval[0]), max(other.interval[1], shadow.interval[1])
    return Links("shadow", other.row, other.link, other.certain, other.moved, interval, certainty=certainty, sure=shadow.sure)

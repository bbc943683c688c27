"""What risk does a release leave, against an intruder?

The intruder links a record to the nearest person. A record that was not swapped and is alone in the released file is linked as
before. A swapped record is tried too: it is linked to its own person if nobody else is nearer to its new values. For a record
that shares its cell of the released file with others, the intruder makes no claim.

An intruder of a scenario sees the release through the keys that it knows: records unchanged in them are linked as before, others to
the nearest person. A record's links depend on its own change alone, so once all are tried, any part of the release is assessed quickly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rarecell.intruder.nearest import MovedLinks, moved_links
from rarecell.intruder.register import Register
from rarecell.release.release import Release
from rarecell.risk.scenarios import ScenarioRisk
from rarecell.table.distance import Distances

if TYPE_CHECKING:
    from rarecell.risk.records import RecordRisk


Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RiskAfter:
    """Risk of the cells of the original table, and of the swapped records, after a release.

    Attributes
    ----------
    counts : array of int
        Number of records in each cell of the original table after the swaps.
    unique_probability : array of float
        P(unique in the population) if the only record of the cell was not swapped; else 0.
    match_probability : array of float
        E(1/F) if the only record of the cell was not swapped; else 0.
    swapped_unique : array of float
        For each row of the release, P(it is linked to its person, and nobody else is as near).
    swapped_link : array of float
        For each row of the release, P(it is linked to its person), by the weight with the most links.
    swapped_highest : array of float
        For each row of the release, the highest such probability over all weights.
    n_sample_uniques : int
        Number of sample uniques of the swapped file, swapped ones included.
    n_vacated : int
        Number of sample uniques of the original file whose cell is empty now.
    n_created : int
        Number of records that were not alone before, were not swapped, and are alone now.
    """

    counts: NDArray[np.int64]
    unique_probability: Floats
    match_probability: Floats
    swapped_unique: Floats
    swapped_link: Floats
    swapped_highest: Floats
    n_sample_uniques: int
    n_vacated: int
    n_created: int

    @property
    def expected_population_uniques(self) -> float:
        """Expected number of records that are linked to their person with nobody else as near."""
        return float(self.unique_probability.sum() + self.swapped_unique.sum())

    @property
    def expected_correct_matches(self) -> float:
        """Expected number of records that are linked to their person."""
        return float(self.match_probability.sum() + self.swapped_link.sum())

    @property
    def highest(self) -> float:
        """Highest risk of a record: of being unique if not swapped, of being linked if swapped."""
        return float(max(self.unique_probability.max(initial=0.0), self.swapped_highest.max(initial=0.0)))

    def n_above(self, threshold: float) -> int:
        """Number of records with at least this risk, which is above 0."""
        return int((self.unique_probability >= threshold).sum() + (self.swapped_highest >= threshold).sum())

    def __str__(self) -> str:
        return (
            f"{self.n_vacated:,} uniques were vacated; {self.expected_correct_matches:,.1f} records are expected to be linked to "
            f"their person, {float(self.swapped_link.sum()):,.1f} of them swapped."
        )


def risk_after(risk: RecordRisk, release: Release, links: MovedLinks) -> RiskAfter:
    """Compute the risk after a release; ``links`` are those of its rows.

    A record's links depend on its own change alone, so those of a whole release hold for any part of it.
    """
    was_alone, is_alone = risk.sample_count == 1, release.unmoved_cells
    # If missing values match anything, a record that is alone in its cell can still be compatible with others.
    is_touched = release.n_left > 0
    is_touched[release.entered_cells] = True
    unique, match = risk.unique_probability.copy(), np.where(was_alone, risk.match_probability, 0.0)
    # In the population, the person of a record that is left alone still shares the cell with the others.
    left = np.flatnonzero(is_touched)
    stays = np.zeros(len(unique), dtype=bool)
    stays[is_alone] = True
    unique[left] = np.where(stays[left], risk.unique_probability[left], 0.0)
    match[left] = np.where(stays[left], risk.match_probability[left], 0.0)
    n_untouched = int((was_alone & ~is_touched).sum())
    claimed = release.moved_alone
    return RiskAfter(
        counts=release.counts,
        unique_probability=unique,
        match_probability=match,
        swapped_unique=np.where(claimed, links.certain, 0.0),
        swapped_link=np.where(claimed, links.link, 0.0),
        swapped_highest=np.where(claimed, links.highest, 0.0),
        n_sample_uniques=n_untouched + int((release.counts[left] == 1).sum()) + release.n_new_uniques,
        n_vacated=int((was_alone & is_touched & (release.counts == 0)).sum()),
        n_created=int((stays & is_touched & ~was_alone).sum()),
    )


class AloneAfter(NamedTuple):
    """Records that an intruder finds alone in a release: row numbers, expected uniques and links, and risk."""

    rows: NDArray[np.int64]
    unique: NDArray[np.float64]
    link: NDArray[np.float64]
    risk: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ScenarioTrial:
    """One intruder, tried on every change of a release.

    Attributes
    ----------
    scenario : ScenarioRisk
        The intruder.
    release : Release
        The release, seen through the keys that this one knows.
    links : MovedLinks
        What is found of its rows.
    """

    scenario: ScenarioRisk
    release: Release
    links: MovedLinks

    @classmethod
    def of(cls, scenario: ScenarioRisk, release: Release, distances: Distances, *, seed: int = 0) -> ScenarioTrial:
        """Try the intruder of ``scenario``, who measures nearness by ``distances``."""
        seen, counts = release.project(scenario.keys, scenario.risk.table), scenario.counts
        if counts is not None:
            register = Register.counted(counts.people, counts.place)
        else:
            assert scenario.model is not None, "an intruder who looks nearby needs a model of the people who were not sampled"
            register = Register.modelled(scenario.risk, scenario.model, seed=seed)
        return cls(scenario, seen, moved_links(register.seen(seen), register, distances=distances.among(scenario.keys)))

    def after(self, rows: NDArray[np.int64] | None = None) -> RiskAfter:
        """The risk that is left if only these records are changed; all of the release by default."""
        if rows is None:
            return risk_after(self.scenario.risk, self.release, self.links)
        chosen = np.isin(self.release.rows, rows)
        return risk_after(self.scenario.risk, self.release.part(chosen), self.links.part(chosen))

    def alone(self) -> AloneAfter:
        """The records that are alone in the release, in the order of the file."""
        after, claimed, cells = self.after(), self.release.moved_alone, self.release.unmoved_cells
        rows = np.concatenate([self.release.unmoved_rows(), self.release.rows[claimed]])
        order = np.argsort(rows, kind="stable")
        unique, link = after.unique_probability[cells], after.match_probability[cells]
        return AloneAfter(
            rows[order],
            np.concatenate([unique, after.swapped_unique[claimed]])[order],
            np.concatenate([link, after.swapped_link[claimed]])[order],
            np.concatenate([unique, after.swapped_highest[claimed]])[order],
        )

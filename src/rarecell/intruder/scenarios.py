"""What does an intruder who knows some of the keys find in a release?

The intruder sees the release through these keys: records unchanged in them are linked as before, others to the nearest person. A
record's links depend on its own change alone, so once all are tried, any part of the release is assessed quickly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rarecell.intruder.nearest import MovedLinks, moved_links
from rarecell.intruder.register import Register
from rarecell.intruder.residual_risk import RiskAfter, risk_after
from rarecell.release.release import Release
from rarecell.risk.scenarios import ScenarioRisk
from rarecell.table.distance import Distances


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

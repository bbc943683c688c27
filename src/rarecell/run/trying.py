"""What would coarser keys change? An answer before anything is run.

The data are read and counted once, with every key as it is. Trying a recoding then needs only counts: its table, a quick model
of the run's kind, the risk, and the information that the keys lose. The numbers before and after come from the same quick model,
so they can be compared with each other; a run fits more carefully.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rarecell.data.coding import Coding, joined_codings
from rarecell.outcome.trial import Trial, TriedKey, TriedRisk
from rarecell.release.costs import OtherColumn, merged_counts, mutual_information
from rarecell.release.ladders import ladder
from rarecell.release.trials import RecodedKey, recoded_by
from rarecell.run import model_choice
from rarecell.run.assessment import read
from rarecell.run.config import RunConfig
from rarecell.run.planning import other_columns
from rarecell.run.strata import with_design_weights
from rarecell.table.contingency import ContingencyTable

if TYPE_CHECKING:
    from rarecell.edges import Frame

N_STEPS = 100
"""Thresholds at which records are counted: 0, 0.01, …, 1."""

MOST_SHOWN = 400
"""Keys with at most this many levels have the records of each level shown."""


class Trials:
    """A file that has been counted once, for trying recodings on."""

    def __init__(self, config: RunConfig, frame: Frame = None) -> None:
        self.config = config
        data = read(replace(config, coding={}, recode={}), frame)
        table = data.table()
        self.table = with_design_weights(data, table, config)
        self.columns: list[OtherColumn] = other_columns(data, table)
        self._offered = {key: tuple(step.words for step in ladder(self.table, key)[1:]) for key in self.table.keys}
        self._risks: dict[tuple[tuple[str, str], ...], TriedRisk] = {}

    def of(self, recode: Mapping[str, str]) -> Trial:
        """Try a recoding, in the words of ``--recode``, on top of the coding in the configuration."""
        coding = joined_codings(self.config.coding, {key: words for key, words in recode.items() if words.strip()})
        codings = {key: Coding.of(given, key=key) for key, given in coding.items()}
        table, keys = recoded_by(self.table, codings)
        return Trial(
            before=self._risk(self.table, ()),
            after=self._risk(table, tuple(sorted((key, repr(coding)) for key, coding in codings.items()))),
            keys=tuple(self._told(key, recode.get(key.key, "")) for key in keys),
            association_kept=_association_kept(self.columns, keys),
        )

    def _told(self, key: RecodedKey, words: str) -> TriedKey:
        is_short = len(key.labels) <= MOST_SHOWN
        return TriedKey(
            key=key.key,
            words=words,
            labels=key.labels if is_short else (),
            counts=tuple(key.counts.tolist()) if is_short else (),
            labels_after=key.labels_after if is_short else (),
            counts_after=tuple(key.counts_after.tolist()) if is_short else (),
            group_of_level=tuple(key.group_of_level.tolist()) if is_short else (),
            n_levels=len(key.labels),
            n_levels_after=len(key.labels_after),
            bits=key.bits[0],
            bits_after=key.bits[1],
            offered=self._offered[key.key],
        )

    def _risk(self, table: ContingencyTable, name: tuple[tuple[str, str], ...]) -> TriedRisk:
        if name not in self._risks:
            fine = model_choice.with_resolutions(table.with_coarsenings(()), self.config.resolution)
            risk = model_choice.risk_of(fine, model_choice.quick_model(fine, self.config, n_orders=1), self.config)
            alone = risk.unique_probability[fine.counts == 1]
            thresholds = np.arange(N_STEPS + 1) / N_STEPS
            at_least = len(alone) - np.searchsorted(np.sort(alone), thresholds, side="left")
            self._risks[name] = TriedRisk(
                sample_uniques=risk.n_sample_uniques,
                expected_population_uniques=risk.expected_population_uniques,
                expected_correct_matches=risk.expected_correct_matches,
                highest=float(alone.max(initial=0.0)),
                at_least=tuple(int(n) for n in at_least),
            )
        return self._risks[name]


def _association_kept(columns: list[OtherColumn], keys: tuple[RecodedKey, ...]) -> float | None:
    """Share of the mutual information between keys and other columns that is left."""
    before = after = 0.0
    for column in columns:
        for key in keys:
            joint = column.joint[key.key]
            before += mutual_information(joint)
            after += mutual_information(merged_counts(joint, key.group_of_level, len(key.labels_after)))
    return after / before if before > 0.0 else None

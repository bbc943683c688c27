"""Why is this record at risk, and what would it take to lower the risk of the file?

For a record: the marginals of the model in which it is rarest, in words, each with as few variables as possible. For the
file: how many population uniques would be left without a key, or with the key at a coarser resolution. From that table
a data steward decides what to recode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rarecell.graph.masks import holds, single
from rarecell.machine.threads import on_all_cores
from rarecell.model.protocol import CellModel
from rarecell.progress import SILENT, Progress, checkpoint
from rarecell.risk.records import RecordRisk
from rarecell.table.contingency import Coarsening, ContingencyTable
from rarecell.table.uniqueness import UniquesOfChanged

LEFT_OUT = "left out"
"""The resolution of a key that is not released at all."""

# A combination is called rare below this share of the records.
_RARE_SHARE = 0.01


@dataclass(frozen=True)
class RareCombination:
    """A combination of values that few records share.

    Attributes
    ----------
    vertices : tuple of str
        Keys or coarsenings, in the table's order.
    values : tuple of str
        The record's value of each, in readable form.
    count : int
        Number of records with these values.
    n_records : int
        Number of records in the file.
    sentence : str
        The same in words.
    """

    vertices: tuple[str, ...]
    values: tuple[str, ...]
    count: int
    n_records: int
    sentence: str

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True)
class RecordExplanation:
    """Why one record is at risk.

    Attributes
    ----------
    record : int
        Position in the file (of the cell, when the table was built from counts).
    cell : int
        Its cell in the table.
    cell_probability, unique_probability, match_probability : float
        As in :class:`~rarecell.risk.records.RecordRisk`.
    reasons : tuple of RareCombination
        The marginals of the model in which the record is rarest, rarest first.
    """

    record: int
    cell: int
    cell_probability: float
    unique_probability: float
    match_probability: float
    reasons: tuple[RareCombination, ...]

    def __str__(self) -> str:
        because = " ".join(reason.sentence for reason in self.reasons)
        return (
            f"Record {self.record + 1} (counted from 1) is unique in the population with probability {self.unique_probability:.3f}; "
            f"the model gives its combination of values a probability of {self.cell_probability:.2e}. {because}"
        )


@dataclass(frozen=True)
class KeyCost:
    """What the file's risk would be with one key left out or coarsened.

    Attributes
    ----------
    key : str
        The key.
    resolution : str
        Name of the coarsening it is replaced by, or ``"left out"``.
    n_levels : int
        Number of levels the key would have; 1 when it is left out.
    n_sample_uniques : int
        Sample uniques that would remain.
    expected_population_uniques : float
        τ1 that would remain.
    baseline : float
        τ1 of the file as it is.
    coarsening : Coarsening or None
        The groups that the key would be released in; None when it is left out.
    """

    key: str
    resolution: str
    n_levels: int
    n_sample_uniques: int
    expected_population_uniques: float
    baseline: float
    coarsening: Coarsening | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        how = LEFT_OUT if self.resolution == LEFT_OUT else f"coarsened to {self.resolution} ({self.n_levels} levels)"
        return (
            f"With {self.key} {how}, {self.expected_population_uniques:,.1f} population uniques are expected instead of "
            f"{self.baseline:,.1f}, and {self.n_sample_uniques:,} records are unique in the sample."
        )


def explain_records(
    risk: RecordRisk, model: CellModel, records: Sequence[int] | NDArray[np.int64], *, n_reasons: int = 3
) -> tuple[RecordExplanation, ...]:
    """Say in which marginals of the model each record is rarest.

    Parameters
    ----------
    risk : RecordRisk
        The risk of the file.
    model : CellModel
        A model of its cells, whose generators are examined; for an average, those of every member.
    records : sequence of int
        Positions of the records, such as ``risk.riskiest(20)``.
    n_reasons : int, optional
        Largest number of reasons for each record.

    Returns
    -------
    tuple of RecordExplanation
        In the order of ``records``.
    """
    rows = np.asarray(records, dtype=np.int64)
    cells = risk.table.cell_of(rows)
    explanations = []
    for row, cell in zip(rows.tolist(), cells.tolist(), strict=True):
        explanations.append(
            RecordExplanation(
                row,
                cell,
                float(np.exp(risk.log_population_share[cell])),
                float(risk.unique_probability[cell]),
                float(risk.match_probability[cell]),
                reasons_of_cell(model, cell, n_reasons=n_reasons),
            )
        )
    return tuple(explanations)


def reasons_of_cell(model: CellModel, cell: int, *, n_reasons: int = 3) -> tuple[RareCombination, ...]:
    """The marginals of a model in which a cell is rarest, rarest first."""
    table = model.table
    generators = {table.reduce(mask) for mask in _generators(model)}
    masks = {_smallest_equivalent(table, mask, cell) for mask in generators}
    ranked = sorted((_count(table, mask, cell), mask.bit_count(), mask) for mask in masks)
    return tuple(_reason(table, mask, cell) for _, _, mask in ranked[:n_reasons])


def key_costs(
    table: ContingencyTable,
    evaluate: Callable[[ContingencyTable], float],
    *,
    evaluate_changed: Callable[[ContingencyTable, str, Coarsening | None], float] | None = None,
    coarsenings: Iterable[Coarsening] | None = None,
    baseline: float | None = None,
    part: ContingencyTable | None = None,
    progress: Progress = SILENT,
) -> tuple[KeyCost, ...]:
    """Expected population uniques without each key, and with it at each coarser resolution.

    Parameters
    ----------
    table : ContingencyTable
        The file as it is.
    evaluate : callable
        Takes a table and returns its τ1; it selects and fits a model anew, because fewer levels allow more interactions.
    evaluate_changed : callable, optional
        Does the same for a changed table; it also takes the key that was changed, and its coarsening, or None if it was left out.
        So it can use what it learnt from the unchanged table. It is called from several threads. By default, ``evaluate``.
    coarsenings : iterable of Coarsening, optional
        Resolutions to try; by default those of the table.
    baseline : float, optional
        τ1 of the file as it is, if already known.
    part : ContingencyTable, optional
        The file, or a random part of a large one from :func:`~rarecell.table.subsample.random_part`. τ1 is compared on it, and
        that of the file is taken to change in proportion. Needed when ``baseline`` does not come from ``evaluate``.
    progress : Progress, optional
        Notified of each evaluation.

    Returns
    -------
    tuple of KeyCost
        By key in the table's order; within a key, finer resolutions first and leaving it out last.
    """
    offered = list(table.coarsenings if coarsenings is None else coarsenings)
    trials: list[tuple[str, Coarsening | None]] = []
    for key in table.keys:
        of_key = sorted((c for c in offered if c.key == key), key=lambda c: -c.n_levels)
        trials.extend((key, coarsening) for coarsening in of_key)
        if table.n_keys > 1:
            trials.append((key, None))

    stage = "What each key costs"
    progress.start(stage, len(trials) + (baseline is None))
    as_it_is = baseline
    if as_it_is is None:
        as_it_is = evaluate(table)
        checkpoint(progress, stage, 1)
    compared, scale = table, 1.0
    if part is not None:
        of_part = evaluate(part)
        compared, scale = part, as_it_is / of_part if of_part > 0.0 else table.n_records / part.n_records
    uniques_of = None if compared is table else UniquesOfChanged(table)

    def estimates(key: str, coarsening: Coarsening | None) -> tuple[int, float]:
        changed = _changed(compared, key, coarsening)
        n_uniques = changed.size_indices.get(1, 0) if uniques_of is None else uniques_of.count(key, coarsening)
        uniques = evaluate(changed) if evaluate_changed is None else evaluate_changed(changed, key, coarsening)
        checkpoint(progress, stage, 1)
        return n_uniques, scale * uniques

    estimated = [estimates(*trial) for trial in trials] if evaluate_changed is None else on_all_cores(estimates, trials)
    costs: list[KeyCost] = []
    for (key, coarsening), (n_uniques, uniques) in zip(trials, estimated, strict=True):
        resolution, n_levels = (LEFT_OUT, 1) if coarsening is None else (coarsening.name, coarsening.n_levels)
        # Less detail cannot make anybody unique, so an estimate above that of the finer file is an estimation error.
        finer = costs[-1].expected_population_uniques if costs and costs[-1].key == key else as_it_is
        costs.append(KeyCost(key, resolution, n_levels, n_uniques, min(uniques, finer), as_it_is, coarsening))
    progress.done()
    return tuple(costs)


def _changed(table: ContingencyTable, key: str, coarsening: Coarsening | None) -> ContingencyTable:
    """The table with a key coarsened, or left out."""
    if coarsening is None:
        return table.project([other for other in table.keys if other != key])
    return table.recode(coarsening)


def _generators(model: CellModel) -> tuple[int, ...]:
    return tuple(mask for member in model.members for mask in _generators(member)) or model.generator_masks


def _count(table: ContingencyTable, mask: int, cell: int) -> int:
    return int(table.marginals.at_cell(mask, cell)) if mask else table.n_records


def _smallest_equivalent(table: ContingencyTable, mask: int, cell: int) -> int:
    """Drop, one after another, the vertices without which no more records would agree with the cell."""
    count = _count(table, mask, cell)
    for vertex in range(table.n_vertices):
        without = mask & ~single(vertex)
        if without and without != mask and _count(table, without, cell) == count:
            mask = without
    return mask


def _reason(table: ContingencyTable, mask: int, cell: int) -> RareCombination:
    count = _count(table, mask, cell)
    names, values, phrases = [], [], []
    for vertex in range(table.n_vertices):
        if not holds(mask, vertex):
            continue
        code = int(table.map_cells(table.cells[cell : cell + 1], vertex)[0])
        key = table.keys[table.vertex_key[vertex]]
        if vertex < table.n_keys:
            value = table.categories[vertex].shown[code]
            phrases.append(f"{key} = {value}")
        else:
            value = table.coarsenings[vertex - table.n_keys].labels[code]
            # A group of one level is called what the level is called.
            levels = table.categories[table.vertex_key[vertex]]
            if value in levels.labels:
                value = levels.shown[levels.labels.index(value)]
                phrases.append(f"{key} = {value}")
            else:
                phrases.append(f"{key} in {value}")
        names.append(table.vertex_names[vertex])
        values.append(value)
    listed = " and ".join(phrases) if len(phrases) < 3 else f"{', '.join(phrases[:-1])} and {phrases[-1]}"
    only = "Only " if count <= _RARE_SHARE * table.n_records else ""
    verb = "has" if count == 1 else "have"
    sentence = f"{only}{count:,} of {table.n_records:,} records {verb} {listed}."
    return RareCombination(tuple(names), tuple(values), count, table.n_records, sentence)

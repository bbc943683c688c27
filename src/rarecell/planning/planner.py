"""Which recodings, with swaps for what remains, reach a target, and which of them cost least?

Every key has a ladder of coarser levels. A candidate takes one step of each ladder; its table is the original one with
levels merged, so the file is not read again. Models are fitted to that table, records are swapped until the target is met,
and the costs are counted. The frontier holds the candidates that no other beats in both information and changed records.

If there are few candidates, all are evaluated. If there are many, the sample uniques of the most promising ones are counted,
step by step, and those that leave the fewest uniques for the information they lose are evaluated, up to a given number.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rarecell.data.likeness import Likeness
from rarecell.engine.streaming import NamesOfRecords
from rarecell.errors import BadInput
from rarecell.intruder.register import CELLS_TO_PLAN, MOST_CELLS, Register
from rarecell.model.protocol import CellModel
from rarecell.outcome.plain import Shown
from rarecell.outcome.planned import WAYS, RefusedWay, ReleasePoint
from rarecell.outcome.words import counted, verb
from rarecell.planning.recodings import (
    OtherColumn,
    RecodingStep,
    association_kept,
    bits_lost,
    entropy,
    key_counts,
    ladders,
    recoded,
    relation_moved,
)
from rarecell.progress import SILENT, OnlyCancelled, Progress, checkpoint
from rarecell.release.means import KeyInBothFiles, mean_changes
from rarecell.release.utility import BothFiles, hellinger_distances
from rarecell.risk.records import RecordRisk
from rarecell.swap.plan import SwapPlan
from rarecell.swap.rules import SwapConstraints
from rarecell.swap.sure_links import with_few_sure_links
from rarecell.swap.target import SwapTarget, TargetPlan, plan_to_target
from rarecell.swap.task import SwapTask
from rarecell.table.columns import ColumnValues
from rarecell.table.contingency import ContingencyTable

# How many swaps are needed after a recoding, and what risk is left then?
#
# The only place where planning a release calls on swaps and intruders.


FEW_CELLS = 512
"""Cells around a released record that are asked to compare candidates; fewer overstate what an intruder finds."""

FEW_DRAWS = 24
"""Draws of what an intruder knows, over all members of a model: enough to compare candidates; a release draws more."""


@dataclass(frozen=True)
class ReleaseTarget:
    """What a release must achieve: at most this many expected correct links, no record above a given risk, or limits on its groups.

    ``k`` is the least number of records with the same key values; the rest limits what such groups give away about sensitive columns.
    """

    max_correct_links: float | None = None
    max_record_risk: float | None = None
    k: int | None = None
    l_diversity: int | None = None
    t_closeness: float | None = None
    max_guess_gain: float | None = None

    def __post_init__(self) -> None:
        limits = [number for number in (self.max_correct_links, self.max_record_risk) if number is not None]
        if not limits and self.limits_groups:
            return
        if not limits:
            raise BadInput(
                "No target was given. Name the largest number of correct links (--max-correct-links), the highest risk of a record "
                "(--max-record-risk), or the least number of records with the same key values (--k)."
            )
        if min(limits) < 0.0 or (self.max_record_risk or 0.0) > 1.0:
            raise BadInput("A target is a number of correct links of 0 or more, or a risk between 0 and 1.")

    @property
    def limits_groups(self) -> bool:
        """Whether the release must have large groups of equal key values, or groups that give little away."""
        return any(limit is not None for limit in (self.k, self.l_diversity, self.t_closeness, self.max_guess_gain))

    @property
    def options(self) -> str:
        """The target as command-line options, as far as it is no part of the run's own choices."""
        phrases = [] if self.max_correct_links is None else [f"--max-correct-links {self.max_correct_links:g}"]
        phrases += [] if self.max_record_risk is None else [f"--max-record-risk {self.max_record_risk:g}"]
        return " ".join(phrases)

    def __str__(self) -> str:
        phrases = [] if self.max_correct_links is None else [f"at most {self.max_correct_links:g} correct links"]
        phrases += [] if self.max_record_risk is None else [f"no record above a risk of {self.max_record_risk:g}"]
        phrases += [] if self.k is None else [f"at least {self.k} records with the same key values"]
        phrases += [] if self.l_diversity is None else [f"at least {self.l_diversity} sensitive values in a group"]
        phrases += [] if self.t_closeness is None else [f"groups at most {self.t_closeness:g} from the file"]
        phrases += [] if self.max_guess_gain is None else [f"a guess gain of at most {self.max_guess_gain:g}"]
        return " and ".join(phrases)


@dataclass(frozen=True, eq=False)
class SwapRules:
    """What swaps must obey: constraints, further margins to keep, the columns these name, names for equal records, and sure links."""

    constraints: SwapConstraints = field(default_factory=SwapConstraints)
    keep: tuple[tuple[str, ...], ...] = ()
    columns: Mapping[str, ColumnValues] = field(default_factory=dict)
    record_ids: NamesOfRecords | None = None
    max_sure_links: float | None = None


@dataclass(frozen=True, eq=False)
class Fitted:
    """A recoded table with its models.

    Attributes
    ----------
    table : ContingencyTable
        The table, with the coarsenings that its models use.
    model : CellModel
        The model whose margins the swaps preserve.
    risk_model : CellModel
        The model that the risk is computed from, and that an intruder may know.
    risk : RecordRisk
        The risk of every record.
    rules : SwapRules or None
        What swaps must obey in a release; None for a quick comparison without rules, and with fewer draws.
    """

    table: ContingencyTable
    model: CellModel
    risk_model: CellModel
    risk: RecordRisk
    rules: SwapRules | None = None


def swap_remainder(fitted: Fitted, target: ReleaseTarget, *, seed: int, progress: Progress) -> TargetPlan:
    """Swap the riskiest records until the target is met, or no further swap helps.

    The intruder against whom the target must hold knows other draws from the model than those used to make the plan.
    """
    rules = fitted.rules or SwapRules()
    n_draws = None if fitted.rules is not None else max(1, FEW_DRAWS // max(1, len(fitted.risk_model.members)))
    each = (CELLS_TO_PLAN, MOST_CELLS) if fitted.rules is not None else (FEW_CELLS, FEW_CELLS)
    planned, reported = (
        Register.modelled(fitted.risk, fitted.risk_model, n_draws=n_draws, most_cells=most_cells, seed=seed + more)
        for more, most_cells in enumerate(each)
    )
    task = SwapTask(
        fitted.table,
        fitted.model,
        risk=fitted.risk,
        register=planned,
        keep=rules.keep,
        columns=rules.columns,
        constraints=rules.constraints,
        record_ids=rules.record_ids,
        seed=seed,
    )
    swap_target = SwapTarget(max_record_risk=target.max_record_risk, max_correct_links=target.max_correct_links)
    is_quick = fitted.rules is None

    def planned_at(price: SwapTask) -> TargetPlan:
        return plan_to_target(
            price, fitted.risk, swap_target, register=reported, is_quick=is_quick, progress=OnlyCancelled(progress)
        )

    return planned_at(task) if is_quick else with_few_sure_links(task, planned_at, reported, rules.max_sure_links).best


MOST_CANDIDATES = 40
"""Number of candidates that are fitted and swapped by default."""

MOST_CONFIRMED = 5
"""Number of points of the frontier that are fitted again with care and shown; of more, a spread from least to most recoded."""

MOST_LOOKED_AT = 400
"""Number of candidates whose sample uniques are counted."""

STAGE = "planning the release"


Fit = Callable[[ContingencyTable], Fitted]
"""Fits the models of a recoded table."""


@dataclass(frozen=True)
class ReleaseFrontier(Shown):
    """The ways to release a file that no other way beats.

    Attributes
    ----------
    target : ReleaseTarget
        The target to be reached.
    points : tuple of ReleasePoint
        The frontier, least recoded first.
    looked_at : tuple of ReleasePoint
        Every candidate that was fitted.
    n_candidates : int
        Number of possible combinations of recodings.
    refused : tuple of RefusedWay
        Ways that were tried and that their command would refuse.
    """

    target: ReleaseTarget
    points: tuple[ReleasePoint, ...]
    looked_at: tuple[ReleasePoint, ...] = field(repr=False)
    n_candidates: int
    refused: tuple[RefusedWay, ...] = ()

    @property
    def cheapest(self) -> dict[str, ReleasePoint]:
        """A few points, named by what they are best at: least recoding, fewest swaps, and a compromise; and other ways, if there are any."""
        reaching = [point for point in self.points if point.is_met and not WAYS[point.way].best_at]
        other_ways = {
            way.best_at: min(points, key=lambda point: (point.information_lost, point.records_changed))
            for name, way in WAYS.items()
            if way.best_at and (points := [point for point in self.points if point.is_met and point.way == name])
        }
        if not reaching:
            return other_ways
        most_lost = max(point.information_lost for point in reaching) or 1.0
        most_changed = max(point.n_changed for point in reaching) or 1
        fewest = "fewest swaps and blanks" if self.target.limits_groups else "fewest swaps"
        chosen = {
            "least recoding": min(reaching, key=lambda p: (p.information_lost, p.n_changed)),
            "a compromise": min(reaching, key=lambda p: p.information_lost / most_lost + p.n_changed / most_changed),
            fewest: min(reaching, key=lambda p: (p.n_changed, p.information_lost)),
        }
        chosen = {name: point for number, (name, point) in enumerate(chosen.items()) if point not in [*chosen.values()][:number]}
        return {**chosen, **other_ways}

    def __str__(self) -> str:
        if not self.cheapest:
            best = min(self.looked_at, key=lambda p: (p.highest, p.correct_links))
            if len(self.looked_at) == 1:
                return f"The one way that was tried does not reach {self.target}: {best}"
            return f"None of {len(self.looked_at):,} ways that were tried reaches {self.target}. The nearest is: {best}"
        named = " ".join(f"{name[:1].upper()}{name[1:]}: {point}" for name, point in self.cheapest.items())
        n_points, n_tried = len(self.points), len(self.looked_at)
        return f"{n_points:,} of {counted(n_tried, 'way')} {verb(n_points, 'is', 'are')} worth considering for {self.target}. {named}"


def plan_release(
    table: ContingencyTable,
    fit: Fit,
    *,
    target: ReleaseTarget,
    keys: Sequence[str] | None = None,
    likeness: Likeness | None = None,
    columns: Sequence[OtherColumn] = (),
    amounts: Amounts | None = None,
    confirm: Fit | None = None,
    most: int = MOST_CANDIDATES,
    seed: int = 0,
    progress: Progress = SILENT,
) -> ReleaseFrontier:
    """Search over recodings of keys, with swaps for what remains.

    Parameters
    ----------
    table : ContingencyTable
        The file as it is; its coarsenings are the user's hierarchies.
    fit : Fit
        Fits the models of a recoded table; called for every candidate, so it should be quick.
    target : ReleaseTarget
        The target to be reached.
    keys : sequence of str, optional
        Keys that may be recoded; by default, all.
    likeness : Likeness, optional
        Which levels are alike in the whole file; by default, they are compared by the keys alone.
    columns : sequence of OtherColumn, optional
        Columns outside the keys whose association with the keys is to be reported.
    amounts : Amounts, optional
        Columns of amounts whose means by level of a key are to be reported.
    confirm : Fit, optional
        Fits the models of the frontier's points again, with more care; the points then report these results.
    most : int, optional
        Largest number of candidates that are fitted.
    seed : int, optional
        Seed of all random choices.
    progress : Progress, optional
        Receives each candidate, and can ask to stop.

    Returns
    -------
    ReleaseFrontier
        The ways to release the file that no other way beats.
    """
    if most < 1:
        raise BadInput(f"The number of candidates was given as {most}; it must be at least 1.")
    steps = ladders(table, keys, likeness=likeness)
    n_candidates, chosen = candidates_of(table, steps, most)
    progress.start(STAGE, len(chosen))
    question = _Question(table, target, tuple(columns), amounts, seed, progress)
    point_of: dict[tuple[int, ...], ReleasePoint] = {}
    for candidate in chosen:
        point_of[candidate] = question.answer(fit, steps_of(steps, candidate))
        checkpoint(progress, STAGE, 1)
    progress.done()
    on_frontier = nondominated(point_of)
    if confirm is not None:
        on_frontier = spread(on_frontier, MOST_CONFIRMED)
        progress.start("checking the frontier", len(on_frontier))
        for candidate in on_frontier:
            point_of[candidate] = question.answer(confirm, steps_of(steps, candidate))
            checkpoint(progress, "checking the frontier", 1)
        progress.done()
        on_frontier = nondominated({candidate: point_of[candidate] for candidate in on_frontier})
    points = tuple(point_of[candidate] for candidate in on_frontier)
    return ReleaseFrontier(target, points, tuple(point_of.values()), n_candidates)


@dataclass(frozen=True, eq=False)
class _Question:
    """What every candidate is judged by."""

    table: ContingencyTable
    target: ReleaseTarget
    columns: tuple[OtherColumn, ...]
    amounts: Amounts | None
    seed: int
    progress: Progress

    def answer(self, fit: Fit, steps: Sequence[RecodingStep]) -> ReleasePoint:
        changed = recoded(self.table, steps)
        fitted = fit(changed)
        swapped = swap_remainder(fitted, self.target, seed=self.seed, progress=self.progress)
        counts = key_counts(self.table)
        lost = bits_lost(counts, steps)
        total = sum(entropy(of_key) for of_key in counts.values())
        apart = _two_way(swapped.plan)
        means = _means_moved(swapped.plan, self.amounts)
        relation = relation_moved(self.columns, steps, swapped.plan)
        return ReleasePoint(
            recoding={step.key: step.words for step in steps if step.coarsening is not None},
            groups={step.key: step.groups for step in steps if step.coarsening is not None},
            levels={step.key: (len(counts[step.key]), step.n_levels) for step in steps},
            bits_lost=lost,
            information_lost=sum(lost.values()) / total if total > 0.0 else 0.0,
            sample_uniques=fitted.risk.n_sample_uniques,
            correct_links_recoded=fitted.risk.expected_correct_matches,
            population_uniques_recoded=fitted.risk.expected_population_uniques,
            swaps=len(swapped.plan),
            records_changed=2 * len(swapped.plan),
            values_changed=swapped.plan.n_values_changed,
            hellinger_mean=float(np.mean(apart)),
            hellinger_max=float(np.max(apart)),
            association_kept=association_kept(self.columns, steps, swapped.plan),
            correct_links=swapped.after.expected_correct_matches,
            population_uniques=swapped.after.expected_population_uniques,
            highest=swapped.after.highest,
            is_met=swapped.is_met,
            means_moved=means and means[0],
            means_moved_of="" if means is None else means[1],
            relation_moved=relation and relation[0],
            relation_moved_of="" if relation is None else relation[1],
        )


@dataclass(frozen=True, eq=False)
class Amounts:
    """Columns of amounts beside the keys, by record, and the survey weights of the records, if any."""

    columns: Mapping[str, NDArray[np.float64]]
    weights: NDArray[np.float64] | None = None


def _means_moved(plan: SwapPlan, amounts: Amounts | None) -> tuple[float, str] | None:
    """The largest change of a mean by level of a key through the swaps, and of which column by which key."""
    table = plan.table
    if amounts is None or not amounts.columns or table.record_cell is None:
        return None
    if not len(plan):
        return 0.0, ""
    release, keys = plan.release, []
    for k, categories in enumerate(table.categories):
        before = np.where(table.record_cell >= 0, table.cells[table.record_cell, k], -1).astype(np.int32)
        after = before.copy()
        after[release.rows] = release.released[:, k]
        keys.append(KeyInBothFiles(categories.key, before, after, categories.n_levels))
    both = {name: (values, values) for name, values in amounts.columns.items()}
    changes = mean_changes(keys, both, amounts.weights, most=1)
    return (changes[0].size, f"{changes[0].column} by {changes[0].key}") if changes else (0.0, "")


def _two_way(plan: SwapPlan) -> list[float]:
    if not len(plan):
        return [0.0]
    orders = hellinger_distances(BothFiles.of(plan.table, plan.table_after), orders=(2,))
    return [each.hellinger for each in orders.get(2, ())] or [0.0]


# ---------------------------------------------------------------------- candidates


def candidates_of(
    table: ContingencyTable, ladder_of_key: Sequence[Sequence[RecodingStep]], most: int
) -> tuple[int, list[tuple[int, ...]]]:
    """How many combinations of steps there are, and those to look at: all, or as many promising ones as are allowed."""
    n = math.prod(len(of_key) for of_key in ladder_of_key)
    return n, _all(ladder_of_key) if n <= most else _promising(table, ladder_of_key, most)


def _all(ladder_of_key: Sequence[Sequence[RecodingStep]]) -> list[tuple[int, ...]]:
    return [tuple(index) for index in np.ndindex(*(len(steps) for steps in ladder_of_key))]


def steps_of(ladder_of_key: Sequence[Sequence[RecodingStep]], candidate: Sequence[int]) -> list[RecodingStep]:
    return [steps[number] for steps, number in zip(ladder_of_key, candidate, strict=True)]


def _promising(table: ContingencyTable, ladder_of_key: Sequence[Sequence[RecodingStep]], most: int) -> list[tuple[int, ...]]:
    """Candidates with few sample uniques for the information they lose, spread from no recoding to the coarsest.

    From each candidate, one more step is taken on each key in turn; candidates that lose least per unique removed are
    followed first. Candidates that recode a single key are always included, as far as there is room.
    """
    counts = key_counts(table)

    def measured(candidate: tuple[int, ...]) -> tuple[float, int]:
        steps = steps_of(ladder_of_key, candidate)
        return sum(bits_lost(counts, steps).values()), recoded(table, steps).size_indices.get(1, 0)

    start = tuple(0 for _ in ladder_of_key)
    looked_at = {start: measured(start)}
    n_before = looked_at[start][1]
    waiting = [(0.0, start)]
    while waiting and len(looked_at) < MOST_LOOKED_AT:
        _, candidate = heapq.heappop(waiting)
        for key, steps in enumerate(ladder_of_key):
            if candidate[key] + 1 < len(steps):
                coarser = (*candidate[:key], candidate[key] + 1, *candidate[key + 1 :])
                if coarser not in looked_at:
                    bits, uniques = looked_at[coarser] = measured(coarser)
                    heapq.heappush(waiting, (bits / max(n_before - uniques, 1), coarser))
    single = [candidate for candidate in looked_at if sum(step > 0 for step in candidate) == 1]
    best = _lower_hull(looked_at)
    chosen = dict.fromkeys([start, *best])
    even = spread(sorted(chosen, key=lambda candidate: looked_at[candidate][0]), most)
    room = [candidate for candidate in single if candidate not in even][: most - len(even)]
    remaining = sorted(set(looked_at) - set(even) - set(room), key=lambda c: looked_at[c][0] * (1 + looked_at[c][1]))
    return [*even, *room, *remaining[: most - len(even) - len(room)]]


def spread(candidates: list[tuple[int, ...]], most: int) -> list[tuple[int, ...]]:
    """At most so many of the candidates, the first and the last among them, evenly chosen in their order."""
    if len(candidates) <= most:
        return candidates
    return [candidates[number] for number in np.unique(np.linspace(0, len(candidates) - 1, most).round().astype(int)).tolist()]


def _lower_hull(measured: Mapping[tuple[int, ...], tuple[float, int]]) -> list[tuple[int, ...]]:
    """Candidates that no other beats in both numbers."""
    hull, fewest = [], math.inf
    for candidate, (_, uniques) in sorted(measured.items(), key=lambda item: (item[1], item[0])):
        if uniques < fewest:
            hull.append(candidate)
            fewest = uniques
    return hull


def nondominated(points: Mapping[tuple[int, ...], ReleasePoint]) -> list[tuple[int, ...]]:
    """Points that meet the target and that no other beats in information and changed records.

    When no point meets the target, those that no other beats in information and risk.
    """
    reaching = {candidate: point for candidate, point in points.items() if point.is_met}

    def cost(point: ReleasePoint) -> tuple[float, float, float]:
        if reaching:
            return (round(point.information_lost, 12), float(point.n_changed), point.correct_links)
        return (round(point.information_lost, 12), point.correct_links, point.highest)

    in_order = sorted((reaching or dict(points)).items(), key=lambda item: (cost(item[1]), item[0]))
    frontier: list[tuple[int, ...]] = []
    fewest = math.inf
    for candidate, point in in_order:
        if cost(point)[1] < fewest:
            frontier.append(candidate)
            fewest = cost(point)[1]
    return frontier

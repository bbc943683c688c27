"""Which recodings and swaps together would make a file safe enough, and what would they cost?

A plan reads the data once, examines recodings on counts alone, and writes nothing. Every option that it names can be carried
out by one command.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rarecell.data.coding import Coding, joined_codings
from rarecell.data.microdata import Microdata
from rarecell.engine.source import Column
from rarecell.errors import BadInput, UnknownColumns
from rarecell.outcome.planned import WAYS, RefusedWay, ReleasePoint, Trial, TriedKey, TriedRisk
from rarecell.outcome.swap import SwapSummary
from rarecell.planning.planner import (
    MOST_CANDIDATES,
    STAGE,
    Amounts,
    Fit,
    Fitted,
    ReleaseFrontier,
    ReleaseTarget,
    SwapRules,
    candidates_of,
    nondominated,
    plan_release,
    spread,
    steps_of,
)
from rarecell.planning.recodings import (
    OtherColumn,
    RecodedKey,
    RecodingStep,
    bits_lost,
    entropy,
    key_counts,
    ladder,
    ladders,
    merged_counts,
    mutual_information,
    recoded,
    recoded_by,
    shape_of,
)
from rarecell.progress import SILENT, OnlyCancelled, Progress, Stages, checkpoint
from rarecell.risk.attributes import AttributeLimits, Groups, groups_within
from rarecell.run import models, swaps
from rarecell.run.assess import assessed
from rarecell.run.config import Frames, ProtectConfig, RunConfig, as_config, takes_options, words_of
from rarecell.run.inputs import read
from rarecell.run.models import with_design_weights
from rarecell.run.protect import as_released, protected, with_choice
from rarecell.run.roles import KnownFamilies
from rarecell.run.utility import measured_columns
from rarecell.search import select_model
from rarecell.swap.rules import SwapConstraints
from rarecell.table.contingency import ContingencyTable
from rarecell.table.structural_zeros import StructuralZeros

if TYPE_CHECKING:
    from rarecell.edges import Frame, Json, Level


MOST_LEVELS_OF_OTHERS = 200
"""Columns outside the keys with more levels than this are not examined."""


@takes_options("plan")
def plan(
    data: Frame,
    *,
    max_correct_links: float | None = None,
    max_record_risk: float | None = None,
    recodable: Sequence[str] | None = None,
    candidates: int = MOST_CANDIDATES,
    frame: Frame = None,
    progress: Progress = SILENT,
    **options: Any,
) -> ReleaseFrontier:
    """Search for recodings of keys, with swaps for the remaining risk, that reach a target.

    Parameters
    ----------
    data, frame, progress, **options
        As for :func:`rarecell.assess`.
    max_correct_links : float, optional
        Largest expected number of correct links in the released file.
    max_record_risk : float, optional
        Highest risk of any record in the released file. Instead of these or beside them, ``k``, ``l_diversity``, ``t_closeness`` and
        ``max_guess_gain`` set limits on groups of equal key values, as for :func:`rarecell.protect`.
    recodable : sequence of str, optional
        Keys that may be recoded; unless given, all that the run does not recode already.
    candidates : int
        Number of recodings that are tried with swaps.

    Returns
    -------
    ReleaseFrontier
        The ways to release the file that no other way beats, with their costs.

    Examples
    --------
    >>> import rarecell as rc
    >>> from rarecell import datasets
    >>> frontier = rc.plan(
    ...     datasets.census_sample(), keys=["age", "sex", "marital"], population=277_677, max_record_risk=0.1, model="independence"
    ... )
    >>> frontier.points[0].recoding
    {}
    """
    config, frames = as_config(data, frame, options)
    request = config.protect or ProtectConfig()
    limits = {name: getattr(request, name) for name in ("k", "l_diversity", "t_closeness", "max_guess_gain")}
    target = ReleaseTarget(max_correct_links, max_record_risk, **limits)
    records = read(config, frames.data)
    if target.limits_groups:
        swaps.refuse_without_positions(records, request, None)
    table = records.table(records=True if target.limits_groups else None)
    table = with_design_weights(records, table, config)
    keys = _free_keys(config, recodable)
    likeness = records.likeness(table)
    if config.household is not None and config.households_known == "yes":
        families = assessed(config, Stages(OnlyCancelled(progress)), frames).households
        if families is not None and families.known is not None:
            steps = ladders(table, keys, likeness=likeness)
            return _with_families(config, frames, target, families.known, table, steps, candidates, progress)
    if target.limits_groups:
        steps = ladders(table, keys, likeness=likeness)
        return _towards_groups(config, frames, target, records, table, steps, candidates, progress)
    return plan_release(
        table,
        quick_fit(config, progress),
        target=target,
        keys=keys,
        likeness=likeness,
        columns=other_columns(records, table),
        amounts=amounts_of(records, table),
        confirm=careful_fit(config, records, progress),
        most=candidates,
        progress=progress,
        seed=config.seed,
    )


# Where intruders know families, a plan is judged by households as well. A model and a plan of households take longer than those of
# persons, so recodings are compared by the links that they alone leave, and a few of them are carried out as the command would.


MOST_RELEASES = 4
"""Number of recodings that are carried out with swaps between households."""

MOST_UNLINKED = 2
"""Number of recodings that are carried out without the household number."""

SHARES_LEFT = (0.5, 0.15, 0.03)
"""Recodings are chosen that leave no more than these shares of the household links, each with the least loss of information."""


def _with_families(
    config: RunConfig,
    frames: Frames,
    target: ReleaseTarget,
    known_families: KnownFamilies,
    table: ContingencyTable,
    steps: Sequence[Sequence[RecodingStep]],
    most: int,
    progress: Progress,
) -> ReleaseFrontier:
    """Ways to release a file with households: recodings, exchanges between households, no number, other areas."""
    n_candidates, candidates = candidates_of(table, steps, most)

    def links_left(chosen: Sequence[RecodingStep]) -> float:
        return known_families.quick_links({step.key: step.coarsening for step in chosen if step.coarsening is not None})

    screened = _screened(table, steps, candidates, links_left, progress)
    chosen_ones = _worth_releasing(screened, target)
    ways = [(candidate, "households") for candidate in chosen_ones]
    ways += [(candidate, "unlink") for candidate in chosen_ones[:MOST_UNLINKED]]
    if known_families.file.data.areas and known_families.file.data.areas[-1] in config.keys:
        ways.append((chosen_ones[0], "areas"))
    return _released(config, frames, target, table, steps, ways, n_candidates, progress)


def _screened(
    table: ContingencyTable,
    steps: Sequence[Sequence[RecodingStep]],
    candidates: Sequence[tuple[int, ...]],
    left_of: Callable[[Sequence[RecodingStep]], float],
    progress: Progress,
) -> dict[tuple[int, ...], tuple[float, float]]:
    """For each candidate, the share of the information that it loses, and what it leaves to be done."""
    counts = key_counts(table)
    total = sum(entropy(of_key) for of_key in counts.values())
    screened = {}
    progress.start(STAGE, len(candidates))
    for candidate in candidates:
        chosen = steps_of(steps, candidate)
        lost = sum(bits_lost(counts, chosen).values()) / total if total > 0.0 else 0.0
        screened[candidate] = (lost, left_of(chosen))
        checkpoint(progress, STAGE, 1)
    progress.done()
    return screened


def _released(
    config: RunConfig,
    frames: Frames,
    target: ReleaseTarget,
    table: ContingencyTable,
    steps: Sequence[Sequence[RecodingStep]],
    ways: Sequence[tuple[tuple[int, ...], str]],
    n_candidates: int,
    progress: Progress,
) -> ReleaseFrontier:
    """Carry out some recodings, each in its way, and keep those that no other beats."""
    counts = key_counts(table)
    carried_out: list[ReleasePoint] = []
    refused: list[RefusedWay] = []
    progress.start("carrying out releases", len(ways))
    for candidate, way in ways:
        chosen = steps_of(steps, candidate)
        try:
            carried_out.append(_carried_out(config, frames, target, chosen, counts, way, progress))
        except BadInput as refusal:
            # What a command would refuse, because another column gives a key or a household away, is no way to release the file.
            refused.append(
                RefusedWay({step.key: step.words for step in chosen if step.coarsening is not None}, way, str(refusal))
            )
        finally:
            checkpoint(progress, "carrying out releases", 1)
    progress.done()
    points = []
    for name in WAYS:
        of_way: dict[tuple[int, ...], ReleasePoint] = {
            (place,): point for place, point in enumerate(carried_out) if point.way == name
        }
        points += [of_way[place] for place in nondominated(of_way)]
    if not carried_out:
        raise BadInput(f"Nothing that was planned can be carried out. {refused[-1].reason if refused else ''}")
    return ReleaseFrontier(target, tuple(points), tuple(carried_out), n_candidates, tuple(refused))


# A least size of groups, and limits on what groups give away, are reached by swaps and exchanges, recodings, and blanks. Recodings are
# compared by the values that they alone leave to be blanked, and a few of them are carried out as the command would.


MOST_WITH_BLANKS = 6
"""Number of recodings that are carried out towards limits on groups."""


def _towards_groups(
    config: RunConfig,
    frames: Frames,
    target: ReleaseTarget,
    records: Microdata,
    table: ContingencyTable,
    steps: Sequence[Sequence[RecodingStep]],
    most: int,
    progress: Progress,
) -> ReleaseFrontier:
    """Ways to release a file in large enough groups, or in groups that give little enough away: recodings with the blanks they leave."""
    n_candidates, candidates = candidates_of(table, steps, most)
    limits = AttributeLimits(target.l_diversity, target.t_closeness, target.max_guess_gain)
    inside = np.flatnonzero(table.cell_of_record >= 0)
    columns = []
    if limits != AttributeLimits():
        if not config.sensitive:
            raise BadInput("Limits on what groups give away are for sensitive columns; name them with --sensitive.")
        codes, categories = records.column_codes(list(config.sensitive))
        columns = [(c, codes[inside, k].astype(np.int64)) for k, c in enumerate(categories)]

    def blanks_left(chosen: Sequence[RecodingStep]) -> float:
        changed = recoded(table, chosen)
        n_small = 0 if target.k is None else int(changed.counts[changed.counts < target.k].sum())
        for sensitive, values in columns:
            cells = changed.cells[changed.cell_of_record[inside]]
            groups, group = Groups.of_records(changed.categories, cells, sensitive, values)
            n_small += int((~groups_within(groups, limits))[group].sum())
        return float(n_small)

    screened = _screened(table, steps, candidates, blanks_left, progress)
    in_order = sorted(screened, key=lambda candidate: (screened[candidate], candidate))
    fewest, worthwhile = math.inf, []
    for candidate in in_order:
        if screened[candidate][1] < fewest:
            fewest = screened[candidate][1]
            worthwhile.append(candidate)
    chosen = spread(worthwhile, MOST_WITH_BLANKS)
    return _released(config, frames, target, table, steps, [(candidate, "") for candidate in chosen], n_candidates, progress)


def _worth_releasing(screened: Mapping[tuple[int, ...], tuple[float, float]], target: ReleaseTarget) -> list[tuple[int, ...]]:
    """The file as it is, and recodings that leave few household links for the information that they lose.

    Where none leaves few, the one that leaves fewest is tried.
    """
    start = min(screened, key=lambda candidate: (screened[candidate][0], candidate))
    limits = [share * screened[start][1] for share in SHARES_LEFT]
    if target.max_correct_links is not None:
        limits.append(0.9 * target.max_correct_links)
    chosen = {start: None}
    for limit in sorted(limits, reverse=True):
        enough = [candidate for candidate, (_, links) in screened.items() if links <= limit]
        if enough:
            chosen[min(enough, key=lambda candidate: (screened[candidate][0], candidate))] = None
    if len(chosen) == 1:
        chosen[min(screened, key=lambda candidate: (screened[candidate][1], screened[candidate][0], candidate))] = None
    return [*chosen][:MOST_RELEASES]


def _carried_out(
    config: RunConfig,
    frames: Frames,
    target: ReleaseTarget,
    steps: Sequence[RecodingStep],
    counts: Mapping[str, NDArray[np.int64]],
    way: str,
    progress: Progress,
) -> ReleasePoint:
    """One way to release the file, carried out as its command would; nothing is written."""
    recoding = {step.key: step.words for step in steps if step.coarsening is not None}
    planned, request = as_released(with_choice(config_for(config, recoding, way, target)))
    stages = Stages(OnlyCancelled(progress))
    done = protected(request, assessed(planned, stages, frames, request=request), stages)
    summary, swap = done.summary, done.summary.swap
    assert swap is not None
    lost = bits_lost(counts, steps)
    total = sum(entropy(of_key) for of_key in counts.values())
    apart = swap.hellinger.get("2")
    links, highest = swap.risk_after.expected_correct_matches, swap.risk_after.highest
    before, uniques = summary.risk.expected_correct_matches, swap.risk_after.expected_population_uniques
    families, household = summary.risk.known_families, swap.intruder("household")
    if families is not None and household is not None:
        links, highest = max(links, household.after), max(highest, household.highest_risk or 0.0)
        before = max(before, families.expected_correct_matches)
    reached = (target.max_correct_links is None or links <= target.max_correct_links) and (
        target.max_record_risk is None or highest <= target.max_record_risk
    )
    if target.limits_groups:
        refusals = () if summary.release is None or summary.release.profile is None else summary.release.profile.refusals
        reached = reached and not any(reason.is_requested for reason in refusals)
    return ReleasePoint(
        recoding=recoding,
        groups={step.key: step.groups for step in steps if step.coarsening is not None},
        levels={step.key: (len(counts[step.key]), step.n_levels) for step in steps},
        bits_lost=lost,
        information_lost=sum(lost.values()) / total if total > 0.0 else 0.0,
        sample_uniques=int(summary.risk.sample_uniques),
        correct_links_recoded=before,
        population_uniques_recoded=summary.risk.expected_population_uniques,
        swaps=len(done.plan.release.rows) // 2,
        records_changed=len(done.plan.release.rows),
        values_changed=int(swap.values_changed),
        hellinger_mean=0.0 if apart is None else apart.mean,
        hellinger_max=0.0 if apart is None else apart.max,
        association_kept=None,
        correct_links=links,
        population_uniques=uniques,
        highest=highest,
        is_met=reached,
        means_moved=None if swap.file is None else swap.file.largest,
        means_moved_of="" if swap.file is None else swap.file.column,
        values_blanked=_blanked(swap) if target.limits_groups else None,
        values_exchanged=sum(column.exchanged for column in swap.attribute_targets) if target.limits_groups else None,
        way=way,
    )


def _blanked(swap: SwapSummary) -> int:
    """Number of values of keys and sensitive columns that are blanked."""
    of_keys = 0 if swap.suppression is None else sum(swap.suppression.by_key.values())
    return of_keys + sum(column.blanked for column in swap.attribute_targets)


def config_for(config: RunConfig, recoding: Mapping[str, str], way: str, target: ReleaseTarget) -> RunConfig:
    """The run that releases a file in one way."""
    protect = replace(
        (config.protect or ProtectConfig()).without_choice if target.options else config.protect or ProtectConfig(),
        max_correct_links=target.max_correct_links,
        max_record_risk=target.max_record_risk,
    )
    return with_way(replace(config, recode=recodings_with(config, recoding), protect=protect), way)


def with_way(config: RunConfig, way: str) -> RunConfig:
    """The same run, with what a way does to households."""
    return replace(config, protect=replace(config.protect or ProtectConfig(), **WAYS[way].settings)) if way else config


def _free_keys(config: RunConfig, recodable: Sequence[str] | None) -> list[str]:
    """Keys that the plan may recode: a key that the run recodes already stays as the user wants it."""
    settled = _recodings(config)
    unknown = [key for key in recodable or () if key not in config.keys]
    if unknown:
        raise UnknownColumns.among(unknown, config.keys, role="key")
    twice = [key for key in recodable or () if key in settled]
    if twice:
        raise BadInput(
            f"The plan is to recode '{twice[0]}', which the run already releases as '{settled[twice[0]]}'. Leave one of them out."
        )
    return [key for key in config.keys if key not in settled and (recodable is None or key in recodable)]


def quick_fit(config: RunConfig, progress: Progress) -> Fit:
    """Fit the quickest models of the run's kind to a recoded table."""

    def fit(changed: ContingencyTable) -> Fitted:
        table = models.with_resolutions(changed, config.resolution)
        model = models.quick_model(table, config, n_orders=1)
        best = select_model(
            table,
            criterion=models.penalty_of(config),
            # A greedy search nearly always meets the optimum; its proof is for the points that are confirmed.
            search="greedy" if config.search == "auto" else config.search,
            restarts=min(config.restarts, 2),
            seed=config.seed,
            max_clique=config.max_clique,
            max_seconds=min(config.time_limit, 5.0),
            progress=OnlyCancelled(progress),
        ).best
        return Fitted(table, best, model, models.risk_of(table, model, config))

    return fit


def careful_fit(config: RunConfig, records: Microdata, progress: Progress) -> Fit:
    """Fit the models, and set the rules for swaps, that a run on the recoded file would have."""

    def fit(changed: ContingencyTable) -> Fitted:
        table = models.with_resolutions(changed, config.resolution)
        zeros = models.structural_zeros(table, config)
        if config.zeros != "swaps":
            table = table.with_structural_zeros(zeros)
        chosen = models.choose_models(table, config, progress=OnlyCancelled(progress))
        risk = models.risk_of(table, chosen.risk_model, config)
        return Fitted(table, chosen.best, chosen.risk_model, risk, _rules(config, records, table, zeros))

    return fit


def _rules(config: RunConfig, records: Microdata, table: ContingencyTable, zeros: StructuralZeros) -> SwapRules:
    """The rules of a release; without records in memory, only those on combinations of keys."""
    request = config.protect or ProtectConfig()
    if table.record_cell is None:
        return SwapRules(SwapConstraints(structural_zeros=zeros or None), max_sure_links=request.max_sure_links)
    constraints, columns = swaps.rules_for_swaps(request, config, records, table, zeros)
    return SwapRules(constraints, request.keep, columns, records.record_names, request.max_sure_links)


def other_columns(data: Microdata, table: ContingencyTable) -> list[OtherColumn]:
    """Columns outside the keys with few enough levels, if records are available."""
    if table.record_cell is None:
        return []
    left_out = {*table.keys, data.weight, *data.household_columns, *data.id_columns}
    names = [column.name for column in data.source.columns() if column.name not in left_out and column.kind != "other"]
    if not names:
        return []
    codes, categories = data.column_codes(names)
    return [
        OtherColumn.of_records(table, c.key, codes[:, k])
        for k, c in enumerate(categories)
        if 1 < c.n_levels <= MOST_LEVELS_OF_OTHERS
    ]


def amounts_of(data: Microdata, table: ContingencyTable) -> Amounts | None:
    """Columns of amounts beside the keys, if all records are held."""
    if table.record_cell is None:
        return None
    whole = data.whole_file(table)
    if not whole.is_complete:
        return None
    weights = None if data.weight is None else whole.columns[data.weight].values
    return Amounts({name: whole.columns[name].values for name in measured_columns(data, whole)}, weights)


def command_for(point: ReleasePoint, target: ReleaseTarget, config: RunConfig, *, out: str = "release") -> str:
    """The command that carries out a point of the frontier, under the rules that the plan obeyed."""
    recode = {**_recodings(config), **recodings_with(config, point.recoding)}
    coding = {key: coding for key, coding in config.coding.items() if key not in recode}
    way = WAYS[point.way]
    chosen = config if config.protect is None or not target.options else replace(config, protect=config.protect.without_choice)
    words = words_of(replace(chosen, recode=recode, coding=coding), "protect")
    options = " ".join([*way.options, *([target.options] if way.is_aimed else []), f"--out {out}"])
    return f"{shlex.join(['rarecell', 'protect', *words])} {options}"


def recodings_with(config: RunConfig, recoding: Mapping[str, str]) -> dict[str, str]:
    """How every key is released, in words, when a run also recodes some keys as a plan says.

    A run may say whether the levels of a key are ordered; groups found from the data depend on that.
    """
    words = dict(config.recode)
    for key, how in recoding.items():
        words[key] = f"{words[key]}, {how}" if key in words else how
    return words


def _recodings(config: RunConfig) -> dict[str, str]:
    """How the run changes the values of keys already, in words."""
    codings = {key: Coding.of(coding, key=key) for key, coding in joined_codings(config.coding, config.recode).items()}
    return {key: coding.in_words() for key, coding in codings.items() if coding.changes_values}


def as_json(frontier: ReleaseFrontier, config: RunConfig) -> Json:
    """The frontier as plain values."""
    return {
        "target": {name: value for name, value in asdict(frontier.target).items() if value is not None},
        "combinations": frontier.n_candidates,
        "points": _points(frontier.points, frontier, config),
        "cheapest": {name: frontier.points.index(point) for name, point in frontier.cheapest.items()},
        "looked_at": _points(frontier.looked_at, frontier, config),
        "refused": [asdict(way) for way in frontier.refused],
    }


def _points(points: Sequence[ReleasePoint], frontier: ReleaseFrontier, config: RunConfig) -> list[Json]:
    return [{**asdict(point), "command": command_for(point, frontier.target, config)} for point in points]


# What would coarser keys change? An answer before anything is run.
#
# The data are read and counted once, with every key as it is. Trying a recoding then needs only counts: its table, a quick model
# of the run's kind, the risk, and the information that the keys lose. The numbers before and after come from the same quick model,
# so they can be compared with each other; a run fits more carefully.


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
        self.likeness = data.likeness(table)
        self._offered = {
            key: tuple(step.words for step in ladder(self.table, key, self.likeness[key])[1:]) for key in self.table.keys
        }
        self._of_key = {
            c.key: (shape_of(c), tuple(_value_label(data.columns[c.key], level) for level in c.levels))
            for c in self.table.categories
        }
        self._risks: dict[tuple[tuple[str, str], ...], TriedRisk] = {}

    def of(self, recode: Mapping[str, str]) -> Trial:
        """Try a recoding, in the words of ``--recode``, on top of the coding in the configuration."""
        coding = joined_codings(self.config.coding, {key: words for key, words in recode.items() if words.strip()})
        codings = {key: Coding.of(how, key=key) for key, how in coding.items()}
        table, keys = recoded_by(self.table, codings, self.likeness)
        return Trial(
            before=self._risk(self.table, ()),
            after=self._risk(table, tuple(sorted((key, repr(coding)) for key, coding in codings.items()))),
            keys=tuple(self._tried_key(key, recode.get(key.key, "")) for key in keys),
            association_kept=_association_kept(self.columns, keys),
        )

    def _tried_key(self, key: RecodedKey, words: str) -> TriedKey:
        is_short = len(key.labels) <= MOST_SHOWN
        shape, meanings = self._of_key[key.key]
        return TriedKey(
            key=key.key,
            words=words,
            shape=shape,
            meanings=meanings if is_short else (),
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
            fine = models.with_resolutions(table.with_coarsenings(()), self.config.resolution)
            risk = models.risk_of(fine, models.quick_model(fine, self.config, n_orders=1), self.config)
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


def _value_label(column: Column, level: Level) -> str:
    """The file's own label of a level, unless it says no more than the level; empty if there is none."""
    label = column.value_labels.get(level, column.value_labels.get(str(level), ""))
    return str(label) if str(label) != str(level) else ""


def _association_kept(columns: list[OtherColumn], keys: tuple[RecodedKey, ...]) -> float | None:
    """Share of the mutual information between keys and other columns that is left."""
    before = after = 0.0
    for column in columns:
        for key in keys:
            joint = column.joint[key.key]
            before += mutual_information(joint)
            after += mutual_information(merged_counts(joint, key.group_of_level, len(key.labels_after)))
    return after / before if before > 0.0 else None

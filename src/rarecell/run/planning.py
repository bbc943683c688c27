"""Which recodings and swaps together would make a file safe enough, and what would they cost?

A plan reads the data once, examines recodings on counts alone, and writes nothing. Every option that it names can be carried
out by one command.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Unpack

from rarecell.data.coding import Coding, joined_codings
from rarecell.data.microdata import Microdata
from rarecell.data.names import joined_names
from rarecell.engine.addresses import without_password
from rarecell.errors import BadInput, UnknownColumns
from rarecell.progress import SILENT, OnlyCancelled, Progress
from rarecell.release.costs import OtherColumn
from rarecell.release.planner import MOST_CANDIDATES, Fit, ReleaseFrontier, ReleasePoint, plan_release
from rarecell.release.remainder import Fitted, ReleaseTarget, SwapRules
from rarecell.run import model_choice, swaps
from rarecell.run.assessment import read
from rarecell.run.config import ProtectConfig, RunConfig
from rarecell.run.keywords import RunOptions, as_config
from rarecell.run.strata import with_design_weights
from rarecell.search import select_model
from rarecell.swap.rules import SwapConstraints
from rarecell.table.contingency import ContingencyTable
from rarecell.table.structural_zeros import StructuralZeros

if TYPE_CHECKING:
    from rarecell.edges import Frame, Json

MOST_LEVELS_OF_OTHERS = 200
"""Columns outside the keys with more levels than this are not examined."""


def plan(
    data: Frame,
    *,
    max_correct_links: float | None = None,
    max_record_risk: float | None = None,
    recodable: Sequence[str] | None = None,
    candidates: int = MOST_CANDIDATES,
    frame: Frame = None,
    progress: Progress = SILENT,
    **options: Unpack[RunOptions],
) -> ReleaseFrontier:
    """Search for recodings of keys, with swaps for the remaining risk, that reach a target.

    Parameters
    ----------
    data, frame, progress, **options
        As for :func:`rarecell.assess`.
    max_correct_links : float, optional
        Largest expected number of correct links in the released file.
    max_record_risk : float, optional
        Highest risk of any record in the released file.
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
    >>> found = rc.plan(
    ...     datasets.census_sample(), keys=["age", "sex", "marital"], population=277_677, max_record_risk=0.1, model="independence"
    ... )
    >>> found.points[0].recoding
    {}
    """
    config, given = as_config(data, frame, options)
    target = ReleaseTarget(max_correct_links, max_record_risk)
    records = read(config, given.data)
    table = records.table()
    table = with_design_weights(records, table, config)
    return plan_release(
        table,
        quick_fit(config, progress),
        target=target,
        keys=_free_keys(config, recodable),
        columns=other_columns(records, table),
        confirm=careful_fit(config, records, progress),
        most=candidates,
        progress=progress,
        seed=config.seed,
    )


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
        table = model_choice.with_resolutions(changed, config.resolution)
        model = model_choice.quick_model(table, config, n_orders=1)
        best = select_model(
            table,
            criterion=model_choice.penalty_of(config),
            search=config.search,
            restarts=min(config.restarts, 20),
            seed=config.seed,
            max_clique=config.max_clique,
            max_seconds=min(config.time_limit, 5.0),
            progress=OnlyCancelled(progress),
        ).best
        return Fitted(table, best, model, model_choice.risk_of(table, model, config))

    return fit


def careful_fit(config: RunConfig, records: Microdata, progress: Progress) -> Fit:
    """Fit the models, and set the rules for swaps, that a run on the recoded file would have."""

    def fit(changed: ContingencyTable) -> Fitted:
        table = model_choice.with_resolutions(changed, config.resolution)
        zeros = model_choice.structural_zeros(table, config)
        if config.zeros != "swaps":
            table = table.with_structural_zeros(zeros)
        chosen = model_choice.choose_models(table, config, progress=OnlyCancelled(progress))
        risk = model_choice.risk_of(table, chosen.risk_model, config)
        return Fitted(table, chosen.best, chosen.risk_model, risk, _rules(config, records, table, zeros))

    return fit


def _rules(config: RunConfig, records: Microdata, table: ContingencyTable, zeros: StructuralZeros) -> SwapRules:
    """The rules of a release; without records in memory, only those on combinations of keys."""
    if table.record_cell is None:
        return SwapRules(SwapConstraints(structural_zeros=zeros or None))
    wanted = config.protect or ProtectConfig()
    constraints, columns = swaps.rules_for_swaps(wanted, config, records, table, zeros)
    return SwapRules(constraints, wanted.keep, columns, records.record_names)


def other_columns(data: Microdata, table: ContingencyTable) -> list[OtherColumn]:
    """Columns outside the keys with few enough levels, if records are available."""
    if table.record_cell is None:
        return []
    left_out = {*table.keys, data.weight, data.household, data.id}
    names = [column.name for column in data.source.columns() if column.name not in left_out and column.kind != "other"]
    if not names:
        return []
    codes, categories = data.column_codes(names)
    return [
        OtherColumn.of_records(table, c.key, codes[:, k])
        for k, c in enumerate(categories)
        if 1 < c.n_levels <= MOST_LEVELS_OF_OTHERS
    ]


_NAMED = (
    *("population", "weight", "household", "geography", "strata", "id", "register", "sql", "encoding", "sheet", "decimal"),
    *("spark_table", "missing", "criterion", "search", "model", "resolution", "max_clique", "restarts", "time_limit", "form"),
    *("threshold", "memory", "zeros", "by"),
)
"""Options of a command that have the name and the value of a field; a default goes without saying."""


def command_for(point: ReleasePoint, target: ReleaseTarget, config: RunConfig, *, out: str = "release") -> str:
    """The command that carries out a point of the frontier."""
    words = ["rarecell", "protect", *([without_password(config.input)] if config.input else [])]
    words += ["--keys", joined_names(config.keys)]
    default = {part.name: part.default for part in fields(RunConfig)}
    for name in _NAMED:
        value = getattr(config, name)
        if value != default[name]:
            words += [f"--{name.replace('_', '-')}", f"{value:g}" if isinstance(value, float) else str(value)]
    if config.populations:
        words += ["--populations", joined_names(f"{name}={size}" for name, size in config.populations.items())]
    if config.sensitive:
        words += ["--sensitive", joined_names(config.sensitive)]
    if config.cliques:
        words += ["--cliques", ";".join(",".join(clique) for clique in config.cliques)]
    for name, keys in config.scenarios.items():
        words += ["--scenario", f"{name}={joined_names(keys)}"]
    for key, path in config.hierarchies.items():
        words += ["--hierarchy", f"{key}={path}"]
    for key, how in {**_recodings(config), **recodings_with(config, point.recoding)}.items():
        words += ["--recode", f"{key}={how}"]
    return f"{shlex.join(words)} {target.options} --out {out}"


def recodings_with(config: RunConfig, recoding: Mapping[str, str]) -> dict[str, str]:
    """How every key is released, in words, when a run also recodes some keys as a plan says.

    A run may say whether the levels of a key are ordered; groups found from the data depend on that.
    """
    found = dict(config.recode)
    for key, how in recoding.items():
        found[key] = f"{found[key]}, {how}" if key in found else how
    return found


def _recodings(config: RunConfig) -> dict[str, str]:
    """How the run changes the values of keys already, in words."""
    codings = {key: Coding.of(coding, key=key) for key, coding in joined_codings(config.coding, config.recode).items()}
    return {key: coding.in_words() for key, coding in codings.items() if coding.changes_values}


def as_json(found: ReleaseFrontier, config: RunConfig) -> Json:
    """The frontier as plain values."""
    return {
        "target": {name: value for name, value in asdict(found.target).items() if value is not None},
        "combinations": found.n_candidates,
        "points": _points(found.points, found, config),
        "cheapest": {name: found.points.index(point) for name, point in found.cheapest.items()},
        "looked_at": _points(found.looked_at, found, config),
    }


def _points(points: Sequence[ReleasePoint], found: ReleaseFrontier, config: RunConfig) -> list[Json]:
    return [{**asdict(point), "command": command_for(point, found.target, config)} for point in points]

"""What does the released file look like to its recipients?

Its table, with blanked values as levels of their own; who is unique in it and how risky that is; households; intervals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rarecell.data.microdata import Microdata
from rarecell.intruder.residual_risk import RiskAfter
from rarecell.outcome.roles import Concentration, GroupRisk, HouseholdsAfter, ReleasedState
from rarecell.outcome.swap import AnalysisSummary, AnalysisTerm, SwapSummary
from rarecell.release.analyses import MOST_RECORDS, Analysis, Compared, compare
from rarecell.release.release import Release
from rarecell.risk.interval import risk_interval
from rarecell.risk.records import RecordRisk, household_risk
from rarecell.risk.unsafe import k_anonymity
from rarecell.run.config import RunConfig
from rarecell.run.models import with_design_weights
from rarecell.run.results import Assessment
from rarecell.table.contingency import Categories, ContingencyTable

LEVEL_Z = 1.959963984540054
"""Half-width, in standard deviations, of an interval that holds 95 % of a normal distribution."""


# ---------------------------------------------------------------------- the table


def released_table(found: Assessment, release: Release) -> ContingencyTable:
    """The table of the released file, with its design weights; a blanked value is a level of its own.

    The input table must know the cell of each record. Weights stay with their record, so the weight of a cell changes with the
    records that enter and leave it.
    """
    weights = found.data.record_weights() if found.config.weight is not None else None
    codes, occurring = _occurring(release.categories, release.codes())
    made = ContingencyTable.from_codes(codes, occurring, weights=weights)
    return made if len(release.blanks.rows) else with_design_weights(found.data, made, found.config)


def _occurring(categories: Sequence[Categories], codes: NDArray[np.int32]) -> tuple[NDArray[np.int32], list[Categories]]:
    """Recode to the levels that occur, and return these levels; a level that was blanked everywhere is gone."""
    codes, found = codes.copy(), []
    kept = codes[(codes >= 0).all(axis=1)]
    for k, given in enumerate(categories):
        there = np.unique(kept[:, k])
        # The extra last element is for dropped records, whose code is −1.
        new_code = np.full(given.n_levels + 1, -1, dtype=np.int32)
        new_code[there] = np.arange(len(there), dtype=np.int32)
        codes[:, k] = new_code[codes[:, k]]
        found.append(Categories(given.key, tuple(given.levels[code] for code in there.tolist()), given.is_ordered))
    return codes, found


# ---------------------------------------------------------------------- who is alone in it


def released_state(found: Assessment, release: Release, after: RiskAfter, interval: tuple[float, float]) -> ReleasedState:
    """The state of the released file: the risk of each record that is unique in it, and how many records share a cell.

    ``interval`` is the :func:`interval_after`.
    """
    threshold = found.config.threshold
    has_blanks = len(release.blanks.rows) > 0
    table = released_table(found, release) if has_blanks else release.after
    edges = np.linspace(0.0, 1.0, 11)
    stayed = after.unique_probability[after.counts == 1]
    # Judge a swapped record by its highest chance of being linked, under any definition of near.
    risks = np.concatenate([stayed, after.swapped_highest[after.swapped_highest > 0.0]])
    n_alone = int((table.counts == 1).sum()) if has_blanks else after.n_sample_uniques
    counts = np.histogram(risks, edges)[0]
    # Blanking puts records among others, which are then not alone, or leaves others alone with next to no risk.
    counts[0] = max(0, int(counts[0]) + n_alone - len(risks))
    return ReleasedState(
        sample_uniques=n_alone,
        records_above_threshold=int((risks >= threshold).sum()),
        edges=tuple(edges.round(1).tolist()),
        counts=tuple(int(n) for n in counts),
        k_anonymity={str(k): n for k, n in k_anonymity(table).items()},
        households=_households(found, release, after),
        concentration=concentration_of(_alone_in_population(after, n_alone)),
        interval=interval,
    )


def _alone_in_population(after: RiskAfter, n_alone: int) -> NDArray[np.float64]:
    """For every sample unique of the released file, the probability that its person is alone in the population and is linked."""
    found = np.concatenate([after.unique_probability[after.counts == 1], after.swapped_unique[after.swapped_unique > 0.0]])
    return np.append(found, np.zeros(max(0, n_alone - len(found))))


def _households(found: Assessment, release: Release, after: RiskAfter) -> HouseholdsAfter | None:
    """Households whose members could be recognised in the released file."""
    codes = found.data.household_codes()
    if codes is None or release.before.record_cell is None:
        return None
    of_record = release.of_records(after.unique_probability, after.swapped_highest)
    probability = household_risk(of_record, codes)[np.unique(codes, return_index=True)[1]]
    return HouseholdsAfter(
        expected_with_an_identified_member=float(probability.sum()),
        above_threshold=int((probability >= found.config.threshold).sum()),
    )


def interval_after(found: Assessment, release: Release, after: RiskAfter) -> tuple[float, float]:
    """Interval for the number of records that could still be recognised.

    Records that stayed and are still unique are simulated as before protection, or counted in a register. Those that moved or lost
    values are added as independent trials with their probabilities.
    """
    stays = (after.unique_probability > 0.0) & (found.risk.sample_count == 1)
    others = [after.swapped_unique]
    if len(release.blanks.rows):
        cells = release.before.cell_of(np.setdiff1d(release.blanks.rows, release.rows))
        stays[cells] = False
        others.append(after.unique_probability[cells])
    chance = np.minimum(np.concatenate(others), 1.0)
    mean, spread = float(chance.sum()), LEVEL_Z * float(np.sqrt((chance * (1.0 - chance)).sum()))
    low, high = 0.0, 0.0
    if found.roles.register is not None:
        # Who stayed and is alone was counted; there is nothing to simulate.
        low = high = float(after.unique_probability[stays].sum())
    elif stays.any():
        alone = found.risk.unique_probability[stays].sum(), found.risk.match_probability[stays].sum()
        drawn = risk_interval(found.risk, found.choice.risk_model, among=stays, seed=found.config.seed)
        drawn = drawn.widened(found.summary.risk.model_error, (float(alone[0]), float(alone[1])))
        low, high = drawn.population_uniques
    return max(0.0, float(np.floor(low + max(0.0, mean - spread)))), float(np.ceil(high + mean + spread))


def with_interval_of_links(swap: SwapSummary) -> SwapSummary:
    """Add the interval of the nearest intruder's correct links to the state of the released file."""
    nearest = next((one for one in swap.intruders if one.name == "nearest"), None)
    if swap.released is None or nearest is None or len(nearest.interval_after) != 2:
        return swap
    low, high = nearest.interval_after
    return replace(swap, released=replace(swap.released, interval_correct_matches=(low, high)))


# Which groups of records are at risk, before and after protection, and how concentrated is the risk?


MOST_LEVELS = 400
"""For a key with more levels, only those with the most risk are reported."""

SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Shares of the sample uniques at which the concentration of risk is reported."""


RoleColumns = Mapping[str, tuple[NDArray[np.int32], Categories]]
"""Columns that have a role but are not keys: the code of each record, and the levels."""

ByLevel = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]
"""Three sums for each level of a column."""


def role_columns(data: Microdata, config: RunConfig, risk: RecordRisk) -> RoleColumns:
    """Areas, strata and sensitive columns with few enough levels to report one by one; none if records are not held in memory."""
    if risk.table.record_cell is None:
        return {}
    named = dict.fromkeys([*data.areas, *([config.strata] if config.strata else []), *config.sensitive])
    names = [name for name in named if name not in risk.table.keys]
    if not names:
        return {}
    codes, categories = data.column_codes(names)
    return {c.key: (codes[:, k], c) for k, c in enumerate(categories) if 1 < c.n_levels <= MOST_LEVELS}


def groups_of(
    risk: RecordRisk,
    release: Release | None = None,
    after: RiskAfter | None = None,
    columns: RoleColumns | None = None,
) -> tuple[GroupRisk, ...]:
    """The risk of every level of every key and of every column with a role; given a release, in the released file as well."""
    found: list[GroupRisk] = []
    for k in range(risk.table.n_keys):
        found += _of_key(risk, k, release, after)
    for codes, categories in (columns or {}).values():
        new_codes = codes if release is None else release.codes_of(categories.key, codes, release.rows)
        found += _of_column(risk, (codes, new_codes), categories, release, after)
    return tuple(found)


def _of_column(
    risk: RecordRisk,
    before_and_after: tuple[NDArray[np.int32], NDArray[np.int32]],
    categories: Categories,
    release: Release | None,
    after: RiskAfter | None,
) -> list[GroupRisk]:
    """Groups by a column outside the keys, which stays with its record or travels with a swapped key."""
    codes, new_codes = before_and_after
    table = risk.table
    assert table.record_cell is not None

    def summed(of_record: NDArray[np.float64], where: NDArray[np.int32] = codes) -> NDArray[np.float64]:
        return np.asarray(np.bincount(where, weights=of_record, minlength=categories.n_levels), dtype=np.float64)

    def by_cell(values: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.float64]:
        # The extra last element is for dropped records, whose cell is −1.
        return np.append(values.astype(np.float64), 0.0)[table.record_cell]

    records, uniques = summed(np.ones(len(codes))), summed(by_cell((table.counts == 1).astype(np.int64)))
    expected = summed(by_cell(risk.unique_probability))
    released = None
    if release is not None and after is not None:
        of_record, moved = by_cell(after.unique_probability), np.zeros(len(codes))
        of_record[release.rows] = after.swapped_unique
        moved[release.rows] = 1.0
        released = summed(np.ones(len(codes)), new_codes), summed(of_record, new_codes), summed(moved)
    return _told(categories, range(categories.n_levels), (records, uniques, expected), released)


def _of_key(risk: RecordRisk, k: int, release: Release | None, after: RiskAfter | None) -> list[GroupRisk]:
    table = risk.table
    categories, codes = table.categories[k], table.cells[:, k]

    def summed(values: NDArray[np.float64] | NDArray[np.int64], where: NDArray[np.int32] = codes) -> NDArray[np.float64]:
        return np.bincount(where, weights=values, minlength=categories.n_levels).astype(np.float64)

    records, uniques = summed(table.counts), summed((risk.sample_count == 1).astype(np.int64))
    expected = summed(risk.unique_probability)
    chosen = np.sort(np.argsort(-expected, kind="stable")[:MOST_LEVELS])
    released = None
    if release is not None and after is not None:
        new, old = release.released[:, k], release.true[:, k]
        ones = np.ones(len(release))
        left = summed(after.unique_probability) + summed(after.swapped_unique, new)
        released = records - summed(ones, old) + summed(ones, new), left, summed(ones, old)
    return _told(categories, chosen.tolist(), (records, uniques, expected), released)


def _told(categories: Categories, levels: Sequence[int], file: ByLevel, released: ByLevel | None) -> list[GroupRisk]:
    """The groups of some levels, from their sums.

    ``file`` has the records, the sample uniques and the expected population uniques of each level, ``released`` the records and
    the expected population uniques of the released file, and the records that were swapped.
    """
    records, uniques, expected = file
    now, left, swapped = released or (None, None, None)
    return [
        GroupRisk(
            key=categories.key,
            level=categories.labels[code],
            records=int(records[code]),
            sample_uniques=int(uniques[code]),
            expected_population_uniques=float(expected[code]),
            records_after=None if now is None else int(now[code]),
            expected_population_uniques_after=None if left is None else float(left[code]),
            swapped=None if swapped is None else int(swapped[code]),
        )
        for code in levels
    ]


def concentration_of(uniques: NDArray[np.float64]) -> tuple[Concentration, ...]:
    """The share of the expected population uniques that the riskiest records account for.

    Takes the probability of every sample unique to be alone in the population.
    """
    probability = -np.sort(-uniques)
    total = probability.sum()
    if total <= 0.0:
        return ()
    upto = np.cumsum(probability)
    numbers = sorted({max(1, round(share * len(probability))) for share in SHARES})
    return tuple(Concentration(records=n, share=float(upto[n - 1] / total)) for n in numbers)


# How do the analyses named by a run compare between the original and the protected file?


def compared_analyses(
    found: Assessment,
    release: Release,
    *,
    most_records: int = MOST_RECORDS,
) -> tuple[AnalysisSummary, ...]:
    """Run every analysis on both files, on a random sample where there are more than ``most_records`` records."""
    asked = [Analysis.of(name, given) for name, given in found.config.analysis.items()]
    if not asked:
        return ()
    names = list(dict.fromkeys(name for one in asked for name in one.columns(list(found.data.columns))))
    data, weight = found.data, found.config.weight
    sample, n_records = None, data.n_records
    moved = _positions(found, release)
    if n_records > most_records:
        # From a large file, read only the sample and the records that exchange something with it.
        sample = np.sort(np.random.default_rng(found.config.seed).choice(n_records, most_records, replace=False))
        rows = np.union1d(sample, moved)
        codes, categories = data.column_codes(names, rows)
        after = codes_after(codes, names, release, np.searchsorted(rows, moved), rows)
        codes, after = (part[np.searchsorted(rows, sample)] for part in (codes, after))
    else:
        codes, categories = data.column_codes(names)
        after = codes_after(codes, names, release, moved, np.arange(n_records))
    weights = None if weight is None else data.source.weights(weight, sample)
    files = [{c.key: _values(c, part[:, k]) for k, c in enumerate(categories)} for part in (codes, after)]
    told = []
    for one in asked:
        used = one.columns(names)
        before, changed = ({name: file[name] for name in used} for file in files)
        terms = compare(one, before, changed, weights)
        told.append(
            AnalysisSummary(
                name=one.name,
                kind=one.kind if one.kind != "regression" else f"{one.family} regression",
                formula=one.formula,
                weighted=weights is not None,
                records=len(codes),
                terms=tuple(_told_term(term) for term in terms),
            )
        )
    return tuple(told)


def _positions(found: Assessment, release: Release) -> NDArray[np.int64]:
    """The positions in the file of the rows of a release."""
    if release.before.record_cell is not None:
        return release.rows
    return found.data.source.rows_at(found.data.drawn_records(release.before, release.rows, seed=release.seed)[0])


def codes_after(
    codes: NDArray[np.int32], names: list[str], release: Release, moved: NDArray[np.int64], rows: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Codes of columns in the released file, −1 for a blanked value.

    ``moved`` gives the row of ``codes`` for each row of the release, ``rows`` the position in the file of each row of ``codes``.
    """
    after = np.stack([release.codes_of(name, codes[:, k], moved) for k, name in enumerate(names)], axis=1)
    for name, of_key in release.blanks.blanked.items():
        if name in names:
            after[np.isin(rows, release.blanks.rows[of_key]), names.index(name)] = -1
    return after


def _values(categories: Categories, codes: NDArray[np.int32]) -> list[object]:
    return list(np.array([*categories.levels, None], dtype=object)[codes])


def _told_term(term: Compared) -> AnalysisTerm:
    return AnalysisTerm(
        name=term.name,
        before=term.before,
        after=term.after,
        error_before=term.error_before,
        error_after=term.error_after,
        overlap=term.overlap,
        relative_bias=term.relative_bias,
    )

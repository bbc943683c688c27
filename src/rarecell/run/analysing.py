"""How do the analyses named by a run compare between the original and the protected file?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rarecell.outcome.swap import AnalysisSummary, AnalysisTerm
from rarecell.release.suppression import Suppression
from rarecell.run.results import Assessment
from rarecell.swap.analyses import MOST_RECORDS, Analysis, Compared, compare
from rarecell.swap.apply import Exchange
from rarecell.swap.carry import Travel
from rarecell.table.contingency import Categories


def compared_analyses(
    found: Assessment,
    plan: Exchange,
    travel: Travel,
    blanked: Suppression | None = None,
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
    moved = _positions(found, plan)
    if n_records > most_records:
        # From a large file, read only the sample and the records that exchange something with it.
        sample = np.sort(np.random.default_rng(found.config.seed).choice(n_records, most_records, replace=False))
        rows = np.union1d(sample, moved)
        codes, categories = data.column_codes(names, rows)
        after = codes_after(codes, names, plan, travel, np.searchsorted(rows, moved))
        with_blanks(after, names, blanked, rows)
        codes, after = (part[np.searchsorted(rows, sample)] for part in (codes, after))
    else:
        codes, categories = data.column_codes(names)
        after = codes_after(codes, names, plan, travel, moved)
        with_blanks(after, names, blanked, np.arange(n_records))
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


def _positions(found: Assessment, plan: Exchange) -> NDArray[np.int64]:
    """The positions in the file of the rows of a plan."""
    if plan.table.record_cell is not None:
        return plan.rows
    return found.data.source.rows_at(found.data.drawn_records(plan.table, plan.rows, seed=plan.seed)[0])


def codes_after(
    codes: NDArray[np.int32], names: list[str], plan: Exchange, travel: Travel, moved: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Apply swaps and travelling columns to ``codes``; ``moved`` gives the row of ``codes`` for each row of the plan."""
    after, own = codes.copy(), np.arange(len(plan.rows))
    keys_of = {**{key: (key,) for key in plan.table.keys}, **{one.column: one.keys for one in travel.carried}}
    for k, name in enumerate(names):
        for key in keys_of.get(name, ()):
            taken = plan.taken_from(key)
            is_new = taken != own
            after[moved[is_new], k] = codes[moved[taken[is_new]], k]
    return after


def with_blanks(after: NDArray[np.int32], names: list[str], blanked: Suppression | None, rows: NDArray[np.int64]) -> None:
    """Set the codes of blanked values to −1, in place; ``rows`` gives the position in the file of each row of ``after``."""
    if blanked is None:
        return
    for name, of_key in blanked.blanked.items():
        if name in names:
            after[np.isin(rows, blanked.rows[of_key]), names.index(name)] = -1


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

"""How are the analyses that a run names compared between the file and its protected form?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rarecell.outcome.swap import AnalysisSummary, AnalysisTerm
from rarecell.run.results import Assessment
from rarecell.swap.analyses import MOST_RECORDS, Analysis, Compared, compare
from rarecell.swap.carry import Travel
from rarecell.swap.plan import SwapPlan
from rarecell.table.contingency import Categories


def compared_analyses(found: Assessment, plan: SwapPlan, travel: Travel) -> tuple[AnalysisSummary, ...]:
    """Every analysis on both files, on a random sample of records where there are very many."""
    asked = [Analysis.of(name, given) for name, given in found.config.analysis.items()]
    if not asked:
        return ()
    names = list(dict.fromkeys(name for one in asked for name in one.columns(list(found.data.columns))))
    codes, categories = found.data.column_codes(names)
    after = codes_after(codes, names, plan, travel)
    rows = np.arange(len(codes))
    if len(rows) > MOST_RECORDS:
        rows = np.sort(np.random.default_rng(found.config.seed).choice(len(codes), MOST_RECORDS, replace=False))
    weights = found.data.record_weights()
    files = [{c.key: _values(c, part[rows, k]) for k, c in enumerate(categories)} for part in (codes, after)]
    told = []
    for one in asked:
        used = one.columns(names)
        before, changed = ({name: file[name] for name in used} for file in files)
        terms = compare(one, before, changed, None if weights is None else weights[rows])
        told.append(
            AnalysisSummary(
                name=one.name,
                kind=one.kind if one.kind != "regression" else f"{one.family} regression",
                formula=one.formula,
                weighted=weights is not None,
                records=len(rows),
                terms=tuple(_told_term(term) for term in terms),
            )
        )
    return tuple(told)


def codes_after(codes: NDArray[np.int32], names: list[str], plan: SwapPlan, travel: Travel) -> NDArray[np.int32]:
    """The columns with what was swapped, and what travelled with it."""
    after, own = codes.copy(), np.arange(len(plan.rows))
    keys_of = {**{key: (key,) for key in plan.table.keys}, **{one.column: one.keys for one in travel.carried}}
    for k, name in enumerate(names):
        for key in keys_of.get(name, ()):
            taken = plan.taken_from(key)
            moved = taken != own
            after[plan.rows[moved], k] = codes[plan.rows[taken[moved]], k]
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

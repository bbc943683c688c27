"""What does a log-linear model say that grows by the interactions which Skinner and Shlomo's statistic asks for?

Forward selection as in Skinner and Shlomo (2008): from independence, pairs of keys are added one by one until the statistic B1, which is
positive while the model misses dependence, is no longer so. Of the pairs with the largest likelihood ratio the one that brings B1
nearest to zero is taken. For comparison in ``accuracy.py`` only.
"""

from __future__ import annotations

import time
from itertools import combinations

import numpy as np

import rarecell as rc
from rarecell.errors import RarecellError
from rarecell.risk.diagnostics import fit_diagnostics

N_TRIED = 3
"""Pairs that are fitted at each step."""

MOST_SECONDS = 120.0
"""After this time the best model so far is taken."""


def forward_selected(table: rc.ContingencyTable, population: int, *, seed: int = 0) -> rc.HierarchicalModel:
    """The model of the path with the smallest absolute B1, in standard deviations."""

    def fitted(pairs: frozenset[tuple[str, str]]) -> rc.HierarchicalModel:
        alone = [(key,) for key in table.keys if not any(key in pair for pair in pairs)]
        return rc.HierarchicalModel(table, [*sorted(pairs), *alone], tolerance=0.01)

    def z_of(model: rc.HierarchicalModel) -> float:
        test = fit_diagnostics(table, model, population=population, n_draws=5_000, seed=seed).unique_test
        return float("inf") if test is None else test.z

    deadline = time.perf_counter() + MOST_SECONDS
    remaining = sorted(combinations(table.keys, 2), key=lambda pair: -_likelihood_ratio(table, *pair))
    chosen: frozenset[tuple[str, str]] = frozenset()
    best = fitted(chosen)
    best_z = z_of(best)
    while best_z > 0.0 and remaining and time.perf_counter() < deadline:
        tried = []
        for pair in remaining[:N_TRIED]:
            try:
                model = fitted(chosen | {pair})
                tried.append((abs(z_of(model)), pair, model))
            except RarecellError:
                continue
        if not tried or min(tried)[0] >= abs(best_z):
            break
        _, pair, best = min(tried, key=lambda one: one[0])
        best_z = z_of(best)
        chosen |= {pair}
        remaining.remove(pair)
    return best


def _likelihood_ratio(table: rc.ContingencyTable, one: str, other: str) -> float:
    """Of the pair against independence, less its degrees of freedom."""
    small = table.project([one, other])
    sizes = [c.n_levels for c in small.categories]
    joint = np.zeros(sizes)
    joint[tuple(small.cells.T)] = small.counts
    expected = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True) / joint.sum()
    seen = joint > 0
    ratio = float((joint[seen] * np.log(joint[seen] / expected[seen])).sum())
    return ratio - (sizes[0] - 1) * (sizes[1] - 1)

"""How uncertain are the probabilities of a decomposable model?

Under a hyper-Dirichlet prior the clique tables have independent Dirichlet posteriors along the clique tree, so p(i) is a
product of conditional probabilities, each of them a ratio of gamma variables.

References
----------
Dawid, A. P. and Lauritzen, S. L. (1993). Hyper Markov laws in the statistical analysis of decomposable graphical models.
Annals of Statistics 21.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.gamma import log_gammas
from rarecell.graph.chordal import ChordalGraph
from rarecell.machine.solving import minimum
from rarecell.model.cells import cells_that_agree
from rarecell.model.log_draws import log_gamma_draws
from rarecell.table.marginals import Marginals

Floats = NDArray[np.float64]


def hyper_dirichlet_draws(
    marginals: Marginals, graph: ChordalGraph, cells: NDArray[np.int32], n_draws: int, rng: np.random.Generator, mass: float
) -> Floats:
    """Draws of log p for any cells (key codes), one row per draw and one column per cell.

    1. Walk the cliques in a perfect sequence; clique C shares S with the earlier ones.
    2. Given the value of S, the cells of C have a Dirichlet distribution with parameters n(i_C) + α_C. Only those that a
       requested cell falls into are drawn; all others together are one more gamma variable with the remaining parameter.
    3. log p is the sum of the logarithms of these conditional probabilities.
    """
    table, sequence = marginals.table, graph.perfect_sequence
    log_p = np.zeros((n_draws, len(cells)))
    if not len(cells):
        return log_p
    for clique, separator in zip(sequence.cliques, sequence.separators, strict=True):
        column = cells_that_agree(table, clique, cells)
        asked = cells[np.unique(column, return_index=True)[1]]
        group = cells_that_agree(table, separator, asked)
        one_of_each = asked[np.unique(group, return_index=True)[1]]
        parameter = marginals.lookup(clique, asked) + mass / table.n_possible_cells(clique)
        group_total = np.array([marginals.total + mass])
        if separator:
            group_total = marginals.lookup(separator, one_of_each) + mass / table.n_possible_cells(separator)
        # With a coarsening in the separator, a group can have more than an even share of the levels; nothing is left then.
        rest = np.maximum(group_total - np.bincount(group, weights=parameter, minlength=len(group_total)), 0.0)
        drawn = log_gamma_draws(parameter, n_draws, rng)
        order = np.argsort(group, kind="stable")
        first = np.searchsorted(group[order], np.arange(len(group_total)))
        of_asked = np.logaddexp.reduceat(drawn[:, order], first, axis=1)
        total = np.logaddexp(of_asked, log_gamma_draws(rest, n_draws, rng))
        log_p += (drawn - total[:, group])[:, column]
    return log_p


def most_probable_mass(marginals: Marginals, graph: ChordalGraph) -> float:
    """Total mass of the hyper-Dirichlet prior under which the observed counts are most probable (empirical Bayes).

    It is at most about the number of records: a prior must not outweigh the data, however even they are.
    """
    table = marginals.table
    signed = [(mask, 1) for mask in graph.clique_masks] + [(mask, -times) for mask, times in graph.separator_masks]
    parts = [(marginals.counts(mask), float(table.n_possible_cells(mask)), sign) for mask, sign in signed if mask]

    def loss(log_mass: float) -> float:
        mass = np.exp(log_mass)
        whole = math.lgamma(mass) - math.lgamma(mass + marginals.total)
        # The empty separator of a disconnected graph adds nothing: the term of its one cell cancels ``whole``.
        value = 0.0
        for counts, n_possible, sign in parts:
            each = mass / n_possible
            value += sign * (float(np.sum(log_gammas(counts + each)) - len(counts) * math.lgamma(each)) + whole)
        return -float(value)

    # With few records there can be two maxima; the grid finds the higher one.
    grid = np.linspace(np.log(1e-2), np.log(marginals.total + 1.0), 25)
    best = int(np.argmin([loss(point) for point in grid]))
    around = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    return math.exp(minimum(loss, *around, tolerance=1e-3))

"""What does a mixture of independent keys say, the model that others use for the same purpose?

A truncated Dirichlet-process mixture of products of multinomials (latent classes), fitted by Gibbs sampling: Dunson and Xing (2009),
used for disclosure risk by Manrique-Vallier and Reiter (2012). For comparison in ``accuracy.py`` only.
"""

from __future__ import annotations

import numpy as np

import rarecell as rc

Floats = np.ndarray


def latent_class_risk(
    table: rc.ContingencyTable,
    population: int,
    *,
    n_classes: int = 40,
    n_burn_in: int = 300,
    n_draws: int = 60,
    every: int = 5,
    seed: int = 0,
) -> Floats:
    """P(unique in the population) of each sample unique, averaged over draws of the mixture.

    1. Draw the class of every record given weights and profiles; records of a cell have the same chances.
    2. Draw the sticks V_h ~ Beta(1 + n_h, α + n_later), and α from its gamma law.
    3. Draw the profile of each class and key from the Dirichlet law with counts + 1/levels.
    """
    rng = np.random.default_rng(seed)
    levels = [c.n_levels for c in table.categories]
    unique = table.unique_cells
    log_share = np.full(n_classes, -np.log(n_classes))
    profiles = [np.log(rng.dirichlet(np.ones(n), n_classes)) for n in levels]
    alpha = 1.0
    total, n_kept = np.zeros(len(unique)), 0
    for step in range(n_burn_in + n_draws * every):
        log_joint = log_share + sum(profile[:, table.cells[:, k]].T for k, profile in enumerate(profiles))
        largest = log_joint.max(axis=1, keepdims=True)
        chances = np.exp(log_joint - largest)
        in_class = rng.multinomial(table.counts, chances / chances.sum(axis=1, keepdims=True))
        of_class = in_class.sum(axis=0)
        later = of_class[::-1].cumsum()[::-1] - of_class
        sticks = np.clip(rng.beta(1.0 + of_class[:-1], alpha + later[:-1]), 1e-12, 1 - 1e-12)
        log_share = np.append(np.log(sticks), 0.0) + np.append(0.0, np.log1p(-sticks).cumsum())
        alpha = rng.gamma(0.25 + n_classes - 1, 1.0 / (0.25 - np.log1p(-sticks).sum()))
        for k, n in enumerate(levels):
            counts = np.stack([np.bincount(table.cells[:, k], weights=in_class[:, h], minlength=n) for h in range(n_classes)])
            drawn = np.maximum(rng.standard_gamma(counts + 1.0 / n), 1e-300)
            profiles[k] = np.log(drawn / drawn.sum(axis=1, keepdims=True))
        if step >= n_burn_in and (step - n_burn_in) % every == 0:
            log_p = log_share + sum(profile[:, table.cells[unique, k]].T for k, profile in enumerate(profiles))
            probability = np.exp(log_p).sum(axis=1)
            total += np.exp((population - table.n_records) * np.log1p(-np.minimum(probability, 1 - 1e-12)))
            n_kept += 1
    return total / n_kept

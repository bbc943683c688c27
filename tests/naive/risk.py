"""Slow twins of what the risk package computes: sums written out, subsets enumerated, populations simulated."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import comb

import numpy as np
from scipy import stats


def match_probability_binomial(probability: Fraction, n_unseen: int, sample_count: int) -> Fraction:
    """E 1/(f+X) for binomial X in exact arithmetic."""
    rest = 1 - probability
    return sum(
        (comb(n_unseen, k) * probability**k * rest ** (n_unseen - k) / (sample_count + k) for k in range(n_unseen + 1)),
        Fraction(0),
    )


def match_probability_poisson(mean: float, sample_count: int) -> float:
    """E 1/(f+X) for Poisson X, summed over twelve standard deviations and more."""
    width = 40 + 12 * mean**0.5
    k = np.arange(max(0, int(mean - width)), int(mean + width) + 1)
    return float(np.sum(stats.poisson.pmf(k, mean) / (sample_count + k)))


def match_probability_negative_binomial(mean: float, shape: float, fraction: float, sample_count: int) -> float:
    """E 1/(f+X) for the negative binomial X of the Poisson–gamma model, summed until nothing is left."""
    rate = shape / mean + fraction
    law = stats.nbinom(shape + sample_count, rate / (rate + 1 - fraction))
    k = np.arange(int(law.ppf(1 - 1e-13)) + 1)
    return float(np.sum(law.pmf(k) / (sample_count + k)))


def minimal_unsafe_sets(codes: np.ndarray, counts: np.ndarray, max_size: int) -> set[tuple[int, int]]:
    """Pairs (cell, mask): every subset of keys tried, smaller first, against every cell."""
    n_keys = len(codes)
    pairs = set()
    for cell in np.flatnonzero(counts == 1).tolist():
        found: list[int] = []
        for size in range(1, max_size + 1):
            for keys in itertools.combinations(range(n_keys), size):
                mask = sum(1 << k for k in keys)
                if any(smaller & ~mask == 0 for smaller in found):
                    continue
                rows = list(keys)
                agrees = (codes[rows] == codes[rows, cell][:, None]).all(axis=0)
                if counts[agrees].sum() == 1:
                    found.append(mask)
        pairs.update((cell, mask) for mask in found)
    return pairs


def population_and_sample(
    probability: np.ndarray, population: int, n_records: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Population counts of the cells, drawn multinomially, and the counts of a simple random sample of them."""
    population_count = rng.multinomial(population, probability)
    sample_count = rng.multivariate_hypergeometric(population_count, n_records, method="marginals")
    return population_count, sample_count

"""The share of a concealed key that a column determines, from dictionaries of counts and an average over permutations."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np


def conditional_information(values: Sequence[int], shown: Sequence[int], column: Sequence[int]) -> tuple[float, float]:
    """H(X | S) and I(X; Y | S) in nats for each record, by their definitions."""
    n = len(values)
    sxy, sx = Counter(zip(shown, values, column, strict=True)), Counter(zip(shown, values, strict=True))
    sy, s = Counter(zip(shown, column, strict=True)), Counter(shown)
    entropy = -sum(c / n * math.log(c / s[a]) for (a, _), c in sx.items())
    told = sum(c / n * math.log(c * s[a] / (sx[a, x] * sy[a, y])) for (a, x, y), c in sxy.items())
    return entropy, told


def determines(
    values: Sequence[int], shown: Sequence[int], column: Sequence[int], *, seed: int = 0, permutations: int = 200
) -> float:
    """D = (I − E) / (H − E) over all records, with E the mean of I over permutations of X within S."""
    entropy, told = conditional_information(values, shown, column)
    rng, by_chance = np.random.default_rng(seed), []
    for _ in range(permutations):
        permuted = np.array(values)
        for level in set(shown):
            members = [r for r, a in enumerate(shown) if a == level]
            permuted[members] = rng.permutation(permuted[members])
        by_chance.append(conditional_information(permuted.tolist(), shown, column)[1])
    expected = float(np.mean(by_chance))
    return (told - expected) / (entropy - expected)

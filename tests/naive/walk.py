"""Slow twin of the walk over a product of tables."""

from __future__ import annotations

from itertools import product

import numpy as np


def walk(layout, tables, part, n_parts):
    """Every cell by itself."""
    sums = np.zeros(len(tables))
    total = 0.0
    for code in product(*(range(n) for n in layout.levels)):
        if code[0] % n_parts != part:
            continue
        places = [layout.offset[f] + int(np.dot(layout.stride[f], code)) for f in range(len(layout.offset))]
        value = float(np.prod(tables[places])) if places else 1.0
        total += value
        for place in places:
            sums[place] += value
    return total, sums

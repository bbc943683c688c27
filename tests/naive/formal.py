"""The formal mode from its definitions: every file of a fibre, every arrangement of a stratum, every probability."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product

import numpy as np

Row = tuple[int, ...]
File = tuple[Row, ...]


@dataclass(frozen=True)
class Kernel:
    """Columns of the separator, columns that move, and θ of a row; a row's θ may look at columns that do not move."""

    separator: tuple[int, ...]
    side: tuple[int, ...]
    theta: Callable[[Row], float]


def part(row: Row, columns: Sequence[int]) -> Row:
    return tuple(row[c] for c in columns)


def arrangements(values: Sequence[Row]) -> Iterator[tuple[Row, ...]]:
    """Every different order of the values."""
    counts = Counter(values)

    def rest(left: Counter[Row]) -> Iterator[tuple[Row, ...]]:
        if not left:
            yield ()
        for value in sorted(left):
            fewer = left - Counter([value])
            for tail in rest(fewer):
                yield (value, *tail)

    yield from rest(counts)


def arrangement_probabilities(values: Sequence[Row], thetas: Sequence[float]) -> dict[tuple[Row, ...], float]:
    """P(arrangement) ∝ product of θ over the rows whose value changes."""
    weight = {}
    for new in arrangements(values):
        weight[new] = float(np.prod([theta for one, old, theta in zip(new, values, thetas, strict=True) if one != old]))
    total = sum(weight.values())
    return {new: one / total for new, one in weight.items()}


def after_kernel(file: File, kernel: Kernel) -> dict[File, float]:
    """Distribution of the file after one kernel."""
    strata: dict[Row, list[int]] = {}
    for r, row in enumerate(file):
        strata.setdefault(part(row, kernel.separator), []).append(r)
    of_strata = []
    for rows in strata.values():
        values = [part(file[r], kernel.side) for r in rows]
        found = arrangement_probabilities(values, [kernel.theta(file[r]) for r in rows])
        of_strata.append([(rows, new, p) for new, p in found.items()])
    result: dict[File, float] = {}
    for chosen in product(*of_strata):
        codes = [list(row) for row in file]
        probability = 1.0
        for rows, new, p in chosen:
            probability *= p
            for r, value in zip(rows, new, strict=True):
                for c, code in zip(kernel.side, value, strict=True):
                    codes[r][c] = code
        result[tuple(tuple(row) for row in codes)] = probability
    return result


def fibre(file: File, cliques: Sequence[Sequence[int]], root: Sequence[int], *, most: int | None = None) -> list[File]:
    """Every file with the same clique margins whose rows have the same root clique, or the first ``most``: by trying all rows."""
    wanted = [Counter(part(row, clique) for row in file) for clique in cliques]
    free = [c for c in range(len(file[0])) if c not in root]
    levels = [sorted({row[c] for row in file}) for c in free]
    choices = [dict(zip(free, values, strict=True)) for values in product(*levels)]

    def rest(r: int, left: list[Counter[Row]]) -> Iterator[File]:
        if r == len(file):
            yield ()
            return
        for choice in choices:
            row = tuple(choice.get(c, value) for c, value in enumerate(file[r]))
            parts = [part(row, clique) for clique in cliques]
            if all(counts[one] for counts, one in zip(left, parts, strict=True)):
                fewer = [counts - Counter([one]) for counts, one in zip(left, parts, strict=True)]
                for tail in rest(r + 1, fewer):
                    yield (row, *tail)

    return list(islice(rest(0, wanted), most))


def transitions(files: Sequence[File], kernels: Sequence[Kernel]) -> np.ndarray:
    """P(from file to file) when the kernels are applied in this order."""
    place = {file: k for k, file in enumerate(files)}
    whole = np.eye(len(files))
    for kernel in kernels:
        one = np.zeros((len(files), len(files)))
        for file, k in place.items():
            for after, p in after_kernel(file, kernel).items():
                one[k, place[after]] += p
        whole = whole @ one
    return whole


def largest_log_ratio(files: Sequence[File], whole: np.ndarray) -> float:
    """The largest |log P(z | x) − log P(z | x′)| per record in which x and x′ differ."""
    logs = np.log(whole)
    codes = np.array(files)
    largest = 0.0
    for k in range(len(files)):
        n_differing = (codes[k] != codes).any(axis=2).sum(axis=1)
        others = n_differing > 0
        ratios = np.abs(logs[k] - logs[others]).max(axis=1, initial=0.0) / n_differing[others]
        largest = max(largest, float(ratios.max(initial=0.0)))
    return largest

"""Intruders by comparing every record with every person, one by one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np

import rarecell as rc

Distance = Callable[[np.ndarray, np.ndarray], float]


def distance_by_rank(categories: tuple[rc.Categories, ...], weight: float) -> Distance:
    """Ordered keys by rank over range, the others by equality."""
    spreads = [max(1, of_key.n_levels - 1) if of_key.is_ordered else None for of_key in categories]

    def apart(one: np.ndarray, other: np.ndarray) -> float:
        total = 0.0
        for spread, a, b in zip(spreads, np.asarray(one).tolist(), np.asarray(other).tolist(), strict=True):
            total += float(a != b) if spread is None else weight * abs(a - b) / spread
        return total

    return apart


def family(categories: tuple[rc.Categories, ...], records: np.ndarray) -> list[Distance]:
    """Every distance that an intruder may use: by rank, value and standard deviation, equal or not, whole numbers both ways.

    Keys have whole numbers as levels; ``records`` has the codes of each record.
    """

    def measured(kind: dict[str, str], scale: str, weight: float) -> Distance:
        numbers: list[list[float] | None] = []
        for k, of_key in enumerate(categories):
            if kind.get(of_key.key, "ordered" if of_key.is_ordered else "names") == "names":
                numbers.append(None)
                continue
            values = np.arange(of_key.n_levels) if scale == "rank" else np.array(of_key.levels)
            spread = float(values.max() - values.min()) if of_key.n_levels > 1 else 1.0
            if scale == "deviation":
                spread = float(np.std(values[records[:, k]])) or 1.0
            numbers.append([weight * float(value) / spread for value in values])

        def apart(one: np.ndarray, other: np.ndarray) -> float:
            total = 0.0
            for a, b, of_key in zip(np.asarray(one).tolist(), np.asarray(other).tolist(), numbers, strict=True):
                total += float(a != b) if of_key is None else abs(of_key[a] - of_key[b])
            return total

        return apart

    found = [measured({}, scale, weight) for scale in ("rank", "value", "deviation") for weight in (1.0, 3.0, 10.0)]
    found.append(measured({of_key.key: "names" for of_key in categories}, "rank", 1.0))
    whole = [of_key for of_key in categories if of_key.n_levels > 2]
    found += [measured({of_key.key: "names"}, "rank", 3.0) for of_key in whole if of_key.is_ordered]
    found.append(measured({of_key.key: "ordered" for of_key in whole if not of_key.is_ordered}, "rank", 3.0))
    return found


def others(persons: np.ndarray, point: np.ndarray, bound: float, apart: Distance) -> tuple[int, int]:
    """Persons (a row each) nearer to a point than a bound, and persons exactly as far."""
    distances = [apart(point, person) for person in persons]
    return sum(d < bound - 1e-9 for d in distances), sum(abs(d - bound) <= 1e-9 for d in distances)


def exact_links(original: np.ndarray, released: np.ndarray, register: np.ndarray) -> dict[int, float]:
    """Probability of each record that is alone in the released file, by row."""
    found = {}
    for row in _alone(released):
        n_alike = sum((person == released[row]).all() for person in register)
        found[row] = 1.0 / n_alike if (original[row] == released[row]).all() and n_alike else 0.0
    return found


def nearest_links(original: np.ndarray, released: np.ndarray, register: np.ndarray, apart: Distance) -> dict[int, float]:
    """The same for the nearest person."""
    found = {}
    for row in _alone(released):
        is_in = any((person == original[row]).all() for person in register)
        n_nearer, n_tied = others(register, released[row], apart(released[row], original[row]), apart)
        found[row] = 1.0 / n_tied if is_in and not n_nearer else 0.0
    return found


def participant_links(original: np.ndarray, released: np.ndarray, apart: Distance) -> dict[int, float]:
    """The same for somebody who looks for a person's record in the released file."""
    found = {}
    for row in sorted({*_alone(original), *_alone(released)}):
        n_nearer, n_tied = others(released, original[row], apart(original[row], released[row]), apart)
        found[row] = 0.0 if n_nearer else 1.0 / n_tied
    return found


def ball(levels: list[int], point: np.ndarray, bound: float, apart: Distance) -> set[tuple[int, ...]]:
    """All combinations of levels within a distance."""
    return {cell for cell in product(*(range(n) for n in levels)) if apart(point, np.array(cell)) <= bound + 1e-9}


def _alone(codes: np.ndarray) -> list[int]:
    return [row for row in range(len(codes)) if sum((codes == codes[row]).all(axis=1)) == 1]


def informed_links(
    original: np.ndarray, released: np.ndarray, register: np.ndarray, categories: tuple[rc.Categories, ...]
) -> dict[int, float]:
    """The same for somebody who knows shares and kinds of moves, by the weights ω of all persons."""

    def population_count(cell: np.ndarray) -> int:
        return int((register == cell).all(axis=1).sum())

    def class_of(cell: np.ndarray) -> int:
        return int(np.searchsorted([1.5, 3.5, 9.5, 99.5], population_count(cell)))

    moved = [row for row in range(len(original)) if (original[row] != released[row]).any()]
    n_in, n_moved = np.zeros(5), np.zeros(5)
    for row, cell in enumerate(original):
        n_in[class_of(cell)] += 1
        n_moved[class_of(cell)] += row in moved
    share = (n_moved + 0.5) / (n_in + 1.0)
    sets = [tuple(original[row] != released[row]) for row in moved]

    def of_step(k: int, a: int, b: int) -> float:
        n = categories[k].n_levels
        if not categories[k].is_ordered or n < 3:
            return 1.0 / max(n - 1, 1)
        bins = np.full(int(n - 1).bit_length(), 0.5)
        for row in moved:
            if original[row, k] != released[row, k]:
                bins[int(np.log2(abs(int(original[row, k]) - int(released[row, k]))))] += 1
        place = int(np.log2(abs(a - b)))
        return float(bins[place] / bins.sum() / (2.0 * 2.0**place))

    def omega(cell: np.ndarray, target: np.ndarray) -> float:
        s = share[class_of(cell)]
        pattern = tuple(cell != target)
        if not any(pattern):
            return float(1.0 - s)
        kernel = sets.count(pattern) / len(sets)
        for k in np.flatnonzero(pattern):
            kernel *= of_step(k, int(cell[k]), int(target[k]))
        return float(s * kernel)

    found = {}
    for row in _alone(released):
        weights = np.array([omega(person, released[row]) for person in register])
        own = omega(original[row], released[row])
        is_in = any((person == original[row]).all() for person in register)
        best = is_in and own > 0 and weights.max() <= own * (1 + 1e-8)
        found[row] = 1.0 / (weights >= own * (1 - 1e-8)).sum() if best else 0.0
    return found


def suspects(
    persons: np.ndarray,
    released: np.ndarray,
    row: int,
    true: np.ndarray,
    moved: set[int],
    agreed: set[int],
    ordered: list[bool],
    levels: list[int],
) -> dict[tuple[int, ...], tuple[int, bool]]:
    """People who differ from a released row on exactly the keys ``moved``, by what is known of them, and whether its person is one.

    Known are, by class: people of the cell, rows left in it, how far, mates, mates with a home, and orphans.
    """
    people, rows = [tuple(person) for person in persons.tolist()], [tuple(one) for one in released.tolist()]
    own = rows[row]
    found: dict[tuple[int, ...], tuple[int, bool]] = {}

    def class_of(number: int, ends: tuple[int, ...]) -> int:
        return sum(number > end for end in ends)

    for cell in sorted(set(people)):
        if {k for k in range(len(own)) if cell[k] != own[k]} != moved:
            continue
        mates = [mate for mate in rows if all(mate[k] == cell[k] for k in moved) and all(mate[k] == own[k] for k in agreed)]
        at_home = [mate for mate in mates if tuple(own[k] if k in moved else mate[k] for k in range(len(own))) in people]
        orphans = [mate for mate in at_home if mate not in people]
        n_people, n_rows = people.count(cell), rows.count(cell)
        apart = sum(abs(cell[k] - own[k]) / (levels[k] - 1) for k in moved if ordered[k] and levels[k] > 1)
        features = (
            class_of(n_people, (1, 3, 9, 99)),
            0 if n_rows == 0 else 1 if n_rows < n_people else 2,
            0 if apart == 0.0 else 1 + sum(apart > end for end in (0.05, 0.15, 0.4)),
            *(class_of(len(part), (0, 1, 3, 9)) for part in (mates, at_home, orphans)),
        )
        number, is_in = found.get(features, (0, False))
        found[features] = number + n_people, is_in or cell == tuple(true.tolist())
    return found


def logit(claims: list[list[tuple[float, list[int]]]], beta: np.ndarray) -> list[list[float]]:
    """Probabilities of the suspects of each claim, each given by the number of people and the places in β of its features."""
    found = []
    for suspects_of_claim in claims:
        weight = [people * np.exp(sum(beta[place] for place in places)) for people, places in suspects_of_claim]
        found.append([one / sum(weight) for one in weight])
    return found

"""Swapping by definition: margins recounted, all pairs, all subsets, all tables. Slow and plain."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, combinations_with_replacement, product

Row = tuple[int, ...]


def margins(rows: Iterable[Row], sets: Sequence[Sequence[int]]) -> list[Counter[Row]]:
    """Counts of each set of columns."""
    listed = list(rows)
    return [Counter(tuple(row[c] for c in columns) for row in listed) for columns in sets]


def exchanged(row: Row, other: Row, moved: Iterable[int]) -> Row:
    """``row`` with the values of ``other`` on the columns ``moved``."""
    taken = set(moved)
    return tuple(other[c] if c in taken else value for c, value in enumerate(row))


def subsets(items: Sequence[int]) -> Iterator[tuple[int, ...]]:
    for size in range(len(items) + 1):
        yield from combinations(items, size)


def swaps(
    one: Row, other: Row, sets: Sequence[Sequence[int]], follows: dict[int, list[int]], keys: Sequence[int]
) -> set[frozenset[Row]]:
    """The different pairs of key cells that an exchange of keys (with what follows them) makes without changing a margin.

    Columns outside ``keys`` and what follows them stay with their row.
    """
    old = margins([one, other], sets)
    before = frozenset([tuple(one[k] for k in keys), tuple(other[k] for k in keys)])
    found = set()
    for chosen in subsets(keys):
        moved = [c for k in chosen for c in (k, *follows.get(k, []))]
        new = [exchanged(one, other, moved), exchanged(other, one, moved)]
        after = frozenset(tuple(row[k] for k in keys) for row in new)
        if after != before and margins(new, sets) == old:
            found.add(after)
    return found


def swap_weight(cell: Row, rows: Sequence[Row], neighbours: Sequence[int]) -> int:
    """Σ over records j elsewhere of (parts of the difference − 1)."""
    total = 0
    for other in rows:
        if other != cell:
            total += len(parts([v for v in range(len(cell)) if cell[v] != other[v]], neighbours)) - 1
    return total


def parts(vertices: Sequence[int], neighbours: Sequence[int]) -> list[set[int]]:
    """Connected components of the induced graph."""
    left = set(vertices)
    found = []
    while left:
        part, frontier = set(), {min(left)}
        while frontier:
            part |= frontier
            frontier = {w for v in frontier for w in left if neighbours[v] >> w & 1} - part
        left -= part
        found.append(part)
    return found


def fibre(
    n_records: int, levels: Sequence[int], sets: Sequence[Sequence[int]], wanted: list[Counter[Row]]
) -> Iterator[Counter[Row]]:
    """All tables of ``n_records`` records with the wanted margins."""
    cells = list(product(*(range(n) for n in levels)))
    for rows in combinations_with_replacement(cells, n_records):
        if margins(rows, sets) == wanted:
            yield Counter(rows)


# ---------------------------------------------------------------------- twins of kernels


def mixed(number: int) -> int:
    """splitmix64."""
    word = 2**64 - 1
    z = (number + 0x9E3779B97F4A7C15) & word
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & word
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & word
    return z ^ (z >> 31)


def distance(
    tables: Sequence[Sequence[Sequence[float]]], weights: Sequence[float], one: Row, other: Row, moved: Iterable[int]
) -> float:
    """Weighted sum of table entries over the moved keys."""
    return sum(weights[k] * tables[k][one[k]][other[k]] for k in moved)


def breaks_a_rule(rules: Sequence[dict[int, set[int]]], before: Row, after: Row) -> bool:
    """Whether a row has a forbidden combination that it had not before; a rule maps columns to sets of codes."""

    def holds(rule: dict[int, set[int]], row: Row) -> bool:
        return all(row[c] in codes for c, codes in rule.items())

    return any(holds(rule, after) and not holds(rule, before) for rule in rules)


def nobody_else(n_unseen: float, probability: float) -> float:
    return (1.0 - probability) ** n_unseen


def exchange_cost(
    one: Row,
    other: Row,
    moved: Iterable[int],
    *,
    apart: float,
    counts: dict[Row, int],
    closed: set[Row],
    probability: dict[Row, float],
    link: dict[Row, float],
    intruder: Callable[[Row, Row], float],
    n_unseen: float,
    link_weight: float,
    empty_weight: float = 0.0,
    n_probes: int = 0,
    negligible: float = 0.0,
) -> float:
    """Distance plus link risk as the search for candidates sees it: new cells at the mean of the old log probabilities.

    ``counts`` are the known persons; a record is covered when its partner, one with its new values, or one who differs from
    them in a single key by at most ``n_probes`` levels (−1: anybody), is nearer to these than its own person. For a cost below
    ``negligible`` nobody looks for those who differ. A record in a cell where nobody is known costs ``empty_weight`` of a link more,
    covered or not.
    """
    moved = list(moved)
    if any(cell in closed for cell in (exchanged(one, other, moved), exchanged(other, one, moved))):
        return math.inf
    mean = math.sqrt(probability[one] * probability[other])
    total = 0.0
    for old, partner, new in ((one, other, exchanged(one, other, moved)), (other, one, exchanged(other, one, moved))):
        steps = {person: [abs(a - b) for a, b in zip(person, new, strict=True) if a != b] for person in counts}
        cost = link_weight * link[old] * nobody_else(n_unseen, mean)
        most = n_probes if cost >= negligible else 0
        is_seen = {person: most < 0 or not step or (len(step) == 1 and step[0] <= most) for person, step in steps.items()}
        others = [person for person in counts if is_seen[person]] + [partner]
        is_covered = any(intruder(new, person) < intruder(new, old) - 1e-9 for person in others)
        total += 0.0 if is_covered else cost
        total += 0.0 if new in counts else empty_weight * cost
        total += link_weight * link[old] if counts[old] == 2 else 0.0
    return apart + total


def household_cost(
    members: Sequence[tuple[Row, Row]],
    is_risky: Sequence[bool],
    side: Sequence[int],
    n_keys: int,
    cost: Callable[[Row, Row, list[int]], float],
    closed: set[Row],
    distance: Callable[[Row, Row, list[int]], float],
) -> float:
    """Cost of exchanging ``side`` between the members of two households, pair by pair; infinite when one pair cannot, or nobody moves."""
    total = 0.0
    if not any(one[k] != other[k] for one, other in members for k in side):
        return math.inf
    for (one, other), risky in zip(members, is_risky, strict=True):
        differing = [k for k in range(n_keys) if one[k] != other[k]]
        moved = [k for k in differing if k in side]
        if not moved:
            total += math.inf if risky else 0.0
        elif moved == differing:
            total += math.inf if one in closed or other in closed else distance(one, other, moved)
        else:
            total += cost(one, other, moved)
    return total


def least_assignment(costs: list[dict[int, float]], capacity: Sequence[int], penalty: Sequence[float]) -> float:
    """The least cost of giving each bidder one of its objects or none, by trying everything."""

    def best(bidder: int, left: tuple[int, ...]) -> float:
        if bidder == len(costs):
            return 0.0
        least = penalty[bidder] + best(bidder + 1, left)
        for thing, cost in costs[bidder].items():
            if left[thing] > 0:
                fewer = tuple(n - (o == thing) for o, n in enumerate(left))
                least = min(least, cost + best(bidder + 1, fewer))
        return least

    return best(0, tuple(capacity))


def least_matching(costs: list[dict[int, float]], capacity: Sequence[int], penalty: Sequence[float]) -> float:
    """As :func:`least_assignment`, where object u < number of bidders is bidder u, too, and a swap with it serves both."""
    n = len(costs)

    def best(waiting: frozenset[int], left: tuple[int, ...]) -> float:
        if not waiting:
            return 0.0
        one = min(waiting)
        rest = waiting - {one}
        least = penalty[one] + best(rest, left)
        for thing, cost in costs[one].items():
            if thing < n and thing in rest:
                least = min(least, cost + best(rest - {thing}, left))
            elif thing >= n and left[thing] > 0:
                least = min(least, cost + best(rest, tuple(c - (o == thing) for o, c in enumerate(left))))
        for other in rest:
            if one in costs[other]:
                least = min(least, costs[other][one] + best(rest - {other}, left))
        return least

    return best(frozenset(range(n)), tuple(capacity))


def pairs_of_chains(chosen: Sequence[int], cost_to_next: Sequence[float], has_own: Sequence[bool]) -> tuple[int, float]:
    """How many can be served along chains of choices, and the least cost of the pairs that do: by trying all pairings.

    Counts whoever is in a pair or keeps a partner of its own.
    """
    edges = [(r, s) for r, s in enumerate(chosen) if s >= 0]

    def best(place: int, taken: frozenset[int]) -> tuple[int, float]:
        if place == len(edges):
            return sum(1 for r in range(len(chosen)) if r in taken or has_own[r]), 0.0
        results = [best(place + 1, taken)]
        r, s = edges[place]
        if r not in taken and s not in taken:
            served, cost = best(place + 1, taken | {r, s})
            results.append((served, cost + cost_to_next[r]))
        return min(results, key=lambda result: (-result[0], result[1]))

    return best(0, frozenset())


def hellinger(before: Counter[Row], after: Counter[Row]) -> float:
    n, m = sum(before.values()), sum(after.values())
    cells = set(before) | set(after)
    return math.sqrt(0.5 * sum((math.sqrt(before[c] / n) - math.sqrt(after[c] / m)) ** 2 for c in cells))


def cramers_v(pairs: Sequence[tuple[int, int]]) -> float:
    joint, rows, columns = Counter(pairs), Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    smaller = min(len(rows), len(columns)) - 1
    if smaller < 1:
        return 0.0
    n = len(pairs)
    chi_square = sum((joint[a, b] - rows[a] * columns[b] / n) ** 2 / (rows[a] * columns[b] / n) for a in rows for b in columns)
    return math.sqrt(chi_square / (n * smaller))

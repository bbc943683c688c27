"""Slow twins of the kernels on chordal graphs, straight from the definitions.

Graphs are lists of neighbour sets; :func:`sets_of` and :func:`masks_of` translate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, permutations, product
from math import comb

Graph = list[set[int]]
Tree = frozenset[tuple[int, int]]


def vertices_of(mask: int) -> set[int]:
    return {v for v in range(64) if int(mask) & 2**v}


def mask_of(vertices: Iterable[int]) -> int:
    return sum(2**v for v in set(vertices))


def sets_of(neighbours: Iterable[int]) -> Graph:
    return [vertices_of(mask) for mask in neighbours]


def masks_of(graph: Graph) -> tuple[int, ...]:
    return tuple(mask_of(around) for around in graph)


def popcount(mask: int) -> int:
    return bin(mask).count("1")


def lowest_bit(mask: int) -> int:
    return min(vertices_of(mask), default=64)


def subsets(vertices: Iterable[int]) -> Iterator[tuple[int, ...]]:
    listed = sorted(vertices)
    for size in range(len(listed) + 1):
        yield from combinations(listed, size)


def all_graphs(n: int) -> Iterator[Graph]:
    """Every labelled graph."""
    pairs = list(combinations(range(n), 2))
    for chosen in product([False, True], repeat=len(pairs)):
        graph: Graph = [set() for _ in range(n)]
        for (u, v), is_edge in zip(pairs, chosen, strict=True):
            if is_edge:
                graph[u].add(v)
                graph[v].add(u)
        yield graph


def toggled(graph: Graph, u: int, v: int) -> Graph:
    changed = [set(around) for around in graph]
    changed[u] ^= {v}
    changed[v] ^= {u}
    return changed


def component(graph: Graph, start: int, allowed: set[int]) -> set[int]:
    reached = {start}
    while True:
        grown = reached | {w for v in reached for w in graph[v] if w in allowed}
        if grown == reached:
            return reached
        reached = grown


def components(graph: Graph, allowed: set[int]) -> list[set[int]]:
    found: list[set[int]] = []
    for v in sorted(allowed):
        if not any(v in other for other in found):
            found.append(component(graph, v, allowed))
    return found


def reachable(graph: Graph, start: set[int], allowed: set[int]) -> set[int]:
    return set().union(*(component(graph, v, allowed) for v in start & allowed))


def is_complete(graph: Graph, members: Iterable[int]) -> bool:
    return all(v in graph[u] for u, v in combinations(members, 2))


def is_chordal(graph: Graph) -> bool:
    """No set of four or more vertices induces a cycle, i.e. a connected graph in which all have two neighbours."""
    for chosen in subsets(range(len(graph))):
        inside = set(chosen)
        if (
            len(inside) >= 4
            and all(len(graph[v] & inside) == 2 for v in inside)
            and component(graph, chosen[0], inside) == inside
        ):
            return False
    return True


def is_chordal_by_elimination(graph: Graph) -> bool:
    """Vertices with complete neighbours can be taken away one after another until none is left."""
    left = set(range(len(graph)))
    while left:
        simplicial = [v for v in left if is_complete(graph, graph[v] & left)]
        if not simplicial:
            return False
        left.remove(simplicial[0])
    return True


def perfect_order(graph: Graph) -> list[int]:
    order: list[int] = []
    while len(order) < len(graph):
        order.append(max((v for v in range(len(graph)) if v not in order), key=lambda v: (len(graph[v] & set(order)), -v)))
    return order


def cliques(graph: Graph) -> set[frozenset[int]]:
    complete = [frozenset(chosen) for chosen in subsets(range(len(graph))) if chosen and is_complete(graph, chosen)]
    return {c for c in complete if not any(c < other for other in complete)}


def is_minimal_separator(graph: Graph, chosen: set[int]) -> bool:
    """At least two components of the rest touch every vertex of the set."""
    rest = components(graph, set(range(len(graph))) - chosen)
    return sum(all(graph[s] & part for s in chosen) for part in rest) >= 2


def spanning_trees(n: int) -> Iterator[Tree]:
    """Every labelled tree on n vertices, from its Prüfer sequence."""
    if n <= 2:
        yield frozenset([(0, 1)] if n == 2 else [])
        return
    for sequence in product(range(n), repeat=n - 2):
        degree = [1 + sequence.count(v) for v in range(n)]
        edges = []
        for v in sequence:
            leaf = degree.index(1)
            edges.append((min(leaf, v), max(leaf, v)))
            degree[leaf] -= 1
            degree[v] -= 1
        a, b = (v for v in range(n) if degree[v] == 1)
        yield frozenset([*edges, (a, b)])


def is_junction_tree(tree: Iterable[tuple[int, int]], nodes: Sequence[frozenset[int]]) -> bool:
    """The cliques that hold a vertex are connected in the tree, whatever the vertex."""
    graph: Graph = [set() for _ in nodes]
    for a, b in tree:
        graph[a].add(b)
        graph[b].add(a)
    for v in set().union(*nodes):
        holders = {place for place, clique in enumerate(nodes) if v in clique}
        if component(graph, min(holders), holders) != holders:
            return False
    return True


def junction_trees(graph: Graph) -> list[Tree]:
    nodes = sorted(cliques(graph), key=sorted)
    return [tree for tree in spanning_trees(len(nodes)) if is_junction_tree(tree, nodes)]


def separators(graph: Graph) -> Counter[frozenset[int]]:
    """Intersections along one junction tree, with repetition."""
    nodes = sorted(cliques(graph), key=sorted)
    tree = next(tree for tree in spanning_trees(len(nodes)) if is_junction_tree(tree, nodes))
    return Counter(nodes[a] & nodes[b] for a, b in tree)


def can_add(graph: Graph, u: int, v: int) -> bool:
    return u != v and v not in graph[u] and is_chordal_by_elimination(toggled(graph, u, v))


def can_delete(graph: Graph, u: int, v: int) -> bool:
    return u != v and v in graph[u] and is_chordal_by_elimination(toggled(graph, u, v))


def relabelled(graph: Graph, permutation: Sequence[int]) -> Graph:
    renamed: Graph = [set() for _ in graph]
    for v, around in enumerate(graph):
        renamed[permutation[v]] = {permutation[w] for w in around}
    return renamed


def graph6_number(graph: Graph) -> int:
    bits = [str(int(u in graph[v])) for v in range(len(graph)) for u in range(v)]
    assert len(bits) == comb(len(graph), 2)
    return int("".join(bits) or "0", 2)


def canonical_code(graph: Graph) -> tuple[int, int]:
    """Largest graph6 number over all labellings, and the number of labellings that leave the graph as it is."""
    relabellings = [relabelled(graph, p) for p in permutations(range(len(graph)))]
    return max(map(graph6_number, relabellings)), relabellings.count(graph)


def earlier_twins(graph: Graph) -> list[set[int]]:
    twins: list[set[int]] = []
    for v in range(len(graph)):
        twins.append(set())
        for u in range(v):
            swap = list(range(len(graph)))
            swap[u], swap[v] = v, u
            if relabelled(graph, swap) == graph:
                twins[v].add(u)
    return twins


def next_column(graph: Graph, twins: list[set[int]], labelling: Sequence[int]) -> tuple[set[int], int]:
    columns = {}
    for v in set(range(len(graph))) - set(labelling):
        if twins[v] <= set(labelling):
            columns[v] = int("".join(str(int(u in graph[v])) for u in labelling) or "0", 2)
    largest = max(columns.values())
    return {v for v, column in columns.items() if column == largest}, largest


def simplicial_extensions(graph: Graph) -> list[Graph]:
    """Extended graphs in the order of the masks of the sets that the further vertex is joined to."""
    n = len(graph)
    found = []
    for mask in range(2**n):
        joined = vertices_of(mask)
        if is_complete(graph, joined):
            found.append([around | {n} if v in joined else set(around) for v, around in enumerate(graph)] + [joined])
    return found


def largest_draw(draws: Sequence[float], members: set[int]) -> int:
    return max(sorted(members), key=lambda w: draws[w])


def grow_chordal(
    clique_draws: Sequence[float], member_draws: Sequence[Sequence[float]], inclusion: float, max_clique: int
) -> Graph:
    graph: Graph = []
    born: list[set[int]] = []
    for v in range(len(clique_draws)):
        joined: set[int] = set()
        if born:
            clique = born[int(clique_draws[v] * len(born))]
            willing = sorted((w for w in clique if member_draws[v][w] < inclusion), key=lambda w: member_draws[v][w])
            joined = set(willing[: max_clique - 1])
            if joined == clique:
                clique.add(v)
        if not any(v in clique for clique in born):
            born.append(joined | {v})
        for w in joined:
            graph[w].add(v)
        graph.append(set(joined))
    return graph


def is_chordless_cycle(neighbours: Sequence[int], cycle: Sequence[int]) -> bool:
    """Whether the given vertices form a cycle of length four or more without a chord; checks a witness."""
    length = len(cycle)
    if length < 4 or len(set(cycle)) < length:
        return False
    for place, v in enumerate(cycle):
        expected = {cycle[place - 1], cycle[(place + 1) % length]}
        if {w for w in cycle if neighbours[v] >> w & 1} != expected:
            return False
    return True

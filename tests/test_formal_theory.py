"""Does ε hold? Every output of every file of a fibre is enumerated, and the largest ratio is compared with the sum over the edges."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rarecell as rc
from rarecell.graph.masks import members
from rarecell.swap.formal.mechanism import RootedTree, rooted_tree
from tests.naive import formal as naive
from tests.strategies import categories

SHAPES = {
    "one edge": [(0, 1), (1, 2)],
    "independent": [(0, 1), (2,)],
    "path": [(0, 1), (1, 2), (2, 3)],
    "star": [(0, 1), (0, 2), (0, 3)],
    "star of equal separators": [(0, 1, 2), (1, 2, 3), (2, 4)],
    "tree": [(0, 1), (1, 2), (2, 3), (1, 4)],
    "long path": [(0, 1), (1, 2), (2, 3), (3, 4)],
}
MOST_FILES = 40


def small_cases(shape: str, *, n_cases: int = 45) -> list[tuple[naive.File, rc.DecomposableModel]]:
    """Files of three to six records on three to five variables, whose fibres are small enough to enumerate."""
    rng = np.random.default_rng(sorted(SHAPES).index(shape))
    cliques = SHAPES[shape]
    n_keys = 1 + max(max(clique) for clique in cliques)
    found: list[tuple[naive.File, rc.DecomposableModel]] = []
    while len(found) < n_cases:
        levels = rng.integers(2, 4, n_keys).tolist()
        codes = rng.integers(0, levels, (int(rng.integers(3, 7)), n_keys)).astype(np.int32)
        table = rc.ContingencyTable.from_codes(codes, categories(levels))
        names = [tuple(table.keys[v] for v in clique) for clique in cliques]
        model = rc.DecomposableModel(table, cliques=names)
        file = tuple(tuple(row) for row in codes.tolist())
        root = model.graph.clique_masks[len(found) % len(model.graph.clique_masks)]
        if 1 < len(fibre_of(file, model, root, most=MOST_FILES + 1)) <= MOST_FILES:
            found.append((file, model))
    return found


def fibre_of(file: naive.File, model: rc.DecomposableModel, root: int, *, most: int | None = None) -> list[naive.File]:
    return naive.fibre(file, [members(clique) for clique in model.graph.clique_masks], members(root), most=most)


def kernels_of(tree: RootedTree, thetas: list[float]) -> list[naive.Kernel]:
    """The kernels of the edges, leaves first; a θ for all rows."""

    def constant(theta: float):  # type: ignore[no-untyped-def]
        return lambda row: theta

    return [
        naive.Kernel(members(edge.separator), members(edge.side), constant(theta))
        for edge, theta in zip(tree.edges, thetas, strict=True)
    ]


def sum_over_edges(files: list[naive.File], tree: RootedTree, epsilons: list[float]) -> float:
    """Largest Σ ε_e Δ_e / Δ over pairs of files, with Δ_e the rows whose side of edge e differs: attained when all edges meet the root."""
    codes = np.array(files)
    differs = codes[:, None] != codes[None, :]
    n_rows = differs.any(axis=3).sum(axis=2)
    total = np.zeros(n_rows.shape)
    for edge, epsilon in zip(tree.edges, epsilons, strict=True):
        total += epsilon * differs[..., list(members(edge.side))].any(axis=3).sum(axis=2)
    return float((total[n_rows > 0] / n_rows[n_rows > 0]).max())


@pytest.mark.parametrize("shape", SHAPES)
def test_the_largest_ratio_never_exceeds_the_sum_over_the_edges(shape: str) -> None:
    rng = np.random.default_rng(20)
    n_attained = 0
    for place, (file, model) in enumerate(small_cases(shape)):
        root = model.graph.clique_masks[place % len(model.graph.clique_masks)]
        tree = rooted_tree(model.graph, root)
        files = fibre_of(file, model, root)
        epsilons = rng.uniform(0.05, 3.0, len(tree.edges)).tolist()
        whole = naive.transitions(files, kernels_of(tree, [math.exp(-e) for e in epsilons]))
        assert whole.min() > 0  # any file of the fibre can be released, and no other
        assert whole.sum(axis=1) == pytest.approx(1.0)
        paid = [0.0 if edge.is_free(model.table) else e for edge, e in zip(tree.edges, epsilons, strict=True)]
        largest = naive.largest_log_ratio(files, whole)
        assert largest <= sum(paid) + 1e-9
        if all(edge.parent == root for edge in tree.edges):
            assert largest == pytest.approx(sum_over_edges(files, tree, epsilons), abs=1e-9)
        n_attained += largest > sum(paid) - 1e-9
    if shape in ("one edge", "independent"):
        assert n_attained == 45
    if shape in ("star", "path"):
        assert n_attained > 0


def test_the_sum_is_attained_along_a_path_and_root_first_order_exceeds_it() -> None:
    """Six records, cliques ab, bc, cd with root ab; the edge below has θ = 0.9, the one at the root 0.2."""
    file = ((0, 1, 2, 0), (0, 1, 0, 1), (0, 0, 0, 0), (0, 0, 2, 1), (0, 0, 0, 1), (0, 0, 1, 1))
    below = naive.Kernel((2,), (3,), lambda row: 0.9)
    at_root = naive.Kernel((1,), (2, 3), lambda row: 0.2)
    files = naive.fibre(file, [(0, 1), (1, 2), (2, 3)], (0, 1))
    epsilon = -math.log(0.9) - math.log(0.2)
    assert len(files) == 144
    leaves_first = naive.largest_log_ratio(files, naive.transitions(files, [below, at_root]))
    root_first = naive.largest_log_ratio(files, naive.transitions(files, [at_root, below]))
    assert leaves_first == pytest.approx(epsilon, abs=1e-9)
    assert epsilon == pytest.approx(1.7148, abs=5e-5)
    assert root_first == pytest.approx(1.7360, abs=5e-5)


@pytest.mark.parametrize("shape", ["path", "star", "tree"])
def test_no_epsilon_is_the_uniform_distribution_on_the_fibre(shape: str) -> None:
    for file, model in small_cases(shape, n_cases=8):
        tree = rooted_tree(model.graph, model.graph.clique_masks[0])
        files = fibre_of(file, model, tree.root)
        whole = naive.transitions(files, kernels_of(tree, [1.0] * len(tree.edges)))
        assert whole == pytest.approx(np.full(whole.shape, 1 / len(files)))


@pytest.mark.parametrize("shape", ["one edge", "path", "star", "tree"])
def test_weights_by_the_parent_clique_cost_what_the_least_of_them_does(shape: str) -> None:
    rng = np.random.default_rng(21)
    for file, model in small_cases(shape, n_cases=20):
        tree = rooted_tree(model.graph, model.graph.clique_masks[0])
        files = fibre_of(file, model, tree.root)
        kernels, epsilon = [], 0.0
        for edge in tree.edges:
            parent = members(edge.parent)
            values = {naive.part(row, parent) for one in files for row in one}
            weight = {value: float(rng.choice([1.0, 0.6, 0.15])) for value in sorted(values)}

            def theta(row: naive.Row, parent: tuple[int, ...] = parent, weight: dict[naive.Row, float] = weight) -> float:
                return weight[naive.part(row, parent)]

            kernels.append(naive.Kernel(members(edge.separator), members(edge.side), theta))
            epsilon += -math.log(min(weight.values()))
        assert naive.largest_log_ratio(files, naive.transitions(files, kernels)) <= epsilon + 1e-9


@pytest.mark.parametrize("shape", ["one edge", "path", "star", "tree"])
def test_edges_that_cost_nothing_are_those_whose_side_is_constant_in_the_whole_fibre(shape: str) -> None:
    n_free = 0
    for file, model in small_cases(shape, n_cases=40):
        tree = rooted_tree(model.graph, model.graph.clique_masks[0])
        files = fibre_of(file, model, tree.root)
        for edge in tree.edges:
            separator, side = members(edge.separator), members(edge.side)
            pairs = [{(naive.part(row, separator), naive.part(row, side)) for row in one} for one in files]
            is_constant = all(len(found) == len({stratum for stratum, _ in found}) for found in pairs)
            assert edge.is_free(model.table) == is_constant
            n_free += is_constant
    assert n_free > 0

"""Do the samplers draw from the law they state, and do all margins stay?"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

import rarecell as rc
from rarecell._kernels import shuffling
from rarecell.graph.chordal import ChordalGraph
from rarecell.graph.masks import members
from rarecell.swap.formal.mechanism import Strata, rearranged, rooted_tree
from tests.naive import formal as naive
from tests.strategies import categories
from tests.strategies_graph import chordal_graphs
from tests.strategies_swap import decomposable_cases

CASES = [
    ((0, 1), (0, 0)),
    ((0, 0, 1, 1, 2), (0, 0, 0, 0, 0)),
    ((0, 0, 0, 1, 2), (0, 0, 0, 0, 0)),
    ((0, 1, 2, 3), (0, 0, 0, 0)),
    ((0, 0, 1, 1, 2), (1, 0, 0, 0, 1)),
    ((0, 0, 1, 1), (1, 1, 0, 0)),
    ((0, 0, 1, 1, 1), (0, 1, 1, 0, 0)),
]
THETAS = [0.01, 0.1, 0.4, 0.9, 0.9999, 1.0]


def expect_frequencies(observed: Counter, probability: dict, n: int) -> None:
    """A χ² test at one in a million, with rare outcomes lumped together."""
    assert set(observed) <= set(probability)
    common = {z: p for z, p in probability.items() if n * p >= 5}
    rest = 1.0 - sum(common.values())
    terms = [(observed[z], n * p) for z, p in common.items()]
    if n * rest > 5:
        terms.append((n - sum(seen for seen, _ in terms), n * rest))
    statistic = sum((seen - expected) ** 2 / expected for seen, expected in terms)
    assert statistic < chi2.isf(1e-6, max(len(terms) - 1, 1))


def of_copies(types: tuple[int, ...], always: tuple[int, ...], n_copies: int) -> Strata:
    """The same stratum many times over."""
    copy = np.repeat(np.arange(n_copies), len(types)).astype(np.int32)
    return Strata.of([copy], [np.tile(types, n_copies).astype(np.int32)], np.tile(always, n_copies).astype(bool))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("theta", THETAS)
def test_a_stratum_is_rearranged_with_the_probabilities_of_the_definition(
    case: tuple[tuple[int, ...], tuple[int, ...]], theta: float
) -> None:
    types, always = case
    values = [(t,) for t in types]
    probability = naive.arrangement_probabilities(values, [1.0 if a else theta for a in always])
    n_copies = 4000
    strata = of_copies(types, always, n_copies)
    source = strata.shuffled(theta, np.random.default_rng(7))
    new = np.tile(types, n_copies)[source].reshape(n_copies, -1)
    expect_frequencies(Counter(tuple((int(t),) for t in row) for row in new), probability, n_copies)
    changed = [sum(one != old and not a for one, old, a in zip(z, values, always, strict=True)) for z in probability]
    expected = n_copies * sum(p * n for p, n in zip(probability.values(), changed, strict=True))
    assert strata.mean_changed([theta])[0] == pytest.approx(expected, rel=2e-3, abs=1e-6 * n_copies)


@pytest.mark.parametrize(("n", "a"), [(1, 0), (5, 0), (40, 0), (7, 3), (3, 200), (300, 2)])
@pytest.mark.parametrize("v", [1e-6, 0.3, 4.0, 900.0])
def test_sums_over_free_rows_equal_exact_ones(n: int, a: int, v: float) -> None:
    terms = [Fraction(math.comb(n, f)) * Fraction(v) ** f / math.factorial(a + f) for f in range(n + 1)]
    total = sum(terms)
    mean = sum(f * term for f, term in enumerate(terms)) / total
    variance = sum(f * f * term for f, term in enumerate(terms)) / total - mean**2
    log_sum, got_mean, got_variance = shuffling.free_moments(n, a, v)
    exact = math.log(total.numerator) - math.log(total.denominator)
    assert log_sum == pytest.approx(exact, rel=1e-10, abs=1e-10)
    assert got_mean == pytest.approx(float(mean), rel=1e-10, abs=1e-12)
    assert got_variance == pytest.approx(float(variance), rel=1e-6, abs=1e-9)
    assert shuffling.likeliest_free(n, a, v) == max(range(n + 1), key=lambda f: terms[f])


@pytest.mark.parametrize("theta", [0.0005, 0.003, 0.05, 0.6])
def test_the_expected_number_of_changed_rows_is_right_in_large_strata(theta: float) -> None:
    """Both ways of finding the mean of u, against draws: many rare types beside a few common ones."""
    types = np.concatenate([np.zeros(2500), np.ones(900), np.arange(2, 602), np.repeat(np.arange(602, 802), 5)]).astype(np.int32)
    strata = Strata.of([np.zeros(len(types), dtype=np.int32)], [types])
    rng = np.random.default_rng(11)
    drawn = [int((types[strata.shuffled(theta, rng)] != types).sum()) for _ in range(40)]
    error = np.std(drawn, ddof=1) / math.sqrt(len(drawn))
    assert strata.mean_changed([theta])[0] == pytest.approx(np.mean(drawn), abs=5 * error + 1e-6 * len(types))


def test_both_ways_of_finding_the_mean_agree() -> None:
    types = np.repeat(np.arange(150), 8).astype(np.int32)
    strata = Strata.of([np.zeros(len(types), dtype=np.int32)], [types])
    nodes, weights = np.polynomial.legendre.leggauss(16)
    for theta in (0.002, 0.02, 0.5):
        phi = theta / (1 - theta)
        middle = shuffling.tangent_points(phi, strata.groups, 0, len(strata.groups))[1]
        assert middle > 200
        exact = shuffling.integrated_mean(phi, strata.groups, 0, len(strata.groups), nodes, weights)
        assert shuffling.expanded_mean(middle, phi, strata.groups, 0, len(strata.groups)) == pytest.approx(exact, abs=0.01)


@pytest.mark.parametrize(
    ("cliques", "rare"), [([(0, 1), (1, 2), (2, 3)], 0), ([(0, 1), (1, 2), (1, 3)], 0), ([(0, 1), (1, 2), (2, 3)], 1)]
)
def test_the_whole_mechanism_draws_from_the_composed_kernels(cliques: list[tuple[int, ...]], rare: int) -> None:
    """Copies of a small file are kept apart by a further key in every clique, so that one run draws thousands of releases."""
    file = ((0, 0, 1, 0), (0, 1, 1, 1), (1, 0, 0, 1), (0, 0, 0, 0), (0, 1, 0, 1))
    n_copies = 3000
    codes = np.array([(*row, copy) for copy in range(n_copies) for row in file], dtype=np.int32)
    table = rc.ContingencyTable.from_codes(codes, categories([2, 2, 2, 2, n_copies]))
    names = [tuple(table.keys[v] for v in (*clique, 4)) for clique in cliques]
    model = rc.DecomposableModel(table, cliques=names)
    tree = rooted_tree(model.graph, model.graph.clique_masks[0])
    thetas = [0.3, 0.5]
    counts = {edge: Counter(naive.part(row, [v for v in members(edge.parent) if v < 4]) for row in file) for edge in tree.edges}
    kernels = []
    for edge, theta in zip(tree.edges, thetas, strict=True):
        parent = [v for v in members(edge.parent) if v < 4]

        def weight(row, parent=parent, theta=theta, count=counts[edge]):  # type: ignore[no-untyped-def]
            return 1.0 if count[naive.part(row, parent)] <= rare else theta

        kernels.append(naive.Kernel(tuple(v for v in members(edge.separator) if v < 4), members(edge.side), weight))
    files = naive.fibre(file, cliques, [v for v in members(tree.root) if v < 4])
    law = naive.transitions(files, kernels)[files.index(file)]
    after = rearranged(table, codes, tree, thetas, np.random.default_rng(5), rare=rare).codes
    seen = Counter(tuple(tuple(row) for row in one) for one in after[:, :4].reshape(n_copies, len(file), 4).tolist())
    expect_frequencies(seen, dict(zip(files, law.tolist(), strict=True)), n_copies)


@settings(max_examples=40)
@given(decomposable_cases(coarsened=True), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.5, 3.0]), st.integers(0, 2))
def test_all_margins_and_the_root_stay(model: rc.DecomposableModel, seed: int, epsilon: float, rare: int) -> None:
    table = model.table
    codes = table.cells[table.record_cell]
    for root in model.graph.clique_masks:
        tree = rooted_tree(model.graph, root)
        thetas = [math.exp(-epsilon)] * len(tree.edges)
        after = rearranged(table, codes, tree, thetas, np.random.default_rng(seed), rare=rare)
        again = rc.ContingencyTable.from_codes(after.codes, table.categories).with_coarsenings(table.coarsenings)
        for clique in model.graph.clique_masks:
            assert np.array_equal(table.marginals.level_rows(clique), again.marginals.level_rows(clique))
            assert np.array_equal(table.marginals.counts(clique), again.marginals.counts(clique))
        for vertex in members(root):
            assert np.array_equal(table.map_cells(codes, vertex), table.map_cells(after.codes, vertex))


@given(chordal_graphs(min_vertices=2, max_vertices=8))
def test_a_rooted_tree_is_a_junction_tree_with_every_clique_as_high_as_can_be(graph: ChordalGraph) -> None:
    for root in graph.clique_masks:
        tree = rooted_tree(graph, root)
        assert Counter(edge.separator for edge in tree.edges) == Counter(dict(graph.separator_masks))
        parent = {edge.child: edge.parent for edge in tree.edges}
        assert sorted([*parent, root]) == sorted(graph.clique_masks)
        done: set[int] = set()
        for edge in tree.edges:
            below = {child for child, _ in edge.below}
            assert below - {edge.child} <= done  # leaves first
            done.add(edge.child)
            outside = [clique for clique in graph.clique_masks if clique not in below]
            assert edge.child & edge.parent == edge.separator
            assert not any(edge.side & clique for clique in outside)  # the running intersection property
            above = parent.get(edge.parent)
            assert above is None or edge.separator & ~above

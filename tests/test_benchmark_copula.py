"""The copula of the comparison is the one that the paper describes: boxes, mutual information and fits against independent ways."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.copula import Copula, copula_of, correlation_of, cut_copula, edges_of, marginal_of, mutual_information, uniqueness
from scipy import stats

SHARES = (np.array([0.5, 0.3, 0.2]), np.array([0.7, 0.3]), np.array([0.4, 0.35, 0.25]))
MATRIX = np.array([[1.0, 0.5, 0.2], [0.5, 1.0, 0.4], [0.2, 0.4, 1.0]])


def test_probabilities_of_boxes_are_those_of_the_normal_law() -> None:
    copula = Copula(SHARES, MATRIX)
    cells = np.stack(np.meshgrid(*(range(len(s)) for s in SHARES), indexing="ij"), axis=-1).reshape(-1, 3)
    found = copula.probability(cells, n_points=4096)
    edges = [edges_of(shares) for shares in SHARES]
    normal = stats.multivariate_normal(np.zeros(3), MATRIX)
    expected = [
        normal.cdf([edges[k][c + 1] for k, c in enumerate(cell)], lower_limit=[edges[k][c] for k, c in enumerate(cell)])
        for cell in cells
    ]
    np.testing.assert_allclose(found, expected, rtol=2e-3)
    assert found.sum() == pytest.approx(1.0, abs=1e-6)


def test_a_cut_copula_has_its_marginals_and_the_probabilities_of_boxes() -> None:
    joint = cut_copula(SHARES[0], SHARES[2], 0.6)
    np.testing.assert_allclose(joint.sum(axis=1), SHARES[0], atol=1e-9)
    np.testing.assert_allclose(joint.sum(axis=0), SHARES[2], atol=1e-4)
    pair = Copula((SHARES[0], SHARES[2]), np.array([[1.0, 0.6], [0.6, 1.0]]))
    cells = np.indices(joint.shape).reshape(2, -1).T
    np.testing.assert_allclose(pair.probability(cells, n_points=4096), joint.ravel(), rtol=5e-3)
    assert mutual_information(np.outer(SHARES[0], SHARES[2])) == pytest.approx(0.0, abs=1e-12)


def test_what_was_drawn_from_a_copula_is_fitted_by_it() -> None:
    rng = np.random.default_rng(1)
    heights = rng.standard_normal((40_000, 3)) @ np.linalg.cholesky(MATRIX).T
    codes = np.stack([np.searchsorted(edges_of(s)[1:-1], heights[:, k]) for k, s in enumerate(SHARES)], axis=1)
    shares = tuple(np.bincount(codes[:, k]) / len(codes) for k in range(3))
    assert correlation_of(codes[:, 0], codes[:, 1], shares[:2], rng) == pytest.approx(0.5, abs=0.03)
    copula, asked = copula_of(codes, "sorted", seed=0)
    np.testing.assert_array_equal(asked, codes)
    np.testing.assert_allclose(copula.correlation, MATRIX, atol=0.04)


def test_the_likeliest_law_of_the_ranks_is_chosen() -> None:
    assert marginal_of(np.array([500, 7000, 2500])) == pytest.approx([0.7, 0.25, 0.05])
    geometric = np.round(1e6 * 0.5 ** np.arange(1, 15)).astype(int)
    found = marginal_of(geometric)
    assert found.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(found[:6], geometric[:6] / geometric.sum(), rtol=0.02)


def test_ranks_and_uniqueness() -> None:
    codes = np.array([[0, 2], [1, 2], [1, 1], [1, 2], [1, 0]])
    _, asked = copula_of(np.repeat(codes, 30, axis=0), "ranked", seed=0)
    assert asked[0].tolist() == [1, 0]  # the rarer level of the first key, the commonest of the second
    assert uniqueness(codes) == pytest.approx(3 / 5)

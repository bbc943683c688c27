"""Zeros and minima of functions of one number, and linear equations, compared with scipy and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize
from scipy.sparse.linalg import cg

from rarecell.machine.solving import conjugate_gradients, minimum, root


@given(st.floats(-5, 5), st.floats(0.1, 8), st.sampled_from(["line", "cube", "exponential", "steep"]))
def test_a_zero_is_found_to_the_tolerance(zero: float, width: float, shape: str) -> None:
    of = {
        "line": lambda x: x - zero,
        "cube": lambda x: (x - zero) ** 3,
        "exponential": lambda x: math.expm1(x - zero),
        "steep": lambda x: math.atan(1e6 * (x - zero)),
    }[shape]
    found = root(of, zero - width, zero + 1.7 * width, tolerance=1e-12)
    # A triple zero cannot be told from its neighbourhood by rounded values.
    assert found == pytest.approx(zero, abs=1e-5 if shape == "cube" else 1e-10)
    if shape != "cube":
        assert found == pytest.approx(optimize.brentq(of, zero - width, zero + 1.7 * width, xtol=1e-13), abs=1e-9)


def test_a_zero_at_an_end_is_found_and_equal_signs_are_refused() -> None:
    assert root(lambda x: x, 0.0, 3.0, tolerance=1e-12) == pytest.approx(0.0, abs=1e-11)
    with pytest.raises(ValueError, match="same sign"):
        root(lambda x: x + 10.0, 0.0, 1.0, tolerance=1e-9)


@given(st.floats(-3, 3), st.floats(0.1, 5), st.floats(0.1, 5))
def test_the_least_value_is_found(place: float, below: float, above: float) -> None:
    def of(x: float) -> float:
        return math.cosh(x - place)

    found = minimum(of, place - below, place + above, tolerance=1e-6)
    assert found == pytest.approx(place, abs=1e-5)
    assert minimum(lambda x: x, 1.0, 2.0, tolerance=1e-9) == pytest.approx(1.0, abs=1e-8)


@given(st.integers(1, 12), st.integers(0, 10_000))
def test_linear_equations_are_solved(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    root_of_matrix = rng.normal(size=(size, size + 3)) * np.exp(rng.normal(size=(size, 1)))
    matrix, target = root_of_matrix @ root_of_matrix.T + 0.1 * np.eye(size), rng.normal(size=size)
    diagonal = np.diag(matrix)
    found = conjugate_gradients(matrix.__matmul__, target, lambda x: x / diagonal, tolerance=1e-10, most_steps=500)
    np.testing.assert_allclose(matrix @ found, target, atol=1e-9 * np.linalg.norm(target))
    # The steps are those of scipy, wherever they end.
    as_scipy = cg(matrix, target, rtol=1e-3, maxiter=3, M=np.diag(1.0 / diagonal))[0]
    found = conjugate_gradients(matrix.__matmul__, target, lambda x: x / diagonal, tolerance=1e-3, most_steps=3)
    np.testing.assert_allclose(found, as_scipy, rtol=1e-6, atol=1e-9)
    assert not conjugate_gradients(matrix.__matmul__, 0.0 * target, lambda x: x, tolerance=1e-3, most_steps=3).any()

"""Columns that travel with a swapped key are functions of it, or it of them, and not by chance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rarecell.release.travel import Carried, dependency, what_travels


def _joint(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    counts = np.zeros((one.max() + 1, other.max() + 1), dtype=np.int64)
    np.add.at(counts, (one, other), 1)
    return counts


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 12))
def test_functions_of_a_key_are_found_in_both_directions(seed: int, n_towns: int) -> None:
    rng = np.random.default_rng(seed)
    town = np.concatenate([np.arange(n_towns), rng.integers(0, n_towns, 400)])
    region = town // 2 if n_towns > 2 else town
    found = dependency("region", "town", _joint(town, region))
    assert found is not None
    assert found.is_coarser
    back = dependency("town", "region", _joint(region, town))
    # When both determine each other the column counts as a function of the key.
    assert back is not None
    assert back.is_coarser == (len(np.unique(region)) == n_towns)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.integers(2, 6))
def test_independent_columns_are_not(seed: int, n_levels: int, n_values: int) -> None:
    rng = np.random.default_rng(seed)
    assert dependency("c", "k", _joint(rng.integers(0, n_levels, 200), rng.integers(0, n_values, 200))) is None


def test_names_of_records_and_constants_determine_nothing() -> None:
    rng = np.random.default_rng(1)
    key = rng.integers(0, 4, 300)
    assert dependency("id", "k", _joint(key, np.arange(300))) is None
    assert dependency("constant", "k", _joint(key, np.zeros(300, dtype=int))) is None
    # A handful of records may look like a function by chance.
    assert dependency("c", "k", np.array([[2, 0], [0, 1]])) is None


def test_chance_is_computed_exactly() -> None:
    # Two rows of 10 records: independent columns of equal shares are pure with probability (2 · 2^-10)² ≈ 3.8e-6.
    assert dependency("c", "k", np.array([[10, 0], [0, 10]])) is None
    # With 12 records a row it is 2.4e-7.
    assert dependency("c", "k", np.array([[12, 0], [0, 12]])) is not None


def test_what_travels_and_what_stays() -> None:
    function = np.array([[40, 0], [35, 0], [0, 50]])
    none = np.array([[20, 20], [20, 15], [25, 25]])
    moved, other = np.array([True, False, True]), np.array([True, True, True])
    joint = {
        "region": {"town": function, "age": none},
        "kept": {"town": function, "age": none},
        "torn": {"town": function, "age": function},
        "car": {"town": none, "age": none},
        "nuts": {"town": none, "age": none},
    }
    found = what_travels(joint, {"town": moved, "age": other}, carry=["nuts"], areas=["town"], stays=["kept"])
    assert set(found.carried) == {Carried("nuts", ("town",)), Carried("region", ("town",))}
    assert [(one.column, one.key, why.split()[0]) for one, why in found.left_behind] == [
        ("kept", "town", "it"),
        ("torn", "town", "it"),
        ("torn", "age", "it"),
    ]
    assert "every value of 'town' goes with one value of 'kept'" in found.left_behind[0][0].sentence
    together = what_travels({"torn": joint["torn"]}, {"town": moved, "age": moved})
    assert together.carried == (Carried("torn", ("town", "age")),)


def test_a_named_column_travels_with_the_keys_that_it_goes_with() -> None:
    """District nearly decides region and a wage class is nearly decided by the job; elsewhere both would contradict what stayed."""
    rng = np.random.default_rng(2)
    region, job, age = rng.integers(0, 6, 2_000), rng.integers(0, 8, 2_000), rng.integers(0, 80, 2_000)
    is_odd = rng.random(2_000) < 0.02
    columns = {
        "district": np.where(is_odd, rng.integers(0, 60, 2_000), region * 10 + rng.integers(0, 10, 2_000)),
        "class": np.where(is_odd, rng.integers(0, 2, 2_000), job // 4),
        "pets": rng.integers(0, 3, 2_000),
    }
    keys = {"region": region, "job": job, "age": age}
    joint = {name: {key: _joint(codes, column) for key, codes in keys.items()} for name, column in columns.items()}
    moves = {key: np.array([True]) for key in keys}
    assert what_travels(joint, moves, carry=list(columns)).carried == (
        Carried("district", ("region",)),
        Carried("class", ("job",)),
        Carried("pets", ("region", "job", "age")),
    )
    del moves["region"]
    assert [carried.column for carried in what_travels(joint, moves, carry=list(columns)).carried] == ["class", "pets"]


@pytest.mark.parametrize("areas", [(), ("elsewhere",)])
def test_named_columns_travel_with_every_key_without_areas(areas: tuple[str, ...]) -> None:
    moves = {"a": np.array([True]), "b": np.array([False])}
    assert what_travels({}, moves, carry=["c"], areas=areas).carried == (Carried("c", ("a", "b")),)

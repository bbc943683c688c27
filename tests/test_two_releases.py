"""A second release of the same file, and weights that would tell where a swapped row came from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

import rarecell as rc
from rarecell import datasets
from rarecell.run.swaps import LEAST_ALIKE, _n_weight_classes

KEYS = ["sex", "age", "marital"]


@pytest.fixture
def survey(tmp_path: Path) -> Path:
    path = tmp_path / "survey.csv"
    pa_csv.write_csv(datasets.census_sample().select(KEYS).slice(0, 3_000), path)
    return path


def test_a_second_release_moves_the_same_values(survey: Path, tmp_path: Path) -> None:
    wishes = {"keys": KEYS, "population": 85_000, "top": 30}
    rc.protect(str(survey), out=tmp_path / "first", **wishes)
    apart = rc.protect(str(survey), out=tmp_path / "apart", **wishes)
    again = rc.protect(str(survey), out=tmp_path / "again", released=str(tmp_path / "first"), **wishes)
    first, other, second = (
        (tmp_path / name / "protected.csv").read_text(encoding="utf-8") for name in ("first", "apart", "again")
    )
    # Each release has a secret seed of its own unless it names an earlier one.
    assert first != other
    assert first == second
    assert again.summary.swap.earlier.differing == again.summary.swap.earlier.exposed == 0
    assert apart.summary.swap.earlier is None
    # A seed that the user gives is the user's.
    given = rc.protect(str(survey), out=tmp_path / "given", released=str(tmp_path / "first"), swap_seed=5, **wishes)
    assert given.summary.swap.earlier.differing > 0


def test_a_second_release_takes_both_seeds_of_the_first(survey: Path, tmp_path: Path) -> None:
    """The seed of the models is part of it: partners are chosen against what these say."""
    wishes = {"keys": KEYS, "population": 85_000, "risk_above": 0.1}
    rc.protect(str(survey), out=tmp_path / "first", seed=4, **wishes)
    again = rc.protect(str(survey), out=tmp_path / "again", released=str(tmp_path / "first"), **wishes)
    assert again.assessment.config.seed == 4
    assert again.summary.swap.earlier.differing == again.summary.swap.earlier.recognised == 0


def test_partners_have_equal_weights_where_weights_name_post_strata() -> None:
    sample = datasets.census_sample().select(KEYS).slice(0, 3_000)
    age, sex = (np.array(sample[name]) for name in ("age", "sex"))
    weight = 20.0 + 1.5 * (age // 20) + 3.0 * sex
    weighted = sample.append_column("weight", pa.array(weight))
    assert len(np.unique(weight)) * LEAST_ALIKE <= len(weight)
    done = rc.protect(weighted, keys=KEYS, weight="weight", top=30)
    assert len(done.plan) > 0
    assert (weight[done.plan.records] == weight[done.plan.partners]).all()
    # So the weighted totals of every key are as they were, too.
    assert all(table.changed == 0 for table in done.summary.swap.weighted if len(table.variables) == 1)
    attacked = rc.attack(done.frame, original=weighted, keys=KEYS, weight="weight")
    assert any(one.columns == ("weight",) for one in attacked.summary.beyond)


def test_weights_of_many_values_are_put_into_classes() -> None:
    rng = np.random.default_rng(0)
    assert _n_weight_classes(rng.random(500), 10) == 10
    assert _n_weight_classes(rng.integers(1, 20, 500).astype(np.float64), 10) == 500


def test_columns_link_two_releases_by_the_values_that_are_released(survey: Path, tmp_path: Path) -> None:
    """Treated alike in both, a column links their records; treated otherwise, or not released, it does not."""
    rng = np.random.default_rng(3)
    people = pa_csv.read_csv(survey)
    n = people.num_rows
    beside = {
        "pay": rng.integers(100, 9_000, n),
        "rent": rng.normal(500, 90, n).round(2),
        "rooms": rng.integers(1, 9, n),
        "car": rng.choice(["red", "blue", "green"], n),
        "pets": rng.integers(0, 4, n),
        "beds": rng.integers(0, 4, n),
    }
    for name, values in beside.items():
        people = people.append_column(name, pa.array(values))
    pa_csv.write_csv(people, survey)
    alike = {"pay": "round 100", "rent": "top 95 %", "rooms": "edges 3 5", "car": "pram 50 %"}
    wishes = {"keys": KEYS, "population": 85_000, "top": 30, "model": "single", "resolution": "full"}
    rc.protect(str(survey), out=tmp_path / "first", treat=alike, **wishes)
    second = {**alike, "pets": "drop", "beds": "round 2"}
    done = rc.protect(str(survey), out=tmp_path / "second", treat=second, released=str(tmp_path / "first"), **wishes)
    old, new = (pa_csv.read_csv(tmp_path / name / "protected.csv") for name in ("first", "second"))
    same = {name for name in new.column_names if new[name].equals(old[name])}
    assert set(done.summary.swap.earlier.link_columns) == same
    assert {"pay", "rent", "rooms", "car"} <= same

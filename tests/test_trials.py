"""Recodings tried on counts are what a run with them would see."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell.data.coding import Coding
from rarecell.data.microdata import Microdata
from rarecell.errors import BadInput
from rarecell.planning.recodings import recoded_by
from rarecell.run.config import RunConfig
from rarecell.run.plan import Trials

RECODINGS = {
    "age": ["", "5-year bands", "edges 15 25 45", "top 60", "bottom 10, top 70", "4 quantiles", "missing 3+7", "5 groups"],
    "region": ["", "merge r1+r2 as south", "4 groups", "missing r0"],
    "sex": ["", "merge f+m as any"],
}


def people(seed: int, n: int = 400) -> pa.Table:
    draw = np.random.default_rng(seed)
    age = draw.integers(0, 80, n)
    return pa.table(
        {
            "age": pa.array([None if draw.random() < 0.02 else int(a) for a in age]),
            "region": [f"r{k}" for k in draw.integers(0, 9, n)],
            "sex": draw.choice(["f", "m", "x"], n),
            "job": draw.choice(["a", "b", "c"], n),
        }
    )


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 5),
    chosen=st.fixed_dictionaries({key: st.sampled_from(words) for key, words in RECODINGS.items()}),
)
def test_a_tried_table_is_the_one_that_is_read(seed: int, chosen: dict[str, str]) -> None:
    frame = people(seed)
    codings = {key: Coding.of(words, key=key) for key, words in chosen.items() if words}
    fine = Microdata(frame, keys=list(RECODINGS)).table()
    read = Microdata(frame, keys=list(RECODINGS), coding=codings).table()
    tried, keys = recoded_by(fine, codings)
    # Levels may be listed in another order; what records share a cell may not.
    labels = [[tuple(t.categories[k].labels[c] for k, c in enumerate(cell)) for cell in t.cells] for t in (tried, read)]
    assert dict(zip(labels[0], tried.counts.tolist(), strict=True)) == dict(zip(labels[1], read.counts.tolist(), strict=True))
    for key in keys:
        assert key.counts.sum() == key.counts_after.sum() == len(frame)
        moved = np.bincount(key.group_of_level, weights=key.counts, minlength=len(key.labels_after))
        assert moved.tolist() == key.counts_after.tolist()


def test_a_key_that_would_tell_nothing_is_refused() -> None:
    fine = Microdata(people(0), keys=["age", "sex"]).table()
    with pytest.raises(BadInput, match="single level"):
        recoded_by(fine, {"sex": Coding.of("merge f+m+x as any", key="sex")})


def test_a_trial_has_the_numbers_of_both_sides() -> None:
    trials = Trials(RunConfig(input="", keys=("age", "region", "sex"), population=20_000), people(1))
    same, coarse = trials.of({}), trials.of({"age": "10-year bands", "region": ""})
    assert same.before == same.after
    assert same.information_kept == 1.0
    assert same.association_kept == pytest.approx(1.0)
    assert coarse.after.sample_uniques < coarse.before.sample_uniques
    assert coarse.after.at_least[0] == coarse.after.sample_uniques
    assert list(coarse.after.at_least) == sorted(coarse.after.at_least, reverse=True)
    assert 0.0 < coarse.information_kept < 1.0
    assert coarse.association_kept is not None
    assert coarse.association_kept <= 1.0
    age = coarse.keys[0]
    assert (age.words, age.n_levels_after) == ("10-year bands", 9)
    assert "bands of 5" in age.offered


def test_a_trial_agrees_with_the_run_it_stands_for() -> None:
    frame = people(2, 1500)
    options = {"keys": ["age", "region", "sex"], "population": 30_000}
    tried = Trials(RunConfig.from_mapping({"input": "", **options}), frame).of({"age": "5-year bands"}).after
    risk = rc.assess(frame, recode={"age": "5-year bands"}, **options).summary.risk  # type: ignore[arg-type]
    assert tried.sample_uniques == risk.sample_uniques
    assert tried.expected_correct_matches == pytest.approx(risk.expected_correct_matches, rel=0.25)

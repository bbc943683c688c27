"""Areas, sensitive columns, several intruders and analyses after a formal release."""

from __future__ import annotations

from collections import Counter

import pytest

import rarecell as rc
from rarecell.risk.attributes import Groups, attribute_risk
from tests.test_run_roles import SAMPLE, SIMPLE


def test_roles_are_told_after_a_formal_release() -> None:
    keys = ["age", "sex", "job", "town"]
    done = rc.protect(
        SAMPLE, keys=keys, sensitive=["illness"], scenario={"neighbour": {"keys": ["age", "town"]}}, formal={"rate": 0.5},
        analysis={"towns": {"table": "town, sex"}}, cliques=[["age", "sex"], ["job"], ["town"]], **SIMPLE,
    )  # fmt: skip
    swap, after = done.summary.swap, done.frame
    assert swap is not None
    assert done.plan.moves("town").any()
    told = attribute_risk(Groups.of(rc.Microdata(after, keys=[*keys, "illness"]).table(), "illness"))
    assert swap.attributes[0].to_dict() == pytest.approx({**swap.attributes[0].to_dict(), **told.summary().to_dict()})
    pairs = Counter(zip(after["age"].to_pylist(), after["town"].to_pylist(), strict=True))
    assert swap.scenarios[0].sample_uniques == sum(n == 1 for n in pairs.values())
    cells = Counter(f"{town}, {sex}" for town, sex in zip(after["town"].to_pylist(), after["sex"].to_pylist(), strict=True))
    assert {term.name: term.after for term in swap.analyses[0].terms if term.after} == dict(cells)
    # The region of a town stays with its record, which tells who moved.
    assert after["region"].equals(SAMPLE["region"])
    assert [(one.column, one.key) for one in swap.left_behind] == [("region", "town")]
    assert "formal release" in swap.left_behind[0].sentence

"""Reasons in words, and what each key costs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import rarecell as rc
from rarecell.errors import Cancelled
from rarecell.model.average import AverageModel
from rarecell.progress import SilentProgress
from rarecell.risk.explain import explain_records, key_costs
from rarecell.risk.records import record_risk
from rarecell.run.assess import of_costs
from tests.strategies import coarsened_tables


@pytest.fixture
def families() -> rc.ContingencyTable:
    keys = [
        rc.Categories("relationship", ("child", "grandchild", "head")),
        rc.Categories("marital", ("married", "single", "widowed")),
        rc.Categories("age", tuple(range(10)), True),
    ]
    rows = (
        [[0, 1, a % 4] for a in range(300)]
        + [[2, 0, 5 + a % 5] for a in range(500)]
        + [[1, 1, 3]] * 20
        + [[1, 2, 7]]
        + [[2, 2, 9]] * 79
    )
    table = rc.ContingencyTable.from_codes(np.array(rows, dtype=np.int32), keys)
    halves = rc.Coarsening("age/2", "age", np.repeat([0, 1], 5).astype(np.int32), ("0–4", "5–9"))
    return table.with_coarsenings([halves])


def test_the_reason_is_the_rare_pair(families: rc.ContingencyTable) -> None:
    model = rc.DecomposableModel(families, cliques=[("relationship", "marital", "age/2"), ("age",)])
    risk = record_risk(families, model, population=90_000)
    (explained,) = explain_records(risk, model, risk.riskiest(1))
    assert explained.record == 820
    assert explained.reasons[0].vertices == ("relationship", "age/2") or explained.reasons[0].vertices == (
        "relationship",
        "marital",
    )
    assert explained.reasons[0].count == 1
    assert explained.unique_probability == risk.unique_probability[explained.cell]
    assert "Record 821 (counted from 1) is unique in the population with probability" in str(explained)


def test_words_of_a_reason(families: rc.ContingencyTable) -> None:
    model = rc.DecomposableModel(families, cliques=[("relationship", "marital")])
    risk = record_risk(families, model, population=90_000)
    (explained,) = explain_records(risk, model, [820], n_reasons=2)
    assert str(explained.reasons[0]) == "Only 1 of 900 records has relationship = grandchild and marital = widowed."
    assert str(explained.reasons[1]) == "101 of 900 records have age = 7."
    banded = rc.DecomposableModel(families, cliques=[("relationship", "age/2"), ("age",)])
    reasons = explain_records(record_risk(families, banded, population=90_000), banded, [820])[0].reasons
    assert reasons[0].sentence == "Only 1 of 900 records has relationship = grandchild and age in 5–9."


def test_an_average_is_explained_by_all_its_members(families: rc.ContingencyTable) -> None:
    pair = rc.DecomposableModel(families, cliques=[("relationship", "marital")])
    bands = rc.DecomposableModel(families, cliques=[("marital", "age/2"), ("age",)])
    average = AverageModel([bands, pair], weights=[0.9, 0.1])
    risk = record_risk(families, average, population=90_000)
    reasons = explain_records(risk, average, [820], n_reasons=10)[0].reasons
    assert ("relationship", "marital") in [reason.vertices for reason in reasons]
    assert [reason.count for reason in reasons] == sorted(reason.count for reason in reasons)


@settings(max_examples=30)
@given(coarsened_tables(max_records=40))
def test_reasons_count_what_they_say(table: rc.ContingencyTable) -> None:
    model = rc.DecomposableModel(table, cliques=[table.keys[:3]])
    risk = record_risk(table, model, population=1000)
    for explained in explain_records(risk, model, np.arange(min(5, table.n_records))):
        assert explained.reasons
        for reason in explained.reasons:
            mask = table.mask_of(reason.vertices)
            assert reason.count == table.marginals.at_cells(mask)[explained.cell]
            # No vertex could be left out without more records agreeing.
            for name in reason.vertices:
                rest = [other for other in reason.vertices if other != name]
                if rest:
                    assert table.marginals.at_cells(table.mask_of(rest))[explained.cell] > reason.count


def uniques(table: rc.ContingencyTable) -> float:
    return float(table.size_indices.get(1, 0))


def test_key_costs_cover_every_key_and_resolution(families: rc.ContingencyTable) -> None:
    costs = key_costs(families, uniques)
    assert [(c.key, c.resolution) for c in costs] == [
        ("relationship", "left out"),
        ("marital", "left out"),
        ("age", "age/2"),
        ("age", "left out"),
    ]
    assert [c.n_levels for c in costs] == [1, 1, 2, 1]
    assert all(c.baseline == 1.0 for c in costs)
    # The widowed grandchild stays alone whichever key is left out.
    assert [c.n_sample_uniques for c in costs] == [1, 1, 1, 1]
    assert [c.expected_population_uniques for c in costs] == [1.0, 1.0, 1.0, 1.0]
    assert costs[2].expected_population_uniques == costs[2].baseline
    assert "With age coarsened to age/2 (2 levels)" in str(costs[2])
    assert "With marital left out" in str(costs[1])
    by_key = [cost.to_dict() for cost in of_costs(costs, families)]
    assert [entry["key"] for entry in by_key] == ["relationship", "marital", "age"]
    assert by_key[2] == {
        "key": "age",
        "without": 1.0,
        "coarsened": [
            {
                "name": "age/2",
                "levels": 2,
                "recode": "age=edges 5",
                "groups": ["0–4", "5–9"],
                "sample_uniques": 1,
                "expected_population_uniques": 1.0,
            }
        ],
    }


def test_key_costs_take_coarsenings_and_a_baseline(families: rc.ContingencyTable) -> None:
    merged = rc.Coarsening("relationship/2", "relationship", np.array([0, 0, 1], dtype=np.int32), ("child or grandchild", "head"))
    seen: list[tuple[int, ...]] = []

    def evaluate(table: rc.ContingencyTable) -> float:
        seen.append(tuple(c.n_levels for c in table.categories))
        return uniques(table)

    costs = key_costs(families, evaluate, coarsenings=[merged], baseline=7.0)
    assert seen == [(2, 3, 10), (3, 10), (3, 10), (3, 3)]
    assert costs[0].resolution == "relationship/2"
    assert {c.baseline for c in costs} == {7.0}


def test_a_single_key_is_not_left_out() -> None:
    table = rc.ContingencyTable.from_counts([[0], [1], [2]], [1, 1, 5], [rc.Categories("a", (0, 1, 2), True)])
    assert key_costs(table, uniques) == ()


def test_key_costs_tell_of_their_progress_and_stop(families: rc.ContingencyTable) -> None:
    class Impatient(SilentProgress):
        def __init__(self) -> None:
            self.amount = 0.0

        def advance(self, amount: float = 1.0) -> None:
            self.amount += amount

        def cancelled(self) -> bool:
            return self.amount >= 2

    listener = Impatient()
    with pytest.raises(Cancelled):
        key_costs(families, uniques, progress=listener)
    assert listener.amount == 2

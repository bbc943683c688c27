"""Several intruders in one run: each as in a run of its own, and the worst for each record."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell.data.names import all_keys
from rarecell.errors import RarecellError
from rarecell.risk.scenarios import assess_scenarios

SCENARIOS = {"neighbour": ("age", "sex"), "register": ("sex", "town", "job"), "both": ("age", "town")}


def _risk_of(table: rc.ContingencyTable) -> rc.RecordRisk:
    return rc.record_risk(table, rc.DecomposableModel(table, cliques=[(key,) for key in table.keys]), population=2_000)


def _people(seed: int, n_records: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    job = [None if code == 4 else f"j{code}" for code in rng.integers(0, 5, n_records)]
    columns = {"age": rng.integers(20, 40, n_records), "town": rng.integers(0, 6, n_records), "job": job}
    return pa.table({**columns, "sex": rng.integers(0, 2, n_records)})


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(20, 150))
def test_each_scenario_equals_a_run_of_its_own(seed: int, n_records: int) -> None:
    people = _people(seed, n_records)
    table = rc.Microdata(people, keys=["age", "town", "job", "sex"]).table()
    found = assess_scenarios(table, SCENARIOS, risk_of=_risk_of)
    own = []
    for one, (name, keys) in zip(found.each, SCENARIOS.items(), strict=True):
        alone = _risk_of(rc.Microdata(people, keys=keys).table())
        own.append(alone.per_record()["unique_probability"])
        told = one.summary(0.5, table).to_dict()
        assert (told["name"], told["keys"]) == (name, list(keys))
        assert told["sample_uniques"] == alone.n_sample_uniques
        assert told["expected_population_uniques"] == pytest.approx(alone.expected_population_uniques)
        assert told["expected_correct_matches"] == pytest.approx(alone.expected_correct_matches)
        assert told["records_above_threshold"] == int((own[-1] >= 0.5).sum())
        assert one.unique_probability[table.record_cell] == pytest.approx(own[-1])
    worst = np.max(own, axis=0)
    per_record = found.per_record()
    assert per_record["worst_probability"] == pytest.approx(worst)
    for row, name in enumerate(per_record["worst_scenario"]):
        assert (name == "") == (worst[row] == 0.0)
        if name:
            assert own[list(SCENARIOS).index(name)][row] == pytest.approx(worst[row])
    threshold = float(np.median(worst[worst > 0])) if (worst > 0).any() else 0.5
    assert found.above(threshold).tolist() == np.flatnonzero(worst > threshold).tolist()
    masks = found.masks_above(threshold)[table.record_cell]
    for position, probability in enumerate(own):
        assert ((masks >> np.uint64(position) & np.uint64(1)) == 1).tolist() == (probability > threshold).tolist()


def test_counts_alone_give_the_same_numbers() -> None:
    people = _people(4, 120)
    data = rc.Microdata(people, keys=["age", "town", "job", "sex"])
    with_records, without = (assess_scenarios(data.table(records=r), SCENARIOS, risk_of=_risk_of) for r in (True, False))
    assert with_records.worst_probability == pytest.approx(without.worst_probability)
    threshold = float(with_records.worst_probability.max()) / 4
    assert len(with_records.above(threshold)) == len(without.above(threshold)) > 1
    # A table of counts numbers its records in the order of its cells.
    cells = with_records.table.cell_of(with_records.above(threshold))
    assert sorted(cells) == sorted(without.table.cell_of(without.above(threshold)))


def test_keys_of_all_scenarios_in_order() -> None:
    assert all_keys(SCENARIOS) == ("age", "sex", "town", "job")


@pytest.mark.parametrize(
    ("scenarios", "said"),
    [({"a": ()}, "has no keys"), ({"a": ("agee",)}, "Did you mean 'age'"), ({"a": ("age", "age")}, "twice")],
)
def test_scenarios_that_make_no_sense(scenarios: dict[str, tuple[str, ...]], said: str) -> None:
    table = rc.Microdata(_people(1, 30), keys=["age", "sex"]).table()
    with pytest.raises(RarecellError, match=said):
        assess_scenarios(table, scenarios, risk_of=_risk_of)

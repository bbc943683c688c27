"""Several intruders in protection: what each still finds, and every way of choosing records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rarecell as rc
from rarecell.engine.columnar.source import ParquetSource
from rarecell.engine.duck import EngineSettings
from rarecell.run import models
from rarecell.swap.scenarios import Chosen
from tests.large_file import LargeFile
from tests.test_run_roles import SIMPLE, population
from tests.test_run_roles_protect import _households

PEOPLE = population(6_000, seed=3)
SAMPLE = PEOPLE.slice(0, 500)
KEYS = ["age", "sex", "job", "town"]
SCENARIO = {"neighbour": {"keys": ["age", "sex", "town"]}, "colleague": {"keys": ["job", "age"]}}


def _protect(people: pa.Table = SAMPLE, **options: Any) -> Any:
    return rc.protect(people, **{"keys": KEYS, **SIMPLE, **options})


def test_an_intruder_who_knows_all_keys_finds_what_the_run_says() -> None:
    done = _protect(top=30, scenario={"everything": {"keys": KEYS}})
    swap = done.summary.swap
    (told,) = swap.scenarios
    assert told.expected_population_uniques == pytest.approx(swap.risk_after.expected_population_uniques)
    assert told.expected_correct_matches == pytest.approx(swap.risk_after.expected_correct_matches)
    assert told.highest == pytest.approx(swap.risk_after.highest)
    assert told.sample_uniques == swap.risk_after.sample_uniques
    assert told.records_above_threshold == swap.released.records_above_threshold
    nearest = next(one for one in swap.intruders if one.name == "nearest")
    assert told.expected_correct_matches == pytest.approx(nearest.after)


def test_each_intruder_finds_what_an_attack_on_its_keys_finds() -> None:
    """Brute force: the nearest person of the file on the intruder's keys, where the file is the whole population."""
    done = _protect(top=40, scenario=SCENARIO, population=SAMPLE.num_rows + 1)
    for told, keys in zip(done.summary.swap.scenarios, (one["keys"] for one in SCENARIO.values()), strict=True):
        found = rc.attack(done.frame, original=SAMPLE, register=SAMPLE, keys=keys).summary
        nearest = next(one for one in found.intruders if one.name == "nearest")
        assert told.expected_correct_matches == pytest.approx(nearest.after, rel=0.05, abs=0.6)


@pytest.mark.parametrize(
    "wish", [{"risk_above": 0.05}, {"top": 25}, {"cell_probability_below": 1e-4}, {"records": [3, 7, 11, 200]}]
)
def test_every_way_of_choosing_is_over_all_scenarios(wish: dict[str, Any]) -> None:
    done = _protect(scenario=SCENARIO, **wish)
    scenarios, table = done.assessment.roles.scenarios, done.assessment.table
    per_record = np.array([one.unique_probability[table.record_cell] for one in scenarios.each])
    worst = per_record.max(axis=0)
    requested = done.plan.requested
    if "risk_above" in wish:
        assert requested.tolist() == np.flatnonzero(worst > 0.05).tolist()
    elif "top" in wish:
        assert len(requested) == 25
        assert worst[requested].min() >= np.delete(worst, requested).max()
    elif "records" in wish:
        assert requested.tolist() == wish["records"]
    else:
        below = [
            ((one.risk.sample_count == 1) & (np.exp(one.risk.log_population_share) < 1e-4))[one.cell] for one in scenarios.each
        ]
        assert requested.tolist() == np.flatnonzero(np.any(below, axis=0)[table.record_cell]).tolist()
    left = {one.record for one in done.plan.unswapped}
    before, after = SAMPLE.to_pylist(), done.frame.to_pylist()
    for row in set(requested.tolist()) - left:
        assert before[row] != after[row]


def test_a_target_holds_against_every_intruder() -> None:
    unprotected = _protect(top=1, scenario=SCENARIO).summary
    before = [one.expected_correct_matches for one in unprotected.risk.scenarios]
    most = min(before) * 0.6
    done = _protect(max_correct_links=most, scenario=SCENARIO)
    swap = done.summary.swap
    assert swap.target.met
    assert "every scenario" in swap.target.sentence
    assert all(one.expected_correct_matches <= most for one in swap.scenarios)
    fewer = _protect(max_correct_links=max(before) * 0.95, scenario=SCENARIO)
    assert 0 < len(fewer.plan) < len(done.plan)
    everything = _protect(max_correct_links=0.0, scenario=SCENARIO).summary.swap
    assert not everything.target.met
    assert "out of reach" in everything.target.sentence


@pytest.mark.parametrize("wish", [{"risk_above": 0.02}, {"max_correct_links": 15.0}])
@pytest.mark.parametrize("scenario", [{}, {"neighbour": {"keys": ["age", "town"]}, "home": {"keys": ["age", "sex", "pets"]}}])
def test_whole_households_with_scenarios_and_targets(wish: dict[str, Any], scenario: dict[str, Any]) -> None:
    people = _households(6, 300)
    ages = np.random.default_rng(2).integers(0, 25, people.num_rows)
    people = people.set_column(people.column_names.index("age"), "age", pa.array(ages))
    done = _protect(
        people,
        keys=["age", "sex", "town", "pets"],
        household="household",
        households=True,
        scenario=scenario,
        **{**wish, "population": 900},
    )
    plan = done.plan
    assert len(plan)
    household = np.array(people.column("household").to_pylist())
    size = np.bincount(household)
    givers: dict[int, set[int]] = {}
    keys_of: dict[int, set[str]] = {}
    for place, (receiver, giver) in enumerate(zip(household[plan.rows].tolist(), household[plan.sources].tolist(), strict=True)):
        assert size[receiver] == size[giver]
        givers.setdefault(receiver, set()).add(giver)
        keys_of.setdefault(receiver, set()).update(plan.variables(place % len(plan)))
    assert all(len(homes) == 1 for homes in givers.values())
    for receiver, keys in keys_of.items():
        # All members took part: the household has the values that its giver had.
        (giver,) = givers[receiver]
        for key in keys:
            before, after = (np.array(frame.column(key).to_pylist()) for frame in (people, done.frame))
            assert sorted(after[household == receiver]) == sorted(before[household == giver])
    assert not any("rule out" in left.reason for left in plan.unswapped)
    assert done.summary.swap.margins_identical
    if "max_correct_links" in wish:
        told = done.summary.swap.scenarios
        reached = [one.expected_correct_matches for one in told] or [done.summary.swap.risk_after.expected_correct_matches]
        assert done.summary.swap.target.met == all(value <= 15.0 for value in reached)


def test_named_records_that_nobody_could_know_are_kept_from_everybody() -> None:
    found = rc.assess(SAMPLE, keys=KEYS, scenario=SCENARIO, **SIMPLE).roles.scenarios
    assert found is not None
    chosen = Chosen.named(found, [0, 5], 1.0)
    assert chosen.mask.tolist() == [3, 3]


@pytest.mark.parametrize("in_memory", [True, False])
def test_scenarios_read_the_file_no_more_often(in_memory: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of every scenario is a projection of that of all keys."""
    pq.write_table(SAMPLE, tmp_path / "people.parquet")
    reads = []
    for name in ("encode", "counts"):
        original = getattr(ParquetSource, name)

        def counting(self: Any, *args: Any, _original: Any = original, **options: Any) -> Any:
            reads.append(args)
            return _original(self, *args, **options)

        monkeypatch.setattr(ParquetSource, name, counting)
    n_reads = []
    for more in ({}, {"scenario": SCENARIO}, {"geography": "region>town"}, {"geography": "region>town", "scenario": SCENARIO}):
        reads.clear()
        place = tmp_path / "people.parquet"
        rc.assess(
            place if in_memory else LargeFile(place, settings=EngineSettings()),
            keys=["age", "sex", "job", "town"],
            **SIMPLE,
            **more,
        )
        n_reads.append(len(reads))
    assert n_reads[1] == n_reads[0]
    assert n_reads[3] == n_reads[2]


def test_with_a_register_every_intruder_is_counted() -> None:
    scenario = {**SCENARIO, "everything": {"keys": KEYS}}
    done = _protect(top=30, scenario=scenario, register=PEOPLE)
    for before, after in zip(done.summary.risk.scenarios, done.summary.swap.scenarios, strict=True):
        keys = list(before.keys)
        found = rc.attack(done.frame, original=SAMPLE, register=PEOPLE, keys=keys).summary
        nearest = next(one for one in found.intruders if one.name == "nearest")
        assert before.expected_correct_matches == pytest.approx(nearest.before)
        assert after.expected_correct_matches == pytest.approx(nearest.after)
    whole = done.summary.swap.risk_after
    assert after.expected_population_uniques == pytest.approx(whole.expected_population_uniques)


def test_a_scenario_costs_one_model_of_the_risk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The margins that a scenario keeps need its best decomposable model and no other."""
    n_fits = 0
    fit = models.fit_backoff

    def counted(*given: Any, **options: Any) -> Any:
        nonlocal n_fits
        n_fits += 1
        return fit(*given, **options)

    monkeypatch.setattr(models, "fit_backoff", counted)
    fits = []
    for scenario in ({}, SCENARIO):
        n_fits = 0
        _protect(top=5, scenario=scenario, model="average", resolution="multi")
        fits.append(n_fits)
    assert fits[1] - fits[0] == len(SCENARIO)

"""Blanking what swaps leave at risk, together with several intruders and with a register."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import rarecell as rc
from rarecell.errors import BadInput
from tests.test_run_roles import PEOPLE, SAMPLE, SIMPLE

KEYS = ["age", "sex", "job", "town"]
KNOWN = {"neighbour": ["age", "sex", "town"], "colleague": ["job", "age"]}
SCENARIO = {name: {"keys": keys} for name, keys in KNOWN.items()}
# Nobody is swapped, so that everybody at risk needs blanks.
BLANKS: dict[str, Any] = {"risk_above": 0.3, "suppress_rest": True, "untouched": [{"sex": ["f", "m"]}], "swap_seed": 1, **SIMPLE}


def _values(table: pa.Table, names: list[str]) -> list[tuple[Any, ...]]:
    return list(zip(*(table[name].to_pylist() for name in names), strict=True))


def test_values_are_blanked_for_the_intruders_that_were_named() -> None:
    done = rc.protect(SAMPLE, keys=KEYS, scenario=SCENARIO, **BLANKS)
    swap, found = done.summary.swap, done.assessment
    assert swap is not None
    assert swap.suppression is not None
    assert swap.suppression.unreached == 0
    at_risk = set(found.roles.scenarios.above(0.3).tolist())
    blanked = {row for row, values in enumerate(_values(done.frame, KEYS)) if None in values}
    # An intruder who knows all keys would be a risk to more records, but none was named.
    assert blanked == at_risk
    assert len(blanked) < len(found.risk.above(0.3))
    for one in swap.scenarios:
        assert one.highest <= 0.3
        assert one.records_above_threshold <= sum(scenario.records_above_threshold for scenario in done.summary.risk.scenarios)


def test_blanks_that_nobody_needs_are_not_made() -> None:
    done = rc.protect(SAMPLE, keys=KEYS, scenario={"stranger": {"keys": ["sex", "job"]}}, **BLANKS)
    assert done.summary.swap.suppression.values == 0
    assert done.frame.equals(SAMPLE)


def test_with_a_register_blanks_are_counted_in_it() -> None:
    done = rc.protect(SAMPLE, keys=KEYS, register=PEOPLE, **BLANKS)
    swap = done.summary.swap
    assert swap.suppression.values > 0
    people = {}
    n_alone, links = 0, 0.0
    for values in _values(done.frame, KEYS):
        known = tuple(key for key, value in zip(KEYS, values, strict=True) if value is not None)
        if known not in people:
            people[known] = tuple(Counter(_values(table, list(known))) for table in (PEOPLE, SAMPLE))
        n_people, n_records = (counts[tuple(value for value in values if value is not None)] for counts in people[known])
        n_alone += n_people == 1
        links += (len(known) < len(KEYS) or n_records == 1) / n_people
    assert swap.risk_after.expected_population_uniques == n_alone == 0
    assert swap.risk_after.expected_correct_matches == pytest.approx(links)


def test_a_scenario_and_a_register_and_blanks() -> None:
    done = rc.protect(SAMPLE, keys=KEYS, register=PEOPLE, scenario=SCENARIO, **BLANKS)
    swap = done.summary.swap
    assert swap.suppression.values > 0
    for name, told in zip(KNOWN, swap.scenarios, strict=True):
        assert told.name == name
        assert told.expected_population_uniques == 0
        assert told.highest == 0


def test_a_register_is_not_asked_for_values_that_match_anything() -> None:
    ages = [None if row % 20 == 0 else age for row, age in enumerate(SAMPLE["age"].to_pylist())]
    lacking = SAMPLE.set_column(0, "age", pa.array(ages))
    with pytest.raises(BadInput, match="matches-anything"):
        rc.assess(lacking, keys=KEYS, register=PEOPLE, missing="matches-anything", **SIMPLE)
    same = [rc.assess(SAMPLE, keys=KEYS, register=PEOPLE, missing=missing, **SIMPLE) for missing in ("matches-anything", "level")]
    assert same[0].summary.risk.register == same[1].summary.risk.register

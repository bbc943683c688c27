"""Roles on Spark: the same numbers as in memory, with the records on their machines."""

from __future__ import annotations

from typing import Any

import pytest

import rarecell as rc
from rarecell.risk.register import register_counts
from tests.test_run_roles import KEYS, PEOPLE, SAMPLE, SIMPLE

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_areas_groups_and_scenarios_are_those_in_memory(spark: Any) -> None:
    options: dict[str, Any] = {
        "keys": KEYS,
        "geography": "region>town",
        "sensitive": ["illness"],
        "scenario": {"neighbour": {"keys": ["age", "sex"]}},
        **SIMPLE,
    }
    on_spark = rc.assess(spark.createDataFrame(SAMPLE).repartition(3), **options).summary.risk
    in_memory = rc.assess(SAMPLE, **options).summary.risk
    for one, other in zip(on_spark.areas, in_memory.areas, strict=True):
        assert one.expected_population_uniques == pytest.approx(other.expected_population_uniques)
        assert [area.area for area in one.areas] == [area.area for area in other.areas]
    assert on_spark.attributes[0].right_from_groups == in_memory.attributes[0].right_from_groups
    assert on_spark.attributes[0].t_closeness == pytest.approx(in_memory.attributes[0].t_closeness)
    assert on_spark.scenarios[0].expected_correct_matches == pytest.approx(in_memory.scenarios[0].expected_correct_matches)


def test_a_register_on_spark_is_counted_there(spark: Any) -> None:
    data = rc.Microdata(SAMPLE, keys=KEYS, coding={"age": {"width": 5}})
    register = spark.createDataFrame(PEOPLE).repartition(3)
    assert register_counts(data, register).in_register.tolist() == register_counts(data, PEOPLE).in_register.tolist()

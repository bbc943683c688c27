"""Blanking what swaps leave at risk, together with several intruders and with a register."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import rarecell as rc
from rarecell.errors import BadInput, UnknownColumns
from rarecell.run.blanking import highest_accepted, must_stay
from rarecell.run.config import ProtectConfig, RunConfig
from tests.test_run_roles import PEOPLE, SAMPLE, SIMPLE

KEYS = ["age", "sex", "job", "town"]
KNOWN = {"neighbour": ["age", "sex", "town"], "colleague": ["job", "age"]}
SCENARIO = {name: {"keys": keys} for name, keys in KNOWN.items()}
# Nobody is swapped, so that everybody at risk needs blanks.
BLANKS: dict[str, Any] = {"risk_above": 0.3, "suppress_rest": True, "untouched": [{"sex": ["f", "m"]}], "swap_seed": 1, **SIMPLE}
SMALL: dict[str, Any] = {"model": "single", "resolution": "full", "swap_seed": 1}


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


@pytest.mark.parametrize("register", [None, PEOPLE])
def test_intruders_are_told_what_is_left_after_blanking(register: pa.Table | None) -> None:
    known = {} if register is None else {"register": register}
    plain, blanked = (
        rc.protect(SAMPLE, keys=KEYS, **known, **{**BLANKS, "suppress_rest": is_blanked}).summary.swap
        for is_blanked in (False, True)
    )
    assert blanked.suppression.values > 0
    nearest, exact = (blanked.intruder(name) for name in ("nearest", "exact"))
    # One number for one thing: the list, the first page and the verdict.
    assert nearest.after == blanked.risk_after.expected_correct_matches < plain.intruder("nearest").after
    # Nobody was swapped here, so that who asks for equal values finds the same people as who looks nearby.
    assert exact.after == pytest.approx(nearest.after)
    assert all(one.interval_after[0] <= one.after for one in (nearest, exact) if one.interval_after)


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


def test_a_key_that_must_stay_is_not_blanked_unless_it_is_named_for_it() -> None:
    free, fixed, named = (
        rc.protect(SAMPLE, keys=KEYS, **more, **BLANKS)
        for more in ({}, {"never_swap": ["town"]}, {"never_swap": ["town"], "blank": ["age", "town"]})
    )
    assert "town" in free.summary.swap.suppression.by_key
    assert fixed.frame["town"].equals(SAMPLE["town"])
    told = fixed.summary.swap.suppression
    assert told.must_stay == ("town",)
    assert "town" not in told.by_key
    assert set(named.summary.swap.suppression.by_key) <= {"age", "town"}
    assert "town" in named.summary.swap.suppression.by_key


def test_a_record_that_only_fixed_keys_could_protect_is_told() -> None:
    done = rc.protect(SAMPLE, keys=KEYS, never_swap=KEYS, **BLANKS)
    told = done.summary.swap.suppression
    assert (told.values, told.must_stay) == (0, tuple(KEYS))
    assert told.unreached == len(done.assessment.risk.above(0.3)) > 0
    assert f"{told.unreached} records stay above it whatever is blanked of the keys that may be. " in told.sentence
    assert "--blank age,sex,job,town would allow it" in told.sentence
    assert done.frame.equals(SAMPLE)
    assert done.summary.swap.risk_after.highest > 0.3


def test_the_advice_on_keys_that_stay_reaches_every_record() -> None:
    told = rc.protect(SAMPLE, keys=KEYS, never_swap=["age", "job", "town"], **BLANKS).summary.swap.suppression
    assert told.unreached > 0
    assert (
        f"{told.unreached} records stay above it whatever is blanked of the keys that may be. age, job and town" in told.sentence
    )
    # Were only the keys that stayed named, the others could not be blanked any more.
    advised = told.sentence.split("--blank ")[1].split(" would allow it")[0].split(",")
    assert advised == list(KEYS)
    followed = rc.protect(SAMPLE, keys=KEYS, never_swap=["age", "job", "town"], blank=advised, **BLANKS).summary.swap.suppression
    assert followed.unreached == 0
    assert "whatever is blanked" not in followed.sentence


@pytest.mark.parametrize("kept", [["age", "town"], ["town", "illness"]])
def test_kept_tables_are_not_blanked_or_are_counted_again(kept: list[str]) -> None:
    held = rc.protect(SAMPLE, keys=KEYS, keep=[kept], **BLANKS)
    assert not set(kept) & set(held.summary.swap.suppression.by_key)
    assert held.summary.swap.suppression.tables == ()
    named = rc.protect(SAMPLE, keys=KEYS, keep=[kept, ["sex"]], blank=KEYS, **BLANKS)
    told = {table.variables: table for table in named.summary.swap.suppression.tables}
    for names in (kept, ["sex"]):
        before, after = (Counter(_values(table, names)) for table in (SAMPLE, named.frame))
        n_blank = sum(None in values for values in _values(named.frame, names))
        if not n_blank:
            assert tuple(names) not in told
            continue
        table = told[tuple(names)]
        assert (table.cells, table.records) == (len({*before, *after}), n_blank)
        assert table.differing == sum(before[cell] != after[cell] for cell in {*before, *after}) > 0
        assert f"differs in {table.differing} of {table.cells} cells after blanking" in named.summary.swap.suppression.sentence
    assert tuple(kept) in told


def test_keys_to_blank_are_keys_and_need_blanking() -> None:
    with pytest.raises(BadInput, match="suppress_rest="):
        rc.protect(SAMPLE, keys=KEYS, top=3, blank=["age"], **SIMPLE)
    with pytest.raises(UnknownColumns, match="There is no key 'agee'"):
        rc.protect(SAMPLE, keys=KEYS, blank=["agee"], **BLANKS)


def _people(seed: int, share_missing: float) -> pa.Table:
    rng = random.Random(seed)

    def drawn(pool: str) -> list[str | None]:
        return [None if rng.random() < share_missing else rng.choice(pool) for _ in range(60)]

    return pa.table({"a": drawn("abcdef"), "b": drawn("uvwxyz"), "c": drawn("pqrst"), "d": drawn("kl")})


@pytest.mark.parametrize(
    "options", [{}, {"never_swap": ["b"]}, {"blank": ["a", "d"]}, {"scenario": {"all": {"keys": list("abcd")}}}]
)
@pytest.mark.parametrize("k", [None, 2, 3])
@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_told_of_blanks_holds_in_the_released_file(seed: int, k: int | None, options: dict[str, Any]) -> None:
    """Records above the threshold and records in groups that are too small are two counts; a swapped record is at risk of a link."""
    keys, limit = list("abcd"), 0.1
    people = _people(seed, 0.2)
    more = {"k": k} if k else {}
    done = rc.protect(
        people, keys=keys, population=120, risk_above=limit, threshold=limit, suppress_rest=True, **SMALL, **more, **options
    )
    told, blanks = done.summary.swap.suppression, done.suppression
    released = _values(done.frame, keys)
    sizes = Counter(released)
    small = [row for row, values in enumerate(released) if k and sizes[values] < k]
    assert blanks.in_small_groups.tolist() == small
    assert told.unreached == len({*small, *blanks.unreached.tolist()})
    assert {row.record for row in done.remaining if row.risk > limit} <= set(blanks.unreached.tolist())
    if not len(blanks.unreached):
        assert done.summary.swap.risk_after.highest <= limit
        assert all(scenario.highest <= limit for scenario in done.summary.swap.scenarios)
        assert (blanks.risk_after <= limit).all()
        assert "above" not in told.sentence
    else:
        assert f"{len(blanks.unreached)} record" in told.sentence
    assert ("too few others" in told.sentence) == bool(small)
    assert ("must not be blanked" in told.sentence) <= bool({"blank", "never_swap"} & set(options))


def test_keys_that_stay_are_those_that_were_not_named_or_that_swaps_must_leave() -> None:
    keys = [rc.Categories(name, (1, 2, 3)) for name in ("age", "sex", "region", "job")]
    table = rc.ContingencyTable.from_counts([[0, 0, 0, 0], [1, 1, 1, 1]], [1, 1], keys)
    table = table.with_coarsenings([rc.Coarsening("age/2", "age", np.array([0, 0, 1], dtype=np.int32), ("young", "old"))])
    assert must_stay(ProtectConfig(top=1), table) == ()
    assert must_stay(ProtectConfig(top=1, never_swap=("job",)), table) == ("job",)
    assert must_stay(ProtectConfig(top=1, keep=(("age/2", "income"), ("region",))), table) == ("age", "region")
    assert must_stay(ProtectConfig(top=1, never_swap=("job",), keep=(("sex",),)), table) == ("sex", "job")
    named = ProtectConfig(top=1, never_swap=("job",), keep=(("sex",),), suppress_rest=True, blank=("job", "age"))
    assert must_stay(named, table) == ("sex", "region")


def test_values_are_blanked_above_the_limit_that_is_strictest() -> None:
    run = RunConfig(input="a.csv", keys=("age",), population=9, threshold=0.3)
    assert highest_accepted(ProtectConfig(top=1), run) == 0.3
    assert highest_accepted(ProtectConfig(risk_above=0.4), run) == 0.4
    assert highest_accepted(ProtectConfig(max_record_risk=0.1), run) == 0.1
    public = replace(run, profile="public")
    assert highest_accepted(ProtectConfig(top=1), public) == 0.05
    assert highest_accepted(ProtectConfig(max_record_risk=0.01), public) == 0.01
    assert highest_accepted(ProtectConfig(max_record_risk=0.1), replace(run, profile="clinical")) == 0.1

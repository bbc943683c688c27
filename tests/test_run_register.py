"""A run with a register is judged by what was counted, not by the estimate beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import rarecell as rc
from rarecell.cli.commands import main
from rarecell.intruder.nearest import nearest_links
from rarecell.intruder.participant import participant_links
from rarecell.intruder.register import Register
from rarecell.outcome.decision import decision_of
from rarecell.outcome.verdict import verdict
from rarecell.report.edition import external
from rarecell.report.first_page import states_table
from rarecell.report.sentences import steps
from rarecell.table.distance import Distances

KEYS = ["left", "right", "sex"]
N_PEOPLE, N_RECORDS, N_ALONE = 4000, 400, 5
MODEL = {"population": N_PEOPLE, "model": "independence", "resolution": "full", "swap_seed": 1}


def _people() -> pa.Table:
    """Left and right always agree, except for five people, each alone with their values. They come first."""
    rng = np.random.default_rng(3)
    left = rng.integers(0, 6, N_PEOPLE)
    right = left.copy()
    left[:N_ALONE], right[:N_ALONE] = range(N_ALONE), range(1, N_ALONE + 1)
    return pa.table({"left": left, "right": right, "sex": rng.choice(["f", "m"], N_PEOPLE)})


PEOPLE = _people()
SAMPLE = PEOPLE.slice(0, N_RECORDS)


@pytest.fixture(scope="module")
def found() -> rc.Assessment:
    return rc.assess(SAMPLE, keys=KEYS, register=PEOPLE, **{name: MODEL[name] for name in ("population", "model", "resolution")})


def test_the_verdict_is_that_of_the_register(found: rc.Assessment) -> None:
    risk = found.summary.risk
    assert risk.expected_population_uniques < 0.1
    assert risk.records_above_threshold == 0
    judged = verdict(found.summary)
    assert judged.tone == "risk"
    assert judged.headline == "5 records can be recognised by whoever holds the register"
    assert "not safe to release" in str(judged)
    assert found.summary.highest_risk == 1.0
    assert "Swap as many records as it takes" in steps(found.summary)[0].text


def test_an_estimate_that_the_register_refutes_is_not_to_be_trusted(found: rc.Assessment) -> None:
    light = found.summary.risk.reliability
    assert light is not None
    assert light.light == "red"
    assert "The register shows 5 population uniques" in light.sentence
    assert "too low" in light.sentence


def test_an_estimate_that_is_wrong_does_not_hold_back_what_was_counted(found: rc.Assessment) -> None:
    # A register was given already: advice to give one would never end.
    lights = [reason for reason in decision_of(found.summary).reasons if reason.limit == "worst_light"]
    assert [reason.is_refusal for reason in lights] == [False]
    register = found.summary.risk.register
    assert register is not None
    partly = replace(found.summary.risk, register=replace(register, records_not_covered=2))
    (light,) = [r for r in decision_of(replace(found.summary, risk=partly)).reasons if r.limit == "worst_light"]
    assert light.is_refusal
    assert light.remedy.endswith("a register that has everybody in the file")
    assert [column.heading for column in states_table(found.summary).columns] == ["Measure", "As it came"]


def test_outsiders_read_the_worse_number(found: rc.Assessment) -> None:
    outside = external(found.summary)
    assert outside.risk.register is not None
    assert outside.risk.register.calibration == ()
    assert outside.risk.register.sentence == ""
    assert verdict(outside).tone == "risk"


@pytest.mark.parametrize("n", [0, 1, 2])
def test_outsiders_cannot_tell_nobody_from_one_or_two(found: rc.Assessment, n: int) -> None:
    few = rc.assess(
        SAMPLE.slice(N_ALONE - n), keys=KEYS, register=PEOPLE.slice(N_ALONE - n), population=N_PEOPLE, model="independence"
    )
    assert few.summary.risk.register is not None
    assert few.summary.risk.register.population_uniques == n
    judged = verdict(external(few.summary))
    assert (judged.tone, judged.headline) == ("watch", "Fewer than 3 records can be recognised by whoever holds the register")
    assert verdict(few.summary).tone == ("risk" if n else "safe")


@pytest.mark.parametrize("wish", [{"risk_above": 0.2}, {"top": N_ALONE}])
@pytest.mark.parametrize("scenario", [{}, {"neighbour": {"keys": KEYS}}])
def test_records_are_chosen_by_what_was_counted(wish: dict[str, float], scenario: dict[str, object]) -> None:
    done = rc.protect(SAMPLE, keys=KEYS, register=PEOPLE, scenario=scenario, **MODEL, **wish)
    assert sorted(done.plan.requested.tolist()) == list(range(N_ALONE))
    assert done.summary.swap is not None
    assert done.summary.swap.risk_before.expected_population_uniques == N_ALONE


def test_after_the_uniques_come_records_with_the_fewest_people() -> None:
    people = pa.concat_tables([PEOPLE, *[PEOPLE.slice(0, 1)] * 2, *[PEOPLE.slice(1, 1)]])
    done = rc.protect(SAMPLE, keys=KEYS, register=people, top=4, **MODEL)
    assert sorted(done.plan.requested.tolist()) == [1, 2, 3, 4]


def test_a_run_that_may_not_be_risky_fails(tmp_path: Path) -> None:
    pq.write_table(SAMPLE, tmp_path / "file.parquet")
    pq.write_table(PEOPLE, tmp_path / "people.parquet")
    words = ["assess", str(tmp_path / "file.parquet"), "--keys", ",".join(KEYS), "--population", str(N_PEOPLE), "--quiet"]
    words += ["--model", "independence", "--register", str(tmp_path / "people.parquet"), "--fail-above", "0.5"]
    assert CliRunner().invoke(main, words).exit_code == 3


def test_what_was_counted_has_no_interval_around_it() -> None:
    done = rc.protect(SAMPLE, keys=KEYS, register=PEOPLE, records=[300], **MODEL)
    swap = done.summary.swap
    assert swap is not None
    assert swap.released is not None
    low, high = swap.released.interval
    assert 0 < swap.risk_after.expected_population_uniques <= N_ALONE
    assert low <= swap.risk_after.expected_population_uniques <= high <= N_ALONE


def test_fewer_records_at_risk_than_asked_for() -> None:
    done = rc.protect(SAMPLE, keys=KEYS, register=PEOPLE, scenario={"neighbour": {"keys": KEYS}}, top=50, **MODEL)
    assert "The 50 riskiest records were asked for, but only 5 records are at risk in a scenario." in done.summary.notes


def test_the_users_distances_reach_every_intruder_and_the_estimates_beside_a_register() -> None:
    rng = np.random.default_rng(8)
    people = pa.table({name: rng.integers(0, n, 3000) for name, n in (("age", 40), ("rooms", 9), ("town", 12))})
    keys, distances = ["age", "rooms", "town"], {"age": "nominal", "rooms": "nominal", "town": "nominal"}
    options = {"population": 3000, "model": "independence", "resolution": "full", "top": 60, "swap_seed": 1}
    done = rc.protect(people.slice(0, 500), keys=keys, register=people, distances=distances, **options)
    swap = done.summary.swap
    assert swap is not None
    by_name = {intruder.name: intruder for intruder in swap.intruders}
    asked, by_rank = (participant_links(done.release, distances=Distances(kinds=kinds)).total for kinds in (distances, {}))
    assert by_name["participant"].after == pytest.approx(asked)
    assert asked != pytest.approx(by_rank)
    modelled = Register.modelled(done.assessment.risk, done.assessment.choice.risk_model, seed=done.assessment.config.seed + 1)
    expected = nearest_links(done.release, modelled, distances=Distances(kinds=distances)).total
    assert by_name["nearest"].estimated_after == pytest.approx(expected)

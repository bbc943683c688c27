"""What is said of a released file is what somebody who reads that file finds."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import rarecell as rc
from rarecell.data.microdata import Microdata
from rarecell.run.blanking import released_table
from rarecell.run.files import run_name
from rarecell.run.results import Assessment, Protection
from rarecell.swap.plan import SwapPlan

KEYS = ["age", "region", "sex"]


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Path:
    draw = np.random.default_rng(11)
    n = 500
    people = {
        "age": draw.integers(18, 70, n),
        "region": [f"r{k}" for k in draw.integers(0, 8, n)],
        "sex": draw.choice(["f", "m"], n),
        "job": draw.choice(["x", "y", "z"], n),
        "household": np.arange(n) // 2,
        "weight": draw.uniform(1.5, 4.5, n).round(3),
        "stratum": draw.choice(["north", "south"], n),
    }
    path = tmp_path_factory.mktemp("survey") / "people.csv"
    pa.csv.write_csv(pa.table(people), path)
    return path


def protected(path: Path, out: Path | None, **options: Any) -> Protection:
    given = {"keys": KEYS, "model": "independence", "seed": 2, "swap_seed": 2, "threshold": 0.1, **options}
    return rc.protect(path, out=out, **given)


@pytest.fixture(scope="module")
def blanked(survey: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Protection, Path]:
    """A release in which values were swapped and blanked."""
    out = tmp_path_factory.mktemp("out") / "run"
    options = {"population": 700, "max_record_risk": 0.3, "suppress_rest": True, "household": "household", "sensitive": ["job"]}
    # Swaps between households, or of every record, would leave nothing to blank.
    done = protected(survey, out, households_known="no", untouched=[{"region": "r1"}], **options)
    assert done.suppression is not None
    assert len(done.suppression.rows)
    return done, out


def test_who_is_alone_in_the_released_file_is_counted_in_it(blanked: tuple[Protection, Path]) -> None:
    done, out = blanked
    state = done.summary.swap and done.summary.swap.released
    assert state
    read = Microdata(out / "protected.csv", keys=KEYS).table()
    assert state.sample_uniques == int((read.counts == 1).sum())
    assert state.k_anonymity == {str(k): int(read.counts[read.counts < k].sum()) for k in (2, 3, 5)}
    assert sum(state.counts) == state.sample_uniques


def test_households_and_groups_are_added_up_record_by_record(blanked: tuple[Protection, Path], survey: Path) -> None:
    done, _ = blanked
    swap, plan, table = done.summary.swap, done.plan, done.assessment.table
    assert swap
    assert swap.released
    assert swap.released.households
    listed = pa.csv.read_csv(survey).to_pydict()
    after = {group.level: group for group in done.summary.groups if group.key == "job"}
    assert set(after) == {"x", "y", "z"}
    total = sum(group.expected_population_uniques_after or 0.0 for group in after.values())
    assert total == pytest.approx(swap.risk_after.expected_population_uniques)
    rows = set(plan.rows.tolist())
    for level, group in after.items():
        members = [record for record, job in enumerate(listed["job"]) if job == level]
        assert group.records == group.records_after == len(members)
        assert group.sample_uniques == sum(int(table.counts[table.record_cell[record]] == 1) for record in members)  # type: ignore[index]
        assert group.swapped == len(rows & set(members))
    assert 0 <= swap.released.households.expected_with_an_identified_member <= 250
    assert done.summary.risk.household
    assert swap.released.households.above_threshold <= int(done.summary.risk.household.above_threshold)


def test_a_number_of_every_record(blanked: tuple[Protection, Path]) -> None:
    plan = blanked[0].plan
    assert isinstance(plan, SwapPlan)
    of_record = plan.release.of_records(np.full(plan.table.n_cells, 0.25), np.full(len(plan.rows), 0.5))
    assert [of_record[row] for row in plan.rows] == [0.5] * len(plan.rows)
    assert sorted(set(of_record.tolist())) == [0.25, 0.5]


def test_intervals_hold_the_estimates_of_both_files(blanked: tuple[Protection, Path]) -> None:
    summary = blanked[0].summary
    swap = summary.swap
    assert swap
    assert swap.released
    low, high = swap.released.interval
    assert low <= swap.risk_after.expected_population_uniques <= high
    assert high <= summary.risk.interval[1] + len(blanked[0].plan.rows)
    low, high = swap.released.interval_correct_matches
    assert 0 <= low <= high


@pytest.mark.parametrize(
    "design",
    [{"population": 700}, {"weight": "weight"}, {"strata": "stratum", "populations": {"north": 400, "south": 450}}],
    ids=["equal", "weights", "strata"],
)
def test_the_table_of_the_released_file_is_the_one_that_is_read(survey: Path, tmp_path: Path, design: dict[str, Any]) -> None:
    done = protected(survey, tmp_path / "run", top=30, **design)
    made = released_table(done.assessment, done.release)
    read = Microdata(tmp_path / "run" / "protected.csv", keys=KEYS, weight=design.get("weight")).table()
    assert made.cells.tolist() == read.cells.tolist()
    assert made.counts.tolist() == read.counts.tolist()
    if "weight" in design:
        assert made.weights is not None
        assert made.weights == pytest.approx(read.weights)
    if "strata" in design:
        strata = pa.csv.read_csv(survey)["stratum"].to_pylist()
        size = {name: total / strata.count(name) for name, total in design["populations"].items()}
        naive = np.zeros(made.n_cells)
        for record, name in enumerate(strata):
            naive[made.record_cell[record]] += size[name]  # type: ignore[index]
        assert made.weights == pytest.approx(naive)


def test_values_are_blanked_by_the_weights_of_the_released_file(survey: Path) -> None:
    done = protected(survey, None, weight="weight", max_record_risk=0.2, suppress_rest=True)
    assert done.suppression is not None
    assert done.summary.swap
    assert (done.suppression.risk_after <= 0.2 + 1e-12).all()


def test_a_release_names_its_run(blanked: tuple[Protection, Path], survey: Path, tmp_path: Path) -> None:
    _, out = blanked
    record = json.loads((out / "run.json").read_text(encoding="utf-8"))
    told = json.loads((out / "summary.json").read_text(encoding="utf-8"))["provenance"]
    assert record["run"] == told["run"]
    assert len(told["run"]) == 12
    for page in ("report.html", "report-external.html"):
        assert told["run"] in (out / page).read_text(encoding="utf-8")
    again = protected(survey, tmp_path / "same", population=700, top=5)
    other = protected(survey, tmp_path / "other", population=701, top=5)
    assert again.summary.swap
    assert other.summary.swap
    names = [json.loads((tmp_path / name / "run.json").read_text(encoding="utf-8"))["run"] for name in ("same", "other")]
    assert len({*names, told["run"]}) == 3


def test_what_travels_with_a_release_confirms_no_guess_of_the_original(blanked: tuple[Protection, Path], survey: Path) -> None:
    """With a function of the original file's bytes, whoever undoes a swap would see whether the guess is right."""
    done, out = blanked
    original = hashlib.sha256(survey.read_bytes()).hexdigest()
    assert original in (out / "report.html").read_text(encoding="utf-8")
    travelling = [out / "report-external.html", *(out / "tables-external").iterdir()]
    assert not any(original in path.read_text(encoding="utf-8") for path in travelling)

    found = done.assessment
    elsewhere = replace(found.config, input=str(out / survey.name))
    other_bytes = SimpleNamespace(config=elsewhere, data=SimpleNamespace(source=SimpleNamespace(unchanged_hash=lambda: "0" * 64)))
    assert run_name(cast(Assessment, other_bytes), "released") == run_name(found, "released")
    assert run_name(cast(Assessment, other_bytes), None) != run_name(found, None)


def test_an_assessment_does_not_name_its_run_outside(survey: Path, tmp_path: Path) -> None:
    """Nothing was released, so the name comes from the input."""
    rc.assess(survey, keys=KEYS, population=700, out=tmp_path / "run")
    name = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))["run"]
    assert name in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert name not in (tmp_path / "run" / "report-external.html").read_text(encoding="utf-8")

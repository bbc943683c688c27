"""Columns that are no keys are treated as a run says, in the file and in its numbers."""

from __future__ import annotations

import datetime
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

import rarecell as rc
from rarecell.data.treatment_text import parse_treatment
from rarecell.errors import BadInput
from rarecell.release.analyses import Analysis, compare
from rarecell.run.config import RunConfig

KEYS = ["age", "sex", "region"]
TREAT = {
    "income": "top 99 %, round 100",
    "wage": "noise 5 %",
    "wealth": "microaggregate 4 with debt",
    "born": "date to month",
    "colour": "pram 70 %",
    "phone": "drop",
    "rooms": "edges 2 4 6",
}


def people(n: int = 300) -> pa.Table:
    rng = np.random.default_rng(2)
    return pa.table(
        {
            "age": rng.integers(18, 70, n),
            "sex": rng.integers(1, 3, n),
            "region": rng.integers(1, 9, n),
            "income": rng.lognormal(9, 1, n).round().astype(np.int64),
            "wage": rng.normal(20, 4, n).round(2),
            "wealth": rng.lognormal(11, 1, n).round(),
            "debt": np.where(rng.random(n) < 0.2, np.nan, rng.lognormal(8, 1, n).round()),
            "born": [datetime.date(1980, 1 + int(k) % 12, 1 + int(k) % 28) for k in rng.integers(0, 400, n)],
            "colour": np.array(["red", "blue", "green"])[rng.integers(0, 3, n)],
            "phone": [f"0{k:09d}" for k in range(n)],
            "rooms": rng.integers(1, 9, n),
        }
    )


def asked(**more: object) -> dict[str, object]:
    return {
        "keys": KEYS,
        "population": 9_000,
        "top": 3,
        "seed": 5,
        "treat": TREAT,
        "model": "single",
        "resolution": "full",
        **more,
    }


def test_a_file_holds_what_the_treatments_say(tmp_path: Path) -> None:
    table = people()
    csv.write_csv(table, tmp_path / "people.csv")
    done = rc.protect(tmp_path / "people.csv", out=tmp_path / "run", **asked())
    written = csv.read_csv(tmp_path / "run" / "protected.csv")
    assert "phone" not in written.column_names
    assert written.num_rows == table.num_rows
    income = written["income"].to_numpy()
    assert (income % 100 == 0).all()
    assert (income == income.max()).sum() >= 3
    assert written["wealth"].to_numpy().sum() == pytest.approx(table["wealth"].to_numpy().sum(), rel=1e-9)
    assert np.unique(written["wealth"].to_numpy(), return_counts=True)[1].min() >= 4
    assert all(str(value)[:7] in {f"1980-{m:02d}" for m in range(1, 13)} for value in written["born"].to_pylist())
    assert 0.6 < np.mean([a == b for a, b in zip(written["colour"].to_pylist(), table["colour"].to_pylist(), strict=True)]) < 0.95
    assert set(written["rooms"].to_pylist()) <= {"<2", "≤1", "2–3", "4–5", "6+", "1"}
    assert (written["wage"].to_numpy() != table["wage"].to_numpy()).mean() > 0.9
    assert "rooms" in (tmp_path / "run" / "recoding.csv").read_text(encoding="utf-8")
    told = {one.column: one for one in done.summary.release.treatments}
    assert set(told) == {*TREAT, "debt"}
    assert told["wealth"].mean_after == pytest.approx(told["wealth"].mean_before)
    assert told["wealth"].linked_after < 0.5 * told["wealth"].linked_before
    assert told["wage"].linked_with_keys_after >= told["wage"].linked_after
    assert told["wage"].linked_with_keys_before >= told["wage"].linked_with_keys_after
    numbers = [told[name] for name in ("income", "wage", "wealth", "debt")]
    assert len({(one.linked_together_before, one.linked_together_after) for one in numbers}) == 1
    assert numbers[0].linked_together_after > max(one.linked_after for one in numbers)
    assert told["colour"].linked_together_after is None
    assert "standard deviation" in told["income"].sentence
    config = RunConfig.read(tmp_path / "run" / "run.toml")
    assert dict(config.protect.treat) == TREAT


def test_a_frame_holds_the_same_as_a_file_and_the_seed_is_secret(tmp_path: Path) -> None:
    table = people()
    once, again = (rc.protect(table, **asked()).frame for _ in range(2))
    assert once.equals(again)
    other = rc.protect(table, **asked(seed=6)).frame
    assert not once["wage"].equals(other["wage"])
    assert once.schema.field("born").type == table.schema.field("born").type
    assert {value.day for value in once["born"].to_pylist()} == {1}


def test_a_derived_recoding_takes_a_leak_away() -> None:
    rng = np.random.default_rng(0)
    n = 800
    age = rng.integers(20, 60, n)
    table = pa.table({"age": age, "sex": rng.integers(1, 3, n), "birth_year": 2_000 - age, "name": [f"p{k}" for k in range(n)]})
    options = {"keys": ["age", "sex"], "population": 20_000, "top": 2, "recode": {"age": "10-year bands"}}
    with pytest.raises(rc.RarecellError, match="'birth_year': 'edges") as problem:
        rc.protect(table, **options)
    words = str(problem.value).split("'birth_year': '")[1].split("'")[0]
    done = rc.protect(table, treat={"birth_year": words}, **options)
    assert not [one for one in done.summary.release.leaks if one.restores]
    assert not [one for one in rc.protect(table, treat={"birth_year": "drop"}, **options).summary.release.leaks if one.restores]


@pytest.mark.parametrize(
    ("treat", "problem"),
    [
        ({"income": "blur"}, "not understood"),
        ({"incme": "drop"}, "income"),
        ({"age": "round 5"}, "is a key"),
        ({"colour": "round 5"}, "words or dates"),
        ({"income": "drop, round 5"}, "give it alone"),
        ({"income": "round 5, bands of 10"}, "mixes"),
        ({"income": "noise 200 %"}, "between 0 and 100"),
        ({"income": "round 0"}, "above 0"),
        ({"wealth": "microaggregate 4 with debt", "debt": "round 10"}, "twice"),
        ({"colour": "date to month"}, "no dates"),
    ],
)
def test_what_cannot_be_done_is_said(treat: dict[str, str], problem: str) -> None:
    with pytest.raises(rc.RarecellError, match=problem):
        rc.protect(people(60), **asked(treat=treat))


def test_words_mean_steps() -> None:
    assert [step.kind for step in parse_treatment("bottom 1 %, top 99 %, round 10", column="x")] == ["bottom", "top", "round"]
    assert parse_treatment("bottom 1 %", column="x")[0].share == pytest.approx(0.99)
    assert parse_treatment("microaggregate 5 with a + b", column="x")[0].together == ("a", "b")
    assert parse_treatment("pram", column="x")[0].share == 0.8
    assert parse_treatment("merge 1+2 as few", column="x")[0].kind == "levels"


def test_the_report_lists_treatments_and_accepted_leaks(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    age = rng.integers(20, 60, 500)
    table = pa.table(
        {"age": age, "sex": rng.integers(1, 3, 500), "birth_year": 2_000 - age, "pay": rng.lognormal(7, 1, 500).round()}
    )
    rc.protect(
        table, keys=["age", "sex"], population=20_000, top=2, recode={"age": "10-year bands"}, accept_leak=["birth_year"],
        treat={"pay": "round 100"}, out=tmp_path / "run",
    )  # fmt: skip
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "Columns that tell about a treated key" in page
    assert "accepted by name" in page
    assert "round 100" in page
    outside = (tmp_path / "run" / "report-external.html").read_text(encoding="utf-8")
    assert "birth_year" not in outside


def test_records_that_are_only_counted_are_looked_at_and_handed_over_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a file is that does not fit into memory."""
    monkeypatch.setattr("rarecell.data.microdata.CODES_IN_MEMORY", 100)
    monkeypatch.setattr("rarecell.data.whole_file.MOST_RECORDS", 500)
    table = people(900).append_column("birth_year", pa.array(2_000 - people(900)["age"].to_numpy()))
    pq.write_table(table, tmp_path / "people.parquet")
    options = asked(recode={"age": "10-year bands"}, treat={"phone": "drop", "born": "date to month", "wage": "round 5"}, top=30)
    with pytest.raises(rc.RarecellError, match="'birth_year' tells"):
        rc.protect(tmp_path / "people.parquet", **options)
    options["treat"] |= {"birth_year": "drop"}
    done = rc.protect(tmp_path / "people.parquet", out=tmp_path / "run", **options)
    assert done.assessment.table.record_cell is None
    assert done.summary.swap.swapped
    assert done.summary.swap.file.is_sample
    assert "wage" not in {one.column for one in done.summary.swap.file.means}
    made = rc.handover(tmp_path / "run", reason="test")
    written, inside = pq.read_table(made / "data.parquet"), pq.read_table(tmp_path / "run" / "protected.parquet")
    key = pq.read_table(tmp_path / "run" / "release-key.parquet")["released_row"].to_numpy()
    assert written["income"].to_numpy()[key].tolist() == inside["income"].to_numpy().tolist()
    assert not {"phone", "birth_year"} & set(written.column_names)


def test_a_file_counted_by_its_engine_says_the_same_about_means(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(people(900), tmp_path / "people.parquet")
    options = asked(treat={}, top=30)
    held = rc.protect(tmp_path / "people.parquet", **options)
    monkeypatch.setattr("rarecell.data.microdata.CODES_IN_MEMORY", 100)
    counted = rc.protect(tmp_path / "people.parquet", **options)
    assert counted.assessment.table.record_cell is None
    assert counted.summary.swap.file == held.summary.swap.file


def test_values_that_are_missing_stay_so_and_are_given_to_nobody() -> None:
    table = people()
    colours = [None if row % 7 == 0 else colour for row, colour in enumerate(table["colour"].to_pylist())]
    table = table.set_column(table.column_names.index("colour"), "colour", pa.array(colours))
    done = rc.protect(table, **asked(treat={"colour": "pram 20 %"}))
    released = pa.table(done.frame)["colour"].to_pylist()
    assert [colour is None for colour in released] == [colour is None for colour in colours]
    assert released != colours


@pytest.mark.parametrize("kind", ["frame", "csv", "parquet"])
@pytest.mark.parametrize("how", ["round 20", "noise 1 %", "merge 1+2 as low"])
def test_a_treated_column_travels_with_the_key_that_it_depends_on(how: str, kind: str, tmp_path: Path) -> None:
    """A number that stayed behind would name the region that the record came from."""
    table = people()
    table = table.append_column("zip", pa.array(table["region"].to_numpy() * 100))
    given: object = table
    if kind != "frame":
        given = tmp_path / f"people.{kind}"
        csv.write_csv(table, given) if kind == "csv" else pq.write_table(table, given)
    treat = {"zip": how if not how.startswith("merge") else "merge 100+200 as low"}
    done = rc.protect(given, **asked(treat=treat, top=25, never_swap=["age"]))
    assert done.summary.swap.carried == ("zip",)
    region, was = (each["region"].to_numpy() for each in (done.frame, table))
    assert (region != was).any()
    of_region = {int(key) // 100: value for key, value in zip(table["zip"].to_pylist(), table["zip"].to_pylist(), strict=True)}
    for new, value in zip(region.tolist(), done.frame["zip"].to_pylist(), strict=True):
        if how.startswith("merge"):
            assert value == ("low" if new <= 2 else str(of_region[new]))
        else:
            assert abs(value - of_region[new]) <= 40


def test_a_table_with_a_treated_column_cannot_be_promised() -> None:
    problem = r"is in a table that is to be kept \(keep=\), but"
    with pytest.raises(BadInput, match=f"'colour' {problem} treat= changes its values"):
        rc.protect(people(), **asked(treat={"colour": "pram 70 %"}, keep=[["colour", "sex"]]))
    with pytest.raises(BadInput, match=f"'debt' {problem} treat= changes its values"):
        rc.protect(people(), **asked(treat={"wealth": "microaggregate 4 with debt"}, keep=[["debt", "sex"]]))
    with pytest.raises(BadInput, match=f"'colour' {problem} it is not released"):
        rc.protect(people(), **asked(treat={"colour": "drop"}, keep=[["colour", "sex"]]))


def test_a_table_with_a_column_that_is_to_travel_cannot_be_promised() -> None:
    with pytest.raises(BadInput, match=r"'colour' is in a table that is to be kept \(keep=\), but it is to travel"):
        rc.protect(people(), **asked(treat={}, carry=["colour"], keep=[["colour", "sex"]]))


def test_nothing_is_said_of_relations_with_a_column_that_is_not_released() -> None:
    table = people()
    table = table.append_column("zip", pa.array(table["region"].to_numpy() * 100))
    done = rc.protect(table, **asked(treat={"zip": "drop", "colour": "drop"}, top=25, never_swap=["age"])).summary.swap
    assert done.carried == done.left_behind == ()
    assert {"rooms"} <= {each.column for each in done.associations}
    assert not {"zip", "colour"} & {each.column for each in done.associations}


def test_a_table_with_a_column_in_coarser_levels_is_kept() -> None:
    table = people()
    done = rc.protect(table, **asked(treat={"rooms": "edges 4"}, keep=[["rooms", "region"]], top=10))
    coarse = ["<4" if rooms < 4 else "4+" for rooms in table["rooms"].to_pylist()]
    assert Counter(zip(coarse, table["region"].to_pylist(), strict=True)) == Counter(
        zip(done.frame["rooms"].to_pylist(), done.frame["region"].to_pylist(), strict=True)
    )


def test_a_kept_table_has_no_weights_that_are_raked() -> None:
    table = people().append_column("w", pa.array(np.repeat([10.0, 20.0, 30.0], 100)))
    with pytest.raises(BadInput, match=r"'w' is in a table that is to be kept \(keep=\), but rake= changes its values"):
        rc.protect(table, **asked(treat={}, population=None, weight="w", rake=True, keep=[["w", "sex"]]))


def test_analyses_are_run_on_what_is_released() -> None:
    """On treated values, on weights that were raked, and on columns that travel; a column in levels has them in both files."""
    table = people().append_column("w", pa.array(np.random.default_rng(4).choice([10.0, 20.0, 45.0], 300)))
    table = table.append_column("zip", pa.array(table["region"].to_numpy() * 100 + 7))
    analysis = {
        "pay": {"means": "income by sex"},
        "homes": {"table": "rooms, region"},
        "zips": {"means": "zip by region"},
        "colours": {"table": "colour"},
    }
    treat = {"income": "top 50 %", "rooms": "edges 4", "zip": "round 50", "colour": "pram 50 %"}
    done = rc.protect(
        table, **asked(treat=treat, analysis=analysis, top=25, never_swap=["age"], population=None, weight="w", rake=True)
    )
    assert done.summary.swap.carried == ("zip",)
    told = {one.name: {term.name: term for term in one.terms} for one in done.summary.swap.analyses}
    for frame, side in ((table, "before"), (done.frame, "after")):
        columns = frame.to_pydict()
        if side == "before":
            columns["rooms"] = ["<4" if rooms < 4 else "4+" for rooms in columns["rooms"]]
        for name, of_file in told.items():
            wanted = compare(Analysis.of(name, analysis[name]), columns, columns, np.array(columns["w"]))
            assert {term.name: term.before for term in wanted} == pytest.approx(
                {term: getattr(one, side) for term, one in of_file.items()}
            )
    assert any(term.before != pytest.approx(term.after) for term in told["pay"].values())


def test_an_analysis_of_a_column_that_is_not_released_is_refused() -> None:
    with pytest.raises(BadInput, match="Analysis 'pay' names 'income', which is not released"):
        rc.protect(people(), **asked(treat={"income": "Drop"}, analysis={"pay": {"means": "income by sex"}}))

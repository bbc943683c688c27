"""Recodings tried on counts are what a run with them would see."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell.app.recode_pages import regrouped
from rarecell.data.coding import Coding, code_lengths
from rarecell.data.likeness import Likeness
from rarecell.data.microdata import Microdata
from rarecell.errors import BadInput
from rarecell.outcome.planned import TriedKey
from rarecell.planning.recodings import ladder, recoded_by
from rarecell.run.config import RunConfig
from rarecell.run.plan import Trials

RECODINGS = {
    "age": ["", "5-year bands", "edges 15 25 45", "top 60", "bottom 10, top 70", "4 quantiles", "missing 3+7", "5 groups"],
    "region": ["", "merge r1+r2 as south", "4 groups", "missing r0"],
    "sex": ["", "merge f+m as any"],
    "born": ["", "date to month", "date to quarter", "to year"],
    "postcode": ["", "first 3 characters", "first 1", "3 groups"],
}


def people(seed: int, n: int = 400) -> pa.Table:
    draw = np.random.default_rng(seed)
    age = draw.integers(0, 80, n)
    return pa.table(
        {
            "age": pa.array([None if draw.random() < 0.02 else int(a) for a in age]),
            "region": [f"r{k}" for k in draw.integers(0, 9, n)],
            "sex": draw.choice(["f", "m", "x"], n),
            "job": draw.choice(["a", "b", "c"], n),
            "born": pa.array([datetime.date(1990, 1, 1) + datetime.timedelta(int(day)) for day in draw.integers(0, 1500, n)]),
            "postcode": [
                f"{area}{place:02d}" for area, place in zip(draw.integers(17, 23, n), draw.integers(0, 12, n), strict=True)
            ],
        }
    )


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 5),
    chosen=st.fixed_dictionaries({key: st.sampled_from(words) for key, words in RECODINGS.items()}),
)
def test_a_tried_table_is_the_one_that_is_read(seed: int, chosen: dict[str, str]) -> None:
    frame = people(seed)
    codings = {key: Coding.of(words, key=key) for key, words in chosen.items() if words}
    plain = Microdata(frame, keys=list(RECODINGS))
    fine = plain.table()
    read = Microdata(frame, keys=list(RECODINGS), coding=codings).table()
    tried, keys = recoded_by(fine, codings, plain.likeness(fine))
    # Levels may be listed in another order; what records share a cell may not.
    labels = [[tuple(t.categories[k].labels[c] for k, c in enumerate(cell)) for cell in t.cells] for t in (tried, read)]
    assert dict(zip(labels[0], tried.counts.tolist(), strict=True)) == dict(zip(labels[1], read.counts.tolist(), strict=True))
    for key in keys:
        assert key.counts.sum() == key.counts_after.sum() == len(frame)
        moved = np.bincount(key.group_of_level, weights=key.counts, minlength=len(key.labels_after))
        assert moved.tolist() == key.counts_after.tolist()


def test_a_key_that_would_tell_nothing_is_refused() -> None:
    fine = Microdata(people(0), keys=["age", "sex"]).table()
    with pytest.raises(BadInput, match="single level"):
        recoded_by(fine, {"sex": Coding.of("merge f+m+x as any", key="sex")}, Likeness.of_table(fine))


def test_a_trial_has_the_numbers_of_both_sides() -> None:
    trials = Trials(RunConfig(input="", keys=("age", "region", "sex"), population=20_000), people(1))
    same, coarse = trials.of({}), trials.of({"age": "10-year bands", "region": ""})
    assert same.before == same.after
    assert same.information_kept == 1.0
    assert same.association_kept == pytest.approx(1.0)
    assert coarse.after.sample_uniques < coarse.before.sample_uniques
    assert coarse.after.at_least[0] == coarse.after.sample_uniques
    assert list(coarse.after.at_least) == sorted(coarse.after.at_least, reverse=True)
    assert 0.0 < coarse.information_kept < 1.0
    assert coarse.association_kept is not None
    assert coarse.association_kept <= 1.0
    age = coarse.keys[0]
    assert (age.words, age.n_levels_after) == ("10-year bands", 9)
    assert "bands of 5" in age.offered


def test_a_trial_agrees_with_the_run_it_stands_for() -> None:
    frame = people(2, 1500)
    options = {"keys": ["age", "region", "sex"], "population": 30_000}
    tried = Trials(RunConfig.from_mapping({"input": "", **options}), frame).of({"age": "5-year bands"}).after
    risk = rc.assess(frame, recode={"age": "5-year bands"}, **options).summary.risk  # type: ignore[arg-type]
    assert tried.sample_uniques == risk.sample_uniques
    assert tried.expected_correct_matches == pytest.approx(risk.expected_correct_matches, rel=0.25)


def test_dates_are_released_by_month_or_year_in_every_kind_of_file(tmp_path: Path) -> None:
    born = ["2001-03-28", "2001-03-01", "2002-11-30", None, "2002-12-01"] * 30
    frame = pa.table({"born": pa.array([None if day is None else datetime.date.fromisoformat(day) for day in born])})
    frame = frame.append_column("sex", pa.array(["f", "m", "f", "m", "m"] * 30))
    dotted = frame.set_column(0, "born", pa.array([None if day is None else ".".join(reversed(day.split("-"))) for day in born]))
    pq.write_table(frame, tmp_path / "typed.parquet")
    pa.csv.write_csv(frame, tmp_path / "iso.csv")
    pa.csv.write_csv(dotted, tmp_path / "dotted.csv")
    for part, levels in {
        "month": ["2001-03", "2002-11", "2002-12"],
        "quarter": ["2001-Q1", "2002-Q4"],
        "year": ["2001", "2002"],
    }.items():
        for name in ("typed.parquet", "iso.csv", "dotted.csv"):
            data = Microdata(tmp_path / name, keys=["born", "sex"], coding={"born": f"date to {part}"})
            assert list(data.table().categories[0].labels) == [*levels, "missing"], (name, part)
    with pytest.raises(BadInput, match="no dates"):
        Microdata(frame, keys=["born", "sex"], coding={"sex": "date to year"}).table()


def test_dates_are_offered_by_month_and_year_and_nothing_else() -> None:
    fine = Microdata(people(2), keys=["born", "sex"]).table()
    assert [step.words for step in ladder(fine, "born", Likeness.of_table(fine)["born"])] == [
        "as it is",
        "date to month",
        "date to quarter",
        "date to year",
    ]
    assert Trials(RunConfig(input="", keys=("born", "sex"), population=20_000), people(2)).of({}).keys[0].shape == "dates"


def test_codes_are_offered_by_their_first_characters() -> None:
    fine = Microdata(people(2), keys=["postcode", "sex"]).table()
    steps = ladder(fine, "postcode", Likeness.of_table(fine)["postcode"])
    assert [step.words for step in steps[:2]] == ["as it is", "first 3 characters"]
    assert "first 2 characters" in [step.words for step in steps]
    by_area = next(step for step in steps if step.words == "first 2 characters")
    assert by_area.coarsening is not None
    assert by_area.coarsening.labels == ("17", "18", "19", "20", "21", "22")
    ages = Microdata(people(2), keys=["age", "region"]).table()
    assert not any(step.words.startswith("first") for step in ladder(ages, "age", Likeness.of_table(ages)["age"]))


@pytest.mark.parametrize(
    ("values", "lengths"),
    [
        ([f"{letter}{number:02d}.{digit}" for letter in "ABCEI" for number in range(20) for digit in range(6)], (4, 2, 1)),
        ([str(code) for code in range(1000, 1060)], (3,)),
        ([str(year) for year in range(1900, 2020)], ()),
        ([str(age) for age in range(100)], ()),
        ([f"place {k}" for k in range(50)], ()),
    ],
)
def test_what_looks_like_a_code(values: list[str], lengths: tuple[int, ...]) -> None:
    assert code_lengths(values) == lengths


def test_leading_zeros_that_a_number_lost_come_back() -> None:
    frame = pa.table({"postcode": [1067, 1069, 80331, 80333, 10115, 99999] * 5, "sex": ["f", "m"] * 15})
    data = Microdata(frame, keys=["postcode", "sex"], coding={"postcode": "first 2 digits"})
    assert list(data.table().categories[0].labels) == ["01", "10", "80", "99"]
    assert not data.table().categories[0].is_ordered


# ---------------------------------------------------------------------- by hand


def tried(words: str = "", **labels: str) -> TriedKey:
    """A key of five levels, recoded in words, as the page shows it."""
    frame = pa.table({"job": pa.array(["1", "2", "3", "-9", "a b"] * 40), "sex": ["f", "m"] * 100})
    trials = Trials(RunConfig(input="", keys=("job", "sex"), population=20_000), frame)
    key = trials.of({"job": words}).keys[0]
    return replace(key, meanings=tuple(labels.get(f"level_{label}", "") for label in key.labels))


def position(key: TriedKey, *labels: str) -> list[int]:
    return [key.labels_after.index(label) for label in labels]


def test_levels_are_merged_by_clicking_in_the_words_of_the_terminal() -> None:
    key = tried()
    words = regrouped(key, position(key, "1", "2"), "merge")
    assert words == 'merge 1+2 as "1 + 2"'
    again = tried(words)
    assert sorted(again.labels_after) == ["-9", "1 + 2", "3", "a b"]
    words = regrouped(again, position(again, "1 + 2", "a b"), "merge", "work")
    assert words == 'merge 1+2+"a b" as work'
    assert regrouped(tried(words), position(tried(words), "work"), "apart") == "as it is"
    blank = regrouped(tried(words), position(tried(words), "-9"), "missing")
    assert "missing -9" in blank
    assert "merge" in blank
    last = tried(blank)
    assert sorted(last.labels_after) == ["3", "missing", "work"]
    # What is missing stays missing, and is not offered for merging.
    assert "missing -9" in regrouped(last, position(last, "3", "work"), "merge", "all")
    assert [shown for _, shown, _ in last.groups] == ["1 + 2 + a b", "3"]


def test_merged_levels_are_called_by_their_labels_unless_these_are_long() -> None:
    key = tried(level_1="employed", level_2="self-employed")
    assert regrouped(key, position(key, "1", "2"), "merge") == 'merge 1+2 as "employed + self-employed"'
    assert [shown for _, shown, _ in key.groups][1] == "1 employed"
    key = tried(level_1="e" * 40, level_2="s" * 40)
    assert regrouped(key, position(key, "1", "2"), "merge") == 'merge 1+2 as "1+2"'


def test_an_order_that_was_stated_is_kept_when_levels_are_merged() -> None:
    key = tried("unordered")
    assert regrouped(key, position(key, "1", "3"), "merge", "x").endswith("as x, unordered")


@pytest.mark.parametrize(
    ("groups", "act", "name", "message"),
    [
        ([1], "merge", "", "at least two"),
        ([], "apart", "", "Tick a level"),
        ([99], "missing", "", "Tick a level"),
        ([0, 1], "merge", 'a"b', "quotation"),
    ],
)
def test_what_cannot_be_regrouped_is_told(groups: list[int], act: str, name: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        regrouped(tried(), groups, act, name)


def test_bands_by_hand_begin_where_the_recoding_so_far_begins_them() -> None:
    trials = Trials(RunConfig(input="", keys=("age", "sex"), population=20_000), people(1))
    assert trials.of({}).keys[0].shape == "numbers"
    assert trials.of({}).keys[0].edges == ()
    assert trials.of({"age": "edges 15 40"}).keys[0].edges == ("15", "40")
    assert trials.of({"age": "20-year bands, top 60"}).keys[0].edges == ("20", "40", "60")

"""Groups of levels: alike in every column, inside a user's hierarchy, and the same wherever the same words are said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rarecell.data.likeness import LevelProfiles, Likeness
from rarecell.data.microdata import Microdata
from rarecell.errors import BadInput
from rarecell.run.config import RunConfig
from rarecell.run.plan import Trials
from rarecell.table.categories import Categories, Coarsening
from tests.naive.likeness import merged_partitions

KEYS = ["age", "sex", "region", "status"]
LABELS = {
    1: "Employee",
    2: "Self-employed",
    3: "Unemployed",
    4: "Student",
    5: "Retired",
    6: "Disabled",
    7: "At home",
    8: "Family worker",
}


def labour_survey(n: int = 4_000) -> pd.DataFrame:
    """Who works, studies or has retired; the keys hardly tell who has work, but hours, wages and benefits do."""
    rng = np.random.default_rng(3)
    status = rng.choice([-9, 1, 2, 3, 4, 5, 6, 7, 8], n, p=[0.06, 0.4, 0.08, 0.07, 0.09, 0.17, 0.04, 0.06, 0.03])
    age = rng.integers(18, 66, n)
    age = np.where(status == 5, rng.integers(58, 90, n), np.where(status == 4, rng.integers(16, 28, n), age))
    works = np.isin(status, [1, 2, 8])
    return pd.DataFrame(
        {
            "number": np.arange(n),
            "age": np.where(status == -9, rng.integers(0, 16, n), age),
            "sex": rng.integers(1, 3, n),
            "region": rng.choice(["north", "east", "south", "west"], n),
            "status": status,
            "hours": np.where(works, rng.normal(38, 6, n).round(), 0),
            "wage": np.where(works, rng.lognormal(7.5, 0.4, n).round(2), 0.0),
            "benefit": np.where(np.isin(status, [3, 6]), rng.lognormal(6.5, 0.2, n).round(2), 0.0),
            "pension": np.where(np.isin(status, [5]), rng.lognormal(7, 0.2, n).round(2), 0.0),
            "weight": rng.gamma(30, 1.2, n).round(2) + 1,
        }
    )  # fmt: skip


def sets_of(data: Microdata, words: str, key: str = "status") -> set[frozenset[str]]:
    """Which values of a key the table holds as one level, when the key is recoded in these words."""
    read = Microdata(
        data.source, data.keys, weight=data.weight, coding={**data.coding, key: words}, hierarchies=data.hierarchies, id=data.id
    )
    read.table()
    lookup = read.lookup(key)
    values = np.array([str(value) for value in lookup.values.to_pylist()])
    return {frozenset(values[lookup.codes == code].tolist()) for code in np.unique(lookup.codes)}


def test_people_who_work_are_not_put_together_with_those_who_do_not() -> None:
    data = Microdata(labour_survey(), KEYS, weight="weight", id="number")
    assert sets_of(data, "5 groups") == {
        frozenset({"-9"}),
        frozenset({"1", "2", "8"}),
        frozenset({"3", "6"}),
        frozenset({"4", "7"}),
        frozenset({"5"}),
    }
    by_keys = Likeness.of_table(data.table())["status"].groups(5)
    members = [{data.table().categories[3].labels[level] for level in group} for group in by_keys.members()]
    assert {"1", "2", "8"} not in members, "the keys alone would not tell; this test would prove nothing"


@pytest.mark.parametrize("n_groups", [3, 4, 5, 6, 7])
def test_a_code_for_no_answer_stays_alone(n_groups: int) -> None:
    data = Microdata(labour_survey(), KEYS)
    assert frozenset({"-9"}) in sets_of(data, f"{n_groups} groups")


def test_missing_values_and_codes_for_them_stay_apart_from_answers_and_from_each_other() -> None:
    people = labour_survey()
    people["status"] = people["status"].astype("Int64").mask(people.index % 23 == 0)
    data = Microdata(people, KEYS)
    table = data.table()
    for n_groups in (4, 5, 6):
        groups = data.likeness(table)["status"].groups(n_groups)
        sets = [{table.categories[3].labels[level] for level in members} for members in groups.members()]
        assert {"-9"} in sets
        assert {"missing"} in sets
        assert len(sets) == n_groups
    with pytest.raises(BadInput, match="between 4 and 9 groups are possible"):
        data.likeness(table)["status"].groups(3)


def test_the_same_words_give_the_same_groups_whatever_else_is_a_key_or_recoded() -> None:
    people = labour_survey()
    expected = sets_of(Microdata(people, KEYS, weight="weight"), "4 groups")
    for keys, coding in ((["status", "sex"], {}), (KEYS, {"age": "10-year bands"}), ([*KEYS, "hours"], {"hours": "edges 1 30"})):
        assert sets_of(Microdata(people, keys, weight="weight", coding=coding), "4 groups") == expected


def test_terminal_app_and_plan_have_the_same_groups(tmp_path: Path) -> None:
    path = tmp_path / "survey.csv"
    labour_survey().to_csv(path, index=False)
    trials = Trials(RunConfig(input=str(path), keys=tuple(KEYS), weight="weight"))
    for words in ("5 groups", "3 groups", "missing -9, 4 groups"):
        tried = next(key for key in trials.of({"status": words, "age": "5-year bands"}).keys if key.key == "status")
        by_app = {
            frozenset(label for label, group in zip(tried.labels, tried.group_of_level, strict=True) if group == g)
            for g in set(tried.group_of_level)
        }
        by_terminal = sets_of(Microdata(path, KEYS, weight="weight", coding={"age": "5-year bands"}), words)
        assert by_app == by_terminal
    offered = next(key.offered for key in trials.of({}).keys if key.key == "status")
    assert offered == ("4 groups",)


def test_groups_have_the_labels_of_the_file() -> None:
    people = labour_survey()
    data = Microdata(people, KEYS)
    table = data.table()
    profiles = data.likeness(table)["status"]
    labelled = LevelProfiles(
        Categories("status", profiles.categories.levels, False, LABELS), profiles.counts, profiles.answers, profiles.no_answer
    )
    assert labelled.groups(5).labels == (
        "-9", "Employee + Self-employed + Family worker", "Unemployed + Disabled", "Student + At home", "5"
    )  # fmt: skip


def test_a_hierarchy_is_kept_at_every_number_of_groups(tmp_path: Path) -> None:
    work = {"1": "paid", "2": "paid", "8": "paid", "3": "none", "7": "none", "4": "none", "5": "away", "6": "away", "-9": "child"}
    (tmp_path / "h.csv").write_text(
        "".join(f"{level};{group};{'active' if group in ('paid', 'none') else group}\n" for level, group in work.items())
    )
    data = Microdata(labour_survey(), KEYS, hierarchies={"status": tmp_path / "h.csv"})
    larger = {group: frozenset(level for level, of in work.items() if of == group) for group in set(work.values())}
    for n_groups in range(3, 9):
        for found in sets_of(data, f"{n_groups} groups"):
            touched = {group for group, levels in larger.items() if levels & found}
            assert len(touched) == 1 or found == frozenset().union(*(larger[group] for group in touched))
    assert sets_of(data, "4 groups") == set(larger.values())
    assert frozenset({"-9"}) in sets_of(data, "3 groups")


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(4, 9), st.booleans())
def test_mergers_inside_a_tree_are_the_cheapest_allowed(seed: int, n_levels: int, has_two: bool) -> None:
    rng = np.random.default_rng(seed)
    tables = [rng.poisson(rng.gamma(2, 3, (1, k)) * rng.gamma(2, 1, (n_levels, k))).astype(float) + 1 for k in (3, 4)]
    # Every record has an answer in both columns.
    tables[1] = tables[1] / tables[1].sum(axis=1, keepdims=True) * tables[0].sum(axis=1, keepdims=True)
    fine = rng.integers(0, 4, n_levels)
    coarse = rng.integers(0, 2, 4)[fine]
    chain = [groups for groups in ([fine, coarse] if has_two else [fine]) if 1 < len(np.unique(groups)) < n_levels]
    chain = chain[:1] if len(chain) > 1 and len(np.unique(chain[0])) <= len(np.unique(chain[1])) else chain
    own = []
    for groups in chain:
        codes = np.unique(groups, return_inverse=True)[1].astype(np.int32)
        own.append(Coarsening(f"k/{codes.max() + 1}", "k", codes, tuple(f"g{code}" for code in range(codes.max() + 1))))
    profiles = LevelProfiles(
        Categories("k", tuple(f"l{level}" for level in range(n_levels))),
        tables[0].sum(axis=1),
        tuple(tables),
        np.zeros(n_levels, dtype=bool),
        tuple(own),
    )
    expected = merged_partitions(tables, [c.group_of_level.tolist() for c in own])
    for n_groups in range(2, n_levels):
        found = profiles.groups(n_groups)
        assert frozenset(frozenset(members.tolist()) for members in found.members()) == expected[n_levels - n_groups - 1]


def test_levels_of_very_many_records_in_a_file_are_compared_by_their_keys_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(6)
    people = {"region": rng.integers(0, 9, 2_000), "sex": rng.integers(0, 2, 2_000), "x": rng.integers(0, 9, 2_000)}
    pq.write_table(pa.table(people), tmp_path / "people.parquet")
    monkeypatch.setattr("rarecell.data.microdata.CODES_IN_MEMORY", 0)
    monkeypatch.setattr("rarecell.data.microdata.MOST_SORTED", 1_000)
    monkeypatch.setattr(Microdata, "whole_file", lambda *_: pytest.fail("the records are read"))
    data = Microdata(str(tmp_path / "people.parquet"), ["region", "sex"])
    table = data.table()
    assert not table.knows_records
    found, by_keys = data.likeness(table)["region"], Likeness.of_table(table)["region"]
    assert found.counts.tolist() == np.bincount(people["region"]).tolist()
    for one, other in zip(found.answers, by_keys.answers, strict=True):
        np.testing.assert_array_equal(one, other)


def test_neighbours_only_are_merged_where_levels_are_ordered() -> None:
    rng = np.random.default_rng(5)
    people = pa.table({"grade": rng.integers(1, 41, 2_000), "sex": rng.integers(0, 2, 2_000), "x": rng.integers(0, 9, 2_000)})
    data = Microdata(people, ["grade", "sex"], coding={"grade": "6 groups"})
    table = data.table()
    assert table.categories[0].n_levels == 6
    lookup = data.lookup("grade")
    order = np.argsort(lookup.values.to_pylist())
    assert (np.diff(lookup.codes[order]) >= 0).all()

"""Synthetic households: exact tables of every size, plausible members, numbers that start anew."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell.errors import BadInput
from rarecell.run.synthesise import Synthesis
from rarecell.search import select_model
from rarecell.swap.household_twin import FEWEST_HOUSEHOLDS, FamilyBlocks, family_twin

COLUMNS = ["region", "role", "age", "job"]


def families(n: int, seed: int = 0) -> pd.DataFrame:
    """Couples, lone parents and single people with children at least 18 years younger, and one institution."""
    rng = np.random.default_rng(seed)
    rows = []
    for home in range(n):
        region, age = int(rng.integers(3)), int(rng.integers(25, 80))
        rows.append((home, region, "head", age, int(rng.integers(4))))
        if rng.random() < 0.6:
            rows.append((home, region, "spouse", int(np.clip(age + rng.integers(-3, 4), 20, 85)), int(rng.integers(4))))
        for _ in range(int(rng.choice([0, 0, 1, 2, 3, 5], p=[0.3, 0.2, 0.2, 0.2, 0.08, 0.02])) if age < 60 else 0):
            rows.append((home, region, "child", max(0, age - int(rng.integers(22, 35))), 4))
    rows += [(n, 1, "inmate", int(rng.integers(60, 95)), 5) for _ in range(20)]
    frame = pd.DataFrame(rows, columns=["home", *COLUMNS])
    return frame.sample(frac=1, random_state=seed).reset_index(drop=True)


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    return families(700)


@pytest.fixture(scope="module")
def unmeasured(people: pd.DataFrame) -> Synthesis:
    return rc.synthesise(people, columns=COLUMNS, household="home", seed=1, measure=False)


def by_home(frame: pd.DataFrame) -> Counter[tuple[tuple[object, ...], ...]]:
    """How often each household occurs, as the sorted list of its members."""
    return Counter(
        tuple(sorted(map(tuple, members.to_numpy().tolist()), key=str)) for _, members in frame.groupby("home")[COLUMNS]
    )


def test_households_keep_sizes_single_columns_and_what_members_share(people: pd.DataFrame, unmeasured: Synthesis) -> None:
    done, twin = unmeasured, unmeasured.frame()
    assert list(twin.columns) == ["home", *COLUMNS]
    assert len(twin) == len(people)
    for name in COLUMNS:
        assert Counter(twin[name]) == Counter(people[name])
    assert Counter(twin.groupby("home").size()) == Counter(people.groupby("home").size())
    assert (twin.groupby("home").region.nunique() == 1).all()
    assert {table.differing for table in done.summary.tables} == {0}
    # Families are others than those of the original, and there are no more of them than chance gives.
    before, after = by_home(people), by_home(twin)
    alone = [home for home, times in before.items() if times == 1 and len(home) > 2]
    assert sum(home in after for home in alone) < 0.2 * len(alone)


def test_members_stay_plausible(people: pd.DataFrame, unmeasured: Synthesis) -> None:
    done, twin = unmeasured, unmeasured.frame()
    homes = twin[twin.role != "inmate"].groupby("home")
    assert (homes.role.apply(lambda roles: (roles == "head").sum()) == 1).all()
    assert (homes.role.apply(lambda roles: (roles == "spouse").sum()) <= 1).all()
    summary = done.summary.households
    assert summary is not None
    assert summary.households == twin.home.nunique() == people.home.nunique()
    assert summary.one_by_one >= 20
    ages = twin.pivot_table(index="home", columns="role", values="age", aggfunc="max")
    couples = ages.dropna(subset=["head", "spouse"])
    assert np.corrcoef(couples["head"], couples["spouse"])[0, 1] > 0.8
    too_old = int((ages["child"] > ages["head"]).sum())
    assert too_old <= summary.breaking
    assert summary.breaking <= 0.02 * summary.households


def test_a_broken_rule_is_counted(people: pd.DataFrame) -> None:
    data = rc.Microdata(people, keys=COLUMNS, household="home")
    table, household = data.table(records=True), data.household_codes()
    blocks = FamilyBlocks.of(table, household)
    codes = table.cells[table.cell_of_record].copy()
    assert not len(blocks.broken_by(codes, household))
    role, age = COLUMNS.index("role"), COLUMNS.index("age")
    child = people.index[people.role == "child"][0]
    codes[child, age] = table.categories[age].n_levels - 1
    assert blocks.broken_by(codes, household).tolist() == [household[child]]
    head = people.index[people.role == "spouse"][0]
    codes[head, role] = table.categories[role].levels.index("head")
    assert set(blocks.broken_by(codes, household)) == {household[child], household[head]}


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 1000), st.integers(30, 160), st.sampled_from([None, 3.0]))
def test_every_table_of_every_block_is_the_original_one(seed: int, n: int, epsilon: float | None) -> None:
    frame = families(n, seed)
    data = rc.Microdata(frame, keys=COLUMNS, household="home")
    table, household = data.table(records=True), data.household_codes()
    blocks = FamilyBlocks.of(table, household)
    n_small = sum(len(block.at) < FEWEST_HOUSEHOLDS for block in blocks.families)
    assert n_small <= 1 or n < 2 * FEWEST_HOUSEHOLDS
    models = [block.model(lambda rows: select_model(rows, search="greedy", restarts=1).best) for block in blocks.blocks]
    twin = family_twin(blocks, models, epsilon=epsilon, seed=seed)
    assert set(twin.n_changed_cells.values()) <= {0}
    original = table.cells[table.cell_of_record]
    assert sorted(np.bincount(twin.household)[1:]) == sorted(np.unique(household, return_counts=True)[1])
    for k in range(table.n_keys):
        assert sorted(twin.codes[:, k]) == sorted(original[:, k])
        assert (original[twin.sources[:, k], k] == twin.codes[:, k]).all()


def test_what_families_give_away_is_measured_and_a_swap_stands_beside(people: pd.DataFrame) -> None:
    done = rc.synthesise(
        people,
        columns=COLUMNS,
        keys=["region", "role", "age"],
        household="home",
        seed=2,
        analysis={"by role": {"means": "age by role"}},
    )
    families_given_away, swap = done.summary.family_measures, done.summary.swap_measures
    assert families_given_away is not None
    assert families_given_away.people + families_given_away.control == people.home.nunique() - 1
    assert {attack.attack for attack in families_given_away.attacks} == {"singling out", "linkability"}
    assert swap is not None
    assert done.summary.measures is not None
    assert swap.unique_exact_matches < 1.0
    (analysis,) = done.summary.analyses
    # The table of the role is kept, and so is that of the age in each block whose model joins the two.
    assert [term.name for term in analysis.terms] == ["child", "head", "inmate", "spouse"]
    assert all(term.before == pytest.approx(term.after, rel=0.1) for term in analysis.terms)
    assert type(done.summary).from_dict(done.summary.to_dict()) == done.summary


def test_households_are_written_with_their_new_numbers(people: pd.DataFrame, tmp_path: Path) -> None:
    named = people.assign(home=people.home.map("H{:03}".format), flat=1)
    path = tmp_path / "people.csv"
    named.to_csv(path, index=False)
    rc.synthesise(path, columns=COLUMNS, household="home,flat", seed=1, measure=False, amounts="smoothed", out=tmp_path / "out")
    twin = pd.read_csv(tmp_path / "out" / "twin.csv")
    assert set(twin.columns) == {"home", *COLUMNS}
    assert twin.home.tolist() == sorted(twin.home)
    assert "households of 2" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    with pytest.raises(BadInput, match="household and as key"):
        rc.synthesise(path, columns=["home", "age"], household="home", measure=False)

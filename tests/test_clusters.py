"""Enterprises and other groups that are no families: what is the same in every one of them stays the same."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import rarecell as rc
from rarecell.errors import BadInput, UnknownColumns
from rarecell.run.households import FileRules
from rarecell.table.household_rows import Clusters
from rarecell.table.household_rules import ClusterRules

KEYS = ["industry", "size_class", "position", "sex", "age"]


def employees(seed: int = 0, n_enterprises: int = 60) -> pa.Table:
    """Employees of enterprises of 2 to 40: one industry and size class each, one director, who is older than the apprentices."""
    rng = np.random.default_rng(seed)
    size = rng.integers(2, 41, n_enterprises)
    enterprise = np.repeat(np.arange(n_enterprises), size)
    n = len(enterprise)
    is_first = np.diff(enterprise, prepend=-1) > 0
    position = np.where(is_first, "director", rng.choice(["clerk", "worker", "apprentice"], n, p=[0.3, 0.5, 0.2]))
    age = np.where(position == "director", rng.integers(40, 66, n), rng.integers(22, 66, n))
    age = np.where(position == "apprentice", rng.integers(16, 22, n), age)
    return pa.table(
        {
            "enterprise": 1_000 + enterprise,
            "industry": rng.choice([*"ABCDEF"], n_enterprises)[enterprise],
            "size_class": np.where(size < 10, "small", np.where(size < 25, "medium", "large"))[enterprise],
            "position": position,
            "sex": rng.choice(["f", "m"], n),
            "age": age,
        }
    )


def contradictions(frame: pa.Table) -> tuple[int, int]:
    """Enterprises with two industries or size classes, and those with two directors or an apprentice older than the director."""
    of = {}
    for row in frame.to_pylist():
        of.setdefault(row["enterprise"], []).append(row)
    several = sum(len({(one["industry"], one["size_class"]) for one in rows}) > 1 for rows in of.values())
    wrong = 0
    for rows in of.values():
        directors = [one["age"] for one in rows if one["position"] == "director"]
        apprentices = [one["age"] for one in rows if one["position"] == "apprentice"]
        wrong += len(directors) > 1 or bool(directors and apprentices and min(directors) <= max(apprentices))
    return several, wrong


def test_the_file_has_no_contradiction_and_its_rules_are_found() -> None:
    frame = employees()
    assert contradictions(frame) == (0, 0)
    codes, keys = rc.Microdata(frame, keys=KEYS).column_codes(KEYS)
    rules = ClusterRules.of(codes, keys, Clusters.numbered(frame["enterprise"].to_numpy()), "enterprise")
    assert [keys[k].key for k in rules.shared] == ["industry", "size_class"]
    assert [(keys[rule.key].key, keys[rule.key].levels[rule.level]) for rule in rules.once] == [("position", "director")]
    assert any(
        (keys[older.key].levels[older.above], keys[older.key].levels[older.below]) == ("director", "apprentice")
        for older in rules.older
    )
    assert not rules.broken_records(codes).any()
    changed = codes.copy()
    changed[5, 0] = (changed[5, 0] + 1) % 6
    there = frame["enterprise"].to_numpy() == frame["enterprise"].to_numpy()[5]
    assert np.array_equal(rules.broken_records(changed), there)


@pytest.mark.parametrize(
    "how", [{"cluster": ["enterprise"]}, {"household": "enterprise", "households_known": "no"}], ids=["cluster", "household"]
)
def test_enterprises_stay_in_one_industry(how: dict[str, object]) -> None:
    frame = employees()
    done = rc.protect(frame, keys=KEYS, population=20_000, risk_above=0.05, seed=1, **how)
    released = pa.table(done.frame)
    assert contradictions(released) == (0, 0)
    changed = [key for key in KEYS if released[key] != frame[key]]
    assert changed
    assert not {"industry", "size_class"} & set(changed)
    columns = how.get("cluster", [])
    assert isinstance(columns, list)
    codes, _ = rc.Microdata(released, keys=KEYS).column_codes(KEYS)
    assert not FileRules.of(done.assessment, columns).broken_records(codes).any()


def test_an_enterprise_that_nobody_declared_stops_the_release() -> None:
    with pytest.raises(BadInput, match="enterprise"):
        rc.protect(employees(), keys=KEYS, population=20_000, risk_above=0.05, seed=1)


def test_a_column_that_puts_people_into_crowds_is_taken_for_a_cluster() -> None:
    with pytest.raises(BadInput, match="cluster='enterprise'"):
        rc.assess(employees(), keys=KEYS, population=20_000, household="enterprise")


def test_institutions_keep_what_their_members_share() -> None:
    rng = np.random.default_rng(3)
    sizes = np.concatenate([rng.integers(1, 6, 250), np.full(6, 30)])
    home = np.repeat(np.arange(len(sizes)), sizes)
    n = len(home)
    frame = pa.table(
        {
            "home": home,
            "region": rng.integers(0, 8, len(sizes))[home],
            "role": np.where(np.diff(home, prepend=-1) > 0, "head", rng.choice(["spouse", "child"], n)),
            "age": rng.integers(0, 90, n),
        }
    )
    done = rc.protect(frame, keys=["region", "role", "age"], population=10_000, household="home", risk_above=0.1, seed=2)
    released = pa.table(done.frame)
    for number in np.unique(home):
        assert len(set(released["region"].to_numpy()[home == number].tolist())) == 1
    assert released["age"] != frame["age"] or released["region"] != frame["region"]


def test_a_cluster_column_must_exist() -> None:
    with pytest.raises(UnknownColumns, match="firm"):
        rc.protect(employees(), keys=KEYS, population=20_000, risk_above=0.05, cluster=["firm"])

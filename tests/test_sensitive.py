"""Sensitive values exchanged within separators: what stays, what is reached, and what is guessed right all the same.

The measures are written down again as ARX defines them (Prasser and Kohlmayer 2015): distinct and entropy l-diversity, t-closeness with
the equal distance and with the ordered distance, over the classes of records that share their key values.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell.risk.attributes import AttributeLimits, Groups, attribute_risk, groups_within, right_in_truth
from rarecell.swap.sensitive import exchange_values

SOME = settings(max_examples=60, deadline=None)


def arx_distinct_l(values: list[int]) -> int:
    return len(set(values))


def arx_equal_distance(values: list[int], everyone: list[int]) -> float:
    levels = sorted(set(everyone))
    return sum(abs(values.count(level) / len(values) - everyone.count(level) / len(everyone)) for level in levels) / 2


def arx_ordered_distance(values: list[int], everyone: list[int]) -> float:
    levels = sorted(set(everyone))
    total, earth = 0.0, 0.0
    for level in levels:
        earth += values.count(level) / len(values) - everyone.count(level) / len(everyone)
        total += abs(earth)
    return total / (len(levels) - 1) if len(levels) > 1 else 0.0


def by_group(group: np.ndarray, value: np.ndarray) -> dict[int, list[int]]:
    found = defaultdict(list)
    for g, v in zip(group.tolist(), value.tolist(), strict=True):
        found[g].append(v)
    return found


def file_of(
    seed: int, n: int, n_groups: int, n_values: int, is_ordered: bool
) -> tuple[Groups, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    keys = (rc.Categories("town", tuple(range(n_groups))),)
    town = rng.integers(0, n_groups, n)
    value = np.minimum(rng.integers(0, n_values, n), town % n_values + rng.integers(0, 2, n)).astype(np.int64)
    # Levels are those that occur.
    value = np.unique(value, return_inverse=True)[1].astype(np.int64)
    sensitive = rc.Categories("ill", tuple(range(int(value.max()) + 1)), is_ordered)
    groups, group = Groups.of_records(keys, town[:, None].astype(np.int32), sensitive, value)
    return groups, group, value, rng.integers(0, 2, n).astype(np.int64)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(6, 80),
    st.integers(2, 9),
    st.integers(2, 5),
    st.booleans(),
    st.one_of(st.none(), st.integers(2, 4)),
    st.one_of(st.none(), st.floats(0.05, 0.6)),
)
@SOME
def test_exchanges_keep_tables_and_only_ever_help(
    seed: int, n: int, n_groups: int, n_values: int, is_ordered: bool, l_diversity: int | None, t_closeness: float | None
) -> None:
    groups, group, value, stratum = file_of(seed, n, n_groups, n_values, is_ordered)
    stays = np.random.default_rng(seed).random(n) < 0.2
    limits = AttributeLimits(l_diversity, t_closeness)
    receivers, sources = exchange_values(groups, group, value, stratum, limits, may_move=~stays, seed=seed)
    now = value.copy()
    now[receivers] = value[sources]
    assert not stays[receivers].any()
    assert sorted(receivers.tolist()) == sorted(sources.tolist())
    assert len(set(receivers.tolist())) == len(receivers)
    assert (stratum[receivers] == stratum[sources]).all()
    assert Counter(zip(stratum.tolist(), now.tolist(), strict=True)) == Counter(
        zip(stratum.tolist(), value.tolist(), strict=True)
    )
    everyone = value.tolist()
    distance = arx_ordered_distance if is_ordered else arx_equal_distance

    def beyond(values: list[int]) -> bool:
        few = l_diversity is not None and arx_distinct_l(values) < l_diversity
        return few or (t_closeness is not None and distance(values, everyone) > t_closeness + 1e-9)

    before, after = by_group(group, value), by_group(group, now)
    assert all(beyond(before[g]) for g in before if beyond(after[g]))
    # A value is exchanged only for a group that is then within the limits.
    helped = [g for g in before if beyond(before[g]) and not beyond(after[g])]
    assert bool(len(receivers)) == bool(helped)
    changed = {int(g) for g in group[receivers]}
    assert all(g in changed for g in helped)


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(1, 6), st.integers(2, 30))
@SOME
def test_guesses_in_truth_beside_plain_counting(seed: int, n: int, n_groups: int, n_values: int) -> None:
    groups, group, value, _ = file_of(seed, n, n_groups, n_values, True)
    rng = np.random.default_rng(seed)
    true, asked = rng.permutation(value), np.where(rng.random(n) < 0.2, -1, rng.permutation(group))
    band = groups.band_of_value
    expected = []
    for g, v in zip(asked.tolist(), true.tolist(), strict=True):
        if g < 0:
            expected.append(0.0)
            continue
        counts = Counter(band[by_group(group, value)[g]].tolist())
        modes = [level for level, number in counts.items() if number == max(counts.values())]
        expected.append((band[v] in modes) / len(modes))
    assert right_in_truth(groups, asked, true).tolist() == pytest.approx(expected)


def test_a_group_is_not_said_to_hide_what_everybody_guesses() -> None:
    """Ten people with one value, two of whom show another one: the guess is right for all ten, and the limit knows."""
    keys, ill = (rc.Categories("town", ("a", "b")),), rc.Categories("ill", ("no", "yes", "perhaps"))
    town = np.repeat([0, 1], [10, 30])
    true = np.array([1] * 10 + [0] * 15 + [2] * 15)
    shown = true.copy()
    shown[[0, 1, 10, 11]] = true[[10, 11, 0, 1]]
    groups, group = Groups.of_records(keys, town[:, None].astype(np.int32), ill, shown)
    right = np.bincount(group, weights=right_in_truth(groups, group, true))
    assert attribute_risk(groups).right.tolist() == [8, 15]
    assert right[0] == 10.0
    limits = AttributeLimits(max_guess_gain=0.6)
    assert groups_within(groups, limits).all()
    assert groups_within(groups, AttributeLimits(max_guess_gain=0.21)).tolist() == [True, True]
    assert not groups_within(groups, AttributeLimits(max_guess_gain=0.21), right=right).all()


def people(n: int = 900) -> pa.Table:
    rng = np.random.default_rng(5)
    region, sex, age = rng.integers(0, 3, n), rng.integers(0, 2, n), rng.integers(0, 25, n)
    illness = (region + (rng.random(n) < 0.25) * rng.integers(0, 4, n)) % 4
    columns = {"region": region, "sex": sex, "age": age + 20, "illness": np.array(list("abcd"))[illness]}
    return pa.table({name: pa.array(values) for name, values in columns.items()})


@pytest.mark.parametrize("limits", [{"l_diversity": 3}, {"t_closeness": 0.5}])
def test_what_is_written_is_what_is_said(limits: dict[str, float], tmp_path: Path) -> None:
    path, keys = tmp_path / "people.csv", ["region", "sex", "age"]
    pa_csv.write_csv(people(), path)
    done = rc.protect(
        str(path),
        keys=keys,
        population=20_000,
        top=3,
        sensitive=["illness"],
        model="single",
        seed=1,
        out=tmp_path / "out",
        **limits,
    )
    target = done.summary.swap.attribute_targets[0]
    assert target.met
    assert target.exchanged > 0
    rows = pa_csv.read_csv(tmp_path / "out" / "protected.csv").to_pylist()
    original = people().to_pylist()
    shown = [row["illness"] or None for row in rows]
    assert sum(value is None for value in shown) == target.blanked
    groups = defaultdict(list)
    for row, value in zip(rows, shown, strict=True):
        groups[tuple(row[key] for key in keys)].append(value)
    released = [value for value in shown if value is not None]
    for values in groups.values():
        assert all(value is None for value in values) or None not in values
        if None not in values:
            assert len(set(values)) >= limits.get("l_diversity", 0)
            assert arx_equal_distance(values, released) <= limits.get("t_closeness", 1.0) + 1e-9
    # Before anything was blanked, the column's tables with the keys on which partners agree were as they are after swaps of keys alone.
    moved = {int(row) for row in done.release.exchanged["illness"][0]}
    receivers, sources = done.release.exchanged["illness"]
    now = [row["illness"] for row in original]
    for receiver, source in zip(receivers.tolist(), sources.tolist(), strict=True):
        now[receiver] = original[source]["illness"]
    agree = [tuple(row[key] for key in target.agree) for row in rows]
    assert Counter(zip(agree, now, strict=True)) == Counter(
        (place, row["illness"]) for place, row in zip(agree, original, strict=True)
    )
    assert [now[row] for row in range(len(rows)) if shown[row] is not None] == released
    assert target.exchanged == sum(now[row] != original[row]["illness"] for row in moved)
    # Without exchanges more values would have been blanked.
    alone = rc.protect(
        str(path),
        keys=keys,
        population=20_000,
        top=3,
        sensitive=["illness"],
        model="single",
        seed=1,
        untouched=[{"sex": "0"}, {"sex": "1"}],
        **limits,
    ).summary.swap.attribute_targets[0]
    assert alone.exchanged == 0
    assert alone.blanked > target.blanked


# Recodings towards limits on groups, by a plan.


@pytest.mark.parametrize(
    "limits", [{"k": 3}, {"l_diversity": 3}, {"t_closeness": 0.5}, {"max_guess_gain": 0.1}, {"k": 2, "max_correct_links": 2}]
)
def test_a_plan_towards_limits_on_groups_is_what_its_commands_do(limits: dict[str, float]) -> None:
    asked = {"keys": ["region", "sex", "age"], "population": 20_000, "sensitive": ["illness"], "model": "single", "seed": 1}
    found = rc.plan(people(), **limits, **asked)
    assert found.points[0].recoding == {}
    assert len(found.points) > 1 or "k" not in limits
    lost, changed = zip(*((point.information_lost, point.n_changed) for point in found.points), strict=True)
    assert list(lost) == sorted(lost)
    assert list(changed) == sorted(changed, reverse=True)
    for point in found.points:
        assert point.is_met
        done = rc.protect(people(), recode=point.recoding, **limits, **asked)
        swap = done.summary.swap
        blanked = sum(row.blanked for row in swap.attribute_targets)
        blanked += 0 if swap.suppression is None else sum(swap.suppression.by_key.values())
        assert point.values_blanked == blanked
        assert point.values_exchanged == sum(row.exchanged for row in swap.attribute_targets)
        assert point.records_changed == len(done.release.rows)
        assert not any(reason.is_requested for reason in done.summary.release.profile.refusals)
        shown = Counter(tuple(row[key] for key in asked["keys"]) for row in done.frame.to_pylist())
        assert min(shown.values()) >= limits.get("k", 1)


def test_the_command_of_a_plan_towards_k_is_taken_back(tmp_path: Path) -> None:
    import shlex

    from click.testing import CliRunner

    from rarecell.cli.commands import main

    path = tmp_path / "people.csv"
    pa_csv.write_csv(people(), path)
    words = ["plan", str(path), "--keys", "region,sex,age", "--population", "20000", "--model", "single", "--k", "3", "--quiet"]
    printed = CliRunner().invoke(main, words)
    assert printed.exit_code == 0, printed.output
    assert "at least 3 records with the same key values" in " ".join(printed.output.split())
    command = next(line for line in printed.output.splitlines() if line.strip().startswith("rarecell protect"))
    assert "--k 3" in command
    out = str(tmp_path / "release")
    done = CliRunner().invoke(main, [*shlex.split(command)[1:-1], out, "--quiet"])
    assert done.exit_code == 0, done.output
    missing = CliRunner().invoke(main, [*words[:-3], "--quiet"])
    assert missing.exit_code == 1
    assert "No target was given" in missing.output
    lacking = CliRunner().invoke(main, [*words[:-3], "--l-diversity", "3", "--quiet"])
    assert lacking.exit_code == 1
    assert "--sensitive" in lacking.output

"""Swaps between households: rules and tables stay, links go, and what an intruder finds is what brute force finds."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import rarecell as rc
from rarecell import datasets
from rarecell.cli.commands import main
from rarecell.errors import BadInput
from rarecell.intruder.household import guessed_pairs, household_distances, household_links, household_release
from rarecell.intruder.informed import differing
from rarecell.intruder.nearest import moved_chances
from rarecell.intruder.register import Register
from rarecell.intruder.shadow import Moves, _hashed_places, suspects_of
from rarecell.outcome.decision import decided
from rarecell.outcome.profile import Profile
from rarecell.outcome.summary import RunSummary
from rarecell.planning.planner import ReleaseTarget
from rarecell.release.release import Release
from rarecell.report.edition import external
from rarecell.run.config import ProtectConfig, RunConfig
from rarecell.run.households import FileRules, HouseholdTrials, consistent_pairs, links_after, put_together, reporting_register
from rarecell.run.plan import _worth_releasing, command_for
from rarecell.swap.apply import compare_margins
from rarecell.swap.families import MORE_LINKED, FamilyPlan
from rarecell.swap.plan import plan_task
from rarecell.table.distance import OUTWEIGHS_ALL
from rarecell.table.household_rows import SIZE, find_layout
from rarecell.table.household_rules import HouseholdRules
from tests.naive import families as naive
from tests.naive import intruder
from tests.test_families import CATEGORIES, drawn_homes, frame_of

KEYS = ["relation", "age", "sex", "region"]


def families_of(seed: int, n_homes: int) -> pa.Table:
    """Households of a head, perhaps a spouse and children, in one of three regions; children are much younger than parents."""
    codes, home = drawn_homes(seed, n_homes, most=4)
    rng = np.random.default_rng(seed + 1)
    spread = rng.integers(0, 8, len(codes))
    codes[:, 1] = np.where(codes[:, 0] == 0, spread, 26 + spread)
    region = np.array(["north", "south", "west"])[rng.integers(0, 3, n_homes)][home]
    return frame_of(codes, home).append_column("region", pa.array(region)).append_column("pay", pa.array(rng.random(len(codes))))


@pytest.fixture(scope="module")
def population() -> pa.Table:
    return families_of(21, 4000)


@pytest.fixture(scope="module")
def sample(population: pa.Table) -> pa.Table:
    home = population["home"].to_numpy()
    return population.filter(pa.array(np.isin(home, np.random.default_rng(2).choice(4000, 600, replace=False))))


@pytest.fixture(scope="module")
def done(population: pa.Table, sample: pa.Table) -> rc.run.results.Protection:
    return rc.protect(
        sample, keys=KEYS, population=len(population), household="home", register=population, risk_above=0.2, seed=3
    )


def test_households_exchange_values_and_keep_their_rules(sample: pa.Table, done: rc.run.results.Protection) -> None:
    plan, frame = done.plan, done.frame
    assert isinstance(plan, FamilyPlan)
    assert len(plan) > 50
    assert frame["home"].equals(sample["home"])
    assert frame["pay"].equals(sample["pay"])
    home = np.array(frame["home"])
    for code in np.unique(home):
        rows = np.flatnonzero(home == code)
        assert len(set(frame["region"].take(rows).to_pylist())) == 1
        relation, age = frame["relation"].take(rows).to_pylist(), frame["age"].take(rows).to_pylist()
        assert relation.count("head") == 1
        assert relation.count("spouse") <= 1
        parents = [a for r, a in zip(relation, age, strict=True) if r != "child"]
        assert all(min(parents) > a for r, a in zip(relation, age, strict=True) if r == "child")
    rules = HouseholdRules.of(done.assessment.families.rows, done.assessment.data.column_codes(KEYS)[0])
    assert {(rules.keys[r.key].key, rules.keys[r.key].labels[r.level]) for r in rules.members.once} == {
        ("relation", "head"),
        ("relation", "spouse"),
    }
    assert rules.members.older
    assert [rules.keys[k].key for k in rules.shared] == ["region"]


def test_tables_of_persons_stay_exact(sample: pa.Table, done: rc.run.results.Protection) -> None:
    assert done.summary.swap.margins_identical
    assert done.result.margins_identical
    for clique in done.assessment.model.cliques:
        names = sorted({name.partition("/")[0] for name in clique if "/" not in name})
        if names:
            before, after = (sorted(frame.select(names).to_pylist(), key=str) for frame in (sample, done.frame))
            assert before == after


def test_members_beyond_the_last_place_stay_in_tables_with_what_their_household_shares() -> None:
    """A row has places for most members. Who has none moves with what all share, such as the town, and nothing else of them does."""
    rng = np.random.default_rng(5)
    size = rng.choice([1, 2, 3, 4, 5, 6, 7], 300, p=[0.2, 0.3, 0.2, 0.14, 0.08, 0.05, 0.03])
    home = np.repeat(np.arange(300), size)
    town = rng.integers(0, 6, 300)[home]
    origin = np.where(rng.random(len(home)) < 0.7, town, rng.integers(0, 6, len(home)))
    people = pa.table(
        {
            "town": [f"town {code}" for code in town],
            "origin": [f"origin {code}" for code in origin],
            "age": rng.integers(0, 80, len(home)),
            "home": home,
        }
    )
    keys = ["town", "origin", "age"]
    done = rc.protect(people, keys=keys, population=10 * len(people), household="home", risk_above=0.2, seed=2)
    families, plan = done.assessment.families, done.plan
    assert families is not None
    assert isinstance(plan, FamilyPlan)
    assert families.rows.layout.n_places < size.max()
    assert any({"town", "origin"} <= {name.partition("/")[0] for name in clique} for clique in done.assessment.model.cliques)
    of_homes = plan.of_households
    assert plan.release.moves("town").any()
    assert done.summary.swap.margins_identical  # type: ignore[union-attr]
    beyond = families.rows.members.size > families.rows.layout.n_places
    town_moves = of_homes.moved & np.uint64(1 << of_homes.table.keys.index("town")) != 0
    assert not (town_moves & (beyond[of_homes.records] | beyond[of_homes.partners])).any()


def test_households_are_swapped_in_rings_that_keep_every_table(done: rc.run.results.Protection) -> None:
    plan = done.plan
    of_households = plan.of_households
    sizes = Counter(of_households.ring.tolist())
    assert sum(n for n in sizes.values() if n > 1) > 0.1 * len(of_households)
    assert all(check.is_identical for check in compare_margins(of_households))
    rows, members = done.assessment.families.rows, done.assessment.families.rows.members
    giver = dict(zip(of_households.rows.tolist(), of_households.sources.tolist(), strict=True))
    assert sorted(giver) == sorted(giver.values())
    for home, ring in zip(of_households.rows.tolist(), np.tile(of_households.ring, 2).tolist(), strict=True):
        way = [home]
        while giver[way[-1]] != home:
            way.append(giver[way[-1]])
        assert len(way) == 2 * sizes[ring]
    # Members receive from whoever is at the same place in the giving household, and what the rows say.
    in_families = np.isin(plan.rows, members.at[of_households.rows])
    assert in_families.sum() >= len(of_households.rows)
    codes, _ = done.assessment.data.column_codes(KEYS)
    changed = plan.release.true != plan.release.released
    for at in np.flatnonzero(in_families).tolist():
        row, source = int(plan.rows[at]), int(plan.sources[at])
        assert members.place[row] == members.place[source]
        # A member of the giving household who receives nothing new passes on what the next one gives.
        home = members.of_record[row]
        while (home := giver[int(home)]) != members.of_record[source]:
            passing = members.at[home, members.place[row]]
            assert passing not in plan.rows
            assert (codes[passing, changed[at]] == codes[source, changed[at]]).all()
    after = np.array(codes)
    after[plan.rows] = plan.release.released
    placed = rows.layout.placed(after, members)
    alone = np.setdiff1d(members.of_record[plan.rows[~in_families]], of_households.rows)
    same = np.isin(of_households.rows, members.of_record[plan.rows[~in_families]], invert=True)
    assert (placed[of_households.rows[same]] == of_households.release.released[same]).all()
    still = np.setdiff1d(np.arange(members.n_households), np.concatenate([of_households.rows, alone]))
    assert (placed[still] == rows.codes[still]).all()


def test_the_list_of_swaps_has_every_member_with_its_giver(sample: pa.Table, done: rc.run.results.Protection) -> None:
    audit = done.plan.audit()
    original, released = sample.to_pylist(), done.frame.to_pylist()
    different = [row for row, (old, new) in enumerate(zip(original, released, strict=True)) if old != new]
    assert sorted(audit["record"]) == different
    for record, source, names in zip(audit["record"], audit["partner"], audit["variables"], strict=True):
        changed = [key for key in KEYS if original[record][key] != released[record][key]]
        assert sorted(names.split(",")) == sorted(changed)
        assert all(released[record][key] == original[source][key] for key in changed)


def test_a_ring_leaves_no_more_links_than_its_pairs(done: rc.run.results.Protection) -> None:
    families = done.assessment.families
    codes, _ = done.assessment.data.column_codes(KEYS)
    register = reporting_register(families, done.assessment)
    left = []
    for plan in (done.plan, replace(done.plan, givers=None)):
        after = np.array(codes)
        after[plan.rows] = plan.release.released
        left.append(household_links(families.rows, household_release(families.rows, after), register).after.of_moved)
    n_rings = len(set(done.plan.of_households.ring.tolist()))
    assert left[0] <= left[1] + MORE_LINKED * n_rings


def test_links_of_households_fall(done: rc.run.results.Protection) -> None:
    told = done.summary.swap.intruder("household")
    assert told is not None
    assert told.before > 20
    assert told.swapped <= 0.15 * told.before
    assert told.persons_after <= told.persons_before
    assert "families" in done.summary.swap.verdict


@pytest.mark.parametrize("way", [0, 3])
def test_links_are_those_of_brute_force(sample: pa.Table, done: rc.run.results.Protection, way: int) -> None:
    families = done.assessment.families
    codes, _ = done.assessment.data.column_codes(KEYS)
    after = np.array(codes)
    after[done.plan.rows] = done.plan.release.released
    release = household_release(families.rows, after)
    register = reporting_register(families, done.assessment)
    seen = register.seen(release)
    distances = household_distances(seen.before.categories)[way]
    near = distances.arrays(seen.before)
    [found] = moved_chances(seen.moved, register, [near], seen.moved_alone)
    people = register.known.table
    everybody = np.repeat(people.cells, people.counts, axis=0).tolist()
    scale = [
        0.0 if distances.kinds.get(c.key) == "nominal" or not c.is_ordered else distances.weights[c.key] / (c.n_levels - 1)
        for c in people.categories
    ]
    size = list(people.keys).index(SIZE)
    scale[size] = OUTWEIGHS_ALL
    for k in range(0, len(seen.rows), 7):
        expected = naive.nearest_household(seen.released[k].tolist(), seen.true[k].tolist(), everybody, size, scale)
        assert found.link[k] == pytest.approx(expected)


def test_the_worst_way_of_comparing_is_reported(done: rc.run.results.Protection) -> None:
    families = done.assessment.families
    codes, _ = done.assessment.data.column_codes(KEYS)
    after = np.array(codes)
    after[done.plan.rows] = done.plan.release.released
    release, register = household_release(families.rows, after), reporting_register(families, done.assessment)
    links = household_links(families.rows, release, register)
    seen = register.seen(release)
    for distances in household_distances(seen.before.categories):
        [one] = moved_chances(seen.moved, register, [distances.arrays(seen.before)], seen.moved_alone)
        assert links.after.of_moved >= one.link[seen.moved_alone].sum() - 1e-9


def test_without_a_register_the_model_says_about_as_much(
    population: pa.Table, sample: pa.Table, done: rc.run.results.Protection
) -> None:
    told = done.summary.swap.intruder("household")
    assert told.estimated_before == pytest.approx(told.before, rel=0.25)
    # The plan was made against this register, so other populations find more.
    assert 0.85 * told.after <= told.estimated_after <= 1.8 * told.after


def test_reordered_rows_hold_the_same_members() -> None:
    codes, home = drawn_homes(4, 80)
    layout = find_layout(codes, CATEGORIES, home)
    rows = layout.rows(codes, home)
    for order in layout.orders():
        mixed = layout.reordered(rows.codes, order)
        n_others = sum(column.place < 0 for column in layout.columns)
        blocks = mixed[:, n_others:].reshape(len(mixed), layout.n_places, -1)
        # Members who are there come first, and each household has as many as before.
        taken = (blocks > 0).any(axis=2)
        assert (taken.sum(axis=1) == np.minimum(rows.members.size, layout.n_places)).all()
        assert (np.diff(taken.astype(int), axis=1) <= 0).all()


def test_a_register_of_the_file_itself_links_every_unmoved_unique_household() -> None:
    codes, home = drawn_homes(9, 120)
    layout = find_layout(codes, CATEGORIES, home)
    rows = layout.rows(codes, home)
    links = household_links(rows, household_release(rows, codes), Register.counted(rows.table))
    assert links.after.total == links.before.total == (rows.table.counts == 1).sum()


def test_persons_who_change_places_alone_stop_the_release(sample: pa.Table, population: pa.Table, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="households="):
        rc.protect(
            sample,
            keys=KEYS,
            population=len(population),
            household="home",
            geography="region",
            swap_rate=0.2,
            out=tmp_path / "run",
        )
    assert not (tmp_path / "run").exists() or not list((tmp_path / "run").glob("protected.*"))


def test_swaps_of_single_persons_break_no_rule(sample: pa.Table, population: pa.Table) -> None:
    plain = rc.protect(sample, keys=KEYS, population=len(population), household="home", households_known="no", top=150, seed=1)
    assert not isinstance(plain.plan, FamilyPlan)
    families = plain.assessment.families
    codes, _ = plain.assessment.data.column_codes(KEYS)
    after = np.array(codes)
    after[plain.plan.rows] = plain.plan.release.released
    assert not HouseholdRules.of(families.rows, codes).any_broken(families.rows, after).any()


def test_a_target_counts_households(sample: pa.Table, population: pa.Table) -> None:
    reached = rc.protect(
        sample,
        keys=KEYS,
        population=len(population),
        household="home",
        max_correct_links=40.0,
        seed=1,
        search="greedy",
        restarts=1,
    ).summary.swap
    assert reached.target is not None
    assert "household" in reached.target.sentence
    assert reached.intruder("household").after < reached.intruder("household").before
    # A target is met if it holds in the numbers that are reported, of persons and of households.
    links = max(reached.intruder("household").after, reached.risk_after.expected_correct_matches)
    assert reached.target.met == (links <= 40.0)


def test_what_stays_at_risk_counts_families(done: rc.run.results.Protection) -> None:
    swap, families = done.summary.swap, done.assessment.known_families
    assert families is not None
    links = links_after(done.assessment, families, done.plan.release)
    of_records = families.rows.members.spread(links.risk_after())
    assert swap.released.records_above_threshold >= (of_records >= 0.2).sum()
    assert sum(one.records for one in swap.remaining) == swap.released.records_above_threshold
    assert len(done.remaining) == swap.released.records_above_threshold
    for key in ("region", "sex"):
        groups = [group for group in done.summary.groups if group.key == key]
        before, after = (sum(getattr(group, name) for group in groups) for name in ("expected", "expected_after"))
        assert before == pytest.approx(done.summary.risk.families.expected_records)
        assert after < 0.5 * before


def test_scenarios_are_protected_by_swaps_between_households(sample: pa.Table, population: pa.Table) -> None:
    intruders = {"ages": ["age", "sex"], "place": ["relation", "age", "region"]}
    done = rc.protect(sample, keys=KEYS, population=len(population), household="home", scenario=intruders, risk_above=0.3, seed=2)
    assert isinstance(done.plan, FamilyPlan)
    for before, after in zip(done.summary.risk.scenarios, done.summary.swap.scenarios, strict=True):
        assert before.expected_recognised > before.expected_population_uniques
        assert after.expected_recognised < before.expected_recognised


def test_the_command_writes_what_families_gain(sample: pa.Table, population: pa.Table, tmp_path: Path) -> None:
    pq.write_table(sample, tmp_path / "homes.parquet")
    out = rc.protect(
        tmp_path / "homes.parquet", keys=KEYS, population=len(population), household="home", top=40, out=tmp_path / "run"
    )
    written = pq.read_table(tmp_path / "run" / "protected.parquet")
    assert written.select(KEYS).to_pylist() == out.frame.select(KEYS).to_pylist()
    assert "household" in (tmp_path / "run" / "report.html").read_text()


# ---------------------------------------------------------------------- unlinked


def test_a_column_that_members_share_puts_households_together() -> None:
    home = np.repeat(np.arange(40), 3)
    rng = np.random.default_rng(0)
    region, weight = (home % 4).astype(np.int32), home.astype(np.int32)
    own = rng.integers(0, 50, 120).astype(np.int32)
    columns = {"region": region, "weight": weight, "pay": own}
    found = put_together(columns, frozenset({"region"}), home)
    assert found.columns == ("weight",)
    assert (found.households, found.persons, found.of, found.by_keys) == (40, 120, 40, 0)
    assert put_together({"region": region, "pay": own}, frozenset({"region"}), home).households == 0
    # Two households that share their weight cannot be told apart.
    assert put_together({"weight": (home // 2).astype(np.int32)}, frozenset(), home).households == 0


def test_an_unlinked_release_has_no_household_number_and_judges_persons(
    sample: pa.Table, population: pa.Table, tmp_path: Path
) -> None:
    pq.write_table(sample, tmp_path / "homes.parquet")
    options = {"keys": KEYS, "population": len(population), "household": "home", "top": 30, "unlink": True}
    done = rc.protect(tmp_path / "homes.parquet", out=tmp_path / "run", **options)
    assert "home" not in pq.read_schema(tmp_path / "run" / "protected.parquet").names
    assert not isinstance(done.plan, FamilyPlan)
    assert done.summary.risk.known_families is None
    assert any("put together again" in note for note in done.summary.notes)
    telling = sample.append_column("weight", pa.array(np.array(sample["home"]) + 0.5))
    with pytest.raises(BadInput, match="weight"):
        rc.protect(telling, **options)
    accepted = rc.protect(telling, accept_leak=["weight"], **options)
    assert any("can still be put together" in note for note in accepted.summary.notes)


def test_an_attack_looks_for_families(sample: pa.Table, population: pa.Table, done: rc.run.results.Protection) -> None:
    tried = rc.attack(done.frame, original=sample, keys=KEYS, register=population, household="home")
    told = next(one for one in tried.summary.intruders if one.name == "household")
    expected = done.summary.swap.intruder("household")
    assert told.before == pytest.approx(expected.before)
    assert told.after == pytest.approx(expected.after, rel=0.2)
    plain = rc.attack(done.frame, original=sample, keys=KEYS, register=population)
    assert all(one.name != "household" for one in plain.summary.intruders)
    modelled = rc.attack(done.frame, original=sample, keys=KEYS, population=len(population), household="home")
    assert next(one for one in modelled.summary.intruders if one.name == "household").before > 20
    for each in (tried, modelled):
        nearest, shadow = (
            next(one for one in each.summary.intruders if one.name == name) for name in ("household", "household-shadow")
        )
        assert shadow.before == nearest.before
        assert shadow.after >= nearest.after
        assert shadow.sure
        assert next(trial for trial in each.trials if trial.name == "household-shadow").after.total == shadow.after


# ---------------------------------------------------------------------- somebody who has the program as well


def rows_released(done: rc.run.results.Protection) -> Release:
    codes, _ = done.assessment.data.column_codes(done.assessment.data.keys)
    after = np.array(codes)
    after[done.plan.rows] = done.plan.release.released
    return household_release(done.assessment.families.rows, after)


def test_what_somebody_with_the_program_finds_stands_beside(done: rc.run.results.Protection) -> None:
    nearest, shadow = (done.summary.swap.intruder(name) for name in ("household", "household-shadow"))
    assert shadow.before == nearest.before
    assert shadow.persons_before == nearest.persons_before
    assert nearest.after < shadow.after <= shadow.persons_after
    assert nearest.swapped < shadow.swapped
    assert shadow.interval_after[0] - 1e-9 <= shadow.after <= shadow.interval_after[1] + 1e-9
    claimed = [sure.claimed for sure in shadow.sure]
    assert claimed == sorted(claimed, reverse=True)
    assert all(0.0 <= sure.right <= sure.claimed for sure in shadow.sure)
    assert 0.75 * shadow.after <= shadow.estimated_after
    assert "lives with whom and has this program" in shadow.knows
    assert RunSummary.from_dict(json.loads(json.dumps(done.summary.to_dict()))).swap.intruder("household-shadow") == shadow
    # The risk of records and the headline are those of the nearest household, as before.
    assert shadow.highest_risk is None
    outside = external(done.summary).swap.intruder("household-shadow")
    assert (outside.swapped, outside.estimated_after, outside.sure) == (None, None, ())
    assert outside.after >= shadow.after


def test_household_suspects_beside_a_loop_over_everybody(done: rc.run.results.Protection) -> None:
    register = reporting_register(done.assessment.families, done.assessment)
    seen = register.seen(rows_released(done))
    moves, people, file = Moves.of([seen], 256), register.known.table, seen.after
    # Every set of columns that some household exchanged is considered.
    assert set(moves.moved.tolist()) == set(differing(seen.true, seen.released).tolist()) - {0}
    claims, n_keys = seen.moved_claims, people.n_keys
    every, released = (np.repeat(table.cells, table.counts, axis=0) for table in (people, file))
    ordered, levels = [c.is_ordered for c in people.categories], [c.n_levels for c in people.categories]
    spread = np.array([n - 1.0 if is_ordered and n > 1 else np.inf for is_ordered, n in zip(ordered, levels, strict=True)])
    places, n_truths = [_hashed_places(table) for table in (people, file)], 0
    kinds = differing(claims.true, claims.released)
    for number in range(0, len(claims), max(1, len(claims) // 8)):
        kind = int(np.flatnonzero(moves.moved == kinds[number])[0])
        masks = int(moves.moved[kind]), int(moves.agreed[kind])
        found = suspects_of(*places, claims.part(np.array([number])), *masks, spread)
        own = int(np.flatnonzero((released == claims.released[number]).all(axis=1))[0])
        moved, agreed = ({k for k in range(n_keys) if mask >> k & 1} for mask in masks)
        expected = intruder.suspects(every, released, own, claims.true[number], moved, agreed, ordered, levels)
        assert int(found.people.sum()) == sum(n for n, _ in expected.values())
        assert bool(found.is_truth.any()) == any(is_in for _, is_in in expected.values())
        n_truths += bool(found.is_truth.any())
    assert n_truths > 4


def test_in_the_census_somebody_with_the_program_finds_about_what_is_claimed() -> None:
    population = datasets.census_households()
    sample = datasets.census_household_sample(0.004, 3, people=population)
    options = {"keys": ["relationship", "sex", "age"], "population": population.num_rows, "household": "household"}
    # Any model of households that is good will do, and an exact search for the best takes two thirds of the time.
    done = rc.protect(sample, risk_above=0.2, seed=1, search="greedy", restarts=1, **options)
    claimed = done.summary.swap.intruder("household-shadow")
    families = rc.assess(sample, register=population, **options).families
    register = Register.counted(families.register.people, families.register.place)
    counted = HouseholdTrials.of(families.rows, rows_released(done), register)
    assert counted.shadow.after.total > 1.5 * counted.nearest.after.total
    assert claimed.after == pytest.approx(counted.shadow.after.total, rel=0.25)
    assert claimed.interval_after[0] <= counted.shadow.after.total <= claimed.interval_after[1]
    assert claimed.persons_after == pytest.approx(counted.shadow.persons_after, rel=0.25)


def test_a_profile_that_names_the_program_counts_households_found_with_it(done: rc.run.results.Protection) -> None:
    nearest, shadow = (done.summary.swap.intruder(name).after for name in ("household", "household-shadow"))
    share = (nearest + shadow) / 2 / done.summary.risk.families.households
    for names, is_refused in ((("exact", "nearest"), False), (("exact", "nearest", "shadow"), True)):
        profile = Profile(name="own", intruders=names, max_household_links_share=share)
        limits = [reason.limit for reason in decided(done.summary, profile).refusals]
        assert ("max_household_links_share" in limits) == is_refused


# ---------------------------------------------------------------------- plans


def test_a_plan_judges_households_and_its_commands_give_what_it_says(
    sample: pa.Table, population: pa.Table, tmp_path: Path
) -> None:
    small = sample.filter(pa.array(sample["home"].to_numpy() % 3 == 0)).drop_columns(["pay"])
    pq.write_table(small, tmp_path / "homes.parquet")
    options = {"keys": KEYS, "population": len(population), "household": "home", "seed": 5}
    found = rc.plan(str(tmp_path / "homes.parquet"), max_correct_links=8.0, candidates=12, **options)
    assert {point.way for point in found.looked_at} == {"households", "unlink"}
    assert found.points[0].correct_links_recoded > found.points[0].correct_links
    point = min((p for p in found.points if p.way == "households"), key=lambda p: p.records_changed)
    config = RunConfig(input=str(tmp_path / "homes.parquet"), **{**options, "keys": tuple(KEYS)})
    words = shlex.split(command_for(point, found.target, config, out=str(tmp_path / "release")))
    done = CliRunner().invoke(main, [*words[1:], "--quiet"])
    assert done.exit_code == 0, done.output
    swap = json.loads((tmp_path / "release" / "summary.json").read_text())["swap"]
    household = next(one for one in swap["intruders"] if one["name"] == "household")
    assert swap["values_changed"] == point.values_changed
    links = max(household["after"], swap["risk_after"]["expected_correct_matches"])
    assert links == pytest.approx(point.correct_links, rel=1e-4)
    assert point.is_met == (links <= 8.0)
    assert found.refused == ()
    unlinked = next(p for p in found.looked_at if p.way == "unlink")
    assert "--unlink" in command_for(unlinked, found.target, config)
    assert "without the household number" in str(unlinked)


def test_a_plan_says_which_ways_would_be_refused(sample: pa.Table, population: pa.Table) -> None:
    # All members of a household have the same rent, so that it puts them together again.
    small = sample.filter(pa.array(sample["home"].to_numpy() % 3 == 0)).drop_columns(["pay"])
    small = small.append_column("rent", pa.array(0.37 * small["home"].to_numpy()))
    wish = {
        "keys": KEYS,
        "population": len(population),
        "household": "home",
        "seed": 5,
        "max_correct_links": 8.0,
        "candidates": 4,
    }
    found = rc.plan(small, **wish)
    # It also tells the region, so that a recoding of it is refused in other ways.
    unlinked = [way for way in found.refused if way.way == "unlink"]
    assert unlinked
    assert all("rent" in way.reason for way in found.refused)
    assert "without the household number: refused." in str(unlinked[0])
    assert all(point.way != "unlink" for point in found.looked_at)
    # What the refusal offers can be given to the plan, and stands in the command that it prints.
    dropped = rc.plan(small, **wish, treat={"rent": "drop"})
    assert dropped.refused == ()
    point = next(point for point in dropped.looked_at if point.way == "unlink")
    config = RunConfig(
        input="small.parquet", keys=tuple(KEYS), population=9_000, household="home", protect=ProtectConfig(treat={"rent": "drop"})
    )
    assert "--treat rent=drop" in command_for(point, dropped.target, config)


def test_a_plan_tries_the_recoding_that_leaves_fewest_links_where_none_leaves_few() -> None:
    target = ReleaseTarget(max_correct_links=8.0)
    screened = {(0, 0): (0.0, 100.0), (1, 0): (0.1, 90.0), (2, 0): (0.2, 80.0), (0, 1): (0.3, 80.0)}
    assert _worth_releasing(screened, target) == [(0, 0), (2, 0)]
    assert _worth_releasing({(0, 0): (0.0, 100.0), (1, 0): (0.1, 100.0)}, target) == [(0, 0)]
    assert _worth_releasing({**screened, (2, 1): (0.6, 12.0)}, target) == [(0, 0), (2, 1)]


# ---------------------------------------------------------------------- without the number


@pytest.mark.parametrize("seed", range(3))
def test_members_are_guessed_as_by_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 40
    age = rng.integers(0, 6, n)
    first = np.stack([age, rng.integers(0, 2, n), rng.integers(0, 3, n)], axis=1)
    second = np.stack([np.clip(age + rng.integers(-1, 2, n), 0, 5), rng.integers(0, 2, n), first[:, 2]], axis=1)
    codes = np.concatenate([first, second]).astype(np.int32)
    at = np.stack([np.arange(n), n + np.arange(n)], axis=1)
    found = guessed_pairs(codes, at, shared=[2])
    assert found.tried == n
    assert found.right == pytest.approx(naive.guessed(first.tolist(), second.tolist(), shared=2))
    assert found.by_chance == len(set(first[:, 2].tolist()))
    # Whoever ignores what is plausible finds one pair for each value of what households share.
    alike = np.zeros((2 * n, 1), dtype=np.int32)
    assert guessed_pairs(alike, at).right == pytest.approx(1.0)


def test_an_attack_on_an_unlinked_file_tells_what_can_be_put_together(sample: pa.Table, population: pa.Table) -> None:
    sample = sample.sort_by("home")
    released = sample.drop_columns(["home", "pay"])
    done = rc.attack(released, original=sample, keys=KEYS, household="home", register=population)
    assert all(one.name != "household" for one in done.summary.intruders)
    assert "households of two or more stand together in the released file" in done.summary.sentence
    assert "likeliest second member" in done.summary.sentence
    shuffled = sample.append_column("id", pa.array(range(len(sample)))).take(np.random.default_rng(0).permutation(len(sample)))
    numbered = sample.append_column("id", pa.array(range(len(sample))))
    apart = rc.attack(
        shuffled.drop_columns(["home", "pay"]), original=numbered, keys=KEYS, household="home", register=population, id="id"
    )
    together = int(done.summary.sentence.split("The rows of ")[1].split(" of ")[0].replace(",", ""))
    by_chance = int(apart.summary.sentence.split("The rows of ")[1].split(" of ")[0].replace(",", ""))
    assert by_chance < 0.05 * together


def test_rings_that_break_a_rule_are_undone_as_a_whole(done: rc.run.results.Protection) -> None:
    found = done.assessment
    families = found.families
    assert families is not None
    codes, _ = found.data.column_codes(found.data.keys)
    rules = HouseholdRules.of(families.rows, codes)
    rows = np.flatnonzero(found.table.counts[found.table.cell_of_record] <= 2)
    plan = plan_task(replace(done.plan.task, rings=True, decoys=0.5), rows[:200])
    kept = consistent_pairs(codes, FileRules(families.rows, rules, ()), plan)
    part = plan.subset(kept)
    assert len(part) == kept.sum()
    after = codes.copy()
    after[part.rows] = part.release.released
    assert not rules.any_broken(families.rows, after).any()

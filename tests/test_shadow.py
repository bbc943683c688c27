"""The shadow intruder beside plain loops over everybody, and what must hold for its certainties."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell import datasets
from rarecell._kernels import shadow as kernels
from rarecell._kernels.shadow import Choices
from rarecell.intruder.links import Links
from rarecell.intruder.register import Register
from rarecell.intruder.shadow import (
    RIDGE,
    Moves,
    _guessed,
    _hashed_places,
    fitted,
    learned,
    registers_held,
    rising,
    shadow_links,
    suspects_of,
)
from rarecell.intruder.shadow import Tried as TriedClaims
from rarecell.intruder.trial import try_intruders
from rarecell.release.release import Claims, Release
from rarecell.run.beside_keys import ROW_ORDER
from rarecell.swap import sure_links
from rarecell.swap.plan import plan_task
from tests.naive import intruder as naive
from tests.reference import adult_population
from tests.strategies_intruder import Attack, attacks

FEW = settings(max_examples=40, deadline=None)


def release_of(attack: Attack) -> Release:
    return Release.of_codes(attack.original, attack.released, attack.categories)


@given(attacks(), st.data())
@FEW
def test_suspects_and_mates_beside_a_loop_over_everybody(attack: Attack, data: st.DataObject) -> None:
    n_keys = len(attack.categories)
    moved = data.draw(st.sets(st.integers(0, n_keys - 1), min_size=1))
    agreed = data.draw(st.sets(st.integers(0, n_keys - 1))) - moved
    ordered, levels = [c.is_ordered for c in attack.categories], [c.n_levels for c in attack.categories]
    spread = np.array([n - 1.0 if is_ordered else np.inf for is_ordered, n in zip(ordered, levels, strict=True)])
    claims = Claims(np.arange(len(attack.original)), attack.original, attack.released)
    people, file = (_hashed_places(attack.table(codes)) for codes in (attack.register, attack.released))
    mask, of_agreed = (sum(1 << k for k in keys) for keys in (moved, agreed))
    found = suspects_of(people, file, claims, mask, of_agreed, spread)
    features = np.stack(kernels.features_of(found.features), axis=1)
    for row in range(len(claims)):
        expected = naive.suspects(attack.register, attack.released, row, attack.original[row], moved, agreed, ordered, levels)
        if any(naive_mates > 3 for *_, naive_mates, _, _ in expected):
            # Beyond a dozen rows no further mates are looked at.
            continue
        own = found.owner == row
        listed = {
            tuple(one): (int(n), bool(is_in))
            for one, n, is_in in zip(features[own].tolist(), found.people[own], found.is_truth[own], strict=True)
        }
        assert listed == expected


@st.composite
def choices(draw: st.DrawFn) -> tuple[Choices, list[list[tuple[float, list[int]]]]]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = rng.integers(1, 5, draw(st.integers(1, 12)))
    end, n = np.cumsum(sizes), int(sizes.sum())
    features = rng.integers(-1, 6, (n, 3)).astype(np.int16)
    people = rng.integers(1, 5, n)
    truth = np.array([int(rng.integers(last - size, last)) for last, size in zip(end, sizes, strict=True)])
    plain = [
        [(float(people[j]), [int(f) for f in features[j] if f >= 0]) for j in range(last - size, last)]
        for last, size in zip(end.tolist(), sizes.tolist(), strict=True)
    ]
    return Choices(
        end.astype(np.int64), features, np.log(people.astype(float)), truth.astype(np.int64), rng.random(len(end)) + 0.5
    ), plain


@given(choices(), st.integers(0, 2**32 - 1))
@FEW
def test_probabilities_and_their_slope_beside_plain_sums(made: tuple, seed: int) -> None:
    given_choices, plain = made
    beta = np.random.default_rng(seed).normal(size=6)
    probability = np.empty(len(given_choices.log_people))
    value = kernels.probabilities(given_choices, beta, probability)
    expected = naive.logit(plain, beta)
    assert probability.tolist() == pytest.approx([p for claim in expected for p in claim])
    assert value == pytest.approx(float(given_choices.weight @ np.log(probability[given_choices.truth])))
    gradient, curvature = np.zeros(6), np.zeros((6, 6))
    kernels.slope(given_choices, probability, gradient, curvature)
    small, room = 1e-5, np.empty_like(probability)
    for place in range(6):
        step = np.zeros(6)
        step[place] = small
        up, down = (kernels.probabilities(given_choices, beta + sign * step, room) for sign in (1.0, -1.0))
        assert gradient[place] == pytest.approx((up - down) / (2 * small), abs=1e-5)
        slopes = []
        for sign in (1.0, -1.0):
            kernels.probabilities(given_choices, beta + sign * step, room)
            at, unused = np.zeros(6), np.zeros((6, 6))
            kernels.slope(given_choices, room, at, unused)
            slopes.append(at)
        assert curvature[place].tolist() == pytest.approx(((slopes[1] - slopes[0]) / (2 * small)).tolist(), abs=1e-4)


@given(choices())
@FEW
def test_the_fit_is_where_the_penalised_likelihood_is_flat(made: tuple) -> None:
    given_choices, _ = made
    beta = fitted([given_choices], 6)
    probability, gradient = np.empty(len(given_choices.log_people)), -RIDGE * beta
    kernels.probabilities(given_choices, beta, probability)
    kernels.slope(given_choices, probability, gradient, np.zeros((6, 6)))
    assert np.abs(gradient).max() < 1e-2


@given(choices(), st.integers(0, 2**32 - 1))
@FEW
def test_the_likeliest_person_is_chosen_and_ties_are_shared(made: tuple, seed: int) -> None:
    given_choices, plain = made
    rng = np.random.default_rng(seed)
    beta, is_person = rng.integers(-1, 2, 6).astype(float), rng.random(len(given_choices.log_people)) < 0.8
    link, believed = _guessed(TriedClaims(given_choices, is_person), beta)
    first = 0
    for i, claim in enumerate(naive.logit(plain, beta)):
        each = {first + j: p / plain[i][j][0] for j, p in enumerate(claim) if is_person[first + j]}
        best = max(each.values(), default=0.0)
        tied = [j for j, p in each.items() if p >= best * (1 - 1e-9)]
        n_tied = sum(plain[i][j - first][0] for j in tied)
        assert believed[i] == pytest.approx(best)
        assert link[i] == pytest.approx(1.0 / n_tied if int(given_choices.truth[i]) in tied else 0.0)
        first += len(claim)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.1, 5)), min_size=1, max_size=8))
@FEW
def test_certainties_rise_as_the_nearest_rising_sequence(given_pairs: list[tuple[float, float]]) -> None:
    value, weight = (np.array(part) for part in zip(*given_pairs, strict=True))
    found = rising(value, weight)
    # The minimax formula: the largest over starts of the smallest over ends of weighted means.
    n = len(value)
    mean = [[np.average(value[i : j + 1], weights=weight[i : j + 1]) if i <= j else np.nan for j in range(n)] for i in range(n)]
    expected = [max(min(mean[i][j] for j in range(k, n)) for i in range(k + 1)) for k in range(n)]
    assert found.tolist() == pytest.approx(expected, abs=1e-9)


@given(attacks())
@FEW
def test_whoever_has_the_program_finds_no_fewer_and_counts_what_is_true(attack: Attack) -> None:
    release, register = release_of(attack), Register.counted(attack.table(attack.register))
    each = {one.name: one.after for one in try_intruders(release, register)}
    assert each["informed"].total <= each["shadow"].total + 1e-9
    assert set(each["shadow"].row.tolist()) == set(each["exact"].row.tolist())
    assert ((each["shadow"].link >= 0.0) & (each["shadow"].link <= 1.0)).all()
    for sure in each["shadow"].sure:
        assert 0.0 <= sure.right <= sure.claimed + 1e-9
        assert sure.right >= sure.above * sure.claimed - 1e-6


def test_pairs_leave_mates_that_the_shadow_intruder_finds() -> None:
    # Twelve pairs exchange b between people of two towns who agree on s; nobody lives where they end.
    people = [(town, s, b) for s in range(12) for town, b in ((0, s), (1, (s + 5) % 12))]
    categories = tuple(rc.Categories(name, tuple(range(n)), False) for name, n in (("town", 2), ("s", 12), ("b", 12)))
    original = np.array(people, dtype=np.int32)
    released = original.copy()
    released[0::2, 2], released[1::2, 2] = original[1::2, 2], original[0::2, 2]
    release = Release.of_codes(original, released, categories)
    register = Register.counted(rc.ContingencyTable.from_codes(original, categories))
    found = {one.name: one.after for one in try_intruders(release, register)}
    assert found["shadow"].total == pytest.approx(24.0)
    assert found["shadow"].sure[1].claimed == found["shadow"].sure[1].right == 24.0


def census(fraction: float, seed: int) -> tuple[rc.SwapPlan, Register, Register]:
    everybody = rc.Microdata(datasets.census_population(), keys=datasets.CENSUS_KEYS).table(records=True)
    codes = everybody.cells[everybody.cell_of_record]
    rows = np.random.default_rng(seed).choice(len(codes), round(fraction * len(codes)), replace=False)
    table = rc.ContingencyTable.from_codes(codes[np.sort(rows)], everybody.categories)
    model, risk_model = rc.select_model(table, search="greedy", restarts=1, seed=0).best, rc.fit_backoff(table)
    risk = rc.record_risk(table, risk_model, population=len(codes))
    plan = rc.plan_swaps(
        table, model, records=risk.above(0.2), risk=risk, register=Register.modelled(risk, risk_model), seed=seed
    )
    return plan, Register.counted(everybody), Register.modelled(risk, risk_model, seed=99)


@pytest.fixture(scope="module")
def runs() -> list[tuple[rc.SwapPlan, Register, Register]]:
    return [census(0.02, seed) for seed in (1, 2)]


def test_links_expected_without_a_register_hold_those_counted_in_it(runs: list) -> None:
    for plan, real, modelled in runs:
        true, expected = shadow_links(plan.release, real), shadow_links(plan.release, modelled)
        assert expected.interval[0] <= true.total <= expected.interval[1]
        assert expected.total > 0.8 * true.total


@dataclass(frozen=True)
class Planned:
    plan: rc.SwapPlan


def test_sure_links_are_told_by_other_registers_than_those_the_plan_was_chosen_by(
    runs: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, real, modelled = runs[0]
    compared_with: list[rc.ContingencyTable] = []

    def listening(release: Release, register: Register, **more: Any) -> Links:
        compared_with.extend(more.get("held") or ())
        return shadow_links(release, register, **more)

    monkeypatch.setattr(sure_links, "shadow_links", listening)
    replanned = sure_links.with_few_sure_links(plan.task, lambda task: Planned(plan), modelled, 1e9)
    told_by = registers_held(modelled)
    assert len(compared_with) == len(told_by)
    assert all(one.n_cells != other.n_cells for one, other in zip(compared_with, told_by, strict=True))
    assert replanned.shadow.sure == shadow_links(plan.release, modelled).sure
    # In a register that is held there is nothing to draw.
    assert real.drawn_otherwise() is real


def test_registers_drawn_before_and_links_known_before_change_nothing(runs: list) -> None:
    plan, _, modelled = runs[0]
    plain, held = (shadow_links(plan.release, modelled, held=held) for held in (None, registers_held(modelled)))
    assert plain.link.tolist() == held.link.tolist()
    assert plain.sure == held.sure
    fresh, known = (
        next(one.after for one in try_intruders(plan.release, modelled, shadow=shadow) if one.name == "shadow")
        for shadow in (None, held)
    )
    assert fresh.link.tolist() == known.link.tolist()
    assert (fresh.interval, fresh.sure) == (known.interval, known.sure)


def test_what_shadow_runs_teach_is_no_more_than_the_most_that_could_be(runs: list) -> None:
    (first, real, _), (second, _, _) = runs
    knows = learned([(second.release, real.known.table)])
    taught, most = (shadow_links(first.release, real, knows=mind) for mind in (knows, None))
    assert 0.0 < taught.total <= 1.05 * most.total
    assert taught.moved.sum() == most.moved.sum()


def test_drawn_people_are_as_many_as_the_population_and_hold_the_sample(runs: list) -> None:
    plan, real, modelled = runs[0]
    people = modelled.drawn_people(0, 2)
    assert people.n_records == pytest.approx(real.known.table.n_records, rel=0.05)
    assert (people.counts_of(plan.table.cells) >= plan.table.counts).all()
    assert people.n_cells == pytest.approx(real.known.table.n_cells, rel=0.2)


def test_moves_name_the_keys_on_which_giver_and_receiver_agree(runs: list) -> None:
    plan = runs[0][0]
    release, moves = plan.release, Moves.of([runs[0][0].release])
    giver = plan._position(plan.sources)
    for moved, agreed in zip(moves.moved.tolist(), moves.agreed.tolist(), strict=True):
        own = [
            i for i in range(len(release)) if sum(1 << k for k in np.flatnonzero(release.true[i] != release.released[i])) == moved
        ]
        same = np.mean([release.true[i] == release.true[giver[i]] for i in own], axis=0)
        assert agreed == sum(1 << k for k in range(plan.table.n_keys) if same[k] >= 0.98 and not moved >> k & 1)


def test_a_price_on_cells_without_people_keeps_margins_and_leaves_fewer_records_seen_to_have_moved(runs: list) -> None:
    plan, real, _ = runs[0]
    task = replace(plan.task, empty_weight=1.0, enters_vacated=True)
    harder = plan_task(task, plan.requested)
    assert len(harder.unswapped) <= len(plan.unswapped)
    for names in harder.model.cliques:
        before, after = (table.project([n for n in names if n in table.keys]) for table in (harder.table, harder.table_after))
        assert np.array_equal(before.cells, after.cells)
        assert np.array_equal(before.counts, after.counts)
    empty, still = (np.mean(real.known.count_at(one.release.released) == 0) for one in (plan, harder))
    assert still < empty
    found, before = (shadow_links(one.release, real) for one in (harder, plan))
    assert found.of_moved <= before.of_moved


def test_plans_and_links_depend_on_the_seed_alone(runs: list, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, _, modelled = runs[0]
    first = shadow_links(plan.release, modelled)
    for cores in (1, 2, 2):
        for module in ("machine.threads", "intruder.register", "swap.partners"):
            monkeypatch.setattr(f"rarecell.{module}.n_cores", lambda cores=cores: cores)
        again = plan_task(plan.task, plan.requested)
        for part in ("records", "partners", "moved", "distance", "cost", "givers"):
            assert np.array_equal(getattr(again, part), getattr(plan, part)), (cores, part)
        links = shadow_links(again.release, modelled)
        assert np.array_equal(links.link, first.link)
        assert (links.interval, links.sure) == (first.interval, first.sure)


def test_givers_are_guessed_where_two_files_are_compared(runs: list) -> None:
    plan, real, _ = runs[0]
    release = plan.release
    original = release.before.cells[release.before.cell_of_record]
    released = original.copy()
    released[release.rows] = release.released
    compared = Release.of_codes(original, released, release.before.categories)
    known, guessed = Moves.of([release]), Moves.of([compared])
    assert known.moved.tolist() == guessed.moved.tolist()
    bits = 1 << np.arange(release.before.n_keys)
    for moved, agreed in zip(guessed.moved.tolist(), guessed.agreed.tolist(), strict=True):
        rows = [row for row in range(len(release)) if (release.true[row] != release.released[row]) @ bits == moved]
        keys = [k for k in range(release.before.n_keys) if (moved | agreed) >> k & 1]
        givers = {tuple(cell[k] for k in keys) for cell in release.true.tolist()}
        n_with_giver = sum(tuple(release.released[row, k] for k in keys) in givers for row in rows)
        assert n_with_giver >= 0.98 * len(rows)
    # Whoever compares two files finds about as much as is known to those who made the plan.
    assert shadow_links(compared, real).total > 0.97 * shadow_links(release, real).total


def test_a_file_sorted_by_a_key_is_reported() -> None:
    sample = datasets.census_sample().sort_by("age")
    keys = ["age", "sex", "marital"]
    ages = sample["age"].to_numpy().copy()
    rows = np.random.default_rng(0).choice(len(ages), 600, replace=False)
    ages[rows] = np.random.default_rng(1).permutation(ages[rows])
    released = sample.set_column(sample.column_names.index("age"), "age", pa.array(ages))

    def told(rows: np.ndarray) -> list[str]:
        done = rc.attack(released.take(rows), original=sample.take(rows), keys=keys, population=277_677)
        return [leak.key for leak in done.summary.leaks if ROW_ORDER in leak.columns]

    assert told(np.arange(len(ages))) == ["age"]
    assert told(np.random.default_rng(2).permutation(len(ages))) == []


@pytest.fixture(scope="module")
def sparse() -> pa.Table:
    rng = np.random.default_rng(5)
    n = 6_000
    town, job = rng.integers(0, 12, n), rng.integers(0, 15, n)
    return pa.table(
        {
            "town": [f"t{v}" for v in town],
            "job": [f"j{v}" for v in job],
            "age": np.clip(20 + 2 * job + rng.integers(0, 40, n), 0, 90),
            "origin": [f"o{v}" for v in (town + rng.integers(0, 3, n)) % 12],
        }
    )


def test_partners_are_chosen_again_where_too_many_links_would_be_sure(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = ["age", "workclass", "education", "marital_status", "occupation", "race", "sex"]
    adults = adult_population()
    sample = adults.take(np.random.default_rng(1).choice(adults.num_rows, 1_000, replace=False)).select(keys)
    # In so small a file few links are as sure as 0.8.
    monkeypatch.setattr(sure_links, "SURE_ABOVE", 0.5)
    monkeypatch.setattr(sure_links, "SURE_SHARE", 0.0)
    asked = {"keys": keys, "population": adults.num_rows, "risk_above": 0.2, "search": "greedy", "restarts": 1, "seed": 1}
    done, free = (rc.protect(sample, **asked, **more) for more in ({}, {"max_sure_links": 1e9}))
    n_sure = [next(one.claimed for one in run.summary.swap.intruder("shadow").sure if one.above == 0.5) for run in (done, free)]  # type: ignore[union-attr]
    notes = [note for note in done.summary.notes if "would have been surer" in note]
    assert n_sure[1] > sure_links.FEWEST_SURE
    assert n_sure[0] < n_sure[1]
    assert len(notes) == 1
    assert done.summary.swap.margins_identical  # type: ignore[union-attr]


def test_trial_runs_teach_an_attack_on_a_file_that_a_run_made(sparse: pa.Table, tmp_path: Path) -> None:
    keys = ["town", "job", "age"]
    sample, register = tmp_path / "sample.parquet", tmp_path / "register.parquet"
    pq.write_table(sparse.slice(0, 600).select(keys), sample)
    pq.write_table(sparse.select(keys), register)
    rc.protect(sample, keys=keys, population=6_000, risk_above=0.2, seed=1, out=tmp_path / "run")
    released = tmp_path / "run" / "protected.parquet"
    by_place = rc.attack(released, original=sample, keys=keys, register=register)
    after = {one.name: one.after for one in by_place.summary.intruders}
    assert 0.0 < after["trained"] <= 1.05 * after["shadow"]
    moved = pq.read_table(released)
    named = rc.attack(moved, original=sample, keys=keys, register=register, made_by=tmp_path / "run")
    assert next(one.after for one in named.summary.intruders if one.name == "trained") == after["trained"]
    untaught = rc.attack(moved, original=sample, keys=keys, register=register)
    assert "trained" not in [one.name for one in untaught.summary.intruders]
    no_larger = rc.attack(released, original=sample, keys=keys, register=sample)
    assert "no larger than the file" in no_larger.summary.sentence
    with pytest.raises(rc.RarecellError, match=r"no run\.toml"):
        rc.attack(moved, original=sample, keys=keys, register=register, made_by=tmp_path)
    with pytest.raises(rc.RarecellError, match="samples of a register"):
        rc.attack(moved, original=sample, keys=keys, population=6_000, made_by=tmp_path / "run")


def test_few_links_are_sure_where_that_is_asked_for() -> None:
    sample = datasets.census_sample().slice(0, 3_000)
    keys = ["age", "sex", "marital", "relationship", "citizenship"]
    asked = rc.protect(sample, keys=keys, population=277_677, risk_above=0.2, max_sure_links=0.0)
    shadow = asked.summary.swap.intruder("shadow")  # type: ignore[union-attr]
    said = [note for note in asked.summary.notes if "surer than 0.8" in note]
    assert len(said) == 1
    sure = next(one for one in shadow.sure if one.above == 0.8)  # type: ignore[union-attr]
    assert ("more than was asked for" in said[0]) == (sure.claimed > 0.0)
    assert asked.summary.swap.margins_identical  # type: ignore[union-attr]
    with pytest.raises(rc.RarecellError, match="max_sure_links"):
        rc.protect(sample, keys=keys, population=277_677, swap_rate=0.1, geography="sex", max_sure_links=0.0)


def test_a_damaged_run_beside_a_released_file_does_not_stop_an_attack(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    people = pa.table({"a": rng.integers(0, 4, 300), "b": rng.integers(0, 3, 300)})
    sample = people.slice(0, 60)
    (tmp_path / "run").mkdir()
    pq.write_table(sample, tmp_path / "run" / "protected.parquet")
    asked = {"original": sample, "keys": ["a", "b"], "register": people}
    for content in ("keys = [", 'keys = ["a", "b"]\nmemory = "1KB"\n', 'input = "x.csv"\nkeys = ["a"]\nspark_table = "t"\n'):
        (tmp_path / "run" / "run.toml").write_text(content)
        done = rc.attack(tmp_path / "run" / "protected.parquet", **asked)
        assert "There were no trial runs" in done.summary.sentence
        with pytest.raises(rc.RarecellError):
            rc.attack(tmp_path / "run" / "protected.parquet", made_by=tmp_path / "run", **asked)
    # Trial runs take samples of the register, wherever the records of the run came from.
    options = 'keys = ["a", "b"]\npopulation = 300\nmodel = "single"\nresolution = "full"\n'
    for source in ('spark_table = "t"\n', 'sql = "select 1"\n'):
        (tmp_path / "run" / "run.toml").write_text(f'input = ""\n{source}{options}[protect]\ntop = 3\n')
        done = rc.attack(tmp_path / "run" / "protected.parquet", **asked)
        assert "There were no trial runs" not in done.summary.sentence, done.summary.sentence

"""Intruders beside a comparison of every record with every person, and what must hold for every one of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import rarecell as rc
from rarecell import datasets
from rarecell._kernels.neighbours import Patterns
from rarecell.intruder import links as claims_of_links
from rarecell.intruder.informed import informed_links
from rarecell.intruder.links import Links, ModelError
from rarecell.intruder.nearest import exact_links, model_error, moved_links, nearest_links
from rarecell.intruder.participant import participant_links
from rarecell.intruder.register import CLASSES, Persons, Register, _one_to_ends, ball_sums
from rarecell.intruder.trial import try_intruders
from rarecell.release.release import Release
from rarecell.run.models import with_resolutions
from rarecell.table.distance import Distances, by_rank, yardsticks
from tests.naive import intruder as naive
from tests.strategies_intruder import Attack, attacks
from tests.strategies_swap import AnyModel

FEW = settings(max_examples=40, deadline=None)


def by_row(links: Links) -> dict[int, float]:
    assert len(np.unique(links.row)) == len(links.row)
    return dict(zip(links.row.tolist(), links.link.tolist(), strict=True))


def release_of(attack: Attack) -> Release:
    return Release.of_codes(attack.original, attack.released, attack.categories)


def register_of(attack: Attack) -> Register:
    return Register.counted(attack.table(attack.register))


@given(attacks(), st.sampled_from([1.0, 3.0, 10.0]))
@FEW
def test_persons_nearer_and_as_far(attack: Attack, weight: float) -> None:
    apart = naive.distance_by_rank(attack.categories, weight)
    table = attack.table(attack.register)
    points = attack.released
    bounds = np.array([apart(a, b) for a, b in zip(attack.released, attack.original, strict=True)])
    found = Persons(table).others(points, bounds, by_rank(table, weight).near)
    for p, point in enumerate(points):
        n_nearer, n_tied = naive.others(attack.register, point, bounds[p], apart)
        assert (found.n_nearer[p] > 0) == (n_nearer > 0)
        if not n_nearer:
            assert found.n_tied[p] == n_tied


@given(attacks(), st.sampled_from([1.0, 3.0]), st.floats(0.0, 3.0))
@FEW
def test_cells_within_a_distance(attack: Attack, weight: float, bound: float) -> None:
    table = attack.table(attack.original)
    apart = naive.distance_by_rank(attack.categories, weight)
    points = attack.released[:3]
    found, _ = Persons(table).ball(points, np.full(len(points), bound), by_rank(table, weight).near)
    levels = [c.n_levels for c in attack.categories]
    for p, point in enumerate(points):
        own = found.owner == p
        assert {tuple(cell) for cell in found.cells[own].tolist()} == naive.ball(levels, point, bound, apart)
        assert own.sum() == len(np.unique(found.cells[own], axis=0))
        assert found.cost[own] == pytest.approx([apart(point, cell) for cell in found.cells[own]])


@given(attacks(), st.sets(st.integers(1, 15), min_size=1), st.floats(0.0, 4.0), st.integers(0, 2**32 - 1))
@FEW
def test_cells_that_a_known_set_of_moves_brings_within_a_distance(
    attack: Attack, masks: set[int], bound: float, seed: int
) -> None:
    table, n_keys = attack.table(attack.original), len(attack.categories)
    moved = sorted({mask & ((1 << n_keys) - 1) for mask in masks} - {0}) or [1]
    price = dict(zip(moved, np.random.default_rng(seed).random(len(moved)).tolist(), strict=True))
    of_cells = np.zeros(table.n_cells)
    patterns = Patterns(np.array(moved, np.uint64), np.array([*price.values()]), of_cells, of_cells)
    apart, point = naive.distance_by_rank(attack.categories, 1.0), attack.released[0]
    listed, _ = Persons(table).ball(point[None, :], np.array([bound]), by_rank(table, 1.0).near, patterns)
    expected = {}
    for cell in itertools.product(*(range(c.n_levels) for c in attack.categories)):
        mask = sum(1 << k for k in range(n_keys) if cell[k] != point[k])
        cost = apart(point, np.array(cell)) + (price.get(mask, np.inf) if mask else 0.0)
        if cost <= bound:
            expected[cell] = cost
    assert dict(zip(map(tuple, listed.cells.tolist()), listed.cost.tolist(), strict=True)) == pytest.approx(expected)


def test_a_ball_that_is_too_large_keeps_its_nearest_cells() -> None:
    attack = Attack(
        (rc.Categories("a", tuple(range(50)), True), rc.Categories("b", tuple(range(50)), True)),
        *[np.zeros((1, 2), np.int32)] * 3,
    )
    table = attack.table(attack.original)
    found, is_cut = Persons(table).ball(np.array([[25, 25]], np.int32), np.array([0.5]), by_rank(table, 1.0).near, most_cells=60)
    outside = 1.0 / 49 * np.abs(np.indices((50, 50)) - 25).sum(axis=0)
    assert 20 <= len(found.cost) <= 60
    assert found.cost.max() <= np.sort(outside.ravel())[61]
    assert is_cut.all()


@given(attacks(), st.sampled_from([1.0, 3.0]))
@FEW
def test_asking_the_nearest_cells_first_gives_the_same_chances(attack: Attack, weight: float) -> None:
    """The model is sure of its rates, so that nothing but the lists of cells can make a difference."""
    model, risk = model_and_risk(attack, 50 * len(attack.original))
    release, register = release_of(attack), Register.modelled(risk, model)  # type: ignore[arg-type]
    family = [by_rank(release.before, weight)]
    by_lengths = {}
    for lengths in ((), (1, 3), claims_of_links.LENGTHS):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(claims_of_links, "LENGTHS", lengths)
            by_lengths[lengths] = moved_links(release, register, family=family).link
    whole = by_lengths.pop(())
    for in_turns in by_lengths.values():
        assert in_turns == pytest.approx(whole, abs=claims_of_links.NEGLIGIBLE)
        assert (in_turns >= whole - 1e-12).all()


@given(attacks())
@FEW
def test_exact_intruder(attack: Attack) -> None:
    expected = naive.exact_links(attack.original, attack.released, attack.register)
    assert by_row(exact_links(release_of(attack), register_of(attack))) == pytest.approx(expected)


@given(attacks(), st.sampled_from([1.0, 3.0, 10.0]))
@FEW
def test_nearest_intruder(attack: Attack, weight: float) -> None:
    apart = naive.distance_by_rank(attack.categories, weight)
    expected = naive.nearest_links(attack.original, attack.released, attack.register, apart)
    release = release_of(attack)
    found = nearest_links(release, register_of(attack), family=[by_rank(release.before, weight)])
    assert by_row(found) == pytest.approx(expected)
    assert found.total == pytest.approx(sum(expected.values()))


@given(attacks())
@FEW
def test_the_worst_distance_of_the_family_is_reported_and_named(attack: Attack) -> None:
    release, register = release_of(attack), register_of(attack)
    family = naive.family(attack.categories, attack.original)
    each = [sum(naive.nearest_links(attack.original, attack.released, attack.register, apart).values()) for apart in family]
    found = nearest_links(release, register)
    assert found.total == pytest.approx(max(each))
    if len(release.rows):
        named = next(one for one in yardsticks(release.before) if one.name == found.distance)
        assert nearest_links(release, register, family=[named]).total == pytest.approx(found.total)
    as_participant = [sum(naive.participant_links(attack.original, attack.released, apart).values()) for apart in family]
    assert participant_links(release).total == pytest.approx(max(as_participant))


def test_a_key_of_which_the_user_spoke_is_measured_that_way_or_as_equal_or_not() -> None:
    levels = (1, 2, 10)
    table = rc.ContingencyTable.from_counts(
        [[0, 0], [1, 2], [2, 1]], [1, 2, 1], [rc.Categories("town", levels, True), rc.Categories("age", levels, True)]
    )
    names = [one.name for one in yardsticks(table)]
    assert len(names) == len(set(names)) == 12
    assert "by rank, with 'town' equal or not" in names
    told = yardsticks(table, Distances(kinds={"town": "nominal", "age": "ordinal"}))
    assert [one.name for one in told] == [
        *(f"by rank, ordered keys counted {often}" for often in ("once", "3 times", "10 times")),
        "by counting the keys that differ",
    ]
    assert {tuple(one.near.kind) for one in told} == {(0, 1), (0, 0)}


@given(attacks(), st.sampled_from([1.0, 3.0, 10.0]))
@FEW
def test_participant_beside_a_plain_join(attack: Attack, weight: float) -> None:
    apart = naive.distance_by_rank(attack.categories, weight)
    expected = naive.participant_links(attack.original, attack.released, apart)
    release = release_of(attack)
    found = participant_links(release, family=[by_rank(release.before, weight)])
    assert found.total == pytest.approx(sum(expected.values()))
    known = by_row_if_known(found)
    assert known == pytest.approx({row: expected[row] for row in known})


def by_row_if_known(links: Links) -> dict[int, float]:
    return {row: link for row, link in zip(links.row.tolist(), links.link.tolist(), strict=True) if row >= 0}


@given(attacks(max_records=14))
@settings(max_examples=25, deadline=None)
def test_informed_intruder(attack: Attack) -> None:
    release = release_of(attack)
    if not len(release.rows):
        return
    expected = naive.informed_links(attack.original, attack.released, attack.register, attack.categories)
    assert by_row(informed_links(release, register_of(attack))) == pytest.approx(expected)


@given(attacks())
@FEW
def test_whoever_knows_more_finds_no_fewer(attack: Attack) -> None:
    exact, nearest, informed, shadow, *_ = (one.after for one in try_intruders(release_of(attack), register_of(attack)))
    assert exact.total <= nearest.total + 1e-12
    assert nearest.total <= informed.total + 1e-12
    assert informed.total <= shadow.total + 1e-12
    assert (informed.name, shadow.name) == ("informed", "shadow")


@given(attacks(), st.integers(0, 2**32 - 1))
@FEW
def test_more_persons_never_raise_links(attack: Attack, seed: int) -> None:
    rng = np.random.default_rng(seed)
    more = np.concatenate([attack.register, rng.permutation(np.concatenate([attack.register, attack.released]))[:5]])
    # A person of the file who was missing from the register could be found only now.
    larger = Register.counted(attack.table(np.concatenate([attack.original, more])))
    smaller = Register.counted(attack.table(np.concatenate([attack.original, attack.register])))
    release = release_of(attack)
    for links in (exact_links, nearest_links):
        few, many = by_row(links(release, smaller)), by_row(links(release, larger))
        assert few.keys() == many.keys()
        if links is exact_links:
            assert all(many[row] <= few[row] + 1e-12 for row in few)
        assert sum(many.values()) <= sum(few.values()) + 1e-12


@given(attacks(), st.integers(0, 2**32 - 1))
@FEW
def test_recoding_never_raises_links(attack: Attack, seed: int) -> None:
    """Of a file whose values are merged and otherwise left alone: whoever is found in it was found before."""
    rng = np.random.default_rng(seed)
    categories, merge = [], []
    for of_key in attack.categories:
        groups = np.sort(rng.integers(0, of_key.n_levels, of_key.n_levels)).astype(np.int32)
        merge.append(np.unique(groups, return_inverse=True)[1].astype(np.int32))
        categories.append(rc.Categories(of_key.key, tuple(range(merge[-1].max() + 1)), of_key.is_ordered))

    def recoded(codes: np.ndarray) -> np.ndarray:
        return np.stack([merge[k][codes[:, k]] for k in range(codes.shape[1])], axis=1)

    before = Release.unchanged(attack.table(attack.original))
    after = Release.unchanged(rc.ContingencyTable.from_codes(recoded(attack.original), categories))
    # Everybody of the file is in the register: merged values could else make a stranger of the same kind count as a person of it.
    persons = np.concatenate([attack.original, attack.register])
    register = Register.counted(attack.table(persons))
    coarser = Register.counted(rc.ContingencyTable.from_codes(recoded(persons), categories))
    assert exact_links(after, coarser).total <= exact_links(before, register).total + 1e-12
    assert nearest_links(after, coarser).total == pytest.approx(exact_links(after, coarser).total)
    assert participant_links(after).total <= participant_links(before).total


def model_and_risk(attack: Attack, population: int) -> tuple[AnyModel, rc.RecordRisk]:
    table = attack.table(attack.original)
    model = AnyModel(table, tuple(1 << k for k in range(table.n_keys)))
    return model, rc.record_risk(table, model, population=population, form="poisson")  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [0, 2])
def test_links_by_the_model_are_the_mean_over_populations(seed: int) -> None:
    """Populations are drawn from the model, and the nearest intruder is let loose on each of them."""
    rng = np.random.default_rng(seed)
    categories = (rc.Categories("a", tuple(range(8)), True), rc.Categories("b", ("x", "y", "z")), rc.Categories("c", ("x", "y")))
    levels = [c.n_levels for c in categories]
    original = np.unique(np.stack([rng.integers(0, n, 6) for n in levels], axis=1), axis=0).astype(np.int32)
    released = original.copy()
    released[: len(original) // 2, 0] = (released[: len(original) // 2, 0] + 1) % 8
    attack = Attack(categories, original, released, original)
    population = len(original) + 20
    model, risk = model_and_risk(attack, population)
    release = release_of(attack)
    estimate = nearest_links(release, Register.modelled(risk, model), family=[by_rank(release.before, 3.0)])  # type: ignore[arg-type]
    totals = []
    everything = np.indices(levels).reshape(len(levels), -1).T.astype(np.int32)
    for _ in range(500):
        numbers = rng.poisson(20.0 / len(everything), len(everything))
        persons = np.concatenate([original, np.repeat(everything, numbers, axis=0)])
        totals.append(
            nearest_links(release, Register.counted(attack.table(persons)), family=[by_rank(release.before, 3.0)]).total
        )
    error = np.std(totals) / np.sqrt(len(totals))
    assert estimate.total == pytest.approx(np.mean(totals), abs=4.0 * error)
    low, high = estimate.interval
    assert np.mean((np.array(totals) >= low - 1e-9) & (np.array(totals) <= high + 1e-9)) > 0.9


def test_informed_links_by_the_model_are_the_mean_over_populations() -> None:
    """The intruder holds each population in turn, with the shares that moved in it."""
    rng = np.random.default_rng(4)
    categories = (rc.Categories("a", tuple(range(8)), True), rc.Categories("b", ("x", "y", "z")))
    levels = [c.n_levels for c in categories]
    original = np.stack([rng.integers(0, n, 12) for n in levels], axis=1).astype(np.int32)
    released = original.copy()
    released[:5, 0] = (released[:5, 0] + 1) % 8
    attack = Attack(categories, original, released, original)
    model, risk = model_and_risk(attack, len(original) + 12)
    estimate = informed_links(release_of(attack), Register.modelled(risk, model), n_registers=40)  # type: ignore[arg-type]
    everything = np.indices(levels).reshape(len(levels), -1).T.astype(np.int32)
    totals, of_moved = [], []
    for _ in range(60):
        persons = np.concatenate([original, np.repeat(everything, rng.poisson(12.0 / len(everything), len(everything)), axis=0)])
        found = informed_links(release_of(attack), Register.counted(attack.table(persons)))
        totals.append(found.total)
        of_moved.append(found.of_moved)
    for estimated, true in ((estimate.total, totals), (estimate.of_moved, of_moved)):
        # Both sides are means over draws; people in empty cells have the mean share of their class, hence a little more.
        error = np.std(true) * np.sqrt(1.0 / 40.0 + 1.0 / 60.0)
        assert estimated == pytest.approx(np.mean(true), abs=4.0 * error + 0.05 * np.mean(totals))
    low, high = estimate.interval
    assert np.mean((np.array(totals) >= low - 1e-9) & (np.array(totals) <= high + 1e-9)) > 0.85


def test_intervals_allow_for_what_the_model_is_known_to_get_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    categories = (rc.Categories("a", tuple(range(30)), True), rc.Categories("b", ("x", "y", "z")))
    original = np.stack([rng.integers(0, n, 60) for n in (30, 3)], axis=1).astype(np.int32)
    released = original.copy()
    released[:20, 0] = (released[:20, 0] + 2) % 30
    attack = Attack(categories, original, released, original)
    model, risk = model_and_risk(attack, 180)
    register = Register.modelled(risk, model)  # type: ignore[arg-type]
    release = release_of(attack)

    def widths() -> list[float]:
        ends = [links(release, register).interval for links in (exact_links, nearest_links, informed_links)]
        return [high - low for low, high in ends]

    with_errors = widths()
    low, high = informed_links(release, register).interval
    assert low <= informed_links(release, register).total <= high
    for kind_of_model in ("SELECTION", "ROUGH_SELECTION"):
        monkeypatch.setattr(f"rarecell.intruder.nearest.{kind_of_model}", ModelError())
    monkeypatch.setattr("rarecell.intruder.informed.OFF_BY", (1.0, 1.0))
    assert all(wide > narrow for wide, narrow in zip(with_errors, widths(), strict=True))
    # A file as it is was not selected from, and a real register is not estimated.
    unchanged = Release.unchanged(attack.table(original))
    assert model_error(release, register) == model_error(unchanged, register)
    monkeypatch.undo()
    assert model_error(release, register).spread > model_error(unchanged, register).spread
    assert model_error(release, register).understated > model_error(unchanged, register).understated == 0.0
    assert model_error(release, register_of(attack)) == ModelError()
    # Estimates of a model whose error is not known vary more, and more of those who stay are understated.
    average = rc.fit_backoff(risk.table)
    by_average = Register.modelled(rc.record_risk(risk.table, average, population=180), average)
    assert model_error(release, register).understated > 3.0 * model_error(release, by_average).understated > 0.0
    # What the file itself points to is half as large for links as for population uniques.
    of_file = Register.modelled(risk, model, model_error=0.4)  # type: ignore[arg-type]
    assert model_error(unchanged, of_file).spread == pytest.approx(0.2)


def test_intervals_hold_the_links_of_those_who_stay_because_their_risk_seemed_small() -> None:
    """Small samples of a known population, in which everybody above the threshold is moved to where many are."""
    keys = ("relationship", "age", "sex", "citizenship", "education", "employed")
    everybody = rc.Microdata(datasets.census_population(), keys=keys).table(records=True)
    codes, real = everybody.cells[everybody.cell_of_record], Register.counted(everybody)
    n_below, n_above = 0, 0
    for seed in range(60, 84):
        rows = np.sort(np.random.default_rng(seed).choice(len(codes), 1_400, replace=False))
        table = rc.ContingencyTable.from_codes(codes[rows], everybody.categories)
        model = rc.fit_backoff(with_resolutions(table, "multi"))
        risk = rc.record_risk(model.table, model, population=len(codes))
        released = codes[rows]
        released[risk.per_record()["unique_probability"] >= 0.2] = table.cells[table.counts.argmax()]
        release = Release.of_codes(codes[rows], released, table.categories)
        (low, high), true = exact_links(release, Register.modelled(risk, model)).interval, exact_links(release, real).total
        n_below, n_above = n_below + (true < low), n_above + (true > high)
    # Each end of an interval of 95 % is passed by one in forty.
    assert n_below <= 1
    assert n_above <= 1


def test_thousands_of_cells_around_a_claim_are_all_asked() -> None:
    """Among 8,000 cells some dozen strangers live, of whom one or two are nearer to a record that moved in all its keys."""
    categories = tuple(rc.Categories(name, tuple(range(20))) for name in "abc")
    original, released = np.array([[0, 0, 0], [1, 1, 1]], dtype=np.int32), np.array([[5, 5, 5], [1, 1, 1]], dtype=np.int32)
    model, risk = model_and_risk(Attack(categories, original, released, original), 14)
    release = Release.of_codes(original, released, categories)
    links = {
        most_cells: moved_links(release, Register.modelled(risk, model, **more)).link[0]  # type: ignore[arg-type]
        for most_cells, more in ((None, {}), (10_000, {"most_cells": 10_000}), (4_000, {"most_cells": 4_000}))
    }
    assert links[None] == pytest.approx(links[10_000], rel=1e-6)
    assert links[4_000] > 2.0 * links[None]


def test_recoding_can_bring_a_moved_record_back() -> None:
    """What holds for values that were merged alone does not for those that also moved: a band may take both values in."""
    fine, banded = (rc.Categories("age", tuple(range(n)), True) for n in (4, 2))
    original, released = np.array([[0], [3]], dtype=np.int32), np.array([[1], [3]], dtype=np.int32)
    persons = np.array([[0], [1], [3]], dtype=np.int32)
    before = nearest_links(
        Release.of_codes(original, released, [fine]), Register.counted(rc.ContingencyTable.from_codes(persons, [fine]))
    )
    after = nearest_links(
        Release.of_codes(original // 2, released // 2, [banded]),
        Register.counted(rc.ContingencyTable.from_codes(persons // 2, [banded])),
    )
    assert before.total == 1.0
    assert after.total == 1.5


def test_a_file_as_it_is_has_the_risk_of_the_assessment() -> None:
    rng = np.random.default_rng(5)
    codes = np.stack([rng.integers(0, n, 40) for n in (9, 3, 4)], axis=1).astype(np.int32)
    categories = tuple(rc.Categories(name, tuple(range(n)), n > 5) for name, n in zip("abc", (9, 3, 4), strict=True))
    table = rc.ContingencyTable.from_codes(codes, categories)
    model = rc.fit_backoff(table, n_orders=2)
    risk = rc.record_risk(table, model, population=400)
    register = Register.modelled(risk, model)
    for links in (exact_links, nearest_links, informed_links):
        found = links(Release.unchanged(table), register)
        assert found.total == pytest.approx(risk.expected_correct_matches)
        assert found.certain.sum() == pytest.approx(risk.expected_population_uniques)
        assert found.interval[0] <= found.total <= found.interval[1]


def test_files_with_other_numbers_of_records_are_refused() -> None:
    one = np.zeros((2, 1), dtype=np.int32)
    with pytest.raises(rc.RarecellError, match="same order"):
        Release.of_codes(one, one[:1], (rc.Categories("a", (0, 1)),))


def test_classes_of_people_have_the_probabilities_of_the_poisson_law() -> None:
    mean = np.concatenate([[0.0], np.exp(np.linspace(-20.0, 8.0, 200))])[:, None]
    wanted = stats.poisson.cdf(np.floor(CLASSES), mean) - stats.poisson.pmf(0, mean)
    np.testing.assert_allclose(_one_to_ends(mean), wanted, atol=1e-13)


@given(st.integers(1, 6), st.integers(1, 9), st.integers(0, 40), st.integers(0, 1_000))
def test_sums_over_balls_are_those_of_a_matrix(n_owners: int, n_columns: int, n_links: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    owner, column = rng.integers(0, n_owners, n_links), rng.integers(0, n_columns, n_links)
    rates = rng.random((3, n_columns))
    chosen = np.zeros((n_owners, n_columns))
    np.add.at(chosen, (owner, column), 1.0)
    np.testing.assert_allclose(ball_sums(owner, column, (n_owners, n_columns), rates), rates @ chosen.T, atol=1e-12)

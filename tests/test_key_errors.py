"""Claims against a register in which some values are wrong."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell.errors import BadInput, UnknownColumns
from rarecell.intruder.key_errors import KeyErrors, UnseenWithErrors, links_with_errors, shares_of_keys
from rarecell.intruder.nearest import exact_links, nearest_links
from rarecell.intruder.register import Persons, Register, distance_of
from rarecell.model.backoff import fit_backoff
from rarecell.release.release import Release
from rarecell.run.config import RunConfig
from rarecell.run.models import with_resolutions
from rarecell.table.contingency import Categories, ContingencyTable
from rarecell.table.distance import yardsticks
from tests.naive import key_errors as naive

CATEGORIES = (
    Categories("age", tuple(range(12)), is_ordered=True),
    Categories("job", tuple("abcdefgh")),
    Categories("sex", ("f", "m")),
)


FINER = (Categories("age", tuple(range(60)), is_ordered=True), Categories("job", tuple(map(str, range(20)))), CATEGORIES[2])


def people(n: int, seed: int, categories: tuple[Categories, ...] = CATEGORIES) -> np.ndarray:
    """Key codes of a population in which jobs depend on age and sex."""
    rng = np.random.default_rng(seed)
    n_ages, n_jobs = categories[0].n_levels, categories[1].n_levels
    age = np.minimum((n_ages * rng.beta(2, 3, n)).astype(int), n_ages - 1)
    sex = rng.integers(0, 2, n)
    job = np.minimum(rng.geometric(2.8 / n_jobs, n) - 1 + (age > n_ages / 2) * sex, n_jobs - 1)
    return np.stack([age, job, sex], axis=1).astype(np.int32)


def modelled(
    sample: np.ndarray, population: int, categories: tuple[Categories, ...] = CATEGORIES
) -> tuple[ContingencyTable, Register]:
    table = with_resolutions(ContingencyTable.from_codes(sample, categories), "multi")
    model = fit_backoff(table)
    return table, Register.modelled(rc.record_risk(table, model, population=population), model, seed=1)


def wrong_of(errors: KeyErrors) -> list[np.ndarray]:
    table = errors.table
    common = [
        np.bincount(table.cells[:, k], weights=table.counts, minlength=c.n_levels) / table.n_records
        for k, c in enumerate(table.categories)
    ]
    return [naive.wrong_values(c.n_levels, c.is_ordered, common[k]) for k, c in enumerate(table.categories)]


def test_chance_of_a_wrong_value_is_that_of_the_slow_twin():
    table = ContingencyTable.from_codes(people(400, 0), CATEGORIES)
    errors = KeyErrors(table, np.array([0.1, 0.2, 0.05]))
    for k, expected in enumerate(wrong_of(errors)):
        n = len(expected)
        value, other = (part.ravel().astype(np.int32) for part in np.indices((n, n)))
        assert errors.chance(k, value, other).reshape(n, n) == pytest.approx(expected, abs=1e-7)


def test_registered_values_are_drawn_with_these_chances():
    table = ContingencyTable.from_codes(people(400, 0), CATEGORIES)
    errors = KeyErrors(table, np.array([0.3, 0.4, 0.2]))
    true, n = (5, 2, 1), 60_000
    drawn = errors.registered(np.tile(np.array(true, dtype=np.int32), (n, 1)), np.random.default_rng(1))
    wrong = wrong_of(errors)
    for cell in [(5, 2, 1), (4, 2, 1), (5, 0, 1), (6, 1, 0)]:
        expected = naive.registered_as(errors.shares, wrong, true, cell)
        share = float((drawn == np.array(cell)).all(axis=1).mean())
        assert share == pytest.approx(expected, abs=5 * np.sqrt(expected / n))


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10_000), st.lists(st.floats(0.01, 0.6), min_size=3, max_size=3))
def test_origins_stand_for_all_cells_that_people_can_have_come_from(seed: int, shares: list[float]):
    table = ContingencyTable.from_codes(people(300, seed), CATEGORIES)
    errors = KeyErrors(table, np.array(shares))
    rng = np.random.default_rng(seed)
    rate = rng.gamma(1.0, 1.0, (12, 8, 2))
    cell = tuple(table.cells[0].tolist())
    origins, factor = errors.origins(np.tile(table.cells[:1], (30_000, 1)), rng)
    drawn = rate[tuple(origins.T)] * factor
    rates = {tuple(where): float(rate[where]) for where in product(range(12), range(8), range(2))}
    expected = naive.registered_rates(errors.shares, wrong_of(errors), rates)[cell]
    found = errors.right * rate[cell] + (1.0 - errors.right) * drawn.mean()
    spread = (1.0 - errors.right) * drawn.std() / np.sqrt(len(drawn))
    assert found == pytest.approx(expected, abs=6 * spread + 1e-6)


def test_rates_of_unseen_people_are_those_of_their_registered_values():
    table, register = modelled(people(300, 3), 3_000)
    errors = KeyErrors(table, np.array([0.1, 0.1, 0.05]))
    source = register.unseen
    cells = np.array(list(product(range(12), range(8), range(2))), dtype=np.int32)
    plain, weight = source.rates(cells)
    rates = dict(zip(map(tuple, cells.tolist()), (weight @ plain).tolist(), strict=True))
    expected = naive.registered_rates(errors.shares, wrong_of(errors), rates)
    unseen = UnseenWithErrors(source.table, source.model, source.per_probability, source.elsewhere, 8, 5, errors=errors)
    found, weight = unseen.rates(np.repeat(cells, 40, axis=0))
    mean = (weight @ found).reshape(len(cells), 40).mean(axis=1)
    large = np.array([expected[tuple(cell)] for cell in cells.tolist()])
    assert mean.sum() == pytest.approx(large.sum(), rel=0.03)
    assert np.corrcoef(mean, large)[0, 1] > 0.995


def test_claims_agree_with_registers_that_were_corrupted():
    codes = people(2_500, 4, FINER)
    shares = np.array([0.08, 0.05, 0.02])
    exact, nearest, counted = [], [], []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        chosen = rng.choice(len(codes), 250, replace=False)
        table, register = modelled(codes[chosen], len(codes), FINER)
        release = Release.unchanged(table)
        found = links_with_errors(release, register, KeyErrors(table, shares))
        exact.append(found[0].total)
        nearest.append(found[1].total)
        counted.append(_counted(codes, chosen, table, shares, rng))
    true_exact, true_nearest = np.mean(counted, axis=0)
    assert true_exact > 50
    assert np.mean(exact) == pytest.approx(true_exact, rel=0.2)
    assert np.mean(nearest) == pytest.approx(true_nearest, rel=0.2)


def _counted(codes, chosen, table, shares, rng) -> tuple[float, float]:
    """Right links of the uniques of a sample, counted in registers whose values were made wrong."""
    errors = KeyErrors(table, shares)
    cells = table.cells[table.unique_cells]
    own = [int(row) for cell in cells for row in chosen[(codes[chosen] == cell).all(axis=1)]]
    exact, nearest = [], []
    for _ in range(6):
        register = errors.registered(codes, rng)
        known = Persons(ContingencyTable.from_codes(register, FINER))
        same = (register[own] == cells).all(axis=1)
        exact.append((same / np.maximum(known.count_at(cells), 1)).sum())
        of_each = []
        for yardstick in yardsticks(table, None):
            bounds = distance_of(yardstick.near, cells, register[own])
            others = known.others(cells, bounds, yardstick.near)
            of_each.append(((others.n_nearer == 0) / np.maximum(others.n_tied, 1)).sum())
        nearest.append(max(of_each))
    return float(np.mean(exact)), float(np.mean(nearest))


def test_errors_only_take_exact_links_away_and_vanish_with_their_share():
    table, register = modelled(people(400, 7), 6_000)
    release = Release.unchanged(table)
    plain = exact_links(release, register).total
    tiny, large = (links_with_errors(release, register, KeyErrors(table, np.full(3, share))) for share in (1e-9, 0.2))
    assert tiny[0].total == pytest.approx(plain, rel=0.05)
    assert tiny[1].total == pytest.approx(tiny[0].total, rel=1e-6)
    assert large[0].total < 0.75 * plain
    assert large[0].total <= large[1].total + 1e-9
    low, high = large[0].interval
    assert low <= large[0].total <= high


def test_moved_records_are_found_where_an_error_brings_their_person_near():
    """A record moved by one year is not found by equal values, unless its person is registered a year off."""
    table, register = modelled(people(400, 7), 6_000)
    row = int(np.flatnonzero(table.counts[table.record_cell] == 1)[0])
    true = table.cells[table.record_cell[[row]]]
    released = true.copy()
    released[0, 0] += 1 if true[0, 0] < 11 else -1
    release = Release(table, np.array([row]), true, released)
    exact, nearest = links_with_errors(release, register, KeyErrors(table, np.array([0.5, 0.01, 0.01])))
    assert exact.of_moved > 0.0 or not release.moved_alone[0]
    assert nearest.total >= exact.total
    assert nearest_links(release, register).of_moved >= 0.0


@pytest.mark.parametrize(("text", "expected"), [("0.05", {"*": 0.05}), ("age=0.05,sex=0.01", {"age": 0.05, "sex": 0.01})])
def test_option_takes_one_share_or_one_for_each_key(text: str, expected: dict[str, float]):
    from rarecell.run.options import Shares

    assert Shares().read([text], "--key-error") == expected
    config = RunConfig(input="x.csv", keys=("age", "sex"), population=100, key_error=expected)
    assert RunConfig.from_toml(config.to_toml()).key_error == expected


def test_wrong_shares_are_refused():
    keys = {"input": "x.csv", "keys": ("age", "sex"), "population": 100}
    with pytest.raises(BadInput, match="errors that it has"):
        RunConfig(**keys, key_error={"*": 0.05}, register="people.csv")
    with pytest.raises(UnknownColumns, match="'job'"):
        RunConfig(**keys, key_error={"job": 0.05})
    with pytest.raises(BadInput):
        RunConfig(**keys, key_error={"age": 1.5})
    assert shares_of_keys({}, ["age"]) is None


@pytest.mark.parametrize("share", [float("nan"), float("inf"), -0.1, 1.0])
def test_shares_that_are_no_probabilities_of_an_error_are_refused(share: float):
    with pytest.raises(BadInput, match="at least 0 and less than 1"):
        shares_of_keys({"*": share}, ["age"])
    with pytest.raises(BadInput):
        RunConfig(input="x.csv", keys=("age",), population=100, key_error={"age": share})


def test_assessment_and_attack_say_what_errors_leave(tmp_path):
    import pyarrow as pa

    codes = people(700, 9)
    frame = pa.table({c.key: [c.levels[v] for v in codes[:, k]] for k, c in enumerate(CATEGORIES)})
    keys = ["age", "job", "sex"]
    plain, wrong = (rc.assess(frame, keys=keys, population=9_000, key_error=share) for share in ({}, {"*": 0.1}))
    assert plain.summary.risk.key_errors is None
    found = wrong.summary.risk.key_errors
    assert found.shares == dict.fromkeys(keys, 0.1)
    assert found.exact < wrong.summary.risk.expected_correct_matches
    assert wrong.summary.risk.expected_correct_matches == plain.summary.risk.expected_correct_matches
    assert "10 %" in found.sentence
    done = rc.attack(frame, original=frame, keys=keys, population=9_000, key_error=0.1)
    exact, nearest, *_ = done.summary.intruders
    assert exact.before == exact.after <= nearest.after
    assert "10 %" in exact.knows
    with pytest.raises(BadInput, match="errors that it has"):
        rc.attack(frame, original=frame, keys=keys, register=frame, key_error=0.1)


def test_the_command_attack_reads_shares(tmp_path):
    import pyarrow as pa
    import pyarrow.csv
    from click.testing import CliRunner

    from rarecell.cli.commands import attack

    codes = people(300, 9)
    path = str(tmp_path / "file.csv")
    pyarrow.csv.write_csv(pa.table({c.key: [c.levels[v] for v in codes[:, k]] for k, c in enumerate(CATEGORIES)}), path)
    words = [
        path,
        "--original",
        path,
        "--keys",
        "age,job,sex",
        "--population",
        "5000",
        "--key-error",
        "age=0.1,sex=0.02",
        "--json",
    ]
    done = CliRunner().invoke(attack, words, catch_exceptions=False)
    assert done.exit_code == 0
    assert "10 % of age" in done.output

"""Attacks on released files that any tool may have made."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import rarecell as rc
from rarecell.cli.commands import main
from rarecell.table.alignment import align
from tests.naive import intruder as naive
from tests.reference import census_table

RNG = np.random.default_rng(3)
KEYS = ["age", "sex", "region"]


def people(n: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "age": rng.integers(20, 60, n),
            "sex": np.array(["f", "m"])[rng.integers(0, 2, n)],
            "region": np.array(["north", "south", "west"])[rng.integers(0, 3, n)],
        }
    )


POPULATION = people(900, 1)
ORIGINAL = POPULATION.slice(0, 90)


def noised() -> pa.Table:
    age = ORIGINAL["age"].to_numpy() + np.random.default_rng(4).integers(-2, 3, ORIGINAL.num_rows)
    return ORIGINAL.set_column(0, "age", pa.array(age))


def banded() -> pa.Table:
    low = ORIGINAL["age"].to_numpy() // 10 * 10
    return ORIGINAL.set_column(0, "age", pa.array([f"{a}-{a + 9}" for a in low]))


def test_a_noised_file_beside_every_pair() -> None:
    done = rc.attack(noised(), original=ORIGINAL, keys=KEYS, register=POPULATION)
    tables = [rc.Microdata(data, KEYS).table(records=True) for data in (ORIGINAL, noised())]
    files = align(*tables, rc.Microdata(POPULATION, KEYS).table())
    assert files.register is not None
    persons = np.repeat(files.register.cells, files.register.counts, axis=0)
    nearest = {one.name: one for one in done.summary.intruders}["nearest"]
    totals = [
        sum(
            naive.nearest_links(
                files.original, files.released, persons, naive.distance_by_rank(files.categories, weight)
            ).values()
        )
        for weight in (1.0, 3.0, 10.0)
    ]
    assert nearest.after == pytest.approx(max(totals))
    assert nearest.after < nearest.before
    assert done.summary.is_counted
    assert done.summary.changed == int((noised()["age"].to_numpy() != ORIGINAL["age"].to_numpy()).sum())
    assert done.per_record().sum() == pytest.approx(nearest.after)
    assert done.likeliest(3)[0][1] == pytest.approx(done.per_record().max())


def test_a_recoded_file_is_met_by_a_recoded_register() -> None:
    done = rc.attack(banded(), original=ORIGINAL, keys=KEYS, register=POPULATION)
    assert done.summary.recoded == ("age",)
    assert done.summary.changed == 0
    band = POPULATION["age"].to_numpy() // 10
    cells = list(zip(band.tolist(), *(POPULATION[k].to_pylist() for k in KEYS[1:]), strict=True))
    own = list(zip((ORIGINAL["age"].to_numpy() // 10).tolist(), *(ORIGINAL[k].to_pylist() for k in KEYS[1:]), strict=True))
    expected = sum(1.0 / cells.count(cell) for cell in own if own.count(cell) == 1)
    assert {one.name: one.after for one in done.summary.intruders}["exact"] == pytest.approx(expected)


def test_swapped_values_of_keys_that_occur_once_are_no_recoding() -> None:
    original = pa.table({"age": [31, 42, 53], "sex": ["f", "f", "m"]})
    swapped = pa.table({"age": [42, 31, 53], "sex": ["f", "f", "m"]})
    done = rc.attack(swapped, original=original, keys=["age", "sex"], register=original)
    assert done.summary.recoded == ()
    assert done.summary.changed == 2
    assert {one.name: one.after for one in done.summary.intruders}["exact"] == 1.0


def test_values_are_compared_by_what_they_mean() -> None:
    as_text = ORIGINAL.set_column(0, "age", pa.array([str(age) for age in ORIGINAL["age"].to_pylist()]))
    done = rc.attack(as_text, original=ORIGINAL, keys=KEYS, register=POPULATION)
    assert done.summary.changed == 0
    assert done.summary.recoded == ()


def test_without_a_register_the_model_is_asked() -> None:
    done = rc.attack(noised(), original=ORIGINAL, keys=KEYS, population=900)
    assert not done.summary.is_counted
    counted = rc.attack(noised(), original=ORIGINAL, keys=KEYS, register=POPULATION)
    for one, true in zip(done.summary.intruders[:2], counted.summary.intruders[:2], strict=True):
        assert one.interval_after[0] - 3 <= true.after <= one.interval_after[1] + 3
    assert "is expected to be right" in str(done)


def test_what_cannot_be_attacked_is_said() -> None:
    with pytest.raises(rc.RarecellError, match="not both"):
        rc.attack(ORIGINAL, original=ORIGINAL, keys=KEYS)
    with pytest.raises(rc.RarecellError, match="same order"):
        rc.attack(ORIGINAL.slice(0, 5), original=ORIGINAL, keys=KEYS, population=900)
    table = census_table()
    with pytest.raises(rc.RarecellError, match="one by one"):
        align(rc.ContingencyTable.from_counts(table.cells, table.counts, table.categories), table)


def test_the_command(tmp_path: Path) -> None:
    from pyarrow import csv

    for name, data in (("original", ORIGINAL), ("released", noised()), ("register", POPULATION)):
        csv.write_csv(data, tmp_path / f"{name}.csv")
    arguments = [
        "attack",
        str(tmp_path / "released.csv"),
        "--original",
        str(tmp_path / "original.csv"),
        "--keys",
        "age,sex,region",
    ]
    done = CliRunner().invoke(main, [*arguments, "--register", str(tmp_path / "register.csv"), "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert [one["name"] for one in told["intruders"]] == ["exact", "nearest", "informed", "shadow", "participant"]
    shown = CliRunner().invoke(main, [*arguments, "--register", str(tmp_path / "register.csv"), "--list", "2"])
    assert "Somebody who holds" in shown.stdout
    assert re.search(r"Surer than *\n.* 0\.8\n", shown.stdout)
    assert re.search(r"shadow .* \d+, \d+ right\n", shown.stdout)
    assert "counted from 1 in the original (for internal use)" in shown.stdout
    released, original = (str(tmp_path / f"{name}.csv") for name in ("released", "original"))
    found = rc.attack(released, original=original, keys=KEYS, register=str(tmp_path / "register.csv")).likeliest(2)
    listed = re.findall(r"^ +([\d,–]+) +0?[.\d]+$", shown.stdout, flags=re.MULTILINE)[-2:]
    assert listed == [f"{row + 1:,}" if row >= 0 else "–" for row, _ in found]
    refused = CliRunner().invoke(main, arguments)
    assert refused.exit_code == 1
    assert "register" in refused.stderr


@pytest.mark.parametrize("wish", [{"risk_above": 0.1}, {"max_correct_links": 8.0}, {"formal": {"epsilon": 2.0}}])
def test_protection_with_a_register_counts_as_an_attack_does(wish: dict[str, object], tmp_path: Path) -> None:
    pq.write_table(POPULATION, tmp_path / "register.parquet")
    register = str(tmp_path / "register.parquet")
    assert len(set(POPULATION["age"].to_pylist())) > len(set(ORIGINAL["age"].to_pylist()))
    done = rc.protect(ORIGINAL, keys=KEYS, population=900, register=register, model="single", resolution="full", **wish)
    attacked = rc.attack(done.frame, original=ORIGINAL, keys=KEYS, register=POPULATION)
    swap = done.summary.swap
    assert swap is not None
    for told, counted in zip(swap.intruders, attacked.summary.intruders, strict=True):
        assert told.name == counted.name
        for name in ("before", "after", "swapped", "interval_after"):
            # Who gave values to whom is known to the plan; whoever compares two files guesses it.
            # The formal mode draws anew each time, so of a few links one or two more or less may be guessed.
            errors = {"rel": 0.25, "abs": 2.5} if told.name == "shadow" else {"rel": 1e-6}
            assert getattr(told, name) == pytest.approx(getattr(counted, name), **errors), (told.name, name)
        assert (told.estimated_after is None) == (told.name == "participant")
    nearest = swap.intruders[1]
    assert swap.risk_before.expected_correct_matches == pytest.approx(nearest.before)
    assert swap.risk_after.expected_correct_matches == pytest.approx(nearest.after)
    if "max_correct_links" in wish:
        assert swap.target is not None
        assert nearest.after <= 8.0 or not swap.target.met


def test_a_plan_knows_the_people_of_the_register(tmp_path: Path) -> None:
    pq.write_table(POPULATION, tmp_path / "register.parquet")
    done = rc.protect(
        ORIGINAL,
        keys=KEYS,
        population=900,
        register=str(tmp_path / "register.parquet"),
        risk_above=0.1,
        model="single",
        resolution="full",
    )
    register = done.plan.task.register
    assert register is not None
    assert register.is_real
    inside = [set(ORIGINAL[key].to_pylist()) for key in KEYS]
    people = list(zip(*(POPULATION[key].to_pylist() for key in KEYS), strict=True))
    known = sum(all(value in levels for value, levels in zip(person, inside, strict=True)) for person in people)
    assert register.known.table.n_records == known < len(people)
    cells = register.known.table.cells
    levels = [c.levels for c in register.known.table.categories]
    named = [tuple(levels[k][code] for k, code in enumerate(cell)) for cell in cells.tolist()]
    assert dict(zip(named, register.known.table.counts.tolist(), strict=True)) == {cell: people.count(cell) for cell in named}

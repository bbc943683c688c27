"""Released files as other tools make them: in another order, with fewer records, recoded and disturbed at once."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pyarrow import csv

import rarecell as rc
from rarecell import datasets
from rarecell.cli.commands import main
from rarecell.intruder.nearest import exact_links, nearest_links
from rarecell.intruder.participant import participant_links
from rarecell.intruder.register import Register
from rarecell.release.release import Release
from rarecell.table.alignment import meaning, recoding_of
from rarecell.table.distance import by_rank
from tests.naive import intruder as naive
from tests.strategies_intruder import Attack, attacks
from tests.test_attack import KEYS


def people(n: int, seed: int) -> pa.Table:
    """Many people are alike, and few are old or live in the west."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "age": np.minimum(20 + rng.exponential(12.0, n), 79).astype(np.int64),
            "sex": np.array(["f", "m"])[rng.integers(0, 2, n)],
            "region": rng.choice(["north", "south", "west"], n, p=[0.7, 0.25, 0.05]),
        }
    )


POPULATION = people(2_000, 11)
ORIGINAL = POPULATION.slice(0, 400).append_column("id", pa.array(np.random.default_rng(12).permutation(400)))
AGE = ORIGINAL["age"].to_numpy()


def noised(seed: int = 13) -> pa.Table:
    rng = np.random.default_rng(seed)
    return ORIGINAL.set_column(0, "age", pa.array(AGE + np.where(rng.random(400) < 0.3, rng.integers(-2, 3, 400), 0)))


def after(released: pa.Table, **given_as: object) -> dict[str, float]:
    done = rc.attack(released, original=ORIGINAL, keys=KEYS, register=POPULATION, **given_as)  # type: ignore[arg-type]
    return {one.name: one.after for one in done.summary.intruders}


# ---------------------------------------------------------------------- which record is whose


def test_records_in_another_order_are_refused_or_paired_by_their_id() -> None:
    order = np.random.default_rng(14).permutation(400)
    with pytest.raises(rc.RarecellError, match="'id' has the same values in both files, but in other rows"):
        after(noised().take(order))
    with pytest.raises(rc.RarecellError, match="no better than rows taken at random"):
        after(noised().take(order).drop_columns(["id"]))
    assert after(noised().take(order), id="id") == pytest.approx(after(noised()))


@pytest.mark.parametrize("made", ["noise", "continuous noise", "bands", "one column shuffled", "blank"])
def test_files_in_the_right_order_are_not_refused(made: str) -> None:
    rng = np.random.default_rng(15)
    age = {
        "noise": pa.array(AGE + rng.integers(-5, 6, 400)),
        "continuous noise": pa.array(AGE + rng.normal(0, 4, 400)),
        "bands": pa.array([f"{a // 10}x" for a in AGE]),
        "one column shuffled": pa.array(rng.permutation(AGE)),
        "blank": pa.nulls(400, pa.int64()),
    }[made]
    keys_alone = ORIGINAL.drop_columns(["id"])
    released = keys_alone.set_column(0, "age", age)
    rc.attack(released, original=keys_alone, keys=KEYS, register=POPULATION)


def test_records_that_were_not_released_are_found_by_nobody() -> None:
    kept = np.sort(np.random.default_rng(16).choice(400, 300, replace=False))
    done = rc.attack(noised().take(kept), original=ORIGINAL, keys=KEYS, register=POPULATION, id="id")
    assert done.summary.not_released == 100
    assert done.per_record()[np.setdiff1d(np.arange(400), kept)].sum() == 0.0
    whole = rc.attack(noised(), original=ORIGINAL, keys=KEYS, register=POPULATION)
    assert done.summary.intruders[1].before == pytest.approx(whole.summary.intruders[1].before)
    with pytest.raises(rc.RarecellError, match="name it with --id"):
        after(noised().take(kept))


@pytest.mark.parametrize(
    ("ids", "complaint"),
    [
        ([0, 0, *range(2, 400)], "more than once"),
        ([None, *range(1, 400)], "missing values"),
        ([*range(399), 1_000], "that no record of"),
    ],
)
def test_an_id_that_does_not_pair_records_is_refused(ids: list[int | None], complaint: str) -> None:
    with pytest.raises(rc.RarecellError, match=complaint):
        after(noised().set_column(3, "id", pa.array(ids)), id="id")


@given(attacks(), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_intruders_where_some_records_are_gone(attack: Attack, seed: int) -> None:
    kept = np.flatnonzero(np.random.default_rng(seed).random(len(attack.original)) < 0.7)
    assume(len(kept))
    released = np.full_like(attack.released, -1)
    released[kept] = attack.released[kept]
    release = Release.of_codes(attack.original, released, attack.categories)
    register = Register.counted(attack.table(attack.register))
    apart, family = naive.distance_by_rank(attack.categories, 3.0), [by_rank(release.before, 3.0)]
    own, new = attack.original[kept], attack.released[kept]
    exact = naive.exact_links(own, new, attack.register)
    nearest = naive.nearest_links(own, new, attack.register, apart)
    for found, expected in (
        (exact_links(release, register), exact),
        (nearest_links(release, register, family=family), nearest),
    ):
        by_row = dict(zip(found.row.tolist(), found.link.tolist(), strict=True))
        assert by_row == pytest.approx({int(kept[row]): link for row, link in expected.items()})
    alone = [row for row in kept.tolist() if (attack.original == attack.original[row]).all(axis=1).sum() == 1]
    alone += [row for row in kept.tolist() if (new == attack.released[row]).all(axis=1).sum() == 1]
    total = 0.0
    for row in set(alone):
        n_nearer, n_tied = naive.others(new, attack.original[row], apart(attack.original[row], attack.released[row]), apart)
        total += 0.0 if n_nearer else 1.0 / n_tied
    assert participant_links(release, family=family).total == pytest.approx(total)


# ---------------------------------------------------------------------- recoded, and more


def banded(age: np.ndarray) -> list[str]:
    return [f"{a // 5 * 5}–{a // 5 * 5 + 4}" for a in age.tolist()]


def test_bands_are_recognised_in_a_file_that_was_swapped_and_blanked_as_well() -> None:
    """The truth is counted with everybody in bands; a file whose bands went unnoticed would seem to be safe."""
    rng = np.random.default_rng(17)
    age = AGE.copy()
    # A value whose only record was swapped could have become anything.
    swapped = rng.choice(np.flatnonzero(AGE < 50), 40, replace=False)
    age[swapped] = age[np.roll(swapped, 1)]
    is_blank = (rng.random(400) < 0.05) & (AGE < 50)
    released = ORIGINAL.set_column(0, "age", pa.array(banded(age), mask=is_blank))
    # Of ages that no record has it may be unknown to which band they belong.
    register = POPULATION.filter(pa.array(np.isin(POPULATION["age"].to_numpy(), AGE)))
    done = rc.attack(released, original=ORIGINAL, keys=KEYS, register=register)
    assert done.summary.recoded == ("age",)

    bands = sorted(set(banded(AGE)), key=lambda band: int(band.split("–")[0]))
    place = {band: code for code, band in enumerate(bands)}
    others = [np.unique(register[key].to_pylist(), return_inverse=True)[1] for key in KEYS[1:]]
    population = np.stack([[place[b] for b in banded(register["age"].to_numpy())], *others], axis=1)
    original = population[:400]
    new = original.copy()
    new[:, 0] = [len(bands) if blank else place[band] for blank, band in zip(is_blank, banded(age), strict=True)]

    def apart(weight: float, one: np.ndarray, other: np.ndarray) -> float:
        steps = 1.0 if len(bands) in (one[0], other[0]) and one[0] != other[0] else abs(one[0] - other[0]) / (len(bands) - 1)
        return weight * steps + float((one[1:] != other[1:]).sum())

    totals = [sum(naive.nearest_links(original, new, population, partial(apart, weight)).values()) for weight in (1.0, 3.0, 10.0)]
    assert {one.name: one.after for one in done.summary.intruders}["nearest"] == pytest.approx(max(totals))
    assert max(totals) > 1.0


def test_before_is_what_is_found_in_the_original_as_it_is() -> None:
    released = ORIGINAL.set_column(0, "age", pa.array(banded(AGE)))
    for basis in ({"register": POPULATION}, {"population": 2_000}):
        recoded, plain = (
            rc.attack(file, original=ORIGINAL, keys=KEYS, **basis)  # type: ignore[arg-type]
            for file in (released, ORIGINAL)
        )
        for one, other in zip(recoded.summary.intruders, plain.summary.intruders, strict=True):
            assert one.before == pytest.approx(other.before)
            assert one.after < other.after


def test_what_protect_recodes_and_swaps_is_attacked_as_it_says() -> None:
    keys, sample = ["age", "sex", "marital", "relationship"], datasets.census_sample().slice(0, 3_000)
    done = rc.protect(sample, keys=keys, population=85_000, risk_above=0.1, recode={"age": "bands of 5"})
    attacked = rc.attack(done.frame, original=sample, keys=keys, population=85_000)
    assert attacked.summary.recoded == ("age",)
    assert done.summary.swap is not None
    assert attacked.summary.changed == len(done.plan.rows) > 20
    told = {one.name: one.after for one in done.summary.swap.intruders}
    found = {one.name: one.after for one in attacked.summary.intruders}
    assert told["nearest"] > 10
    for name in ("exact", "nearest", "informed", "shadow"):
        assert found[name] == pytest.approx(told[name], rel=0.1)
    assert found["participant"] == pytest.approx(told["participant"])


def categories(*levels: object, ordered: bool = False) -> rc.Categories:
    return rc.Categories("key", levels, ordered)  # type: ignore[arg-type]


def test_values_that_were_only_disturbed_are_no_recoding() -> None:
    rng = np.random.default_rng(18)
    age = categories(*range(20, 60), ordered=True)
    codes = rng.integers(0, 40, 2_000).astype(np.int32)
    for share in (0.05, 0.3, 1.0):
        moves = rng.random(2_000) < share
        new = np.where(moves, np.clip(codes + rng.integers(-3, 4, 2_000), 0, 39), codes).astype(np.int32)
        assert recoding_of(age, age, codes, new) is None
    swapped = codes.copy()
    chosen = rng.choice(2_000, 600, replace=False)
    swapped[chosen] = codes[np.roll(chosen, 1)]
    assert recoding_of(age, age, codes, swapped) is None


def test_a_top_code_with_some_values_blanked() -> None:
    rng = np.random.default_rng(19)
    age, released = categories(*range(100), ordered=True), categories(*range(86), None, ordered=True)
    codes = np.minimum(rng.exponential(30.0, 4_000), 99).astype(np.int32)
    new = np.where(rng.random(4_000) < 0.1, 86, np.minimum(codes, 85)).astype(np.int32)
    rule = recoding_of(age, released, codes, new)
    assert rule is not None
    assert rule.is_ordered
    assert rule.levels == released.levels
    seen = np.unique(codes)
    assert (rule.of_original[seen] == np.minimum(seen, 85)).all()


@given(st.integers(0, 2**32 - 1), st.floats(0.0, 0.15))
@settings(max_examples=30, deadline=None)
def test_bands_keep_the_order_of_their_values(seed: int, disturbed: float) -> None:
    rng = np.random.default_rng(seed)
    width = int(rng.integers(2, 9))
    age = categories(*range(60), ordered=True)
    bands = categories(*sorted(f"from {low}" for low in range(0, 60, width)))
    code_of = {label: code for code, label in enumerate(bands.levels)}
    true = np.array([code_of[f"from {a // width * width}"] for a in range(60)], dtype=np.int32)
    codes = np.repeat(np.arange(60, dtype=np.int32), 8)
    new = np.where(rng.random(480) < disturbed, rng.permutation(true[codes]), true[codes]).astype(np.int32)
    rule = recoding_of(age, bands, codes, new)
    assert rule is not None
    assert (rule.of_original == rule.of_released[true]).all()
    assert rule.is_ordered
    assert all(one <= other for one, other in pairwise(rule.of_original.tolist()))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, "1", True),
        (1.0, 1, True),
        ("1", "01", False),
        ("1E2", "100", False),
        ("1_0", "10", False),
        ("-3", -3, True),
        (None, "", False),
    ],
)
def test_values_mean_the_same(one: object, other: object, same: bool) -> None:
    assert (meaning(one) == meaning(other)) is same


def test_a_register_in_other_codes_is_refused() -> None:
    coded = POPULATION.set_column(1, "sex", pa.array([f"0{1 + (sex == 'm')}" for sex in POPULATION["sex"].to_pylist()]))
    with pytest.raises(rc.RarecellError, match="No value of key 'sex' in the register"):
        rc.attack(noised(), original=ORIGINAL, keys=KEYS, register=coded)
    part = rc.attack(noised(), original=ORIGINAL, keys=KEYS, register=POPULATION.slice(200))
    assert 0 < part.summary.not_in_register <= 200


# ---------------------------------------------------------------------- weights, and the command


def test_weights_say_how_many_people_a_record_stands_for() -> None:
    weighted = ORIGINAL.append_column("weight", pa.array(np.full(400, 5.0)))
    done = rc.attack(noised(), original=weighted, keys=KEYS, weight="weight")
    plain = rc.attack(noised(), original=ORIGINAL, keys=KEYS, population=2_000)
    assert done.summary.population == pytest.approx(2_000)
    for one, other in zip(done.summary.intruders, plain.summary.intruders, strict=True):
        assert one.before == pytest.approx(other.before, rel=0.02)
        assert one.after == pytest.approx(other.after, rel=0.1)
    few = ORIGINAL.append_column("weight", pa.array(np.where(ORIGINAL["sex"].to_numpy(zero_copy_only=False) == "f", 1.5, 8.5)))
    uneven = rc.attack(noised(), original=few, keys=KEYS, weight="weight")
    assert uneven.summary.intruders[0].before > 1.2 * plain.summary.intruders[0].before
    with pytest.raises(rc.RarecellError, match="not both"):
        rc.attack(noised(), original=weighted, keys=KEYS, weight="weight", register=POPULATION)


def test_the_command_pairs_by_id_and_counts_from_one(tmp_path: Path) -> None:
    order = np.random.default_rng(20).permutation(400)[:350]
    csv.write_csv(ORIGINAL, tmp_path / "original.csv")
    csv.write_csv(noised().take(order), tmp_path / "released.csv")
    csv.write_csv(POPULATION, tmp_path / "register.csv")
    arguments = ["attack", str(tmp_path / "released.csv"), "--original", str(tmp_path / "original.csv"), "--keys", ",".join(KEYS)]
    arguments += ["--register", str(tmp_path / "register.csv"), "--list", "1"]
    refused = CliRunner().invoke(main, arguments)
    assert refused.exit_code == 1
    assert "--id" in refused.stderr
    done = CliRunner().invoke(main, [*arguments, "--id", "id"])
    assert done.exit_code == 0, done.output
    assert "50 records of the original are not in the released file" in " ".join(done.stdout.split())
    found = rc.attack(noised().take(order), original=ORIGINAL, keys=KEYS, register=POPULATION, id="id")
    assert done.stdout.split()[-2:] == [str(found.likeliest(1)[0][0] + 1), f"{found.likeliest(1)[0][1]:.3f}"]


def test_files_in_another_encoding_and_sheets_of_workbooks_are_attacked(tmp_path: Path) -> None:
    frame = people(200, 3).to_pandas().replace({"region": {"north": "Süd", "south": "Öst"}})
    frame.to_csv(tmp_path / "old.csv", index=False, sep=";", encoding="latin-1")
    frame.iloc[::-1].to_csv(tmp_path / "new.csv", index=False, sep=";", encoding="latin-1")
    with pd.ExcelWriter(tmp_path / "old.xlsx") as book:
        pd.DataFrame({"Notes": ["Read the next sheet"]}).to_excel(book, sheet_name="Read me", index=False)
        frame.to_excel(book, sheet_name="Data", index=False)
    words = ["attack", str(tmp_path / "old.csv"), "--keys", "age,sex,region", "--population", "5000", "--quiet"]
    done = CliRunner().invoke(main, [*words, "--original", str(tmp_path / "old.csv"), "--encoding", "latin-1", "--decimal", ","])
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(main, [*words, "--original", str(tmp_path / "old.xlsx"), "--sheet", "Data"])
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(main, [*words, "--original", str(tmp_path / "old.xlsx"), "--sheet", "Daten"])
    assert done.exit_code == 1
    assert "no sheet 'Daten'" in done.output

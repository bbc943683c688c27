"""Households as records: rows that hold a household whatever the order of the file, their risk, and what a run says of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv

import rarecell as rc
from rarecell import datasets
from rarecell.cli.commands import main
from rarecell.errors import BadInput
from rarecell.outcome.decision import _coarser
from rarecell.outcome.summary import RunSummary
from rarecell.outcome.verdict import verdict
from rarecell.report.edition import external
from rarecell.report.first_page import first_page
from rarecell.risk.families import looks_like_households, why_incomplete
from rarecell.run import households
from rarecell.table.contingency import Categories
from rarecell.table.household_rows import LARGEST_FAMILY, NOBODY, SIZE, Members, find_layout
from tests.naive import families as naive
from tests.office_files import spss

CATEGORIES = (
    Categories("relation", ("child", "head", "spouse")),
    Categories("age", tuple(range(40)), is_ordered=True),
    Categories("sex", ("f", "m")),
)


def drawn_homes(seed: int, n_homes: int, most: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Codes of the members and the number of their household; the first member of each is its head."""
    rng = np.random.default_rng(seed)
    size = rng.integers(1, most + 1, n_homes)
    household = np.repeat(np.arange(n_homes), size)
    place = np.arange(len(household)) - np.repeat(np.cumsum(size) - size, size)
    relation = np.where(place == 0, 1, np.where(place == 1, 2, 0))
    age = np.where(place < 2, 20 + rng.integers(0, 4, len(place)), rng.integers(0, 4, len(place)))
    codes = np.stack([relation, age, rng.integers(0, 2, len(place))], axis=1).astype(np.int32)
    shuffled = rng.permutation(len(place))
    return codes[shuffled], household[shuffled]


def frame_of(codes: np.ndarray, household: np.ndarray) -> pa.Table:
    columns = {c.key: np.array(c.levels, dtype=object)[codes[:, k]].tolist() for k, c in enumerate(CATEGORIES)}
    return pa.table({**columns, "home": household})


@given(st.integers(0, 2**32 - 1), st.integers(2, 40))
@settings(max_examples=40, deadline=None)
def test_two_households_share_a_row_exactly_if_they_have_the_same_members(seed: int, n_homes: int) -> None:
    codes, household = drawn_homes(seed, n_homes)
    layout = find_layout(codes, CATEGORIES, household)
    whole = layout.rows(codes, household)
    if layout.n_places < whole.members.size.max():
        return  # members without a place are tested below
    counts = whole.table.counts[whole.table.record_cell]
    unique = {home for home, n in zip(whole.members.number.tolist(), counts.tolist(), strict=True) if n == 1}
    assert unique == naive.unique_households(codes.tolist(), household.tolist(), LARGEST_FAMILY)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_the_order_of_the_file_does_not_matter(seed: int) -> None:
    codes, household = drawn_homes(seed, 25)
    mixed = np.random.default_rng(seed + 1).permutation(len(codes))
    layout = find_layout(codes, CATEGORIES, household)
    again = find_layout(codes[mixed], CATEGORIES, household[mixed])
    assert [c.name for c in layout.columns] == [c.name for c in again.columns]
    np.testing.assert_array_equal(layout.rows(codes, household).codes, again.rows(codes[mixed], household[mixed]).codes)


def test_members_take_places_by_householder_and_age() -> None:
    codes, household = drawn_homes(3, 60)
    layout = find_layout(codes, CATEGORIES, household)
    assert layout.placed_by == ("relation", "age")
    rows = layout.rows(codes, household)
    names = [c.key for c in rows.table.categories]
    # Every first member is a head, so this column is constant and drops out; a spouse comes before the children.
    assert SIZE in names
    assert "relation 1" not in names
    assert "age 1" in names
    second = rows.table.categories[names.index("relation 2")]
    assert set(np.array(second.levels)[rows.codes[:, names.index("relation 2")]]) == {NOBODY, "spouse"}
    third, fourth = (rows.codes[:, names.index(name)] for name in ("age 3", "age 4"))
    assert (third >= fourth).all()


def test_places_are_taken_back_to_records() -> None:
    codes, household = drawn_homes(5, 30)
    members = find_layout(codes, CATEGORIES, household).rows(codes, household).members
    for home in range(members.n_households):
        at = members.at[home][members.at[home] >= 0]
        assert (household[at] == members.number[home]).all()
        assert len(at) == members.size[home]
        assert (members.of_record[at] == home).all()
        assert members.place[at].tolist() == list(range(len(at)))


def test_keys_that_all_members_share_stand_once() -> None:
    codes, household = drawn_homes(8, 30)
    region = (household % 3).astype(np.int32)
    keys = (*CATEGORIES, Categories("region", ("a", "b", "c")))
    layout = find_layout(np.column_stack([codes, region]), keys, household)
    assert [c.name for c in layout.columns if "region" in c.name] == ["region"]


def test_institutions_have_no_row_and_are_told() -> None:
    codes, household = drawn_homes(2, 30)
    many = np.tile(codes[:1], (LARGEST_FAMILY + 1, 1))
    codes, household = np.concatenate([codes, many]), np.concatenate([household, np.full(len(many), 999)])
    rows = find_layout(codes, CATEGORIES, household).rows(codes, household)
    assert rows.members.n_institutions == 1
    assert rows.members.n_inmates == LARGEST_FAMILY + 1
    assert (rows.members.of_record[-len(many) :] == -1).all()
    assert 999 not in rows.members.number
    assert any("not a family" in sentence for sentence in rows.sentences())
    assert (rows.members.spread(np.ones(rows.members.n_households))[-len(many) :] == 0.0).all()


def test_members_beyond_the_places_are_told() -> None:
    rng = np.random.default_rng(0)
    keys = tuple(Categories(f"k{k}", ("a", "b")) for k in range(12))
    household = np.repeat(np.arange(20), 9)
    codes = rng.integers(0, 2, (180, 12)).astype(np.int32)
    rows = find_layout(codes, keys, household).rows(codes, household)
    assert len(rows.layout.columns) <= 64
    assert rows.n_beyond == 20 * (9 - rows.layout.n_places) > 0
    assert any("no place" in sentence for sentence in rows.sentences())


# ---------------------------------------------------------------------- a run


@pytest.fixture(scope="module")
def homes() -> tuple[pa.Table, pa.Table]:
    """A population of households, and a sample of whole households of it."""
    codes, household = drawn_homes(11, 3000)
    picked = np.isin(household, np.random.default_rng(1).choice(3000, 500, replace=False))
    return frame_of(codes, household), frame_of(codes[picked], household[picked])


@pytest.fixture(scope="module")
def assessed(homes: tuple[pa.Table, pa.Table]) -> rc.run.results.Assessment:
    population, sample = homes
    return rc.assess(sample, keys=["relation", "age", "sex"], population=len(population), household="home", register=population)


def test_a_run_counts_families_in_the_register(homes: tuple[pa.Table, pa.Table], assessed: rc.run.results.Assessment) -> None:
    population, sample = homes
    in_file, in_register = (naive.compositions(_coded(frame), frame["home"].to_pylist()) for frame in (sample, population))
    families = assessed.families
    assert families is not None
    assert families.register is not None
    rows = families.rows
    times = naive.population_counts(in_file, in_register)
    places = rows.layout.n_places
    if places >= rows.members.size.max():
        for home, cell in zip(rows.members.number.tolist(), families.cell.tolist(), strict=True):
            label = sorted(in_file)[home]
            assert families.register.population_count[cell] == times[label]
    told = assessed.summary.risk.families
    assert told is not None
    assert told.register is not None
    assert told.households == len(in_file)
    assert told.register.households == len(in_register)
    true = sum(1 for home, n in times.items() if n == 1)
    assert told.register.population_uniques == true
    assert told.register.persons == sum(len(in_file[home]) for home, n in times.items() if n == 1)
    assert told.interval[0] <= told.expected_population_uniques <= told.interval[1]
    assert true == 0 or 0.7 < told.expected_population_uniques / true < 1.4


def _coded(frame: pa.Table) -> list[list[int]]:
    index = [{level: code for code, level in enumerate(c.levels)} for c in CATEGORIES]
    return [[index[k][frame[c.key][row].as_py()] for k, c in enumerate(CATEGORIES)] for row in range(len(frame))]


def test_every_record_has_the_risk_of_its_household(assessed: rc.run.results.Assessment) -> None:
    families = assessed.families
    assert families is not None
    frame = assessed.to_frame()
    unique = frame["household_unique_probability"].to_numpy()
    match = frame["household_match_probability"].to_numpy()
    home = assessed.data.household_codes()
    for code in np.unique(home)[:50]:
        assert len(set(unique[home == code].tolist())) == 1
    assert (match >= unique - 1e-12).all()
    larger = families.larger(frame["unique_probability"].to_numpy())
    assert (larger >= unique).all()
    assert families.size.sum() == len(larger)


def test_verdict_and_gate_use_the_larger_risk_unless_households_are_unknown(homes: tuple[pa.Table, pa.Table]) -> None:
    population, sample = homes
    options = {"keys": ["relation", "age", "sex"], "population": len(population), "household": "home"}
    known, unknown = (rc.assess(sample, households_known=word, **options).summary for word in ("yes", "no"))
    assert known.risk.families is not None
    assert unknown.risk.families is not None
    assert known.highest_risk >= unknown.highest_risk == unknown.risk.highest
    assert "family" in known.risk.verdict
    assert "family" not in unknown.risk.verdict
    assert any("--households-known no" in note for note in unknown.notes)


def test_a_sample_of_persons_has_no_families(homes: tuple[pa.Table, pa.Table]) -> None:
    population, _ = homes
    few = population.take(np.sort(np.random.default_rng(4).choice(len(population), 500, replace=False)))
    found = rc.assess(few, keys=["relation", "age", "sex"], population=len(population), household="home")
    assert found.families is None
    assert found.summary.risk.families is None
    assert any("composition" in note and "not known" in note for note in found.summary.notes)
    assert "household_unique_probability" not in found.to_frame().column_names


def test_a_stated_size_shows_that_members_are_missing() -> None:
    codes, household = drawn_homes(6, 200)
    size = np.bincount(household)[household]
    keys = (*CATEGORIES, Categories("persons", tuple(range(1, 7)), is_ordered=True))
    stated = np.column_stack([codes, size - 1]).astype(np.int32)
    assert why_incomplete(stated, keys, Members.of(stated, household), fraction=0.1) is None
    kept = np.random.default_rng(0).random(len(codes)) < 0.6
    reason = why_incomplete(stated[kept], keys, Members.of(stated[kept], household[kept]), fraction=0.1)
    assert reason is not None
    assert "persons" in reason


def test_several_columns_identify_a_household(homes: tuple[pa.Table, pa.Table]) -> None:
    _, sample = homes
    home = sample["home"].to_numpy()
    split = sample.append_column("area", pa.array(home // 100)).append_column("number", pa.array(home % 100))
    one = rc.Microdata(sample, keys=["age"], household="home").household_codes()
    two = rc.Microdata(split, keys=["age"], household="area,number").household_codes()
    np.testing.assert_array_equal(np.unique(one, return_inverse=True)[1], np.unique(two, return_inverse=True)[1])


def test_a_column_for_the_order_of_members_is_used(homes: tuple[pa.Table, pa.Table]) -> None:
    population, sample = homes
    by_sex = rc.assess(
        sample, keys=["relation", "age", "sex"], population=len(population), household="home", household_order=["sex"]
    )
    assert by_sex.families is not None
    rows = by_sex.families.rows
    names = [c.key for c in rows.table.categories]
    first, second = (rows.codes[:, names.index(name)] for name in ("sex 1", "sex 2"))
    assert (first[second > 0] <= second[second > 0]).all()


def test_the_riskiest_family_is_explained_by_what_nobody_else_has(assessed: rc.run.results.Assessment) -> None:
    families = assessed.families
    assert families is not None
    for row in families.riskiest(5).tolist():
        columns = list(families.rows.telling_columns(row))
        alike = (families.rows.codes[:, columns] == families.rows.codes[row, columns]).all(axis=1)
        assert alike.sum() == 1
        for left_out in columns:
            fewer = [k for k in columns if k != left_out]
            assert not fewer or (families.rows.codes[:, fewer] == families.rows.codes[row, fewer]).all(axis=1).sum() > 1
        size = families.size[row]
        assert families.rows.why_alone(row).startswith(f"Of 500 households of the file only this one is a household of {size}")


def test_a_family_that_has_a_double_says_so() -> None:
    codes = np.array([[0, 4, 0], [1, 2, 1]] * 2 + [[0, 1, 1]], dtype=np.int32)
    home = np.array([1, 1, 2, 2, 3])
    rows = find_layout(codes, CATEGORIES, home).rows(codes, home)
    assert rows.why_alone(0) == "1 other household of the file has the same members, as far as the keys tell."
    assert rows.why_alone(2).startswith("Of 3 households of the file only this one is a household of 1")


# ---------------------------------------------------------------------- intruders who know other columns


def _with_towns(frame: pa.Table) -> pa.Table:
    """Every household in one of four towns of two regions."""
    town = frame["home"].to_numpy() % 4
    regions = np.array(["east", "west"])[town // 2]
    return frame.append_column("region", pa.array(regions)).append_column("town", pa.array([f"town {t}" for t in town]))


def test_areas_and_groups_count_records_by_the_larger_risk(homes: tuple[pa.Table, pa.Table]) -> None:
    population, sample = (_with_towns(frame) for frame in homes)
    options = {"keys": ["relation", "age", "sex"], "population": len(population), "household": "home", "geography": "region>town"}
    found = rc.assess(sample, **options)
    without, region, town = found.summary.risk.areas
    families = found.summary.risk.families
    assert without.expected_recognised == pytest.approx(families.expected_records)
    assert without.above_threshold == families.records_above_threshold
    # A finer area tells more, and a separate run with the area as a key says the same.
    assert families.expected_records < region.expected_recognised < town.expected_recognised
    with_town = rc.assess(sample, **{**options, "keys": ["relation", "age", "sex", "town"], "geography": None})
    assert town.expected_recognised == pytest.approx(with_town.summary.risk.families.expected_records, rel=0.01)
    assert sum(area.expected_recognised for area in town.areas) == pytest.approx(town.expected_recognised)
    assert sum(area.above_threshold for area in town.areas) == town.above_threshold
    larger = found.families.larger(found.risk.per_record()["unique_probability"])
    for group in found.summary.groups:
        if group.key == "sex":
            belongs = np.array(sample["sex"].to_pylist()).astype(str) == group.level
            assert group.expected_recognised == pytest.approx(larger[belongs].sum())
    unknown = rc.assess(sample, households_known="no", **options).summary
    assert unknown.risk.areas[0].expected_recognised is None
    assert unknown.risk.areas[0].above_threshold == unknown.risk.records_above_threshold
    assert all(group.expected_recognised is None for group in unknown.groups)


def test_a_scenario_knows_families_by_its_own_keys(homes: tuple[pa.Table, pa.Table]) -> None:
    population, sample = homes
    options = {"population": len(population), "household": "home", "register": population, "threshold": 0.9}
    found = rc.assess(
        sample, keys=["relation", "age", "sex"], scenario={"ages": ["age"], "all": ["relation", "age", "sex"]}, **options
    )
    ages, every = found.summary.risk.scenarios
    whole = found.summary.risk.families
    assert every.records_above_threshold == whole.records_above_threshold
    # Members keep the places that all keys give them: the number of households alone by their ages is not below the truth.
    alone = naive.unique_households([[row[1]] for row in _coded(population)], population["home"].to_pylist(), LARGEST_FAMILY)
    true = int(np.isin(sample["home"].to_numpy(), [*alone]).sum())
    assert true <= ages.records_above_threshold <= whole.records_above_threshold
    columns = found.to_frame()
    assert columns["worst_probability"].to_numpy().max() == pytest.approx(max(ages.highest, every.highest))
    assert (columns["worst_probability"].to_numpy() >= 0.9).sum() == found.summary.risk.above_in_a_scenario


def test_a_record_is_explained_with_its_family(homes: tuple[pa.Table, pa.Table], tmp_path, capsys) -> None:
    population, sample = homes
    pq.write_table(sample, tmp_path / "homes.parquet")
    options = {"keys": ["relation", "age", "sex"], "population": len(population), "household": "home"}
    found = rc.assess(str(tmp_path / "homes.parquet"), out=tmp_path / "run", **options)
    record = int(np.argmax(found.families.of_records()[0]))
    with pytest.raises(SystemExit):
        main(["explain", str(tmp_path / "run"), "--record", str(record + 1)])
    told = " ".join(capsys.readouterr().out.split())
    assert (
        f"Its family is the only one of its kind in the population with probability {found.families.of_records()[0][record]:.3f}"
        in told
    )
    assert "only this one is a household of" in told


def test_the_command_writes_families(homes: tuple[pa.Table, pa.Table], tmp_path, capsys) -> None:
    population, sample = homes
    pq.write_table(sample, tmp_path / "homes.parquet")
    with pytest.raises(SystemExit) as done:
        main(
            [
                *("assess", str(tmp_path / "homes.parquet"), "--keys", "relation,age,sex", "--household", "home"),
                *("--population", str(len(population)), "--out", str(tmp_path / "run"), "--fail-above", "0.3"),
            ]
        )
    assert done.value.code == 3
    assert "family" in capsys.readouterr().out
    told = json.loads((tmp_path / "run" / "summary.json").read_text())["risk"]["families"]
    assert {"households", "sample_uniques", "expected_population_uniques", "expected_correct_matches", "expected_persons"} <= set(
        told
    )
    assert "household_unique_probability" in pq.read_schema(tmp_path / "run" / "risk.parquet").names
    assert "Families" in (tmp_path / "run" / "report.html").read_text()


# ---------------------------------------------------------------------- a household that nobody declared


def test_a_column_that_looks_like_a_household_is_asked_about(homes: tuple[pa.Table, pa.Table]) -> None:
    population, sample = homes
    home = sample["home"].to_numpy()
    together = sample.take(np.argsort(home, kind="stable"))
    together = together.append_column("region", pa.array(np.sort(home) % 5))
    options = {"keys": ["relation", "age", "sex"], "population": len(population)}
    found = rc.assess(together, **options)
    assert found.undeclared == "home"
    assert any("'home' looks like a household" in note for note in found.summary.notes)
    with pytest.raises(BadInput, match="household='home'"):
        rc.protect(together, top=5, **options)
    assert rc.assess(together, households_known="no", **options).undeclared is None
    assert "home" not in rc.protect(together, top=5, treat={"home": "drop"}, **options).frame.column_names
    # Nothing is asked where members do not stand together.
    assert rc.assess(sample, **options).undeclared is None


def test_a_large_file_is_asked_about_by_its_first_records(homes: tuple[pa.Table, pa.Table], tmp_path, monkeypatch) -> None:
    population, sample = homes
    home = sample["home"].to_numpy()
    together = sample.take(np.argsort(home, kind="stable"))
    together = together.append_column("region", pa.array(np.sort(home) % 5))
    csv.write_csv(together, tmp_path / "homes.csv")
    monkeypatch.setattr(households, "MOST_RECORDS_SEARCHED", 500)
    monkeypatch.setattr(households, "FIRST_RECORDS", 400)
    options = {"keys": ["relation", "age", "sex"], "population": len(population)}
    assert rc.assess(str(tmp_path / "homes.csv"), **options).undeclared == "home"


def test_ordinary_columns_do_not_look_like_households() -> None:
    rng = np.random.default_rng(0)
    n = 600
    region = rng.integers(0, 4, n)
    for column in (rng.integers(0, 300, n), np.arange(n), rng.integers(0, 5, n), np.sort(rng.integers(0, 20, n))):
        assert not looks_like_households(column, [region])
    home = np.repeat(np.arange(200), 3)
    assert looks_like_households(home, [home % 4])
    assert not looks_like_households(home, [region])


def test_the_shipped_population_has_households() -> None:
    people = datasets.census_households()
    assert people.num_rows == datasets.CENSUS_POPULATION
    assert len(np.unique(people["household"].to_numpy())) == 127_909
    sample = datasets.census_household_sample(0.01)
    assert len(np.unique(sample["household"].to_numpy())) == 1279


def test_labelled_codes_of_keys_are_grouped_with_their_families(tmp_path: Path) -> None:
    office = spss(tmp_path)
    found = rc.assess(
        office.path, keys=list(office.keys), household="HH1,HH2", weight="hhweight", recode=office.recode, model="independence"
    )
    sexes = {group.level: group.expected_recognised for group in found.summary.groups if group.key == "HL4"}
    assert set(sexes) == {"Male (1)", "Female (2)"}
    assert all(n is not None for n in sexes.values())


def test_headline_table_and_advice_tell_of_families_alike(tmp_path: Path) -> None:
    office = spss(tmp_path)
    keys, recode = ["HL4", "HL6", "ED5A"], {"HL6": "edges 15 25 45 65"}
    found = rc.assess(office.path, keys=keys, household="HH1,HH2", weight="hhweight", recode=recode, profile="scientific", seed=1)
    families = found.summary.risk.known_families
    assert families is not None
    assert families.expected_records > 20
    page = first_page(found.summary)
    now = {str(row[0]): row[2] for row in page.numbers.rows}
    assert now["Records that could be recognised"] == f"{families.expected_records:.0f}"
    assert float(str(now["Highest risk of a record"])) == pytest.approx(found.summary.highest_risk, abs=0.005)
    assert f"{families.expected_records:.0f} records could be recognised, none of them" in found.summary.risk.verdict
    remedy = _coarser(found.summary, ".")
    assert "--unlink" in remedy.command, "no coarser key helps where nobody is found without the family"


def as_it_came_in(summary: RunSummary) -> dict[str, object]:
    """The numbers of the first page for the file as it came."""
    table = first_page(summary).numbers
    place = [column.heading for column in table.columns].index("As it came")
    return {str(row[0]): row[place] for row in table.rows}


def test_a_recoding_is_compared_with_the_families_of_the_file_as_it_came(tmp_path: Path) -> None:
    office = spss(tmp_path, 300)
    choices = {"keys": ["HL4", "HL6"], "household": "HH1,HH2", "weight": "hhweight", "model": "independence", "seed": 1}
    original = rc.assess(office.path, **choices).summary
    recoded = rc.assess(office.path, recode={"HL6": "edges 18 65"}, **choices).summary
    families = original.risk.known_families
    assert families is not None
    assert recoded.as_it_came is not None
    assert families.expected_records > 50
    assert recoded.as_it_came.family_records == pytest.approx(families.expected_records, rel=0.02)
    assert recoded.as_it_came.household_links == pytest.approx(families.expected_correct_matches, rel=0.02)
    came = as_it_came_in(recoded)
    assert None not in came.values()
    assert float(str(came["Highest risk of a record"])) > 0.5


def test_leaving_out_who_lives_together_is_compared_with_the_file_that_said_it(tmp_path: Path) -> None:
    office = spss(tmp_path, 300)
    choices = {"keys": ["HL4", "HL6"], "household": "HH1,HH2", "weight": "hhweight", "model": "independence", "seed": 1}
    families = rc.assess(office.path, **choices).summary.risk.known_families
    assert families is not None
    done = rc.protect(office.path, unlink=True, treat={"hhweight": "drop"}, **choices).summary
    assert as_it_came_in(done)["Records that could be recognised"] == f"{families.expected_records:.0f}"
    page = first_page(done)
    assert "Cluster number (HH1), Household number (HH2) and hhweight were left out of the file." in page.done
    assert f"{families.expected_records:.0f} in the file as it came" in verdict(done).headline
    outside = as_it_came_in(external(done))["Records that could be recognised"]
    assert outside != f"{families.expected_records:.0f}", "rounded"
    assert float(str(outside)) >= families.expected_records


def test_a_run_checks_itself_on_parts_of_whole_households(monkeypatch: pytest.MonkeyPatch) -> None:
    codes, household = drawn_homes(3, 120)
    parts: list[np.ndarray] = []
    fitted = households.models.refitted

    def watched(part: rc.ContingencyTable, config: households.RunConfig, *, household: np.ndarray | None = None) -> object:
        parts.extend([] if household is None else [household])
        return fitted(part, config, household=household)

    monkeypatch.setattr(households.models, "refitted", watched)
    options = {"keys": ["relation", "age", "sex"], "population": 3_000}
    rc.assess(frame_of(codes, household), household="home", **options)
    size = np.bincount(household)
    assert len(parts) > 1
    for of_part in parts:
        homes, n_members = np.unique(of_part, return_counts=True)
        np.testing.assert_array_equal(n_members, size[homes])
    parts.clear()
    rc.assess(frame_of(codes, household).drop(["home"]), **options)
    assert not parts

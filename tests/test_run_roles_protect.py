"""Protection that knows areas, scenarios, weights, sensitive columns and what travels with a key."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import rarecell as rc
from rarecell.cli.commands import main
from rarecell.data.crossing import wider_table
from rarecell.errors import BadInput, RarecellError
from rarecell.risk.attributes import Groups, attribute_risk
from tests.naive import attributes as naive
from tests.test_run_roles import SIMPLE, population

PEOPLE = population(6_000, seed=3)
SAMPLE = PEOPLE.slice(0, 600)


def _counted(table: pa.Table, names: tuple[str, ...]) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*(table.column(name).to_pylist() for name in names), strict=True))


def _households(seed: int = 4, n_households: int = 400) -> pa.Table:
    rng = np.random.default_rng(seed)
    size = rng.integers(1, 4, n_households)
    town = np.repeat(rng.integers(0, 8, n_households), size)
    n = int(size.sum())
    return pa.table(
        {
            "household": np.repeat(np.arange(n_households), size),
            "hhsize": np.repeat(size, size),
            "age": rng.integers(0, 6, n),
            "sex": rng.integers(0, 2, n),
            "town": np.char.add("t", town.astype(str)),
            "nuts3": np.char.add("n", (town // 2).astype(str)),
            "region": np.char.add("r", (town // 4).astype(str)),
            "pets": rng.integers(0, 3, n),
        }
    )


@pytest.mark.parametrize("households", [True, False])
def test_records_change_places_and_the_chosen_tables_stay(households: bool) -> None:
    people = _households()
    done = rc.protect(
        people,
        keys=["age", "sex", "town"],
        geography="region>town",
        # Where households are named, members who change places alone stop the release.
        household="household" if households else None,
        households_known="yes" if households else "no",
        accept_leak=[] if households else ["household"],
        households=households,
        swap_rate=0.1,
        risk_above=0.05,
        similar=[["hhsize", "sex"], ["hhsize"]],
        keep=[["town", "age"], ["region", "hhsize"]],
        **{**SIMPLE, "population": 4_000},
    )
    after, told = done.frame, done.summary.swap
    assert told is not None
    assert told.places is not None
    assert told.places.swapped >= round(0.1 * told.places.units)
    for names in (("town",), ("town", "age"), ("region", "hhsize"), ("region", "town", "nuts3")):
        assert _counted(after, names) == _counted(people, names)
    # Regions and districts went with the towns, so that no record gives its swap away.
    assert set(_counted(after, ("region", "nuts3", "town"))) == set(_counted(people, ("region", "nuts3", "town")))
    assert {"region", "nuts3"} <= set(told.carried)
    changed = [row for row in range(people.num_rows) if after.slice(row, 1) != people.slice(row, 1)]
    assert changed
    for name in ("age", "sex", "pets", "household", "hhsize"):
        assert after.column(name) == people.column(name)
    if households:
        towns = Counter(
            household for household, _ in set(zip(after["household"].to_pylist(), after["town"].to_pylist(), strict=True))
        )
        assert set(towns.values()) == {1}


def test_a_swapped_area_takes_its_municipality_along() -> None:
    people = _households(9).drop_columns(["household"])
    done = rc.protect(people, keys=["age", "sex", "region", "hhsize"], top=20, within=["sex"], never_swap=["age", "sex", "hhsize"],
                      cliques=[["age"], ["sex"], ["region"], ["hhsize"]], **{**SIMPLE, "population": 4_000})  # fmt: skip
    assert done.summary.swap is not None
    assert done.plan.moves("region").any()
    assert {"town", "nuts3"} <= set(done.summary.swap.carried)
    pairs = set(_counted(people, ("region", "nuts3", "town")))
    assert set(_counted(done.frame, ("region", "nuts3", "town"))) == pairs
    named = rc.protect(people, keys=["age", "sex", "region", "hhsize"], top=20, never_swap=["age", "sex", "hhsize"], carry=["pets"],
                       cliques=[["age"], ["sex"], ["region"], ["hhsize"]], **{**SIMPLE, "population": 4_000})  # fmt: skip
    moved = named.plan.rows[named.plan.moves("region")]
    partner = named.plan.sources[named.plan.moves("region")]
    pets = np.array(people.column("pets").to_pylist())
    assert np.array(named.frame.column("pets").to_pylist())[moved].tolist() == pets[partner].tolist()


def test_all_intruders_are_served_at_once() -> None:
    scenario = {"neighbour": {"keys": ["age", "sex", "town"]}, "colleague": {"keys": ["job", "age"]}}
    done = rc.protect(SAMPLE, keys=["age", "sex", "job", "town"], scenario=scenario, risk_above=0.02, **SIMPLE)
    found, swap = done.assessment, done.summary.swap
    assert swap is not None
    assert found.roles.scenarios is not None
    requested = found.roles.scenarios.above(0.02)
    assert done.plan.requested.tolist() == requested.tolist()
    assert len(requested)
    left = {one.record for one in done.plan.unswapped}
    for one, told in zip(found.roles.scenarios.each, swap.scenarios, strict=True):
        keys = list(one.keys)
        before, after = SAMPLE.select(keys).to_pylist(), done.frame.select(keys).to_pylist()
        at_risk = np.flatnonzero(one.unique_probability[found.table.record_cell] > 0.02)
        # Whoever is not listed as left has another value of a key that this intruder knows.
        assert all(before[row] != after[row] for row in at_risk.tolist() if row not in left)
        alone = Counter(tuple(values.values()) for values in after)
        is_alone = [row for row in range(len(after)) if alone[tuple(after[row].values())] == 1]
        assert told.sample_uniques == len(is_alone)
        unchanged = [row for row in is_alone if before[row] == after[row]]
        per_record = one.unique_probability[found.table.record_cell]
        assert told.expected_population_uniques >= per_record[unchanged].sum() - 1e-9
        model = rc.select_model(rc.Microdata(SAMPLE, keys=keys).table(), criterion="aic").best
        for clique in model.cliques:
            assert _counted(done.frame, tuple(clique)) == _counted(SAMPLE, tuple(clique))


def test_sensitive_columns_and_analyses_see_blanked_values() -> None:
    done = rc.protect(
        SAMPLE, keys=["age", "sex", "job"], sensitive=["illness"], risk_above=0.01, untouched=[{"sex": "f"}], suppress_rest=True,
        analysis={"jobs": {"table": "job, sex"}}, **SIMPLE,
    )  # fmt: skip
    swap, after = done.summary.swap, done.frame
    assert swap is not None
    assert swap.suppression is not None
    assert swap.suppression.values > 0
    told = attribute_risk(Groups.of(rc.Microdata(after, keys=["age", "sex", "job", "illness"]).table(), "illness"))
    assert swap.attributes[0].to_dict() == pytest.approx({**swap.attributes[0].to_dict(), **told.summary().to_dict()})
    cells = Counter(f"{job or 'missing'}, {sex or 'missing'}" for job, sex in _pairs(after, "job", "sex"))
    assert {term.name: term.after for term in swap.analyses[0].terms if term.after} == dict(cells)


def _pairs(table: pa.Table, *names: str) -> list[tuple[Any, ...]]:
    return list(zip(*(table[name].to_pylist() for name in names), strict=True))


def test_sensitive_columns_after_protection() -> None:
    done = rc.protect(SAMPLE, keys=["sex", "job", "town"], sensitive=["illness", "income"], top=15, **SIMPLE)
    assert done.summary.swap is not None
    for told in done.summary.swap.attributes:
        table = wider_table(rc.Microdata(done.frame, keys=["sex", "job", "town"]), [told.column])
        expected = attribute_risk(Groups.of(table, told.column))
        assert told.right_from_groups == expected.right_from_groups
        assert told.homogeneous_groups == expected.n_homogeneous
        assert told.t_closeness == pytest.approx(expected.t_closeness)


def test_partners_are_of_like_weight_and_changes_are_told() -> None:
    rng = np.random.default_rng(2)
    people = SAMPLE.append_column("weight", pa.array(np.round(rng.lognormal(2.5, 0.8, 600) + 1, 2)))
    options: dict[str, Any] = {
        "keys": ["age", "sex", "job"],
        "weight": "weight",
        "top": 40,
        "model": "single",
        "resolution": "full",
    }
    alike = rc.protect(people, **options)
    any_weight = rc.protect(people, weight_classes=0, **options)
    weights = np.array(people.column("weight").to_pylist())
    ratio = [np.abs(np.log(weights[p.records] / weights[p.partners])).mean() for p in (alike.plan, any_weight.plan)]
    assert ratio[0] < 0.5 * ratio[1]
    assert alike.summary.swap is not None
    told = {one.variables: one for one in alike.summary.swap.weighted}
    for key in ("age", "sex", "job"):
        one = told[(key,)]
        assert one.counts_identical
        totals = []
        for table in (people, alike.frame):
            found: dict[Any, float] = {}
            for value, weight in zip(table.column(key).to_pylist(), weights, strict=True):
                found[value] = found.get(value, 0.0) + weight
            totals.append(found)
        largest = max(abs(totals[1][value] / total - 1) for value, total in totals[0].items())
        assert one.largest == pytest.approx(largest, abs=1e-6)


def test_the_groups_on_which_swaps_fall() -> None:
    done = rc.protect(SAMPLE, keys=["age", "sex", "job", "town"], top=60, **SIMPLE)
    assert done.summary.swap is not None
    assert done.summary.swap.affected
    for told in done.summary.swap.affected:
        values = np.array([str(value) for value in SAMPLE.column(told.column).to_pylist()])
        assert told.records == int((values == told.level).sum())
        assert told.swapped == int((values[done.plan.rows] == told.level).sum())
    ratios = [told.ratio for told in done.summary.swap.affected]
    assert ratios == sorted(ratios, reverse=True)


def test_the_command_swaps_places_and_says_so(tmp_path: Path) -> None:
    pq.write_table(_households(), tmp_path / "census.parquet")
    arguments = [
        "protect",
        str(tmp_path / "census.parquet"),
        "--keys",
        "age,sex,town",
        "--population",
        "4000",
        "--model",
        "single",
    ]
    arguments += ["--geography", "region>town", "--household", "household", "--households", "--swap-rate", "0.05", "--quiet"]
    arguments += ["--similar", "hhsize,sex;hhsize", "--keep", "town,age", "--carry", "nuts3", "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    assert "change places" in done.output
    page = (tmp_path / "run" / "report.html").read_text()
    for words in ("change places", "Groups that were affected most", "nuts3"):
        assert words in page
    written = pq.read_table(tmp_path / "run" / "protected.parquet")
    assert _counted(written, ("town", "age")) == _counted(_households(), ("town", "age"))
    again = rc.RunConfig.read(tmp_path / "run" / "run.toml").protect
    assert again is not None
    assert (again.swap_rate, again.similar, again.carry) == (0.05, (("hhsize", "sex"), ("hhsize",)), ("nuts3",))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"swap_rate": 0.1}, "geography="),
        ({"swap_rate": 0.1, "geography": "region", "top": 3}, "is given alone"),
        ({"swap_rate": 0.1, "geography": "region"}, "must be one of the keys"),
        ({"similar": [["sex"]], "top": 3}, "give swap_rate="),
        ({"swap_rate": 1.5, "geography": "region"}, "between 0 and 1"),
    ],
)
def test_places_cannot_be_changed_without_areas(options: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        rc.protect(SAMPLE, keys=["age", "sex"], **SIMPLE, **options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"carry": ["nope"]}, "There is no column 'nope'"),
        ({"carry": ["age"]}, "'age' is a key"),
        ({"keep": [["nope", "age"]]}, "There is no column 'nope'"),
        ({"within": ["nope"]}, "There is no column 'nope'"),
        ({"analysis": {"wage": {"means": "nope by sex"}}}, "nope"),
        ({"released": "nowhere"}, "holds no protected file"),
        ({"scenario": {"one": {"keys": ["age", "town"]}}}, "Add it to keys="),
    ],
)
def test_what_is_not_there_is_told_before_anything_is_read(
    options: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_: Any, **__: Any) -> None:
        raise AssertionError("the data were read")

    monkeypatch.setattr("rarecell.data.microdata.Microdata.table", read)
    with pytest.raises(RarecellError, match=said):
        rc.protect(SAMPLE, keys=["age", "sex"], top=5, **options, **SIMPLE)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_few_values_of_a_decimal_column_are_found_among_its_levels(tmp_path: Path, suffix: str) -> None:
    """Of 0.0 alone, as of one swapped record, nobody could say that its column holds decimals."""
    rng = np.random.default_rng(3)
    people = pa.table(
        {
            "age": rng.integers(20, 60, 400),
            "sex": rng.integers(0, 2, 400),
            "income": np.where(rng.random(400) < 0.5, 0.0, rng.gamma(2, 900, 400).round(1)),
        }
    )
    path = tmp_path / f"people.{suffix}"
    if suffix == "csv":
        lines = [f"{age},{sex},{income}\n" for age, sex, income in zip(*people.to_pydict().values(), strict=True)]
        path.write_text("age,sex,income\n" + "".join(lines))
    else:
        pq.write_table(people, path)
    for top in (1, 2, 5):
        protected = rc.protect(path, keys=["age", "sex"], population=9000, sensitive=["income"], top=top)
        assert protected.summary.swap is not None
        assert 0 < protected.summary.swap.swapped <= top
        assert [column.column for column in protected.summary.swap.attributes] == ["income"]


@pytest.mark.parametrize(
    ("limits", "keys"),
    [
        ({"l_diversity": 3}, ["age", "sex"]),
        ({"t_closeness": 0.3}, ["age", "sex", "job"]),
        ({"l_diversity": 2, "t_closeness": 0.5, "max_guess_gain": 0.1, "suppress_rest": True}, ["age", "sex", "job"]),
    ],
)
def test_groups_of_the_released_file_are_within_the_limits(limits: dict[str, Any], keys: list[str], tmp_path: Path) -> None:
    asked: dict[str, Any] = {"keys": keys, "sensitive": ["illness"], "risk_above": 0.05, "swap_seed": 1, **SIMPLE}
    done = rc.protect(SAMPLE, out=tmp_path / "run", **limits, **asked)
    swap, after = done.summary.swap, done.frame
    assert swap is not None
    (target,) = swap.attribute_targets
    values, original = after["illness"].to_pylist(), SAMPLE["illness"].to_pylist()
    assert target.blanked == sum(value is None for value in values) - original.count(None)
    assert target.blanked or target.exchanged
    is_moved = [now is not None and now != then for now, then in zip(values, original, strict=True)]
    assert sum(is_moved) <= target.exchanged
    by_group = naive.groups_of(_pairs(after, *keys), values)
    released = [value for group in by_group.values() if any(one is not None for one in group) for value in group]
    for group in by_group.values():
        if any(value is not None for value in group):
            assert len(set(group)) >= limits.get("l_diversity", 0)
            assert naive.nominal(group, released) <= limits.get("t_closeness", 1.0) + 1e-9
    gain = (sum(map(naive.right, by_group.values())) - naive.right(released)) / len(released)
    assert gain <= limits.get("max_guess_gain", 1.0) + 1e-9
    assert target.met
    # Guesses are counted by the true values as well, which exchanges do not change.
    assert target.after.guess_gain >= gain - 1e-9
    assert target.exchanged or target.after.guess_gain == pytest.approx(gain)
    assert swap.attributes == (target.after,)
    # Keys are as they would be without the limits.
    without = rc.protect(SAMPLE, suppress_rest=limits.get("suppress_rest", False), **asked).frame
    assert after.select(keys) == without.select(keys)
    assert pq.read_table(tmp_path / "run" / "protected.parquet")["illness"].to_pylist() == values
    report = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert f"{target.blanked or target.exchanged:,} value" in report


def test_limits_that_no_group_reaches_are_said_not_to_be_reached() -> None:
    done = rc.protect(SAMPLE, keys=["age", "sex", "job"], sensitive=["illness"], risk_above=0.05, l_diversity=50, **SIMPLE)
    assert done.summary.swap is not None
    (target,) = done.summary.swap.attribute_targets
    assert not target.met
    assert "NOT reached" in target.sentence
    assert done.frame["illness"].null_count == SAMPLE.num_rows


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({}, "sensitive="),
        ({"sensitive": ["illness"], "treat": {"illness": "drop"}}, "treat="),
        ({"sensitive": ["illness"], "keep": [["illness", "sex"]]}, "keep="),
        ({"sensitive": ["illness"], "formal": {"epsilon": 5.0}}, "l_diversity"),
    ],
)
def test_limits_that_cannot_be_held_are_refused(more: dict[str, Any], match: str) -> None:
    with pytest.raises(BadInput, match=match):
        rc.protect(SAMPLE, keys=["age", "sex"], l_diversity=3, **more, **SIMPLE)

"""What was assessed is what is written: recoded keys in every format, and the words that recode them."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pyreadstat
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rarecell as rc
import rarecell.engine.frames
from rarecell import datasets
from rarecell.data.coding import Coding, joined_codings
from rarecell.data.microdata import Microdata
from rarecell.data.recoding_text import boundaries, parse_recoding, words_for
from rarecell.data.written import coding_of_output, recode_table
from rarecell.engine.changes import Changes
from rarecell.errors import BadInput

KEYS = ("age", "region", "code")

FILES = ("csv", "quoted.csv", "csv.gz", "parquet", "arrow", "dta", "old.dta", "sav", "parts")
FRAMES = ("pandas", "polars", "lazy", "pyarrow", "duckdb")


@st.composite
def people(draw: st.DrawFn) -> pa.Table:
    n = draw(st.integers(12, 30))
    ages = draw(st.lists(st.integers(0, 99) | st.none(), min_size=n, max_size=n))
    regions = draw(st.lists(st.sampled_from(["north", "south", "east", "a,b", 'the "west"', "é"]), min_size=n, max_size=n))
    codes = draw(st.lists(st.integers(1, 9), min_size=n, max_size=n))
    # Two values at least, so that no key is constant whatever it is recoded to.
    ages[:4], regions[:3], codes[:4] = [1, 50, 95, 96], ["north", "south", "east"], [1, 5, 8, 9]
    other = [f"{number};x" for number in range(n)]
    return pa.table({"age": pa.array(ages, pa.int32()), "region": regions, "code": pa.array(codes, pa.int8()), "other": other})


def _numbers() -> st.SearchStrategy[dict[str, Any]]:
    edges = st.lists(st.integers(2, 94), min_size=1, max_size=4, unique=True).map(lambda found: {"edges": sorted(found)})
    bounds = st.tuples(st.integers(2, 45), st.integers(51, 95)).map(lambda pair: {"bottom": pair[0], "top": pair[1]})
    width = st.sampled_from([{"width": 5}, {"width": 7, "top": 80}, {"width": 30}])
    return edges | bounds | width | st.sampled_from([{"quantiles": 3}, {"groups": 3}, {"missing": [95, 96]}, {"top": 50}])


@st.composite
def codings(draw: st.DrawFn) -> dict[str, dict[str, Any]]:
    regions = [{"merge": {"mer, idi": ["north", "south"]}}, {"groups": 2}, {"missing": ["east"]}]
    numbers = [{"merge": {"low": [1, 5]}}, {"merge": {"1": [1, 8]}, "missing": [9]}, {"edges": [3, 6]}, {"groups": 3}]
    drawn = {
        "age": draw(_numbers() | st.none()),
        "region": draw(st.sampled_from(regions) | st.none()),
        "code": draw(st.sampled_from(numbers) | st.none()),
    }
    return {key: coding for key, coding in drawn.items() if coding is not None}


def written_as(kind: str, people: pa.Table, folder: Path) -> Any:
    """The same people as a file or frame of some kind."""
    path = folder / f"in.{kind}"
    if kind in ("csv", "quoted.csv"):
        with open(path, "w", newline="", encoding="utf-8") as stream:
            out = csv.writer(stream, quoting=csv.QUOTE_ALL if kind == "quoted.csv" else csv.QUOTE_MINIMAL)
            out.writerow(people.column_names)
            out.writerows(zip(*people.to_pydict().values(), strict=True))
    elif kind == "csv.gz":
        path.write_bytes(gzip.compress(written_as("csv", people, folder).read_bytes()))
    elif kind == "parquet":
        pq.write_table(people, path, row_group_size=7)
    elif kind == "arrow":
        with pa.ipc.new_file(path, people.schema) as writer:
            writer.write_table(people, max_chunksize=5)
    elif kind == "dta":
        pyreadstat.write_dta(pl.from_arrow(people), str(path), version=15, variable_value_labels={"code": {1: "one", 9: "nine"}})
    elif kind == "old.dta":
        pyreadstat.write_dta(pl.from_arrow(people), str(path), version=10)
    elif kind == "sav":
        pyreadstat.write_sav(pl.from_arrow(people), str(path), variable_value_labels={"code": {1: "one", 9: "nine"}})
    elif kind == "parts":
        path.mkdir()
        pq.write_table(people.slice(0, 6), path / "a.parquet")
        pq.write_table(people.slice(6), path / "b.parquet")
    else:
        return {
            "pandas": lambda: people.to_pandas().set_index(pd.Index(range(100, 100 + people.num_rows))),
            "polars": lambda: pl.from_arrow(people),
            "lazy": lambda: pl.from_arrow(people).lazy(),
            "pyarrow": lambda: people,
            "duckdb": lambda: duckdb.from_arrow(people),
        }[kind]()
    return path


def released(data: Microdata, folder: Path, rows: Any = (), columns: dict[str, Any] | None = None) -> Any:
    rows = np.array(rows, dtype=np.int64)
    if isinstance(data.source, rc.engine.frames.FrameSource):
        return data.changed(Changes(rows, columns or {}))
    return data.write(folder / f"out{data.source.suffix}", Changes(rows, columns or {}))


def values_of(given: Any, names: tuple[str, ...]) -> dict[str, list[Any]]:
    source = rc.engine.open_source(given)
    taken = source.take(np.arange(source.n_rows), names)
    return {name: taken[name].to_pylist() for name in names}


@pytest.mark.parametrize("kind", [*FILES, *FRAMES])
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(people=people(), coding=codings(), swapped=st.booleans())
def test_the_written_file_has_the_assessed_levels_and_table(
    tmp_path_factory: pytest.TempPathFactory, kind: str, people: pa.Table, coding: dict[str, Any], swapped: bool
) -> None:
    folder = tmp_path_factory.mktemp("recoded")
    data = Microdata(written_as(kind, people, folder), KEYS, coding=coding)
    assessed = data.table()
    rows, columns = ([0, 3], data.values_at(np.array([3, 0]), ["age"])) if swapped else ([], {})
    out = released(data, folder, rows, columns)

    again = Microdata(out, KEYS, coding=coding_of_output(data.source, data.coding, data.recodes)).table()
    expected = assessed
    if swapped:
        codes = np.array(assessed.cells[assessed.record_cell])
        codes[[0, 3], 0] = codes[[3, 0], 0]
        expected = rc.ContingencyTable.from_codes(codes, assessed.categories)
    assert np.array_equal(again.cells, expected.cells)
    assert np.array_equal(again.counts, expected.counts)
    for categories, found in zip(assessed.categories, again.categories, strict=True):
        written = data.recodes.get(categories.key)
        n_levels = categories.n_levels - categories.has_missing
        wanted = categories.levels[:n_levels] if written is None else data.source.levels_read_back(categories.key, written)
        assert found.labels[:n_levels] == tuple(str(level) for level in wanted)
        assert found.has_missing == categories.has_missing
    # The other column stays as it is.
    assert values_of(out, ("other",)) == values_of(data.source, ("other",))


@pytest.mark.parametrize("kind", ["csv", "quoted.csv"])
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(people=people(), coding=codings())
def test_bytes_of_other_fields_stay(
    tmp_path_factory: pytest.TempPathFactory, kind: str, people: pa.Table, coding: dict[str, Any]
) -> None:
    folder = tmp_path_factory.mktemp("bytes")
    path = written_as(kind, people, folder)
    path.write_bytes(path.read_bytes() + b"\r\n\r\n")
    data = Microdata(path, KEYS, coding=coding)
    out = released(data, folder).read_bytes()
    from rarecell.engine.text.scan import field_spans

    before, after = (text.split(b"\r\n") for text in (path.read_bytes(), out))
    assert len(before) == len(after)
    assert before[0] == after[0]
    kept = [position for position, name in enumerate(people.column_names) if name not in data.recodes]
    for old, new in zip(before[1:], after[1:], strict=True):
        fields = [[line[a:b] for a, b in field_spans(line, ord(","))] for line in (old, new)]
        if old:
            assert [fields[0][position] for position in kept] == [fields[1][position] for position in kept]
        else:
            assert new == b""


def test_labels_of_stata_and_spss_files_follow(tmp_path: Path) -> None:
    frame = pl.DataFrame({"age": [1, 50, 95, 96, 97], "code": [1, 2, 3, 9, 9]})
    labels = {"code": {1: "one", 2: "two", 3: "three"}}
    for kind, write, read in (
        ("dta", pyreadstat.write_dta, pyreadstat.read_dta),
        ("sav", pyreadstat.write_sav, pyreadstat.read_sav),
    ):
        path = tmp_path / f"in.{kind}"
        write(frame, str(path), variable_value_labels=labels, column_labels={"age": "Age in years", "code": "A code"})
        data = Microdata(path, ["age", "code"], coding={"age": "top 90", "code": {"merge": {"two or three": [2, 3]}}})
        out = released(data, tmp_path)
        values, metadata = read(str(out), output_format="polars")
        assert values["age"].to_list() == [1, 50, 90, 90, 90]
        assert metadata.variable_value_labels["age"] == {90: "90+"}
        assert values["code"].to_list() == [1, 2, 2, 9, 9]
        assert metadata.variable_value_labels["code"] == {1: "one", 2: "two or three"}
        assert metadata.column_names_to_labels == {"age": "Age in years", "code": "A code"}


def test_a_column_of_folders_is_written_into_the_parts(tmp_path: Path) -> None:
    for year in (2019, 2020, 2021):
        (tmp_path / "in" / f"year={year}").mkdir(parents=True)
        pq.write_table(pa.table({"age": [1, 2, 3]}), tmp_path / "in" / f"year={year}" / "a.parquet")
    data = Microdata(tmp_path / "in", ["year", "age"], coding={"year": "edges 2020"})
    out = released(data, tmp_path)
    assert values_of(out, ("year",))["year"] == ["<2020"] * 3 + ["2020+"] * 6


def test_parquet_is_read_by_pandas_as_ordered_categories(tmp_path: Path) -> None:
    people = pd.DataFrame({"age": [1, 7, 23, None], "sex": list("fmfm")})
    people.to_parquet(tmp_path / "in.parquet")
    data = Microdata(tmp_path / "in.parquet", ["age", "sex"], coding={"age": "bands of 5"})
    found = pd.read_parquet(released(data, tmp_path))["age"]
    assert list(found.cat.categories) == ["0–4", "5–9", "20–24"]
    assert found.cat.ordered
    assert found.isna().tolist() == [False, False, False, True]


def test_dropped_records_hold_no_level_that_was_not_assessed(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("age,sex\n1,f\n12,m\n33,\n14,f\n2,m\n")
    data = Microdata(tmp_path / "in.csv", ["age", "sex"], coding={"age": "width 10"}, missing="drop")
    assert data.table().categories[0].labels == ("0–9", "10–19")
    assert released(data, tmp_path).read_text() == "age,sex\n0–9,f\n10–19,m\n,\n10–19,f\n0–9,m\n"


def test_the_mapping_is_a_table() -> None:
    people = pa.table({"age": [1, 7, 23, 99], "sex": list("fmfm")})
    data = Microdata(people, ["age", "sex"], coding={"age": "bands of 10, missing 99"})
    assert recode_table(data.recodes) == {
        "key": ["age"] * 4,
        "value": ["1", "7", "23", "99"],
        "level": ["0–9", "0–9", "20–29", None],
        "order": [0, 0, 1, None],
    }


def test_swaps_and_recoding_together(tmp_path: Path) -> None:
    frame = datasets.census_sample()
    data = Microdata(frame, list(datasets.CENSUS_KEYS)[:5], coding={"age": "5-year bands"})
    table = data.table()
    model = rc.select_model(table, seed=0).best
    risk = rc.record_risk(table, model, population=277_677)
    plan = rc.plan_swaps(table, model, records=risk.riskiest(10), risk=risk, seed=0)
    out = plan.apply(data).frame
    assert set(values_of(out, ("age",))["age"]) == set(table.categories[table.keys.index("age")].labels)


# ---------------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("words", "coding"),
    [
        ("5-year bands", Coding(width=5)),
        ("bands of 10", Coding(width=10)),
        ("width 2.5", Coding(width=2.5)),
        ("edges 15, 25, 45", Coding(edges=(15, 25, 45))),
        ("edges -5 0 2.5", Coding(edges=(-5, 0, 2.5))),
        ("5 groups", Coding(groups=5)),
        ("in 5 groups", Coding(groups=5)),
        ("4 quantiles", Coding(quantiles=4)),
        ("5-year bands, top 85", Coding(width=5, top=85)),
        ("top 85; bottom 15", Coding(top=85, bottom=15)),
        ("level 2", Coding(hierarchy=2)),
        ("merge 01+02 as north; merge 04+05", Coding(merge={"north": ("01", "02"), "04+05": ("04", "05")})),
        ('merge "a,b"+c as "c; d"', Coding(merge={"c; d": ("a,b", "c")})),
        ("missing 98+99, width 5", Coding(width=5, missing=("98", "99"))),
        ("as it is", Coding()),
    ],
)
def test_words_for_recodings(words: str, coding: Coding) -> None:
    assert parse_recoding(words, key="age") == coding


@settings(max_examples=60, deadline=None)
@given(coding=codings())
def test_a_coding_says_the_words_that_give_it(coding: dict[str, Any]) -> None:
    for key, given_coding in coding.items():
        made = Coding.of(given_coding, key=key)
        again = parse_recoding(made.in_words(), key=key)
        assert again.in_words() == made.in_words()
        assert (again.width, again.edges, again.groups, again.top) == (made.width, made.edges, made.groups, made.top)


def test_a_recoding_joins_what_a_coding_says() -> None:
    found = joined_codings({"age": {"missing": [99]}, "x": {"ordered": True}}, {"age": "width 5"})
    assert found == {"age": Coding(width=5, missing=(99,)), "x": {"ordered": True}}
    with pytest.raises(BadInput, match="Key 'age'"):
        joined_codings({"age": {"edges": [5]}}, {"age": "width 5"})


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("five bands", "is not understood"),
        ("width 5, 3 groups", "choose one way"),
        ("width 5, width 10", "twice"),
        ("edges 5 3", "larger than the one before"),
        ("merge 1+2 as NA", "read as missing"),
        ("merge 1+2 as a; merge 2+3 as b", "two levels"),
        ("merge 1 as a; merge 2 as a", "the same name"),
        ("0 groups", "2 or more"),
    ],
)
def test_words_that_mean_nothing_are_refused(words: str, part: str) -> None:
    with pytest.raises(BadInput, match=part):
        parse_recoding(words, key="age")


def test_merging_a_value_that_does_not_occur_is_refused() -> None:
    people = pa.table({"region": ["01", "02", "03"], "age": [1, 2, 3]})
    with pytest.raises(BadInput, match="no value '04'"):
        Microdata(people, ["region", "age"], coding={"region": "merge 01+04 as a"}).table()
    with pytest.raises(BadInput, match="another value"):
        Microdata(people, ["region", "age"], coding={"region": "merge 01+02 as 03"}).table()


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(people=people(), n_groups=st.integers(2, 4))
def test_a_coarsening_and_the_words_for_it_give_the_same_table(people: pa.Table, n_groups: int) -> None:
    data = Microdata(people, KEYS)
    base = data.table()
    profiles = data.likeness(base)["age"]
    categories = base.categories[0]
    n_groups += profiles.n_groups_without_answer
    coarsening = profiles.groups(n_groups)
    assert coarsening.n_levels == n_groups == len(boundaries(categories, coarsening))
    words = words_for(categories, coarsening)
    assert words.startswith("edges")
    by_edges, by_number = (Microdata(people, KEYS, coding={"age": how}).table() for how in (words, f"{n_groups} groups"))
    expected = base.recode(coarsening)
    for found in (by_edges, by_number):
        assert np.array_equal(found.cells, expected.cells)
        assert np.array_equal(found.counts, expected.counts)


def test_a_level_of_a_hierarchy(tmp_path: Path) -> None:
    (tmp_path / "h.csv").write_text("01;north;all\n02;north;all\n03;south;all\n04;west;all\n")
    people = pa.table({"region": ["01", "02", "03", "04"], "age": [1, 2, 3, 4]})
    data = Microdata(people, ["region", "age"], hierarchies={"region": tmp_path / "h.csv"}, coding={"region": "level 1"})
    assert data.table().categories[0].labels == ("north", "south", "west")
    assert data.changed(Changes(np.empty(0, dtype=np.int64), {}))["region"].to_pylist() == ["north", "north", "south", "west"]
    with pytest.raises(BadInput, match="which has 1"):
        Microdata(people, ["region", "age"], hierarchies={"region": tmp_path / "h.csv"}, coding={"region": "level 2"}).table()
    with pytest.raises(BadInput, match="it has none"):
        Microdata(people, ["region", "age"], coding={"region": "level 1"}).table()


def test_edges_in_words_are_read_back_exactly() -> None:
    from rarecell.data.recoding_text import parse_recoding

    coding = Coding(edges=(0.5, 12.25, 1_234_567.0))
    assert coding.in_words() == "edges 0.5 12.25 1234567"
    assert parse_recoding(coding.in_words(), key="income").edges == coding.edges


def test_the_frame_of_a_text_file_has_numbers_beside_a_recoded_key(tmp_path: Path) -> None:
    """As text, 10 would stand before 2, and the keys of the frame would not be those of the plan."""
    rows = [f"{row * 7 % 15},{'ABC'[row % 3]}{row % 4},{'fm'[row * row % 5 > 2]}\n" for row in range(200)]
    (tmp_path / "people.csv").write_text("age,job,sex\n" + "".join(rows), encoding="utf-8")
    options = {"population": 9_000, "top": 5, "seed": 1, "model": "single", "resolution": "full"}
    done = rc.protect(
        tmp_path / "people.csv", keys=["age", "job", "sex"], recode={"job": "first 1 character"}, out=tmp_path / "out", **options
    )
    assert set(done.frame["job"].to_pylist()) == {"A", "B", "C"}
    assert sorted(set(done.frame["age"].to_pylist())) == list(range(15))
    written = (tmp_path / "out" / "protected.csv").read_text(encoding="utf-8").splitlines()[1:]
    assert written == [f"{row['age']},{row['job']},{row['sex']}" for row in done.frame.to_pylist()]

"""Roles are checked at once, and every kind of frame and file gives the same table."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell.data.coding import Coding
from rarecell.data.microdata import Microdata
from rarecell.datasets import CENSUS_KEYS, census_sample, census_sample_path
from rarecell.engine.changes import Changes
from rarecell.engine.duck import EngineSettings
from rarecell.errors import BadInput, UnknownColumns
from tests.large_file import LargeFile

PEOPLE = pa.table(
    {
        "age": pa.array([31, 31, 62, None, 45, 31, 62, 8]),
        "region": ["01", "02", "02", "02", "00", "01", None, ""],
        "sex": ["f", "m", "f", "f", "m", "f", "m", "m"],
        "income": [1.5, 2.5, 2.5, 4.0, None, 1.5, 2.5, 9.25],
        "weight": [10.5, 2, 3, 1, 7.25, 1.125, 3, 100],
    }
)
KEYS = ["age", "region", "sex", "income"]


def as_csv(table: pa.Table, folder: Path) -> Path:
    path = folder / "people.csv"
    table.to_pandas().convert_dtypes().to_csv(path, index=False)
    return path


def as_gzipped_tsv(table: pa.Table, folder: Path) -> Path:
    text = table.to_pandas().convert_dtypes().to_csv(index=False, sep="\t")
    path = folder / "people.tsv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    return path


def as_parquet(table: pa.Table, folder: Path) -> Path:
    pq.write_table(table, folder / "people.parquet", row_group_size=3)
    return folder / "people.parquet"


def as_feather(table: pa.Table, folder: Path) -> Path:
    pyarrow.feather.write_feather(table, folder / "people.feather", chunksize=3)
    return folder / "people.feather"


def as_stata(table: pa.Table, folder: Path) -> Path:
    import pyreadstat

    pyreadstat.write_dta(pl.from_arrow(table), str(folder / "people.dta"))
    return folder / "people.dta"


def as_spss(table: pa.Table, folder: Path) -> Path:
    import pyreadstat

    pyreadstat.write_sav(pl.from_arrow(table), str(folder / "people.sav"))
    return folder / "people.sav"


def as_sas(table: pa.Table, folder: Path) -> Path:
    import pyreadstat

    pyreadstat.write_xport(pl.from_arrow(table), str(folder / "people.xpt"))
    return folder / "people.xpt"


KINDS: dict[str, Callable[[pa.Table, Path], Any]] = {
    "pyarrow": lambda table, _: table,
    "pandas": lambda table, _: table.to_pandas(),
    "pandas with Arrow types": lambda table, _: table.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas with own types": lambda table, _: table.to_pandas().convert_dtypes(),
    "pandas categories": lambda table, _: table.to_pandas().astype({"region": "category", "sex": "category"}),
    "polars": lambda table, _: pl.from_arrow(table),
    "polars categories": lambda table, _: pl.from_arrow(table).with_columns(pl.col("sex").cast(pl.Categorical)),
    "polars lazy": lambda table, _: pl.from_arrow(table).lazy(),
    "DuckDB": lambda table, _: duckdb.from_arrow(table),
    "CSV": as_csv,
    "TSV, gzipped": as_gzipped_tsv,
    "Parquet": as_parquet,
    "Feather": as_feather,
    "Stata": as_stata,
    "SPSS": as_spss,
    "SAS transport": as_sas,
}


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[pa.Table], Any]:
    return lambda table: KINDS[request.param](table, tmp_path)


def assert_same_table(found: rc.ContingencyTable, expected: rc.ContingencyTable) -> None:
    assert found.categories == expected.categories
    assert [c.labels for c in found.categories] == [c.labels for c in expected.categories]
    np.testing.assert_array_equal(found.cells, expected.cells)
    np.testing.assert_array_equal(found.counts, expected.counts)
    if expected.weights is None:
        assert found.weights is None
    else:
        np.testing.assert_array_equal(found.weights, expected.weights)
    if found.record_cell is not None and expected.record_cell is not None:
        np.testing.assert_array_equal(found.record_cell, expected.record_cell)


# ---------------------------------------------------------------------- the same table everywhere


@pytest.mark.parametrize("missing", ["level", "drop"])
def test_every_kind_of_data_gives_the_same_table(make: Callable[[pa.Table], Any], missing: str) -> None:
    options: dict[str, Any] = {"weight": "weight", "missing": missing, "coding": {"income": {"quantiles": 2}}}
    expected = Microdata(PEOPLE, KEYS, **options).table()
    data = Microdata(make(PEOPLE), KEYS, **options)
    assert_same_table(data.table(), expected)
    assert_same_table(data.table(records=False), expected)
    np.testing.assert_array_equal(np.concatenate(list(data.record_cells())), expected.record_cell)
    assert data.n_missing == {"age": 1, "region": 2, "sex": 0, "income": 1}
    assert data.n_dropped == (4 if missing == "drop" else 0)


def test_the_table_by_hand() -> None:
    table = Microdata(PEOPLE, ["age", "region"], weight="weight").table()
    assert table.categories[0] == rc.Categories("age", (8, 31, 45, 62, None), is_ordered=True)
    assert table.categories[1] == rc.Categories("region", ("00", "01", "02", None), is_ordered=False)
    assert table.cells.tolist() == [[0, 3], [1, 1], [1, 2], [2, 0], [3, 2], [3, 3], [4, 2]]
    assert table.counts.tolist() == [1, 2, 1, 1, 1, 1, 1]
    assert table.weights is not None
    assert table.weights.tolist() == [100, 11.625, 2, 7.25, 3, 3, 1]
    assert table.record_cell is not None
    assert table.record_cell.tolist() == [1, 2, 4, 6, 3, 1, 5, 0]


def test_levels_that_only_dropped_records_have_are_left_out() -> None:
    table = Microdata(PEOPLE, ["age", "region"], missing="drop").table()
    assert table.categories[0].levels == (31, 45, 62)
    assert table.record_cell is not None
    assert (table.record_cell == -1).tolist() == [False, False, False, True, False, False, True, True]


def test_values_are_exchanged_and_come_back_in_the_type_they_had(make: Callable[[pa.Table], Any], tmp_path: Path) -> None:
    given_data = make(PEOPLE)
    data = Microdata(given_data, KEYS)
    before = data.table()
    rows, partners = np.array([0, 6, 3]), np.array([6, 0, 4])
    new = data.values_at(partners, ["age", "region"])
    if isinstance(given_data, Path):
        changed: Any = data.write(tmp_path / f"out{data.source.suffix}", Changes(rows, new))
        assert changed.stat().st_mode & 0o777 == 0o600
        assert sorted(p.name for p in tmp_path.iterdir()) == sorted([given_data.name, changed.name])
    else:
        changed = data.changed(Changes(rows, new))
        assert type(changed) is type(given_data)
        if isinstance(changed, pd.DataFrame):
            assert changed.dtypes.equals(given_data.dtypes)
    after = Microdata(changed, KEYS).table()
    by_hand = PEOPLE.to_pandas().convert_dtypes()
    for key in ("age", "region"):
        by_hand.loc[[0, 6, 3], key] = by_hand.loc[[6, 0, 4], key].to_numpy()
    assert_same_table(after, Microdata(by_hand, KEYS).table())
    assert_same_table(Microdata(given_data, KEYS).table(), before)


def test_the_census_sample_has_its_reference_numbers() -> None:
    table = Microdata(census_sample_path(), CENSUS_KEYS).table()
    assert (table.n_records, table.n_cells, table.size_indices[1]) == (9809, 2879, 1674)
    assert [c.n_levels for c in table.categories] == [14, 2, 91, 5, 5, 7, 2, 5]
    assert_same_table(Microdata(census_sample(), CENSUS_KEYS).table(), table)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.integers(-3, 12)),
            st.sampled_from(["00", "0", "a b", "é", "", None, "NA"]),
            st.one_of(st.none(), st.floats(-5, 5, width=16)),
        ),
        min_size=2,
        max_size=30,
    ),
    st.sampled_from(["level", "drop"]),
)
def test_counting_equals_a_dictionary_of_values(rows: list[tuple[Any, ...]], missing: str) -> None:
    columns = list(zip(*rows, strict=True))
    frame = pa.table(
        {"a": pa.array(columns[0], pa.int64()), "b": pa.array(columns[1], pa.string()), "c": pa.array(columns[2], pa.float64())}
    )
    plain = [tuple(None if value == "" else value for value in row) for row in rows]
    kept = [row for row in plain if missing == "level" or None not in row]
    if not kept or all(len(set(column)) < 2 for column in zip(*kept, strict=True)):
        with pytest.raises(BadInput):
            Microdata(frame, ["a", "b", "c"], missing=missing).table()
        return
    for records in (True, False):
        table = Microdata(frame, ["a", "b", "c"], missing=missing).table(records=records)
        found = {
            tuple(c.levels[code] for c, code in zip(table.categories, cell, strict=True)): count
            for cell, count in zip(table.cells.tolist(), table.counts.tolist(), strict=True)
        }
        assert found == {row: kept.count(row) for row in kept}


# ---------------------------------------------------------------------- coding


def test_codings_and_hierarchies_reach_the_table(tmp_path: Path) -> None:
    groups = tmp_path / "region.csv"
    groups.write_text("00;north\n01;north\n02;south\n")
    data = Microdata(PEOPLE, ["age", "region"], coding={"age": Coding(edges=(18, 60))}, hierarchies={"region": groups})
    table = data.table()
    assert table.categories[0].levels == ("<18", "18–59", "60+", None)
    assert table.vertex_names == ("age", "region", "region/3")
    assert table.coarsenings[0].labels == ("north", "south", "missing")


def test_declared_orders_of_frames_are_kept() -> None:
    levels = ["low", "middle", "high"]
    values = ["high", "low", "high", "low"]
    frames = [
        pd.DataFrame({"x": pd.Categorical(values, categories=levels, ordered=True), "y": [1, 2, 1, 2]}),
        pl.DataFrame({"x": pl.Series(values, dtype=pl.Enum(levels)), "y": [1, 2, 1, 2]}),
    ]
    for frame in frames:
        assert Microdata(frame, ["x", "y"]).table().categories[0] == rc.Categories("x", ("low", "high"), is_ordered=True)


def test_declared_orders_survive_in_parquet(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": pd.Categorical(["b", "a"], categories=["b", "a"], ordered=True), "y": [1, 2]})
    frame.to_parquet(tmp_path / "a.parquet")
    for records in (True, False):
        table = Microdata(tmp_path / "a.parquet", ["x", "y"]).table(records=records)
        assert table.categories[0] == rc.Categories("x", ("b", "a"), is_ordered=True)


def test_any_column_can_be_coded_in_the_order_of_records() -> None:
    codes, categories = Microdata(PEOPLE, ["age", "sex"]).column_codes(["region", "income"])
    assert [c.levels for c in categories] == [("00", "01", "02", None), (1.5, 2.5, 4.0, 9.25, None)]
    assert codes[:, 0].tolist() == [1, 2, 2, 2, 0, 1, 3, 3]
    with pytest.raises(UnknownColumns, match="Did you mean 'region'"):
        Microdata(PEOPLE, ["age", "sex"]).column_codes(["regoin"])


def test_large_data_are_counted_without_their_records(tmp_path: Path) -> None:
    data = Microdata(LargeFile(as_parquet(PEOPLE, tmp_path), settings=EngineSettings()), KEYS)
    assert data.table().record_cell is None
    assert_same_table(data.table(), Microdata(PEOPLE, KEYS).table(records=True))


def test_what_was_done_with_missing_values_comes_first() -> None:
    assert (
        Microdata(PEOPLE, KEYS).summary_lines()[0]
        == "Missing key values are kept as a level of their own: 1 in age, 2 in region and 1 in income."
    )
    dropped = Microdata(PEOPLE, KEYS, missing="drop").summary_lines()[0]
    assert dropped == "4 of 8 records have a missing key value and are left out: 1 in age, 2 in region and 1 in income."
    assert Microdata(PEOPLE, ["sex", "weight"]).summary_lines()[0] == "No key value is missing."
    assert "records; levels of the keys: sex 2, weight 7." in Microdata(PEOPLE, ["sex", "weight"]).summary_lines()[1]


# ---------------------------------------------------------------------- refusals


def refused(told: str, data: Any = PEOPLE, keys: Any = ("age", "sex"), *, counts: bool = True, **options: Any) -> str:
    with pytest.raises(rc.RarecellError, match=told) as caught:
        Microdata(data, keys, **options).table()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_all_problems_are_told_at_once() -> None:
    message = refused(
        "no key 'agee'", keys=["agee", "sex", "sex", "Income"], weight="wieght", household="sex", coding={"regoin": {"width": 5}}
    )
    for part in (
        "Did you mean 'age'",
        "no key 'Income'. Did you mean 'income'",
        "no weight 'wieght'. Did you mean 'weight'",
        "Key 'sex' is named 2 times",
        "Column 'sex' is given as household and as key",
        "no key 'regoin'",
        "The data have: 'age', 'region', 'sex', 'income', 'weight'.",
    ):
        assert part in message


def test_names_alone_are_a_matter_of_unknown_columns() -> None:
    with pytest.raises(UnknownColumns):
        Microdata(PEOPLE, ["agee"])


def test_a_geography_may_be_a_key() -> None:
    assert Microdata(PEOPLE, ["age", "region"], geography="region").geography == "region"
    refused("given as id and as weight", weight="weight", id="weight")


def test_numbers_of_keys() -> None:
    refused("No key was named", keys=[])
    wide = pa.table({f"k{number}": [0, 1] for number in range(65)})
    refused("65 keys were named and 64 are possible", wide, wide.column_names)
    assert Microdata(wide, wide.column_names[:64]).table().n_formal_cells == 2**64


def test_a_key_with_one_level_is_noted_and_refused_alone() -> None:
    constant = PEOPLE.append_column("wave", pa.array([2020] * 8))
    refused(r"the key 'wave' \(always '2020'\) has the same value in every record", constant, ["wave"])
    assert any("always '2020'" in line for line in Microdata(constant, ["age", "wave"]).summary_lines())


def test_missing_values_can_be_refused() -> None:
    refused("missing values in age 1, region 2 records", keys=["age", "region"], missing="refuse")
    assert Microdata(PEOPLE, ["sex", "weight"], missing="refuse").table().n_records == 8
    refused("takes one of 'level', 'drop', 'refuse'", missing="skip")
    nobody = pa.table({"a": pa.array([None, 1, None, 2]), "b": pa.array(["x", None, "y", None])})
    refused("Every record", nobody, ["a", "b"], missing="drop")


@pytest.mark.parametrize("records", [True, False])
def test_weights_with_a_mean_of_one_are_taken_with_a_population(records: bool) -> None:
    people = pa.table({"sex": ["f", "m", "m", "f"], "age": [1, 2, 3, 3], "w": [0.4, 1.6, 1.2, 0.8]})
    table = Microdata(people, ["sex", "age"], weight="w", population=4000).table(records=records)
    assert table.weights is not None
    assert table.weights.sum() == pytest.approx(4.0)
    design = rc.record_risk(
        table, rc.DecomposableModel(table, cliques=[("sex", "age")]), population=4000, sampling="weights"
    ).design
    # Each cell has one record, whose own weight is mostly noise.
    assert (design.weight * table.counts).sum() == pytest.approx(4000.0)
    assert "mean of 1" in design.notes[0]
    assert "multiplied by 1e+03" in design.notes[0].replace("1,000", "1e+03")
    nobody = people.set_column(2, "w", pa.array([0.0, 1.6, 1.2, 0.8]))
    with pytest.raises(BadInput, match="not above 0"):
        Microdata(nobody, ["sex", "age"], weight="w", population=4000).table(records=records)


@pytest.mark.parametrize("records", [True, False])
@pytest.mark.parametrize(
    ("weights", "told"),
    [
        ([1.0, -2.0], "negative"),
        ([1.0, 0.25], "below 1"),
        ([1.0, 0.0], "below 1"),
        ([1.0, None], "no value|missing"),
        ([1.0, float("nan")], "no value|missing|not a number"),
        ([1.0, float("inf")], "larger than any population|not a number|not numbers"),
        ([1.0, 1e300], "larger than any population|not a number|not numbers"),
        (["1", "many"], "not a number|not numbers"),
        ([True, False], "below 1"),
    ],
)
@pytest.mark.parametrize("kind", ["pyarrow", "polars lazy", "CSV", "Parquet"])
def test_weights_that_are_no_numbers_of_persons(kind: str, weights: list[Any], told: str, records: bool, tmp_path: Path) -> None:
    if kind == "CSV" and weights[0] is True:
        told = "not a number|not numbers"
    frame = pa.table({"age": [1, 2], "sex": ["f", "m"], "w": pa.array(weights, from_pandas=False)})
    data = Microdata(KINDS[kind](frame, tmp_path), ["age", "sex"], weight="w")
    with pytest.raises(BadInput, match=told) as caught:
        data.table(records=records)
    assert "weight column 'w'" in str(caught.value)
    assert "1 or more" in str(caught.value)


def test_columns_that_can_be_no_key() -> None:
    mixed = pd.DataFrame({"x": pd.Series([1, "a", 2.5], dtype=object), "y": [1, 2, 1]})
    refused("Column 'x' cannot be a key: it mixes values of the types int and str and float", mixed, ["x", "y"])
    refused("Column 'x' cannot be a key: it holds lists", pa.table({"x": [[1], [2]], "y": [1, 2]}), ["x", "y"])


def test_frames_without_records_or_names() -> None:
    refused("no records", PEOPLE.slice(0, 0))
    refused("is named 0, which is not text", pd.DataFrame([[1, 2]]), [0])
    refused("more than one|duplicate|unique", pd.DataFrame([[1, 2]], columns=["a", "a"]), ["a"])
    refused("given as dict", {"age": [1, 2]}, ["age"])


def test_files_that_are_not_there_or_not_data(tmp_path: Path) -> None:
    people = as_csv(PEOPLE, tmp_path)
    refused(f"There is no file {tmp_path}/peple.csv. Did you mean {people}", tmp_path / "peple.csv")
    (tmp_path / "notes.docx").write_bytes(b"PK")
    refused("is a folder, and not one of Parquet or CSV parts only; name a file in it. It holds notes.docx, people.csv", tmp_path)
    refused("does not exist either", tmp_path / "no" / "people.csv")
    (tmp_path / "people.xlsx").write_bytes(b"PK")
    refused("is damaged or not a workbook", tmp_path / "people.xlsx")
    (tmp_path / "latest.csv").symlink_to("moved.csv")
    refused(f"{tmp_path}/latest.csv is a link to moved.csv, which is not there", tmp_path / "latest.csv")
    (tmp_path / "people.foo").write_bytes(b"PK")
    refused("not known by its ending '.foo'", tmp_path / "people.foo")
    (tmp_path / "header.csv").write_text("age,sex\n")
    refused("only names of columns", tmp_path / "header.csv")
    refused("There is no file", "people\0.csv")


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".arrow", ".dta", ".sav", ".sas7bdat", ".xpt"])
@pytest.mark.parametrize("content", [b"", b"PAR1", b"not at all what the name says" * 50, b"ARROW1\0\0" + b"\xff" * 64])
def test_files_that_are_not_what_their_name_says(tmp_path: Path, suffix: str, content: bytes) -> None:
    path = tmp_path / f"people{suffix}"
    path.write_bytes(content)
    assert str(path) in refused("damaged|empty|no columns", path)


@pytest.mark.parametrize("kind", ["Parquet", "Feather", "Stata", "SPSS"])
def test_files_cut_off_in_the_middle(tmp_path: Path, kind: str) -> None:
    path = KINDS[kind](PEOPLE, tmp_path)
    whole = path.read_bytes()
    for share in (0.1, 0.5, 0.9):
        path.write_bytes(whole[: int(len(whole) * share)])
        assert str(path) in refused("damaged", path)


def test_damage_inside_a_parquet_file(tmp_path: Path) -> None:
    path = as_parquet(PEOPLE, tmp_path)
    content = bytearray(path.read_bytes())
    content[4:200] = bytes(196)
    path.write_bytes(content)
    with pytest.raises(BadInput, match="damaged"):
        Microdata(path, KEYS).table(records=True)
    with pytest.raises(BadInput, match="damaged"):
        Microdata(path, KEYS).table(records=False)


def test_names_that_differ_in_case_only(tmp_path: Path) -> None:
    table = pa.table({"Age": [1, 2, 3], "age": [1, 1, 2]})
    pq.write_table(table, tmp_path / "a.parquet")
    found = Microdata(tmp_path / "a.parquet", ["Age", "age"]).table(records=False)
    assert [c.n_levels for c in found.categories] == [3, 2]


def test_paths_with_wildcards_mean_themselves(tmp_path: Path) -> None:
    for name in ("a[1].parquet", "a1.parquet"):
        pq.write_table(PEOPLE.slice(0, 8 if "[" in name else 2), tmp_path / name)
    assert Microdata(tmp_path / "a[1].parquet", ["age", "sex"]).table(records=False).n_records == 8

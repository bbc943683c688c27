"""Nothing in a protected file but its values tells which records were swapped, in any format.

Swapped and other records are compared by features of their bytes: the file is written once as it is and once with the
swaps, and whatever differs must be explained by values. A file with the same values that nobody swapped is the reference:
writing it the same way must give the same bytes, apart from where the rows of the two files are the same anyway.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rarecell.engine import open_source

N = 400
RNG = np.random.default_rng(5)
AGE = [None if u < 0.08 else str(int(a)) for u, a in zip(RNG.random(N), RNG.integers(18, 60, N), strict=True)]
REGION = [f"region {int(r)}" if r else "north, upper" for r in RNG.integers(0, 5, N)]
SWAPS = RNG.permutation(N)[:80]
PARTNER = np.roll(SWAPS, 40)


def swapped(values: list[Any], rows: np.ndarray = SWAPS, partners: np.ndarray = PARTNER) -> list[Any]:
    new = list(values)
    for row, partner in zip(rows, partners, strict=True):
        new[row] = values[partner]
    return new


def protect(path: Path, out: Path, columns: dict[str, list[Any]]) -> Path:
    source = open_source(path)
    return source.write_with_replacements(out, SWAPS, {name: [values[p] for p in PARTNER] for name, values in columns.items()})


# ---------------------------------------------------------------------- delimited text


def by_value(value: str | None) -> bool:
    """Quotes around text, none around numbers and missing values: as R writes."""
    return value is not None and not value.isdigit()


def everything(value: str | None) -> bool:
    return True


def what_needs_it(value: str | None) -> bool:
    return value is not None and "," in value


def text_file(ages: list[str | None], regions: list[str | None], quotes: Callable[[str | None], bool]) -> str:
    def field(value: str | None) -> str:
        return f'"{value or ""}"' if quotes(value) else value or ""

    return "id,age,region\n" + "".join(f"{i},{field(a)},{field(r)}\n" for i, (a, r) in enumerate(zip(ages, regions, strict=True)))


@pytest.mark.parametrize("quotes", [by_value, everything, what_needs_it])
def test_a_swapped_text_file_is_the_file_that_its_writer_would_have_written(
    quotes: Callable[[str | None], bool], tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text_file(AGE, REGION, quotes))
    out = protect(path, tmp_path / "b.csv", {"age": AGE, "region": REGION})
    assert out.read_text() == text_file(swapped(AGE), swapped(REGION), quotes)


def quoting(text: str) -> list[tuple[Any, ...]]:
    """Which fields of each record stand in quotes, beside their values."""
    rows = list(csv.reader(io.StringIO(text)))[1:]
    lines = text.splitlines()[1:]
    return [
        tuple((value, f'"{value}"' in line if value else line.endswith('""') or ',"",' in line) for value in row[1:])
        for row, line in zip(rows, lines, strict=True)
    ]


@settings(max_examples=25)
@given(st.sampled_from(["by row", "at random", "half of the file"]), st.integers(0, 10**6))
def test_quotes_that_follow_rows_or_chance_tell_nothing_of_swaps(tmp_path_factory, how: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    tool = {"by row": rng.random(N) < 0.5, "at random": None, "half of the file": np.arange(N) < N // 2}[how]
    is_quoted = rng.random((N, 2)) < 0.4 if tool is None else np.stack([tool, tool], axis=1)

    def field(value: str | None, quotes: bool) -> str:
        return f'"{value or ""}"' if quotes or "," in (value or "") else value or ""

    text = "id,age,region\n" + "".join(
        f"{i},{field(a, q)},{field(r, s)}\n" for i, (a, r, (q, s)) in enumerate(zip(AGE, REGION, is_quoted, strict=True))
    )
    folder = tmp_path_factory.mktemp("marks")
    path = folder / "a.csv"
    path.write_text(text)
    out = protect(path, folder / "b.csv", {"age": AGE, "region": REGION})
    after = quoting(out.read_text())
    assert [tuple(v for v, _ in row) for row in after] == [
        (a or "", r) for a, r in zip(swapped(AGE), swapped(REGION), strict=True)
    ]
    # The quotes of a field follow from its value alone, the same in every record.
    for column in range(2):
        forms = {value: {row[column][1] for row in after if row[column][0] == value} for value, _ in {r[column] for r in after}}
        assert all(len(found) == 1 for found in forms.values())


# ---------------------------------------------------------------------- columns


def table(ages: list[Any], regions: list[Any], *, dictionary: bool) -> pa.Table:
    columns = {"id": pa.array(range(N)), "age": pa.array(ages), "region": pa.array(regions)}
    if dictionary:
        columns |= {name: columns[name].dictionary_encode() for name in ("age", "region")}
    return pa.table(columns)


def batches_of(whole: pa.Table, n_rows: int = 50) -> list[pa.RecordBatch]:
    """Each batch with a dictionary of its own, in the order in which its values occur."""
    found = []
    for first in range(0, N, n_rows):
        part = whole.slice(first, n_rows)
        arrays = []
        for column in part.columns:
            array = column.combine_chunks()
            if pa.types.is_dictionary(array.type):
                array = array.dictionary_decode().dictionary_encode()
            arrays.append(array)
        found.append(pa.record_batch(arrays, names=part.column_names))
    return found


def write_stream(path: Path, whole: pa.Table) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, whole.schema) as writer:
        for batch in batches_of(whole):
            writer.write_batch(batch)


def write_arrow(path: Path, whole: pa.Table) -> None:
    unified = whole.unify_dictionaries()
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, whole.schema) as writer:
        writer.write_table(unified, max_chunksize=50)


def write_parquet(path: Path, whole: pa.Table) -> None:
    pq.write_table(whole, path, row_group_size=50)


def dictionaries(path: Path, name: str) -> list[list[Any]]:
    """The values of a column's dictionary in each piece of a file, in their order."""
    if path.suffix == ".parquet":
        file = pq.ParquetFile(path, read_dictionary=[name])
        columns = [file.read_row_group(group).column(name).combine_chunks() for group in range(file.num_row_groups)]
    else:
        with pa.memory_map(str(path)) as stream:
            try:
                columns = [batch.column(name) for batch in pa.ipc.open_file(stream).read_all().to_batches()]
            except pa.ArrowInvalid:
                stream.seek(0)
                columns = [batch.column(name) for batch in pa.ipc.open_stream(stream)]
    return [column.dictionary.to_pylist() if pa.types.is_dictionary(column.type) else [] for column in columns]


@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize(("name", "write"), [("a.parquet", write_parquet), ("a.arrow", write_arrow), ("s.arrow", write_stream)])
def test_the_pieces_and_dictionaries_of_a_columnar_file_tell_nothing_of_swaps(
    name: str, write: Callable[[Path, pa.Table], None], dictionary: bool, tmp_path: Path
) -> None:
    path = tmp_path / name
    write(path, table(AGE, REGION, dictionary=dictionary))
    out = protect(path, tmp_path / f"out{path.suffix}", {"age": AGE, "region": REGION})
    # The file of the same values in which nobody was swapped, written in the same way.
    twin = tmp_path / f"twin-{name}"
    write(twin, table(swapped(AGE), swapped(REGION), dictionary=dictionary))
    same = {"age": [swapped(AGE)[0]], "region": [REGION[0]]}
    assert 0 not in SWAPS
    reference = open_source(twin).write_with_replacements(tmp_path / f"reference{path.suffix}", np.array([0]), same)
    for column in ("age", "region"):
        found = dictionaries(out, column)
        assert found == dictionaries(reference, column)
        if name == "s.arrow" and dictionary:
            assert all(values == sorted(values, key=lambda v: (v is None, v)) for values in found)
    if path.suffix == ".parquet":
        assert shape_of(out) == shape_of(reference)
    assert out.read_bytes() == reference.read_bytes()


def shape_of(path: Path) -> list[tuple[Any, ...]]:
    """What the metadata of a Parquet file say of each piece of each column."""
    metadata = pq.ParquetFile(path).metadata
    found = []
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(number)
            statistics = chunk.statistics
            found.append((chunk.encodings, chunk.compression, chunk.num_values, statistics and (statistics.min, statistics.max)))
    return found


# ---------------------------------------------------------------------- statistics packages


def statistics_file(path: Path, ages: list[Any], regions: list[Any]) -> None:
    pyreadstat = pytest.importorskip("pyreadstat")
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"id": range(N), "age": [None if a is None else float(a) for a in ages], "region": regions})
    writers = {".dta": pyreadstat.write_dta, ".sav": pyreadstat.write_sav, ".xpt": pyreadstat.write_xport}
    writers[path.suffix](frame, str(path))


@pytest.mark.parametrize("suffix", [".dta", ".sav", ".xpt"])
def test_a_swapped_file_of_a_statistics_package_is_the_one_of_the_swapped_values(suffix: str, tmp_path: Path) -> None:
    path, twin = tmp_path / f"a{suffix}", tmp_path / f"twin{suffix}"
    statistics_file(path, AGE, REGION)
    statistics_file(twin, swapped(AGE), swapped(REGION))
    ages = [None if a is None else float(a) for a in AGE]
    out = protect(path, tmp_path / f"out{suffix}", {"age": ages, "region": REGION})
    same = {"age": [None if swapped(AGE)[0] is None else float(swapped(AGE)[0])], "region": [REGION[0]]}
    reference = open_source(twin).write_with_replacements(tmp_path / f"reference{suffix}", np.array([0]), same)
    found, expected = out.read_bytes(), reference.read_bytes()
    # Both carry the time at which they were written, in their heads.
    n_head = {".dta": 2000, ".sav": 300, ".xpt": 600}[suffix]
    assert len(found) == len(expected)
    assert found[n_head:] == expected[n_head:]


def test_what_a_program_left_behind_the_texts_of_a_stata_file_tells_nothing(tmp_path: Path) -> None:
    from rarecell.engine.stata import read_layout

    path = tmp_path / "a.dta"
    regions = [region[:8] for region in REGION]
    regions[0] = "a region with a long name"
    statistics_file(path, AGE, regions)
    layout = read_layout(path)
    place = layout.columns["region"]
    data = bytearray(path.read_bytes())
    for row in range(N):
        end = layout.data_offset + row * layout.row_width + place.offset + place.width
        data[end - 3 : end] = b"\0xy" if row else data[end - 3 : end]
    path.write_bytes(data)
    out = protect(path, tmp_path / "out.dta", {"region": regions})
    written = out.read_bytes()
    tails = set()
    for row in range(N):
        end = layout.data_offset + row * layout.row_width + place.offset + place.width
        tails.add(written[end - 3 : end])
    assert b"\0xy" not in tails
    assert open_source(out).take(np.arange(N), ["region"])["region"].to_pylist() == swapped(regions)


# ---------------------------------------------------------------------- parts


def test_a_value_from_another_part_of_a_folder_of_text_is_quoted_as_it_is_there(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    # No record of the first part lacks its region; in the second the missing ones stand bare among quoted texts.
    first, second = ["north", "south"] * 20, ["west", None] * 20
    for number, regions in enumerate((first, second)):
        fields = ["" if region is None else chr(34) + region + chr(34) for region in regions]
        body = "".join(f"{i},{field}\n" for i, field in enumerate(fields))
        (folder / f"part-{number}.csv").write_text(f"id,region\n{body}")
    source = open_source(folder)
    rows, values = np.array([0, 41]), [None, "north"]
    out = source.write_with_replacements(tmp_path / "out", rows, {"region": pa.array(values)})
    written = "".join(path.read_text() for path in sorted(out.iterdir()))
    assert '0,\n1,"south"\n' in written
    assert '""' not in written
    assert '1,"north"\n' in written


def test_dictionaries_of_parts_tell_nothing_of_swaps(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    for number, regions in enumerate((["b", "a", "b"], ["d", "c", "d"])):
        pq.write_table(pa.table({"region": pa.array(regions).dictionary_encode()}), folder / f"part-{number}.parquet")
    out = open_source(folder).write_with_replacements(tmp_path / "out", np.array([0, 3]), {"region": ["d", "b"]})
    found = [pq.read_table(path).column("region").combine_chunks() for path in sorted(out.iterdir())]
    assert [part.to_pylist() for part in found] == [["d", "a", "b"], ["b", "c", "d"]]
    assert [part.dictionary.to_pylist() for part in found] == [["a", "b", "d"], ["b", "c", "d"]]

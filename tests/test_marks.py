"""Nothing in a protected file but its values tells which records were swapped, in any format.

Swapped and other records are compared by features of their bytes: the file is written once as it is and once with the
swaps, and whatever differs must be explained by values. A file with the same values that nobody swapped is the reference:
writing it the same way must give the same bytes, apart from where the rows of the two files are the same anyway.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from rarecell.cli.commands import main
from rarecell.data.microdata import Microdata
from rarecell.engine import open_source
from rarecell.engine.changes import Changes
from rarecell.engine.duck import EngineSettings
from tests.test_engine_encodings import open_document, workbook

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
    return source.write(out, Changes(SWAPS, {name: [values[p] for p in PARTNER] for name, values in columns.items()}))


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
    reference = open_source(twin).write(tmp_path / f"reference{path.suffix}", Changes(np.array([0]), same))
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
    reference = open_source(twin).write(tmp_path / f"reference{suffix}", Changes(np.array([0]), same))
    found, expected = out.read_bytes(), reference.read_bytes()
    # Both carry the time at which they were written, in their heads.
    n_head = {".dta": 2000, ".sav": 300, ".xpt": 600}[suffix]
    assert len(found) == len(expected)
    assert found[n_head:] == expected[n_head:]


def test_what_a_program_left_behind_the_texts_of_a_stata_file_tells_nothing(tmp_path: Path) -> None:
    from rarecell.engine.statistics.stata import read_layout

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
    out = source.write(tmp_path / "out", Changes(rows, {"region": pa.array(values)}))
    written = "".join(path.read_text() for path in sorted(out.iterdir()))
    assert '0,\n1,"south"\n' in written
    assert '""' not in written
    assert '1,"north"\n' in written


def test_dictionaries_of_parts_tell_nothing_of_swaps(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    for number, regions in enumerate((["b", "a", "b"], ["d", "c", "d"])):
        pq.write_table(pa.table({"region": pa.array(regions).dictionary_encode()}), folder / f"part-{number}.parquet")
    out = open_source(folder).write(tmp_path / "out", Changes(np.array([0, 3]), {"region": ["d", "b"]}))
    found = [pq.read_table(path).column("region").combine_chunks() for path in sorted(out.iterdir())]
    assert [part.to_pylist() for part in found] == [["d", "a", "b"], ["b", "c", "d"]]
    assert [part.dictionary.to_pylist() for part in found] == [["a", "b", "d"], ["b", "c", "d"]]


# ---------------------------------------------------------------------- text in other encodings, workbooks, Spark

OTHERS = np.setdiff1d(np.arange(N), SWAPS)[:80]
CITY = [("Zürich", "Genève", "Málaga, alta", "Bern")[int(c)] for c in RNG.integers(0, 4, N)]


def as_they_were(columns: dict[str, list[Any]], rows: np.ndarray = OTHERS) -> dict[str, list[Any]]:
    """The values that these rows have anyway, to be written as if they were new."""
    return {name: [values[row] for row in rows] for name, values in columns.items()}


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le", "utf-8"])
@pytest.mark.parametrize("quotes", [by_value, what_needs_it])
def test_a_swapped_text_in_any_encoding_is_the_one_its_writer_would_have_written(
    quotes: Callable[[str | None], bool], encoding: str, suffix: str, tmp_path: Path
) -> None:
    settings = EngineSettings(encoding=None if encoding in ("utf-16", "utf-8") else encoding)
    pack = (lambda data: gzip.compress(data, mtime=0)) if suffix.endswith("gz") else bytes
    path, twin = tmp_path / f"a{suffix}", tmp_path / f"twin{suffix}"
    path.write_bytes(pack(text_file(AGE, CITY, quotes).encode(encoding)))
    twin.write_bytes(pack(text_file(swapped(AGE), swapped(CITY), quotes).encode(encoding)))
    new = {name: [values[p] for p in PARTNER] for name, values in {"age": AGE, "region": CITY}.items()}
    out = open_source(path, settings=settings).write(tmp_path / f"out{suffix}", Changes(SWAPS, new))
    same = as_they_were({"age": swapped(AGE), "region": swapped(CITY)})
    reference = open_source(twin, settings=settings).write(tmp_path / f"reference{suffix}", Changes(OTHERS, same))
    assert out.read_bytes() == reference.read_bytes()
    opened = gzip.decompress if suffix.endswith("gz") else bytes
    assert opened(out.read_bytes()) == opened(twin.read_bytes())


@pytest.mark.parametrize("suffix", [".xlsx", ".ods"])
def test_what_is_written_from_a_workbook_is_the_text_of_the_workbook_of_the_swapped_values(suffix: str, tmp_path: Path) -> None:
    pytest.importorskip("python_calamine")

    def book(path: Path, ages: list[Any], regions: list[Any]) -> Path:
        rows = [[i, "" if a is None else int(a), r] for i, (a, r) in enumerate(zip(ages, regions, strict=True))]
        whole = [["id", "age", "region"], *rows]
        return open_document(path, whole) if suffix == ".ods" else workbook(path, {"Data": whole})

    path = book(tmp_path / f"a{suffix}", AGE, REGION)
    twin = book(tmp_path / f"twin{suffix}", swapped(AGE), swapped(REGION))
    out = protect(path, tmp_path / "out.csv", {"age": AGE, "region": REGION})
    same = as_they_were({"age": swapped(AGE), "region": swapped(REGION)})
    reference = open_source(twin).write(tmp_path / "reference.csv", Changes(OTHERS, same))
    assert out.read_bytes() == reference.read_bytes()
    assert out.read_text() == text_file(swapped(AGE), swapped(REGION), what_needs_it)


def pages_of(path: Path) -> tuple[bytes, dict[str, Any]]:
    """The bytes of a Parquet file before its footer, and the footer: Java lists a set of encodings there, in an order that
    depends on the process.
    """
    footer = pq.read_metadata(path).to_dict()
    for group in footer["row_groups"]:
        for chunk in group["columns"]:
            chunk["encodings"] = sorted(chunk["encodings"])
    return path.read_bytes()[: -8 - pq.read_metadata(path).serialized_size], footer


@pytest.mark.spark
@pytest.mark.slow
def test_the_parts_that_spark_writes_are_those_of_the_swapped_values(spark: Any, tmp_path: Path) -> None:
    from rarecell.engine.spark.source import SparkSource

    def parts(ages: list[Any], regions: list[Any], rows: np.ndarray, new: dict[str, list[Any]], name: str) -> list[Any]:
        frame = spark.createDataFrame(table(ages, regions, dictionary=False))
        source = Microdata(frame, ["age", "region"], id="id").source
        assert isinstance(source, SparkSource)
        written = source.write(tmp_path / name, Changes(pa.array(rows), new, id_column="id"))
        return [pages_of(part) for part in sorted(written.iterdir())]

    new = {name: [values[p] for p in PARTNER] for name, values in {"age": AGE, "region": REGION}.items()}
    found = parts(AGE, REGION, SWAPS, new, "out")
    same = as_they_were({"age": swapped(AGE), "region": swapped(REGION)})
    reference = parts(swapped(AGE), swapped(REGION), OTHERS, same, "reference")
    assert len(found) > 1
    assert found == reference


# ---------------------------------------------------------------------- records of a whole run


def test_no_feature_of_a_record_tells_after_a_whole_run_that_it_was_swapped(tmp_path: Path) -> None:
    """A careless file: quotes, blanks around values, leading zeros and ends of lines follow chance, record by record.

    Each feature of a record's bytes is compared between the swapped records and the others, and the largest difference with
    those of the same records under shuffled labels.
    """
    rng = np.random.default_rng(14)
    n = 1500
    ages, places = rng.integers(20, 60, n), rng.integers(0, 12, n)

    def careless(text: str) -> str:
        return f'"{text}"' if rng.random() < 0.4 else text

    lines = [
        f"{i},{careless(str(a))},{careless(f'place {p}')},{'fm'[i % 2]}{' ' * int(rng.integers(0, 3))}".encode()
        + (b"\r\n" if rng.random() < 0.5 else b"\n")
        for i, (a, p) in enumerate(zip(ages, places, strict=True))
    ]
    path = tmp_path / "a.csv"
    path.write_bytes(b"id,age,place,sex\n" + b"".join(lines))
    words = ["protect", str(path), "--keys", "age,place", "--population", "60000", "--top", "150", "--quiet"]
    done = CliRunner().invoke(main, [*words, "--out", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    after = (tmp_path / "run" / "protected.csv").read_bytes().splitlines(keepends=True)[1:]
    log = pq.read_table(tmp_path / "run" / "swaps.parquet")
    is_swapped = np.zeros(n, dtype=bool)
    for column in ("record", "partner"):
        is_swapped[log.column(column).to_numpy()] = True
    assert 50 < is_swapped.sum() < n - 50
    fields = [line.rstrip(b"\r\n").split(b",") for line in after]
    texts = np.array([[field.strip(b' "') for field in record] for record in fields])
    forms = [[field.startswith(b'"') for field in record] for record in fields]
    features = [
        *(beyond(values, form) for values, form in zip(texts.T[1:3], np.array(forms).T[1:3], strict=True)),
        np.array([len(line) - sum(map(len, values)) for line, values in zip(after, texts, strict=True)]),
        np.array([record[3].count(b" ") for record in fields]),
        np.array([line.endswith(b"\r\n") for line in after]),
    ]
    varying = np.array([feature for feature in features if np.std(feature) > 1e-9], dtype=float)
    assert len(varying) >= 3, "blanks and ends of lines, which nobody swaps, stay as they were"
    scaled = (varying - varying.mean(axis=1)[:, None]) / varying.std(axis=1)[:, None]

    def largest(chosen: np.ndarray) -> float:
        return float(np.abs(scaled[:, chosen].mean(axis=1) - scaled[:, ~chosen].mean(axis=1)).max())

    shuffled = [largest(rng.permutation(is_swapped)) for _ in range(400)]
    assert largest(is_swapped) <= np.quantile(shuffled, 0.995)


def beyond(values: np.ndarray, form: np.ndarray) -> np.ndarray:
    """What a form has beyond the average of its value: risky records have rare values, whatever their form."""
    _, place = np.unique(values, return_inverse=True)
    average = np.bincount(place, weights=form) / np.bincount(place)
    return np.asarray(form - average[place])

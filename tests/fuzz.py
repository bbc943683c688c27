"""Does every input, however damaged, end in a result or in one clear paragraph?

Text, Parquet and Arrow files, configurations, command lines, hierarchies, frames, roles, run folders, cookies and numbers of
levels are made at random and damaged at random; protections, twins, handovers and killed commands are held against what the
documentation promises (``benchmarks/promises.py`` counts by promise). A case ends well when it gives a table whose counts are those of a plain reader in Python (where the damage left the
file well-formed), a result, or a :class:`RarecellError` of one paragraph. Tracebacks, hangs, crashes and wrong counts are
printed with the name of their case, and the exit code is 1.

    python tests/fuzz.py --seconds 60 --seed 1
    python tests/fuzz.py --case csv:17        # one case again, with its traceback
    python tests/fuzz.py --guided csv -max_total_time=600    # coverage guides the cases; needs the package atheris

What follows the kind of guided cases is handed to atheris, such as a folder to keep inputs in, or the file of an input that ended
badly, to see it again.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import datetime
import decimal
import gc
import importlib
import io
import json
import math
import multiprocessing
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
import tomllib
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rarecell.data.levels import MISSING_WORDS
from rarecell.data.microdata import Microdata
from rarecell.data.names import joined_names
from rarecell.engine.text.source import CsvSource, TranscodedSource
from rarecell.errors import RarecellError
from rarecell.machine.disk import remove
from rarecell.run.config import ProtectConfig, RunConfig
from rarecell.run.options import options_of

SECONDS_A_CASE = 600.0
"""A case that takes longer hangs. Machines that run tests are slow and busy, and the first case of a kind compiles its loops."""

MEMORY = 16 << 30
LONGEST_MESSAGE = 3000

WORDS = [
    "",
    "0",
    "1",
    "2",
    "3",
    "10",
    "07",
    "-1",
    "1.5",
    ".5",
    "1e3",
    "NA",
    "nan",
    "NULL",
    ".",
    "m",
    "f",
    "north",
    "Zürich",
    "日本",
]
WORDS += [
    "2020-01-31",
    "2020-02-30",
    " 1",
    "1 ",
    "true",
    "'",
    "a'b",
    "-0",
    "0.0",
    "=1+1",
    "9" * 25,
    "x" * 300,
    "\ufeff1",
    "a\u2028b",
    "1,5",
]
NAMES = [
    "age",
    "sex",
    "region",
    "Age",
    "AGE",
    "n",
    "count",
    "total",
    "weight",
    "select",
    "key one",
    "größe",
    "日本",
    "a.b",
    "a,b",
    "a;b",
]
NAMES += ['a"b', "a'b", "--", "1", "", " ", "x" * 200, "a/3", "None", "\x1b[31mred", "index", "record", "$1", "*", "\\", "a\tb"]
SPLICES = [
    b"\0",
    b"\r",
    b"\n",
    b"\r\n",
    b'"',
    b'""',
    b",",
    b";",
    b"\t",
    b"\xff",
    b"\xc3",
    b"\xef\xbb\xbf",
    b"sep=;\n",
    b"\x1f\x8b",
    b"PAR1",
    b"9" * 400,
]


class WrongCount(Exception):
    """The program counted otherwise than a plain reader."""


class LeftBehind(Exception):
    """A file is left where none should be."""


# ---------------------------------------------------------------------- damage


def damaged(data: bytes, rng: random.Random, n_changes: int) -> bytes:
    changed = bytearray(data)
    for _ in range(n_changes):
        at = rng.randrange(len(changed) + 1)
        length = rng.choice([1, 1, 1, 2, 5, 40])
        match rng.randrange(7):
            case 0 if changed and at < len(changed):
                changed[at] ^= 1 << rng.randrange(8)
            case 1 if changed and at < len(changed):
                changed[at] = rng.randrange(256)
            case 2:
                del changed[at : at + length]
            case 3:
                changed[at:at] = changed[at : at + length]
            case 4:
                changed[at:at] = rng.choice(SPLICES)
            case 5:
                del changed[at:]
            case _:
                other = rng.randrange(len(changed) + 1)
                changed[at : at + length] = changed[other : other + length]
    return bytes(changed)


# ---------------------------------------------------------------------- plain readers


def plain_text(data: bytes, delimiter: str, encoding: str = "utf-8-sig") -> tuple[int, list[list[str]]]:
    """Number of columns and the records of a delimited text that was accepted, by the standard library alone."""
    text = data.decode(encoding)
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    while not rows[0]:
        rows.pop(0)
    n_columns = len(rows[0])
    # Blank lines at the end are no records; between records they are, in a file of one column.
    while len(rows) > 1 and not rows[-1]:
        rows.pop()
    records = [row or [""] for row in rows[1:] if row or n_columns == 1]
    if any(len(row) != n_columns for row in records):
        raise WrongCount("records with another number of fields were accepted")
    return n_columns, records


def text_levels(values: Sequence[str], decimal_mark: str) -> list[str | None]:
    """Empty is missing, and so are the words for it in a column that else holds plain numbers, no two of them equal."""
    numbers = {value for value in values if value} - MISSING_WORDS
    pattern = rf"-?(0|[1-9][0-9]*)|-?(0|[1-9][0-9]*)?{re.escape(decimal_mark)}[0-9]+"
    is_numeric = bool(numbers) and all(len(v) <= 300 and re.fullmatch(pattern, v) for v in numbers)
    if is_numeric:
        meant = {v: float(v.replace(decimal_mark, ".")) if decimal_mark in v else int(v) for v in numbers}
        is_numeric = len(set(meant.values())) == len(meant) and all(math.isfinite(v) for v in meant.values())
    return [None if not v or (is_numeric and v in MISSING_WORDS) else v for v in values]


def value_levels(values: Sequence[Any]) -> list[Any]:
    return [None if v is None or v == "" or (isinstance(v, float) and math.isnan(v)) else v for v in values]


def compare(data: Microdata, columns: Sequence[list[Any]], *, both_ways: bool) -> None:
    """Hold the table of the data, counted in memory and by the engine, against the levels of each key's records."""
    wanted = Counter(zip(*columns, strict=True))
    tables = [data.table(records=True)] + ([data.table(records=False)] if both_ways else [])
    for table in tables:
        if data.missing == "drop":
            wanted = Counter({cell: n for cell, n in wanted.items() if None not in cell})
        if sorted(table.counts.tolist()) != sorted(wanted.values()):
            raise WrongCount(f"cells {sorted(table.counts.tolist())} instead of {sorted(wanted.values())}")
        for position, categories in enumerate(table.categories):
            levels = {cell[position] for cell in wanted}
            if categories.n_levels != len(levels) or categories.has_missing != (None in levels):
                raise WrongCount(f"key {position} has {categories.n_levels} levels instead of {len(levels)}")
    if len(tables) == 2:
        same = tables[0].categories == tables[1].categories and np.array_equal(tables[0].cells, tables[1].cells)
        if not same or not np.array_equal(tables[0].counts, tables[1].counts):
            raise WrongCount("the engine and the memory count differently")


# ---------------------------------------------------------------------- text files


def random_csv(rng: random.Random, *, weights: bool = False) -> bytes:
    delimiter = rng.choice([",", ",", ";", "\t", "|"])
    newline = rng.choice(["\n", "\n", "\r\n", "\r"])
    n_columns, n_rows = rng.randint(1, 5), rng.choice([0, 1, 2, 5, 12, 12, 30, 30])
    pools = [rng.sample(WORDS, rng.choice([1, 2, 3, 4, 5, 6, 7, 8])) for _ in range(n_columns)]
    for pool in pools:
        if rng.random() < 0.5:
            pool[:] = [str(k) for k in range(rng.randint(2, 6))]
        if rng.random() < 0.1:
            pool += ["a" + delimiter, 'say "no"', "two\nlines", "two\r\nlines", '"', "a\rb"]
    names = rng.sample(NAMES, n_columns) if rng.random() < 0.3 else [f"k{k}" for k in range(n_columns)]
    if weights:
        pools[-1] = [str(rng.choice([1, 2, 3, 1.5, 2.25, 1e6])) for _ in range(3)]
        if rng.random() < 0.3:
            pools[-1] += [rng.choice(["0", "-3", "", "nan", "inf", "1e400", "heavy", "0.5", "1e12", "1e3", " 2 "])]
        names[-1] = "w"
    out = io.StringIO()
    quoting = rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
    writer = csv.writer(out, delimiter=delimiter, lineterminator=newline, quoting=quoting)
    writer.writerow(names)
    writer.writerows([rng.choice(pool) for pool in pools] for _ in range(n_rows))
    text = out.getvalue()
    if rng.random() < 0.1:
        text = text.rstrip("\r\n")
    return text.encode(rng.choice(["utf-8", "utf-8", "utf-8", "utf-8-sig"]), "replace")


def fuzz_csv(rng: random.Random, folder: Path, *, weights: bool = False) -> str:
    path = folder / f"case{rng.choice(['.csv', '.csv', '.tsv', '.txt', '.csv.gz'])}"
    data = damaged(random_csv(rng, weights=weights), rng, rng.choice([0, 0, 0, 0, 1, 1, 1, 2, 5]))
    if path.suffix == ".gz" and rng.random() < 0.9:
        import gzip

        packed = gzip.compress(data, mtime=0)
        path.write_bytes(damaged(packed, rng, rng.choice([0, 0, 1])))
    else:
        path.write_bytes(data)
    names = [column.name for column in Microdata(path, keys=_some_key(path)).source.columns()]
    weight = "w" if weights and "w" in names and len(names) > 1 else None
    keys = rng.sample([name for name in names if name != weight], rng.randint(1, min(3, len(names) - (weight is not None))))
    found = Microdata(path, keys=keys, weight=weight, missing=rng.choice(["level", "level", "drop", "refuse"]))
    # A byte that is not UTF-8 may be a letter of an older encoding, and then the file is read in that one.
    assert isinstance(found.source, CsvSource | TranscodedSource)
    encoding = found.source.encoding if isinstance(found.source, TranscodedSource) else "utf-8-sig"
    if path.suffix == ".gz" or data.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n").startswith(b"sep="):
        found.table()
        return "read"
    both_ways = rng.random() < 0.1
    found.table(records=True)
    _, records = plain_text(data, chr(found.source.as_utf8.dialect.delimiter), encoding)
    columns = [text_levels([row[names.index(key)] for row in records], found.source.decimal_mark) for key in keys]
    compare(found, columns, both_ways=both_ways)
    if weight is not None:
        mark = found.source.decimal_mark
        kept = [k for k, cell in enumerate(zip(*columns, strict=True)) if found.missing != "drop" or None not in cell]
        total = sum(float(records[k][names.index("w")].strip().replace(mark, ".")) for k in kept)
        for table in [found.table(records=True)] + ([found.table(records=False)] if both_ways else []):
            if table.weights is None or not math.isclose(float(table.weights.sum()), total, rel_tol=1e-9, abs_tol=1e-4):
                raise WrongCount(f"weights add up to {table.weights} instead of {total}")
    return "counted"


def _some_key(path: Path) -> list[str]:
    from rarecell.engine.text.scan import read_dialect

    return [read_dialect(path).names[0]]


def fuzz_weights(rng: random.Random, folder: Path) -> str:
    return fuzz_csv(rng, folder, weights=True)


def fuzz_encoding(rng: random.Random, folder: Path) -> str:
    encoding = rng.choice(["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-32", "shift_jis", "cp037", "utf-7", "utf-8"])
    text = random_csv(rng).decode("utf-8-sig", "replace")
    path = folder / "case.csv"
    path.write_bytes(text.encode(encoding, "replace"))
    data = Microdata(path, keys=_some_key(path))
    data.table(records=True)
    if encoding in ("utf-16", "utf-32"):
        raise WrongCount(f"text in {encoding} was read")
    return "read"


def fuzz_hierarchy(rng: random.Random, folder: Path) -> str:
    levels = [str(k) for k in range(rng.randint(2, 8))]
    (folder / "case.csv").write_text("k\n" + "".join(f"{rng.choice(levels)}\n" for _ in range(20)) + "\n".join(levels) + "\n")
    lines = [f"{level};{int(level) // 2};{int(level) // 4};*" for level in levels]
    path = folder / "hierarchy.csv"
    path.write_bytes(damaged("\n".join(lines).encode(), rng, rng.choice([0, 1, 1, 2, 5])))
    table = Microdata(folder / "case.csv", keys=["k"], hierarchies={"k": path}).table()
    if table.n_records < 20:
        raise WrongCount("records were lost")
    return "read"


# ---------------------------------------------------------------------- frames and columnar files


def random_column(rng: random.Random, n_rows: int) -> pa.Array:
    def some(pool: Sequence[Any], kind: pa.DataType) -> pa.Array:
        with_missing = [*pool, None] if rng.random() < 0.4 else pool
        return pa.array([rng.choice(with_missing) for _ in range(n_rows)], kind)

    match rng.randrange(11):
        case 0:
            return some([0, 1, 2, -5, 2**31, 2**62], pa.int64())
        case 1:
            kind = rng.choice([pa.int8(), pa.uint8(), pa.int16(), pa.uint32(), pa.uint64()])
            n_bits = kind.bit_width - pa.types.is_signed_integer(kind)
            least = -(2**n_bits) if pa.types.is_signed_integer(kind) else 0
            return some(rng.sample([0, 1, 2, 99, least, least + 1, 2**n_bits - 1], 4), kind)
        case 2:
            return some([0.0, 1.0, 2.5, math.nan, math.inf, 1e300], pa.float64())
        case 3:
            return some(rng.sample(WORDS, 5), rng.choice([pa.string(), pa.large_string()]))
        case 4:
            return some([True, False], pa.bool_())
        case 5:
            return some([datetime.date(2020, 1, 31), datetime.date(1900, 1, 1)], pa.date32())
        case 6:
            return some(rng.sample(WORDS, 4), pa.string()).dictionary_encode()
        case 7:
            return pa.nulls(n_rows)
        case 8:
            return some([[1], [2, 3], []], pa.list_(pa.int8()))
        case 9:
            return some([decimal.Decimal("1.50"), decimal.Decimal("2.00")], pa.decimal128(9, 2))
        case _:
            return some([datetime.datetime(2020, 1, 1, 12), datetime.datetime(1999, 9, 9)], pa.timestamp("us"))


def random_table(rng: random.Random) -> pa.Table:
    n_rows, n_columns = rng.choice([0, 1, 5, 30, 30, 30]), rng.randint(1, 5)
    names = [rng.choice(NAMES) if rng.random() < 0.4 else f"k{k}" for k in range(n_columns)]
    return pa.table([random_column(rng, n_rows) for _ in range(n_columns)], names=names)


def random_roles(rng: random.Random, names: Sequence[str]) -> dict[str, Any]:
    pool = [*names, *names, rng.choice(NAMES)]
    roles: dict[str, Any] = {"keys": rng.sample(list(dict.fromkeys(names)), rng.randint(1, min(3, len(set(names)))))}
    if rng.random() < 0.1:
        roles["keys"].append(rng.choice(pool))
    for role in ("weight", "household", "geography", "strata", "id"):
        if rng.random() < 0.1:
            roles[role] = rng.choice(pool)
    if rng.random() < 0.2:
        roles["coding"] = {rng.choice(pool): random_coding(rng)}
    roles["missing"] = rng.choice(["level", "level", "level", "drop", "refuse", "skip"] if rng.random() < 0.3 else ["level"])
    return roles


def random_coding(rng: random.Random) -> dict[str, Any]:
    values: list[Any] = [
        5,
        1,
        0,
        -1,
        2.5,
        "5",
        None,
        math.nan,
        math.inf,
        True,
        [1, 2],
        [2, 1],
        ["m", "f"],
        [],
        [None],
        {"a": 1},
        10**400,
    ]
    names = ["levels", "ordered", "edges", "width", "quantiles", "top", "bottom", "missing", "widht"]
    return {rng.choice(names): rng.choice(values) for _ in range(rng.choice([1, 1, 2]))}


def _checked(data: Microdata, table: pa.Table, rng: random.Random) -> str:
    if data.coding or data.missing == "refuse":
        data.table()
        return "read"
    columns = [value_levels(table.column(key).to_pylist()) for key in data.keys]
    compare(data, columns, both_ways=rng.random() < 0.3)
    return "counted"


def fuzz_frame(rng: random.Random, folder: Path) -> str:
    table = random_table(rng)
    roles = random_roles(rng, table.column_names)
    kind = rng.choice(["pyarrow", "pandas", "polars"])
    if len(set(table.column_names)) < table.num_columns and kind == "polars":
        kind = "pyarrow"
    if kind == "polars":
        import polars

        frame: Any = polars.from_arrow(table)
    else:
        try:
            frame = table if kind == "pyarrow" else table.to_pandas()
        except pa.ArrowNotImplementedError:
            # Two columns of one name and several types are too much for pandas.
            kind, frame = "pyarrow", table
    data = Microdata(frame, **roles)
    # pandas keeps whole numbers beside missing values as decimals, which hold 53 bits.
    return _checked(data, table, rng) if kind == "pyarrow" else (data.table() and "read")


def fuzz_columnar(rng: random.Random, folder: Path) -> str:
    table = random_table(rng)
    roles = random_roles(rng, table.column_names)
    buffer = io.BytesIO()
    suffix = rng.choice([".parquet", ".parquet", ".parquet", ".arrow"])
    if suffix == ".parquet":
        pq.write_table(
            table,
            buffer,
            row_group_size=rng.choice([1, 7, 1000]),
            compression=rng.choice(["none", "snappy", "zstd", "gzip"]),
            use_dictionary=rng.random() < 0.5,
            data_page_version=rng.choice(["1.0", "2.0"]),
        )
    else:
        options = pa.ipc.IpcWriteOptions(compression=rng.choice([None, "lz4", "zstd"]), unify_dictionaries=True)
        make = rng.choice([pa.ipc.new_file, pa.ipc.new_stream])
        with make(buffer, table.schema, options=options) as writer:
            writer.write_table(table, max_chunksize=rng.choice([3, 1000]))
    n_changes = rng.choice([0, 0, 1, 1, 2, 10])
    path = folder / f"case{suffix}"
    path.write_bytes(damaged(buffer.getvalue(), rng, n_changes))
    data = Microdata(path, **roles)
    if n_changes:
        # Damage that leaves a file well-formed changes values, and nobody can know.
        data.table(records=rng.random() < 0.7)
        return "read"
    return _checked(data, table, rng)


# ---------------------------------------------------------------------- configurations, commands, whole runs

TOML = """input = "{path}"
keys = ["a", "b"]
population = 1000
criterion = "aic"
seed = 3
threshold = 0.2
cliques = [["a", "b"]]
[coding.a]
width = 2
[protect]
top = 3
keep = [["a"]]
rules = [{{ a = "<15" }}]
"""
VALUES: list[Any] = [
    0,
    1,
    -1,
    10**30,
    0.5,
    -0.5,
    "a",
    "",
    "aic",
    True,
    [],
    ["a"],
    ["a", "a"],
    [["a"]],
    [1],
    [[1]],
    {},
    {"a": 1},
    {"a": {"width": 2}},
    "exact",
    "a\0b",
    "\udcff",
    "two\nlines",
]


def small_csv(rng: random.Random, folder: Path) -> Path:
    path = folder / "case.csv"
    rows = [f"{rng.randrange(4)},{rng.choice('xyz')},{rng.randint(1, 9)},{rng.choice(['north', 'south'])}\n" for _ in range(40)]
    path.write_text("a,b,w,s\n" + "".join(rows))
    return path


def fuzz_toml(rng: random.Random, folder: Path) -> str:
    path = small_csv(rng, folder)
    text = TOML.format(path=path)
    if rng.random() < 0.5:
        config_path = folder / "run.toml"
        config_path.write_bytes(damaged(text.encode(), rng, rng.choice([0, 1, 2, 5])))
        config = RunConfig.read(config_path)
    else:
        given = tomllib.loads(text)
        for _ in range(rng.randint(1, 3)):
            owner = rng.choice([RunConfig, RunConfig, ProtectConfig])
            names = [option.name for option in options_of(owner)]
            part = given if owner is RunConfig else given["protect"]
            part[rng.choice([*names, "populaton", "Keys"])] = rng.choice(VALUES)
        config = RunConfig.from_mapping(given)
    if RunConfig.from_toml(config.to_toml()) != config:
        raise WrongCount("a configuration changed when it was written and read")
    from rarecell.run.inputs import read

    read(config).table()
    return "read"


# Levels that a spreadsheet would take for formulas, and names and levels that an engine could take for SQL.
ODD_LEVELS = ["=1+1", "+1", "-1", "@sum", "a'b", 'a"b', "two\nlines", "x; drop table t;--", "日本", "{0}", "%s", "<b>"]
ODD_COLUMNS = ['a"b', "it's", "two\nlines", "x; drop table t;--", "select", "=1+1", "a,b", "größe", "<b>", "a\tb"]


def odd_csv(rng: random.Random, folder: Path, *, homes: bool, fits: bool) -> tuple[Path, list[str]]:
    """A file, some of whose names and levels mean something elsewhere, and the names of its columns.

    The third column is the same throughout a household, and the last one numbers these, if there are any. Some files lack values of the
    fourth. A file that fits has every name on one line, as text files must.
    """
    odd = [name for name in ODD_COLUMNS if not fits or "\n" not in name]
    names = rng.sample(odd, 5) if rng.random() < 0.5 else ["a", "b", "s", "w", "h"]
    levels, codes = rng.sample(ODD_LEVELS, 3), [f"{rng.choice('=@-19')}{rng.randrange(3)}{rng.choice('ab')}{k}" for k in range(3)]
    path = folder / rng.choice(["case.csv", "it's.csv", "a b.csv"])
    sizes = [rng.randint(1, 4) for _ in range(24)]
    areas = [rng.choice(["north", "south"]) for _ in sizes]
    numbers: list[int | str] = [*range(1, 10), *([""] if rng.random() < 0.3 else [])]
    with path.open("w", encoding="utf-8", newline="") as stream:
        out = csv.writer(stream)
        out.writerow(names[: 4 + homes])
        for number, (size, area) in enumerate(zip(sizes, areas, strict=True)):
            for _ in range(size):
                row = [rng.randrange(4), rng.choice([*levels, *codes]), area, rng.choice(numbers), number]
                out.writerow(row[: 4 + homes])
    return path, names[: 4 + homes]


NOT_TRIED = {
    "app": "serves until it is stopped; its requests have tests of their own",
    "demo": "takes no input, and minutes",
    "graphs": "reads nothing, and large numbers mean hours",
}
"""Commands that are not drawn, and why."""

_FINISHED: list[Path] = []
"""A finished protection, made once for each process and copied for the cases that look at one."""


def finished_run(folder: Path) -> Path:
    import shutil

    import rarecell as rc

    if not _FINISHED or not _FINISHED[0].exists():
        place = Path(tempfile.mkdtemp(prefix="finished-", dir=PLACE_OF_PROCESS or folder))
        people = small_csv(random.Random(1), place)
        options: dict[str, Any] = {"model": "single", "resolution": "full", "top": 3, "seed": 1, "profile": "safe-centre"}
        rc.protect(people, keys=["a", "b", "s"], population=1000, out=place / "run", **options)
        _FINISHED[:] = [place]
    run = folder / "run"
    shutil.copytree(_FINISHED[0] / "run", run)
    return run


PLACE_OF_PROCESS: Path | None = None
"""Where a process keeps what it uses in several cases; the folder of the case unless one is given."""


def tried_commands() -> dict[str, Any]:
    """Every command that is drawn, by name: whatever is declared, so that new ones are tried from their first day."""
    from rarecell.cli.commands import main

    return {name: command for name, command in main.commands.items() if name not in NOT_TRIED}


def tried_options(command: Any) -> list[Any]:
    """Every option of a command that is drawn."""
    import click

    return [option for option in command.params if isinstance(option, click.Option) and not option.is_eager]


def _places(rng: random.Random, folder: Path, data: Path, command: Any, *, fits: bool) -> list[str]:
    """The arguments of a command that stand for themselves: a file, a run, a number of a record."""
    import click

    words: list[str] = []
    for argument in command.params:
        if isinstance(argument, click.Argument):
            name = argument.name or ""
            if name in ("run", "folder", "runs"):
                run = finished_run(folder) if fits or rng.random() < 0.8 else folder
                words += [str(run)] * (2 if name == "runs" else 1)
            elif name in ("record", "partner"):
                words.append(rng.choice(["1", "7", "40", "41", "0", "x"]))
            else:
                words.append(str(data if fits else rng.choice([data, data, data, folder, "nowhere.csv", ""])))
    return words


NEEDS = {
    "l_diversity": ("sensitive",),
    "t_closeness": ("sensitive",),
    "max_guess_gain": ("sensitive",),
    "rake": ("weight",),
    "made_by": ("register",),
    "control": ("unpaired",),
    "unlink": ("household",),
    "household_order": ("household",),
    "similar": ("swap_rate",),
    "populations": ("strata",),
    "max_sure_links": ("risk_above",),
}
"""Options that mean nothing without others, and those that are then given, too."""

WAYS = (
    "records",
    "top",
    "risk_above",
    "cell_probability_below",
    "max_population_uniques",
    "max_correct_links",
    "max_record_risk",
)
"""Ways of choosing records, of which one is given."""

RECODINGS = (
    "first 2 characters",
    "first 1 character",
    "2 groups",
    "4 groups",
    "ordered",
    "edges 1 3",
    "merge 1+2",
    "2-year bands",
)
TREATMENTS = (
    *("top 99 %", "bottom 5", "round 3", "noise 5 %", "microaggregate 3", "microaggregate 3 with {b}"),
    *("pram", "pram 30 %", "drop", "2 groups", "merge 1+2", "date to month"),
)
ANALYSES = ('regression="{w} ~ {a}"', 'means="{w} by {a}"', 'table="{a}, {s}"', "means=5", 'regression="__import__(1)"')


def fitting_word(rng: random.Random, option: Any, columns: Sequence[str], places: Sequence[str]) -> str:
    """A value that an option may well accept, by what its declaration says of its values."""
    import click

    named = dict(zip("abswh", [*columns, columns[-1]], strict=False))
    metavar, kind = option.metavar or "", option.type
    match option.name:
        case "weight":
            return named["w"]
        case "household" | "cluster":
            return joined_names(columns[-1:])
        case "sensitive":
            return joined_names(columns[2:3])
        case "geography" | "strata":
            return named["s"]
        case "made_by" | "released":
            return places[-1]
        case "register" | "original" | "control" | "config":
            return rng.choice(places[:-1])
        case "analysis":
            return "x=" + rng.choice(ANALYSES).format(**named)
        case "recode":
            return f"{rng.choice(columns[:2])}={rng.choice(RECODINGS)}"
        case "treat":
            return f"{rng.choice([*columns[2:], named['w']])}={rng.choice(TREATMENTS).format(**named)}"
        case "populations":
            return "north=500,south=900"
    if isinstance(kind, click.Choice):
        return str(rng.choice(list(kind.choices)))
    if isinstance(kind, click.IntRange):
        return str((kind.min or 0) + rng.choice([0, 1, 2, 5]))
    if isinstance(kind, click.FloatRange):
        return str(round((kind.min or 0.0) + rng.choice([0.01, 0.1, 0.3, 0.9]), 3))
    if "=X" in metavar or option.name == "key_error":
        return f"{rng.choice(columns[:2])}={rng.choice(['0.05', '0.5', '2'])}"
    if "=" in metavar:
        return f"{rng.choice(columns)}={rng.choice(TEXTS)}"
    if metavar in ("A,B", "COL"):
        return joined_names(rng.sample(list(columns), rng.choice([1, 2])))
    return rng.choice([*TEXTS, *places])


def fuzz_command(rng: random.Random, folder: Path) -> str:
    """Any command with any of its options; what it was given is as before, and what it refuses leaves nothing.

    In half of the cases everything that is given may fit, so that commands do their work; in the others anything may be odd.
    """
    import click
    from click.testing import CliRunner

    from rarecell.cli.commands import main

    fits = rng.random() < 0.5
    data, columns = odd_csv(rng, folder, homes=rng.random() < 0.3, fits=fits)
    a, b, s = columns[:3]
    other, register = folder / "other.csv", folder / "register.csv"
    other.write_bytes(data.read_bytes())
    register.write_bytes(data.read_bytes() + data.read_bytes().partition(b"\n")[2])
    often = ["protect"] * 6 + ["synthesise"] * 3 + ["assess", "assess", "attack", "attack", "plan"]
    name = rng.choice([*tried_commands(), *(often if fits else ["assess", "protect"])])
    command = tried_commands()[name]
    arguments = [name, *_places(rng, folder, data, command, fits=fits)]
    options = {option.name: option for option in tried_options(command)}

    def given(option: str, *words: str) -> None:
        if option in options:
            arguments.extend([options[option].opts[0], *words])
            del options[option]

    drawn = rng.sample(sorted(options), min(len(options), rng.choice([1, 2, 3] if fits else [0, 1, 1, 2, 3])))
    if fits:
        drawn = list(dict.fromkeys([*drawn, *(need for option in drawn for need in NEEDS.get(option, ()) if need in options)]))
    if fits or rng.random() < 0.8:
        given("keys", joined_names((a, b)))
        given("columns", joined_names(columns[:4]))
        given("original", str(other))
        given("record", rng.choice(["1", "17"]))
        given("template", "report")
        if name == "attack" and (rng.random() < 0.5 or "made_by" in drawn):
            given("register", str(register))
            options.pop("population" if fits else "", None)
            if rng.random() < 0.5:
                finished_run(folder)
                given("made_by", str(folder / "run"))
        elif not fits or not {"populations", "weight"} & set(drawn):
            given("population", "1000")
        if name == "synthesise" and rng.random() < 0.8:
            given("no_measure")
    if name == "protect":
        ways = [("top", "3"), ("risk_above", "0.2"), ("max_record_risk", "0.3"), ("k", "2"), ("formal", "rate=0.1")]
        given(*rng.choice(ways if "swap_rate" not in drawn else [("swap_rate", "0.2")]))
        for other_way in WAYS if fits else ():
            options.pop(other_way, None)
    places = [str(data), str(register), str(folder / "run")]
    if len(columns) == 5 and rng.random() < 0.8:
        given("household", joined_names(columns[-1:]))
    for option in (option for option in drawn if option in options):
        if options[option].is_flag:
            arguments.append(options[option].opts[0])
        elif fits:
            arguments += [options[option].opts[0], fitting_word(rng, options[option], columns, places)]
        else:
            arguments += [options[option].opts[0], rng.choice([*TEXTS, a, b, s, joined_names((a, s)), *places])]
    if "out" in options and "out" not in drawn and rng.random() < 0.3:
        arguments += ["--out", str(folder / "results")]
    is_dry = "dry_run" in options and rng.random() < (0.2 if fits else 0.8)
    before = {path: path.read_bytes() for path in (data, other)}
    there = _tree(folder)
    done = CliRunner().invoke(main, [*arguments, *(["--dry-run"] if is_dry else [])])
    if done.exception is not None and not isinstance(done.exception, (SystemExit, click.ClickException)):
        raise done.exception
    for path, held in before.items():
        if path.read_bytes() != held:
            raise WrongCount(f"{path.name} was changed by: {arguments}")
    if done.exit_code in (1, 2) and (left := _tree(folder) - there):
        raise LeftBehind(f"{sorted(left)} by: {arguments}")
    if "Traceback" in done.output:
        raise RuntimeError(done.output)
    if done.exit_code == 1:
        raise RarecellError(done.output.strip().removeprefix("rarecell: "))
    return "refused" if done.exit_code == 2 else "read"


def _tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


TEXTS = [
    "a,b",
    "a",
    "b,,a",
    ",",
    "",
    "1000",
    "0",
    "-5",
    "1e3",
    "w",
    "north=5,south=4",
    "north=",
    "=",
    "a;b",
    "a=x.csv",
    "bic",
    "0.5",
]
TEXTS += [
    "select 1",
    "select * from 'case.csv'",
    "drop",
    "full",
    "日本",
    "--help",
    "nan",
    "inf",
    "-inf",
    "1e999",
    "9" * 400,
    "9" * 30,
]
TEXTS += [
    "-1",
    "0.2",
    "9" * 300 + "GB",
    "x" * 300,
    "a=3 groups",
    "b=first 3 characters",
    "b=first 0 characters",
    "a=first 2 characters",
    "b=4 groups",
    "../..",
    "\udcff",
    "a\0b",
    "a\nb",
    "1",
    "2",
    "public",
    "out",
]
TEXTS += [
    "w=top 99 %",
    "w=noise 5 %",
    "s=pram",
    "w=drop",
    'regression="w ~ a"',
    'a="<2"',
    "w=1",
    "a:99",
    "a=9,99",
    "0.01",
    "5",
    "20",
]


def fuzz_run(rng: random.Random, folder: Path) -> str:
    import rarecell as rc

    options: dict[str, Any] = {
        "input": str(small_csv(rng, folder)),
        "keys": rng.choice([("a", "b"), ("a",), ("a", "b", "s"), ("s", "w")]),
    }
    options["population"] = rng.choice([40, 41, 1000, 10**9, 10**18, 39])
    if rng.random() < 0.3:
        options |= rng.choice([{"weight": "w", "population": None}, {"strata": "s", "populations": {"north": 500, "south": 900}}])
    for option in rng.sample([option for option in options_of(RunConfig) if option.choices and option.name != "zeros"], 2):
        options[option.name] = rng.choice(list(option.choices))
    options["criterion"] = rng.choice(["aic", "bic", "bayes", "0.5", "-1", "0", "nan", "x"])
    found = rc.assess(RunConfig(**options))
    expected = found.summary.risk.expected_population_uniques
    if not 0.0 <= expected <= found.summary.risk.sample_uniques + 1e-9:
        raise WrongCount(f"{expected} population uniques are expected among the sample uniques")
    return "read"


def random_people(rng: random.Random) -> pa.Table:
    """Persons in households, in areas; some values are missing in some files."""
    households = [(number, rng.choice(["n", "s", "=e", "w'"]), rng.randint(1, 4)) for number in range(rng.choice([20, 40, 60]))]
    rows = [(number, area) for number, area, size in households for _ in range(size)]
    missing = rng.choice([0.0, 0.0, 0.1])

    def drawn(pool: Sequence[Any]) -> list[Any]:
        return [None if rng.random() < missing else rng.choice(pool) for _ in rows]

    columns = {
        "age": drawn(range(rng.choice([3, 9, 40]))),
        "sex": drawn(["f", "m"]),
        "job": drawn(ODD_LEVELS[: rng.randint(2, 8)]),
    }
    others = {
        "area": [area for _, area in rows],
        "house": [number for number, _ in rows],
        "pay": [rng.randint(1, 900) for _ in rows],
    }
    return pa.table({**columns, **others})


def with_roles(people: pa.Table, rng: random.Random) -> pa.Table:
    """The same people with an illness, a survey weight that depends on the area, and a code."""
    n = people.num_rows
    weight = [
        round(10.0 + 7.0 * len(area) + 3.0 * (sex == "f"), 2)
        for area, sex in zip(people["area"].to_pylist(), people["sex"].to_pylist(), strict=True)
    ]
    illness = [rng.choice(["=flu", "flu'", "none", "none", "@cold"]) for _ in range(n)]
    return people.append_column("ill", pa.array(illness)).append_column("w", pa.array(weight))


def counted_rows(table: pa.Table, names: Sequence[str]) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*(table[name].to_pylist() for name in names), strict=True))


def fuzz_protect(rng: random.Random, folder: Path) -> str:
    """A protection with any options keeps what it promises, counted from the files themselves."""
    import rarecell as rc

    people = random_people(rng)
    keys = rng.sample(["age", "sex", "job", "area"], rng.randint(2, 4))
    options: dict[str, Any] = {"keys": keys, "population": people.num_rows * rng.choice([1, 3, 50]), "seed": rng.randrange(99)}
    options |= {"model": rng.choice(["single", "average"]), "resolution": rng.choice(["full", "multi"]), "id": None}
    options |= {"household": "house", "households_known": rng.choice(["yes", "no"])} if rng.random() < 0.5 else {}
    options |= {"accept_leak": ["house", "area"], "missing": rng.choice(["level", "level", "matches-anything"])}
    options |= rng.choice(
        [{"top": 5}, {"risk_above": 0.1}, {"max_record_risk": 0.2}, {"max_correct_links": 2.0}, {"formal": {"rate": 0.2}}]
    )
    if rng.random() < 0.15 and "area" in keys:
        options = {
            name: value for name, value in options.items() if name in ("keys", "population", "seed", "model", "accept_leak")
        }
        options |= {"swap_rate": 0.3, "geography": "area", "household": "house", "households_known": "no"}
        options |= rng.choice([{}, {"households": True, "similar": [["sex"], []]}])
    if rng.random() < 0.4 and "formal" not in options and "swap_rate" not in options:
        options |= {"suppress_rest": True} | rng.choice([{}, {"blank": keys[:1]}])
    if rng.random() < 0.3 and "swap_rate" not in options:
        options["never_swap"] = [keys[0]]
    if rng.random() < 0.4:
        options["keep"] = [rng.sample(keys, 2)]
    if rng.random() < 0.2:
        options["treat"] = {"pay": rng.choice(["round 10", "top 95 %", "drop"])}
    if rng.random() < 0.2:
        options["decoys"] = 0.5
    if rng.random() < 0.3:
        options["recode"] = {rng.choice(["age", "job"]): rng.choice(["bands of 10", "3 groups", "4 groups", "first 1 character"])}
    if rng.random() < 0.15 and len(keys) > 2:
        options["leave_out"] = [rng.choice(keys)]
    if rng.random() < 0.2 and "household" not in options:
        options["cluster"] = ["house"]
    if rng.random() < 0.4:
        people = with_roles(people, rng)
        options["accept_leak"] = [*options["accept_leak"], "w"]
        if rng.random() < 0.5:
            options |= {"weight": "w", "population": None}
            options |= {"rake": True} if rng.random() < 0.6 else {}
        if rng.random() < 0.6:
            options["sensitive"] = ["ill"]
            options |= rng.choice(
                [{"l_diversity": 2}, {"l_diversity": 3, "t_closeness": 0.6}, {"t_closeness": 0.4}, {"max_guess_gain": 0.1}]
            )
    given: Any = people
    if rng.random() < 0.3:
        given = folder / "people.parquet"
        pq.write_table(people, given)
        options["out"] = folder / "out"
    done = rc.protect(given, **options)
    after = pq.read_table(folder / "out" / "protected.parquet") if "out" in options else done.frame
    _check_protection(people, after, options, done)
    return "counted"


def _check_protection(before: pa.Table, after: pa.Table, options: dict[str, Any], done: Any) -> None:
    recoded, left_out = set(options.get("recode", {})), set(options.get("leave_out", ()))
    if left_out & set(after.column_names):
        raise WrongCount(f"{left_out} were to be left out: {options}")
    options = {
        **options,
        "keys": [key for key in options["keys"] if key not in left_out],
        "never_swap": [key for key in options.get("never_swap", ()) if key not in left_out],
        "keep": [names for names in options.get("keep", ()) if not left_out & set(names)],
    }
    keys = options["keys"]
    blanked = set() if done.suppression is None else set(done.suppression.blanked)
    travelled = {*done.summary.swap.carried, *done.release.exchanged, *done.release.hidden}
    if options.get("rake"):
        travelled.add(options["weight"])
    stay = [name for name in before.column_names if name not in {*keys, *travelled} and name not in options.get("treat", {})]
    _check_sensitive(before, after, options, done)
    for column in options.get("cluster", ()):
        members: dict[Any, set[int]] = {}
        for row, number in enumerate(before[column].to_pylist()):
            members.setdefault(number, set()).add(row)
        for key in (key for key in keys if key not in recoded | blanked):
            was, now = before[key].to_pylist(), after[key].to_pylist()
            if all(len({was[row] for row in rows}) == 1 for rows in members.values()) and not all(
                len({now[row] for row in rows}) == 1 for rows in members.values()
            ):
                raise WrongCount(f"{key} is no longer the same in every {column}: {options}")
    stay += [key for key in options.get("never_swap", ()) if key not in recoded and key not in options.get("blank", ())]
    for name in stay:
        if (
            name in after.column_names
            and not before[name].equals(after[name])
            and before[name].to_pylist() != after[name].to_pylist()
        ):
            raise WrongCount(f"{name} was to stay: {options}")
    tables = [*options.get("keep", ()), *([key] for key in keys)]
    tables += [
        margin.variables for margin in done.summary.swap.margins if all(name in before.column_names for name in margin.variables)
    ]
    for names in tables:
        is_exact = not recoded & set(names) and not blanked & set(names)
        if is_exact and counted_rows(before, names) != counted_rows(after, names):
            raise WrongCount(f"the table of {names} differs: {options}")
    if done.suppression is not None and "blank" not in options:
        fixed = {*options.get("never_swap", ()), *(name for names in options.get("keep", ()) for name in names)}
        if fixed & blanked:
            raise WrongCount(f"{fixed & blanked} were blanked: {options}")
    if not options.get("formal"):
        audit = done.plan.audit()
        if not all(audit["variables"]):
            raise WrongCount(f"a swap names no variable: {options}")
        known = [key for key in keys if key not in recoded]
        moved = (
            {
                row
                for row, (old, new) in enumerate(
                    zip(*(list(zip(*(t[key].to_pylist() for key in known), strict=True)) for t in (before, after)), strict=True)
                )
                if old != new
            }
            if known
            else set()
        )
        told = {
            *map(int, audit["record"]),
            *map(int, audit["partner"]),
            *(() if done.suppression is None else done.suppression.rows.tolist()),
        }
        if not moved <= told:
            raise WrongCount(f"records {sorted(moved - told)[:5]} changed and are not listed: {options}")
    swap = done.summary.swap
    if not 0.0 <= swap.risk_after.expected_population_uniques <= before.num_rows or not 0.0 <= swap.risk_after.highest <= 1.0:
        raise WrongCount(f"a risk is no probability: {options}")


def _check_sensitive(before: pa.Table, after: pa.Table, options: dict[str, Any], done: Any) -> None:
    """Values of a sensitive column are those of the records that the list names, or blank, and as diverse as was asked for."""
    for name in options.get("sensitive", ()):
        was, now = before[name].to_pylist(), [value or None for value in after[name].to_pylist()]
        wanted = list(was)
        receivers, sources = done.release.exchanged.get(name, ([], []))
        for receiver, source in zip(map(int, receivers), map(int, sources), strict=True):
            wanted[receiver] = was[source]
        for row in map(int, done.release.hidden.get(name, [])):
            wanted[row] = None
        if name not in done.summary.swap.carried and now != wanted:
            raise WrongCount(f"{name} is not as the list of exchanges says: {options}")
        if Counter(value for value in wanted if value is not None) - Counter(was):
            raise WrongCount(f"{name} has values that it had not: {options}")
        if "out" in options and len(receivers):
            listed = pq.read_table(Path(options["out"]) / "exchanged.parquet").to_pydict()
            if (listed["record"], listed["partner"]) != (list(map(int, receivers)), list(map(int, sources))):
                raise WrongCount(f"exchanged.parquet is not what was exchanged: {options}")
        for target in done.summary.swap.attribute_targets:
            groups: dict[Any, set[Any]] = {}
            released = zip(*(after[key].to_pylist() for key in options["keys"]), strict=True)
            for cell, value in zip(released, now, strict=True):
                if value is not None and None not in cell:
                    groups.setdefault(cell, set()).add(value)
            if target.met and any(len(values) < (target.l_diversity or 1) for values in groups.values()):
                raise WrongCount(f"a group has fewer than {target.l_diversity} values of {name}: {options}")


def fuzz_twin(rng: random.Random, folder: Path) -> str:
    """A synthetic twin has the tables that it names, in every cell, and the same values in every column."""
    import rarecell as rc

    people = random_people(rng)
    columns = rng.sample(["age", "sex", "job", "area", "pay"], rng.randint(2, 5))
    options: dict[str, Any] = {"columns": columns, "seed": rng.randrange(99), "measure": rng.random() < 0.2}
    options |= {"household": "house"} if rng.random() < 0.4 else {}
    if rng.random() < 0.3:
        numeric = rng.choice([name for name in columns if name in ("age", "pay")] or columns)
        how = rng.choice(
            [
                {"means": f"{numeric} by {columns[0]}"},
                {"table": ", ".join(columns[:2])},
                {"regression": f"{numeric} ~ {columns[0]}"},
            ]
        )
        options["analysis"] = {"=x": how}
    options |= rng.choice([{}, {}, {"epsilon": rng.choice([0.0, 1.0, 9.0])}]) | rng.choice(
        [{}, {"least_count": rng.choice([2, 5, 1000])}]
    )
    options |= rng.choice([{}, {"amounts": "smoothed"}, {"files": 2}])
    if "epsilon" not in options:
        options |= rng.choice([{}, {"near_pairs": True}, {"max_copies": rng.random()}, {"near_pairs": True, "max_copies": 0.0}])
    given: Any = people
    if rng.random() < 0.3:
        given, options["out"] = folder / "people.parquet", folder / "out"
        pq.write_table(people, given)
    done = rc.synthesise(given, **options)
    banded = {column.name for column in done.summary.columns if column.values == "smoothed"}
    for number in range(options.get("files", 1)):
        twin = pa.table(done.columns(number))
        if twin.num_rows != people.num_rows or twin.column_names != ([*(["house"] if "household" in options else []), *columns]):
            raise WrongCount(f"the twin has other records or columns: {options}")
        if "household" in options:
            sizes = [Counter(Counter(table["house"].to_pylist()).values()) for table in (people, twin)]
            areas = counted_rows(twin, ["house", "area"]) if "area" in columns else {}
            if sizes[0] != sizes[1] or ("area" in columns and len(areas) != sum(sizes[0].values())):
                raise WrongCount(f"households of the twin have other sizes or several areas: {options}")
        tables = [table for table in done.summary.tables if set(table.variables) <= set(columns)]
        kept = [table.variables for table in tables if not table.rows]
        in_bands = {column.name for column in done.summary.columns if column.values != "levels"}
        for names in [
            *([name] for name in columns if name not in banded),
            *(names for names in kept if not in_bands & set(names)),
        ]:
            if counted_rows(people, names) != counted_rows(twin, names):
                raise WrongCount(f"the table of {names} differs: {options}")
        for table in tables:
            # Households of each size are drawn from each other.
            size = re.fullmatch(r"households of (\d+)", table.rows)
            if size and not in_bands & set(table.variables):
                was, now = (_of_size(whole, int(size[1])) for whole in (people, twin))
                if counted_rows(was, table.variables) != counted_rows(now, table.variables):
                    raise WrongCount(f"the table of {table.variables} in {table.rows} differs: {options}")
    return "counted"


def _of_size(people: pa.Table, size: int) -> pa.Table:
    """The persons who live in households of a size."""
    numbers = people["house"].to_pylist()
    members = Counter(numbers)
    return people.filter(pa.array([members[number] == size for number in numbers]))


def fuzz_marks(rng: random.Random, folder: Path) -> str:
    """A file with swapped values has the bytes of the file that its writer would have made of these values."""
    from rarecell.engine import open_source
    from rarecell.engine.changes import Changes

    n = rng.choice([20, 60, 200])
    pool = [*rng.sample(ODD_LEVELS[:6] + WORDS[9:20], 4), *rng.sample(["x", "north, upper", "", "7", "07"], 2)]
    columns = {
        "id": [f"r{row}" for row in range(n)],
        "a": [rng.choice(pool) for _ in range(n)],
        "b": [str(rng.randrange(9)) for _ in range(n)],
    }
    rows = rng.sample(range(n), n // 4)
    partner = rows[1:] + rows[:1]
    moved = {name: list(values) for name, values in columns.items()}
    for name in ("a", "b"):
        for row, other in zip(rows, partner, strict=True):
            moved[name][row] = columns[name][other]
    suffix = rng.choice([".csv", ".csv", ".parquet", ".arrow"])
    write = _writer_of(rng, suffix)
    place, reference = folder / f"as-it-was{suffix}", folder / f"by-its-writer{suffix}"
    write(place, columns)
    write(reference, moved)
    changes = Changes(np.array(rows), {name: [columns[name][other] or None for other in partner] for name in ("a", "b")})
    out = open_source(place).write(folder / f"out{suffix}", changes)
    if suffix != ".csv":
        # Writers of columnar files differ in their pieces, so both go through ours.
        stays = next(row for row in range(n) if row not in rows)
        own = Changes(np.array([stays]), {name: [columns[name][stays] or None] for name in ("a", "b")})
        reference = open_source(reference).write(folder / f"reference{suffix}", own)
    if out.read_bytes() != reference.read_bytes():
        raise WrongCount("the bytes of a protected file tell that it was swapped")
    return "counted"


def _writer_of(rng: random.Random, suffix: str) -> Callable[[Path, dict[str, list[str]]], None]:
    delimiter, newline, rule = rng.choice([",", ";", "\t"]), rng.choice(["\n", "\r\n"]), rng.choice(["all", "text", "needed"])
    n_rows, dictionary = rng.choice([7, 50, 1000]), rng.random() < 0.5

    def quoted(value: str) -> str:
        needs = any(sign in value for sign in (delimiter, '"', "\n", "\r"))
        is_quoted = rule == "all" or needs or (rule == "text" and bool(value) and not value.isdigit())
        return '"' + value.replace('"', '""') + '"' if is_quoted else value

    def text(path: Path, columns: dict[str, list[str]]) -> None:
        lines = [delimiter.join(map(quoted, row)) for row in [tuple(columns), *zip(*columns.values(), strict=True)]]
        path.write_bytes("".join(line + newline for line in lines).encode())

    def columnar(path: Path, columns: dict[str, list[str]]) -> None:
        table = pa.table({name: pa.array([value or None for value in values]) for name, values in columns.items()})
        table = pa.table({name: table[name].dictionary_encode() for name in columns}) if dictionary else table
        if suffix == ".parquet":
            pq.write_table(table, path, row_group_size=n_rows)
        else:
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table.unify_dictionaries(), max_chunksize=n_rows)

    return text if suffix == ".csv" else columnar


def fuzz_outside(rng: random.Random, folder: Path) -> str:
    """A handover has no name of a record, no hash of the input, no seed and no order that leads back, and is for its owner alone."""
    import hashlib

    import rarecell as rc
    from rarecell.run.handover import handover

    people = random_people(rng)
    names = [f"person-{rng.randrange(16**12):012x}" for _ in range(people.num_rows)]
    people = people.append_column("name", pa.array(names)).append_column("other", pa.array([name[::-1] for name in names]))
    place = folder / "people.csv"
    with place.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([people.column_names, *zip(*people.to_pydict().values(), strict=True)])
    options: dict[str, Any] = {"model": "single", "resolution": "full", "top": 5, "treat": {"house": "drop"}}
    options |= {"id": "name", "seed": 987_654_321, "accept_leak": ["house", "area", "other"], "missing": "level"}
    if rng.random() < 0.5:
        options |= {"suppress_rest": True, "risk_above": 0.3, "top": None}
    if rng.random() < 0.5:
        options["recode"] = {"age": "3 groups"}
    rc.protect(place, keys=["age", "sex", "job"], population=2000, out=folder / "run", **options)
    made = handover(folder / "run", reason="a test", drop=["other"], accept=["job"])
    for path in [*(folder / "run").rglob("*"), folder / "run"]:
        if path.stat().st_mode & 0o077:
            raise WrongCount(f"{path.name} can be read by others")
    secrets = [
        *(name.encode() for name in names),
        hashlib.sha256(place.read_bytes()).hexdigest().encode(),
        b"987654321",
        b"987,654,321",
    ]
    secrets += [name[::-1].encode() for name in names]
    for path in made.iterdir():
        held = path.read_bytes()
        if told := [secret for secret in secrets if secret in held]:
            raise WrongCount(f"{path.name} has {told[0]!r}")
    return "counted"


def fuzz_kill(rng: random.Random, folder: Path) -> str:
    """Killed at any change of the disk, a command leaves the old result or the new one, and the next start cleans up."""
    import rarecell as rc
    from rarecell.machine.disk import remove_stale_folders
    from rarecell.run.folder import finish_publishing
    from rarecell.run.handover import handover

    people = small_csv(rng, folder)
    kept = people.read_bytes()
    act = rng.choice(["assess", "protect", "handover", "synthesise"])
    has_old = act == "handover" or rng.random() < 0.5
    out = finished_run(folder) if has_old else folder / "run"
    options: dict[str, Any] = {
        "keys": ["a", "b", "s"],
        "population": 1000,
        "model": "single",
        "resolution": "full",
        "overwrite": has_old,
    }
    choices: list[dict[str, Any]] = [
        {},
        {"rake": True, "weight": "w", "population": None},
        {"sensitive": ["s"], "keys": ["a", "b"], "l_diversity": 2, "recode": {"b": "first 1 character"}},
        {"leave_out": ["s"], "recode": {"a": "2 groups"}},
        {"cluster": ["s"], "keys": ["a", "b"]},
    ]
    more = rng.choice(choices)
    of_twin: dict[str, Any] = rng.choice([{}, {"household": "w", "analysis": {"x": {"table": "a, b"}}}, {"files": 2}])

    def run() -> None:
        if act == "assess":
            rc.assess(people, out=out, **options)
        elif act == "protect":
            rc.protect(people, out=out, top=3, **{**options, **more})
        elif act == "handover":
            handover(out, reason="a test", accept=["a", "b", "s", "w"])
        else:
            rc.synthesise(people, columns=["a", "b", "s"], measure=False, out=out, overwrite=has_old, seed=1, **of_twin)

    before = _held(out)
    if not _killed_at(rng.randrange(1, 60), run):
        return "read"
    if people.read_bytes() != kept:
        raise WrongCount("the input was changed")
    if out.exists():
        finish_publishing(out)
    after = _held(out)
    is_old = {name: held for name, held in after.items() if not name.startswith(".")} == before
    files = [] if "run.json" not in after else json.loads(after["run.json"])["files"]
    is_whole = bool(files) and all((out / name).exists() for name in files)
    if not is_old and not is_whole:
        raise WrongCount(f"{act} was killed and left half a result: {sorted(after)}")
    run() if is_old else None
    remove_stale_folders()
    if hidden := [path.name for path in out.iterdir() if path.name.startswith(".") and path.name != ".rarecell.lock"]:
        raise LeftBehind(f"{hidden} after {act}")
    return "counted"


def _held(folder: Path) -> dict[str, bytes]:
    """The files of a run folder."""
    return (
        {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        if folder.exists()
        else {}
    )


_CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.link", "shutil.copyfile", "shutil.rmtree")


def _killed_at(moment: int, run: Callable[[], None]) -> bool:
    """Run something in a process that is killed at a change of the disk; False if it ended before."""
    child = os.fork()
    if child == 0:
        n_changes = 0

        def watch(event: str, given: tuple[Any, ...]) -> None:
            nonlocal n_changes
            is_change = event in _CHANGES or (
                event == "open" and isinstance(given[2], int) and given[2] & (os.O_WRONLY | os.O_RDWR)
            )
            n_changes += bool(is_change)
            # Killing is an event, too.
            if is_change and n_changes == moment:
                os.kill(os.getpid(), signal.SIGKILL)

        with contextlib.suppress(BaseException):
            sys.addaudithook(watch)
            run()
        os._exit(0)
    for _ in range(600):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.WIFSIGNALED(status)
        time.sleep(0.05)
    # A process that was forked from one with threads may wait for one of them for ever; killing it is a moment, too.
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


ODD_JSON = [
    "{}",
    "[]",
    "null",
    "7",
    "[" * 5000,
    '{"files": [".."]}',
    '{"files": ["../victim.txt", "notes.txt", 5, null]}',
    '{"input": []}',
]
ODD_JSON += [
    '{"seconds": {"a": NaN}}',
    '{"folder": 1, "overwrite": true, "obsolete": ["../victim.txt"]}',
    "{",
    "\udcff",
    '{"input": {"path": 5}}',
]
ODD_NAMES = [
    "run.json",
    "summary.json",
    "run.toml",
    "model.json",
    "zeros.json",
    "risk.parquet",
    "tables",
    "report.html",
    "protected.csv",
]
ODD_NAMES += [
    "swaps.parquet",
    "notes.txt",
    ".rarecell.lock",
    ".rarecell-unfinished-x",
    ".rarecell-complete-x",
    ".rarecell-moving-x",
]


def odd_entry(rng: random.Random, place: Path, victim: Path) -> None:
    """A file, a folder, a link or a pipe under the name of a result."""
    kind = rng.choice(["json", "json", "bytes", "folder", "link", "pipe"])
    if kind == "json":
        place.write_text(rng.choice(ODD_JSON), encoding="utf-8", errors="surrogateescape")
    elif kind == "bytes":
        place.write_bytes(rng.randbytes(rng.randrange(40)))
    elif kind == "link":
        place.symlink_to(rng.choice([victim, victim.parent]))
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.mkdir()
        for name in rng.sample([".plan", "run.json", "summary.json", "victim.txt"], 2):
            (place / name).write_text(rng.choice(ODD_JSON), encoding="utf-8", errors="surrogateescape")


def fuzz_folder(rng: random.Random, folder: Path) -> str:
    """A run folder with odd things in it is written into, read and looked at; nothing but results goes away."""
    from rarecell.app.folder import ChosenFolder
    from rarecell.run.folder import RunRecord, open_run_folder
    from rarecell.run.saved import SavedRun

    victim = folder / "victim.txt"
    victim.write_text("precious")
    out = folder / "out"
    out.mkdir()
    for name in rng.sample(ODD_NAMES, rng.randint(0, 6)):
        odd_entry(rng, out / name, victim)
    notes = (out / "notes.txt").lstat() if (out / "notes.txt").is_symlink() or (out / "notes.txt").exists() else None
    outcome = "read"
    try:
        list(ChosenFolder.at(folder).run_folders())
        with open_run_folder(out, overwrite=rng.random() < 0.7) as run:
            run.write_text("summary.json", "{}")
            run.write_text("run.json", RunRecord("assess", {}, {}, 0, files=("run.json", "summary.json")).to_json())
            if rng.random() < 0.7:
                run.publish()
        SavedRun.read(out)
    except RarecellError:
        outcome = "refused"
    if victim.read_text() != "precious":
        raise WrongCount("a file outside the run folder was touched")
    if notes is not None and (out / "notes.txt").lstat().st_ino != notes.st_ino:
        raise WrongCount("a file that is no result was touched")
    return outcome


ODD_VALUES: list[Any] = [
    *(None, True, -1, 0, 1.5, 1e308, float("nan"), float("inf"), 10**400, -(10**18)),
    *("", "x", "a\0b", "\ud800", "<script>", "9" * 400, "x" * 10_000, "\u0663"),
    *([], {}, [[]], {"a": 1}, ["x"] * 3),
]


def damaged_json(path: Path, rng: random.Random) -> None:
    """Put an odd value into one place of a file, or take that place out of it."""
    stored = json.loads(path.read_text(encoding="utf-8"))

    def places(part: Any) -> Iterator[tuple[Any, Any]]:
        inner = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
        for name, value in inner:
            yield part, name
            yield from places(value)

    part, name = rng.choice(list(places(stored)))
    if rng.random() < 0.1:
        del part[name]
    else:
        part[name] = rng.choice(ODD_VALUES)
    path.write_text(json.dumps(stored), encoding="utf-8")


def fuzz_saved(rng: random.Random, folder: Path) -> str:
    """A file of a finished run is damaged in one place, and everything that reads a run looks at it."""
    from click.testing import CliRunner

    import rarecell as rc
    from rarecell.cli.commands import main

    # A script finds what lies beside it, but not the folder that it lies in.
    sys.path.append(str(Path(__file__).resolve().parent.parent))
    from tests.app_client import Browser

    run = finished_run(folder)
    small_csv(random.Random(1), folder)
    name = rng.choice(["summary.json"] * 6 + ["run.json", "run.json", "model.json", "zeros.json", "tables/riskiest-records.json"])
    damaged_json(run / name, rng)
    # The app reads a run again when its record is another one.
    os.utime(run / "run.json", ns=(0, rng.randrange(10**18)))
    there = _tree(folder)
    commands = [
        ["compare", str(run), str(run)],
        ["report", str(run), "--template", rng.choice(["ema", "iso27559", "five-safes"])],
    ]
    commands += [["explain", str(run), "--record", "3"], ["partners", str(run), "--record", "3"]]
    if rng.random() < 0.3:
        commands.append(["handover", str(run), "--signed-by", "me"])
    outcome = "read"
    for words in commands:
        done = CliRunner().invoke(main, words)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        if done.exit_code == 1:
            outcome = "refused"
            if done.output.count("\n") != 1:
                raise RuntimeError(f"not one paragraph: {done.output}")
            if left := _tree(folder) - there:
                raise LeftBehind(f"{sorted(left)} by: {words}")
    with contextlib.suppress(RarecellError):
        loaded = rc.load(run)
        for shown in (str(loaded), repr(loaded), rc.card(loaded), loaded.riskiest()):
            del shown
    browser = Browser(folder)
    for page in ("/runs", "/run?name=run", "/protect?name=run"):
        if (status := browser.get(page).status_code) not in (200, 400):
            raise RuntimeError(f"{page} of the app answers {status}")
    return outcome


def fuzz_cookie(rng: random.Random, folder: Path) -> str:
    """The right cookie lets in whatever stands beside it, and nothing else does."""
    from rarecell.app.security import Gate

    gate = Gate(port=4711)
    pieces = [
        "a=1",
        "x=a b c",
        "novalue",
        "",
        "=",
        gate.cookie,
        f"{gate.cookie}=stale",
        f"{gate.cookie}=",
        'q="a',
        "é=ü",
        "a,b",
        "$Version=1",
    ]
    line = rng.choices(pieces, k=rng.randint(0, 5))
    is_in = rng.random() < 0.5
    if is_in:
        line.insert(rng.randint(0, len(line)), f"{gate.cookie}={gate.session}")
    cookie = rng.choice(["; ", ";", " ; "]).join(line).encode()
    headers = [(b"host", b"127.0.0.1:4711"), (b"cookie", cookie)]
    refusal = gate.refusal({"type": "http", "method": "GET", "path": f"{gate.base}/data", "headers": headers})
    if (refusal is None) != is_in:
        raise WrongCount(f"a cookie line of {len(line)} pieces was {'refused' if is_in else 'let in'}")
    return "read" if is_in else "refused"


def fuzz_levels(rng: random.Random, folder: Path) -> str:
    """Keys with any number of levels are put into groups, or answered with advice."""
    from rarecell.table.coarsening import automatic_coarsenings
    from rarecell.table.uniqueness import refuse_identifying_keys

    n_records = rng.choice([10, 300, 2000, 20_000])
    n_levels = rng.choice([1, 2, 9, 100, n_records // 3, n_records])
    draw = np.random.default_rng(rng.randrange(2**32))
    codes = draw.integers(0, max(1, n_levels), n_records)
    values = codes if rng.random() < 0.5 else np.array([f"w{code}" for code in codes])
    table = Microdata(pa.table({"k": values, "s": draw.integers(0, 2, n_records)}), keys=["k", "s"]).table()
    refuse_identifying_keys(table)
    for coarsening in automatic_coarsenings(table):
        if sum(map(len, coarsening.members())) != table.categories[table.keys.index(coarsening.key)].n_levels:
            raise WrongCount("the groups of a key do not hold its levels")
    return "counted"


KINDS: dict[str, tuple[Callable[[random.Random, Path], str], float]] = {
    "csv": (fuzz_csv, 40.0),
    "weights": (fuzz_weights, 10.0),
    "encoding": (fuzz_encoding, 5.0),
    "hierarchy": (fuzz_hierarchy, 5.0),
    "frame": (fuzz_frame, 10.0),
    "columnar": (fuzz_columnar, 20.0),
    "toml": (fuzz_toml, 15.0),
    "command": (fuzz_command, 2.0),
    "run": (fuzz_run, 0.2),
    "protect": (fuzz_protect, 0.5),
    "twin": (fuzz_twin, 0.5),
    "marks": (fuzz_marks, 3.0),
    "outside": (fuzz_outside, 0.2),
    "kill": (fuzz_kill, 0.5),
    "folder": (fuzz_folder, 10.0),
    "saved": (fuzz_saved, 1.0),
    "cookie": (fuzz_cookie, 10.0),
    "levels": (fuzz_levels, 3.0),
}


ENDED_WELL = ("counted", "read", "refused")

# ---------------------------------------------------------------------- running


def outcome_of(kind: str, rng: random.Random, place: Path) -> tuple[str, str]:
    """How a case ended, and the words for it. It runs in a folder of its own, with a temporary folder that must be empty again."""
    folder, temporary = place / "a" / "b" / "case", place / "temporary"
    for new in (folder, temporary):
        new.mkdir(parents=True, exist_ok=True)
    came_from, temporary_before = Path.cwd(), tempfile.tempdir
    os.chdir(folder)
    tempfile.tempdir = str(temporary)
    try:
        outcome, words = _ended(kind, rng, folder)
        if outcome in ENDED_WELL and kind in WRITING and (fault := fault_in_results(folder)):
            outcome, words = "wrong count", fault
        if outcome in ENDED_WELL and any(temporary.iterdir()):
            gc.collect()
            # A session of Spark keeps an empty folder until the process ends.
            if left := sorted(path.name for path in temporary.iterdir() if path.is_file() or any(path.iterdir())):
                outcome, words = "left behind", f"in the temporary folder: {left}"
        if outcome in ENDED_WELL and (
            around := sorted(path.name for path in place.iterdir() if path.name not in ("a", "temporary"))
        ):
            outcome, words = "left behind", f"outside of its folder: {around}"
        return outcome, words
    finally:
        os.chdir(came_from)
        tempfile.tempdir = temporary_before
        for path in place.iterdir():
            remove(path)


WRITING = ("command", "protect", "twin", "outside", "kill")
"""Kinds of cases whose results are looked at: whom the files are for, and what a spreadsheet would do with those for people."""


def fault_in_results(folder: Path) -> str:
    """What is wrong with the files of the runs in a folder: one that others may read, or a text for people that holds a formula."""
    from rarecell.outcome.words import is_formula

    for record in folder.rglob("run.json"):
        for path in (record.parent, *record.parent.rglob("*")):
            if path.stat().st_mode & 0o077:
                return f"{path.name} can be read by others"
            if path.suffix == ".csv" and not path.name.startswith(("protected", "twin", "data")):
                with path.open(encoding="utf-8", newline="") as stream:
                    for row in csv.reader(stream):
                        # Some spreadsheets split at semicolons and tabs, whatever is quoted.
                        if formulas := [cell for cell in row if any(map(is_formula, [cell, *re.split(r"[;\t\n]", cell)[1:]]))]:
                            return f"{path.name} holds the formula {formulas[0]!r}"
    return ""


def _ended(kind: str, rng: random.Random, folder: Path) -> tuple[str, str]:
    try:
        return KINDS[kind][0](rng, folder), ""
    except RarecellError as problem:
        message = str(problem)
        is_clear = message and len(message) <= LONGEST_MESSAGE and all(c.isprintable() for c in message)
        return ("refused", "") if is_clear else ("unclear message", message[:LONGEST_MESSAGE])
    except WrongCount as problem:
        return "wrong count", str(problem)
    except LeftBehind as problem:
        return "left behind", str(problem)
    except Exception:
        return "traceback", traceback.format_exc()


def work(jobs: Any, folder: Path) -> None:
    """A process that may hang or crash: takes cases and says how they ended."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    while (case := jobs.recv()) is not None:
        kind, number = case
        jobs.send(outcome_of(kind, random.Random(f"{kind}:{number}"), folder))


def cases_for(seconds: float, seed: int) -> Iterator[tuple[str, int]]:
    """Cases of every kind, for some time."""
    rng = random.Random(seed)
    kinds, weights = list(KINDS), [weight for _, weight in KINDS.values()]
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        yield rng.choices(kinds, weights)[0], rng.randrange(10**9)


def fuzz(cases: Iterable[tuple[str, int]]) -> tuple[Counter[tuple[str, str]], list[tuple[str, str, str]]]:
    """Try cases; counts by kind and outcome, and what ended badly."""
    global PLACE_OF_PROCESS
    context = multiprocessing.get_context("fork")
    counts: Counter[tuple[str, str]] = Counter()
    bad: list[tuple[str, str, str]] = []
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as kept:
        PLACE_OF_PROCESS = Path(kept)
        worker: Any = None
        for kind, number in cases:
            if worker is None:
                ours, theirs = context.Pipe()
                worker = context.Process(target=work, args=(theirs, Path(folder)), daemon=True)
                worker.start()
                theirs.close()
            outcome, words = "crash", ""
            try:
                ours.send((kind, number))
                if ours.poll(SECONDS_A_CASE):
                    outcome, words = ours.recv()
                else:
                    outcome = "hang"
            except (EOFError, OSError):
                pass
            if outcome in ("crash", "hang"):
                worker.kill()
                worker.join()
                words, worker = f"exit code {worker.exitcode}", None
            counts[kind, outcome] += 1
            if outcome not in ENDED_WELL:
                bad.append((f"{kind}:{number}", outcome, words))
                print(f"{kind}:{number}  {outcome}: {words.strip().splitlines()[-1] if words.strip() else ''}", flush=True)
        if worker is not None:
            worker.kill()
            worker.join()
    return counts, bad


class Steered(random.Random):
    """Draws what given bytes say, so that who chooses the bytes chooses the case; at random when they are used up."""

    def __init__(self, data: bytes) -> None:
        super().__init__(0)
        self._rest = io.BytesIO(data)

    def getrandbits(self, k: int) -> int:
        taken = self._rest.read((k + 7) // 8)
        return int.from_bytes(taken, "little") & ((1 << k) - 1) if 8 * len(taken) >= k else super().getrandbits(k)

    def random(self) -> float:
        return self.getrandbits(53) / (1 << 53)


def fuzz_guided(kind: str, options: Sequence[str]) -> None:
    """Let atheris look for inputs that reach new lines of the package."""
    try:
        import atheris
    except ImportError:
        sys.exit("Guided cases need the package atheris: pip install atheris")
    for name in [name for name in sys.modules if name.split(".")[0] == "rarecell"]:
        del sys.modules[name]
    with atheris.instrument_imports(include=["rarecell"]):
        cases: Any = importlib.import_module("fuzz")

    def one_case(data: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder:
            outcome, words = cases.outcome_of(kind, Steered(data), Path(folder))
        if outcome not in ENDED_WELL:
            raise RuntimeError(f"{outcome}: {words}")

    atheris.Setup([sys.argv[0], f"-timeout={SECONDS_A_CASE:.0f}", "-len_control=0", *options], one_case)
    atheris.Fuzz()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", help="run one case again, as it was printed")
    parser.add_argument("--guided", choices=list(KINDS), help="let coverage guide cases of this kind")
    options, further = parser.parse_known_args()
    if options.guided:
        fuzz_guided(options.guided, further)
    if further:
        parser.error(f"unknown: {' '.join(further)}")
    if options.case:
        kind, _, number = options.case.partition(":")
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as kept:
            global PLACE_OF_PROCESS
            PLACE_OF_PROCESS = Path(kept)
            outcome, words = outcome_of(kind, random.Random(f"{kind}:{int(number)}"), Path(folder))
        print(outcome, words)
        sys.exit(outcome not in ENDED_WELL)
    counts, bad = fuzz(cases_for(options.seconds, options.seed))
    outcomes = sorted({outcome for _, outcome in counts})
    print(f"{'':12}" + "".join(f"{outcome:>16}" for outcome in outcomes))
    for kind in KINDS:
        print(f"{kind:12}" + "".join(f"{counts[kind, outcome]:16,}" for outcome in outcomes))
    print(f"{sum(counts.values()):,} cases, {len(bad):,} of them ended badly")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()

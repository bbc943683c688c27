"""Damaged input of every kind ends in a result or in one paragraph: a short run of the long one, and what it once found."""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import click
import duckdb
import numpy as np
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rarecell.cli.commands import main
from rarecell.data.coding import Coding
from rarecell.data.microdata import Microdata
from rarecell.engine.arrays import code_chunk, unified
from rarecell.errors import BadInput, RarecellError, UnknownChoice
from rarecell.run.config import RunConfig, options_on
from rarecell.search.score import make_score
from tests import fuzz

SCRIPT = Path(__file__).with_name("fuzz.py")


@pytest.mark.slow
def test_fuzzing_finds_nothing_in_a_quarter_of_a_minute() -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, "--seconds", "15", "--seed", "20061018"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 of them ended badly" in done.stdout


def text(content: bytes) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / "case.csv").write_bytes(content)
        return folder / "case.csv"

    return write


@pytest.mark.parametrize(
    ("make", "options", "says"),
    [
        (text(b'"a"b,c\n1,2\n2,1\n'), {"keys": ["c"]}, "after a closing quote"),
        (text(b"a\rb,c\n1,2\n2,1\n"), {"keys": ["c"]}, "carriage return"),
        (text(b" \n\n"), {"keys": ["c"]}, "column1"),
        (text(b"a\r\r\n1\n2\n"), {"keys": ["a"]}, "carriage return"),
        (
            lambda _: pa.table({"k": [1.0, float("inf")]}),
            {"keys": ["k"], "coding": {"k": {"width": 1e-9}}},
            "infinite value",
        ),
        (lambda _: pa.table({"k": [1, 2], "w": [[1], [2]]}), {"keys": ["k"], "weight": "w"}, "does not hold numbers"),
        (lambda _: pa.table({"k": [1, 2]}), {"keys": ["k"], "coding": {"k": {"width": 10**400}}}, "it must be a number"),
        (lambda _: pa.table({"k": [1, 2]}), {"keys": ["k"], "coding": {"k": {"missing": None}}}, "it must be a list"),
        (lambda _: pa.table({"k": pa.nulls(5)}), {"keys": ["k"]}, "same value in every record"),
    ],
)
def test_what_was_a_traceback_is_a_paragraph(make: Callable[[Path], object], options: dict, says: str, tmp_path: Path) -> None:
    with pytest.raises(RarecellError, match=says):
        Microdata(make(tmp_path), **options).table()


def test_a_polars_column_named_like_a_wildcard_is_one_column() -> None:
    import polars

    table = Microdata(polars.DataFrame({"*": [1, 1, 2], "a": ["x", "y", "x"]}), keys=["*", "a"]).table()
    assert table.counts.tolist() == [1, 1, 1]


def test_a_parquet_column_without_a_name_is_counted_by_the_engine(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"": [1, 1, 2], "a": ["x", "x", "x"]}), tmp_path / "case.parquet")
    assert Microdata(tmp_path / "case.parquet", keys=[""]).table(records=False).counts.tolist() == [2, 1]


def test_an_arrow_file_whose_indices_point_beyond_its_values_is_refused(tmp_path: Path) -> None:
    broken = pa.DictionaryArray.from_arrays(pa.array([0, 1, 900], pa.int32()), pa.array(["x", "y"]), safe=False)
    with pa.OSFile(str(tmp_path / "case.arrow"), "wb") as stream:
        batch = pa.record_batch([broken], names=["k"])
        with pa.ipc.new_file(stream, batch.schema) as writer:
            writer.write_batch(batch)
    for records in (True, False):
        with pytest.raises(BadInput, match="damaged"):
            Microdata(tmp_path / "case.arrow", keys=["k"]).table(records=records)


def test_a_penalty_that_is_no_number_is_refused() -> None:
    table = Microdata(pa.table({"a": [1, 2, 1], "b": [1, 2, 2]}), keys=["a", "b"]).table()
    with pytest.raises(UnknownChoice, match="penalty such as"):
        make_score(table, "nan")


def test_members_of_tables_in_a_configuration_are_checked() -> None:
    for option in ({"hierarchies": {"a": {"x": 1}}}, {"coding": {"a": 5}}, {"populations": {"north": "many"}, "strata": "a"}):
        with pytest.raises(BadInput, match="must be"):
            RunConfig.from_mapping({"input": "a.csv", "keys": ["a"], "population": 5, **option})


def test_control_characters_and_endless_lists_do_not_reach_the_terminal() -> None:
    names = {f"a name that is long enough {k}": [1, 2] for k in range(500)}
    with pytest.raises(RarecellError) as told:
        Microdata(pa.table({"\x1b[31mred\n": [1, 2], **names}), keys=["read"])
    message = str(told.value)
    assert message.isprintable()
    assert r"\x1b[31mred\n" in message
    assert len(message) < 2100
    assert Coding(missing=()).missing == ()


def test_whatever_stands_below_a_null_is_not_followed() -> None:
    chunks = []
    for values in (["x", "y"], ["y", "z"]):
        indices = pa.Array.from_buffers(
            pa.int32(), 3, [pa.py_buffer(bytes([0b101])), pa.py_buffer(np.array([1, 2**30, 0], np.int32).tobytes())]
        )
        chunks.append(pa.DictionaryArray.from_arrays(indices, pa.array(values), safe=False))
    found = unified([code_chunk(chunk) for chunk in chunks])
    assert [found.values[int(code)].as_py() for code in found.codes] == ["y", None, "x", "z", None, "y"]


@pytest.mark.parametrize("name", ["*", "^k$", "a.b", "$1", "c0", 'a"b', "__rarecell_value_1"])
def test_names_that_an_engine_could_misread_are_names(name: str, tmp_path: Path) -> None:
    people = pa.table({name: [1, 1, 2], "k": [1, 2, 2], "w.t": [1.0, 2.0, 3.0]})
    pq.write_table(people, tmp_path / "named.parquet")
    for given in (tmp_path / "named.parquet", people, duckdb.from_arrow(people), polars.LazyFrame(people)):
        data = Microdata(given, [name, "k"], weight="w.t")
        for records in (True, False):
            assert data.table(records=records).cells.tolist() == [[0, 0], [0, 1], [1, 1]]
            assert data.table(records=records).weights.tolist() == [1.0, 2.0, 3.0]


def test_bytes_steer_a_case_and_chance_ends_it() -> None:
    steered = fuzz.Steered(bytes([3, 0, 2]))
    assert [steered.getrandbits(8) for _ in range(3)] == [3, 0, 2]
    assert len(set(steered.sample(range(100), 50))) == 50
    assert [fuzz.Steered(b"").random() for _ in range(2)] == [fuzz.Steered(b"").random()] * 2


def test_every_command_and_every_option_is_fuzzed() -> None:
    """Cases follow from the declarations, so that what is added is tried; commands that are left out have a reason."""
    assert set(fuzz.tried_commands()) == set(main.commands) - set(fuzz.NOT_TRIED)
    assert set(fuzz.NOT_TRIED) <= set(main.commands)
    for name, command in fuzz.tried_commands().items():
        drawn = {option.name for option in fuzz.tried_options(command)}
        assert {option.name for _, option in options_on(name)} - {"input"} <= drawn, name
        further = {option.name for option in command.params if isinstance(option, click.Option)} - {"help", "help_all"}
        assert further <= drawn, name


def test_a_file_that_is_left_behind_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def leaves(_: random.Random, folder: Path) -> str:
        (Path(tempfile.gettempdir()) / "left").write_text("records")
        return "read"

    def leaves_outside(_: random.Random, folder: Path) -> str:
        Path("../../../outside").write_text("records")
        return "read"

    for act in (leaves, leaves_outside):
        monkeypatch.setitem(fuzz.KINDS, "leaves", (act, 1.0))
        assert fuzz.outcome_of("leaves", random.Random(1), tmp_path)[0] == "left behind"
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "n_cases"),
    [("folder", 25), ("saved", 12), ("cookie", 25), ("levels", 25), ("toml", 25), ("command", 12), ("protect", 3), ("twin", 3)],
)
def test_some_cases_of_each_kind_end_well(
    kind: str, n_cases: int, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fuzz, "PLACE_OF_PROCESS", tmp_path_factory.mktemp("kept"))
    monkeypatch.setattr(fuzz, "_FINISHED", [])
    for number in range(n_cases):
        outcome, words = fuzz.outcome_of(kind, random.Random(f"{kind}:{number}"), tmp_path)
        assert outcome in fuzz.ENDED_WELL, (number, outcome, words)

"""Queries of a PostgreSQL server: the same results as from a file, every type, nothing but reading, and no password anywhere."""

from __future__ import annotations

import _thread
import contextlib
import datetime
import glob
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from adbc_driver_postgresql import dbapi
from click.testing import CliRunner

import rarecell as rc
from rarecell import datasets
from rarecell.cli.commands import main
from rarecell.data.microdata import Microdata
from rarecell.engine import open_source
from rarecell.engine.changes import Changes
from rarecell.engine.places import connection_string, without_password
from rarecell.engine.source import numbers_of
from rarecell.errors import BadInput, MissingExtra, RarecellError
from rarecell.progress import SilentProgress
from rarecell.run.config import ProtectConfig, RunConfig

PASSWORD = "open-sesame:1"
ENCODED = "open-sesame%3A1"
KEYS = ("sex", "age", "marital", "citizenship")


@dataclass(frozen=True)
class Server:
    """A server of these tests' own; ``reader`` needs the password, ``owner`` none."""

    folder: Path
    port: int

    @property
    def address(self) -> str:
        return f"postgresql://owner@127.0.0.1:{self.port}/postgres"

    def asked(self, query: str) -> list[tuple[Any, ...]]:
        with contextlib.closing(dbapi.connect(self.address)) as connection, connection.cursor() as cursor:
            cursor.execute(query)
            found = cursor.fetchall() if cursor.description else []
            connection.commit()
            return found


def _program(name: str) -> str | None:
    return shutil.which(name) or next(iter(sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), reverse=True)), None)


def _unprivileged() -> dict[str, Any]:
    """PostgreSQL does not run as root."""
    if os.getuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            user = pwd.getpwnam(name)
            return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    pytest.skip("PostgreSQL does not run as root, and there is no user 'postgres' or 'nobody'")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    initdb, postgres = _program("initdb"), _program("postgres")
    if initdb is None or postgres is None:
        pytest.skip("there are no programs of a PostgreSQL server (initdb, postgres) on this computer")
    user = _unprivileged()
    # Below the system's place for temporary files, where another user may look, and short enough for the name of a socket.
    folder = Path(tempfile.mkdtemp(prefix="rarecell-pg-"))
    running = None
    try:
        if user:
            os.chown(folder, user["user"], user["group"])
        made = folder / "data"
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "cwd": folder, **user}
        options = ["--auth=trust", "--username=owner", "--encoding=UTF8", "--locale=C", "--no-sync"]
        subprocess.run([initdb, "-D", str(made), *options], check=True, timeout=60, **quiet)
        rules = "local all all trust\nhost all owner 127.0.0.1/32 trust\nhost all reader 127.0.0.1/32 scram-sha-256\n"
        (made / "pg_hba.conf").write_text(rules)
        found = Server(folder, _free_port())
        settings = [f"port={found.port}", "listen_addresses=127.0.0.1", f"unix_socket_directories={folder}", "fsync=off"]
        arguments = [argument for setting in settings for argument in ("-c", setting)]
        with (folder / "log").open("wb") as log:
            running = subprocess.Popen([postgres, "-D", str(made), *arguments], **{**quiet, "stderr": log})
        _wait_for(found, running)
        found.asked(f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}'")
        _fill(found)
        yield found
    finally:
        if running is not None:
            running.send_signal(signal.SIGINT)
            running.wait(timeout=20)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(server: Server, running: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            server.asked("SELECT 1")
            return
        except dbapi.Error:
            assert running.poll() is None, (server.folder / "log").read_text()
            assert time.monotonic() < deadline, (server.folder / "log").read_text()
            time.sleep(0.05)


def _fill(server: Server) -> None:
    sample = datasets.census_sample()
    sample = sample.append_column("place", pa.array(range(len(sample))))
    with contextlib.closing(dbapi.connect(server.address)) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("persons", sample)
        cursor.execute("GRANT SELECT ON persons TO reader")
        cursor.execute("CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')")
        connection.commit()


def columns_of(source: Any) -> dict[str, tuple[str, list[Any]]]:
    """For each column its kind and its values."""
    found = {}
    for column in source.columns():
        values = [value for batch in source.batches([column.name]) for value in batch.column(0).to_pylist()]
        found[column.name] = (column.kind, values)
    return found


# ---------------------------------------------------------------------- the same as a file


def test_a_table_of_a_server_gives_what_the_file_gives(server: Server, tmp_path: Path) -> None:
    wanted = ["household", *KEYS, "education"]
    sample = datasets.census_sample().select(wanted)
    pq.write_table(sample, tmp_path / "sample.parquet")
    choices: dict[str, Any] = {"keys": KEYS, "population": datasets.CENSUS_POPULATION, "model": "single"}
    protect = ProtectConfig(top=10, swap_seed=0)
    of_file = rc.protect(RunConfig(str(tmp_path / "sample.parquet"), protect=protect, **choices), out=tmp_path / "file")
    query = f"SELECT {', '.join(wanted)} FROM persons ORDER BY place"
    config = RunConfig(server.address, sql=query, protect=protect, **choices)
    of_server = rc.protect(config, out=tmp_path / "server")

    assert np.array_equal(of_file.assessment.table.counts, of_server.assessment.table.counts)
    assert np.array_equal(of_file.assessment.table.cells, of_server.assessment.table.cells)
    for name in ("risk.parquet", "protected.parquet"):
        assert pq.read_table(tmp_path / "file" / name).equals(pq.read_table(tmp_path / "server" / name)), name
    assert not pq.read_table(tmp_path / "server" / "protected.parquet").equals(sample)
    assert RunConfig.read(tmp_path / "server" / "run.toml") == config
    assert json.loads((tmp_path / "server" / "run.json").read_text())["input"]["path"] == server.address


def test_rows_stay_in_the_order_of_the_copy_when_they_come_in_pieces(server: Server) -> None:
    query = "SELECT i, md5(i::text) AS name, i % 7 AS key, 0.5::numeric AS half FROM generate_series(1, 600000) AS i"
    source = open_source(server.address, sql=query)
    pieces = [batch.column(0).to_numpy() for batch in source.batches(["i"])]
    assert np.array_equal(np.concatenate(pieces), np.arange(1, 600_001))
    assert pq.ParquetFile(source._inner.path).num_row_groups > 1  # type: ignore[attr-defined]


def test_key_and_value_pairs_and_sockets_are_taken(server: Server) -> None:
    by_socket = f"postgresql:///postgres?host={str(server.folder).replace('/', '%2F')}&port={server.port}&user=owner"
    by_pairs = f"postgres:host='{server.folder}' port={server.port} user=owner dbname=postgres"
    for address in (by_socket, by_pairs):
        assert numbers_of(open_source(address, sql="SELECT count(*) AS n FROM persons"), "n").tolist() == [9809]


# ---------------------------------------------------------------------- types


def test_types_and_missing_values(server: Server) -> None:
    query = """
        SELECT 1::smallint AS small, 2 AS whole, 3::bigint AS large, 1.5::real AS single, 2.5::float8 AS double,
            'é'::text AS text, 'b'::varchar(5) AS "varying", 'c'::char(5) AS "Fixed ""wide""s", true AS yes, date '2020-02-29' AS day,
            timestamp '2020-01-02 03:04:05' AS moment, timestamptz '2020-01-02 03:04:05+02' AS instant, 'ok'::mood AS mood,
            'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid AS id, 1.10::numeric(10, 2) AS exact, '\\x00ff'::bytea AS bytes,
            '{"a": 1}'::json AS json, ARRAY[1, 2] AS list, ARRAY['x'::char(3)] AS padded, interval '1 day' AS span,
            3.5::money AS money, int4range(1, 3) AS range, time '03:04' AS time, NULL AS nothing
        UNION ALL
        SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
            NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL -- a comment at the end
    """
    found = columns_of(open_source(server.address, sql=query))
    assert all(values[1] is None for _, values in found.values())
    assert {name: (kind, values[0]) for name, (kind, values) in found.items()} == {
        "small": ("integer", 1),
        "whole": ("integer", 2),
        "large": ("integer", 3),
        "single": ("number", 1.5),
        "double": ("number", 2.5),
        "text": ("text", "é"),
        "varying": ("text", "b"),
        'Fixed "wide"s': ("text", "c"),
        "yes": ("boolean", True),
        "day": ("date", datetime.date(2020, 2, 29)),
        "moment": ("date", datetime.datetime(2020, 1, 2, 3, 4, 5)),
        "instant": ("date", datetime.datetime(2020, 1, 2, 1, 4, 5, tzinfo=datetime.UTC)),
        "mood": ("text", "ok"),
        "id": ("text", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        "exact": ("number", Decimal("1.10")),
        "bytes": ("other", b"\x00\xff"),
        "json": ("text", '{"a": 1}'),
        "list": ("other", [1, 2]),
        "padded": ("text", '{"x  "}'),
        "span": ("text", "1 day"),
        "money": ("text", "$3.50"),
        "range": ("text", "[1,3)"),
        "time": ("other", datetime.time(3, 4)),
        "nothing": ("text", None),
    }


def test_numeric_is_a_number_as_a_key_and_as_a_weight(server: Server, tmp_path: Path) -> None:
    # Two spellings of one number are one level, and no digit is lost.
    rows = "(1.1, 'a', 2.25, ARRAY[1]), (1.10, 'b', 3, NULL), (20, 'a', 1.5, NULL), (NULL, 'b', 1, NULL)"
    query = f"SELECT * FROM (VALUES {rows}) AS given (share, region, weight, other)"
    data = Microdata(server.address, ["share", "region"], weight="weight", sql=query)
    table = data.table()
    assert [c.levels for c in table.categories] == [(1.1, 20.0, None), ("a", "b")]
    assert table.weights is not None
    assert sorted(table.weights.tolist()) == [1, 1.5, 2.25, 3]
    for records in (True, False):
        assert np.array_equal(data.table(records=records).counts, [1, 1, 1, 1])
    out = data.write(tmp_path / "out.parquet", Changes(np.array([2]), {"share": [Decimal("1.1")]}))
    written = pq.read_table(out)
    assert written.schema.field("share").type == pa.decimal128(4, 2)
    assert written.column("share").to_pylist() == [Decimal("1.10")] * 3 + [None]
    assert written.column("other").to_pylist() == [[1], None, None, None]


def test_numbers_that_no_decimal_number_can_be(server: Server) -> None:
    query = """
        SELECT * FROM (VALUES (1.5, 1e40, 12345678901234567890123456789012345678.0, 12345678901234567890123456789012345678),
            ('NaN'::numeric, 1, 1, -1)) AS given (missing, large, long, longest)
    """
    found = columns_of(open_source(server.address, sql=query))
    assert found["missing"] == ("untyped", ["1.5", "nan"])
    assert found["large"] == ("untyped", [f"1{'0' * 40}", "1"])
    assert found["long"][0] == "untyped"
    assert found["longest"] == ("number", [Decimal("12345678901234567890123456789012345678"), Decimal(-1)])
    levels = Microdata(server.address, ["missing", "large"], sql=query).table().categories
    assert levels[0].levels == (1.5, None)


@pytest.mark.parametrize("value", ["date 'infinity'", "timestamp '-infinity'", "timestamptz 'infinity'"])
def test_an_infinite_date_is_told(server: Server, value: str) -> None:
    with pytest.raises(BadInput, match="Column 'until' of the query holds the date 'infinity'"):
        open_source(server.address, sql=f"SELECT 1 AS x, {value} AS until").columns()


def test_names_that_are_doubled_and_results_without_a_row(server: Server) -> None:
    with pytest.raises(BadInput, match="more than one column named 'age'"):
        open_source(server.address, sql="SELECT age, age FROM persons").columns()
    with pytest.raises(BadInput, match="no records"):
        Microdata(server.address, ["age", "w"], sql="SELECT age, 1.5 AS w FROM persons WHERE false").table()


# ---------------------------------------------------------------------- nothing but reading


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("DELETE FROM persons", "must be one SELECT"),
        ("DELETE FROM persons RETURNING age", "would change the database"),
        ("DELETE FROM persons RETURNING age::char(3)", "must be one SELECT"),
        ("SELECT age FROM persons; DROP TABLE persons", "must be one SELECT"),
        ("SELECT age FROM persons) TO STDOUT; DROP TABLE persons; --", "could not be run: syntax error"),
        ("WITH gone AS (DELETE FROM persons RETURNING *) SELECT * FROM gone", "would change the database"),
        ("WITH gone AS (DELETE FROM persons RETURNING age::char(3)) SELECT * FROM gone", "would change the database"),
        ("SELECT * INTO copied FROM persons", "must be one SELECT"),
        ("SELECT * FROM persons FOR UPDATE", "would change the database"),
        ("DO $$ BEGIN COMMIT; DELETE FROM persons; END $$", "must be one SELECT"),
        ("COPY persons TO STDOUT", "must be one SELECT"),
        ("SET TRANSACTION READ WRITE", "must be one SELECT"),
        ("EXPLAIN ANALYZE SELECT 1", "must be one SELECT"),
        ("SELECT set_config('transaction_read_only', 'off', false) AS x", "read-write mode must be set before any query"),
        ("-- nothing", "must be one SELECT"),
        (" ; ", "must be one SELECT"),
    ],
)
def test_nothing_but_reading_is_done(server: Server, query: str, told: str) -> None:
    with pytest.raises(BadInput, match=told) as caught:
        open_source(server.address, sql=query).columns()
    assert "\n" not in str(caught.value)
    assert server.asked("SELECT count(*), count(DISTINCT place) FROM persons") == [(9809, 9809)]


def test_a_function_that_writes_is_stopped(server: Server) -> None:
    body = "BEGIN INSERT INTO persons SELECT * FROM persons LIMIT 1; RETURN 1; END"
    server.asked(f"CREATE FUNCTION grow() RETURNS int LANGUAGE plpgsql AS $$ {body} $$")
    with pytest.raises(BadInput, match="cannot execute INSERT in a read-only transaction"):
        open_source(server.address, sql="SELECT grow() AS x").columns()
    assert server.asked("SELECT count(*) FROM persons") == [(9809,)]


# ---------------------------------------------------------------------- what can go wrong


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELECT agee FROM persons", 'The query could not be run: column "agee" does not exist. Correct it'),
        ("SELECT * FROM nobody", 'could not be run: relation "nobody" does not exist. Correct it'),
        ("SELECT 1 / (place - 5000) AS x FROM persons", "ended before its last row: division by zero. Nothing was written"),
        ("SELECT pg_terminate_backend(pg_backend_pid()) AS x", "ended before its last row: terminating connection"),
    ],
)
def test_errors_of_a_query(server: Server, query: str, told: str) -> None:
    with pytest.raises(BadInput) as caught:
        open_source(server.address, sql=query).columns()
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_time_limit_of_the_server(server: Server) -> None:
    address = f"{server.address}?options=-cstatement_timeout%3D100"
    with pytest.raises(BadInput, match="canceling statement due to statement timeout"):
        open_source(address, sql="SELECT pg_sleep(20)::text AS x").columns()


def test_servers_that_are_not_reached(server: Server) -> None:
    silent = socket.socket()
    silent.bind(("127.0.0.1", 0))
    silent.listen()
    here = "127.0.0.1"
    for address, told in (
        (f"postgresql://owner:{ENCODED}@{here}:{_free_port()}/postgres", "Connection refused. Check the host"),
        (f"postgresql://owner:{ENCODED}@{here}:{server.port}/nowhere", 'database "nowhere" does not exist. Check'),
        (f"postgresql://reader:wrong{ENCODED}@{here}:{server.port}/postgres", "password authentication failed for user"),
        (f"postgresql://reader@{here}:{server.port}/postgres?passfile=none", "no password supplied"),
        (f"postgresql://owner@{here}:{silent.getsockname()[1]}/postgres?connect_timeout=1", "timeout expired"),
    ):
        with pytest.raises(BadInput, match="The database could not be reached") as caught:
            open_source(address, sql="SELECT 1 AS x").columns()
        assert told in str(caught.value)
        assert "sesame" not in str(caught.value)
        assert "\n" not in str(caught.value)
    silent.close()


def test_an_interruption_reaches_the_server(server: Server) -> None:
    assert threading.current_thread() is threading.main_thread()
    asleep = (
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%pg_sleep%' AND pid <> pg_backend_pid()"
    )

    def interrupt() -> None:
        while server.asked(asleep) != [(1,)]:
            time.sleep(0.05)
        _thread.interrupt_main()

    # Test runners have handlers of their own.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Thread(target=interrupt, daemon=True).start()
        begin = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            open_source(server.address, sql="SELECT pg_sleep(30)::text AS x").columns()
        assert time.monotonic() - begin < 10
    finally:
        signal.signal(signal.SIGINT, before)
    assert server.asked(asleep) == [(0,)]


def test_the_driver_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql", None)
    with pytest.raises(MissingExtra, match=r"PostgreSQL .* pip install 'rarecell\[postgres\]'"):
        open_source("postgresql://localhost/census", sql="SELECT 1 AS x").columns()


# ---------------------------------------------------------------------- addresses and passwords


@pytest.mark.parametrize("form", ["uri", "option", "pairs"])
def test_a_password_is_in_no_file_and_no_message(server: Server, tmp_path: Path, form: str) -> None:
    address = {
        "uri": f"postgresql://reader:{ENCODED}@127.0.0.1:{server.port}/postgres",
        "option": f"postgresql://127.0.0.1:{server.port}/postgres?user=reader&password={ENCODED}",
        "pairs": f"postgres:host=127.0.0.1 port={server.port} user=reader password = '{PASSWORD}' dbname=postgres",
    }[form]
    query = "SELECT sex, age, marital FROM persons WHERE age > 80"
    choices = [
        "--keys",
        "sex,age,marital",
        "--population",
        "30000",
        "--model",
        "single",
        "--quiet",
        "--out",
        str(tmp_path / "run"),
    ]
    done = CliRunner().invoke(main, ["assess", address, "--sql", query, *choices])
    assert done.exit_code == 0, done.output
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"run.toml", "run.json", "summary.json", "report.html"} <= {path.name for path in written}
    for path in written:
        assert b"sesame" not in path.read_bytes(), path
    assert "sesame" not in done.output
    assert json.loads((tmp_path / "run" / "run.json").read_text())["input"]["path"] == without_password(address)
    assert RunConfig.read(tmp_path / "run" / "run.toml").input == without_password(address)


def test_passwords_are_taken_from_where_libpq_keeps_them(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"postgresql://reader@127.0.0.1:{server.port}/postgres"
    query = "SELECT count(*) AS n FROM persons"
    with monkeypatch.context() as patch:
        patch.setenv("PGPASSWORD", PASSWORD)
        assert numbers_of(open_source(address, sql=query), "n").tolist() == [9809]
    with monkeypatch.context() as patch:
        passwords = tmp_path / "pgpass"
        passwords.write_text("127.0.0.1:*:*:reader:{}\n".format(PASSWORD.replace(":", "\\:")))
        passwords.chmod(0o600)
        patch.setenv("PGPASSFILE", str(passwords))
        assert numbers_of(open_source(address, sql=query), "n").tolist() == [9809]
    with monkeypatch.context() as patch:
        services = tmp_path / "services"
        given = {"host": "127.0.0.1", "port": server.port, "user": "reader", "password": PASSWORD, "dbname": "postgres"}
        services.write_text("[census]\n" + "".join(f"{name}={value}\n" for name, value in given.items()))
        patch.setenv("PGSERVICEFILE", str(services))
        assert numbers_of(open_source("postgres:service=census", sql=query), "n").tolist() == [9809]


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:s3cret/x@db/census",
        "postgresql://me:s3cret@x@db/census",
        "postgresql://me:1?s3cret@db/census",
        "postgresql://me:s3cret/census",
        "postgresql://me:s3cret%zz@db/census",
        "postgresql://db/census?password=a&s3cret",
        "postgresql://db/census?pass%77ord=s3cret",
        "postgres:host=db password=a s3cret",
        "postgres:host=db password='s3cret",
        "postgresql:password=s3cret",
        "postgresqll://me:s3cret@db/census",
        "PostgreSQL://me:s3cret@db/census",
        "mysql://me:s3cret@db/census",
    ],
)
def test_addresses_that_are_refused(address: str) -> None:
    for query in ("SELECT 1 AS x", None):
        with pytest.raises(RarecellError) as caught:
            open_source(address, sql=query)
        assert "s3cret" not in str(caught.value)
        assert "postgresql://" in str(caught.value) or query is None
    if address.startswith(("postgres:", "postgresql:")):
        assert "s3cret" not in without_password(address)


@pytest.mark.parametrize(
    ("address", "stored"),
    [
        ("postgresql://me:s3cret@db:5432/census", "postgresql://me@db:5432/census"),
        ("postgres://me@db", "postgres://me@db"),
        ("postgresql:///census?host=%2Frun&sslpassword=s3cret&user=me", "postgresql:///census?host=%2Frun&user=me"),
        ("postgresql://me:s3cret@[::1]:1,db:2/census?password=s3cret", "postgresql://me@[::1]:1,db:2/census"),
        (r"postgres:user=me password='s3cret\' x' dbname='a b'", "postgres:user=me dbname='a b'"),
        ("postgres:service=census password = s3cret", "postgres:service=census"),
    ],
)
def test_what_is_stored_of_an_address(address: str, stored: str) -> None:
    assert without_password(address) == stored
    assert without_password(stored) == stored
    assert connection_string(address) == address.removeprefix("postgres:" if "//" not in address else "")
    assert RunConfig.from_toml(RunConfig(address, ("age",), population=10).to_toml()).input == stored


@pytest.mark.parametrize(
    "command", [["assess", "--population", "10", "--keys", "a"], ["scan", "--population", "10", "--keys", "a"], ["app"]]
)
def test_a_server_needs_a_query(command: list[str]) -> None:
    done = CliRunner().invoke(main, [*command, "postgresql://me:s3cret@db/census"])
    assert done.exit_code == 1
    assert "without a query" in done.output or command == ["app"]
    assert "s3cret" not in done.output


class EndsConnections(SilentProgress):
    """Restarts a server in the eyes of a run: at every stage all its connections are ended."""

    def __init__(self, server: Server) -> None:
        self.server, self.n_stages = server, 0

    def start(self, stage: str, total: float | None = None) -> None:
        self.n_stages += 1
        self.server.asked(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )


def test_a_server_that_restarts_during_a_run_costs_nothing_or_is_told(server: Server, tmp_path: Path) -> None:
    """What was read is held in a private copy, so that a run goes on; one that was still reading says so, and writes nothing."""
    options: dict[str, Any] = {
        "keys": KEYS,
        "population": 277_677,
        "sql": "SELECT * FROM persons ORDER BY place",
        "top": 3,
        "seed": 1,
    }
    watched, told = EndsConnections(server), ""
    try:
        rc.protect(server.address, out=tmp_path / "run", progress=watched, model="single", accept_leak=["place"], **options)
    except RarecellError as problem:
        told = str(problem)
    assert "\n" not in told
    assert (tmp_path / "run" / "run.json").exists() == (not told), told
    assert watched.n_stages > 0


def test_names_with_quotes_and_sql_are_names_on_a_server(server: Server) -> None:
    table, age, trade = 'p"; DROP TABLE persons;--', "age'; DROP TABLE persons;--", 'two\nlines "and" $1'

    def quoted(name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    values = [(k % 7, ["=1+1", "a'b", 'a"b', "'; DROP TABLE persons;--", "two\nlines"][k % 5]) for k in range(100)]
    rows = ", ".join(f"({number}, $odd${text}$odd$)" for number, text in values)
    server.asked(f"CREATE TABLE {quoted(table)} ({quoted(age)} int, {quoted(trade)} text)")
    server.asked(f"INSERT INTO {quoted(table)} VALUES {rows}")
    data = Microdata(server.address, keys=[age, trade], sql=f"SELECT * FROM {quoted(table)}")
    reference = Microdata(pa.table({age: [n for n, _ in values], trade: [text for _, text in values]}), keys=[age, trade]).table()
    for records in (True, False):
        assert data.table(records=records).cells.tolist() == reference.cells.tolist()
        assert data.table(records=records).counts.tolist() == reference.counts.tolist()
    assert server.asked("SELECT count(*) FROM persons") == [(9809,)]

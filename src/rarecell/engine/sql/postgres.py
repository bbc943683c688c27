"""How are the rows of a PostgreSQL database read?

The ADBC driver of the Apache Arrow project hands out record batches as they come from the server. The query is sent as it
is, so it is in PostgreSQL's own language. The server is first asked which columns the query returns, and then runs it in
a transaction that can change nothing.

Values keep their types where Parquet has them. A ``numeric`` may have any number of digits, but a Parquet decimal has as
many as its column declares; the digits that occur decide, so that numbers stay exact. All other PostgreSQL types, such as
``uuid``, ``interval`` or ``inet``, come as text, by the server's own cast.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from concurrent.futures import Future, wait
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rarecell.engine.places import connection_string, redacted
from rarecell.engine.text.scan import refuse_duplicates
from rarecell.errors import BadInput, MissingExtra

_MOST_DIGITS = 38
"""Most digits of a decimal number that all readers of Parquet understand."""

_FIRST_DAY = -2_440_588
"""The first day that PostgreSQL knows, in 4714 BC, counted from 1970; both infinities come as a day long before it."""

_PATIENCE = 2.0
"""Seconds to wait for a thread that was asked to stop; it cannot be asked while it waits for a connection."""

_READ_ONLY, _CANNOT_BE_NESTED, _SYNTAX = "25006", "0A000", "42601"


def copy_query(address: str, query: str, path: Path) -> frozenset[str]:
    """Write the rows of a query to a Parquet file, some at a time.

    Returns the ``numeric`` columns that had to stay text because a value is not finite or has more digits than a decimal
    number can hold.
    """
    cancellation, result = _Cancellation(), Future[frozenset[str]]()
    # A call that waits for a server blocks Ctrl-C; here another thread does the waiting, so Ctrl-C works.
    Thread(target=_work, args=(result, _driver(), address, query, path, cancellation), daemon=True).start()
    try:
        while not result.done():
            wait([result], timeout=0.2)
        return result.result()
    except KeyboardInterrupt:
        cancellation.ask_until_over(result)
        raise
    finally:
        # An error refers to the frames it passed through. Dropping the result here lets it and the private files go.
        del result


def _work(result: Future[frozenset[str]], *given: Any) -> None:
    try:
        result.set_result(_copy(*given))
    except BaseException as problem:
        result.set_exception(problem)
    finally:
        del result


def _copy(driver: Any, address: str, query: str, path: Path, cancellation: _Cancellation) -> frozenset[str]:
    """Write the rows of a query.

    1. Begin a read-only transaction.
    2. Ask which columns the query returns; a statement that returns none is not run.
    3. Run it, casting the columns for which Parquet has no type.
    4. Turn the text of ``numeric`` columns into decimal numbers once their digits are known.
    """
    with _reaching(driver):
        connection = driver.connect(connection_string(address))
    with contextlib.closing(connection), connection.cursor() as cursor, cancellation.possible(cursor):
        with _running(driver):
            cursor.execute("SET TRANSACTION READ ONLY")
            schema = cursor.adbc_execute_schema(query) if query else pa.schema([])
        if not schema.names:
            raise _not_one_select()
        refuse_duplicates(schema.names, "the query")
        with _running(driver, is_statement=True):
            # On a line of its own, so that a comment at the end of the query does not hide what the driver appends.
            cursor.execute(f"{_with_text(query, schema)}\n")
        numeric = [field.name for field in schema if _type_name(field) == "numeric"]
        as_text = path.with_name(f"text-{path.name}") if numeric else path
        with cursor.fetch_record_batch() as reader:
            digits = _write(reader, as_text, numeric, cancellation)
    if not numeric:
        return frozenset()
    _write_numbers(as_text, path, digits)
    as_text.unlink()
    return frozenset(name for name in numeric if name not in digits)


def _driver() -> Any:
    try:
        from adbc_driver_postgresql import dbapi
    except ImportError:
        raise MissingExtra.needed("Reading a PostgreSQL database", "postgres") from None
    return dbapi


class _Cancellation:
    """Lets one thread stop what another has asked the server to do."""

    def __init__(self) -> None:
        self.is_asked = False
        self._cursor: Any = None
        self._lock = Lock()

    @contextlib.contextmanager
    def possible(self, cursor: Any) -> Iterator[None]:
        """The time during which a cursor can be asked to stop."""
        with self._lock:
            if self.is_asked:
                raise KeyboardInterrupt
            self._cursor = cursor
        try:
            yield
        finally:
            with self._lock:
                self._cursor = None

    def ask_until_over(self, result: Future[Any]) -> None:
        """Ask repeatedly: between two commands the server has nothing to cancel, and forgets that it was asked."""
        self.is_asked = True
        deadline = time.monotonic() + _PATIENCE
        while not result.done() and time.monotonic() < deadline:
            with self._lock:
                if self._cursor is not None:
                    # If the server cannot be told, closing the connection tells it.
                    with contextlib.suppress(Exception):
                        self._cursor.adbc_cancel()
            wait([result], timeout=0.1)


# ---------------------------------------------------------------------- types


def _type_name(field: pa.Field) -> str:
    """What PostgreSQL calls the type of a column."""
    return ((field.metadata or {}).get(b"POSTGRESQL:type") or b"").decode()


def _is_kept(field: pa.Field) -> bool:
    """Whether the values come in a type that Parquet has, with the same meaning as in PostgreSQL."""
    kind = field.type
    if pa.types.is_list(kind):
        return _is_kept(kind.value_field)
    # Trailing blanks of a char(n) are not part of its value, and money would come in cents.
    if _type_name(field) in ("bpchar", "money") or b"ADBC:postgresql:typname" in (field.metadata or {}):
        return False
    tests = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_string, pa.types.is_binary)
    return any(test(kind) for test in (*tests, pa.types.is_date, pa.types.is_timestamp, pa.types.is_time))


def _with_text(query: str, schema: pa.Schema) -> str:
    """The query, with columns that cannot be kept as they are cast to text."""
    is_kept = {field.name: _type_name(field) == "numeric" or _is_kept(field) for field in schema}
    if all(is_kept.values()):
        return query
    quoted = {name: '"{}"'.format(name.replace('"', '""')) for name in is_kept}
    listed = [quoted[name] if kept else f"CAST({quoted[name]} AS text) AS {quoted[name]}" for name, kept in is_kept.items()]
    return f"SELECT {', '.join(listed)} FROM ({query}\n) AS records"


def _n_digits(text: pa.Array) -> tuple[int, int] | None:
    """The most digits before and after the point, or None when a value is not a finite number."""
    parts = pc.extract_regex(text, r"^-?(?P<before>[0-9]+)(?:\.(?P<after>[0-9]+))?$")
    if parts.null_count > text.null_count:
        return None
    before, after = (pc.max(pc.utf8_length(pc.struct_field(parts, name))).as_py() or 0 for name in ("before", "after"))
    return before, after


# ---------------------------------------------------------------------- rows


def _write(reader: Any, path: Path, numeric: list[str], cancellation: _Cancellation) -> dict[str, tuple[int, int]]:
    """Write all rows, and find the most digits in each ``numeric`` column that can become decimal numbers."""
    digits: dict[str, tuple[int, int]] = dict.fromkeys(numeric, (1, 0))
    schema = pa.schema([(field.name, getattr(field.type, "storage_type", field.type)) for field in reader.schema])
    with pq.ParquetWriter(path, schema) as writer:
        for batch in _batches(reader, cancellation):
            columns = [column.storage if isinstance(column, pa.ExtensionArray) else column for column in batch.columns]
            for name, column in zip(schema.names, columns, strict=True):
                _refuse_infinity(name, column)
                if name in digits:
                    n_digits = _n_digits(column) or (_MOST_DIGITS + 1, 0)
                    digits[name] = (max(digits[name][0], n_digits[0]), max(digits[name][1], n_digits[1]))
                    if sum(digits[name]) > _MOST_DIGITS:
                        del digits[name]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    return digits


def _batches(reader: Any, cancellation: _Cancellation) -> Iterator[pa.RecordBatch]:
    while not cancellation.is_asked:
        with _streaming():
            batch = next(reader, None)
        if batch is None:
            return
        yield batch


def _refuse_infinity(name: str, column: pa.Array) -> None:
    """Refuse infinite dates, which PostgreSQL has before and after all others and Parquet has not."""
    if pa.types.is_date(column.type):
        first, smallest = _FIRST_DAY, pc.min(column.cast(pa.int32())).as_py()
    elif pa.types.is_timestamp(column.type):
        first, smallest = _FIRST_DAY * 86_400_000_000, pc.min(column.cast(pa.int64())).as_py()
    else:
        return
    if smallest is not None and smallest < first:
        raise BadInput(
            f"Column '{name}' of the query holds the date 'infinity', which only PostgreSQL knows. Make it missing with "
            f"NULLIF(NULLIF({name}, 'infinity'), '-infinity'), or text with CAST({name} AS text)."
        )


def _write_numbers(as_text: Path, path: Path, digits: dict[str, tuple[int, int]]) -> None:
    """Write a Parquet file again, with decimal numbers instead of text."""
    with pq.ParquetFile(as_text) as file:
        types = {name: pa.decimal128(before + after, after) for name, (before, after) in digits.items()}
        schema = pa.schema([(field.name, types.get(field.name, field.type)) for field in file.schema_arrow])
        with pq.ParquetWriter(path, schema) as writer:
            for group in range(file.num_row_groups):
                writer.write_table(file.read_row_group(group).cast(schema))


# ---------------------------------------------------------------------- what can go wrong


def _not_one_select() -> BadInput:
    return BadInput(
        "The query must be one SELECT, so that nothing but reading is done. Give a single query that begins with SELECT or WITH."
    )


@contextlib.contextmanager
def _reaching(driver: Any) -> Iterator[None]:
    try:
        yield
    except driver.Error as problem:
        raise BadInput(
            f"The database could not be reached: {_reason(problem)}. Check the host, the port, the user and the name of the database; "
            "PGPASSWORD or ~/.pgpass can hold the password."
        ) from None


@contextlib.contextmanager
def _running(driver: Any, *, is_statement: bool = False) -> Iterator[None]:
    """Say what is wrong with a query; with ``is_statement``, a syntax error means that it is not a single SELECT."""
    try:
        yield
    except driver.Error as problem:
        reason, state = _reason(problem), problem.sqlstate
        if state == _SYNTAX and (is_statement or "multiple commands" in reason):
            raise _not_one_select() from None
        if state == _READ_ONLY or (state == _CANNOT_BE_NESTED and "data-modifying" in reason):
            raise BadInput(
                f"The query would change the database: {reason}. Nothing but reading is done; give one SELECT that changes nothing."
            ) from None
        raise BadInput(f"The query could not be run: {reason}. Correct it, and try it first with a small LIMIT.") from None


@contextlib.contextmanager
def _streaming() -> Iterator[None]:
    """Report errors that occur while rows arrive; Arrow raises them in the words of the server."""
    try:
        yield
    except (pa.ArrowException, OSError) as problem:
        raise BadInput(
            f"The query ended before its last row: {_reason(problem)}. Nothing was written; try it first with a small LIMIT."
        ) from None


def _reason(problem: Exception) -> str:
    """What the server or libpq said, without what the driver puts around it."""
    message = str(problem).split("\n\nQuery was:")[0]
    # The severity, in the server's language, and two blanks precede the server's own sentence.
    if sentence := re.search(r"\w+:  (.+)", message):
        reason = sentence[1]
    else:
        # An indented line is advice about the line before it.
        lines = [line.strip() for line in message.split("\n") if line.strip() and not line.startswith("\t")]
        reason = re.sub(r"^(?:\w+: )?(?:\[libpq\] )?(?:Failed to connect: )?", "", "; ".join(lines))
    return redacted(re.sub(r"\. SQLSTATE: \w+$", "", reason).rstrip(". "))

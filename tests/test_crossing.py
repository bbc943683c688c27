"""Columns counted against keys while the records stream by, compared with counting them one by one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rarecell._kernels.counting import count_pairs
from rarecell.data.crossing import crossed_columns
from rarecell.data.microdata import Microdata
from rarecell.engine.streaming import counted_pairs
from tests.naive import counting as naive

VALUES = {
    "text": st.sampled_from(["a", "b", "ü", None]),
    "whole": st.sampled_from([-1, 0, 7, 70_000, None]),
    "real": st.sampled_from([0.5, -0.5, float("nan"), 1e300, None]),
    "names": st.integers(0, 10**9),
}
TYPES = {"text": pa.string(), "whole": pa.int64(), "real": pa.float64(), "names": pa.int64()}
PEOPLE = st.lists(
    st.tuples(st.sampled_from(["x", "y", None]), st.sampled_from([1, 2, 3, None]), *VALUES.values()), min_size=1, max_size=40
)


@settings(max_examples=60)
@given(PEOPLE, st.sampled_from(["level", "drop"]), st.integers(1, 6))
def test_pairs_are_those_of_the_records(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[object, ...]], missing: str, rows_at_once: int
) -> None:
    # Every level occurs in a complete record, so that no key is constant.
    rows = [*rows, *(("x" if k % 2 else "y", k, "a", 0, 0.5, k) for k in (1, 2, 3))]
    columns = list(zip(*rows, strict=True))
    people = pa.table(
        {
            "letter": pa.array(columns[0]),
            "digit": pa.array(columns[1]),
            **{name: pa.array(column, kind) for (name, kind), column in zip(TYPES.items(), columns[2:], strict=True)},
        }
    )
    path = tmp_path_factory.mktemp("crossing") / "people.parquet"
    pq.write_table(people, path, row_group_size=rows_at_once)
    data = Microdata(path, ["letter", "digit"], missing=missing)
    table = data.table(records=False)
    numbers = np.arange(table.n_records)
    most = 8
    found = crossed_columns(data, table, ["digit"], list(VALUES), numbers, seed=1, most_values=most)

    (levels,) = [c.levels for c in table.categories if c.key == "digit"]
    kept = [row for row in rows if missing == "level" or (row[0] is not None and row[1] is not None)]
    for place, name in enumerate(VALUES, 2):
        in_file, in_table = ([None if row[place] != row[place] else row[place] for row in some] for some in (rows, kept))
        if len(set(in_file)) > most or len(set(in_table)) == 1:
            assert name not in found
            continue
        counted = found[name]
        of_code = counted.levels
        pairs = {(levels[k], of_code[v]): int(n) for (k, v), n in np.ndenumerate(counted.joint["digit"]) if n}
        assert pairs == Counter(zip((row[1] for row in kept), in_table, strict=True))
        assert Counter(of_code[code] for code in counted.of_rows) == Counter(in_table)


def test_nothing_is_read_when_no_key_moves_or_no_column_is_left(tmp_path: Path) -> None:
    data = Microdata(pa.table({"a": [1, 2], "b": [1, 2], "c": [3, 4]}), ["a", "b"])
    nobody = np.zeros(0, dtype=np.int64)
    assert crossed_columns(data, data.table(records=False), [], ["c"], nobody, seed=0, most_values=9) == {}
    assert crossed_columns(data, data.table(records=False), ["a"], [], nobody, seed=0, most_values=9) == {}


def test_room_grows_with_the_values() -> None:
    rng = np.random.default_rng(0)
    people = pa.table({name: rng.integers(0, n, 500) for name, n in (("a", 3), ("b", 4), ("c", 30))})
    data = Microdata(people, ["a", "b"])
    cells = data.key_cells(data.table(records=False))
    found = counted_pairs(data.source, cells, ["a", "b"], ["c"], most_values=30, first_values=1)["c"]
    expected = Counter(zip(people["a"].to_pylist(), people["c"].to_pylist(), strict=True))
    codes, values, records = found["a"]
    assert dict(zip(zip(codes.tolist(), values.to_pylist(), strict=True), records.tolist(), strict=True)) == expected
    assert found["b"].records.sum() == 500


@given(st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 4)), max_size=50))
def test_counting_pairs(pairs: list[tuple[int, int]]) -> None:
    codes, values = (np.array([pair[k] for pair in pairs], dtype=np.int32) for k in (0, 1))
    place = np.array([1, 0, 2, 2, 4])
    joint = np.zeros((4, 5), dtype=np.int64)
    count_pairs(codes, values, place, joint)
    assert {key: int(n) for key, n in np.ndenumerate(joint) if n} == naive.count_pairs(codes, values, place)

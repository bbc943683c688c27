"""Two releases of one file: what links them, against a search by hand."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell.errors import BadInput
from rarecell.release.earlier import compare_releases

codes = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=25)


@settings(max_examples=200, deadline=None)
@given(codes, st.booleans())
def test_whoever_is_left_alone_is_exposed(rows: list[tuple[int, int, int]], has_links: bool) -> None:
    link, earlier, new = (np.array(column) for column in zip(*rows, strict=True))
    found = compare_releases([link] if has_links else [], ["pets"] if has_links else [], [earlier], [new])
    groups = sorted(set(link.tolist())) if has_links else [None]
    exposed = recognised = 0
    for group in groups:
        among = link == group if has_links else np.ones(len(link), dtype=bool)
        exposed += (Counter(earlier[among].tolist()) - Counter(new[among].tolist())).total() == 1
        recognised += sum(value not in new[among] for value in earlier[among])
    assert found.exposed == exposed
    # A row that the other release does not have was changed, whoever it belongs to.
    assert found.recognised == recognised <= found.differing
    assert not found.differing or f"{recognised:,} of these" in found.sentence
    assert found.differing == int((earlier != new).sum())
    assert found.exposed <= found.differing
    assert found.linked == (sum(n == 1 for n in Counter(link.tolist()).values()) if has_links else 0)


def test_a_second_release_is_held_against_the_first(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    n = 300
    people = pa.table(
        {
            "age": rng.integers(20, 50, n),
            "sex": rng.integers(0, 2, n),
            "job": rng.integers(0, 6, n),
            "pets": rng.integers(0, 40, n),
        }
    )
    pq.write_table(people, tmp_path / "people.parquet")
    options: dict[str, Any] = {"keys": ["age", "sex", "job"], "population": 3_000, "model": "single", "resolution": "full"}
    file = str(tmp_path / "people.parquet")
    first = rc.protect(file, top=20, swap_seed=1, out=tmp_path / "first", **options)
    same = rc.protect(file, top=20, swap_seed=1, released=str(tmp_path / "first"), **options)
    assert same.summary.swap is not None
    assert same.summary.swap.earlier is not None
    assert same.summary.swap.earlier.differing == 0
    other = rc.protect(file, top=30, swap_seed=2, released=str(tmp_path / "first"), **options)
    assert other.summary.swap is not None
    told = other.summary.swap.earlier
    assert told is not None
    before, after = pq.read_table(tmp_path / "first" / "protected.parquet"), other.frame
    keys = options["keys"]
    differing = sum(a != b for a, b in zip(before.select(keys).to_pylist(), after.select(keys).to_pylist(), strict=True))
    assert told.differing == differing > 0
    assert told.link_columns[-1] == "pets"
    # A key that is the same in both releases links them as well.
    assert [key for key in keys if before[key].equals(after[key])] == list(told.link_columns[:-1])
    linked = people.select(told.link_columns).to_pylist()
    exposed = 0
    for value in {tuple(values.values()) for values in linked}:
        rows = pa.array([row for row, values in enumerate(linked) if tuple(values.values()) == value])
        first_keys, second_keys = (Counter(map(str, table.select(keys).take(rows).to_pylist())) for table in (before, after))
        exposed += (first_keys - second_keys).total() == 1
    assert told.exposed == exposed > 0
    assert str(told.exposed) in told.sentence
    assert len(first.plan)


def test_a_key_that_stays_links_two_releases(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    people = pa.table({"age": rng.integers(20, 60, 200), "town": rng.integers(0, 40, 200)})
    options: dict[str, Any] = {"keys": ["age", "town"], "population": 2_000, "model": "independence", "resolution": "full"}
    options |= {"never_swap": ["age"]}
    rc.protect(people, top=10, swap_seed=1, out=tmp_path / "first", **options)
    told = rc.protect(people, top=12, swap_seed=2, released=str(tmp_path / "first"), **options).summary.swap.earlier
    assert told is not None
    assert told.link_columns == ("age",)
    assert 0 < told.exposed <= told.differing


def test_blanked_values_differ_from_those_released_before(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    people = pa.table({"age": rng.integers(20, 50, 300), "sex": rng.integers(0, 2, 300), "job": rng.integers(0, 9, 300)})
    options: dict[str, Any] = {"keys": ["age", "sex", "job"], "population": 900, "model": "single", "resolution": "full"}
    options |= {"recode": {"age": "2-year bands"}}
    rc.protect(people, top=5, swap_seed=1, out=tmp_path / "first", **options)
    before = pq.read_table(tmp_path / "first" / "protected.parquet")
    more: dict[str, Any] = {"risk_above": 0.01, "untouched": [{"sex": 0}], "suppress_rest": True}
    done = rc.protect(people, swap_seed=2, released=str(tmp_path / "first"), **more, **options)
    told, keys = done.summary.swap.earlier, options["keys"]
    assert done.summary.swap.suppression.values > 0
    pairs = zip(before.select(keys).to_pylist(), done.frame.select(keys).to_pylist(), strict=True)
    assert told.differing == sum(then != now for then, now in pairs)


def test_a_folder_that_is_no_release_of_this_file(tmp_path: Path) -> None:
    people = pa.table({"age": [1, 2, 3, 1, 2, 3], "sex": [0, 1, 0, 1, 0, 1], "job": [0, 0, 1, 1, 2, 2]})
    options: dict[str, Any] = {"keys": ["age", "sex"], "population": 60, "model": "single", "top": 2}
    with pytest.raises(BadInput, match="no protected file"):
        rc.protect(people, released=str(tmp_path), **options)
    pq.write_table(people.slice(0, 3), tmp_path / "protected.parquet")
    with pytest.raises(BadInput, match="3 records"):
        rc.protect(people, released=str(tmp_path), **options)

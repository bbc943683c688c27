"""An intruder who knows more of a person than the keys, and rows that look strange."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rarecell as rc
from rarecell import datasets
from rarecell.engine.duck import EngineSettings
from rarecell.errors import BadInput, UnknownColumns
from rarecell.intruder.also_known import MOST_CLAIMS, links_beyond, tried_beyond, widened
from rarecell.intruder.consistency import area_under_curve, consistency, strangeness
from rarecell.intruder.register import Register
from rarecell.release.release import Release
from rarecell.run.config import ProtectConfig, RunConfig
from tests.large_file import LargeFile
from tests.naive import intruder as naive
from tests.strategies_intruder import Attack, attacks

FEW = settings(max_examples=40, deadline=None)
KEYS = ["sex", "age", "race", "marital", "education"]


def _wide(attack: Attack, seed: int, n_values: int) -> tuple[Attack, Release, Register]:
    """The same attack with a column that stays with its row: everybody has a value of it, the people of the file their own."""
    rng = np.random.default_rng(seed)
    of_file = rng.integers(0, n_values, len(attack.original))
    of_people = rng.integers(0, n_values, len(attack.register))
    # The persons of the file come first in the register, as far as they are in it.
    n_known = next(
        (n for n in range(len(attack.original), -1, -1) if np.array_equal(attack.register[:n], attack.original[:n])), 0
    )
    of_people[:n_known] = of_file[:n_known]
    categories = (*attack.categories, rc.Categories("party", tuple(f"p{v}" for v in range(n_values)), False))
    wide = Attack(
        categories,
        *(
            np.column_stack([codes, beside]).astype(np.int32)
            for codes, beside in ((attack.original, of_file), (attack.released, of_file), (attack.register, of_people))
        ),
    )
    by_keys = Release.of_codes(attack.original, attack.released, attack.categories)
    codes = of_file[by_keys.rows][:, None].astype(np.int32)
    release = widened(by_keys, wide.table(wide.original), codes, codes)
    return wide, release, Register.counted(wide.table(wide.register))


@given(attacks(), st.integers(0, 2**32 - 1), st.integers(2, 4))
@FEW
def test_links_with_a_further_column_beside_every_pair(attack: Attack, seed: int, n_values: int) -> None:
    wide, release, register = _wide(attack, seed, n_values)
    expected = []
    for by_keys in naive.family(attack.categories, attack.original):

        def apart(one: np.ndarray, other: np.ndarray, by_keys: naive.Distance = by_keys) -> float:
            return by_keys(one[:-1], other[:-1]) if one[-1] == other[-1] else 1e6

        expected.append(sum(naive.nearest_links(wide.original, wide.released, wide.register, apart).values()))
    assert links_beyond(release, register, ["party"]).total == pytest.approx(max(expected))


@given(attacks(), st.integers(0, 2**32 - 1), st.integers(2, 4))
@FEW
def test_a_quick_trial_is_the_worse_of_two_distances(attack: Attack, seed: int, n_values: int) -> None:
    wide, release, register = _wide(attack, seed, n_values)
    tried = tried_beyond(release, register, ["party"], distance="by rank, ordered keys counted once")
    assert len(release.rows) <= MOST_CLAIMS
    after = links_beyond(release, register, ["party"]).total
    assert tried.of_moved <= tried.after <= after + 1e-9
    assert tried.of_alone <= tried.after + 1e-9
    before = naive.exact_links(wide.original, wide.original, wide.register)
    assert tried.before == pytest.approx(sum(before.values()))


def test_what_is_found_with_a_column_is_near_the_truth() -> None:
    sample, population = datasets.census_sample(), datasets.census_population()
    wishes = {"keys": KEYS, "risk_above": 0.2, "also_known": ["citizenship"], "seed": 3}
    done = rc.protect(sample, population=population.num_rows, **wishes)
    expected = done.summary.swap
    claim = expected.intruder("also-known")
    # The plan knows nothing of the register, so what was expected can be held against what an attack counts in it.
    counted = rc.attack(done.frame, original=sample, keys=KEYS, register=population, also_known=["citizenship"])
    true = next(one for one in counted.summary.intruders if one.name == "also-known")
    assert claim.after == pytest.approx(true.after, rel=0.1)
    assert claim.interval_after[0] <= true.after <= claim.interval_after[1]
    assert "'citizenship'" in claim.knows
    assert expected.beyond[0].named
    assert expected.beyond[0].after == claim.after > 2 * expected.intruder("nearest").after
    # The same columns are tried unasked, one by one and then together, by both commands.
    for told in (expected.beyond[1:], counted.summary.beyond[1:]):
        assert [len(one.columns) for one in told] == [1, 1, 1, 1, 1, 3]
        assert [one.after for one in told[:-1]] == sorted((one.after for one in told[:-1]), reverse=True)
        assert told[-1].after >= told[0].after
        assert told[0].columns == ("relationship",)
    for mine, theirs in zip(expected.beyond[1:4], counted.summary.beyond[1:4], strict=True):
        assert mine.columns == theirs.columns
        assert mine.after == pytest.approx(theirs.after, rel=0.1)
    assert counted.summary.consistency is not None
    assert 0.5 < counted.summary.consistency.area < 1.0


def test_named_columns_enter_the_verdict() -> None:
    sample = datasets.census_sample().slice(0, 3_000)
    wishes = {"keys": KEYS, "population": 85_000, "max_correct_links": 27}
    links = "max_correct_links_share"
    unnamed = rc.protect(sample, **wishes).summary
    named = rc.protect(sample, also_known=["relationship"], **wishes).summary
    assert not any(reason.limit == links and reason.is_refusal for reason in unnamed.release.profile.reasons)
    refused = [reason for reason in named.release.profile.reasons if reason.limit == links and reason.is_refusal]
    assert len(refused) == 1
    assert "'relationship'" in refused[0].sentence


def test_every_engine_tries_further_columns_alike(tmp_path: Path) -> None:
    """Levels in any order, and values that occur only in records that are dropped, change no number."""
    rng, sample = np.random.default_rng(1), datasets.census_sample().slice(0, 1_500).select([*KEYS, "employed"])
    n, is_dropped = sample.num_rows, rng.random(sample.num_rows) < 0.02
    sample = sample.set_column(KEYS.index("marital"), "marital", pa.array(sample["marital"].to_numpy(), mask=is_dropped))
    size = pa.DictionaryArray.from_arrays(pa.array(rng.integers(0, 3, n).astype(np.int32)), pa.array(["small", "large", "none"]))
    wave = np.where(is_dropped, "early", np.where(rng.random(n) < 0.3, "late", "usual"))
    beside = {"size": size, "wave": pa.array(wave), "flag": pa.array(np.where(is_dropped, "a", "b"))}
    for name, values in {**beside, "person": pa.array([f"p{number}" for number in rng.permutation(n)])}.items():
        sample = sample.append_column(name, values)
    pq.write_table(sample, tmp_path / "people.parquet")
    config = RunConfig(
        input="", keys=tuple(KEYS), population=42_000, id="person", missing="drop", protect=ProtectConfig(risk_above=0.2)
    )
    in_memory, counted = (
        rc.protect(config, frame=frame).summary.swap.beyond
        for frame in (sample, LargeFile(tmp_path / "people.parquet", settings=EngineSettings()))
    )
    assert {name for one in in_memory for name in one.columns} == {"employed", "size", "wave"}
    assert in_memory == counted


def test_columns_that_cannot_be_known_beside_the_keys_are_refused() -> None:
    sample = datasets.census_sample()
    with pytest.raises(BadInput, match="'age' is a key"):
        rc.protect(sample, keys=KEYS, population=277_677, top=3, also_known=["age"])
    with pytest.raises(UnknownColumns, match="Did you mean 'age'"):
        rc.protect(sample, keys=KEYS, population=277_677, top=3, also_known=["aeg"])
    with pytest.raises(BadInput, match="is not released"):
        rc.protect(sample, keys=KEYS, population=277_677, top=3, also_known=["employed"], treat={"employed": "drop"})


# ---------------------------------------------------------------------- rows that look strange


def _naive_strangeness(columns: list[np.ndarray], levels: list[int], n_keys: int, row: int) -> float:
    n, found = len(columns[0]), -np.inf
    others = [other for other in range(n) if other != row]
    for key in range(n_keys):
        if levels[key] < 2:
            continue
        score = []
        for value in range(levels[key]):
            alike = [other for other in others if columns[key][other] == value]
            total = np.log(len(alike) + 1.0)
            for c, column in enumerate(columns):
                if c != key:
                    share = (sum(column == column[row]) + 1.0) / (n + levels[c])
                    total += np.log((sum(column[other] == column[row] for other in alike) + share) / (len(alike) + 1.0))
            score.append(total)
        own = score.pop(int(columns[key][row]))
        found = max(found, max(score) - own)
    return found


@given(st.integers(0, 2**32 - 1), st.integers(2, 15), st.lists(st.integers(1, 4), min_size=2, max_size=4))
@FEW
def test_strangeness_beside_plain_counting(seed: int, n: int, levels: list[int]) -> None:
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, size, n).astype(np.int32) for size in levels]
    expected = [_naive_strangeness(columns, levels, 2, row) for row in range(n)]
    assert strangeness(columns, levels, 2, np.arange(n)).tolist() == pytest.approx(expected)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=30))
@FEW
def test_area_beside_every_pair(rows: list[tuple[int, bool]]) -> None:
    high, low = ([float(score) for score, is_swapped in rows if is_swapped == kind] for kind in (True, False))
    pairs = [1.0 if a > b else 0.5 if a == b else 0.0 for a in high for b in low]
    score, is_swapped = np.array([float(score) for score, _ in rows]), np.array([kind for _, kind in rows])
    assert area_under_curve(score, is_swapped) == pytest.approx(np.mean(pairs) if pairs else 0.5)


def test_values_that_contradict_the_row_are_seen() -> None:
    rng = np.random.default_rng(0)
    town = rng.integers(0, 5, 400).astype(np.int32)
    beside = [((town + k) % 5).astype(np.int32) for k in range(3)]
    is_swapped = np.zeros(400, dtype=bool)
    is_swapped[:20] = True
    swapped = town.copy()
    swapped[:20] = (town[:20] + 1) % 5
    told = consistency([swapped, *beside], [5, 5, 5, 5], 1, is_swapped)
    assert told.area == 1.0
    assert told.right == 20


def test_a_file_without_further_columns_has_nothing_to_try() -> None:
    sample = datasets.census_sample().select(KEYS)
    done = rc.attack(sample, original=sample, keys=KEYS, population=277_677)
    assert done.summary.beyond == ()
    assert done.summary.consistency is None
    changed = sample.set_column(
        0, "sex", pa.array([1 - one for one in sample["sex"].to_pylist()[:1]] + sample["sex"].to_pylist()[1:])
    )
    assert rc.attack(changed, original=sample, keys=KEYS, population=277_677).summary.consistency is None

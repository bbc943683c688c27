"""The external edition: no value of a record, no small count, neither shown nor left to subtraction."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rarecell.report import write_report
from rarecell.report.edition import HIDDEN, SMALLEST_COUNT, external, is_small, merged_counts, merged_decades
from tests.summaries import census_summary, protected_summary, typed, typed_records

small_and_large = st.one_of(st.integers(0, 4), st.integers(0, 5000))


@given(st.lists(small_and_large, min_size=1, max_size=14))
def test_merged_classes_partition_the_counts_and_none_is_small(counts: list[int]) -> None:
    groups = merged_counts(counts)
    assert [first for first, _, _ in groups] == [0] + [last + 1 for _, last, _ in groups[:-1]]
    assert groups[-1][1] == len(counts) - 1
    assert all(total == sum(counts[first : last + 1]) for first, last, total in groups)
    # A file with one or two records in all has nothing to hide them among; they are shown as words.
    if not is_small(sum(counts)):
        assert not any(is_small(total) for _, _, total in groups)


@given(st.lists(small_and_large, min_size=1, max_size=10), st.integers(0, 10))
def test_nothing_small_can_be_subtracted_from_the_histogram_and_the_number_above_the_threshold(
    counts: list[int], cut: int
) -> None:
    edges = [k / len(counts) for k in range(len(counts) + 1)]
    place = min(cut, len(counts))
    summary = census_summary()
    summary["risk"] |= {
        "histogram": {"edges": edges, "counts": counts},
        "threshold": edges[place],
        "records_above_threshold": sum(counts[place:]),
        "sample_uniques": sum(counts),
    }
    shown = external(typed(summary)).risk
    numbers = [n for n in shown.histogram.counts if isinstance(n, int)]
    totals = [0, *itertools.accumulate(reversed(numbers))]
    above = shown.records_above_threshold
    if isinstance(above, int):
        assert not any(is_small(abs(above - total)) for total in totals)


def test_decades_keep_their_order_and_join_at_the_rare_end() -> None:
    merged = merged_decades({"-4": 231, "-3": 3, "-9": 1, "-8": 16})
    assert list(merged) == ["10⁻³", "10⁻⁴", "10⁻⁸–10⁻⁹"]
    assert merged_decades({"-4": 231, "-3": 3, "-9": 1, "-8": 16}) == {"10⁻³": 3, "10⁻⁴": 231, "10⁻⁸–10⁻⁹": 17}


def test_counts_of_one_and_two_become_words() -> None:
    summary = census_summary()
    shown = external(typed(summary)).to_dict()
    assert shown["missing"]["records"] == {"age": 3, "citizenship": HIDDEN}
    assert [key["missing_records"] for key in shown["keys"]][4] == HIDDEN
    assert all(row["records"] >= SMALLEST_COUNT for row in shown["risk"]["unsafe_combinations"])
    assert shown["risk"]["unsafe_combinations_left_out"] == 1
    assert shown["cells"]["size_indices"]["11 or more"] == 3


def test_nothing_that_is_not_known_to_be_harmless_comes_through() -> None:
    summary = protected_summary()
    for part in (summary, summary["risk"], summary["swap"], summary["cells"], summary["keys"][0]):
        part["something_new"] = {"record": 17, "values": ["a secret"]}
    summary["notes"] = ["a secret"]
    assert "secret" not in repr(external(typed(summary)))
    assert "something_new" not in repr(external(typed(summary)))


def test_combinations_that_do_not_occur_stay_inside() -> None:
    # They name values and counts, and say which swaps are impossible.
    assert "structure" not in external(typed(census_summary())).to_dict()


def test_a_few_records_that_could_not_be_swapped_cannot_be_counted() -> None:
    swap = external(typed(protected_summary())).to_dict()["swap"]
    assert swap["swapped"] == f"all but {HIDDEN}"
    assert swap["not_swapped"] == []
    assert "uniques_vacated" not in swap
    many = protected_summary()
    many["swap"] |= {
        "requested": 60,
        "swapped": 48,
        "not_swapped": [
            {"reason": "a", "records": 9},
            {"reason": "b", "records": 1},
            {"reason": "c", "records": 1},
            {"reason": "d", "records": 1},
        ],
    }
    shown = external(typed(many)).to_dict()["swap"]
    assert shown["swapped"] == 48
    assert shown["not_swapped"] == [{"reason": "a", "records": 9}, {"reason": "other reasons", "records": 3}]


def test_nearly_all_swappable_is_not_said() -> None:
    summary = census_summary()
    summary["risk"]["swappable_uniques"] = summary["risk"]["sample_uniques"] - 1
    assert "swappable_uniques" not in external(typed(summary)).to_dict()["risk"]


def test_k_anonymity_leaves_out_steps_that_differ_by_few() -> None:
    summary = census_summary()
    summary["risk"]["k_anonymity"] = {"2": 10, "3": 12, "5": 40}
    assert external(typed(summary)).risk.k_anonymity == {"2": 10, "5": 40}


def test_no_number_of_records_in_any_external_table_is_small(tmp_path: Path) -> None:
    write_report(tmp_path, typed(protected_summary()), typed_records(), edition="external")
    counted: list[Any] = []
    for path in (tmp_path / "tables-external").glob("*.csv"):
        with path.open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream):
                counted += [
                    row[name]
                    for name in row
                    if name in ("Records", "Cells", "Sample uniques", "Records they single out", "Cells observed")
                ]
    assert len(counted) > 20
    assert not {"1", "2"} & set(counted)
    assert not (tmp_path / "tables").exists()

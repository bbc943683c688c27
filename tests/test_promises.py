"""The table of promises lists what the script tries, and every kind of case belongs to a promise."""

from __future__ import annotations

from benchmarks import promises

from tests import fuzz


def rows_of_the_page() -> list[list[str]]:
    page = promises.PAGE.read_text(encoding="utf-8")
    written = page.partition(promises.BEGIN)[2].partition(promises.END)[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in written.splitlines() if line.startswith("| ")][1:]


def test_the_page_lists_the_promises_of_the_script() -> None:
    rows = rows_of_the_page()
    assert [(row[0], row[1]) for row in rows] == [(promise.words, promise.tried) for promise in promises.PROMISES]
    for row in rows:
        assert int(row[2].replace(",", "")) >= 50, row
        assert row[3] == "0", row


def test_the_page_shows_what_the_script_kept() -> None:
    page, counts = promises.PAGE.read_text(encoding="utf-8"), promises.kept_counts()
    assert promises.table(counts) in page
    assert sum(counts.values()) >= 5_000
    assert {kind for kind, _ in counts} == set(promises.CASES)


def test_every_kind_of_case_belongs_to_a_promise() -> None:
    assert set(promises.CASES) == set(fuzz.KINDS)
    assert {kind for promise in promises.PROMISES if promise.kinds != promises.EVERY_KIND for kind in promise.kinds} == set(
        fuzz.KINDS
    )
    assert promises.ENDED_WELL == fuzz.ENDED_WELL


def test_a_broken_promise_is_counted_as_such() -> None:
    counts = {
        ("csv", "counted"): 5,
        ("csv", "refused"): 2,
        ("csv", "wrong count"): 1,
        ("kill", "left behind"): 1,
        ("kill", "read"): 1,
    }
    by_words = {promise.words: (promise.n_tried(counts), promise.n_broken(counts)) for promise in promises.PROMISES}
    assert by_words["Any file ends in a result or in one paragraph."] == (8, 1)
    assert by_words["Counts are those of a plain reader, in memory and in the engine."] == (5, 1)
    assert by_words["The old result or the new one, wherever a command is killed."] == (2, 1)
    assert "| 9 | 2 |" not in promises.table(counts)
    assert "| 10 | 2 |" in promises.table(counts)

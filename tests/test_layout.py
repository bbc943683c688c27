"""Tables at a terminal fit its width, and say all they have to say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rarecell.cli.layout import echo, table_lines

WORDS = st.lists(st.text("abcdefgh-", min_size=1, max_size=9), max_size=12).map(" ".join)
NUMBERS = st.integers(0, 10**6).map(lambda n: f"{n:,}")


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[list[str]], list[int]]:
    right = draw(st.lists(st.booleans(), min_size=1, max_size=6))
    headers = [draw(WORDS) for _ in right]
    n_rows = draw(st.integers(0, 5))
    rows = [[draw(NUMBERS if is_number else WORDS) for is_number in right] for _ in range(n_rows)]
    return headers, rows, [place for place, is_number in enumerate(right) if is_number]


def narrowest(headers: list[str], rows: list[list[str]], right: list[int]) -> int:
    """The width below which no layout without broken words exists."""
    columns = zip(headers, *rows, strict=True)
    return (
        2 + 2 * (len(headers) - 1) + sum(max((len(w) for text in column for w in text.split()), default=0) for column in columns)
    )


@given(tables(), st.integers(20, 120))
def test_no_line_is_wider_than_it_need_be(table: tuple[list[str], list[list[str]], list[int]], width: int) -> None:
    headers, rows, right = table
    lines = table_lines(headers, rows, right=right, width=width)
    assert max(map(len, lines), default=0) <= max(width, narrowest(headers, rows, right))


@given(tables(), st.integers(20, 120))
def test_no_word_is_lost_or_broken(table: tuple[list[str], list[list[str]], list[int]], width: int) -> None:
    headers, rows, right = table
    lines = table_lines(headers, rows, right=right, width=width)
    written = sorted(word for line in lines for word in line.split())
    assert written == sorted(word for row in (headers, *rows) for text in row for word in text.split())


@given(tables())
def test_a_table_that_fits_has_a_line_for_each_row(table: tuple[list[str], list[list[str]], list[int]]) -> None:
    headers, rows, right = table
    # Headings that are all empty have no line.
    assert len(table_lines(headers, rows, right=right, width=10_000)) == any(headers) + len(rows)


def test_headings_wrap_before_the_text_below_them() -> None:
    lines = table_lines(
        ["", "population uniques without it", "if coarsened"],
        [["age", "4.3", "30 groups: 78.0, 10 groups: 30.0"]],
        right=(1,),
        width=60,
    )
    assert lines == [
        "        population uniques",
        "                without it  if coarsened",
        "  age                  4.3  30 groups: 78.0, 10 groups: 30.0",
    ]


@pytest.mark.parametrize("name", ["\x1b[2K\x1b[1Aage", "a\rVerdict", "a\x08b", "a\x85b", "a\u2028b", "\u202eega", "\x00"])
def test_names_of_a_file_hide_no_line_of_a_terminal(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    echo(f"before {name}\n\x1b[1mafter\x1b[0m", err=True)
    printed = capsys.readouterr().err
    assert printed.splitlines()[0] == f"before {''.join(c if c.isprintable() else ascii(c)[1:-1] for c in name)}"
    assert printed.splitlines()[1:] in (["after"], ["\x1b[1mafter\x1b[0m"])

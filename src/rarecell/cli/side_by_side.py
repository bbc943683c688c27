"""How are several runs laid side by side in a terminal?

As many runs as fit share a table; nothing is cut off, so long names and lists wrap inside their column.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import zip_longest

from rarecell.cli.layout import terminal_width
from rarecell.cli.terminal import rows
from rarecell.outcome.summary import RunSummary
from rarecell.report.comparison import comparison
from rarecell.report.table import Table

_NARROWEST, _WIDEST = 12, 32
"""Characters of a column of values, at least and at most."""
_LABEL = 30
_SAID = {"before protection": ", before", "after protection": ", after"}


def show_comparison(names: Sequence[str], summaries: Sequence[RunSummary]) -> None:
    """Print runs side by side, as many at a time as fit into the terminal; measures that differ are marked."""
    table = comparison(names, summaries)
    # Margin, label, the mark of a difference and the gaps around it are the same for any number of runs.
    room = terminal_width() - _LABEL - 2 - 3
    most = max(1, room // (_NARROWEST + 2))
    n_tables = -(-len(names) // most)
    each = -(-len(names) // n_tables)
    width = max(_NARROWEST, min(_WIDEST, room // each - 2))
    for first in range(0, len(names), each):
        shown = list(range(first, min(first + each, len(names))))
        _show_some(table, names, shown, width)


def _show_some(table: Table, names: Sequence[str], shown: Sequence[int], width: int) -> None:
    title = table.caption if len(shown) == len(names) else f"{table.caption}: {_which(shown)}"
    lines = _wrapped("", [names[run] for run in shown], "", width)
    for state, heading, *values, differs in table.written():
        lines += _wrapped(f"{heading}{_SAID.get(state, '')}", [values[run] for run in shown], differs, width)
    rows(title, [""] * (len(shown) + 2), lines, right=range(1, len(shown) + 1))


def _which(shown: Sequence[int]) -> str:
    return f"run {shown[0] + 1}" if len(shown) == 1 else f"runs {shown[0] + 1} to {shown[-1] + 1}"


def _wrapped(label: str, values: Sequence[str], differs: str, width: int) -> list[tuple[str, ...]]:
    """A measure as lines of a table: its label and values wrapped, the mark on the first line."""
    cells = [textwrap.wrap(label, _LABEL, subsequent_indent="  "), *(textwrap.wrap(value, width) for value in values), [differs]]
    return list(zip_longest(*cells, fillvalue=""))

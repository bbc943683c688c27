"""How are the records distributed over the levels of a key, before and after recoding?"""

from __future__ import annotations

from collections.abc import Sequence

from rarecell.outcome.planned import TriedKey
from rarecell.report.drawing import WIDTH, Chart, Scale, height_axis, height_room, text_width

_PANEL = 110.0
_FOOT = 34.0


def distribution_picture(key: TriedKey, name: str) -> str:
    """Draw the records of each level, before and after recoding; a group of adjacent levels is as wide as its levels together."""
    counts, after = key.counts, key.counts_after
    if not counts:
        return ""
    chart = Chart(2 * (_PANEL + _FOOT) + 52.0)
    members = [key.group_of_level.count(group) for group in range(len(after))]
    are_neighbours = list(key.group_of_level) == sorted(key.group_of_level)
    _panel(chart, 26.0, counts, key.labels, [1] * len(counts), "soft", f"{len(counts)} levels, as it is: records of each")
    widths = members if are_neighbours else [1] * len(after)
    top = 26.0 + _PANEL + _FOOT + 26.0
    _panel(chart, top, after, key.labels_after, widths, "accent", f"{len(after)} levels, recoded: records of each")
    largest = max(range(len(after)), key=lambda group: after[group])
    return chart.svg(
        name=name,
        title=f"Distribution of {key.key} before and after",
        description=f"The {len(counts)} levels become {len(after)}; the largest, {key.labels_after[largest]}, then has {after[largest]:,} records.",
    )


def _panel(
    chart: Chart, top: float, counts: Sequence[int], labels: Sequence[str], widths: Sequence[int], role: str, title: str
) -> None:
    bottom = top + _PANEL
    scale = Scale.of([float(n) for n in counts] or [1.0], bottom, top)
    left = height_room(scale)
    height_axis(chart, scale, "", left=left, right=WIDTH)
    chart.text(0, top - 10, title, role="muted", size=13)
    unit = (WIDTH - left) / max(sum(widths), 1)
    x, free = left, left
    for n, label, width in zip(counts, labels, widths, strict=True):
        room = width * unit
        gap = min(2.0, 0.15 * room)
        chart.bar(x + gap / 2, scale(n), room - gap, bottom - scale(n), role)
        short = label if len(label) <= 12 else f"{label[:11]}…"
        needs = text_width(short, 11)
        middle = x + room / 2
        # Leave out a label that would touch the one before.
        if middle - needs / 2 >= free and middle + needs / 2 <= WIDTH:
            chart.text(middle, bottom + 15, short, role="muted", anchor="middle", size=11)
            free = middle + needs / 2 + 5
        x += room
    chart.line(left, bottom, WIDTH, bottom, "muted")

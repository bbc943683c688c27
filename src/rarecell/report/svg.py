"""How is a small chart drawn as SVG, without a script or a drawing engine?

Lines, circles, rectangles and text in the colours of the page. A chart has at most a few dozen of them, so they are placed
here by hand: this takes a millisecond, where a general engine takes seconds to load.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass, field

from rarecell.outcome.words import power_of_ten

PALETTE = {
    "ink": "#1f2a33",
    "muted": "#57626c",
    "line": "#dcd8cd",
    "accent": "#0d6273",
    "soft": "#8fc1c8",
    "risk": "#b23f27",
    "truth": "#8a5a00",
}
"""Colours by role. On a page, each is the style sheet's variable of the same name, so that dark mode can change it."""

WIDTH = 520.0
"""Width of a chart; pages scale it to the space available, and it stays legible on a phone."""

FONT_SIZE = 14.0
_CHARACTER = 0.56
"""Width of a typical character, in font sizes."""


def text_width(text: str, size: float = FONT_SIZE) -> float:
    """Approximate width of a text in any usual font: the chart is laid out before the reader's font is known."""
    return len(text) * size * _CHARACTER


# ---------------------------------------------------------------------- scales


@dataclass(frozen=True)
class Scale:
    """A mapping of numbers to positions on an axis, linear or logarithmic, with round numbers as ticks."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    @classmethod
    def of(
        cls, values: Sequence[float], start: float, end: float, *, may_be_log: bool = False, most_ratio: float = 30.0
    ) -> Scale:
        """A scale from zero on that holds all values; logarithmic if one value would squeeze all others into a corner."""
        values = [value for value in values if math.isfinite(value)]
        largest, positive = max(values, default=1.0), [value for value in values if value > 0]
        if may_be_log and len(positive) == len(values) and largest > most_ratio * min(positive, default=1.0):
            # Twelve decades are enough for an axis; smaller values are put at its end.
            least = max(min(positive), 1e-12 * largest)
            return cls(10.0 ** math.floor(math.log10(least)), 10.0 ** math.ceil(math.log10(largest)), start, end, True)
        step = _round_step(max(largest, 1e-9) / 5)
        return cls(0.0, math.ceil(max(largest, 1e-9) / step - 1e-9) * step, start, end)

    def __call__(self, value: float) -> float:
        """The position of a value."""
        if self.is_log:
            share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    @property
    def ticks(self) -> list[float]:
        if self.is_log:
            first, last = round(math.log10(self.low)), round(math.log10(self.high))
            return [10.0**exponent for exponent in range(first, last + 1, max(1, math.ceil((last - first) / 6)))]
        step = _round_step(self.high / 5)
        return [k * step for k in range(int(self.high / step + 1e-9) + 1)]


def _round_step(least: float) -> float:
    """The smallest of 1, 2, 5 or 10 times a power of ten that is not below a number."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= least * (1 - 1e-9))


def tick_label(value: float) -> str:
    """A short label for a number on an axis."""
    if value >= 1e5 or 0 < value < 1e-3:
        exponent = round(math.log10(value))
        if math.isclose(value, 10.0**exponent):
            return power_of_ten(exponent)
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.6g}"


# ---------------------------------------------------------------------- a chart


@dataclass
class Chart:
    """A drawing in progress; once finished, a picture that a notebook shows by itself."""

    height: float
    width: float = WIDTH
    root: ElementTree.Element = field(default_factory=lambda: ElementTree.Element("svg"))

    def _add(self, tag: str, **attributes: float | str) -> ElementTree.Element:
        plain = {
            name.replace("_", "-"): value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")
            for name, value in attributes.items()
        }
        return ElementTree.SubElement(self.root, tag, plain)

    def line(self, x1: float, y1: float, x2: float, y2: float, role: str, *, width: float = 1.0, dash: str = "") -> None:
        element = self._add("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=f"var(--{role})", stroke_width=width)
        if dash:
            element.set("stroke-dasharray", dash)
        elif width > 3:
            element.set("stroke-linecap", "round")

    def bar(self, x: float, y: float, width: float, height: float, role: str) -> None:
        self._add("rect", x=x, y=y, width=width, height=max(height, 0.0), rx="2", fill=f"var(--{role})")

    def dot(self, x: float, y: float, role: str, *, size: float = 6.0, is_diamond: bool = False) -> None:
        if is_diamond:
            points = f"{x:.1f},{y - size:.1f} {x + size:.1f},{y:.1f} {x:.1f},{y + size:.1f} {x - size:.1f},{y:.1f}"
            self._add("polygon", points=points, fill=f"var(--{role})")
        else:
            self._add("circle", cx=x, cy=y, r=size, fill=f"var(--{role})")

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        role: str = "ink",
        anchor: str = "start",
        is_bold: bool = False,
        size: float = FONT_SIZE,
    ) -> None:
        """Write words, moved into the picture if they would stick out."""
        room = text_width(words, size)
        left = {"start": x, "middle": x - room / 2, "end": x - room}[anchor]
        x += min(0.0, self.width - left - room)
        x += max(0.0, {"start": -x, "middle": room / 2 - x, "end": room - x}[anchor])
        element = self._add("text", x=x, y=y, font_size=size, fill=f"var(--{role})")
        if anchor != "start":
            element.set("text-anchor", anchor)
        if is_bold:
            element.set("font-weight", "bold")
        element.text = words

    def path(self, points: Sequence[tuple[float, float]], role: str, *, width: float = 2.0) -> None:
        steps = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._add("polyline", points=steps, fill="none", stroke=f"var(--{role})", stroke_width=width)

    def svg(self, *, name: str, title: str, description: str) -> str:
        """The picture for a page, with a text for screen readers; every ``id`` in it begins with ``name``."""
        self.root.set("viewBox", f"0 0 {self.width:.0f} {self.height:.0f}")
        return finished_svg(self.root, name=name, title=title, description=description, width=self.width)

    def _repr_html_(self) -> str:
        colours = "".join(f"--{role}:{colour};" for role, colour in PALETTE.items())
        picture = self.svg(name="chart", title="Chart", description="A chart of a rarecell run.")
        return f'<div style="{colours}max-width:44em">{picture}</div>'


def finished_svg(root: ElementTree.Element, *, name: str, title: str, description: str, width: float) -> str:
    """Give an ``svg`` element its title, description and natural width, and write it as text."""
    svg = ElementTree.Element("svg", dict(root.attrib))
    svg.set("role", "img")
    svg.set("aria-labelledby", f"{name}-title {name}-desc")
    svg.set("class", "picture")
    svg.set("width", f"{width:.0f}")
    for tag, words in (("title", title), ("desc", description)):
        ElementTree.SubElement(svg, tag, id=f"{name}-{tag}").text = words
    svg.extend(list(root))
    return ElementTree.tostring(svg, encoding="unicode")


# ---------------------------------------------------------------------- axes and legends


def value_axis(chart: Chart, scale: Scale, title: str, *, top: float, bottom: float) -> None:
    """Draw a horizontal axis at the bottom, with light lines through the chart; a logarithmic one is labelled as such."""
    for value in scale.ticks:
        chart.line(scale(value), top, scale(value), bottom, "line")
        chart.text(scale(value), bottom + 18, tick_label(value), role="muted", anchor="middle", size=12)
    label = f"{title} (logarithmic axis)" if scale.is_log else title
    chart.text((scale.start + scale.end) / 2, bottom + 38, label, role="muted", anchor="middle", size=13)


def height_axis(chart: Chart, scale: Scale, title: str, *, left: float, right: float) -> None:
    """Draw a vertical axis on the left; its title stands above it, so that it can be read without turning the head."""
    for value in scale.ticks:
        chart.line(left, scale(value), right, scale(value), "line")
        chart.text(left - 8, scale(value) + 4, tick_label(value), role="muted", anchor="end", size=12)
    chart.text(0, 14, f"{title} (logarithmic axis)" if scale.is_log else title, role="muted", size=13)


def height_room(scale: Scale) -> float:
    """Width needed on the left for the numbers of a vertical axis."""
    return max(text_width(tick_label(value), 12) for value in scale.ticks) + 14


def legend(chart: Chart, entries: Sequence[tuple[str, str, bool]], *, y: float) -> None:
    """Draw marks and their meaning: words, colour, and whether the mark is a diamond."""
    x = 0.0
    for words, role, is_diamond in entries:
        chart.dot(x + 7, y - 4, role, is_diamond=is_diamond)
        chart.text(x + 20, y, words, role="muted", size=13)
        x += text_width(words, 13) + 44

"""Pictures of how the default model works, drawn from the census sample when the documentation is built.

``{picture-of-the-default} NAME`` with a name of :data:`PICTURES`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from docutils import nodes
from docutils.parsers.rst import Directive

import rarecell as rc
from rarecell import datasets
from rarecell.graph.masks import single
from rarecell.model.backoff import BackoffModel, BackoffNetwork
from rarecell.model.backoff_conditionals import Conditional, tally_at
from rarecell.model.backoff_contexts import n_values
from rarecell.outcome.words import number, percent
from rarecell.report.svg import WIDTH, Chart, Scale, height_axis, height_room, legend, text_width, value_axis
from rarecell.risk.records import RecordRisk
from rarecell.table.contingency import ContingencyTable

POPULATION = datasets.CENSUS_POPULATION
TRUTH = 179
"""Population uniques among the sample's uniques, counted in the population that the sample was drawn from."""
_PREDICTED = "citizenship"
_ROW = 44.0


@dataclass(frozen=True)
class Example:
    """The sample, its model, and one record that is alone in the file and about as likely alone in the population as not."""

    table: ContingencyTable
    model: BackoffModel
    risk: RecordRisk
    cell: int


@cache
def example() -> Example:
    table = rc.Microdata(datasets.census_sample(), keys=datasets.CENSUS_KEYS).table()
    table = table.with_coarsenings(rc.automatic_coarsenings(table))
    model = rc.fit_backoff(table, seed=0)
    risk = rc.record_risk(table, model, population=POPULATION)
    alone = np.flatnonzero(table.counts == 1)
    cell = int(alone[np.abs(np.asarray(risk.unique_probability)[alone] - 0.5).argmin()])
    return Example(table, model, risk, cell)


@dataclass(frozen=True)
class Step:
    """One context of a record: who agrees with it, and what is believed of the value after they were asked."""

    known: str
    agreeing: int
    with_value: int
    believed: float


def steps_of(table: ContingencyTable, conditional: Conditional, cell: int) -> list[Step]:
    """Follow the conditional of a record from its shortest context to its longest."""
    level = int(table.vertex_codes(conditional.vertex)[cell])
    believed = 1.0 / float(n_values(table, conditional.vertex)[level])
    found = []
    for context in conditional.contexts:
        n_context, n_pair = (
            int(table.marginals.counts(mask)[table.marginals.positions(mask, None)[cell]]) if mask else table.n_records
            for mask in (context.mask, context.mask | single(conditional.vertex))
        )
        weight = float(context.weight(np.asarray(float(n_context))))
        n_seen = float(tally_at(table, context, conditional.vertex, table.cells[[cell]]).n_values[0])
        believed = (n_pair - context.discount + (weight + context.discount * n_seen) * believed) / (n_context + weight)
        names = [_plain(name) for name in table.names_of(context.mask)]
        found.append(Step(", ".join(names) or "nothing", n_context, n_pair, believed))
    return found


def _plain(vertex: str) -> str:
    """A vertex such as ``age/10`` in words."""
    key, _, groups = vertex.partition("/")
    return f"{key} in {groups} groups" if groups else key


# ---------------------------------------------------------------------- the pictures


_SIZES = ((1, 1), (2, 2), (3, 4), (5, 9), (10, None))


def cells() -> tuple[Chart, str]:
    """How many cells hold how many records."""
    sizes = example().table.size_indices
    counted = [sum(n for size, n in sizes.items() if low <= size <= (high or size)) for low, high in _SIZES]
    labels = [f"{low}" if low == high else f"{low} or more" if high is None else f"{low}–{high}" for low, high in _SIZES]
    chart = Chart(_ROW * len(labels) + 60)
    left = max(text_width(label) for label in labels) + 12
    scale = Scale.of([float(n) for n in counted], left, WIDTH - 60)
    value_axis(chart, scale, "occupied cells", top=0, bottom=_ROW * len(labels))
    for place, (label, n) in enumerate(zip(labels, counted, strict=True)):
        y = _ROW * place
        chart.text(left - 10, y + 27, label, anchor="end")
        chart.bar(left, y + 10, scale(n) - left, 24, "risk" if place == 0 else "accent")
        chart.text(scale(n) + 8, y + 27, number(n), size=13)
    return chart, f"Records in a cell, and how many cells hold so many. {number(sizes[1])} cells hold a single record."


def backing_off() -> tuple[Chart, str]:
    """A value predicted from contexts that grow: raw shares jump, what is believed does not."""
    shown = example()
    network = shown.model.networks[1]
    vertex = shown.table.keys.index(_PREDICTED)
    steps = steps_of(shown.table, next(c for c in network.conditionals if c.vertex == vertex), shown.cell)
    top, bottom = 34.0, 34.0 + 2 * _ROW * len(steps)
    chart = Chart(bottom + 84)
    scale = Scale.of([share for step in steps for share in (step.believed, step.with_value / step.agreeing)], 8.0, WIDTH - 24)
    value_axis(chart, scale, f"share with the record's {_PREDICTED}", top=top - 10, bottom=bottom)
    for place, step in enumerate(steps):
        y = top + 2 * _ROW * place + 16
        words = f"known: {step.known}" if len(step.known) < 58 else f"known: {step.known[:57]}…"
        chart.text(0, y, words, size=13)
        chart.text(0, y + 20, f"{number(step.with_value)} of {number(step.agreeing)} records", role="muted", size=12)
        chart.line(scale.start, y + 38, scale.end, y + 38, "line", width=2)
        chart.dot(scale(step.with_value / step.agreeing), y + 38, "soft")
        chart.dot(scale(step.believed), y + 38, "accent", is_diamond=True)
    legend(chart, [("share in the file", "soft", False), ("what the network believes", "accent", True)], y=bottom + 72)
    last = steps[-1]
    said = (
        f"With everything known, {number(last.with_value)} of {number(last.agreeing)} records agree, "
        f"{percent(last.with_value / last.agreeing)}; the network believes {percent(last.believed)}."
    )
    return chart, said


def orders() -> tuple[Chart, str]:
    """The estimate of each network, their average and the truth."""
    shown = example()
    estimates = [_estimate(network) for network in shown.model.networks]
    average = shown.risk.expected_population_uniques
    top, bottom = 20.0, 20.0 + 22.0 * len(estimates)
    chart = Chart(bottom + 96)
    scale = Scale.of([*estimates, average], 150.0, WIDTH - 16)
    value_axis(chart, scale, "expected population uniques", top=top - 6, bottom=bottom + 26)
    for place, estimate in enumerate(estimates):
        chart.text(0, top + 22 * place + 14, f"order {place + 1}", role="muted", size=12)
        chart.dot(scale(estimate), top + 22 * place + 10, "soft")
    chart.text(0, bottom + 14, "average", size=13, is_bold=True)
    chart.dot(scale(average), bottom + 10, "accent", size=7)
    chart.dot(scale(TRUTH), bottom + 10, "truth", size=5, is_diamond=True)
    legend(chart, [("one order", "soft", False), ("their average", "accent", False), ("truth", "truth", True)], y=bottom + 88)
    said = f"Single orders say {number(min(estimates), 0)} to {number(max(estimates), 0)}, the averaged probabilities {number(average, 1)}; {TRUTH} is true."
    return chart, said


def _estimate(network: BackoffNetwork) -> float:
    return rc.record_risk(network.table, network, population=POPULATION).expected_population_uniques


def posterior() -> tuple[Chart, str]:
    """What is known of one record's expected doubles, and the chance of having none."""
    shown = example()
    draws = np.exp(shown.model.draws(shown.table.cells[[shown.cell]], 4_000, np.random.default_rng(0)))[:, 0]
    others = (POPULATION - shown.table.n_records) * draws
    most = float(np.quantile(others, 0.98))
    edges = np.linspace(0, most, 25)
    shares = np.histogram(others, edges)[0] / len(others)
    top, bottom = 34.0, 234.0
    chart = Chart(bottom + 84)
    heights = Scale.of([1.0], bottom, top)
    left = height_room(heights)
    height_axis(chart, heights, "chance that nobody else is alike", left=left, right=WIDTH)
    places = Scale.of([most], left, WIDTH - 10)
    for low, high, share in zip(edges[:-1], edges[1:], shares, strict=True):
        height = (bottom - top) * 0.6 * share / shares.max()
        chart.bar(places(low), bottom - height, places(high) - places(low) - 1, height, "soft")
    curve = np.linspace(0, most, 80)
    chart.path([(places(x), heights(float(np.exp(-x)))) for x in curve], "risk")
    value_axis(chart, places, "persons outside the file expected to be alike", top=bottom, bottom=bottom)
    legend(chart, [("how often drawn", "soft", False), ("chance of none", "risk", False)], y=bottom + 72)
    risk = float(np.asarray(shown.risk.unique_probability)[shown.cell])
    said = f"Averaged over what is possible, the chance is {number(risk, 2)}: the risk of this record."
    return chart, said


PICTURES: dict[str, Callable[[], tuple[Chart, str]]] = {
    "cells": cells,
    "backing-off": backing_off,
    "orders": orders,
    "posterior": posterior,
}


class PictureOfTheDefault(Directive):
    """A picture by its name, with a caption that is computed with it."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        make = PICTURES[name]
        chart, said = make()
        drawn = chart.svg(name=f"default-{name}", title=(make.__doc__ or "").strip(), description=said)
        return [nodes.raw("", f'<figure class="drawn">{drawn}<figcaption>{said}</figcaption></figure>', format="html")]


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("picture-of-the-default", PictureOfTheDefault)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

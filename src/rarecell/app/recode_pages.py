"""The page for trying coarser keys: risk and cost at once, from counts, before anything is run.

Its address holds every step taken, in order; undoing means leaving out the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rarecell.app.forms import decimal_number, first, form_of
from rarecell.app.jobs import TrialProcess
from rarecell.app.runs import FinishedRun
from rarecell.data.coding import Coding
from rarecell.data.likeness import joined_name
from rarecell.data.recoding_text import AS_IT_IS, parse_recoding
from rarecell.errors import BadInput, RarecellError
from rarecell.outcome.planned import MISSING, Trial, TriedKey
from rarecell.report.svg import WIDTH, Chart, Scale, height_axis, height_room, text_width
from rarecell.run.config import RunConfig

if TYPE_CHECKING:
    from rarecell.app.pages import Pages

MOST_STEPS = 200
"""Most steps in an address."""


@dataclass(frozen=True)
class RecodeState:
    """The state of the page, as its address gives it."""

    origin: tuple[tuple[str, str], ...]
    steps: tuple[tuple[str, str], ...]
    threshold: str

    @classmethod
    def of(cls, request: Request) -> RecodeState:
        query = request.query_params
        origin = tuple((name, query[name]) for name in ("name", "draft") if name in query)
        steps = [text.partition("=") for text in query.getlist("step")[:MOST_STEPS]]
        return cls(origin, tuple((key, words) for key, sign, words in steps if sign), query.get("threshold", ""))

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The state as the fields of a form or an address."""
        threshold = [("threshold", self.threshold)] if self.threshold else []
        return [*self.origin, *(("step", f"{key}={words}") for key, words in self.steps), *threshold]

    @property
    def address(self) -> str:
        return f"/recode?{urlencode(self.pairs)}"

    def place_of(self, config: RunConfig) -> str:
        """The address, at the key of the last step."""
        keys = list(config.keys)
        at = f"#key-{keys.index(self.steps[-1][0]) + 1}" if self.steps and self.steps[-1][0] in keys else ""
        return f"{self.address}{at}"

    def then(self, key: str, words: str) -> RecodeState:
        """Add one step."""
        return replace(self, steps=(*self.steps, (key, words.strip() or AS_IT_IS)))

    def without_last(self) -> RecodeState:
        return replace(self, steps=self.steps[:-1])

    def recode(self, config: RunConfig) -> dict[str, str]:
        """How every key is to be released after all steps."""
        recodings = dict(config.recode)
        for key, words in self.steps:
            if key not in config.keys:
                raise BadInput(f"'{key}' is not a key of this run.")
            parse_recoding(words, key=key)
            recodings[key] = words
        return {key: words for key, words in recodings.items() if words != AS_IT_IS}


class RecodePages:
    """Try coarser keys."""

    def __init__(self, pages: Pages) -> None:
        self.pages = pages
        self.trials = TrialProcess(pages.jobs, pages.folder.root)

    def routes(self) -> list[Route]:
        page = self.pages.endpoint
        return [Route("/recode", page(self.recode), methods=["GET", "POST"]), Route("/try", page(self.draft), methods=["POST"])]

    def draft(self, request: Request, fields: dict[str, list[str]]) -> Response:
        """From the Keys page: keep its choices, and show what recodings would do."""
        try:
            self.pages.keys.config(fields)
        except RarecellError as problem:
            return self.pages.keys.show(first(fields, "file"), fields, problem)
        return self.pages.go(f"/recode?draft={self.pages.drafts.keep(fields)}")

    def recode(self, request: Request, fields: dict[str, list[str]]) -> Response:
        state = RecodeState.of(request)
        config, file = self._config(state)
        if request.method == "POST":
            return self._estimate(state, config, file, fields)
        query = request.query_params
        if "act" in query:
            groups = [int(text) for text in query.getlist("group") if text.isascii() and text.isdecimal() and len(text) < 6]
            key = self._tried_key(state, config, query.get("key", ""))
            try:
                words = regrouped(key, groups, query["act"], query.get("label", "").strip())
            except BadInput as refused:
                return self._show(state, config, file, refused, opened=key.key)
            return self.pages.go(state.then(key.key, words).place_of(config))
        if "key" in query:
            return self.pages.go(state.then(query["key"], query.get("words", "")).place_of(config))
        return self._show(state, config, file)

    def _trial(self, state: RecodeState, config: RunConfig) -> Trial:
        """What the steps taken so far would do."""
        place = Path(config.input)
        stamp = f"{place.stat().st_mtime_ns} {place.stat().st_size}"
        return self.trials.of(replace(config, recode={}, protect=None).to_toml(), stamp, state.recode(config))

    def _tried_key(self, state: RecodeState, config: RunConfig, key: str) -> TriedKey:
        for tried in self._trial(state, config).keys:
            if tried.key == key:
                return tried
        raise BadInput(f"'{key}' is not a key of this run.")

    def _config(self, state: RecodeState) -> tuple[RunConfig, str]:
        """The configuration that the recodings are applied to, and the name of its file."""
        origin = dict(state.origin)
        if "name" in origin:
            run = FinishedRun.read(self.pages.folder.resolve(origin["name"]), origin["name"])
            config = replace(self.pages.folder.checked(run.config), protect=None)
            return config, self.pages.folder.relative(Path(config.input))
        fields = self.pages.drafts.of(origin.get("draft", ""))
        if not fields:
            raise BadInput("These choices are gone; they are kept while the app runs. Choose the file again.")
        return self.pages.keys.config(fields), first(fields, "file")

    def _show(
        self,
        state: RecodeState,
        config: RunConfig,
        file: str,
        problem: RarecellError | None = None,
        *,
        opened: str | None = None,
        run_name: str = "",
    ) -> Response:
        threshold = config.threshold
        try:
            threshold = decimal_number(state.threshold, "The threshold") if state.threshold else threshold
            if not 0 <= threshold <= 1:
                raise BadInput(f"The threshold was given as {threshold:g}; a risk lies between 0 and 1.")
            trial = self._trial(state, config)
        except BadInput as refused:
            if not state.steps or problem is not None:
                raise
            # Report the step that cannot be taken, and leave the page as it was.
            return self._show(state.without_last(), config, file, refused)
        recode = state.recode(config)
        changed = [key for key in trial.keys if key.n_levels != key.n_levels_after]
        return self.pages.render(
            "recode.html",
            status=400 if problem else 200,
            step="keys",
            file=file,
            problem=problem,
            state=state,
            origin=dict(state.origin),
            trial=trial,
            has_families=config.household is not None and config.households_known == "yes",
            threshold=threshold,
            # Records are counted in steps of 0.01; values in between count as the lower one.
            at=int(100 * threshold + 1e-9),
            recode=recode,
            pictures=[
                (key.key, distribution_picture(key, f"levels-{number}")) for number, key in enumerate(changed) if key.counts
            ],
            run_name=run_name or self.pages.folder.new_run("recoded"),
            # The key that was worked on last stays open.
            opened=opened or (state.steps[-1][0] if state.steps else None),
        )

    def _estimate(self, state: RecodeState, config: RunConfig, file: str, fields: dict[str, list[str]]) -> Response:
        """Run what was tried, or return to the choices with it."""
        started = replace(config, recode=state.recode(config))
        if state.threshold:
            started = replace(started, threshold=decimal_number(state.threshold, "The threshold"))
        if first(fields, "then") == "keys":
            origin = dict(state.origin)
            known = self.pages.drafts.of(origin.get("draft", ""))
            base = [origin["name"]] if "name" in origin else known.get("base", [])
            unused = {name: ["none"] for name in known if name.startswith("role:")}
            draft = self.pages.drafts.keep({**unused, **form_of(started, file), "base": base})
            return self.pages.go(f"/keys?file={quote(file)}&again={draft}")
        try:
            out = self.pages.new_folder(first(fields, "run_name") or self.pages.folder.new_run("recoded"))
            job = self.pages.jobs.start("assess", started.to_toml(), out, title=f"Risk of {Path(file).name}", back=state.address)
        except RarecellError as problem:
            return self._show(state, config, file, problem, run_name=first(fields, "run_name"))
        return self.pages.go(f"/job/{job.number}")


def regrouped(key: TriedKey, groups: Sequence[int], act: str, name: str = "") -> str:
    """The recoding of a key, in words, once some of its levels were merged, taken apart or taken for missing.

    Parameters
    ----------
    key : TriedKey
        The key as it is recoded so far.
    groups : sequence of int
        The positions of what was ticked, among the levels after recoding.
    act : str
        ``merge``, ``apart`` or ``missing``.
    name : str
        What merged levels are to be called; by default by their labels.
    """
    members = key.members
    ticked = [group for group in dict.fromkeys(groups) if group < len(members) and key.labels_after[group] != MISSING]
    if act == "merge" and len(ticked) < 2:
        raise BadInput("Tick at least two levels to merge them.")
    if not ticked:
        raise BadInput("Tick a level first.")
    blank = {level for group, levels in enumerate(members) if key.labels_after[group] == MISSING for level in levels}
    merged: dict[str, tuple[str, ...]] = {}

    def put(levels: Sequence[int], label: str) -> None:
        if label in merged:
            raise BadInput(f"Two groups would be called '{label}'. Give each a name of its own.")
        merged[label] = tuple(key.labels[level] for level in levels)

    for group, levels in enumerate(members):
        if group in ticked and act == "missing":
            blank.update(levels)
        elif group in ticked and act == "merge":
            if group == min(ticked):
                together = sorted(level for each in ticked for level in members[each])
                put(
                    together,
                    name or joined_name([key.labels[level] for level in together], [key.meanings[level] for level in together]),
                )
        elif group not in ticked and len(levels) > 1 and key.labels_after[group] != MISSING:
            put(levels, key.labels_after[group])
    codes = tuple(key.labels[level] for level in sorted(blank) if key.labels[level] != MISSING)
    quoted = next(
        (text for text in (*codes, *merged, *(value for values in merged.values() for value in values)) if '"' in text), None
    )
    if quoted is not None:
        raise BadInput(f"The level '{quoted}' has quotation marks in it, which words cannot express. Merge it by a hierarchy.")
    words = Coding(merge=merged or None, missing=codes).in_words()
    is_ordered = parse_recoding(key.words, key=key.key).ordered if key.words else None
    order = {True: "ordered", False: "unordered", None: ""}[is_ordered]
    return ", ".join(part for part in (words if words != AS_IT_IS else "", order) if part) or AS_IT_IS


# How are the records distributed over the levels of a key, before and after recoding?


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

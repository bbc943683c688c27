"""The page for trying coarser keys: risk and cost at once, from counts, before anything is run.

Its address holds every step taken, in order; undoing means leaving out the last one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rarecell.app.distribution import distribution_picture
from rarecell.app.forms import decimal_number, first, form_of
from rarecell.app.jobs import TrialProcess
from rarecell.app.runs import FinishedRun
from rarecell.data.recoding_text import AS_IT_IS, parse_recoding
from rarecell.errors import BadInput, RarecellError
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
        given = request.query_params
        origin = tuple((name, given[name]) for name in ("name", "draft") if name in given)
        steps = [text.partition("=") for text in given.getlist("step")[:MOST_STEPS]]
        return cls(origin, tuple((key, words) for key, sign, words in steps if sign), given.get("threshold", ""))

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The state as the fields of a form or an address."""
        kept = [("threshold", self.threshold)] if self.threshold else []
        return [*self.origin, *(("step", f"{key}={words}") for key, words in self.steps), *kept]

    @property
    def address(self) -> str:
        return f"/recode?{urlencode(self.pairs)}"

    def then(self, key: str, words: str) -> RecodeState:
        """Add one step."""
        return replace(self, steps=(*self.steps, (key, words.strip() or AS_IT_IS)))

    def without_last(self) -> RecodeState:
        return replace(self, steps=self.steps[:-1])

    def recode(self, config: RunConfig) -> dict[str, str]:
        """How every key is to be released after all steps."""
        found = dict(config.recode)
        for key, words in self.steps:
            if key not in config.keys:
                raise BadInput(f"'{key}' is not a key of this run.")
            parse_recoding(words, key=key)
            found[key] = words
        return {key: words for key, words in found.items() if words != AS_IT_IS}


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
            return self.pages.keys.show(first(fields, "file"), fields, str(problem))
        return self.pages.go(f"/recode?draft={self.pages.drafts.keep(fields)}")

    def recode(self, request: Request, fields: dict[str, list[str]]) -> Response:
        state = RecodeState.of(request)
        config, file = self._config(state)
        if request.method == "POST":
            return self._estimate(state, config, file, fields)
        if "key" in request.query_params:
            wanted = state.then(request.query_params["key"], request.query_params.get("words", ""))
            return self.pages.go(wanted.address)
        return self._show(state, config, file)

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

    def _show(self, state: RecodeState, config: RunConfig, file: str, problem: str | None = None) -> Response:
        place = Path(config.input)
        stamp = f"{place.stat().st_mtime_ns} {place.stat().st_size}"
        plain = replace(config, recode={}, protect=None).to_toml()
        threshold = config.threshold
        try:
            threshold = decimal_number(state.threshold, "The threshold") if state.threshold else threshold
            if not 0 <= threshold <= 1:
                raise BadInput(f"The threshold was given as {threshold:g}; a risk lies between 0 and 1.")
            found = self.trials.of(plain, stamp, state.recode(config))
        except BadInput as refused:
            if not state.steps or problem is not None:
                raise
            # Report the step that cannot be taken, and leave the page as it was.
            return self._show(state.without_last(), config, file, str(refused))
        recode = state.recode(config)
        changed = [key for key in found.keys if key.n_levels != key.n_levels_after]
        return self.pages.render(
            "recode.html",
            status=400 if problem else 200,
            step="keys",
            file=file,
            problem=problem,
            state=state,
            origin=dict(state.origin),
            found=found,
            threshold=threshold,
            # Records are counted in steps of 0.01; values in between count as the lower one.
            at=int(100 * threshold + 1e-9),
            recode=recode,
            pictures=[
                (key.key, distribution_picture(key, f"levels-{number}")) for number, key in enumerate(changed) if key.counts
            ],
            run_name=self.pages.folder.new_run("recoded"),
        )

    def _estimate(self, state: RecodeState, config: RunConfig, file: str, fields: dict[str, list[str]]) -> Response:
        """Run what was tried, or return to the choices with it."""
        recode = state.recode(config)
        if first(fields, "then") == "keys":
            draft = self.pages.drafts.keep(
                {**form_of(config, file), **{f"recode:{key}": [words] for key, words in recode.items()}}
            )
            return self.pages.go(f"/keys?file={quote(file)}&again={draft}")
        started = replace(config, recode=recode)
        if state.threshold:
            started = replace(started, threshold=decimal_number(state.threshold, "The threshold"))
        out = self.pages.new_folder(first(fields, "run_name") or self.pages.folder.new_run("recoded"))
        job = self.pages.jobs.start("assess", started.to_toml(), out, title=f"Risk of {Path(file).name}", back=state.address)
        return self.pages.go(f"/job/{job.number}")

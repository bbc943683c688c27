"""The pages: Data, Keys, Risk, Protect, Results.

Every page works without script; the script adds the slider, live progress and copying. Nothing is kept between
requests except the runs in progress: a page's address determines everything it shows.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route

from rarecell.app.folder import ChosenFolder, is_run, stem
from rarecell.app.forms import BESIDE_KEYS, LIMITS, TARGET, about, first, in_app, protect_config, protect_form
from rarecell.app.jobs import Job, Jobs, in_time_limit
from rarecell.app.keys_pages import KeysPages
from rarecell.app.recode_pages import RecodePages
from rarecell.app.release_pages import ReleasePages
from rarecell.app.run_pages import RunPages
from rarecell.app.runs import DOWNLOADS, HANDED_OVER, TABLE_OF_THRESHOLDS, Drafts, FinishedRun, allowed_by_profile
from rarecell.app.security import Gate, read_form, shown_report
from rarecell.app.twin_pages import COMMAND, TwinPages
from rarecell.datasets import census_sample_path
from rarecell.engine.output import atomic_path
from rarecell.engine.places import FORMATS
from rarecell.errors import BadInput, OutputExists, RarecellError
from rarecell.outcome.decision import profile_of, target_of
from rarecell.report.page import report_environment

if TYPE_CHECKING:
    import jinja2

_HERE = Path(__file__).parent
_NOTHING_YET = {"step": None, "file": None, "run": None, "job": None, "entering": False, "problem": None, "field": ""}
"""Defaults for what the layout of every page needs, for pages that do not provide it."""

LONGEST_NAME = 200
"""Most bytes in the name of a folder; file systems take 255, and a suffix is added while a run is written."""

_STATIC = {"app.css": "text/css", "app.js": "text/javascript", "report.css": "text/css"}


class Pages:
    """The pages of one launch of the app."""

    def __init__(self, folder: ChosenFolder, gate: Gate, file: str | None = None) -> None:
        self.folder = folder
        self.gate = gate
        self.file = file
        self.killed = [
            f"A run that was writing into '{name}' was killed. What it left was removed, and the input is untouched; start it again."
            for name in folder.swept()
        ]
        self.jobs = Jobs(folder.root)
        self.drafts = Drafts()
        self.keys = KeysPages(self)
        self.recodings = RecodePages(self)

    def routes(self) -> list[Mount]:
        pages = [
            Route("/enter", self.enter),
            Route("/static/{name}", self.static),
            Route("/", self.home),
            Route("/data", self.endpoint(self.data)),
            Route("/sample", self.endpoint(self.sample), methods=["POST"]),
            Route("/job/{number}", self.endpoint(self.job)),
            Route("/job/{number}/state", self.endpoint(self.job_state)),
            Route("/job/{number}/cancel", self.endpoint(self.cancel), methods=["POST"]),
            Route("/job/{number}/enough", self.endpoint(self.enough), methods=["POST"]),
            Route("/protect", self.endpoint(self.protect), methods=["GET", "POST"]),
            Route("/files/{path:path}", self.endpoint(self.download)),
            *self.keys.routes(),
            *RunPages(self).routes(),
            *self.recodings.routes(),
            *ReleasePages(self).routes(),
            *TwinPages(self).routes(),
        ]
        return [Mount(self.gate.base, routes=pages)]

    # ------------------------------------------------------------------ plumbing

    def endpoint(self, show: Callable[[Request, dict[str, list[str]]], Response]) -> Callable[[Request], Any]:
        """An endpoint that reads the form, works outside the event loop, and shows errors as pages."""

        async def answer(request: Request) -> Response:
            try:
                fields = await read_form(request) if request.method == "POST" else {}
                return await in_time_limit(lambda: show(request, fields))
            except RarecellError as problem:
                return self.render("problem.html", status=400, problem=problem, step=None)
            except OSError as problem:
                sentence = f"A file could not be read: {problem.strerror or problem}."
                return self.render("problem.html", status=400, problem=sentence, step=None)

        return answer

    def render(self, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        running = self.jobs.running
        problem = values.get("problem")
        if problem is not None:
            values |= {"problem": in_app(str(problem)), "field": getattr(problem, "field", "")}
        page = (
            environment()
            .get_template(template)
            .render(
                base=self.gate.base, root=self.folder.root.name or str(self.folder.root), running=running, **_NOTHING_YET | values
            )
        )
        # Names of files, and texts of a damaged run, may hold what is no text.
        return HTMLResponse(page.encode(errors="replace"), status_code=status)

    def go(self, path: str) -> RedirectResponse:
        return RedirectResponse(f"{self.gate.base}{path}", status_code=303)

    def finished(self, request: Request) -> FinishedRun:
        """The run named by an address."""
        name = request.query_params.get("name", "")
        return FinishedRun.read(self.folder.resolve(name), name)

    def close(self) -> None:
        """Stop what is in progress when the app ends."""
        self.recodings.trials.close()
        self.jobs.close()

    # ------------------------------------------------------------------ entry

    async def enter(self, request: Request) -> Response:
        """Exchange the one-time token for the cookie.

        The page moves on by itself, because a browser that was sent here from elsewhere does not yet present a strict
        cookie on a redirect.
        """
        if not self.gate.take(request.query_params.get("token", "")):
            return self.render("problem.html", status=403, step=None, entering=True, problem=(
                "This link has already been used, or is incomplete. A link works once; start 'rarecell app' again for a new one."
            ))  # fmt: skip
        response = self.render("enter.html")
        self.gate.admit(response)
        return response

    async def static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _STATIC:
            return Response(status_code=404)
        place = _HERE.parent / "report" / "templates" / name if name == "report.css" else _HERE / "static" / name
        return FileResponse(place, media_type=_STATIC[name])

    async def home(self, request: Request) -> Response:
        return self.go(f"/keys?file={quote(self.file)}" if self.file else "/data")

    # ------------------------------------------------------------------ data

    def data(self, request: Request, fields: dict[str, list[str]]) -> Response:
        name = request.query_params.get("folder", "")
        path = request.query_params.get("path")
        if path is not None:
            place = self.folder.resolve(path.strip())
            if place.is_dir():
                return self.go(f"/data?folder={quote(self.folder.relative(place))}")
            return self.go(f"/keys?file={quote(self.folder.relative(place))}")
        trail = [part for part in name.split("/") if part]
        steps = [(part, "/".join(trail[: k + 1])) for k, part in enumerate(trail)]
        return self.render(
            "data.html", step="data", entries=self.folder.listing(name), steps=steps, formats=FORMATS, killed=self.killed
        )

    def sample(self, request: Request, fields: dict[str, list[str]]) -> Response:
        """Put the census sample into the folder, so that there is something to try."""
        place = self.folder.resolve("census_sample.csv.gz", must_exist=False)
        if not place.exists():
            with atomic_path(place) as temporary:
                shutil.copyfile(census_sample_path(), temporary)
        return self.go("/keys?file=census_sample.csv.gz")

    # ------------------------------------------------------------------ for other pages

    def new_folder(self, name: str, *, field: str = "run_name") -> Path:
        """The folder of a new run, named in a field; it must not exist yet."""
        with about(field):
            place = self.folder.resolve(name, must_exist=False)
            if place == self.folder.root or place.name.startswith("."):
                raise BadInput("Give the run a name of its own, such as survey-1.")
            if max(len(os.fsencode(part)) for part in place.parts) > LONGEST_NAME:
                raise BadInput("This name is too long for a folder. Choose a shorter one.")
            if is_run(place):
                raise OutputExists(f"A run called '{name}' already exists. Give this one another name.")
            if any(part.is_file() for part in (place, *place.parents)):
                raise OutputExists(f"'{name}' is a file, or lies in one. Give the run another name.")
        return place

    def usual(self, command: str, place: Path) -> dict[str, float] | None:
        """Seconds that each stage took when this file was last run, for a better estimate of the time left."""
        for folder in self.folder.run_folders():
            try:
                run = FinishedRun.read(folder, folder.name)
            except BadInput:
                continue
            if run.record.get("command") == command and run.record.get("input", {}).get("path") == str(place):
                seconds = run.record.get("seconds", {})
                return {str(stage): float(spent) for stage, spent in seconds.items()} if seconds else None
        return None

    # ------------------------------------------------------------------ progress

    def job_of(self, request: Request) -> Job:
        """The process named by an address."""
        number = request.path_params["number"]
        if not (number.isascii() and number.isdecimal() and len(number) < 10):
            raise HTTPException(404)
        return self.jobs[int(number)]

    def job(self, request: Request, fields: dict[str, list[str]]) -> Response:
        job = self.job_of(request)
        if job.state == "done" and job.result is not None:
            return self.go(f"/plan/{job.number}")
        if job.state == "done":
            page = "twin-run" if job.command == COMMAND else "run"
            return self.go(f"/{page}?name={quote(self.folder.relative(job.out))}")
        step = "risk" if job.command == "assess" else "results"
        return self.render("job.html", step=step, job=job, progress=job.progress_report())

    def job_state(self, request: Request, fields: dict[str, list[str]]) -> Response:
        return JSONResponse(self.job_of(request).progress_report())

    def cancel(self, request: Request, fields: dict[str, list[str]]) -> Response:
        job = self.job_of(request)
        self.jobs.cancel(job)
        return self.go(f"/job/{job.number}")

    def enough(self, request: Request, fields: dict[str, list[str]]) -> Response:
        """End a run after its verdict."""
        job = self.job_of(request)
        self.jobs.end_early(job)
        return self.go(f"/job/{job.number}")

    # ------------------------------------------------------------------ protect

    def protect(self, request: Request, fields: dict[str, list[str]]) -> Response:
        run = self.finished(request)
        if request.method == "GET":
            query = request.query_params
            asked = {name: query.getlist(name) for name in query if name not in ("name", "again")}
            return self._show_protect(run, self.drafts.of(query.get("again", "")) or {**_proposed(run), **asked})
        try:
            earlier = self.folder.checked(run.config)
            place = Path(earlier.input)
            config = protect_config(fields, earlier, columns=lambda: self.keys.columns(earlier))
            out = self.new_folder(first(fields, "run_name") or self.folder.new_run(f"{stem(place.name)}-protected"))
            job = self.jobs.start(
                "protect",
                config.to_toml(),
                out,
                title=f"Protection of {place.name}",
                back=f"/protect?name={quote(run.name)}&again={self.drafts.keep(fields)}",
                usual=self.usual("protect", place),
            )
        except RarecellError as problem:
            return self._show_protect(run, fields, problem)
        return self.go(f"/job/{job.number}")

    def _show_protect(self, run: FinishedRun, fields: dict[str, list[str]], problem: RarecellError | None = None) -> Response:
        costs = run.threshold_costs()
        threshold = run.summary.risk.threshold
        rows = [cost for cost in costs if round(cost["threshold"], 2) in TABLE_OF_THRESHOLDS]
        return self.render(
            "protect.html",
            status=400 if problem else 200,
            step="protect",
            run=run,
            twin_of=self.folder.relative(Path(self.folder.checked(run.config).input)),
            costs=costs,
            rows=rows,
            threshold=first(fields, "risk_above") or f"{threshold:g}",
            way=first(fields, "way") or "risk_above",
            top=first(fields, "top") or "50",
            allowed=allowed_by_profile(run),
            **{name: first(fields, name) for name in LIMITS},
            suppress_rest=first(fields, "suppress_rest"),
            k=first(fields, "k"),
            has_areas=run.config.geography is not None,
            swap_rate=first(fields, "swap_rate"),
            similar=first(fields, "similar"),
            keep=first(fields, "keep"),
            never_swap=fields.get("never_swap", []),
            leave_out=fields.get("leave_out", []),
            unlink=first(fields, "unlink"),
            treat=first(fields, "treat"),
            **{name: first(fields, name) for name in BESIDE_KEYS},
            has_household=run.summary.risk.household is not None,
            households=first(fields, "households"),
            run_name=first(fields, "run_name") or self.folder.new_run(f"{stem(run.input_name)}-protected"),
            problem=problem,
        )

    # ------------------------------------------------------------------ files

    def download(self, request: Request, fields: dict[str, list[str]]) -> Response:
        """Send a file of a finished run, and nothing else."""
        name = request.path_params["path"]
        place = self.folder.resolve(name)
        folder = place.parent
        is_table = folder.name in ("tables", "tables-external") and place.suffix == ".csv"
        if is_table:
            folder = folder.parent
        is_handed_over = folder.name == "handover" and (place.name in HANDED_OVER or place.name.startswith("data."))
        if is_handed_over:
            folder = folder.parent
        is_result = is_handed_over or place.name in DOWNLOADS or place.name.startswith(("protected.", "twin.", "twin-"))
        if not place.is_file() or not is_run(folder) or not (is_table or is_result):
            raise BadInput(f"'{name}' is not a result of a finished run.")
        if place.name in ("report.html", "report-external.html") and "download" not in request.query_params:
            return shown_report(place)
        return FileResponse(place, filename=place.name, media_type="application/octet-stream")


def _proposed(run: FinishedRun) -> dict[str, list[str]]:
    """How the form of the Protect page begins: with the limits of the run's profile, or with what the run itself chose."""
    protect = run.config.protect
    if protect is not None and protect.has_target:
        return protect_form(protect)
    limits = {name: [value] for name, value in target_of(run.summary, profile_of(run.summary)).items()}
    way = {"way": [TARGET]} if limits else {}
    return {**way, **limits, **(protect_form(protect) if protect else {})}


@lru_cache(maxsize=1)
def environment() -> jinja2.Environment:
    templates = report_environment(_HERE / "templates")
    templates.filters["in_app"] = in_app
    templates.filters["quote"] = lambda text: quote(str(text))
    templates.filters["size"] = _size
    return templates


def _size(n_bytes: int) -> str:
    """``3.2 MB``."""
    size = float(n_bytes)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "bytes" or size >= 10 else f"{size:.1f} {unit}"
        size /= 1000
    return ""

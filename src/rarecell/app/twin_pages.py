"""The pages of a synthetic twin: which columns it has, how it is drawn, what it keeps and gives away."""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rarecell.app.folder import stem
from rarecell.app.forms import about, decimal_number, first, whole_number
from rarecell.data.names import joined_names, names_in
from rarecell.engine.places import read_small_text
from rarecell.errors import BadInput, RarecellError
from rarecell.outcome.synthesis import RESAMPLED, SMOOTHED, SynthesisSummary
from rarecell.report.synthesis import synthesis_tables
from rarecell.run.attack import MANY_VALUES
from rarecell.run.config import RunConfig
from rarecell.run.options import option_of

if TYPE_CHECKING:
    from rarecell.app.pages import Pages

Fields = dict[str, list[str]]

COMMAND = "synthesise"

_LEFT_OUT = ("id", "household")
"""Roles of columns that are not offered as ticked, because they name records."""


@dataclass(frozen=True)
class TwinRun:
    """The folder of a twin, as the app shows it."""

    place: Path
    name: str
    summary: SynthesisSummary
    input_name: str
    when: str

    @classmethod
    def read(cls, place: Path, name: str) -> TwinRun | None:
        """Read a folder; None if it holds something else than a twin."""
        try:
            record = json.loads(read_small_text(place / "run.json"))
            if record.get("command") != COMMAND:
                return None
            summary = json.loads(read_small_text(place / "summary.json"))
            when = datetime.datetime.fromtimestamp((place / "run.json").stat().st_mtime).strftime("%Y-%m-%d %H:%M")
            path = str(record.get("input", {}).get("path", ""))
            return cls(place, name, SynthesisSummary.from_dict(summary, where="summary.json"), Path(path).name, when)
        except (OSError, ValueError, AttributeError, RecursionError, RarecellError):
            return None

    def downloads(self) -> list[tuple[str, str, int]]:
        """Name, meaning and size of the files."""
        twins = [(path.name, "the twin") for path in sorted(self.place.glob("twin*"))]
        listed = [*twins, ("report.html", "what it keeps and gives away"), ("summary.json", "all numbers of the report")]
        return [(name, what, (self.place / name).stat().st_size) for name, what in listed if (self.place / name).is_file()]


class TwinPages:
    """Ask for a twin, draw it, and show it."""

    def __init__(self, pages: Pages) -> None:
        self.pages = pages

    def routes(self) -> list[Route]:
        page = self.pages.endpoint
        return [Route("/twin", page(self.twin), methods=["GET", "POST"]), Route("/twin-run", page(self.run))]

    def twin(self, request: Request, fields: Fields) -> Response:
        """Ask which columns the twin is to have and how it is drawn, and start drawing."""
        file = request.query_params.get("file", "")
        if request.method == "GET":
            return self._show(file, self.pages.drafts.of(request.query_params.get("again", "")))
        try:
            place = self.pages.folder.resolve(file)
            request_of_run = {"data": str(place), **_options(fields)}
            out = self.pages.new_folder(first(fields, "run_name") or self.pages.folder.new_run(f"{stem(place.name)}-twin"))
            job = self.pages.jobs.start(
                COMMAND,
                json.dumps(request_of_run),
                out,
                title=f"Synthetic twin of {place.name}",
                back=f"/twin?file={quote(file)}&again={self.pages.drafts.keep(fields)}",
            )
        except RarecellError as problem:
            return self._show(file, fields, problem)
        return self.pages.go(f"/job/{job.number}")

    def _show(self, file: str, fields: Fields, problem: RarecellError | None = None) -> Response:
        place = self.pages.folder.resolve(file)
        profile = self.pages.keys.profile(place)
        suggested = [
            column.name for column in profile.columns if column.role not in _LEFT_OUT and 1 < column.levels <= MANY_VALUES
        ]
        households = joined_names([column.name for column in profile.columns if column.role == "household"])
        return self.pages.render(
            "twin.html",
            status=400 if problem else 200,
            step="protect",
            file=file,
            profile=profile,
            columns=fields.get("columns", suggested),
            keys=fields.get("keys", []),
            household=first(fields, "household") if "household" in fields else households,
            amounts=first(fields, "amounts") or SMOOTHED,
            ways=(SMOOTHED, RESAMPLED),
            least_count=first(fields, "least_count") or "3",
            epsilon=first(fields, "epsilon"),
            max_copies=first(fields, "max_copies"),
            near_pairs=bool(first(fields, "near_pairs")),
            analysis=first(fields, "analysis"),
            files=first(fields, "files") or "1",
            run_name=first(fields, "run_name") or self.pages.folder.new_run(f"{stem(place.name)}-twin"),
            problem=problem,
        )

    def run(self, request: Request, fields: Fields) -> Response:
        """Show what a twin keeps and gives away, and offer its files."""
        name = request.query_params.get("name", "")
        twin = TwinRun.read(self.pages.folder.resolve(name), name)
        if twin is None:
            raise BadInput(f"'{name}' is not the folder of a synthetic twin.")
        return self.pages.render("twin_run.html", step="results", twin=twin, tables=synthesis_tables(twin.summary))


def _options(fields: Fields) -> dict[str, Any]:
    """The keywords of :func:`rarecell.synthesise` that a form asks for."""
    household = first(fields, "household")
    columns = [name for name in fields.get("columns", []) if name and name not in names_in(household)]
    if len(columns) < 2:
        raise BadInput("Tick at least two columns that the twin is to have.")
    options: dict[str, Any] = {
        "columns": columns,
        "keys": [name for name in fields.get("keys", []) if name in columns],
        "household": household or None,
        "amounts": first(fields, "amounts") or SMOOTHED,
    }
    with about("least_count"):
        options["least_count"] = whole_number(first(fields, "least_count") or "0", "The smallest cell")
    with about("files"):
        options["files"] = whole_number(first(fields, "files") or "1", "The number of twins")
    if first(fields, "epsilon"):
        with about("epsilon"):
            options["epsilon"] = decimal_number(first(fields, "epsilon"), "ε")
    if first(fields, "max_copies"):
        with about("max_copies"):
            options["max_copies"] = decimal_number(first(fields, "max_copies"), "The largest share of copies") / 100
    if first(fields, "near_pairs"):
        options["near_pairs"] = True
    analyses = [line.strip() for line in first(fields, "analysis").splitlines() if line.strip()]
    if analyses:
        with about("analysis"):
            options["analysis"] = option_of(RunConfig, "analysis").kind.read(analyses, "--analysis")
    return options

"""The pages of finished runs: the list, the report and the records; renaming, notes and deletion."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rarecell.app.forms import about, decimal_number, first
from rarecell.app.runs import FinishedRun
from rarecell.app.twin_pages import TwinRun
from rarecell.data.names import names_in
from rarecell.engine.places import confined
from rarecell.errors import BadInput, RarecellError
from rarecell.outcome.decision import decision_of
from rarecell.planning.recodings import MANY_NUMBERS
from rarecell.report import report_context
from rarecell.report.first_page import recognisable
from rarecell.run.config import RunConfig
from rarecell.run.folder import delete_run, read_note, rename_run, write_note
from rarecell.run.handover import handover
from rarecell.run.publishing import old_results
from rarecell.run.saved import FAMILY_STATES, SORTS, STATES, RecordChoice, RecordList

if TYPE_CHECKING:
    from rarecell.app.pages import Pages
    from rarecell.edges import Json

PAGE_SIZE = 50
"""Records per page."""

FAMILIES_ON_A_PAGE = 20
"""Families per page."""

Fields = dict[str, list[str]]


class RunPages:
    """List, view, rename, annotate and delete finished runs."""

    def __init__(self, pages: Pages) -> None:
        self.pages = pages

    def routes(self) -> list[Route]:
        page = self.pages.endpoint
        return [
            Route("/runs", page(self.runs)),
            Route("/run", page(self.run)),
            Route("/records", page(self.records)),
            Route("/families", page(self.families)),
            Route("/rename", page(self.rename), methods=["POST"]),
            Route("/note", page(self.note), methods=["POST"]),
            Route("/handover", page(self.handover), methods=["POST"]),
            Route("/delete", page(self.delete), methods=["GET", "POST"]),
        ]

    def runs(self, request: Request, fields: Fields) -> Response:
        runs, twins, odd = [], [], []
        for place in self.pages.folder.run_folders():
            name = self.pages.folder.relative(place)
            twin = TwinRun.read(place, name)
            if twin is not None:
                twins.append(twin)
                continue
            try:
                run = FinishedRun.read(place, name)
                runs.append((run, read_note(place).strip(), decision_of(run.summary).headline, recognisable(run.summary)))
            except (BadInput, TypeError):
                # The external edition hides numbers that a decision needs.
                odd.append(name)
        return self.pages.render("runs.html", step=None, runs=runs, twins=twins, odd=odd, killed=self.pages.killed)

    def run(self, request: Request, fields: Fields, problem: RarecellError | None = None, asked: str = "") -> Response:
        """Show a run; a problem stands beside the form that asked for what could not be done, as it was filled in."""
        run = self.pages.finished(request)
        stamp = (run.place / "run.json").stat().st_mtime_ns
        folder = f"{self.pages.gate.base}/files/{quote(run.name)}/tables"
        return self.pages.render(
            "run.html",
            status=400 if problem else 200,
            problem=problem,
            form=fields,
            asked=asked,
            step="results" if run.is_protected else "risk",
            run=run,
            note=read_note(run.place).strip(),
            downloads=run.downloads(),
            handed_over=run.handed_over(),
            signed_by=run.signed_by(),
            **(_report_parts(str(run.place), run.name, stamp) | {"folder": folder}),
        )

    # ------------------------------------------------------------------ name, note, end

    def rename(self, request: Request, fields: Fields) -> Response:
        run = self._own(request)
        new_name = first(fields, "new_name")
        try:
            with about("new_name"):
                if not new_name:
                    raise BadInput("The new name is empty.")
                new = self.pages.new_folder(new_name, field="new_name")
                self._refuse_while_running(run)
                rename_run(run.place, new)
        except RarecellError as problem:
            return self.run(request, fields, problem, "rename")
        return self.pages.go(f"/run?name={quote(self.pages.folder.relative(new))}")

    def note(self, request: Request, fields: Fields) -> Response:
        run = self._own(request)
        write_note(run.place, first(fields, "note"))
        return self.pages.go(f"/run?name={quote(run.name)}")

    def handover(self, request: Request, fields: Fields) -> Response:
        """Make the folder that may leave the office."""
        run = self.pages.finished(request)
        try:
            self._refuse_while_running(run)
            self._hand_over(run, fields)
        except RarecellError as problem:
            if not run.is_protected:
                raise
            return self.run(request, fields, problem, "handover")
        return self.pages.go(f"/run?name={quote(run.name)}")

    def _hand_over(self, run: FinishedRun, fields: Fields) -> None:
        with confined(self.pages.folder.root):
            handover(
                run.place,
                signed_by=first(fields, "signed_by"),
                reason=first(fields, "reason"),
                keep_order=bool(first(fields, "keep_order")),
                keep_ids=bool(first(fields, "keep_ids")),
                unlink_households=bool(first(fields, "unlink_households")),
                drop=names_in(first(fields, "drop")),
                accept=names_in(first(fields, "accept")),
                overwrite=bool(first(fields, "overwrite")),
            )

    def delete(self, request: Request, fields: Fields) -> Response:
        run = self._own(request)
        if request.method == "GET":
            names = sorted(name for name in old_results(run.place) if (run.place / name).exists())
            other_files = sorted(entry.name for entry in run.place.iterdir() if entry.name not in names)
            return self.pages.render("delete.html", step=None, run=run, names=names, other_files=other_files)
        self._refuse_while_running(run)
        delete_run(run.place)
        return self.pages.go("/runs")

    def _own(self, request: Request) -> FinishedRun:
        """A run in its own folder: the chosen folder itself keeps its name."""
        run = self.pages.finished(request)
        if run.place.resolve() == self.pages.folder.root:
            raise BadInput("This run lies in the folder that the app was started with. Change it in the terminal.")
        return run

    def _refuse_while_running(self, run: FinishedRun) -> None:
        running = self.pages.jobs.running
        if running is not None and run.place.resolve() in (running.out, *Path(running.out).parents):
            raise BadInput("A run is writing there. Wait for it to end, or cancel it first.")

    # ------------------------------------------------------------------ records

    def records(self, request: Request, fields: Fields) -> Response:
        """Show records one by one, original and protected: for internal use."""
        run, query, above, listed = self._listed(request)
        choice = RecordChoice(
            query.get("state", "all"), query.get("column", ""), query.get("value", ""), query.get("sort", "risk"), above
        )
        with confined(self.pages.folder.root):
            rows = listed.rows(choice)
            number = _page_number(query.get("page", ""), len(rows))
            records = listed.records(rows[(number - 1) * PAGE_SIZE : number * PAGE_SIZE])
        address = {"name": run.name, "state": choice.state, "column": choice.column, "value": choice.value}
        address |= {"sort": choice.sort, "above": f"{above:g}"}
        return self.pages.render(
            "records.html",
            step="results" if run.is_protected else "risk",
            run=run,
            records=records,
            keys=listed.config.keys,
            measured=_measured(run),
            with_families=listed.with_families,
            columns=listed.columns,
            choice=choice,
            n_found=len(rows),
            number=number,
            n_pages=max(1, -(-len(rows) // PAGE_SIZE)),
            states=[state for state in STATES if run.is_protected or state in ("all", "unique", "risky")],
            sorts=SORTS if run.is_protected else SORTS[:2],
            address=f"/records?{urlencode(address)}",
        )

    def families(self, request: Request, fields: Fields) -> Response:
        """Show families with their members, original and protected: for internal use."""
        run, query, above, listed = self._listed(request)
        if run.summary.risk.families is None:
            raise BadInput("This run has not judged families, so they cannot be listed.")
        state = query.get("state", "all")
        with confined(self.pages.folder.root):
            rows = listed.family_rows(state, above)
            number = _page_number(query.get("page", ""), len(rows), FAMILIES_ON_A_PAGE)
            first_row = (number - 1) * FAMILIES_ON_A_PAGE
            families = listed.families(rows[first_row : first_row + FAMILIES_ON_A_PAGE])
        return self.pages.render(
            "families.html",
            step="results" if run.is_protected else "risk",
            run=run,
            families=families,
            first_row=first_row,
            keys=listed.config.keys,
            measured=_measured(run),
            state=state,
            above=above,
            states=[state for state in FAMILY_STATES if run.is_protected or state != "changed"],
            n_found=len(rows),
            number=number,
            n_pages=max(1, -(-len(rows) // FAMILIES_ON_A_PAGE)),
            address=f"/families?{urlencode({'name': run.name, 'state': state, 'above': f'{above:g}'})}",
        )

    def _listed(self, request: Request) -> tuple[FinishedRun, QueryParams, float, RecordList]:
        """The run, what is asked for, the risk from which records count as risky, and the records."""
        run, query = self.pages.finished(request), request.query_params
        config = self.pages.folder.checked(run.config)
        above = decimal_number(query["above"], "The risk") if query.get("above") else run.summary.risk.threshold
        stamps = tuple(path.stat().st_mtime_ns for path in (run.place / "run.json", Path(config.input)))
        with confined(self.pages.folder.root):
            return run, query, above, _record_list(str(run.place), config.to_toml(), stamps)


def _measured(run: FinishedRun) -> set[str]:
    """Keys whose differences mean something; for a code with few values they mean nothing."""
    return {key.name for key in run.summary.keys if key.levels >= MANY_NUMBERS}


def _page_number(text: str, n_listed: int, page_size: int = PAGE_SIZE) -> int:
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 8 else 1
    return min(max(number, 1), max(1, -(-n_listed // page_size)))


@lru_cache(maxsize=2)
def _record_list(place: str, configuration: str, stamps: tuple[int, ...]) -> RecordList:
    try:
        return RecordList(Path(place), RunConfig.from_toml(configuration, source="run.toml"))
    except (OSError, KeyError, ValueError) as problem:
        raise BadInput(f"The risk of every record cannot be read: {problem}.") from None


@lru_cache(maxsize=4)
def _report_parts(place: str, name: str, stamp: int) -> Json:
    """What the report shows; computed once for each run."""
    run = FinishedRun.read(Path(place), name)
    return report_context(run.summary, run.riskiest(), run_toml=run.run_toml or None)

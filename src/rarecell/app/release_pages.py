"""The pages of a release: runs side by side, and ways to recode and swap towards a target.

A plan is a process like a run, but writes nothing; its frontier is shown as a picture and as a table whose points can be
released.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rarecell.app.forms import about, first, limit_of
from rarecell.app.runs import FinishedRun, allowed_by_profile
from rarecell.errors import BadInput, RarecellError
from rarecell.outcome.decision import profile_of, target_of
from rarecell.outcome.planned import PlanSummary, ReleasePoint, n_recodings
from rarecell.planning.planner import ReleaseTarget
from rarecell.report.comparison import comparison
from rarecell.report.svg import WIDTH, Chart, Scale, height_axis, height_room, value_axis
from rarecell.report.tables import frontier_table
from rarecell.run.config import ProtectConfig, RunConfig
from rarecell.run.plan import recodings_with, with_way

if TYPE_CHECKING:
    from rarecell.app.jobs import Job
    from rarecell.app.pages import Pages

_TARGETS = {"max_correct_links": "The number of correct links", "max_record_risk": "The highest risk"}


class ReleasePages:
    """Compare, Plan and Release."""

    def __init__(self, pages: Pages) -> None:
        self.pages = pages

    def routes(self) -> list[Route]:
        page = self.pages.endpoint
        return [
            Route("/compare", page(self.compare)),
            Route("/plan", page(self.plan), methods=["GET", "POST"]),
            Route("/plan/{number}", page(self.frontier)),
            Route("/release/{number}", page(self.release), methods=["POST"]),
        ]

    def compare(self, request: Request, fields: dict[str, list[str]]) -> Response:
        """Show runs side by side."""
        names = list(dict.fromkeys(request.query_params.getlist("name")))
        if len(names) < 2:
            raise BadInput("Tick at least two runs to compare them.")
        runs = [FinishedRun.read(self.pages.folder.resolve(name), name) for name in names]
        table = comparison(names, [run.summary for run in runs])
        return self.pages.render("compare.html", table=table, names=names)

    def plan(self, request: Request, fields: dict[str, list[str]]) -> Response:
        """Ask for a target, and start planning."""
        name = request.query_params.get("name", "")
        run = FinishedRun.read(self.pages.folder.resolve(name), name)
        if request.method == "GET":
            query = request.query_params
            limits = {name: [value] for name, value in target_of(run.summary, profile_of(run.summary)).items()}
            prefilled = {name: query.getlist(name) for name in _TARGETS if name in query}
            return self._show_plan(run, self.pages.drafts.of(query.get("again", "")) or prefilled or limits)
        try:
            config = self.pages.folder.checked(run.config)
            target = _target(fields)
            job = self.pages.jobs.start(
                "plan",
                replace(config, protect=target).to_toml(),
                self.pages.folder.root / ".rarecell-plan",
                title=f"Ways to release {run.input_name}",
                back=f"/plan?name={quote(name)}&again={self.pages.drafts.keep(fields)}",
            )
        except RarecellError as problem:
            return self._show_plan(run, fields, problem)
        return self.pages.go(f"/job/{job.number}")

    def _show_plan(self, run: FinishedRun, fields: dict[str, list[str]], problem: RarecellError | None = None) -> Response:
        return self.pages.render(
            "plan.html",
            status=400 if problem else 200,
            step="protect",
            run=run,
            allowed=allowed_by_profile(run),
            links=first(fields, "max_correct_links"),
            risk=first(fields, "max_record_risk"),
            problem=problem,
        )

    def frontier(self, request: Request, fields: dict[str, list[str]]) -> Response:
        """Show what a plan found."""
        job = self.pages.job_of(request)
        if job.result is None:
            return self.pages.go(f"/job/{job.number}")
        choice = request.query_params.get("chosen", "")
        return self._show_frontier(job, int(choice) if choice.isdecimal() and len(choice) < 4 else 1)

    def _show_frontier(self, job: Job, chosen: int, *, run_name: str = "", problem: RarecellError | None = None) -> Response:
        config = RunConfig.from_toml(job.configuration, source="the plan")
        plan = PlanSummary.from_dict(job.result, where="plan")
        points = plan.points
        return self.pages.render(
            "frontier.html",
            status=400 if problem else 200,
            problem=problem,
            step="protect",
            job=job,
            points=points,
            table=frontier_table(points),
            chosen=chosen if 1 <= chosen <= len(points) else 1,
            cheapest={place: name for name, place in plan.cheapest.items()},
            n_tried=n_recodings(plan.looked_at),
            combinations=plan.combinations,
            refused=plan.refused,
            picture=frontier_picture(points, f"{self.pages.gate.base}/plan/{job.number}"),
            target=plan.target,
            keys=config.keys,
            run_name=run_name or self.pages.folder.new_run("release"),
        )

    def release(self, request: Request, fields: dict[str, list[str]]) -> Response:
        """Release the file according to one point of a plan."""
        job = self.pages.job_of(request)
        if job.result is None:
            raise BadInput("This plan has no result. Plan again.")
        text = first(fields, "point")
        points = PlanSummary.from_dict(job.result, where="plan").points
        if not text.isdecimal() or int(text) >= len(points):
            raise BadInput("Choose one of the points of the plan.")
        config = RunConfig.from_toml(job.configuration, source="the plan")
        point = points[int(text)]
        config = self.pages.folder.checked(with_way(replace(config, recode=recodings_with(config, point.recoding)), point.way))
        try:
            out = self.pages.new_folder(first(fields, "run_name") or self.pages.folder.new_run("release"))
            started = self.pages.jobs.start(
                "protect", config.to_toml(), out, title=f"Release of {Path(config.input).name}", back=f"/plan/{job.number}"
            )
        except RarecellError as problem:
            return self._show_frontier(job, int(text) + 1, run_name=first(fields, "run_name"), problem=problem)
        return self.pages.go(f"/job/{started.number}")


def _target(fields: dict[str, list[str]]) -> ProtectConfig:
    limits = {name: limit_of(fields, name, what) for name, what in _TARGETS.items() if first(fields, name)}
    with about(next(iter(_TARGETS))):
        # ReleaseTarget reports everything that is wrong with a target.
        ReleaseTarget(limits.get("max_correct_links"), limits.get("max_record_risk"))
    return ProtectConfig(max_correct_links=limits.get("max_correct_links"), max_record_risk=limits.get("max_record_risk"))


def frontier_picture(points: Sequence[ReleasePoint], address: str) -> str:
    """Draw information lost against records swapped; each point links to its line in the table."""
    top, bottom = 34.0, 254.0
    chart = Chart(bottom + 48.0)
    heights = Scale.of([0.0, 10.0, *(float(point.records_changed) for point in points)], bottom, top)
    left = height_room(heights)
    across = Scale.of([0.0, 10.0, *(100.0 * point.information_lost for point in points)], left, WIDTH - 20.0)
    height_axis(chart, heights, "records swapped", left=left, right=WIDTH)
    value_axis(chart, across, "% of the keys' information lost by recoding", top=bottom, bottom=bottom)
    places = [(across(100.0 * point.information_lost), heights(float(point.records_changed))) for point in points]
    for number, (x, y) in enumerate(places, start=1):
        # Space for a finger around the point.
        ElementTree.SubElement(chart.root, "circle", {"cx": f"{x:.1f}", "cy": f"{y:.1f}", "r": "15", "fill": "transparent"})
        chart.dot(x, y, "accent" if points[number - 1].is_met else "risk")
        chart.text(x + 9, y - 8, str(number), size=13, is_bold=True)
        _link_last(chart, 3, f"{address}?chosen={number}#way-{number}", f"Way {number}")
    picture = chart.svg(
        name="frontier",
        title="Ways to release the file",
        description="Each point is a recoding with its swaps, numbered as in the table.",
    )
    # A picture with links in it has the role of a group.
    return picture.replace('role="img"', 'role="group"', 1)


def _link_last(chart: Chart, n: int, address: str, words: str) -> None:
    """Turn the last elements of a picture into a link."""
    parts = list(chart.root)[-n:]
    link = ElementTree.SubElement(chart.root, "a", {"href": address, "aria-label": words})
    for part in parts:
        chart.root.remove(part)
        link.append(part)

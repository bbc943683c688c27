"""The Keys page: what is in the file, who could know it, and how large is the population?"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rarecell.app.columns import FileProfile, profile_file
from rarecell.app.folder import stem
from rarecell.app.forms import assess_config, first, form_of
from rarecell.app.runs import FinishedRun
from rarecell.data.roles import MANY_LEVELS, ROLES
from rarecell.engine.reach import confined
from rarecell.errors import PopulationTooSmall, RarecellError
from rarecell.run.config import CHOICES

if TYPE_CHECKING:
    from rarecell.app.pages import Pages

Fields = dict[str, list[str]]


class KeysPages:
    """Choose keys and the other roles, and start a run."""

    def __init__(self, pages: Pages) -> None:
        self.pages = pages

    def routes(self) -> list[Route]:
        page = self.pages.endpoint
        return [Route("/keys", page(self.keys)), Route("/assess", page(self.assess), methods=["POST"])]

    def keys(self, request: Request, fields: Fields) -> Response:
        given = request.query_params
        file, chosen = given.get("file", ""), self.pages.drafts.of(given.get("again", ""))
        if "from" in given:
            run = FinishedRun.read(self.pages.folder.resolve(given["from"]), given["from"])
            config = self.pages.folder.checked(run.config)
            file = self.pages.folder.relative(Path(config.input))
            chosen = form_of(config, file)
        return self.show(file, chosen)

    def profile(self, place: Path) -> FileProfile:
        """What is in a file, looked at once while it does not change."""
        stat = place.stat()
        return _profile(str(place), str(self.pages.folder.root), stat.st_mtime_ns, stat.st_size)

    def show(self, name: str, fields: Fields, problem: str | None = None) -> Response:
        from rarecell.datasets import CENSUS_KEYS, CENSUS_POPULATION

        profile = self.profile(self.pages.folder.resolve(name))
        is_sample = {column.name for column in profile.columns} >= set(CENSUS_KEYS) and profile.n_records == 9809
        is_chosen = any(name.startswith("role:") for name in fields)
        roles = {
            column.name: first(fields, f"role:{column.name}") or ("none" if is_chosen else column.role)
            for column in profile.columns
        }
        if is_sample and not fields:
            roles |= {
                name: "key" if name in CENSUS_KEYS else "none" for name in roles if roles[name] == "key" or name in CENSUS_KEYS
            }
        return self.pages.render(
            "keys.html",
            status=400 if problem else 200,
            step="keys",
            file=name,
            profile=profile,
            roles=roles,
            recode={column.name: first(fields, f"recode:{column.name}") for column in profile.columns},
            role_names=ROLES,
            choices=CHOICES,
            many_levels=MANY_LEVELS,
            population=first(fields, "population") or (CENSUS_POPULATION if is_sample else ""),
            is_sample=is_sample,
            threshold=first(fields, "threshold") or "0.2",
            chosen={option: first(fields, option) for option in (*CHOICES, "criterion", "seed")},
            run_name=first(fields, "run_name") or self.pages.folder.new_run(stem(name)),
            problem=problem,
        )

    def assess(self, request: Request, fields: Fields) -> Response:
        name = first(fields, "file")
        place = self.pages.folder.resolve(name)
        try:
            config = assess_config(fields, place)
            n_records = self.profile(place).n_records
            if config.population is not None and config.population < n_records:
                raise PopulationTooSmall.given(config.population, n_records=n_records)
            out = self.pages.new_folder(first(fields, "run_name") or self.pages.folder.new_run(stem(name)))
            job = self.pages.jobs.start(
                "assess",
                config.to_toml(),
                out,
                title=f"Risk of {place.name}",
                # The choices are there again after a failure, or when the run is cancelled.
                back=f"/keys?file={quote(name)}&again={self.pages.drafts.keep(fields)}",
                usual=self.pages.usual("assess", place),
            )
        except RarecellError as problem:
            return self.show(name, fields, str(problem))
        return self.pages.go(f"/job/{job.number}")


@lru_cache(maxsize=8)
def _profile(path: str, root: str, stamp: int, size: int) -> FileProfile:
    with confined(Path(root)):
        return profile_file(Path(path))

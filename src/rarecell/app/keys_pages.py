"""The Keys page: what is in the file, who could know it, and how large is the population?"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rarecell.app.folder import ChosenFolder, stem
from rarecell.app.forms import LABELLED, ROLES_OF_A_COLUMN, about, assess_config, first, form_of
from rarecell.app.runs import FinishedRun
from rarecell.data.describe import FileProfile, Reading, profile_file
from rarecell.data.names import joined_names, names_in
from rarecell.data.roles import MANY_LEVELS
from rarecell.datasets import CENSUS_KEYS, CENSUS_POPULATION
from rarecell.engine.places import confined
from rarecell.errors import BadInput, PopulationTooSmall, RarecellError
from rarecell.report.first_page import limits_in_words
from rarecell.run.config import RunConfig

if TYPE_CHECKING:
    from rarecell.app.pages import Pages

Fields = dict[str, list[str]]


class KeysPages:
    """Choose keys and other roles, and start a run."""

    def __init__(self, pages: Pages) -> None:
        self.pages = pages

    def routes(self) -> list[Route]:
        page = self.pages.endpoint
        return [
            Route("/keys", page(self.keys)),
            Route("/profiles", page(self.profiles)),
            Route("/reading", page(self.reading), methods=["POST"]),
            Route("/household", page(self.household), methods=["POST"]),
            Route("/assess", page(self.assess), methods=["POST"]),
        ]

    def keys(self, request: Request, fields: Fields) -> Response:
        query = request.query_params
        file, chosen = query.get("file", ""), self.pages.drafts.of(query.get("again", ""))
        if "from" in query:
            run = FinishedRun.read(self.pages.folder.resolve(query["from"]), query["from"])
            config = self.pages.folder.checked(run.config)
            file = self.pages.folder.relative(Path(config.input))
            chosen = {**form_of(config, file), "base": [run.name]}
        return self.show(file, chosen)

    def profiles(self, request: Request, fields: Fields) -> Response:
        """Show what each release profile allows."""
        return self.pages.render("profiles.html", step="keys", **self._profiles())

    def _profiles(self) -> dict[str, Any]:
        profiles, unread = self.pages.folder.profiles()
        listed = [(value, profile, tuple(limits_in_words(profile))) for value, profile in profiles]
        return {"profiles": listed, "unread_profiles": unread}

    def reading(self, request: Request, fields: Fields) -> Response:
        """Read the file in another way and show its first records; all other choices stay."""
        accepted = first(fields, "accepted_codes")
        if accepted:
            fields = {**fields, "missing_codes": ["; ".join(filter(None, (first(fields, "missing_codes"), accepted)))]}
        draft = self.pages.drafts.keep({**fields, "preview": ["1"]})
        return self.pages.go(f"/keys?file={quote(first(fields, 'file'))}&again={draft}")

    def household(self, request: Request, fields: Fields) -> Response:
        """Say which columns number households, in the roles of the columns; without any, nobody lives with anybody."""
        chosen = names_in(first(fields, "household_columns"))
        roles = {
            name: ["household" if name[5:].strip() in chosen else "none"]
            for name in fields
            if name.startswith("role:") and (name[5:].strip() in chosen or first(fields, name) == "household")
        }
        draft = self.pages.drafts.keep({**fields, **roles, "households_known": ["yes" if chosen else "no"]})
        return self.pages.go(f"/keys?file={quote(first(fields, 'file'))}&again={draft}")

    def profile(self, place: Path, reading: Reading | None = None) -> FileProfile:
        """What is in a file, examined once as long as it does not change."""
        stat = place.stat()
        return _profile(str(place), reading or Reading(), str(self.pages.folder.root), stat.st_mtime_ns, stat.st_size)

    def columns(self, config: RunConfig) -> list[str]:
        """The names of the columns of the file that a run reads."""
        file = Path(config.input)
        return [column.name for column in self.profile(file, _reading(form_of(config, file.name))).columns]

    def config(self, fields: Fields) -> RunConfig:
        """The configuration that a form asks for, with every file inside the chosen folder and a possible population."""
        place = self.pages.folder.resolve(first(fields, "file"))
        profile = self.profile(place, _reading(fields))
        of_column = {column.name: column for column in profile.columns}
        base = None
        if first(fields, "base"):
            run = FinishedRun.read(self.pages.folder.resolve(first(fields, "base")), first(fields, "base"))
            base = self.pages.folder.checked(run.config)
        own = first(fields, "profile")
        if own.endswith(".toml"):
            fields = {**fields, "profile": [str(self.pages.folder.resolve(own))]}
        config = assess_config(
            fields,
            place,
            levels={name: column.levels for name, column in of_column.items()},
            base=base,
        )
        if config.population is not None and config.population < profile.n_records:
            with about("population"):
                raise PopulationTooSmall.given(config.population, n_records=profile.n_records)
        return self.pages.folder.checked(config)

    def show(self, name: str, fields: Fields, problem: RarecellError | None = None) -> Response:
        place, reading = self.pages.folder.resolve(name), _reading(fields)
        try:
            profile = self.profile(place, reading)
        except BadInput as unread:
            if place.is_dir():
                raise
            return self.pages.render(
                "unread.html", status=400, step="keys", file=name, problem=str(unread), reading=reading, profile=None
            )
        is_sample = {column.name for column in profile.columns} >= set(CENSUS_KEYS) and profile.n_records == 9809
        # An earlier run says nothing of columns that it did not use; a form had all columns that it showed.
        is_known = bool(first(fields, "base"))
        roles = {
            column.name: first(fields, f"role:{column.name}") or ("none" if is_known else column.role)
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
            role_names=ROLES_OF_A_COLUMN,
            household=tuple(name for name, role in roles.items() if role == "household"),
            may_be_household=[(names, joined_names(names)) for names in _may_be_household(profile)],
            options=LABELLED,
            many_levels=MANY_LEVELS,
            population=first(fields, "population") or (CENSUS_POPULATION if is_sample else ""),
            is_sample=is_sample,
            threshold=first(fields, "threshold") or "0.2",
            chosen={option.name: first(fields, option.name) for option in LABELLED},
            has_more=any(
                first(fields, option.name) not in ("", str(option.default)) for option in LABELLED if option.name != "profile"
            ),
            run_name=first(fields, "run_name") or self.pages.folder.new_run(stem(name)),
            problem=problem,
            reading=reading,
            # Single records are shown to people who ask for them, not to people looking over a shoulder.
            preview=profile.preview if first(fields, "preview") else (),
            base_run=first(fields, "base"),
            populations=first(fields, "populations") or _stratum_lines(profile, roles),
            scenarios=first(fields, "scenarios"),
            register=_relative(self.pages.folder, first(fields, "register")),
            chosen_profile=_relative(self.pages.folder, first(fields, "profile")),
            **self._profiles(),
        )

    def assess(self, request: Request, fields: Fields) -> Response:
        name = first(fields, "file")
        place = self.pages.folder.resolve(name)
        try:
            config = self.config(fields)
            out = self.pages.new_folder(first(fields, "run_name") or self.pages.folder.new_run(stem(name)))
            job = self.pages.jobs.start(
                "assess",
                config.to_toml(),
                out,
                title=f"Risk of {place.name}",
                # The choices are restored after a failure or a cancelled run.
                back=f"/keys?file={quote(name)}&again={self.pages.drafts.keep(fields)}",
                usual=self.pages.usual("assess", place),
            )
        except RarecellError as problem:
            return self.show(name, fields, problem)
        return self.pages.go(f"/job/{job.number}")


def _reading(fields: Fields) -> Reading:
    return Reading(*(first(fields, name) for name in ("encoding", "decimal", "sheet", "missing_codes")))


def _may_be_household(profile: FileProfile) -> list[tuple[str, ...]]:
    """Columns that look as if they numbered households: one alone, or those that do so together."""
    together = tuple(column.name for column in profile.columns if column.role == "household")
    single = [column.name for column in profile.columns if column.what == "household number" and column.name not in together]
    return [*((together,) if together else ()), *((name,) for name in single)]


def _stratum_lines(profile: FileProfile, roles: dict[str, str]) -> str:
    """A line for each stratum, to be completed by the user."""
    strata = [column for column in profile.columns if "strata" in roles[column.name].split("+")]
    return "\n".join(f"{label} = " for label in strata[0].labels) if strata else ""


def _relative(folder: ChosenFolder, name: str) -> str:
    """The name by which the browser knows a file."""
    return folder.relative(folder.resolve(name)) if name and Path(name).is_absolute() else name


@lru_cache(maxsize=8)
def _profile(path: str, reading: Reading, root: str, stamp: int, size: int) -> FileProfile:
    with confined(Path(root)):
        return profile_file(Path(path), reading)

"""What does a data steward read after a run?

One self-contained page from the numbers of a run: no script, no external address, readable on paper and in dark mode. The
internal edition shows the riskiest records; the external one shows no value of any record and no small count. The tables
are beside it as CSV files.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Literal

import rarecell
from rarecell.outcome import words
from rarecell.outcome.records import HomogeneousGroup, RemainingRecord, RiskyRecord
from rarecell.outcome.summary import RunSummary
from rarecell.outcome.verdict import verdict, what_was_kept

if TYPE_CHECKING:
    from rarecell.edges import Json, ReadJson
    from rarecell.report.table import Table

Edition = Literal["internal", "external"]

FILE_NAMES: dict[str, tuple[str, str]] = {
    "internal": ("report.html", "tables"),
    "external": ("report-external.html", "tables-external"),
}
"""The page of each edition, and the folder of its tables."""

RISKIEST_FILE = "tables/riskiest-records.json"
"""The riskiest records as data, for the app; the CSV file beside it is for people and spreadsheets."""

__all__ = ["FILE_NAMES", "Edition", "render_report", "report_context", "write_report"]


def write_report(
    folder: Path,
    summary: RunSummary,
    riskiest: Sequence[RiskyRecord] = (),
    edition: Edition = "internal",
    groups: Sequence[HomogeneousGroup] = (),
    riskiest_released: Sequence[RemainingRecord] = (),
    place: str | None = None,
) -> Path:
    """Write the report of a run and its tables into ``folder``.

    Parameters
    ----------
    folder : Path
        The run folder; its ``run.toml``, if there is one, is shown in the internal edition.
    summary : RunSummary
        Every number of the run.
    riskiest : sequence of RiskyRecord
        The riskiest records with their values. The external edition ignores them.
    edition : {"internal", "external"}
        ``internal`` writes ``report.html`` and ``tables/``, ``external`` ``report-external.html`` and
        ``tables-external/``, without values of records or counts below three.
    groups : sequence of HomogeneousGroup
        Groups that share a sensitive value, with their values. The external edition ignores them.
    riskiest_released : sequence of RemainingRecord
        The riskiest records of the released file, those that stay at risk first. The external edition ignores them.
    place : str, optional
        The run folder relative to where the run was started, for commands that can be pasted there.

    Returns
    -------
    Path
        The page.
    """
    page_name, tables_name = FILE_NAMES[edition]
    written_run = folder / "run.toml"
    run_toml = written_run.read_text(encoding="utf-8") if written_run.exists() else None
    context = report_context(
        summary,
        riskiest,
        edition=edition,
        run_toml=run_toml,
        groups=groups,
        riskiest_released=riskiest_released,
        place=place,
    )
    tables_folder = folder / tables_name
    tables_folder.mkdir(exist_ok=True, mode=0o700)
    tables: Mapping[str, Table] = context["tables"]
    for table in tables.values():
        (tables_folder / f"{table.name}.csv").write_text(table.to_csv(), encoding="utf-8")
    if edition == "internal":
        stored = json.dumps([record.to_dict() for record in riskiest], ensure_ascii=False)
        (folder / RISKIEST_FILE).write_text(stored + "\n", encoding="utf-8")
    page = folder / page_name
    page.write_text(_render(context), encoding="utf-8")
    return page


def render_report(
    summary: RunSummary, riskiest: Sequence[RiskyRecord] = (), *, edition: Edition = "internal", run_toml: str | None = None
) -> str:
    """Render the page as text, without links to CSV files."""
    return _render(report_context(summary, riskiest, edition=edition, run_toml=run_toml) | {"folder": None})


def _render(context: ReadJson) -> str:
    from rarecell.report.page import content_hash, report_environment, style_sheet

    environment = report_environment()
    style = style_sheet()
    page = environment.get_template("report.html").render(**context, style=style, style_hash=content_hash(style))
    # Remove blank lines left behind by the template's conditions.
    return "\n".join(line for line in page.splitlines() if line.strip()) + "\n"


def report_context(
    summary: RunSummary,
    riskiest: Sequence[RiskyRecord] = (),
    *,
    edition: Edition = "internal",
    run_toml: str | None = None,
    groups: Sequence[HomogeneousGroup] = (),
    riskiest_released: Sequence[RemainingRecord] = (),
    place: str | None = None,
) -> Json:
    """Everything the templates show; the app uses it to render the same body."""
    from rarecell.report import sentences
    from rarecell.report.edition import external
    from rarecell.report.first_page import first_page
    from rarecell.report.pictures import all_pictures, group_pictures
    from rarecell.report.table import meanings_of
    from rarecell.report.tables import all_tables

    if edition == "external":
        summary, riskiest, run_toml, groups, riskiest_released = external(summary), (), None, (), ()
    tables = all_tables(summary, riskiest, groups, [record for record in riskiest_released if record.is_at_risk])
    if edition == "external":
        tables = {name: table for name, table in tables.items() if not table.is_internal}
    records, uniques = summary.records, summary.risk.sample_uniques
    if summary.swap is not None and summary.swap.released is not None:
        uniques = summary.swap.released.sample_uniques
    context: Json = {
        "summary": summary,
        "riskiest": riskiest,
        "riskiest_released": riskiest_released,
        "edition": edition,
        "verdict": verdict(summary),
        "page": first_page(summary, edition=edition, place=place),
        "kept": None if summary.swap is None else what_was_kept(summary.swap),
        "steps": sentences.steps(summary, edition=edition, place=place),
        "share_unique": words.percent(uniques / records)
        if isinstance(records, int) and isinstance(uniques, int) and records
        else None,
        "pictures": all_pictures(summary),
        "group_pictures": group_pictures(summary),
        "tables": tables,
        "folder": FILE_NAMES[edition][1],
        "missing_sentence": sentences.missing_sentence(summary),
        "household": sentences.household_sentence(summary),
        "families": sentences.family_sentences(summary),
        "fixed": sentences.fixed_sentence(summary),
        "recoded": sentences.recoded_sentence(summary),
        "model_sentences": sentences.model_sentences(summary),
        "glossary": sentences.GLOSSARY,
        "run_toml": run_toml,
        "file_name": _file_name(run_toml),
        "version": rarecell.__version__,
    }
    context["meanings"] = meanings_of({*context["tables"], context["page"].numbers.name})
    sections = _sections(context)
    contents = [(anchor, name) for anchor, name, _ in sections]
    return context | {"contents": contents, "headings": {anchor: f"{name}{state}" for anchor, name, state in sections}}


def _file_name(run_toml: str | None) -> str | None:
    """The name of the input, without its folder."""
    try:
        return PurePath(str(tomllib.loads(run_toml).get("input", ""))).name if run_toml else None
    except (tomllib.TOMLDecodeError, RecursionError):
        return None


def _has_roles(tables: ReadJson) -> bool:
    return any(name in tables for name in ("areas", "attributes", "scenarios", "register"))


def _sections(context: ReadJson) -> list[tuple[str, str, str]]:
    """The sections of the page, each with its anchor and name; those of a protected file say which file they describe."""
    tables, swap = context["tables"], context["summary"].swap
    before = "" if swap is None else ", before protection"
    both = ", after protection and before" if "histogram_after" in context["pictures"] else before
    has_after = swap is not None and bool(swap.attributes or swap.scenarios)
    entries = (
        ("verdict", "The result", "", True),
        ("provenance", "Where this comes from", "", "provenance" in tables),
        ("protection", "What protection changed", "", swap is not None),
        ("data", "What was examined", before, True),
        ("risk", "How the risk is spread", both, True),
        ("roles", "Areas, groups and other intruders", "" if has_after else before, _has_roles(tables)),
        ("causes", "What makes records rare", before, "key-costs" in tables or "unsafe-combinations" in tables),
        ("records", "The riskiest records", both if context["riskiest_released"] else before, bool(context["riskiest"])),
        ("model", "The model", before, "graph" in context["pictures"]),
        ("certainty", "How sure is the number", "?" if swap is None else " before protection?", True),
        ("glossary", "Glossary", "", True),
        ("again", "How to repeat this run", "", bool(context["run_toml"])),
    )
    return [(anchor, name, state) for anchor, name, state, is_there in entries if is_there]

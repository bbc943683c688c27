"""What does a data steward read after a run?

One self-contained page from the numbers of a run: no script, no outside address, readable on paper and in the dark. The
internal edition shows the riskiest records; the external one, no value of any record and no small count. The tables
lie beside it as CSV files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import jinja2

    from rarecell.report.tables import Table

Edition = Literal["internal", "external"]

FILE_NAMES: dict[str, tuple[str, str]] = {
    "internal": ("report.html", "tables"),
    "external": ("report-external.html", "tables-external"),
}
"""The page of each edition and the folder of its tables."""

__all__ = ["FILE_NAMES", "Edition", "render_report", "report_context", "report_environment", "write_report"]


def write_report(
    folder: Path,
    summary: Mapping[str, Any],
    riskiest: Sequence[Mapping[str, Any]] | None = None,
    edition: Edition = "internal",
) -> Path:
    """Write the report of a run and its tables into ``folder``.

    Parameters
    ----------
    folder : Path
        The run folder; its ``run.toml``, when there is one, is shown in the internal edition.
    summary : mapping
        The contents of ``summary.json``.
    riskiest : sequence of mappings, optional
        The riskiest records with their values. The external edition ignores them.
    edition : {"internal", "external"}
        ``internal`` writes ``report.html`` and ``tables/``, ``external`` ``report-external.html`` and
        ``tables-external/``, without values of records or counts below three.

    Returns
    -------
    Path
        The page.
    """
    page_name, tables_name = FILE_NAMES[edition]
    written_run = folder / "run.toml"
    run_toml = written_run.read_text(encoding="utf-8") if written_run.exists() else None
    context = report_context(summary, riskiest, edition=edition, run_toml=run_toml)
    tables_folder = folder / tables_name
    tables_folder.mkdir(exist_ok=True, mode=0o700)
    tables: Mapping[str, Table] = context["tables"]
    for table in tables.values():
        (tables_folder / f"{table.name}.csv").write_text(table.to_csv(), encoding="utf-8")
    page = folder / page_name
    page.write_text(_render(context), encoding="utf-8")
    return page


def render_report(
    summary: Mapping[str, Any],
    riskiest: Sequence[Mapping[str, Any]] | None = None,
    *,
    edition: Edition = "internal",
    run_toml: str | None = None,
) -> str:
    """The page as text, without links to CSV files."""
    return _render(report_context(summary, riskiest, edition=edition, run_toml=run_toml) | {"folder": None})


def _render(context: Mapping[str, Any]) -> str:
    environment = report_environment()
    style = style_sheet()
    page = environment.get_template("report.html").render(**context, style=style, style_hash=content_hash(style))
    # Blank lines that the template's conditions leave behind.
    return "\n".join(line for line in page.splitlines() if line.strip()) + "\n"


def style_sheet() -> str:
    """The style sheet of report and app."""
    return (Path(__file__).parent / "templates" / "report.css").read_text(encoding="utf-8").strip()


def content_hash(text: str) -> str:
    """The hash by which a Content-Security-Policy allows an inline style sheet."""
    import base64
    import hashlib

    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def report_environment(*folders: Path) -> jinja2.Environment:
    """The templates of the report, and those in ``folders`` before them; everything is escaped unless marked safe."""
    import jinja2

    from rarecell.report import words

    loader = jinja2.FileSystemLoader([*folders, Path(__file__).parent / "templates"])
    environment = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.ChainableUndefined
    )
    environment.filters["number"] = lambda value: words.number(_plain(value))
    environment.filters["rounded"] = _rounded
    environment.filters["percent"] = lambda value: "–" if _plain(value) is None else words.percent(value)
    environment.filters["counted"] = lambda value, one, many=None: words.counted(_plain(value), one, many)
    environment.filters["lowered"] = lambda text: f"{text[:1].lower()}{text[1:]}"
    environment.filters["sentence"] = lambda text: f"{text[:1].upper()}{text[1:].rstrip('.')}."
    return environment


def _plain(value: Any) -> Any:
    """None for what the summary does not have."""
    import jinja2

    return None if isinstance(value, jinja2.Undefined) else value


def _rounded(value: Any) -> str:
    """An expectation: whole from ten on, one digit below."""
    from rarecell.report.words import number

    value = _plain(value)
    return number(float(value), 0 if abs(value) >= 10 else 1) if isinstance(value, int | float) else number(value)


def report_context(
    summary: Mapping[str, Any],
    riskiest: Sequence[Mapping[str, Any]] | None = None,
    *,
    edition: Edition = "internal",
    run_toml: str | None = None,
) -> dict[str, Any]:
    """Everything the templates show; the app renders the same body with it."""
    import rarecell
    from rarecell.report import words
    from rarecell.report.edition import external
    from rarecell.report.pictures import all_pictures
    from rarecell.report.tables import all_tables

    if edition == "external":
        summary, riskiest, run_toml = external(summary), None, None
    records, uniques = summary.get("records"), summary.get("risk", {}).get("sample_uniques")
    share = uniques / records if isinstance(records, int) and isinstance(uniques, int) and records else None
    tables = all_tables(summary, riskiest)
    pictures = all_pictures(summary)
    context = {
        "summary": summary,
        "riskiest": [_with_enough(record) for record in riskiest or ()],
        "edition": edition,
        "verdict": words.verdict(summary),
        "steps": words.steps(summary, edition=edition),
        "share_unique": words.percent(share) if share is not None else None,
        "truth": summary.get("truth", {}),
        "pictures": pictures,
        "tables": tables,
        "folder": FILE_NAMES[edition][1],
        "missing_sentence": words.missing_sentence(summary),
        "household": words.household_sentence(summary),
        "fixed": words.fixed_sentence(summary),
        "structure": summary.get("structure") if (summary.get("structure") or {}).get("combinations") else None,
        "model_sentences": words.model_sentences(summary),
        "glossary": words.GLOSSARY,
        "run_toml": run_toml,
        "file_name": _file_name(run_toml),
        "version": rarecell.__version__,
    }
    return context | {"contents": _contents(context)}


def _file_name(run_toml: str | None) -> str | None:
    """The name of the input, without its folder."""
    import tomllib
    from pathlib import PurePath

    return PurePath(str(tomllib.loads(run_toml).get("input", ""))).name if run_toml else None


def _with_enough(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with the variables of its smallest unsafe combination, to be marked."""
    from rarecell.report.tables import smallest_combination

    return {**record, "enough": set(smallest_combination(record))}


def _contents(context: Mapping[str, Any]) -> list[tuple[str, str]]:
    tables = context["tables"]
    entries = (
        ("verdict", "The result", True),
        ("protection", "What protection changed", bool(context["summary"].get("swap"))),
        ("data", "What was examined", True),
        ("risk", "How the risk is spread", True),
        ("causes", "What makes records rare", "key-costs" in tables or "unsafe-combinations" in tables),
        ("records", "The riskiest records", bool(context["riskiest"])),
        ("model", "The model", "graph" in context["pictures"]),
        ("certainty", "How sure is the number?", True),
        ("glossary", "Glossary", True),
        ("again", "How to repeat this run", bool(context["run_toml"])),
    )
    return [(anchor, heading) for anchor, heading, is_there in entries if is_there]

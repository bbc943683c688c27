"""How does a run fill the form that an office has to hand in?

A form is a list of headings with entries, in a TOML file: those in ``forms/`` are shipped, and an office can write its own. An entry either
names its place in ``summary.json``, from which it is filled, or is left to the office and says so. Nothing else is written, so that every
figure can be traced, and nothing is claimed that no run has shown.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rarecell.engine.output import atomic_path
from rarecell.engine.places import read_small_text
from rarecell.errors import BadInput
from rarecell.outcome.plain import Plain
from rarecell.outcome.summary import RunSummary
from rarecell.outcome.words import number
from rarecell.report.edition import external
from rarecell.report.page import content_hash, report_environment, style_sheet

if TYPE_CHECKING:
    from rarecell.edges import ReadJson

SHIPPED = Path(__file__).parent / "forms"

BY_THE_OFFICE = "to be filled in by the office"
NOT_IN_THIS_RUN = "not part of this run"
NOT_SHOWN = "in the office's own edition only"
NONE = "none"


@dataclass(frozen=True, kw_only=True)
class FormEntry(Plain):
    """What is asked for, and the places in ``summary.json`` that answer it; without any, the office does."""

    says: str
    places: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Section(Plain):
    """A heading with its entries."""

    number: str
    title: str
    entries: tuple[FormEntry, ...]


@dataclass(frozen=True, kw_only=True)
class Form(Plain):
    """A list of contents; ``source`` says which text it was made from, and which was not at hand."""

    name: str
    title: str
    source: str
    sections: tuple[Section, ...]

    @classmethod
    def named(cls, words: str) -> Form:
        """A shipped form by its name, or one of the office's own by the path of its TOML file."""
        path = SHIPPED / f"{words}.toml" if words in form_names() else Path(words)
        if path.suffix != ".toml":
            raise BadInput(
                f"There is no form '{words}'. Give one of {', '.join(form_names())}, or the path of a TOML file of your own."
            )
        try:
            values = tomllib.loads(read_small_text(path))
            sections = tuple(
                Section(
                    number=section["number"],
                    title=section["title"],
                    entries=tuple(FormEntry(says=e["says"], places=tuple(e.get("from", ()))) for e in section["entries"]),
                )
                for section in values["section"]
            )
            return cls(name=path.stem, title=values["title"], source=values["source"], sections=sections)
        except OSError as problem:
            raise BadInput(f"The form {path} cannot be read: {problem.strerror or problem}.") from None
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
            raise BadInput(f"The form {path} is not a TOML file: {problem}.") from None
        except (KeyError, TypeError) as problem:
            raise BadInput(
                f"The form {path} lacks {problem}. It needs a title, a source, and sections with a number, a title and entries; those of "
                "rarecell are examples."
            ) from None


def form_names() -> tuple[str, ...]:
    """The forms that are shipped."""
    return tuple(sorted(path.stem for path in SHIPPED.glob("*.toml")))


@dataclass(frozen=True)
class Answer:
    """An entry as it is printed: ``state`` is ``"filled"``, ``"office"``, ``"hidden"`` or ``"missing"``."""

    says: str
    text: str
    places: tuple[str, ...]
    state: str


@dataclass(frozen=True)
class FilledForm:
    """A form with the answers of a run, heading by heading."""

    form: Form
    sections: tuple[tuple[Section, tuple[Answer, ...]], ...]
    version: str

    def to_markdown(self) -> str:
        """The form as text that a word processor can read."""
        lines = [f"# {self.form.title}", "", self.form.source, ""]
        for section, answers in self.sections:
            lines += [f"## {section.number} {section.title}", ""]
            for answer in answers:
                where = f" (`{'`, `'.join(answer.places)}`)" if answer.state == "filled" else ""
                text = answer.text if answer.state == "filled" else f"*{answer.text}*"
                lines += [f"- {_question(answer.says)} {text}{where}"]
            lines += [""]
        lines += [f"Filled by rarecell {self.version} from `summary.json`; names in brackets are its fields.", ""]
        return "\n".join(lines)

    def to_html(self) -> str:
        """The form as a self-contained page."""
        style = style_sheet()
        page = report_environment().get_template("form.html")
        return page.render(filled=self, question=_question, style=style, style_hash=content_hash(style), version=self.version)

    def write(self, path: Path) -> Path:
        """Write the form as a page (``.html``) or as Markdown, readable by its owner alone."""
        with atomic_path(path) as temporary:
            temporary.write_text(self.to_html() if path.suffix == ".html" else self.to_markdown(), encoding="utf-8")
        return path


def _question(says: str) -> str:
    return says if says.endswith("?") else f"{says}:"


def filled_form(form: Form, summary: RunSummary, *, edition: str = "external") -> FilledForm:
    """Fill a form from a run.

    Parameters
    ----------
    form : Form
        The list of contents.
    summary : RunSummary
        What the run found.
    edition : {"external", "internal"}
        Forms are sent away, so the external edition is the default: small counts are hidden, others rounded.
    """
    own = summary.to_dict()
    shown = external(summary).to_dict() if edition == "external" else own
    sections = tuple((section, tuple(_answer(entry, shown, own) for entry in section.entries)) for section in form.sections)
    return FilledForm(form, sections, summary.rarecell)


def _answer(entry: FormEntry, shown: ReadJson, own: ReadJson) -> Answer:
    if not entry.places:
        return Answer(entry.says, BY_THE_OFFICE, (), "office")
    text = text_at(shown, entry.places)
    if text is not None and not (text == NONE != text_at(own, entry.places)):
        return Answer(entry.says, text, entry.places, "filled")
    is_hidden = text_at(own, entry.places) is not None
    return Answer(entry.says, NOT_SHOWN if is_hidden else NOT_IN_THIS_RUN, entry.places, "hidden" if is_hidden else "missing")


def text_at(numbers: ReadJson, places: tuple[str, ...]) -> str | None:
    """What stands at the places, in words; names and values of a list side by side. None if the run has nothing there."""
    values = [value_at(numbers, place) for place in places]
    if all(value is None for value in values):
        return None
    lists = [value for value in values if isinstance(value, list)]
    if len(values) > 1 and len(lists) == len(values):
        values = [[f"{_text(name)}: {_text(value)}" for name, value in zip(*lists, strict=True) if not _is_empty(value)]]
    return "; ".join(_text(value) for value in values if not _is_empty(value)) or NONE


_STEP = re.compile(r"(?P<name>[^\[\]]+)(?:\[(?P<of>[^\]]*)\])?")


def value_at(numbers: ReadJson, place: str) -> Any:
    """The value at a place such as ``risk.interval``, ``keys[].name`` (of all) or ``swap.intruders[exact].after`` (of that name)."""
    value: Any = numbers
    for index, step in enumerate(steps := place.split(".")):
        match = _STEP.fullmatch(step)
        if match is None:
            raise BadInput(f"'{place}' is not a place in summary.json; write it like risk.interval or keys[].name.")
        value = value.get(match["name"]) if isinstance(value, Mapping) else None
        if match["of"] is not None and value is not None:
            rest = ".".join(steps[index + 1 :])
            if match["of"]:
                value = next((part for part in value if part.get("name") == match["of"]), None)
            else:
                return [value_at(part, rest) for part in value]
    return value


def _is_empty(value: object) -> bool:
    return value is None or value == "" or value == [] or value == {}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_text(part)}" for name, part in value.items())
    if isinstance(value, list):
        shown = [_text(part) for part in value if not _is_empty(part)]
        if len(value) == 2 and all(isinstance(part, float | int) and not isinstance(part, bool) for part in value):
            return f"{shown[0]} to {shown[1]}"
        return "; ".join(shown)
    return number(value) if isinstance(value, float | int) else str(value)

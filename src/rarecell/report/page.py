"""How does a page become HTML: its templates, its style, and what a template may call?"""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import re
from collections.abc import Mapping
from html import escape
from pathlib import Path

import jinja2
from jinja2.bccache import Bucket
from markupsafe import Markup

from rarecell.outcome import words


def style_sheet() -> str:
    """The style sheet of the report and the app."""
    return (Path(__file__).parent / "templates" / "report.css").read_text(encoding="utf-8").strip()


def content_hash(text: str) -> str:
    """The hash by which a Content-Security-Policy allows an inline style sheet."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


class TemplateCache(jinja2.FileSystemBytecodeCache):
    """Compiled templates, kept beside them as Python keeps the bytecode of modules: compiling a page takes longer than rendering it.

    The folder need not exist or be writable; jinja2 knows by a hash when a template has changed.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder), "template-%s.cache")

    def load_bytecode(self, bucket: Bucket) -> None:
        with contextlib.suppress(OSError):
            super().load_bytecode(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        with contextlib.suppress(OSError):
            Path(self.directory).mkdir(exist_ok=True)
            super().dump_bytecode(bucket)


@functools.cache
def report_environment(*folders: Path) -> jinja2.Environment:
    """The templates of the report, after those in ``folders``; everything is escaped unless marked safe."""
    own = Path(__file__).parent / "templates"
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([*folders, own]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        bytecode_cache=TemplateCache(own / "__pycache__"),
    )
    environment.filters["number"] = words.number
    environment.filters["rounded"] = lambda value: (
        words.expected(value) if isinstance(value, int | float) else words.number(value)
    )
    environment.filters["span"] = words.span
    environment.filters["labelled"] = labelled_page
    environment.filters["percent"] = words.percent
    # A line does not end between a number and its percent sign.
    environment.filters["unbroken"] = lambda text: re.sub(r"(?<=[0-9]) %", "\N{NO-BREAK SPACE}%", text)
    environment.filters["counted"] = words.counted
    environment.filters["capital"] = lambda text: f"{text[:1].upper()}{text[1:]}"
    environment.filters["lowered"] = lambda text: f"{text[:1].lower()}{text[1:]}"
    environment.filters["sentence"] = lambda text: f"{text[:1].upper()}{text[1:].rstrip('.')}."
    return environment


_AS_IT_IS = ("code", "pre", "style", "script", "svg", "textarea", "select", "button")
"""Parts of a page in which names of columns stay as they are."""


def labelled_page(page: Markup, labels: Mapping[str, str]) -> Markup:
    """A part of a page, with the labels of the columns that its text names."""
    if not labels:
        return page
    escaped = {name: escape(label) for name, label in labels.items()}
    parts, inside = [], 0
    for part in re.split(r"(<[^>]*>)", str(page)):
        tag = re.match(r"<(/?)(\w+)", part)
        if tag is not None and tag[2] in _AS_IT_IS:
            inside += -1 if tag[1] else 1
        parts.append(part if tag is not None or inside or not part.strip() else words.with_labels(part, escaped))
    return Markup("".join(parts))

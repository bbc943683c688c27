"""Pages that are made from the package itself, so that they cannot fall behind it.

``{command-reference}`` shows the help of every command, ``{glossary-of-the-report}`` the words of the report, and
``{public-names}`` a table of everything that ``import rarecell`` offers, by topic. The page on the tables of the report is the package's own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList


def _help(command: click.Command, context: click.Context) -> str:
    """The help of a command with every option."""
    from rarecell.cli.options import GroupedCommand

    return command.full_help(context) if isinstance(command, GroupedCommand) else command.get_help(context)


class CommandReference(Directive):
    """The help of each command under a heading of its own."""

    def run(self) -> list[nodes.Node]:
        from rarecell.cli.commands import main

        made: list[nodes.Node] = []
        for name in ("", *sorted(main.commands)):
            command = main.commands[name] if name else main
            title = f"rarecell {name}".strip()
            section = nodes.section(ids=[nodes.make_id(title)])
            section += nodes.title(text=title)
            context = click.Context(command, info_name=title, terminal_width=96, max_content_width=96)
            section += nodes.literal_block(text=_help(command, context), language="text")
            made.append(section)
        return made


class GlossaryOfTheReport(Directive):
    """The words of the report as a definition list."""

    def run(self) -> list[nodes.Node]:
        from rarecell.report.sentences import GLOSSARY

        made = nodes.definition_list(classes=["glossary-list"])
        for word, meaning in GLOSSARY:
            item = nodes.definition_list_item()
            item += nodes.term(text=word)
            definition = nodes.definition()
            definition += nodes.paragraph(text=meaning)
            item += definition
            made += item
        return [made]


TOPICS = {
    "Data": ("data.", "engine.", "table.", "machine."),
    "Graphs and models": ("graph.", "model."),
    "Search": ("search",),
    "Risk": ("risk.", "intruder."),
    "Swapping": ("release.", "swap."),
    "Whole runs": ("run.", "outcome.", "planning.", "progress"),
    "Notebooks": ("report.",),
    "Errors": ("errors",),
}
"""Modules of the public names, by the heading they stand under."""


def names_by_topic() -> dict[str, list[str]]:
    """Every public name under its topic; a name without one is an error."""
    import rarecell

    found: dict[str, list[str]] = {topic: [] for topic in TOPICS}
    for name, module in rarecell._HOME.items():
        topic = next(
            topic
            for topic, homes in TOPICS.items()
            if any(
                module == home or (home.endswith(".") and module.startswith(home)) or module.startswith(f"{home}.")
                for home in homes
            )
        )
        found[topic].append(name)
    return {topic: sorted(names, key=str.casefold) for topic, names in found.items() if names}


class PublicNames(Directive):
    """A summary table and a page for every public name."""

    def run(self) -> list[nodes.Node]:
        made: list[nodes.Node] = []
        for topic, names in names_by_topic().items():
            section = nodes.section(ids=[nodes.make_id(topic)])
            section += nodes.title(text=topic)
            lines = (
                [".. autosummary::", "   :toctree: generated", "   :nosignatures:", ""]
                + [f"   rarecell.{name}" for name in names]
                + [""]
            )
            self.state.nested_parse(StringList(lines, source="public names"), 0, section)
            made.append(section)
        return made


def write_pages(app: Any) -> None:
    """A page for each public name, before Sphinx looks for pages."""
    import rarecell

    folder = Path(app.srcdir) / "reference" / "generated"
    folder.mkdir(exist_ok=True)
    for names in names_by_topic().values():
        for name in names:
            made = getattr(rarecell, name)
            lines = [name, "=" * len(name), "", ".. currentmodule:: rarecell", ""]
            if isinstance(made, type):
                lines += [f".. autoclass:: {name}", "   :members:", "   :show-inheritance:"]
            else:
                lines += [f".. autofunction:: {name}"]
            text = "\n".join([*lines, ""])
            page = folder / f"rarecell.{name}.rst"
            # Pages that did not change keep their time, so that Sphinx need not read them again.
            if not page.exists() or page.read_text(encoding="utf-8") != text:
                page.write_text(text, encoding="utf-8")


def explain_tables(app: Any, page: str, source: list[str]) -> None:
    """The page that explains the tables of the report is the one that the report itself quotes."""
    from rarecell.report.table import PAGE

    if page == "reference/report":
        source[0] = PAGE.read_text(encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("command-reference", CommandReference)
    app.add_directive("glossary-of-the-report", GlossaryOfTheReport)
    app.add_directive("public-names", PublicNames)
    app.connect("builder-inited", write_pages)
    app.connect("source-read", explain_tables)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

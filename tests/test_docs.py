"""The documentation: its examples print what it says they print, it builds without a warning, and needs no network."""

from __future__ import annotations

import ast
import importlib
import json
import math
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import rarecell
from rarecell import datasets
from rarecell.report.table import meanings
from tests.documentation import DOCS, ROOT, SEQUENCES, SPARK, examples, run_sequence


@pytest.mark.slow
@pytest.mark.parametrize("pages", SEQUENCES, ids=lambda pages: pages[0])
def test_examples_print_what_the_page_says(pages: tuple[str, ...]) -> None:
    differing = [
        f"{outcome.example.page}, line {outcome.example.line}: {outcome.example.source}\nprinted:\n{outcome.got}"
        for outcome in run_sequence(pages)
        if not outcome.is_as_written
    ]
    assert differing == [], "run `python -m tests.documentation --update` and read the difference"


def test_every_page_with_examples_is_run() -> None:
    listed = {page for pages in (*SEQUENCES, SPARK) for page in pages}
    with_examples = {
        str(path.relative_to(DOCS))
        for path in DOCS.rglob("*.md")
        if "_build" not in path.parts and examples(str(path.relative_to(DOCS)))
    }
    assert with_examples <= listed
    assert sum(len(examples(page)) for page in listed) > 100


class _Links(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.followed: list[str] = []
        self.ids: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        if "id" in given:
            self.ids.add(given["id"])
        if tag in ("script", "img", "iframe", "source", "video", "audio") and "src" in given:
            self.loaded.append(given["src"])
        if tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload", "preconnect"):
            self.loaded.append(given["href"])
        if tag == "a" and "href" in given:
            self.followed.append(given["href"])


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documentation as HTML, from a copy: generated pages must not end up in the sources."""
    folder = tmp_path_factory.mktemp("docs")
    shutil.copytree(DOCS, folder / "source", ignore=shutil.ignore_patterns("_build", "generated", "__pycache__"))
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", str(folder / "source"), str(folder / "html")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return folder / "html"


@pytest.mark.slow
def test_pages_load_nothing_from_elsewhere_and_link_to_what_is_there(built: Path) -> None:
    pages = {path: _Links(path.read_text(encoding="utf-8")) for path in built.rglob("*.html")}
    assert len(pages) > 40
    for path, links in pages.items():
        assert not [address for address in links.loaded if re.match(r"(https?:)?//", address)], path
        for address in links.followed:
            if re.match(r"(https?:|mailto:)", address):
                continue
            place, _, anchor = address.partition("#")
            target = (path.parent / place).resolve() if place else path
            assert target.exists(), f"{path.name} links to {address}"
            if anchor and target.suffix == ".html":
                assert anchor in pages[target].ids, f"{path.name} links to {address}"
    for style in built.rglob("*.css"):
        assert not re.search(r"url\(\s*['\"]?(https?:)?//|@import", style.read_text(encoding="utf-8")), style


@pytest.mark.slow
def test_every_public_name_and_command_is_documented(built: Path) -> None:
    from rarecell.cli.commands import main

    names = {path.stem.removeprefix("rarecell.") for path in (built / "reference" / "generated").glob("*.html")}
    assert set(rarecell._HOME) <= names
    commands = (built / "reference" / "commands.html").read_text(encoding="utf-8")
    for command in main.commands:
        assert f"Usage: rarecell {command}" in commands


@pytest.mark.slow
def test_search_works_on_pages_opened_as_files(built: Path, chromium: Any) -> None:
    page = chromium.new_page()
    faults: list[str] = []
    page.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
    page.goto(f"{(built / 'search.html').as_uri()}?q=separator")
    # Results are listed one by one; the heading changes when the last one is there.
    page.wait_for_function("document.querySelector('#search-results h2')?.innerText === 'Search Results'")
    found = page.locator("#search-results").inner_text()
    page.close()
    assert "Theory" in found
    assert "Glossary" in found
    assert faults == []


@pytest.mark.slow
def test_formulas_are_drawn_by_the_browser(built: Path) -> None:
    theory = (built / "theory.html").read_text(encoding="utf-8")
    assert theory.count("<math") > 20
    assert "mathjax.js" not in theory.lower()
    assert not [address for address in _Links(theory).loaded if "mathjax" in address.lower()]


def test_pictures_are_there() -> None:
    for path in DOCS.rglob("*.md"):
        for picture in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", path.read_text(encoding="utf-8")):
            assert (path.parent / picture).is_file(), f"{path.name} shows {picture}"


def test_pictures_and_readme_show_what_the_tutorial_prints() -> None:
    shown = json.loads((DOCS / "images" / "made-from.json").read_text(encoding="utf-8"))["verdict"]
    printed = (DOCS / "tutorial" / "first-look.md").read_text(encoding="utf-8")
    recognisable = re.search(r"About ([\d,]+) records could be recognised", shown)
    assert recognisable is not None
    assert re.search(rf"Records that could be recognised +{recognisable[1]} ", printed), "run `python docs/take_pictures.py`"
    told = re.search(r"^    Do not release\. (About .*) …$", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert told is not None
    assert told[1] in shown


def test_nothing_is_said_of_the_machine_it_was_written_on() -> None:
    for path in [*DOCS.rglob("*.md"), ROOT / "README.md"]:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"/(root|tmp|work|home)/", text), path


def test_the_picture_of_backing_off_tells_what_the_network_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS / "extensions"))
    pictures = importlib.import_module("default_pictures")
    table = rarecell.Microdata(datasets.census_sample().slice(0, 1_500), keys=["age", "sex", "marital", "spouse"]).table()
    table = table.with_coarsenings(rarecell.automatic_coarsenings(table))
    (network,) = rarecell.fit_backoff(table, n_orders=1, seed=3).networks
    for cell in range(0, table.n_cells, 97):
        chains = [pictures.steps_of(table, conditional, cell) for conditional in network.conditionals]
        product = math.prod(chain[-1].believed for chain in chains)
        assert math.isclose(product, math.exp(network.log_cell_probability(table.cells[[cell]])[0]), rel_tol=1e-9)


def test_every_table_of_the_report_has_its_line() -> None:
    described = set(meanings())
    names = {
        node.args[0].value
        for path in (ROOT / "src" / "rarecell" / "report").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Table"
        if node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value
    }
    assert len(names) > 35
    assert names <= described

"""Pages in the Chromium of tests/conftest.py."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

WIDTHS = {"desktop": (1280, 900), "phone": (390, 844)}


@pytest.fixture
def new_page(chromium: Any) -> Iterator[Callable[..., Any]]:
    """Pages that remember what they asked for and what went wrong in them."""
    contexts = []

    def make(width: str = "desktop", *, scheme: str = "light", script: bool = True) -> Any:
        size = dict(zip(("width", "height"), WIDTHS[width], strict=True))
        context = chromium.new_context(viewport=size, color_scheme=scheme, java_script_enabled=script, accept_downloads=True)
        contexts.append(context)
        page = context.new_page()
        page.scheme = scheme
        page.asked = []
        page.faults = []
        page.on("request", lambda request: page.asked.append(request.url))
        page.on("pageerror", lambda fault: page.faults.append(str(fault)))
        page.on("console", lambda said: page.faults.append(said.text) if said.type in ("error", "warning") else None)
        return page

    yield make
    for context in contexts:
        context.close()


APP = """
from rarecell.app import jobs
from rarecell.cli.commands import main
new_worker = jobs._new_worker
jobs._new_worker = lambda *_: new_worker()
main()
"""
"""The app whose processes do not rehearse while they wait for a run: that is tested elsewhere, and costs more than most of these pages."""


@pytest.fixture
def address(folder: Path) -> Iterator[str]:
    """Address of the app on the folder of the test."""
    process = subprocess.Popen(
        [sys.executable, "-c", APP, "app", "--folder", str(folder), "--no-browser"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture
def screenshot(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Any, str], Path]:
    """Save what a window shows of a page; the files stay in pytest's temporary folder for whoever wants to look."""
    folder = tmp_path_factory.getbasetemp() / "screenshots"
    folder.mkdir(exist_ok=True)

    def save(page: Any, name: str) -> Path:
        path = folder / f"{name}.png"
        page.screenshot(path=str(path))
        assert path.stat().st_size > 5000
        return path

    return save


def accessibility_faults(page: Any) -> list[str]:
    """What axe finds: rule, help, and the first elements concerned."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    # A field can be filled before the style sheet is there; without it links are small.
    page.wait_for_load_state("load")
    rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    # Only of what fails every element is listed; of what passes, the first.
    found = axe.Axe().run(page, options={"runOnly": rules, "resultTypes": ["violations"]})
    assert len(found.response["passes"]) > 10, "the check looked at nothing"
    return [
        f"{fault['id']}: {fault['help']} ({'; '.join(node['html'][:160] for node in fault['nodes'][:3])})"
        for fault in found.response["violations"]
    ]


def overflow(page: Any) -> int:
    """How many pixels the page is wider than the window, with its style sheets."""
    page.wait_for_load_state("load")
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def sheets(pdf: bytes) -> int:
    """How many pages a document has."""
    return len(re.findall(rb"/Type\s*/Page[^s]", pdf))


A4_PIXELS = (680, 1016)
"""What is left of a page of A4 between the margins of the report, in pixels of a printed page."""


def printed_share(page: Any) -> float:
    """How much of its sheet the first page of a report takes when it is printed on A4."""
    page.set_viewport_size(dict(zip(("width", "height"), A4_PIXELS, strict=True)))
    page.emulate_media(media="print")
    end = float(page.evaluate("document.querySelector('.sheet').getBoundingClientRect().bottom"))
    page.emulate_media(media="screen")
    return end / A4_PIXELS[1]

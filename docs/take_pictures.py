"""Take the pictures of the documentation anew, with the Chromium of the system, when what they show has changed.

    python docs/take_pictures.py

Assesses the census sample in the app and by the command, as the tutorial does, and photographs what it shows. ``make docs`` does it first. What the
pictures were taken of stands beside them in ``made-from.json``, so that nothing is done when they are current.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import rarecell as rc
from rarecell import datasets

PICTURES = Path(__file__).parent / "images"
MADE_FROM = PICTURES / "made-from.json"
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
LONGEST_RUN = 300_000
COMMAND = [sys.executable, "-c", "from rarecell.cli.commands import main; main()"]


def looks() -> str:
    """A hash of everything that decides what a page looks like."""
    package = Path(rc.__file__).parent
    pages = sorted(path for folder in ("report", "app") for path in (package / folder).rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(path.read_bytes() for path in pages if "__pycache__" not in path.parts)).hexdigest()


@contextmanager
def app_in(folder: Path) -> Iterator[str]:
    """The app on an empty folder; gives its address."""
    app = subprocess.Popen([*COMMAND, "app", "--folder", str(folder), "--no-browser"], stdout=subprocess.PIPE, text=True)
    assert app.stdout is not None
    try:
        yield app.stdout.readline().strip()
    finally:
        app.terminate()
        app.wait()


def take(page: Any, address: str, folder: Path) -> str:
    """Walk through the app, take the pictures on the way, and give the sentence that the report begins with."""
    page.goto(address)
    page.wait_for_url("**/data")
    page.get_by_role("button", name="Try the census sample").click()
    page.wait_for_selector("[data-keys-form]")
    page.screenshot(path=PICTURES / "app-keys.png")
    page.get_by_role("button", name="Estimate the risk").click()
    page.wait_for_url("**/run?name=*", timeout=LONGEST_RUN)
    page.get_by_role("link", name="Protect the risky records").first.click()
    page.wait_for_selector("[data-range]")
    page.screenshot(path=PICTURES / "app-protect.png")
    run = assessed_in(folder)
    page.goto((run / "report.html").as_uri())
    # From the top to the end of what to do next.
    steps = page.locator(".next").bounding_box()
    page.screenshot(
        path=PICTURES / "report.png",
        clip={"x": 0, "y": 0, "width": 1180, "height": steps["y"] + steps["height"] + 24},
        full_page=True,
    )
    page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true })")
    page.locator("#model").scroll_into_view_if_needed()
    page.locator("figure.model").first.screenshot(path=PICTURES / "model.png")
    return rc.load(run).summary.risk.verdict


def assessed_in(folder: Path) -> Path:
    """A run as a person makes it, in the folder of the data, so that the report names no other folder."""
    shutil.copy(datasets.census_sample_path(), folder / "survey.csv.gz")
    words = ["--keys", ",".join(datasets.CENSUS_KEYS), "--population", str(datasets.CENSUS_POPULATION), "--out", "run", "--quiet"]
    subprocess.run([*COMMAND, "assess", "survey.csv.gz", *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return folder / "run"


def main() -> None:
    if MADE_FROM.exists() and json.loads(MADE_FROM.read_text(encoding="utf-8"))["looks"] == looks():
        print("The pictures are current.")
        return
    chromium = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
    if chromium is None:
        print("There is no Chromium here: the documentation shows the pictures that were taken last.")
        return
    from playwright.sync_api import sync_playwright

    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="survey-") as outer, sync_playwright() as playwright:
        folder = Path(outer) / "survey"
        folder.mkdir()
        browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1180, "height": 860}, device_scale_factor=1.5)
        with app_in(folder) as address:
            verdict = take(page, address, folder)
        browser.close()
    MADE_FROM.write_text(json.dumps({"verdict": verdict, "looks": looks()}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Take the pictures of the documentation anew, with the Chromium of the system.

    python docs/take_pictures.py

Assesses the census sample in the app, as the tutorial does, and photographs what it shows.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

PICTURES = Path(__file__).parent / "images"
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
LONGEST_RUN = 300_000


def main() -> None:
    chromium = next(path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name)))
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="survey-") as outer:
        folder = Path(outer) / "survey"
        folder.mkdir()
        command = [
            sys.executable,
            "-c",
            "from rarecell.cli.commands import main; main()",
            "app",
            "--folder",
            str(folder),
            "--no-browser",
        ]
        app = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert app.stdout is not None
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
                page = browser.new_page(viewport={"width": 1180, "height": 860}, device_scale_factor=1.5)
                page.goto(app.stdout.readline().strip())
                page.wait_for_url("**/data")
                page.get_by_role("button", name="Try the census sample").click()
                page.wait_for_selector("[data-keys-form]")
                page.screenshot(path=PICTURES / "app-keys.png")
                page.get_by_role("button", name="Estimate the risk").click()
                page.wait_for_url("**/run?name=*", timeout=LONGEST_RUN)
                page.get_by_role("link", name="Protect the risky records").click()
                page.wait_for_selector("[data-range]")
                page.screenshot(path=PICTURES / "app-protect.png")
                run = next(path.parent for path in folder.glob("*/run.json"))
                page.goto((run / "report.html").as_uri())
                page.screenshot(path=PICTURES / "report.png")
                page.locator("#model").scroll_into_view_if_needed()
                page.locator("figure.model").first.screenshot(path=PICTURES / "model.png")
                browser.close()
        finally:
            app.terminate()
            app.wait()


if __name__ == "__main__":
    main()

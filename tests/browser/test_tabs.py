"""Several tabs, a second browser, an app that ends during a run and one that starts again: each page says what is so."""

from __future__ import annotations

import csv
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LONGEST_RUN = 240_000
"""Milliseconds that a run may take on a busy machine."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(11)
    with (tmp_path / "people.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["age", "sex", "region"])
        writer.writerows([rng.integers(1, 9), rng.choice(["f", "m"]), rng.integers(1, 5)] for _ in range(200))
    return tmp_path


def started(folder: Path) -> tuple[subprocess.Popen[str], str]:
    """An app on a folder, and its address."""
    command = [sys.executable, "-m", "rarecell", "app", "--folder", str(folder), "--no-browser"]
    app = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert app.stdout is not None
    return app, app.stdout.readline().strip()


def begin_run(page: Any, address: str, name: str = "people-1") -> None:
    page.goto(f"{address}/keys?file=people.csv")
    page.get_by_label("Number of units the sample was drawn from").fill("20000")
    page.get_by_label("Folder for the results").fill(name)
    page.get_by_role("button", name="Estimate the risk").click()


def is_worker(process: psutil.Process) -> bool:
    """Whether a process makes a run, or gets ready for one; processes that have ended are not asked."""
    try:
        words = process.cmdline()
    except psutil.Error:
        return False
    return "rarecell.app.worker" in words


def suspended_workers() -> list[psutil.Process]:
    """The processes that get ready for a run, halted; on a busy machine it takes a while until there is one."""
    until = time.monotonic() + 60.0
    while not (workers := [process for process in psutil.Process().children(recursive=True) if is_worker(process)]):
        assert time.monotonic() < until
        time.sleep(0.1)
    for worker in workers:
        worker.suspend()
    return workers


def test_tabs_share_one_app_and_a_second_browser_stays_outside(folder: Path, address: str, new_page: Callable[..., Any]) -> None:
    first = new_page()
    first.goto(address)
    first.wait_for_url("**/data")
    base = first.url.removesuffix("/data")
    tabs = [first.context.new_page() for _ in range(3)]
    for tab in tabs:
        tab.goto(f"{base}/keys?file=people.csv")
        assert tab.locator("[data-keys-form]").count() == 1

    # The link works once, and neither the address of a page nor the link lets another browser in.
    for place in (address, f"{base}/data", f"{base}/keys?file=people.csv"):
        other = new_page("phone")
        answer = other.goto(place)
        assert answer is not None
        assert answer.status in (401, 403), place
        assert "people.csv" not in other.content()
        assert "rarecell app" in other.inner_text("body")

    # The process of the run waits, however quick it is, until the second tab has asked for one.
    workers = suspended_workers()
    begin_run(first, base)
    first.wait_for_selector("[data-job]")
    job = first.url
    begin_run(tabs[0], base, "second")
    assert "Another run is in progress" in tabs[0].inner_text("body")
    for worker in workers:
        worker.resume()
    assert tabs[0].get_by_label("Number of units the sample was drawn from").input_value() == "20000"
    # The progress can be watched from any tab, left, and looked at again.
    tabs[1].goto(job)
    tabs[1].reload()
    tabs[2].goto(f"{base}/runs")
    for tab in (first, tabs[1]):
        tab.wait_for_url("**/run?name=people-1", timeout=LONGEST_RUN)
    assert tabs[1].locator("h1").inner_text() == first.locator("h1").inner_text()
    tabs[2].reload()
    assert tabs[2].get_by_role("link", name="people-1").count() >= 1
    # The name of the first run is taken now.
    tabs[0].get_by_label("Folder for the results").fill("people-1")
    tabs[0].get_by_role("button", name="Estimate the risk").click()
    assert "A run called 'people-1' already exists" in tabs[0].inner_text("body")
    tabs[0].get_by_label("Folder for the results").fill("second")
    tabs[0].get_by_role("button", name="Estimate the risk").click()
    tabs[0].wait_for_url("**/run?name=second", timeout=LONGEST_RUN)
    assert first.faults == []


def test_an_app_that_starts_again_during_a_run_leaves_nothing_and_lets_only_its_new_link_in(
    folder: Path, new_page: Callable[..., Any]
) -> None:
    app, address = started(folder)
    page = new_page()
    page.goto(address)
    page.wait_for_url("**/data")
    base = page.url.removesuffix("/data")
    # The run is not over, however quick it is, when the app ends.
    suspended_workers()
    begin_run(page, base)
    page.wait_for_selector("[data-job]")
    app.send_signal(signal.SIGTERM)
    app.wait(60)
    assert "Traceback" not in (app.stderr.read() if app.stderr else "")
    # The page of the run says that the app has ended, without being asked.
    page.get_by_text("The app does not answer any more").wait_for(timeout=LONGEST_RUN)
    assert sorted(path.name for path in folder.iterdir()) == ["people.csv"]

    app, address = started(folder)
    try:
        page.goto(address)
        page.wait_for_url("**/data")
        base = page.url.removesuffix("/data")
        assert page.goto(f"{base}/job/1").status == 400
        assert "earlier start of the app" in page.inner_text("body")
        begin_run(page, base)
        page.wait_for_url("**/run?name=people-1", timeout=LONGEST_RUN)
    finally:
        app.terminate()
        app.wait(60)

"""Settings for all tests, and the Spark and the Chromium that some of them share."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# The first call of a kernel compiles it, so no single example has a deadline; CI draws the same examples every time.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A Spark with a driver and two workers, each a process of its own, as on a cluster."""
    sql = pytest.importorskip("pyspark.sql")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = sql.SparkSession.builder.master("local-cluster[2,1,1024]").appName("rarecell tests")
    # Short-lived processes and small data: compiling less is quicker, on a machine with few cores above all.
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    for name, value in {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": quick,
        "spark.executor.extraJavaOptions": quick,
        "spark.sql.codegen.wholeStage": "false",
        "spark.executor.memory": "1024m",
        "spark.sql.shuffle.partitions": "2",
        "spark.task.maxFailures": "2",
        "spark.stage.maxConsecutiveAttempts": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    logs = Path(sql.__file__).parents[1] / "work" / session.sparkContext.applicationId
    yield session
    session.stop()
    shutil.rmtree(logs, ignore_errors=True)


_CHROMIUM = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A headless Chromium of the system; without one, tests that need it are skipped."""
    found = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("there is no Chromium on this machine")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=found, args=_CHROMIUM)
        yield browser
        browser.close()

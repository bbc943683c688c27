"""Settings for all tests, and the Spark and the Chromium that some of them share."""

from __future__ import annotations

import gc
import os
import shutil
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# The first call of a kernel compiles it, so no single example has a deadline; CI draws the same examples every time.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


def _shared_by(test: str) -> str:
    """Tests with the same word run in one worker: a file shares what it sets up, and all tests on Spark share one Spark."""
    name = test.partition("[")[0]
    return "spark" if "spark" in name else name.partition("::")[0]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and tests stay until the end, so nobody looks through them for garbage while they are loaded and ever after."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long begins first, so that no worker is left alone with it: Spark, files with slow tests, files with many."""
    n_slow: Counter[str] = Counter(_shared_by(item.nodeid) for item in items if item.get_closest_marker("slow"))
    n_tests = Counter(_shared_by(item.nodeid) for item in items)

    def place(item: pytest.Item) -> tuple[bool, int, int, str]:
        shared = _shared_by(item.nodeid)
        return shared != "spark", -n_slow[shared], -n_tests[shared], shared

    items.sort(key=place)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out tests in the order of above, together what belongs together."""
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _shared_by(nodeid)

    config.option.loadscopereorder = False
    return Together(config, log)


@pytest.fixture(scope="session", autouse=True)
def _nobody_waits_for_the_disk() -> Iterator[None]:
    """Only a power cut tells whether data have reached the disk, and no test makes one; what is flushed, and when, is tested all the same."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", os.fstat)
        yield


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A Spark with a driver and two workers, each a process of its own, as on a cluster."""
    sql = pytest.importorskip("pyspark.sql")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = sql.SparkSession.builder.master("local-cluster[2,1,1024]").appName("rarecell tests")
    # Short-lived processes and small data: compiling and checking less is quicker, on a machine with few cores above all.
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+IgnoreUnrecognizedVMOptions"
    quick += " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    for name, value in {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": quick,
        "spark.executor.extraJavaOptions": quick,
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.locality.wait": "0",
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


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A headless Chromium of the system; without one, tests that need it are skipped.

    It ends with the file: as long as it runs, Playwright has an event loop in this thread, which hears the signals and lets no other
    loop run that the tests of other files need.
    """
    found = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("there is no Chromium on this machine")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=found, args=_CHROMIUM)
        yield browser
        browser.close()

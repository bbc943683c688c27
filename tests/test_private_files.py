"""Copies of records are for their owner alone, and none outlives the program, however it ends."""

from __future__ import annotations

import gc
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from rarecell.machine.disk import private_folder, remove_stale_folders
from rarecell.machine.signals import ENDING, when_asked_to_end


class Owner:
    pass


def test_a_private_folder_vanishes_with_its_owner(tmp_path: Path) -> None:
    owner = Owner()
    folder = private_folder(owner, tmp_path)
    (folder / "records.parquet").write_text("secret")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    remove_stale_folders(tmp_path)
    assert folder.exists(), "it is in use"
    del owner
    gc.collect()
    assert not folder.exists()


def test_a_private_folder_is_its_owners_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o777)
    try:
        owner = Owner()
        folder = private_folder(owner, tmp_path)
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_another_start_swept_before_it_was_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    make = tempfile.mkdtemp

    def swept_once(**options: Any) -> str:
        made.append(make(**options))
        if len(made) == 1:
            assert remove_stale_folders(tmp_path) == 1
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", swept_once)
    owner = Owner()
    folder = private_folder(owner, tmp_path)
    assert folder.is_dir()
    assert [str(folder)] == made[1:]


def test_what_a_killed_process_left_is_removed_at_the_next_start(tmp_path: Path) -> None:
    script = (
        "import os, sys; from rarecell.machine.disk import private_folder\n"
        "class Owner: pass\n"
        "owner = Owner(); folder = private_folder(owner, sys.argv[1]); (folder / 'records.parquet').write_text('secret')\n"
        "print(folder, flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False)
    left = Path(done.stdout.strip())
    assert (left / "records.parquet").exists()
    (tmp_path / "rarecell-private-link").symlink_to(tmp_path.parent)
    mine = tmp_path / "rarecell-mine"
    mine.mkdir()
    owner = Owner()
    private_folder(owner, tmp_path)
    assert not left.exists()
    assert mine.exists()
    assert tmp_path.parent.exists()


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_that_asks_to_end_is_heard_and_then_handled_as_before(number: int) -> None:
    heard = []

    def theirs(_number: int, _frame: object) -> None:
        pytest.fail("the handler of before was not replaced")

    # Whoever starts the tests in the background has SIGINT ignored, and what is ignored stays ignored.
    of_the_tests = signal.signal(number, theirs)
    try:
        with when_asked_to_end(heard.append):
            os.kill(os.getpid(), number)
            deadline = time.monotonic() + 5
            while not heard and time.monotonic() < deadline:
                time.sleep(0.01)
        assert heard == [number]
        assert signal.getsignal(number) is theirs
    finally:
        signal.signal(number, of_the_tests)


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="needs SIGHUP")
def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with when_asked_to_end(lambda _: pytest.fail("nohup was not honoured")):
            os.kill(os.getpid(), signal.SIGHUP)
            time.sleep(0.05)
    finally:
        signal.signal(signal.SIGHUP, before)


_STATA_RUN = """
import signal, sys
# Whoever starts the tests with nohup lets the run ignore this signal, and then it is right not to end.
signal.signal(int(sys.argv[3]), signal.SIG_DFL)
from pathlib import Path
from rarecell.engine.statistics import source as statistics
fill = statistics.StatisticsSource._fill
def filled(self, path):
    fill(self, path)
    print(oct(path.stat().st_mode & 0o777), flush=True)
    import time; time.sleep(60)
statistics.StatisticsSource._fill = filled
from rarecell.cli.commands import main
main(["assess", sys.argv[1], "--keys", "age,sex", "--population", "3000", "--out", sys.argv[2], "--quiet"])
"""


@pytest.mark.parametrize("number", [number for number in ENDING if number != signal.SIGINT])
def test_a_run_that_is_asked_to_end_leaves_no_copy_of_the_records(number: int, tmp_path: Path) -> None:
    pyreadstat = pytest.importorskip("pyreadstat")
    pandas = pytest.importorskip("pandas")
    data = tmp_path / "survey.dta"
    pyreadstat.write_dta(pandas.DataFrame({"age": [i % 9 for i in range(90)], "sex": [i % 2 for i in range(90)]}), str(data))
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    run = subprocess.Popen(
        [sys.executable, "-c", _STATA_RUN, str(data), str(tmp_path / "out"), str(int(number))],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert run.stdout is not None
    assert run.stdout.readline().strip() == "0o600"
    assert list(temporary.glob("rarecell-private-*/records.parquet"))
    run.send_signal(number)
    time.sleep(0.2)
    run.send_signal(number)
    _, told = run.communicate(timeout=30)
    assert run.returncode == 1, told
    assert "Traceback" not in told
    assert not list(temporary.glob("rarecell-*"))
    assert not (tmp_path / "out").exists()

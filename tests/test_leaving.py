"""A command ends at once, and nothing is lost by it."""

from __future__ import annotations

import subprocess
import sys

import pytest

LEAVING = "import atexit, sys, threading, time\nfrom rarecell.machine.signals import run_and_leave\n"


def _run(code: str, *, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", LEAVING + code], stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)


@pytest.mark.parametrize(("end", "code"), [("None", 0), ("sys.exit()", 0), ("sys.exit(0)", 0), ("sys.exit(3)", 3)])
def test_the_exit_code_and_what_was_printed_are_kept(end: str, code: int) -> None:
    done = _run(
        "class Late:\n    def __del__(self): print('taken apart')\nlate = Late()\n"
        "atexit.register(print, 'tidied up')\n"
        f"run_and_leave(lambda: (print('done'), {end}))"
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, "done\ntidied up\n", "")


def test_a_message_as_exit_code_is_printed() -> None:
    done = _run("run_and_leave(lambda: sys.exit('not like this'))")
    assert (done.returncode, done.stderr) == (1, "not like this\n")


def test_an_error_is_shown_as_ever() -> None:
    done = _run("run_and_leave(lambda: 1 / 0)")
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr


def test_a_thread_at_work_is_waited_for() -> None:
    done = _run(
        "def work():\n    time.sleep(0.3)\n    print('written')\n"
        "run_and_leave(lambda: (threading.Thread(target=work).start(), sys.exit(0)))"
    )
    assert (done.returncode, done.stdout) == (0, "written\n")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no full device")
def test_output_that_cannot_be_written_is_not_a_success() -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = _run("run_and_leave(lambda: (print('lost'), sys.exit(0)))", stdout=full.fileno())
    assert done.returncode != 0
    assert "No space left" in done.stderr

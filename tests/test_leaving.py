"""A command ends at once, and nothing is lost by it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

# A shell starts what runs in its background without Ctrl-C, so its handler is set again.
LEAVING = "import atexit, os, signal, sys, threading, time\nsignal.signal(signal.SIGINT, signal.default_int_handler)\nfrom rarecell.machine.signals import run_and_leave\n"


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


def test_an_interrupt_outside_a_command_is_one_line() -> None:
    done = _run("atexit.register(print, 'tidied up')\ndef interrupted(): raise KeyboardInterrupt\nrun_and_leave(interrupted)")
    assert (done.returncode, done.stdout, done.stderr) == (1, "tidied up\n", "rarecell: interrupted.\n")


@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot be sent Ctrl-C alone")
def test_ctrl_c_again_does_not_keep_a_process_from_tidying_up() -> None:
    done = _run(
        "def tidy():\n    os.kill(os.getpid(), signal.SIGINT)\n    time.sleep(0.2)\n    print('tidied up')\n"
        "atexit.register(tidy)\n"
        "run_and_leave(lambda: sys.exit(1))"
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "tidied up\n", "")


@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot be sent Ctrl-C alone")
def test_ctrl_c_again_does_not_wait_for_a_thread_at_work() -> None:
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            LEAVING + "atexit.register(print, 'tidied up')\n"
            "def start():\n    threading.Thread(target=time.sleep, args=(60,)).start()\n    print('started', flush=True)\n    sys.exit(0)\n"
            "run_and_leave(start)",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=30)
    assert (process.returncode, out, errors) == (1, "tidied up\n", "")


@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot be sent Ctrl-C alone")
def test_ctrl_c_while_the_command_is_loaded_is_one_line() -> None:
    code = (
        "import os, signal, sys\n"
        "class Loader:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'rarecell.cli.commands': os.kill(os.getpid(), signal.SIGINT)\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from rarecell.__main__ import main\n"
        "sys.meta_path.insert(0, Loader())\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "rarecell: interrupted.\n")

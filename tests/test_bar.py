"""The line of progress: whole, within the terminal, and gone at the end."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from rarecell.cli.bar import ProgressLine, line_of
from rarecell.cli.commands import main
from rarecell.machine import system
from rarecell.progress import StageTree


def stages(*, done: float, seconds: float) -> StageTree:
    tree = StageTree()
    tree.start("search")
    tree.start("looking for swap partners", 40)
    tree.advance(done)
    for stage in tree.open:
        stage.started = time.monotonic() - seconds
    return tree


def test_the_line_says_stage_part_and_time_left() -> None:
    line = line_of(stages(done=10, seconds=30), 120)
    assert "looking for swap partners" in line
    assert "[#####...............]" in line
    assert line.endswith("0:30, about 1:30 left")
    assert "left" not in line_of(stages(done=10, seconds=0.5), 120)
    assert line_of(StageTree(), 80) == ""


@pytest.mark.parametrize("width", [5, 20, 40, 79, 200])
@pytest.mark.parametrize("done", [0, 1, 40, 80])
def test_the_line_fits(width: int, done: int) -> None:
    assert 0 < len(line_of(stages(done=done, seconds=3700), width)) <= width


def test_the_line_is_drawn_and_erased() -> None:
    stream = io.StringIO()
    with ProgressLine(stream, is_shown=True) as progress:
        progress.start("search", 4)
        progress.advance(1)
        deadline = time.monotonic() + 20
        while "[#####" not in stream.getvalue() and time.monotonic() < deadline:
            time.sleep(0.05)
        progress.say("A sentence.")
        progress.done()
        assert not progress.cancelled()
        progress.stop()
        assert progress.cancelled()
    shown = stream.getvalue()
    assert "[#####..............." in shown
    assert "\nA sentence." not in shown, "the sentence takes the place of the line"
    assert "A sentence.\n" in shown
    assert shown.rpartition("\n")[2].replace("\r", "").strip() == "" or shown.endswith("\r")


def test_nobody_watching_sees_nothing() -> None:
    stream = io.StringIO()
    with ProgressLine(stream, is_shown=False) as progress:
        progress.start("search", 4)
        progress.advance()
        progress.done()
    assert stream.getvalue() == ""


@pytest.mark.skipif(system.IS_WINDOWS, reason="Windows has no pseudo-terminals")
def test_a_terminal_sees_progress_and_a_file_the_results_alone(tmp_path: Path) -> None:
    import pty

    people = "age,sex\n" + "\n".join(f"{20 + row % 40},{row % 2}" for row in range(400)) + "\n"
    (tmp_path / "people.csv").write_text(people, encoding="utf-8")
    words = ["assess", "people.csv", "--keys", "age,sex", "--population", "4000", "--model", "single"]
    ours, theirs = pty.openpty()
    # So little is read in less time than passes between two looks at the clock.
    script = f"from rarecell.cli import bar, main\nbar._PAUSE = 0.002\nmain({words!r})"
    # The environment may be one in which nothing is rewritten.
    environment = {**os.environ, "TERM": "xterm"}
    process = subprocess.Popen(
        [sys.executable, "-c", script], cwd=tmp_path, stdout=subprocess.PIPE, stderr=theirs, env=environment
    )
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 4096):
            shown += chunk
    except OSError:
        # Linux says so when the other end was closed.
        pass
    printed, _ = process.communicate(timeout=120)
    os.close(ours)
    assert process.returncode == 0, shown
    assert b"\r" in shown
    assert "Reading" in shown.decode() or "reading" in shown.decode()
    assert b"\r" not in printed.replace(b"\r\n", b"")
    assert b"population" in printed


def test_timings_are_those_of_the_outer_stages() -> None:
    line = ProgressLine(io.StringIO(), is_shown=False)
    with line:
        for stage in ("reading", "models", "reading"):
            line.start(stage)
            line.start("a step inside")
            line.done()
            line.done()
    names, seconds, processor = zip(*line.timings(), strict=True)
    assert names == ("reading and counting", "searching for the model")
    assert all(spent >= 0.0 for spent in (*seconds, *processor))


def test_a_run_says_how_long_it_took_and_what_it_held(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("age,sex\n" + "".join(f"{20 + row % 9},{row % 2}\n" for row in range(60)))
    words = ["assess", str(path), "--keys", "age,sex", "--population", "900", "--model", "independence", "--quiet", "--timings"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert "all stages" in done.stderr
    assert "memory at its peak" in done.stderr
    assert "all stages" not in done.stdout

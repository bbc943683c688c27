"""The line of progress: whole, within the terminal, and gone at the end."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from rarecell.cli import bar
from rarecell.cli.bar import ProgressLine, line_of
from rarecell.cli.commands import main
from rarecell.machine import system
from rarecell.progress import Stage, StageTree
from rarecell.report.tables import timings_table


def stages(*, done: float, seconds: float) -> StageTree:
    tree = StageTree()
    tree.start("search")
    tree.start("looking for swap partners", 40)
    tree.advance(done)
    for stage in tree.open:
        stage.started = time.monotonic() - seconds
    return tree


class FullStream(io.StringIO):
    def flush(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_work_goes_on_where_nothing_can_be_written() -> None:
    with ProgressLine(FullStream(), is_shown=True) as line:
        line.start("search")
        line.say("About 3 records could be recognised.")
        line.done()
    assert line.timings()[0].keys() == {"search"}


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
    seconds, processor = line.timings()
    assert list(seconds) == list(processor) == ["reading", "models"]
    assert all(spent >= 0.0 for spent in (*seconds.values(), *processor.values()))
    rows = timings_table(seconds, processor).rows
    assert [row[0] for row in rows] == ["reading and counting", "fitting the model", "all stages"]
    assert rows[-1][1] == pytest.approx(sum(seconds.values()))


def told(line: ProgressLine, stream: io.StringIO, words: str) -> bool:
    """Whether the line prints these words before long."""
    deadline = time.monotonic() + 20
    while words not in stream.getvalue() and time.monotonic() < deadline:
        time.sleep(0.02)
    return words in stream.getvalue()


@pytest.mark.parametrize("is_shown", [True, False])
def test_what_is_known_is_printed_to_whoever_still_waits(is_shown: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bar, "_WAITED", 0.1)
    monkeypatch.setattr(bar, "_WAITED_IN_A_LOG", 0.1)
    stream = io.StringIO()
    with ProgressLine(stream, is_shown=is_shown) as line:
        line.start(Stage.JUDGEMENT)
        line.answer("About 7 records.")
        assert not line.end_early(), "without a verdict there is nothing to keep"
        assert told(line, stream, "About 7 records.")
        line.done()
        line.answer("Do not release.", is_verdict=True)
        assert told(line, stream, "Do not release.")
        assert not line.end_early(), "advice has not begun"
        line.start(Stage.ADVICE)
        assert not line.ends_early()
        assert line.end_early()
        assert line.ends_early()
        assert not line.cancelled()
        assert not line.end_early(), "the second time asks for more"


def test_a_quick_run_prints_its_answers_once() -> None:
    stream = io.StringIO()
    with ProgressLine(stream, is_shown=False) as line:
        line.answer("About 7 records.")
    with ProgressLine(stream, is_shown=False, is_quiet=True) as line:
        line.answer("About 7 records.")
    assert stream.getvalue() == ""


@pytest.mark.skipif(system.IS_WINDOWS, reason="Windows sends no such signal")
def test_an_interrupt_after_the_verdict_keeps_the_results(tmp_path: Path) -> None:
    people = "age,sex,job\n" + "\n".join(f"{20 + row % 40},{row % 2},{row * row % 13}" for row in range(400)) + "\n"
    (tmp_path / "people.csv").write_text(people, encoding="utf-8")
    words = ["assess", "people.csv", "--keys", "age,sex,job", "--population", "4000", "--out", "run"]
    # What each key costs is not known before somebody interrupts.
    script = f"""
import signal, time
# Whoever starts the tests in the background of a shell has them ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
from rarecell.cli import bar, main
from rarecell.progress import checkpoint
from rarecell.run import assess
bar._PAUSE = bar._WAITED_IN_A_LOG = 0.05
def key_costs(*_, progress, **__):
    while True:
        checkpoint(progress, "What each key costs")
        time.sleep(0.01)
assess.key_costs = key_costs
main({words!r})
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    heard = ""
    for line in process.stderr:
        heard += line
        if "Ctrl-C ends here" in line:
            process.send_signal(signal.SIGINT)
            break
    printed, rest = process.communicate(timeout=120)
    assert process.returncode == 0, heard + rest
    assert "Ending without the rest" in rest
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["risk"]["key_costs"] == []
    assert any("what each key costs" in note for note in summary["notes"])
    assert "could be recognised" in printed


def test_a_run_says_how_long_it_took_and_what_it_held(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("age,sex\n" + "".join(f"{20 + row % 9},{row % 2}\n" for row in range(60)))
    words = ["assess", str(path), "--keys", "age,sex", "--population", "900", "--model", "independence", "--quiet", "--timings"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert "all stages" in done.stderr
    assert "memory at its peak" in done.stderr
    assert "all stages" not in done.stdout

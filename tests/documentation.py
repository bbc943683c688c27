"""Runs the examples of the documentation, and writes their output anew.

    python -m tests.documentation            check every page
    python -m tests.documentation --update   put what the examples print today into the pages

A fenced ``python`` block with ``>>>`` is a session, one without is a script; a fenced ``console`` block has commands after ``$``. The pages of a
sequence share a working folder and their names. What is written under an example may have ``...`` in it.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
LEFT_BEHIND = "with copies of records, left behind by a run that was killed"
"""Said by the run that meets what other tests, which kill runs, left in the common folder for temporary files."""

TUTORIAL = tuple(f"tutorial/{name}.md" for name in ("first-look", "own-file", "reading", "protecting", "in-python"))
SEQUENCES: tuple[tuple[str, ...], ...] = (
    TUTORIAL,
    ("why/identification-risk.md",),
    ("why/decomposable.md",),
    ("why/swapping.md",),
    ("why/what-an-intruder-does.md",),
    ("why/formal-mode.md",),
    ("why/how-sure.md",),
    ("howto/steward.md",),
    ("howto/thresholds.md",),
    ("howto/coming-from.md",),
    ("howto/attack-others.md",),
    ("howto/census.md",),
    ("howto/register.md",),
    ("howto/scenarios.md",),
    ("howto/researcher.md",),
    ("howto/large.md",),
    ("howto/twin.md",),
    ("accuracy.md",),
    ("paper.md",),
    ("../README.md",),
)
"""Pages with examples; those in one row are run one after the other."""

WIDTH = 80
"""Characters of a line that commands print in the pages."""

SPARK = ("howto/spark.md",)
"""A page whose examples need a Spark; the tests that have one run it."""

_FENCE = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL


@dataclass(frozen=True)
class Example:
    """One statement or command, the output written under it, and where that stands in the page."""

    page: str
    line: int
    kind: str
    source: str
    want: str
    start: int
    end: int


def examples(page: str) -> list[Example]:
    """The examples of a page, in order."""
    text = (DOCS / page).read_text(encoding="utf-8")
    found: list[Example] = []
    for fence in _FENCE.finditer(text):
        kind, body, offset = fence.group(1), fence.group(2), fence.start(2)
        if kind == "python" and ">>>" not in body:
            kind, pieces = "script", iter([(body, "", len(body), len(body))])
        else:
            pieces = _sessions(body) if kind == "python" else _commands(body)
        for source, want, start, end in pieces:
            line = text.count("\n", 0, offset + start) + 1
            found.append(Example(page, line, kind, source, want, offset + start, offset + end))
    return found


def _sessions(body: str) -> Iterator[tuple[str, str, int, int]]:
    """Statements of a session with where their output begins and ends."""
    lines = body.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    for example in doctest.DocTestParser().get_examples(body):
        first = example.lineno + example.source.count("\n")
        last = first + example.want.count("\n")
        yield example.source, example.want, starts[first], starts[last]


def _commands(body: str) -> Iterator[tuple[str, str, int, int]]:
    place = 0
    current: tuple[str, int] | None = None
    for line in body.splitlines(keepends=True):
        if line.startswith("$ "):
            if current is not None:
                yield current[0], body[current[1] : place], current[1], place
            current = (line[2:].strip(), place + len(line))
        place += len(line)
    if current is not None:
        yield current[0], body[current[1] : place], current[1], place


SOMETIMES = (LEFT_BEHIND, "First estimate: ", "Advice is still being computed")
"""Words of lines that are printed if an earlier run was killed, or on a busy machine, where somebody waits long."""


def run_command(command: str) -> str:
    """What a command prints on both outputs, its exit code in the end when that is not 0."""
    from click.testing import CliRunner

    from rarecell.cli.commands import main

    words = shlex.split(command)
    if words[0] != "rarecell" or "|" in words:
        # The commands of the environment that the tests run in, without its name for everything else.
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "LC_ALL": "C"}
        done = subprocess.run(command, shell=True, capture_output=True, text=True, env=environment)
        return done.stdout + done.stderr
    # As wide as a common terminal, whatever terminal the tests run in.
    done = CliRunner().invoke(main, words[1:], env={"COLUMNS": str(WIDTH)})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        traceback.print_exception(done.exception)
    output = "\n".join(
        _as_at_a_terminal(line.rstrip())
        for line in done.output.strip("\n").splitlines()
        if not any(words in line for words in SOMETIMES)
    )
    code = f"\n[exit code {done.exit_code}]" if done.exit_code not in (0, 1) else ""
    return f"{output}{code}\n" if output or code else ""


def _as_at_a_terminal(line: str) -> str:
    """A sentence wrapped; tables and JSON are narrow enough, and what is to be copied stays on its line."""
    if len(line) <= WIDTH or line.startswith(" "):
        return line
    return textwrap.fill(line, WIDTH, break_long_words=False, break_on_hyphens=False)


def run_statement(source: str, names: dict[str, Any]) -> str:
    """What a statement prints, an exception included."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            exec(compile(source, "<documentation>", "single"), names)
        except Exception as problem:
            kind = type(problem)
            out.write(f"Traceback (most recent call last):\n    ...\n{kind.__module__}.{kind.__qualname__}: {problem}\n")
    return out.getvalue()


def run_script(source: str) -> None:
    """Run a block without a session; it has to end without an exception."""
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(source, "<documentation>", "exec"), {"__name__": "documentation"})


@dataclass(frozen=True)
class Outcome:
    """An example and what it printed."""

    example: Example
    got: str

    @property
    def is_as_written(self) -> bool:
        want = self.example.want.strip("\n")
        return doctest.OutputChecker().check_output(
            want + "\n" if want else "", self.got.strip("\n") + "\n" if self.got else "", _OPTIONS
        )


def run_sequence(pages: Sequence[str]) -> Iterator[Outcome]:
    """Run the pages one after the other in a folder of their own."""
    names: dict[str, Any] = {"__name__": "documentation"}
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for page in pages:
                for example in examples(page):
                    if example.kind == "console":
                        yield Outcome(example, run_command(example.source))
                    elif example.kind == "script":
                        run_script(example.source)
                    else:
                        yield Outcome(example, run_statement(example.source, names))
        finally:
            os.chdir(before)


def update(pages: Sequence[str]) -> None:
    """Write what the examples print today under them, where it differs from what is written."""
    outcomes = list(run_sequence(pages))
    written = {}
    for page in pages:
        path = DOCS / page
        text = path.read_text(encoding="utf-8")
        for outcome in reversed([o for o in outcomes if o.example.page == page]):
            if not outcome.is_as_written:
                if outcome.got.startswith("Traceback") and "Traceback" not in outcome.example.want:
                    raise SystemExit(
                        f"{page}, line {outcome.example.line}: {outcome.example.source}{outcome.got}Nothing was written."
                    )
                # A blank line would end a session, so one within an output is marked as doctest does.
                got = outcome.got.strip("\n")
                if outcome.example.kind == "python":
                    got = got.replace("\n\n", "\n<BLANKLINE>\n")
                text = text[: outcome.example.start] + (got + "\n" if got else "") + text[outcome.example.end :]
                print(f"{page}, line {outcome.example.line}: written anew")
        written[path] = text
    for path, text in written.items():
        path.write_text(text, encoding="utf-8")


def main() -> int:
    failures = 0
    chosen = [word for word in sys.argv[1:] if not word.startswith("--")]
    for pages in (*SEQUENCES, SPARK):
        if chosen and not any(any(word in page for word in chosen) for page in pages):
            continue
        if "--update" in sys.argv:
            update(pages)
            continue
        for outcome in run_sequence(pages):
            if not outcome.is_as_written:
                failures += 1
                print(f"{outcome.example.page}, line {outcome.example.line}: {outcome.example.source}got:\n{outcome.got}")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())

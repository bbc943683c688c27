"""Whatever moment a process dies at, a run folder keeps the old result or has the new one, and nothing else is touched.

A process that dies is simulated: from a chosen call on, every call that changes the file system is refused, those of the
clean-up included. The calls are counted by an audit hook, so none is left out.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rarecell
from rarecell.errors import BadInput, NotWritten, OutputExists
from rarecell.run import publishing
from rarecell.run.folder import RunRecord, finish_publishing, open_run_folder

CHANGES = ("os.rename", "os.mkdir", "os.chmod", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate", "shutil.rmtree")


class Dead(BaseException):
    """The process is gone."""


class Disk:
    """Refuses every change below a folder once the process is dead."""

    def __init__(self) -> None:
        self.below: str | None = None
        self.left = 0
        self.n_calls = 0
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.below is None:
            return
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if (writes or event in CHANGES) and self.below in str(arguments[0]):
            self.n_calls += 1
            if self.n_calls > self.left:
                raise Dead

    @contextlib.contextmanager
    def dies_after(self, n_calls: int, below: Path) -> Iterator[None]:
        self.below, self.left, self.n_calls = str(below), n_calls, 0
        try:
            yield
        finally:
            self.below = None


DISK = Disk()


def write_run(folder: Any, text: str, names: tuple[str, ...], parts: tuple[str, ...] = ()) -> None:
    for name in names:
        folder.write_text(name, text)
    for name in parts:
        inner = folder.path(name) / "year=2020"
        inner.mkdir(parents=True)
        (inner / "part-0.parquet").write_text(text)
    record = RunRecord(text, {}, {}, 0, files=(*folder.names, publishing.RECORD))
    folder.write_text(publishing.RECORD, record.to_json())
    folder.publish()


def old_run(out: Path) -> None:
    with open_run_folder(out) as folder:
        write_run(folder, "old", ("summary.json", "swaps.parquet", "protected.csv"), ("risk.parquet", "tables"))


def new_run(out: Path, overwrite: bool) -> None:
    with open_run_folder(out, overwrite=overwrite) as folder:
        write_run(folder, "new", ("summary.json", "model.json", "risk.parquet"), ("tables", "tables-external"))


def seen(out: Path) -> dict[str, str]:
    found = {}
    for path in out.rglob("*") if out.exists() else []:
        name = path.relative_to(out).as_posix()
        if path.is_file() and not name.startswith("."):
            found[name] = json.loads(path.read_text())["command"] if name == publishing.RECORD else path.read_text()
    return found


def fails_on_a_mistyped_key(out: Path) -> None:
    with contextlib.suppress(BadInput, OutputExists), open_run_folder(out, overwrite=True):
        raise BadInput("There is no column 'aeg'.")


def outcome(out: Path, old: dict[str, str], new: dict[str, str]) -> str:
    for name, wanted in (("old", old), ("new", new)):
        if seen(out) == wanted:
            return name
    return "neither"


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("looks", [fails_on_a_mistyped_key, finish_publishing])
def test_a_death_at_any_change_of_the_disk_keeps_the_old_result_or_has_the_new_one(
    overwrite: bool, looks: Callable[[Path], None], tmp_path: Path
) -> None:
    def prepared(name: str) -> Path:
        out = tmp_path / name
        out.mkdir()
        (out / "notes.txt").write_text("mine")
        if overwrite:
            old_run(out)
        return out

    reference = prepared("reference")
    old = seen(reference)
    new_run(reference, overwrite)
    new = seen(reference)
    assert new.keys() >= {"notes.txt", "run.json", "tables/year=2020/part-0.parquet"}
    assert "protected.csv" not in new

    outcomes = []
    for n_calls in range(1000):
        out = prepared(f"dies-{n_calls}")
        try:
            with DISK.dies_after(n_calls, out):
                new_run(out, overwrite)
            break
        except Dead:
            pass
        # A folder that holds a run record holds the complete run of that record.
        at_once = seen(out)
        assert "run.json" not in at_once or at_once in (old, new), n_calls
        # The process that finishes the move may die, too, at each of its calls.
        for again in range(1000 if looks is finish_publishing else 0):
            try:
                with DISK.dies_after(again, out):
                    looks(out)
                break
            except Dead:
                continue
        looks(out)
        outcomes.append(outcome(out, old, new))
        if looks is fails_on_a_mistyped_key:
            assert not [entry.name for entry in out.iterdir() if entry.name.startswith(".")], n_calls
    assert set(outcomes) == {"old", "new"}
    # Once the new result is complete it is never lost.
    assert outcomes == sorted(outcomes, reverse=True)
    assert len(outcomes) > 30


def test_everything_is_on_the_disk_before_the_result_is_declared_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[tuple[str, str]] = []
    fsync, rename, replace = os.fsync, os.rename, os.replace

    def place(path: Any) -> str:
        return Path(path).name

    monkeypatch.setattr(
        os, "fsync", lambda handle: (events.append(("flush", place(os.readlink(f"/proc/self/fd/{handle}")))), fsync(handle))
    )
    monkeypatch.setattr(os, "rename", lambda one, other, **_: (events.append(("rename", place(other))), rename(one, other)))
    monkeypatch.setattr(os, "replace", lambda one, other, **_: (events.append(("rename", place(other))), replace(one, other)))
    out = tmp_path / "out"
    new_run(out, overwrite=False)
    declared = next(k for k, (what, name) in enumerate(events) if what == "rename" and "complete" in name)
    flushed = {name for what, name in events[:declared] if what == "flush"}
    assert {"summary.json", "risk.parquet", "run.json", "part-0.parquet", "tables", "year=2020", ".plan"} <= flushed
    assert events[declared + 1] == ("flush", "out"), "the declaration itself reaches the disk before anything is moved"
    assert events[-1] == ("flush", "out")


# ---------------------------------------------------------------------- what may be deleted


def leave_complete_folder(out: Path, plan: dict[str, Any], *names: str) -> Path:
    left = out / ".rarecell-complete-abc"
    left.mkdir(parents=True)
    for name in names:
        (left / name).write_text("foreign")
    (left / ".plan").write_text(json.dumps(plan))
    return left


BAD_NAMES = (
    "..",
    ".",
    "",
    "../victim.txt",
    "sub/../../victim.txt",
    "notes.txt",
    "\\victim",
    "a\0b",
    7,
    None,
    ["x"],
    "tables/../../victim.txt",
)


@pytest.mark.parametrize("moved_from_elsewhere", [True, False])
def test_names_in_a_left_over_plan_reach_nothing_outside_the_results(moved_from_elsewhere: bool, tmp_path: Path) -> None:
    victim = tmp_path / "victim.txt"
    victim.write_text("precious")
    out = tmp_path / "out"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    number = -1 if moved_from_elsewhere else out.stat().st_ino
    names = [*BAD_NAMES, str(victim), str(tmp_path)]
    plan = {"folder": number, "overwrite": True, "obsolete": names, "old": names, "new": names, "files": names}
    left = leave_complete_folder(out, plan, "summary.json")
    (left / "link").symlink_to(victim)
    fails_on_a_mistyped_key(out)
    assert victim.read_text() == "precious"
    assert (out / "notes.txt").read_text() == "mine"
    assert (out / "summary.json").exists() != moved_from_elsewhere
    assert left.exists() == moved_from_elsewhere
    assert not (out / "link").exists()


@pytest.mark.parametrize("name", [".rarecell-moving-x", ".rarecell-unfinished-x", ".rarecell-complete-x"])
def test_a_link_in_place_of_a_hidden_folder_is_not_followed(name: str, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "victim.txt").write_text("precious")
    (elsewhere / ".plan").write_text(json.dumps({"folder": 0, "overwrite": True, "obsolete": ["victim.txt"]}))
    out = tmp_path / "out"
    out.mkdir()
    (out / name).symlink_to(elsewhere)
    new_run(out, overwrite=True)
    assert (elsewhere / "victim.txt").read_text() == "precious"


@pytest.mark.parametrize("files", [BAD_NAMES, "..", 5, {"..": 1}, [["summary.json"]]])
def test_names_in_a_run_record_reach_nothing_outside_the_results(files: Any, tmp_path: Path) -> None:
    victim = tmp_path / "victim.txt"
    victim.write_text("precious")
    out = tmp_path / "out"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    (out / "run.json").write_text(json.dumps({"files": list(files) if isinstance(files, tuple) else files}))
    new_run(out, overwrite=True)
    assert victim.read_text() == "precious"
    assert (out / "notes.txt").read_text() == "mine"


def test_a_link_under_the_name_of_a_result_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "victim.txt").write_text("precious")
    out = tmp_path / "out"
    out.mkdir()
    for name in ("tables", "protected.csv", "swaps.parquet", "risk.parquet"):
        (out / name).symlink_to(elsewhere)
    (out / "run.json").write_text(json.dumps({"files": ["run.json", "tables", "protected.csv", "swaps.parquet"]}))
    new_run(out, overwrite=True)
    assert (elsewhere / "victim.txt").read_text() == "precious"
    assert (out / "protected.csv").is_symlink(), "this program makes no links, so it removes none"


def test_only_names_of_results_are_published(tmp_path: Path) -> None:
    with open_run_folder(tmp_path) as folder:
        folder.write_text("thesis.docx", "")
        with pytest.raises(ValueError, match="not the name of a result"):
            folder.publish()


def test_a_file_made_since_the_kill_is_not_overwritten_by_finishing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    leave_complete_folder(out, {"folder": out.stat().st_ino, "overwrite": False, "obsolete": []}, "summary.json")
    (out / "summary.json").write_text("mine")
    with pytest.raises(OutputExists), open_run_folder(out):
        pass
    finish_publishing(out)
    assert (out / "summary.json").read_text() == "mine"


def test_a_move_that_fails_says_that_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    old_run(out)

    def fail(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(publishing.os, "replace", fail)
    with pytest.raises(NotWritten, match="complete, but could not be moved"):
        new_run(out, overwrite=True)
    monkeypatch.undo()
    finish_publishing(out)
    assert seen(out)["summary.json"] == "new"
    assert "protected.csv" not in seen(out)


# ---------------------------------------------------------------------- the input


@pytest.mark.parametrize("kind", ["direct", "link", "hard link", "inside a folder"])
def test_an_output_never_replaces_or_removes_the_input(kind: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    old_run(out)
    data = out / "protected.csv"
    if kind == "link":
        data = tmp_path / "survey.csv"
        data.symlink_to(out / "protected.csv")
    elif kind == "hard link":
        data = tmp_path / "survey.csv"
        os.link(out / "protected.csv", data)
    elif kind == "inside a folder":
        data = out / "risk.parquet" / "year=2020" / "part-0.parquet"
    before = seen(out)
    with pytest.raises(BadInput, match="would replace or remove it"), open_run_folder(out, overwrite=True, inputs=[data]):
        pass
    assert seen(out) == before
    with open_run_folder(tmp_path / "other", overwrite=True, inputs=[data]):
        pass


@pytest.mark.parametrize("what", ["released", "zeros", "hierarchy", "register"])
@pytest.mark.parametrize("when", ["at once", "saved later"])
def test_nothing_that_a_run_reads_is_replaced_by_its_results(what: str, when: str, tmp_path: Path) -> None:
    """Not the data alone: the earlier release that it is compared with, an edited list of zeros, a hierarchy, a register."""
    ages, sexes = (range(20, 60), "fm")
    rows = [f"{age},{sex}" for age in ages for sex in sexes for _ in range(1 + age % 3)]
    data = tmp_path / "survey.csv"
    data.write_text("age,sex\n" + "\n".join(rows) + "\n", encoding="utf-8")
    out = tmp_path / "out"
    options: dict[str, Any] = {"keys": ["age", "sex"], "population": 5000, "model": "single", "resolution": "full", "top": 2}
    rarecell.protect(data, out=out, **options)
    if what == "released":
        options["released"] = out
    elif what == "zeros":
        options["zeros"] = str(out / "zeros.json")
    elif what == "register":
        options["register"] = str(out / "protected.csv")
    else:
        levels = [f"{age},{age // 10}0s" for age in ages]
        (out / "recoding.csv").write_text("\n".join(levels) + "\n", encoding="utf-8")
        options["hierarchies"] = {"age": str(out / "recoding.csv")}
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}

    def run() -> None:
        if when == "at once":
            rarecell.protect(data, out=out, overwrite=True, **options)
        else:
            rarecell.protect(data, **options).save(out, overwrite=True)

    with pytest.raises(BadInput, match="is read by this run"):
        run()
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("name", [".", "run"])
def test_results_are_not_written_among_the_parts_of_the_data(name: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with pytest.raises(BadInput, match="would count as data"), open_run_folder(data / name, inputs=[data]):
        pass
    assert not list(data.iterdir())


def test_the_empty_folder_of_a_finished_move_is_removed_by_whoever_looks_next(tmp_path: Path) -> None:
    """A run that was killed after its last move has nothing left to do, and nothing to leave behind."""
    (tmp_path / ".rarecell-complete-x").mkdir(mode=0o700)
    full = tmp_path / ".rarecell-complete-y"
    full.mkdir(mode=0o700)
    (full / "notes.txt").write_text("not ours")
    finish_publishing(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == [full.name]

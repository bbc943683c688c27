"""Whatever goes wrong in a run: nothing half-written, the input untouched, one paragraph, and a rerun completes.

Run as a script, this file is the process that is killed: it forks a run for every moment at which one touches the disk.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import itertools
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyreadstat import write_sav

import rarecell as rc
from rarecell.errors import BadInput, NotWritten, RarecellError
from rarecell.progress import SILENT, SilentProgress, Stage, Stages
from rarecell.run import assess, files
from rarecell.run import folder as audit
from rarecell.run.config import ProtectConfig, RunConfig

KEYS = ("age", "sex", "region")
ROWS = [(str(i * 7 % 23), "fm"[i % 2], str(i * i % 5)) for i in range(300)]
RESULTS = {"model.json", "report.html", "risk.parquet", "run.json", "run.toml", "summary.json", "tables", "zeros.json"}


def write_csv(path: Path) -> Path:
    path.write_text("age,sex,region\n" + "".join(",".join(row) + "\n" for row in ROWS))
    return path


def write_parquet(path: Path) -> Path:
    pq.write_table(pa.table(dict(zip(KEYS, map(list, zip(*ROWS, strict=True)), strict=True))), path)
    return path


def config_for(path: Path) -> RunConfig:
    return RunConfig(input=str(path), keys=KEYS, population=3000, model="single", resolution="full", protect=ProtectConfig(top=3))


def light_report(folder: Path, *_: object, **__: object) -> None:
    """Stands in for the pictures, which take a second and touch the disk in the same way."""
    (folder / "tables").mkdir(exist_ok=True)
    (folder / "tables" / "keys.csv").write_text("key\n")
    (folder / "report.html").write_text("<p>report</p>")


def visible(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir() if not entry.name.startswith(".")} if folder.exists() else set()


def contents(folder: Path) -> dict[str, bytes]:
    """Every file by its name; of the run record, what does not depend on the clock and the machine."""
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    if "run.json" in found:
        record = json.loads(found["run.json"])
        for measured in ("seconds", "processor_seconds", "peak_memory"):
            del record[measured]
        found["run.json"] = json.dumps(record).encode()
    return found


def contents_seen(folder: Path) -> dict[str, bytes]:
    return {name: data for name, data in contents(folder).items() if not name.startswith(".")} if folder.exists() else {}


def hidden(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir() if entry.name.startswith(".")] if folder.exists() else []


# ---------------------------------------------------------------------- the process that is killed


class Disk:
    """Counts the moments at which this process changes anything below a folder, and strikes at one of them."""

    NEEDS_ROOM = ("os.rename", "os.mkdir", "tempfile.mkdtemp", "tempfile.mkstemp")
    CHANGES = (*NEEDS_ROOM, "os.chmod", "os.remove", "os.rmdir")

    def __init__(self) -> None:
        self.below: str | None = None
        self.left = 0
        self.strike: Callable[[], None] = lambda: None
        self.events = self.CHANGES
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.below is None:
            return
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if (writes or event in self.events) and self.below in str(arguments[0]):
            if self.left == 0:
                self.strike()
            self.left -= 1

    @contextlib.contextmanager
    def armed(self, below: Path, after: int, strike: Callable[[], None], events: tuple[str, ...] = CHANGES) -> Iterator[None]:
        self.below, self.left, self.strike, self.events = str(below), after, strike, events
        try:
            yield
        finally:
            self.below = None


def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def no_room() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def at_every_moment(folder: Path) -> dict[str, int]:
    """Kill a run at each of its changes to the disk, then let each fail for a full disk; returns the numbers tried."""
    source = write_csv(folder / "survey.csv")
    before = source.read_bytes()
    config = config_for(source)
    found = assess.assessed(config, Stages(SILENT))
    assess.assessed = lambda *_, **__: found  # type: ignore[assignment]
    files.write_report = light_report  # type: ignore[assignment]
    rc.assess(config, out=folder / "reference")
    reference = contents(folder / "reference")
    disk = Disk()

    def put_old_run(out: Path) -> None:
        with audit.open_run_folder(out) as old:
            for name in ("summary.json", "swaps.parquet"):
                old.write_text(name, "old")
            light_report(old.stage)
            files = (*old.names, audit.RECORD)
            old.write_text(audit.RECORD, audit.RunRecord("protect", {}, {}, 0, files=files).to_json())
            old.publish()

    def check(out: Path, *, was_there: dict[str, bytes]) -> None:
        assert source.read_bytes() == before
        left = contents_seen(out)
        if left != was_there:
            # Every file is whole, and where there is a run record the run is complete.
            assert all(data in (reference.get(name), was_there.get(name)) for name, data in left.items()), left
            assert "run.json" not in left or left == reference, left

    tried = {}
    for overwrite in (False, True):
        for number in itertools.count():
            out = folder / f"killed-{overwrite}-{number}"
            if overwrite:
                put_old_run(out)
            old = contents(out) if overwrite else {}
            child = os.fork()
            if child == 0:
                with disk.armed(out, number, kill_self):
                    rc.assess(config, out=out, overwrite=overwrite)
                os._exit(0)
            status = os.waitpid(child, 0)[1]
            if not os.WIFSIGNALED(status):
                assert os.WEXITSTATUS(status) == 0
                break
            check(out, was_there=old)
            audit.finish_publishing(out)
            assert contents_seen(out) in (old, reference), (overwrite, number)
            if not (out / "run.json").exists() or overwrite:
                rc.assess(config, out=out, overwrite=overwrite)
            with audit.open_run_folder(out, overwrite=True):
                pass
            assert contents(out) == reference, (overwrite, number)
            shutil.rmtree(out)
        tried[f"killed, overwrite={overwrite}"] = number

    for number in itertools.count():
        out = folder / f"full-{number}"
        message = ""
        try:
            with disk.armed(out, number, no_room, Disk.NEEDS_ROOM):
                rc.assess(config, out=out)
            break
        except RarecellError as problem:
            message = str(problem)
        assert "No space left on device" in message
        assert source.read_bytes() == before
        if "complete" in message:
            audit.finish_publishing(out)
        else:
            assert not visible(out), number
            rc.assess(config, out=out)
        assert contents(out) == reference
    tried["full disk"] = number
    return tried


class KillsAt(SilentProgress):
    """Ends the process some time after a stage began."""

    def __init__(self, stage: str, seconds: float) -> None:
        self.stage, self.seconds = stage, seconds

    def start(self, stage: str, total: float | None = None) -> None:
        if stage == self.stage:
            threading.Timer(self.seconds, kill_self).start()


MOMENTS = [
    (Stage.READING, 0.05),
    (Stage.JUDGEMENT, 0.02),
    (Stage.PROTECTED_FILE, 0.01),
    (Stage.REPORT, 0.02),
]


def during_stages(folder: Path) -> dict[str, int]:
    """Kill whole runs into one folder, one after the other."""
    source = write_csv(folder / "survey.csv")
    out = folder / "out"
    for stage, seconds in MOMENTS:
        child = os.fork()
        if child == 0:
            rc.protect(config_for(source), out=out, progress=KillsAt(stage, seconds))
            os._exit(0)
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1]), stage
        assert not visible(out)
    rc.protect(config_for(source), out=out)
    assert not hidden(out)
    return {"stages": len(MOMENTS)}


if __name__ == "__main__":
    print(json.dumps({"moments": at_every_moment, "stages": during_stages}[sys.argv[1]](Path(sys.argv[2]))))
    sys.stdout.flush()
    os._exit(0)


def killed(how: str, folder: Path) -> dict[str, int]:
    done = subprocess.run([sys.executable, __file__, how, str(folder)], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout)
    return found


# ---------------------------------------------------------------------- tests


def test_a_run_killed_or_out_of_room_at_any_change_of_the_disk(tmp_path: Path) -> None:
    tried = killed("moments", tmp_path)
    assert tried["killed, overwrite=False"] > 25
    assert tried["killed, overwrite=True"] > 30
    assert tried["full disk"] > 10


def test_a_run_killed_in_the_middle_of_its_stages(tmp_path: Path) -> None:
    assert killed("stages", tmp_path) == {"stages": len(MOMENTS)}


@contextlib.contextmanager
def largest_file(n_bytes: int) -> Iterator[None]:
    """Writes beyond this many bytes fail, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def _light_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "write_report", light_report)


@pytest.mark.usefixtures("_light_report")
@pytest.mark.parametrize("write", [write_csv, write_parquet])
@pytest.mark.parametrize("n_bytes", [100, 1000, 4000])
def test_a_file_that_cannot_grow_is_told_as_a_full_disk(write: Callable[[Path], Path], n_bytes: int, tmp_path: Path) -> None:
    source = write(tmp_path / f"survey.{'csv' if write is write_csv else 'parquet'}")
    before = source.read_bytes()
    out = tmp_path / "out"
    with largest_file(n_bytes), pytest.raises(NotWritten, match="out") as told:
        rc.protect(config_for(source), out=out)
    assert "File too large" in str(told.value)
    assert "cannot be read" not in str(told.value)
    assert not out.exists()
    assert source.read_bytes() == before


def cut(path: Path, share: float) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])


def zero_middle(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[200:900] = bytes(700)
    path.write_bytes(data)


def gzipped(path: Path) -> Path:
    path.write_bytes(gzip.compress(write_csv(path.with_suffix("")).read_bytes(), mtime=0))
    return path


def arrow(path: Path) -> Path:
    table = pa.table(dict(zip(KEYS, map(list, zip(*ROWS, strict=True)), strict=True)))
    with pa.OSFile(str(path), "wb") as stream, pa.ipc.new_file(stream, table.schema) as writer:
        writer.write_table(table, max_chunksize=50)
    return path


@pytest.mark.parametrize(
    ("write", "name", "damage"),
    [
        (write_parquet, "survey.parquet", lambda path: cut(path, 0.7)),
        (write_parquet, "survey.parquet", zero_middle),
        (gzipped, "survey.csv.gz", lambda path: cut(path, 0.7)),
        (gzipped, "survey.csv.gz", lambda path: path.write_bytes(path.read_bytes()[:-4] + b"\0\0\0\0")),
        (arrow, "survey.arrow", lambda path: cut(path, 0.7)),
        (write_csv, "survey.csv", lambda path: path.write_bytes(path.read_bytes()[:-3])),
        (write_csv, "survey.csv", lambda path: path.write_bytes(path.read_bytes() + b"\0\0\0\0\0\0\n")),
        (write_csv, "survey.csv", lambda path: (path.unlink(), path.mkdir())),
        (write_csv, "survey.csv", lambda path: path.unlink()),
    ],
)
def test_a_damaged_input_is_refused_with_its_name(
    write: Callable[[Path], Path], name: str, damage: Callable[[Path], Any], tmp_path: Path
) -> None:
    source = write(tmp_path / name)
    damage(source)
    with pytest.raises(BadInput, match="survey"):
        rc.assess(config_for(source), out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_input_is_refused_with_its_name(tmp_path: Path) -> None:
    source = write_csv(tmp_path / "survey.csv")
    source.chmod(0)
    with pytest.raises(BadInput, match=r"survey\.csv cannot be read: Permission denied"):
        rc.assess(config_for(source), out=tmp_path / "out")


class AtStage(SilentProgress):
    """Does something when a stage begins."""

    def __init__(self, stage: str, act: Callable[[], None]) -> None:
        self.stage, self.act = stage, act

    def start(self, stage: str, total: float | None = None) -> None:
        if stage == self.stage:
            self.act()


def test_an_input_that_changes_during_the_run_is_refused(tmp_path: Path) -> None:
    source = write_csv(tmp_path / "survey.csv")

    def grow() -> None:
        with source.open("a") as stream:
            stream.write("99,f,4\n")

    with pytest.raises(BadInput, match="changed while"):
        rc.protect(config_for(source), out=tmp_path / "out", progress=AtStage(Stage.PLAN, grow))
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("_light_report")
def test_a_second_run_into_the_same_folder_is_refused_and_the_first_completes(tmp_path: Path) -> None:
    source = write_csv(tmp_path / "survey.csv")
    out = tmp_path / "out"
    refused = []

    def second() -> None:
        with pytest.raises(BadInput, match="Another run is writing into") as told:
            rc.assess(config_for(source), out=out, overwrite=True)
        refused.append(told.value)

    for stage in (Stage.JUDGEMENT, Stage.REPORT):
        rc.assess(config_for(source), out=out, overwrite=True, progress=AtStage(stage, second))
        assert visible(out) == RESULTS
        assert not hidden(out)
    assert len(refused) == 2


def test_a_lock_on_a_file_that_was_taken_away_keeps_nobody_out_and_is_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    locked = fcntl.flock
    taken_away = []

    def flock(handle: int, operation: int) -> None:
        locked(handle, operation)
        if not taken_away:
            # The run before ends between our opening of its lock file and our lock on it.
            taken_away.append(handle)
            (tmp_path / ".rarecell.lock").unlink()

    monkeypatch.setattr(fcntl, "flock", flock)
    with audit.open_run_folder(tmp_path):
        assert (tmp_path / ".rarecell.lock").exists()
        with pytest.raises(BadInput, match="Another run"), audit.open_run_folder(tmp_path):
            pass


@pytest.mark.usefixtures("_light_report")
def test_overwriting_leaves_nothing_of_the_run_before(tmp_path: Path) -> None:
    source = write_csv(tmp_path / "survey.csv")
    out = tmp_path / "out"
    rc.protect(config_for(source), out=out)
    (out / "notes.txt").write_text("mine")
    rc.assess(config_for(source), out=out, overwrite=True)
    assert visible(out) == {*RESULTS, "notes.txt"}


def put_run(out: Path, write: Callable[[audit.RunFolder], None]) -> None:
    with audit.open_run_folder(out, overwrite=True) as folder:
        write(folder)
        record = audit.RunRecord("assess", {}, {}, 0, files=(*folder.names, audit.RECORD))
        folder.write_text(audit.RECORD, record.to_json())
        folder.publish()


def with_folder(folder: audit.RunFolder) -> None:
    inner = folder.path("risk.parquet") / "year=2020"
    inner.mkdir(parents=True)
    (inner / "part-0.parquet").write_text("new")
    (folder.path("risk.parquet") / "_SUCCESS").touch()


def with_file(folder: audit.RunFolder) -> None:
    folder.write_text("risk.parquet", "file")


def test_a_folder_of_parts_is_a_result_like_a_file(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for write in (with_folder, with_file, with_folder, with_folder):
        put_run(out, write)
        assert visible(out) == {"risk.parquet", "run.json"}
        assert (out / "risk.parquet").is_dir() == (write is with_folder)
        if write is with_folder:
            path = out / "risk.parquet" / "year=2020" / "part-0.parquet"
            assert path.read_text() == "new"
            assert path.stat().st_mode & 0o777 == 0o600
            assert path.parent.stat().st_mode & 0o777 == 0o700
        assert not hidden(out)


@pytest.mark.parametrize("strikes_at", ["run.json", "risk.parquet"])
@pytest.mark.parametrize("before", [with_folder, with_file])
def test_a_folder_of_parts_whose_move_fails_is_moved_by_the_next_look(
    before: Callable[[audit.RunFolder], None], strikes_at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    put_run(out, before)
    replace = os.replace

    def fail(source: Any, target: Any) -> None:
        if Path(target).name == strikes_at:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(target))
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(NotWritten, match="complete, but could not be moved"):
        put_run(out, with_folder)
    assert "run.json" not in visible(out)
    monkeypatch.undo()
    audit.finish_publishing(out)
    assert visible(out) == {"risk.parquet", "run.json"}
    assert (out / "risk.parquet").is_dir()
    assert not hidden(out)


@pytest.mark.parametrize(
    "name", ["ragged.csv", "ragged16.csv", "cut.csv.gz", "cut.parquet", "cut.dta", "cut.sav", "cut.xlsx", "odd.xlsx"]
)
def test_errors_name_the_file_of_the_user_and_no_copy_of_it(name: str, tmp_path: Path) -> None:
    people = pd.DataFrame({"a": np.arange(60) % 9, "b": ["x", "ü"] * 30})
    text = people.to_csv(index=False, sep=";")
    path = tmp_path / name
    if name.startswith("ragged"):
        path.write_bytes((text + '1;2;3;4\n"open;2\n').encode("utf-16" if "16" in name else "latin-1"))
    elif name == "cut.csv.gz":
        path.write_bytes(gzip.compress(text.encode("latin-1"))[:-40])
    elif name == "odd.xlsx":
        pd.DataFrame([["a", "a"], [1, 2]]).to_excel(path, index=False, header=False)
    else:
        write = {
            ".parquet": people.to_parquet,
            ".xlsx": partial(people.to_excel, index=False),
            ".sav": partial(write_sav, people),
        }
        write.get(path.suffix, partial(people.to_stata, write_index=False))(path)
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadInput) as told:
        rc.assess(path, keys=["a", "b"], population=900)
    named = re.findall(r"(?:/[\w.-]+)+", str(told.value))
    assert named
    assert set(named) == {str(path)}

"""What differs between systems lies in one module, and the package works when it plays Windows."""

from __future__ import annotations

import ast
import ctypes
import gc
import io
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import rarecell
from rarecell.errors import BadInput
from rarecell.machine import system
from rarecell.machine.disk import flush_tree, private_folder, remove_stale_folders
from rarecell.machine.memory import free_memory, machine_memory
from rarecell.run.folder import open_run_folder

PACKAGE = Path(rarecell.__file__).parent
SYSTEM_ONLY = {
    *("fcntl", "msvcrt", "windll", "fsync", "geteuid", "getuid", "fork", "killpg", "setsid"),
    *("sched_getaffinity", "sysconf", "platform", "O_NOFOLLOW", "startfile"),
}


class FakeMsvcrt:
    """Locks as Windows has them: by descriptor, one byte, refused with OSError, gone when the file is closed."""

    LK_NBLCK = 2

    def __init__(self) -> None:
        self.held: dict[tuple[int, int], int] = {}

    def locking(self, handle: int, mode: int, n_bytes: int) -> None:
        assert (mode, n_bytes) == (self.LK_NBLCK, 1)
        status = os.fstat(handle)
        holder = self.held.get((status.st_dev, status.st_ino))
        # Numbers of closed descriptors and removed files are given out again.
        if holder not in (None, handle) and _is_open(holder, status):
            raise PermissionError(13, "Permission denied")
        self.held[status.st_dev, status.st_ino] = handle


def _is_open(handle: int | None, status: os.stat_result) -> bool:
    try:
        return handle is not None and os.path.samestat(os.fstat(handle), status)
    except OSError:
        return False


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeMsvcrt:
    """The package as it runs on Windows: no fcntl, no owners, no flags that Windows lacks.

    The temporary folder is asked for first, since pytest itself asks for its owner.
    """
    locks = FakeMsvcrt()
    monkeypatch.setattr(system, "IS_WINDOWS", True)
    monkeypatch.setattr(system, "NO_FOLLOW", 0)
    monkeypatch.setitem(sys.modules, "msvcrt", locks)
    monkeypatch.setitem(sys.modules, "fcntl", None)
    for name in ("geteuid", "getuid", "sched_getaffinity", "sysconf", "O_DIRECTORY"):
        monkeypatch.delattr(os, name)
    return locks


def _names_of_systems(path: Path) -> set[str]:
    """Names in a module that exist on some systems only, and questions which system it is."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and node.attr in SYSTEM_ONLY:
            found.add(node.attr)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.name for alias in node.names} & (SYSTEM_ONLY - {"platform"})
        elif (
            isinstance(node, ast.Attribute) and node.attr == "name" and isinstance(node.value, ast.Name) and node.value.id == "os"
        ):
            found.add("os.name")
    return found


def test_only_one_module_asks_which_system_it_is() -> None:
    asking = {str(p.relative_to(PACKAGE)): _names_of_systems(p) for p in PACKAGE.rglob("*.py")}
    assert {name for name, found in asking.items() if found} == {"machine/system.py"}


@pytest.mark.usefixtures("windows")
def test_a_run_folder_on_windows_keeps_a_second_run_out(tmp_path: Path) -> None:
    with open_run_folder(tmp_path / "run") as folder:
        folder.write_text("run.json", "{}")
        with pytest.raises(BadInput, match="Another run is writing"), open_run_folder(tmp_path / "run"):
            pass
        folder.publish()
    assert [p.name for p in (tmp_path / "run").iterdir()] == ["run.json"]
    with open_run_folder(tmp_path / "run", overwrite=True):
        pass


@pytest.mark.usefixtures("windows")
def test_private_folders_on_windows_vanish_with_their_owner_and_others_stay(tmp_path: Path) -> None:
    class Owner:
        pass

    owner, other = Owner(), Owner()
    folder, stays = private_folder(owner, tmp_path), private_folder(other, tmp_path)
    remove_stale_folders(tmp_path)
    assert folder.exists()
    del owner
    gc.collect()
    assert not folder.exists()
    assert stays.exists(), "it is in use"


@pytest.mark.usefixtures("windows")
def test_flushing_on_windows_opens_files_for_writing_and_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "file").write_text("x")
    opened: list[tuple[Any, int]] = []
    really = os.open

    def watched(path: Any, flags: int, *rest: Any) -> int:
        opened.append((Path(path).name, flags))
        return really(path, flags, *rest)

    monkeypatch.setattr(os, "open", watched)
    flush_tree(tmp_path)
    assert opened == [("file", os.O_RDWR)]


@pytest.mark.usefixtures("windows")
def test_memory_and_cores_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine_memory() == 4 << 30, "no answer from the system"
    assert system.n_cores() == os.cpu_count()

    def status(pointer: Any) -> int:
        asked = pointer._obj
        assert asked.length == ctypes.sizeof(asked) == 64
        asked.total, asked.free = 16 << 30, 3 << 30
        return 1

    monkeypatch.setattr(ctypes, "windll", SimpleNamespace(kernel32=SimpleNamespace(GlobalMemoryStatusEx=status)), raising=False)
    assert machine_memory() == 16 << 30
    assert free_memory() == 3 << 30


def test_this_system_tells_its_memory() -> None:
    assert system.physical_memory() is None or machine_memory() == system.physical_memory()
    assert system.n_cores() >= 1


def test_a_pipe_of_windows_takes_every_character(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.TextIOWrapper(io.BytesIO(), encoding="cp1252")
    monkeypatch.setattr(sys, "stdout", pipe)
    system.make_output_printable()
    print("95 % – ≠")
    pipe.flush()
    assert pipe.buffer.getvalue() == b"95 % \x96 ?" + os.linesep.encode()  # type: ignore[attr-defined]


def test_a_python_that_numba_does_not_support_is_told_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "numba").mkdir()
    (tmp_path / "numba" / "__init__.py").write_text(
        "raise ImportError('Numba needs Python 3.13 or older. Got Python 3.19.')", encoding="utf-8"
    )
    (tmp_path / "a.csv").write_text("age,sex\n1,2\n3,4\n", encoding="utf-8")
    words = ["assess", str(tmp_path / "a.csv"), "--keys", "age,sex", "--population", "10"]
    script = f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nfrom rarecell.cli import main\nmain({words!r})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "numba, which cannot be loaded by this Python" in done.stderr
    assert "Got Python 3.19); a Python newer than numba supports" in done.stderr
    assert done.stderr.count("\n") == 1

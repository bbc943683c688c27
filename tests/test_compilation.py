"""Who watches is told of a compilation, and of nothing that comes from the cache; a second process helps."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest
from numba import njit

from rarecell._kernels import compiled
from rarecell._kernels.compiled import when_compiling
from rarecell.machine.compiled_code import discard_outdated


def test_the_first_compilation_is_told_once_and_the_cache_is_not() -> None:
    @njit
    def one_more(number):  # type: ignore[no-untyped-def]
        return number + 1

    told: list[str] = []
    with when_compiling(lambda: told.append("compiling")):
        assert one_more(1) == 2
        assert one_more(1.5) == 2.5
    assert told == ["compiling"]
    with when_compiling(lambda: told.append("again")):
        one_more(2)
    assert told == ["compiling"]


def _loaded() -> dict[str, set[object]]:
    """Signatures of the compiled loops that later steps use; those that count margins are used from the first step on."""
    modules = [
        importlib.import_module(f"rarecell._kernels.{name}") for name in ("margins", "backoff", "chordal", "gamma", "unsafe")
    ]
    return {
        f"{module.__name__}.{name}": set(loop.signatures)
        for module in modules
        for name, loop in vars(module).items()
        if hasattr(loop, "signatures") and (module.__name__ != "rarecell._kernels.margins" or name == "one_plus_pairs")
    }


COMPARE = """
import sys, rarecell as rc
from rarecell import datasets
from rarecell.run.rehearsal import _rehearse_later_steps
from tests.test_compilation import _loaded
_rehearse_later_steps()
rehearsed = _loaded()
rc.assess(datasets.census_sample_path(), keys=datasets.CENSUS_KEYS, population=datasets.CENSUS_POPULATION)
print(sum(map(len, rehearsed.values())), sorted(name for name, found in _loaded().items() if found - rehearsed[name]))
"""


def test_a_rehearsal_compiles_the_loops_of_the_later_steps_as_a_run_uses_them() -> None:
    done = subprocess.run([sys.executable, "-c", COMPARE], capture_output=True, text=True, check=True)
    n_rehearsed, new = done.stdout.split(maxsplit=1)
    assert int(n_rehearsed) > 10
    assert new.strip() == "[]"


def test_a_second_process_compiles_until_the_block_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started, temporary = tmp_path / "started", tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    (tmp_path / "endless.py").write_text(
        "import os, pathlib, tempfile, time\nfolder = tempfile.TemporaryDirectory()\n"
        f"pathlib.Path({str(started)!r}).write_text(str(os.getpid()))\ntime.sleep(600)\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(compiled, "n_cores", lambda: 2)
    with compiled.second_compiler("endless"):
        while not started.exists() or not started.read_text(encoding="utf-8"):
            time.sleep(0.01)
        process = psutil.Process(int(started.read_text(encoding="utf-8")))
        assert process.is_running()
        assert len(list(temporary.rglob("*"))) == 2
    assert not process.is_running()
    # What it had in the temporary folder is gone with it.
    assert list(temporary.iterdir()) == []
    started.unlink()
    monkeypatch.setattr(compiled, "n_cores", lambda: 1)
    before = psutil.Process().children()
    with compiled.second_compiler("endless"):
        assert psutil.Process().children() == before


def test_compiled_code_of_other_files_is_discarded(tmp_path: Path) -> None:
    sources, compiled_code = tmp_path / "sources", tmp_path / "compiled"
    sources.mkdir()
    (sources / "loops.py").write_text("one = 1\n", encoding="utf-8")
    discard_outdated(compiled_code, sources)
    (compiled_code / "loops.f-1.nbi").write_bytes(b"index")
    (compiled_code / "loops.f-1.1.nbc").write_bytes(b"code")
    (compiled_code / "other.pyc").write_bytes(b"not ours")
    discard_outdated(compiled_code, sources)
    assert len(list(compiled_code.glob("*.nb?"))) == 2
    # A loop in another file has changed: what calls it is outdated, too.
    (sources / "called.py").write_text("two = 2\n", encoding="utf-8")
    discard_outdated(compiled_code, sources)
    assert not list(compiled_code.glob("*.nb?"))
    assert (compiled_code / "other.pyc").exists()


def test_an_update_does_not_stumble_over_compiled_code_of_the_version_before(tmp_path: Path) -> None:
    """An index can name a file that the new version no longer has, which numba meets while reading it."""
    script = "from rarecell._kernels.gamma import log_gammas; import numpy as np; print(log_gammas(np.array([1.0])))"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "[0.]"
        indices = list(tmp_path.rglob("*.nbi"))
        assert indices
        for index in indices:
            index.write_bytes(b"crarecell._kernels.gone\nThing\n.")
        for stamp in tmp_path.rglob("*.stamp"):
            stamp.write_text("another version", encoding="ascii")

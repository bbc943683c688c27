"""An environment that has the built wheel and what the wheel says it needs, and nothing of the repository.

The distributions that the wheel requires are linked from the environment that runs the tests, so that no network is
needed and nothing is copied; what the wheel forgets to require is missing.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]


def built(folder: Path) -> tuple[Path, Path]:
    """The source distribution, and the wheel that is built from it alone."""
    build = [sys.executable, "-m", "hatchling", "build"]
    subprocess.run([*build, "--target", "sdist", "--directory", str(folder)], cwd=ROOT, check=True, capture_output=True)
    (source,) = folder.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        # The first releases of Python 3.11 do not know the filter; the archive is our own.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # type: ignore[assignment]
        archive.extractall(folder / "unpacked")
    (unpacked,) = (folder / "unpacked").iterdir()
    subprocess.run([*build, "--target", "wheel", "--directory", str(folder)], cwd=unpacked, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return source, wheel


def requirements_of(wheel: Path) -> list[str]:
    """What the wheel says it needs, with its extras."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return HeaderParser().parsestr(archive.read(name).decode()).get_all("Requires-Dist", [])


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def closure(requirements: Iterable[str], extras: Iterable[str] = ()) -> dict[str, importlib.metadata.Distribution]:
    """The installed distributions that these requirements bring in, and what those bring in."""
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = [(Requirement(text), {"", *extras}) for text in requirements]
    while waiting:
        wanted, chosen = waiting.pop()
        if wanted.marker is not None and not any(wanted.marker.evaluate({"extra": extra}) for extra in chosen):
            continue
        name = canonical(wanted.name)
        if name in found:
            continue
        found[name] = importlib.metadata.distribution(wanted.name)
        waiting += [(Requirement(text), {"", *wanted.extras}) for text in found[name].requires or ()]
    return found


@dataclass(frozen=True)
class Environment:
    """A Python with packages of its own; ``run`` calls it with nothing else on the path."""

    place: Path
    work: Path

    @property
    def python(self) -> Path:
        return self.place / ("Scripts" if os.name == "nt" else "bin") / "python"

    @property
    def command(self) -> Path:
        return self.python.with_name("rarecell")

    @property
    def packages(self) -> Path:
        return Path(sysconfig.get_path("purelib", "venv", vars={"base": str(self.place), "platbase": str(self.place)}))

    @property
    def compiled(self) -> set[str]:
        """The names of the compiled loops that it holds."""
        return {path.name for path in (self.packages / "rarecell" / "_kernels" / "__pycache__").glob("*.nbc")}

    @property
    def variables(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("LANG", "LC_ALL", "SYSTEMROOT", "TMPDIR") if name in os.environ}
        return {**kept, "PATH": str(self.python.parent), "HOME": str(self.work)}

    def run(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(word) for word in words],
            cwd=self.work,
            env=self.variables,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
            timeout=600,
        )


def fresh(folder: Path, wheel: Path, *, extras: Iterable[str] = ()) -> Environment:
    """A new environment with the wheel installed."""
    (folder / "work").mkdir()
    made = Environment(folder / "environment", folder / "work")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(made.place)], check=True)
    for distribution in closure(requirements_of(wheel), extras).values():
        for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            link = made.packages / top
            if not link.exists():
                link.symlink_to(Path(str(distribution.locate_file(top))))
    install = [sys.executable, "-m", "pip", "--python", str(made.python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*install, str(wheel)], check=True, capture_output=True)
    _lend_compiled_kernels(made.packages / "rarecell" / "_kernels")
    return made


def _lend_compiled_kernels(kernels: Path) -> None:
    """Spare the new environment a minute of compilation, where this one has done it for the same source.

    The stamp says which source that was; without it, whatever is there is thrown away.
    """
    own = ROOT / "src" / "rarecell" / "_kernels"
    (kernels / "__pycache__").mkdir(exist_ok=True)
    for compiled in [*(own / "__pycache__").glob("*.nb?"), *(own / "__pycache__").glob("*.stamp")]:
        shutil.copy2(compiled, kernels / "__pycache__")
    for source in own.glob("*.py"):
        status = source.stat()
        os.utime(kernels / source.name, ns=(status.st_atime_ns, status.st_mtime_ns))

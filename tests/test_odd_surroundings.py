"""What surrounds a run may be odd: no installation, an input that is replaced, private copies left by a killed run, a closed
output. A run then gives its results or one paragraph, and leaves nothing behind."""

from __future__ import annotations

import errno
import importlib.metadata
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import rarecell as rc
from rarecell.cli import main
from rarecell.datasets import census_sample
from rarecell.engine import places
from rarecell.errors import BadInput, NotWritten
from rarecell.machine.disk import remove_stale_folders
from rarecell.progress import SilentProgress
from rarecell.run.folder import RunRecord, open_finished_run, open_run_folder
from rarecell.swap import apply

ASSESS = ["--keys", "age,sex", "--population", "5000", "--quiet"]


@pytest.fixture
def people(tmp_path: Path) -> Path:
    rng = np.random.default_rng(2)
    lines = [f"{age},{'fm'[sex]}" for age, sex in zip(rng.integers(20, 60, 300), rng.integers(0, 2, 300), strict=True)]
    path = tmp_path / "people.csv"
    path.write_text("age,sex\n" + "\n".join(lines) + "\n")
    return path


def test_a_source_tree_that_is_not_installed_writes_its_results(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = importlib.metadata.version

    def version(name: str) -> str:
        if name == "rarecell":
            raise importlib.metadata.PackageNotFoundError(name)
        return installed(name)

    monkeypatch.setattr("importlib.metadata.version", version)
    monkeypatch.setattr("rarecell.run.folder.version", version, raising=False)
    out = people.parent / "run"
    done = CliRunner().invoke(main, ["assess", str(people), *ASSESS, "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert rc.__version__ in (out / "run.json").read_text()


def test_an_input_is_hashed_when_a_run_begins_and_when_it_ends(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[Path] = []
    hash_of = places.file_hash
    monkeypatch.setattr(places, "file_hash", lambda path: hashed.append(path) or hash_of(path))
    done = CliRunner().invoke(main, ["assess", str(people), *ASSESS, "--out", str(people.parent / "run")])
    assert done.exit_code == 0, done.output
    assert hashed == [people] * 2


def test_an_input_that_is_replaced_is_named_whatever_its_size_and_time(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The values of two records are exchanged in place, and the time is set back, before the file is written."""
    changes_of = apply.changes_of

    def replaced(*given: Any) -> Any:
        before, status = people.read_text().splitlines(), people.stat()
        people.write_text("\n".join([before[0], *sorted(before[1:])]) + "\n")
        os.utime(people, ns=(status.st_atime_ns, status.st_mtime_ns))
        return changes_of(*given)

    monkeypatch.setattr(apply, "changes_of", replaced)
    with pytest.raises(BadInput, match="changed while it was being worked on"):
        rc.protect(people, keys=["age", "sex"], population=5000, top=5, out=people.parent / "run")
    assert not (people.parent / "run").exists()


def test_an_input_that_is_replaced_while_a_twin_is_drawn_is_named(people: Path) -> None:
    """In place, with the same size and time: only the contents tell."""

    class Replaces(SilentProgress):
        def start(self, stage: str, total: float | None = None) -> None:
            before, status = people.read_text().splitlines(), people.stat()
            people.write_text("\n".join([before[0], *sorted(before[1:])]) + "\n")
            os.utime(people, ns=(status.st_atime_ns, status.st_mtime_ns))

    with pytest.raises(BadInput, match="changed while it was being worked on"):
        rc.synthesise(people, columns=["age", "sex"], measure=False, out=people.parent / "twin", progress=Replaces())
    assert not (people.parent / "twin").exists()


@pytest.mark.parametrize("to", [">&-", "2>&-", ">/dev/full", "2>/dev/full", "<&- >&- 2>&-"])
def test_results_are_written_when_nothing_can_be_printed(people: Path, tmp_path: Path, to: str) -> None:
    out = tmp_path / "run"
    words = [sys.executable, "-m", "rarecell", "assess", str(people), *ASSESS[:-1], "--out", str(out)]
    # What a killed run left behind is removed with a word on stderr, which must not end the run either.
    temporary = tmp_path / "temporary"
    (temporary / "rarecell-private-left").mkdir(parents=True)
    environment = {**os.environ, "PYTHONPATH": str(Path(rc.__file__).parents[1]), "TMPDIR": str(temporary)}
    done = subprocess.run(["sh", "-c", f"{shlex.join(words)} {to}"], env=environment, capture_output=True, text=True, check=False)
    assert not [*temporary.iterdir()]
    assert "Traceback" not in done.stderr
    assert done.returncode == ("/dev/full" in to)
    assert (out / "report.html").exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("words", ["--version", "--help", "assess --help"])
def test_help_that_cannot_be_printed_is_told_in_one_line(words: str) -> None:
    command = f"{shlex.join([sys.executable, '-m', 'rarecell'])} {words}"
    environment = {**os.environ, "PYTHONPATH": str(Path(rc.__file__).parents[1])}
    for end, code, n_lines in ((">/dev/full", 1, 1), ("| true; exit ${PIPESTATUS[0]}", 0, 0)):
        done = subprocess.run(["bash", "-c", f"{command} {end}"], env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr.count("\n")) == (code, n_lines), done.stderr


@pytest.mark.parametrize("limit", [700_000, 1_000_000, 2_000_000])
def test_too_little_memory_is_said_in_one_paragraph(people: Path, tmp_path: Path, limit: int) -> None:
    words = shlex.join([sys.executable, "-m", "rarecell", "assess", str(people), *ASSESS, "--out", str(tmp_path / "run")])
    environment = {**os.environ, "PYTHONPATH": str(Path(rc.__file__).parents[1])}
    done = subprocess.run(
        ["sh", "-c", f"ulimit -v {limit}; {words}"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("rarecell: This session may use only")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_no_more_threads_are_said_in_one_paragraph(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", start)
    done = CliRunner().invoke(main, ["assess", str(people), *ASSESS])
    assert done.exit_code == 1
    assert "no more memory or threads" in done.output


@pytest.mark.parametrize(
    "variable", ["NUM_THREADS=0", "NUM_THREADS=-3", "NUM_THREADS=abc", "NUM_THREADS=", "OPT=9", "CACHE_LOCATOR_CLASSES=Nowhere"]
)
def test_what_numba_cannot_be_set_up_with_is_told_in_one_paragraph(variable: str, people: Path) -> None:
    name, _, value = f"NUMBA_{variable}".partition("=")
    out = people.parent / "run"
    words = [sys.executable, "-m", "rarecell", "assess", str(people), *ASSESS, "--out", str(out)]
    environment = {**os.environ, "PYTHONPATH": str(Path(rc.__file__).parents[1]), name: value}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("rarecell: numba, which compiles rarecell's loops, cannot be set up: ")
    assert name in done.stderr
    assert done.stderr.count("\n") == 1
    assert not out.exists()


def test_a_damaged_file_of_settings_for_numba_is_told_in_one_paragraph(people: Path) -> None:
    pytest.importorskip("yaml")
    (people.parent / ".numba_config.yaml").write_text("{{{{")
    words = [sys.executable, "-m", "rarecell", "assess", str(people), *ASSESS]
    environment = {**os.environ, "PYTHONPATH": str(Path(rc.__file__).parents[1])}
    done = subprocess.run(words, env=environment, cwd=people.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert ".numba_config.yaml" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_computer_without_room_for_temporary_files_is_told_in_one_paragraph(
    people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container whose disk is read-only: what needs no temporary file works, the rest says what is missing."""
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("tempfile._candidate_tempdir_list", list)
    assert remove_stale_folders() == 0
    assert CliRunner().invoke(main, ["describe", str(people)]).exit_code == 0
    done = CliRunner().invoke(main, ["assess", "--sql", f"SELECT * FROM '{people}'", *ASSESS])
    assert done.exit_code == 1, done.output
    assert done.output.startswith("rarecell: There is no folder for temporary files")
    assert done.output.count("\n") == 1


def test_a_full_folder_for_temporary_files_is_told_in_one_paragraph(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: Any) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/full")

    monkeypatch.setattr("tempfile.mkdtemp", full)
    done = CliRunner().invoke(main, ["assess", "--sql", f"SELECT * FROM '{people}'", *ASSESS])
    assert done.exit_code == 1, done.output
    assert "No space left on device" in done.output
    assert "TMPDIR" in done.output
    assert "Traceback" not in done.output


def test_a_finished_run_on_a_read_only_disk_takes_no_further_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``handover`` would add them."""
    record = RunRecord("protect", {"rarecell": "0"}, {}, 0, files=("run.json",)).to_json()
    with open_run_folder(tmp_path / "run") as folder:
        folder.write_text("run.json", record)
        folder.publish()
    opened = os.open

    def read_only(path: Any, flags: int, *given: Any, **named: Any) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return opened(path, flags, *given, **named)

    monkeypatch.setattr("os.open", read_only)
    with pytest.raises(NotWritten, match="Read-only file system"), open_finished_run(tmp_path / "run"):
        pass
    assert [entry.name for entry in (tmp_path / "run").iterdir()] == ["run.json"]


def test_a_folder_for_results_that_becomes_a_file_is_told_in_one_paragraph(tmp_path: Path) -> None:
    out = tmp_path / "results"

    def written() -> None:
        with open_run_folder(out / "run") as folder:
            shutil.rmtree(out)
            out.write_text("not mine")
            folder.write_text("run.json", "{}")

    with pytest.raises(NotWritten, match="could not be written"):
        written()
    assert out.read_text() == "not mine"


def test_private_copies_of_a_killed_run_are_removed_at_the_next_start(people: Path, tmp_path: Path) -> None:
    """Whatever the format of the file that the next run reads, and told in its log."""
    private = tmp_path / "private"
    private.mkdir()
    environment = {**os.environ, "TMPDIR": str(private), "PYTHONPATH": str(Path(rc.__file__).parents[1])}
    kill = (
        "import os, signal, duckdb\n"
        "from rarecell.engine import open_source\n"
        f"source = open_source(None, sql=\"SELECT * FROM '{people}'\")\n"
        "source.n_rows\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", kill], env=environment, check=False)
    assert list(private.glob("rarecell-private-*/records.parquet")), "the copy that the killed run left"
    table = census_sample().slice(0, 400)
    pq.write_table(table, tmp_path / "a.parquet")
    words = ["describe", str(tmp_path / "a.parquet")]
    done = subprocess.run(
        [sys.executable, "-m", "rarecell", *words], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not list(private.glob("rarecell-private-*/records.parquet"))
    assert "left behind" in done.stderr


@pytest.mark.slow
def test_locale_time_zone_and_number_of_cores_change_nothing(tmp_path: Path) -> None:
    """Turkish has two letters i, German writes numbers with commas, a day is another one elsewhere, and threads take turns."""
    path = tmp_path / "people.csv"
    rng = np.random.default_rng(4)
    rows = zip(
        rng.choice(["Iğdır", "istanbul", "İzmir", "ısparta"], 200),
        rng.integers(20, 50, 200),
        rng.integers(0, 6, 200),
        strict=True,
    )
    lines = [
        f"{town},{age},2024-03-31 0{hour}:30:00,{'iI'[age % 2]},{1.5 + len(town)},{row // 2}"
        for row, (town, age, hour) in enumerate(rows)
    ]
    path.write_text("İl,age,when,ağrı,ağırlık,ev\n" + "\n".join(lines) + "\n", encoding="utf-8")
    script = (
        "import locale, os, sys\nsys.argv[2] and locale.setlocale(locale.LC_ALL, sys.argv[2])\n"
        "sys.argv[3] and os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])\nimport rarecell as rc\n"
        "options = dict(seed=4, accept_leak=['ev', 'ağırlık'], out=sys.argv[4] + '/protected')\n"
        "rc.protect(sys.argv[1], keys=['İl', 'age', 'when'], weight='ağırlık', rake=True, top=5, sensitive=['ağrı'], l_diversity=2, "
        "recode={'İl': 'first 2 characters', 'age': '4 groups'}, cluster=['ev'], **options)\n"
        "rc.synthesise(sys.argv[1], columns=['İl', 'age'], household='ev', seed=4, measure=False, out=sys.argv[4] + '/twin')\n"
    )
    places = {
        "as-it-is": ("", "", "UTC"),
        "elsewhere": ("tr_TR.UTF-8", "one core", "Asia/Tokyo"),
        "here": ("de_DE.UTF-8", "", "UTC"),
    }
    for name, (language, core, zone) in places.items():
        environment = {**os.environ, "TZ": zone, "LOCPATH": str(tmp_path)}
        made = ["localedef", "-i", language.partition(".")[0], "-f", "UTF-8", str(tmp_path / language)]
        if language and (shutil.which("localedef") is None or subprocess.run(made, capture_output=True, check=False).returncode):
            pytest.skip(f"the locale {language} cannot be made here")
        command = [sys.executable, "-c", script, str(path), language, core, str(tmp_path / name)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    for name in ("elsewhere", "here"):
        for file in (*(f"protected/{name}" for name in ("protected.csv", "risk.parquet", "recoding.csv")), "twin/twin.csv"):
            assert (tmp_path / name / file).read_bytes() == (tmp_path / "as-it-is" / file).read_bytes(), (name, file)

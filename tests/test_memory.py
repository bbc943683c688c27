"""Memory is stated before a run, and kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rarecell.errors import BadInput, TooLarge
from rarecell.machine.memory import MemoryLimit, machine_memory
from rarecell.run.assessment import read
from rarecell.run.config import RunConfig
from rarecell.run.forecast import forecast

KEYS = ("region", "age", "job", "sex")

# Not ru_maxrss, which begins with what the parent process used.
MEASURED = """
import sys
from pathlib import Path
import rarecell as rc
from rarecell.run.config import RunConfig
rc.assess(RunConfig.read(sys.argv[1]), out=sys.argv[2])
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(int(peak.split()[1]) * 1024)
"""


@pytest.fixture
def many_cells(tmp_path: Path) -> RunConfig:
    rng = np.random.default_rng(0)
    columns = {key: rng.integers(0, n, 150_000) for key, n in zip(KEYS, (200, 80, 40, 2), strict=True)}
    pq.write_table(pa.table(columns), tmp_path / "many.parquet")
    return RunConfig(input=str(tmp_path / "many.parquet"), keys=KEYS, population=10**7)


@pytest.mark.parametrize(("text", "n_bytes"), [("4GB", 4e9), ("1.5 gb", 1.5e9), ("2GiB", 2**31), ("4000MB", 4e9)])
def test_sizes_are_read_with_their_unit(text: str, n_bytes: float) -> None:
    assert MemoryLimit.of(text).total == n_bytes


@pytest.mark.parametrize("text", ["4", "GB", "4 elephants", "-4GB", "10MB", ""])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="memory was given as"):
        RunConfig(input="x", keys=("a",), population=10, memory=text)


def test_half_of_the_machine_unless_given() -> None:
    limit = MemoryLimit.of()
    assert limit.total == max(10**9, machine_memory() // 2)
    assert limit.engine <= limit.total // 2
    assert limit.codes <= limit.total // 8


def test_a_run_that_would_not_keep_to_its_limit_is_refused_before_its_long_work(many_cells: RunConfig, tmp_path: Path) -> None:
    refused = RunConfig(**{**vars(many_cells), "memory": "1GB"})
    limit = MemoryLimit.of("1GB")
    assert limit.needed(n_cells=600_000, n_keys=4, n_records=0) > limit.total
    with pytest.raises(TooLarge, match=r"occupied cells.*--memory"):
        limit.check(n_cells=600_000, n_keys=4, n_records=0)
    assert "may be used" in forecast(refused)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell the peak of a process")
def test_a_run_needs_no_more_than_was_stated(many_cells: RunConfig, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(many_cells.to_toml())
    stated = forecast(many_cells).splitlines()[-1]
    table = read(many_cells).table()
    needed = MemoryLimit.needed(n_cells=table.n_cells, n_keys=len(KEYS), n_records=table.n_rows)
    assert f"{needed / 1e9:,.1f} GB at the peak" in stated
    command = [sys.executable, "-c", MEASURED, str(tmp_path / "run.toml"), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert 0.3 * needed < int(done.stdout) <= needed

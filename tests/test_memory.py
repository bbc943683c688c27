"""Memory is stated before a run, and kept."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rarecell.errors import BadInput, TooLarge
from rarecell.machine.memory import MemoryLimit, Size, machine_memory
from rarecell.run import models
from rarecell.run.assess import forecast
from rarecell.run.config import RunConfig
from rarecell.run.inputs import read
from rarecell.search import SearchLimits, select_model
from rarecell.search.hierarchical import improve_model
from rarecell.search.sampling import sample_models
from rarecell.table.contingency import ContingencyTable
from tests.strategies import categories

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
    size = Size(n_cells=600_000, n_uniques=400_000, n_keys=4)
    assert limit.needed(size) > limit.total
    with pytest.raises(TooLarge, match=r"occupied cells.*--memory"):
        limit.check(size)
    assert "may be used" in forecast(refused)


def related_keys(n_keys: int) -> ContingencyTable:
    codes = np.random.default_rng(0).integers(0, 3, (400, n_keys))
    codes[:, 1:] = np.where(np.random.default_rng(1).random((400, n_keys - 1)) < 0.5, codes[:, :-1], codes[:, 1:])
    return ContingencyTable.from_codes(codes.astype(np.int32), categories([3] * n_keys))


def test_an_exact_search_keeps_to_its_memory() -> None:
    table = related_keys(6)
    assert select_model(table).certified_optimal
    little = SearchLimits(memory=1000)
    assert select_model(table, restarts=1, limits=little).method == "greedy"
    with pytest.raises(TooLarge, match="memory"):
        select_model(table, search="exact", limits=little)
    with pytest.raises(TooLarge, match="memory"):
        sample_models(table, 1, memory_limit=1000)


def test_a_hierarchical_search_keeps_to_its_memory() -> None:
    table = related_keys(4)
    start = select_model(table).best
    assert improve_model(table, [start]).n_fits > 1
    with pytest.raises(TooLarge, match="memory"):
        improve_model(table, [start], memory_limit=1000)


@pytest.mark.parametrize("model", ["single", "hierarchical", "bayes", "average", "stacked"])
def test_the_memory_of_a_run_reaches_its_searches(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = related_keys(3)
    given = []

    def noted(name: str) -> None:
        search = getattr(models, name)

        def noting(*arguments: object, **options: object) -> object:
            limits = options.get("limits")
            given.append(limits.memory if isinstance(limits, SearchLimits) else options["memory_limit"])
            return search(*arguments, **options)

        monkeypatch.setattr(models, name, noting)

    for name in ("select_model", "penalty_path", "improve_model", "sample_models"):
        noted(name)
    config = RunConfig(input="x", keys=table.keys, population=10_000, model=model, resolution="full", memory="2GB")
    models.choose_models(table, config)
    spare = MemoryLimit.of("2GB").spare(models.size_of(table))
    assert spare < 2e9
    assert given
    # Two searches at once share what there is.
    assert set(given) <= {spare, spare // 2}


def test_what_cells_leave_is_spare() -> None:
    limit = MemoryLimit.of("2GB")
    size = Size(n_cells=300_000, n_uniques=200_000, n_keys=5, n_records=10)
    assert limit.spare(size) == limit.total - limit.needed(size)
    assert 0 < limit.spare(replace(size, n_cells=10**9)) < 10**8
    assert limit.needed(replace(size, has_swaps=True)) > limit.needed(size)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell the peak of a process")
def test_a_run_needs_no_more_than_was_stated(many_cells: RunConfig, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(many_cells.to_toml())
    stated = forecast(many_cells).splitlines()[-1]
    table = read(many_cells).table()
    needed = MemoryLimit.needed(models.size_of(table))
    assert f"{needed / 1e9:,.1f} GB at the peak" in stated
    command = [sys.executable, "-c", MEASURED, str(tmp_path / "run.toml"), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert 0.5 * needed < int(done.stdout) <= needed

"""What does it cost to count a file in a register of the whole population?

A register of whole numbers is made by DuckDB, a file is drawn from it, and the people with the values of every record are counted, in a
process of its own. Beside it, another process counts the same register by one ``GROUP BY`` of the keys in DuckDB and nothing else.
Both are told by processor time, which other work on the machine does not change, and by the memory at their peak.

    python benchmarks/register.py                    # 1e7 people
    python benchmarks/register.py --people 1e8 --memory 4GB
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
from pathlib import Path
from typing import Any

import duckdb

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.timing import apart

LEVELS = {"age": 100, "sex": 2, "region": 50, "job": 40, "household": 6}
N_RECORDS = 100_000


def make(register: Path, sample: Path, n_people: int) -> None:
    """People whose jobs go with their regions and ages, and every so-manieth of them as the file."""
    with duckdb.connect() as engine:
        engine.execute(
            f"""
            COPY (
                SELECT least(floor(100 * sqrt(a) * b), 99)::UTINYINT AS age, (c < 0.5)::UTINYINT AS sex,
                    floor(50 * d * d)::UTINYINT AS region, floor(20 * e * (1 + d))::UTINYINT AS job,
                    least(floor(6 * f * sqrt(a)), 5)::UTINYINT AS household
                FROM (SELECT random() AS a, sqrt(random()) AS b, random() AS c, random() AS d, random() AS e, random() AS f
                      FROM range({n_people}))
            ) TO '{register}' (FORMAT parquet)
            """
        )
        share = min(1.0, N_RECORDS / n_people)
        engine.execute(f"COPY (SELECT * FROM '{register}' USING SAMPLE {100 * share} PERCENT (bernoulli, 7)) TO '{sample}'")


def counted(register: Path, sample: Path, memory: str) -> dict[str, Any]:
    """The register counts, as a run makes them."""
    import rarecell as rc
    from rarecell.engine.duck import EngineSettings
    from rarecell.machine.memory import MemoryLimit
    from rarecell.risk.register import register_counts

    data = rc.Microdata(sample, keys=list(LEVELS))
    table = data.table()
    started = used()
    found = register_counts(data, register, settings=EngineSettings(memory=MemoryLimit.of(memory)))
    return {
        "seconds": used() - started,
        "people": found.n_register,
        "records": table.n_records,
        "cells": found.people.n_cells,
        "population uniques": found.population_uniques,
    }


def grouped(register: Path, _: Path, memory: str) -> dict[str, Any]:
    """The bare count of the combinations."""
    started = used()
    with duckdb.connect(config={"memory_limit": memory}) as engine:
        cells = engine.execute(f"SELECT {', '.join(LEVELS)}, count(*) FROM '{register}' GROUP BY ALL").fetchnumpy()
    return {"seconds": used() - started, "cells": len(cells["age"])}


def used() -> float:
    spent = resource.getrusage(resource.RUSAGE_SELF)
    return spent.ru_utime + spent.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=float, default=1e7)
    parser.add_argument("--memory", default="4GB")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        register, sample = Path(folder) / "register.parquet", Path(folder) / "sample.parquet"
        make(register, sample, int(chosen.people))
        size = register.stat().st_size / 1e9
        ours = apart(counted, register, sample, chosen.memory)
        bare = apart(grouped, register, sample, chosen.memory)
    print(
        f"{ours['people']:,} people ({size:.2f} GB), {ours['records']:,} records on {len(LEVELS)} keys, {ours['cells']:,} combinations"
    )
    print(f"register counts: {ours['seconds']:.1f} s of processor time, {ours['gigabytes']:.2f} GB at the peak")
    print(f"GROUP BY alone:  {bare['seconds']:.1f} s of processor time, {bare['gigabytes']:.2f} GB at the peak")
    print(f"ratio {ours['seconds'] / bare['seconds']:.2f}; {ours['population uniques']:,} population uniques among the records")


if __name__ == "__main__":
    main()

"""How often does one protect pass over its input, and how often is each column decoded?

    python benchmarks/passes.py

Writes the census sample as CSV, protects it with a household column, and counts how often the file is scanned.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv

import rarecell as rc
from rarecell.datasets import CENSUS_KEYS, CENSUS_POPULATION, census_sample
from rarecell.engine.text import scan, write
from rarecell.engine.text.source import CsvSource


def main() -> None:
    """Count and print."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.csv"
        csv.write_csv(census_sample(), path)
        scans: list[int] = []
        decoded: Counter[str] = Counter()
        read_records, batches = scan.read_records, CsvSource.batches

        def counted_records(source: Path, *given: Any, **options: Any) -> Iterator[scan.Records]:
            if Path(source) == path:
                scans.append(1)
            return read_records(source, *given, **options)

        def counted_batches(self: CsvSource, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
            if self.path == path:
                decoded.update(columns)
            return batches(self, columns)

        scan.read_records = counted_records
        write.read_records = counted_records
        CsvSource.batches = counted_batches  # type: ignore[method-assign]
        options = {"keys": list(CENSUS_KEYS), "population": CENSUS_POPULATION, "household": "household"}
        rc.protect(path, top=20, out=Path(folder) / "run", **options)
        print(f"scans of the input: {len(scans)}")
        print(f"columns decoded: {len(decoded)}, most often: {max(decoded.values())} times")


if __name__ == "__main__":
    main()

"""A browser of one's own for the app's tests: the right host, the cookie, the origin of its own forms."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from starlette.testclient import TestClient

from rarecell.app import create_app
from rarecell.app.pages import Pages
from rarecell.app.security import Gate
from rarecell.report import write_report
from tests.summaries import typed, typed_records

PORT = 50123


class Browser:
    """A client of the app in ``folder`` that has entered by the one-time link, unless told not to."""

    def __init__(self, folder: Path, *, enters: bool = True, file: str | None = None) -> None:
        self.gate = Gate(port=PORT)
        application, pages = create_app(folder, self.gate, file=file)
        self.pages: Pages = pages
        self.client = TestClient(application, base_url=self.gate.origin, follow_redirects=False, raise_server_exceptions=False)
        if enters:
            assert self.client.get(self.gate.address).status_code == 200

    def get(self, path: str, **headers: str) -> Any:
        return self.client.get(self.gate.base + path, headers=headers)

    def post(self, path: str, fields: Mapping[str, Any] | None = None, **headers: str) -> Any:
        kind = {"content-type": "application/x-www-form-urlencoded"}
        return self.client.post(
            self.gate.base + path, data=dict(fields or {}), headers=kind | {"origin": self.gate.origin} | headers
        )


def write_run(place: Path, summary: Mapping[str, Any], *, run_toml: str) -> Path:
    """A folder like that of a finished run."""
    place.mkdir(parents=True)
    (place / "run.toml").write_text(run_toml, encoding="utf-8")
    (place / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    write_report(place, typed(summary), typed_records())
    risks = [0.0, 0.005, 0.1, 0.25, 0.25, 0.9, 1.0]
    columns = {"cell_count": [3, *[1] * 6], "unique_probability": risks, "swappable": [True] * 6 + [False]}
    pq.write_table(pa.table({"record": list(range(7)), **columns}), place / "risk.parquet")
    record = {
        "command": "protect" if "swap" in summary else "assess",
        "input": {"path": "census.csv"},
        "seconds": {"interval": 1.0},
    }
    (place / "run.json").write_text(json.dumps(record), encoding="utf-8")
    return place

"""Results show themselves in notebooks without a value of a record, and the example notebooks run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rarecell as rc
from rarecell.errors import BadInput
from rarecell.report.notebook import Card

EXAMPLES = Path(__file__).parents[1] / "examples"

N = 400
SECRET = "Quetzalcoatlus"


@pytest.fixture(scope="module")
def people() -> pa.Table:
    return pa.table(
        {
            "age": [20 + (row * 7) % 31 for row in range(N)],
            "job": [SECRET if row == 17 else f"job {(row * row) % 11}" for row in range(N)],
            "sex": ["f" if row % 3 else "m" for row in range(N)],
        }
    )


@pytest.fixture(scope="module")
def results(people: pa.Table) -> dict[str, Any]:
    data = rc.Microdata(people, keys=["age", "job", "sex"])
    table = data.table()
    found = rc.select_model(table)
    risk = rc.record_risk(table, found.best, population=9_000)
    return {
        "data": data,
        "table": table,
        "search": found,
        "model": found.best,
        "backoff": rc.fit_backoff(table),
        "risk": risk,
        "plan": rc.plan_swaps(table, found.best, records=risk.riskiest(5), seed=0),
        "assessment": rc.assess(people, keys=["age", "job", "sex"], population=9_000),
        **_of_a_release(data, table, found.best, risk, people),
    }


def _of_a_release(data: rc.Microdata, table: Any, model: Any, risk: Any, people: pa.Table) -> dict[str, Any]:
    swapped = rc.plan_swaps(table, model, records=risk.riskiest(5), risk=risk, seed=0).apply(data)
    return {
        "hierarchical": rc.HierarchicalModel(table, "all two-way"),
        "swapped": swapped,
        "attack": rc.attack(swapped.frame, original=people, keys=["age", "job", "sex"], population=9_000),
        "frontier": rc.plan(people, keys=["age", "job", "sex"], population=9_000, max_correct_links=20, candidates=4),
    }


NAMES = [
    *("data", "table", "search", "model", "backoff", "hierarchical", "risk", "plan", "assessment"),
    *("swapped", "attack", "frontier"),
]


@pytest.mark.parametrize("name", NAMES)
def test_a_card_is_html_without_a_record(results: dict[str, Any], name: str) -> None:
    html5lib = pytest.importorskip("html5lib")
    shown = results[name]._repr_html_()
    html5lib.HTMLParser(strict=True).parseFragment(shown)
    assert shown.startswith("<div style=")
    assert SECRET not in shown
    assert "<script" not in shown
    assert "http://" not in shown.replace("http://www.w3.org", "")
    used = set(re.findall(r"var\(--([\w-]+)\)", shown))
    assert used <= set(re.findall(r"--([\w-]+):", shown)), "every colour is defined in the card itself"


def test_models_are_drawn(results: dict[str, Any]) -> None:
    for name in ("search", "model", "hierarchical"):
        shown = results[name]._repr_html_()
        assert "<svg" in shown
        for key in ("age", "job", "sex"):
            assert f">{key}<" in shown


def test_records_are_shown_only_when_asked_for(results: dict[str, Any]) -> None:
    with_records = rc.card(results["assessment"], show_records=True)
    assert isinstance(with_records, Card)
    assert "Do not share" in with_records
    assert any(value in with_records for value in (SECRET, "job 1", "job 3"))
    risk = rc.card(results["risk"], show_records=True)
    first = int(results["risk"].riskiest(1)[0])
    assert f">{first + 1}<" in risk, "people count from 1"
    plan = rc.card(results["plan"], show_records=True)
    assert f">{results['plan'].audit()['record'][0] + 1:,}<" in plan
    assert "Do not share" not in results["risk"]._repr_html_()
    row, _ = results["attack"].likeliest(1)[0]
    assert f">{row + 1:,}<" in rc.card(results["attack"], show_records=True)
    assert "Do not share" not in results["attack"]._repr_html_()


def test_an_explanation_walks_through_a_run(results: dict[str, Any], tmp_path: Path) -> None:
    told = rc.explain(results["assessment"])
    for part in (
        "The question.",
        "What the file shows.",
        "What was estimated.",
        "Where that comes from.",
        "The judgement.",
        "What to do next.",
    ):
        assert part in told
    assert f"{results['assessment'].summary.risk.sample_uniques:,} records are alone" in told
    assert SECRET not in told
    assert told._repr_html_().count("<p>") == told.count("\n\n") + 1
    results["assessment"].save(tmp_path / "run")
    assert rc.explain(rc.load(tmp_path / "run")) == told
    with pytest.raises(BadInput, match="not RecordRisk"):
        rc.explain(results["risk"])
    with pytest.raises(BadInput, match="no card for dict"):
        rc.card({})


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.stem)
def test_the_example_notebooks_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(Path(rc.__file__).parents[1]))
    book = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in book.cells), "what a notebook shows is made when it is run"
    nbclient.NotebookClient(book, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [output for cell in book.cells for output in cell.get("outputs", ())]
    cards = [output.data["text/html"] for output in shown if "text/html" in output.get("data", {})]
    assert len(cards) >= 4
    assert any("<svg" in card for card in cards)

"""The Stata command: its Python half runs against a stand-in for Stata's interface, and its syntax fits its help."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import rarecell as rc

STATA = Path(__file__).parents[1] / "stata"
ADO = (STATA / "rarecell.ado").read_text(encoding="utf-8")


class Memory:
    """The data in Stata's memory, and what a command printed and stored."""

    def __init__(self, columns: dict[str, list[Any]], options: dict[str, str]) -> None:
        self.columns, self.options = columns, options
        self.scalars: dict[str, float] = {}
        self.printed: list[str] = []
        self.exit_code = 0

    def module(self) -> Any:
        return SimpleNamespace(
            Data=SimpleNamespace(
                get=lambda name, missingval: [[value] for value in self.columns[name]],
                isVarTypeStr=lambda name: isinstance(self.columns[name][0], str),
                addVarDouble=lambda name: self.columns.__setitem__(name, [None] * len(next(iter(self.columns.values())))),
                store=self._store,
            ),
            Macro=SimpleNamespace(getLocal=lambda name: self.options.get(name, "")),
            Scalar=SimpleNamespace(setValue=self.scalars.__setitem__),
            Missing=SimpleNamespace(getValue=lambda: 8.99e307),
            SFIToolkit=SimpleNamespace(
                displayln=self.printed.append, errprintln=self.printed.append, exit=lambda code: setattr(self, "exit_code", code)
            ),
        )

    def _store(self, name: str, rows: list[int] | None, values: list[Any]) -> None:
        for row, value in zip(range(len(self.columns[name])) if rows is None else rows, values, strict=True):
            self.columns[name][row] = value


DEFAULTS = {"population": "4000", "threshold": ".2", "top": "0", "riskabove": "-1", "seed": "-1", "varlist": "age job sex"}


def run(monkeypatch: pytest.MonkeyPatch, what: str, **options: str) -> Memory:
    columns: dict[str, list[Any]] = {
        "age": [20 + (row * 7) % 23 for row in range(250)],
        "job": ["astronaut" if row == 17 else f"job{(row * row) % 7}" for row in range(250)],
        "sex": [None if row == 3 else 1 + row % 2 for row in range(250)],
        "income": [row * 1.5 for row in range(250)],
    }
    memory = Memory(columns, {**DEFAULTS, **options})
    monkeypatch.setitem(sys.modules, "sfi", memory.module())
    half = re.search(r"^python:\n(.*?)^end$", ADO, flags=re.MULTILINE | re.DOTALL)
    assert half is not None
    names: dict[str, Any] = {}
    exec(compile(half[1], "rarecell.ado", "exec"), names)
    names["rarecell_run"](what)
    return memory


def test_assess_stores_the_risk_of_every_record(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    memory = run(monkeypatch, "assess", generate="risk", out=str(tmp_path / "run"))
    assert memory.exit_code == 0, memory.printed
    assert len(memory.columns["risk"]) == 250
    assert all(0 <= value <= 1 for value in memory.columns["risk"])
    riskiest = sorted(range(250), key=memory.columns["risk"].__getitem__)[-2:]
    assert set(riskiest) == {3, 17}, "the one without a sex and the one astronaut"
    saved = rc.load(tmp_path / "run").summary
    assert memory.scalars["r_population_uniques"] == pytest.approx(saved.risk.expected_population_uniques)
    assert memory.scalars["r_sample_uniques"] == saved.risk.sample_uniques


def test_protect_swaps_values_of_keys_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    before = run(monkeypatch, "assess").columns
    memory = run(monkeypatch, "protect", top="4")
    assert memory.exit_code == 0, memory.printed
    assert memory.columns["income"] == before["income"]
    for key in ("age", "job", "sex"):
        assert sorted(map(str, memory.columns[key])) == sorted(map(str, before[key]))
    assert any(memory.columns[key] != before[key] for key in ("age", "job", "sex"))


def test_swaps_are_secret_unless_a_seed_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[Any] = []
    protect = rc.protect

    def listening(data: Any, **options: Any) -> Any:
        seeds.append(options.get("swap_seed", options.get("seed")))
        return protect(data, **options)

    monkeypatch.setattr(rc, "protect", listening)
    for seed in ("-1", "-1", "7"):
        run(monkeypatch, "protect", top="4", seed=seed)
    assert len(set(seeds)) == 3
    assert None not in seeds
    assert seeds[2] == 7


def test_an_error_is_one_paragraph(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = run(monkeypatch, "assess", population="10")
    assert memory.exit_code == 459
    assert len(memory.printed) == 1
    assert "the file itself has 250 records" in memory.printed[0]


def test_the_help_names_every_option() -> None:
    said = (STATA / "rarecell.sthlp").read_text(encoding="utf-8").replace(":", "").lower()
    options = {
        name.lower()
        for name in re.findall(r"\b([A-Z]{3,}[a-z]*|Weight)\(", " ".join(re.findall(r"syntax .*(?:\n.*SEED.*)?", ADO)))
    }
    assert options >= {"population", "weight", "generate", "threshold", "top", "riskabove", "seed", "out"}
    assert all(name in said for name in options)
    used = set(re.findall(r'(?:local|getLocal)\("(\w+)"\)', ADO))
    assert used - {"varlist", "replace"} <= options
    assert f"rarecell {rc.__version__}" in ADO.splitlines()[0]

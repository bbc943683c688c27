"""An optional part that is not installed is reported before anything is computed, for what is written as for what is read."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import rarecell as rc
from rarecell.errors import MissingExtra
from rarecell.run import models
from tests.office_files import spss, stata


def without(monkeypatch: pytest.MonkeyPatch, *libraries: str) -> None:
    """As if these were not installed, and as if fitting a model were a mistake."""
    real = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *rest: None if name.partition(".")[0] in libraries else real(name, *rest)
    )

    def computed(*_: object, **__: object) -> None:
        raise AssertionError("something was computed before the missing part was reported")

    monkeypatch.setattr(models, "with_best", computed)
    monkeypatch.setattr(models, "model_for_risk", computed, raising=False)
    monkeypatch.setattr("rarecell.data.counting.KeyCounting.count", computed)


def test_a_library_to_write_spss_files_is_missed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = spss(tmp_path)
    without(monkeypatch, "polars", "pandas")
    with pytest.raises(MissingExtra, match=r"Writing SPSS and SAS files .* 'rarecell\[stats\]'"):
        rc.protect(str(file.path), keys=["HL4", "HL6"], weight="hhweight", top=3, out=tmp_path / "run")


def test_a_library_to_fit_regressions_is_missed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = stata(tmp_path)
    without(monkeypatch, "statsmodels")
    with pytest.raises(MissingExtra, match=r"The regression 'wages' .* 'rarecell\[analysis\]'"):
        rc.protect(
            str(file.path), keys=["sexe", "age"], weight="poids", top=3, analysis={"wages": {"regression": "salaire ~ age"}}
        )

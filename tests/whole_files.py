"""Files shaped like public survey files, with the columns beside the keys that undo a protection, and with or without them."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pyreadstat


@dataclass(frozen=True)
class SurveyFile:
    """A file, the run that protects it, and the columns that give away what the run does."""

    path: Path
    options: dict[str, Any]
    planted: set[str] = field(default_factory=set)
    drops: tuple[str, ...] = ()


def _households(rng: np.random.Generator, n: int, mean: float) -> tuple[np.ndarray, np.ndarray]:
    sizes = np.minimum(1 + rng.poisson(mean, n), 12)
    household = np.repeat(np.arange(n), sizes)[:n]
    return household, np.bincount(household)[household]


def silc(folder: Path, *, leaks: bool = True, n: int = 1_000, seed: int = 1) -> SurveyFile:
    """EU-SILC: persons in households, with age at interview, year of birth and income."""
    rng = np.random.default_rng(seed)
    household, size = _households(rng, n, 2.8)
    age = rng.integers(16, 85, n)
    columns = {
        "PB030": 10_001 + np.arange(n),
        "PX030": 100 + household,
        "RX010": age,
        "PB150": rng.integers(1, 3, n),
        "DB040": rng.choice(["AT11", "AT12", "AT13", "AT21", "AT22", "AT31"], n),
        "HX040": size,
        "PE041": np.clip(rng.normal(3, 1.3, n), 0, 8).astype(int),
        "PY010G": np.round(rng.lognormal(9.8, 0.7, n), 2),
        "PB040": np.round(rng.gamma(12, 40, n), 3),
    }
    if leaks:
        columns["PB140"] = 2_021 - age - (rng.random(n) < 0.4)
    pq.write_table(pa.table(columns), folder / "silc.parquet")
    options = {"keys": ["RX010", "PB150", "DB040", "HX040"], "weight": "PB040", "household": "PX030", "id": "PB030",
               "recode": {"RX010": "5-year bands", "HX040": "top 6"}}  # fmt: skip
    if not leaks:
        # The size of a household shows in its rows, whatever is done to the column.
        options |= {"keys": ["RX010", "PB150", "DB040"], "recode": {"RX010": "5-year bands"}}
    return SurveyFile(folder / "silc.parquet", options, {"PB140", "PX030"} if leaks else set())


def earnings(folder: Path, *, leaks: bool = True, n: int = 900, seed: int = 2) -> SurveyFile:
    """Structure of earnings: employees of enterprises, with detailed and coarse occupation and pay."""
    rng = np.random.default_rng(seed)
    major, minor = rng.integers(1, 10, n), rng.integers(1, 5, n)
    frame = {
        "nace": rng.choice([*"BCDEFGH"], n),
        "isco": 10 * major + minor,
        "sex": rng.choice(["M", "F"], n),
        "age": rng.integers(18, 66, n),
        "hourly_pay": np.round(np.exp(rng.normal(3.4 - 0.12 * major, 0.35)), 2),
        "hours": rng.integers(10, 60, n),
        "grossing": np.round(rng.gamma(20, 8, n), 2),
    }
    if leaks:
        frame["job_title"] = np.char.add("T", (1_000 * major + 100 * minor + rng.integers(0, 9, n)).astype(str))
    pd.DataFrame(frame).to_csv(folder / "earnings.csv", index=False)
    options = {"keys": ["nace", "isco", "sex", "age"], "weight": "grossing", "recode": {"isco": "bands of 10"}}
    return SurveyFile(folder / "earnings.csv", options, {"job_title"} if leaks else set())


def mics(folder: Path, *, leaks: bool = True, n: int = 900, seed: int = 3) -> SurveyFile:
    """MICS household listing in SPSS: labels, user-missing codes, and age three more times."""
    rng = np.random.default_rng(seed)
    household, _ = _households(rng, n, 3.2)
    age = rng.integers(0, 80, n)
    frame = pd.DataFrame(
        {
            "HH1": 1.0 + household // 15,
            "HH2": 1.0 + household % 15,
            "HL4": rng.integers(1, 3, n).astype(float),
            "HL6": age.astype(float),
            "HH7": rng.integers(1, 6, n).astype(float),
            "ED5A": np.where(age > 5, rng.integers(0, 4, n), 9).astype(float),
            "wscore": np.round(rng.normal(0, 1, n), 5),
            "hhweight": np.round(rng.gamma(9, 30, n), 4),
        }
    )
    if leaks:
        frame["HL5Y"] = 2_019.0 - age - (rng.random(n) < 0.3)
        frame["ageinyears"] = age.astype(float)
        frame["schage"] = np.where((age > 4) & (age < 25), age - (rng.random(n) < 0.5), np.nan)
    pyreadstat.write_sav(
        frame,
        folder / "hl.sav",
        column_labels={"HL6": "Age", "HL4": "Sex", "HH7": "Region"},
        variable_value_labels={"HL4": {1.0: "Male", 2.0: "Female"}, "HH7": {float(k): f"Region {k}" for k in range(1, 6)}},
        missing_ranges={"ED5A": [9.0]},
    )
    options = {"keys": ["HL4", "HL6", "HH7"], "weight": "hhweight", "household": "HH1,HH2", "recode": {"HL6": "5-year bands"}}
    return SurveyFile(folder / "hl.sav", options, {"HL5Y", "ageinyears", "schage"} if leaks else set())


def gss(folder: Path, *, leaks: bool = True, n: int = 900, seed: int = 4) -> SurveyFile:
    """A General Social Survey file in Stata: cohort is the year of birth, and parents' education has codes for missing."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 89, n)
    frame = pd.DataFrame(
        {
            "id": np.arange(1, n + 1),
            "age": age,
            "sex": rng.integers(1, 3, n),
            "region": rng.integers(1, 10, n),
            "race": rng.choice([1, 2, 3], n, p=[0.75, 0.15, 0.1]),
            "happy": rng.integers(1, 4, n),
            "paeduc": rng.choice([*range(21), 98, 99], n),
            "wtssps": np.round(rng.gamma(6, 120, n), 3),
        }
    )
    if leaks:
        frame["cohort"] = 2_018 - age
        frame["intdate"] = [datetime.date(2_018, 4, 1) + datetime.timedelta(int(d)) for d in rng.integers(0, 50, n)]
    pyreadstat.write_dta(frame, folder / "gss.dta", column_labels={"age": "Age of respondent"})
    options = {"keys": ["age", "sex", "region", "race"], "weight": "wtssps", "id": "id", "recode": {"age": "edges 30 45 60 75"}}
    return SurveyFile(folder / "gss.dta", options, {"cohort"} if leaks else set())


def nhanes(folder: Path, *, leaks: bool = True, n: int = 900, seed: int = 5) -> SurveyFile:
    """NHANES: measurements of the body, age in years and in months, strata and primary sampling units."""
    rng = np.random.default_rng(seed)
    months = rng.integers(0, 80 * 12, n)
    columns = {
        "SEQN": 93_703 + np.arange(n),
        "RIAGENDR": rng.integers(1, 3, n),
        "RIDAGEYR": months // 12,
        "RIDRETH3": rng.choice([1, 2, 3, 4, 6, 7], n),
        "BMXBMI": np.round(np.clip(rng.normal(24, 6, n), 12, 60), 1),
        "LBXTC": rng.normal(180, 40, n).round(),
        "SDMVSTRA": 134 + rng.integers(0, 15, n),
        "WTMEC2YR": np.round(rng.gamma(4, 9_000, n), 2),
    }
    if leaks:
        columns["RIDAGEMN"] = months
    pq.write_table(pa.table(columns), folder / "nhanes.parquet")
    options = {
        "keys": ["RIAGENDR", "RIDAGEYR", "RIDRETH3"],
        "weight": "WTMEC2YR",
        "id": "SEQN",
        "recode": {"RIDAGEYR": "10-year bands"},
    }
    return SurveyFile(folder / "nhanes.parquet", options, {"RIDAGEMN"} if leaks else set())


FILES: dict[str, Callable[..., SurveyFile]] = {"silc": silc, "earnings": earnings, "mics": mics, "gss": gss, "nhanes": nhanes}

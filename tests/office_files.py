"""Five files as offices have them, for whoever walks from a file to a release: small, and awkward in the usual ways."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyreadstat


@dataclass(frozen=True)
class OfficeFile:
    """A file and what its steward knows about it.

    Attributes
    ----------
    path : Path
        The file.
    keys : tuple of str
        What an outsider could know.
    roles : dict of str to str
        The role of every other column that has one.
    recode : dict of str to str
        How keys are released, in the words of ``--recode``.
    population : int or None
        The size of the population; None where weights tell it.
    missing_codes : str
        Codes that mean "no answer".
    profile : str
        The release profile that the office goes by.
    sheet : str
        The sheet of a workbook that holds the data.
    """

    path: Path
    keys: tuple[str, ...]
    roles: dict[str, str]
    recode: dict[str, str]
    population: int | None = None
    missing_codes: str = ""
    profile: str = "scientific"
    sheet: str = ""

    @property
    def options(self) -> list[str]:
        """The same on the command line."""
        found = ["--keys", ",".join(self.keys), "--profile", self.profile]
        households = ",".join(name for name, role in self.roles.items() if role == "household")
        for flag, value in (("--household", households), ("--sheet", self.sheet), ("--missing-codes", self.missing_codes)):
            found += [flag, value] if value else []
        for name, role in self.roles.items():
            found += [f"--{role}", name] if role in ("weight", "id", "sensitive") else []
        for key, words in self.recode.items():
            found += ["--recode", f"{key}={words}"]
        return [*found, "--population", str(self.population)] if self.population else found


def _households(rng: np.random.Generator, n: int) -> np.ndarray:
    """The household of each person, one after the other."""
    return np.repeat(np.arange(n), rng.choice([1, 2, 3, 4], n, p=[0.4, 0.3, 0.15, 0.15]))[:n]


def stata(folder: Path, n: int = 700) -> OfficeFile:
    """A survey of workers in Stata's older format: value labels, and town names in the Windows code page."""
    rng = np.random.default_rng(31)
    sectors = ("Énergie", "Santé", "Bâtiment", "Commerce", "Éducation")
    sector = rng.choice(sectors, n, p=[0.15, 0.25, 0.2, 0.25, 0.15])
    frame = pd.DataFrame(
        {
            "numero": np.arange(20_001, 20_001 + n),
            "sexe": rng.integers(1, 3, n),
            "age": rng.integers(18, 66, n),
            "commune": rng.choice(["Besançon", "Évreux", "Nîmes", "Orléans"], n, p=[0.4, 0.3, 0.2, 0.1]),
            "secteur": pd.Categorical(sector, categories=sectors),
            "salaire": np.round(np.exp(rng.normal(7.5, 0.4, n)), 0),
            "poids": np.round(rng.gamma(30, 1.2, n), 2),
        }
    )
    path = folder / "salaires.dta"
    frame.to_stata(
        path,
        write_index=False,
        version=114,
        variable_labels={
            "sexe": "Sexe de la personne",
            "age": "Âge en années",
            "poids": "Poids de sondage",
            "salaire": "Salaire mensuel",
        },
        value_labels={"sexe": {1: "homme", 2: "femme"}},
    )
    return OfficeFile(path, ("sexe", "age", "commune", "secteur"), {"numero": "id", "poids": "weight"}, {})


def spss(folder: Path, n: int = 700) -> OfficeFile:
    """A household listing in SPSS: a household is a cluster and a number, answers have labels, 9 is a missing answer."""
    rng = np.random.default_rng(32)
    household = _households(rng, n)
    frame = pd.DataFrame(
        {
            "HH1": 1.0 + household // 12,
            "HH2": 1.0 + household % 12,
            "HL4": rng.integers(1, 3, n).astype(float),
            "HL6": rng.integers(0, 80, n).astype(float),
            "HH7": rng.choice([1.0, 2.0, 3.0], n)[household],
            "ED5A": rng.choice([0.0, 1.0, 2.0, 9.0], n, p=[0.2, 0.5, 0.25, 0.05]),
            "hhweight": np.round(rng.gamma(30, 60, n), 4)[household],
        }
    )
    path = folder / "members.sav"
    pyreadstat.write_sav(
        frame,
        path,
        column_labels={"HH1": "Cluster number", "HH2": "Household number", "HL4": "Sex", "HL6": "Age", "HH7": "Region",
                       "ED5A": "Highest level of school", "hhweight": "Household sample weight"},
        variable_value_labels={"HL4": {1.0: "Male", 2.0: "Female"}, "HH7": {1.0: "North", 2.0: "Centre", 3.0: "South"},
                               "ED5A": {0.0: "Preschool", 1.0: "Primary", 2.0: "Secondary", 9.0: "No answer"}},
        missing_ranges={"ED5A": [9.0]},
    )  # fmt: skip
    return OfficeFile(
        path,
        ("HL4", "HL6"),
        {"HH1": "household", "HH2": "household", "hhweight": "weight"},
        {"HL6": "edges 18 65"},
    )


def latin(folder: Path, n: int = 700) -> OfficeFile:
    """A German micro-census extract: Latin-1, semicolons, decimal commas, −9 for no answer."""
    rng = np.random.default_rng(21)
    lines = ["lfd;Geschlecht;Alter;Familienstand;Gemeinde;gew;Betrag"]
    for k in range(n):
        town = ("Köln", "Düren", "Münster", "Rüthen")[int(rng.choice(4, p=[0.5, 0.3, 0.15, 0.05]))]
        state = int(rng.choice([1, 2, 3, 4, -9], p=[0.4, 0.4, 0.1, 0.08, 0.02]))
        weight, amount = f"{rng.lognormal(3.4, 0.3):.2f}".replace(".", ","), f"{rng.lognormal(7, 1):.2f}".replace(".", ",")
        lines.append(f"{k + 1};{rng.integers(1, 3)};{rng.integers(18, 90)};{state};{town};{weight};{amount}")
    path = folder / "mikro.csv"
    path.write_text("\n".join(lines) + "\n", encoding="latin-1")
    return OfficeFile(
        path,
        ("Geschlecht", "Alter", "Familienstand", "Gemeinde"),
        {"lfd": "id", "gew": "weight"},
        {"Alter": "5-year bands"},
        missing_codes="-9",
    )


def workbook(folder: Path, n: int = 500) -> OfficeFile:
    """A workbook whose first sheet has notes, as ministries send them."""
    rng = np.random.default_rng(33)
    data = pd.DataFrame(
        {
            "Patient": [f"A{k:05d}" for k in rng.permutation(n)],
            "Sex": rng.choice(["F", "M"], n),
            "Year of birth": rng.integers(1940, 2005, n),
            "District": rng.choice(["North", "East", "South", "West"], n, p=[0.4, 0.3, 0.2, 0.1]),
            "Diagnosis": rng.choice(["A", "B", "C", "D", "E"], n),
            "Days": rng.integers(1, 30, n),
        }
    )
    path = folder / "hospital.xlsx"
    with pd.ExcelWriter(path) as book:
        pd.DataFrame({"Notes": ["Extract of the hospital register", "For internal use", "Data on the next sheet"]}).to_excel(
            book, sheet_name="Read me", index=False
        )
        data.to_excel(book, sheet_name="Data", index=False)
    return OfficeFile(
        path,
        ("Sex", "Year of birth", "District"),
        {"Patient": "id", "Diagnosis": "sensitive"},
        {"Year of birth": "bands of 2"},
        population=4_000,
        sheet="Data",
    )


def health(folder: Path, n: int = 800) -> OfficeFile:
    """A wide health survey: sixty answers, many of them missing, and missing answers in the keys."""
    rng = np.random.default_rng(34)
    columns: dict[str, object] = {
        "SEQN": 93_703 + np.arange(n),
        "RIAGENDR": rng.integers(1, 3, n),
        "RIDAGEYR": rng.integers(18, 80, n),
        "RIDRETH3": np.where(rng.random(n) < 0.06, np.nan, rng.choice([1, 2, 3, 4], n, p=[0.3, 0.2, 0.4, 0.1])),
        "DMDMARTL": np.where(rng.random(n) < 0.1, np.nan, rng.choice([1, 2, 3, 5], n)),
        "WTINT2YR": np.round(rng.gamma(30, 1.5, n), 2),
        "BMXWT": np.round(rng.normal(80, 15, n), 1),
    }
    for k in range(60):
        columns[f"DIQ{k:03d}"] = np.where(rng.random(n) < 0.3, np.nan, rng.integers(1, 4, n))
    path = folder / "nhanes.csv"
    pd.DataFrame(columns).to_csv(path, index=False)
    return OfficeFile(
        path,
        ("RIAGENDR", "RIDAGEYR", "RIDRETH3", "DMDMARTL"),
        {"SEQN": "id", "WTINT2YR": "weight"},
        {"RIDAGEYR": "5-year bands"},
    )


FILES: dict[str, Callable[[Path], OfficeFile]] = {
    "stata": stata,
    "spss": spss,
    "latin": latin,
    "workbook": workbook,
    "health": health,
}

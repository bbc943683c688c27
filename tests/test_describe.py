"""Columns are judged by content and labels, and names count last."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from rarecell.cli.commands import main
from rarecell.data.describe import profile_file
from rarecell.data.roles import ColumnFacts, suggest_role
from tests.office_files import health, workbook


def role_of(name: str, label: str = "", **facts: Any) -> tuple[str, str]:
    given = {"n_levels": 9, "n_records": 1000, "numbers": None, **facts}
    if given["numbers"] is not None and "total" not in facts:
        given["total"] = float(np.mean(given["numbers"])) * given["n_records"]
    found = suggest_role(ColumnFacts(name=name, label=label, **given))
    assert found.why.endswith(".")
    return found.role, found.what


@pytest.mark.parametrize(
    ("name", "facts", "role"),
    [
        ("PWGTP", {"n_levels": 90, "numbers": [1.0, 80.0]}, "weight"),
        ("weight", {"n_levels": 90, "numbers": [0.2, 0.9]}, "none"),
        ("hhid", {"n_levels": 400}, "household"),
        ("stage", {"n_levels": 4}, "none"),
        ("AgeGroup", {"n_levels": 9}, "key"),
        ("empty", {"n_levels": 0}, "none"),
        ("country", {"n_levels": 1}, "none"),
        ("monthly_income", {"n_levels": 700}, "sensitive"),
        ("note", {"n_levels": 900}, "none"),
        ("educ", {"n_levels": 6}, "key"),
        ("weight", {"n_levels": 1, "numbers": [60.0]}, "weight"),
        ("weight", {"n_levels": 1, "numbers": [1.0]}, "none"),
        ("illness", {"n_levels": 5}, "sensitive"),
        ("uuid", {"n_levels": 1000}, "id"),
        # German, French and Spanish names.
        ("Geschlecht", {"n_levels": 2}, "key"),
        ("Staatsangehörigkeit", {"n_levels": 30}, "key"),
        ("état_matrimonial", {"n_levels": 5}, "key"),
        ("edad", {"n_levels": 90}, "key"),
        ("salario_mensual", {"n_levels": 800}, "sensitive"),
        # Codes of well-known surveys in files without labels.
        ("RB090", {"n_levels": 2}, "key"),
        ("DB040", {"n_levels": 9}, "key"),
        ("RB050", {"n_levels": 800, "numbers": [300.5, 900.2]}, "weight"),
        ("HL6", {"n_levels": 90}, "key"),
    ],
)
def test_names_in_four_languages_and_codes_of_surveys(name: str, facts: dict[str, Any], role: str) -> None:
    assert role_of(name, **facts)[0] == role


@pytest.mark.parametrize(
    ("name", "label", "facts", "role", "what"),
    [
        ("SXQ292", "Describe sexual orientation (female)", {"n_levels": 6}, "sensitive", "sensitive"),
        ("SXD171", "Total number of male sex partners/life", {"n_levels": 60}, "sensitive", "sensitive"),
        ("BMXWT", "Weight (kg)", {"n_levels": 900, "numbers": [40.2, 120.9]}, "none", "amount"),
        ("WHD020", "Current self-reported weight (pounds)", {"n_levels": 300, "numbers": [90.0, 400.0]}, "none", "amount"),
        (
            "WTINT2YR",
            "Full sample 2 year interview weight",
            {"n_levels": 980, "numbers": [4000.5, 90000.0]},
            "weight",
            "survey weight",
        ),
        ("RIAGENDR", "Gender", {"n_levels": 2, "numbers": [1.0, 2.0]}, "key", "key"),
        ("RIDAGEYR", "Age in years at screening", {"n_levels": 81}, "key", "key"),
        ("HH7", "Region", {"n_levels": 8}, "key", "key"),
        ("SDMVSTRA", "Masked variance pseudo-stratum", {"n_levels": 15}, "strata", "stratum"),
        ("LN", "Line number", {"n_levels": 12, "numbers": [1.0, 12.0]}, "none", "person number"),
        ("txt", "", {"n_levels": 900, "mean_length": 80.0}, "none", "free text"),
        ("py010n", "Employee cash or near cash income (net)", {"n_levels": 700}, "sensitive", "sensitive"),
        ("x1", "", {"n_levels": 700, "numbers": [0.5, 900.2]}, "none", "amount"),
    ],
)
def test_labels_and_content_decide(name: str, label: str, facts: dict[str, Any], role: str, what: str) -> None:
    assert role_of(name, label, **facts) == (role, what)


def survey(path: Path) -> Path:
    draw = np.random.default_rng(3)
    sizes = draw.integers(1, 5, 300)
    unit = np.repeat(np.arange(1000, 1300), sizes)
    n = len(unit)
    pq.write_table(
        pa.table(
            {
                "nr": unit,
                "person": np.concatenate([np.arange(1, size + 1) for size in sizes]),
                "alter": draw.integers(0, 90, n),
                "sexe": draw.choice(["f", "m"], n),
                "gew": draw.lognormal(5, 0.2, n),
                "betrag": draw.lognormal(8, 1, n),
                "tag": draw.choice(["2020-01-03", "2021-05-06", "2021-07-08"], n),
            }
        ),
        path,
    )
    return path


def test_a_household_number_is_found_by_how_it_runs_through_the_file(tmp_path: Path) -> None:
    columns = {column.name: column for column in profile_file(survey(tmp_path / "survey.parquet")).columns}
    assert columns["nr"].role == "household"
    assert "stand together" in columns["nr"].why
    assert columns["alter"].role == columns["sexe"].role == "key"
    assert columns["betrag"].what == "amount"
    assert columns["tag"].what == "date"


def test_describe_prints_columns_and_the_next_command(tmp_path: Path) -> None:
    path = survey(tmp_path / "survey.parquet")
    answer = CliRunner().invoke(main, ["describe", str(path)])
    assert answer.exit_code == 0, answer.output
    assert "household number" in answer.output
    assert f"rarecell assess {path} --keys alter,sexe --weight gew --household nr --out run" in answer.output
    as_json = CliRunner().invoke(main, ["describe", str(path), "--json"])
    assert '"role": "household"' in as_json.output
    assert "2020-01-03" not in as_json.output.split('"preview"')[1]


def test_the_command_that_describe_prints_can_be_pasted(tmp_path: Path) -> None:
    office = workbook(tmp_path)
    first = CliRunner().invoke(main, ["describe", str(office.path)])
    assert "3 records, 1 column\n" in first.output
    (again,) = [line.split() for line in first.output.splitlines() if line.startswith("  rarecell describe ")]
    assert again[2:] == [str(office.path), "--sheet", "Data"], "the first sheet has notes, another one the data"
    second = CliRunner().invoke(main, again[1:])
    (command,) = [line.strip() for line in second.output.splitlines() if line.startswith("  rarecell assess ")]
    words = shlex.split(command.replace("--population N", "--population 4000").replace("--out run", f"--out {tmp_path / 'run'}"))
    assert words[words.index("--sheet") + 1] == "Data"
    assert "Year of birth" in words[words.index("--keys") + 1].split(",")
    done = CliRunner().invoke(main, [*words[1:], "--model", "independence", "--quiet"])
    assert done.exit_code == 0, done.output


def test_columns_that_look_like_nothing_do_not_repeat_the_same_advice(tmp_path: Path) -> None:
    office = health(tmp_path)
    answer = CliRunner().invoke(main, ["describe", str(office.path)])
    assert answer.output.count("an outsider could know it") == 1
    assert len(answer.output.splitlines()) < 120


def test_labels_of_a_statistics_file_are_shown(tmp_path: Path) -> None:
    pyreadstat = pytest.importorskip("pyreadstat")
    pd = pytest.importorskip("pandas")
    path = tmp_path / "labelled.dta"
    frame = pd.DataFrame({"q1": [1, 2, 1, 2] * 20, "q2": list(range(80))})
    pyreadstat.write_dta(frame, str(path), column_labels={"q1": "Sex of the respondent", "q2": "Case identifier"})
    columns = {column.name: column for column in profile_file(path).columns}
    assert (columns["q1"].role, columns["q1"].label) == ("key", "Sex of the respondent")
    assert columns["q2"].role == "id"


def test_the_command_for_a_file_with_dates_can_be_pasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "".join(
        f"{1950 + row // 28 % 40}-{1 + row % 12:02}-{1 + row % 28:02},{'fm'[row % 2]},{row % 7}\n" for row in range(900)
    )
    (tmp_path / "born in.csv").write_text("birth date,sex,region\n" + rows, encoding="utf-8")
    printed = CliRunner().invoke(main, ["describe", "born in.csv"]).output
    assert "look like codes" not in printed
    assert "in place of N" in " ".join(printed.split())
    command = next(line.strip() for line in printed.splitlines() if line.strip().startswith("rarecell assess"))
    words = shlex.split(command.replace("--population N", "--population 30000"))
    done = CliRunner().invoke(main, [*words[1:], "--model", "independence", "--quiet"])
    assert done.exit_code == 0, done.output
    assert "birth date was recoded (date to year)" in done.output

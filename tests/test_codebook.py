"""Codebooks of archives and portals: labels, codes for "missing", order and roles reach the description and the run."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import rarecell as rc
from rarecell.cli import main
from rarecell.data.codebook import Codebook
from rarecell.data.describe import profile_file

DDI = """<?xml version="1.0" encoding="UTF-8"?>
<codeBook xmlns="ddi:codebook:2_5" version="2.5">
 <fileDscr><fileTxt><fileName>people.csv</fileName></fileTxt></fileDscr>
 <dataDscr>
  <var ID="I1" name="V1" nature="ratio" wgt-var="I4"><labl>Age of the
    respondent</labl><catgry missing="Y"><catValu>999</catValu><labl>refused</labl></catgry></var>
  <var ID="I2" name="V2" nature="nominal"><labl>Sex</labl>
   <catgry><catValu>1</catValu><labl>female</labl></catgry><catgry><catValu>2</catValu><labl>male</labl></catgry></var>
  <var ID="I3" name="V3" nature="nominal" geog="Y"><labl>Place</labl><invalrng><item VALUE="-9"/></invalrng></var>
  <var ID="I4" name="V4"><labl>Factor</labl></var>
 </dataDscr>
</codeBook>"""

PACKAGE: dict[str, Any] = {
    "name": "people",
    "resources": [
        {
            "name": "people",
            "path": "people.csv",
            "schema": {
                "missingValues": ["", "-9"],
                "primaryKey": "number",
                "fields": [
                    {"name": "number", "type": "integer"},
                    {"name": "V1", "type": "integer", "title": "Age of the respondent", "missingValues": ["999"]},
                    {
                        "name": "V2",
                        "type": "integer",
                        "title": "Sex",
                        "categories": [{"value": 1, "label": "female"}, {"value": 2, "label": "male"}],
                        "categoriesOrdered": False,
                    },
                    {"name": "V3", "type": "integer", "rarecell:role": "key"},
                    {"name": "V4", "type": "number", "rarecell:role": "weight"},
                ],
            },
        }
    ],
}


@pytest.fixture
def people(tmp_path: Path) -> Path:
    rows = "".join(f"{r},{18 + (r * 7) % 70 if r % 50 else 999},{1 + r % 2},{r % 6},{100 + r % 3}\n" for r in range(400))
    path = tmp_path / "people.csv"
    path.write_text("number,V1,V2,V3,V4\n" + rows, encoding="utf-8")
    return path


def book(folder: Path, form: str) -> Path:
    path = folder / ("people.xml" if form == "ddi" else "datapackage.json")
    path.write_text(DDI if form == "ddi" else json.dumps(PACKAGE), encoding="utf-8")
    return path


@pytest.mark.parametrize("form", ["ddi", "package"])
def test_both_formats_say_the_same(tmp_path: Path, form: str) -> None:
    read = Codebook.read(book(tmp_path, form))
    assert read.data == "people.csv"
    assert read.columns["V1"].label == "Age of the respondent"
    assert read.columns["V1"].missing == ("999",)
    assert read.columns["V2"].value_labels == {"1": "female", "2": "male"}
    assert read.columns["V2"].is_ordered is False
    assert read.columns["V3"].missing == ("-9",)
    assert read.with_role("weight") == ("V4",)
    assert read.with_role("key") == ("V3",)
    assert read.coding(("V1", "V3", "nowhere"))["V1"]["missing"] == [999]


@pytest.mark.parametrize("form", ["ddi", "package"])
def test_a_description_uses_the_codebook(people: Path, form: str) -> None:
    codebook = Codebook.read(book(people.parent, form))
    columns = {column.name: column for column in profile_file(people, codebook=codebook).columns}
    assert columns["V1"].role == "key"  # by its label
    assert columns["V1"].n_missing == 8
    assert columns["V2"].examples == ("female (1)", "male (2)")
    assert (columns["V3"].role, columns["V4"].role) == ("key", "weight")
    assert {column.role for column in columns.values() if column.name != "V4"}.isdisjoint({"weight"})


@pytest.mark.parametrize("form", ["ddi", "package"])
def test_the_command_that_is_suggested_runs(people: Path, form: str) -> None:
    shown = CliRunner().invoke(main, ["describe", str(people), "--codebook", str(book(people.parent, form))])
    assert shown.exit_code == 0, shown.output
    (line,) = [line for line in shown.output.splitlines() if line.strip().startswith("rarecell assess")]
    words = [*shlex.split(line)[1:-2], "--model", "independence", "--json", "--quiet"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout)
    assert {key["name"]: key["missing_records"] for key in summary["keys"]}["V1"] == 8
    assert summary["population"] > 40_000


def test_a_role_that_is_not_one_is_said(tmp_path: Path) -> None:
    given = json.loads(json.dumps(PACKAGE))
    given["resources"][0]["schema"]["fields"][1]["rarecell:role"] = "secret"
    path = tmp_path / "datapackage.json"
    path.write_text(json.dumps(given), encoding="utf-8")
    with pytest.raises(rc.BadInput, match=r"'secret'\. Give one of key, weight"):
        Codebook.read(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<codeBook><dataDscr/></codeBook>", "describes no variable"),
        ("<html></html>", "begins with <html>"),
        ("<codeBook>", "not well-formed"),
        ("age,sex\n1,2\n", "neither XML nor JSON"),
        ("[]", "no resource with a schema"),
        ('{"resources": [{"schema": {"fields": [{}]}}]}', "no list of fields"),
    ],
)
def test_what_is_no_codebook_gets_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "book"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(rc.BadInput, match=said):
        Codebook.read(path)


def test_codes_keep_their_zeros(tmp_path: Path) -> None:
    path = tmp_path / "book.xml"
    path.write_text(DDI.replace(">999<", ">099<"), encoding="utf-8")
    assert Codebook.read(path).coding(("V1",))["V1"]["missing"] == ["099"]

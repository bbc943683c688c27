"""The paper has the form of the journal, its tables are those of the benchmarks, and everything it cites is listed."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.fresh_environment import ROOT

yaml = pytest.importorskip("yaml", reason="PyYAML, which reads the head of the paper, is not installed")

PAPER = ROOT / "paper"


def parts() -> tuple[dict[str, object], str]:
    _, head, body = (PAPER / "paper.md").read_text(encoding="utf-8").split("---\n", 2)
    return yaml.safe_load(head), body


def test_tables_are_made_from_what_the_benchmarks_wrote() -> None:
    done = subprocess.run([sys.executable, PAPER / "make_tables.py", "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_head_and_the_sections_are_those_of_the_journal() -> None:
    head, body = parts()
    assert {"title", "tags", "authors", "affiliations", "date", "bibliography"} <= set(head)
    sections = re.findall(r"^# (.*)$", body, flags=re.MULTILINE)
    assert sections[:3] == ["Summary", "Statement of need", "State of the field"]
    assert sections[-1] == "References"
    prose = re.sub(r"^\|.*$|<!--.*?-->", "", body, flags=re.MULTILINE)
    assert 250 <= len(prose.split()) <= 1_750


def test_everything_cited_is_in_the_bibliography_and_the_other_way_round() -> None:
    _, body = parts()
    cited = set(re.findall(r"@([a-z]+\d{4})", body))
    listed = set(re.findall(r"^@\w+\{(\w+),", (PAPER / "paper.bib").read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert cited == listed

"""A form has the headings of its list of contents, and every figure in it stands in summary.json at the place it names."""

from __future__ import annotations

import json
import types
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from click.testing import CliRunner

import rarecell as rc
from rarecell.cli import main
from rarecell.outcome.summary import RunSummary
from rarecell.report.form import BY_THE_OFFICE, NONE, Form, filled_form, form_names, text_at, value_at
from tests.summaries import protected_summary, typed

ISO_27559 = """
6.2.2 Security and privacy practices
6.2.3 Motives and capacity to re-identify
6.3.2 Transparency of actions and stakeholder engagement
6.3.3 Privacy-related harms
7.2.2 Data principals
7.2.3 Data type
7.2.4 Attribute types
7.2.5 Dataset properties
7.3.2 Maximum or average risk
7.3.3 Population or sample-based attack
7.3.4 Data privacy models
8.2.2 Quantifying identifiability
8.2.3 Adversarial testing
8.3.2 Reconfiguring the environment
8.3.3 Transforming the data
8.3.4 Re-evaluation
9.2.2 Assigning roles and responsibilities
9.2.3 Establishing principles, policies and procedures
9.2.4 Identifying and managing a data disclosure
9.2.5 Communicating with stakeholders
9.3.2 Monitoring the data environment
9.4 Mitigation in case of incident
"""
"""The table of contents of ISO/IEC 27559:2022 from clause 6 on, without the general remarks that open each part."""

EMA = ("methodology", "identifiers", "adversaries", "utility", "threshold", "before", "residual", "singling out", "signature")
"""What the summaries of the guidance and of the joint template name, in their order."""

FIVE_SAFES = ("projects", "people", "data", "settings", "outputs")


def headings(name: str) -> list[str]:
    return [f"{section.number} {section.title}" for section in Form.named(name).sections]


def test_headings_are_those_of_the_lists_of_contents() -> None:
    assert headings("iso27559") == ISO_27559.strip().splitlines()
    for name, words in (("ema", EMA), ("five-safes", tuple(f"safe {word}" for word in FIVE_SAFES))):
        found = headings(name)
        assert len(found) == len(words)
        assert all(word in heading.lower() for word, heading in zip(words, found, strict=True))


@pytest.mark.parametrize("name", form_names())
def test_a_form_says_which_text_was_not_at_hand(name: str) -> None:
    source = Form.named(name).source
    assert "not" in source or "no official form" in source
    assert len(source) > 100


def _type_at(cls: Any, place: str) -> Any:
    """The type of a field of the summary, by its place; fails where there is no such field."""
    kind: Any = cls
    for step in place.split("."):
        name = step.partition("[")[0]
        if get_origin(kind) in (Union, types.UnionType):
            kind = next(part for part in get_args(kind) if part is not type(None))
        if is_dataclass(kind):
            assert name in {field.name for field in fields(kind)}, f"{place}: {kind} has no {name}"
            kind = get_type_hints(kind)[name]
        else:  # a mapping by name
            kind = get_args(kind)[1]
        if "[" in step:
            kind = get_args(kind)[0]
    return kind


@pytest.mark.parametrize("name", form_names())
def test_every_place_is_a_field_of_the_summary(name: str) -> None:
    places = [place for section in Form.named(name).sections for entry in section.entries for place in entry.places]
    assert places
    for place in places:
        _type_at(RunSummary, place)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("form")
    rows = "".join(f"{20 + row % 45},{row % 5},{'fm'[row % 2]},{row % 3}\n" for row in range(700)) + "99,4,m,1\n"
    (folder / "people.csv").write_text("age,region,sex,ill\n" + rows, encoding="utf-8")
    options = {"keys": ["age", "region", "sex"], "population": 5000, "model": "single", "sensitive": ["ill"]}
    rc.protect(str(folder / "people.csv"), **options, risk_above=0.01, seed=1, out=str(folder / "run"))
    return folder / "run"


@pytest.mark.parametrize("name", form_names())
def test_every_figure_stands_in_the_summary_at_its_place(run: Path, name: str) -> None:
    written = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    filled = filled_form(Form.named(name), rc.load(run).summary, edition="internal")
    answers = [answer for _, answers in filled.sections for answer in answers]
    for answer in answers:
        if answer.state == "filled":
            assert answer.text == text_at(written, answer.places)
        elif answer.state == "office":
            assert answer.text == BY_THE_OFFICE
        else:
            assert all(value_at(written, place) is None for place in answer.places)
    assert sum(answer.state == "filled" for answer in answers) >= 10
    assert any(answer.state == "office" for answer in answers)


def test_places_and_values() -> None:
    numbers = {
        "risk": {"interval": [9.0, 26.0], "highest": 0.25},
        "keys": [{"name": "age", "recode": "5-year bands"}, {"name": "sex", "recode": ""}],
        "leaks": [],
    }
    assert value_at(numbers, "risk.highest") == 0.25
    assert value_at(numbers, "keys[].name") == ["age", "sex"]
    assert value_at(numbers, "keys[sex].recode") == ""
    assert value_at(numbers, "keys[job].recode") is None
    assert value_at(numbers, "swap.swapped") is None
    assert text_at(numbers, ("risk.interval",)) == "9 to 26"
    assert text_at(numbers, ("keys[].name", "keys[].recode")) == "age: 5-year bands"
    assert text_at(numbers, ("leaks[].column",)) == NONE
    assert text_at(numbers, ("swap.swapped",)) is None


def test_what_is_sent_away_hides_what_the_external_edition_hides(run: Path) -> None:
    internal = filled_form(Form.named("ema"), rc.load(run).summary, edition="internal").to_markdown()
    external = filled_form(Form.named("ema"), rc.load(run).summary).to_markdown()
    assert "in the office's own edition only" in external
    assert "in the office's own edition only" not in internal


def test_the_command_writes_a_page_and_replaces_nothing(run: Path, tmp_path: Path) -> None:
    page = tmp_path / "form.html"
    words = ["report", str(run), "--template", "iso27559", "--output", str(page)]
    assert CliRunner().invoke(main, words).exit_code == 0
    assert "8.2.3 Adversarial testing" in page.read_text(encoding="utf-8")
    assert page.stat().st_mode & 0o077 == 0
    assert CliRunner().invoke(main, words).exit_code == 1
    assert CliRunner().invoke(main, ["report", str(run), "--template", "five-safes"]).output.startswith("# Five Safes")
    unknown = CliRunner().invoke(main, ["report", str(run), "--template", "hipaa"])
    assert unknown.exit_code == 1
    assert "ema, five-safes, iso27559" in unknown.output


@pytest.mark.parametrize("name", form_names())
def test_no_form_gives_the_risk_of_persons_where_families_are_easier_to_find(name: str) -> None:
    summary = protected_summary()
    summary["risk"]["families"] = {
        "households": 4000,
        "sample_uniques": 900,
        "expected_population_uniques": 700.0,
        "expected_correct_matches": 811.0,
        "expected_persons": 2000.0,
        "interval": [650.0, 750.0],
        "highest": 0.98,
        "above_threshold": 900,
        "records_above_threshold": 3131,
        "expected_records": 2121.0,
        "places": 4,
    }
    found = {"name": "household", "knows": "knows families", "before": 811.0, "after": 313.0, "highest_risk": 0.97}
    summary["swap"]["intruders"] = [found]
    filled = filled_form(Form.named(name), typed(summary), edition="internal")
    answers = {answer.places: answer.text for _, answers in filled.sections for answer in answers if answer.state == "filled"}
    assert answers["swap.intruders[household].highest_risk",] == "0.97"
    assert any("313" in text for text in answers.values())
    before = {"ema": {"3,131", "811", "0.98"}, "iso27559": {"3,131", "2,121", "0.98"}, "five-safes": {"2,121"}}[name]
    assert before <= {*answers.values()}
    says = [answer.says for _, answers in filled.sections for answer in answers if answer.places == ("swap.risk_after.highest",)]
    assert all("by its own keys" in words for words in says)
    assert says


def test_an_office_can_bring_a_form_of_its_own(run: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(
        'title = "Ours"\nsource = "our own"\n[[section]]\nnumber = "1"\ntitle = "Size"\n'
        'entries = [{ says = "Records", from = ["records"] }, { says = "Signed by" }]\n',
        encoding="utf-8",
    )
    shown = CliRunner().invoke(main, ["report", str(run), "--template", str(own)]).output
    assert "- Records: 701 (`records`)" in shown
    assert "- Signed by: *to be filled in by the office*" in shown
    own.write_text('title = "Ours"\n', encoding="utf-8")
    with pytest.raises(rc.BadInput, match="lacks"):
        Form.named(str(own))

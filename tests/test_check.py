"""A check says the same in every form, without a value of a record, and its exit code stops a pipeline."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from click.testing import CliRunner, Result

import rarecell as rc
from rarecell.choices import CHECK_FORMATS
from rarecell.cli import main
from rarecell.outcome.check import Check, Limits, RuleOutcome, check_of
from rarecell.outcome.decision import decided
from rarecell.outcome.profile import PROFILES
from rarecell.outcome.summary import FamilySummary
from rarecell.report.pipelines import FORMATS, as_junit, as_sarif, as_text
from tests.summaries import census_summary, families_summary, typed


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("check") / "people.csv"
    rows = "".join(f"{20 + row % 60},{row % 7},{row % 2}\n" for row in range(600)) + "99,quaint,1\n"
    path.write_text("age,region,sex\n" + rows, encoding="utf-8")
    return path


def checked(people: Path, *words: str) -> Result:
    usual = [str(people), "--keys", "age,region,sex", "--population", "3000", "--model", "independence", "--quiet"]
    return CliRunner().invoke(main, ["check", *usual, *words])


LIMITS = (
    *("max_record_risk", "max_correct_links", "max_correct_links_share", "max_household_links_share", "least_k", "max_leak"),
    "max_change",
)
RULES = (
    RuleOutcome(
        rule="highest-risk", says="no risk above 0.2", measured=0.5, allowed=0.2, passed=False, sentence="0.5 is <above> 0.2."
    ),
    RuleOutcome(rule="smallest-group", says="3 & more alike", measured=4, allowed=3, passed=True, sentence="4 records or more."),
)
CHECK = Check(file="data/people.csv", records=601, verdict="do not release", rules=RULES)


def test_every_form_has_a_word() -> None:
    assert tuple(FORMATS) == CHECK_FORMATS


def test_a_check_says_in_words_what_it_found() -> None:
    assert str(CHECK) == "Do not release. 0.5 is <above> 0.2."
    kept = replace(CHECK, verdict="release", profile="public", rules=RULES[1:])
    assert str(kept) == "Release by the profile 'public'. Every rule is kept."
    unsure = replace(RULES[1], is_unsure=True, sentence="the light is amber.")
    assert (
        str(replace(kept, verdict="look", rules=(unsure,))) == "Release after a look by the profile 'public'. The light is amber."
    )


def test_junit_has_a_case_for_each_rule() -> None:
    suite = ElementTree.fromstring(as_junit(CHECK)).find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("name")) == ("2", "1", "data/people.csv")
    broken, kept = suite.findall("testcase")
    failure = broken.find("failure")
    assert failure is not None
    assert failure.get("message") == "0.5 is <above> 0.2."
    assert failure.text == "measured 0.5, allowed 0.2"
    assert kept.find("failure") is None
    helped = ElementTree.fromstring(as_junit(replace(CHECK, rules=(replace(RULES[0], remedy="Swap."),)))).find(".//failure")
    assert helped is not None
    assert helped.text == "measured 0.5, allowed 0.2. Swap."


def test_sarif_has_what_code_hosts_ask_for() -> None:
    log = json.loads(as_sarif(CHECK))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["highest-risk", "smallest-group"]
    (result,) = run["results"]
    assert result["ruleId"] == run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "highest-risk"
    assert result["level"] == "error"
    assert result["message"]["text"].endswith("0.5 is <above> 0.2.")
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "data/people.csv"


def test_text_is_a_line_for_each_rule() -> None:
    assert as_text(CHECK).splitlines() == [
        "FAIL  highest-risk: 0.5 is <above> 0.2.",
        "ok    smallest-group: 4 records or more.",
        "data/people.csv: do not release",
    ]


@pytest.mark.parametrize("form", CHECK_FORMATS)
def test_a_broken_rule_ends_with_exit_code_3_in_every_form(people: Path, form: str) -> None:
    done = checked(people, "--fail-above", "0.01", "--fail-below", "1", "--format", form)
    assert done.exit_code == 3, done.output
    assert "highest-risk" in done.output
    assert "quaint" not in done.output


def test_a_file_that_keeps_the_rules_passes_and_can_be_written(people: Path, tmp_path: Path) -> None:
    target = tmp_path / "check.json"
    done = checked(people, "--fail-below", "1", "--format", "json", "--output", str(target))
    assert done.exit_code == 0, done.output
    assert done.stdout == ""
    check = Check.from_dict(json.loads(target.read_text(encoding="utf-8")))
    assert check.verdict in ("release", "look")
    assert [rule.rule for rule in check.rules] == ["smallest-group"]
    assert target.stat().st_mode & 0o077 == 0


def test_a_check_without_a_rule_is_wrong_usage(people: Path) -> None:
    done = checked(people)
    assert done.exit_code == 2
    assert "--profile public" in done.output
    with pytest.raises(rc.BadInput, match="held against"):
        rc.check(str(people), keys=["age"], population=3000)


def test_a_profile_is_a_rule_for_each_of_its_limits(people: Path, tmp_path: Path) -> None:
    done = checked(people, "--profile", "public", "--json")
    check = Check.from_dict(json.loads(done.stdout))
    assert done.exit_code == (3 if check.verdict == "do not release" else 0)
    assert check.profile == "public"
    limits = [name.replace("_", "-") for name in LIMITS if getattr(PROFILES["public"], name) is not None]
    assert [rule.rule for rule in check.rules] == [*limits, "worst-light", "undeclared-household", "names-persons"]
    highest = check.rules[0]
    assert highest.allowed == PROFILES["public"].max_record_risk
    assert highest.passed == (highest.measured is not None and highest.measured <= highest.allowed)
    links = next(rule for rule in check.rules if rule.rule == "max-correct-links-share")
    found = rc.assess(str(people), keys=["age", "region", "sex"], population=3000, model="independence").summary
    assert links.measured == pytest.approx(found.risk.expected_correct_matches / found.records)
    assert links.passed == (links.measured <= links.allowed)
    strict = tmp_path / "strict.toml"
    strict.write_text("least_k = 50\nworst_light = 'red'\n", encoding="utf-8")
    done = checked(people, "--profile", str(strict))
    assert done.exit_code == 3
    assert "FAIL  least-k" in done.stdout
    assert done.stdout.splitlines()[-1].endswith("do not release (profile strict)")


def test_the_share_of_households_that_are_linked_is_measured() -> None:
    summary = census_summary()
    families = families_summary()
    for known, measured in ((True, 0.2), (False, None)):
        summary["risk"]["families"] = families | {"known": known}
        check = check_of("people.csv", typed(summary), profile=PROFILES["scientific"])
        rule = next(rule for rule in check.rules if rule.rule == "max-household-links-share")
        assert (rule.measured, rule.passed) == (measured, not known)


def test_families_that_nobody_named_and_names_of_persons_do_not_pass_a_profile(tmp_path: Path) -> None:
    """Keys may be harmless while the columns beside them give everybody away."""
    rng = np.random.default_rng(3)
    homes = np.repeat(np.arange(200), 3)
    table = pa.table(
        {
            "sex": rng.integers(0, 2, 600),
            "home": homes + 1000,
            "town": rng.integers(0, 40, 200)[homes],
            "rooms": rng.integers(1, 9, 200)[homes],
            "contact": [f"p{k}@example.org" for k in range(600)],
        }
    )
    pa.csv.write_csv(table, tmp_path / "homes.csv")
    options = {"keys": ["sex"], "population": 60_000}

    def check(**more: object) -> tuple[str, RuleOutcome, RuleOutcome]:
        done = rc.check(str(tmp_path / "homes.csv"), profile="public", **options, **more)
        rules = {rule.rule: rule for rule in done.rules}
        return done.verdict, rules["undeclared-household"], rules["names-persons"]

    verdict, household, _ = check()
    assert (verdict, household.passed) == ("do not release", False)
    assert "give --household home" in household.sentence
    verdict, household, names = check(households_known="no")
    assert (verdict, household.passed, names.is_unsure) == ("look", True, True)
    assert "'contact' (e-mail addresses)" in names.sentence
    assert "@" not in names.sentence
    assert check(households_known="no", id="contact")[0] == "release"
    # Rules by number ask for nothing else.
    assert len(rc.check(str(tmp_path / "homes.csv"), fail_below=3, **options).rules) == 1


def test_the_verdict_is_that_of_the_profile(people: Path) -> None:
    found = rc.assess(str(people), keys=["age", "region", "sex"], population=3000, model="independence")
    for profile in PROFILES.values():
        check = check_of("people.csv", found.summary, profile=profile)
        assert check.verdict == decided(found.summary, profile).verdict
        assert bool(check.broken) == (check.verdict == "do not release")


def test_a_limit_that_the_run_says_nothing_about_is_not_called_kept(people: Path) -> None:
    done = checked(people, "--profile", "public")
    lines = {line[6:].partition(":")[0]: line for line in done.stdout.splitlines()}
    assert lines["max-household-links-share"].startswith("-   ")
    assert lines["max-leak"] == "-     max-leak: not looked at: no key was recoded or swapped."
    suite = ElementTree.fromstring(checked(people, "--profile", "public", "--format", "junit").stdout).find("testsuite")
    assert suite is not None
    assert suite.get("skipped") == "2"
    assert len(suite.findall("testcase/skipped")) == 2


def test_what_must_be_looked_at_is_a_warning() -> None:
    unsure = RuleOutcome(
        rule="worst-light", says="amber or better", passed=True, is_unsure=True, sentence="Reliability is amber."
    )
    check = Check(file="a.csv", records=1, verdict="look", profile="public", rules=(unsure,))
    (result,) = json.loads(as_sarif(check))["runs"][0]["results"]
    assert result["level"] == "warning"
    assert as_text(check).startswith("look  worst-light")
    assert ElementTree.fromstring(as_junit(check)).find("testsuite/testcase/failure") is None


def test_a_check_replaces_nothing_that_it_reads(people: Path, tmp_path: Path) -> None:
    register, linked = tmp_path / "register.csv", tmp_path / "same.csv"
    register.write_bytes(people.read_bytes())
    linked.hardlink_to(people)
    before = people.read_bytes()
    for target in (people, linked, register):
        done = checked(people, "--register", str(register), "--fail-below", "1", "--output", str(target))
        assert done.exit_code == 1, done.output
        assert "is read by this command" in done.output
    assert people.read_bytes() == register.read_bytes() == before
    device = checked(people, "--fail-below", "1", "--output", "/dev/null")
    assert "a link, a folder or a device" in device.output
    assert Path("/dev/null").is_char_device()


def test_a_match_with_a_family_counts_as_one_with_a_record() -> None:
    plain = census_summary()
    families = FamilySummary(
        households=400,
        sample_uniques=9,
        expected_population_uniques=2.0,
        expected_correct_matches=3.0,
        expected_persons=4.0,
        interval=(1.0, 3.0),
        highest_match=0.4,
        above_threshold=0,
        records_above_threshold=0,
        expected_records=5.0,
        places=4,
    )
    plain["risk"] |= {"highest_match": 0.05, "families": families.to_dict()}
    limits = Limits(fail_above_match=0.09)
    (rule,) = limits.outcomes(typed(plain))
    assert (rule.measured, rule.passed) == (0.4, False)
    plain["risk"]["families"]["known"] = False
    (rule,) = limits.outcomes(typed(plain))
    assert (rule.measured, rule.passed) == (0.05, True)


def test_a_match_that_was_not_computed_is_not_better_for_it() -> None:
    plain = census_summary()
    plain["risk"].pop("highest_match", None)
    (rule,) = Limits(fail_above_match=0.99).outcomes(typed(plain))
    assert not rule.passed


@pytest.mark.parametrize(
    ("limits", "passed"),
    [
        ({"fail_above": 0.25}, True),
        ({"fail_above": 0.24}, False),
        ({"fail_above_match": 0.5}, True),
        ({"fail_above_match": 0.49}, False),
        ({"fail_below": 3}, True),
        ({"fail_below": 4}, False),
    ],
)
def test_a_number_at_the_limit_keeps_it(limits: dict[str, float], passed: bool) -> None:
    plain = census_summary()
    plain["risk"] |= {"highest": 0.25, "highest_match": 0.5}
    plain["cells"]["size_indices"] = {"3": 1, "9": 2}
    (rule,) = Limits(**limits).outcomes(typed(plain))
    assert rule.passed is passed


def test_a_red_light_is_looked_at_where_no_profile_says_what_light_will_do() -> None:
    plain = census_summary()
    for light, verdict in (("green", "release"), ("amber", "release"), ("red", "look")):
        plain["risk"]["reliability"] = {"light": light}
        assert check_of("a.csv", typed(plain), limits=Limits(fail_above=1.0)).verdict == verdict

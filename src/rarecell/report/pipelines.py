"""How does a pipeline read a check: as JUnit XML, as SARIF, as JSON, or as lines of text?

None of them has a value of a record: only rules, what was measured and what is allowed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from xml.etree import ElementTree

from rarecell import __version__
from rarecell.engine.output import atomic_path
from rarecell.outcome.check import Check, RuleOutcome
from rarecell.outcome.words import fit_for_xml

DOCUMENTATION = "https://rarecell.readthedocs.io/"


def as_text(check: Check) -> str:
    """A line for each rule, and the verdict."""
    lines = [f"{_word(rule)}  {rule.rule}: {rule.sentence}{_remedy(rule)}" for rule in check.rules]
    by = "" if check.profile is None else f" (profile {check.profile})"
    return "\n".join([*lines, f"{check.file}: {check.verdict}{by}"])


def _word(rule: RuleOutcome) -> str:
    return "FAIL" if not rule.passed else "look" if rule.is_unsure else "ok  " if rule.is_looked_at else "-   "


def _remedy(rule: RuleOutcome) -> str:
    return f" {rule.remedy}" if rule.remedy else ""


def as_json(check: Check) -> str:
    return json.dumps(check.to_dict(), indent=2, ensure_ascii=False)


def as_junit(check: Check) -> str:
    """A test case for each rule, as GitLab, Jenkins and Azure Pipelines show them."""
    suites = ElementTree.Element("testsuites", name="rarecell check")
    suite = ElementTree.SubElement(
        suites,
        "testsuite",
        name=check.file,
        tests=str(len(check.rules)),
        failures=str(len(check.broken)),
        errors="0",
        skipped=str(sum(not rule.is_looked_at for rule in check.rules)),
    )
    properties = ElementTree.SubElement(suite, "properties")
    facts = (("rarecell", __version__), ("verdict", check.verdict), ("profile", check.profile), ("records", str(check.records)))
    for name, value in ((name, value) for name, value in facts if value is not None):
        ElementTree.SubElement(properties, "property", name=name, value=value)
    for rule in check.rules:
        case = ElementTree.SubElement(suite, "testcase", classname="rarecell.check", name=f"{rule.rule}: {rule.says}")
        if not rule.passed:
            failure = ElementTree.SubElement(case, "failure", type=rule.rule, message=rule.sentence)
            failure.text = ". ".join(part for part in (_figures(rule), rule.remedy) if part)
        elif not rule.is_looked_at:
            ElementTree.SubElement(case, "skipped", message=rule.sentence)
        else:
            ElementTree.SubElement(case, "system-out").text = f"{_word(rule).strip()}: {rule.sentence}{_remedy(rule)}"
    ElementTree.indent(suites)
    return fit_for_xml(ElementTree.tostring(suites, encoding="unicode", xml_declaration=True))


def as_sarif(check: Check) -> str:
    """SARIF 2.1.0: an error for each broken rule and a warning for what must be looked at, as code hosts show them beside a change."""
    rules = [
        {
            "id": rule.rule,
            "shortDescription": {"text": rule.says},
            "helpUri": f"{DOCUMENTATION}howto/ci.html",
            "defaultConfiguration": {"level": "error"},
        }
        for rule in check.rules
    ]
    places = [{"physicalLocation": {"artifactLocation": {"uri": Path(check.file).as_posix()}, "region": {"startLine": 1}}}]
    results = [
        {
            "ruleId": rule.rule,
            "ruleIndex": index,
            "level": "warning" if rule.passed else "error",
            "message": {"text": f"{check.file}: {rule.sentence}{_remedy(rule)}"},
            "locations": places,
            "properties": {"measured": rule.measured, "allowed": rule.allowed},
        }
        for index, rule in enumerate(check.rules)
        if not rule.passed or rule.is_unsure
    ]
    driver = {"name": "rarecell", "version": __version__, "informationUri": DOCUMENTATION, "rules": rules}
    run = {"tool": {"driver": driver}, "results": results, "properties": {"verdict": check.verdict, "profile": check.profile}}
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, ensure_ascii=False)


def _figures(rule: RuleOutcome) -> str:
    return "" if rule.measured is None or rule.allowed is None else f"measured {rule.measured:.6g}, allowed {rule.allowed:.6g}"


FORMATS: Mapping[str, Callable[[Check], str]] = MappingProxyType(
    {"text": as_text, "json": as_json, "junit": as_junit, "sarif": as_sarif}
)
"""Every form that a check can be written in, by the word of ``--format``."""


def write_check(path: Path, check: Check, form: str) -> Path:
    """Write a check in one of :data:`FORMATS`, readable by its owner alone."""
    with atomic_path(path) as temporary:
        temporary.write_text(FORMATS[form](check) + "\n", encoding="utf-8")
    return path

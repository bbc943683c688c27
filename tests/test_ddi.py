"""The codebook of a handover has the structure of DDI-Codebook 2.5.

The schema of the DDI Alliance (codebook.xsd, version 2.5 of 2012-01-17) is not shipped and cannot be fetched by a test. Every type
below was compared with its text, as the public repository ncrncornell/ddi-schemas has it: all children in their order, how often each
may occur, required attributes, and the values of attributes that come from a list. The Dublin Core elements at the end of a citation
and attributes that a handover does not write are left out. Elements without an entry hold text or nothing.
"""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

import rarecell as rc
from rarecell.outcome.release import HandedColumn, Handover
from rarecell.report.handover import NAMESPACE, codebook_xml
from rarecell.run.handover import handover
from tests.whole_files import FILES

pytest.importorskip("pyreadstat")

ORDER = {
    "codeBook": "docDscr* stdyDscr+ fileDscr* dataDscr* otherMat*",
    "stdyDscr": "citation+ studyAuthorization* stdyInfo* studyDevelopment* method* dataAccs* othrStdyMat* notes*",
    "citation": "titlStmt rspStmt? prodStmt? distStmt? serStmt* verStmt* biblCit? holdings* notes*",
    "titlStmt": "titl subTitl* altTitl* parTitl* IDNo*",
    "prodStmt": "producer* copyright? prodDate* prodPlac* software* fundAg* grantNo*",
    "fileDscr": "fileTxt* locMap? notes*",
    "fileTxt": "fileName? fileCitation? fileCont? fileStrc? dimensns? fileType? format? filePlac? dataChck* ProcStat? dataMsng? software* verStmt?",
    "dimensns": "caseQnty* varQnty* logRecL* recPrCas* recNumTot*",
    "dataDscr": "varGrp* nCubeGrp* var* nCube* notes*",
    "var": "location* labl* imputation? security? embargo? respUnit? anlysUnit? qstn* valrng* invalrng* undocCod* universe* TotlResp? sumStat* txt* "
    "stdCatgry* catgryGrp* catgry* codInstr* verStmt* concept* derivation? varFormat? geoMap* catLevel* notes*",
    "invalrng": "(item|range)+ key? notes*",
    "catgry": "catValu? labl* txt* catStat* mrow?",
}
REQUIRED = {"var": {"name"}, "item": {"VALUE"}}
LISTED = {
    ("varFormat", "type"): {"numeric", "character"}, ("catgry", "missing"): {"Y", "N"}, ("codeBook", "version"): {"2.5"},
    ("item", "UNITS"): {"INT", "REAL"}, ("range", "UNITS"): {"INT", "REAL"},
}  # fmt: skip
ALLOWED = {
    "codeBook": {"version"}, "fileDscr": {"ID"}, "var": {"ID", "name", "files"}, "catgry": {"missing"}, "varFormat": {"type"},
    "software": {"version"}, "item": {"UNITS", "VALUE"}, "range": {"UNITS", "min", "max"},
}  # fmt: skip


def children_pattern(order: str) -> re.Pattern[str]:
    """A model of children as a pattern over their names, each followed by a space."""
    parts = [re.sub(r"\w+", lambda name: f"(?:{name[0]} )", part) for part in order.split()]
    return re.compile("".join(parts))


def check_structure(text: str) -> None:
    root = ElementTree.fromstring(text)
    ids: list[str] = []
    for element in root.iter():
        assert element.tag.startswith(f"{{{NAMESPACE}}}")
        name = element.tag.rpartition("}")[2]
        children = "".join(f"{child.tag.rpartition('}')[2]} " for child in element)
        assert children_pattern(ORDER.get(name, "")).fullmatch(children), (name, children)
        assert REQUIRED.get(name, set()) <= set(element.attrib) <= ALLOWED.get(name, set()), (name, element.attrib)
        for attribute, value in element.attrib.items():
            assert value in LISTED.get((name, attribute), {value})
        ids += [element.attrib["ID"]] if "ID" in element.attrib else []
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[A-Za-z_][\w.-]*", one) for one in ids)
    for variable in root.iter(f"{{{NAMESPACE}}}var"):
        assert set(variable.attrib["files"].split()) <= set(ids)


def test_the_check_would_notice() -> None:
    good = f'<codeBook xmlns="{NAMESPACE}" version="2.5"><stdyDscr><citation><titlStmt><titl>x</titl></titlStmt></citation></stdyDscr></codeBook>'
    check_structure(good)
    for bad in (
        good.replace("<titl>x</titl>", ""),
        good.replace("</stdyDscr>", "</stdyDscr><docDscr/>"),
        good.replace('version="2.5"', 'version="3"'),
        good.replace("<titlStmt>", "<titlStmt><IDNo>1</IDNo>"),
        good.replace("</titlStmt>", "</titlStmt><biblCit/><biblCit/>"),
        good.replace("</stdyDscr>", "</stdyDscr><fileDscr><fileTxt><fileName/><fileName/></fileTxt></fileDscr>"),
        good.replace("</stdyDscr>", '</stdyDscr><dataDscr><var name="x"><invalrng><item/></invalrng></var></dataDscr>'),
    ):
        with pytest.raises(AssertionError):
            check_structure(bad)


@pytest.mark.parametrize("name", ["mics", "silc"])
def test_the_codebook_of_a_handover_has_the_structure_of_the_schema(tmp_path: Path, name: str) -> None:
    survey = FILES[name](tmp_path, leaks=False)
    options = {**survey.options, "missing_codes": "wscore=-9" if name == "mics" else "PE041=8"}
    rc.protect(
        survey.path,
        out=tmp_path / "run",
        top=3,
        model="single",
        resolution="full",
        search="greedy",
        restarts=1,
        seed=1,
        **options,
    )
    made = handover(tmp_path / "run", reason="test")
    text = (made / "codebook.xml").read_text(encoding="utf-8")
    check_structure(text)
    assert ('<item VALUE="9" />' if name == "mics" else '<item VALUE="8" />') in text


def test_missing_codes_with_decimals_are_no_whole_numbers() -> None:
    column = HandedColumn(name="rate", kind="number", missing=("-9", "-9.5", "97.5 to 99"))
    made = Handover(
        file="data.csv",
        records=1,
        columns=(column,),
        identifiers="dropped",
        order="shuffled",
        date="2026-01-01",
        sha256="",
        version="1",
    )
    text = codebook_xml(made, "survey")
    check_structure(text)
    assert '<item VALUE="-9" />' in text
    assert '<item UNITS="REAL" VALUE="-9.5" />' in text
    assert '<range UNITS="REAL" min="97.5" max="99" />' in text

"""What do users of a released file need to know about it: a codebook for people and for programs, and one page?

The codebook is written as CSV and as DDI-Codebook 2.5 (https://ddialliance.org), which archives read. Nothing here comes from the
original file.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from html import escape
from xml.etree import ElementTree

from rarecell.outcome.release import HandedColumn, Handover
from rarecell.outcome.summary import RunSummary
from rarecell.outcome.words import counted, fit_for_xml, harmless, listed, number

NAMESPACE = "ddi:codebook:2_5"


def codebook_csv(columns: Sequence[HandedColumn]) -> str:
    """One row for each column, and one for each of its levels where they are few."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["column", "label", "type", "value", "value_label", "missing", "what_was_done"])
    for column in columns:
        rows = column.levels or (("", ""),)
        for value, label in rows:
            is_missing = "yes" if value in column.missing else ""
            row = [column.name, column.label, column.kind, value, label, is_missing, column.done]
            writer.writerow([harmless(cell) for cell in row])
    return out.getvalue()


def codebook_xml(handover: Handover, title: str) -> str:
    """The codebook as DDI-Codebook 2.5."""
    ElementTree.register_namespace("", NAMESPACE)
    root = _element(None, "codeBook", version="2.5")
    citation = _element(_element(root, "stdyDscr"), "citation")
    _element(_element(citation, "titlStmt"), "titl", title)
    _element(_element(citation, "prodStmt"), "software", f"rarecell {handover.version}", version=handover.version)
    file_text = _element(_element(root, "fileDscr", ID="F1"), "fileTxt")
    _element(file_text, "fileName", handover.file)
    size = _element(file_text, "dimensns")
    _element(size, "caseQnty", str(handover.records))
    _element(size, "varQnty", str(len(handover.columns)))
    data = _element(root, "dataDscr")
    for position, column in enumerate(handover.columns, start=1):
        variable = _element(data, "var", ID=f"V{position}", name=column.name, files="F1")
        if column.label:
            _element(variable, "labl", column.label)
        if column.missing:
            invalid = _element(variable, "invalrng")
            for code in column.missing:
                low, sign, high = code.partition(" to ")
                # The schema takes values for whole numbers unless told otherwise.
                units = {"UNITS": "REAL"} if "." in code else {}
                _element(invalid, "range", **units, min=low, max=high) if sign else _element(invalid, "item", **units, VALUE=code)
        _element(variable, "txt", f"Disclosure control: {column.done}.")
        for value, label in column.levels:
            category = _element(variable, "catgry", **({"missing": "Y"} if value in column.missing else {}))
            _element(category, "catValu", value)
            if label:
                _element(category, "labl", label)
        _element(variable, "varFormat", type="numeric" if column.kind == "number" else "character")
    ElementTree.indent(root)
    return fit_for_xml('<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n")


def _element(parent: ElementTree.Element | None, tag: str, text: str | None = None, **attributes: str) -> ElementTree.Element:
    full = f"{{{NAMESPACE}}}{tag}"
    element = ElementTree.Element(full, attributes) if parent is None else ElementTree.SubElement(parent, full, attributes)
    element.text = text
    return element


_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a}"
    "h1{font-size:1.6rem}h2{font-size:1.15rem;margin-top:1.6rem}table{border-collapse:collapse}"
    "td,th{border-bottom:1px solid #ccc;padding:.2rem .8rem .2rem 0;text-align:left;vertical-align:top}"
)


def users_page(handover: Handover, outside: RunSummary, title: str) -> str:
    """One page for users of the data; ``outside`` is the external edition of the summary."""
    changed = [column for column in handover.columns if column.done != HandedColumn.done]
    parts = [
        f"<p>{escape(title)}: {number(handover.records)} records, {counted(len(handover.columns), 'column')}. "
        f"The population has {number(outside.population)} units.</p>",
        "<h2>What was done to protect the people in it</h2>",
        "<table><tr><th>Column</th><th>What was done</th></tr>"
        + "".join(f"<tr><td>{escape(column.name)}</td><td>{escape(column.done)}</td></tr>" for column in changed)
        + "</table>"
        if changed
        else "<p>All columns are as they were collected.</p>",
        f"<p>{escape(_identifiers(handover))}</p>",
        "<h2>What that means for your analyses</h2>",
        "".join(f"<p>{escape(sentence)}</p>" for sentence in _advice(outside)),
        "<h2>What is here</h2>",
        "<ul>"
        f"<li>{escape(handover.file)}: the data</li><li>codebook.csv and codebook.xml (DDI-Codebook 2.5): columns, levels, labels, and what "
        "was done to each</li><li>report.html: how the risk was assessed</li></ul>",
        f"<p>{escape(formula_warning(handover))}</p>" if handover.formulas else "",
        "<p>Do not try to find out who a record is about. Tell the office that gave you the file if you recognise somebody.</p>",
        f"<p>{escape(_signature(handover))}</p>",
    ]
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body><h1>About this file</h1>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def formula_warning(handover: Handover) -> str:
    """What to know before the data are opened in a spreadsheet, which would run some of their values."""
    return (
        f"Values of {listed(handover.formulas)} begin with a sign such as = or @, which a spreadsheet takes for a formula. They are in "
        f"{handover.file} as they were collected: import it as text, and do not open it with a double click."
    )


def _identifiers(handover: Handover) -> str:
    identifiers = {
        "dropped": "Names and numbers of records and households are not in the file.",
        "renumbered": "Households have new numbers, drawn at random: members of a household have the same number. Other names and "
        "numbers of records are not in the file.",
        "kept": "Records and households have the numbers that the office uses itself.",
    }[handover.identifiers]
    order = "in random order" if handover.order == "shuffled" else "in the order in which they were collected"
    return f"{identifiers} The records are {order}."


def _advice(outside: RunSummary) -> list[str]:
    swap = outside.swap
    if swap is None:
        return ["The values are those of the original file."]
    sentences = []
    if swap.formal is not None:
        sentences.append("Values of keys were rearranged at random, with the guarantee that the report states.")
    elif swap.keeps_model:
        sentences.append("Values of keys were exchanged between some records. Which records is not told, and it does not show.")
        cliques = "; ".join(listed(margin.variables) for margin in swap.margins[:12])
        if cliques:
            but = "" if swap.suppression is None else ", except for the values that were made missing"
            sentences.append(f"Tables of these columns are exactly those of the original file{but}: {cliques}.")
    else:
        sentences.append(
            "Some records changed places with others that are like them: tables by area differ from the original ones."
        )
    if swap.file is not None:
        sentences.append(f"{swap.file.sentence[:1].upper()}{swap.file.sentence[1:]}.")
    if swap.suppression is not None:
        sentences.append("Some values were made missing, because they would have singled a person out.")
    for target in swap.attribute_targets:
        if target.exchanged:
            alike = f" that are alike in {listed(target.agree)}" if target.agree else ""
            sentences.append(f"Values of {target.column} were exchanged between some records{alike}.")
    blanked = [target.column for target in swap.attribute_targets if target.blanked]
    if blanked:
        sentences.append(f"Values of {listed(blanked)} were made missing where groups of like people would have given them away.")
    sentences.append(
        "Relations of exchanged columns with columns that stayed in place are somewhat weaker than in the original file."
    )
    return sentences


def _signature(handover: Handover) -> str:
    by = f" by {handover.signed_by}" if handover.signed_by else ""
    return f"Handed over on {handover.date}{by}. SHA-256 of the data: {handover.sha256}. Made with rarecell {handover.version}."

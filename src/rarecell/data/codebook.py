"""What does a codebook say about the columns of a file: labels, codes for "missing", order, roles?

Two formats of archives and portals are read: DDI-Codebook (XML, versions 1 to 2.5) and the Data Package of Frictionless
(``datapackage.json``). Neither says what an intruder could know, so keys are named by the user, or in a Data Package by a property of our own,
``"rarecell:role": "key"``. Weights, identifiers and areas are read where the format has a place for them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from rarecell.data.missing_codes import code_forms
from rarecell.engine.places import existing_file
from rarecell.errors import BadInput

if TYPE_CHECKING:
    from rarecell.engine.source import Column

ROLES = ("key", "weight", "household", "sensitive", "id", "none")
"""Words for ``rarecell:role``."""


@dataclass(frozen=True)
class ColumnEntry:
    """What a codebook says about a column; ``missing`` are codes as they are written in the codebook."""

    name: str
    label: str = ""
    value_labels: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    is_ordered: bool | None = None
    role: str = ""


@dataclass(frozen=True)
class Codebook:
    """The columns of a file, by name. ``data`` is the file that the codebook describes, where it names one."""

    source: str
    columns: Mapping[str, ColumnEntry]
    data: str = ""

    @classmethod
    def read(cls, path: str | Path) -> Codebook:
        """Read a DDI-Codebook or a Data Package, whichever it is."""
        file = existing_file(path)
        text = file.read_bytes()
        if text.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
            return _ddi(file, text)
        try:
            given = json.loads(text.decode("utf-8-sig"))
        except ValueError as problem:
            raise BadInput(
                f"The codebook {file} is neither XML nor JSON: {problem}. A DDI-Codebook or a datapackage.json is expected."
            ) from None
        return _data_package(file, given)

    def applied(self, column: Column) -> Column:
        """The column with what the codebook adds to it; what the file itself says comes first."""
        entry = self.columns.get(column.name)
        if entry is None:
            return column
        return replace(
            column,
            label=column.label or entry.label,
            value_labels={
                **{form: label for code, label in entry.value_labels.items() for form in code_forms(code)},
                **column.value_labels,
            },
            user_missing=(*column.user_missing, *(form for code in entry.missing for form in code_forms(code))),
            is_ordered=entry.is_ordered if column.is_ordered is None else column.is_ordered,
        )

    def coding(self, names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
        """The ``coding`` of a configuration for keys: codes for "missing", and order where the codebook declares it."""
        made: dict[str, dict[str, Any]] = {}
        for name in names:
            entry = self.columns.get(name)
            if entry is None:
                continue
            how: dict[str, Any] = {}
            if entry.missing:
                how["missing"] = [code_forms(code)[-1] for code in entry.missing]
            if entry.is_ordered is not None:
                how["ordered"] = entry.is_ordered
            if how:
                made[name] = how
        return made

    def with_role(self, role: str) -> tuple[str, ...]:
        """The columns to which the codebook gives a role."""
        return tuple(entry.name for entry in self.columns.values() if entry.role == role)


# ---------------------------------------------------------------------- DDI-Codebook


def _ddi(file: Path, text: bytes) -> Codebook:
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as problem:
        raise BadInput(f"The codebook {file} is not well-formed XML: {problem}.") from None
    if _local(root) != "codeBook":
        raise BadInput(f"{file} begins with <{_local(root)}>; a DDI-Codebook begins with <codeBook>.")
    variables = [element for element in root.iter() if _local(element) == "var"]
    if not variables:
        raise BadInput(f"The DDI-Codebook {file} describes no variable (<var>).")
    weights = {reference for variable in variables for reference in variable.get("wgt-var", "").split()}
    entries = [_ddi_variable(variable, weights) for variable in variables]
    name = next((_text(element) for element in root.iter() if _local(element) == "fileName"), "")
    version = root.get("version", "")
    return Codebook(f"DDI-Codebook {version}".strip(), {entry.name: entry for entry in entries}, name)


def _ddi_variable(variable: ElementTree.Element, weights: set[str]) -> ColumnEntry:
    labels: dict[str, str] = {}
    missing: list[str] = []
    for element in variable:
        if _local(element) == "catgry":
            code = next((_text(part) for part in element if _local(part) == "catValu"), "")
            label = next((_text(part) for part in element if _local(part) == "labl"), "")
            if code:
                labels[code] = label or code
                if element.get("missing") == "Y":
                    missing.append(code)
        elif _local(element) == "invalrng":
            missing += [item.get("VALUE", "") for item in element if _local(item) == "item" and item.get("VALUE")]
    nature = variable.get("nature")
    is_weight = variable.get("wgt") == "wgt" or variable.get("ID") in weights
    return ColumnEntry(
        name=variable.get("name") or variable.get("ID") or "",
        label=next((_text(element) for element in variable if _local(element) == "labl"), ""),
        value_labels=labels,
        missing=tuple(dict.fromkeys(missing)),
        is_ordered={"nominal": False, "ordinal": True, "interval": True, "ratio": True}.get(nature or ""),
        # Where somebody lives is known to others.
        role="weight" if is_weight else "key" if variable.get("geog") == "Y" else "",
    )


def _local(element: ElementTree.Element) -> str:
    """The name of an element without its namespace."""
    return element.tag.rpartition("}")[2]


def _text(element: ElementTree.Element) -> str:
    return " ".join("".join(element.itertext()).split())


# ---------------------------------------------------------------------- Data Package


def _data_package(file: Path, given: Any) -> Codebook:
    resources = given.get("resources") if isinstance(given, dict) else None
    tables = [part for part in resources or () if isinstance(part, dict) and isinstance(part.get("schema"), dict)]
    if not tables:
        raise BadInput(f"{file} has no resource with a schema, as a datapackage.json of tabular data has.")
    resource = tables[0]
    schema = resource["schema"]
    fields = schema.get("fields")
    if not isinstance(fields, list) or not all(
        isinstance(field, dict) and isinstance(field.get("name"), str) for field in fields
    ):
        raise BadInput(f"The schema in {file} has no list of fields with names.")
    key = schema.get("primaryKey", [])
    identifiers = [key] if isinstance(key, str) else list(key)
    identifier = identifiers[0] if len(identifiers) == 1 else None
    everywhere = tuple(code for code, _ in _valued(schema.get("missingValues", [])) if code)
    entries = [_field(file, field, everywhere, identifier) for field in fields]
    path = resource.get("path", "")
    return Codebook(
        "Data Package", {entry.name: entry for entry in entries}, path if isinstance(path, str) else next(iter(path), "")
    )


def _field(file: Path, given: Mapping[str, Any], everywhere: tuple[str, ...], identifier: str | None) -> ColumnEntry:
    role = given.get("rarecell:role", "")
    if role and role not in ROLES:
        raise BadInput(f"'rarecell:role' of '{given['name']}' in {file} is '{role}'. Give one of {', '.join(ROLES)}.")
    categories = dict(_valued(given.get("categories", ())))
    own = tuple(code for code, _ in _valued(given.get("missingValues", [])) if code)
    return ColumnEntry(
        name=given["name"],
        label=str(given.get("title") or given.get("description") or ""),
        value_labels=categories,
        missing=own or everywhere,
        is_ordered=given.get("categoriesOrdered"),
        role=role or ("id" if given["name"] == identifier else ""),
    )


def _valued(listed: Any) -> Iterator[tuple[str, str]]:
    """Values with labels: the format lets them be plain or written as objects."""
    for entry in listed if isinstance(listed, list | tuple) else ():
        if isinstance(entry, dict):
            yield str(entry.get("value", "")), str(entry.get("label", entry.get("value", "")))
        else:
            yield str(entry), str(entry)

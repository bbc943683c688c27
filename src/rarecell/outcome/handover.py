"""What was handed over: the file that left the office, column by column, and who decided so."""

from __future__ import annotations

from dataclasses import dataclass

from rarecell.outcome.plain import Plain


@dataclass(frozen=True, kw_only=True)
class HandedColumn(Plain):
    """A column of the file that is handed over.

    ``levels`` lists its values with their labels where they are few; ``done`` says in words what was done to it.
    """

    name: str
    label: str = ""
    kind: str = "text"
    levels: tuple[tuple[str, str], ...] = ()
    missing: tuple[str, ...] = ()
    done: str = "as it was collected"


@dataclass(frozen=True, kw_only=True)
class Handover(Plain):
    """A handover, as ``handover.json`` records it; it stays inside.

    Attributes
    ----------
    date, signed_by : str
        When, and who is responsible.
    reason : str
        Why the file goes although the profile of the run says otherwise; empty if it does not.
    verdict : str
        What the profile of the run says.
    file, sha256 : str
        The file and its hash.
    records : int
        Number of records.
    identifiers, order : str
        What was done with identifiers (``dropped``, ``renumbered`` or ``kept``) and with the order of the records.
    dropped, accepted : tuple of str
        Columns left out, and columns released although they look like direct identifiers.
    formulas : tuple of str
        Columns of a text file with values that a spreadsheet would run as formulas; they are released as they are.
    columns : tuple of HandedColumn
        The columns.
    run, version : str
        The name of the run, and the version of the program.
    """

    date: str
    signed_by: str = ""
    reason: str = ""
    verdict: str = ""
    file: str
    sha256: str
    records: int
    identifiers: str
    order: str
    dropped: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()
    formulas: tuple[str, ...] = ()
    columns: tuple[HandedColumn, ...]
    run: str = ""
    version: str = ""

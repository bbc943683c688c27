"""What stands around the keys of a release: columns that give a key away, identifiers, the order of the records; what was handed over."""

from __future__ import annotations

from dataclasses import dataclass

from rarecell.outcome.plain import Plain
from rarecell.outcome.profile import ProfileVerdict


@dataclass(frozen=True, kw_only=True)
class LeakSummary(Plain):
    """Columns that tell about a key that was recoded, swapped or blanked.

    ``determines`` is the share of what the treatment conceals that they restore, corrected for chance; ``treated`` is what was
    done to the key, and ``how`` says what tells: the values, their order, a sum, or the rows of a household. ``restores`` is
    whether this undoes the treatment; such a column stops a run unless it was ``accepted`` by name.
    """

    column: str
    columns: tuple[str, ...] = ()
    key: str
    treated: str
    determines: float
    how: str = "values"
    records: int | str = 0
    restores: bool = False
    accepted: bool = False
    sentence: str = ""


@dataclass(frozen=True, kw_only=True)
class TreatmentSummary(Plain):
    """What was done to a column that is no key, what it cost, and what it protects.

    ``records`` got another value. For numbers there are the mean, the standard deviation and the quantiles (5, 50 and 95 %)
    before and after, weighted where there are weights; the key whose relation to the column changed most, by the correlation
    ratio; and the share of records that are nearest to their own original, among all records and among those with the same keys.
    ``linked_together`` is that share among those with the same keys (among all, where records are only counted) if all treated columns
    of numbers are compared at once.
    """

    column: str
    words: str
    records: int | str
    mean_before: float | None = None
    mean_after: float | None = None
    spread_before: float | None = None
    spread_after: float | None = None
    quantiles_before: tuple[float, ...] = ()
    quantiles_after: tuple[float, ...] = ()
    key: str = ""
    correlation_before: float | None = None
    correlation_after: float | None = None
    linked_before: float | None = None
    linked_after: float | None = None
    linked_with_keys_before: float | None = None
    linked_with_keys_after: float | None = None
    linked_together_before: float | None = None
    linked_together_after: float | None = None
    sentence: str = ""


@dataclass(frozen=True, kw_only=True)
class ReleaseSummary(Plain):
    """The ``release`` part of ``summary.json``: what leaves the office besides protected keys.

    ``identifiers`` and ``order`` say what a handover does with the identifiers of records and households and with the order of the
    records; the protected file itself keeps both, and is internal. ``profile`` is the verdict of the release profile.
    """

    identifiers: str = "dropped"
    order: str = "shuffled"
    leaks: tuple[LeakSummary, ...] = ()
    treatments: tuple[TreatmentSummary, ...] = ()
    profile: ProfileVerdict | None = None


# What was handed over: the file that left the office, column by column, and who decided so.


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

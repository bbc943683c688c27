"""What can go wrong for a user, and what can be done about it?

Every error that a user can cause derives from :class:`RarecellError`. Its constructors write the message as one
paragraph: what was given, what was expected, and what to do. The command line prints that paragraph and exits with 1;
any other exception that escapes is a defect of the program.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


def _quoted(names: Iterable[object]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def nearest_names(name: str, available: Iterable[str], *, limit: int = 3) -> list[str]:
    """Names similar to ``name``, best first; case is ignored."""
    by_folded = {candidate.casefold(): candidate for candidate in available}
    similar = difflib.get_close_matches(name.casefold(), by_folded, n=limit, cutoff=0.6)
    return [by_folded[folded] for folded in similar]


MOST_CHARACTERS = 2000
"""A longer message names thousands of columns; its middle is left out."""


def _one_paragraph(message: str) -> str:
    """Escape control characters: they come from names and values in files, and could garble a terminal or break the paragraph."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in message)
    return shown if len(shown) <= MOST_CHARACTERS else f"{shown[: MOST_CHARACTERS - 400]} … {shown[-400:]}"


class RarecellError(Exception):
    """Base of all errors with a message for the user."""

    def __init__(self, message: str = "") -> None:
        super().__init__(_one_paragraph(str(message)))


class BadInput(RarecellError):
    """The file, a column or a value in it cannot be used."""


class UnknownColumns(RarecellError):
    """Columns were named that the data do not have."""

    @classmethod
    def among(cls, unknown: Sequence[str], available: Sequence[str], *, role: str = "column") -> UnknownColumns:
        sentences = []
        for name in unknown:
            near = nearest_names(name, available)
            hint = f" Did you mean {_quoted(near)}?" if near else ""
            sentences.append(f"There is no {role} '{name}'.{hint}")
        return cls(f"{' '.join(sentences)} The data have: {_quoted(available)}.")


class UnknownChoice(RarecellError):
    """An option was given a value it does not take."""

    @classmethod
    def of(cls, option: str, given: object, choices: Sequence[str], *, others: str = "") -> UnknownChoice:
        """An option takes one of some words, or something else that ``others`` describes."""
        return cls(f"{option} was given as '{given}'; it takes one of {_quoted(choices)}{f', or {others}' if others else ''}.")

    @classmethod
    def of_names(cls, unknown: Sequence[str], known: Sequence[str]) -> UnknownChoice:
        """Options that a function does not have."""
        sentences = []
        for name in unknown:
            near = nearest_names(name, known, limit=1)
            sentences.append(f"There is no option '{name}'.{f' Did you mean {_quoted(near)}?' if near else ''}")
        return cls(f"{' '.join(sentences)} help(rarecell.assess) and help(rarecell.protect) list them all.")


class PopulationTooSmall(RarecellError):
    """The population is smaller than the sample."""

    @classmethod
    def given(cls, population: float, *, n_records: int) -> PopulationTooSmall:
        return cls(
            f"The population was given as {population:,.0f}, but the file itself has {n_records:,} records. The population "
            f"is the number of units the sample was drawn from, so it is at least {n_records:,}; for a full census give exactly that."
        )


class KeyMismatch(RarecellError):
    """A table and a model have different keys."""

    @classmethod
    def between(cls, table_keys: Sequence[str], model_keys: Sequence[str]) -> KeyMismatch:
        return cls(
            f"The table has the keys {_quoted(table_keys)}, the model {_quoted(model_keys)}. "
            "Fit the model to the same table, or build the table with the model's keys."
        )


class NotChordal(RarecellError):
    """A graph was given that is not chordal; ``cycle`` is a chordless cycle in it."""

    def __init__(self, message: str, cycle: Sequence[object] = ()) -> None:
        super().__init__(message)
        self.cycle = tuple(cycle)

    @classmethod
    def with_cycle(cls, cycle: Sequence[object]) -> NotChordal:
        path = " – ".join(str(vertex) for vertex in (*cycle, cycle[0]))
        return cls(
            f"The graph is not chordal: {path} is a cycle without a chord, so no decomposable model has this graph. "
            "Add an edge between two of its vertices that are not neighbours, or use a HierarchicalModel.",
            cycle,
        )


class TooLarge(RarecellError):
    """The requested work does not fit; the message has the numbers."""


class NotConverged(RarecellError):
    """An iterative fit did not reach its tolerance."""


class OutputExists(RarecellError):
    """A result would overwrite a file."""

    @classmethod
    def at(cls, path: object) -> OutputExists:
        return cls(
            f"{path} already exists and would be overwritten. Name another folder with --out, or allow it with --overwrite."
        )


class MissingExtra(RarecellError):
    """An optional dependency is needed but not installed."""

    @classmethod
    def needed(cls, what: str, extra: str) -> MissingExtra:
        return cls(f"{what} needs an optional part of rarecell. Install it with: pip install 'rarecell[{extra}]'.")

    @classmethod
    def of_python(cls, package: str, python: str, reason: str) -> MissingExtra:
        return cls(
            f"rarecell needs {package}, which cannot be loaded by this Python, {python} ({reason.rstrip('.')}); a Python newer than "
            f"{package} supports is the usual cause, and 3.11, 3.12 or 3.13 the remedy."
        )


class BadSettings(RarecellError):
    """A variable or a file that sets up a library holds what the library cannot use."""

    @classmethod
    def of_numba(cls, reason: str, variables: Sequence[str]) -> BadSettings:
        given = f" (now: {', '.join(variables)})" if variables else ""
        return cls(
            f"numba, which compiles rarecell's loops, cannot be set up: {reason.rstrip('.')}. Variables of the environment whose names "
            f"begin with NUMBA_{given}, and a file .numba_config.yaml in the current folder, set it up: unset or correct them. Nothing was "
            "written."
        )


class Cancelled(RarecellError):
    """The user interrupted the work; nothing was written."""

    @classmethod
    def during(cls, stage: str) -> Cancelled:
        return cls(f"Interrupted during '{stage}'. Nothing was written, and the input is untouched.")


class EngineFailed(RarecellError):
    """An engine failed at a piece of work."""

    @classmethod
    def during(cls, engine: str, work: str, reason: str) -> EngineFailed:
        return cls(
            f"{engine} failed while {work}: {reason}. Nothing was written, and the input is untouched. The log of {engine} has the cause, "
            "often an executor that ran out of memory or was lost: give executors more memory or fewer cores, and run again. A rerun "
            "starts from the beginning."
        )


class NotWritten(RarecellError):
    """A result could not be written; nothing half-written is left behind."""

    @classmethod
    def because(cls, path: object, problem: OSError) -> NotWritten:
        reason = problem.strerror or str(problem)
        return cls(
            f"{path} could not be written: {reason}. No part of it was left behind, and the input is untouched. Name a folder "
            "with enough room where you may write, and run again."
        )

    @classmethod
    def in_temporary_folder(cls, folder: object, problem: OSError) -> NotWritten:
        reason = problem.strerror or str(problem)
        return cls(
            f"The folder for temporary files, {folder}, could not be written to: {reason}. No result was written, and the input is untouched. "
            "Make room there, or set TMPDIR to a folder with enough room where you may write."
        )

    @classmethod
    def without_temporary_folder(cls) -> NotWritten:
        return cls(
            "There is no folder for temporary files where you may write. No result was written, and the input is untouched. Set TMPDIR "
            "to one."
        )

    @classmethod
    def after_completion(cls, folder: object, problem: OSError) -> NotWritten:
        reason = problem.strerror or str(problem)
        return cls(
            f"The results are complete, but could not be moved to their place in {folder}: {reason}. They are in a hidden folder "
            "there. Fix the cause; the next run in that folder, or the next look at it, moves them, and nothing has to be computed again."
        )

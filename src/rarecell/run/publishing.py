"""How is a finished result moved into place so that a kill at any moment loses neither the old result nor the new one?

Only this module decides what may be deleted from a run folder. A run writes into a hidden folder. A single rename declares
that folder complete; from then on the new result exists, and whoever opens the run folder next finishes the move that a
killed process began. Until that rename, nothing of the old result is touched.

Names are never taken from files that may have come from elsewhere. Only what lies in the complete folder is moved. Only old
results are removed, by names that this program gives its results; never a link, and never anything outside the folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from rarecell.engine.places import read_small_text
from rarecell.errors import BadInput, NotWritten, OutputExists
from rarecell.machine import system
from rarecell.machine.disk import flush_to_disk, flush_tree, make_private, new_private_file, remove

UNFINISHED = ".rarecell-unfinished-"
"""Prefix of the name of a folder that a run is writing into."""

RECORD = "run.json"
"""If this file is there, the run is complete: it is removed first and moved last."""

NOTE = "note.txt"
"""A user's note on a run; it belongs to the run."""

_COMPLETE = ".rarecell-complete-"
_PLAN = ".plan"
_NAMES = frozenset(
    {
        *("run.toml", RECORD, "summary.json", "model.json", "zeros.json", "risk.parquet", "swaps.parquet"),
        *("recoding.csv", "exchanged.parquet", "suppressed.parquet", NOTE),
        *("report.html", "report-external.html", "tables", "tables-external"),
        *("handover", "handover.json", "release-key.parquet"),
    }
)


def is_result(name: object) -> bool:
    """Whether a name is one that this program gives to results in a run folder."""
    if not isinstance(name, str) or name != Path(name).name or "\\" in name or "\0" in name:
        return False
    return name in _NAMES or name in ("protected", "twin") or name.startswith(("protected.", "twin.", "twin-"))


# ---------------------------------------------------------------------- what may be removed


def old_results(target: Path) -> list[str]:
    """Results of the complete run in a folder, according to its own record, that a new run may remove."""
    try:
        names = json.loads(read_small_text(target / RECORD))["files"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError, BadInput):
        return []
    return _removable(target, [*names, NOTE] if isinstance(names, list) and NOTE not in names else names)


def remove_run(target: Path) -> list[str]:
    """Remove the results of the complete run in a folder, and the folder if nothing else is in it; the caller holds the lock.

    Anything that the run's own record does not list, or that is not named like a result, stays. The record goes last, so that a
    removal that was killed can be repeated.

    Returns
    -------
    list of str
        What is left in the folder.
    """
    if not _is_own_folder(target) or not is_written_here(target):
        raise BadInput(f"{target.name} was not written by rarecell, or not by you, so it is not deleted.")
    names = sorted(old_results(target), key=lambda name: (name == RECORD, name == "summary.json", name))
    for name in names:
        remove(target / name)
    flush_to_disk(target)
    return sorted(entry.name for entry in target.iterdir() if not entry.name.startswith(".rarecell"))


def is_written_here(target: Path) -> bool:
    """Whether a folder holds a run record as this program writes it."""
    try:
        record = json.loads(read_small_text(target / RECORD))
        return "rarecell" in record["versions"] and RECORD in record["files"] and not (target / RECORD).is_symlink()
    except (OSError, ValueError, LookupError, TypeError, RecursionError, BadInput):
        return False


def _removable(target: Path, names: object) -> list[str]:
    """Select the names that are results in a folder; a link is not one, because this program makes no links."""
    if not isinstance(names, list):
        return []
    return [name for name in names if is_result(name) and not (target / name).is_symlink()]


def refuse_to_lose_inputs(target: Path, inputs: Iterable[Path], *, overwrite: bool) -> None:
    """Raise an error if a result would replace or remove a file that the run reads, or become part of its data.

    Parameters
    ----------
    target : Path
        The output folder.
    inputs : iterable of Path
        Files and folders that the run reads.
    overwrite : bool
        Whether results in the folder may be replaced.
    """
    for path in inputs:
        place = path.resolve()
        around = [place, *place.parents]
        if place.is_dir() and place in (target.resolve(), *target.resolve().parents):
            raise BadInput(
                f"The results would be written into {path}, which is the folder with the data, and would count as data in the "
                "next run. Name another folder with --out."
            )
        if not overwrite or not target.is_dir():
            continue
        for entry in target.iterdir():
            if is_result(entry.name) and any(_is_same(entry, part) for part in around):
                raise BadInput(
                    f"{path} is read by this run, and --overwrite would replace or remove it, because it is a result in the "
                    "output folder. Name another folder with --out."
                )


def _is_same(path: Path, other: Path) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


# ---------------------------------------------------------------------- publishing


def publish(stage: Path, target: Path, *, overwrite: bool, adds: bool = False) -> list[Path]:
    """Move every result from the folder of an unfinished run to its place; with ``adds``, to the results that are there.

    1. Check the names, record which old results will go, and flush everything to disk.
    2. Rename the folder: the new result is complete.
    3. Install it, the run record last.
    """
    names = sorted(entry.name for entry in stage.iterdir())
    for name in names:
        if not is_result(name):
            raise ValueError(f"'{name}' is not the name of a result; see run/publishing.py")
        if not overwrite and (target / name).exists():
            raise OutputExists.at(target / name)
    make_private(stage)
    # Remove old results that have no successor; the others are replaced.
    obsolete = [name for name in old_results(target) if name not in names] if overwrite and not adds else []
    plan = {"folder": target.stat().st_ino, "overwrite": overwrite, "obsolete": obsolete}
    new_private_file(stage / _PLAN).write_text(json.dumps(plan), encoding="utf-8")
    flush_tree(stage)
    complete = stage.rename(stage.with_name(stage.name.replace(UNFINISHED, _COMPLETE)))
    try:
        flush_to_disk(target)
        _install(complete, target, obsolete)
    except OSError as problem:
        raise NotWritten.after_completion(target, problem) from None
    return [target / name for name in names]


def _install(complete: Path, target: Path, obsolete: Sequence[str]) -> None:
    """Move the contents of a complete folder into place. Every step can be repeated, so that a killed move can be resumed."""
    names = sorted((entry.name for entry in complete.iterdir() if is_result(entry.name)), key=lambda name: (name == RECORD, name))
    if RECORD in (*names, *obsolete):
        # Until its own record arrives, the folder holds no complete run.
        (target / RECORD).unlink(missing_ok=True)
    for name in obsolete:
        remove(target / name)
    for name in names:
        # Moving a folder does not replace anything, and moving a file does not replace a folder.
        if (target / name).is_dir() or (complete / name).is_dir():
            remove(target / name)
        os.replace(complete / name, target / name)
    flush_to_disk(target)
    _discard(complete)


def _discard(complete: Path) -> None:
    """Remove a complete folder whose results are in place; without its plan, nothing takes it for complete."""
    (complete / _PLAN).unlink(missing_ok=True)
    shutil.rmtree(complete, ignore_errors=True)


# ---------------------------------------------------------------------- after a kill


def recover(target: Path) -> None:
    """Finish moving a complete result, and remove what unfinished runs left; the caller holds the lock.

    A folder that this program did not write, or wrote for another output folder, is left alone.

    Raises
    ------
    OutputExists
        If a file created since then would be overwritten, and the killed run was not allowed to overwrite.
    """
    for left_over in sorted(target.glob(f"{_COMPLETE}*")):
        plan = _plan_for(left_over, target)
        if plan is None:
            # All that is left of a finished move is an empty folder.
            with contextlib.suppress(OSError):
                left_over.rmdir()
            continue
        if not plan["overwrite"]:
            for entry in left_over.iterdir():
                if is_result(entry.name) and (target / entry.name).exists():
                    raise OutputExists.at(target / entry.name)
        _install(left_over, target, _removable(target, plan["obsolete"]))
    for left_over in target.glob(f"{UNFINISHED}*"):
        if _is_own_folder(left_over):
            shutil.rmtree(left_over, ignore_errors=True)


def has_unfinished(target: Path) -> bool:
    """Whether a folder holds what a run began to write and did not complete, be it in progress or killed."""
    return any(_is_own_folder(left_over) for left_over in target.glob(f"{UNFINISHED}*"))


def is_interrupted(target: Path) -> bool:
    """Whether a complete result in a folder is waiting to be moved into place, or its empty folder to be removed."""
    left_over = list(target.glob(f"{_COMPLETE}*"))
    return any(_plan_for(complete, target) is not None or _is_emptied(complete) for complete in left_over)


def _is_emptied(complete: Path) -> bool:
    """Whether everything was moved out of a complete folder, and the folder itself is left."""
    try:
        return _is_own_folder(complete) and not any(complete.iterdir())
    except OSError:
        return False


def _plan_for(complete: Path, target: Path) -> dict[str, object] | None:
    """The plan of a complete folder: what it is to replace; None if it was not written by this user for this very folder."""
    if not _is_own_folder(complete) or (complete / _PLAN).is_symlink():
        return None
    try:
        plan = json.loads(read_small_text(complete / _PLAN))
        is_for_target = plan["folder"] == target.stat().st_ino and isinstance(plan["overwrite"], bool)
    except (OSError, ValueError, LookupError, TypeError, RecursionError, BadInput):
        return None
    return {"overwrite": plan["overwrite"], "obsolete": plan.get("obsolete")} if is_for_target else None


def _is_own_folder(path: Path) -> bool:
    """Whether a path is a folder, not a link, that belongs to this user."""
    with contextlib.suppress(OSError):
        status = path.lstat()
        return stat.S_ISDIR(status.st_mode) and system.is_own(status)
    return False

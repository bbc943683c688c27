"""Does everything that a run names exist, and what of it is read?

Checked before anything is counted, so that a mistyped column or folder costs no time.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rarecell import choices
from rarecell.data.microdata import Microdata
from rarecell.engine.places import named_places
from rarecell.errors import BadInput, UnknownColumns
from rarecell.release.analyses import Analysis
from rarecell.run.config import ProtectConfig, RunConfig
from rarecell.run.treating import check_treatments

if TYPE_CHECKING:
    from rarecell.edges import Frame


def inputs_of(config: RunConfig, frame: Frame = None) -> list[Path]:
    """Files and folders that a run reads, none of which its results may replace; the data are in ``frame`` if given."""
    query = None if frame is not None or config.spark_table is not None else config.sql
    data = "" if frame is not None else config.spark_table or config.input
    zeros = "" if config.zeros in choices.ZEROS else config.zeros
    found = named_places(data, query)
    for place in (config.register or "", zeros, *config.hierarchies.values()):
        found += named_places(place)
    if config.protect is not None and config.protect.released is not None:
        found += sorted(Path(config.protect.released).glob("protected.*"))
    return found


def refuse_unknown_names(data: Microdata, config: RunConfig, wanted: ProtectConfig) -> None:
    """Raise an error if an earlier release, or a column to be kept, matched on, carried or analysed, does not exist."""
    columns = list(data.columns)
    named = [name for names in (*wanted.keep, *wanted.similar) for name in names] + [*wanted.within, *wanted.carry]
    named += [*wanted.spare, *wanted.accept_leak]
    check_treatments(data, wanted.treat)
    # Coarsenings are named after their key: age/10.
    unknown = [name for name in dict.fromkeys(named) if name not in columns and name.rpartition("/")[0] not in data.keys]
    if unknown:
        raise UnknownColumns.among(unknown, columns)
    keys = [name for name in wanted.carry if name in data.keys and name not in data.areas]
    if keys:
        raise BadInput(
            f"'{keys[0]}' is a key, which is swapped or stays by itself; --carry names columns that travel with a swapped key."
        )
    for name, given in config.analysis.items():
        Analysis.of(name, given).columns(columns)
    if wanted.released is not None:
        earlier_release(Path(wanted.released))


def earlier_release(folder: Path) -> Path:
    """The protected file of an earlier run."""
    written = sorted(folder.glob("protected.*")) if folder.is_dir() else []
    if not written:
        raise BadInput(f"{folder} holds no protected file of an earlier run; name the folder that was given with --out.")
    return written[0]

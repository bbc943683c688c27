"""What does a run read, and does everything that it names exist?

Checked before anything is counted, so that a mistyped column or folder costs no time.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rarecell import choices
from rarecell.choices import MATCHES_ANYTHING, REGISTER_COMPLETE
from rarecell.data.coding import joined_codings
from rarecell.data.describe import number_households
from rarecell.data.microdata import Microdata
from rarecell.data.names import joined_names
from rarecell.data.treatment_text import DROP, parse_treatments
from rarecell.engine import open_source, open_table
from rarecell.engine.duck import EngineSettings
from rarecell.engine.places import named_places
from rarecell.errors import BadInput, UnknownColumns
from rarecell.machine.memory import MemoryLimit
from rarecell.release.analyses import Analysis, check_regressions
from rarecell.run.beside_keys import check_treatments
from rarecell.run.config import ProtectConfig, RunConfig
from rarecell.table.contingency import ContingencyTable

if TYPE_CHECKING:
    from rarecell.edges import Frame


def read(config: RunConfig, frame: Frame = None, *, numbered: bool = False) -> Microdata:
    """Read the data of a run and check every name; when ``numbered``, each record has a position, perhaps given by its id."""
    origin = frame if frame is not None else config.input or None
    if frame is None and config.spark_table is not None:
        origin = open_table(config.spark_table)
    settings = EngineSettings(
        memory=MemoryLimit.of(config.memory), encoding=config.encoding, sheet=config.sheet, decimal=config.decimal
    )
    source = open_source(origin, sql=None if frame is not None else config.sql, settings=settings)
    return Microdata(
        source.numbered(config.id) if numbered else source,
        keys=config.keys,
        weight=config.weight,
        population=config.population,
        household=config.household,
        geography=config.geography,
        strata=config.strata,
        sensitive=config.sensitive,
        id=config.id,
        missing="level" if config.missing in (MATCHES_ANYTHING, REGISTER_COMPLETE) else config.missing,
        coding=joined_codings(config.coding, config.recode),
        missing_codes=config.missing_codes,
        hierarchies=config.hierarchies,
        settings=settings,
    )


def inputs_of(config: RunConfig, frame: Frame = None) -> list[Path]:
    """Files and folders that a run reads, none of which its results may replace; the data are in ``frame`` if given."""
    query = None if frame is not None or config.spark_table is not None else config.sql
    data = "" if frame is not None else config.spark_table or config.input
    zeros = "" if config.zeros in choices.ZEROS else config.zeros
    paths = named_places(data, query)
    for place in (config.register or "", zeros, *config.hierarchies.values()):
        paths += named_places(place)
    if config.protect is not None and config.protect.released is not None:
        paths += protected_files(Path(config.protect.released))
    return paths


def refuse_what_is_missing(data: Microdata, config: RunConfig, request: ProtectConfig) -> None:
    """Raise an error if something that a release needs does not exist: a column, an earlier release, an optional part of rarecell."""
    columns = list(data.columns)
    named = [name for names in (*request.keep, *request.similar) for name in names] + [*request.within, *request.carry]
    named += [*request.spare, *request.accept_leak, *request.cluster]
    check_treatments(data, request.treat)
    # Coarsenings are named after their key: age/10.
    unknown = [name for name in dict.fromkeys(named) if name not in columns and name.rpartition("/")[0] not in data.keys]
    if unknown:
        raise UnknownColumns.among(unknown, columns)
    keys = [name for name in request.carry if name in data.keys and name not in data.areas]
    if keys:
        raise BadInput(
            f"'{keys[0]}' is a key, which is swapped or stays by itself; --carry names columns that travel with a swapped key."
        )
    dropped = [name for name, steps in parse_treatments(request.treat).items() if steps[0].kind == DROP]
    refuse_not_beside(request.also_known, data, dropped)
    analyses = [Analysis.of(name, words) for name, words in config.analysis.items()]
    for analysis in analyses:
        lost = [name for name in analysis.columns(columns) if name in dropped]
        if lost:
            raise BadInput(
                f"Analysis '{analysis.name}' names '{lost[0]}', which is not released, so it cannot be run on the protected file. Leave out the "
                "analysis, or release the column."
            )
    check_regressions(analyses)
    data.source.check_writable()
    if request.released is not None:
        earlier_release(Path(request.released))


def refuse_not_beside(names: Sequence[str], data: Microdata, dropped: Collection[str] = ()) -> None:
    """Refuse columns that cannot be known beside the keys."""
    unknown = [name for name in names if name not in data.columns]
    if unknown:
        raise UnknownColumns.among(unknown, list(data.columns))
    for name in names:
        if name in data.keys:
            raise BadInput(f"'{name}' is a key, which every intruder knows. Leave it out of --also-known.")
        if name in dropped:
            raise BadInput(f"'{name}' is not released, so nobody can compare it with a register. Leave it out of --also-known.")


MOST_MEASUREMENTS = 60
"""A key of numbers with decimals and more levels than this is a measurement, too fine for a key as it stands."""


def refuse_continuous_keys(data: Microdata, table: ContingencyTable) -> None:
    """Raise for a key that is a measurement, such as height or BMI, with the bands that would do; one that is coded passes."""
    for categories in table.categories:
        numbers = [level for level in categories.levels if isinstance(level, int | float) and not isinstance(level, bool)]
        has_decimals = any(not float(level).is_integer() for level in numbers)
        if categories.key in data.coding or not has_decimals or len(numbers) <= MOST_MEASUREMENTS:
            continue
        wide, narrow = (band_width(numbers, n) for n in (8, 20))
        ways = " or ".join(f'--recode "{categories.key}=bands of {width:g}"' for width in dict.fromkeys((wide, narrow)))
        raise BadInput(
            f"The key '{categories.key}' is a measurement: {len(numbers):,} different values with decimals among {table.n_records:,} records. "
            f"As it stands it makes nearly everybody unique, and an intruder hardly knows it so exactly. Release it in bands: {ways}; or say "
            f'--recode "{categories.key}=as it is".'
        )


LARGEST_CROWD = 15
"""A household with more members is an institution, or not a household."""


def refuse_crowds(data: Microdata, config: RunConfig) -> None:
    """Raise where most people of a file would live in households of more members than a household has: a column is lacking."""
    if data.household is None or config.households_known == "no" or not data.source.keeps_rows:
        return
    codes = data.household_codes()
    assert codes is not None
    number, size = np.unique(codes, return_inverse=True)[1], np.bincount(codes)
    size = size[size > 0]
    if size[size > LARGEST_CROWD].sum() <= 0.5 * len(codes):
        return
    further = _further_column(data, number)
    hint = ""
    if further is not None:
        hint = (
            f" Together with '{further}' it numbers households: --household {joined_names([*data.household_columns, further])}."
        )
    raise BadInput(
        f"'{data.household}' would make {len(size):,} households of {len(codes):,} people, the largest of {size.max():,}. Numbers of households often "
        f"start anew in every area or cluster, so that it takes several columns to tell them apart: --household area,number."
        f"{hint} If these are enterprises, schools or institutions, say --cluster {data.household}: what is the same for all of their "
        "records then stays the same, and nobody is assumed to know them as a family."
    )


def _further_column(data: Microdata, number: NDArray[np.int64]) -> str | None:
    """A column that numbers households together with the one that was named."""
    taken = {*data.keys, data.weight, *data.household_columns, *data.id_columns}
    names = [name for name, column in data.columns.items() if name not in taken and column.kind != "other"]
    part = np.arange(min(len(number), 50_000))
    codes, categories = data.column_codes(names, part) if names else (np.empty((0, 0)), ())
    for k in sorted(range(len(names)), key=lambda k: categories[k].n_levels):
        if number_households(np.stack([number[part], codes[:, k]], axis=1)):
            return names[k]
    return None


def band_width(numbers: Sequence[float], n_bands: int) -> float:
    """The smallest width 1, 2 or 5 times a power of ten with at most ``n_bands`` bands from the 1st to the 99th percentile.

    Examples
    --------
    >>> band_width([16.5, 20.1, 23.4, 48.9], 8)
    5.0
    """
    ordered = sorted(float(number) for number in numbers)
    low, high = ordered[len(ordered) // 100], ordered[-1 - len(ordered) // 100]
    least = max(high - low, 1e-9) / n_bands
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in (1.0, 2.0, 5.0, 10.0) if step * power >= least * (1.0 - 1e-9))


def protected_files(folder: Path) -> list[Path]:
    """The protected files in a folder; none where there is no folder, or its name is one that no file system takes."""
    return sorted(folder.glob("protected.*")) if os.path.isdir(folder) else []


def earlier_release(folder: Path) -> Path:
    """The protected file of an earlier run."""
    written = protected_files(folder)
    if not written:
        raise BadInput(f"{folder} holds no protected file of an earlier run; name the folder that was given with --out.")
    return written[0]

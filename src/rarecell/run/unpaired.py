"""What does a synthetic or resampled file give away, whichever tool made it?

Its records belong to nobody, so :mod:`rarecell.run.attack`, which follows each record, cannot judge it. Here the file is compared
with the people it was made from and with a control group of people who were left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rarecell.data.coding import Coding
from rarecell.data.microdata import Microdata
from rarecell.errors import BadInput, UnknownColumns
from rarecell.intruder.unpaired import UnpairedFiles
from rarecell.outcome.unpaired import ColumnGivenAway, UnpairedAttack, UnpairedMeasures
from rarecell.progress import SILENT, Progress, checkpoint

if TYPE_CHECKING:
    import pyarrow as pa

    from rarecell.edges import Frame

MANY_VALUES = 120
"""A column of numbers with more distinct values than this takes part in bands."""
BANDS = 20
"""Number of bands of such a column, with about equally many records each."""


def attack_unpaired(
    released: Frame,
    *,
    original: Frame,
    keys: Sequence[str],
    columns: Sequence[str] = (),
    control: Frame | None = None,
    seed: int = 0,
    progress: Progress = SILENT,
) -> UnpairedMeasures:
    """Try the attacks that need no link between records of two files.

    Parameters
    ----------
    released : frame or path
        The synthetic or resampled file.
    original : frame or path
        The records it was made from.
    keys : sequence of str
        Columns that an intruder could know.
    columns : sequence of str, optional
        Columns to compare; by default all that the files share.
    control : frame or path, optional
        Records of people like those of the original who were left out of it. Without them only copies are counted.
    seed : int
        Seed of the random choice of people and conditions.
    progress : Progress
        Receives progress reports, and can ask to stop.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> people = pa.table({"town": np.arange(200) % 4, "job": np.arange(200) % 7})
    >>> attack_unpaired(people, original=people, keys=["town", "job"]).unique_exact_matches
    0.0
    """
    given = {"released": released, "original": original, **({} if control is None else {"control": control})}
    parts = {name: Microdata(frame, keys=list(keys)) for name, frame in given.items()}
    shared = [name for name in parts["original"].columns if all(name in part.columns for part in parts.values())]
    names = list(columns) or shared
    unknown = [name for name in (*names, *keys) if name not in shared]
    if unknown:
        raise UnknownColumns.among(unknown, shared, role="column of all files")
    tables = {name: _read(part, names) for name, part in parts.items()}
    checkpoint(progress, "reading the files")
    files = _coded_alike(tables, names)
    return measured(files, list(keys), np.random.default_rng(seed))


def _read(part: Microdata, names: Sequence[str]) -> pa.Table:
    import pyarrow as pa

    if not part.source.keeps_rows:
        raise BadInput(f"The records of {part.source.name} stay on its machines; write them to Parquet files first.")
    return pa.Table.from_batches(list(part.source.batches(list(names)))).select(list(names))


def _coded_alike(tables: dict[str, pa.Table], names: Sequence[str]) -> UnpairedFiles:
    """The files as codes of the same levels; amounts in bands of all the records."""
    import pyarrow as pa

    joined = {}
    for name in names:
        columns = [table[name] for table in tables.values()]
        if len({column.type for column in columns}) > 1:
            columns = [column.cast(pa.string()) for column in columns]
        joined[name] = pa.chunked_array([chunk for column in columns for chunk in column.chunks], type=columns[0].type)
    together = pa.table(joined)
    data = Microdata(together, keys=list(names))
    bands = {
        category.key: Coding(quantiles=BANDS)
        for category in data.table(records=True).categories
        if category.n_levels > MANY_VALUES and category.is_ordered
    }
    codes, categories = Microdata(together, keys=list(names), coding=bands).column_codes(list(names))
    stops = np.cumsum([table.num_rows for table in tables.values()])[:-1]
    of_part = dict(zip(tables, np.split(np.ascontiguousarray(codes), stops), strict=True))
    return UnpairedFiles(categories, of_part["original"], of_part["released"], of_part.get("control", codes[:0]))


def measured(files: UnpairedFiles, keys: Sequence[str], rng: np.random.Generator) -> UnpairedMeasures:
    """Try every attack on a file, and on the original as if it were released."""
    copies = files.copies(rng, keys)
    return UnpairedMeasures(
        people=len(files.original),
        control=len(files.control),
        unique_exact_matches=copies.unique_exact_matches,
        replicated_uniques=copies.replicated_uniques,
        nearer_to_people=None if math.isnan(copies.nearer_to_people) else copies.nearer_to_people,
        attacks=tuple(_attacks(files, rng)) if len(files.control) else (),
        columns=tuple(_given_away(files, keys, name) for name in files.names if name not in keys),
    )


def _given_away(files: UnpairedFiles, keys: Sequence[str], name: str) -> ColumnGivenAway:
    found = files.attribution(keys, name)
    return ColumnGivenAway(column=name, disco=found.disco, tcap=None if math.isnan(found.tcap) else found.tcap)


def _attacks(released: UnpairedFiles, rng: np.random.Generator) -> list[UnpairedAttack]:
    original = UnpairedFiles(released.categories, released.original, released.original, released.control)
    tried = [
        (released.singling_out(rng), original.singling_out(rng)),
        (released.linkability(rng), original.linkability(rng)),
        *((released.inference(rng, name), original.inference(rng, name)) for name in released.names),
    ]
    return [
        UnpairedAttack(
            attack=on_released.attack,
            column=on_released.columns[0] if on_released.columns else None,
            people=on_released.people.value,
            control=on_released.control.value,
            risk=on_released.risk,
            interval=on_released.interval,
            original=on_original.risk,
        )
        for on_released, on_original in tried
        if on_released.people.attempts and on_original.people.attempts
    ]

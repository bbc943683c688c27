"""What is reported about every record, in the risk file and in a data frame?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rarecell.machine.threads import on_all_cores
from rarecell.risk.records import household_risk
from rarecell.risk.unsafe import individual_risk

if TYPE_CHECKING:
    from rarecell.edges import Array, Json
    from rarecell.run.results import Assessment

_PIECE = 1_000_000


def risk_columns(found: Assessment) -> dict[str, Array]:
    """The columns of the risk file, for all records at once."""
    pieces = list(risk_pieces(found, np.full(found.table.n_cells + 1, -1, dtype=np.int64)))
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}


def risk_of_cells(found: Assessment) -> dict[str, Array]:
    """What is reported about every cell; a record takes the numbers of its cell."""
    table, risk = found.table, found.risk
    return {
        "cell_count": risk.sample_count,
        "cell_probability": np.exp(risk.log_population_share),
        "unique_probability": risk.unique_probability,
        "match_probability": risk.match_probability,
        "swappable": found.swappability.is_swappable,
        "suda_score": found.unsafe.suda_score,
        "dis_suda_score": found.unsafe.dis_suda_score(sampling_fraction=min(1.0, table.n_records / risk.population)),
        "individual_risk": individual_risk(table, population=risk.population),
        **({} if risk.standard_error is None else {"standard_error": risk.standard_error}),
        **found.roles.of_cells(),
    }


def risk_pieces(found: Assessment, last_row: NDArray[np.int64]) -> Iterator[Json]:
    """Yield the risk file in batches, in the order of the input; ``last_row`` is filled with the last record of each cell."""
    of_cell = risk_of_cells(found)
    household: dict[str, NDArray[np.float64]] | None = None
    codes = found.data.household_codes()
    if codes is not None:
        of_record = found.risk.per_record()
        household = {
            "household_probability": household_risk(of_record["unique_probability"], codes),
            "household_match_probability": household_risk(of_record["match_probability"], codes),
        }
    first = 0
    for cells in _record_cells(found):
        dropped = np.flatnonzero(cells < 0)
        rows = np.arange(first, first + len(cells))
        piece: Json = {"record": found.data.source.places(rows)}
        last_row[cells] = rows
        piece.update(zip(of_cell, on_all_cores(np.take, [(values, cells) for values in of_cell.values()]), strict=True))
        for name, values in of_cell.items():
            piece[name][dropped] = 0 if values.dtype.kind in "ib" else "" if values.dtype.kind == "O" else np.nan
        if household is not None:
            piece.update({name: values[first : first + len(cells)] for name, values in household.items()})
        first += len(cells)
        yield piece


def _record_cells(found: Assessment) -> Iterator[NDArray[np.int64]]:
    if found.table.record_cell is None:
        yield from found.data.record_cells(found.table)
        return
    for start in range(0, len(found.table.record_cell), _PIECE):
        yield found.table.record_cell[start : start + _PIECE]

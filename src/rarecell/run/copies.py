"""Which records and households of a run are compared in the search for duplicates?"""

from __future__ import annotations

import numpy as np

from rarecell.data.microdata import Microdata
from rarecell.risk.doubles import Doubles, household_doubles, record_doubles
from rarecell.risk.records import RecordRisk

MOST_RECORDS = 200_000
"""Files with more records are not searched: reading every column would take too long."""


def find_doubles(data: Microdata, risk: RecordRisk, *, seed: int = 0) -> tuple[Doubles, ...]:
    """Compare records by every column, and households by their keys, as far as the run knows them."""
    of_record = risk.table.record_cell
    if of_record is None or len(of_record) > MOST_RECORDS or not data.source.keeps_rows:
        return ()
    kept = of_record >= 0
    keys = risk.table.cells[of_record[kept]]
    fraction = risk.table.n_records / risk.population
    if fraction >= 1.0:
        return ()
    no_columns = {*data.keys, data.id, data.weight, data.household}
    others = [column.name for column in data.source.columns() if column.name not in no_columns and column.kind != "other"]
    columns = np.column_stack([keys, data.column_codes(others)[0][kept]]) if others else keys
    found = [record_doubles(columns, fraction=fraction, seed=seed)] if others else []
    households = data.household_codes()
    if households is not None:
        found.append(household_doubles(keys, households[kept], fraction=fraction))
    return tuple(one for one in found if one is not None)

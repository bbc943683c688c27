"""Does a key identify records by itself?

A key with nearly as many levels as there are records is an identifier, or a measurement that should be in bands.
Modelling it takes long and tells nothing: each record is unique whatever else is known.
"""

from __future__ import annotations

from rarecell.errors import BadInput
from rarecell.table.contingency import ContingencyTable

FEW_LEVELS = 500
"""A key with no more levels than this may have more levels than half the number of records."""

MOST_LEVELS_PER_RECORD = 0.8
"""A key with more levels than this share of the number of records is an identifier, unless there are few records."""

FEWEST_RECORDS_TO_JUDGE = 100


class IdentifyingKey(BadInput):
    """A key has so many levels that it identifies records by itself."""

    @classmethod
    def named(cls, key: str, n_levels: int, n_records: int, *, is_ordered: bool) -> IdentifyingKey:
        how = f'"{key}=20 groups"' if is_ordered else f'"{key}=merge … + … as …", or with --hierarchy {key}=FILE,'
        return cls(
            f"Key '{key}' has {n_levels:,} different values among {n_records:,} records, so it identifies most records by itself, "
            f"whatever the other keys are. If it is an identifier, leave it out of --keys and out of the release. If it is a measurement or "
            f"a fine classification, release it coarser: put it into groups with --recode {how} and run again."
        )


def refuse_identifying_keys(table: ContingencyTable, *, few_levels: int = FEW_LEVELS) -> None:
    """Raise an error with advice when a key identifies records by itself.

    That is so when it has nearly as many levels as there are records, or when it has many levels and more of them than
    half the number of records.

    Parameters
    ----------
    table : ContingencyTable
        The table of the keys.
    few_levels : int
        Keys with at most this many levels are accepted unless they identify nearly every record.
    """
    n_records = table.n_records
    for categories in table.categories:
        names_most = n_records >= FEWEST_RECORDS_TO_JUDGE and categories.n_levels > MOST_LEVELS_PER_RECORD * n_records
        if names_most or categories.n_levels > max(few_levels, n_records / 2):
            raise IdentifyingKey.named(categories.key, categories.n_levels, table.n_records, is_ordered=categories.is_ordered)

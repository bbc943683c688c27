"""How many people does each record of a stratified sample stand for?

N_h/n_h, the size of its stratum over the number of its records. The stratum of a record is a level of a key, or the value of a
column that is not a key. A key that is released in a recoded form no longer tells the strata apart, so the values in the file do.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rarecell.data.microdata import Microdata
from rarecell.data.wider import wider_table
from rarecell.errors import BadInput
from rarecell.risk.design import with_stratum_weights
from rarecell.run.config import RunConfig
from rarecell.table.contingency import ContingencyTable

if TYPE_CHECKING:
    from rarecell.edges import Level


def with_design_weights(data: Microdata, table: ContingencyTable, config: RunConfig) -> ContingencyTable:
    """The table of these data, with the weights of a stratified sample if the run names strata.

    1. Where the levels of a key are the strata, the weight of a cell follows from its level.
    2. Where records are held in memory, the stratum of each is the value in the file.
    3. Otherwise the engine counts keys and strata together; adding up over the strata gives the weights of the cells.
    """
    if config.strata is None:
        return table
    if stratum_levels(table, config) is not None:
        return replace(table, weights=_weights_by_level(table, config))
    if table.record_cell is not None:
        codes, categories = data.value_codes(config.strata)
        labels = categories.labels
        populations = {labels[code]: _size_of(config, labels[code]) for code in np.unique(codes).tolist()}
        return with_stratum_weights(table, np.array(labels, dtype=object)[codes], populations)
    if config.strata in table.keys:
        raise BadInput(
            f"The strata '{config.strata}' are a key that is recoded, and the records are too many to be held in memory. Copy the "
            "strata to a column of their own and name that column."
        )
    further = [key for key in table.keys if key not in data.keys]
    wide = wider_table(data, [*further, config.strata], records=False)
    weighed = replace(wide, weights=_weights_by_level(wide, config)).project(table.keys)
    return replace(table, weights=weighed.weights)


def stratum_levels(table: ContingencyTable, config: RunConfig) -> dict[Level, int] | None:
    """The size of each level of the key that is the stratum; None if no key is, or if it was made coarser."""
    if config.strata is None or config.strata not in table.keys:
        return None
    categories = table.categories[table.keys.index(config.strata)]
    if not all(label in config.populations for label in categories.labels):
        return None
    return {level: config.populations[label] for level, label in zip(categories.levels, categories.labels, strict=True)}


def _weights_by_level(table: ContingencyTable, config: RunConfig) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    assert config.strata is not None
    key = table.keys.index(config.strata)
    sizes = np.array([_size_of(config, label) for label in table.categories[key].labels], dtype=np.float64)
    codes = table.cells[:, key]
    n_sampled = np.bincount(codes, weights=table.counts, minlength=len(sizes))
    return np.asarray(table.counts * sizes[codes] / n_sampled[codes], dtype=np.float64)


def _size_of(config: RunConfig, label: str) -> int:
    if label not in config.populations:
        raise BadInput(
            f"The population of stratum '{label}' of '{config.strata}' was not given; give the number of units of every stratum."
        )
    return config.populations[label]

"""What does a run need that could be loaded or compiled before it is needed?

A rehearsal is a run on made-up data. A worker of the app rehearses while nobody is waiting. At the first use on a computer a
second process (``python -m rarecell.run.rehearsal``) rehearses the later steps, while the run itself compiles what it needs
first; each finds in the cache what the other has done.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rarecell.machine.disk import private_folder
from rarecell.model.additive import AdditiveModel
from rarecell.model.decomposable import DecomposableModel
from rarecell.risk.diagnostics import fit_diagnostics
from rarecell.risk.interval import risk_interval
from rarecell.risk.population_uniques import population_uniques
from rarecell.risk.unsafe import unsafe_combinations
from rarecell.run import models
from rarecell.run.config import RunConfig
from rarecell.run.protect import protect
from rarecell.swap.swappable import swappability
from rarecell.table.categories import Categories
from rarecell.table.contingency import ContingencyTable

_KEYS = ("a", "b", "c")
_N_LEVELS = 12
_POPULATION = 600


def rehearse() -> None:
    """Protect a made-up file."""
    lines = [",".join(_KEYS), *(",".join(map(str, row)) for row in _made_up_records())]
    # Rehearsals are killed when nobody needs them any more; the next start removes what is then left.
    rehearsal = _Rehearsal()
    folder = private_folder(rehearsal)
    made_up = folder / "made-up.csv"
    made_up.write_text("\n".join(lines) + "\n", encoding="utf-8")
    protect(made_up, keys=list(_KEYS), population=_POPULATION, top=3, out=folder / "run")


class _Rehearsal:
    """Owns the made-up file."""


def _made_up_records() -> NDArray[np.int64]:
    return np.random.default_rng(0).integers(0, _N_LEVELS, (60, len(_KEYS)))


def _rehearse_later_steps() -> None:
    """Take the later steps of a run on a made-up table; the first steps and the search are left to the run itself."""
    cells, counts = np.unique(_made_up_records(), axis=0, return_counts=True)
    categories = tuple(Categories(key, tuple(range(_N_LEVELS)), is_ordered=True) for key in _KEYS)
    occupied = np.asfortranarray(cells, dtype=np.int32)
    table = ContingencyTable.of_sorted_cells(categories, occupied, counts.astype(np.int64), None, None)
    config = RunConfig(input="", keys=_KEYS, population=_POPULATION)
    unsafe_combinations(table)
    model = models.risk_model(table, config)
    risk_interval(models.own_level_risk(table, model, config), model)
    population_uniques(table.size_indices, population=_POPULATION)
    fit_diagnostics(table, model, population=_POPULATION, refit=lambda part: models.refitted(part, config))
    best = DecomposableModel(table, cliques=[_KEYS[:2], _KEYS[1:]])
    for other in (best, AdditiveModel(table)):
        models.risk_of(table, other, config)
    swappability(table, best)
    float(best.aic)


if __name__ == "__main__":
    _rehearse_later_steps()
    rehearse()

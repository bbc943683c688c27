"""What does an earlier release of the same file add to a new one?

The protected file of the earlier run has the same records in the same order; columns that are the same in both releases link them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rarecell.data.microdata import Microdata
from rarecell.errors import BadInput
from rarecell.outcome.swap import ReleasedBefore
from rarecell.run.analysing import codes_after
from rarecell.run.results import Assessment
from rarecell.swap.carry import Travel
from rarecell.swap.plan import SwapPlan
from rarecell.swap.releases import compare_releases


def held_against(found: Assessment, plan: SwapPlan, travel: Travel) -> ReleasedBefore | None:
    """The new release beside the earlier one that the run names; None when it names none."""
    wanted = found.config.protect
    if wanted is None or wanted.released is None:
        return None
    earlier = _earlier(Path(wanted.released), found.data)
    shared = [name for name in found.data.columns if name in earlier.columns]
    lacking = [key for key in found.table.keys if key not in shared]
    if lacking:
        raise BadInput(f"The earlier release in {wanted.released} has no column '{lacking[0]}', so the two cannot be compared.")
    new, old = _labels(found, plan, travel, shared), _read(earlier, shared)
    same = [name for name in shared if name not in found.table.keys and np.array_equal(new[name], old[name])]
    links = [np.unique(new[name], return_inverse=True)[1] for name in same]
    both = [np.unique(np.concatenate([old[key], new[key]]), return_inverse=True)[1] for key in found.table.keys]
    n_records = found.data.n_records
    told = compare_releases(links, same, [code[:n_records] for code in both], [code[n_records:] for code in both])
    return ReleasedBefore(**vars(told), sentence=told.sentence)


def _earlier(folder: Path, data: Microdata) -> Microdata:
    written = sorted(folder.glob("protected.*"))
    if not written:
        raise BadInput(f"{folder} holds no protected file of an earlier run; name the folder that --out named then.")
    earlier = Microdata(written[0], keys=data.keys)
    if earlier.n_records != data.n_records:
        raise BadInput(
            f"The earlier release in {folder} has {earlier.n_records:,} records and the file {data.n_records:,}, so they are not releases of "
            "the same records."
        )
    return earlier


def _read(data: Microdata, names: list[str]) -> dict[str, NDArray[np.str_]]:
    codes, categories = data.column_codes(names)
    return {c.key: np.array(c.labels)[codes[:, k]] for k, c in enumerate(categories)}


def _labels(found: Assessment, plan: SwapPlan, travel: Travel, names: list[str]) -> dict[str, NDArray[np.str_]]:
    codes, categories = found.data.column_codes(names)
    after = codes_after(codes, names, plan, travel)
    return {c.key: np.array(c.labels)[after[:, k]] for k, c in enumerate(categories)}

"""What does an earlier release of the same file add to what a new one gives away?

The protected file of the earlier run has the same records in the same order (on Spark, under the same ids). Columns with the
same values in both releases link them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rarecell.data.microdata import Microdata
from rarecell.engine import open_source
from rarecell.errors import BadInput
from rarecell.outcome.swap import ReleasedBefore
from rarecell.release.suppression import Suppression
from rarecell.run.analysing import codes_after, with_blanks
from rarecell.run.early_checks import earlier_release
from rarecell.run.results import Assessment
from rarecell.swap.carry import Travel
from rarecell.swap.plan import SwapPlan
from rarecell.swap.releases import compare_releases
from rarecell.table.categories import MISSING


def held_against(found: Assessment, plan: SwapPlan, travel: Travel, blanked: Suppression | None = None) -> ReleasedBefore | None:
    """Compare the new release with the earlier one that the run names; None when it names none."""
    wanted = found.config.protect
    if wanted is None or wanted.released is None:
        return None
    earlier = _earlier(Path(wanted.released), found.data)
    shared = [name for name in found.data.columns if name in earlier.columns]
    lacking = [key for key in found.table.keys if key not in shared]
    if lacking:
        raise BadInput(f"The earlier release in {wanted.released} has no column '{lacking[0]}', so the two cannot be compared.")
    old, new, links = [], [], {}
    for name in shared:
        then, now = _both(found, plan, travel, earlier, name, blanked)
        if name in found.table.keys:
            old.append(then)
            new.append(now)
        if np.array_equal(then, now):
            links[name] = now
    told = compare_releases(list(links.values()), list(links), old, new)
    return ReleasedBefore(
        records=told.records,
        differing=told.differing,
        linked=told.linked,
        exposed=told.exposed,
        link_columns=told.link_columns,
        sentence=told.sentence,
    )


def _earlier(folder: Path, data: Microdata) -> Microdata:
    released = open_source(data.read_back(earlier_release(folder)), settings=data.source.settings_of_output)
    earlier = Microdata(released.numbered(data.id), keys=data.keys)
    if earlier.n_records != data.n_records:
        raise BadInput(
            f"The earlier release in {folder} has {earlier.n_records:,} records and the file {data.n_records:,}, so they are not releases of "
            "the same records."
        )
    return earlier


def _both(
    found: Assessment, plan: SwapPlan, travel: Travel, earlier: Microdata, name: str, blanked: Suppression | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A column in the earlier and in the new release, coded alike by the text of its values."""
    then, (levels_then,) = earlier.column_codes([name])
    now, (levels_now,) = found.data.column_codes([name])
    after = codes_after(now, [name], plan, travel, plan.rows)
    with_blanks(after, [name], blanked, np.arange(len(after)))
    number: dict[Any, int] = {}
    # The last place of the new release is for blanked values, whose code is −1.
    of_then, of_now = (
        np.array([number.setdefault(label, len(number)) for label in labels], dtype=np.int64)
        for labels in (levels_then.labels, (*levels_now.labels, MISSING))
    )
    return of_then[then[:, 0]], of_now[after[:, 0]]

"""Partners from another area, drawn at random within groups of similar units."""

from __future__ import annotations

import numpy as np

from rarecell._kernels.compiled import njit


@njit(cache=True)
def pair_up(waiting, group_of, start, members, area, is_used, partner):
    """Give each waiting unit the first unused unit of its group, in the order of ``members``, that lies in another area.

    ``waiting`` is sorted by group and, within a group, by area. What was passed over for one unit was used or also lies in the
    area of the next, so the search continues where it stopped. ``members[start[g]:start[g+1]]`` are the units of group g.
    A unit stays without a partner only if none was left.
    """
    following = np.empty(len(members), dtype=np.int64)
    last_group, last_area = np.int64(-1), np.int64(-1)
    head, before, at, end = np.int64(0), np.int64(-1), np.int64(0), np.int64(0)
    for w in waiting:
        group = group_of[w]
        if group != last_group:
            head, end = start[group], start[group + 1]
            for place in range(head, end):
                following[place] = place + 1
        if group != last_group or area[w] != last_area:
            before, at = np.int64(-1), head
        last_group, last_area = group, area[w]
        if is_used[w]:
            continue
        while at < end:
            unit = members[at]
            if is_used[unit]:
                # Used members are removed from the list for all units that follow.
                if before < 0:
                    head = following[at]
                else:
                    following[before] = following[at]
                at = following[at]
            elif area[unit] == area[w]:
                before = at
                at = following[at]
            else:
                partner[w], partner[unit] = unit, w
                is_used[w], is_used[unit] = True, True
                break

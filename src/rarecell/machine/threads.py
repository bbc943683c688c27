"""How is work on long arrays spread over the cores?

Kernels and NumPy's functions hold no lock while they compute, so threads can share the arrays and nothing is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from rarecell.machine.system import n_cores as n_cores

if TYPE_CHECKING:
    from rarecell.edges import Array

_T = TypeVar("_T")
_U = TypeVar("_U")

WORTH_A_THREAD = 20_000
"""Another thread pays off for at least this many elements."""


def in_parts(work: Callable[..., _T], *arrays: Array) -> list[_T]:
    """Call ``work`` with a part of each array, on all cores; returns the results of the parts, in order."""
    length = len(arrays[0])
    n_parts = max(1, min(n_cores(), length // WORTH_A_THREAD))
    bounds = [length * part // n_parts for part in range(n_parts + 1)]
    return on_all_cores(work, [[array[start:stop] for array in arrays] for start, stop in pairwise(bounds)])


def on_all_cores(work: Callable[..., _T], calls: Sequence[Sequence[object]]) -> list[_T]:
    """Call ``work`` with each of these sets of arguments, on all cores; returns the results in order."""
    if len(calls) <= 1:
        return [work(*arguments) for arguments in calls]
    with ThreadPoolExecutor(n_cores()) as pool:
        return list(pool.map(lambda arguments: work(*arguments), calls))


def side_by_side(first: Callable[[], _T], second: Callable[[], _U]) -> tuple[_T, _U]:
    """Do two things at once that do not depend on each other."""
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(second)
        return first(), waiting.result()

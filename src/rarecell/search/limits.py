"""How far does a search go before it gives up or takes another way?"""

from __future__ import annotations

from dataclasses import dataclass

from rarecell.machine.memory import free_memory


@dataclass(frozen=True)
class SearchLimits:
    """Limits of the search for a decomposable model.

    Attributes
    ----------
    memory : int, optional
        Bytes for the tables of an exact search; what is free on the machine unless given, and never more.
    auto_seconds : float
        ``auto`` is exact when that is estimated to take less.
    greedy_seconds : float
        A greedy search ends after this time, wherever it is.
    most_keys : int
        ``auto`` does not try to be exact with more keys.
    few_sets : int
        Up to this many sets are all compared; of more, those that cannot matter are ruled out first.
    patience : float
        An exact search that was estimated to be quick is given up after this many times the time limit.
    max_clique_cells : float
        Greedy search makes no clique with more possible cells.
    """

    memory: int | None = None
    auto_seconds: float = 30.0
    greedy_seconds: float = 45.0
    most_keys: int = 24
    few_sets: int = 1024
    patience: float = 3.0
    max_clique_cells: float = 1e8

    @property
    def n_bytes(self) -> int:
        """Memory that an exact search may use now."""
        return usable_memory(self.memory)


def usable_memory(allowed: int | None) -> int:
    """What is free on the machine, and no more than is allowed."""
    return free_memory() if allowed is None else min(allowed, free_memory())

"""How far does a search go before it gives up or switches to another method?"""

from __future__ import annotations

from dataclasses import dataclass

from rarecell.machine.memory import free_memory


@dataclass(frozen=True)
class SearchLimits:
    """Limits of the search for a decomposable model.

    Attributes
    ----------
    memory : int, optional
        Bytes for the tables of an exact search; by default what is free on the machine, and never more than that.
    auto_seconds : float
        ``auto`` is exact when an exact search is estimated to take less time than this.
    greedy_seconds : float
        A greedy search ends after this time, wherever it is.
    most_keys : int
        ``auto`` does not try an exact search with more keys than this.
    few_sets : int
        Up to this many sets, all are compared; if there are more, those that cannot matter are ruled out first.
    few_counts : float
        All are compared only if they also take no more than this many counts, one for each set and cell of the table: with more,
        ruling sets out is quicker than counting them.
    patience : float
        An exact search that was estimated to be quick is abandoned after this many times the time limit.
    max_clique_cells : float
        Greedy search makes no clique with more possible cells than this.
    """

    memory: int | None = None
    auto_seconds: float = 30.0
    greedy_seconds: float = 45.0
    most_keys: int = 24
    few_sets: int = 1024
    few_counts: float = 5e8
    patience: float = 3.0
    max_clique_cells: float = 1e8

    @property
    def n_bytes(self) -> int:
        """Memory that an exact search may use now."""
        return usable_memory(self.memory)


def usable_memory(allowed: int | None) -> int:
    """What is free on the machine, and no more than is allowed."""
    return free_memory() if allowed is None else min(allowed, free_memory())

"""Which decomposable model fits the table best?

``exact`` compares all decomposable models and certifies the best; ``local`` is Algorithm 1 of Takemura and Endo (2006)
from random starts; ``greedy`` is for many keys. ``auto`` is exact where that takes less than about half a minute.
"""

from rarecell.search.exact import ExactCost, estimate_exact
from rarecell.search.result import LocalOptimum, SearchLimits, SearchResult
from rarecell.search.select import PENALTIES, penalty_path, select_model

__all__ = [
    "PENALTIES",
    "ExactCost",
    "LocalOptimum",
    "SearchLimits",
    "SearchResult",
    "estimate_exact",
    "penalty_path",
    "select_model",
]

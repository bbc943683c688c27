"""Which decomposable model fits the table best?"""

from rarecell.search.select import LocalOptimum, SearchResult, estimate_exact, penalty_path, select_model

__all__ = ["LocalOptimum", "SearchResult", "estimate_exact", "penalty_path", "select_model"]

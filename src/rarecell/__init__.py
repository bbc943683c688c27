"""rarecell: find the records of a microdata file that could be recognised, and protect them.

The public names are below; each is loaded from its module on first use, so that importing the package is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "Categories": "table",
    "Coarsening": "table",
    "ContingencyTable": "table",
    "Marginals": "marginals",
    "StructuralZeros": "structure",
    "find_structural_zeros": "structure",
    "Microdata": "microdata",
    "ChordalGraph": "graph.chordal",
    "DecomposableModel": "model.decomposable",
    "HierarchicalModel": "model.hierarchical",
    "AverageModel": "model.average",
    "select_model": "search",
    "record_risk": "risk.records",
    "RarecellError": "errors",
}
__all__ = ["__version__", *_HOME]

if TYPE_CHECKING:
    from rarecell.errors import RarecellError as RarecellError
    from rarecell.graph.chordal import ChordalGraph as ChordalGraph
    from rarecell.marginals import Marginals as Marginals
    from rarecell.microdata import Microdata as Microdata
    from rarecell.model.average import AverageModel as AverageModel
    from rarecell.model.decomposable import DecomposableModel as DecomposableModel
    from rarecell.model.hierarchical import HierarchicalModel as HierarchicalModel
    from rarecell.risk.records import record_risk as record_risk
    from rarecell.search import select_model as select_model
    from rarecell.structure import StructuralZeros as StructuralZeros
    from rarecell.structure import find_structural_zeros as find_structural_zeros
    from rarecell.table import Categories as Categories
    from rarecell.table import Coarsening as Coarsening
    from rarecell.table import ContingencyTable as ContingencyTable


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"rarecell.{_HOME[name]}"), name)
    raise AttributeError(f"module 'rarecell' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)

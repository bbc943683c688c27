"""rarecell: find the records of a microdata file that could be recognised, and protect them.

The public names are listed in ``__init__.pyi``, which type checkers read. Each is loaded from its module on first use, so that
importing the package is quick.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from typing import Any

__version__ = "0.1.0"

_LIST = (pkgutil.get_data(__name__, "__init__.pyi") or b"").decode()
_HOME = {name: module for module, name in re.findall(r"^from rarecell\.([\w.]+) import (\w+) as \2$", _LIST, re.MULTILINE)}
__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"rarecell.{_HOME[name]}"), name)
    raise AttributeError(f"module 'rarecell' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)

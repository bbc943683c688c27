"""How are loops compiled?

numba makes two entry points for every function it compiles, one for Python and one for callers in C. Nothing here is called
from C; without that entry point there is less to compile at the first use on a computer.
"""

from __future__ import annotations

from typing import Any

import numba


def njit(**options: Any) -> Any:
    """numba's decorator without the entry point for C; ``options`` are numba's own."""
    return numba.njit(no_cfunc_wrapper=True, **options)  # type: ignore[call-overload]  # an option that its types do not name

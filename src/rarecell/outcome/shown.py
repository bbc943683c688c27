"""How does a result show itself in a notebook?

The pictures are drawn in a higher layer; a result only knows that :func:`rarecell.card` shows it, and calls it on demand.
"""

from __future__ import annotations


class Shown:
    """Shows itself in a notebook through :func:`rarecell.card`, without any value of a record."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        import rarecell

        return str(rarecell.card(self))

"""How does a result show itself in a notebook?

The pictures are drawn higher up; a result knows only that :func:`rarecell.card` shows it, and asks for it when a notebook does.
"""

from __future__ import annotations


class Shown:
    """Shows itself in a notebook by :func:`rarecell.card`, without any value of a record."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        import rarecell

        return str(rarecell.card(self))

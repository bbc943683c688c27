"""How does a result show itself in a notebook?

The pictures are drawn in a higher layer; a result only knows that :func:`rarecell.card` shows it, and calls it on demand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rarecell.edges import Columns, Frame


class Shown:
    """Shows itself in a notebook through :func:`rarecell.card`, without any value of a record."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        import rarecell

        return str(rarecell.card(self))


# In which dataframe library does a user get a table back?


def in_library_of(like: Frame, columns: Columns, types: Mapping[str, str] | None = None) -> Frame:
    """Build a frame in the library of ``like``: pandas, polars or pyarrow; a pyarrow table if it is none of them.

    Parameters
    ----------
    like : frame or object
        The object whose library is used.
    columns : mapping of str to sequence
        The values by column name.
    types : mapping of str to str, optional
        ``Int64``, ``Float64`` or ``String`` by column name, for columns that may be empty; inferred from the values unless given.
    """
    # Imported here, so that only users who ask for a frame wait for the library.
    import narwhals.stable.v2 as nw

    frame = nw.from_native(like, pass_through=True)
    backend = frame.implementation if isinstance(frame, nw.DataFrame) else nw.Implementation.PYARROW
    schema = None if types is None else {name: getattr(nw, kind)() for name, kind in types.items()}
    return nw.from_dict(dict(columns), schema, backend=backend).to_native()

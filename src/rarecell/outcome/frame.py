"""In which dataframe library does a person get a table back?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rarecell.edges import Columns, Frame


def in_library_of(like: Frame, columns: Columns, types: Mapping[str, str] | None = None) -> Frame:
    """Columns as a frame of the library that ``like`` comes from: pandas, polars or pyarrow; a pyarrow table if none of them.

    Parameters
    ----------
    like : a data frame, or anything else
        Whose library is taken.
    columns : mapping of str to sequence
        The values by name.
    types : mapping of str to str, optional
        ``Int64``, ``Float64`` or ``String`` by name, for columns that may be empty; taken from the values unless given.
    """
    # Only people who ask for a frame wait for the library.
    import narwhals.stable.v2 as nw

    frame = nw.from_native(like, pass_through=True)
    backend = frame.implementation if isinstance(frame, nw.DataFrame) else nw.Implementation.PYARROW
    schema = None if types is None else {name: getattr(nw, kind)() for name, kind in types.items()}
    return nw.from_dict(dict(columns), schema, backend=backend).to_native()

"""Where do values come in or go out whose types are not ours?

Inside the package everything has a type. At its edges there are data frames of five libraries, none of which need be
installed, column values of any kind, arrays of any type, and JSON. Each has a name here, so that a reader of a signature knows
which edge it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
"""An array of any type: passed on as it is, or asked for its type first."""

Integers: TypeAlias = NDArray[np.integer[Any]]
"""Integers, in the shortest type that holds their range."""

Frame: TypeAlias = Any
"""A data frame of pandas, polars, pyarrow, DuckDB or Spark, or an object taken from one."""

Columns: TypeAlias = Mapping[str, Any]
"""Columns by name, each an Arrow or NumPy array or a list."""

Places: TypeAlias = Any
"""Where records are: their row numbers, or ids for records without a position."""

Level: TypeAlias = Any
"""A value of a column: a number, text, a date, a Boolean, or None if missing."""

Json: TypeAlias = dict[str, Any]
"""Options or results by name, ready to be written as JSON or TOML."""

ReadJson: TypeAlias = Mapping[str, Any]
"""Options or results by name, as they were read: nothing has been checked yet."""

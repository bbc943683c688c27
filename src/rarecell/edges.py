"""Where do values come in, or go out, whose types are not ours?

Inside the house everything has a type. At its edges there are data frames of five libraries, none of which need be installed,
values of columns of any kind, arrays of any type, and JSON. Each has its name here, so that a reader of a signature knows
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
"""Whole numbers, as short as their range allows."""

Frame: TypeAlias = Any
"""A data frame of pandas, polars, pyarrow, DuckDB or Spark, or what its library gives out of one."""

Columns: TypeAlias = Mapping[str, Any]
"""Columns by name: an array of Arrow or NumPy, or a list, each."""

Places: TypeAlias = Any
"""Where records are: their row numbers, or the ids of records without a position."""

Level: TypeAlias = Any
"""A value of a column: a number, text, a date, true or false, or None where it is missing."""

Json: TypeAlias = dict[str, Any]
"""Options or results by name, ready to be written as JSON or TOML."""

ReadJson: TypeAlias = Mapping[str, Any]
"""Options or results by name, as they were read: nothing of them was checked yet."""

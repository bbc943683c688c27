"""What kind of values does a column hold?"""

from __future__ import annotations

from typing import Literal

import pyarrow as pa

Kind = Literal["untyped", "integer", "number", "text", "boolean", "date", "other"]


def kind_of(arrow_type: pa.DataType) -> Kind:
    """The kind of values that an Arrow type holds."""
    if pa.types.is_dictionary(arrow_type):
        return kind_of(arrow_type.value_type)
    if pa.types.is_boolean(arrow_type):
        return "boolean"
    if pa.types.is_integer(arrow_type):
        return "integer"
    if pa.types.is_floating(arrow_type) or pa.types.is_decimal(arrow_type):
        return "number"
    if pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type) or pa.types.is_string_view(arrow_type):
        return "text"
    if pa.types.is_date(arrow_type) or pa.types.is_timestamp(arrow_type):
        return "date"
    # A column without any value has no type of its own; all of it is missing.
    return "text" if pa.types.is_null(arrow_type) else "other"

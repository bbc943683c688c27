"""Replacing the bytes of some fields of a text."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rarecell._kernels.compiled import njit

_QUOTE = 34


@njit(cache=True, nogil=True)
def splice_fields(
    data: npt.NDArray[np.uint8],
    fields: npt.NDArray[np.int64],
    chosen: npt.NDArray[np.int32],
    texts: npt.NDArray[np.uint8],
    first: npt.NDArray[np.int64],
    out: npt.NDArray[np.uint8],
) -> int:
    """Copy ``data`` to ``out`` with new texts in some fields; returns the length of what was written.

    ``fields[c, r]`` is the start and end of a field, columns ascending; ``chosen[c, r]`` is the number of its new text, or
    −1 when it stays. Text ``t`` is ``texts[first[2t]:first[2t + 1]]`` for a field without quotes, the next one with quotes.
    """
    copied, length = 0, 0
    for record in range(fields.shape[1]):
        for column in range(fields.shape[0]):
            text = chosen[column, record]
            if text < 0:
                continue
            start, end = fields[column, record, 0], fields[column, record, 1]
            for position in range(copied, start):
                out[length] = data[position]
                length += 1
            entry = 2 * text + (1 if start < end and data[start] == _QUOTE else 0)
            for position in range(first[entry], first[entry + 1]):
                out[length] = texts[position]
                length += 1
            copied = end
    for position in range(copied, data.size):
        out[length] = data[position]
        length += 1
    return length

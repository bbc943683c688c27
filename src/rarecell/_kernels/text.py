"""Where do the records of a delimited text begin and end?

A quote at the start of a field protects delimiters and line ends until it is closed; a doubled quote inside stands for
one quote. Elsewhere a quote is a character like any other.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rarecell._kernels.compiled import njit

PROBLEM_FIELDS, PROBLEM_NUL, PROBLEM_QUOTE, PROBLEM_LINE_END = 1, 2, 3, 4
"""A record with a different number of fields; a zero byte; text after a closing quote; a lone carriage return."""

_FIELD_START, _PLAIN, _QUOTED, _AFTER_QUOTE = 0, 1, 2, 3
_NEWLINE, _RETURN, _QUOTE = 10, 13, 34


@njit(cache=True, nogil=True)
def scan_records(
    data: npt.NDArray[np.uint8],
    delimiter: int,
    newline: int,
    n_fields: int,
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
) -> tuple[int, int, int, int]:
    """Find the complete records of ``data``, which begins where a record begins; empty lines are not records.

    Returns
    -------
    tuple of int
        The number of records, whose bytes are ``starts[r]:ends[r]`` without the line end; the position after the last of
        them; the kind of the first problem, or 0; and, for a wrong number of fields, that number.
    """
    n_records, start, state, fields = 0, 0, _FIELD_START, 1
    for position in range(data.size):
        byte = data[position]
        if byte == 0:
            return n_records, start, PROBLEM_NUL, 0
        if state == _QUOTED:
            if byte == _QUOTE:
                state = _AFTER_QUOTE
        elif byte == newline:
            end = position
            if newline == _NEWLINE and end > start and data[end - 1] == _RETURN:
                end -= 1
            if end > start or n_fields == 1:
                if fields != n_fields:
                    return n_records, start, PROBLEM_FIELDS, fields
                starts[n_records], ends[n_records] = start, end
                n_records += 1
            start, state, fields = position + 1, _FIELD_START, 1
        elif byte == delimiter:
            fields += 1
            state = _FIELD_START
        elif byte == _RETURN:
            # Part of the line end, which must follow.
            if position + 1 < data.size and data[position + 1] != newline:
                return n_records, start, PROBLEM_LINE_END, 0
        elif byte == _QUOTE and state != _PLAIN:
            # It opens a field, or is the second of a doubled quote.
            state = _QUOTED
        elif state == _AFTER_QUOTE:
            return n_records, start, PROBLEM_QUOTE, 0
        else:
            state = _PLAIN
    return n_records, start, 0, 0


@njit(cache=True, nogil=True)
def find_fields(
    data: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    delimiter: int,
    chosen: npt.NDArray[np.int64],
    fields: npt.NDArray[np.int64],
) -> None:
    """Find the ``chosen`` columns, ascending, in each record: ``fields[c, r]`` is the start and end of a field.

    The quotes of a field belong to it. The records must have passed :func:`scan_records`.
    """
    for record in range(starts.size):
        position, column, n_done = starts[record], 0, 0
        while n_done < chosen.size:
            start = position
            if position < ends[record] and data[position] == _QUOTE:
                position += 1
                while data[position] != _QUOTE or (position + 1 < ends[record] and data[position + 1] == _QUOTE):
                    position += 1 if data[position] != _QUOTE else 2
                position += 1
            else:
                while position < ends[record] and data[position] != delimiter:
                    position += 1
            if column == chosen[n_done]:
                fields[n_done, record, 0] = start
                fields[n_done, record, 1] = position
                n_done += 1
            position += 1
            column += 1


@njit(cache=True, nogil=True)
def copy_text(
    data: npt.NDArray[np.uint8],
    fields: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int32],
    out: npt.NDArray[np.uint8],
) -> int:
    """Copy the texts of fields one after another, without enclosing quotes and with doubled quotes as one; returns the length."""
    length = 0
    for record in range(fields.shape[0]):
        offsets[record] = length
        position, end = fields[record, 0], fields[record, 1]
        is_quoted = position < end and data[position] == _QUOTE
        if is_quoted:
            position, end = position + 1, end - 1
        while position < end:
            out[length] = data[position]
            length += 1
            position += 2 if is_quoted and data[position] == _QUOTE else 1
    offsets[fields.shape[0]] = length
    return length


# Replacing the bytes of some fields of a text.


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
    −1 when it stays. Text ``t`` is ``texts[first[t]:first[t + 1]]``.
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
            for position in range(first[text], first[text + 1]):
                out[length] = texts[position]
                length += 1
            copied = end
    for position in range(copied, data.size):
        out[length] = data[position]
        length += 1
    return length

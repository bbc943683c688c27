"""Slow twin of the record scanner: a text is divided character by character."""

from __future__ import annotations


def records(text: str, delimiter: str, n_fields: int) -> list[list[str]] | None:
    """Fields of each record, quotes taken off; None when the text is damaged. Lines end in a newline.

    Of one column an empty line is a record without a value, unless only empty lines follow.
    """
    rows: list[list[str]] = []
    n_blank_at_end = 0
    row: list[str] = []
    field = ""
    state = "start"
    for character in text if not text or text.endswith("\n") else text + "\n":
        if state == "quoted":
            if character == '"':
                state = "closed"
            else:
                field += character
        elif character == "\n":
            is_empty = not row and field == "" and state == "start"
            if not is_empty or n_fields == 1:
                rows.append([*row, field])
                n_blank_at_end = n_blank_at_end + 1 if is_empty else 0
                if len(rows[-1]) != n_fields:
                    return None
            row, field, state = [], "", "start"
        elif character == delimiter:
            row.append(field)
            field, state = "", "start"
        elif character == '"' and state == "start":
            state = "quoted"
        elif character == '"' and state == "closed":
            field += '"'
            state = "quoted"
        elif state == "closed":
            return None
        else:
            field += character
            state = "plain"
    return rows[: len(rows) - n_blank_at_end] if state == "start" else None

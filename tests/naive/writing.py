"""What is in a file after all changes? Record by record, in the order in which the changes are made."""

from __future__ import annotations

from typing import Any

from rarecell.engine.changes import Changes


def changed_records(records: list[dict[str, Any]], changes: Changes) -> list[dict[str, Any]]:
    """The records as dictionaries, with exchanged, recoded, blanked and treated values, dropped columns and a new order."""
    found = [dict(record) for record in records]
    for name, values in changes.values.items():
        for row, value in zip(changes.places.tolist(), values.to_pylist(), strict=True):
            found[row][name] = value
    for name, written in changes.recodes.items():
        level_of = dict(zip(written.values, written.level_of_value.tolist(), strict=True))
        for record in found:
            level = -1 if record[name] is None else level_of[record[name]]
            record[name] = None if level < 0 else written.levels[level]
    for name, blanks in changes.blanks.items():
        for row in blanks.rows:
            found[row][name] = None
    for name, values in changes.treated.items():
        for record, value in zip(found, values.to_pylist(), strict=True):
            record[name] = value
    kept = [{name: value for name, value in record.items() if name not in changes.dropped} for record in found]
    return kept if changes.order is None else [kept[row] for row in changes.order]

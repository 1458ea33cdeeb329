"""The statistics of a file in Delta's format, by which readers skip files.

Either all columns have bounds, or no column: delta-rs takes a missing bound next to others for null, and then
finds no row of the file by that column.
"""

from __future__ import annotations

import json
from datetime import date, datetime

import pyarrow as pa
import pyarrow.compute as pc

_TEXT_MAX = 32
"""Characters of a bound; a longer text is cut."""
_LAST = "\U0010ffff"


class Stats:
    """The statistics of the tables that a file is made of."""

    def __init__(self) -> None:
        self.rows = 0
        self._least: dict[str, object] = {}
        self._most: dict[str, object] = {}
        self._nulls: dict[str, int] = {}
        self._bounded = True

    def add(self, rows: pa.Table) -> None:
        """Take in rows."""
        self.rows += rows.num_rows
        for name, column in zip(rows.column_names, rows.columns, strict=True):
            if pa.types.is_nested(column.type):
                continue
            self._nulls[name] = self._nulls.get(name, 0) + column.null_count
            if column.null_count < len(column):
                self._bound(name, column)

    def _bound(self, name: str, column: pa.ChunkedArray) -> None:
        if not _is_ordered(column):
            self._bounded = False
            return
        bounds = pc.min_max(column).as_py()
        self._least[name] = min(self._least.get(name, bounds["min"]), bounds["min"])
        self._most[name] = max(self._most.get(name, bounds["max"]), bounds["max"])

    @property
    def text(self) -> str:
        """The statistics as JSON."""
        told: dict[str, object] = {"numRecords": self.rows, "nullCount": self._nulls}
        if self._bounded:
            told["minValues"] = {name: _shown(value) for name, value in self._least.items()}
            told["maxValues"] = {name: _shown(value, _LAST) for name, value in self._most.items()}
        return json.dumps(told)


def _is_ordered(column: pa.ChunkedArray) -> bool:
    """Return whether JSON can say the bounds of these values, and all readers order them alike."""
    kind, types = column.type, pa.types
    if types.is_floating(kind):
        return bool(pc.all(pc.is_finite(column)).as_py())
    return bool(
        types.is_integer(kind)
        or types.is_boolean(kind)
        or types.is_date(kind)
        or types.is_string(kind)
        or (types.is_timestamp(kind) and kind.unit == "us" and kind.tz in (None, "UTC"))
    )


def _shown(value: object, behind: str = "") -> object:
    if isinstance(value, str):
        return value if len(value) <= _TEXT_MAX else value[:_TEXT_MAX] + behind
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date) else value

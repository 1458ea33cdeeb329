"""The rows of jobs from their columns, where chunks are texts: packed when written, unpacked when read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from stanchion.core.values.framing import Content, as_content, as_text
from stanchion.stores.fields.jobs import Kind, names
from stanchion.stores.records.jobs import JobRow

_CONTENTS: Final = tuple(map(JobRow._fields.index, names(Kind.CONTENT)))


_DEFAULTS: Final = tuple(JobRow._field_defaults.get(name) for name in JobRow._fields)
_ITEMS: Final = JobRow._fields.index("items")


def row_from(columns: Sequence[object]) -> JobRow:
    """Return the row with these first fields, such as all columns of a live job; the others have their defaults.

    It takes a third of the time of the constructor, and each claimed job needs it.
    """
    row = tuple.__new__(JobRow, (*columns, *_DEFAULTS[len(columns) :]))
    return row if row[_ITEMS] is None else unpacked(row)


def as_stored(content: Content | None) -> str | None:
    """Return the text of a content that may be missing."""
    return as_text(content) if isinstance(content, bytes) else content


def packed(row: JobRow) -> JobRow:
    """Return the row of a chunk with texts for its contents."""
    return _each(row, lambda value: as_text(value) if isinstance(value, bytes) else value)


def unpacked(row: JobRow) -> JobRow:
    """Return the row of a chunk, as it was stored, with its contents."""
    return _each(row, lambda value: as_content(value) if isinstance(value, str) else value)


def _each(row: JobRow, change: Callable[[object], object]) -> JobRow:
    values: list[object] = list(row)
    for place in _CONTENTS:
        values[place] = change(values[place])
    return JobRow._make(values)

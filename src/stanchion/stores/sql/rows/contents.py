"""The rows of jobs from their columns, where chunks are texts: packed when written, unpacked when read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Final

from stanchion.core.values.framing import MARK, Content, as_content, as_text
from stanchion.stores.fields.jobs import Kind, names
from stanchion.stores.records.jobs import JobRow

_NAMES: Final = names(Kind.CONTENT)
_CONTENTS: Final = tuple(map(JobRow._fields.index, _NAMES))
contents_of = itemgetter(*_CONTENTS)
"""Returns the contents of a row, the payload first; called by built-ins, without a frame for each job."""


_DEFAULTS: Final = tuple(JobRow._field_defaults.get(name) for name in JobRow._fields)
_ITEMS: Final = JobRow._fields.index("items")
_LATER: Final = itemgetter(*(place for place, name in zip(_CONTENTS, _NAMES, strict=True) if name != "payload"))


def row_of(columns: Sequence[object]) -> JobRow:
    """Return the row with these first fields as they are stored; the others have their defaults."""
    return tuple.__new__(JobRow, (*columns, *_DEFAULTS[len(columns) :]))


def row_from(columns: Sequence[object]) -> JobRow:
    """Return the row with these first fields, such as all columns of a live job; the others have their defaults.

    It takes a third of the time of the constructor, and each claimed job needs it.
    """
    row = tuple.__new__(JobRow, (*columns, *_DEFAULTS[len(columns) :]))
    if row[_ITEMS] is not None:
        return _each(row, lambda value: as_content(value) if isinstance(value, str) else value)
    for value in _LATER(row):  # a single item may have come from a chunk, or end as one
        if value is not None and value[:1] == MARK:
            single = _each(row, lambda value: as_content(value) if isinstance(value, str) else value)
            return single._replace(payload=row.payload)
    return row


def as_stored(content: Content | None) -> str | None:
    """Return the text of a content that may be missing."""
    return as_text(content) if isinstance(content, bytes) else content


def packed(row: JobRow) -> JobRow:
    """Return the row with texts for its contents."""
    return _each(row, lambda value: as_text(value) if isinstance(value, bytes) else value)


def with_contents(columns: Sequence[str], rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """Return rows of these columns with their contents as they were written."""
    places = {place for place, name in enumerate(columns) if name in _NAMES}
    if not places:
        return rows
    return [
        tuple(as_content(value) if n in places and isinstance(value, str) else value for n, value in enumerate(row))
        for row in rows
    ]


def _each(row: JobRow, change: Callable[[object], object]) -> JobRow:
    values: list[object] = list(row)
    for place in _CONTENTS:
        values[place] = change(values[place])
    return JobRow._make(values)

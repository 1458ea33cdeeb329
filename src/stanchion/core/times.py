"""Stored times (microseconds since 1970 UTC) to and from aware datetimes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import overload

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros(moment: datetime) -> int:
    """Return the stored form of an aware datetime."""
    return (moment - _EPOCH) // _MICROSECOND


@overload
def moment(stored: int) -> datetime: ...
@overload
def moment(stored: None) -> None: ...
def moment(stored: int | None) -> datetime | None:
    """Return the aware UTC datetime of a stored time; the first or the last one there is for what lies beyond."""
    if stored is None:
        return None
    try:
        return _EPOCH + timedelta(microseconds=stored)
    except OverflowError:  # another writer has stored it
        return (datetime.min if stored < 0 else datetime.max).replace(tzinfo=UTC)


def iso(moment: datetime | None) -> str | None:
    """Return an aware datetime as ISO 8601 in UTC."""
    return None if moment is None else moment.isoformat(timespec="microseconds").replace("+00:00", "Z")

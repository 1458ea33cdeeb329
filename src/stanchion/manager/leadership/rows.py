"""What the store keeps: a value for each manager's session, and one for each slice."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from stanchion.stores.records.values import VersionedValue

SESSION, SLICE = "manager.session", "manager.slice"
"""The kinds of the values."""


class SessionRow(NamedTuple):
    """The session of a manager; its version counts its renewals."""

    id: str
    version: int
    until: int
    """The store's time until which it is alive, in microseconds."""
    address: str


class SliceRow(NamedTuple):
    """A slice of a queue; its version counts the changes of its owner."""

    name: str
    version: int
    owner: str | None
    """A session."""
    queue: str
    lanes: tuple[int, int]
    """Those that its last owner served."""
    base: int
    """The store's time when the row was made."""

    @property
    def epoch(self) -> int:
        """Grows with each change of the owner, even if the row was deleted in between."""
        return self.base + self.version


def session_text(until: int, address: str) -> str:
    """Return the text of a session's value."""
    return _text({"until": until, "address": address})


def session_row(value: VersionedValue) -> SessionRow:
    """Return the session in a value; one that can't be read has ended."""
    found = _read(value.text)
    return SessionRow(value.name, value.version, found.get("until", 0), found.get("address", ""))


def slice_text(row: SliceRow) -> str:
    """Return the text of a slice's value."""
    return _text({"owner": row.owner, "queue": row.queue, "lanes": row.lanes, "base": row.base})


def slice_row(value: VersionedValue) -> SliceRow:
    """Return the slice in a value; one that can't be read has no owner."""
    found = _read(value.text)
    first, last = found.get("lanes", (0, -1))
    owner, queue, base = found.get("owner"), found.get("queue", ""), found.get("base", 0)
    return SliceRow(value.name, value.version, owner, queue, (first, last), base)


def _text(fields: dict[str, Any]) -> str:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)


def _read(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}

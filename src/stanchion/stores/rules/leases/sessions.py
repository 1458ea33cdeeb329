"""The versioned values by which managers prove themselves alive."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from stanchion.stores.records.values import VersionedValue

SESSION: Final = "manager.session"
"""The kind of the values."""


class SessionRow(NamedTuple):
    """The session of a manager; its version counts its renewals."""

    id: str
    version: int
    until: int
    """The store's time until which it is alive, in microseconds."""
    address: str


def session_text(until: int, address: str) -> str:
    """Return the text of a session's value."""
    return to_text({"until": until, "address": address})


def session_row(value: VersionedValue) -> SessionRow:
    """Return the session in a value; one that can't be read has ended."""
    found = fields_of(value.text)
    return SessionRow(value.name, value.version, found.get("until", 0), found.get("address", ""))


def to_text(fields: Mapping[str, object]) -> str:
    """Return fields as the text of a value."""
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)


def fields_of(text: str) -> dict[str, Any]:
    """Return the fields in the text of a value; none if it can't be read."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}

"""The stored value of each slice; for sessions see `stores.rules.leases.sessions`."""

from __future__ import annotations

from typing import NamedTuple

from stanchion.stores.records.values import VersionedValue
from stanchion.stores.rules.leases.sessions import fields_of, to_text

SLICE = "manager.slice"
"""The kind of the values."""


class SliceRow(NamedTuple):
    """A slice of a queue; its version counts the changes of its owner."""

    name: str
    version: int
    owner: str | None
    """A session."""
    queue: str
    lanes: tuple[int, int]
    """Lanes that its last owner served."""
    base: int
    """The store's time when the row was made."""

    @property
    def epoch(self) -> int:
        """Grows with each change of the owner, even if the row was deleted in between."""
        return self.base + self.version


def slice_text(row: SliceRow) -> str:
    """Return the text of a slice's value."""
    return to_text({"owner": row.owner, "queue": row.queue, "lanes": row.lanes, "base": row.base})


def slice_row(value: VersionedValue) -> SliceRow:
    """Return the slice in a value; one that can't be read has no owner."""
    found = fields_of(value.text)
    first, last = found.get("lanes", (0, -1))
    owner, queue, base = found.get("owner"), found.get("queue", ""), found.get("base", 0)
    return SliceRow(value.name, value.version, owner, queue, (first, last), base)

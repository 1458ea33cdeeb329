"""What all stores agree on about the publication of staged jobs."""

from __future__ import annotations

import secrets

from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.values import ValueChange, VersionedValue

WRITE_KIND = "write"
"""The kind of the values that tell which writes were published, where the publisher has no value of its own."""

KEPT_STAGED = 86_400 * SECOND
"""What nobody has published or added to for so long is forgotten."""

WRITES_KEPT = 30 * 86_400 * SECOND
"""For so long it is known that a write was published."""


def value_of_write(write: str, now: int) -> ValueChange:
    """Return the value of a write: when it was published, and what tells its publisher from any other."""
    return ValueChange(WRITE_KIND, write, f"{now} {secrets.token_hex(8)}", 0)


def published_at(value: VersionedValue) -> int:
    """Return when the write of this value was published."""
    return int(value.text.partition(" ")[0])

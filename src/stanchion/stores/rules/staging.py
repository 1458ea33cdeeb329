"""Shared rules for publishing staged jobs."""

from __future__ import annotations

import secrets

from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.values import ValueChange, VersionedValue

WRITE_KIND = "write"
"""Kind of the values that record published writes, for publishers without another value."""

KEPT_STAGED = 86_400 * SECOND
"""Age in microseconds after which unpublished staged jobs are forgotten, counted from the last use."""

WRITES_KEPT = 30 * 86_400 * SECOND
"""Microseconds that a published write is remembered."""


def value_of_write(write: str, now: int) -> ValueChange:
    """Return the value of a write: the time of publication, and a random id that identifies the publisher."""
    return ValueChange(WRITE_KIND, write, f"{now} {secrets.token_hex(8)}", 0)


def published_at(value: VersionedValue) -> int:
    """Return when the write of this value was published."""
    return int(value.text.partition(" ")[0])

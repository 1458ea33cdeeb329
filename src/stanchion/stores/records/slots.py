"""Slots: what jobs wait for and hold, by their names."""

from __future__ import annotations

from typing import Final, NamedTuple

ORDER: Final = "order"
SEMAPHORE: Final = "semaphore"
NODE: Final = "node"
RATE: Final = "rate"


class Slot(NamedTuple):
    """The name of a slot; see `rules.capacity.slots` for the kinds. `queue` is empty for all but order keys.

    Slots are sorted by their texts, byte by byte.
    """

    kind: str
    queue: str
    name: str


def slot_in(kind: str | None, queue: str | None, name: str | None) -> Slot | None:
    """Return the slot in three columns; None where they are empty."""
    return None if kind is None else Slot(kind, queue or "", name or "")

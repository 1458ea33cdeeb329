"""The base of the parts of a queue."""

from __future__ import annotations

from stanchion.context.context import Context


class QueuePart:
    """The methods of a queue that have one purpose. `Queue` joins these parts."""

    _context: Context
    name: str

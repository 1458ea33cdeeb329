"""How a reader divides its jobs into micro-batches."""

from __future__ import annotations

from typing import NamedTuple


class Batching(NamedTuple):
    """The sizes of micro-batches, and the pace of an idle query."""

    most: int
    """Maximum number of items in a batch."""
    parts: int
    """Maximum number of tasks that read a batch."""
    poll: float
    """Seconds that an idle driver waits before it polls again."""

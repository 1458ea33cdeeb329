"""Faults: possible effects of a failed call, which decide about retries."""

from __future__ import annotations

from enum import Enum, auto


class Fault(Enum):
    """The kind of a failure."""

    LOST = auto()
    """The connection broke, or its node lost its role; the call may have been carried out."""
    BUSY = auto()
    """Temporarily refused, as for a deadlock or a lock; no change was made."""
    HOPELESS = auto()
    """Refused permanently."""
    OTHER = auto()
    """Any other error, which a retry does not fix."""

"""Whether the store has answered lately without a gap: else live workers may look dead in it."""

from __future__ import annotations

import math

from stanchion.core.boot_clock import boot_clock

MISSED = 3
"""Heartbeats without a beat after which a worker counts as dead."""

LATE = 2
"""Heartbeats without an answer after which the store, or this process, has a problem."""

RETURN = 6.0
"""Minimum seconds that live workers get to beat again after an outage of the store."""


class Steadiness:
    """Judges by the answers of the store; `every`: seconds between heartbeats.

    A process does not know what happened before its start, so it starts as if after an outage.
    """

    def __init__(self, every: float) -> None:
        self._every = every
        self._answered_at = -math.inf
        self._steady_from = 0.0

    def answered(self) -> None:
        """Take in that the store has just answered; call it at least once in a heartbeat."""
        now = boot_clock()
        if now - self._answered_at >= LATE * self._every:
            self._steady_from = now + max(MISSED * self._every, RETURN)
        self._answered_at = now

    @property
    def steady(self) -> bool:
        """False during an outage of the store and shortly after, while live workers may look dead."""
        now = boot_clock()
        return now >= self._steady_from and now - self._answered_at < LATE * self._every

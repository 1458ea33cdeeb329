"""Queues where claims fail, while the store answers: each is skipped for a growing pause; others continue."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection

from stanchion.core.backoff import Backoff
from stanchion.errors import StoreUnavailable
from stanchion.stores.records.claims import Claimed
from stanchion.worker.health import Health

log = logging.getLogger("stanchion.worker")

LONGEST_PAUSE = 30.0
"""Seconds."""


class FailingQueues:
    """The queues of one worker whose last claim failed, and when to claim from each again. Used by one thread."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self._pauses: dict[str, tuple[Backoff, float]] = {}

    def claimed(self, queue: str, claim: Callable[[], Claimed]) -> Claimed:
        """Return a claim's jobs: none while the queue is skipped. Raises StoreUnavailable."""
        backoff, until = self._pauses.get(queue) or (Backoff(longest=LONGEST_PAUSE), 0.0)
        if (left := until - time.monotonic()) > 0:
            return Claimed([], left)
        try:
            found = claim()
        except StoreUnavailable:
            raise
        except Exception as error:
            pause = backoff.failed()
            self._pauses[queue] = backoff, time.monotonic() + pause
            self._health.failed(_kind(queue), error)
            log.warning(
                "claiming from queue %r failed, next try in %.1f s, other queues continue: %s: %s",
                *(queue, pause, type(error).__name__, error),
            )
            log.debug("claiming from queue %r failed", queue, exc_info=True)
            return Claimed([], pause)
        if self._pauses.pop(queue, None) is not None:
            self._health.succeeded(_kind(queue))
        return found

    def served_changed(self, names: Collection[str]) -> None:
        """Forget queues that are no longer served."""
        for queue in self._pauses.keys() - set(names):
            del self._pauses[queue]
            self._health.succeeded(_kind(queue))


def _kind(queue: str) -> str:
    return f"claim from queue {queue}"

"""Portions: how many jobs one claim asks for, where a job may carry a chunk of up to `max_payload` bytes.

A worker sizes its claims by the pace of recent jobs. After quick single items, a claim of hundreds of jobs could load
hundreds of megabytes of chunks and leave none for other workers. Stores can't limit a claim by bytes, so a worker makes
large claims only from queues without live chunks. It asks the store for their number at most four times a second.
"""

from __future__ import annotations

import logging
import time
from typing import Final

from stanchion.context.context import Context
from stanchion.core.names.partition_names import logical_name
from stanchion.errors import StoreUnavailable

log = logging.getLogger("stanchion.worker")

FEW: Final = 32
"""Jobs of one claim, or a job for each thread, from a queue with chunks."""

KNOWN_SECONDS: Final = 0.25
"""Seconds for which an answer is used. Few chunks are pushed in that time."""


class Portions:
    """The sizes of the claims of one worker with so many threads."""

    def __init__(self, context: Context, threads: int) -> None:
        self._context, self._few = context, max(FEW, threads)
        self._known: dict[str, tuple[float, bool]] = {}
        """When a queue was looked at, on the monotonic clock, and whether it had chunks."""

    def of(self, queue: str, wanted: int) -> int:
        """Return how many of these jobs a claim from a queue may ask for."""
        if wanted <= self._few or logical_name(queue) not in self._context.registry.stations:
            return wanted
        return self._few if self._has_chunks(queue) else wanted

    def _has_chunks(self, queue: str) -> bool:
        now = time.monotonic()
        looked_at, has_chunks = self._known.get(queue, (now - KNOWN_SECONDS, False))
        if now - looked_at >= KNOWN_SECONDS:
            has_chunks = self._asked(queue)
            self._known[queue] = now, has_chunks
        return has_chunks

    def _asked(self, queue: str) -> bool:
        """Return whether the store has live chunks in a queue; it may have, if it can't tell."""
        try:
            return self._context.store.stats([queue], ["chunks"])[queue].chunks > 0
        except StoreUnavailable:
            raise
        except Exception:  # a manager of an older version; what is wrong with the queue itself, the claim tells
            log.debug("whether queue %r has chunks is not known, so few jobs are claimed", queue, exc_info=True)
            return True

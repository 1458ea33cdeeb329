"""Expired leases, which a claim frees first; a job locked by a transaction must not delay the claim."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from stanchion.errors import StoreUnavailable
from stanchion.stores.cas.workers import LostJobs
from stanchion.stores.mongo.client.documents import Document, up_to
from stanchion.stores.mongo.client.server import Access
from stanchion.stores.rules.leases.locked_leases import LockedLeases

AT_ONCE: Final = 100
SECONDS = 0.5
"""Seconds to free all of them, and then each: a write waits while a transaction that has written the job is open."""
_LOCKED_MAX = 2
_REMEMBERED_SECONDS = 5.0


class ExpiredLeases:
    """Finds and frees expired leases of all queues."""

    def __init__(self, server: Access, lost: LostJobs) -> None:
        self._server, self._lost = server, lost
        self._locked = LockedLeases(_REMEMBERED_SECONDS)

    def match(self, now: int) -> Document:
        """Return the filter for their jobs, without the ones that could not be freed just now."""
        return {"lease_until": {"$gt": self._locked.until, **up_to(now)}}

    def free(self, ids: Sequence[str], now: int) -> None:
        """Free the leases of these jobs; skip locked ones for a moment."""
        self._locked.suspect(now)
        if self._freed(ids):
            return
        each = random.sample(ids, len(ids))
        locked = 0
        while each and locked < _LOCKED_MAX:
            locked += not self._freed([each.pop()])
        if locked:
            self._locked.confirm()

    def _freed(self, ids: Sequence[str]) -> bool:
        try:
            with self._server.outside.hurried(SECONDS):
                self._lost.free(ids, {})
        except StoreUnavailable:
            return False
        return True

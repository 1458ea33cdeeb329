"""The map of shards as this process follows it.

The map is a value in the default shard, changed by compare-and-set. A process reads it again when half of LEASE_SECONDS
have passed. A mover of partitions waits for longer than these between the announcement and the change of the shard
that gets its new jobs. So a push that has ended within LEASE_SECONDS of the *beginning* of a read which says that the
partition stays, has ended before the change: its jobs are found and moved along. A push that took longer, or goes to
a partition that is moving, reads the map once more when it has ended, and brings its jobs to their shard.

This needs no check in the database, and holds for a process that was stopped for any time at any point.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection

from stanchion.core.boot_clock import boot_clock
from stanchion.core.concurrency.forks import reset_after_fork
from stanchion.errors import StoreUnavailable
from stanchion.stores.rules.shard_map import ShardMap
from stanchion.stores.shards.record import MapRecord

log = logging.getLogger("stanchion.shards")

LEASE_SECONDS = 6.0
"""Seconds for which a map that was read proves that no partition has changed its shard without an announcement."""


class KnownMap:
    """The map as it was read last. `changed` is called with each new one, and the one before."""

    def __init__(
        self, record: MapRecord, changed: Callable[[ShardMap, ShardMap], None], lease: float = LEASE_SECONDS
    ) -> None:
        self._record, self._changed, self._lease = record, changed, lease
        self._read = record.given, float("-inf")
        self._tried_at = float("-inf")
        reset_after_fork(self)

    def begin(self) -> None:
        """Start with a lock of this process."""
        self._lock = threading.Lock()

    @property
    def now(self) -> ShardMap:
        """The map, as far as this process knows."""
        return self._read[0]

    def current(self) -> ShardMap:
        """Return the map to begin a call with. If the default shard does not answer, that which was read last."""
        now = boot_clock()
        if now - max(self._read[1], self._tried_at) > self._lease / 2:
            self._tried_at = now
            try:
                return self.read()
            except StoreUnavailable as error:
                log.debug("the map of shards can't be read: %s", error)
        return self.now

    def read(self) -> ShardMap:
        """Read the map, and return it."""
        began = boot_clock()
        shard_map = self._record.read()
        with self._lock:
            known, at = self._read
            new = shard_map.version > known.version
            if shard_map.version >= known.version:
                self._read = (shard_map if new else known), max(began, at)
        if new:
            self._changed(known, shard_map)
        return self.now

    def proved(self, queues: Collection[str]) -> ShardMap:
        """Return a map that says where jobs belong which were stored in these physical queues before this call.

        Raises StoreUnavailable if it had to be read, and the default shard does not answer.
        """
        shard_map, at = self._read
        if boot_clock() - at <= self._lease and not any(map(shard_map.is_held, queues)):
            return shard_map
        return self.read()

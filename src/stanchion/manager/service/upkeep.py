"""Upkeep by a manager, as by a worker: jobs of dead workers return, and history is purged.

With managers only, there may be no worker alive that would do it.
"""

from __future__ import annotations

from stanchion.context.upkeep import Upkeep
from stanchion.core.functions import Listeners
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow


class StoreHost:
    """A store without an app: it declares nothing, and its events have no listeners."""

    def __init__(self, store: Store) -> None:
        self.store, self.events = store, Listeners()
        self.upkeep = Upkeep(self)

    def store_semaphores(self) -> Store:
        """See `Host`."""
        return self.store

    def notice_partitions(self) -> Store:
        """See `Host`."""
        return self.store

    def keep_declared(self) -> None:
        """See `ReaperHost`."""

    def fire_dead(self, row: JobRow) -> None:
        """See `Host`."""

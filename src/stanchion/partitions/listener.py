"""Listening for work in partitioned queues."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from stanchion.core.names.partition_names import logical_name
from stanchion.stores.protocol import Listener
from stanchion.stores.wakeup.signs import Signs


class LogicalListener:
    """A listener that reports the queues themselves instead of their partitions."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self.wait, self.pass_on, self.wake, self.close = listener.wait, listener.pass_on, listener.wake, listener.close

    @property
    def connected(self) -> bool:
        return self._listener.connected

    @property
    def fed(self) -> bool:
        return self._listener.fed

    def came(self) -> Mapping[str, Collection[int]]:
        """Return the ranks of the jobs that have come."""
        found: dict[str, set[int]] = {}
        for queue, ranks in self._listener.came().items():
            found.setdefault(logical_name(queue), set()).update(ranks)
        return found

    def signs(self) -> Signs:
        """Return the reasons of the signs since the last call."""
        signs = self._listener.signs()
        return signs if signs.queues is None else signs._replace(queues=frozenset(map(logical_name, signs.queues)))

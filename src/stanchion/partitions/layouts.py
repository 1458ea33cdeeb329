"""The layouts of all partitioned queues of a store, as versioned values, and their changes.

A process reads them when it opens the store, and again from time to time. A layout that has changed since is no danger:
what must never change in it doesn't.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from stanchion.core.names.partition_names import logical_name, partition_number
from stanchion.partitions.layout import KIND, READ_SECONDS, Layout
from stanchion.stores.protocol import Store
from stanchion.stores.records.queues import Counts


class Layouts:
    """The layouts that this process has read, by queue."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.known: Mapping[str, Layout] = {}
        self._read_at = 0.0

    def read(self) -> None:
        """Read the layouts."""
        self._read_at = time.monotonic()
        self.known = {value.name: Layout.of(value.text) for value in self._store.values(KIND)}

    def read_again(self) -> None:
        """Read the layouts unless they were read within READ_SECONDS."""
        if time.monotonic() - self._read_at >= READ_SECONDS:
            self.read()

    def names(self, queue: str) -> tuple[str, ...]:
        """Return the physical queues of a queue: itself, and its partitions if it has any."""
        layout = self.known.get(queue)
        return (queue,) if layout is None else layout.names(queue)

    def of(self, queue: str) -> Layout | None:
        """Return the layout of a queue, or of a partition's queue; None: it has no partitions.

        The partition of a queue that this process does not know has been read from the store: read the layouts first.
        """
        name = logical_name(queue)
        if name not in self.known and name != queue:
            self.read()
        return self.known.get(name)

    def planned(self, queue: str, partitions: int) -> Layout | None:
        """Return the layout with this number of partitions; None if the queue never had more than one."""
        return self._planned(queue, partitions, self._stored(queue)[0])

    def resize(self, queue: str, partitions: int) -> None:
        """Store the number of partitions. The first layout of a queue decides where its keys are, once and for all."""
        while True:
            before, version = self._stored(queue)
            layout = self._planned(queue, partitions, before)
            if layout in (before, None) or self._store.compare_and_set(KIND, queue, layout.text, version):
                break
        self.read()

    def cover(self, queue: str, names: Iterable[str]) -> None:
        """Let claims read these partitions too, which a deleted queue of the same name has left."""
        needed = max(((partition_number(name) or 0) + 1 for name in names), default=0)
        while (found := self._stored(queue))[0] is not None and found[0].read < needed:
            if self._store.compare_and_set(KIND, queue, found[0]._replace(read=needed).text, found[1]):
                break
        self.read()

    def forget(self, queue: str) -> None:
        """Delete the layout of a deleted queue."""
        while (found := self._stored(queue))[1]:
            if self._store.compare_and_set(KIND, queue, None, found[1]):
                break
        self.read()

    def _stored(self, queue: str) -> tuple[Layout | None, int]:
        value = next(iter(self._store.values(KIND, [queue])), None)
        return (None, 0) if value is None else (Layout.of(value.text), value.version)

    def _planned(self, queue: str, partitions: int, before: Layout | None) -> Layout | None:
        if before is not None:
            return before._replace(partitions=partitions, read=max(before.read, partitions))
        if partitions == 1:
            return None
        left = [partition_number(one.name) or 0 for one in self._store.queues() if logical_name(one.name) == queue]
        return Layout(partitions, partitions if self._unused(queue) else 0, max(partitions, *(n + 1 for n in left), 0))

    def _unused(self, queue: str) -> bool:
        """Return True if no job has ever entered the queue."""
        used = self._store.stats([queue], ["states", "totals"])[queue]
        return used.totals == Counts() and not used.states.total

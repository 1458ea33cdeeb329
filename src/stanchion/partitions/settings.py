"""Settings of a partitioned queue: stored with the queue, and applied to each of its physical queues.

    1. if the number of partitions changes: a mark among the declared settings of the queue
    2. the settings of new partitions, unchanged, then the layout
    3. the settings of the queue
    4. the settings of its physical queues, repeated until the queue's settings are the same before and after

If two processes change settings at the same time, the later one applies both changes. A process that dies after 1
leaves a mark, so that others search in vain for a layout. One that dies between the other steps leaves partitions with
older settings, which `repair` in maintenance corrects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from stanchion.core.names.partition_names import logical_name, partition_number
from stanchion.errors import InvalidInput
from stanchion.partitions.layout import Layout
from stanchion.partitions.layouts import Layouts
from stanchion.stores.fields.queues import SETTABLE
from stanchion.stores.protocol import Store
from stanchion.stores.records.queues import QueueSettings

OF_THE_QUEUE = ("partitions", "timeout", "expires_with_jobs")
"""Settings that are read by the name of the queue itself."""

REFUSED = {
    "ordered": "give its jobs one order_key, which leads all of them to one partition",
    "ordered_by": "give each job its tenant as order_key, too",
    "max_rate": "give its jobs a rate with rate_by='queue', which holds for all partitions together",
    "max_running": "declare a semaphore and give its jobs limits=[...], which holds for all partitions together",
    "expires": "delete it when it is no longer needed",
}
"""Settings that each physical queue would apply by itself, and what to use instead."""

COPIED = tuple(one.name for one in SETTABLE if one.name not in (*OF_THE_QUEUE, *REFUSED))
"""Settings that each physical queue has."""


class PartitionSettings:
    """Changes the settings of partitioned queues."""

    def __init__(self, store: Store, layouts: Layouts) -> None:
        self._store, self._layouts = store, layouts

    def configure(self, queue: str, changes: Mapping[str, Any], tx: object = None) -> QueueSettings:
        """Apply changes, `partitions` among them, and return the settings."""
        given = {name: value for name, value in changes.items() if name not in ("partitions", "key_partitions")}
        partitions = changes.get("partitions")
        if partitions is not None:
            self._layouts.read()
        before = self._layouts.known.get(queue)
        self._refuse_letters(queue, given)
        if before is None and partitions in (None, 1):
            return self._store.configure(queue, given, tx)
        self._refuse(queue, given)
        if partitions is not None and (before is None or before.partitions != partitions):
            self._resize(queue, partitions, tx)
        given["partitioned"] = True
        if queue not in self._layouts.known:  # one partition, and never more
            return self._store.configure(queue, given, tx)
        settings = self._store.configure(queue, self._own(queue, given), tx)
        self._apply(settings, tx)
        return self.with_partitions(settings)

    def with_partitions(self, settings: QueueSettings) -> QueueSettings:
        """Return stored settings with the numbers of partitions."""
        layout = self._layouts.known.get(settings.name)
        if layout is None:
            return settings
        return replace(settings, partitions=layout.partitions, key_partitions=layout.keys)

    def listed(self, settings: Iterable[QueueSettings]) -> list[QueueSettings]:
        """Return the settings of queues, without their partitions."""
        known = self._layouts.known
        hidden = {name for queue, layout in known.items() for name in layout.names(queue)[1:]}
        return [self.with_partitions(one) for one in settings if one.name not in hidden]

    def repair(self) -> None:
        """Apply the settings of each partitioned queue to partitions that differ, and let claims read all there are."""
        known = self._layouts.known
        stored = {one.name: one for one in self._store.queues()} if known else {}
        there: dict[str, list[str]] = {}
        for name in stored:
            there.setdefault(logical_name(name), []).append(name)
        for queue, layout in known.items():
            if not set(there.get(queue, ())) <= set(layout.names(queue)):
                self._layouts.cover(queue, there[queue])
            if (settings := stored.get(queue)) is not None and self._different(settings, layout, stored):
                self._apply(settings)

    def _resize(self, queue: str, partitions: int, tx: object) -> None:
        if tx is not None:
            raise InvalidInput(
                f"queue {queue!r} has other partitions in the store than the code declares, and a transaction can't "
                f"change that: call app.setup(), or use the queue once outside of a transaction, and push then"
            )
        if any(current.dead_letter == queue for current in self._store.queues() if current.name != queue):
            raise InvalidInput(
                f"queue {queue!r} takes the dead letters of another queue, so it can't have partitions: "
                f"name a queue without partitions as dead_letter there"
            )
        current = self._store.configure(queue, {"partitioned": True})
        layout = self._layouts.planned(queue, partitions)
        if layout is not None:
            stored = {one.name: one for one in self._store.queues(layout.names(queue))}
            self._apply_to(current, self._different(current, layout, stored))
        self._layouts.resize(queue, partitions)

    def _refuse(self, queue: str, changes: Mapping[str, object]) -> None:
        """Raise InvalidInput for settings that a partitioned queue can't have."""
        current = next(iter(self._store.queues([queue])), QueueSettings(queue))
        for name, instead in REFUSED.items():
            if changes.get(name, getattr(current, name)):
                raise InvalidInput(
                    f"{name} of queue {queue!r} would hold for each of its partitions by itself: {instead}, "
                    f"and leave {name} out ({name}=None)"
                )

    def _refuse_letters(self, queue: str, changes: Mapping[str, object]) -> None:
        letters = changes.get("dead_letter")
        if letters in self._layouts.known and letters != queue:
            raise InvalidInput(f"dead_letter={letters!r} has partitions: name a queue without them")

    def _own(self, queue: str, changes: dict[str, object]) -> dict[str, object]:
        """Return changes where a queue that is its own dead-letter queue keeps its dead jobs in its history."""
        return {**changes, "dead_letter": None} if changes.get("dead_letter") == queue else changes

    def _apply(self, settings: QueueSettings, tx: object = None) -> None:
        """Apply settings to all partitions, again if they have changed meanwhile."""
        queue = settings.name
        while True:
            if (layout := self._layouts.known.get(queue)) is None:
                return  # another process has deleted the queue
            stored = {} if tx is not None else {one.name: one for one in self._store.queues(layout.names(queue)[1:])}
            self._apply_to(settings, self._different(settings, layout, stored), tx)
            if tx is not None:
                return
            now = next(iter(self._store.queues([queue])), settings)
            self._layouts.read()
            if _copied(now) == _copied(settings) and self._layouts.known.get(queue, layout).read == layout.read:
                return
            settings = now

    def _different(self, settings: QueueSettings, layout: Layout, stored: Mapping[str, QueueSettings]) -> list[str]:
        """Return the partitions whose stored settings are missing or differ."""
        wanted = _copied(settings)
        names = (name for name in layout.names(settings.name) if partition_number(name) is not None)
        return [name for name in names if name not in stored or _copied(stored[name]) != wanted]

    def _apply_to(self, settings: QueueSettings, queues: Iterable[str], tx: object = None) -> None:
        changes = _copied(settings)
        if settings.lanes > 1:
            changes["uses_lanes"] = True
        for name in queues:
            self._store.configure(name, changes, tx)


def _copied(settings: QueueSettings) -> dict[str, object]:
    return {name: getattr(settings, name) for name in COPIED}

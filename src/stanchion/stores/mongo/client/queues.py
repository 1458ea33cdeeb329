"""The documents of queues: settings, folded counts, the claim lock and the bucket of the rate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pymongo.errors import DuplicateKeyError

from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.client.server import Access
from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.records.queues import STORED_SETTINGS, QueueSettings
from stanchion.stores.rules.capacity.shapes import NAMES, needs

_SETTINGS = STORED_SETTINGS[1:]


class QueueDocuments:
    """Makes the documents of queues, stores their shapes, and reads their settings.

    A process stores the shape of a queue once, before the first job that needs it. Upkeep in another process may reset
    it at the same time. Then a claim that finds jobs in lanes stores it again, as does the next upkeep.
    """

    def __init__(self, server: Access) -> None:
        self._server = server

    def forget(self, queue: str) -> None:
        """Make the document of a queue again on its next use, because it may have been dropped."""
        self._server.outside.queues_made.pop(queue, None)

    def make(self, queue: str) -> None:
        """Make sure that a queue has its document."""
        self._make({queue: frozenset()})

    def make_for(self, jobs: Iterable[JobRow | NewJob]) -> None:
        """Make sure that the queues of these jobs have their documents, with the shapes that the jobs need.

        They keep them even if the caller's transaction is rolled back.
        """
        shapes: dict[str, frozenset[str]] = {}
        for job in jobs:
            shapes[job.queue] = shapes.get(job.queue, frozenset()) | needs(job)
        self._make(shapes)

    def _make(self, shapes: Mapping[str, frozenset[str]]) -> None:
        made = self._server.outside.queues_made
        new = sorted(queue for queue, shape in shapes.items() if queue not in made or not shape <= made[queue])

        def work(on: Place, _again: bool) -> None:
            for queue in new:
                make_queue(on, queue, shapes[queue])

        if new:
            self._server.outside.call(work)
            made.update((queue, made.get(queue, frozenset()) | shapes[queue]) for queue in new)

    def settings_of(self, queues: Iterable[str]) -> dict[str, QueueSettings]:
        """Return the settings of these queues; defaults for a queue that has none."""
        names = list(queues)
        wanted = {"_id": {"$in": names}}
        found = self._server.call(lambda on, _again: list(on.queues.find(wanted, session=on.session))) if names else []
        settings = {one["_id"]: settings_in(one) for one in found}
        made = self._server.outside.queues_made
        made.update((queue, _shape(one)) for queue, one in settings.items() if queue in made)
        return {queue: QueueSettings(queue) for queue in names} | settings


def make_queue(on: Place, queue: str, shape: Iterable[str] = ()) -> None:
    """Make the document of a queue unless present, and store this shape."""
    of_shape = {"$set": dict.fromkeys(shape, True)} if shape else {}
    try:
        on.queues.update_one({"_id": queue}, {"$setOnInsert": {"folds": 0}, **of_shape}, upsert=True)
    except DuplicateKeyError:  # another upsert came first
        if of_shape:
            on.queues.update_one({"_id": queue}, of_shape)


def _shape(settings: QueueSettings) -> frozenset[str]:
    return frozenset(name for name in NAMES if getattr(settings, name))


def settings_in(document: Mapping[str, Any]) -> QueueSettings:
    """Return the settings in the document of a queue."""
    return QueueSettings(document["_id"], **{name: document[name] for name in _SETTINGS if name in document})

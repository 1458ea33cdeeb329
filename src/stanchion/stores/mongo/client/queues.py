"""The documents of queues: settings, folded counts, the claim lock and the bucket of the rate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from pymongo.errors import DuplicateKeyError

from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.client.server import Access
from stanchion.stores.records.queues import QueueSettings

_SETTINGS = tuple(QueueSettings.__dataclass_fields__)[1:]


class QueueDocuments:
    """Makes the documents of queues, and reads the settings in them."""

    def __init__(self, server: Access) -> None:
        self._server = server

    def forget(self, queue: str) -> None:
        """Make the document of a queue anew when it is used next: it may have been dropped."""
        self._server.outside.queues_made.discard(queue)

    def make(self, queues: Iterable[str]) -> None:
        """Make sure that these queues have their documents, also where the transaction of a caller is rolled back."""

        def work(on: Place, _again: bool) -> None:
            for queue in new:
                make_queue(on, queue)

        made = self._server.outside.queues_made
        new = sorted(set(queues) - made)
        if new:
            self._server.outside.call(work)
            made.update(new)

    def settings_of(self, queues: Iterable[str]) -> dict[str, QueueSettings]:
        """Return the settings of these queues; the default ones for a queue that has none yet."""
        names = list(queues)
        wanted = {"_id": {"$in": names}}
        found = self._server.call(lambda on, _again: list(on.queues.find(wanted, session=on.session))) if names else []
        return {queue: QueueSettings(queue) for queue in names} | {one["_id"]: settings_in(one) for one in found}


def make_queue(on: Place, queue: str) -> None:
    """Make the document of a queue unless it is there."""
    with suppress(DuplicateKeyError):  # another upsert came first
        on.queues.update_one({"_id": queue}, {"$setOnInsert": {"folds": 0}}, upsert=True)


def settings_in(document: Mapping[str, Any]) -> QueueSettings:
    """Return the settings in the document of a queue."""
    return QueueSettings(document["_id"], **{name: document[name] for name in _SETTINGS if name in document})

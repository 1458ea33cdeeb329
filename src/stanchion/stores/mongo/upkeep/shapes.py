"""The stored shapes of queues, reset once their jobs need no more than a plain claim; see `rules.capacity.shapes`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from stanchion.stores.mongo.client.documents import Document, queued, row_of
from stanchion.stores.mongo.client.queues import QueueDocuments, make_queue
from stanchion.stores.mongo.client.server import Access, across
from stanchion.stores.mongo.upkeep.rests import Rests
from stanchion.stores.records.jobs import UNLANED
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.capacity.shapes import FEW, NAMES, reshaped


class Shapes:
    """Corrects shapes."""

    def __init__(self, server: Access, documents: QueueDocuments) -> None:
        self._server, self._documents = server, documents
        self._rests = Rests()

    def keep_up(self, queues: Sequence[QueueSettings], active: Collection[str] | None, now: int) -> None:
        """Reset shapes of queues with few jobs where they claim too much; extend shapes that claim too little.

        `active`: the queues with activity since the last round; None: any.
        """
        due = {settings.name for settings in self._rests.over(queues, now)}
        back = [self._set_back(settings) for settings in queues]
        looked_at = [settings for settings in back if active is None or settings.name in due | {*active}]
        self._set_right(looked_at)
        self._rests.begin(looked_at, now)

    def _set_back(self, settings: QueueSettings) -> QueueSettings:
        """Reset the shape of a queue; return its settings."""
        if not (settings.uses_slots or (settings.uses_lanes and settings.lanes < 2)):
            return settings
        live, fields = {"live": True, "queue": settings.name}, dict.fromkeys(("lane", "order_key", "limits"), 1)
        jobs = self._server.call(lambda on, _again: list(on.jobs.find(live, fields).limit(FEW + 1)))
        if len(jobs) > FEW:
            return settings
        back = reshaped(settings, map(row_of, jobs))
        over = [name for name in NAMES if getattr(settings, name) > getattr(back, name)]
        if over:
            such = {"_id": settings.name, "lanes": {"$in": [None, 1]} if settings.lanes < 2 else settings.lanes}
            self._server.call(lambda on, _again: on.queues.update_one(such, {"$unset": dict.fromkeys(over, "")}))
            self._documents.forget(settings.name)
        return back

    def _set_right(self, queues: Iterable[QueueSettings]) -> None:
        missing: list[list[Document]] = [
            [{"$match": such}, {"$limit": 1}, {"$project": {"queue": 1, "needs": {"$literal": name}}}]
            for settings in queues
            for name, such in _needing(settings.name).items()
            if not getattr(settings, name)
        ]
        for one in across(self._server, missing):
            self._server.call(lambda on, _again: make_queue(on, one["queue"], (one["needs"],)))  # noqa: B023


def _needing(queue: str) -> dict[str, Document]:
    """Return for each shape setting the filter for jobs that need it, as far as an index supports it."""
    keyed: Document = {"live": True, "queue": queue, "order_key": {"$exists": True}}
    return {"uses_lanes": {**queued(queue), "lane": {"$gt": UNLANED}}, "uses_slots": keyed}

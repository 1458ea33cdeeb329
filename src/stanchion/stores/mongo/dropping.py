"""The end of queues: dropped by hand, or removed when they have expired.

`drop_queue` ends the jobs that have to do with gates or flows, which notes their duties, deletes the others, and the
queue's document last: a queue that was dropped by halves is still there to be dropped again. Then it does the duties.
"""

from __future__ import annotations

from collections.abc import Sequence

from stanchion.stores.cas.mixins.jobs import Change, Swap
from stanchion.stores.mongo.client.documents import FREE, PLAIN, Document
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.client.server import BULK_SECONDS
from stanchion.stores.mongo.counting import Counting
from stanchion.stores.mongo.flows import Flowing
from stanchion.stores.mongo.jobs import settings_in
from stanchion.stores.mongo.outbox import Dutiful
from stanchion.stores.mongo.slots import Gating
from stanchion.stores.mongo.staging import Staging
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.expiry import Expiring, Use

_GONE = 500
_OVER: Document = {"finished_at": {"$exists": True}}
NO_USE = {"active_events": "", "active_at": ""}
"""What is unset to have the time of a queue that expires begin again."""


class Dropping(Counting, Dutiful, Flowing, Gating, Staging):
    """Deletes queues with all that they hold."""

    def drop_queue(self, queue: str) -> int:
        def work(on: Place, _again: bool) -> None:
            on.jobs.delete_many({"queue": queue, **FREE})
            on.jobs.update_many({"events.queue": queue}, {"$pull": {"events": {"queue": queue}}})  # jobs moved on
            on.queues.delete_one({"_id": queue})

        self._known.discard(queue)
        elsewhere = self.server.call(lambda on, _again: on.jobs.distinct("events.queue", {"queue": queue}))
        self.fold(set(elsewhere) - {queue}, {"queue": queue})
        live = {"live": True, "queue": queue}
        count = self.server.call(lambda on, _again: on.jobs.count_documents(live), BULK_SECONDS)
        self._end_in(queue)
        self.server.call(work, BULK_SECONDS)
        self._follow_ends(queue)
        return count

    def _follow_ends(self, queue: str) -> None:
        """Do what the ends of jobs of this queue entail, and forget these jobs."""
        while left := self.some({"queue": queue, **_OVER, "duties.mark": {"$exists": True}}, _GONE):
            self.follow_up(self.duties_of(left))
            over = {"_id": {"$in": left}, **_OVER, **FREE}
            self.server.call(lambda on, _again: on.jobs.delete_many(over))  # noqa: B023

    def _end_in(self, queue: str, which: Document | None = None) -> None:
        """End the jobs of a queue that have to do with gates or flows."""
        while found := self.some({"live": True, "queue": queue, "$nor": [PLAIN], **(which or {})}, _GONE):
            now, seen = self.look(found)
            live = [one for one in seen.values() if one.row.finished_at is None and one.row.queue == queue]
            self.delete_live(
                [Change(one, one.row, None, self.duty_of(one.row, None, None, None, now)) for one in live], now
            )

    def delete_live(self, changes: Sequence[Change], now: int) -> list[str]:
        """Delete live jobs but for their duties; return the ids of those that nothing has changed meanwhile."""
        ended = JobState.CANCELLED.value
        gone = [change._replace(row=change.row._replace(state=ended, finished_at=now)) for change in changes]
        swaps = self.swap(gone, deleted=True).swaps if gone else []
        return [change.row.id for change, swap in zip(gone, swaps, strict=True) if swap is Swap.DONE]

    def some(self, wanted: Document, limit: int) -> list[str]:
        """Return the ids of some of these jobs."""

        def work(on: Place, _again: bool) -> list[str]:
            return [one["_id"] for one in on.jobs.find(wanted, {"_id": 1}).limit(limit)]

        return self.server.call(work) if limit else []

    # -- queues that expire

    def expiring(self) -> list[Expiring]:
        """Return the queues that expire."""
        found = self.server.call(lambda on, _again: list(on.queues.find({"expires": {"$gt": 0}}).sort("_id", 1)))
        return [Expiring(settings_in(one), sum(self.counts(one["_id"])), _noted(one)) for one in found]

    def note_use(self, queue: str, use: Use) -> None:
        """Note the use of a queue."""
        noted = {"active_events": use.events, "active_at": use.at}
        self.server.call(lambda on, _again: on.queues.update_one({"_id": queue}, {"$set": noted}))

    def remove_unused(self, settings: QueueSettings, noted: Use) -> None:
        """Remove a queue, unless anything has happened since this was noted.

        (1) Its old jobs, where they go with it, (2) its document, unless there are others. What is pushed after that
        finds a queue without settings.
        """
        queue, idle = settings.name, {"state": {"$ne": JobState.RUNNING.value}}
        live: Document = {"live": True, "queue": queue}
        if self.some({**live, **({"state": JobState.RUNNING.value} if settings.expires_with_jobs else {})}, 1):
            return
        self.fold([queue])
        if sum(self.counts(queue)) != noted.events:
            return
        if settings.expires_with_jobs:
            old = {**live, **idle, "enqueued_at": {"$lte": noted.at}}
            self._end_in(queue, {name: old[name] for name in ("state", "enqueued_at")})
            self.server.call(lambda on, _again: on.jobs.delete_many({**old, **FREE}), BULK_SECONDS)
            self._follow_ends(queue)
        if self.some(live, 1):
            return
        mine = {"_id": queue, "active_events": noted.events, "active_at": noted.at}
        self.server.call(lambda on, _again: on.queues.delete_one(mine))
        self._known.discard(queue)


def _noted(document: Document) -> Use | None:
    return Use(document["active_events"], document["active_at"]) if "active_at" in document else None

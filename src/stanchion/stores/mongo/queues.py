"""Queues as documents, and their counters.

A step adds its counter event to the job's document, in the same update: `{id, queue, what}`, with an id per step, and
with the `number` of items of a chunk. A step that divides a chunk, or passes queues, adds several. Events and steps
thus always agree. Maintenance folds the events into the counts in the queue's document.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Any

from pymongo import ReturnDocument, UpdateOne

from stanchion.stores.cas.chunks import chunks
from stanchion.stores.cas.entries import FollowUp, entry_of
from stanchion.stores.cas.jobs import Change
from stanchion.stores.fields.queues import MERGED
from stanchion.stores.mongo.client.documents import (
    FINISHED,
    FREE,
    GRACE_SECONDS,
    LAST_MOMENT_MS,
    PLAIN,
    Document,
)
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.client.queues import QueueDocuments, make_queue, settings_in
from stanchion.stores.mongo.client.server import BULK_SECONDS, Access
from stanchion.stores.mongo.jobs import Jobs
from stanchion.stores.mongo.wakeup import Announcer
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.queues import Counts, QueueSettings
from stanchion.stores.rules.upkeep import Expiring, Use

_NO_USE = {"active_events": "", "active_at": ""}
"""Fields to unset so that the expiry of a queue starts again."""

_OVER: Document = {"finished_at": {"$exists": True}}
_ENDED_AT_ONCE = 500
_FOLD_JOBS = 200
_COUNTED: Document = {"counts": 1, "folds": 1, "folding": 1}
_COUNTED_AT_ONCE = 1000
_SAMPLED_JOBS = 500
_FOLD_WAIT_SECONDS = 1.0
"""Time without progress after which the process that began a fold is presumed dead."""
_FOLD_PAUSE_SECONDS = 0.02


class Queues:
    """Reads and writes the settings of queues."""

    def __init__(self, server: Access, documents: QueueDocuments, signals: Announcer) -> None:
        self._server, self._documents, self._signals = server, documents, signals

    def configure(self, queue: str, changes: Mapping[str, Any]) -> QueueSettings:
        """Make the queue if need be, apply the changes, return its settings."""
        self._documents.forget(queue)  # another process may have dropped it
        self._documents.make(queue)

        set_to = {name: value for name, value in changes.items() if name not in MERGED}
        for name in MERGED:
            set_to |= {f"{name}.{key}": value for key, value in changes.get(name, {}).items()}

        def work(on: Place, _again: bool) -> QueueSettings:
            update: Document = {"$setOnInsert": {"folds": 0}, **({"$set": set_to} if set_to else {})}
            update |= {"$unset": _NO_USE} if "expires" in changes else {}
            found: Any = on.queues.find_one_and_update(
                {"_id": queue}, update, upsert=True, return_document=ReturnDocument.AFTER
            )
            return settings_in(found)

        settings = self._server.call(work)
        if "history_ttl" in changes:
            self._keep_for(queue, settings.history_ttl)
        self._signals.announce([queue])
        return settings

    def _keep_for(self, queue: str, history_ttl: float) -> None:
        """Rewrite the expiry of finished jobs: the TTL index uses the date in the document."""
        last = min(int((history_ttl + GRACE_SECONDS) * 1000), LAST_MOMENT_MS)
        end: Document = {"$min": [{"$add": [{"$divide": ["$finished_at", 1000]}, last]}, LAST_MOMENT_MS]}
        update = [{"$set": {"expires_at": {"$toDate": {"$toLong": end}}}}]
        finished = {"queue": queue, **FINISHED, **PLAIN, **FREE}
        self._server.call(lambda on, _again: on.jobs.update_many(finished, update), BULK_SECONDS)

    def queues(self, names: Iterable[str] | None = None) -> list[QueueSettings]:
        """Return the settings of queues, by name: of all, or of the known ones among `names`."""
        wanted: Document = {} if names is None else {"_id": {"$in": list(names)}}
        found = self._server.call(lambda on, _again: list(on.queues.find(wanted).sort("_id", 1)))
        return [settings_in(one) for one in found]


class Counters:
    """Counts the events of queues."""

    def __init__(self, server: Access) -> None:
        self._server = server

    def counts(self, queues: Iterable[str]) -> dict[str, Counts]:
        """Return the counts of these queues so far, by few commands for many queues."""
        names = list(dict.fromkeys(queues))
        found: dict[str, Counts] = {}
        for part in chunks(names, _COUNTED_AT_ONCE):
            found |= self._server.call(lambda on, _again: _counts_of(on, part))  # noqa: B023
        return found

    def fold(self, queues: Iterable[str], among: Document | None = None) -> None:
        """Add the events of these queues to their counts, from jobs that meet `among`."""
        for queue in queues:
            self._fold_all(queue, among or {}, math.inf)

    def fold_some(self, seconds: float) -> set[str] | None:
        """Fold events for up to `seconds`, also of dropped queues.

        Return the queues that had some; None if time ran out, so that any may have.
        """
        end, active = time.monotonic() + seconds, set[str]()
        while queues := self._with_events():
            active |= queues
            for queue in queues:
                self._fold_all(queue, {}, end)
            if time.monotonic() >= end:
                return None
        return active

    def _with_events(self) -> set[str]:
        """Return the queues of a sample of events; listing all queues would read all events."""
        some = {"events.queue": {"$gt": ""}}  # uses an index of jobs with events

        def work(on: Place, _again: bool) -> list[Document]:
            return list(on.jobs.find(some, {"events.queue": 1}).limit(_SAMPLED_JOBS))

        return {event["queue"] for job in self._server.call(work) for event in job["events"]}

    def _fold_all(self, queue: str, among: Document, end: float) -> None:
        self.fold_by(lambda on, _again, alone: _fold(on, queue, among, alone), end)

    def fold_by(self, some: Callable[[Place, bool, bool], Folded], end: float = math.inf) -> None:
        """Fold chunks of events until all are folded, or time runs out.

        Arguments of `some`: whether it is a repeat after a lost reply, and whether the process of an unfinished fold
        has died.
        """
        waits_until = time.monotonic() + _FOLD_WAIT_SECONDS
        while (now := time.monotonic()) < end:
            alone = now >= waits_until
            match self._server.call(lambda on, again: some(on, again, alone)):  # noqa: B023
                case Folded.ALL:
                    return
                case Folded.SOME:
                    waits_until = time.monotonic() + _FOLD_WAIT_SECONDS
                case Folded.BY_ANOTHER:
                    time.sleep(_FOLD_PAUSE_SECONDS)


def _counted(on: Place, queue: str) -> dict[str, object]:
    return on.queues.find_one({"_id": queue}, _COUNTED) or {}


def _counts_of(on: Place, queues: Iterable[str]) -> dict[str, Counts]:
    left, done = list(queues), dict[str, Counts]()
    while left:
        found = {one["_id"]: one for one in on.queues.find({"_id": {"$in": left}}, _COUNTED)}
        events = _events_of(on, [queue for queue in left if "folding" not in found.get(queue, ())])
        totals: dict[str, Counter[str]] = {}
        for queue in left:
            totals[queue] = Counter(found.get(queue, {}).get("counts", {}))
            folding = found.get(queue, {}).get("folding")
            totals[queue].update(_net(events[queue] if folding is None else _events(on, queue, folding)))
        again = {one["_id"]: one.get("folds") for one in on.queues.find({"_id": {"$in": left}}, {"folds": 1})}
        # Of the others, maintenance has folded some meanwhile.
        same = [queue for queue in left if again.get(queue) == found.get(queue, {}).get("folds")]
        done |= {queue: Counts(**totals[queue]) for queue in same}
        left = [queue for queue in left if queue not in done]
    return done


def _events_of(on: Place, queues: Sequence[str]) -> dict[str, Counter[str]]:
    """Count the events of these queues by kind."""
    events: dict[str, Counter[str]] = {queue: Counter() for queue in queues}
    mine = {"$match": {"events.queue": {"$in": list(queues)}}}
    number = {"$sum": {"$ifNull": ["$events.number", 1]}}
    each = {"$group": {"_id": {"queue": "$events.queue", "what": "$events.what"}, "count": number}}
    stages = mine, {"$project": {"events": 1}}, {"$unwind": "$events"}, mine, each
    for one in on.documents(on.jobs, *stages) if queues else ():
        events[one["_id"]["queue"]][one["_id"]["what"]] = one["count"]
    return events


def _events(on: Place, queue: str, folding: Iterable[Document]) -> Counter[str]:
    """Count the events of a queue by kind, except those that its counts already include."""
    listed = {(one["job"], event) for one in folding for event in one["events"]}
    totals: Counter[str] = Counter()
    for job in on.jobs.find({"events.queue": queue}, {"events": 1}):
        for event in job["events"]:
            if event["queue"] == queue and (job["_id"], event["id"]) not in listed:
                totals[event["what"]] += event.get("number", 1)
    return totals


def _net(events: Mapping[str, int]) -> Counter[str]:
    """Return the change of each count; events with a leading minus decrement it."""
    net: Counter[str] = Counter()
    for what, count in events.items():
        net[what.removeprefix("-")] += -count if what.startswith("-") else count
    return net


class Folded(Enum):
    """The result of a fold."""

    ALL = auto()
    SOME = auto()
    BY_ANOTHER = auto()
    """Another process is folding, or died while folding."""


def _fold(on: Place, queue: str, among: Document, alone: bool) -> Folded:
    """Move some events to the counts of their queue.

    (1) The counts and the list of events that they now include change in one update, (2) these events are removed from
    the jobs, (3) the list is removed. `alone`: the owner of a present list has died, so (2) and (3) are done for it,
    without counting anything twice. `folds` changes in (1) and (3), which readers and other folders use to detect a
    change.
    """
    found = to_fold(on, queue, alone)
    if isinstance(found, Folded):
        return found
    jobs = list(on.jobs.find({"events.queue": queue, **among}, {"events": 1}).limit(_FOLD_JOBS))
    if not jobs:
        return Folded.ALL
    folding = begin_fold(on, found, jobs)
    if folding is None:
        return Folded.BY_ANOTHER
    end_fold(on, folding)
    return Folded.SOME


def to_fold(on: Place, queue: str, alone: bool) -> Document | Folded:
    """Return the counts of a queue if events may be added now, otherwise the reason."""
    found = _counted(on, queue)
    if not found:  # dropped, while another process kept pushing to it
        if on.jobs.find_one({"events.queue": queue}, {"_id": 1}) is None:
            return Folded.ALL
        make_queue(on, queue)
        return Folded.SOME
    if "folding" in found:
        if alone:
            end_fold(on, found)
        return Folded.SOME if alone else Folded.BY_ANOTHER
    return found


def begin_fold(on: Place, found: Document, jobs: Iterable[Document]) -> Document | None:
    """Add the events of these jobs to the counts, and list them; None if another process was faster.

    The jobs must have been read after `found`, the counts.
    """
    queue, folds = found["_id"], found["folds"]
    folding: list[Document] = []
    totals: Counter[str] = Counter()
    for job in jobs:
        mine = [event for event in job["events"] if event["queue"] == queue]
        for event in mine:
            totals[event["what"]] += event.get("number", 1)
        folding.append({"job": job["_id"], "events": [event["id"] for event in mine]})
    more = {f"counts.{what}": count for what, count in _net(totals).items()}
    begin = {"$set": {"folding": folding}, "$inc": {**more, "folds": 1}}
    if not on.queues.update_one({"_id": queue, "folds": folds, "folding": None}, begin).matched_count:
        return None
    return {"_id": queue, "folds": folds + 1, "folding": folding}


def end_fold(on: Place, found: Document) -> None:
    """Remove the listed events from the jobs, then the list."""
    queue, folding = found["_id"], found["folding"]
    if folding:
        on.jobs.bulk_write(
            [
                UpdateOne({"_id": one["job"]}, {"$pull": {"events": {"id": {"$in": one["events"]}, "queue": queue}}})
                for one in folding
            ],
            ordered=False,
        )
    ended = {"$unset": {"folding": ""}, "$inc": {"folds": 1}}
    on.queues.update_one({"_id": queue, "folds": found["folds"]}, ended)


class QueueRemoval:
    """Removes queues with all their contents: dropped by an operator, or expired."""

    def __init__(
        self,
        server: Access,
        documents: QueueDocuments,
        jobs: Jobs,
        counters: Counters,
        follow_up: FollowUp,
    ) -> None:
        self._server, self._documents, self._jobs = server, documents, jobs
        self._counters, self._follow_up = counters, follow_up

    def drop_queue(self, queue: str) -> int:
        """Delete the queue with its live jobs, history and counts; return the number of live jobs.

        (1) Jobs that use slots or belong to flows end, which writes their outbox entries, (2) the others are deleted,
        (3) the queue's document is deleted; until then a partially dropped queue can be dropped again, (4) the entries
        are applied.
        """

        def work(on: Place, _again: bool) -> None:
            on.jobs.delete_many({"queue": queue, **FREE})
            on.jobs.update_many({"events.queue": queue}, {"$pull": {"events": {"queue": queue}}})  # jobs that moved on
            on.queues.delete_one({"_id": queue})

        self._documents.forget(queue)
        elsewhere = self._server.call(lambda on, _again: on.jobs.distinct("events.queue", {"queue": queue}))
        self._counters.fold(set(elsewhere) - {queue}, {"queue": queue})
        live = {"live": True, "queue": queue}
        count = self._server.call(lambda on, _again: on.jobs.count_documents(live), BULK_SECONDS)
        self._end_in(queue)
        self._server.call(work, BULK_SECONDS)
        self._apply_ends(queue)
        return count

    def _apply_ends(self, queue: str) -> None:
        """Apply the outbox entries of ended jobs of this queue, and delete these jobs."""
        while left := self._jobs.some({"queue": queue, **_OVER, "outbox.key": {"$exists": True}}, _ENDED_AT_ONCE):
            self._follow_up(self._jobs.entries_of(left))
            over = {"_id": {"$in": left}, **_OVER, **FREE}
            self._server.call(lambda on, _again: on.jobs.delete_many(over))  # noqa: B023

    def _end_in(self, queue: str, which: Document | None = None) -> None:
        """End the jobs of a queue that use slots or belong to flows."""
        while found := self._jobs.some(
            {"live": True, "queue": queue, "$nor": [PLAIN], **(which or {})}, _ENDED_AT_ONCE
        ):
            now, seen = self._jobs.read(found)
            live = [one for one in seen.values() if one.row.finished_at is None and one.row.queue == queue]
            self._jobs.delete_live(
                [Change(one, one.row, None, entry_of(one.row, None, None, None, now)) for one in live], now
            )

    # -- expiring queues, see `rules.upkeep`

    def now(self) -> int:
        """Return the server's clock."""
        return self._server.now()

    def expiring(self) -> list[Expiring]:
        """Return the queues that have `expires`."""
        found = self._server.call(lambda on, _again: list(on.queues.find({"expires": {"$gt": 0}}).sort("_id", 1)))
        counts = self._counters.counts(one["_id"] for one in found)
        return [Expiring(settings_in(one), sum(counts[one["_id"]]), _recorded(one)) for one in found]

    def note_use(self, queue: str, use: Use) -> None:
        """Store the use of a queue."""
        recorded = {"active_events": use.events, "active_at": use.at}
        self._server.call(lambda on, _again: on.queues.update_one({"_id": queue}, {"$set": recorded}))

    def remove_unused(self, settings: QueueSettings, recorded: Use) -> None:
        """Remove a queue, unless an event happened since `recorded`.

        (1) Its old jobs, if they expire with it, (2) its document, unless it has other jobs. A later push finds a queue
        without settings.
        """
        queue, idle = settings.name, {"state": {"$ne": JobState.RUNNING.value}}
        live: Document = {"live": True, "queue": queue}
        if self._jobs.some({**live, **({"state": JobState.RUNNING.value} if settings.expires_with_jobs else {})}, 1):
            return
        self._counters.fold([queue])
        if sum(self._counters.counts([queue])[queue]) != recorded.events:
            return
        if settings.expires_with_jobs:
            old = {**live, **idle, "enqueued_at": {"$lte": recorded.at}}
            self._end_in(queue, {name: old[name] for name in ("state", "enqueued_at")})
            self._server.call(lambda on, _again: on.jobs.delete_many({**old, **FREE}), BULK_SECONDS)
            self._apply_ends(queue)
        if self._jobs.some(live, 1):
            return
        mine = {"_id": queue, "active_events": recorded.events, "active_at": recorded.at}
        self._server.call(lambda on, _again: on.queues.delete_one(mine))
        self._documents.forget(queue)


def _recorded(document: Document) -> Use | None:
    return Use(document["active_events"], document["active_at"]) if "active_at" in document else None

"""Adopted jobs, and upkeep.

A purge deletes finished jobs from history once their events are counted. A portion takes these steps, one command each:

    (1) read the counts of the queue
    (2) read the next jobs, with their events
    (3) change the counts and list the events that they now include, in one update
    (4) delete the jobs that are unchanged
    (5) remove the list

After a death past (3) the next fold removes the listed events from the remaining jobs, and the next purge deletes
these. If all events were counted before, (3) and (5) are skipped. A job that went through several queues, or one that
might be stored again, takes more steps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from bson import ObjectId
from pymongo import UpdateOne
from pymongo.errors import BulkWriteError

from stanchion.stores.mongo.client.documents import (
    FIELDS,
    FINISHED,
    FREE,
    Document,
    document_of,
    entailing,
    expiry,
    is_wanted_once,
    up_to,
)
from stanchion.stores.mongo.client.errors import duplicates
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.client.queues import QueueDocuments
from stanchion.stores.mongo.client.server import Access, across
from stanchion.stores.mongo.deletion import Deletion
from stanchion.stores.mongo.queues import Counters, Folded, QueueRemoval, Queues, begin_fold, end_fold, to_fold
from stanchion.stores.mongo.upkeep.misfits import Misfits
from stanchion.stores.mongo.upkeep.rests import LONGEST, Rests
from stanchion.stores.mongo.upkeep.shapes import Shapes
from stanchion.stores.mongo.wakeup import Announcer
from stanchion.stores.records.jobs import QUEUED, SECOND, JobRow, JobState
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.expiry import end_overdue
from stanchion.stores.rules.trimming import Trimming
from stanchion.stores.rules.upkeep import MAINTAIN_SECONDS, Budget, purge_each, remove_expired

_PURGED_AT_ONCE = 500
_PURGE_JOBS_MAX = 1000
_FOLD_SECONDS = 5.0


class Adoption:
    """Stores jobs of another store."""

    def __init__(self, server: Access, queues: QueueDocuments, signals: Announcer) -> None:
        self._server, self._queues, self._signals = server, queues, signals

    def adopt(self, rows: Sequence[JobRow]) -> list[bool]:
        """Store jobs of another store unchanged; False for each whose key a live job has. Nothing is counted."""
        if not rows:
            return []
        queues = {row.queue for row in rows}
        self._queues.make_for(rows)
        settings, stamp = self._queues.settings_of(queues), ObjectId()
        documents = [
            _adopted(row, settings[row.queue].history_ttl, stamp) for row in {row.id: row for row in rows}.values()
        ]

        def work(on: Place, _again: bool) -> set[str]:
            refused = {documents[index]["_id"]: documents[index] for index in on.insert(on.jobs, documents)}
            there = list(on.jobs.find({"_id": {"$in": list(refused)}}, {"gone": 1})) if refused else []
            taken = _restore(on, [refused[one["_id"]] for one in there if one.get("gone")])
            return refused.keys() - {one["_id"] for one in there} | taken

        refused = self._server.call(work)
        self._signals.announce(queues)
        return [row.id not in refused for row in rows]


class Purges:
    """Deletes history beyond its retention."""

    def __init__(self, server: Access, queues: QueueDocuments, counters: Counters, deletion: Deletion) -> None:
        self._server, self._queues = server, queues
        self._counters, self._deletion = counters, deletion
        self._rests = Rests()
        self._trimming = Trimming(self, _PURGE_JOBS_MAX)

    def with_old(self, queues: Sequence[QueueSettings], now: int) -> list[str]:
        """Return the queues whose history has jobs beyond its retention, by few commands for all.

        A queue rests if it has no job that will be beyond it soon: later ends are kept for as long.
        """
        due = self._rests.over(queues, now)
        soon = self._with_ends(due, now + int(LONGEST * SECOND))
        for one in due:
            if one.name not in soon:
                self._rests.begin([one], now, one.history_ttl or LONGEST)
        return sorted(self._with_ends([one for one in due if one.name in soon], now))

    def _with_ends(self, queues: Sequence[QueueSettings], at: int) -> set[str]:
        """Return the queues whose history has jobs that are beyond its retention at a time."""
        pipelines: list[list[Document]] = [
            [
                {"$match": {"queue": one.name, **_ended_by(at, one.history_ttl), **FREE}},
                *({"$limit": 1}, {"$project": {"_id": 0, "queue": 1}}),
            ]
            for one in queues
        ]
        return {one["queue"] for one in across(self._server, pipelines)}

    def purge(self, queue: str, older_than: float | None = None, limit: int = 500) -> int:
        """Delete up to `limit` finished jobs that ended over `older_than` seconds ago (None: the queue's TTL)."""
        age = self._queues.settings_of([queue])[queue].history_ttl if older_than is None else older_than
        now = self._server.now()
        return self._purge(queue, _ended_by(now, age), limit, now)

    def trim_each(self, queues: Sequence[QueueSettings], budget: Budget) -> list[str]:
        """Delete what these queues keep for less than `history_ttl`; return those left when time ran out."""
        return self._trimming.trim_each(queues, budget)

    def now(self) -> int:
        return self._server.now()

    def after_portion(self, queue: str, after: int, before: int, portion: int) -> int | None:
        """Return the end of the job behind the first portion of those from `after` to `before`; None: no more."""
        found = self._ends({"queue": queue, **_ended_between(after, before)}, 1, portion, 1)
        return found[0] if found else None

    def beyond(self, queue: str, newest: int, portion: int) -> list[int]:
        """Return up to a portion of the ends that follow so many of the newest ones, the latest first."""
        return self._ends({"queue": queue, **FINISHED}, -1, newest, portion)

    def delete_of(self, queue: str, outcome: str, after: int, before: int, portion: int) -> int:
        """Delete up to a portion of the jobs of an outcome with these ends; return their number."""
        such = {**_ended_between(after, before), "state": outcome}
        return self._purge(queue, such, portion, self._server.now())

    def oldest(self, queue: str, count: int) -> list[str]:
        """Return the ids of so many of the oldest jobs, in an order that is the same for all processes: the index's."""

        def work(on: Place, _again: bool) -> list[str]:
            found = on.jobs.find({"queue": queue, **FINISHED, **FREE}, {"_id": 1})
            found = found.sort([("queue", 1), ("finished_at", 1)])
            return [one["_id"] for one in found.limit(count)]

        return self._server.call(work)

    def delete(self, queue: str, ids: Sequence[str], before: int) -> int:
        """Delete these jobs, except ones that have ended after `before`; return their number."""
        such = {**_ended_between(0, before), "$and": [{"_id": {"$in": list(ids)}}]}
        return self._purge(queue, such, len(ids), self._server.now())

    def _ends(self, such: Document, order: int, skipped: int, most: int) -> list[int]:
        """Return when the jobs that meet a filter have ended, from a number on in this order."""

        def work(on: Place, _again: bool) -> list[int]:
            found = on.jobs.find(such, {"finished_at": 1}).sort([("queue", order), ("finished_at", order)])
            return [int(one["finished_at"]) for one in found.skip(skipped).limit(most)]

        return self._server.call(work)

    def _purge(self, queue: str, ended: Document, limit: int, now: int) -> int:
        """Delete up to `limit` finished jobs that meet a filter."""
        such = {"queue": queue, **ended, **FREE}
        tried: set[str] = set()
        others: list[str] = []
        deleted, lost = 0, False

        def some(on: Place, again: bool, alone: bool) -> Folded:
            nonlocal deleted, lost
            lost = lost or again
            most = min(_PURGED_AT_ONCE, limit - len(tried) - len(others))
            if not most:
                return Folded.ALL
            found = to_fold(on, queue, alone)
            if isinstance(found, Folded):
                return found
            found_jobs = on.jobs.find(
                {**such, **({"_id": {"$nin": others}} if others else {})}, _SEEN, batch_size=most + 1
            )
            jobs = list(found_jobs.limit(most))
            plain = [job for job in jobs if _is_plain(job, queue, now)]
            with_events = [job for job in plain if job.get("events")]
            folding = begin_fold(on, found, with_events) if with_events else None
            if with_events and folding is None:
                return Folded.BY_ANOTHER
            tried.update(job["_id"] for job in plain)
            others.extend(job["_id"] for job in jobs if job["_id"] not in tried)
            gone = _delete(on, plain, such)
            deleted += gone
            if folding is not None:
                end_fold(on, folding if gone < len(plain) else {**folding, "folding": []})
            return Folded.SOME if len(jobs) == most else Folded.ALL

        self._counters.fold_by(some)
        if lost:
            wanted = {"_id": {"$in": list(tried)}}
            deleted = len(tried) - self._server.call(lambda on, _again: on.jobs.count_documents(wanted))
        # Checked again on deletion: a job may have been retried meanwhile.
        return deleted + (self._deletion.hide_and_forget(others, ended, now) if others else 0)


class Overdue:
    """Ends jobs that have expired."""

    def __init__(self, server: Access, end: Callable[[Sequence[str]], object]) -> None:
        """`end`: ends those of some jobs that have expired."""
        self._server, self._end = server, end

    def end(self) -> None:
        """End the expired jobs, as far as the usual time of upkeep allows."""
        end_overdue(self._end_some, Budget(MAINTAIN_SECONDS))

    def _end_some(self, most: int) -> int:
        waiting = {"$in": [QUEUED, JobState.WAITING.value]}

        def some(on: Place, _again: bool) -> list[str]:
            due = {"overdue_at": up_to(self._server.now()), "live": True, "state": waiting}
            return [one["_id"] for one in on.jobs.find(due, {"_id": 1}).limit(most)]

        ids = self._server.call(some)
        if ids:
            self._end(ids)
        return len(ids)


class Upkeep:
    """Periodic upkeep."""

    def __init__(
        self,
        queues: Queues,
        counters: Counters,
        purges: Purges,
        removal: QueueRemoval,
        shapes: Shapes,
        misfits: Misfits,
        recover: Callable[[], None],
        forget: Iterable[Callable[[], object]],
    ) -> None:
        """`recover` runs outbox recovery; each of `forget` deletes one kind of expired data."""
        self._queues, self._counters, self._purges, self._removal = queues, counters, purges, removal
        self._shapes, self._misfits, self._recover, self._forget = shapes, misfits, recover, tuple(forget)

    def maintain(self, seconds: float = MAINTAIN_SECONDS) -> list[str]:
        """Fold events into counts, delete expired data, purge history; return the queues left when time ran out.

        Also correct the stored shape of each queue.
        """
        # Events that are not folded in time are counted all the same, only more slowly.
        active = self._counters.fold_some(_FOLD_SECONDS)
        self._recover()  # must run before the ids of deleted jobs are forgotten
        for forget in self._forget:
            forget()
        queues, budget, now = self._queues.queues(), Budget(seconds), self._removal.now()
        old = self._purges.with_old(queues, now)
        behind = purge_each(
            lambda queue: self._purges.purge(queue, limit=_PURGE_JOBS_MAX), old, _PURGE_JOBS_MAX, budget
        )
        behind += self._purges.trim_each(queues, budget)
        self._shapes.keep_up(queues, active, now)
        self._misfits.bury(queues, now)
        remove_expired(self._removal, self._purges.purge)
        return list(dict.fromkeys(behind))


_SEEN = {"version": 1, "once": 1, **dict.fromkeys(("events.id", "events.queue", "events.what", "events.number"), 1)}


def _ended_by(now: int, age: float) -> Document:
    """Return the filter for jobs that finished longer ago than this many seconds."""
    return {**FINISHED, "finished_at": up_to(now - int(age * SECOND))}


def _ended_between(after: int, before: int) -> Document:
    """Return the filter for jobs that finished within these times."""
    return {**FINISHED, "finished_at": {**up_to(before), "$gte": after}}


def _is_plain(job: Document, queue: str, now: int) -> bool:
    """Return True if a job may be deleted with its events: all are of this queue, and it is not stored again."""
    return all(event["queue"] == queue for event in job.get("events", ())) and not is_wanted_once(job, now)


def _delete(on: Place, jobs: Sequence[Document], such: Document) -> int:
    """Delete jobs that are unchanged since they were read; return their number."""
    versions: defaultdict[int, list[str]] = defaultdict(list)
    for job in jobs:
        versions[job["version"]].append(job["_id"])
    wanted = ({**such, "_id": {"$in": ids}, "version": version} for version, ids in versions.items())
    return sum(on.jobs.delete_many(one).deleted_count for one in wanted)


def _restore(on: Place, documents: Sequence[Document]) -> set[str]:
    """Store jobs whose id alone remained; return the ids of the jobs whose key a live job has."""
    updates = [
        UpdateOne(
            {"_id": one["_id"], "gone": True},
            {
                "$set": {name: value for name, value in one.items() if name not in ("_id", "version")},
                "$unset": dict.fromkeys(FIELDS.difference(one), ""),
                "$inc": {"version": 1},
            },
        )
        for one in documents
    ]
    try:
        if updates:
            on.jobs.bulk_write(updates, ordered=False)
    except BulkWriteError as error:
        return {documents[index]["_id"] for index in duplicates(error)}
    return set()


def _adopted(row: JobRow, history_ttl: float, stamp: ObjectId) -> Document:
    """Return the document of an adopted job; its reservation in the other store does not count."""
    document = {**document_of(row), "version": 0, "stamp": stamp}
    if row.finished_at is not None and not entailing(row):
        document["expires_at"] = expiry(row.finished_at, history_ttl)
    return document

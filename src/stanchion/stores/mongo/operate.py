"""Jobs adopted and deleted, and upkeep.

A purge deletes finished jobs from history once what happened to them is counted. A portion takes these steps, one
command each:

    (1) the counts of the queue are read
    (2) the next jobs are, with their events
    (3) the counts change, and list the events that they now hold, in one update
    (4) the jobs are deleted that are still as they were seen
    (5) the list is removed

After a death past (3) the next fold removes the listed events from the jobs that are left, and the next purge deletes
these. Where all events were counted before there is no (3) and (5). A job that went through several queues, or one that
might be stored again, leaves by more steps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from bson import ObjectId

from stanchion.stores.cas.entries import FollowUp, entry_of
from stanchion.stores.cas.jobs import Change
from stanchion.stores.mongo.client.documents import (
    COUNTED,
    FINISHED,
    FREE,
    KEPT,
    Document,
    document_of,
    entailing,
    expiry,
    is_wanted_once,
    unwanted,
    up_to,
    wanted_once,
)
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.client.queues import QueueDocuments
from stanchion.stores.mongo.client.server import Access
from stanchion.stores.mongo.jobs import Jobs
from stanchion.stores.mongo.queues import Counters, Folded, QueueRemoval, Queues, begin_fold, end_fold, to_fold
from stanchion.stores.mongo.wakeup import Announcer
from stanchion.stores.records.jobs import SECOND, JobRow, JobState
from stanchion.stores.rules.expiry import remove_expired
from stanchion.stores.rules.slots import gated
from stanchion.stores.rules.upkeep import Budget, purge_each

_GONE_AT_ONCE = 500
_PURGED_AT_ONCE = 500
_PURGED_IN_TURN = 1000
_FOLD_SECONDS = 5.0


class Adoption:
    """Stores jobs of another store."""

    def __init__(self, server: Access, queues: QueueDocuments, signals: Announcer) -> None:
        self._server, self._queues, self._signals = server, queues, signals

    def adopt(self, rows: Sequence[JobRow]) -> list[bool]:
        """Store jobs of another store as they were; False for each whose key a live job has. Nothing is counted."""
        if not rows:
            return []
        queues = {row.queue for row in rows}
        self._queues.make(queues)
        settings, stamp = self._queues.settings_of(queues), ObjectId()
        documents = [
            _adopted(row, settings[row.queue].history_ttl, stamp) for row in {row.id: row for row in rows}.values()
        ]

        def work(on: Place, _again: bool) -> set[str]:
            refused = [documents[index]["_id"] for index in on.insert(on.jobs, documents)]
            there = on.jobs.find({"_id": {"$in": refused}}, {"_id": 1}) if refused else ()
            return set(refused) - {one["_id"] for one in there}

        refused = self._server.call(work)
        self._signals.announce(queues)
        return [row.id not in refused for row in rows]


class Deletion:
    """Deletes jobs with their events counted and their outbox entries applied."""

    def __init__(self, server: Access, jobs: Jobs, counters: Counters, follow_up: FollowUp) -> None:
        self._server, self._jobs = server, jobs
        self._counters, self._follow_up = counters, follow_up

    def discard(self, ends: Sequence[tuple[str, int]]) -> int:
        """Delete finished jobs, by id and `finished_at`, unless they were re-driven since; return how many."""
        wanted = sorted(set(ends))
        as_seen = {"$or": [{"_id": job_id, "finished_at": end} for job_id, end in wanted]}
        return self.forget([job_id for job_id, _ in wanted], as_seen) if wanted else 0

    def take(self, ids: Sequence[str]) -> list[str]:
        """Delete queued and finished jobs, not running ones; return the ids of those deleted. Nothing is counted."""
        idle: Document = {"state": {"$ne": JobState.RUNNING.value}, **KEPT}
        wanted = {"_id": {"$in": list(dict.fromkeys(ids))}}
        before = self._jobs.some({**wanted, **idle}, len(ids))
        if before:
            self._detach(before)
            self.forget(before, {"$or": [idle, {"gone": True}]})
        left = set(self._jobs.some(wanted, len(ids)))
        return [one for one in before if one not in left]

    def _detach(self, ids: Sequence[str]) -> None:
        """Delete those of the jobs that use slots, and free these; then apply all their outbox entries."""
        now, seen = self._jobs.read(ids)
        held = [
            one
            for one in seen.values()
            if gated(one.row) and one.row.finished_at is None and one.row.state != JobState.RUNNING
        ]
        # As members of a flow they have not ended: they go on elsewhere.
        rows = [one.row._replace(flow=None) for one in held]
        entries = [entry_of(row, None, None, None, now) for row in rows]
        changes = [Change(one, one.row, None, entry) for one, entry in zip(held, entries, strict=True)]
        self._jobs.delete_live(changes, now)
        self._follow_up(self._jobs.entries_of(ids))

    def forget(self, ids: Sequence[str], also: Document) -> int:
        """Delete those of the jobs that are `also` so, once their events are counted; return how many that were.

        Those that have outbox entries stay.
        """
        wanted = {"_id": {"$in": list(ids)}}
        self._counters.fold(self._server.call(lambda on, _again: on.jobs.distinct("events.queue", wanted)), wanted)
        gone = {**wanted, **also, **COUNTED, **FREE}

        def work(on: Place, again: bool) -> int:
            deleted = on.jobs.delete_many(gone).deleted_count
            return len(ids) - on.jobs.count_documents(wanted) if again else deleted

        return self._server.call(work)

    def forget_gone(self) -> None:
        """Delete what is left of jobs that are gone, unless their ids are still wanted."""
        while gone := self._jobs.some({"gone": True, **FREE, **unwanted(self._server.now())}, _GONE_AT_ONCE):
            if not self.forget(gone, {"gone": True}):
                break


class Purges:
    """Deletes what history keeps no longer."""

    def __init__(self, server: Access, queues: QueueDocuments, counters: Counters, deletion: Deletion) -> None:
        self._server, self._queues = server, queues
        self._counters, self._deletion = counters, deletion

    def purge(self, queue: str, older_than: float | None = None, limit: int = 500) -> int:
        """Delete up to `limit` finished jobs that ended over `older_than` seconds ago (None: the queue's ttl)."""
        age = self._queues.settings_of([queue])[queue].history_ttl if older_than is None else older_than
        now = self._server.now()
        ended: Document = {**FINISHED, "finished_at": up_to(now - int(age * SECOND))}
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
            jobs = list(
                on.jobs.find(
                    {**such, **({"_id": {"$nin": others}} if others else {})}, _SEEN, batch_size=most + 1
                ).limit(most)
            )
            plain = [job for job in jobs if _is_plain(job, queue, now)]
            told = [job for job in plain if job.get("events")]
            folding = begin_fold(on, found, told) if told else None
            if told and folding is None:
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
        # Asked again as they are deleted: one of them may have been retried meanwhile.
        return deleted + (self._hide(others, ended, now) + self._deletion.forget(others, ended) if others else 0)

    def _hide(self, ids: Sequence[str], ended: Document, now: int) -> int:
        """Leave no more than their ids of those jobs that might be stored again; return how many they were."""
        such = {"_id": {"$in": list(ids)}, **ended, **FREE, **wanted_once(now)}
        content = dict.fromkeys(("payload", "headers", "errors", "result"), "")
        hidden = {"$set": {"gone": True}, "$unset": content, "$inc": {"version": 1}}
        return self._server.call(lambda on, _again: on.jobs.update_many(such, hidden).matched_count)


class Upkeep:
    """Keeps the database small and quick."""

    def __init__(
        self,
        queues: Queues,
        counters: Counters,
        purges: Purges,
        removal: QueueRemoval,
        recover: Callable[[], None],
        forget: Iterable[Callable[[], object]],
    ) -> None:
        """`recover` is outbox recovery; `forget` deletes what is no longer wanted, each of one kind."""
        self._queues, self._counters, self._purges, self._removal = queues, counters, purges, removal
        self._recover, self._forget = recover, tuple(forget)

    def maintain(self, seconds: float) -> list[str]:
        """Fold events into counts, forget and purge what is kept no longer; return the queues that time left behind."""
        # What there is no time for is counted all the same, only not as quickly.
        self._counters.fold_some(_FOLD_SECONDS)
        self._recover()  # what is done late is known by what is left of jobs: it must not be forgotten before
        for forget in self._forget:
            forget()
        names = [settings.name for settings in self._queues.queues()]
        budget = Budget(seconds)
        behind = purge_each(
            lambda queue: self._purges.purge(queue, limit=_PURGED_IN_TURN), names, _PURGED_IN_TURN, budget
        )
        remove_expired(self._removal)
        return behind


_SEEN = {"version": 1, "once": 1, "events.id": 1, "events.queue": 1, "events.what": 1}


def _is_plain(job: Document, queue: str, now: int) -> bool:
    """Tell whether a job may be deleted with its events: they are of this queue, and it is not stored again."""
    return all(event["queue"] == queue for event in job.get("events", ())) and not is_wanted_once(job, now)


def _delete(on: Place, jobs: Sequence[Document], such: Document) -> int:
    """Delete jobs that have not changed since they were seen; return how many."""
    versions: defaultdict[int, list[str]] = defaultdict(list)
    for job in jobs:
        versions[job["version"]].append(job["_id"])
    wanted = ({**such, "_id": {"$in": ids}, "version": version} for version, ids in versions.items())
    return sum(on.jobs.delete_many(one).deleted_count for one in wanted)


def _adopted(row: JobRow, history_ttl: float, stamp: ObjectId) -> Document:
    """Return the document of a job of another store; no reservation of there holds here."""
    document = {**document_of(row), "version": 0, "stamp": stamp}
    if row.finished_at is not None and not entailing(row):
        document["expires_at"] = expiry(row.finished_at, history_ttl)
    return document

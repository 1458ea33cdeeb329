"""Push: new jobs as documents.

Steps of a push, one command each: (1) make the documents of queues that this process hasn't seen yet, (2) store the
jobs. After a death in between, all stored jobs are complete, and a repeat of the push, with the same ids, adds the
others.

Taken keys are found before anything is stored. If another process takes a key in between, a push that asks for
DuplicateKey deletes the jobs it has just stored, except those already claimed.

A job with `key_ttl` is stored as due half a minute later; (3) history is searched once more, and the job is deleted if
its key was taken and finished with since, or (4) made due. After a death in between it is late by that half minute.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from bson import ObjectId

from stanchion.errors import DuplicateKey
from stanchion.stores.cas.entries import FollowUp
from stanchion.stores.cas.jobs import Seen
from stanchion.stores.cas.push import Stored, replace_work
from stanchion.stores.mongo.client.documents import (
    KEPT,
    Document,
    document_of,
    event,
    expiry,
    refuse_large,
    remainder,
    row_of,
    seen_in,
)
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.client.queues import QueueDocuments
from stanchion.stores.mongo.client.server import Access
from stanchion.stores.mongo.jobs import Jobs
from stanchion.stores.mongo.wakeup import Announcer
from stanchion.stores.records import calls
from stanchion.stores.records.jobs import SECOND, JobRow, JobState, NewJob, Pushed
from stanchion.stores.rules.lifecycle.jobs import created, key_held_since, refuse_duplicates

_INSERTED_AT_ONCE = 1000
_OF_STEPS = ("version", "events", "once")
_FINISHED_AT = attrgetter("finished_at")

Holders = dict[tuple[str, str | None], str]
"""The live job that has a key, by queue and key."""


class Push:
    """Stores new jobs."""

    def __init__(
        self, server: Access, jobs: Jobs, queues: QueueDocuments, signals: Announcer, follow_up: FollowUp
    ) -> None:
        self._server, self._jobs, self._queues = server, jobs, queues
        self._signals, self._follow_up = signals, follow_up
        self._held_keys = HeldKeys(server)

    def push(self, jobs: Sequence[NewJob]) -> list[Pushed]:
        """Store jobs, in order; raise DuplicateKey for a job that asks for it, and then store no job of the batch."""
        return self._push(jobs, {}).pushed

    def push_new(self, jobs: Sequence[NewJob]) -> Stored:
        """Store jobs as `push` does, and say which of them are new."""
        return self._push(jobs, {})

    def push_once(self, batches: Iterable[tuple[str, Sequence[NewJob]]]) -> None:
        """Store the jobs of outbox entries and publications; a job stored within the hour is not stored again."""
        jobs = [job for _, batch in batches for job in batch]
        for start in range(0, len(jobs), _INSERTED_AT_ONCE):
            # Detected by id, even of a deleted job: a document with this field keeps its id for an hour.
            self._push(jobs[start : start + _INSERTED_AT_ONCE], {"once": self._server.now()})

    def refuse_duplicates(self, jobs: Sequence[NewJob]) -> None:
        """Raise DuplicateKey for a job that asks for it."""
        self._there(jobs)

    def _push(self, jobs: Sequence[NewJob], extra: Document) -> Stored:
        """Store jobs, with additional fields in their documents."""
        if not jobs:
            return Stored([], set())
        self._queues.make_for(jobs)
        now = self._server.now()
        rows = {job.id: created(job, now) for job in reversed(jobs)}
        for row in rows.values():
            refuse_large(row)
        results, holders = self._there(jobs)
        results |= self._held_keys.find(
            (job for job in jobs if job.id not in results and _place(job) not in holders), now
        )
        fresh = self._insert(
            [
                deferred(rows[job.id], job)
                for job in _first(jobs)
                if job.id not in results and _place(job) not in holders
            ],
            extra,
        )
        try:
            # Jobs that ask for DuplicateKey come first, while little needs to be undone.
            for job in sorted(jobs, key=lambda job: job.on_duplicate != "raise"):
                if job.id not in results:
                    row = rows[job.id]
                    results[job.id] = _answer(row) if job.id in fresh else self._meet(job, row, fresh, extra)
            self._look_again([job for job in jobs if job.key_ttl is not None and job.id in fresh], rows, results)
        except DuplicateKey:
            self._take_back(fresh)
            raise
        self._signals.announce({job.queue for job in jobs})
        return Stored([results[job.id] for job in jobs], fresh)

    def _there(self, jobs: Sequence[NewJob]) -> tuple[dict[str, Pushed], Holders]:
        """Return the jobs that are stored already, and the holders of their keys.

        Raises DuplicateKey for a job that asks for it.
        """
        keyed = [job for job in jobs if job.key is not None]
        if not keyed and not self._server.in_transaction:
            return {}, {}  # the insertion finds them
        keys: dict[str, list[str | None]] = {}
        for job in keyed:
            keys.setdefault(job.queue, []).append(job.key)
        places = [{"queue": queue, "unique": {"$in": names}} for queue, names in keys.items()]
        wanted = {"$or": [{"_id": {"$in": [job.id for job in jobs]}}, *places]}
        fields = {"run_at": 1, "enqueued_at": 1, "queue": 1, "unique": 1}
        found = self._server.call(lambda on, _again: list(on.jobs.find(wanted, fields, session=on.session)))
        ids = {job.id for job in jobs}
        stored = {
            one["_id"]: Pushed(one["_id"], one["run_at"], one["enqueued_at"]) for one in found if one["_id"] in ids
        }
        holders: Holders = {(one["queue"], one["unique"]): one["_id"] for one in found if "unique" in one}
        refuse_duplicates([job for job in keyed if job.id not in stored], holders)
        return stored, holders

    def _insert(self, rows: Sequence[JobRow], extra: Document) -> set[str]:
        """Store the jobs whose id and key are free; return their ids."""
        step = ObjectId()
        documents = [
            {**document_of(row), **extra, "version": 0, "events": [event(step, row.queue, "pushed", row.items or 1)]}
            for row in rows
        ]
        if not {None}.issuperset(map(_FINISHED_AT, rows)):
            documents = self._with_ends(rows, documents)

        def work(on: Place, _again: bool) -> set[str]:
            there = on.insert(on.jobs, documents)
            return {row.id for index, row in enumerate(rows) if index not in there}

        return self._server.call(work, calls.seconds_for(len(rows))) if rows else set()

    def _with_ends(self, rows: Sequence[JobRow], documents: Sequence[Document]) -> list[Document]:
        """Return the documents of new jobs of which some have finished; see `NewJob.dead_from`."""
        settings = self._queues.settings_of({row.queue for row in rows})
        stored: list[Document] = []
        for row, document in zip(rows, documents, strict=True):
            ttl = settings[row.queue].history_ttl
            if row.finished_at is None:
                stored.append(document)
            elif ttl:
                stored.append({**document, "expires_at": expiry(row.finished_at, ttl)})
            else:
                stored.append(
                    {**{name: document[name] for name in _OF_STEPS if name in document}, **remainder(document)}
                )
        return stored

    def _meet(self, job: NewJob, row: JobRow, fresh: set[str], extra: Document) -> Pushed:
        """Return the push result of a job whose id or key is present."""
        while True:
            wanted = (
                {"$or": [{"_id": job.id}, {"queue": job.queue, "unique": job.key}]}
                if job.key is not None
                else {"_id": job.id}
            )
            documents = self._server.call(lambda on, _again: list(on.jobs.find(wanted, session=on.session)))  # noqa: B023
            found = {one["_id"]: one for one in documents}
            if job.id in found:
                return _answer(row_of(found[job.id]))
            for one in documents:
                if (met := self._meet_holder(job, seen_in(one, row.enqueued_at), row.enqueued_at)) is not None:
                    return met
            if not documents:  # the holder has just finished
                if held := self._held_keys.find([job], row.enqueued_at):
                    return held[job.id]
                if self._insert([deferred(row, job)], extra):
                    fresh.add(row.id)
                    return _answer(row)

    def _look_again(self, new: Sequence[NewJob], rows: Mapping[str, JobRow], results: dict[str, Pushed]) -> None:
        """Remove deferred jobs whose keys others have taken and finished with since the first check, or make them
        due.
        """
        late = self._held_keys.find(new, self._server.now()) if new else {}
        for job in new:
            if job.id in late and self._take_back({job.id}):
                results[job.id] = late[job.id]
            else:
                self._held_keys.make_due(rows[job.id])

    def _meet_holder(self, job: NewJob, holder: Seen, now: int) -> Pushed | None:
        """Apply a new job to the job that has its key; None if that has changed meanwhile."""
        if job.on_duplicate == "raise":
            raise DuplicateKey(job.queue, job.key or "", holder.row.id)
        replacing = job.on_duplicate == "replace"
        row = replace_work(self._jobs, self._follow_up, holder, job, now) if replacing else holder.row
        return None if row is None else _answer(row)._replace(duplicate=True)

    def _take_back(self, fresh: set[str]) -> bool:
        """Delete jobs that are unchanged since they were stored; return whether any was."""
        untouched = {"_id": {"$in": list(fresh)}, "version": 0}
        if not fresh:
            return False
        deleted = self._server.call(lambda on, _again: on.jobs.delete_many(untouched, session=on.session))
        return bool(deleted.deleted_count)


def _place(job: NewJob) -> tuple[str, str | None]:
    """Return the entry of a job in the key index; a job without a key has a unique one."""
    return job.queue, job.key


def _first(jobs: Sequence[NewJob]) -> Iterable[NewJob]:
    """Return the jobs to insert together: of several jobs with one id or key, the first."""
    firsts: dict[object, NewJob] = {}
    for job in jobs:
        firsts.setdefault(_place(job) if job.key is not None else job.id, job)
    return {job.id: job for job in firsts.values()}.values()


def _answer(row: JobRow) -> Pushed:
    return Pushed(row.id, row.run_at, row.enqueued_at)


_DEFERRED_MICROS = 30 * SECOND
"""Microseconds within which a push checks history once more."""


def deferred(row: JobRow, job: NewJob) -> JobRow:
    """Return the row of a new job as it is stored at first: one with `key_ttl` can't be claimed yet."""
    later = row.enqueued_at + _DEFERRED_MICROS
    return row if job.key_ttl is None else row._replace(run_at=max(row.run_at, later))


class HeldKeys:
    """Finds the finished jobs that hold the keys of new ones."""

    def __init__(self, server: Access) -> None:
        self._server = server

    def find(self, jobs: Iterable[NewJob], now: int) -> dict[str, Pushed]:
        """Return the answers for jobs whose keys are held by finished jobs. Raises DuplicateKey."""
        answers: dict[str, Pushed] = {}
        for job in jobs:
            if job.key_ttl is None or (found := self._holder(job, now)) is None:
                continue
            if job.on_duplicate == "raise":
                raise DuplicateKey(job.queue, job.key or "", found["_id"], finished=True)
            answers[job.id] = Pushed(found["_id"], found["run_at"], found["enqueued_at"], duplicate=True)
        return answers

    def make_due(self, row: JobRow) -> None:
        """Give a job that was deferred its own time."""
        unchanged = {"_id": row.id, "version": 0}
        change = {"$set": {"run_at": row.run_at}, "$inc": {"version": 1}}
        self._server.call(lambda on, _again: on.jobs.update_one(unchanged, change, session=on.session))

    def _holder(self, job: NewJob, now: int) -> Document | None:
        wanted: Document = {
            "queue": job.queue,
            "key": job.key,
            "finished_at": {"$gt": key_held_since(job, now)},
            "state": {"$ne": JobState.CANCELLED.value},
            "_id": {"$ne": job.id},
            **KEPT,
        }
        fields = {"run_at": 1, "enqueued_at": 1}

        def work(on: Place, _again: bool) -> Document | None:
            found: Document | None = on.jobs.find_one(wanted, fields, sort=[("finished_at", -1)], session=on.session)
            return found

        return self._server.call(work)

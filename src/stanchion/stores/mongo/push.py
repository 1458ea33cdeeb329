"""Push: new jobs as documents.

Steps of a push, one command each: (1) the documents of queues that this process hasn't seen yet, (2) the jobs. After
a death within them, the jobs that are there are whole jobs, and a repeat of the push, under the same ids, adds the
rest.

A key that is taken is found before anything is stored. If another process takes one in between, a push that asks for
DuplicateKey takes back what it has just stored, but for what somebody has claimed by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from bson import ObjectId

from stanchion.errors import DuplicateKey
from stanchion.stores.cas.entries import FollowUp, entry_of
from stanchion.stores.cas.jobs import Change, Result, Seen
from stanchion.stores.mongo.client.documents import Document, document_of, event, refuse_large, row_of, seen_in
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.client.queues import QueueDocuments
from stanchion.stores.mongo.client.server import Access
from stanchion.stores.mongo.jobs import Jobs
from stanchion.stores.mongo.wakeup import Announcer
from stanchion.stores.records.jobs import JobRow, NewJob, Pushed
from stanchion.stores.rules.jobs import created, replaced

_INSERTED_AT_ONCE = 1000

Holders = dict[tuple[str, str | None], str]
"""Which live job has a key, by queue and key."""


class Push:
    """Stores new jobs."""

    def __init__(
        self, server: Access, jobs: Jobs, queues: QueueDocuments, signals: Announcer, follow_up: FollowUp
    ) -> None:
        self._server, self._jobs, self._queues = server, jobs, queues
        self._signals, self._follow_up = signals, follow_up

    def push(self, jobs: Sequence[NewJob]) -> list[Pushed]:
        """Store jobs, in order; raise DuplicateKey for a job that asks for it, and store none of the batch then."""
        return self._push(jobs, {})

    def push_once(self, batches: Iterable[tuple[str, Sequence[NewJob]]]) -> None:
        """Store the jobs of outbox entries and publications; a job stored within the hour is not stored again."""
        jobs = [job for _, batch in batches for job in batch]
        for start in range(0, len(jobs), _INSERTED_AT_ONCE):
            # The ids tell, also when the job is gone: what is marked so keeps its id for an hour.
            self._push(jobs[start : start + _INSERTED_AT_ONCE], {"once": self._server.now()})

    def refuse_duplicates(self, jobs: Sequence[NewJob]) -> None:
        """Raise DuplicateKey for a job that asks for it."""
        self._there(jobs)

    def _push(self, jobs: Sequence[NewJob], marks: Document) -> list[Pushed]:
        """Store jobs, with these fields in their documents."""
        if not jobs:
            return []
        self._queues.make({job.queue for job in jobs})
        now = self._server.now()
        rows = {job.id: created(job, now) for job in reversed(jobs)}
        for row in rows.values():
            refuse_large(row)
        results, holders = self._there(jobs)
        fresh = self._insert(
            [rows[job.id] for job in _first(jobs) if job.id not in results and _place(job) not in holders], marks
        )
        try:
            # Who asks to be told is served first: so little has happened yet.
            for job in sorted(jobs, key=lambda job: job.on_duplicate != "raise"):
                if job.id not in results:
                    row = rows[job.id]
                    results[job.id] = _answer(row) if job.id in fresh else self._meet(job, row, fresh, marks)
        except DuplicateKey:
            self._take_back(fresh)
            raise
        self._signals.announce({job.queue for job in jobs})
        return [results[job.id] for job in jobs]

    def _there(self, jobs: Sequence[NewJob]) -> tuple[dict[str, Pushed], Holders]:
        """Return those jobs that are stored already, and who has their keys.

        Raises DuplicateKey for a job that asks for it.
        """
        keyed = [job for job in jobs if job.key is not None]
        if not keyed and not self._server.in_transaction:
            return {}, {}  # the insertion tells
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
        coming = dict(holders)
        for job in keyed:
            if job.id not in stored:
                holder = coming.setdefault((job.queue, job.key), job.id)
                if holder != job.id and job.on_duplicate == "raise":
                    raise DuplicateKey(job.queue, job.key or "", holder)
        return stored, holders

    def _insert(self, rows: Sequence[JobRow], marks: Document) -> set[str]:
        """Store those of the jobs whose id and key are free; return their ids."""
        step = ObjectId()
        documents = [
            {**document_of(row), **marks, "version": 0, "events": [event(step, row.queue, "pushed")]} for row in rows
        ]

        def work(on: Place, _again: bool) -> set[str]:
            there = on.insert(on.jobs, documents)
            return {row.id for index, row in enumerate(rows) if index not in there}

        return self._server.call(work) if rows else set()

    def _meet(self, job: NewJob, row: JobRow, fresh: set[str], marks: Document) -> Pushed:
        """Return what becomes of a job whose id or key is there already."""
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
                if (met := self._meet_holder(job, seen_in(one), row.enqueued_at)) is not None:
                    return met
            if not documents and self._insert([row], marks):  # the holder has just finished
                fresh.add(row.id)
                return _answer(row)

    def _meet_holder(self, job: NewJob, holder: Seen, now: int) -> Pushed | None:
        """Do to the job that has the key what the new one asks for; None when it has changed meanwhile."""
        if job.on_duplicate == "raise":
            raise DuplicateKey(job.queue, job.key or "", holder.row.id)
        renewed = replaced(holder.row, job, now) if job.on_duplicate == "replace" else None
        if renewed is None:
            return _answer(holder.row)._replace(duplicate=True)
        entry = entry_of(holder.row, renewed, None, None, now)
        if self._jobs.compare_and_set([Change(holder, renewed, entry=entry)]).each != [Result.DONE]:
            return None
        self._follow_up([entry] if entry else [])
        return _answer(renewed)._replace(duplicate=True)

    def _take_back(self, fresh: set[str]) -> None:
        """Delete jobs that nobody has touched since they were stored."""
        untouched = {"_id": {"$in": list(fresh)}, "version": 0}
        if fresh:
            self._server.call(lambda on, _again: on.jobs.delete_many(untouched, session=on.session))


def _place(job: NewJob) -> tuple[str, str | None]:
    """Return the place in the index of keys that the job wants; nobody has that of a job without a key."""
    return job.queue, job.key


def _first(jobs: Sequence[NewJob]) -> Iterable[NewJob]:
    """Return what to insert at once: of several jobs with one id or key, the first."""
    firsts: dict[Any, NewJob] = {}
    for job in jobs:
        firsts.setdefault(_place(job) if job.key is not None else job.id, job)
    return {job.id: job for job in firsts.values()}.values()


def _answer(row: JobRow) -> Pushed:
    return Pushed(row.id, row.run_at, row.enqueued_at)

"""Keys that finished jobs still hold, for new jobs with `key_ttl`."""

from __future__ import annotations

from collections.abc import Iterable

from stanchion.errors import DuplicateKey
from stanchion.stores.mongo.client.documents import KEPT, Document
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.client.server import Access
from stanchion.stores.records.jobs import SECOND, JobRow, JobState, NewJob, Pushed
from stanchion.stores.rules.jobs import key_held_since

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

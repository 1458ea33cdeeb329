"""Keys that finished jobs still hold, for new jobs with `key_ttl`.

Such a push checks history before and after the insert, which may have waited for the transaction in which the key's
holder finished.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Protocol

from sqlalchemy import BigInteger, Executable, String, select

from stanchion.errors import DuplicateKey
from stanchion.stores.records.jobs import JobState, NewJob, Pushed
from stanchion.stores.records.outcomes import Tally
from stanchion.stores.rules.lifecycle.jobs import created, items_of, key_held_since
from stanchion.stores.sql.engine.columns import param
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.engine.schema import history, jobs
from stanchion.stores.sql.rows.jobs import Jobs

_KEY_TTL = attrgetter("key_ttl")
_NONE = {None}


class PushesIn(Protocol):
    """Stores jobs in an open transaction."""

    def __call__(self, run: Runner, jobs: Sequence[NewJob], *, again: bool = False) -> list[Pushed]:
        """Store them; `again`: the call is a repeat."""


def any_held(jobs: Iterable[NewJob]) -> bool:
    """Return whether finished jobs may hold the key of one of these."""
    return set(map(_KEY_TTL, jobs)) != _NONE


def _holder(_dialect: Dialect) -> Executable:
    """Return the query for the finished job that holds a key against a job, if no other live job has the key."""
    live = select(jobs.c.id).where(
        jobs.c.queue == param("queue", String),
        jobs.c.key == param("job_key", String),
        jobs.c.id != param("job", jobs.c.id.type),
    )
    return (
        select(history.c.id, history.c.run_at, history.c.enqueued_at)
        .where(
            history.c.queue == param("queue", String),
            history.c.key == param("job_key", String),
            history.c.finished_at > param("since", BigInteger),
            history.c.state != JobState.CANCELLED.value,
            history.c.id != param("job", history.c.id.type),
            ~live.exists(),
        )
        .order_by(history.c.finished_at.desc())
        .limit(1)
    )


class HeldKeys:
    """Finds the finished jobs that hold the keys of new ones."""

    def __init__(self, db: Database, rows: Jobs) -> None:
        self._db, self._rows = db, rows
        self._holder = db.dialect.once(_holder)

    def respected(self, jobs: Sequence[NewJob], push_in: PushesIn) -> PushesIn:
        """Return a way to store these jobs that respects the keys of finished ones."""
        if not any_held(jobs):
            return push_in

        def respectful(run: Runner, jobs: Sequence[NewJob], *, again: bool = False) -> list[Pushed]:
            answers = self._held(run, jobs)
            others = [job for job in jobs if job.id not in answers]
            pushed = push_in(run, others, again=again) if others else []
            stored = dict(zip((job.id for job in others), pushed, strict=True))
            new = [job for job in others if stored[job.id].id == job.id]
            late = self._held(run, new)
            for job in new:
                if job.id in late and self._rows.take_back(run, created(job, 0)):
                    self._rows.count_tallies(run, [Tally(job.queue, "pushed", -items_of(job))])
                    stored[job.id] = late[job.id]
            return [answers.get(job.id) or stored[job.id] for job in jobs]

        return respectful

    def _held(self, run: Runner, jobs: Sequence[NewJob]) -> dict[str, Pushed]:
        """Return the answers for jobs whose keys are held by finished jobs. Raises DuplicateKey."""
        asking = [job for job in jobs if job.key_ttl is not None]
        now = self._db.clock(run) if asking else 0
        answers: dict[str, Pushed] = {}
        for job in asking:
            since = key_held_since(job, now)
            given = {"queue": job.queue, "job_key": job.key, "since": since, "job": job.id}
            for job_id, run_at, enqueued_at in run.rows(self._holder, given):
                if job.on_duplicate == "raise":
                    raise DuplicateKey(job.queue, job.key or "", str(job_id), finished=True)
                answers[job.id] = Pushed(str(job_id), run_at, enqueued_at, duplicate=True)
        return answers

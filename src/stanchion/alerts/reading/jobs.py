"""The reads of jobs: few columns, and up to a bound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from stanchion.alerts.snapshot import DeadJob, LiveJob, Overdue, PutOff, QueueSample, RunningJob
from stanchion.core.ids import first_id_at
from stanchion.stores.fields.jobs import DEATH
from stanchion.stores.letters import Letters
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import QUEUED, SECOND, JobRow, JobState
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.rules.lifecycle.error_entries import put_off_so_far

LIVE_MAX = 5000
"""The oldest live jobs that are counted by band, in stores that have more."""

RUNNING_MAX = 1000
ENDED_MAX = 2000
"""The newest finished jobs that are searched for dead ones."""

PUT_OFF_MAX = 100
ARRIVALS_MAX = 1000
PURGED_MAX = 8
"""Queues whose history is checked, the ones with most jobs so far."""

AN_HOUR = 3600 * SECOND
ARRIVED = 300 * SECOND
_PUT_OFF_FOR = 600 * SECOND
"""The longest delay of a job that is put off."""


class JobReads:
    """The reads of jobs for one snapshot, at the time `now`."""

    def __init__(self, store: Store, now: int, queues: Sequence[QueueSample], letters: Letters) -> None:
        self._store, self._now, self._queues, self._letters = store, now, queues, letters

    def live(self) -> tuple[tuple[LiveJob, ...], bool]:
        """Return the oldest live jobs without dead letters, and whether they are all."""
        columns = (*LiveJob._fields, DEATH[0])
        page = self._store.select(Query("live", order="id", limit=LIVE_MAX, columns=columns))
        jobs = (LiveJob(*row[:-1]) for row in page.rows if row[-1] is None or row[2] == JobState.RUNNING)
        return tuple(job._replace(state=self._seen(job)) for job in jobs), len(page.rows) < LIVE_MAX

    def _seen(self, job: LiveJob) -> str:
        if job.state != QUEUED:
            return job.state
        return JobState.READY if job.run_at <= self._now else JobState.SCHEDULED

    def running(self) -> tuple[RunningJob, ...]:
        """Return the oldest running jobs."""
        where = (Condition("state", "=", JobState.RUNNING.value),)
        query = Query("live", where, order="id", limit=RUNNING_MAX, columns=RunningJob._fields)
        return tuple(RunningJob(*row) for row in self._store.select(query).rows)

    def ended(self) -> list[DeadJob]:
        """Return the jobs that died within the last hour, of the newest finished jobs."""
        query = Query("history", limit=ENDED_MAX, columns=("id", "queue", "priority", "finished_at", "state"))
        rows = self._store.select(query).rows
        found = [DeadJob(*row[:4]) for row in rows if row[4] == JobState.DEAD]
        return [job for job in found if self._now - job.died_at <= AN_HOUR]

    def letters(self) -> list[DeadJob]:
        """Return the dead letters that died within the last hour, of the newest."""
        recent = (one for one in self._letters.found if self._now - one.died_at <= AN_HOUR)
        return [DeadJob(one.id, one.queue, one.priority, one.died_at) for one in recent]

    def put_off(self, live: Sequence[LiveJob]) -> tuple[PutOff, ...]:
        """Return the oldest live jobs that workers have put off, as they don't know their work."""
        soon = self._now, self._now + _PUT_OFF_FOR
        ids = [job.id for job in live if job.state == JobState.SCHEDULED and soon[0] < job.run_at <= soon[1]]
        if not ids:
            return ()
        where = (Condition("id", "in", tuple(ids[:PUT_OFF_MAX])),)
        query = Query("live", where, order="id", limit=PUT_OFF_MAX, columns=("id", "queue", "task", "errors"))
        found = []
        for job_id, queue, task, errors in self._store.select(query).rows:
            so_far = put_off_so_far(JobRow(job_id, queue, 0, "", 0, 0, 0, 0, "", errors=errors))
            if so_far.since is not None:
                found.append(PutOff(job_id, queue, task or queue, so_far.times, int(so_far.since * SECOND)))
        return tuple(found)

    def arrivals(self) -> dict[str, int]:
        """Return how many jobs came to paused queues in the last five minutes, up to a bound."""
        paused = tuple(one.settings.name for one in self._queues if one.settings.paused and one.stats.states.ready)
        if not paused:
            return {}
        where = Condition("queue", "in", paused), Condition("id", ">=", first_id_at(self._now - ARRIVED))
        rows = self._store.select(Query("live", where, limit=ARRIVALS_MAX, columns=("queue", "enqueued_at"))).rows
        return dict(Counter(queue for queue, at in rows if self._now - at <= ARRIVED))

    def overdue(self) -> tuple[Overdue, ...]:
        """Return the oldest finished jobs that should be deleted by now, of the queues with most jobs so far."""
        busiest = sorted(self._queues, key=lambda one: -sum(one.stats.totals))[:PURGED_MAX]
        found = []
        for name, ttl in ((one.settings.name, one.settings.history_ttl) for one in busiest):
            where = Condition("queue", "=", name), Condition("finished_at", "<", self._now - int(ttl * SECOND))
            query = Query("history", where, order="finished", limit=1, columns=("finished_at",))
            found += [Overdue(name, finished_at, ttl) for (finished_at, *_) in self._store.select(query).rows]
        return tuple(found)

"""Workers: heartbeats, and recovery of the jobs of dead workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from stanchion.stores.memory.flows import Flows
from stanchion.stores.memory.jobs import Jobs
from stanchion.stores.memory.slots import Slots
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.workers import Beat, WorkerRow
from stanchion.stores.rules import set_back
from stanchion.stores.rules.leases.liveness import Leased, alive, beat_of, holders_of, is_lost
from stanchion.stores.rules.leases.lost_leases import LostLeaseDelay, default_delay, had_begun
from stanchion.stores.rules.lifecycle import outcomes as outcome_rules


class Workers:
    """Records workers, and takes jobs back from holders that are gone."""

    def __init__(self, jobs: Jobs, flows: Flows, slots: Slots) -> None:
        self.lost_lease_delay: LostLeaseDelay = default_delay
        self._jobs, self._flows, self._slots = jobs, flows, slots
        self._workers: dict[str, WorkerRow] = {}

    def beat(self, workers: Sequence[WorkerRow]) -> Beat:
        """Record that these workers are alive; return the number of live workers, and the callers' jobs to cancel."""
        now, mine = self._jobs.now(), {worker.id for worker in workers}
        for worker in workers:
            known = self._workers.get(worker.id)
            self._workers[worker.id] = replace(worker, started_at=known.started_at if known else now, last_seen_at=now)
        cancelled = [row.id for row in self._held() if row.worker in mine and row.cancel_requested]
        return beat_of(workers, self._workers.values(), cancelled, now)

    def leave(self, worker: str) -> None:
        """Forget a worker that holds no jobs any more."""
        self._workers.pop(worker, None)

    def workers(self, *, holders: bool = False) -> list[WorkerRow]:
        """Return all known workers, late ones included, with their numbers of running jobs; then holders of leases."""
        running = Counter(row.worker for row in self._held())
        rows = sorted(self._workers.values(), key=lambda worker: (worker.started_at, worker.id))
        found = [replace(worker, running=running[worker.id]) for worker in rows]
        return found + holders_of(self._leased()) if holders else found

    def recover(self, limit: int = 500, as_of: int | None = None) -> list[JobRow]:
        """Return jobs with an expired lease or a dead worker to their queues; if there are none, recount the slots."""
        now = self._jobs.now()
        at = now if as_of is None else as_of
        self._workers |= {worker.id: worker for worker in set_back.seen_now(self._workers.values(), now)}
        for row in list(self._jobs.running()):
            if (started := set_back.started_now(row, now)) is not None:
                self._jobs.put(started)
        lost = [row for row in self._jobs.running() if is_lost(row, self._workers, at)][:limit]
        if not lost:
            self._slots.recount()
        return [self.take_back(row, now) for row in lost]

    def take_back(self, row: JobRow, now: int) -> JobRow:
        """Take a job from a holder that is gone; return it as it is now."""
        begun = had_begun(row, self._workers.get(row.worker or ""))
        settings = self._jobs.settings(row.queue)
        return self._flows.apply(
            row, outcome_rules.lease_lost(row, settings, now, begun=begun, delay=self.lost_lease_delay)
        )

    def forget(self, now: int) -> None:
        """Forget dead workers without jobs."""
        busy = {row.worker for row in self._held()}
        self._workers = {name: worker for name, worker in self._workers.items() if name in busy or alive(worker, now)}

    def _held(self) -> Iterator[JobRow]:
        """Yield the jobs that workers hold by their heartbeats."""
        return (row for row in self._jobs.running() if row.lease_until is None)

    def _leased(self) -> Iterator[Leased]:
        """Yield the jobs that are held by leases under a name."""
        for row in self._jobs.running():
            if row.lease_until is not None and row.worker is not None:
                yield Leased(row.worker, row.queue, 1, row.started_at or 0, row.started_at or 0)

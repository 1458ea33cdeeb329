"""The memory store: jobs in, looking and operating, each verb under the one lock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from heapq import nlargest
from typing import Any

from stanchion.errors import DuplicateKey, InvalidInput
from stanchion.stores.memory.discarding import Discarding
from stanchion.stores.memory.jobs import refuse_to_join
from stanchion.stores.memory.query import Scanning
from stanchion.stores.memory.queues import Line
from stanchion.stores.memory.staging import Staging
from stanchion.stores.records.capabilities import Capabilities
from stanchion.stores.records.jobs import QUEUED, SECOND, JobRow, JobState, NewJob, Pushed, Redriven
from stanchion.stores.records.query import Find
from stanchion.stores.records.queues import Counts, QueueSettings, Sizes
from stanchion.stores.rules import jobs as job_rules
from stanchion.stores.rules import outcomes as outcome_rules
from stanchion.stores.rules.liveness import alive
from stanchion.stores.rules.query import matches
from stanchion.stores.rules.upkeep import MAINTAIN_SECONDS

CAPABILITIES = Capabilities(
    name="memory",
    joins_transactions=False,
    push_wakeup=True,
    wakeup="in the process",
    atomic_batches=True,
    durable="until the process ends",
    processes=False,
)


class MemoryStore(Staging, Scanning, Discarding):
    """Jobs in this process, gone with it."""

    capabilities = CAPABILITIES

    # -- life of the store itself

    def setup(self) -> None:
        """Do nothing: there is no schema."""

    def setup_script(self) -> str:
        """Return an empty script."""
        return ""

    def check(self) -> None:
        """Do nothing: the store can always be used."""

    def close(self) -> None:
        """Keep everything, as a later call opens the store anew."""

    def transaction(self) -> AbstractContextManager[Any]:
        """Raise CannotJoin."""
        refuse_to_join()

    # -- queues

    def configure(self, queue: str, changes: Mapping[str, Any], tx: Any = None) -> QueueSettings:
        """Make the queue if need be, apply the changes, return its settings."""
        with self._lock:
            line = self._line(queue)
            declared = {**line.settings.declared, **changes.get("declared", {})}
            line.settings = replace(line.settings, **{**changes, "declared": declared})
            if "expires" in changes:
                line.used = None
            self._wake(queue)
            return line.settings

    def queues(self) -> list[QueueSettings]:
        """Return the settings of all queues, by name."""
        with self._lock:
            return [self._lines[name].settings for name in sorted(self._lines)]

    def drop_queue(self, queue: str) -> int:
        """Delete the queue with its live jobs, history and counts; return the number of live jobs."""
        with self._lock:
            return self._drop(queue)

    def _drop(self, queue: str) -> int:
        line = self._lines.pop(queue, None)
        if line is None:
            return 0
        for job_id in (*line.live, *line.history):
            del self._line_of[job_id]
        for row in line.live.values():
            self._follow(row, None)
        return len(line.live)

    # -- jobs in

    def push(self, jobs: Sequence[NewJob], tx: Any = None) -> list[Pushed]:
        """Store jobs, in order; those with a known id are stored already."""
        if tx is not None:
            refuse_to_join()
        with self._lock:
            self._refuse_duplicates(jobs)
            now = self.now()
            return [self._push(job, now) for job in jobs]

    def _refuse_duplicates(self, jobs: Sequence[NewJob]) -> None:
        coming: dict[tuple[str, str], str] = {}
        for job in jobs:
            if job.key is None or job.id in self._line_of:
                continue
            first = coming.setdefault((job.queue, job.key), job.id)
            holder = self._line_or_empty(job.queue).keys.get(job.key, first)
            if holder != job.id and job.on_duplicate == "raise":
                raise DuplicateKey(job.queue, job.key, holder)

    def _push(self, job: NewJob, now: int) -> Pushed:
        known = self._find(job.id)
        if known is not None:
            return Pushed(known.id, known.run_at, known.enqueued_at)
        line = self._line(job.queue)
        holder = line.keys.get(job.key) if job.key is not None else None
        if holder is None:
            line.counts["pushed"] += 1
            row = job_rules.created(job, now)
            self._put(row)
            return Pushed(row.id, row.run_at, row.enqueued_at)
        row = line.live[holder]
        changed = job_rules.replaced(row, job, now) if job.on_duplicate == "replace" else None
        if changed is not None:
            self._change(row, changed)
            row = changed
        return Pushed(row.id, row.run_at, row.enqueued_at, duplicate=True)

    # -- looking

    def fetch(self, ids: Sequence[str]) -> dict[str, JobRow]:
        """Return those of the jobs that are live or in history."""
        with self._lock:
            return {row.id: row for row in map(self._find, ids) if row is not None}

    def find(self, query: Find) -> list[JobRow]:
        """Search live jobs and history, newest id first."""
        with self._lock:
            now = self.now()
            lines = self._lines.values() if query.queue is None else [self._line_or_empty(query.queue)]
            rows = (row for line in lines for part in (line.live, line.history) for row in part.values())
            found = (row for row in rows if matches(row, query, now))
            return nlargest(query.limit, found, key=lambda row: row.id)

    def sizes(self, queue: str) -> Sizes:
        """Count live jobs by state."""
        with self._lock:
            now = self.now()
            live = self._line_or_empty(queue).live
            states = Counter(job_rules.stored_state_of(row, now).value for row in live.values())
            return Sizes(total=len(live), **states)

    def counts(self, queue: str) -> Counts:
        """Return what happened in the queue so far."""
        with self._lock:
            return Counts(**self._line_or_empty(queue).counts)

    def lane_depths(self, queue: str, lanes: Sequence[int] | None = None, at_most: int | None = 1000) -> dict[int, int]:
        """Count the queued jobs of these lanes (None: of all), each up to `at_most`."""
        with self._lock:
            depths = self._line_or_empty(queue).depths()
            return {
                lane: depth if at_most is None else min(depth, at_most)
                for lane, depth in depths.items()
                if lanes is None or lane in lanes
            }

    def next_due(self, queues: Sequence[str]) -> int | None:
        """Return the earliest `run_at` of a live, unreserved job."""
        with self._lock:
            rows = (row for queue in queues for row in self._line_or_empty(queue).live.values())
            return min((row.run_at for row in rows if row.state == QUEUED), default=None)

    # -- operating

    def cancel(self, ids: Sequence[str]) -> list[JobState | None]:
        """Cancel jobs: live ones at once, a running one is asked to stop; return the states after it."""
        with self._lock:
            now = self.now()
            return [self._cancel(row, now) if row else None for row in map(self._find, ids)]

    def _cancel(self, row: JobRow, now: int) -> JobState:
        if row.finished_at is None:
            step = outcome_rules.cancel(row, now)
            if step is None:
                row = row._replace(cancel_requested=True)
                self._put(row)
            else:
                row = self._apply(row, step)
        return JobState(row.state)

    def retry(self, ids: Sequence[str]) -> list[Redriven]:
        """Make dead, cancelled and scheduled jobs ready now, with all attempts before them, same id."""
        with self._lock:
            now = self.now()
            return [self._retry(row, now) for row in map(self._find, ids)]

    def _retry(self, row: JobRow | None, now: int) -> Redriven:
        if row is None:
            return Redriven.MISSING
        if row.state == JobState.DONE:
            return Redriven.DONE
        if row.state == JobState.RUNNING:
            return Redriven.RUNNING
        again = outcome_rules.retried(row, now)
        if again.key is not None and self._line_or_empty(again.queue).keys.get(again.key, row.id) != row.id:
            return Redriven.KEY_TAKEN
        self._change(row, again)
        return Redriven.READY

    def replay(self, ids: Sequence[str], new_ids: Sequence[str]) -> list[Pushed | None]:
        """Enqueue copies of finished jobs that name their origin; None for each that is not in history."""
        with self._lock:
            now = self.now()
            rows = [self._find(job_id) for job_id in ids]
            return [
                self._push(job_rules.replay(row, new_id), now) if row and row.finished_at else None
                for row, new_id in zip(rows, new_ids, strict=True)
            ]

    def purge(self, queue: str, older_than: float | None = None, limit: int = 500) -> int:
        """Delete up to `limit` finished jobs that ended `older_than` seconds ago (None: the queue's ttl)."""
        with self._lock:
            return self._purge(self._line_or_empty(queue), older_than, limit)

    def _purge(self, line: Line, older_than: float | None, limit: int | None) -> int:
        age = line.settings.history_ttl if older_than is None else older_than
        newest = self.now() - int(age * SECOND)
        old = [row for row in line.history.values() if (row.finished_at or 0) <= newest][:limit]
        for row in old:
            self._remove(row)
        return len(old)

    def maintain(self, seconds: float = MAINTAIN_SECONDS) -> list[str]:
        """Purge what history no longer keeps, remove queues that have expired, forget dead workers with nothing."""
        with self._lock:
            for line in self._lines.values():
                self._purge(line, None, None)
            self._forget_flows()
            self._forget_writes()
            now = self.now()
            for queue in [name for name, line in self._lines.items() if line.outlived(now)]:
                self._drop(queue)
            busy = {row.worker for row in self._running()}
            self._workers = {
                name: worker for name, worker in self._workers.items() if name in busy or alive(worker, now)
            }
            return []

    # -- from store to store

    def adopt(self, rows: Sequence[JobRow]) -> list[bool]:
        """Store jobs of another store as they are there; False for each whose key a live job has."""
        with self._lock:
            return [self._adopt(row) for row in rows]

    def _adopt(self, row: JobRow) -> bool:
        if row.id in self._line_of:
            return True
        line = self._line(row.queue)
        if row.finished_at is not None:
            self._line_of[row.id] = line
            line.history[row.id] = row
        elif row.key is not None and row.key in line.keys:
            return False
        else:
            self._put(row)
        return True

    def take(self, ids: Sequence[str]) -> list[str]:
        """Delete jobs that another store has adopted, unless they run; return the ids of those deleted."""
        with self._lock:
            return [job_id for job_id in dict.fromkeys(ids) if self._take(self._find(job_id))]

    def _take(self, row: JobRow | None) -> bool:
        if row is None or row.state == JobState.RUNNING:
            return False
        self._remove(row)
        self._free_gates(row, None)
        return True


def open_store(url: str) -> MemoryStore:
    """Return an empty store: `memory://`, or `memory://?clock=frozen` for a clock that only a test moves."""
    if url not in _CLOCKS:
        raise InvalidInput(f"{url!r} names no memory store; there are {' and '.join(_CLOCKS)}")
    return MemoryStore(frozen=_CLOCKS[url])


_CLOCKS = {"memory://": False, "memory://?clock=frozen": True}

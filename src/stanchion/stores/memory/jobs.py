"""All jobs in memory: which queue each is in, and who is told when one may be handed out."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from typing import Never

from stanchion.errors import CannotJoin
from stanchion.stores.memory.queues import Line
from stanchion.stores.records.jobs import QUEUED, SECOND, JobRow, JobState
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules import claims as claim_rules
from stanchion.stores.rules.jobs import Transition
from stanchion.stores.rules.lost_leases import LostLeaseDelay, default_delay
from stanchion.stores.wakeup.listeners import EventListener, Listeners


class Rows:
    """The clock, the lock, and the steps that every verb is made of; these expect the lock to be held.

    The clock is steady: steps of the system's clock after the start do not reach it. `frozen`: it stands
    still, and only `skew` moves it.
    """

    def __init__(self, *, frozen: bool = False) -> None:
        self.skew = 0.0
        self.lost_lease_delay: LostLeaseDelay = default_delay
        self._frozen = frozen
        self._started_at = time.time_ns() // 1000
        self._started = time.monotonic_ns()
        self._lock = threading.Lock()
        self._lines: dict[str, Line] = {}
        self._line_of: dict[str, Line] = {}
        self._listeners = Listeners()

    def now(self) -> int:
        """Return the store's clock."""
        elapsed = 0 if self._frozen else (time.monotonic_ns() - self._started) // 1000
        return self._started_at + elapsed + int(self.skew * SECOND)

    # -- wake-up

    def listen(
        self, queues: Iterable[str], *, finished: Iterable[str] | None = None, interchangeable: bool = False
    ) -> EventListener:
        """Start listening for work in these queues, and for ends of jobs."""
        return self._listeners.add(queues, finished, interchangeable=interchangeable)

    def _wake(self, queue: str) -> None:
        self._listeners.wake([queue])

    # -- rows

    def _line(self, queue: str) -> Line:
        if queue not in self._lines:
            self._lines[queue] = Line(QueueSettings(queue))
        return self._lines[queue]

    def _line_or_empty(self, queue: str) -> Line:
        return self._lines.get(queue) or Line(QueueSettings(queue))

    def _settings(self, queue: str) -> QueueSettings:
        return self._line_or_empty(queue).settings

    def _find(self, job_id: str) -> JobRow | None:
        line = self._line_of.get(job_id)
        return None if line is None else line.live.get(job_id) or line.history.get(job_id)

    def _held(self, job_id: str, token: str, now: int) -> JobRow | None:
        row = self._find(job_id)
        return row if claim_rules.holds(row, token, now) else None

    def _apply(self, before: JobRow, step: Transition) -> JobRow:
        self._line(before.queue).counts[step.counted] += 1
        self._change(before, step.row, step.counted)
        return step.row

    def _change(self, before: JobRow, after: JobRow, counted: str | None = None) -> None:
        self._remove(before)
        if after.finished_at is None:
            self._put(after)
        elif self._settings(after.queue).history_ttl > 0:
            line = self._line_of[after.id] = self._line(after.queue)
            line.history[after.id] = after
        if before.finished_at is None and (after.finished_at is not None or counted == "buried"):
            self._listeners.wake((), [after.id])
        if before.state == JobState.RUNNING and self._settings(before.queue).max_running is not None:
            self._wake(before.queue)  # a place is free

    def _put(self, row: JobRow) -> None:
        line = self._line_of[row.id] = self._line(row.queue)
        line.put(row)
        if row.state == QUEUED:
            self._wake(row.queue)

    def _remove(self, row: JobRow) -> None:
        self._line_of.pop(row.id).remove(row)

    def _running(self) -> Iterator[JobRow]:
        return (line.live[job_id] for line in self._lines.values() for job_id in line.running)


def refuse_to_join() -> Never:
    """Raise CannotJoin."""
    raise CannotJoin(
        "the memory store has no transactions to join; leave tx out, or use a store on the database "
        "that holds your transaction"
    )

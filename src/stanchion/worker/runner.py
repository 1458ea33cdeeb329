"""The runners: threads that take claimed jobs from a buffer in memory and run them.

A slot is the right to run one job. A runner has one; it takes it along from job to job, and leaves it with an
async task until that has ended. So at most `threads` jobs run at once, of whatever kind.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from itertools import count
from queue import Empty, SimpleQueue

from stanchion.context.context import Context
from stanchion.context.unknown_work import Unknown
from stanchion.errors import StoreUnavailable
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Abandon
from stanchion.stores.rules.lost_leases import start_of
from stanchion.tasks.execution import Unrunnable, not_begun
from stanchion.worker.attempt import Attempt, Finished, Running, interrupted, raised, returned, timed_out, unharmed
from stanchion.worker.loops import Loops
from stanchion.worker.timeouts import Timeouts

log = logging.getLogger("stanchion.worker")

NEVER = -1


class Runners:
    """The runner threads of one worker, started as they are needed.

    `finish` is handed the end of every job that was added, exactly once. `room` is called when a job has
    ended and no more than `low_water` jobs are left in the buffer. `stuck` is called after an attempt had to
    be given up whose thread can't be stopped.
    """

    def __init__(
        self,
        context: Context,
        threads: int,
        finish: Callable[[Finished], None],
        room: Callable[[], None],
        stuck: Callable[[], None],
    ) -> None:
        self._context, self._most = context, threads
        self._finish, self._room, self._stuck = finish, room, stuck
        self._buffer: SimpleQueue[JobRow | None] = SimpleQueue()
        self._slots: SimpleQueue[int] = SimpleQueue()
        self._numbers = count()
        for _ in range(threads):
            self._slots.put(next(self._numbers))
        self._growing = threading.Lock()
        self._threads = 0
        self.running: Running = {}
        self.timeouts = Timeouts(self.running, self._give_up)
        self.loops = Loops(self.running, self.timeouts, self._ended, self._held_up)
        self.low_water = NEVER
        self._unwanted: set[str] = set()

    @property
    def buffered(self) -> int:
        """Jobs that wait in memory for a runner."""
        return self._buffer.qsize()

    def add(self, rows: Sequence[JobRow], reserved: int) -> None:
        """Take claimed jobs to be run; `reserved` of this worker's have not ended, with these."""
        if self._threads < self._most:
            on_loop = self.loops.active + sum(map(self._context.registry.is_async, rows))
            while self._threads < min(self._most, reserved - on_loop + 1):
                self._start_thread()
        for row in rows:
            self._buffer.put(row)

    def take_back(self, keep: int = 0) -> list[JobRow]:
        """Take the jobs that nobody has begun out of the buffer, but for the first `keep`."""
        rows: list[JobRow] = []
        try:
            while (row := self._buffer.get_nowait()) is not None:
                rows.append(row)
        except Empty:
            pass
        for row in rows[:keep]:
            self._buffer.put(row)
        return rows[keep:]

    def cancel(self, ids: Collection[str]) -> None:
        """Ask these jobs to stop: those that run now, and those in the buffer when their turn comes."""
        unwanted = set(ids)
        for slot, attempt in self.running.copy().items() if ids else ():
            if attempt.job.id in unwanted:
                unwanted.discard(attempt.job.id)
                self._ask_to_stop(slot, attempt)
        self._unwanted = unwanted

    def disown(self) -> None:
        """Give back all jobs that run, unharmed, and ignore how they end."""
        for slot in self.running.copy():
            attempt = self.running.pop(slot, None)
            if attempt is not None:
                self._finish(interrupted(attempt))
                self._ask_to_stop(slot, attempt)

    def stop(self) -> None:
        """End the threads that are idle, and the others when their job ends."""
        self.timeouts.stop()
        for _ in range(self._threads):
            self._slots.put(next(self._numbers))
            self._buffer.put(None)
        self.loops.stop()

    def began(self) -> tuple[str, ...]:
        """Return what runs, as the worker's row lists it."""
        return tuple(start_of(attempt.job.id, attempt.job.token) for attempt in self.running.copy().values())

    def longest(self) -> float:
        """Return the seconds since the oldest of the running attempts began; 0 when nothing runs."""
        began = [attempt.began for attempt in self.running.copy().values()]
        return time.monotonic() - min(began) if began else 0.0

    def _ask_to_stop(self, slot: int, attempt: Attempt) -> None:
        attempt.job.ask_to_stop()
        if attempt.work.is_async:
            self.loops.cancel(slot)

    def _start_thread(self) -> None:
        with self._growing:
            self._threads += 1
        threading.Thread(target=self._work, name="stanchion-runner", daemon=True).start()

    def _work(self) -> None:
        buffer, running, finish = self._buffer, self.running, self._finish
        slot = self._slots.get()
        while (row := buffer.get()) is not None:
            attempt = self._prepared(row)
            if attempt is not None:
                seconds = row.timeout or attempt.work.timeout  # enqueued by name only, a job has none of its own
                if attempt.work.is_async:
                    self._start_async(slot, attempt, seconds)
                    slot = self._slots.get()
                    continue
                finished = self._run(slot, attempt, seconds)
                if running.pop(slot, None) is None:
                    return  # given up meanwhile: another thread has this one's place
                finish(finished)
                del attempt, finished  # an idle runner holds on to nothing
            if buffer.qsize() <= self.low_water:
                self._room()

    def _prepared(self, row: JobRow) -> Attempt | None:
        """Return the attempt at a job, or None when it has ended before it began."""
        try:
            attempt = Attempt(self._context, row)
        except (Unrunnable, Unknown) as reason:
            job, outcome, error = not_begun(self._context, row, reason)
            self._finish((outcome, job, error))
            return None
        except StoreUnavailable as error:
            log.warning("job %s goes back, as what it gets in its flow can't be read: %s", row.id, error)
            self._finish(unharmed(row))
            return None
        if self._unwanted and row.id in self._unwanted:
            self._unwanted.discard(row.id)  # should it be retried, that is another matter
            self._finish((Abandon(row.id, attempt.job.token), attempt.job, None))
            return None
        attempt.limit = None
        attempt.began = time.monotonic()
        return attempt

    def _run(self, slot: int, attempt: Attempt, seconds: float | None) -> Finished:
        """Run a sync attempt in this thread."""
        try:
            if seconds is not None:
                value = self.timeouts.call(attempt, seconds, lambda: self._begin(slot, attempt))
            else:
                self._begin(slot, attempt)
                value = attempt.call()
            return returned(attempt, value)
        except BaseException as error:  # a thread must outlive whatever its tasks raise
            return raised(attempt, error)

    def _start_async(self, slot: int, attempt: Attempt, seconds: float | None) -> None:
        self._begin(slot, attempt)
        loop = self.loops.current()
        if seconds is not None:
            attempt.limit = loop.limit(slot, seconds)
        loop.start(slot, attempt)
        if seconds is not None:
            self.timeouts.watch()

    def _begin(self, slot: int, attempt: Attempt) -> None:
        self.running[slot] = attempt
        if self._context.events.hears("start"):
            self._context.events.fire("start", attempt.job)

    def _ended(self, slot: int, finished: Finished) -> None:
        """Take note that an async attempt has ended; called in the loop's thread."""
        if self.running.pop(slot, None) is None:
            return
        self._finish(finished)
        self._slots.put(slot)
        if self._buffer.qsize() <= self.low_water:
            self._room()

    def _held_up(self, slot: int) -> None:
        """Give back an async attempt that can't go on, and ignore how it ends."""
        attempt = self.running.pop(slot, None)
        if attempt is not None:
            self._finish(interrupted(attempt))
            self._slots.put(next(self._numbers))
            if self._buffer.qsize() <= self.low_water:
                self._room()

    def _give_up(self, slot: int, attempt: Attempt) -> None:
        """Fail an attempt that can't be stopped, and put another thread, or loop, in the place of its own."""
        limit = attempt.limit
        if limit is None or self.running.pop(slot, None) is None:
            return
        log.error(
            "job %s (%s) does not stop after its time-out of %g s; its thread is given up",
            *(attempt.job.id, attempt.job.task, limit.seconds),
        )
        self._finish(timed_out(attempt, limit))
        self._slots.put(next(self._numbers))
        if attempt.work.is_async:
            self.loops.turn_away()
        else:
            with self._growing:
                self._threads -= 1
            self._start_thread()
        self._stuck()

"""The runners: threads that take claimed jobs from a buffer in memory and run them.

A slot is the right to run one job, or one batch. Each runner holds one slot and reuses it for every job; an async task
keeps the slot until it has ended. So at most `threads` jobs or batches run concurrently, sync and async together.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextvars import Context as Variables
from functools import partial
from itertools import count
from queue import Empty, SimpleQueue
from typing import TypeVar

from stanchion.context.context import Context
from stanchion.context.unknown_work import Unknown
from stanchion.errors import StoreUnavailable
from stanchion.jobs.held_job import Passing, hold_passing
from stanchion.jobs.reservation import Reservation
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Abandon
from stanchion.stores.rules.leases.lost_leases import start_of
from stanchion.tasks.execution import not_begun
from stanchion.tasks.function_call import Unrunnable
from stanchion.worker.running.attempt import (
    AnyAttempt,
    Attempt,
    BatchAttempt,
    Ends,
    Finished,
    Running,
    for_the_store,
    not_started,
)
from stanchion.worker.running.default_timeouts import DefaultTimeouts
from stanchion.worker.running.hearers import Hearers
from stanchion.worker.running.hooks import WorkerHooks
from stanchion.worker.running.loop import Loops
from stanchion.worker.running.passing import Passes
from stanchion.worker.running.timeouts import Timeouts

log = logging.getLogger("stanchion.worker")

A = TypeVar("A", bound=AnyAttempt)

NEVER = -1

Held = tuple[JobRow, float]
"""A claimed job, and when its claim was sent, by the boot clock."""


class Runners:
    """The runner threads of one worker, started as needed."""

    def __init__(
        self,
        context: Context,
        threads: int,
        defaults: DefaultTimeouts,
        hearers: Hearers,
        hooks: WorkerHooks | None = None,
    ) -> None:
        self._context, self._most, self.defaults = context, threads, defaults
        self._finish, self._room, self._stuck, self._ends, self._ran, self._holds, self._begins, serves = hearers
        self._passes = Passes(context, serves)
        self._hooks = hooks or WorkerHooks(context.hooks, lambda: None)
        self._buffer: SimpleQueue[Held | list[Held] | None] = SimpleQueue()
        self._slots: SimpleQueue[int] = SimpleQueue()
        self._numbers = count()
        for _ in range(threads):
            self._slots.put(next(self._numbers))
        self._growing, self._adding = threading.Lock(), threading.Lock()
        self._threads = 0
        self.riders = self.ridden = 0
        """Jobs in hand that need no slot: gathered for a batch, or in the slot of a batch's first job. Those that have
        ended."""
        self.running: Running = {}
        self.timeouts = Timeouts(self.running, self._give_up)
        self.loops = Loops(self.running, self.timeouts, self._ended, self._give_back_blocked, self._hooks)
        self.low_water = NEVER
        self._unwanted: set[str] = set()

    def begin(self) -> None:
        """Call the hooks of the process. If one fails, stop, and raise its error."""
        try:
            self._hooks.start_process()
            self.loops.begin()
        except BaseException:
            self.stop()
            raise

    def add(self, rows: Sequence[JobRow], reserved: int, claimed_at: float) -> None:
        """Buffer claimed jobs. `reserved`: this worker's jobs that have not ended, including these. `claimed_at`: when
        their claim was sent, by the boot clock."""
        self._start_threads(rows, reserved)
        for row in rows:
            self._buffer.put((row, claimed_at))

    def gathered(self, jobs: int) -> None:
        """Take in that so many claimed jobs wait for their batches to be full: until then, they need no slot."""
        self._ride(jobs)

    def add_batch(self, batch: list[Held], reserved: int) -> None:
        """Buffer the gathered jobs of a batch, which needs a slot now. `reserved`: the slots taken, with its own."""
        self._ride(-1)
        self._start_threads([batch[0][0]], reserved)
        self._buffer.put(batch)

    def _ride(self, jobs: int) -> None:
        with self._growing:
            self.riders += jobs

    def _start_threads(self, rows: Sequence[JobRow], reserved: int) -> None:
        if self._threads < self._most:
            with self._adding:
                on_loop = self.loops.active + sum(map(self._context.registry.is_async, rows))
                while self._threads < min(self._most, reserved - on_loop + 1):
                    self._start_thread()

    def take_back(self, keep: int = 0) -> list[JobRow]:
        """Remove and return the jobs in the buffer, except for the first `keep` jobs or batches."""
        taken: list[Held | list[Held]] = []
        try:
            while (one := self._buffer.get_nowait()) is not None:
                taken.append(one)
        except Empty:
            pass
        for one in taken[:keep]:
            self._buffer.put(one)
        held = [one if isinstance(one, list) else [one] for one in taken[keep:]]
        self._ride(-sum(len(one) - 1 for one in held))
        return [row for one in held for row, _ in one]

    def wind_up(self) -> Ends:
        """Store items at each station from now on; remove the jobs in the buffer, and return their ends."""
        self._passes.stopping = True
        return [not_started(row) for row in self.take_back()]

    def cancel(self, ids: Collection[str]) -> None:
        """Ask these jobs to stop: running ones now, buffered ones when a runner takes them."""
        unwanted = set(ids)
        for slot, attempt in self.running.copy().items() if ids else ():
            if mine := unwanted.intersection(row.id for row in attempt.rows):
                unwanted -= mine
                self._ask_to_stop(slot, attempt, mine)
        self._unwanted = unwanted

    def disown(self) -> None:
        """Return all running jobs without counting the attempt, and ignore how they end."""
        for slot in self.running.copy():
            attempt = self.running.pop(slot, None)
            if attempt is not None:
                self._end(attempt, attempt.interrupted())
                self._ask_to_stop(slot, attempt, {row.id for row in attempt.rows})
                if not attempt.work.is_async:
                    with self._growing:
                        self._threads -= 1  # it ends by itself

    def wait(self, seconds: float) -> None:
        """Wait for the hooks of the threads and loops that stop, then of the process, each step up to `seconds`."""
        self._hooks.wait_for_threads(self._threads, seconds)
        self.loops.join(seconds)
        self._hooks.stop_process(seconds)

    def stop(self) -> None:
        """Stop idle threads now, the others when their job ends."""
        self.timeouts.stop()
        for _ in range(self._threads):
            self._slots.put(next(self._numbers))
            self._buffer.put(None)
        self.loops.stop()

    def began(self) -> tuple[str, ...]:
        """Return the running jobs as listed in the worker's row."""
        running = self.running.copy().values()
        return tuple(start_of(row.id, row.token or "") for attempt in running for row in attempt.rows)

    def longest(self) -> float:
        """Return the seconds since the oldest running attempt started; 0 if none runs."""
        began = [attempt.began for attempt in self.running.copy().values()]
        return time.monotonic() - min(began) if began else 0.0

    def left(self, unlimited: float) -> float | None:
        """Return the seconds that the running jobs have left at most; None if none runs.

        `unlimited`: the seconds of an attempt without a time-out.
        """
        now = time.monotonic()
        return max(
            (
                (attempt.began + unlimited if (limit := attempt.limit) is None else limit.deadline) - now
                for attempt in self.running.copy().values()
            ),
            default=None,
        )

    def _ask_to_stop(self, slot: int, attempt: AnyAttempt, ids: Collection[str]) -> None:
        if attempt.ask_to_stop(ids) and attempt.work.is_async:
            self.loops.cancel(slot)

    def _start_thread(self) -> None:
        with self._growing:
            self._threads += 1
        threading.Thread(target=self._hooks.within, args=(self._work,), name="stanchion-runner", daemon=True).start()

    def _work(self) -> bool:
        """Run jobs until asked to stop; return False if another thread has taken this one's place."""
        buffer, running = self._buffer, self.running
        slot = self._slots.get()
        while (taken := buffer.get()) is not None:
            attempt = self._made(partial(self._taken, taken))
            while attempt is not None and not attempt.work.is_async:
                ends = attempt.context.run(self._run, slot, attempt)
                if running.pop(slot, None) is None:
                    return False  # abandoned meanwhile
                attempt = self._passed_on(attempt, ends)
                del ends
            if attempt is not None:
                self._start_async(slot, attempt)
                del taken, attempt
                slot = self._slots.get()
                continue
            del taken, attempt  # free them while the runner is idle
            if buffer.qsize() <= self.low_water:
                self._room()
        return True

    def _made(self, make: Callable[[], AnyAttempt | None]) -> AnyAttempt | None:
        """Return an attempt that is ready to run, in context variables of its own."""
        variables = Variables()
        attempt = variables.run(make)
        if attempt is not None:
            attempt.context, attempt.seconds = variables, self._seconds_of(attempt)
            if self._begins is not None:
                self._begins(attempt.seconds)
        return attempt

    def _passed_on(self, attempt: AnyAttempt, ends: Ends) -> AnyAttempt | None:
        """Take in the ends of an attempt; return the next attempt of its item, or None if nothing passes on in memory.

        The ends are stored then.
        """
        if not isinstance(attempt, Attempt) or (way := self._passes.following(attempt, ends[0][0])) is None:
            self._end(attempt, ends)
            del attempt.context  # it has the attempt: a chunk would stay in memory until cycles are collected
            return None
        self._tell(attempt, ends)
        del attempt.context
        row, passing = way
        self.defaults.meet(row.queue)
        return self._made(partial(self._arrived, row, attempt.claimed_at, passing))

    def _arrived(self, row: JobRow, claimed_at: float, passing: Passing) -> Attempt | None:
        """Return the attempt at an item that came in memory, or None if it ended before the attempt started."""
        attempt = self._prepared(row, claimed_at, passing)
        if isinstance(attempt, Attempt):
            return attempt
        hold_passing(job := attempt[1] or Reservation(self._context, row), passing)
        self._finish([for_the_store(job, attempt)])
        return None

    def _taken(self, taken: Held | list[Held]) -> AnyAttempt | None:
        """Return the attempt at a job or at a batch, or None if nothing is left to start."""
        if isinstance(taken, list):
            return self._together(taken)
        attempt = self._prepared(*taken)
        if not isinstance(attempt, Attempt):
            self._finish([attempt])
            return None
        return attempt if attempt.work.batching is None else self._watched(BatchAttempt(self._context, [attempt]))

    def _together(self, batch: list[Held]) -> BatchAttempt | None:
        """Return the attempt at the jobs of a batch that are still to run; the others end."""
        prepared = [self._prepared(*one) for one in batch]
        ended = [one for one in prepared if not isinstance(one, Attempt)]
        self._ride(-min(len(ended), len(batch) - 1))
        self._finish(ended)
        members = [one for one in prepared if isinstance(one, Attempt)]
        return self._watched(BatchAttempt(self._context, members)) if members else None

    def _prepared(self, row: JobRow, claimed_at: float, passing: Passing | None = None) -> Attempt | Finished:
        """Return the attempt at a job, or its end if it must not start."""
        try:
            attempt = Attempt(self._context, row, passing)
        except (Unrunnable, Unknown) as reason:
            job, outcome, error = not_begun(self._context, row, reason)
            return outcome, job, error
        except StoreUnavailable as error:
            log.warning("job %s goes back to its queue, as its flow's values can't be read: %s", row.id, error)
            return not_started(row)
        if self._unwanted and row.id in self._unwanted:
            self._unwanted.discard(row.id)  # a later retry of the job may run
            return Abandon(row.lease), attempt.job, None
        if not self._holds(row if passing is None else passing.first, claimed_at):
            return not_started(row)
        attempt.claimed_at = claimed_at
        return self._watched(attempt)

    def _watched(self, attempt: A) -> A:
        attempt.limit = None
        attempt.wait_for = self.loops.wait_for
        attempt.began = time.monotonic()
        return attempt

    def _seconds_of(self, attempt: AnyAttempt) -> float | None:
        """Return the time-out of an attempt: the longest of a batch; None if a job has none."""
        of_task, of_queue, longest = attempt.work.timeout, self.defaults.of, 0.0
        for row in attempt.rows:
            # A job enqueued by name alone has no time-out.
            if (seconds := row.timeout or of_task or of_queue(row.queue)) is None:
                return None
            longest = max(longest, seconds)
        return longest

    def _run(self, slot: int, attempt: AnyAttempt) -> Ends:
        """Run a sync attempt in this thread."""
        try:
            if attempt.seconds is not None:
                value = self.timeouts.call(attempt, attempt.seconds, lambda: self._begin(slot, attempt))
            else:
                self._begin(slot, attempt)
                value = attempt.call()
            return attempt.returned(value)
        except BaseException as error:  # the thread must survive whatever a task raises
            return attempt.raised(error)

    def _start_async(self, slot: int, attempt: AnyAttempt) -> None:
        attempt.context.run(self._begin, slot, attempt)
        loop = self.loops.current()
        if attempt.seconds is not None:
            attempt.limit = loop.limit(slot, attempt.seconds)
        loop.start(slot, attempt)
        if attempt.seconds is not None:
            self.timeouts.watch()

    def _begin(self, slot: int, attempt: AnyAttempt) -> None:
        self.running[slot] = attempt
        if self._context.events.hears("started"):
            for job in attempt.jobs:
                self._context.events.fire("started", job)

    def _end(self, attempt: AnyAttempt, ends: Ends) -> None:
        if riders := len(ends) - 1:  # before they end, so that the claimer never sees a slot that is taken as free
            with self._growing:
                self.riders -= riders
                self.ridden += riders
        self._tell(attempt, ends)
        if isinstance(attempt, Attempt) and (attempt.passing is not None or attempt.row.items is not None):
            ends = [for_the_store(attempt.job, ends[0])]
        self._finish(ends)

    def _tell(self, attempt: AnyAttempt, ends: Ends) -> None:
        seconds = time.monotonic() - attempt.began
        for row, (outcome, _, _) in zip(attempt.rows, ends, strict=True):
            self._ran((row.queue, row.priority, seconds))
            for ended in self._ends:
                ended(row, seconds, outcome)

    def _ended(self, slot: int, ends: Ends) -> None:
        """Handle the end of an async attempt; called in the loop's thread."""
        attempt = self.running.pop(slot, None)
        if attempt is None:
            return
        if (following := self._passed_on(attempt, ends)) is not None:
            self._start_async(slot, following)
            return
        self._slots.put(slot)
        if self._buffer.qsize() <= self.low_water:
            self._room()

    def _give_back_blocked(self, slot: int) -> None:
        """Return an async attempt on a blocked loop, and ignore how it ends."""
        attempt = self.running.pop(slot, None)
        if attempt is not None:
            self._end(attempt, attempt.interrupted())
            self._slots.put(next(self._numbers))
            if self._buffer.qsize() <= self.low_water:
                self._room()

    def _give_up(self, slot: int, attempt: AnyAttempt) -> None:
        """Fail an attempt that can't be stopped, and replace its thread or loop."""
        limit = attempt.limit
        if limit is None or self.running.pop(slot, None) is None:
            return
        log.error("%s does not stop after its time-out of %g s; its thread is abandoned", attempt.label, limit.seconds)
        self._end(attempt, attempt.timed_out(limit))
        self._slots.put(next(self._numbers))
        if attempt.work.is_async:
            self.loops.replace_current()
        else:
            with self._growing:
                self._threads -= 1
            self._start_thread()
        self._stuck()

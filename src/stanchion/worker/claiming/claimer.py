"""The claimer: reserves due jobs, as many as the runners can use."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from stanchion.context.context import Context
from stanchion.core.backoff import Backoff
from stanchion.core.boot_clock import boot_clock
from stanchion.core.ids import new_token
from stanchion.core.names.partition_names import logical_name
from stanchion.jobs.reservation import Reservation
from stanchion.stores.protocol import Listener
from stanchion.stores.records.claims import BEGUN, Claim, Claimed
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Abandon
from stanchion.stores.rules.leases.lost_leases import is_alone
from stanchion.stores.rules.leases.lost_replies import LostReplies
from stanchion.telemetry.times import JobTimes
from stanchion.worker.claiming.due_queues import DueQueues
from stanchion.worker.claiming.failing_queues import FailingQueues
from stanchion.worker.claiming.gathering import Gathering
from stanchion.worker.claiming.order import Turn
from stanchion.worker.claiming.pace import PickupDelays, Prefetch
from stanchion.worker.claiming.portions import Portions
from stanchion.worker.claiming.served_queues import ServedQueues
from stanchion.worker.finisher import Finisher
from stanchion.worker.health import Health
from stanchion.worker.running.alone import Alone
from stanchion.worker.running.attempt import not_started
from stanchion.worker.running.runner import NEVER, Runners

log = logging.getLogger("stanchion.worker")

MOST_UNSTORED = 5000
"""Outcomes waiting for the store beyond which no more jobs are claimed."""

BYTES_UNSTORED = 2**24
"""Bytes of chunks in such outcomes beyond which no more are claimed."""

WAIT_FOR_ROOM = 1.0
"""Seconds without room after which the buffer is cut to what that time needs at the current pace."""

WAIT_FOR_STORE = 0.05

MOST_REFUSALS = 2
"""Claims from a queue in one round that get nothing: its best jobs may have to wait while others may run, or it may be
paused."""


class Crew(NamedTuple):
    """The parts of a worker that a claimer works with."""

    runners: Runners
    finisher: Finisher
    health: Health
    times: JobTimes
    alone: Alone


class UntilEmpty(NamedTuple):
    """The end of a worker that stops without work."""

    emptied: Callable[[], None]
    """Called once no job is reserved and the queues hold no due job."""
    all_jobs: bool
    """Call it only once the queues hold no live job."""


class Claimer:
    """One thread that claims jobs, hands them to the runners, and waits for room or for work.

    `revive` beats if others may take the jobs of this worker. `until`: None for a worker that waits for more work.
    """

    def __init__(
        self,
        context: Context,
        worker: str,
        served: ServedQueues,
        due: DueQueues,
        threads: int,
        crew: Crew,
        revive: Callable[[], None],
        until: UntilEmpty | None = None,
    ) -> None:
        self._context, self._worker, self._served = context, worker, served
        self._runners, self._finisher, self._health, self._times, self.alone = crew
        self.due, self._revive = due, revive
        self._alone_rows: deque[tuple[JobRow, float]] = deque()
        self._threads = threads
        self._emptied = None if until is None else until.emptied
        self._all_jobs = until is not None and until.all_jobs
        self._lost_replies, self._failing = LostReplies(), FailingQueues(crew.health)
        self._prefetch, self._portions = Prefetch(), Portions(context, threads)
        self._gathering = Gathering(context.registry, crew.runners, lambda: self._busy)
        self._ahead = 0
        self._claimed = self._returned = 0
        self._room = threading.Event()
        self._registered = threading.Event()
        self._stopping = threading.Event()
        self._listener: Listener | None = None
        self._thread = threading.Thread(target=self._run, name="stanchion-claimer", daemon=True)
        self.delays = PickupDelays()
        self.live = 1
        """Live workers of the store, including this one."""

    # -- called by other threads

    def start(self) -> None:
        """Start the thread; it claims once the worker is `registered`."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """True while its thread runs."""
        return self._thread.is_alive()

    def registered(self) -> None:
        """Signal that the store knows the worker, so that its jobs do not count as lost."""
        self._registered.set()

    def room(self) -> None:
        """Signal that the buffer runs low."""
        self._runners.low_water = NEVER
        self._room.set()

    def settled(self, queues: Collection[str]) -> None:
        """Signal that outcomes of jobs of these queues were stored: jobs that a limit held back may be claimable."""
        self.due.ended(queues)
        if self._emptied is not None or not self.due.held_back.keys().isdisjoint(queues):
            self._wake()

    def cancel(self, ids: Collection[str]) -> None:
        """End those of these jobs, which were asked to stop, that wait for their batch."""
        if ids:
            rows = self._gathering.take_out(set(ids))
            self._finisher.put([(Abandon(row.lease), Reservation(self._context, row), None) for row in rows])

    @property
    def reserved(self) -> int:
        """Claimed jobs that have not ended."""
        return self._claimed - self._finisher.received

    @property
    def _busy(self) -> int:
        """The slots that claimed jobs take, or are about to."""
        return self.reserved - self._runners.riders

    @property
    def outstanding(self) -> int:
        """Claimed jobs whose outcome is not stored."""
        return self._claimed - self._finisher.stored

    def stop(self, seconds: float) -> None:
        """Stop claiming; wait up to `seconds` for the call in progress."""
        self._stopping.set()
        self._registered.set()
        self._room.set()
        self._wake()
        self._thread.join(seconds)
        self._give_back(self._gathering.stop())

    def _wake(self) -> None:
        listener = self._listener
        if listener is not None:
            listener.wake()

    # -- the thread

    def _run(self) -> None:
        self._registered.wait()
        backoff = Backoff()
        while not self._stopping.is_set():
            try:
                self._round()
                backoff.succeeded()
            except Exception as error:
                pause = backoff.failed()
                log.warning("claiming failed, next try in %.1f s: %s: %s", pause, type(error).__name__, error)
                log.debug("claiming failed", exc_info=True)
                self._close_listener()
                self.due.any()
                self._stopping.wait(pause)
        self._give_back([row for row, _ in self._alone_rows] + self._gathering.stop())
        self._close_listener()

    def _round(self) -> None:
        """Claim from every queue as many jobs as there is room for, then wait if there were fewer."""
        self._revive()
        self._take_lost_replies()
        if self._served.refresh(self.live):
            self._close_listener()
            self.due.served_changed()
            self._failing.served_changed(self._served.names)
        if self._alone_rows:
            self._gathering.close()
            self._run_alone(*self._alone_rows.popleft())
            return
        wanted = self._wanted()
        if not wanted:
            self._wait_for_room()
            return
        outstanding = self.outstanding
        with self._health.watch("claim"):
            listener = self._listening()
            connected, self.due.fed, self.due.came = listener.connected, listener.fed, listener.came
            found, retry_in, full = self._claim(wanted)
            if full:
                self.due.any()
                listener.pass_on()
                return
            if found:
                time.sleep(0)  # let a runner start before this thread continues
            if found == 0 and self._emptied is not None:
                self._gathering.close()
            if found == 0 and outstanding == 0 and self._emptied is not None and not self._any_left():
                self._emptied()
            nap = self.due.nap(retry_in, connected=connected)
        if nap and not self._stopping.is_set():
            listener.wait(nap)
            self.due.woken(listener.signs())

    def _wanted(self) -> int:
        """Return how many slots to fill: the free ones plus the prefetch, or 0 while enough are taken."""
        busy, runners = self._busy, self._runners
        ended = self._finisher.received - self._returned - runners.ridden
        self._ahead = self._prefetch.jobs(ended, time.monotonic())
        if busy >= self._threads + self._ahead // 2 or self._behind:
            return 0
        return self._threads + self._ahead - busy

    @property
    def _behind(self) -> bool:
        """True while too many outcomes wait for the store."""
        return self._finisher.backlog > self._prefetch.fitting(BYTES_UNSTORED, MOST_UNSTORED)

    def _claim(self, wanted: int) -> tuple[int, float | None, bool]:
        """Claim jobs for so many slots.

        Returns how many jobs there were, the seconds until a limit may allow more, and whether there may be more now:
        the slots are filled, or a batch is.
        """
        found, filled, retry_in = 0, 0, None
        refusals = Counter[str]()
        for turn in self.due.next():
            if refusals[turn.queue] == MOST_REFUSALS:
                continue
            sent_at, slots = boot_clock(), wanted - filled
            asked = self._portions.of(turn.queue, turn.most or self._gathering.asks(turn.queue, slots))
            claimed = self._claimed_from(turn, asked)
            if not self.due.claimed(turn, claimed):
                refusals[turn.queue] += 1
            if claimed.rows:
                found += len(claimed.rows)
                filled += self._hand_over(claimed.rows, sent_at, slots)
            if claimed.retry_in is not None:
                retry_in = claimed.retry_in if retry_in is None else min(retry_in, claimed.retry_in)
            if filled >= wanted or self._alone_rows or (turn.most is None and len(claimed.rows) >= asked):
                return found, retry_in, True
        return found, retry_in, False

    def _claimed_from(self, turn: Turn, limit: int) -> Claimed:
        mine = self._served.lanes.get(turn.queue)
        return self._asked(
            Claim(
                turn.queue,
                limit,
                new_token(),
                worker=self._worker,
                lanes=None if mine is None else (mine.first, mine.last),
                min_rank=turn.min_rank,
                # A thread is free for each of them, unless they wait for a batch.
                delivery=None if self._ahead or self._gathering.serves(turn.queue) else BEGUN,
            )
        )

    def _asked(self, claim: Claim) -> Claimed:
        def ask() -> Claimed:
            try:
                return self._context.store.claim(claim)
            except Exception:
                if not claim.repeat:
                    self._lost_replies.add(claim)
                raise

        return self._failing.claimed(claim.queue, ask)

    def _take_lost_replies(self) -> None:
        """Repeat claims whose replies were lost; run the jobs that they reserved."""
        for claim in self._lost_replies.due():
            sent_at = boot_clock()
            with self._health.watch("claim"):
                rows = self._asked(claim).rows
            self._lost_replies.repeated(claim, found=bool(rows))
            if rows:
                self._hand_over(rows, sent_at, len(rows))

    def _hand_over(self, rows: list[JobRow], claimed_at: float, slots: int) -> int:
        """Pass claimed jobs on, and return how many slots they take; jobs beyond the free ones go back."""
        self._claimed += len(rows)
        chunks = [len(row.payload) for row in rows if row.items is not None]
        self._prefetch.claimed(rows[-1].lane, sum(chunks) / len(rows))
        self._finisher.weighs |= bool(chunks)
        queue = rows[0].queue
        self.delays.add(logical_name(queue), rows)
        self._times.claimed(rows)
        self._runners.defaults.meet(queue)
        if self._stopping.is_set():
            self._give_back(rows)
            return 0
        if is_alone(rows[0]):
            self._alone_rows += [(row, claimed_at) for row in rows]
            return len(rows)
        others, batches = self._gathering.take(rows, claimed_at)
        if len(others) > slots:
            self._give_back(others[slots:])
            others = others[:slots]
        if others:
            self._runners.add(others, self._busy, claimed_at)
        return len(others) + batches

    def _run_alone(self, row: JobRow, claimed_at: float) -> None:
        """Run a job alone; give it back if it can't start."""
        begun = False
        try:
            begun = self.alone.run(row, claimed_at, self._stopping)
        finally:
            if not begun:
                self._give_back([row])

    def _give_back(self, rows: Sequence[JobRow]) -> None:
        self._returned += len(rows)
        self._finisher.put([not_started(row) for row in rows])

    # -- waiting

    def _wait_for_room(self) -> None:
        self._room.clear()
        self._runners.low_water = self._ahead // 2
        if self._wanted():
            self._runners.low_water = NEVER
            return  # a job ended before the runners knew the low-water mark
        if self._behind:
            self._room.wait(WAIT_FOR_STORE)
        elif not self._room.wait(WAIT_FOR_ROOM):
            self._shed()

    def _shed(self) -> None:
        """Return jobs prefetched at a faster pace, if other workers can take them, or for more urgent jobs."""
        if self.live > 1 or self.due.ordered:
            self._give_back(self._runners.take_back(keep=int(self._prefetch.rate * WAIT_FOR_ROOM)))

    def _any_left(self) -> bool:
        """Return whether there is still work to return for."""
        store = self._context.store
        if (due := self.due.any_due()) is not None:
            return self._all_jobs or due
        if not self._all_jobs:
            return False
        queues = self._served.names
        before = store.stats(queues, ["totals"])
        live = any(one.states.total for one in store.stats(queues, ["states"]).values())
        # A job may have gone from a queue that was not looked at yet to one that was: it is counted as moved.
        return live or before != store.stats(queues, ["totals"])

    def _listening(self) -> Listener:
        if self._listener is None:
            for queue in self._served.names:
                self._context.declare(queue)
            self._context.registry.prepare(self._context.store, self._served.names)
            # A signal names no lanes: the one claimer that it would wake might serve others.
            alike = not self._served.ranges
            self._listener = self._context.store.listen(self._served.names, interchangeable=alike)
        return self._listener

    def _close_listener(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            try:
                listener.pass_on()  # another listener gets a sign that this one has not acted on
                listener.close()
            except Exception:
                log.debug("closing a listener failed", exc_info=True)

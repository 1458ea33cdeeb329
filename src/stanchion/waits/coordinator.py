"""The coordinator: one thread with the one listener of an app in this process; it starts the polls."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from stanchion.core.backoff import Backoff
from stanchion.core.concurrency.forks import reset_after_fork
from stanchion.core.concurrency.threads import DaemonPool
from stanchion.stores.protocol import Listener
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.flows import FlowNode
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.wakeup.signs import NO_SIGNS, Signs
from stanchion.waits.claims import ClaimPoll, Request, put_back
from stanchion.waits.due import DuePoll
from stanchion.waits.ends import EndPoll, FlowPoll, JobPoll, SeenJob
from stanchion.waits.lost_replies import LostClaims
from stanchion.waits.poll import Host, Poll
from stanchion.waits.signals import Subscription
from stanchion.waits.waiter import Waiter

if TYPE_CHECKING:
    import asyncio

log = logging.getLogger("stanchion")

LINGER_SECONDS = 5.0
"""Seconds the listener stays open after the last waiter, as another may come soon."""

_POLL_THREADS = 4
_NAP_SECONDS_MAX = 60.0


class Waits:
    """All waiters of one app in this process.

    One thread, the coordinator, listens to the store for all of them. It starts each poll when it is due or a sign
    arrives. Polls run in threads of a pool, one at a time of each kind, so that a slow one delays no other. The
    coordinator ends some seconds after the last waiter. After a fork the child starts without waiters.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self._pool = DaemonPool("stanchion-poll", _POLL_THREADS)
        reset_after_fork(self)

    def begin(self) -> None:
        """Start without waiters."""
        self.lock = threading.Lock()
        self.lost_claims = LostClaims()
        self._polls: dict[Hashable, Poll] = {}
        self._thread: threading.Thread | None = None
        self._nudge = threading.Event()
        self._listener: Listener | None = None
        self._listened = NO_SIGNS
        self._connecting = False
        self._opening = 0
        """Counts the calls of `close`. A listener that was being opened during one is discarded."""
        self._connect_at = 0.0
        self._backoff = Backoff()

    # -- the waiters

    def for_job(self, job_id: str, deadline: float, loop: asyncio.AbstractEventLoop | None = None) -> Waiter[SeenJob]:
        """Wait until a job is final or the deadline passes; answer with the job as it is then. Raises JobNotFound."""
        return self._of_key("jobs", JobPoll, job_id, deadline, loop)

    def for_flow(
        self, root: str, deadline: float, loop: asyncio.AbstractEventLoop | None = None
    ) -> Waiter[list[FlowNode]]:
        """Wait until a flow is over or the deadline passes; answer with its nodes as they are then."""
        return self._of_key("flows", FlowPoll, root, deadline, loop)

    def for_work(
        self,
        claim: Claim,
        deadline: float,
        loop: asyncio.AbstractEventLoop | None = None,
        *,
        pops: bool = False,
        lost_claim: Claim | None = None,
    ) -> Waiter[list[JobRow]]:
        """Wait for due jobs; answer with none at the deadline. `lost_claim`: a claim whose reply was lost."""
        key = ("work", claim.queue, claim.lanes, claim.lease, claim.worker, claim.holder, pops)
        waiter: Waiter[list[JobRow]] = self._waiter(
            deadline, loop, returned=lambda rows: self.put_back(rows, pops=pops)
        )
        with self.lock:
            poll = self._poll(key, lambda: ClaimPoll(self, claim, pops=pops))
            poll.add(Request(waiter, claim.limit, lost_claim))
            if poll.due <= time.monotonic():
                self._start(poll)
        self._wake_coordinator()
        return waiter

    def for_due(self, queue: str, deadline: float, loop: asyncio.AbstractEventLoop | None = None) -> Waiter[bool]:
        """Wait until the queue has a due job; answer True, or False at the deadline."""

        def left() -> None:
            with self.lock:
                poll.forget_gone()

        waiter: Waiter[bool] = self._waiter(deadline, loop, left=left)
        with self.lock:
            poll: DuePoll = self._poll("due", lambda: DuePoll(self))
            poll.add(queue, waiter)
            self._start(poll)
        self._wake_coordinator()
        return waiter

    def for_sign(
        self, subscription: Subscription, deadline: float, loop: asyncio.AbstractEventLoop | None = None
    ) -> Waiter[bool]:
        """Wait for the next sign of a subscription; answer True, or False at the deadline."""
        waiter: Waiter[bool] = self._waiter(deadline, loop)
        with self.lock:
            self._poll(("signs", id(subscription)), lambda: subscription)
            subscription.add(waiter)
        self._wake_coordinator()
        return waiter

    def _of_key(
        self,
        kind: str,
        make: Callable[[Waits], EndPoll[Any]],
        key: str,
        deadline: float,
        loop: asyncio.AbstractEventLoop | None,
    ) -> Waiter[Any]:
        def left() -> None:
            with self.lock:
                poll.forget(key)

        waiter: Waiter[object] = self._waiter(deadline, loop, left=left)
        with self.lock:
            poll = self._poll(kind, lambda: make(self))
            poll.add(key, waiter)
            self._start(poll)
        return waiter

    def _waiter(
        self, deadline: float, loop: asyncio.AbstractEventLoop | None, **calls: Callable[..., None]
    ) -> Waiter[Any]:
        if loop is None:
            self.host.blocking.check()
        return Waiter(deadline, loop, **calls)

    def _poll(self, key: Hashable, make: Callable[[], Poll]) -> Any:
        """Return the poll of this key, created if missing. The caller holds the lock."""
        if key not in self._polls:
            self._polls[key] = make()
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._keep, name="stanchion-waits", daemon=True)
            self._thread.start()
        return self._polls[key]

    def put_back(self, rows: list[JobRow], *, pops: bool) -> None:
        """Return jobs reserved for a waiter that is gone. Does not block."""
        self._pool.submit(lambda: put_back(self.host, rows, pops=pops))

    @property
    def heard(self) -> Signs:
        """The signs of other processes that arrive now: queues with work, and queues that announce finished jobs."""
        listener = self._listener
        return self._listened if listener is not None and listener.connected else NO_SIGNS

    def close(self) -> None:
        """End all waits with an error, and stop the threads."""
        with self.lock:
            polls, self._polls = list(self._polls.values()), {}
            listener, self._listener, self._listened = self._listener, None, NO_SIGNS
            self._opening += 1
        for poll in polls:
            poll.closed()
        self._nudge.set()
        _close(listener)
        self._pool.close()

    # -- the coordinator

    def _keep(self) -> None:
        idle_from = math.inf
        while True:
            with self.lock:
                now = time.monotonic()
                for key in [key for key, poll in self._polls.items() if not len(poll) and not poll.running]:
                    self._polls.pop(key).ended()
                idle_from = min(idle_from, now) if not self._polls else math.inf
                if not self._polls and (self._listener is None or now - idle_from >= LINGER_SECONDS):
                    self._thread = None
                    listener, self._listener, self._listened = self._listener, None, NO_SIGNS
                    break
                for poll in self._polls.values():
                    if poll.due <= now:
                        self._start(poll)
                naps = [poll.due - now for poll in self._polls.values() if not poll.running]
                nap = min([_NAP_SECONDS_MAX, *naps, LINGER_SECONDS if not self._polls else _NAP_SECONDS_MAX])
                nap = min(nap, self._connect(now))
                listener = self._listener
            self._wait(listener, max(0.0, nap))
        _close(listener)

    def _wait(self, listener: Listener | None, seconds: float) -> None:
        """Wait for signs or for `seconds`, and pass signs on to the polls."""
        if listener is None:
            self._nudge.wait(seconds)
            self._nudge.clear()
            return
        try:
            listener.wait(seconds)
            signs = listener.signs()
        except Exception as error:
            log.warning("not listening for wake-ups: %s", error)
            with self.lock:
                if self._listener is listener:
                    self._listener, self._listened = None, NO_SIGNS
                    self._connect_at = time.monotonic() + self._backoff.failed()
            _close(listener)
            return
        if signs != NO_SIGNS:
            with self.lock:
                for poll in self._polls.values():
                    poll.signed(signs)

    def _wake_coordinator(self) -> None:
        self._nudge.set()
        listener = self._listener
        if listener is not None:
            with suppress(Exception):
                listener.wake()

    def _start(self, poll: Poll) -> None:
        """Run a poll in a thread of the pool, unless it is running. The caller holds the lock."""
        if not poll.running:
            poll.running = True
            self._pool.submit(lambda: self._run(poll))

    def _run(self, poll: Poll) -> None:
        while True:
            poll.run()
            with self.lock:
                if not len(poll) or poll.due > time.monotonic():
                    poll.running = False
                    break
        self._wake_coordinator()

    # -- the listener

    def _connect(self, now: float) -> float:
        """Open a listener for all that the polls need, in another thread; return the seconds until the next check.

        The caller holds the lock. A new listener keeps the queues of the one before: they may be needed again.
        """
        wanted = NO_SIGNS
        for poll in self._polls.values():
            wanted = wanted.and_also(poll.listens_to())
        if self._connecting or _within(wanted, self._listened):
            return _NAP_SECONDS_MAX
        if now < self._connect_at:
            return self._connect_at - now
        self._connecting = True
        everything = self._listened.and_also(wanted)
        opening = self._opening
        self._pool.submit(lambda: self._listen(everything, opening))
        return _NAP_SECONDS_MAX

    def _listen(self, wanted: Signs, opening: int) -> None:
        new: Listener | None = None
        try:
            new = self.host.store.listen(sorted(wanted.queues or ()), finished=sorted(wanted.finished or ()))
            self._backoff.succeeded()
        except Exception as error:
            log.debug("not listening for wake-ups: %s: %s", type(error).__name__, error)
        with self.lock:
            self._connecting = False
            if new is None:
                self._connect_at = time.monotonic() + self._backoff.failed()
            if new is None or self._thread is None or opening != self._opening:
                old = new
            else:
                old, self._listener, self._listened = self._listener, new, wanted
                for poll in self._polls.values():
                    poll.heard()
        self._nudge.set()
        _close(old)


def _within(wanted: Signs, listened: Signs) -> bool:
    queues, ends = listened.queues or frozenset(), listened.finished or frozenset()
    return (wanted.queues or frozenset()) <= queues and (wanted.finished or frozenset()) <= ends


def _close(listener: Listener | None) -> None:
    if listener is not None:
        with suppress(Exception):
            listener.wake()
            listener.close()

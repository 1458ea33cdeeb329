"""Consumers: who reserves jobs without being a worker, by a name, and with heartbeats instead of leases."""

from __future__ import annotations

import logging
import os
import threading
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import Self

from stanchion.context.context import Context
from stanchion.core.aio import off_loop
from stanchion.core.backoff import Backoff
from stanchion.core.boot_clock import boot_clock
from stanchion.core.checks import checked_name, positive_seconds, shown
from stanchion.core.ids import NAME_MAX, process_id
from stanchion.errors import InvalidInput, StoreUnavailable
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.workers import CONSUMER, WorkerRow
from stanchion.stores.rules.lost_replies import LostReplies
from stanchion.waits import Waits

log = logging.getLogger("stanchion")

_STOP_SECONDS_MAX = 2.0

_LATE_BEATS = 2
"""Heartbeats without one sent after which a claim sends one first: the process was suspended, or its thread hangs."""


class Consumer:
    """A consumer that proves itself alive by heartbeats. Made by `app.consumer(name)`, and used as a block:

        with app.consumer("billing:4711") as consumer:
            for job in orders.reserve(10, holder=consumer): ...

    What it reserves has no lease and needs no `extend`. Jobs that it still holds go back once it has missed three
    heartbeats, `heartbeat` seconds apart: because its process died, or because the block has ended. With `lease=`, a
    job goes back at the end of its lease, regardless of the heartbeats.
    """

    def __init__(self, context: Context, name: str, heartbeat: float | timedelta = 10.0) -> None:
        self._context, self.name = context, checked_name(name, "the name of a consumer", NAME_MAX)
        self.id = process_id(self.name)
        """Its id in the store and in its jobs. It begins with the name, and several consumers may have the same."""
        self._every = positive_seconds(heartbeat, "heartbeat")
        self._queues: frozenset[str] = frozenset()
        self._stopping = threading.Event()
        self._store: Store | None = None
        self._waits: Waits | None = None
        self._beaten = 0.0
        self._lost_replies = LostReplies()
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._run, name="stanchion-consumer", daemon=True)

    def beat(self) -> None:
        """Send a heartbeat now. A thread does it all the time; raises InvalidInput outside of the block."""
        began = boot_clock()
        self._beating().beat([self._row()])
        self._beaten = began

    abeat = off_loop(beat)

    @property
    def ended(self) -> bool:
        """True once its block has ended."""
        return self._stopping.is_set()

    def claiming(self, claim: Claim) -> Claim:
        """Return this claim as one of this consumer. Raises InvalidInput outside of the block."""
        self._beating()
        if boot_clock() - self._beaten > _LATE_BEATS * self._every:
            with suppress(StoreUnavailable):  # which the claim meets too, and handles
                self.beat()
        self._queues |= {claim.queue}
        return claim._replace(worker=self.id) if claim.lease is None else claim._replace(holder=self.id)

    def refused(self, queue: str) -> None:
        """Take in that it may not claim from a queue: a heartbeat that names it would be refused, too."""
        self._queues -= {queue}

    def __enter__(self) -> Self:
        if self._store is not None:
            raise InvalidInput(f"the consumer {self.name!r} has been used before; make a new one")
        self._store, self._waits = self._context.store, self._context.waits
        try:
            self.beat()
        except BaseException:
            self._store = None
            raise
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._process != os.getpid():
            return  # it goes on in the process that began the block
        store = self._beating()
        self._stopping.set()
        self._thread.join(_STOP_SECONDS_MAX)
        self._take_lost_claims()
        with suppress(StoreUnavailable):  # then its row is forgotten once it is too old
            if not self._lost_replies and not any(row.id == self.id and row.running for row in store.workers()):
                store.leave(self.id)

    _enter, _exit = off_loop(__enter__), off_loop(__exit__)

    async def __aenter__(self) -> Self:
        await self._enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._exit(kind, error, trace)

    def _beating(self) -> Store:
        """Return the store that gets its heartbeats."""
        if self._store is None or self._stopping.is_set() or self._process != os.getpid():
            raise InvalidInput(
                f"the consumer {self.name!r} sends no heartbeats here; use it within its block, `with "
                f"app.consumer(...) as consumer:`, and in a forked process make another one"
            )
        self._context.blocking.check()
        return self._store

    def _row(self) -> WorkerRow:
        import socket

        host, queues = socket.gethostname(), tuple(sorted(self._queues))
        return WorkerRow(self.id, host, os.getpid(), queues, threads=0, heartbeat=self._every, state=CONSUMER)

    def _run(self) -> None:
        backoff, pause = Backoff(longest=min(5.0, self._every)), self._every
        while not self._stopping.wait(pause):
            try:
                self.beat()
                self._give_back_lost()
            except Exception as error:
                if self._stopping.is_set():
                    return
                pause = backoff.failed()
                log.warning(
                    "the heartbeat of consumer %s failed, next try in %.1f s: %s: %s",
                    *(self.id, pause, type(error).__name__, error),
                )
            else:
                backoff.succeeded()
                pause = self._every

    def _take_lost_claims(self) -> None:
        for claim in self._waits.lost_claims.take(self.id) if self._waits else ():
            self._lost_replies.add(claim)

    def _give_back_lost(self) -> None:
        """Repeat claims whose replies were lost, and give back what they reserved: no caller knows of these jobs."""
        self._take_lost_claims()
        for claim in self._lost_replies.due():
            rows = self._beating().claim(claim).rows
            self._lost_replies.repeated(claim, found=bool(rows))
            if rows and self._waits is not None:
                self._waits.put_back(rows, pops=False)

    def __repr__(self) -> str:
        return f"<Consumer {self.id!r}>"


def claim_of(holder: str | Consumer | None, claim: Claim) -> Claim:
    """Return a claim as one of this holder."""
    if holder is None:
        return claim
    if isinstance(holder, Consumer):
        return holder.claiming(claim)
    if not isinstance(holder, str):
        raise InvalidInput(f"holder is a name, such as 'billing:4711', or app.consumer(name), not {shown(holder)}")
    return claim._replace(holder=checked_name(holder, "holder"))

"""The heart of a consumer: the thread that sends its heartbeats, and the limits of its claims."""

from __future__ import annotations

import logging
import os
import threading
from contextlib import suppress

from stanchion.context.context import Context
from stanchion.core.backoff import Backoff
from stanchion.core.boot_clock import boot_clock
from stanchion.errors import InvalidInput, StoreUnavailable
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.workers import CONSUMER, WorkerRow
from stanchion.stores.rules.leases.lost_replies import LostReplies
from stanchion.waits import Waits

log = logging.getLogger("stanchion")

_STOP_SECONDS_MAX = 2.0

_LATE_BEATS = 2
"""Heartbeats without one sent after which a claim sends one first: the process was suspended, or its thread hangs."""


class ConsumerHeart:
    """Sends the heartbeats of a consumer within its block. `every`: seconds between two of them."""

    def __init__(self, context: Context, name: str, consumer_id: str, every: float) -> None:
        self._context, self._name, self.id, self._every = context, name, consumer_id, every
        self._queues: frozenset[str] = frozenset()
        self._stopping = threading.Event()
        self._store: Store | None = None
        self._waits: Waits | None = None
        self._beaten = 0.0
        self._lost_replies = LostReplies()
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._run, name="stanchion-consumer", daemon=True)

    def beat(self) -> None:
        """Send a heartbeat now. Raises InvalidInput outside of the block."""
        began = boot_clock()
        self._beating().beat([self._row()])
        self._beaten = began

    @property
    def ended(self) -> bool:
        """True once the block has ended."""
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
        """Note that it may not claim from a queue: a heartbeat that names it would be refused, too."""
        self._queues -= {queue}

    def start(self) -> None:
        """Begin the block."""
        if self._store is not None:
            raise InvalidInput(f"the consumer {self._name!r} has been used before; make a new one")
        self._store, self._waits = self._context.store, self._context.waits
        try:
            self.beat()
        except BaseException:
            self._store = None
            raise
        self._thread.start()

    def stop(self) -> None:
        """End the block."""
        if self._process != os.getpid():
            return  # it continues in the process that began the block
        store = self._beating()
        self._stopping.set()
        self._thread.join(_STOP_SECONDS_MAX)
        self._take_lost_claims()
        with suppress(StoreUnavailable):  # then its row is forgotten once it is too old
            if not self._lost_replies and not any(row.id == self.id and row.running for row in store.workers()):
                store.leave(self.id)

    def _beating(self) -> Store:
        """Return the store that gets its heartbeats."""
        if self._store is None or self._stopping.is_set() or self._process != os.getpid():
            raise InvalidInput(
                f"the consumer {self._name!r} sends no heartbeats here; use it within its block, `with "
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
        """Repeat claims whose replies were lost, and return the jobs that they reserved: no caller knows of them."""
        self._take_lost_claims()
        for claim in self._lost_replies.due():
            rows = self._beating().claim(claim).rows
            self._lost_replies.repeated(claim, found=bool(rows))
            if rows and self._waits is not None:
                self._waits.put_back(rows, pops=False)

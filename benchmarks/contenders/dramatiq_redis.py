"""Dramatiq on Redis: its default middleware, one worker with threads."""

from __future__ import annotations

import logging
import signal
from typing import Any, ClassVar

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from benchmarks.contenders.base import Place
from benchmarks.probe import Probe

QUEUE = "bench"
THREADS = 8
PREFETCH = 1000
IDLE_POLL_MILLISECONDS = 10


class DramatiqContender:
    """The worker that the command line starts in each of its processes."""

    name: ClassVar[str] = "dramatiq"
    settings: ClassVar[str] = (
        f"RedisBroker, default middleware, {THREADS} threads, {PREFETCH} prefetched, "
        f"idle poll {IDLE_POLL_MILLISECONDS} ms; no bulk interface: one call per job"
    )
    drain_limit: ClassVar[int | None] = 15_000
    bulk_limit: ClassVar[int | None] = 5000

    def __init__(self, place: Place) -> None:
        self._place = place
        self._broker: Any = None
        self._actor: Any = None

    def _connect(self) -> Any:
        broker: Any = RedisBroker(url=self._place.url)  # type: ignore[no-untyped-call]
        broker.declare_queue(QUEUE)
        return broker

    def prepare(self) -> None:
        """Nothing: keys come with the first job."""

    def open(self) -> None:
        self._broker = self._connect()
        self._actor = dramatiq.actor(actor_name="noop", queue_name=QUEUE, broker=self._broker)(_nothing)

    def enqueue_one(self, first: int, count: int) -> None:
        for job in range(first, first + count):
            self._actor.send(job)

    def enqueue_bulk(self, first: int, count: int) -> None:
        self.enqueue_one(first, count)

    def close(self) -> None:
        if self._broker is not None:
            self._broker.close()
            self._broker = self._actor = None

    def unfinished(self) -> int:
        broker = self._connect()
        pending = int(broker.client.hlen(f"{broker.namespace}:{QUEUE}.msgs"))
        broker.close()
        return pending

    def work(self, probe: Probe) -> None:
        broker = self._connect()

        @dramatiq.actor(actor_name="noop", queue_name=QUEUE, broker=broker)
        def noop(n: int) -> None:
            probe.hit(n)

        logging.getLogger("dramatiq").setLevel(logging.WARNING)
        ends = {signal.SIGTERM}
        signal.pthread_sigmask(signal.SIG_BLOCK, ends)
        worker = dramatiq.Worker(broker, worker_threads=THREADS, worker_timeout=IDLE_POLL_MILLISECONDS)
        worker.queue_prefetch = PREFETCH  # what dramatiq_queue_prefetch sets
        worker.start()
        signal.sigwait(ends)
        worker.stop()


def _nothing(n: int) -> None:
    """Stands for the actor where jobs are only sent."""

"""RQ on Redis: the worker that doesn't fork for each job."""

from __future__ import annotations

from typing import ClassVar

from redis import Redis
from rq import Queue, SimpleWorker

from benchmarks.contenders.base import Place, batches
from benchmarks.peers import rq_tasks
from benchmarks.probe import Probe

QUEUE = "bench"


class RqContender:
    """One worker; finished jobs are not kept."""

    name: ClassVar[str] = "rq"
    settings: ClassVar[str] = "SimpleWorker, result_ttl 0; enqueue_many for bulk"
    drain_limit: ClassVar[int | None] = 1000
    bulk_limit: ClassVar[int | None] = 5000

    def __init__(self, place: Place) -> None:
        self._place = place
        self._queue: Queue | None = None

    def _connect(self) -> Queue:
        return Queue(QUEUE, connection=Redis.from_url(self._place.url))

    def prepare(self) -> None:
        """Nothing: keys come with the first job."""

    def open(self) -> None:
        self._queue = self._connect()

    def enqueue_one(self, first: int, count: int) -> None:
        assert self._queue is not None
        for job in range(first, first + count):
            self._queue.enqueue(rq_tasks.noop, job, result_ttl=0)

    def enqueue_bulk(self, first: int, count: int) -> None:
        assert self._queue is not None
        for jobs in batches(first, count):
            prepared = [Queue.prepare_data(rq_tasks.noop, (job,), result_ttl=0) for job in jobs]
            self._queue.enqueue_many(prepared)

    def close(self) -> None:
        if self._queue is not None:
            self._queue.connection.close()
            self._queue = None

    def unfinished(self) -> int:
        queue = self._connect()
        pending = queue.count + queue.started_job_registry.count
        queue.connection.close()
        return int(pending)

    def work(self, probe: Probe) -> None:
        rq_tasks.use(probe)
        queue = self._connect()
        SimpleWorker([queue], connection=queue.connection).work(logging_level="ERROR")

"""Huey: a worker with threads, results off; on SQLite its shortest sensible polling."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from huey import RedisHuey, SqliteHuey  # type: ignore[import-untyped]
from huey.consumer import Consumer  # type: ignore[import-untyped]

from benchmarks.contenders.base import Place
from benchmarks.probe import Probe

SQLITE_THREADS = 1
REDIS_THREADS = 2
IDLE_POLL = 0.01


class HueyContender(ABC):
    """The consumer that ``huey_consumer`` starts, in this process."""

    name: ClassVar[str] = "huey"
    settings: ClassVar[str]
    drain_limit: ClassVar[int | None] = 10_000
    bulk_limit: ClassVar[int | None] = 2000
    threads: ClassVar[int]

    def __init__(self, place: Place) -> None:
        self._place = place
        self._task: Any = None
        self._huey: Any = None

    @abstractmethod
    def _connect(self) -> Any:
        """Return a client of the place."""

    def prepare(self) -> None:
        self._connect().storage.close()

    def open(self) -> None:
        self._huey = self._connect()
        self._task = self._huey.task(name="noop")(_nothing)

    def enqueue_one(self, first: int, count: int) -> None:
        for job in range(first, first + count):
            self._task(job)

    def enqueue_bulk(self, first: int, count: int) -> None:
        self._task.map(range(first, first + count))

    def close(self) -> None:
        if self._huey is not None:
            self._huey.storage.close()
            self._huey = self._task = None

    def unfinished(self) -> int:
        huey = self._connect()
        pending = int(huey.pending_count())
        huey.storage.close()
        return pending

    def work(self, probe: Probe) -> None:
        huey = self._connect()

        def noop(n: int) -> None:
            probe.hit(n)

        huey.task(name="noop")(noop)
        logging.getLogger("huey").setLevel(logging.WARNING)
        consumer = Consumer(
            huey,
            workers=self.threads,
            worker_type="thread",
            periodic=False,
            initial_delay=IDLE_POLL,
            max_delay=IDLE_POLL,
            graceful_signal="TERM",
        )
        consumer.run()


class HueySqlite(HueyContender):
    """On a file."""

    settings: ClassVar[str] = (
        f"SqliteHuey, WAL, fsync on (FULL) or off (OFF), results off, {SQLITE_THREADS} thread, "
        f"idle poll {IDLE_POLL * 1000:g} ms; no bulk interface: map, one commit per job"
    )
    threads: ClassVar[int] = SQLITE_THREADS

    def _connect(self) -> Any:
        return SqliteHuey(filename=self._place.url, fsync=self._place.durable, results=False)


class HueyRedis(HueyContender):
    """On a server, with blocking reads of a list."""

    settings: ClassVar[str] = (
        f"RedisHuey, blocking reads, results off, {REDIS_THREADS} threads; no bulk interface: map, one call per job"
    )
    threads: ClassVar[int] = REDIS_THREADS
    drain_limit: ClassVar[int | None] = 20_000
    bulk_limit: ClassVar[int | None] = 10_000

    def _connect(self) -> Any:
        return RedisHuey(url=self._place.url, results=False)


def _nothing(n: int) -> None:
    """Stands for the task where jobs are only enqueued."""

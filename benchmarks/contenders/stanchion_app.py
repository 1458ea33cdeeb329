"""Stanchion as it comes: tasks, default settings, history kept, one worker with 8 threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from benchmarks.contenders.base import Place, batches
from benchmarks.probe import Probe
from stanchion import Stanchion
from stanchion.stores.registry import open_store

QUEUE = "bench"
THREADS = 8


class StanchionContender:
    """On a server."""

    name: ClassVar[str] = "stanchion"
    settings: ClassVar[str] = f"default settings, history kept, {THREADS} threads; enqueue_many for bulk"
    drain_limit: ClassVar[int | None] = None
    bulk_limit: ClassVar[int | None] = None

    def __init__(self, place: Place) -> None:
        self._place = place
        self._app: Stanchion | None = None
        self._task: Any = None

    def url(self) -> str:
        """Return the URL of the place."""
        return self._place.url

    def prepare(self) -> None:
        store = open_store(self.url())
        store.setup()
        store.close()

    def open(self) -> None:
        self._app = Stanchion(self.url())
        self._task = self._app.task(name="noop", queue=QUEUE)(_nothing)

    def enqueue_one(self, first: int, count: int) -> None:
        for job in range(first, first + count):
            self._task.enqueue(job)

    def enqueue_bulk(self, first: int, count: int) -> None:
        for jobs in batches(first, count):
            self._task.enqueue_many([(job,) for job in jobs])

    def close(self) -> None:
        if self._app is not None:
            self._app.close()
            self._app = self._task = None

    def unfinished(self) -> int:
        app = Stanchion(self.url())
        total = app.queue(QUEUE).size().total
        app.close()
        return int(total)

    def work(self, probe: Probe) -> None:
        app = Stanchion(self.url())

        @app.task(name="noop", queue=QUEUE)
        def noop(n: int) -> None:
            probe.hit(n)

        app.run(queues=[QUEUE], threads=THREADS)


class StanchionSqlite(StanchionContender):
    """On a file."""

    def url(self) -> str:
        return f"sqlite:///{self._place.url}?synchronous={'full' if self._place.durable else 'normal'}"


class StanchionPostgres(StanchionContender):
    """On a server whose wake-up can be switched off."""

    wakeups: ClassVar[tuple[bool, ...]] = (True, False)

    @contextmanager
    def committers(self, count: int, wakeup: bool) -> Iterator[list[Callable[[int], object]]]:
        app = Stanchion(self.url())
        task = app.task(name="noop", queue=QUEUE)(_nothing)
        if not wakeup:
            # There is no such option, as the signal is not part of the write; this shows what it costs.
            store: Any = app.store
            store.dialect.announce = lambda queues: None
        try:
            yield [task.enqueue] * count
        finally:
            app.close()


def _nothing(n: int) -> None:
    """Stands for the task where jobs are only enqueued."""

"""Procrastinate, as its how-to guides advise: async tasks run in parallel, LISTEN, job deletion."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import procrastinate
import psycopg
from procrastinate.tasks import Task
from procrastinate.types import JSONDict

from benchmarks.contenders.base import Place, batches
from benchmarks.probe import Probe

CONCURRENCY = 5


class ProcrastinateContender:
    """Synchronous deferring, and one asynchronous worker."""

    name: ClassVar[str] = "procrastinate"
    settings: ClassVar[str] = (
        f"psycopg 3, autocommit producer, concurrency {CONCURRENCY}, LISTEN, "
        'delete_jobs="successful"; batch_defer for bulk'
    )
    drain_limit: ClassVar[int | None] = 1000
    bulk_limit: ClassVar[int | None] = 5000
    wakeups: ClassVar[tuple[bool, ...]] = (True,)

    def __init__(self, place: Place) -> None:
        self._place = place
        self._app: procrastinate.App | None = None
        self._task: Task[..., Any, Any] | None = None

    def _producer(self, connections: int = 1) -> procrastinate.App:
        connector = procrastinate.SyncPsycopgConnector(
            conninfo=self._place.url,
            min_size=connections,
            max_size=connections,
            kwargs={"autocommit": True},
        )
        return procrastinate.App(connector=connector)

    def prepare(self) -> None:
        app = self._producer()
        with app.open():
            app.schema_manager.apply_schema()

    def open(self) -> None:
        app = self._producer()
        self._task = app.task(name="noop")(_nothing)
        self._app = app.open()

    def enqueue_one(self, first: int, count: int) -> None:
        assert self._task is not None
        for job in range(first, first + count):
            self._task.defer(n=job)

    def enqueue_bulk(self, first: int, count: int) -> None:
        assert self._task is not None
        for jobs in batches(first, count):
            arguments: list[JSONDict] = [{"n": job} for job in jobs]
            self._task.batch_defer(*arguments)

    def close(self) -> None:
        if self._app is not None:
            self._app.close()
            self._app = self._task = None

    @contextmanager
    def committers(self, count: int, wakeup: bool) -> Iterator[list[Callable[[int], object]]]:
        app = self._producer(connections=count)
        task = app.task(name="noop")(_nothing)
        with app.open():
            yield [lambda job: task.defer(n=job)] * count

    def unfinished(self) -> int:
        query = "select count(*) from procrastinate_jobs where status in ('todo', 'doing')"
        with psycopg.connect(self._place.url, autocommit=True) as connection:
            row = connection.execute(query).fetchone()
        return int(row[0]) if row else 0

    def work(self, probe: Probe) -> None:
        # Its listener refuses a pool with autocommit.
        connector = procrastinate.PsycopgConnector(
            conninfo=self._place.url, min_size=CONCURRENCY, max_size=CONCURRENCY + 2
        )
        app = procrastinate.App(connector=connector)

        @app.task(name="noop")
        async def noop(n: int) -> None:
            probe.hit(n)

        async def run() -> None:
            async with app.open_async():
                await app.run_worker_async(concurrency=CONCURRENCY, delete_jobs="successful")

        asyncio.run(run())


def _nothing(n: int) -> None:
    """Stands for the task where jobs are only deferred."""

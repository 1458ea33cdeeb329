"""PgQueuer, as its tuning guide advises: asyncpg, uvloop, large batches, tuned autovacuum."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, ClassVar

import asyncpg
import psycopg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, SyncPsycopgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries, SyncQueries

from benchmarks.contenders.base import Place, batches
from benchmarks.probe import Probe

DEQUEUE_BATCH = 500


def _payload(job: int) -> bytes:
    return json.dumps({"n": job}).encode()


class PgQueuerContender:
    """One manager on a connection of its own, durable tables, no concurrency limit."""

    name: ClassVar[str] = "pgqueuer"
    settings: ClassVar[str] = (
        f"asyncpg, uvloop, one manager, batch_size {DEQUEUE_BATCH}, durable tables, "
        "tuned autovacuum; Queries.enqueue with lists for bulk"
    )
    drain_limit: ClassVar[int | None] = None
    bulk_limit: ClassVar[int | None] = None
    wakeups: ClassVar[tuple[bool, ...]] = (True,)

    def __init__(self, place: Place) -> None:
        self._place = place
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connection: asyncpg.Connection | None = None

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._loop is not None
        self._loop.run_until_complete(work)

    def prepare(self) -> None:
        async def install() -> None:
            connection = await asyncpg.connect(self._place.url)
            queries = Queries(AsyncpgDriver(connection))
            await queries.install()
            await queries.optimize_autovacuum()
            await connection.close()

        uvloop.run(install())

    def open(self) -> None:
        async def connect() -> None:
            self._connection = await asyncpg.connect(self._place.url)

        self._loop = uvloop.new_event_loop()
        self._run(connect())

    def _queries(self) -> Queries:
        assert self._connection is not None
        return Queries(AsyncpgDriver(self._connection))

    def enqueue_one(self, first: int, count: int) -> None:
        queries = self._queries()

        async def enqueue() -> None:
            for job in range(first, first + count):
                await queries.enqueue("noop", _payload(job))

        self._run(enqueue())

    def enqueue_bulk(self, first: int, count: int) -> None:
        queries = self._queries()

        async def enqueue() -> None:
            for jobs in batches(first, count):
                size = len(jobs)
                await queries.enqueue(["noop"] * size, [_payload(job) for job in jobs], [0] * size)

        self._run(enqueue())

    def close(self) -> None:
        if self._loop is not None and self._connection is not None:
            self._loop.run_until_complete(self._connection.close())
            self._loop.close()
        self._loop = self._connection = None

    @contextmanager
    def committers(self, count: int, wakeup: bool) -> Iterator[list[Callable[[int], object]]]:
        def committer(connection: psycopg.Connection[Any]) -> Callable[[int], object]:
            queries = SyncQueries(SyncPsycopgDriver(connection))
            return lambda job: queries.enqueue("noop", _payload(job))

        with ExitStack() as stack:
            connections = [psycopg.connect(self._place.url, autocommit=True) for _ in range(count)]
            yield [committer(stack.enter_context(connection)) for connection in connections]

    def unfinished(self) -> int:
        with psycopg.connect(self._place.url, autocommit=True) as connection:
            row = connection.execute("select count(*) from pgqueuer").fetchone()
        return int(row[0]) if row else 0

    def work(self, probe: Probe) -> None:
        async def run() -> None:
            queuer = PgQueuer(AsyncpgDriver(await asyncpg.connect(self._place.url)))

            @queuer.entrypoint("noop")
            async def noop(job: Job) -> None:
                probe.hit(json.loads(job.payload or b"")["n"])

            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, queuer.shutdown.set)
            await queuer.run(batch_size=DEQUEUE_BATCH)

        uvloop.run(run())

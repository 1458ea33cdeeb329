"""ARQ on Redis: no results kept, its shortest sensible polling."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, ClassVar

import uvloop
from arq import Worker, create_pool, func
from arq.connections import ArqRedis, RedisSettings
from arq.constants import default_queue_name
from redis import Redis

from benchmarks.contenders.base import Place
from benchmarks.probe import Probe

AT_ONCE = 10
IDLE_POLL = 0.01


class ArqContender:
    """One worker on uvloop."""

    name: ClassVar[str] = "arq"
    settings: ClassVar[str] = (
        f"uvloop, max_jobs {AT_ONCE}, keep_result 0, poll_delay {IDLE_POLL * 1000:g} ms; "
        "no bulk interface: one call per job"
    )
    drain_limit: ClassVar[int | None] = 8000
    bulk_limit: ClassVar[int | None] = 3000

    def __init__(self, place: Place) -> None:
        self._place = place
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pool: ArqRedis | None = None

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._loop is not None
        self._loop.run_until_complete(work)

    def prepare(self) -> None:
        """Nothing: keys come with the first job."""

    def open(self) -> None:
        async def connect() -> None:
            self._pool = await create_pool(RedisSettings.from_dsn(self._place.url))

        self._loop = uvloop.new_event_loop()
        self._run(connect())

    def enqueue_one(self, first: int, count: int) -> None:
        async def enqueue() -> None:
            assert self._pool is not None
            for job in range(first, first + count):
                await self._pool.enqueue_job("noop", job)

        self._run(enqueue())

    def enqueue_bulk(self, first: int, count: int) -> None:
        self.enqueue_one(first, count)

    def close(self) -> None:
        if self._loop is not None and self._pool is not None:
            self._loop.run_until_complete(self._pool.aclose())
            self._loop.close()
            self._loop = self._pool = None

    def unfinished(self) -> int:
        with Redis.from_url(self._place.url) as client:
            return int(client.zcard(default_queue_name))

    def work(self, probe: Probe) -> None:
        async def noop(context: dict[Any, Any], n: int) -> None:
            probe.hit(n)

        asyncio.set_event_loop(uvloop.new_event_loop())
        worker = Worker(
            functions=[func(noop, name="noop")],  # type: ignore[arg-type]
            redis_settings=RedisSettings.from_dsn(self._place.url),
            max_jobs=AT_ONCE,
            keep_result=0,
            poll_delay=IDLE_POLL,
            log_results=False,
        )
        worker.run()

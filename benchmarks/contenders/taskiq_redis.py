"""Taskiq on a Redis stream: acknowledged messages, no results, uvloop."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, ClassVar

import uvloop
from redis import Redis
from taskiq.api import run_receiver_task
from taskiq_redis import RedisStreamBroker

from benchmarks.contenders.base import Place
from benchmarks.probe import Probe

STREAM = "taskiq"
GROUP = "taskiq"
AT_ONCE = 100


class TaskiqContender:
    """The receiver that the command line starts in each of its processes."""

    name: ClassVar[str] = "taskiq"
    settings: ClassVar[str] = (
        f"RedisStreamBroker, uvloop, {AT_ONCE} tasks at once, no result backend; no bulk interface: one call per job"
    )
    drain_limit: ClassVar[int | None] = 10_000
    bulk_limit: ClassVar[int | None] = 5000

    def __init__(self, place: Place) -> None:
        self._place = place
        self._loop: asyncio.AbstractEventLoop | None = None
        self._broker: Any = None
        self._task: Any = None

    def _connect(self) -> Any:
        return RedisStreamBroker(self._place.url, queue_name=STREAM, consumer_group_name=GROUP)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._loop is not None
        self._loop.run_until_complete(work)

    def prepare(self) -> None:
        self.open()
        self.close()

    def open(self) -> None:
        self._loop = uvloop.new_event_loop()
        self._broker = self._connect()
        self._task = self._broker.register_task(_nothing, task_name="noop")
        self._run(self._broker.startup())

    def enqueue_one(self, first: int, count: int) -> None:
        async def enqueue() -> None:
            for job in range(first, first + count):
                await self._task.kiq(job)

        self._run(enqueue())

    def enqueue_bulk(self, first: int, count: int) -> None:
        self.enqueue_one(first, count)

    def close(self) -> None:
        if self._loop is not None:
            self._run(self._broker.shutdown())
            self._loop.close()
            self._loop = self._broker = self._task = None

    def unfinished(self) -> int:
        with Redis.from_url(self._place.url) as client:
            (group,) = client.xinfo_groups(STREAM)
        return int(group["lag"]) + int(group["pending"])

    def work(self, probe: Probe) -> None:
        logging.getLogger("taskiq").setLevel(logging.ERROR)

        async def noop(n: int) -> None:
            probe.hit(n)

        async def run() -> None:
            broker = self._connect()
            broker.register_task(noop, task_name="noop")
            await broker.startup()
            receiving = asyncio.create_task(run_receiver_task(broker, max_async_tasks=AT_ONCE))
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, receiving.cancel)
            with suppress(asyncio.CancelledError):
                await receiving

        uvloop.run(run())


async def _nothing(n: int) -> None:
    """Stands for the task where jobs are only enqueued."""

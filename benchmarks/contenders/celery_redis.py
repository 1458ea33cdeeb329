"""Celery on Redis: results ignored, one process without a pool."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

from celery import Celery  # type: ignore[import-untyped]
from celery.platforms import SecurityWarning  # type: ignore[import-untyped]
from redis import Redis

from benchmarks.contenders.base import Place
from benchmarks.probe import Probe

WORKER = (
    "--quiet",
    "worker",
    "--pool=solo",
    "--loglevel=ERROR",
    "--without-gossip",
    "--without-mingle",
    "--without-heartbeat",
)


class CeleryContender:
    """The worker that the command line starts, in this process."""

    name: ClassVar[str] = "celery"
    settings: ClassVar[str] = (
        "solo pool, default prefetch, results ignored, no gossip, mingle and heartbeat; "
        "no bulk interface: one call per job"
    )
    drain_limit: ClassVar[int | None] = 5000
    bulk_limit: ClassVar[int | None] = 3000

    def __init__(self, place: Place) -> None:
        self._place = place
        self._app: Any = None
        self._task: Any = None

    def _connect(self) -> Any:
        app = Celery("bench", broker=self._place.url)
        app.conf.task_ignore_result = True
        app.conf.worker_hijack_root_logger = False
        return app

    def prepare(self) -> None:
        """Nothing: keys come with the first job."""

    def open(self) -> None:
        self._app = self._connect()
        self._task = self._app.task(name="noop")(_nothing)

    def enqueue_one(self, first: int, count: int) -> None:
        for job in range(first, first + count):
            self._task.delay(job)

    def enqueue_bulk(self, first: int, count: int) -> None:
        self.enqueue_one(first, count)

    def close(self) -> None:
        if self._app is not None:
            self._app.close()
            self._app = self._task = None

    def unfinished(self) -> int:
        with Redis.from_url(self._place.url) as client:
            return int(client.llen("celery")) + int(client.hlen("unacked"))

    def work(self, probe: Probe) -> None:
        app = self._connect()

        @app.task(name="noop")  # type: ignore[untyped-decorator]
        def noop(n: int) -> None:
            probe.hit(n)

        warnings.simplefilter("ignore", SecurityWarning)  # it may run as root here
        app.worker_main(WORKER)


def _nothing(n: int) -> None:
    """Stands for the task where jobs are only enqueued."""

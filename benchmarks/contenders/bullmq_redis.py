"""BullMQ on Redis, by Node: a process that enqueues on request, and the worker."""

from __future__ import annotations

import os
import subprocess
from typing import ClassVar

from redis import Redis

from benchmarks.contenders.base import BULK_BATCH, Place
from benchmarks.peers import bullmq
from benchmarks.probe import Probe

CONCURRENCY = 100
KEYS = tuple(f"bull:bench:{name}" for name in ("wait", "active", "paused"))


class BullMQContender:
    """One worker; finished jobs are not kept."""

    name: ClassVar[str] = "bullmq"
    settings: ClassVar[str] = f"Node, concurrency {CONCURRENCY}, removeOnComplete; addBulk for bulk"
    drain_limit: ClassVar[int | None] = None
    bulk_limit: ClassVar[int | None] = None

    def __init__(self, place: Place) -> None:
        self._place = place
        self._producer: subprocess.Popen[str] | None = None

    def prepare(self) -> None:
        bullmq.install()

    def open(self) -> None:
        self._producer = subprocess.Popen(
            bullmq.command("producer", self._place.url),
            env=bullmq.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._expect("ready")

    def enqueue_one(self, first: int, count: int) -> None:
        self._request("one", first, count)

    def enqueue_bulk(self, first: int, count: int) -> None:
        self._request("bulk", first, count)

    def close(self) -> None:
        if self._producer is not None:
            self._producer.communicate()
            self._producer = None

    def unfinished(self) -> int:
        with Redis.from_url(self._place.url) as client:
            return sum(int(client.llen(key)) for key in KEYS)

    def work(self, probe: Probe) -> None:
        arguments = (self._place.url, str(CONCURRENCY), str(probe.path), str(probe.capacity))
        command = bullmq.command("worker", *arguments)
        os.execve(command[0], command, bullmq.environment())  # noqa: S606

    def _request(self, how: str, first: int, count: int) -> None:
        assert self._producer is not None
        assert self._producer.stdin is not None
        self._producer.stdin.write(f"{how} {first} {count} {BULK_BATCH}\n")
        self._producer.stdin.flush()
        self._expect("done")

    def _expect(self, answer: str) -> None:
        assert self._producer is not None
        assert self._producer.stdout is not None
        if (line := self._producer.stdout.readline().strip()) != answer:
            raise RuntimeError(f"BullMQ's producer said {line!r}, not {answer!r}")

"""Commands by hand on Redis: what the server and the client library allow."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from redis import Redis

from benchmarks.contenders.base import Place, batches
from benchmarks.probe import Probe

STREAM = "jobs"
GROUP = "workers"
READ_BATCH = 100
BLOCK_MILLISECONDS = 5000


class RawRedis:
    """A stream with a consumer group; what is done is acknowledged and deleted."""

    name: ClassVar[str] = "raw"
    settings: ClassVar[str] = (
        f"redis-py; XADD; XREADGROUP, then XACK and XDEL in one round trip, {READ_BATCH} at a time; XREADGROUP BLOCK"
    )
    drain_limit: ClassVar[int | None] = None
    bulk_limit: ClassVar[int | None] = None

    def __init__(self, place: Place) -> None:
        self._place = place
        self._producer: Redis | None = None

    def _connect(self) -> Redis:
        return Redis.from_url(self._place.url)

    def prepare(self) -> None:
        with self._connect() as client:
            client.xgroup_create(STREAM, GROUP, id="0", mkstream=True)

    def open(self) -> None:
        self._producer = self._connect()

    def enqueue_one(self, first: int, count: int) -> None:
        assert self._producer is not None
        for job in range(first, first + count):
            self._producer.xadd(STREAM, _fields(job))

    def enqueue_bulk(self, first: int, count: int) -> None:
        assert self._producer is not None
        for jobs in batches(first, count):
            with self._producer.pipeline(transaction=False) as pipeline:
                for job in jobs:
                    pipeline.xadd(STREAM, _fields(job))
                pipeline.execute()

    def close(self) -> None:
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    def unfinished(self) -> int:
        with self._connect() as client:
            return int(client.xlen(STREAM))

    def work(self, probe: Probe) -> None:
        with self._connect() as client:
            while True:
                found: Any = client.xreadgroup(GROUP, "w", {STREAM: ">"}, READ_BATCH, BLOCK_MILLISECONDS)
                for _, entries in found:
                    for _, fields in entries:
                        probe.hit(json.loads(fields[b"payload"])["n"])
                    ids = [entry for entry, _ in entries]
                    with client.pipeline(transaction=False) as pipeline:
                        pipeline.xack(STREAM, GROUP, *ids)
                        pipeline.xdel(STREAM, *ids)
                        pipeline.execute()


def _fields(job: int) -> Any:
    return {"payload": json.dumps({"n": job})}

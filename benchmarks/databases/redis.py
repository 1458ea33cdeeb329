"""Redis servers, and what their own counters say of a measurement."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from redis import Redis as Client
from tests.servers.redis import RedisServer

from benchmarks.contenders import Place
from benchmarks.databases.base import Counters

SERVER_SETTINGS = {"appendonly": "yes", "appendfsync": "everysec", "save": "", "auto-aof-rewrite-percentage": "0"}
"""Other than the defaults: the append-only file, and no snapshot or rewrite that falls into some measurements only."""


class Redis:
    """Starts a fresh server for each measurement."""

    @contextmanager
    def fresh(self) -> Iterator[Place]:
        with RedisServer(settings=SERVER_SETTINGS) as server:
            yield Place(server.url())

    def counters(self, place: Place) -> Counters:
        with Client.from_url(place.url) as client:
            cpu, log = client.info("cpu"), client.info("persistence")
        busy = 1e6 * (cpu["used_cpu_user"] + cpu["used_cpu_sys"])
        return {"server µs": busy, "AOF B": float(log["aof_current_size"])}

    def tidy(self, place: Place) -> None:
        """Nothing is left for later."""

    def facts(self) -> dict[str, str]:
        names = ("appendonly", "appendfsync", "maxmemory-policy")
        with self.fresh() as place, Client.from_url(place.url, decode_responses=True) as client:
            version = str(client.info("server")["redis_version"])
            settings = client.config_get(*names)
        return {"Redis": version, **{f"Redis {name}": str(settings[name]) for name in names}}

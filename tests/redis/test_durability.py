"""Servers killed under load: what they kept, and whether it is whole."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from stanchion.core.ids import new_id
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.redis.store import RedisStore
from stanchion_conformance.harness import counts_of, sizes_of
from tests.redis.conftest import QUEUE, Open
from tests.redis.keys import broken_rules
from tests.redis.load import Load
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.slow

EVERYSEC_LOSES = 2.5
"""Seconds: a write waits for the sync of the second before it for two at most."""


def drain(store: RedisStore) -> None:
    """Finish all jobs, also those without a worker."""
    store.clock_offset += 3600  # every lease is over
    while rows := store.claim(Claim(QUEUE, 500, new_id())).rows:
        assert set(store.settle([Commit(row.lease) for row in rows])) == {JobState.DONE}


@pytest.mark.parametrize("appendfsync", ["always", pytest.param("everysec", marks=pytest.mark.nightly)])
def test_what_was_told_outlives_a_kill(own_redis_server: RedisServer, opened: Open, appendfsync: str) -> None:
    server = own_redis_server
    server.configure(appendfsync=appendfsync)
    with Load(lambda: opened(server.url()), QUEUE) as load:
        kills = []
        for _ in range(3):
            load.await_more(500)
            server.kill()
            kills.append(time.monotonic())
            server.start()
        load.await_more(500)
    store = opened(server.url())
    assert broken_rules(store, QUEUE) == []
    forgiven = EVERYSEC_LOSES if appendfsync == "everysec" else 0.0

    def safe(told: dict[str, float]) -> list[str]:
        return [job for job, at in told.items() if not any(kill - forgiven <= at <= kill for kill in kills)]

    rows = {job: row for part in batches(list(load.pushed)) for job, row in store.fetch(part).items()}
    assert [job for job in safe(load.pushed) if job not in rows] == []
    assert [job for job in safe(load.committed) if job in rows and rows[job].state != JobState.DONE] == []
    drain(store)
    assert broken_rules(store, QUEUE) == []
    assert sizes_of(store, QUEUE).total == 0
    counts = counts_of(store, QUEUE)
    assert counts.committed == counts.pushed >= len(safe(load.pushed))


@pytest.mark.nightly
def test_wherever_the_log_ends_every_change_is_whole(own_redis_server: RedisServer, opened: Open) -> None:
    """A machine that dies has written the log up to some byte."""
    server = own_redis_server
    with Load(lambda: opened(server.url()), QUEUE) as load:
        load.await_more(300)
        server.kill()
    log = the_log(server)
    whole = log.read_bytes()
    left = set()
    for end in sorted(random.Random(7).sample(range(1, len(whole)), 12), reverse=True):
        log.write_bytes(whole[:end])
        server.start()
        store = opened(server.url())
        assert broken_rules(store, QUEUE) == []
        left.add(counts_of(store, QUEUE))
        drain(store)
        assert broken_rules(store, QUEUE) == []
        assert sizes_of(store, QUEUE).total == 0
        server.kill()
    assert len(left) > 6


def the_log(server: RedisServer) -> Path:
    """Return the file that the server appends to."""
    (log,) = (server.directory / "appendonlydir").glob("*.incr.aof")
    return log


def batches(ids: list[str]) -> list[list[str]]:
    return [ids[first : first + 1000] for first in range(0, len(ids), 1000)]

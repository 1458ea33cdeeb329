"""Dispatch over real stores, in threads, with their own signs of work."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from stanchion.manager.dispatch.delays import Delays
from stanchion.manager.dispatch.engine import Engine
from stanchion.manager.server.pool import StoreCalls
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import BY_MANAGER, Claim
from stanchion.stores.records.jobs import SECOND, JobState
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.registry import open_store
from tests.manager.dispatch.receivers import Process
from tests.manager.dispatch.scene import LEASE, QUEUE, FakeSession, jobs, slice_of
from tests.manager.dispatch.virtual import now


class StoreSession(FakeSession):
    """A session that is always good, by the clock of a store on this machine."""

    @property
    def until(self) -> int:
        return time.time_ns() // 1000 + int(LEASE * SECOND)


@pytest.fixture(params=["memory", "sqlite", "pg_store_url", "mariadb_url", "redis_url", "mongo_url"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    local = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db"}
    url = local.get(request.param) or request.getfixturevalue(request.param)
    with closing(open_store(url)) as opened:
        opened.setup()
        yield opened


async def until(condition: Any, seconds: float = 60.0) -> None:
    end = now() + seconds
    while not condition():
        assert now() < end, "it did not happen"
        await asyncio.sleep(0.02)


def finished(store: Store) -> int:
    return store.stats([QUEUE], ["totals"])[QUEUE].totals.committed


def test_jobs_of_all_kinds_run_once_and_survive_their_manager(store: Store) -> None:
    async def go() -> None:
        calls = StoreCalls(6)
        first, second = (Engine(store, calls.run, delays=Delays(lease=LEASE)) for _ in range(2))
        for engine in (first, second):
            await engine.start(StoreSession())
        process = Process(50, work=0.002)
        stream = process.connect(first)
        await first.take([slice_of(1)])
        try:

            async def produce() -> None:
                for _ in range(20):
                    await first.push(jobs(1))

            direct = threading.Thread(target=lambda: [store.push(jobs(50)) for _ in range(4)])
            direct.start()
            await asyncio.gather(*(produce() for _ in range(20)), first.push(jobs(10, delay=0.5)))
            await until(lambda: finished(store) >= 610)
            assert sorted(process.began) == sorted({*process.began})
            await until(lambda: not process.unconfirmed)
            assert stream.newly == 610

            process.work = None
            await asyncio.to_thread(store.push, jobs(20))
            await until(lambda: len(process.holding) == 20)
            await first.close()
            lost = await asyncio.to_thread(store.push, jobs(3))
            claimed = [(job.id, process.worker) for job in lost]
            await asyncio.to_thread(store.claim, Claim(QUEUE, 3, "lost", ids=tuple(claimed), delivery=BY_MANAGER))
            process.work = 0.002
            process.cut()
            process.connect(second)
            await second.take([slice_of(2)])
            await until(lambda: finished(store) >= 613)
            for row in list(process.holding.values()):
                process.finish(row)
            await until(lambda: finished(store) >= 633)
            where = (Condition("queue", "=", QUEUE),)
            rows = await asyncio.to_thread(store.select, Query("all", where, limit=1000))
            assert {(row.state, row.attempts) for row in rows.rows} == {(JobState.DONE, 1)}
            assert len(process.began) == 633
        finally:
            await first.close()
            await second.close()
            calls.close()

    asyncio.run(go())


@pytest.mark.usefixtures("short_calls")
def test_a_store_that_is_read_only_loses_nothing(pg_store_url: str) -> None:
    async def go() -> None:
        with closing(open_store(pg_store_url)) as store, psycopg.connect(pg_store_url, autocommit=True) as admin:
            store.setup()
            calls = StoreCalls(6)
            engine = Engine(store, calls.run, delays=Delays(lease=LEASE))
            await engine.start(StoreSession())
            process = Process(10, work=None)
            stream = process.connect(engine)
            await engine.take([slice_of(1)])
            await engine.push(jobs(10))
            await until(lambda: len(process.holding) == 10)
            database = admin.info.dbname

            def read_only(value: str) -> None:
                admin.execute(f'ALTER DATABASE "{database}" SET default_transaction_read_only = {value}')
                admin.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )

            await asyncio.to_thread(read_only, "on")
            process.work = 0.001
            for row in list(process.holding.values()):
                process.finish(row)
            pushed = asyncio.ensure_future(engine.push(jobs(5)))
            await until(lambda: not engine.status().store_answers)
            await asyncio.to_thread(read_only, "off")
            await pushed
            await until(lambda: finished(store) >= 15 and not process.unconfirmed)
            assert (len(stream.settled), stream.lost, len(process.began)) == (15, [], 15)
            await engine.close()
            calls.close()

    asyncio.run(go())

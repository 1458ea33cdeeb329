"""Leadership over the stores there are."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stanchion.core.boot_clock import boot_clock
from stanchion.manager.leadership.rows import SLICE, slice_row
from stanchion.stores.protocol import Store
from stanchion.stores.registry import open_store
from stanchion.stores.rules.leases.sessions import SESSION
from tests.manager.leadership.running import comes, group

LEASE = 3.0


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    match request.param:
        case "memory":
            return "memory://"
        case "sqlite":
            return f"sqlite:///{tmp_path / 'jobs.db'}"
        case "postgresql":
            return str(request.getfixturevalue("pg_store_url"))
        case name:
            return str(request.getfixturevalue(f"{name}_url"))


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with closing(open_store(url)) as store:
        store.setup()
        store.configure("orders", {"lanes": 8})
        yield store


nightly = pytest.mark.nightly
EACH = [
    *("memory", "sqlite", "postgresql"),
    *(pytest.param(name, marks=nightly) for name in ("mariadb", "mongo", "redis")),
]


@pytest.mark.parametrize("url", EACH, indirect=True)
def test_signals_of_the_store_alone_hand_slices_over(store: Store) -> None:
    async def play() -> None:
        async with group(store, 3000.0, signals=None) as managers:
            managers.start("one")
            await comes(lambda: managers.shares() == [8])
            managers.start("other")
            await comes(lambda: managers.shares() == [4, 4])
            await managers["one"].leadership.leave()
            await managers["one"].end()
            del managers["one"]
            await comes(lambda: managers.shares() == [8])

    asyncio.run(play())


@pytest.mark.parametrize("url", EACH, indirect=True)
@pytest.mark.nightly_except("memory", "postgresql")
def test_managers_come_and_go(store: Store) -> None:
    async def play() -> None:
        async with group(store, LEASE) as managers:
            managers.start("one")
            await comes(lambda: managers.shares() == [8])
            managers.start("other")
            await comes(lambda: managers.shares() == [4, 4])
            await managers.pop("one").end()
            await comes(lambda: managers.shares() == [8])
            store.configure("orders", {"lanes": 3})
            store.configure("q" * 200, {"lanes": 64})
            await comes(lambda: managers.shares() == [67])
            store.drop_queue("q" * 200)
            await comes(lambda: managers.shares() == [3])
            await comes(lambda: len(store.values(SLICE)) == 3)
            await managers["other"].leadership.leave()

    asyncio.run(play())
    assert store.values(SESSION) == []


MANAGER = """
import asyncio, json, sys
from stanchion.stores.registry import open_store
from tests.manager.leadership.running import group

def tell(**what):
    print(json.dumps(what), flush=True)

async def main(url, name, lease):
    async with group(open_store(url), lease) as managers:
        one = managers.start(name)
        while not one.served:
            await asyncio.sleep(0.01)
        tell(session=one.leadership.session)
        while one.leadership.seconds_left() > 0:
            await asyncio.sleep(0)  # so that it is stopped anywhere
        tell(left=one.leadership.seconds_left(), served=len(one.served))
        while not one.served:
            await asyncio.sleep(0.01)
        tell(session=one.leadership.session)
        await asyncio.sleep(3600)  # until it is killed: if it left, the other would have all slices

asyncio.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3])))
"""


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_process_that_was_stopped_owns_nothing_when_it_goes_on(store: Store, url: str) -> None:
    """Another manager has its slices; those under its former session are refused."""
    process = subprocess.Popen(
        [sys.executable, "-c", MANAGER, url, "stopped", str(LEASE)], stdout=subprocess.PIPE, text=True
    )
    lines = process.stdout
    assert lines is not None

    async def play(stopped: str) -> None:
        async with group(store, LEASE) as managers:
            other = managers.start("other")
            await comes(lambda: managers.shares() == [8])
            assert store.values(SESSION, [stopped]) == []
            os.kill(process.pid, signal.SIGCONT)
            told = await asyncio.to_thread(read)
            assert told["served"] == 0
            assert float(str(told["left"])) <= 0
            session = (await asyncio.to_thread(read))["session"]
            assert session != stopped
            await comes(lambda: len(other.served) == 4)
            await comes(lambda: owners() == {session, other.leadership.session})

    def owners() -> set[str | None]:
        return {slice_row(value).owner for value in store.values(SLICE)}

    def read() -> dict[str, object]:
        found: dict[str, object] = json.loads(lines.readline())
        return found

    try:
        stopped = str(read()["session"])
        os.kill(process.pid, signal.SIGSTOP)
        asyncio.run(play(stopped))
    finally:
        process.kill()
        process.wait()


def test_the_clock_goes_on_while_the_machine_sleeps() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= boot_clock() <= time.clock_gettime(time.CLOCK_BOOTTIME)

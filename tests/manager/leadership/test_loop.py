"""The loop of a manager in real time: signals, calls that hang, an engine that fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import pytest

from stanchion.manager.leadership.owner import Owned
from stanchion.stores.memory import MemoryStore
from stanchion.stores.rules.leases.sessions import SESSION
from tests.manager.leadership.running import comes, group

LONG = 3000.0
"""A lease that no test sees the end of, nor a third of it."""
SHORT = 0.3


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    store.configure("orders", {"lanes": 4})
    return store


def test_signals_alone_hand_slices_over(store: MemoryStore) -> None:
    async def play() -> None:
        async with group(store, LONG) as managers:
            managers.start("one")
            await comes(lambda: managers.shares() == [4])
            managers.start("other")
            await comes(lambda: managers.shares() == [2, 2])
            managers.start("third")
            await comes(lambda: managers.shares() == [1, 1, 2])
            await managers["one"].leadership.leave()
            await comes(managers["one"].task.done)
            del managers["one"]
            await comes(lambda: managers.shares() == [2, 2])
            assert len(store.values(SESSION)) == 2

    asyncio.run(play())


def test_without_signals_others_notice_by_themselves(store: MemoryStore) -> None:
    async def play() -> None:
        async with group(store, 1.0, signals=False) as managers:
            managers.start("one")
            managers.start("other")
            await comes(lambda: managers.shares() == [2, 2])
            await managers.pop("one").end()
            await comes(lambda: managers.shares() == [4])

    asyncio.run(play())


def test_a_call_that_hangs_loses_the_slices_at_the_deadline(store: MemoryStore) -> None:
    async def play() -> None:
        async with group(store, SHORT) as managers:
            one = managers.start("one")
            await comes(lambda: managers.shares() == [4])
            losses = one.engine.losses
            one.hang.set()
            await comes(lambda: one.engine.losses > losses)
            assert not one.engine.serving
            assert one.leadership.seconds_left() <= 0
            one.hang.clear()
            one.go_on.set()
            await comes(lambda: managers.shares() == [4])

    asyncio.run(play())


class Breaking:
    """Fails once in each of its ways."""

    def __init__(self) -> None:
        self.taken: list[Owned] = []
        self.calls: list[str] = []

    async def take(self, owned: Sequence[Owned]) -> None:
        self.calls.append("take")
        if self.calls.count("take") == 1:
            raise RuntimeError("can't read running jobs")
        self.taken += owned

    async def release(self, owned: Sequence[Owned]) -> None:
        self.calls.append("release")
        raise RuntimeError(f"can't let go of {len(owned)}")

    def lose(self) -> None:
        self.calls.append("lose")


def test_slices_that_can_not_be_served_are_taken_again(
    store: MemoryStore, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Breaking()

    async def play() -> None:
        async with group(store, LONG) as managers:
            one = managers.start("one")
            monkeypatch.setattr(one.leadership._holdings, "_owner", engine)
            await comes(lambda: len(engine.taken) == 4)
            assert engine.calls == ["take", "release", "take"]
            assert len(one.leadership.owned) == 4

    with caplog.at_level(logging.ERROR, "stanchion.manager"):
        asyncio.run(play())
    assert "can't be served" in caplog.text
    assert "let go in order" in caplog.text


def test_slices_lost_while_they_are_taken_are_not_served(store: MemoryStore) -> None:
    async def play() -> None:
        async with group(store, LONG) as managers:
            one = managers.start("one")
            started, ended = asyncio.Event(), asyncio.Event()
            real = one.engine.take

            async def slowly(owned: Sequence[Owned]) -> None:
                started.set()
                await ended.wait()
                await real(owned)

            one.engine.take = slowly  # type: ignore[method-assign]
            await started.wait()
            session = one.leadership.session
            store.compare_and_set(SESSION, session, None, store.values(SESSION)[0].version)
            one.leadership.wake()
            await comes(lambda: one.leadership.session != session)
            ended.set()
            await comes(lambda: len(one.served) == 4)
            assert {owned.epoch for owned in one.engine.serving} == {owned.epoch for owned in one.leadership.owned}

    asyncio.run(play())


def test_the_loop_survives_a_store_that_is_away(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        async with group(store, SHORT) as managers:
            one = managers.start("one")
            await comes(lambda: managers.shares() == [4])
            away = asyncio.Event()

            def fail() -> int:
                one.task.get_loop().call_soon_threadsafe(away.set)
                raise RuntimeError("away")

            with monkeypatch.context() as patched:
                patched.setattr(store, "now", fail)
                await comes(lambda: away.is_set() and one.engine.losses > 0)
                assert managers.shares() == [0]
            await comes(lambda: managers.shares() == [4])

    asyncio.run(play())

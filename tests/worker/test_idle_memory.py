"""An idle worker keeps nothing of the jobs that it has run."""

import asyncio
import gc
import time
from collections.abc import Iterator
from typing import Any
from weakref import WeakSet

import pytest

from stanchion import Job, Stanchion
from tests.worker.conftest import until, working

pytestmark = pytest.mark.parametrize("app", ["memory"], indirect=True)


class Large(dict[str, Any]):
    """Stands for what takes much memory."""

    __hash__ = object.__hash__  # type: ignore[assignment]


@pytest.fixture
def kept() -> Iterator[WeakSet[Large]]:
    """What is kept although no garbage is collected: an idle worker makes none, so nothing would collect it."""
    gc.collect()
    gc.disable()
    yield WeakSet()
    gc.enable()


def declare(app: Stanchion, kept: "WeakSet[Large]") -> None:
    def made() -> Large:
        kept.add(large := Large())
        return large

    @app.task(name="fails", max_attempts=1)
    def fails() -> None:
        large = made()
        raise ValueError(len(large))

    @app.task(name="fails with the job", max_attempts=1)
    def fails_with_the_job(job: Job) -> None:
        large = made()
        raise ValueError(job.id, len(large))

    @app.task(name="async fails", max_attempts=1)
    async def async_fails() -> None:
        large = made()
        await asyncio.sleep(0)
        raise ValueError(len(large))

    @app.task(name="wrapped fails", max_attempts=1)
    def wrapped_fails() -> Any:
        return async_fails.function()

    @app.task(name="returns")
    def returns() -> Any:
        return made()

    @app.task(name="async returns")
    async def async_returns() -> Any:
        return made()

    @app.task(name="hangs", timeout=0.1, max_attempts=1)
    def hangs() -> None:
        large = made()
        while large is not None:
            time.sleep(0.01)

    @app.task(name="async hangs", timeout=0.1, max_attempts=1)
    async def async_hangs() -> None:
        large = made()
        await asyncio.sleep(600)
        assert large is not None


TASKS = (
    *("fails", "fails with the job", "async fails", "wrapped fails"),
    *("returns", "async returns", "hangs", "async hangs"),
)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("heard", [False, True], ids=["unheard", "heard"])
def test_of_its_last_jobs(app: Stanchion, kept: "WeakSet[Large]", task: str, heard: bool) -> None:
    declare(app, kept)
    ended: list[str] = []
    if heard:
        app.on("failed")(lambda job, _error: ended.append(job.id))
        app.on("done")(lambda job: ended.append(job.id))
    with working(app):
        for _ in range(3):
            app.enqueue(task)
        until(lambda: app.queue("default").size().total == 0)
        until(lambda: not heard or len(ended) == 3)
        until(lambda: not kept, 30)


@pytest.mark.parametrize("task", ["fails", "fails with the job", "returns", "async returns"])
def test_nor_does_a_drain(app: Stanchion, kept: "WeakSet[Large]", task: str) -> None:
    declare(app, kept)
    app.enqueue(task)
    assert app.drain() == 1
    assert not kept

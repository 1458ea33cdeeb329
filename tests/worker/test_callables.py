"""Functions of several kinds as tasks: what can be awaited is, the rest is refused when it is declared."""

import asyncio
import functools
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stanchion import JobState, Retry, Stanchion
from stanchion.errors import InvalidInput
from stanchion.tasks.task import work_of
from tests.worker.conftest import ended, until, working


async def later(value: int) -> int:
    await asyncio.sleep(0)
    return value + 1


class Waiter:
    """An object with an async call."""

    async def __call__(self, value: int) -> int:
        return await later(value)


@functools.wraps(later)
def wrapper(*args: Any, **kwargs: Any) -> Any:
    return later(*args, **kwargs)


@functools.wraps(later)
def runs_it(*args: Any, **kwargs: Any) -> Any:
    return asyncio.run(later(*args, **kwargs))


KINDS: dict[str, Callable[..., Any]] = {
    "wrapper": wrapper,
    "wrapper that runs it": runs_it,
    "object": Waiter(),
    "partial": functools.partial(later),
    "partial of an object": functools.partial(Waiter()),
    "method": Waiter().__call__,
    "lambda": lambda value: later(value),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_can_be_awaited_is(app: Stanchion, kind: str) -> None:
    task = app.task(name="task")(KINDS[kind])
    with working(app, threads=1):
        assert task.enqueue(1).result(timeout=60) == 2
    handle = task.enqueue(2)
    assert app.drain() == 1
    assert handle.result(timeout=60) == 3


@pytest.mark.parametrize("kind", ["object", "partial", "partial of an object", "method"])
def test_objects_are_async(app: Stanchion, kind: str) -> None:
    assert work_of(app.task(name="task")(KINDS[kind])).is_async, "it needs no thread while it waits"


@pytest.mark.parametrize("kind", ["wrapper", "object"])
def test_at_a_station_too(app: Stanchion, kind: str) -> None:
    etl = app.pipeline("etl")
    etl.station("in", to="out")(KINDS[kind])
    etl.station("out")(KINDS[kind])
    etl.push(1)
    with working(app):
        until(lambda: [job.result for job in app.find(queue="etl.out", state="done")] == [3])


def test_it_shares_the_loop_of_the_async_tasks(app: Stanchion) -> None:
    loops: list[Any] = []

    @app.task(name="async")
    async def asynchronous() -> None:
        loops.append(asyncio.get_running_loop())

    app.task(name="wrapper")(lambda: asynchronous.function())
    with working(app):
        for name in ("async", "wrapper"):
            app.enqueue(name).result(timeout=60)
    assert loops[0] is loops[1]


def test_its_time_out_cancels_what_it_waits_for(app: Stanchion) -> None:
    cancelled = threading.Event()

    async def sleep() -> None:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    task = app.task(name="task", timeout=0.2, max_attempts=1)(lambda: sleep())
    with working(app, threads=1):
        job = ended(app, task.enqueue().id)
        assert cancelled.wait(60)
    assert job.errors[-1]["error"] == "TaskTimeout: ran longer than 0.2 s"


def test_its_error_is_that_of_the_job(app: Stanchion) -> None:
    async def fail() -> None:
        raise TimeoutError("of its own")

    task = app.task(name="task", max_attempts=1)(lambda: fail())
    with working(app, threads=1):
        assert ended(app, task.enqueue().id).errors[-1]["error"] == "TimeoutError: of its own"


def plain_generator() -> Any:
    yield 1


async def async_generator() -> Any:
    yield 1


@pytest.mark.parametrize("function", [plain_generator, async_generator, functools.partial(plain_generator)])
def test_generators_are_refused_when_declared(app: Stanchion, function: Callable[..., Any]) -> None:
    with pytest.raises(InvalidInput, match="yields"):
        app.task(name="task")(function)
    with pytest.raises(InvalidInput, match="yields"):
        app.pipeline("other").station("in")(function)


def test_listeners_and_policies_that_nothing_awaits_are_refused(app: Stanchion) -> None:
    async def listener(*_: Any) -> float:
        return 1

    with pytest.raises(InvalidInput, match="listener"):
        app.on("done")(listener)
    with pytest.raises(InvalidInput, match="policy"):
        Retry.custom(listener)  # type: ignore[arg-type]


@pytest.mark.parametrize("how", ["returns", "raises", "exits"])
@pytest.mark.parametrize("where", ["worker", "drain"])
def test_the_child_of_a_task_that_forks_ends_with_it(app: Stanchion, tmp_path: Path, how: str, where: str) -> None:
    ran = tmp_path / "ran"
    statuses: list[int] = []

    @app.task(name="fork")
    def fork() -> str:
        child = os.fork()
        if child == 0:
            if how == "raises":
                raise ValueError("in the child")
            if how == "exits":
                raise SystemExit(7)
            return "child"
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        return "parent"

    @app.task(name="other")
    def other() -> None:
        with ran.open("a") as file:
            file.write(f"{os.getpid()}\n")

    handles = [app.enqueue("fork"), *(app.enqueue("other") for _ in range(20))]
    if where == "worker":
        with working(app, threads=1):
            until(lambda: all(handle.state is JobState.DONE for handle in handles))
    else:
        app.drain()
    assert handles[0].result(timeout=60) == "parent"
    assert statuses == [{"returns": 0, "raises": 1, "exits": 7}[how]]
    assert ran.read_text().split() == [str(os.getpid())] * 20

"""The running job: as a parameter, and below the task by a context variable."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

import pytest

from stanchion import Job, Reservation, Stanchion, current_job
from stanchion.tasks.middleware import Attempt
from tests.worker.conftest import ended, working

if TYPE_CHECKING:
    from decimal import Decimal as Unknown  # only type checkers know this name


Runs = Callable[[Stanchion], AbstractContextManager[Any]]


@contextmanager
def draining(app: Stanchion) -> Iterator[None]:
    yield
    app.drain()


@pytest.fixture
def app() -> Stanchion:
    return Stanchion("memory://")


@pytest.fixture(params=[working, draining], ids=["worker", "drain"])
def runs(request: pytest.FixtureRequest) -> Runs:
    found: Runs = request.param
    return found


def seen() -> str | None:
    job = current_job()
    return None if job is None else job.id


def in_a_thread(call: Callable[[], Any]) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    thread.join()
    return found[0]


def plain() -> Any:
    return seen()


async def coroutine() -> Any:
    await asyncio.sleep(0)
    return seen()


async def to_thread() -> Any:
    return await asyncio.to_thread(seen)


async def of_the_loop() -> Any:
    return await asyncio.create_task(coroutine())


def awaitable() -> Any:
    return coroutine()


def with_the_context() -> Any:
    context = copy_context()
    return in_a_thread(lambda: context.run(seen))


@pytest.mark.parametrize("function", [plain, coroutine, to_thread, of_the_loop, awaitable, with_the_context])
@pytest.mark.parametrize("timeout", [None, 60])
def test_is_found_below_a_task(app: Stanchion, runs: Runs, function: Callable[[], Any], timeout: float | None) -> None:
    task = app.task(timeout=timeout)(function) if timeout else app.task(function)
    with runs(app):
        handles = [task.enqueue() for _ in range(3)]
        if runs is working:
            for handle in handles:
                ended(app, handle.id)
    assert [handle.result(timeout=60) for handle in handles] == [handle.id for handle in handles]


def test_is_none_elsewhere(app: Stanchion, runs: Runs) -> None:
    @app.task
    def task() -> Any:
        return in_a_thread(seen)

    with runs(app):
        handle = task.enqueue()
        if runs is working:
            ended(app, handle.id)
        assert current_job() is None
    assert handle.result(timeout=60) is None
    assert current_job() is None


def test_is_the_job_that_the_task_has(app: Stanchion, runs: Runs) -> None:
    same: list[bool] = []

    @app.task
    def task(job: Reservation) -> None:
        same.append(current_job() is job)
        found = current_job()
        assert found is not None
        found.progress(0.5)
        found.commit("by the current job")

    with runs(app):
        handle = task.enqueue()
        if runs is working:
            ended(app, handle.id)
    assert same == [True]
    assert handle.job().result == "by the current job"


def test_is_found_by_middleware_and_in_a_station(app: Stanchion, runs: Runs) -> None:
    found: list[tuple[str, str | None]] = []

    @app.middleware
    def around(attempt: Attempt, call_next: Callable[[], Any]) -> Any:
        found.append((attempt.job.id, seen()))
        return call_next()

    pipeline = app.pipeline("etl")

    @pipeline.station("only")
    def only(item: int) -> None:
        found.append((str(item), seen()))

    with runs(app):
        job = pipeline.push(1)
        if runs is working:
            ended(app, job.id)
    assert found == [(job.id, job.id), ("1", job.id)]


def test_is_that_of_the_inner_run_while_a_task_drains(app: Stanchion) -> None:
    found: list[str | None] = []

    @app.task(queue="inner")
    def inner() -> None:
        found.append(seen())

    @app.task(queue="outer")
    def outer() -> None:
        found.append(seen())
        app.drain(["inner"])
        found.append(seen())

    first, second = outer.enqueue(), inner.enqueue()
    app.drain(["outer"])
    assert found == [first.id, second.id, first.id]


class TestParameters:
    def test_an_optional_one_gets_the_job(self, app: Stanchion, runs: Runs) -> None:
        @app.task
        def task(job: Job | None = None) -> Any:
            return None if job is None else job.id

        with runs(app):
            handle = task.enqueue()
            if runs is working:
                ended(app, handle.id)
        assert handle.result(timeout=60) == handle.id

    def test_behind_annotations_that_only_type_checkers_can_resolve(self, app: Stanchion) -> None:
        @app.task
        def beside(value: Unknown, job: Job) -> Any:
            return [value, job.id]

        handle = beside.enqueue(1)
        app.drain()
        assert handle.result(timeout=60) == [1, handle.id]

    def test_whose_class_only_type_checkers_import(self, app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
        def function(job: Job | None, value: Unknown) -> Any:
            return [value, None if job is None else job.id]

        monkeypatch.delitem(globals(), "Job")
        handle = app.task(function).enqueue(1)
        app.drain()
        assert handle.result(timeout=60) == [1, handle.id]

"""Each attempt has context variables of its own."""

import asyncio
import decimal
from contextvars import ContextVar
from typing import Any

import pytest

from stanchion import Retry, Stanchion
from tests.worker.conftest import until, working

TENANT: ContextVar[str] = ContextVar("tenant", default="nobody")


@pytest.fixture
def set_and_look(app: Stanchion) -> list[str]:
    """Tasks that say which tenant they find, and set another."""
    seen: list[str] = []

    def found(name: str) -> None:
        seen.append(TENANT.get())
        TENANT.set(name)

    @app.task(name="sync")
    def sync(name: str) -> None:
        found(name)

    @app.task(name="async")
    async def asynchronous(name: str) -> None:
        found(name)
        await asyncio.to_thread(found, f"{name}, in a thread")
        seen.pop()

    return seen


@pytest.mark.parametrize("first", ["sync", "async"])
@pytest.mark.parametrize("then", ["sync", "async"])
def test_what_one_job_sets_does_not_reach_the_next(app: Stanchion, set_and_look: list[str], first: str, then: str):
    with working(app, threads=1):
        for task in (first, then, then):
            app.enqueue(task, "acme").result(timeout=60)
    assert set_and_look == ["nobody"] * 3


def test_nor_does_it_after_a_failure_or_a_time_out(app: Stanchion):
    seen: list[str] = []

    @app.task(timeout=0.2, retry=Retry.constant(0, jitter=0), max_attempts=2)
    def task(n: int) -> None:
        seen.append(TENANT.get())
        TENANT.set(f"tenant {n}")
        if n == 0:
            raise ValueError(n)
        while True:
            pass

    with working(app, threads=1):
        task.enqueue_many([(0,), (1,)])
        until(lambda: app.queue("default").size().total == 0)
    assert seen == ["nobody"] * 4


def test_the_decimal_context_is_that_of_one_job(app: Stanchion):
    seen: list[int] = []

    @app.task(name="change")
    def change() -> None:
        seen.append(decimal.getcontext().prec)
        decimal.getcontext().prec = 5

    @app.task(name="change async")
    async def change_async() -> None:
        seen.append(decimal.getcontext().prec)
        decimal.getcontext().prec = 5

    with working(app, threads=1):
        for task in (change, change, change_async, change_async):
            task.enqueue().result(timeout=60)
    mine = decimal.getcontext().prec
    assert seen == [mine] * 4
    for task in (change, change_async, change):
        task.enqueue()
    assert app.drain() == 3
    assert seen == [mine] * 7
    assert decimal.getcontext().prec == mine


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_job_sees_what_a_listener_of_its_start_sets(app: Stanchion, kind: str):
    seen: dict[str, list[str]] = {"started": [], "task": [], "done": []}

    @app.on("started")
    def start(job: Any) -> None:
        seen["started"].append(TENANT.get())
        TENANT.set(job.tenant)

    @app.on("done")
    def success(job: Any) -> None:
        seen["done"].append(TENANT.get())
        TENANT.set(job.tenant)

    @app.task(name="sync")
    def sync() -> None:
        seen["task"].append(TENANT.get())

    @app.task(name="async")
    async def asynchronous() -> None:
        seen["task"].append(TENANT.get())

    with working(app, threads=1):
        for tenant in ("a", "b"):
            app.using(kind, tenant=tenant).enqueue().result(timeout=60)
        until(lambda: len(seen["done"]) == 2)
    assert seen == {"started": ["nobody"] * 2, "task": ["a", "b"], "done": ["nobody"] * 2}


def test_a_model_or_a_policy_sets_nothing_for_the_next_job(app: Stanchion):
    seen: list[str] = []

    def delay(_attempt: int, _error: Any) -> float:
        seen.append(TENANT.get())
        TENANT.set("of the policy")
        return 0

    @app.task(retry=Retry.custom(delay), max_attempts=2)
    def task() -> None:
        seen.append(TENANT.get())
        raise ValueError

    with working(app, threads=1):
        task.enqueue_many([(), ()])
        until(lambda: app.queue("default").size().total == 0)
    assert set(seen) == {"nobody"}


def test_draining_leaves_the_callers_variables_alone(app: Stanchion, set_and_look: list[str]):
    TENANT.set("mine")
    try:
        for task in ("sync", "async", "sync"):
            app.enqueue(task, "acme")
        assert app.drain() == 3
        assert set_and_look == ["mine"] * 3, "those of the caller, and never those of another job"
        assert TENANT.get() == "mine"
    finally:
        TENANT.set("nobody")

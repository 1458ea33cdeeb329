"""Reusable tasks, middleware, hooks and retries by exception, with their types."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, assert_type

from stanchion import Attempt, Job, JobHandle, Retry, Stanchion, Tasks
from stanchion.middleware import LogContext

tasks = Tasks()


@tasks.task(queue="money", retry_on=(ConnectionError, TimeoutError), give_up_on=KeyError, programming_errors=1)
def charge(order: int) -> str:
    return str(order)


@tasks.cron("0 3 * * *", args=[1])
@tasks.task
async def remind(days: int) -> int:
    return days


@tasks.on("done")
def heard(job: Job) -> None:
    print(job.id)


@tasks.middleware
def around(attempt: Attempt, call_next: Callable[[], Any]) -> Any:
    attempt.kwargs["order"] = attempt.job.attempts
    return call_next()


@tasks.middleware
async def around_async(attempt: Attempt, call_next: Callable[[], Awaitable[Any]]) -> Any:
    print(attempt.task)
    return await call_next()


app = Stanchion("memory://", discover=["shop"], retry=Retry.constant(5, retry_on=OSError))
app.register(tasks, prefix="billing", queue="money")
app.include("shop.jobs", "shop.reports")
app.middleware(LogContext())


@app.on_worker_start
def connect() -> None: ...


@app.on_worker_stop(per="thread")
async def disconnect() -> None: ...


assert_type(charge.enqueue(1), JobHandle[str])
assert_type(charge(1), str)
assert_type(remind.enqueue(1).result(), int)
assert_type(Retry().delay(1, ValueError()), float | None)

charge.enqueue("1")  # error: mypy arg-type / pyright reportArgumentType
app.register(app)  # error: mypy arg-type / pyright reportArgumentType
app.on_worker_start(per="job")  # error: mypy call-overload / pyright reportArgumentType
Retry(retry_on="ValueError")  # error: mypy arg-type / pyright reportArgumentType

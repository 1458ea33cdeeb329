"""Tasks of Django, of the default backend."""

from __future__ import annotations

import asyncio
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connection

try:
    from django.tasks import task
except ModuleNotFoundError:
    from django_tasks import task

from stanchion import Bury, Snooze, current_job
from stanchion.errors import LeaseLost


class CardRefused(Exception):
    """An error of the shop."""


@task()
def add(one: int, two: int = 2) -> int:
    return one + two


@task
def echo(*args: Any, **kwargs: Any) -> Any:
    return [args, kwargs]


@task(priority=50, queue_name="mail")
def mail(user: str) -> str:
    return f"sent to {user}"


@task()
async def add_later(one: int, two: int) -> int:
    await asyncio.sleep(0)
    return one + two


@task()
def count(table: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {table}")
        return int(cursor.fetchone()[0])


@task()
async def count_later(table: str) -> Any:
    return await sync_to_async(count.func)(table)


@task()
async def query_later() -> Any:
    return await count_later.func("(SELECT 1) AS one")


@task(takes_context=True)
def attempt(context: Any, wanted: int) -> list[Any]:
    """Fail until the wanted attempt."""
    if context.attempt < wanted:
        raise CardRefused(f"attempt {context.attempt}")
    return [context.attempt, context.task_result.id, context.task_result.status, context.task_result.worker_ids]


@task(takes_context=True)
async def attempt_later(context: Any) -> list[Any]:
    return [context.attempt, context.task_result.id]


@task()
def pay(user: str, password: str) -> None: ...


@task()
def fail() -> None:
    raise CardRefused("no money")


@task(max_attempts=1, timeout=60)
def fail_once() -> None:
    raise CardRefused("no money")


@task()
def mistake() -> None:
    raise TypeError("of the task itself")


@task()
def leave() -> None:
    raise SystemExit("the task leaves")


@task()
def not_json() -> Any:
    return lambda: True


@task()
def bury() -> None:
    try:
        raise CardRefused("stolen")
    except CardRefused as error:
        raise Bury("the card is stolen") from error


@task()
def snooze_once() -> str:
    job = current_job()
    assert job is not None
    if job.checkpoint is None:
        raise Snooze(0, payload="snoozed")
    return "done"


@task()
def lose() -> None:
    raise LeaseLost("01a225d6-eca2-7075-b754-daec49649d99")

"""Enqueued tasks: their results, their queues, priorities and due times."""

from __future__ import annotations

import asyncio
import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connection, transaction
from django.test import TestCase

from stanchion import Stanchion
from stanchion.django.tasks.compat import InvalidTask, TaskResultDoesNotExist, TaskResultStatus
from stanchion.errors import InvalidInput


def test_a_result_is_ready_and_then_successful(shop: Any, app: Stanchion) -> None:
    result = shop.add.enqueue(1, two=3)
    assert (result.status, result.args, result.kwargs) == (TaskResultStatus.READY, [1], {"two": 3})
    assert (result.started_at, result.finished_at, result.last_attempted_at) == (None, None, None)
    assert (result.worker_ids, result.errors, result.backend, result.task) == ([], [], "default", shop.add)
    assert shop.add.get_result(result.id) == result
    with pytest.raises(ValueError, match="not finished"):
        result.return_value  # noqa: B018 - it raises
    assert app.drain() == 1
    result.refresh()
    assert (result.status, result.return_value, result.attempts) == (TaskResultStatus.SUCCESSFUL, 4, 1)
    assert result.enqueued_at <= result.started_at <= result.finished_at
    assert result.last_attempted_at == result.started_at


def test_coroutines_enqueue_and_read(shop: Any, app: Stanchion) -> None:
    async def enqueue() -> Any:
        result = await shop.add_later.aenqueue(1, 2)
        assert await shop.add_later.aget_result(result.id) == result
        return result

    result = async_to_sync(enqueue)()
    app.drain()
    async_to_sync(result.arefresh)()
    assert result.return_value == 3


@pytest.mark.parametrize("run", [lambda main: async_to_sync(main)(), lambda main: asyncio.run(main())])
@pytest.mark.parametrize("twin", [True, False])
def test_coroutines_drain(shop: Any, app: Stanchion, run: Any, twin: bool) -> None:
    async def main() -> Any:
        result = await shop.query_later.aenqueue()
        await (app.adrain() if twin else sync_to_async(app.drain)())
        await result.arefresh()
        return result.return_value

    assert run(main) == 1


def test_a_drained_task_has_the_connections_of_the_caller(shop: Any, app: Stanchion) -> None:
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("CREATE TEMPORARY TABLE seen (id int)")
        with app.testing():
            with TestCase.captureOnCommitCallbacks(execute=True):
                results = [one.enqueue("seen") for one in (shop.count, shop.count_later)]
            app.drain()
            for result in results:
                result.refresh()
            assert [result.return_value for result in results] == [0, 0]


def test_the_job_has_the_name_queue_and_priority_of_the_task(shop: Any, app: Stanchion) -> None:
    result = shop.mail.enqueue("ada")
    job = app.get(result.id)
    assert job is not None
    assert (job.task, job.queue, job.priority) == ("tests.django.backend.tasks.mail", "mail", 50)
    other = shop.mail.using(priority=-100, queue_name="default").enqueue("bob")
    assert shop.mail.get_result(other.id) == other
    assert (other.task.priority, other.task.queue_name) == (-100, "default")
    assert [one.id for one in app.find(task="tests.django.backend.tasks.mail")] == [other.id, result.id]


def test_the_highest_priority_runs_first(shop: Any, app: Stanchion) -> None:
    results = [shop.echo.using(priority=priority).enqueue() for priority in (-100, 0, 100)]
    with app.queue("default").reserve(1)[0] as job:
        assert job.id == results[-1].id


def test_run_after_is_the_due_time_and_part_of_the_result(shop: Any, app: Stanchion) -> None:
    at = datetime.now(UTC) + timedelta(days=1)
    result = shop.add.using(run_after=at).enqueue(1)
    job = app.get(result.id)
    assert job is not None
    assert (job.run_at, job.state) == (at, "scheduled")
    assert result.status == TaskResultStatus.READY
    assert shop.add.get_result(result.id).task.run_after == at
    assert app.drain() == 0


def test_arguments_are_normalised_and_checked(shop: Any, app: Stanchion) -> None:
    result = shop.echo.enqueue((1, 2), b"text", {"a": (3,)}, key=[None])
    assert (result.args, result.kwargs) == ([[1, 2], "text", {"a": [3]}], {"key": [None]})
    assert shop.echo.get_result(result.id) == result
    with pytest.raises(TypeError, match="Unsupported type"):
        shop.echo.enqueue(datetime.now(UTC))
    with pytest.raises(InvalidInput, match="three"):
        shop.add.enqueue(1, three=3)
    with pytest.raises(InvalidInput, match="one"):
        shop.add.enqueue()
    assert app.queue("default").size().total == 1


def test_an_invalid_queue_is_refused(shop: Any) -> None:
    for name in ("other", "", "a\nb"):
        with pytest.raises(InvalidTask):
            shop.add.using(queue_name=name)


def test_unknown_results_do_not_exist(shop: Any, app: Stanchion) -> None:
    bare = app.queue("default").push({"args": []})
    alien = app.enqueue("tests.django.backend.tasks.missing")
    for result_id in ("123", 123, None, "01a225d6-eca2-7075-b754-daec49649d99", bare.id, alien.id):
        with pytest.raises(TaskResultDoesNotExist):
            shop.add.get_result(result_id)


def test_tasks_and_results_can_be_pickled(shop: Any) -> None:
    result = shop.add.enqueue(1)
    again = pickle.loads(pickle.dumps(shop.add.get_result(result.id)))  # noqa: S301 - our own
    assert again == result


def test_any_queue_is_served_without_a_list(configured: Any, tmp_path: Any) -> None:
    from stanchion.django import app_of
    from tests.django.backend.conftest import imported, settings_of

    configured({"default": settings_of(f"sqlite:///{tmp_path / 'shop.db'}")}, queues=[])
    shop = imported()
    result = shop.add.using(queue_name="any name").enqueue(1)
    assert app_of().drain() == 1
    result.refresh()
    assert result.return_value == 3


def test_times_are_naive_without_time_zones(configured: Any, tmp_path: Any) -> None:
    from stanchion.django import app_of
    from tests.django.backend.conftest import imported, settings_of

    configured({"default": settings_of(f"sqlite:///{tmp_path / 'shop.db'}")}, USE_TZ=False, TIME_ZONE="Asia/Tokyo")
    shop = imported()
    at = datetime(2020, 1, 1)
    result = shop.add.using(run_after=at).enqueue(1)
    assert app_of().drain() == 1
    result.refresh()
    assert result.task.run_after == at
    assert {result.enqueued_at.tzinfo, result.started_at.tzinfo, result.finished_at.tzinfo} == {None}
    job = app_of().get(result.id)
    assert job is not None
    assert job.run_at == datetime(2019, 12, 31, 15, tzinfo=UTC)

"""Tasks enqueued within `transaction.atomic`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import TestCase

from stanchion import Stanchion
from stanchion.django.tasks.compat import TaskResultDoesNotExist, TaskResultStatus, task_enqueued
from tests.django.backend.conftest import Settings, imported, settings_of


@contextmanager
def lost() -> Iterator[None]:
    """A block of Django that is rolled back."""
    with suppress(ZeroDivisionError), transaction.atomic():
        yield
        raise ZeroDivisionError


def test_a_task_is_stored_with_the_block_and_gone_with_it(shop: Any, app: Stanchion) -> None:
    with lost():
        gone = shop.add.enqueue(1)
    with transaction.atomic():
        with lost():
            also_gone = shop.add.enqueue(2)
        kept = shop.add.enqueue(3)
        assert app.get(kept.id) is None
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM stanchion_jobs")
            assert cursor.fetchone() == (1,)  # this transaction has stored it
    assert shop.add.get_result(kept.id) == kept
    for result in (gone, also_gone):
        with pytest.raises(TaskResultDoesNotExist):
            shop.add.get_result(result.id)
    assert app.queue("default").size().total == 1


def test_the_transaction_reads_its_own_results(shop: Any, app: Stanchion) -> None:
    with transaction.atomic():
        result = shop.add.enqueue(1)
        with lost():
            gone = shop.add.enqueue(2)
            assert shop.add.get_result(gone.id) == gone
        with pytest.raises(TaskResultDoesNotExist):
            shop.add.get_result(gone.id)
        result.refresh()
        assert result.status == TaskResultStatus.READY
        assert shop.add.get_result(result.id) == result
    app.drain()
    result.refresh()
    assert result.return_value == 3


def test_a_connection_without_autocommit_joins_too(shop: Any, app: Stanchion) -> None:
    connection.set_autocommit(False)
    try:
        for end in (connection.rollback, connection.commit):
            shop.echo.enqueue(end.__name__)
            end()
    finally:
        connection.set_autocommit(True)
    assert [job.payload["args"] for job in app.queue("default").find()] == [["commit"]]


def test_outside_of_a_block_a_task_is_stored_at_once(shop: Any, app: Stanchion) -> None:
    result = shop.add.enqueue(1)
    assert app.get(result.id) is not None


def test_a_store_elsewhere_gets_the_task_after_the_commit(remote: Any) -> None:
    from stanchion.django import app_of

    app = app_of()
    heard: list[str] = []

    def receive(task_result: Any, **_: Any) -> None:
        heard.append(task_result.id)

    task_enqueued.connect(receive)
    try:
        with lost():
            gone = remote.add.enqueue(1)
        with transaction.atomic():
            result = remote.add.enqueue(2)
            assert (result.status, result.enqueued_at, heard) == (TaskResultStatus.READY, None, [])
            assert app.get(result.id) is None
        assert heard == [result.id]
        assert result.enqueued_at is not None
        assert remote.add.get_result(result.id) == result
        with pytest.raises(TaskResultDoesNotExist):
            remote.add.get_result(gone.id)
    finally:
        task_enqueued.disconnect(receive)


def test_a_result_outlives_the_callbacks_that_a_test_runs(shop: Any, app: Stanchion) -> None:
    with lost():
        with TestCase.captureOnCommitCallbacks(execute=True):
            result = shop.add.enqueue(1)
        assert shop.add.get_result(result.id) == result
        with app.testing():
            with TestCase.captureOnCommitCallbacks(execute=True):
                tested = shop.add.enqueue(1)
            app.drain()
            tested.refresh()
            assert tested.return_value == 3


def test_transactions_of_other_databases_are_waited_for(configured: Settings, url: str, tmp_path: Path) -> None:
    from stanchion.django import app_of

    default, other = (settings_of(f"sqlite:///{tmp_path / name}.db") for name in ("default", "other"))
    configured({"default": default, "other": other, "jobs": settings_of(url)}, {"database": "jobs"})
    shop, queue = imported(), app_of().queue("default")
    with transaction.atomic("other"):
        with lost():
            shop.echo.enqueue("lost with the other block")
        with transaction.atomic():
            shop.echo.enqueue("both commit")
        assert queue.size().total == 0
    assert queue.size().total == 1
    with suppress(ZeroDivisionError), transaction.atomic("other"):
        with transaction.atomic():
            shop.echo.enqueue("the outer block is lost")
        raise ZeroDivisionError
    assert queue.size().total == 1
    with lost(), transaction.atomic("jobs"):
        shop.echo.enqueue("the block of the store commits")
    assert [job.payload["args"] for job in queue.find()] == [["the block of the store commits"], ["both commit"]]


def test_the_signal_of_an_enqueue_comes_within_the_block(shop: Any) -> None:
    heard: list[Any] = []

    def receive(sender: type, task_result: Any, **_: Any) -> None:
        heard.append((sender.__name__, task_result.id, task_result.enqueued_at is None))

    task_enqueued.connect(receive)
    try:
        with transaction.atomic():
            result = shop.add.enqueue(1)
            assert heard == [("StanchionBackend", result.id, False)]
    finally:
        task_enqueued.disconnect(receive)


def test_a_test_sees_the_task_when_its_block_commits(shop: Any, app: Stanchion) -> None:
    with app.testing():
        with transaction.atomic():
            result = shop.add.enqueue(1)
            assert shop.add.get_result(result.id) == result
            assert app.drain() == 0
        assert app.drain() == 1
        result.refresh()
        assert result.return_value == 3
    with pytest.raises(TaskResultDoesNotExist):
        shop.add.get_result(result.id)

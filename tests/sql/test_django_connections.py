"""Django's connections as a caller's transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy.engine import URL, make_url

from stanchion import Stanchion
from stanchion.errors import CannotJoin

pytest.importorskip("django")

ENGINES = {"sqlite": "sqlite3", "postgresql": "postgresql", "mysql": "mysql"}


def settings_of(url: URL) -> dict[str, Any]:
    """Return the settings of a database."""
    return {
        "ENGINE": f"django.db.backends.{ENGINES[url.get_backend_name()]}",
        "NAME": url.database,
        "HOST": url.host or "",
        "PORT": url.port or "",
        "USER": url.username or "",
        "PASSWORD": url.password or "",
    }


@pytest.fixture
def django(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The connections, by alias: the store's database is `shop`, and `default` is another one."""
    from django import db
    from django.conf import settings
    from django.utils.connection import ConnectionProxy

    if url.startswith("m"):
        pytest.importorskip("MySQLdb", reason="mysqlclient is not installed")
    if not settings.configured:
        settings.configure(USE_TZ=True)
    here = db.ConnectionHandler(
        {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}, "shop": settings_of(make_url(url))}
    )
    monkeypatch.setattr(db, "connections", here)
    monkeypatch.setattr("django.db.transaction.connections", here)
    yield here, ConnectionProxy(here, "shop")
    here.close_all()


def test_a_job_is_stored_with_the_block_and_gone_with_it(app: Stanchion, django: Any) -> None:
    from django.db import transaction

    connections, proxy = django
    queue = app.queue("orders")
    queue.push("make the queue")
    for tx in (proxy, connections["shop"]):
        with suppress(RuntimeError), transaction.atomic("shop"):
            queue.push("lost", tx=tx)
            raise RuntimeError
        with transaction.atomic("shop"):
            with suppress(RuntimeError), transaction.atomic("shop"):
                queue.push("lost with the savepoint", tx=tx)
                raise RuntimeError
            queue.push("kept", tx=tx)
    queue.push("outside of a block", tx=proxy)
    payloads = [job.payload for job in queue.reserve(9)]
    assert payloads == ["make the queue", "kept", "kept", "outside of a block"]


def test_a_connection_without_autocommit_joins_too(app: Stanchion, django: Any) -> None:
    connections, _ = django
    queue = app.queue("orders")
    queue.push("make the queue")
    connection = connections["shop"]
    connection.set_autocommit(False)
    for end in (connection.rollback, connection.commit):
        queue.push(end.__name__, tx=connection)
        end()
    assert [job.payload for job in queue.reserve(9)] == ["make the queue", "commit"]


def test_the_commit_wakes_and_nothing_before(app: Stanchion, django: Any) -> None:
    from django.db import transaction

    _, proxy = django
    queue = app.queue("orders")
    queue.push("make the queue")
    queue.pop()
    listener = app.store.listen(["orders"])
    try:
        while listener.wait(0.5):
            pass
        with transaction.atomic("shop"):
            queue.push(1, tx=proxy)
            assert not listener.wait(0.1)
        assert listener.wait(60)
    finally:
        listener.close()


def test_another_database_and_another_thread_are_refused(app: Stanchion, django: Any) -> None:
    connections, proxy = django
    queue = app.queue("orders")
    queue.push("make the queue")
    with pytest.raises(CannotJoin):
        queue.push(1, tx=connections["default"])
    with pytest.raises(CannotJoin, match="sync_to_async"):
        asyncio.run(queue.apush(2, tx=proxy))
    assert queue.size().total == 1

"""Django with one of the SQL stores as its default database, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import make_url

from stanchion import Retry, Stanchion
from stanchion.stores.registry import open_store

Settings = Callable[..., Any]

ENGINES = {"sqlite": "sqlite3", "postgresql": "postgresql", "mysql": "mysql"}
BACKEND = "stanchion.django.StanchionBackend"
QUEUES = ["default", "mail"]


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty, set-up store."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("pg_store_url"))
    sqlite = request.param == "sqlite"
    if not sqlite:
        pytest.importorskip("MySQLdb", reason="mysqlclient is not installed")
    url: str = f"sqlite:///{tmp_path / 'jobs.db'}" if sqlite else request.getfixturevalue("mariadb_url")
    store = open_store(url)
    store.setup()
    store.close()
    return url


def settings_of(url: str) -> dict[str, Any]:
    """Return the settings of a database."""
    parsed = make_url(url)
    return {
        "ENGINE": f"django.db.backends.{ENGINES[parsed.get_backend_name()]}",
        "NAME": parsed.database,
        "HOST": parsed.host or "",
        "PORT": parsed.port or "",
        "USER": parsed.username or "",
        "PASSWORD": parsed.password or "",
    }


@pytest.fixture
def configured(monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """Sets Django's databases and the OPTIONS of the default backend; at the end, the apps made are closed."""
    from asgiref.local import Local
    from django.conf import settings
    from django.db import connections
    from django.test import override_settings

    if not settings.configured:
        settings.configure(USE_TZ=True)
    from stanchion.django.tasks import shared

    made: list[Any] = []
    monkeypatch.setattr(shared, "_made", made)
    monkeypatch.setattr(connections, "_connections", Local(thread_critical=True))
    with ExitStack() as stack:

        def configure(
            databases: dict[str, Any], options: dict[str, Any] | None = None, queues: list[str] = QUEUES, **more: Any
        ) -> None:
            monkeypatch.setitem(vars(connections), "settings", connections.configure_settings(databases))
            params = {"BACKEND": BACKEND, "QUEUES": queues, "OPTIONS": options or {}}
            stack.enter_context(override_settings(**{"USE_TZ": True, "TASKS": {"default": params}, **more}))

        yield configure
        connections.close_all()
        for one in made:
            one.app.close()


@pytest.fixture
def shop(configured: Settings, url: str) -> Any:
    """The module of tasks, with the store in the default database, with a retry policy without delays."""
    configured({"default": settings_of(url)}, {"retry": Retry.constant(0, max_attempts=3)})
    return imported()


@pytest.fixture
def remote(configured: Settings, tmp_path: Path) -> Any:
    """The module of tasks, with a store elsewhere, in memory."""
    configured({"default": settings_of(f"sqlite:///{tmp_path / 'shop.db'}")}, {"url": "memory://"})
    return imported()


def imported() -> Any:
    from tests.django.backend import tasks

    return tasks


@pytest.fixture
def app(shop: Any) -> Stanchion:  # noqa: ARG001 - it configures Django
    from stanchion.django import app_of

    return app_of()

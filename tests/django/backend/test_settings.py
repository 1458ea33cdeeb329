"""The settings of a backend: the store of a database, OPTIONS, and the checks of both."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from sqlalchemy.engine import make_url

from stanchion import Retry
from stanchion.errors import InvalidInput
from stanchion.stores.registry import open_store
from tests.django.backend.conftest import Settings, imported, settings_of

ENGINE = "django.db.backends"


def url_with(configured: Settings, **database: Any) -> str:
    """Return the URL of the store in a database with these settings."""
    from stanchion.django.databases.database import url_of

    configured({"default": {"HOST": "", "PORT": "", "USER": "", "PASSWORD": "", **database}})
    return url_of("default")


@pytest.mark.parametrize(
    ("database", "expected"),
    [
        ({"ENGINE": f"{ENGINE}.sqlite3", "NAME": Path("/srv/my shop.db")}, "sqlite:////srv/my shop.db"),
        (
            {"ENGINE": f"{ENGINE}.postgresql", "NAME": "shop", "USER": "ada", "PASSWORD": "p@ss/:", "HOST": "db"},
            "postgresql+psycopg://ada:p%40ss%2F%3A@db/shop",
        ),
        (
            {
                "ENGINE": f"{ENGINE}.postgresql",
                "NAME": "shop",
                "HOST": "/run/postgresql",
                "PORT": "5433",
                "OPTIONS": {"sslmode": "require", "isolation_level": 1},
            },
            "postgresql+psycopg://:5433/shop?host=%2Frun%2Fpostgresql&sslmode=require",
        ),
        (
            {
                "ENGINE": f"{ENGINE}.mysql",
                "NAME": "shop",
                "USER": "ada",
                "PORT": 3307,
                "OPTIONS": {"charset": "utf8mb4", "ssl": {"ca": "/ca.pem"}},
            },
            "mysql://ada@localhost:3307/shop?ssl_ca=%2Fca.pem",
        ),
        (
            {"ENGINE": f"{ENGINE}.mysql", "NAME": "shop", "HOST": "/run/mysqld.sock"},
            "mysql://localhost/shop?unix_socket=%2Frun%2Fmysqld.sock",
        ),
        (
            {"ENGINE": f"{ENGINE}.mysql", "NAME": "", "OPTIONS": {"read_default_file": "/etc/shop.cnf"}},
            "mysql://?read_default_file=%2Fetc%2Fshop.cnf",
        ),
        (
            {"ENGINE": f"{ENGINE}.postgresql", "NAME": "", "OPTIONS": {"service": "shop"}},
            "postgresql+psycopg://?service=shop",
        ),
        (
            {
                "ENGINE": f"{ENGINE}.postgresql",
                "NAME": "shop",
                "HOST": "a,b",
                "PORT": "5432,5433",
                "OPTIONS": {"target_session_attrs": "read-write"},
            },
            "postgresql+psycopg:///shop?host=a%2Cb&port=5432%2C5433&target_session_attrs=read-write",
        ),
        (
            {
                "ENGINE": f"{ENGINE}.postgresql",
                "NAME": "shop",
                "OPTIONS": {"assume_role": "The Shop", "options": "-c search_path=shop"},
            },
            "postgresql+psycopg:///shop?options=-c+search_path%3Dshop+-c+role%3DThe%5C+Shop",
        ),
    ],
)
def test_a_database_is_a_store(configured: Settings, database: dict[str, Any], expected: str) -> None:
    if "mysql" in database["ENGINE"]:
        pytest.importorskip("MySQLdb")
    found = url_with(configured, **database)
    assert make_url(found) == make_url(expected)
    open_store(found).close()


@pytest.mark.parametrize("name", ["", ":memory:", "file:memorydb_default?mode=memory&cache=shared"])
def test_a_database_in_memory_is_no_store(configured: Settings, name: str) -> None:
    with pytest.raises(InvalidInput, match=r"\['TEST'\]\['NAME'\].*testing"):
        url_with(configured, ENGINE=f"{ENGINE}.sqlite3", NAME=name)


def test_a_database_in_memory_can_be_tested(configured: Settings) -> None:
    from django.db import transaction

    from stanchion.django import app_of

    configured({"default": {"ENGINE": f"{ENGINE}.sqlite3", "NAME": ":memory:"}})
    shop, app = imported(), app_of()
    with app.testing():
        with transaction.atomic():
            result = shop.add.enqueue(1)
        app.drain()
        result.refresh()
        assert result.return_value == 3


def test_another_vendor_is_no_store(configured: Settings) -> None:
    from stanchion.django.databases.database import url_of

    configured({"default": {"ENGINE": "django.db.backends.dummy", "NAME": "shop"}})
    with pytest.raises(InvalidInput, match=r"'default' is unknown.*url in OPTIONS"):
        url_of("default")


def test_the_store_follows_the_name_of_the_database(configured: Settings, tmp_path: Path) -> None:
    from django.db import connection

    from stanchion.django import app_of

    configured({"default": settings_of(f"sqlite:///{tmp_path / 'shop.db'}")})
    shop, app = imported(), app_of()
    first = shop.add.enqueue(1)
    connection.settings_dict["NAME"] = str(tmp_path / "test_shop.db")
    second = shop.add.enqueue(2)
    assert app_of() is app
    assert [app.get(one.id) is not None for one in (first, second)] == [False, True]


def test_there_is_one_app_in_a_process(configured: Settings, tmp_path: Path) -> None:
    from stanchion.django import app_of

    configured({"default": settings_of(f"sqlite:///{tmp_path / 'shop.db'}")})
    apps: list[Any] = []
    threads = [threading.Thread(target=lambda: apps.append(app_of())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {*map(id, apps)} == {id(app_of())}


def test_another_backend_has_no_app(configured: Settings, tmp_path: Path) -> None:
    from django.test import override_settings

    from stanchion.django import app_of
    from stanchion.django.tasks.compat import BaseTaskBackend

    dummy = f"{BaseTaskBackend.__module__.rpartition('.')[0]}.dummy.DummyBackend"
    configured({"default": settings_of(f"sqlite:///{tmp_path / 'shop.db'}")})
    with (
        override_settings(TASKS={"default": {"BACKEND": dummy}}),
        pytest.raises(ImproperlyConfigured, match=r"DummyBackend.*StanchionBackend"),
    ):
        app_of()


@pytest.mark.parametrize(
    ("options", "queues", "expected"),
    [
        ({"retry": Retry(5), "timeout": 60, "url": "memory://"}, ["default"], []),
        ({"max_atempts": 3}, ["default"], [("stanchion.E001", "'max_atempts'")]),
        ({"database": "default", "url": "memory://"}, ["default"], [("stanchion.E001", "one of them")]),
        ({"database": "other"}, ["default"], [("stanchion.E002", "'other'")]),
        ({"retry": 3}, ["default"], [("stanchion.E003", "Retry")]),
        ({"url": "jobs.db"}, ["default"], [("stanchion.E003", "jobs.db")]),
        ({}, ["default", "a\nb"], [("stanchion.E004", "printable")]),
    ],
)
def test_the_system_check_names_what_is_wrong(
    configured: Settings,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    options: Any,
    queues: list[str],
    expected: list[tuple[str, str]],
) -> None:
    from django.conf import settings

    from stanchion.django.tasks.compat import task_backends

    configured({"default": settings_of(f"sqlite:///{tmp_path / 'shop.db'}")}, options, queues)
    monkeypatch.setattr(settings, "INSTALLED_APPS", ["stanchion.django"])
    found = list(task_backends["default"].check())
    assert [(one.id, word in one.msg) for one, (_, word) in zip(found, expected, strict=True)] == [
        (number, True) for number, _ in expected
    ]
    assert all(one.msg.startswith("TASKS['default']") and one.hint for one in found)


def test_a_database_in_memory_passes_the_system_check_in_a_test_run(
    configured: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.conf import settings
    from django.core import mail

    from stanchion.django.tasks.compat import task_backends

    configured({"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}})
    monkeypatch.setattr(settings, "INSTALLED_APPS", ["stanchion.django"])
    assert [one.id for one in task_backends["default"].check()] == ["stanchion.E003"]
    monkeypatch.setattr(mail, "outbox", [], raising=False)
    assert not list(task_backends["default"].check())


def test_the_system_check_asks_for_the_application(
    configured: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from django.conf import settings

    from stanchion.django.tasks.compat import task_backends

    configured({"default": settings_of(f"sqlite:///{tmp_path / 'shop.db'}")})
    monkeypatch.setattr(settings, "INSTALLED_APPS", [])
    assert [one.id for one in task_backends["default"].check()] == ["stanchion.W003"]


def test_an_unknown_option_is_refused_at_the_first_use(configured: Settings, tmp_path: Path) -> None:
    configured({"default": settings_of(f"sqlite:///{tmp_path / 'shop.db'}")}, {"max_atempts": 3})
    with pytest.raises(ImproperlyConfigured, match="max_atempts"):
        imported().add.enqueue(1)

"""Addresses of MariaDB: schemes, sockets, what is wrong for good, and which versions will do."""

from __future__ import annotations

import time
from contextlib import closing

import pytest
from sqlalchemy.engine import make_url
from tests.servers.mariadb import MariaDBServer

from stanchion.errors import InvalidInput, StoreUnavailable
from stanchion.stores.mariadb.dialect import refuse_old
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.registry import open_store


@pytest.mark.parametrize("scheme", ["mysql", "mariadb", "mysql+pymysql", "mariadb+pymysql"])
def test_its_schemes(store: Store, mariadb_url: str, scheme: str) -> None:
    with closing(open_store(mariadb_url.replace("mysql", scheme, 1))) as same:
        same.check()
        assert abs(same.now() - store.now()) < SECOND


@pytest.mark.usefixtures("store")
def test_its_unix_socket(mariadb_server: MariaDBServer, mariadb_url: str) -> None:
    database = make_url(mariadb_url).database
    user = f"{mariadb_server.user}:{mariadb_server.password}"
    with closing(open_store(f"mysql://{user}@localhost/{database}?unix_socket={mariadb_server.socket}")) as same:
        same.check()


def test_another_driver_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"use mysql://\.\.\., not mysql\+mysqldb"):
        open_store("mysql+mysqldb://u:p@h/db")


def test_the_database_must_be_named() -> None:
    with pytest.raises(InvalidInput, match="names no database; write mariadb://user:password@host:port/database"):
        open_store("mariadb://u:p@h")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"password": "wrong"}, "Access denied"),
        ({"username": "nobody"}, "Access denied"),
        ({"database": "missing"}, "denied"),
        ({"host": "no.such.host.invalid"}, "Can't connect"),
    ],
)
def test_what_is_wrong_for_good_is_told_at_once(mariadb_url: str, change: dict[str, str], reason: str) -> None:
    url = make_url(mariadb_url).set(**change)  # type: ignore[arg-type]
    started = time.monotonic()
    with pytest.raises(StoreUnavailable, match=reason) as told:
        open_store(url.render_as_string(hide_password=False)).now()
    assert time.monotonic() - started < 50
    assert "secret" not in str(told.value)
    assert "wrong" not in str(told.value)


@pytest.mark.parametrize("version", ["5.7.44-log", "8.0.16", "5.5.5-10.5.29-MariaDB-1:10.5.29+maria~ubu2004"])
def test_an_old_server_is_refused(version: str) -> None:
    with pytest.raises(StoreUnavailable, match=r"too old; use (MariaDB 10\.6|MySQL 8\.0\.17) or later"):
        refuse_old(version)


@pytest.mark.parametrize("version", ["8.0.17", "8.4.3-0ubuntu1", "9.1.0", "5.5.5-10.6.0-MariaDB", "11.8.2-MariaDB-log"])
def test_a_newer_one_is_not(version: str) -> None:
    refuse_old(version)

"""The clock of MariaDB, whatever the time zone of the session."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from tests.servers.mariadb import MariaDBServer
from tests.sql.mariadb.sessions import connect

from stanchion import Stanchion
from stanchion.stores.mariadb.statements import CLOCK
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND


@pytest.fixture(scope="session")
def paris(mariadb_server: MariaDBServer) -> str:
    """A time zone that the server knows, with summer time."""
    made = subprocess.run(
        ["mariadb-tzinfo-to-sql", "--skip-write-binlog", "/usr/share/zoneinfo/Europe/Paris", "Europe/Paris"],
        capture_output=True,
        text=True,
        check=True,
    )
    with mariadb_server.connect_as_root() as connection, connection.cursor() as cursor:
        cursor.execute("USE mysql")
        for statement in made.stdout.split(";\n"):
            if statement.strip().upper().startswith(("INSERT", "SET @")):
                cursor.execute(statement)
    return "Europe/Paris"


@pytest.mark.parametrize("zone", ["SYSTEM", "-11:00", "+13:00", "paris"])
def test_the_clock_knows_no_zones_and_no_summer_time(
    mariadb_url: str, zone: str, request: pytest.FixtureRequest
) -> None:
    name = request.getfixturevalue("paris") if zone == "paris" else zone
    with connect(mariadb_url) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = %s", [name])
        # In Paris clocks go back at 1792893600: the hour from there on has the same names as the one before.
        for second in (1_774_745_999, 1_774_746_000, 1_792_889_999, 1_792_890_000, 1_792_893_599, 1_792_893_600):
            cursor.execute("SET timestamp = %s", [second + 0.25])
            cursor.execute(f"SELECT {CLOCK}")
            assert cursor.fetchone() == (second * SECOND + 250_000,)


def test_a_session_in_another_zone_pushes_what_is_due_now(store: Store, app: Stanchion, mariadb_url: str) -> None:
    with connect(mariadb_url) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+13:00'")
        app.queue("orders").push(1, tx=connection)
        app.queue("orders").push(2, delay=60, tx=connection)
        connection.commit()

    def popped() -> Any:
        job = app.queue("orders").pop()
        return job and job.payload

    assert [popped(), popped()] == [1, None]
    store.clock_offset += 61
    assert [popped(), popped()] == [2, None]

"""Names and options in the URL of a PostgreSQL store that take escapes, on each connection of the store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import make_url
from tests.servers.postgres import PostgresServer

from stanchion import Stanchion
from stanchion.stores.registry import open_store

NAME = "50% of the shop + é"


@pytest.fixture
def url(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of a database whose name takes escapes, as is the password; its tables are in a schema of options."""
    postgres_server.create_database(NAME)
    address = make_url(postgres_server.url()).set(database=NAME, password="a b+c%")
    with psycopg.connect(postgres_server.url(), dbname=NAME, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA shop")
    query = {"options": "-c search_path=shop"}
    yield address.set(query=query).render_as_string(hide_password=False)
    postgres_server.drop_database(NAME)


def test_every_connection_takes_escaped_names_and_options(url: str, postgres_server: PostgresServer) -> None:
    with closing(open_store(url)) as store:
        store.setup()
    listening = psycopg.connect(postgres_server.url(), dbname=NAME, autocommit=True)
    with listening, closing(Stanchion(url)) as app:
        listening.execute("LISTEN stanchion")
        job = app.task(name="count")(len).enqueue("abc")
        assert [one.payload for one in listening.notifies(timeout=60, stop_after=1)] == ["default"]
        app.drain()
        done = app.get(job.id)
        assert done is not None
        assert done.result == 3
        count = sql.SQL("SELECT count(*) FROM shop.stanchion_meta")
        assert listening.execute(count).fetchall() == [(1,)]

"""Transactions of callers, in every form that `tx` takes."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, closing, contextmanager
from typing import Any, NamedTuple

import aiosqlite
import asyncpg
import psycopg
import pymysql
import pytest
from asyncmy import connect as connect_asyncmy
from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

INSERT = "INSERT INTO effects VALUES ('order')"
ASYNC = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg", "mysql": "mysql+asyncmy"}
SYNC = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}


class Open(NamedTuple):
    """An open transaction."""

    tx: Any
    run: Callable[[str], Any]
    commit: Callable[[], Any]
    rollback: Callable[[], Any]


Sync = Callable[[URL], AbstractContextManager[Open]]
Async = Callable[[URL], AbstractAsyncContextManager[Open]]


def address(url: URL) -> dict[str, Any]:
    """Return the arguments of MySQL's drivers."""
    return {
        "host": url.host,
        "port": url.port,
        "user": url.username,
        "password": url.password or "",
        "database": url.database,
    }


def plain(url: URL) -> str:
    """Return the URL of a PostgreSQL database for its drivers."""
    return url.set(drivername="postgresql").render_as_string(hide_password=False)


@contextmanager
def session(url: URL) -> Iterator[Open]:
    engine = create_engine(url.set(drivername=SYNC[url.get_backend_name()]))
    with Session(engine) as session:
        yield Open(session, lambda sql: session.execute(text(sql)), session.commit, session.rollback)
    engine.dispose()


@contextmanager
def scoped(url: URL) -> Iterator[Open]:
    engine = create_engine(url.set(drivername=SYNC[url.get_backend_name()]))
    session = scoped_session(sessionmaker(engine))
    yield Open(session, lambda sql: session.execute(text(sql)), session.commit, session.rollback)
    session.remove()
    engine.dispose()


@contextmanager
def connection(url: URL) -> Iterator[Open]:
    engine = create_engine(url.set(drivername=SYNC[url.get_backend_name()]))
    with engine.connect() as connection:
        yield Open(connection, lambda sql: connection.execute(text(sql)), connection.commit, connection.rollback)
    engine.dispose()


def _dbapi(connect: Callable[[URL], Any]) -> Sync:
    @contextmanager
    def opened(url: URL) -> Iterator[Open]:
        with closing(connect(url)) as connection:
            run = connection.cursor().execute
            yield Open(connection, run, connection.commit, connection.rollback)

    return opened


def _mysqlclient(url: URL) -> Any:
    return pytest.importorskip("MySQLdb", reason="mysqlclient is not installed").connect(**address(url))


SYNC_FORMS: dict[str, Sync] = {
    "any session": session,
    "any scoped session": scoped,
    "any connection": connection,
    "sqlite sqlite3": _dbapi(lambda url: sqlite3.connect(url.database or "")),
    "postgresql psycopg": _dbapi(lambda url: psycopg.connect(plain(url))),
    "mysql pymysql": _dbapi(lambda url: pymysql.connect(**address(url))),
    "mysql mysqlclient": _dbapi(_mysqlclient),
}


@asynccontextmanager
async def async_session(url: URL) -> AsyncIterator[Open]:
    engine = create_async_engine(url.set(drivername=ASYNC[url.get_backend_name()], query={}))
    async with AsyncSession(engine) as session:
        yield Open(session, lambda sql: session.execute(text(sql)), session.commit, session.rollback)
    await engine.dispose()


@asynccontextmanager
async def async_scoped(url: URL) -> AsyncIterator[Open]:
    engine = create_async_engine(url.set(drivername=ASYNC[url.get_backend_name()], query={}))
    session = async_scoped_session(async_sessionmaker(engine), scopefunc=lambda: 1)
    yield Open(session, lambda sql: session.execute(text(sql)), session.commit, session.rollback)
    await session.remove()
    await engine.dispose()


@asynccontextmanager
async def async_connection(url: URL) -> AsyncIterator[Open]:
    engine = create_async_engine(url.set(drivername=ASYNC[url.get_backend_name()], query={}))
    async with engine.connect() as connection:
        yield Open(connection, lambda sql: connection.execute(text(sql)), connection.commit, connection.rollback)
    await engine.dispose()


@asynccontextmanager
async def async_psycopg_session(url: URL) -> AsyncIterator[Open]:
    engine = create_async_engine(url.set(drivername="postgresql+psycopg"))
    async with AsyncSession(engine) as session:
        yield Open(session, lambda sql: session.execute(text(sql)), session.commit, session.rollback)
    await engine.dispose()


@asynccontextmanager
async def async_psycopg(url: URL) -> AsyncIterator[Open]:
    async with await psycopg.AsyncConnection.connect(plain(url)) as connection:
        yield Open(connection, connection.execute, connection.commit, connection.rollback)


@asynccontextmanager
async def of_asyncpg(url: URL) -> AsyncIterator[Open]:
    connection = await asyncpg.connect(plain(url))
    # As many programs do.
    await connection.set_type_codec("jsonb", encoder=repr, decoder=repr, schema="pg_catalog")
    transaction = connection.transaction()
    await transaction.start()
    try:
        yield Open(connection, connection.execute, transaction.commit, transaction.rollback)
    finally:
        await connection.close()


@asynccontextmanager
async def pooled_asyncpg(url: URL) -> AsyncIterator[Open]:
    async with asyncpg.create_pool(plain(url), min_size=1) as pool, pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        yield Open(connection, connection.execute, transaction.commit, transaction.rollback)


@asynccontextmanager
async def of_asyncmy(url: URL) -> AsyncIterator[Open]:
    connection = await connect_asyncmy(**address(url))

    async def run(sql: str) -> None:
        async with connection.cursor() as cursor:
            await cursor.execute(sql)

    try:
        yield Open(connection, run, connection.commit, connection.rollback)
    finally:
        await connection.ensure_closed()


@asynccontextmanager
async def of_aiosqlite(url: URL) -> AsyncIterator[Open]:
    async with aiosqlite.connect(url.database or "") as connection:
        yield Open(connection, connection.execute, connection.commit, connection.rollback)


ASYNC_FORMS: dict[str, Async] = {
    "any session": async_session,
    "any scoped session": async_scoped,
    "any connection": async_connection,
    "sqlite aiosqlite": of_aiosqlite,
    "postgresql psycopg session": async_psycopg_session,
    "postgresql psycopg": async_psycopg,
    "postgresql asyncpg": of_asyncpg,
    "postgresql asyncpg pool": pooled_asyncpg,
    "mysql asyncmy": of_asyncmy,
}


def forms_for(forms: dict[str, Any]) -> list[Any]:
    """Return the parameters of a test: each form on each database that it is for."""
    stores = {"sqlite": "sqlite", "postgresql": "postgresql", "mysql": "mariadb"}
    return [
        pytest.param(stores[kind], form, id=f"{stores[kind]}-{name.partition(' ')[2].replace(' ', '-')}")
        for name, form in forms.items()
        for kind in stores
        if name.partition(" ")[0] in ("any", kind)
    ]


def parsed(url: str) -> URL:
    return make_url(url)

"""What `tx` takes, and what it refuses."""

import sqlite3
from typing import Any

import psycopg
import pymysql
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session, scoped_session

from stanchion import Queue, Reservation, Stanchion
from stanchion.core.transactions import Transaction

app = Stanchion("sqlite:///shop.db")


@app.task
def charge(order: int) -> str:
    return f"charged {order}"


def synchronous(
    queue: Queue,
    session: Session,
    scoped: scoped_session[Session],
    connection: Connection,
    file: sqlite3.Connection,
    postgres: "psycopg.Connection[Any]",
    mysql: "pymysql.Connection[Any]",
    any_of_them: Transaction,
) -> None:
    charge.using(tx=session).enqueue(1)
    queue.push(1, tx=scoped)
    queue.push(1, tx=connection)
    queue.push_many([1], tx=file)
    queue.push(1, tx=postgres)
    queue.push(1, tx=mysql)
    queue.push(1, tx=any_of_them)


async def asynchronous(
    queue: Queue,
    job: Reservation,
    session: AsyncSession,
    connection: AsyncConnection,
    postgres: "psycopg.AsyncConnection[Any]",
) -> None:
    await charge.using(tx=session).aenqueue(1)
    await queue.apush(1, tx=connection)
    await job.acommit(tx=postgres)


def wrong(queue: Queue, engine: Engine) -> None:
    queue.push(1, tx=engine)  # error: mypy arg-type / pyright reportArgumentType
    charge.using(tx="session").enqueue(1)  # error: mypy arg-type / pyright reportArgumentType

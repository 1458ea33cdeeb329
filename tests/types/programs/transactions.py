"""What `tx` takes, and what it refuses."""

import sqlite3
from typing import Any

import psycopg
import pymysql
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.client_session import ClientSession
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session, scoped_session

from stanchion import Queue, Reservation, Stanchion, Transaction

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
    mongo: ClientSession,
    any_of_them: Transaction,
) -> None:
    charge.using(tx=session).enqueue(1)
    queue.push(1, tx=scoped)
    queue.push(1, tx=connection)
    queue.push_many([1], tx=file)
    queue.push(1, tx=postgres)
    queue.push(1, tx=mysql)
    queue.push(1, tx=mongo)
    queue.push(1, tx=any_of_them)


async def asynchronous(
    queue: Queue,
    job: Reservation,
    session: AsyncSession,
    connection: AsyncConnection,
    postgres: "psycopg.AsyncConnection[Any]",
    mongo: AsyncClientSession,
) -> None:
    await charge.using(tx=session).aenqueue(1)
    await queue.apush(1, tx=connection)
    await job.acommit(tx=postgres)
    await charge.using(tx=mongo).aenqueue(1)


class Orders:
    """A service of a shop, which takes whatever transaction its caller has open."""

    def __init__(self, queue: Queue, tx: Transaction | None = None) -> None:
        self.queue, self.tx = queue, tx

    def placed(self, order: int) -> None:
        charge.using(tx=self.tx).enqueue(order)
        self.queue.push(order, tx=self.tx)


def of_a_dependency(queue: Queue, session: Session, engine: Engine) -> None:
    Orders(queue, session).placed(1)
    Orders(queue, engine)  # error: mypy arg-type / pyright reportArgumentType


def wrong(queue: Queue, engine: Engine) -> None:
    queue.push(1, tx=engine)  # error: mypy arg-type / pyright reportArgumentType
    charge.using(tx="session").enqueue(1)  # error: mypy arg-type / pyright reportArgumentType

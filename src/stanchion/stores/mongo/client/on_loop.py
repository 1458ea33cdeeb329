"""Collections of an AsyncMongoClient in the synchronous form of the store's commands; see `core.concurrency.caller`.

Each command runs on the event loop of its client, as part of the task that awaits the call, and within the call's
time-out.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Self, TypeVar, cast

from pymongo import AsyncMongoClient, MongoClient
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.cursor import AsyncCursor
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.database import Database

from stanchion.core.concurrency.caller import awaited
from stanchion.stores.mongo.client.documents import Document

T = TypeVar("T")

AnyClient = MongoClient[Document] | AsyncMongoClient[Document]
AnySession = ClientSession | AsyncClientSession


def database_of(client: AnyClient, name: str, **options: Any) -> Database[Document]:
    """Return a database of a client, in synchronous form."""
    if isinstance(client, AsyncMongoClient):
        return cast("Database[Document]", _DatabaseOnLoop(client.get_database(name, **options)))
    return client.get_database(name, **options)


class _DatabaseOnLoop:
    def __init__(self, database: AsyncDatabase[Document]) -> None:
        self._database = database

    def __getitem__(self, name: str) -> Collection[Document]:
        return self.get_collection(name)

    def get_collection(self, name: str, **options: Any) -> Collection[Document]:
        return cast("Collection[Document]", _CollectionOnLoop(self._database.get_collection(name, **options)))


class _CollectionOnLoop:
    def __init__(self, collection: AsyncCollection[Document]) -> None:
        self._collection = collection

    def find(self, *given: object, **options: object) -> _CursorOnLoop:
        return _CursorOnLoop(self._collection.find(*given, **options))

    def aggregate(self, stages: Sequence[Any], **options: Any) -> list[Document]:
        async def run() -> list[Document]:
            return await (await self._collection.aggregate(stages, **options)).to_list()

        return _run(run)

    def __getattr__(self, command: str) -> Callable[..., Any]:
        method = getattr(self._collection, command)
        return lambda *given, **options: _run(lambda: method(*given, **options))


class _CursorOnLoop:
    def __init__(self, cursor: AsyncCursor[Document]) -> None:
        self._cursor = cursor

    def sort(self, key: str, direction: int) -> Self:
        self._cursor.sort(key, direction)
        return self

    def limit(self, count: int) -> Self:
        self._cursor.limit(count)
        return self

    def __iter__(self) -> Iterator[Document]:
        return iter(_run(self._cursor.to_list))


def _run(make: Callable[[], Awaitable[T]]) -> T:
    # The thread's context, a copy of the task's, has the time-out of the call.
    context = contextvars.copy_context()

    async def run() -> T:
        return await make()

    return awaited(lambda: asyncio.get_running_loop().create_task(run(), context=context))

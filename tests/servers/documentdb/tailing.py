"""Tailable cursors: they follow what is inserted into a capped collection."""

import secrets
import time
from dataclasses import dataclass
from typing import Any

import bson

from tests.servers.documentdb.backend import Sessions
from tests.servers.documentdb.capped import NUMBER, CappedCollection, Document
from tests.servers.documentdb.errors import CommandError

CAPPED_POSITION_LOST = 136
CURSOR_KILLED = 237
QUERY_PLAN_KILLED = 175

FIRST_PAGE = 101
LATER_PAGE = 1000
AWAIT_SECONDS = 1.0
NUMBERS_FROM = 2**53  # those of DocumentDB are below


@dataclass
class Tail:
    """A tailable cursor: all up to the number `seen` has been looked at."""

    collection: CappedCollection
    condition: Document
    projection: Document
    awaits: bool
    seen: int = 0
    killed: bool = False

    def next_page(self, sessions: Sessions, size: int, seconds: float) -> list[Document]:
        """Return what matches of the documents that are new, when need be after waiting for some."""
        deadline = time.monotonic() + seconds
        while True:
            with self.collection.changed:
                self._check()
                newest = self.collection.last
            if newest > self.seen:
                if page := self._look(sessions, size, newest):
                    return page
            elif time.monotonic() >= deadline:
                return []
            else:
                self._wait(deadline)

    def kill(self) -> None:
        """End the cursor, also while it waits."""
        with self.collection.changed:
            self.killed = True
            self.collection.changed.notify_all()

    def _check(self) -> None:
        if self.killed:
            raise CommandError(CURSOR_KILLED, "the cursor was killed")
        if self.collection.dropped:
            raise CommandError(QUERY_PLAN_KILLED, f"collection dropped: {self.collection.name}")
        if self.seen and self.collection.has_lost(self.seen):
            raise CommandError(CAPPED_POSITION_LOST, f"position in capped collection deleted: {self.seen}")

    def _look(self, sessions: Sessions, size: int, newest: int) -> list[Document]:
        query = {"$and": [{NUMBER: {"$gt": self.seen, "$lte": newest}}, self.condition]}
        with sessions.one() as session:
            page = self.collection.find(session, filter=query, projection=self.projection, limit=size)
        self.seen = page[-1][NUMBER] if len(page) == size else newest
        for each in page:
            del each[NUMBER]
        return page

    def _wait(self, deadline: float) -> None:
        with self.collection.changed:
            if self.collection.last <= self.seen and not self.killed and not self.collection.dropped:
                self.collection.changed.wait(deadline - time.monotonic())


class Tails:
    """The open tailable cursors."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._open: dict[int, Tail] = {}

    def open(self, collection: CappedCollection, find: dict[str, Any]) -> dict[str, Any]:
        """Answer a `find`; in an empty collection the cursor is dead from the start, as in MongoDB."""
        number, page = 0, []
        with self._sessions.one() as session, collection.changed:
            collection.count(session)
            is_empty = not collection.find(session, limit=1)
        if not is_empty:
            tail = Tail(
                collection, find.get("filter", {}), numbered(find.get("projection")), bool(find.get("awaitData"))
            )
            page = tail.next_page(self._sessions, int(find.get("batchSize", FIRST_PAGE)), 0)
            number = secrets.randbits(53) + NUMBERS_FROM
            self._open[number] = tail
        return answer(number, collection, "firstBatch", page)

    def get_more(self, number: int, command: dict[str, Any]) -> dict[str, Any] | None:
        """Answer a `getMore`; None when there is no such tailable cursor."""
        tail = self._open.get(number)
        if tail is None:
            return None
        seconds = command.get("maxTimeMS", AWAIT_SECONDS * 1000) / 1000 if tail.awaits else 0
        try:
            page = tail.next_page(self._sessions, int(command.get("batchSize", LATER_PAGE)), seconds)
        except CommandError:
            self._open.pop(number, None)
            raise
        return answer(number, tail.collection, "nextBatch", page)

    def kill(self, number: int) -> bool:
        """End a cursor; False when there is no such tailable cursor."""
        tail = self._open.pop(number, None)
        if tail is not None:
            tail.kill()
        return tail is not None


def numbered(projection: Document | None) -> Document:
    """Return the projection, with the number among what it keeps."""
    if not projection or not any(value for key, value in projection.items() if key != "_id" or len(projection) == 1):
        return projection or {}
    return {**projection, NUMBER: 1}


def answer(number: int, collection: CappedCollection, batch: str, page: list[Document]) -> dict[str, Any]:
    """Return one page of a cursor, for the client."""
    namespace = f"{collection.database}.{collection.name}"
    return {"cursor": {"id": bson.Int64(number), "ns": namespace, batch: page}, "ok": 1.0}

"""Capped collections: ordinary ones whose documents are numbered, and trimmed at the old end."""

import threading
from collections import deque
from typing import Any

import bson

from tests.servers.documentdb import retrying
from tests.servers.documentdb.backend import Session, Sessions, as_integer, document, documents, integer, text
from tests.servers.documentdb.errors import CommandError
from tests.servers.documentdb.wire import Command

NUMBER = "__natural__"
"""The hidden field with a document's place in the order of insertion."""

SCHEMA = """
CREATE SCHEMA IF NOT EXISTS gateway;
CREATE TABLE IF NOT EXISTS gateway.capped (
    database text, collection text, bytes int8, documents int8, PRIMARY KEY (database, collection)
)
"""
ADD = "INSERT INTO gateway.capped VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING RETURNING 1"
ALL = "SELECT database, collection, bytes, documents FROM gateway.capped"
REMOVE = "DELETE FROM gateway.capped WHERE database = $1 AND collection = $2"

DELETE = "SELECT p_result FROM documentdb_api.delete($1, $2, NULL, NULL)"
FIND = "SELECT cursorpage FROM documentdb_api.find_cursor_first_page($1, $2)"
NAMESPACE_EXISTS = 48
MANY = 1_000_000

Document = dict[str, Any]


class CappedCollection:
    """One capped collection; `changed` is held while it changes, and notified then."""

    def __init__(self, database: str, name: str, size: int, most: int) -> None:
        self.database, self.name, self.size, self.most = database, name, size, most
        self.dropped = False
        self.last = 0
        self.changed = threading.Condition()
        self._kept: deque[tuple[int, int]] = deque()
        self._counted = False

    @property
    def options(self) -> Document:
        """The options, as a client sees them."""
        most = {"max": self.most} if self.most else {}
        return {"capped": True, "size": self.size, **most}

    def has_lost(self, number: int) -> bool:
        """Whether the document that had this number has been trimmed."""
        return bool(self._kept) and number < self._kept[0][0]

    def find(self, session: Session, **query: Any) -> list[Document]:
        """Return documents in the order of insertion, each with its number.

        One that was inserted while the collection became a capped one has none, and is left out.
        """
        command = {"find": self.name, "batchSize": MANY, "singleBatch": True, "sort": {NUMBER: 1}, **query}
        (page,) = session.row(FIND, text(self.database), document(bson.encode(command)))
        return [each for each in bson.decode(page)["cursor"]["firstBatch"] if NUMBER in each]

    def insert(self, session: Session, command: Command) -> bytes:
        """Insert documents at the young end, and trim the old end."""
        with self.changed:
            self.count(session)
            self._counted = False  # until it has gone well
            new = bson.decode_all(command.encoded("documents"))
            numbered = [{**each, NUMBER: bson.Int64(self.last + place)} for place, each in enumerate(new, 1)]
            encoded = [bson.encode(each) for each in numbered]
            values = text(self.database), document(command.without("documents").raw), documents(b"".join(encoded))
            answer, is_old = retrying.write(session, command, "insert", values)
            self.last += len(encoded)
            if is_old or b"writeErrors" in answer:
                self.count(session)
            else:
                self._kept.extend((each[NUMBER], len(raw)) for each, raw in zip(numbered, encoded, strict=True))
            self._trim(session)
            self._counted = True
            self.changed.notify_all()
        return answer

    def count(self, session: Session) -> None:
        """Look at what is there, unless that is known."""
        if not self._counted:
            there = self.find(session)
            self._kept = deque((each[NUMBER], len(bson.encode(each))) for each in there)
            self.last = max(self.last, *(number for number, _ in self._kept), 0)
            self._counted = True

    def drop(self) -> None:
        """Tell those who wait that there is nothing more to come."""
        with self.changed:
            self.dropped = True
            self.changed.notify_all()

    def _trim(self, session: Session) -> None:
        most, size, dropped = self.most or MANY, sum(size for _, size in self._kept), 0
        while len(self._kept) > most or size > self.size:
            dropped, freed = self._kept.popleft()
            size -= freed
        if dropped:
            old = {"q": {NUMBER: {"$lte": dropped}}, "limit": 0}
            command = bson.encode({"delete": self.name, "deletes": [old]})
            session.row(DELETE, text(self.database), document(command))


class CappedCollections:
    """All capped collections; what they are is stored beside their documents."""

    def __init__(self, sessions: Sessions) -> None:
        self._all: dict[tuple[str, str], CappedCollection] = {}
        with sessions.one() as session:
            session.run(f"{SCHEMA}; {retrying.SCHEMA}")
            for database, name, size, most in session.rows(ALL):
                self._add(database.decode(), name.decode(), as_integer(size), as_integer(most))

    def get(self, database: str, name: str) -> CappedCollection | None:
        """Return a collection, if it is capped."""
        return self._all.get((database, name))

    def create(self, session: Session, database: str, name: str, size: int, most: int) -> None:
        """Make an existing, empty collection a capped one, of so many bytes and documents; 0: of any number."""
        if not session.row(ADD, text(database), text(name), integer(size), integer(most)):
            raise CommandError(NAMESPACE_EXISTS, f"Collection {database}.{name} already exists.")
        self._add(database, name, size, most)

    def forget(self, session: Session, database: str, name: str | None = None) -> None:
        """Forget a collection, or all of the database, which are dropped."""
        for key in list(self._all):
            if key[0] == database and name in (None, key[1]):
                session.row(REMOVE, text(database), text(key[1]))
                self._all.pop(key).drop()

    def _add(self, database: str, name: str, size: int, most: int) -> None:
        self._all[database, name] = CappedCollection(database, name, size, most)

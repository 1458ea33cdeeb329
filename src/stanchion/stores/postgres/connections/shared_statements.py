"""Prepared statements on sessions that a pooler lends to many clients in turn.

Each transaction may run in another session, which has other clients' prepared statements. psycopg counts its names
per connection: the name of one client's statement may belong to another one there. So here the name of a statement is
a hash of its text, its types and the version of the schema: whoever has prepared it, it is the right one. If the
session of a transaction lacks it, the transaction fails immediately, without a change (26000); likewise if the session
has it when it should be prepared (42P05). The next attempt compares both first, and prepares the missing ones.

A pooler that follows prepared statements by itself, as PgBouncer does with max_prepared_statements, sees each of them
prepared once for each client, and then gives it to any session.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import psycopg
from psycopg import pq
from psycopg._preparing import Key, Prepare, PrepareManager

from stanchion.stores.fields.sql import VERSION
from stanchion.stores.sql.engine.runner import Row

if TYPE_CHECKING:
    from psycopg._queries import PostgresQuery
    from psycopg.pq.abc import PGresult

_PREFIX = b"stanchion_"
_THRESHOLD = 5
"""Uses of a statement in this process before it is prepared; as with psycopg, a single use is not worth it."""
_SHORT = 100
"""Bytes of a statement below which it takes no planning worth keeping, such as COMMIT."""
_KNOWN = "SELECT name FROM pg_prepared_statements WHERE starts_with(name, 'stanchion_')"

_uses: Counter[Key] = Counter()
_names: dict[Key, bytes] = {}


class SharedStatements(PrepareManager):
    """Names the statements of one connection to a pooler. It takes the place of psycopg's own."""

    def __init__(self) -> None:
        super().__init__()
        self._prepared: set[Key] = set()
        """What this client has prepared on some session."""
        self.missed = False
        """A transaction has failed as its session lacked a statement, or had one already."""

    def get(self, query: PostgresQuery, prepare: bool | None = None) -> tuple[Prepare, bytes]:
        key = self.key(query)
        if not prepare or self.prepare_threshold is None or len(query.query) < _SHORT:
            return Prepare.NO, b""
        if key in self._prepared:
            return Prepare.YES, _names[key]
        _uses[key] += 1
        if _uses[key] <= _THRESHOLD:
            return Prepare.NO, b""
        self._prepared.add(key)
        return Prepare.SHOULD, _names.setdefault(key, _name_of(key))

    def maybe_add_to_cache(self, query: PostgresQuery, prep: Prepare, name: bytes) -> Key | None:
        return None

    def validate(self, key: Key, prep: Prepare, name: bytes, results: Sequence[PGresult]) -> None:
        """Keep everything: a session outlives the client."""

    def clear(self) -> bool:
        return False

    def complete(self, connection: psycopg.Connection[Row]) -> None:
        """Prepare statements that the session of the open transaction lacks."""
        cursor = psycopg.RawCursor(connection)
        known = {str(row[0]).encode() for row in cursor.execute(_KNOWN).fetchall()}
        for key in self._prepared:
            if (name := _names[key]) not in known:
                result = connection.pgconn.prepare(name, *key)
                if result.status != pq.ExecStatus.COMMAND_OK:
                    raise psycopg.errors.error_from_result(result)
        self.missed = False


def _name_of(key: Key) -> bytes:
    text, types = key
    return _PREFIX + hashlib.sha256(b"%d %r " % (VERSION, types) + text).hexdigest()[:32].encode()

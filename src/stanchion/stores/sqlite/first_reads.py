"""Reads before the first push, without SQLAlchemy. Where they return None, the general way answers."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection
from itertools import chain
from pkgutil import get_data
from typing import Any, Final

from stanchion.errors import StoreUnavailable
from stanchion.stores.fields.sql import VERSION
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.records.values import VersionedValue
from stanchion.stores.sql.rows.queue_row import COLUMNS, queue_row
from stanchion.stores.sqlite.connections import NOW, OwnConnection

_TABLES: Final = r"SELECT count(*) FROM sqlite_master WHERE name LIKE 'stanchion\_%' ESCAPE '\'"
_VERSION: Final = "SELECT version FROM stanchion_meta"
_NAMED: Final = "name IN (SELECT value FROM json_each(?))"
_QUEUES: Final = f"SELECT {', '.join(COLUMNS)} FROM stanchion_queues WHERE {_NAMED}"
_VALUES: Final = "SELECT name, text, version FROM stanchion_values WHERE kind = ?"
_CLOCK: Final = f"SELECT {NOW}"

Row = tuple[Any, ...]


class FirstReads:
    """Reads of the schema's version, of queues, of values and of the clock."""

    def __init__(self, own: OwnConnection) -> None:
        self._own = own

    def has_schema(self) -> bool:
        """Return whether the file has this release's schema; makes it in a file without any of our tables."""
        return self._tried(_version) == [(VERSION,)]

    def queues(self, names: Collection[str]) -> list[QueueSettings] | None:
        """Return the settings of the existing ones of these queues, by name; None where the general way must."""
        found = self._rows(_QUEUES, _listed(names))
        return None if found is None else [queue_row(row).settings for row in sorted(found)]

    def values(self, kind: str, names: Collection[str] | None) -> list[VersionedValue] | None:
        """Return the values of a kind, or the existing ones of these, by name; None where the general way must."""
        found = (
            self._rows(_VALUES, kind) if names is None else self._rows(f"{_VALUES} AND {_NAMED}", kind, _listed(names))
        )
        return None if found is None else sorted(map(VersionedValue._make, found))

    def now(self) -> int | None:
        """Return the clock, in microseconds; None where the general way must."""
        found = self._rows(_CLOCK)
        return None if found is None else int(found[0][0])

    def _rows(self, query: str, *given: str) -> list[Row] | None:
        found = self._tried(lambda connection: connection.execute(query, given).fetchall())
        # Other programs may have stored bytes in the place of texts.
        return None if found is None or bytes in map(type, chain.from_iterable(found)) else found

    def _tried(self, read: Callable[[sqlite3.Connection], list[Row]]) -> list[Row] | None:
        """Return the rows; None after an error, such as a lock of another process."""
        with self._own.lock:
            try:
                return read(self._own.opened())
            except BaseException as error:
                self._own.failed(error)
                if not isinstance(error, (sqlite3.Error, StoreUnavailable)):
                    raise
                return None


def _listed(names: Collection[str]) -> str:
    return json.dumps(sorted(names), ensure_ascii=False)


def _version(connection: sqlite3.Connection) -> list[Row]:
    """Return the version of the schema, which is made in a file without any of our tables."""
    if connection.execute(_TABLES).fetchone() == (0,):
        connection.executescript(_schema())
    return connection.execute(_VERSION).fetchall()


def _schema() -> str:
    """Return the statements that make the schema, in one transaction; `tests.sql.schema_file` writes the file."""
    made = get_data(__package__, "generated/schema.sql")
    assert made is not None  # noqa: S101 - it is part of the package
    return f"BEGIN IMMEDIATE;\n{made.decode()}\nCOMMIT;"

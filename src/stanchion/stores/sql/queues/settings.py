"""The settings of queues."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import select, text

from stanchion.stores.fields.queues import MERGED
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.upkeep import Use
from stanchion.stores.sql.elements import AnySelect
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.joining import joined
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.engine.schema import queues
from stanchion.stores.sql.rows.queue_row import queue_row
from stanchion.stores.sql.rows.queues import QueueRows

_ALL = select(*queues.columns)


def _named(dialect: Dialect) -> AnySelect:
    return _ALL.where(text(dialect.among("name", "names")))


class Queues:
    """Reads and writes the settings of queues."""

    def __init__(self, db: Database, rows: QueueRows) -> None:
        self._db, self._rows = db, rows
        self._named = db.dialect.once(_named)

    def configure(self, queue: str, changes: Mapping[str, Any], tx: object = None) -> QueueSettings:
        """Make the queue if it is new, apply the changes, return its settings; see the port for `tx`."""

        def work(run: Runner, _again: bool) -> QueueSettings:
            # An insert that meets a row takes a shared lock on it; two holders of that can't change the row.
            row = self._rows.find(run, queue, lock=True)
            if row is None:
                self._rows.insert(run, [queue])
                row = self._rows.find(run, queue, lock=True)  # another caller may have made it meanwhile
            known = row.settings if row else QueueSettings(queue)
            for name, value in changes.items():
                stored = json.dumps({**getattr(known, name), **value}) if name in MERGED else value
                self._rows.change(run, queue, name, stored)
            if "expires" in changes:
                self._rows.write_use(run, queue, Use(0, 0))
            return self._rows.settings(run, queue)

        if tx is not None and self._db.dialect.single_writer:
            with joined(self._db, tx) as run:
                return work(run, False)
        settings = self._db.write(work)
        self._db.dialect.announce({queue})
        return settings

    def queues(self, names: Iterable[str] | None = None) -> list[QueueSettings]:
        """Return the settings of queues, sorted by name: all, or the existing ones of `names`."""
        statement, given = _ALL, {}
        if names is not None:
            if not (wanted := set(names)):
                return []
            statement, given = self._named, {"names": self._db.dialect.listed(wanted)}
        found = self._db.read(lambda run: run.rows(statement, given))
        return sorted((queue_row(row).settings for row in found), key=lambda one: one.name)

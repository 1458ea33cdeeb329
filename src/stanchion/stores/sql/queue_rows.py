"""The rows of queues: their settings, and the state of their rate, their lanes and their use."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, String, false, select, true, update

from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.dead_letters import is_letter
from stanchion.stores.rules.expiry import Use
from stanchion.stores.sql.engine.columns import param
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Asked, Runner
from stanchion.stores.sql.engine.schema import queues

_QUEUE = param("queue", String)
_READ = select(*queues.columns).where(queues.c.name == _QUEUE)
_LOCK = _READ.with_for_update()
_CHANGE = {
    column.name: update(queues).where(queues.c.name == _QUEUE).values({column: param("value", column.type)})
    for column in queues.columns
}
_WRITE_USE = (
    update(queues)
    .where(queues.c.name == _QUEUE)
    .values(active_events=param("events", BigInteger), active_at=param("at", BigInteger))
)
_MARK_LETTERS = update(queues).where(queues.c.name == _QUEUE, queues.c.letters == false()).values(letters=true())


def _insert(dialect: Dialect) -> Any:
    return dialect.insert_ignoring(queues, {column.name: param(column.name, column.type) for column in queues.columns})


class QueueRow(NamedTuple):
    """A row of stanchion_queues, its columns in their order."""

    name: str
    paused: bool
    max_rate: float | None
    max_running: int | None
    lanes: int
    lanes_per_tenant: int
    history_ttl: float
    dead_letter: str | None
    lease: float
    laned: bool
    expires: float | None
    expires_with_jobs: bool
    declared: str | None
    last_lane: int
    """The lane that was served last."""
    letters: bool
    """Dead letters may be among its jobs."""
    rate_tokens: float
    rate_at: int
    active_events: int
    """How many events were counted when its use was noted last, and when that was; see `rules.expiry`."""
    active_at: int

    @property
    def settings(self) -> QueueSettings:
        """The settings."""
        given: dict[str, Any] = dict(zip(_SETTINGS, self, strict=False))
        declared = json.loads(self.declared) if self.declared else {}
        return QueueSettings(**{**given, **{name: bool(given[name]) for name in _FLAGS}, "declared": declared})


_SETTINGS = tuple(setting.name for setting in dataclasses.fields(QueueSettings))
"""The first columns of a queue."""
_FLAGS = ("paused", "laned", "expires_with_jobs")


def new_queue(queue: str) -> dict[str, object]:
    """Return the parameters that store a new queue: the default settings, an empty bucket of its rate."""
    settings = QueueSettings(queue)
    at_first = {**{column.name: 0 for column in queues.columns}, "letters": False}
    return {**{name: getattr(settings, name, value) for name, value in at_first.items()}, "declared": None}


class QueueRows:
    """Reads, makes and marks the rows of queues."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._insert = db.dialect.once(_insert)
        self._known: set[str] = set()
        """Queues that have their row, as far as this process knows."""

    # -- read

    def find(self, run: Runner, queue: str, *, lock: bool = False) -> QueueRow | None:
        """Return the row of a queue, if there is one; `lock`: until the end of the transaction."""
        rows = run.rows(_LOCK if lock else _READ, {"queue": queue})
        return QueueRow(*rows[0]) if rows else None

    def asks(self, queue: str) -> Asked:
        """Return the question for the row of a queue, to be sent together with others."""
        return _READ, {"queue": queue}

    def settings(self, run: Runner, queue: str) -> QueueSettings:
        """Return the settings of a queue; the defaults for one that has no row yet."""
        row = self.find(run, queue)
        return QueueSettings(queue) if row is None else row.settings

    def settings_of(self, run: Runner, queues: Iterable[str]) -> dict[str, QueueSettings]:
        """Return the settings of these queues."""
        return {queue: self.settings(run, queue) for queue in set(queues)}

    # -- make

    def insert(self, run: Runner, queues: Iterable[str]) -> None:
        """Make the rows of these queues, where they are missing."""
        run.send_each(self._insert, [new_queue(queue) for queue in sorted(queues)])

    def make(self, queues: Iterable[str]) -> None:
        """Make sure, once in the life of this process, that these queues have their rows."""
        if new := set(queues) - self._known:
            self._db.write(lambda run, _again: self.insert(run, new))
            self._known.update(new)

    def make_in(self, run: Runner, queues: Iterable[str]) -> None:
        """Make sure that these queues have their rows, in a transaction which may be undone."""
        self.insert(run, [queue for queue in queues if queue not in self._known])

    def make_for(self, run: Runner, queues: Iterable[str]) -> None:
        """Make sure that queues to which a caller's transaction pushes have their rows.

        With one writer, which that transaction is, in it; otherwise beside it, as others would wait for the row of a
        new queue until its end. But one that it has made itself, as by a move, would be waited for here.
        """
        if self._db.dialect.single_writer:
            self.make_in(run, queues)
        else:
            self.make([queue for queue in queues if queue not in self._known and self.find(run, queue) is None])

    def forget_known(self) -> None:
        """Take no queue for known any more: they may be gone."""
        self._known.clear()

    # -- change

    def change(self, run: Runner, queue: str, column: str, value: object) -> None:
        """Write one column of a queue."""
        run.change(_CHANGE[column], {"queue": queue, "value": value})

    def write_use(self, run: Runner, queue: str, use: Use) -> None:
        """Write when a queue was used last."""
        run.change(_WRITE_USE, {"queue": queue, **use._asdict()})

    def make_laned(self, run: Runner, queues: Iterable[str]) -> None:
        """See that claims look into the lanes of these queues: jobs come there, whatever the settings say by now."""
        for queue in sorted(queues):
            row = self.find(run, queue)
            if row is None:
                self.insert(run, [queue])
            if row is None or not row.laned:
                self.change(run, queue, "laned", value=True)

    def mark_letters(self, run: Runner, rows: Iterable[JobRow]) -> None:
        """Note of the queues that get dead letters that they have some, for those who look for dead jobs."""
        for queue in sorted({row.queue for row in rows if is_letter(row)}):
            run.change(_MARK_LETTERS, {"queue": queue})

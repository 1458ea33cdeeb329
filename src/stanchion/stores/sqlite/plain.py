"""Plain pushes: new jobs without keys, limits, lanes and flows, stored by a few statements of the standard library.

A plain push tries once and waits for no other process. On failure the general way takes over: as a repeat if the commit
may have been carried out.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from operator import attrgetter, itemgetter
from typing import Final

from stanchion.errors import StoreUnavailable
from stanchion.stores.records import calls
from stanchion.stores.records.jobs import SECOND, JobRow, NewJob, Pushed
from stanchion.stores.rules.lifecycle.jobs import created
from stanchion.stores.sql.engine.turns import WriteLock
from stanchion.stores.sql.rows.new_jobs import OF_NEW_JOBS
from stanchion.stores.sql.rows.queue_row import COLUMNS, new_queue
from stanchion.stores.sqlite.connections import NOW, OwnConnection
from stanchion.stores.sqlite.processes.writers import WriterQueue

_PLAIN: Final = {*OF_NEW_JOBS, "delay", "on_duplicate"} - {"key", "order_key", "limits", "lane"}
"""The fields that a plain job may have. Other fields change further rows."""

_OTHERS: Final = {name: default for name, default in NewJob._field_defaults.items() if name not in _PLAIN}
_others = itemgetter(*map(NewJob._fields.index, _OTHERS))
_NONE: Final = tuple(_OTHERS.values())

_QUEUE, _PAYLOAD = attrgetter("queue"), attrgetter("payload")
_ANSWER = itemgetter(*(OF_NEW_JOBS.index(name) for name in ("id", "run_at", "enqueued_at")))
_LOOK: Final = f"SELECT {NOW}, EXISTS (SELECT 1 FROM stanchion_queues WHERE name = ?)"
_MAKE: Final = f"INSERT INTO stanchion_queues ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"
# A job that has finished is in history: a repeated push must not store it again.
_INSERT: Final = (
    f"INSERT INTO stanchion_jobs ({', '.join(OF_NEW_JOBS)}) "
    f"SELECT {', '.join('?' * len(OF_NEW_JOBS))} "
    "WHERE NOT EXISTS (SELECT 1 FROM stanchion_history WHERE id = ?) ON CONFLICT DO NOTHING"
)
_given = itemgetter(*map(JobRow._fields.index, (*OF_NEW_JOBS, "id")))
"""The values of `_INSERT`; Python 3.14 refuses numbered placeholders for the second use of the id."""
_COUNT: Final = "INSERT INTO stanchion_counter_events (queue, what, n) VALUES (?, 'pushed', ?)"


class PlainPushes:
    """Stores plain jobs."""

    def __init__(self, own: OwnConnection, writers: WriterQueue, write_lock: WriteLock) -> None:
        self._own, self._writers, self._write_lock = own, writers, write_lock

    def push(self, jobs: Sequence[NewJob], clock_offset: float) -> list[Pushed] | None:
        """Store jobs in a transaction of their own; return None, with nothing stored, where the general way must.

        Raises sqlite3.Error if they may have been stored or not. `clock_offset`: seconds added to the clock.
        """
        if not self.takes(jobs):
            return None
        begun = False
        with self._write_lock.within(calls.seconds_for(len(jobs))), self._own.lock:
            # Asked in turn: a thread that has the turn may have the lock of the writers, which this would release.
            if self._writers.goes_first():
                return None
            try:
                connection = self._own.opened()
                connection.execute("BEGIN IMMEDIATE")
                begun = True
                pushed = _stored(connection, jobs, int(clock_offset * SECOND))
                connection.execute("ROLLBACK" if pushed is None else "COMMIT")
            except BaseException as error:  # the time-out of a task, too, must leave no transaction open
                self._own.failed(error)
                if begun or not isinstance(error, (sqlite3.Error, StoreUnavailable)):
                    raise
                return None  # another process has the write lock, or the file can't be used
        return pushed

    def takes(self, jobs: Sequence[NewJob]) -> bool:
        """Return whether all of these jobs, at least one, are plain."""
        return bool(jobs) and set(map(_others, jobs)) == {_NONE} and set(map(type, map(_PAYLOAD, jobs))) == {str}


def _stored(connection: sqlite3.Connection, jobs: Sequence[NewJob], offset: int) -> list[Pushed] | None:
    """Insert jobs in the open transaction; return None if some of their ids are taken."""
    run, numbers = connection.execute, Counter(map(_QUEUE, jobs))
    for queue in numbers:
        now, known = run(_LOOK, (queue,)).fetchone()
        if not known:
            run(_MAKE, tuple(new_queue(queue).values()))
    rows = [_given(created(job, now + offset)) for job in jobs]
    stored = connection.executemany(_INSERT, rows).rowcount
    if stored != len(rows):
        return None
    connection.executemany(_COUNT, numbers.items())
    return [Pushed(*_ANSWER(row)) for row in rows]

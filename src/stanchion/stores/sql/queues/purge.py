"""Purging of old history."""

from __future__ import annotations

import time
from collections.abc import Sequence

from sqlalchemy import BigInteger, Executable, Integer, String, delete, func, literal_column, select, text

from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.trimming import Trimming
from stanchion.stores.rules.upkeep import Budget, purge_each
from stanchion.stores.sql.engine.columns import as_integer, id_as_text, param
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.schema import history, queues

_PORTION = 5000
"""Number of jobs that upkeep deletes in one transaction at most."""

_PORTION_BY_AGE = 500

_RESTART_SECONDS = 600.0
"""Seconds after which a purge starts over: late commits and copied jobs may precede the end of the last one."""


class PurgeStatements:
    """The statements that delete old history, for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        queue = param("queue", String)
        own_age = select(as_integer(queues.c.history_ttl * SECOND)).where(queues.c.name == queue)
        default_age = int(QueueSettings("").history_ttl * SECOND)
        age = func.coalesce(param("age_micros", BigInteger), own_age.scalar_subquery(), default_age)
        old = select(history.c.id).where(history.c.queue == queue, history.c.finished_at <= dialect.now - age)
        self.purge: Executable = delete(history).where(
            history.c.id.in_(old.order_by(history.c.finished_at).limit(param("most", Integer)))
        )
        since = history.c.finished_at >= param("after", BigInteger)
        self.any_old: Executable = old.where(since).limit(1)
        # The first entry of the index for each queue: neither a join nor a range that depends on the queue.
        first = literal_column(
            f"""(
            SELECT finished_at FROM stanchion_history {dialect.by("stanchion_history_ended")}
            WHERE queue = stanchion_queues.name ORDER BY finished_at LIMIT 1
            )""",
            BigInteger,
        )
        kept_from = dialect.now - as_integer(queues.c.history_ttl * SECOND)
        not_purged = text(f"NOT ({dialect.among('name', 'purged')})")
        self.with_old: Executable = select(queues.c.name).where(not_purged, first <= kept_from)
        # Outcomes that are kept for less time: by portions of the index, however many other jobs lie in between.
        upto = history.c.finished_at <= param("before", BigInteger)
        most = param("most", Integer)
        ends = select(history.c.finished_at).where(history.c.queue == queue)
        self.portion_end: Executable = ends.where(since, upto).order_by(history.c.finished_at).offset(most).limit(1)
        ids = select(id_as_text(history.c.id)).where(history.c.queue == queue)
        oldest = ids.order_by(history.c.finished_at).limit(most)
        self.of_outcome: Executable = oldest.where(since, upto, history.c.state == param("outcome", String))
        self.oldest: Executable = oldest
        self.beyond: Executable = (
            ends.order_by(history.c.finished_at.desc()).offset(param("history_max", Integer)).limit(most)
        )
        self.forget = text(
            f"DELETE FROM stanchion_history WHERE {dialect.among('id', 'ids', 'uuid')} AND finished_at <= :before"
        )
        self.purge_on: Executable | None = None
        """The same from `after` on, for a database where deleted rows slow down a search for long; returns when the
        deleted jobs had finished."""


class FinishedJobs:
    """Finished jobs by their ends, for the purge of outcomes that are kept for less time, and of more than enough."""

    def __init__(self, db: Database, statements: PurgeStatements) -> None:
        self._db, self._statements = db, statements
        self.now = db.now

    def after_portion(self, queue: str, after: int, before: int, portion: int) -> int | None:
        """Return the end of the job behind the first portion of those from `after` to `before`; None: no more."""
        found = self._ends(self._statements.portion_end, queue=queue, after=after, before=before, most=portion)
        return found[0] if found else None

    def beyond(self, queue: str, newest: int, portion: int) -> list[int]:
        """Return up to a portion of the ends that follow so many of the newest ones, the latest first."""
        return self._ends(self._statements.beyond, queue=queue, history_max=newest, most=portion)

    def delete_of(self, queue: str, outcome: str, after: int, before: int, portion: int) -> int:
        """Delete up to a portion of the jobs of an outcome with these ends; return their number."""
        given = {"queue": queue, "outcome": outcome, "after": after, "before": before, "most": portion}
        ids = self._ids(self._statements.of_outcome, given)
        self.delete(queue, ids, before)
        return len(ids)

    def oldest(self, queue: str, count: int) -> list[str]:
        """Return the ids of so many of the oldest jobs, in an order that is the same for all processes: the index's."""
        return self._ids(self._statements.oldest, {"queue": queue, "most": count})

    def delete(self, queue: str, ids: Sequence[str], before: int) -> None:
        """Delete these jobs, except ones that have ended after `before`."""
        if ids:
            listed = {"ids": self._db.dialect.listed(ids), "before": before}
            self._db.write(lambda run, _again: run.change(self._statements.forget, listed))

    def _ends(self, which: Executable, **given: object) -> list[int]:
        return [int(end) for (end,) in self._db.read(lambda run: run.rows(which, given))]

    def _ids(self, which: Executable, given: dict[str, object]) -> list[str]:
        return [str(job) for (job,) in self._db.read(lambda run: run.rows(which, given))]


class Purges:
    """Deletes the history of queues in portions."""

    def __init__(self, db: Database, statements: type[PurgeStatements] = PurgeStatements) -> None:
        self._db = db
        self._statements = db.dialect.once(statements)
        self._purged: dict[str, int] = {}
        """Queues, and the time in microseconds up to which their history was purged; cleared at `_restart_at`."""
        self._trimming = Trimming(FinishedJobs(db, self._statements), _PORTION)
        self._restart_at = 0.0

    def purge(self, queue: str, age: float) -> int:
        """Delete a portion of the history that finished over `age` seconds ago; return the number of jobs."""
        return self._delete(queue, int(age * SECOND), _PORTION_BY_AGE)

    def purge_old(self, queues: Sequence[QueueSettings], budget: Budget) -> list[str]:
        """Delete history beyond the retention of these queues; return the queues that time left unfinished."""
        if time.monotonic() >= self._restart_at:
            self._purged, self._restart_at = {}, time.monotonic() + _RESTART_SECONDS
        # One query finds the others, however many: where little was deleted, a search meets few deleted rows.
        names = {settings.name for settings in queues}
        purged = sorted(names & self._purged.keys())
        due = self._db.in_one(self._statements.any_old, [self._after(queue) for queue in purged])
        with_old = {queue for queue, rows in zip(purged, due, strict=True) if rows}
        if len(purged) < len(names):
            given = {"purged": self._db.dialect.listed({"", *purged})}  # no list is empty on every database
            with_old |= {name for (name,) in self._db.read(lambda run: run.rows(self._statements.with_old, given))}
        with_old &= names
        behind = purge_each(self._purge_on, sorted(with_old), _PORTION, budget)
        return sorted({*behind, *self._trimming.trim_each(queues, budget)})

    def _after(self, queue: str) -> dict[str, object]:
        """Return the parameters of a purge that starts where the last one ended, by the retention of the queue."""
        return {"queue": queue, "age_micros": None, "most": _PORTION, "after": self._purged.get(queue, 0)}

    def _purge_on(self, queue: str) -> int:
        """Delete the next portion of a queue's history, starting where the last one ended."""
        statement = self._statements.purge_on
        if statement is None:
            return self._delete(queue, None, _PORTION)
        ended = self._db.write(lambda run, _again: run.rows(statement, self._after(queue)))
        if ended:
            self._purged[queue] = max(row[0] for row in ended)
        return len(ended)

    def _delete(self, queue: str, age_micros: int | None, most: int) -> int:
        """Delete up to `most` jobs older than `age_micros`; None: the retention of the queue."""
        given = {"queue": queue, "age_micros": age_micros, "most": most}
        return self._db.write(lambda run, _again: run.change(self._statements.purge, given))

"""Purging of old history."""

from __future__ import annotations

import time
from collections.abc import Sequence

from sqlalchemy import BigInteger, Executable, Integer, String, delete, func, literal_column, select, text

from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.queues import QueueSettings
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
_WALK_AGAIN_SECONDS = 3600.0
"""The same where a search passes jobs that stay."""

_COUNTED_PER_SECOND = 20_000
"""Finished jobs that upkeep counts per second and queue, so that a large `history_max` is checked less often."""
_UNCOUNTED_MAX = 10_000
"""A `history_max` up to which the jobs are counted in every round."""


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
        ids = select(id_as_text(history.c.id)).where(history.c.queue == queue, upto)
        oldest = ids.order_by(history.c.finished_at).limit(most)
        self.of_outcome: Executable = oldest.where(since, history.c.state == param("outcome", String))
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


class Purges:
    """Deletes the history of queues in portions."""

    def __init__(self, db: Database, statements: type[PurgeStatements] = PurgeStatements) -> None:
        self._db = db
        self._statements = db.dialect.once(statements)
        self._purged: dict[str, int] = {}
        """Queues, and the time in microseconds up to which their history was purged; cleared at `_restart_at`."""
        self._walked: dict[tuple[str, str], int] = {}
        """The same of queues and outcomes that are kept for less time than others."""
        self._counted: dict[tuple[str, int], float] = {}
        """Queues with a large `history_max`, and when their jobs are counted again."""
        self._restart_at = self._walk_again_at = 0.0

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
        if time.monotonic() >= self._walk_again_at:
            self._walked, self._walk_again_at = {}, time.monotonic() + _WALK_AGAIN_SECONDS
        trimmed = {settings.name: settings for settings in queues if settings.trims}
        untrimmed = purge_each(lambda queue: self._trim(trimmed[queue]), sorted(trimmed), _PORTION, budget)
        return sorted({*behind, *untrimmed})

    def _trim(self, settings: QueueSettings) -> int:
        """Delete a portion of what a queue keeps for less than `history_ttl`; return its size if there may be more."""
        left = [self._walk(settings.name, outcome, ttl) for outcome, ttl in settings.shorter_ttls.items()]
        if settings.history_max is not None:
            left.append(self._shorten(settings.name, settings.history_max))
        return _PORTION if any(left) else 0

    def _walk(self, queue: str, outcome: str, ttl: float) -> bool:
        """Delete the old jobs of an outcome in the next portion of a queue's history; return whether more follows."""
        before = self._db.now() - int(ttl * SECOND)
        given: dict[str, object] = {"queue": queue, "outcome": outcome, "most": _PORTION}
        given["after"] = self._walked.get((queue, outcome), 0)
        following = self._db.read(lambda run: run.rows(self._statements.portion_end, {**given, "before": before}))
        end = int(following[0][0]) if following else before
        if self._forget(self._statements.of_outcome, {**given, "before": end}) < _PORTION:
            self._walked[queue, outcome] = end + 1
            return bool(following)
        return True

    def _shorten(self, queue: str, most: int) -> bool:
        """Delete a portion of the oldest jobs beyond the newest `most`; return whether there are more."""
        if most > _UNCOUNTED_MAX:
            if time.monotonic() < self._counted.get((queue, most), 0.0):
                return False
            self._counted[queue, most] = time.monotonic() + most / _COUNTED_PER_SECOND
        given = {"queue": queue, "history_max": most, "most": _PORTION}
        beyond = self._db.read(lambda run: run.rows(self._statements.beyond, given))
        if beyond:  # no later ones, as another process may delete the same number
            self._forget(self._statements.oldest, {"queue": queue, "before": beyond[0][0], "most": len(beyond)})
        if len(beyond) == _PORTION:
            self._counted.pop((queue, most), None)
            return True
        return False

    def _forget(self, which: Executable, given: dict[str, object]) -> int:
        """Delete the jobs that a query finds; return the number found."""
        ids = [job for (job,) in self._db.read(lambda run: run.rows(which, given))]
        if ids:
            listed = {"ids": self._db.dialect.listed(ids), "before": given["before"]}
            self._db.write(lambda run, _again: run.change(self._statements.forget, listed))
        return len(ids)

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

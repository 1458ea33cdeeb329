"""Moves on MariaDB and MySQL: a few columns of the untied jobs of one claim are read and written, as whole sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from operator import attrgetter

from sqlalchemy import text

from stanchion.stores.fields.jobs import TIES, Step
from stanchion.stores.fields.sql import missing, resets
from stanchion.stores.mariadb.packets import arrays
from stanchion.stores.mariadb.settle import IN_TIME
from stanchion.stores.mariadb.statements import LISTED, given_fields, names_of
from stanchion.stores.records.jobs import UNLANED, JobRow, JobState
from stanchion.stores.records.outcomes import Move
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.lifecycle.outcomes import settled
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.rows.jobs import Jobs
from stanchion.stores.sql.rows.queues import QueueRows

_CLAIM, _ID, _PAYLOAD = attrgetter("lease.queue", "lease.token"), attrgetter("lease.id"), attrgetter("payload")
_KEEPS = attrgetter("keep_arrival")

_READ = ("id", "enqueued_at", "payload", "headers", "attempts", "arrival_payload", "trail", "entry_payload")
"""The inputs of the rule of a move."""

_WRITTEN = ("id", "queue", "run_at", "payload", "headers", "trail", "entry_payload")


class _Statements:
    """The statements of moves of some columns."""

    def __init__(self, *more: str) -> None:
        self.read, self.written = (*_READ, *more), (*_WRITTEN, *more)
        self.values_of = attrgetter(*self.written)
        self.held = text(f"""
            SELECT {names_of(self.read, "job.")},
                (SELECT max_running FROM stanchion_queues WHERE name = :queue) IS NOT NULL
            FROM {LISTED}
            WHERE job.id IN :ids AND job.queue = :queue AND job.token = :token AND {IN_TIME}
                AND {missing(TIES, "job.")}
            FOR UPDATE
        """)
        self.move = text(f"""
            UPDATE {given_fields(self.written, "moves")} STRAIGHT_JOIN {LISTED} ON job.id = given.id SET
                {", ".join(f"job.{name} = given.{name}" for name in self.written[1:])},
                job.lane = {UNLANED}, job.state = 'queued', job.`rank` = job.priority,
                {resets(Step.MOVED, lambda name: f"job.`{name}`")}
        """)


_STATEMENTS = {False: _Statements(), True: _Statements("kept_payloads")}
"""The statements, by whether some moves keep the payload of the arrival."""


class MariaDBMoves:
    """Moves the untied jobs of one claim; others go the general way."""

    def __init__(self, db: Database, jobs: Jobs, queues: QueueRows) -> None:
        self._db, self._jobs, self._queues = db, jobs, queues

    def move_in(self, run: Runner, moves: Sequence[Move]) -> list[JobState] | None:
        ids, claims = set(map(_ID, moves)), set(map(_CLAIM, moves))
        if len(ids) < len(moves) or len(claims) > 1 or bytes in set(map(type, map(_PAYLOAD, moves))):
            return None  # as JSON, chunks would take several times as long as row by row
        ((queue, token),) = claims
        asked = _STATEMENTS[any(map(_KEEPS, moves))]
        rows = run.rows(asked.held, {"ids": sorted(ids), "queue": queue, "token": token})
        if len(rows) < len(ids):
            return None
        if rows[0][-1]:
            run.woken.add(queue)  # there is room for another
        before = {row[0]: _job(queue, token, dict(zip(asked.read, row, strict=False))) for row in rows}
        now, settings = self._db.clock(run), QueueSettings(queue)
        after = [settled(before[move.lease.id], move, settings, now).row for move in moves]
        self._queues.insert(run, {move.queue for move in moves} - {queue})
        for some in arrays(map(asked.values_of, after)):
            run.send(asked.move, {"moves": some})
        self._jobs.count(run, Counter({(queue, "moved"): len(moves)}))
        run.woken.update(row.queue for row in after if row.run_at <= now)
        return [JobState.READY if row.run_at <= now else JobState.SCHEDULED for row in after]


def _job(queue: str, token: str, read: Mapping[str, object]) -> JobRow:
    unread = JobRow("", queue, UNLANED, JobState.RUNNING.value, 0, 0, 0, 0, "", token=token)
    return JobRow._make(map(read.get, JobRow._fields, unread))

"""PostgreSQL's own forms of the hot statements: each one round trip, and its own transaction."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import text

from stanchion.stores.records import (
    Claim,
    Claimed,
    Commit,
    JobRow,
    JobState,
    NewJob,
    Outcome,
    Pushed,
    QueueSettings,
)
from stanchion.stores.sql.base import in_order
from stanchion.stores.sql.claiming import reservation
from stanchion.stores.sql.connection import Params, Runner
from stanchion.stores.sql.database import Database
from stanchion.stores.sql.schema import HISTORY_COLUMNS, LIVE_COLUMNS
from stanchion.stores.sql.store import SqlStore
from stanchion.stores.transitions import created, due_at

_NOW = "(CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS BIGINT) + CAST(:skew AS BIGINT))"


_REQUIRED = object()


def _listed(names: Sequence[str], **instead: str) -> str:
    """Return column names for a list of columns or values, some replaced."""
    return ", ".join(instead.get(name, name) for name in names)


# The first entry of the index of leases; of any queue, as a queue of its own would take a scan of what runs in it.
_NONE_EXPIRED = f"coalesce((SELECT min(lease_until) FROM stanchion_jobs WHERE lease_until IS NOT NULL) > {_NOW}, true)"

_NEW = _listed(
    LIVE_COLUMNS,
    lane="coalesce(lane, 0)",
    state="CASE WHEN waits_for IS NULL THEN 'queued' ELSE 'waiting' END",
    priority="coalesce(priority, 0)",
    run_at=f"coalesce(run_at, {_NOW} + CAST(floor(coalesce(delay, 0) * 1000000) AS BIGINT))",
    enqueued_at=_NOW,
    attempts="0",
    failures="0",
    max_attempts=f"coalesce(max_attempts, {NewJob._field_defaults['max_attempts']})",
    errors="NULL",
    progress="NULL",
    token="NULL",
    worker="NULL",
    lease_until="NULL",
    started_at="NULL",
    cancel_requested="false",
    held="0",
    permit="NULL",
    waits_since=f"CASE WHEN waits_for IS NOT NULL THEN {_NOW} END",
)

_PUSH = text(f"""
    WITH given AS (
        SELECT * FROM jsonb_to_recordset(CAST(:jobs AS jsonb)) AS given (
            id uuid, queue text, payload text, task text, priority int2, run_at bigint, delay float8,
            headers text, tenant text, key text, order_key text, limits text, flow text, origin uuid,
            max_attempts int, timeout float8, lane int, waits_for text
        )
    ), stored AS (
        INSERT INTO stanchion_jobs ({_listed(LIVE_COLUMNS)})
        SELECT {_NEW}
        FROM given
        WHERE NOT EXISTS (SELECT 1 FROM stanchion_history AS finished WHERE finished.id = given.id)
        ON CONFLICT DO NOTHING
        RETURNING queue
    ), counted AS (
        INSERT INTO stanchion_tallies (queue, what, n)
        SELECT queue, 'pushed', count(*) FROM stored GROUP BY queue
    )
    SELECT (SELECT count(*) FROM stored), {_NOW}
""")

_CLAIM = text(f"""
    WITH RECURSIVE heads (priority) AS (
        (
            SELECT priority FROM stanchion_jobs
            WHERE queue = :queue AND lane = 0 AND state = 'queued' AND NOT EXISTS (
                SELECT 1 FROM stanchion_queues
                WHERE name = :queue AND (paused OR laned OR max_rate IS NOT NULL OR max_running IS NOT NULL)
            ) AND {_NONE_EXPIRED}
            -- A claim need not wait for the disk: one that a crash of the server undoes leaves the job ready,
            -- and its token refuses whoever had it. What is committed later makes it durable too.
            AND set_config('synchronous_commit', 'off', true) IS NOT NULL
            ORDER BY priority DESC LIMIT 1
        )
        UNION ALL
        SELECT (
            SELECT priority FROM stanchion_jobs
            WHERE queue = :queue AND lane = 0 AND state = 'queued' AND priority < heads.priority
            ORDER BY priority DESC LIMIT 1
        )
        FROM heads WHERE heads.priority IS NOT NULL
    ), picked AS MATERIALIZED (
        -- The heads come highest first, and the limit stops before a lower one is looked at, let alone locked.
        SELECT due.place FROM heads CROSS JOIN LATERAL (
            SELECT ctid AS place FROM stanchion_jobs
            WHERE queue = :queue AND lane = 0 AND state = 'queued'
                AND priority = heads.priority AND run_at <= {_NOW}
            ORDER BY run_at, id LIMIT :most FOR UPDATE SKIP LOCKED
        ) AS due
        WHERE heads.priority IS NOT NULL
        LIMIT :most
    ), claimed AS (
        UPDATE stanchion_jobs AS job
        SET state = 'running', attempts = attempts + 1, token = :token, worker = :worker, progress = NULL,
            lease_until = CASE WHEN CAST(:worker_holds AS boolean) THEN NULL
                ELSE {_NOW} + CAST(:lease_micros AS BIGINT) END,
            started_at = {_NOW}
        -- By their places, which the locks keep in place: no planner can turn this into a scan of the table.
        WHERE job.ctid = ANY (ARRAY(SELECT place FROM picked))
        RETURNING {_listed(LIVE_COLUMNS, id="CAST(id AS text)", origin="CAST(origin AS text)")}
    ), counted AS (
        INSERT INTO stanchion_tallies (queue, what, n)
        SELECT :queue, 'reserved', count(*) FROM claimed HAVING count(*) > 0
    )
    SELECT * FROM claimed
""")

_HINDRANCE = text(f"""
    SELECT
        coalesce((
            SELECT paused OR laned OR max_rate IS NOT NULL OR max_running IS NOT NULL
            FROM stanchion_queues WHERE name = :queue
        ), false),
        NOT {_NONE_EXPIRED}
""")

_DONE = _listed(
    [f"job.{name}" for name in HISTORY_COLUMNS if name not in ("finished_at", "result")],
    **{"job.payload": "coalesce(given.payload, job.payload) AS payload", "job.state": "'done' AS state"},
)

_COMMIT = text(f"""
    WITH given AS (
        SELECT * FROM jsonb_to_recordset(CAST(:commits AS jsonb)) AS given (
            id uuid, token text, result text, payload text
        )
    ), gone AS (
        DELETE FROM stanchion_jobs AS job USING given
        WHERE job.id = ANY (ARRAY(SELECT id FROM given))
            AND job.id = given.id AND job.token = given.token AND job.state = 'running'
            AND (job.lease_until IS NULL OR job.lease_until > {_NOW})
        RETURNING {_DONE}, {_NOW} AS finished_at, given.result AS result
    ), kept AS (
        INSERT INTO stanchion_history ({_listed(HISTORY_COLUMNS)})
        SELECT {_listed(HISTORY_COLUMNS)} FROM gone
        WHERE NOT EXISTS (SELECT 1 FROM stanchion_queues WHERE name = gone.queue AND history_ttl <= 0)
    ), counted AS (
        INSERT INTO stanchion_tallies (queue, what, n)
        SELECT queue, 'committed', count(*) FROM gone GROUP BY queue
    )
    SELECT CAST(id AS text) FROM gone
""")


class PostgresStore(SqlStore):
    """The SQL store with push, claim and commit in one statement each, committed by itself."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._throttled_queues: set[str] = set()

    def push(self, jobs: Sequence[NewJob], tx: Any = None) -> list[Pushed]:
        if tx is not None or any(job.key is not None for job in jobs):
            return super().push(jobs, tx)  # a duplicate may undo the batch: that takes a transaction
        if not jobs:
            return []
        queues = {job.queue for job in jobs}
        self.make_queues(queues)
        pushed = self.database.statement(lambda run, again: self._push_in(run, jobs, again=again))
        self.dialect.announce(queues)
        return pushed

    def _push_in(self, run: Runner, jobs: Sequence[NewJob], *, again: bool = False) -> list[Pushed]:
        ordered: Sequence[NewJob] = jobs
        if again or any(job.key is not None for job in jobs):
            # One order for all: two batches that share keys or ids wait for each other, and not in a circle.
            ordered = sorted(jobs, key=lambda job: (job.queue, job.key or "", "" if job.key else job.id))
        ((stored, now),) = run.rows(_PUSH, {"jobs": json.dumps([_given(job) for job in ordered])})
        if again:
            self._undo_finished(run, jobs)
        if stored == len(jobs) and not again:
            return [Pushed(job.id, due_at(job, now), now) for job in jobs]
        results = self.known(run, jobs)
        for job in ordered:
            if job.id not in results:
                results[job.id] = self.met(run, job, created(job, now))
        return [results[job.id] for job in jobs]

    def _undo_finished(self, run: Runner, jobs: Sequence[NewJob]) -> None:
        """Take back what an earlier try had stored and a worker has finished, since its answer was lost.

        The insert itself can't see this: it waited for the worker's delete, with a snapshot from before.
        """
        finished = run.rows(self.statements.finished, {"ids": json.dumps([job.id for job in jobs])})
        twice = [row for row in finished if run.change(self.statements.remove, {"job": row[0]})]
        self.tally(run, [(row[1], "pushed") for row in twice], sign=-1)

    def claim(self, claim: Claim) -> Claimed:
        if claim.queue in self._throttled_queues:
            return self._claim_carefully(claim)
        if rows := self.database.statement(lambda run, again: self._claim_at_once(run, claim, again)):
            return Claimed(rows)
        throttled, expired = self.database.read(lambda run: run.rows(_HINDRANCE, {"queue": claim.queue})[0])
        if throttled:
            self._throttled_queues.add(claim.queue)
        return self._claim_carefully(claim) if throttled or expired else Claimed([])

    def _claim_at_once(self, run: Runner, claim: Claim, again: bool) -> list[JobRow]:
        if (again or claim.repeat) and (held := self.held(run, claim)):
            return held
        params = {"queue": claim.queue, "most": claim.limit, **self._reservation(run, claim)}
        return in_order(run.rows(_CLAIM, params))

    def _reservation(self, run: Runner, claim: Claim) -> Params:
        """Return the parameters of the reservation; the queue's own lease is read where it matters."""
        if claim.worker is not None or claim.lease is not None:
            return reservation(claim, QueueSettings(claim.queue))
        return reservation(claim, self.queue_row(run, claim.queue)[0])

    def _claim_carefully(self, claim: Claim) -> Claimed:
        """Claim in a transaction: free expired leases first, keep to the limits of the queue."""
        settings = self.database.read(lambda run: self.queue_row(run, claim.queue)[0])
        if not settings.throttled:
            self._throttled_queues.discard(claim.queue)
        return super().claim(claim)

    def settle(self, outcomes: Sequence[Outcome], tx: Any = None, *, repeat: bool = False) -> list[JobState | None]:
        if tx is not None or repeat or not all(type(outcome) is Commit for outcome in outcomes):
            return super().settle(outcomes, tx, repeat=repeat)
        return self.database.statement(lambda run, again: self.settle_in(run, outcomes, set(), again=again))

    def commit_in(self, run: Runner, commits: Sequence[Commit]) -> list[JobState | None]:
        given = [
            {"id": commit.id, "token": commit.token, "result": commit.result, "payload": commit.payload}
            for commit in commits
        ]
        done = {row[0] for row in run.rows(_COMMIT, {"commits": json.dumps(given)})}
        states: list[JobState | None] = []
        for commit in commits:
            states.append(JobState.DONE if commit.id in done else None)
            done.discard(commit.id)
        return states


def _given(job: NewJob) -> dict[str, Any]:
    """Return what the statement needs to know of a job: what differs from the defaults."""
    if job[4:] == _DEFAULTS[4:]:
        plain = {"id": job.id, "queue": job.queue, "payload": job.payload}
        return plain if job.task is None else {**plain, "task": job.task}
    return {
        name: value for name, value, default in zip(NewJob._fields, job, _DEFAULTS, strict=True) if value != default
    }


_DEFAULTS = tuple(NewJob._field_defaults.get(name, _REQUIRED) for name in NewJob._fields)

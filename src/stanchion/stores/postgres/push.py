"""PostgreSQL's push: one statement that commits itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from sqlalchemy import text

from stanchion.stores.postgres.pick import HERE, NOW, listed
from stanchion.stores.records.jobs import UNLANED, NewJob, Pushed
from stanchion.stores.rules.jobs import created, due_at
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.joining import must_be_here
from stanchion.stores.sql.engine.runner import Asked, Params, Runner
from stanchion.stores.sql.engine.schema import LIVE_COLUMNS
from stanchion.stores.sql.jobs.held_keys import HeldKeys, any_held
from stanchion.stores.sql.jobs.push import Push, push_within
from stanchion.stores.sql.rows.jobs import Jobs
from stanchion.stores.sql.rows.queues import QueueRows
from stanchion.stores.sql.rows.transactions import Transactions

# Called by built-ins over all jobs: cheaper per job than a comprehension.
_ID, _QUEUE, _KEY, _LANE = map(attrgetter, ("id", "queue", "key", "lane"))
_NO_KEYS = {None}
_NO_LANES = {UNLANED}

_REQUIRED = object()
DEFAULTS = tuple(NewJob._field_defaults.get(name, _REQUIRED) for name in NewJob._fields)

_NEW = listed(
    LIVE_COLUMNS,
    lane=f"coalesce(lane, {UNLANED})",
    state="CASE WHEN waits_kind IS NULL THEN 'queued' ELSE 'waiting' END",
    priority="coalesce(priority, 0)",
    rank="coalesce(priority, 0)",
    run_at=f"coalesce(run_at, {NOW} + CAST(floor(coalesce(delay, 0) * 1000000) AS BIGINT))",
    enqueued_at=NOW,
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
    slots_held="0",
    order_hold="NULL",
    slots_hold="NULL",
    waits_since=f"CASE WHEN waits_kind IS NOT NULL THEN {NOW} END",
    arrival_payload="NULL",
    entry_payload="NULL",
)

_PUSHED = f"""
    WITH given AS (
        SELECT * FROM jsonb_to_recordset(CAST(:jobs AS jsonb)) AS given (
            id uuid, queue text, payload text, task text, priority int2, run_at bigint, delay float8,
            headers text, tenant text, key text, order_key text, limits text, flow_root uuid, flow_node uuid,
            flow_index int, flow_after text, origin uuid, max_attempts int, timeout float8, lane int, waits_kind text,
            waits_queue text, waits_name text, trail text
        ) {{where}}
    ), stored AS (
        INSERT INTO stanchion_jobs ({listed(LIVE_COLUMNS)})
        SELECT {_NEW}
        FROM given
        WHERE NOT {{finished}}
        ON CONFLICT DO NOTHING
        RETURNING queue
    ), counted AS (
        INSERT INTO stanchion_counter_events (queue, what, n)
        SELECT queue, 'pushed', count(*) FROM stored GROUP BY queue
    )
    SELECT (SELECT count(*) FROM stored), {NOW}
"""
_FINISHED = "EXISTS (SELECT 1 FROM stanchion_history AS finished WHERE finished.id = given.id)"
# For the condition above, a plan made while history was small may read all of it, once per job or to hash it, until the
# server has analyzed the grown table. Ids made together span so narrow a range that the index is chosen.
_FINISHED_IN_RANGE = """(given.id = ANY (ARRAY(
    SELECT finished.id FROM stanchion_history AS finished
    WHERE finished.id BETWEEN CAST(:first AS uuid) AND CAST(:last AS uuid) AND finished.id IN (SELECT id FROM given)
)))"""
_PUSH, _PUSH_JOINED, _PUSH_APART, _PUSH_APART_JOINED = (
    text(_PUSHED.format(where=where, finished=finished))
    for finished in (_FINISHED_IN_RANGE, _FINISHED)
    for where in ("", f"WHERE {HERE}")
)
_MADE_TOGETHER = len("01a1fe3f-73a2-767e-a69c-")
"""The length of the prefix that ids made by one call of `new_ids` share."""


class PostgresPush:
    """Stores new jobs by one statement, which inserts nothing in another database than the store's."""

    def __init__(self, db: Database, transactions: Transactions, jobs: Jobs, queues: QueueRows, general: Push) -> None:
        self._db, self._transactions, self._jobs, self._queues = db, transactions, jobs, queues
        self._general = general
        self._held_keys = HeldKeys(db, jobs)

    def push(self, jobs: Sequence[NewJob], tx: Any = None, *, repeat: bool = False) -> list[Pushed]:
        if not jobs:
            return []
        # A duplicate may undo the batch, and what ended meanwhile a part of it.
        if tx is not None or repeat or set(map(_KEY, jobs)) != _NO_KEYS:
            guarded = set(map(_LANE, jobs)) == _NO_LANES and not any_held(jobs) and not repeat
            push_in = self._held_keys.respected(jobs, self.push_in)
            return push_within(self._transactions, jobs, tx, push_in, guarded=guarded, repeat=repeat)
        self._queues.make_for(jobs)
        pushed = self._db.statement(lambda run, again: self.push_in(run, jobs, again=again))
        self._db.dialect.announce(set(map(_QUEUE, jobs)))
        return pushed

    def push_in(self, run: Runner, jobs: Sequence[NewJob], *, again: bool = False) -> list[Pushed]:
        if set(map(_LANE, jobs)) != _NO_LANES:
            self._queues.use_lanes(run, {job.queue for job in jobs if job.lane != UNLANED})
        ordered: Sequence[NewJob] = jobs
        if again or set(map(_KEY, jobs)) != _NO_KEYS:
            # One order for all callers: two batches that share keys or ids can't deadlock.
            ordered = sorted(jobs, key=lambda job: (job.queue, job.key or "", "" if job.key else job.id))
        ((stored, now),) = run.rows(*_pushing(ordered, guarded=run.guarded))
        undone = self._jobs.undo_ended(run, [created(job, now) for job in jobs]) if again else {}
        if run.guarded and not stored:
            must_be_here(self._db, run)
            return self.push_in(run, jobs)
        if stored == len(jobs) and not undone:
            return [Pushed(job.id, due_at(job, now), now) for job in jobs]
        results = self._jobs.stored(run, [job.id for job in jobs])
        for job in ordered:
            if job.id not in results:
                results[job.id] = self._general.met(run, job, created(job, now))
        return [results[job.id] for job in jobs]


def _pushing(jobs: Sequence[NewJob], *, guarded: bool) -> Asked:
    """Return the statement that stores these jobs, with its parameters."""
    given: Params = {"jobs": json.dumps([_given(job) for job in jobs])}
    ids = list(map(str.lower, map(_ID, jobs)))
    first, last = min(ids), max(ids)
    if first[:_MADE_TOGETHER] != last[:_MADE_TOGETHER]:
        return (_PUSH_APART_JOINED if guarded else _PUSH_APART), given
    return (_PUSH_JOINED if guarded else _PUSH), {**given, "first": first, "last": last}


def _given(job: NewJob) -> dict[str, Any]:
    """Return the fields of a job that differ from the defaults."""
    if job[4:] == DEFAULTS[4:]:
        plain = {"id": job.id, "queue": job.queue, "payload": job.payload}
        return plain if job.task is None else {**plain, "task": job.task}
    return {name: value for name, value, default in zip(NewJob._fields, job, DEFAULTS, strict=True) if value != default}

"""PostgreSQL's push of jobs that are to run: stored as running by one statement, where none needs a slot or a key."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from stanchion.stores.fields.sql import begun, literal
from stanchion.stores.postgres.claims.claim import PostgresClaims
from stanchion.stores.postgres.pick import BOUNDED, IN_TIME, NOW, RESERVES
from stanchion.stores.postgres.push import (
    KEY_OF,
    LANE_OF,
    NO_KEYS,
    NO_LANES,
    NO_PARTS,
    PART_OF,
    PAYLOAD_OF,
    asked,
    given_in,
    pushes,
)
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import UNLANED, JobRow, NewJob, Pushed
from stanchion.stores.rules.capacity.slots import NO_SLOTS, slot_needs
from stanchion.stores.rules.capacity.starts import claim_of, with_tokens
from stanchion.stores.rules.lifecycle.jobs import due_at
from stanchion.stores.sql.claims.ids import Starts
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.rows.queues import QueueRows

_STARTS = f"""
    coalesce(runs, false) AND waits_kind IS NULL AND queue = :of_queue AND coalesce(run_at, 0) <= {NOW}
    AND coalesce(delay, 0) <= 0 AND {IN_TIME} AND NOT {BOUNDED}
"""
_BEGUN = begun(
    f"CASE WHEN worker IS NULL THEN {NOW} + CAST(:lease_micros AS bigint) END",
    NOW,
    "coalesce(worker, CAST(:holder AS text))",
    attempts="1",
)
_STARTED = {
    name: f"CASE WHEN starts THEN {term} ELSE {literal(JobRow._field_defaults[name])} END"
    for name, term in _BEGUN.items()
    if name != "state" and term != "NULL"
}
_PUSH = pushes(
    more=", runs boolean, worker text",
    computed=f", {_STARTS} AS starts",
    returning="id, queue, state",
    counts=f"""
        UNION ALL SELECT :of_queue, 'reserved', count(*) FROM stored
        WHERE state = 'running' AND {RESERVES} HAVING count(*) > 0
    """,
    answer=f""", {BOUNDED}, CASE
        WHEN (SELECT count(*) FROM stored WHERE state = 'running') < (SELECT count(*) FROM given WHERE runs)
            THEN (SELECT CAST(coalesce(jsonb_agg(id), '[]') AS text) FROM stored WHERE state = 'running')
    END""",
    state="CASE WHEN starts THEN 'running' WHEN waits_kind IS NULL THEN 'queued' ELSE 'waiting' END",
    **_STARTED,
)


class _Stored(NamedTuple):
    """The results of a push, and whether the limits of the queue left all of its jobs queued."""

    pushed: list[Pushed]
    bounded: bool


class PostgresStarts:
    """Stores new jobs, and a claim's jobs as running."""

    def __init__(self, db: Database, queues: QueueRows, claims: PostgresClaims, general: Starts) -> None:
        self._db, self._queues, self._claims, self._general = db, queues, claims, general

    def push(self, jobs: Sequence[NewJob], tx: object, claim: Claim, *, repeat: bool = False) -> list[Pushed]:
        """Store jobs; the claim's jobs that were not known before are stored as running, as far as they may run."""
        if tx is not None or repeat or not _fits(jobs, claim):
            return self._general.push(jobs, tx, claim, repeat=repeat)
        self._queues.make_for(jobs)
        stored = self._db.statement(lambda run, again: None if again else self._store(run, jobs, claim))
        if stored is None:  # a part is known, maybe by an earlier try: the answer is read
            return self._general.push(jobs, None, claim, repeat=True)
        pushed = stored.pushed
        if stored.bounded and (wish := claim_of(claim, {job.id for job in jobs})) is not None:
            pushed = with_tokens(pushed, claim, {row.id for row in self._claims.claim(wish).rows})
        queued = {job.queue for job, one in zip(jobs, pushed, strict=True) if one.token is None}
        if queued:
            self._db.dialect.announce(queued)
        return pushed

    def _store(self, run: Runner, jobs: Sequence[NewJob], claim: Claim) -> _Stored | None:
        """Store the jobs by one statement; None if some of them are known."""
        if set(map(LANE_OF, jobs)) != NO_LANES:
            self._queues.use_lanes(run, {job.queue for job in jobs if job.lane != UNLANED})
        workers = claim.workers
        given = [
            {**given_in(job), "runs": True, "worker": workers[job.id] or None} if job.id in workers else given_in(job)
            for job in jobs
        ]
        statement, texts = asked(_PUSH, jobs, given)
        ((stored, now, bounded, some),) = run.rows(statement, {**self._claims.naming(run, claim), **texts})
        if stored < len(jobs):
            return None
        pushed = [Pushed(job.id, due_at(job, now), now) for job in jobs]
        return _Stored(with_tokens(pushed, claim, workers if some is None else json.loads(some)), bounded)


def _fits(jobs: Sequence[NewJob], claim: Claim) -> bool:
    """Return whether one statement can store the jobs and decide which of them run."""
    plain = set(map(KEY_OF, jobs)) == NO_KEYS and {NO_SLOTS}.issuperset(map(slot_needs, jobs))
    single = set(map(PART_OF, jobs)) == NO_PARTS and bytes not in set(map(type, map(PAYLOAD_OF, jobs)))
    return bool(jobs and claim.ids) and len(claim.ids) <= claim.limit and plain and single

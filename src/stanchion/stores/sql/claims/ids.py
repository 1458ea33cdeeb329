"""Claims of jobs by their ids, each for its worker, and pushes of jobs that start running immediately.

A claim by ids:

    1. lock the queued and due jobs that no other transaction holds
    2. reserve them as any claim would, all for the worker of the first
    3. if others are for other workers, write these, by one statement

A job that another transaction has locked is left out, so the claim never waits for one. It waits only for the row of
its queue, if that has limits, and for slots; the clock is compared with `Claim.not_after` after the last such wait.

A push inserts jobs as running where none needs a slot or has a key to hold, and the queue has no limits. Otherwise it
stores them, and claims them by their ids in the same transaction.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from sqlalchemy import BigInteger, Executable, String, literal_column, select, text

from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import QUEUED, SECOND, JobRow, NewJob, Pushed
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.capacity.slots import NO_SLOTS, slot_needs, uses_slots
from stanchion.stores.rules.capacity.starts import claim_of, with_tokens
from stanchion.stores.rules.lifecycle.claims import claimed
from stanchion.stores.sql.claims.admit import ASKING, Admission, asking
from stanchion.stores.sql.claims.order import ReservesNext
from stanchion.stores.sql.claims.pick import Search
from stanchion.stores.sql.claims.reserve import Reservations, lease_of
from stanchion.stores.sql.engine.columns import id_as_text, param
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.dialect import Dialect
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.engine.schema import jobs
from stanchion.stores.sql.jobs.held_keys import HeldKeys, any_held
from stanchion.stores.sql.jobs.push import Pushes, push_within
from stanchion.stores.sql.rows.tables import Tables

_NEVER = 2**62
"""Later than any clock."""


class ByIdStatements:
    """The statements about jobs that a claim names, for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        these = text(dialect.among("stanchion_jobs.id", "ids", "uuid"))
        # The spelling of the state keeps planners from the partial index of queued jobs, which may be long.
        queued = jobs.c.state.op("IN", is_comparison=True)(literal_column("('queued', '')"))
        in_time = dialect.now <= param("not_after", BigInteger)
        picked = (
            select(id_as_text(jobs.c.id), *(jobs.c[name] for name in ASKING))
            .where(jobs.c.queue == param("queue", String), these, queued, in_time)
            .with_for_update(skip_locked=True)
        )
        self.pick: Executable = picked.where(jobs.c.run_at <= dialect.now)
        self.pick_to_divide: Executable = picked
        # SQLite would read all of `given` for each job then.
        by_array = "TRUE" if dialect.single_writer else these
        self.assign: Executable = text(f"""
            UPDATE stanchion_jobs SET worker = coalesce(given.worker, :holder),
                lease_until = CASE WHEN given.worker IS NULL THEN started_at + CAST(:lease_micros AS BIGINT) END
            FROM {dialect.assignments("assigned")}
            WHERE queue = :queue AND stanchion_jobs.id = given.id AND {by_array}
        """)


class JobsById:
    """Reserves the jobs that a claim names."""

    def __init__(
        self, db: Database, next_jobs: ReservesNext, statements: type[ByIdStatements] = ByIdStatements
    ) -> None:
        self._dialect, self._next_jobs = db.dialect, next_jobs
        self._statements = db.dialect.once(statements)

    def reserve(self, run: Runner, claim: Claim, search: Search, settings: QueueSettings, limit: int) -> Admission:
        """Reserve up to `limit` of the jobs that a claim names, in its order, all for the claim's own worker."""
        wanted = claim.workers
        given = {
            "queue": claim.queue,
            "ids": self._dialect.listed(wanted),
            "not_after": _NEVER if claim.not_after is None else claim.not_after,
        }
        pick = self._statements.pick_to_divide if claim.divides else self._statements.pick
        search.asking = {str(row[0]): row for row in run.rows(pick, given)}
        ids = [one for one in wanted if one in search.asking]
        if not any(uses_slots(asking(row)) for row in search.asking.values()):
            ids = ids[:limit]
        return self._next_jobs.reserve_these(run, claim, search, settings, ids, limit)._replace(more=False)

    def assigned(self, run: Runner, claim: Claim, settings: QueueSettings, rows: Sequence[JobRow]) -> list[JobRow]:
        """Give reserved jobs, which are held for the claim's own worker, to the workers that the claim names."""
        workers, lease_micros = claim.workers, int(lease_of(claim, settings) * SECOND)
        mine = claim.worker or ""
        others = {row.id: workers[row.id] for row in rows if workers[row.id] != mine}
        if not others:
            return list(rows)
        given = {
            "queue": claim.queue,
            "ids": self._dialect.listed(others),
            "assigned": json.dumps([[job_id, worker or None] for job_id, worker in others.items()]),
            "holder": claim.holder,
            "lease_micros": lease_micros,
        }
        run.send(self._statements.assign, given)
        return [_held(row, others[row.id], claim, lease_micros) if row.id in others else row for row in rows]


def _held(row: JobRow, worker: str, claim: Claim, lease_micros: int) -> JobRow:
    """Return a reserved job as its worker holds it."""
    lease_until = None if worker else (row.started_at or 0) + lease_micros
    return row._replace(worker=claim.of(worker).held_by, lease_until=lease_until)


class PushesToRun(Protocol):
    """Stores new jobs, and reserves the ones that a claim names."""

    def push(self, jobs: Sequence[NewJob], tx: object, claim: Claim, *, repeat: bool = False) -> list[Pushed]:
        """Store jobs; the claim's jobs that were not known before are stored as running, as far as they may run."""


class ClaimsNamed(Protocol):
    """Claims the jobs that a claim names."""

    def claim_ids(self, run: Runner, claim: Claim, *, again: bool = False) -> Admission:
        """Reserve them, in an open transaction; `again`: the call is a repeat."""


class InsertsAsRunning(Protocol):
    """Stores new jobs, some of them as running."""

    def push_in(self, run: Runner, jobs: Sequence[NewJob], *, begun: Callable[[JobRow], JobRow]) -> list[Pushed]:
        """Store jobs in an open transaction; `begun`: returns the row of a new job as it is stored."""


class Starts:
    """Stores new jobs, and reserves the ones that a claim names."""

    def __init__(
        self,
        tables: Tables,
        pushes: Pushes,
        claims: ClaimsNamed,
        reservations: Reservations,
        inserts: InsertsAsRunning | None = None,
    ) -> None:
        """`inserts`: inserts jobs as running; None: they are stored and claimed."""
        db, self._transactions, self._jobs, self._queues = tables
        self._pushes, self._inserts = pushes, inserts
        self._claims, self._reservations = claims, reservations
        self._held_keys = HeldKeys(db, tables.jobs)

    def push(self, jobs: Sequence[NewJob], tx: object, claim: Claim, *, repeat: bool = False) -> list[Pushed]:
        """Store jobs; the claim's jobs that were not known before are stored as running, as far as they may run."""
        if not claim.ids:
            return self._pushes.push(jobs, tx, repeat=repeat)
        push_in = self._held_keys.respected(jobs, self._pushes.push_in)
        plain = _are_plain(jobs, claim) and not repeat

        def start_in(run: Runner, jobs: Sequence[NewJob], *, again: bool = False) -> list[Pushed]:
            if plain and not again and self._inserts is not None:
                settings = self._settings(run, claim.queue)
                if not (settings.paused or settings.bounded):
                    begun = partial(_begun, claim, lease_of(claim, settings))
                    return self._with_known(run, claim, self._inserts.push_in(run, jobs, begun=begun))
            known = self._jobs.stored(run, [job.id for job in jobs])
            pushed = push_in(run, jobs, again=again or repeat)
            new = claim_of(claim, {one.id for one in pushed if not one.duplicate} - known.keys())
            running = {row.id for row in self._claims.claim_ids(run, new).rows} if new is not None else set()
            if known:
                running |= {row.id for row in self._reservations.held(run, claim)}
            return with_tokens(pushed, claim, running)

        return push_within(self._transactions, jobs, tx, start_in)

    def _with_known(self, run: Runner, claim: Claim, pushed: Sequence[Pushed]) -> list[Pushed]:
        """Return the stored jobs of a push, including the token of jobs that an earlier try stored as running."""
        workers = claim.workers
        if not any(one.token is None and one.id in workers for one in pushed):
            return list(pushed)
        return with_tokens(pushed, claim, {row.id for row in self._reservations.held(run, claim)})

    def _settings(self, run: Runner, queue: str) -> QueueSettings:
        row = self._queues.find(run, queue)
        return QueueSettings(queue) if row is None else row.settings


def _are_plain(jobs: Sequence[NewJob], claim: Claim) -> bool:
    """Return whether the jobs themselves decide which of them run."""
    plain = {NO_SLOTS}.issuperset(map(slot_needs, jobs)) and not any_held(jobs)
    return plain and claim.counted and len(claim.ids) <= claim.limit


def _begun(claim: Claim, lease: float, row: JobRow) -> JobRow:
    """Return the row of a new job as running, if it is due and the claim names it in time."""
    worker, now = claim.workers.get(row.id), row.enqueued_at
    if worker is None or row.queue != claim.queue or row.state != QUEUED or row.run_at > now or claim.is_late(now):
        return row
    return claimed(row, claim.of(worker), lease, now)

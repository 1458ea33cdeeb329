"""Pushes of jobs that start running immediately, in one transaction.

Where no job needs a slot or has a key to hold, and the queue has no limits, they are inserted as running. Else they are
stored, and claimed by their ids.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import QUEUED, JobRow, NewJob, Pushed
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.claims import claimed
from stanchion.stores.rules.slots import NO_SLOTS, slot_needs
from stanchion.stores.rules.starts import claim_of, with_tokens
from stanchion.stores.sql.claims.claim import TransactionClaims
from stanchion.stores.sql.claims.reservations import Reservations, lease_of
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.jobs.held_keys import HeldKeys, any_held
from stanchion.stores.sql.jobs.push import Pushes, push_within
from stanchion.stores.sql.rows.jobs import Jobs
from stanchion.stores.sql.rows.queues import QueueRows
from stanchion.stores.sql.rows.transactions import Transactions


class PushesToRun(Protocol):
    """Stores new jobs, and reserves the ones that a claim names."""

    def push(
        self, jobs: Sequence[NewJob], tx: Any = None, claim: Claim | None = None, *, repeat: bool = False
    ) -> list[Pushed]:
        """Store jobs; see `Store.push`."""


class InsertsAsRunning(Protocol):
    """Stores new jobs, some of them as running."""

    def push_in(self, run: Runner, jobs: Sequence[NewJob], *, begun: Callable[[JobRow], JobRow]) -> list[Pushed]:
        """Store jobs in an open transaction; `begun`: returns the row of a new job as it is stored."""


class Starts:
    """Stores new jobs, and reserves the ones that a claim names."""

    def __init__(
        self,
        db: Database,
        transactions: Transactions,
        jobs: Jobs,
        queues: QueueRows,
        pushes: Pushes,
        claims: TransactionClaims,
        reservations: Reservations,
        inserts: InsertsAsRunning | None = None,
    ) -> None:
        """`inserts`: inserts jobs as running; None: they are stored and claimed."""
        self._transactions, self._jobs, self._pushes, self._inserts = transactions, jobs, pushes, inserts
        self._claims, self._reservations = claims, reservations
        self._held_keys, self._queues = HeldKeys(db, jobs), queues

    def push(
        self, jobs: Sequence[NewJob], tx: Any = None, claim: Claim | None = None, *, repeat: bool = False
    ) -> list[Pushed]:
        """Store jobs; the claim's jobs that were not known before are stored as running, as far as they may run."""
        if claim is None or not claim.ids:
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

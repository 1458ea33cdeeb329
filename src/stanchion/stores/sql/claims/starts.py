"""Pushes of jobs that are to run at once: they are stored, and claimed by their ids in the same transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import NewJob, Pushed
from stanchion.stores.rules.starts import claim_of, with_tokens
from stanchion.stores.sql.claims.claim import TransactionClaims
from stanchion.stores.sql.claims.reservations import Reservations
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.runner import Runner
from stanchion.stores.sql.jobs.held_keys import HeldKeys
from stanchion.stores.sql.jobs.push import Pushes, push_within
from stanchion.stores.sql.rows.jobs import Jobs
from stanchion.stores.sql.rows.transactions import Transactions


class PushesToRun(Protocol):
    """Stores new jobs, and reserves those that a claim names."""

    def push(
        self, jobs: Sequence[NewJob], tx: Any = None, claim: Claim | None = None, *, repeat: bool = False
    ) -> list[Pushed]:
        """Store jobs; see `Store.push`."""


class Starts:
    """Stores new jobs, and reserves those that a claim names."""

    def __init__(
        self,
        db: Database,
        transactions: Transactions,
        jobs: Jobs,
        pushes: Pushes,
        claims: TransactionClaims,
        reservations: Reservations,
    ) -> None:
        self._transactions, self._jobs, self._pushes = transactions, jobs, pushes
        self._claims, self._reservations = claims, reservations
        self._held_keys = HeldKeys(db, jobs)

    def push(
        self, jobs: Sequence[NewJob], tx: Any = None, claim: Claim | None = None, *, repeat: bool = False
    ) -> list[Pushed]:
        """Store jobs; those of the claim that were not known before are stored as running, as far as they may run."""
        if claim is None or not claim.ids:
            return self._pushes.push(jobs, tx, repeat=repeat)
        push_in = self._held_keys.respected(jobs, self._pushes.push_in)

        def start_in(run: Runner, jobs: Sequence[NewJob], *, again: bool = False) -> list[Pushed]:
            known = self._jobs.stored(run, [job.id for job in jobs])
            pushed = push_in(run, jobs, again=again or repeat)
            new = claim_of(claim, {one.id for one in pushed if not one.duplicate} - known.keys())
            running = {row.id for row in self._claims.claim_ids(run, new).rows} if new is not None else set()
            if known:
                running |= {row.id for row in self._reservations.held(run, claim)}
            return with_tokens(pushed, claim, running)

        return push_within(self._transactions, jobs, tx, start_in)

"""Claims of whole batches: jobs are reserved without returning their rows."""

from __future__ import annotations

from typing import Protocol

from stanchion.stores.records import calls
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.rules.lost_leases import apart
from stanchion.stores.rules.unreadable import readable
from stanchion.stores.sql.claims.due import FindsDue
from stanchion.stores.sql.claims.next_jobs import excludes_unlaned
from stanchion.stores.sql.claims.recovery import Recovery
from stanchion.stores.sql.claims.reservations import Reservations
from stanchion.stores.sql.claims.search import Search
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.runner import SAVEPOINT, TO_SAVEPOINT, Runner
from stanchion.stores.sql.jobs.settle import Settles
from stanchion.stores.sql.rows.jobs import Jobs
from stanchion.stores.sql.rows.queues import QueueRows
from stanchion.stores.sql.rows.transactions import Transactions


class ClaimsJobs(Protocol):
    """Claims jobs, and returns them."""

    def claim(self, claim: Claim) -> Claimed:
        """Reserve jobs; the answer may hold several that should run alone."""


class ReservesUnseen(Protocol):
    """Reserves jobs whose rows the claimer does not read."""

    def reserve(self, claim: Claim) -> int | None:
        """Reserve the next due jobs; return how many the token holds, None if this route does not fit all of them."""


class UnseenReservations:
    """Reserves jobs of plain queues in a transaction."""

    def __init__(
        self,
        transactions: Transactions,
        jobs: Jobs,
        queues: QueueRows,
        recovery: Recovery,
        due: FindsDue,
        reservations: Reservations,
    ) -> None:
        self._transactions, self._jobs, self._queues = transactions, jobs, queues
        self._recovery, self._due, self._reservations = recovery, due, reservations

    def reserve(self, claim: Claim) -> int | None:
        def work(run: Runner, again: bool) -> int | None:
            return self._reserve_in(run, claim, again=again)

        return self._transactions.write(work, calls.seconds_for(claim.limit), durable=False)  # as any claim

    def _reserve_in(self, run: Runner, claim: Claim, *, again: bool) -> int | None:
        self._recovery.recover_expired(run)
        settings = self._queues.settings(run, claim.queue)
        if (again or claim.repeat) and (found := self._reservations.count_held(run, claim.queue, claim.token)):
            return found
        if settings.limited or settings.uses_slots or excludes_unlaned(claim):
            return None
        ids = self._due.due(run, claim.queue, claim.limit, Search(claim.min_rank))
        if not ids:
            return 0
        run.change(SAVEPOINT)
        reserved = self._reservations.plain_unseen(run, claim, settings, ids)
        if reserved != len(ids):
            run.change(TO_SAVEPOINT)
            return None
        if claim.counted:
            self._jobs.count_events(run, [(claim.queue, "reserved")] * reserved)
        return reserved


class Claims:
    """The verb: delivers jobs that lost their lease twice one at a time.

    If the claim asks for no rows, it returns only their number.
    """

    def __init__(
        self,
        db: Database,
        routes: ClaimsJobs,
        unseen: ReservesUnseen,
        reservations: Reservations,
        outcomes: Settles,
    ) -> None:
        self._db, self._ways, self._unseen = db, routes, unseen
        self._reservations, self._outcomes = reservations, outcomes
        self._unchecked: set[str] = set()
        """Tokens of batches whose claims failed before all their jobs were checked: repeats must check them."""

    def claim(self, claim: Claim) -> Claimed:
        if not claim.rows:
            return Claimed([], reserved=self._reserved(claim))
        claimed, others = apart(self._ways.claim(claim))
        if others:
            self._outcomes.settle(others)
        return claimed

    def _reserved(self, claim: Claim) -> int:
        """Reserve jobs, and bury unreadable ones; return how many the token holds."""
        elsewhere = claim.ids or claim.not_after is not None or claim.token in self._unchecked
        if not elsewhere and (reserved := self._unseen.reserve(claim)) is not None:
            return reserved
        self._unchecked.add(claim.token)
        while True:
            if dead := readable(self._ways.claim(claim))[1]:
                self._outcomes.settle(dead)
            held = self._db.read(lambda run: self._reservations.count_held(run, claim.queue, claim.token))
            if held or not dead:  # a stream takes 0 to mean that no job is due
                self._unchecked.discard(claim.token)
                return held

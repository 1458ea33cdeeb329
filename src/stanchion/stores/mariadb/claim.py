"""Claims on MariaDB and MySQL: few round trips, and whole sets in each.

plain      a read, which needs no transaction if no job is due, then a transaction
slots      one round trip per step for all jobs; if many jobs have to wait, a transaction as on all databases
general    a transaction, as on all databases: for limits and lanes, also after leases have expired
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from stanchion.stores.mariadb import statements as sql
from stanchion.stores.mariadb.due import Head, MariaDBNextJobs, head_below
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.rules.lifecycle.jobs import items_of_all
from stanchion.stores.sql.claims.admit import Admission
from stanchion.stores.sql.claims.claim import Answer, Routes, ShortClaims, TransactionClaims
from stanchion.stores.sql.claims.pick import Met, Search
from stanchion.stores.sql.claims.reserve import Reservations, leased
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.runner import Asked, Params, Runner
from stanchion.stores.sql.rows.jobs import Jobs
from stanchion.stores.sql.rows.transactions import Transactions

_CANDIDATES = 50
"""Number of due jobs read at least, as others may have locked the first of them."""

_AT_ONCE = 4
"""Number of ranks read together: two of the priorities in use, and two of jobs that already hold a slot."""


class MariaDBClaims(Routes):
    """Claims by the route for the shape of the queue."""

    def __init__(
        self,
        db: Database,
        transactions: Transactions,
        jobs: Jobs,
        reservations: Reservations,
        next_jobs: MariaDBNextJobs,
        steps: SlotSteps,
        general: TransactionClaims,
    ) -> None:
        self._db, self._transactions, self._jobs, self._reservations = db, transactions, jobs, reservations
        self._next_jobs, self._steps = next_jobs, steps
        super().__init__({"plain": self._plain, "slots": self._slots}, general)

    def _plain(self, claim: Claim) -> Answer:
        if claim.repeat:
            return self.in_general(claim, locks_queue=False)
        # An idle worker mostly finds nothing: that takes a read, and no transaction.
        now, limited, uses_slots, lease, head = self._db.read(lambda run: _prospect(run, claim))
        if limited:
            self._db.locked_leases.suspect(now)
            return self.in_general(claim, locks_queue=False)
        if head is None:
            return Answer(Claimed([]), "plain")
        if uses_slots:
            return self._slots(claim)
        settings, search = leased(claim.queue, lease), Search(claim.min_rank)

        def work(run: Runner, again: bool) -> Admission:
            if again and (held := self._reservations.held(run, claim)):
                return Admission(held)
            found = self._next_jobs.reserve_from(run, claim, search, settings, claim.limit, head)
            if claim.counted and found.rows:
                self._jobs.count(run, Counter({(claim.queue, "reserved"): items_of_all(found.rows)}))
            return found

        found = self._transactions.write(work, together=True)
        if not found.more:
            return Answer(Claimed(found.rows), "plain")
        rest, met = self._claim_slots(claim._replace(limit=claim.limit - len(found.rows)))
        return Answer(rest._replace(rows=found.rows + rest.rows), met)

    def _slots(self, claim: Claim) -> Answer:
        return self.in_general(claim, locks_queue=False) if claim.repeat else Answer(*self._claim_slots(claim))

    def _claim_slots(self, claim: Claim) -> tuple[Claimed, Met]:
        search = Search(claim.min_rank, met_slots=True)
        found = self._steps.claim(claim, search)
        return found, search.met_with_slots("slots" if search.met_slots else "plain")


class SlotSteps(ShortClaims):
    """Claims jobs with or without slots: find them, lock them and their slots, write, each in one round trip."""

    def _claim_in(self, run: Runner, claim: Claim, search: Search) -> Admission | None:
        picks = search.picks(claim.limit, uses_slots=True)
        at = {**_at(claim), "most": max(4 * picks, _CANDIDATES)}
        run.send(sql.ABOVE)
        asked: list[Asked] = [(sql.PROSPECT, at)]
        for _ in range(_AT_ONCE):
            asked += [(sql.NEXT_BELOW, at), (sql.DUE_THERE, at)]
        (prospect,), *answers, _, ((lower,),) = run.all_rows([*asked, (sql.NEXT_BELOW, at), (sql.RANK, {})])
        now, limited, uses_slots, lease, *_head = prospect
        if limited:
            self._db.locked_leases.suspect(now)
            return None
        due = [one for rows in answers[1::2] for (one,) in rows]
        ids = _lock_asking(run, claim.queue, due, picks, search)
        if len(ids) < picks and lower is not None:
            return None  # there may be more at lower ranks
        settings = leased(claim.queue, lease)
        search.within(claim, settings)
        if not ids:
            search.met_slots = bool(uses_slots)
            return Admission([])
        found = self._admissions.admit(run, claim, search, settings, ids, claim.limit, last=True)
        search.met_slots = found.asked or bool(uses_slots)
        return found._replace(more=found.more and (len(ids) == picks or bool(run.freed)))


def _lock_asking(run: Runner, queue: str, due: Sequence[str], limit: int, search: Search) -> list[str]:
    """Lock up to `limit` of these jobs, skipping jobs that others have locked, and read their needed slots."""
    search.asking.clear()
    left = list(due)
    found: list[str] = []
    while left and len(found) < limit:
        some, left = left[: limit - len(found)], left[limit - len(found) :]
        locked = {str(row[0]): row for row in run.rows(sql.ASKING_OF_THESE, {"queue": queue, "ids": some})}
        search.asking.update(locked)
        found += [one for one in some if one in locked]
    return found


def _prospect(run: Runner, claim: Claim) -> tuple[int, bool, bool, float | None, Head | None]:
    """Return the clock; whether leases or limits need a transaction, and jobs use slots; the lease; the due head."""
    now, limited, uses_slots, lease, *first = run.rows(sql.PROSPECT, _at(claim))[0]
    head = None if first[0] is None else Head(*first)
    while head is not None and head.run_at > now:
        head = head_below(run, claim, head.rank)
    return now, bool(limited), bool(uses_slots), lease, head


def _at(claim: Claim) -> Params:
    return {"queue": claim.queue, "below": sql.ABOVE_ALL, "min_rank": claim.min_rank}

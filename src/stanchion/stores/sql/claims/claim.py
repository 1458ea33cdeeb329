"""The claim in transactions, which fits every queue: it frees expired leases first, and keeps its limits."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from sqlalchemy import BigInteger, Float, String, func, select, update

from stanchion.stores.records import calls
from stanchion.stores.records.claims import LOWEST_RANK, Claim, Claimed
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.queues import QueueSettings
from stanchion.stores.rules.capacity.rate_limit import Bucket
from stanchion.stores.rules.leases.lost_leases import split_alone
from stanchion.stores.rules.lifecycle.claims import in_claim_order
from stanchion.stores.rules.lifecycle.jobs import items_of_all
from stanchion.stores.rules.undeliverable import deliverable
from stanchion.stores.sql.claims.admit import Admission, Admissions, Parking
from stanchion.stores.sql.claims.ids import JobsById
from stanchion.stores.sql.claims.order import InOrder, NextInLanes, ReservesNext, excludes_unlaned
from stanchion.stores.sql.claims.pick import FindsDue, Met, Search, met_by
from stanchion.stores.sql.claims.recover import Recovery
from stanchion.stores.sql.claims.reserve import Reservations
from stanchion.stores.sql.engine.columns import RUNNING, param
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.runner import SAVEPOINT, TO_SAVEPOINT, Runner
from stanchion.stores.sql.engine.schema import jobs, queues
from stanchion.stores.sql.jobs.settle import Settles
from stanchion.stores.sql.rows.jobs import ID_OF, Jobs
from stanchion.stores.sql.rows.queue_row import QueueRow, queue_row
from stanchion.stores.sql.rows.queues import QueueRows
from stanchion.stores.sql.rows.tables import Tables
from stanchion.stores.sql.rows.transactions import Transactions

Work = Callable[[Claim, Search], Admission | None]
"""One transaction of a claim; None: it freed expired leases, and searched for no jobs."""
ShortWork = Callable[[Runner, Claim, Search], Admission | None]

_QUEUE = param("queue", String)
_RUNNING_COUNT = select(func.count()).select_from(jobs).where(jobs.c.queue == _QUEUE, jobs.c.state == RUNNING)
_SPEND = (
    update(queues)
    .where(queues.c.name == _QUEUE)
    .values(rate_tokens=param("rate_tokens", Float), rate_at=param("rate_at", BigInteger))
)


class ClaimRounds:
    """Repeats one transaction of a claim until it has enough jobs, finds no more, or runs out of time.

    Each transaction locks slots only once, and a claim that meets many waiting jobs must stay short.
    """

    def __init__(self, parking: Parking) -> None:
        self._parking = parking

    def claim(self, claim: Claim, work: Work, search: Search) -> Claimed:
        """Claim in as many transactions as needed, and park the jobs that they skipped."""
        claimed = self._filled(claim, work, search)
        if search.past is None:
            return claimed
        if claimed.rows:
            self._catch_up(claim, work, search, min(search.skipping, search.seconds) / 2)
            return claimed
        return claimed if self._parking.park(claim, search, search.seconds) else claimed._replace(retry_in=0.0)

    def _catch_up(self, claim: Claim, work: Work, search: Search, seconds: float) -> None:
        """Defer and park jobs that were skipped, from the front, so that later claims need not skip them again."""
        until, nothing = time.monotonic() + seconds, claim._replace(limit=0, repeat=False)
        search.deferring = True
        while search.spent and time.monotonic() < until:
            found = work(nothing, search)
            if found is not None and not found.more:
                break
        self._parking.park(claim, search, until - time.monotonic())

    def _filled(self, claim: Claim, work: Work, search: Search) -> Claimed:
        rows: dict[str, JobRow] = {}
        wish, began = claim, time.monotonic()
        while True:
            past, rates, asked = search.past, search.passed_rates, time.monotonic()
            found = work(wish, search)
            if found is None:
                continue
            if past is not None:
                search.skipping = time.monotonic() - asked
            rows.update(zip(map(ID_OF, found.rows), found.rows, strict=True))
            if rates and not rows:
                search.deferring = True  # nothing else is due: defer the jobs that were skipped
            elif not found.more or len(rows) >= claim.limit:
                return Claimed(list(rows.values()), 0.0 if rates and found.retry_in is None else found.retry_in)
            if time.monotonic() - began >= search.seconds:
                return Claimed(list(rows.values()), 0.0)
            wish = claim._replace(limit=claim.limit - len(rows), repeat=False)


class TransactionClaims:
    """Claims from a queue of any shape."""

    def __init__(
        self,
        tables: Tables,
        recovery: Recovery,
        reservations: Reservations,
        next_jobs: ReservesNext,
        lanes: NextInLanes,
        in_order: InOrder,
        by_ids: JobsById,
        rounds: ClaimRounds,
    ) -> None:
        self._db, self._transactions, self._jobs, self._queues = tables
        self._recovery, self._reservations, self._rounds = recovery, reservations, rounds
        self._next_jobs, self._lanes, self._in_order, self._by_ids = next_jobs, lanes, in_order, by_ids

    def claim(self, claim: Claim, search: Search | None = None) -> Claimed:
        """Reserve jobs, in as many transactions as needed; jobs that a claim names in one."""
        if not claim.ids:
            return self._rounds.claim(claim, self.claim_some, search or Search(claim.min_rank))
        found = self._transactions.write(
            lambda run, again: self.claim_ids(run, claim, again=again), durable=False, together=True
        )
        return Claimed(found.rows, found.retry_in)

    def claim_shortly(self, claim: Claim, work: ShortWork, search: Search) -> Claimed:
        """Claim by `work` in an open transaction, as long as few of the jobs have to wait."""

        def some(wish: Claim, search: Search) -> Admission | None:
            def short(run: Runner, again: bool) -> Admission | None:
                if again and (held := self._reservations.held(run, wish)):
                    return Admission(held)
                return work(run, wish, search)

            if search.past is None and not wish.repeat:
                found = self._transactions.write(short, durable=False, together=True)  # as any claim
                if found is not None:
                    return found
            return self.claim_some(wish, search)

        return self._rounds.claim(claim, some, search)

    def claim_ids(self, run: Runner, claim: Claim, *, again: bool = False) -> Admission:
        """Reserve the jobs that a claim names, in an open transaction; `again`: the call is a repeat."""
        if (again or claim.repeat) and (held := self._reservations.held(run, claim)):
            return Admission(in_claim_order(held, claim))
        row = self._queues.find(run, claim.queue)
        settings = QueueSettings(claim.queue) if row is None else row.settings
        mine = claim.of(claim.ids[0][1])._replace(lanes=None, min_rank=LOWEST_RANK)
        search = Search()
        if (settings.paused or settings.bounded) and not claim.divides:
            found = self._limited(run, mine, search)
        else:
            found = self._reserve(run, mine, search, settings, claim.limit)
        return found._replace(rows=self._by_ids.assigned(run, mine, settings, found.rows))

    def claim_some(self, claim: Claim, search: Search) -> Admission | None:
        """Run one transaction of a claim."""
        # A power cut may undo the claim: the job is ready again, and its token refuses the former holder.
        return self._transactions.write(
            lambda run, again: self._claim_in(run, claim, search, again=again), durable=False, together=True
        )

    def _claim_in(self, run: Runner, claim: Claim, search: Search, *, again: bool = False) -> Admission | None:
        expired, queue = run.all_rows(
            [self._recovery.asks_expired, self._queues.asks(claim.queue, lock=search.locks_queue)]
        )
        if expired and search.locks_queue:
            search.locks_queue = False
            return None  # freeing locks jobs first, then queues: it needs a transaction without the queue's lock
        if expired:
            self._recovery.free_lost(run, expired)
            return None  # settling these locks rows in another order than this claim would
        self._db.locked_leases.confirm()
        if (again or claim.repeat) and (held := self._reservations.held(run, claim)):
            return Admission(held)
        row = queue_row(queue[0]) if queue else None
        settings = QueueSettings(claim.queue) if row is None else row.settings
        search.settings = settings
        if settings.limited:
            locked = search.locks_queue or self._db.dialect.single_writer
            return self._limited(run, claim, search, row if locked else None)
        return self._reserve(run, claim, search, settings, claim.limit)

    def _limited(self, run: Runner, claim: Claim, search: Search, locked: QueueRow | None = None) -> Admission:
        """Claim under the queue's limits; the row of the queue is locked, so that all claimers share one count."""
        row = locked or self._queues.find(run, claim.queue, lock=True)
        if row is None or row.settings.paused:
            return Admission([])
        settings = row.settings
        limit = claim.limit
        if (most := settings.running_max) is not None:
            running = run.rows(_RUNNING_COUNT, {"queue": claim.queue})[0][0]
            limit = min(limit, most - running)
        if settings.max_rate is None:
            return self._reserve(run, claim, search, settings, limit, row)
        now = self._db.clock(run)
        bucket = Bucket(settings.max_rate, tokens=row.rate_tokens, filled_at=row.rate_at).at(now)
        found = self._reserve(run, claim, search, settings, min(limit, bucket.whole), row)
        if found.rows:
            bucket = bucket.spent(items_of_all(found.rows))
            given = {"queue": claim.queue, "rate_tokens": bucket.tokens, "rate_at": bucket.filled_at}
            run.change(_SPEND, given)
        return found if bucket.whole else found._replace(more=False, retry_in=bucket.next_in)

    def _reserve(
        self,
        run: Runner,
        claim: Claim,
        search: Search,
        settings: QueueSettings,
        limit: int,
        queue: QueueRow | None = None,
    ) -> Admission:
        """Reserve the next due jobs; from a queue with lanes, whose row must be locked, round-robin over its lanes."""
        search.within(claim, settings)
        timed = claim.not_after is not None and (settings.ordered or not claim.ids)
        catches_up = claim.limit < 1 and search.deferring and not settings.ordered
        if (limit < 1 and not catches_up) or (timed and claim.is_late(self._db.clock(run))):
            return Admission([])
        if settings.ordered and queue is not None:
            found = self._in_order.reserve(run, claim, search, settings, queue)
        elif claim.ids:
            found = self._by_ids.reserve(run, claim, search, settings, limit)
        elif settings.uses_lanes and queue is not None:
            found = self._lanes.reserve(run, claim, search, settings, limit, queue)
        elif excludes_unlaned(claim):
            found = Admission([])
        else:
            found = self._next_jobs.reserve(run, claim, search, settings, limit)
        if claim.counted:
            self._jobs.count_items(run, found.rows, "reserved")
        return found


class ShortClaims(ABC):
    """Claims jobs that need slots in few round trips, as long as few of them have to wait."""

    def __init__(self, db: Database, admissions: Admissions, general: TransactionClaims) -> None:
        self._db, self._admissions, self._general = db, admissions, general

    def claim(self, claim: Claim, search: Search) -> Claimed:
        """Claim jobs, some of which may have to wait."""
        return self._general.claim_shortly(claim, self._claim_in, search)

    @abstractmethod
    def _claim_in(self, run: Runner, claim: Claim, search: Search) -> Admission | None:
        """Claim in an open transaction; None if there are limits or expired leases, or too much has to be read."""


class Answer(NamedTuple):
    """The answer of a route of a claim.

    `claimed`: None if it has changed nothing, and the claim is to be made by the route for what was met. `met`: what
    the next claim of the queue should expect.
    """

    claimed: Claimed | None
    met: Met


class Routes:
    """Claims by the route for what the last claim of the queue met; the first claim takes the one for plain queues.

    A route checks what it meets, so this memory never decides which jobs may run.
    """

    unreadable: tuple[type[Exception], ...] = ()
    """The errors of a route that meets limits of a job that SQL can't read; Python can."""

    def __init__(self, routes: Mapping[Met, Callable[[Claim], Answer]], general: TransactionClaims) -> None:
        """`routes`: for each shape of queues, unless claims from it are made in general transactions."""
        self._routes, self._general = routes, general
        self._met: dict[str, Met] = {}

    def claim(self, claim: Claim) -> Claimed:
        """Reserve jobs from a queue of any shape."""
        if claim.ids:
            return self.named(claim)
        if claim.lanes is not None or claim.not_after is not None:
            return self._general.claim(claim)
        met = self._met.get(claim.queue, "plain")
        try:
            for _ in range(len(self._routes) + 1):
                answer = self._routes.get(met, self.in_general)(claim)
                self._met[claim.queue] = met = answer.met
                if answer.claimed is not None:
                    return answer.claimed
        except self.unreadable:
            claim = claim._replace(repeat=True)  # an earlier round may have reserved jobs under the token
        return self._general.claim(claim)

    def named(self, claim: Claim) -> Claimed:
        """Reserve the jobs that a claim names."""
        return self._general.claim(claim)

    def in_general(self, claim: Claim, *, locks_queue: bool = True) -> Answer:
        """Claim in transactions; `locks_queue`: the row of the queue is locked by the first read."""
        search = Search(claim.min_rank, locks_queue=locks_queue)
        found = self._general.claim(claim, search)
        return Answer(found, "limited" if search.settings is None else met_by(search.settings))


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
        self._db, self._routes, self._unseen = db, routes, unseen
        self._reservations, self._outcomes = reservations, outcomes
        self._unchecked: set[str] = set()
        """Tokens of batches whose claims failed before all their jobs were checked: repeats must check them."""

    def claim(self, claim: Claim) -> Claimed:
        if not claim.rows:
            return Claimed([], reserved=self._reserved(claim))
        claimed, others = split_alone(self._routes.claim(claim))
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
            if dead := deliverable(self._routes.claim(claim._replace(rows=True)))[1]:
                self._outcomes.settle(dead)
            held = self._db.read(lambda run: self._reservations.count_held(run, claim.queue, claim.token))
            if held or not dead:  # a stream takes 0 to mean that no job is due
                self._unchecked.discard(claim.token)
                return held

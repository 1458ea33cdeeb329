"""Waiting for jobs: one claim for all waiters at a queue with the same options."""

from __future__ import annotations

import logging
import math
import secrets
import time
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from stanchion.errors import StoreUnavailable
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import QUEUED, SECOND, JobRow
from stanchion.stores.records.outcomes import Rollback
from stanchion.stores.wakeup.signs import Signs
from stanchion.waits.poll import BACKUP_POLLS, Coordinator, Host, Poll
from stanchion.waits.pop import pop
from stanchion.waits.waiter import Waiter

log = logging.getLogger("stanchion")

_JOBS_PER_CLAIM_MAX = 500
"""Jobs of one claim for several waiters."""


class Request(NamedTuple):
    """A waiter for up to `limit` jobs. `lost_claim`: its own claim whose reply was lost; it may have reserved some."""

    waiter: Waiter[list[JobRow]]
    limit: int
    lost_claim: Claim | None = None


class ClaimPoll(Poll):
    """Claims for all waiters at one queue with the same options; delivers jobs first come, first served."""

    def __init__(self, coordinator: Coordinator, claim: Claim, *, pops: bool) -> None:
        super().__init__(coordinator)
        self._claim, self._pops = claim, pops
        self._requests: deque[Request] = deque()
        self._lost_claim: Claim | None = None
        self._overdue: int | None = None
        self._again = False
        self._quiet = False
        """True if the queue was found empty while signs were heard, and no sign has come since."""

    @property
    def waiters(self) -> Iterable[Waiter[list[JobRow]]]:
        return [request.waiter for request in self._requests]

    def __len__(self) -> int:
        return len(self._requests)

    def add(self, request: Request) -> None:
        """Add a waiter whose claim has just found no job. The caller holds the lock."""
        self._requests.append(request)
        if self._quiet and request.lost_claim is None:
            self.due = min(self.due, request.waiter.deadline)
        else:
            self.due, self._again = 0.0, True

    def forget_gone(self) -> None:
        requests, self._requests = self._requests, deque[Request]()
        for request in requests:
            if request.waiter.waits:
                self._requests.append(request)
            else:
                self._lose(request.lost_claim)

    def ended(self) -> None:
        self._lose(self._lost_claim)

    def _lose(self, claim: Claim | None) -> None:
        """Leave a claim whose reply was lost to its consumer, as no caller waits for its jobs."""
        if claim is not None and not self._pops:
            self.coordinator.lost_claims.add(claim)

    def listens_to(self) -> Signs:
        return Signs(frozenset([self._claim.queue]))

    def signed(self, signs: Signs) -> None:
        if signs.queues is None or self._claim.queue in signs.queues:
            self.heard()

    def heard(self) -> None:
        self.due, self._again, self._quiet = 0.0, True, False

    def ask(self) -> None:
        with self.coordinator.lock:
            self._again = self._quiet = False
            self.forget_gone()
            requests = list(self._requests)
        self.coordinator.host.before_claim(self._claim.queue)
        for request in requests:
            if request.lost_claim is not None:
                self._repeat(request)
        limits = [request.limit for request in requests if request.waiter.waits]
        wanted = min(max([_JOBS_PER_CLAIM_MAX, *limits[:1]]), sum(limits))
        if not wanted:
            self._rest(math.inf)
            return
        began, heard = time.monotonic(), self._hears()
        rows, retry_in = self._take(wanted)
        left = self._hand_out(rows)
        if left:
            self.coordinator.put_back(left, pops=self._pops)
        nap = 0.0 if len(rows) >= wanted else self._nap(retry_in)
        with self.coordinator.lock:
            waiting = [request.waiter for request in self._requests if request.waiter.waits]
        late = [waiter for waiter in waiting if waiter.deadline <= began]
        for waiter in late:
            waiter.deliver([])
        self._rest(nap, quiet=heard and len(rows) < wanted)

    def _hears(self) -> bool:
        return self._claim.queue in (self.coordinator.heard.queues or ())

    def _repeat(self, request: Request) -> None:
        """Repeat a claim whose reply was lost; deliver the jobs that it reserved then or reserves now."""
        assert request.lost_claim is not None  # noqa: S101 - asked by the caller
        rows = self._ask_for(request.lost_claim._replace(repeat=True))[0]
        with self.coordinator.lock:
            if request in self._requests:
                self._requests[self._requests.index(request)] = request._replace(lost_claim=None)
        if rows and not request.waiter.deliver(rows):
            self.coordinator.put_back(rows, pops=self._pops)

    def _take(self, wanted: int) -> tuple[list[JobRow], float | None]:
        """Claim `wanted` jobs; after a lost reply, repeat that claim instead."""
        claim = self._lost_claim or self._claim._replace(limit=wanted, token=secrets.token_hex(8))
        repeat, self._lost_claim = self._lost_claim is not None, None
        try:
            return self._ask_for(claim._replace(repeat=repeat))
        except StoreUnavailable:
            self._lost_claim = claim
            raise

    def _ask_for(self, claim: Claim) -> tuple[list[JobRow], float | None]:
        store = self.coordinator.host.store
        claimed = pop(store, claim) if self._pops else store.claim(claim)
        self.coordinator.host.answered()
        return claimed.rows, claimed.retry_in

    def _hand_out(self, rows: list[JobRow]) -> list[JobRow]:
        """Deliver the jobs to the waiters in order; return those not taken."""
        left = list(rows)
        with self.coordinator.lock:
            requests = list(self._requests)
        for request in requests:
            if not left:
                break
            if request.waiter.deliver(left[: request.limit]):
                left = left[request.limit :]
        return left

    def _nap(self, retry_in: float | None) -> float:
        """Return the seconds until a claim may find more: a job comes due or a limit allows it. At most one poll."""
        host, queue = self.coordinator.host, self._claim.queue
        naps = [host.poll * BACKUP_POLLS if self._hears() else host.poll]
        if retry_in is not None:
            naps.append(max(0.001, retry_in))
        due = host.store.stats([queue], ["next_due"])[queue].next_due
        later = math.inf if due is None else (due - host.store.now()) / SECOND
        overdue = due if later <= 0 else None
        if later > 0:
            naps.append(later)
        elif overdue != self._overdue:  # it may have become due after the claim: try once more immediately
            naps.append(0.0)
        self._overdue = overdue
        return min(naps)

    def _rest(self, nap: float, *, quiet: bool = False) -> None:
        with self.coordinator.lock:
            self.forget_gone()
            until = time.monotonic() + nap
            self._quiet = quiet and not self._again
            self.due = 0.0 if self._again else min([until, *(one.waiter.deadline for one in self._requests)])


def put_back(host: Host, rows: list[JobRow], *, pops: bool) -> None:
    """Return jobs that no waiter took, without counting an attempt. Failures are logged."""
    ids = [row.id for row in rows]
    try:
        if pops:
            # Their rows don't show when they were committed.
            host.store.delete([row.ref for row in host.store.fetch(ids).values()])
            host.store.adopt([_unpopped(row) for row in rows])
        else:
            host.store.settle([Rollback(row.lease, 0.0, refund=True) for row in rows])
    except Exception as error:
        log.warning("%d jobs could not be returned: %s (%s)", len(ids), ", ".join(ids[:5]), error)


def _unpopped(row: JobRow) -> JobRow:
    return row._replace(
        state=QUEUED, attempts=row.attempts - 1, token=None, worker=None, started_at=None, finished_at=None, result=None
    )

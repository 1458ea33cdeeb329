"""Waiting for work: one claim for all who wait at a queue on the same terms."""

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
from stanchion.waits.look import BACKING_POLLS, Host, Keeper, Look
from stanchion.waits.pop import pop
from stanchion.waits.waiter import Waiter

log = logging.getLogger("stanchion")

_MOST = 500
"""Jobs of one claim for several waiters."""


class Wish(NamedTuple):
    """One who waits for up to `limit` jobs; `unanswered`: his own claim, which may have taken some."""

    waiter: Waiter[list[JobRow]]
    limit: int
    unanswered: Claim | None = None


class ClaimLook(Look):
    """Claims for all who wait at one queue, lanes and lease, and hands out what it got, first come, first served."""

    def __init__(self, keeper: Keeper, claim: Claim, *, pops: bool) -> None:
        super().__init__(keeper)
        self._claim, self._pops = claim, pops
        self._wishes: deque[Wish] = deque()
        self._unanswered: Claim | None = None
        self._overdue: int | None = None
        self._again = False
        self._quiet = False
        """The queue was found empty while signs were heard, and none has come since."""

    @property
    def waiters(self) -> Iterable[Waiter[list[JobRow]]]:
        return [wish.waiter for wish in self._wishes]

    def __len__(self) -> int:
        return len(self._wishes)

    def add(self, wish: Wish) -> None:
        """Let another one wait, who has just found nothing; the lock is held."""
        self._wishes.append(wish)
        if self._quiet and wish.unanswered is None:
            self.due = min(self.due, wish.waiter.deadline)
        else:
            self.due, self._again = 0.0, True

    def forget_gone(self) -> None:
        self._wishes = deque(wish for wish in self._wishes if wish.waiter.waits)

    def listens_to(self) -> Signs:
        return Signs(frozenset([self._claim.queue]))

    def signed(self, signs: Signs) -> None:
        if signs.queues is None or self._claim.queue in signs.queues:
            self.heard()

    def heard(self) -> None:
        self.due, self._again, self._quiet = 0.0, True, False

    def ask(self) -> None:
        with self.keeper.lock:
            self._again = self._quiet = False
            self.forget_gone()
            wishes = list(self._wishes)
        self.keeper.host.before_claim(self._claim.queue)
        for wish in wishes:
            if wish.unanswered is not None:
                self._repeat(wish)
        limits = [wish.limit for wish in wishes if wish.waiter.waits]
        wanted = min(max([_MOST, *limits[:1]]), sum(limits))
        if not wanted:
            self._rest(math.inf)
            return
        began, heard = time.monotonic(), self._hears()
        rows, retry_in = self._take(wanted)
        left = self._hand_out(rows)
        if left:
            self.keeper.put_back(left, pops=self._pops)
        nap = 0.0 if len(rows) >= wanted else self._nap(retry_in)
        with self.keeper.lock:
            waiting = [wish.waiter for wish in self._wishes if wish.waiter.waits]
        late = [waiter for waiter in waiting if waiter.deadline <= began]
        for waiter in late:
            waiter.deliver([])
        self._rest(nap, quiet=heard and len(rows) < wanted)

    def _hears(self) -> bool:
        return self._claim.queue in (self.keeper.heard.queues or ())

    def _repeat(self, wish: Wish) -> None:
        """Ask once more what a claim took whose answer was lost; what it takes by now is as good."""
        assert wish.unanswered is not None  # noqa: S101 - asked by the caller
        rows = self._ask_for(wish.unanswered._replace(repeat=True))[0]
        with self.keeper.lock:
            if wish in self._wishes:
                self._wishes[self._wishes.index(wish)] = wish._replace(unanswered=None)
        if rows and not wish.waiter.deliver(rows):
            self.keeper.put_back(rows, pops=self._pops)

    def _take(self, wanted: int) -> tuple[list[JobRow], float | None]:
        """Claim so many jobs; after a call that was never answered, what that has taken."""
        claim = self._unanswered or self._claim._replace(limit=wanted, token=secrets.token_hex(8))
        repeat, self._unanswered = self._unanswered is not None, None
        try:
            return self._ask_for(claim._replace(repeat=repeat))
        except StoreUnavailable:
            self._unanswered = claim
            raise

    def _ask_for(self, claim: Claim) -> tuple[list[JobRow], float | None]:
        store = self.keeper.host.store
        claimed = pop(store, claim) if self._pops else store.claim(claim)
        return claimed.rows, claimed.retry_in

    def _hand_out(self, rows: list[JobRow]) -> list[JobRow]:
        """Give the jobs to those who wait, in their order; return what nobody took."""
        left = list(rows)
        with self.keeper.lock:
            wishes = list(self._wishes)
        for wish in wishes:
            if not left:
                break
            if wish.waiter.deliver(left[: wish.limit]):
                left = left[wish.limit :]
        return left

    def _nap(self, retry_in: float | None) -> float:
        """Return the seconds until a try may find more: until a job is due, or a limit allows it; at most a poll."""
        host, queue = self.keeper.host, self._claim.queue
        naps = [host.poll * BACKING_POLLS if self._hears() else host.poll]
        if retry_in is not None:
            naps.append(max(0.001, retry_in))
        due = host.store.stats([queue], ["next_due"])[queue].next_due
        later = math.inf if due is None else (due - host.store.now()) / SECOND
        overdue = due if later <= 0 else None
        if later > 0:
            naps.append(later)
        elif overdue != self._overdue:  # it may have become due since the try: the next one tells
            naps.append(0.0)
        self._overdue = overdue
        return min(naps)

    def _rest(self, nap: float, *, quiet: bool = False) -> None:
        with self.keeper.lock:
            self.forget_gone()
            until = time.monotonic() + nap
            self._quiet = quiet and not self._again
            self.due = 0.0 if self._again else min([until, *(wish.waiter.deadline for wish in self._wishes)])


def put_back(host: Host, rows: list[JobRow], *, pops: bool) -> None:
    """Give back jobs that nobody got, as if they had not been handed out; what fails is logged."""
    ids = [row.id for row in rows]
    try:
        if pops:
            host.store.take(ids)
            host.store.adopt([_unpopped(row) for row in rows])
        else:
            host.store.settle([Rollback(row.id, row.token or "", 0.0, refund=True) for row in rows])
    except Exception as error:
        log.warning("%d jobs could not be given back: %s (%s)", len(ids), ", ".join(ids[:5]), error)


def _unpopped(row: JobRow) -> JobRow:
    return row._replace(
        state=QUEUED, attempts=row.attempts - 1, token=None, worker=None, started_at=None, finished_at=None, result=None
    )

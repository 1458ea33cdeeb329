"""Claims in a store without transactions over several jobs: jobs are reserved, and handed out if they have their slots.

A claim that meets jobs which have to wait parks these. Behind them there may be very many alike, and then some that may
run. So it passes over those that wait first for a slot that it found full, and hands out what is behind them. That took
time, which later claims are to be spared: the next claim of this process that meets such jobs first parks a run of
them, for half as long as it took to pass over them. So the first job behind them waits for few to be parked.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple, Protocol

from stanchion.stores.cas.admission import Admission
from stanchion.stores.cas.entries import as_reserved
from stanchion.stores.cas.settle import Outcomes
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.jobs import SECOND, JobRow
from stanchion.stores.rules.lost_leases import apart
from stanchion.stores.rules.slots import gated

CLAIM_SECONDS = 2.0
"""For so long one claim parks jobs, or for half a lease, so that the lease of what it has found does not run out."""

_SLOTS = 8
"""So many full slots are told to the store, so that it leaves out the jobs that wait for them."""

_AT_ONCE = 500
_RESERVED_AT_ONCE = 1000

Reserve = Callable[[Claim], Claimed]


class Parked(NamedTuple):
    """How many jobs were parked, and whether there may be more of them."""

    jobs: int
    more: bool


class DueJobs(Protocol):
    """The due jobs of a store: primitives of a claim."""

    def reserve_due(self, claim: Claim) -> Claimed:
        """Reserve due jobs, whatever slots they need."""

    def park_run(self, claim: Claim, began: int, *, alone: bool) -> Parked:
        """Park the next due jobs that wait first for one of `claim.full`, up to one that does not.

        They wait since the claim `began`, and will hold under its token; afterwards these slots are looked at once
        more. `alone`: no others are due. A store that would have to read each of them parks none.
        """

    def park_few(self, claim: Claim, began: int) -> Parked:
        """Park as `park_run` does, before others are passed over; fewer, in a store that passes over more quickly."""


class Claims:
    """Hands out what may run, past what has to wait."""

    def __init__(self, due: DueJobs, admission: Admission, outcomes: Outcomes) -> None:
        self._due, self._admission, self._outcomes = due, admission, outcomes
        self._owed: dict[str, float] = {}
        """Seconds for which the next claim of a queue is to park what claims have passed over."""

    def claim(self, claim: Claim) -> Claimed:
        """Reserve due jobs that have their slots; park or defer those that have not."""
        claimed, others = apart(self.claim_together(claim), claim.token)
        if others:
            self._outcomes.settle(others)
        return claimed

    def claim_together(self, claim: Claim) -> Claimed:
        """Reserve jobs as `claim` does, but those that are to run alone together with others."""
        return self.hand_out(claim, self._due.reserve_due)

    def hand_out(self, claim: Claim, reserve: Reserve) -> Claimed:
        """Reserve jobs until there are enough that have their slots.

        `reserve` may be asked for more than there are to be, as what it gives can be put back.
        """
        uncounted = "-reserved" if claim.counted else "-"
        rows: dict[str, JobRow] = {}
        wish, began, until = claim, 0, time.monotonic() + CLAIM_SECONDS
        full: dict[str, None] = {}
        refused = False
        while True:
            missing = claim.limit - len(rows)
            wish = wish._replace(limit=max(missing, wish.limit))
            asked = time.monotonic()
            claimed = reserve(wish)
            if not refused and not any(map(gated, claimed.rows)):
                return claimed
            # After a lost answer the token's jobs come again: those that have their slots are not to ask twice.
            new = [row for row in claimed.rows if row.id not in rows]
            # What is held already is given, however much was wished for.
            began = began or min((row.started_at or 0 for row in new), default=0)
            if not rows:
                until = min([until, *(time.monotonic() + _lease(row) / 2 for row in new)])
            mine, waiting = self._admission.admit(new, len(new) if wish.repeat else missing, uncounted, began)
            rows.update((row.id, as_reserved(row)) for row in mine)
            refused = refused or bool(waiting)
            if rows and wish.full:
                self._owed[claim.queue] = (time.monotonic() - asked) / 2
            if len(rows) >= claim.limit or not (waiting or wish.full):
                return Claimed(list(rows.values()), claimed.retry_in)
            if rows and wish.full:
                return Claimed(list(rows.values()), 0.0)
            full.update((verdict.gate, None) for verdict in waiting if verdict.gate is not None and not verdict.held)
            told = wish._replace(full=tuple(islice(full, _SLOTS)))
            more = (
                bool(told.full)
                and not mine
                and self._passes(told, began, until, first=not wish.full, alone=not waiting)
            )
            if time.monotonic() >= until:
                return Claimed(list(rows.values()), 0.0)
            # Behind many that have to wait there may be more of them: to ask for twice as many makes it a few rounds.
            larger = 0 if mine or more else min(2 * wish.limit, _AT_ONCE)
            wish = wish._replace(limit=larger, repeat=False, full=told.full if more else ())

    def _passes(self, claim: Claim, began: int, until: float, *, first: bool, alone: bool) -> bool:
        """Tell whether to pass over jobs of full slots, `first` for the first time; some are parked before that."""
        if alone:
            return self._park_while(claim, began, until, alone=True)
        if first and (seconds := self._owed.pop(claim.queue, 0.0)):
            return self._park_while(claim, began, min(until, time.monotonic() + seconds), alone=False)
        return (self._due.park_few(claim, began) if first else self._due.park_run(claim, began, alone=False)).more

    def _park_while(self, claim: Claim, began: int, until: float, *, alone: bool) -> bool:
        """Park until a moment of this process; return True where more are left."""
        while True:
            parked = self._due.park_run(claim, began, alone=alone)
            if not (parked.jobs and parked.more) or time.monotonic() >= until:
                return parked.more


class Batch(Protocol):
    """Jobs that are reserved as one batch for readers elsewhere, who find them by its token."""

    def claim_batch(self, claim: Claim) -> Claimed:
        """Reserve due jobs as `claim` does, so that they are found by their token."""

    def batch_size(self, queue: str, token: str) -> int:
        """Return how many jobs are reserved of those that `claim_batch` has reserved."""


def reserve(batch: Batch, claim: Claim) -> int:
    """Reserve due jobs, so many at a time that no other claim waits long; return how many are reserved."""
    held = batch.batch_size(claim.queue, claim.token) if claim.repeat else 0
    if held:
        return held
    missing = claim.limit
    while missing > 0:
        wish = claim._replace(limit=min(missing, _RESERVED_AT_ONCE), repeat=False)
        claimed = batch.claim_batch(wish)
        missing -= len(claimed.rows)
        if len(claimed.rows) < wish.limit and claimed.retry_in != 0:
            break
    return batch.batch_size(claim.queue, claim.token)


def _lease(row: JobRow) -> float:
    """Return for how many seconds a job was reserved; a worker holds it as long as it lives."""
    if row.lease_until is None or row.started_at is None:
        return math.inf
    return (row.lease_until - row.started_at) / SECOND

"""Claims in a store without transactions over several jobs: jobs are reserved first, then take their slots.

A claim parks the jobs that have to wait. Many similar jobs may follow them in the queue, and then some that may run.
The claim therefore skips jobs that wait first for a slot it found full, and delivers the jobs after them. So that later
claims need not skip them again, it parks some of them last: a run at least, and more for half the time that skipping
took.
"""

from __future__ import annotations

import math
import time
from itertools import islice
from typing import NamedTuple, Protocol

from stanchion.stores.cas.admission import Admission
from stanchion.stores.cas.entries import as_reserved
from stanchion.stores.cas.settle import Outcomes
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.jobs import SECOND, JobRow
from stanchion.stores.records.slots import Slot
from stanchion.stores.rules.capacity.slots import NO_SLOTS, slot_needs
from stanchion.stores.rules.leases.lost_leases import split_alone
from stanchion.stores.rules.undeliverable import deliverable

CLAIM_SECONDS = 2.0
"""Maximum seconds that one claim parks jobs; at most half a lease, so that its jobs' leases do not expire."""

_FULL_SLOTS_MAX = 8
"""Full slots passed to the store, which then leaves out the jobs that wait for them."""

_WISH_JOBS_MAX = 500
_RESERVE_JOBS_MAX = 1000


class Parked(NamedTuple):
    """The number of jobs parked, and whether there may be more to park."""

    jobs: int
    more: bool


class DueJobs(Protocol):
    """Primitives of a claim on the due jobs of a store."""

    def reserve_due(self, claim: Claim) -> Claimed:
        """Reserve due jobs, regardless of their slots; without `claim.rows`, so that they are found by their token.

        Jobs that the claim names come in its order, each reserved for its worker.
        """

    def batch_size(self, queue: str, token: str) -> int:
        """Return how many of the jobs of a queue that were reserved without rows are still held under a token."""

    def park_run(self, claim: Claim, began: int, *, alone: bool) -> Parked:
        """Park the next due jobs that wait first for a slot in `claim.full`, up to one that does not.

        They wait since `began`, the start of the claim, and its token becomes their hold token. Afterwards these slots
        are checked once more. `alone`: no other jobs are due. A store that would have to read each job parks none.
        """

    def park_few(self, claim: Claim, began: int) -> Parked:
        """Park as `park_run` does, before jobs are skipped; fewer, in a store that skips faster than it parks."""


class Claims:
    """Delivers jobs that may run, and skips or parks jobs that have to wait."""

    def __init__(self, due: DueJobs, admission: Admission, outcomes: Outcomes) -> None:
        self._due, self._admission, self._outcomes = due, admission, outcomes
        self._unchecked: set[str] = set()
        """Tokens of batches whose claims failed before all their jobs were checked: repeats must check them."""

    def claim(self, claim: Claim) -> Claimed:
        """Reserve due jobs that have their slots; park or defer the others."""
        if not claim.rows:
            return Claimed([], reserved=self._reserve_batch(claim))
        claimed, others = split_alone(self._hand_out_named(claim) if claim.ids else self._hand_out(claim))
        if others:
            self._outcomes.settle(others)
        return claimed

    def _reserve_batch(self, claim: Claim) -> int:
        """Reserve due jobs, in portions that do not delay other claims for long; return how many are reserved."""
        if claim.repeat:
            if claim.token in self._unchecked:
                self._deliverable(self._hand_out(claim))
            if held := self._due.batch_size(claim.queue, claim.token):
                self._unchecked.discard(claim.token)
                return held
        self._unchecked.add(claim.token)
        self._reserve_deliverable(claim)
        self._unchecked.discard(claim.token)
        return self._due.batch_size(claim.queue, claim.token)

    def _reserve_deliverable(self, claim: Claim) -> None:
        if claim.ids:
            self._deliverable(self._hand_out_named(claim))
            return
        missing = claim.limit
        while missing > 0:
            wish = claim._replace(limit=min(missing, _RESERVE_JOBS_MAX), repeat=False)
            claimed = self._deliverable(self._hand_out(wish))
            missing -= len(claimed.rows)
            if len(claimed.rows) < wish.limit and claimed.retry_in != 0:
                break

    def _deliverable(self, claimed: Claimed) -> Claimed:
        """Bury what can't be read; return the rest."""
        claimed, dead = deliverable(claimed)
        if dead:
            self._outcomes.settle(dead)
        return claimed

    def _hand_out(self, claim: Claim) -> Claimed:
        """Reserve jobs until `claim.limit` of them have their slots; release the excess."""
        uncounted = "-reserved" if claim.counted else "-"
        rows: dict[str, JobRow] = {}
        wish, began, until = claim, 0, time.monotonic() + CLAIM_SECONDS
        full: dict[Slot, None] = {}
        refused = False
        while True:
            missing = claim.limit - len(rows)
            wish = wish._replace(limit=max(missing, wish.limit))
            asked = time.monotonic()
            claimed = self._due.reserve_due(wish)
            spent = time.monotonic() - asked
            if not refused and {NO_SLOTS}.issuperset(map(slot_needs, claimed.rows)):
                return claimed
            # After a lost reply the token's jobs are returned again: ones with their slots must not ask twice.
            new = [row for row in claimed.rows if row.id not in rows]
            # Jobs that the token holds already are all delivered, regardless of the limit of this round.
            began = began or min((row.started_at or 0 for row in new), default=0)
            if not rows:
                until = min([until, *(time.monotonic() + _lease(row) / 2 for row in new)])
            mine, waiting = self._admission.admit(new, len(new) if wish.repeat else missing, uncounted, began)
            rows.update((row.id, as_reserved(row)) for row in mine)
            refused = refused or bool(waiting)
            if rows and wish.full:
                self._park_while(wish, began, min(until, time.monotonic() + spent / 2), alone=False)
            if len(rows) >= claim.limit or not (waiting or wish.full):
                return Claimed(list(rows.values()), claimed.retry_in)
            if rows and wish.full:
                return Claimed(list(rows.values()), 0.0)
            full.update((one.slot, None) for one in waiting if one.slot is not None and one.full and not one.held)
            skipping = wish._replace(full=tuple(islice(full, _FULL_SLOTS_MAX)))
            more = (
                bool(skipping.full)
                and not mine
                and self._skips(skipping, began, until, first=not wish.full, alone=not waiting)
            )
            if time.monotonic() >= until:
                return Claimed(list(rows.values()), 0.0)
            # Many waiting jobs may follow. Doubling the limit keeps the number of rounds small.
            larger = 0 if mine or more else min(2 * wish.limit, _WISH_JOBS_MAX)
            wish = wish._replace(limit=larger, repeat=False, full=skipping.full if more else ())

    def _hand_out_named(self, claim: Claim) -> Claimed:
        """Reserve the jobs that a claim names; park or defer the ones that have to wait."""
        claimed = self._due.reserve_due(claim)
        if {NO_SLOTS}.issuperset(map(slot_needs, claimed.rows)):
            return claimed
        began = min(row.started_at or 0 for row in claimed.rows)
        uncounted = "-reserved" if claim.counted else "-"
        mine, _ = self._admission.admit(claimed.rows, len(claimed.rows), uncounted, began)
        reserved = {row.id: as_reserved(row) for row in mine}
        return claimed._replace(rows=[reserved[row.id] for row in claimed.rows if row.id in reserved])

    def _skips(self, claim: Claim, began: int, until: float, *, first: bool, alone: bool) -> bool:
        """Return True to skip jobs of full slots; some are parked before. `first`: this claim has skipped none yet."""
        if alone:
            return self._park_while(claim, began, until, alone=True)
        return (self._due.park_few(claim, began) if first else self._due.park_run(claim, began, alone=False)).more

    def _park_while(self, claim: Claim, began: int, until: float, *, alone: bool) -> bool:
        """Park jobs until `until`, on the monotonic clock; return True if more are left."""
        while True:
            parked = self._due.park_run(claim, began, alone=alone)
            if not (parked.jobs and parked.more) or time.monotonic() >= until:
                return parked.more


def _lease(row: JobRow) -> float:
    """Return the lease of a job in seconds; infinite for a job held by a worker."""
    if row.lease_until is None or row.started_at is None:
        return math.inf
    return (row.lease_until - row.started_at) / SECOND

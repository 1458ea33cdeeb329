"""Claims in a store without transactions over several jobs: jobs are reserved, and handed out if they have their gates.

A claim that meets jobs which have to wait parks these. Behind them there may be very many alike, and then some that may
run. So it passes over those that wait first for a gate that it found full, and hands out what is behind them. That took
time, which later claims are to be spared: the next claim of this process that meets such jobs first parks a run of
them, for half as long as it took to pass over them. So the first job behind them waits for
few to be parked.
"""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from stanchion.stores.cas import claim as claims
from stanchion.stores.cas.mixins.outbox import in_hand
from stanchion.stores.cas.mixins.slots import Permits
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.jobs import SECOND, JobRow
from stanchion.stores.rules.lost_leases import apart
from stanchion.stores.rules.slots import gated

_GATES = 8
"""So many full gates are told to the store, so that it leaves out the jobs that wait for them."""

_AT_ONCE = 500


class Parked(NamedTuple):
    """How many jobs were parked, and whether there may be more of them."""

    jobs: int
    more: bool


class HandingOut(Permits):
    """Hands out what may run, past what has to wait."""

    @cached_property
    def owed(self) -> dict[str, float]:
        """Seconds for which the next claim of a queue is to park what claims have passed over."""
        return {}

    # -- what a store provides

    @abstractmethod
    def reserve_due(self, claim: Claim) -> Claimed:
        """Reserve due jobs, whatever gates they need."""

    def park_run(self, claim: Claim, began: int, *, alone: bool) -> Parked:
        """Park the next due jobs that wait first for one of `claim.full`, up to one that does not.

        They wait since the claim `began`, and will hold under its token; afterwards these gates are looked at once
        more. `alone`: no others are due. A store that would have to read each of them leaves it to `hand_out`.
        """
        return Parked(0, more=False)

    def park_few(self, claim: Claim, began: int) -> Parked:
        """Park as `park_run` does, before others are passed over; fewer, in a store that passes over more quickly."""
        return self.park_run(claim, began, alone=False)

    # -- claims

    def claim(self, claim: Claim) -> Claimed:
        """Reserve due jobs that have their gates; park or postpone those that have not."""
        claimed, others = apart(self.claim_together(claim), claim.token)
        if others:
            self.settle_each(others)
        return claimed

    def claim_together(self, claim: Claim) -> Claimed:
        """Reserve jobs as `claim` does, but those that are to run alone together with others."""
        return self.hand_out(claim, self.reserve_due, "-reserved", beyond=True)

    def hand_out_some(
        self, claim: Claim, reserve: Callable[[Claim], Claimed], uncounted: str | None, *, beyond: bool = False
    ) -> list[JobRow]:
        """Reserve jobs as `hand_out` does, again where it breaks off with none, for a caller who can't be told so."""
        while True:
            claimed = self.hand_out(claim, reserve, uncounted, beyond=beyond)
            if claimed.rows or claimed.retry_in != 0:
                return claimed.rows

    def hand_out(
        self, claim: Claim, reserve: Callable[[Claim], Claimed], uncounted: str | None, *, beyond: bool = False
    ) -> Claimed:
        """Reserve jobs until there are enough that have their gates; `uncounted`: counted for each of the others.

        `beyond`: `reserve` may be asked for more than there are to be, as what it gives can be put back.
        """
        rows: dict[str, JobRow] = {}
        wish, began, until = claim, 0, time.monotonic() + claims.CLAIM_SECONDS
        full: dict[str, None] = {}
        refused = False
        while True:
            missing = claim.limit - len(rows)
            wish = wish._replace(limit=max(missing, wish.limit) if beyond else missing)
            asked = time.monotonic()
            claimed = reserve(wish)
            if not refused and not any(map(gated, claimed.rows)):
                return claimed
            # After a lost answer the token's jobs come again: those that have their gates are not to ask twice.
            new = [row for row in claimed.rows if row.id not in rows]
            # What is held already is given, however much was wished for.
            began = began or min((row.started_at or 0 for row in new), default=0)
            if not rows:
                until = min([until, *(time.monotonic() + _lease(row) / 2 for row in new)])
            mine, waiting = self.admit(new, len(new) if wish.repeat else missing, uncounted, began)
            rows.update((row.id, in_hand(row)) for row in mine)
            refused = refused or bool(waiting)
            if rows and wish.full:
                self.owed[claim.queue] = (time.monotonic() - asked) / 2
            if len(rows) >= claim.limit or not (waiting or wish.full):
                return Claimed(list(rows.values()), claimed.retry_in)
            if rows and wish.full:
                return Claimed(list(rows.values()), 0.0)
            full.update((verdict.gate, None) for verdict in waiting if verdict.gate is not None and not verdict.held)
            told = wish._replace(full=tuple(islice(full, _GATES)))
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
        """Tell whether to pass over jobs of full gates, `first` for the first time; some are parked before that."""
        if alone:
            return self._park_while(claim, began, until, alone=True)
        if first and (seconds := self.owed.pop(claim.queue, 0.0)):
            return self._park_while(claim, began, min(until, time.monotonic() + seconds), alone=False)
        return (self.park_few(claim, began) if first else self.park_run(claim, began, alone=False)).more

    def _park_while(self, claim: Claim, began: int, until: float, *, alone: bool) -> bool:
        """Park until a moment of this process; return True where more are left."""
        while True:
            parked = self.park_run(claim, began, alone=alone)
            if not (parked.jobs and parked.more) or time.monotonic() >= until:
                return parked.more


def _lease(row: JobRow) -> float:
    """Return for how many seconds a job was reserved; a worker holds it as long as it lives."""
    if row.lease_until is None or row.started_at is None:
        return math.inf
    return (row.lease_until - row.started_at) / SECOND

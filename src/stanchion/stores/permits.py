"""Semaphores, order keys and rates in a store without transactions over several jobs.

A claim reserves jobs, then takes their gates, each in one operation on the gate, under the job's permit; where there
is no slot, the job is parked. So these hold but for moments, and `sweep` restores them:

    never more holders than capacity       taking a slot looks at the capacity in the same operation
    no slot held by a job that ended       its end notes what it held: (1) the end, (2) the slots are freed
    no waiter while a slot is free         (1) the job is parked, (2) the gate is looked at once more; who frees a slot
                                           looks for waiters afterwards: one of the two sees the other

A slot is given to a waiter in two operations: (1) at the gate, (2) in the job. After a death in between the gate names
a holder that still waits, and (2) is done by the next who looks. Where (2) finds that the job has left the line, the
slot is freed, unless the job has got it: its permit tells. A permit is that of one way through the gates; it is new
after each release, so that a late repeat never frees what was taken anew. An order key, which is kept between attempts,
has one of its own.
"""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from stanchion.stores import transitions
from stanchion.stores.duties import Hold, hold_of, holds_of, in_hand
from stanchion.stores.gates import (
    Asking,
    Rate,
    Verdict,
    gated,
    gates_of,
    held_between,
    limits_in,
    permits_of,
    promise_of,
    semaphore_of,
)
from stanchion.stores.losses import apart
from stanchion.stores.optimistic import Change, Optimistic, Seen, Swap
from stanchion.stores.records import SECOND, Claim, Claimed, JobRow

CLAIM_SECONDS = 2.0
"""For so long one claim parks jobs, or for half a lease, so that the lease of what it has found does not run out."""

_GATES = 8
"""So many full gates are told to the store, so that it leaves out the jobs that wait for them."""

_AT_ONCE = 500


class Parked(NamedTuple):
    """How many jobs were parked, and whether there may be more of them."""

    jobs: int
    more: bool


class Permits(Optimistic):
    """What claims have to do with gates, and how slots go from hand to hand."""

    passes_over_first = False
    """Whether a claim that finds gates full looks for jobs behind those that wait before it parks a run of them."""

    # -- what a store provides: each item of a call is one atomic operation, and may be repeated

    @abstractmethod
    def reserve_due(self, claim: Claim) -> Claimed:
        """Reserve due jobs, whatever gates they need."""

    @abstractmethod
    def take_each(self, wanted: Sequence[Hold]) -> list[bool]:
        """Take slots; True also where the permit holds it already. A gate that is not known has one slot."""

    @abstractmethod
    def free_each(self, held: Sequence[Hold]) -> None:
        """Free slots; a permit that holds none frees nothing."""

    @abstractmethod
    def first_live(self, queue: str, order_key: str) -> Seen | None:
        """Return the first live job of an order key, by (enqueued_at, id)."""

    def first_live_each(self, keys: Sequence[tuple[str, str]]) -> list[Seen | None]:
        """Return the first live job of each of these order keys; for a store that can ask for all at once."""
        return [self.first_live(queue, key) for queue, key in keys]

    def first_waiting_each(self, gates: Sequence[str]) -> list[Seen | None]:
        """Return who has waited longest at each of these gates; for a store that can ask for all at once."""
        return [self.first_waiting(gate) for gate in gates]

    @abstractmethod
    def first_waiting(self, gate: str) -> Seen | None:
        """Return the job that has waited longest at a gate, by (waits_since, id)."""

    @abstractmethod
    def waiting_at(self, gate: str, limit: int) -> list[Seen]:
        """Return up to `limit` of the jobs that wait at a gate."""

    @abstractmethod
    def spend(self, asking: Sequence[Asking]) -> list[int | None]:
        """Take a start from the bucket of each rate: None, or when to ask again; see `Bucket.asked`."""

    @abstractmethod
    def holds(self) -> Iterable[Hold]:
        """Return all slots that are held."""

    @abstractmethod
    def gates_waited_at(self) -> Iterable[str]:
        """Return the gates at which some job waits."""

    def park_run(self, claim: Claim, began: int, *, alone: bool) -> Parked:
        """Park the next due jobs that wait first for one of `claim.full`, up to one that does not.

        They wait since the claim `began`, and will hold under its token; afterwards these gates are looked at once
        more. `alone`: no others are due. A store that would have to read each of them leaves it to `hand_out`.
        """
        return Parked(0, more=False)

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
        wish, began, until = claim, 0, time.monotonic() + CLAIM_SECONDS
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
            mine, waiting = self._admit(new, len(new) if wish.repeat else missing, uncounted, began)
            rows.update((row.id, in_hand(row)) for row in mine)
            refused = refused or bool(waiting)
            if rows and wish.full:  # to pass over the others took time, which later claims are to be spared
                took = time.monotonic() - asked
                self._park_while(wish, began, min(until, asked + 1.5 * took), alone=False)
            if len(rows) >= claim.limit or not (waiting or wish.full):
                return Claimed(list(rows.values()), claimed.retry_in)
            if rows and wish.full:
                return Claimed(list(rows.values()), 0.0)
            full.update((verdict.gate, None) for verdict in waiting if verdict.gate is not None and not verdict.held)
            told = wish._replace(full=tuple(islice(full, _GATES)))
            passing = self.passes_over_first and not wish.full
            more = bool(told.full) and not mine and (passing or self.park_run(told, began, alone=not waiting).more)
            if more and not waiting:
                more = self._park_while(told, began, until, alone=True)
            if time.monotonic() >= until:
                return Claimed(list(rows.values()), 0.0)
            # Behind many that have to wait there may be more of them: to ask for twice as many makes it a few rounds.
            larger = 0 if mine or more else min(2 * wish.limit, _AT_ONCE)
            wish = wish._replace(limit=larger, repeat=False, full=told.full if more else ())

    def _park_while(self, claim: Claim, began: int, until: float, *, alone: bool) -> bool:
        """Park until a moment of this process; return True where more are left."""
        while True:
            parked = self.park_run(claim, began, alone=alone)
            if not (parked.jobs and parked.more) or time.monotonic() >= until:
                return parked.more

    def _admit(
        self, rows: Sequence[JobRow], most: int, uncounted: str | None, began: int
    ) -> tuple[list[JobRow], list[Verdict]]:
        """Return up to `most` of these jobs, with all of their gates, and which have to wait; give back the others.

        All that one claim parks wait since it `began`, in however many rounds it does.
        The gates come first and the rate last, so that nobody spends a start and then waits at a gate.
        """
        verdicts = self._take_gates([row for row in rows if gated(row)])
        left, admitted = [row for row in rows if row.id not in verdicts], list[JobRow]()
        while left and len(admitted) < most:
            missing = most - len(admitted)
            part, left = left[:missing], left[missing:]
            postponed = self._spend_starts(part)
            # Where one was sent away, so are those who come later, unless they were promised more.
            empty: dict[Rate | None, int] = {}
            for verdict in postponed.values():
                empty[_rate(verdict.row)] = max(_promised(verdict.row), empty.get(_rate(verdict.row), 0))
            asked = [row for row in left if _promised(row) <= empty.get(limits_in(row.limits).rate, -1)]
            postponed |= self._spend_starts(asked)
            admitted += [row for row in part if row.id not in postponed]
            left = [row for row in left if row.id not in postponed]
            verdicts |= postponed
        # Nobody is parked who stands behind the last one that is handed out: it was not yet his turn to ask.
        turns = rows.index(admitted[-1]) + 1 if admitted and len(admitted) == most else len(rows)
        waiting = [verdicts[row.id] for row in rows[:turns] if row.id in verdicts]
        self._keep_back(waiting, uncounted, began)
        self._undo(rows[turns:], lambda row, _now: transitions.put_back(row), uncounted)
        return admitted, waiting

    def _spend_starts(self, rows: Sequence[JobRow]) -> dict[str, Verdict]:
        """Take the starts of those that have a rate; return what becomes of those for which there is none."""
        rated = [row for row in rows if limits_in(row.limits).rate is not None]
        dues = self.spend([Asking(_rate(row), promise_of(row)) for row in rated]) if rated else []
        return {
            row.id: Verdict(row, held_between(row), run_at=due)
            for row, due in zip(rated, dues, strict=True)
            if due is not None
        }

    def _take_gates(self, rows: Sequence[JobRow]) -> dict[str, Verdict]:
        """Take the gates of jobs; return what becomes of those that have to wait."""
        verdicts: dict[str, Verdict] = {}
        held = {row.id: row.held for row in rows}
        while left := [row for row in rows if row.id not in verdicts and held[row.id] < len(gates_of(row))]:
            wanted = _next_gates([(row, gates_of(row)[held[row.id] :]) for row in left])
            for (row, gate), taken in zip(wanted, self._take(wanted), strict=True):
                if taken:
                    held[row.id] += 1
                else:
                    verdicts[row.id] = Verdict(row, held[row.id], gate=gate)
        return verdicts

    def _take(self, wanted: Sequence[tuple[JobRow, str]]) -> list[bool]:
        keyed = {row.id: (row.queue, row.order_key) for row, gate in wanted if row.order_key and not semaphore_of(gate)}
        first = dict(zip(keyed, self.first_live_each(list(keyed.values())), strict=True))
        mine = [(found := first.get(row.id)) is None or found.row.id == row.id for row, _ in wanted]
        holds = [hold_of(row, gate) for (row, gate), turn in zip(wanted, mine, strict=True) if turn]
        taken = iter(self.take_each(holds))
        return [turn and next(taken) for turn in mine]

    def _keep_back(self, verdicts: Sequence[Verdict], uncounted: str | None, began: int) -> None:
        """Park and postpone jobs that were reserved, then look at their gates once more."""
        by_id = {verdict.row.id: verdict for verdict in verdicts}

        def kept(row: JobRow, _now: int) -> JobRow:
            verdict = by_id[row.id]
            after = transitions.kept_back(transitions.undelivered(row), verdict, row.token or "", began)
            if after.permit is None or row.order_key is None:
                return after
            permits = permits_of(row)  # who is postponed gives back its semaphores
            return after._replace(permit=permits.text if verdict.run_at is None else permits.order)

        parked = self._undo([verdict.row for verdict in verdicts], kept, uncounted)
        self.wake(*(row.waits_for for row in parked if row.waits_for is not None))

    def _undo(
        self, rows: Sequence[JobRow], undone: Callable[[JobRow, int], JobRow], uncounted: str | None
    ) -> list[JobRow]:
        """Take back reservations that are not handed out; return the jobs as they are then."""
        left, done = list(rows), list[JobRow]()
        while left:
            now, seen = self.look([row.id for row in left])
            changes = []
            for row in left:
                found = seen.get(row.id)
                if found is None or not transitions.holds(found.row, row.token or "", now):
                    continue  # its lease ran out meanwhile: what that entails is seen to
                after = undone(found.row, now)
                changes.append(Change(found, after, uncounted, self.duty_of(found.row, after, None, None, now)))
            made = list(zip(changes, self.swap(changes).swaps if changes else [], strict=True))
            self.follow_up([change.duty for change, swap in made if change.duty and swap is Swap.DONE])
            done += [change.row for change, swap in made if swap is Swap.DONE]
            # One that was asked to stop meanwhile would be left running in nobody's hands.
            changed = {change.row.id for change, swap in made if swap is Swap.CHANGED}
            left = [row for row in left if row.id in changed]
        if asked := [row.id for row in done if row.cancel_requested]:
            self.cancel(asked)
        return done

    # -- gates

    def _free(self, holds: Sequence[Hold]) -> None:
        """Free slots, and give them to the next in line."""
        if holds:
            self.free_each(holds)
            self.wake(*(hold.gate for hold in holds))

    def wake(self, *gates: str) -> None:
        """Give free slots to the first in line, as long as there are both."""
        left = list(dict.fromkeys(gates))
        while left:
            firsts = [(gate, first) for gate, first in zip(left, self._next_at(left), strict=True) if first is not None]
            holds = [hold_of(first.row, gate) for gate, first in firsts]
            given = zip(firsts, holds, self.take_each(holds), strict=True)
            granted = [(first, hold) for (_, first), hold, taken in given if taken]
            self._give_each(granted)
            left = [hold.gate for _, hold in granted]

    def _next_at(self, gates: Sequence[str]) -> list[Seen | None]:
        """Return for each gate whose turn it is; None where nobody waits, or not the one whose turn it is."""
        firsts = self.first_waiting_each(gates)
        keyed = {
            gate: (first.row.queue, first.row.order_key)
            for gate, first in zip(gates, firsts, strict=True)
            if first is not None and first.row.order_key is not None and semaphore_of(gate) is None
        }
        lives = dict(zip(keyed, self.first_live_each(list(keyed.values())), strict=True))
        turns = [lives.get(gate) if gate in keyed else first for gate, first in zip(gates, firsts, strict=True)]
        return [
            turn if turn is not None and turn.row.waits_for == gate else None
            for gate, turn in zip(gates, turns, strict=True)
        ]

    def _give_each(self, given: Sequence[tuple[Seen, Hold]]) -> None:
        """Tell waiting jobs of the slots that they hold by now; free the slots of jobs that have left the line."""
        left = list(given)
        while left:
            # Where another process has told a job, it waits elsewhere by now, or no more.
            waiting = [(seen, hold) for seen, hold in left if seen.row.waits_for == hold.gate]
            if not waiting:
                return
            swaps = self.swap([Change(seen, transitions.granted(seen.row)) for seen, _ in waiting]).swaps
            changed = [hold for (_, hold), swap in zip(waiting, swaps, strict=True) if swap is not Swap.DONE]
            if not changed:
                return
            seen = self.look([hold.job for hold in changed])[1]
            held = [hold for hold in changed if hold.job in seen and hold in holds_of(seen[hold.job].row)]
            if gone := [hold for hold in changed if hold not in held]:
                self.free_each(gone)
            left = [(seen[hold.job], hold) for hold in held]

    def _check(self, holds: Sequence[Hold]) -> None:
        """Free the slots of jobs that have no right to them, and tell those that wait for the one that they hold."""
        # The slots were read first: a job that has taken one since is seen as it is by now, with a right to it.
        seen = self._free_forfeited(holds)
        found = [(seen[hold.job], hold) for hold in holds if hold.job in seen]
        waiting = [(one, hold) for one, hold in found if one.row.waits_for == hold.gate and hold in holds_of(one.row)]
        self._give_each(waiting)

    def _free_forfeited(self, holds: Sequence[Hold]) -> dict[str, Seen]:
        """Free those of the slots to which their job has no right; return the jobs, as they were then.

        Also after a duty that says so: one claim may reserve a job that it has postponed again, under the same token.
        """
        seen = self.look([hold.job for hold in holds])[1] if holds else {}
        self._free([one for one in holds if (job := seen.get(one.job)) is None or one not in holds_of(job.row)])
        return seen


def _next_gates(wanted: Sequence[tuple[JobRow, Sequence[str]]]) -> list[tuple[JobRow, str]]:
    """Return the gates to take at once: of each job its next one, unless a job before it has still to come there."""
    coming: set[str] = set()
    taken: list[tuple[JobRow, str]] = []
    for row, gates in wanted:
        if gates[0] in coming:
            coming.update(gates)
        else:
            taken.append((row, gates[0]))
            coming.update(gates[1:])
    return taken


def _promised(row: JobRow) -> int:
    """Return how often a job was promised a start: 2 for more than once."""
    promise = promise_of(row)
    return 0 if promise is None else 1 + promise.again


def _rate(row: JobRow) -> Rate:
    rate = limits_in(row.limits).rate
    assert rate is not None  # noqa: S101 - only rows with one come here
    return rate


def _lease(row: JobRow) -> float:
    """Return for how many seconds a job was reserved; a worker holds it as long as it lives."""
    if row.lease_until is None or row.started_at is None:
        return math.inf
    return (row.lease_until - row.started_at) / SECOND

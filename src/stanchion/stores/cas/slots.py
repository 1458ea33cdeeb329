"""Slots of semaphores and order keys in a store without transactions over several jobs.

A claim reserves jobs, then takes their slots, each in one operation on the slot's row, under the job's hold token;
where there is none, the job is parked. So these hold but for moments, and outbox recovery restores them:

    never more holders than capacity       taking a slot checks the capacity in the same operation
    no slot held by a job that ended       its end writes what it held: (1) the end, (2) the slots are freed
    no waiter while a slot is free         (1) the job is parked, (2) the slot is checked once more; who frees a slot
                                           looks for waiters afterwards: one of the two sees the other

A slot is given to a waiter in two operations: (1) in the slot's row, (2) in the job. After a death in between, the row
names a holder that still waits, and (2) is done by the next who looks. Where (2) finds that the job waits no more, the
slot is freed, unless the job has got it: its hold token tells. The token is new after each release, so that a late
repeat never frees what was taken anew. An order key, which is kept between attempts, has a token of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from stanchion.stores.cas.entries import Hold, hold_of, holds_of
from stanchion.stores.cas.jobs import Change, Jobs, Result, Seen
from stanchion.stores.cas.portions import portions
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.rules import claims as claim_rules
from stanchion.stores.rules.slots import Asking, is_node_gate, semaphore_of


class SlotRows(Protocol):
    """The slots of a store: primitives, each item of a call one atomic operation that may be repeated."""

    def take_each(self, wanted: Sequence[Hold]) -> list[bool]:
        """Take slots; True also where the hold token holds it already. An unknown semaphore has one slot."""

    def free_each(self, held: Sequence[Hold]) -> None:
        """Free slots; a hold token that holds none frees nothing."""

    def first_live_each(self, keys: Sequence[tuple[str, str]]) -> list[Seen | None]:
        """Return the first live job of each of these queues and order keys, by (enqueued_at, id)."""

    def first_waiting_each(self, slots: Sequence[str]) -> list[Seen | None]:
        """Return the job that has waited longest at each of these slots, by (waits_since, id)."""

    def spend(self, asking: Sequence[Asking]) -> list[int | None]:
        """Take a start from the bucket of each rate: None, or when to ask again; see `Bucket.asked`."""

    def holds(self) -> Iterable[Hold]:
        """Return all slots that are held."""

    def slots_waited_at(self) -> Iterable[str]:
        """Return the slots at which some job waits; those that are full may be left out."""


class Slots:
    """Slots as they go from hand to hand."""

    def __init__(self, jobs: Jobs, rows: SlotRows) -> None:
        self.jobs, self.rows = jobs, rows

    def take(self, wanted: Sequence[tuple[JobRow, str]]) -> list[bool]:
        """Take a slot for each of these jobs: an order key only for the head of its line."""
        keyed = {row.id: (row.queue, row.order_key) for row, slot in wanted if row.order_key and not semaphore_of(slot)}
        first = dict(zip(keyed, self.rows.first_live_each(list(keyed.values())), strict=True))
        mine = [(found := first.get(row.id)) is None or found.row.id == row.id for row, _ in wanted]
        holds = [hold_of(row, slot) for (row, slot), entitled in zip(wanted, mine, strict=True) if entitled]
        taken = iter(self.rows.take_each(holds))
        return [entitled and next(taken) for entitled in mine]

    def free(self, holds: Sequence[Hold]) -> None:
        """Free slots, and give them to those who wait."""
        if holds:
            self.rows.free_each(holds)
            self.wake(*(hold.slot for hold in holds))

    def wake(self, *slots: str) -> None:
        """Give free slots to the heads of their lines, as long as there are both."""
        left = list(dict.fromkeys(slots))
        while left:
            firsts = [(slot, first) for slot, first in zip(left, self.next_at(left), strict=True) if first is not None]
            holds = [hold_of(first.row, slot) for slot, first in firsts]
            given = zip(firsts, holds, self.rows.take_each(holds), strict=True)
            granted = [(first, hold) for (_, first), hold, taken in given if taken]
            self.give_each(granted)
            left = [hold.slot for _, hold in granted]

    def next_at(self, slots: Sequence[str]) -> list[Seen | None]:
        """For each slot, return the waiter entitled to it next.

        None if nobody waits, or the head of the order key is not waiting.
        """
        firsts = self.rows.first_waiting_each(slots)
        keyed = {
            slot: (first.row.queue, first.row.order_key)
            for slot, first in zip(slots, firsts, strict=True)
            if first is not None and first.row.order_key is not None and semaphore_of(slot) is None
        }
        lives = dict(zip(keyed, self.rows.first_live_each(list(keyed.values())), strict=True))
        heads = [lives.get(slot) if slot in keyed else first for slot, first in zip(slots, firsts, strict=True)]
        return [
            head if head is not None and head.row.waits_for == slot else None
            for slot, head in zip(slots, heads, strict=True)
        ]

    def give_each(self, given: Sequence[tuple[Seen, Hold]]) -> None:
        """Tell waiting jobs of the slots that they hold by now; free the slots of jobs that wait no more."""
        left = list(given)
        while left:
            # Where another process has told a job, it waits elsewhere by now, or no more.
            waiting = [(seen, hold) for seen, hold in left if seen.row.waits_for == hold.slot]
            if not waiting:
                return
            changes = [Change(seen, claim_rules.granted(seen.row)) for seen, _ in waiting]
            results = self.jobs.compare_and_set(changes).each
            changed = [hold for (_, hold), result in zip(waiting, results, strict=True) if result is not Result.DONE]
            if not changed:
                return
            seen = self.jobs.read([hold.job for hold in changed])[1]
            held = [hold for hold in changed if hold.job in seen and hold in holds_of(seen[hold.job].row)]
            if gone := [hold for hold in changed if hold not in held]:
                self.rows.free_each(gone)
            left = [(seen[hold.job], hold) for hold in held]

    # -- after a death

    def recover(self) -> None:
        """Free the slots of jobs that have no right to them, and give what is free to those who wait."""
        for holds in portions(self.rows.holds()):
            self.check(holds)
        for slots in portions(slot for slot in self.rows.slots_waited_at() if not is_node_gate(slot)):
            self.wake(*slots)

    def check(self, holds: Sequence[Hold]) -> None:
        """Free the slots of jobs that have no right to them, and tell those that wait for the one that they hold."""
        # The slots were read first: a job that has taken one since is seen as it is by now, with a right to it.
        seen = self.free_forfeited(holds)
        found = [(seen[hold.job], hold) for hold in holds if hold.job in seen]
        waiting = [(one, hold) for one, hold in found if one.row.waits_for == hold.slot and hold in holds_of(one.row)]
        self.give_each(waiting)

    def free_forfeited(self, holds: Sequence[Hold]) -> dict[str, Seen]:
        """Free those of the slots to which their job has no right; return the jobs, as they were then.

        Outbox recovery asks too: one claim may reserve a job that it has deferred again, under the same token.
        """
        seen = self.jobs.read([hold.job for hold in holds])[1] if holds else {}
        self.free([one for one in holds if (job := seen.get(one.job)) is None or one not in holds_of(job.row)])
        return seen

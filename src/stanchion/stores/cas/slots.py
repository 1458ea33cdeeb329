"""Slots of semaphores and order keys in a store without transactions over several jobs.

A claim reserves jobs, then takes their slots under the jobs' hold tokens, each in one operation on the slot's row. A
job without a free slot is parked. These invariants may be violated for moments, and outbox recovery restores them:

    never more holders than capacity       taking a slot checks the capacity in the same operation
    no slot held by an ended job           the end stores the job's holds: (1) the end, (2) its slots are freed
    no waiter while a slot is free         (1) the job is parked, (2) the slot is checked again; a process that frees a
                                           slot searches for waiters afterwards: one of the two sees the other

A slot is granted to a waiter in two operations: (1) in the slot's row, (2) in the job. After a death in between, the
row names a holder that still waits, and the next process that checks the slot does (2). If (2) finds that the job does
not wait any more, the slot is freed, unless the job has got it, as its hold token shows. Each release renews the token,
so that a late repeat never frees a slot that was taken again. The order key, which a job keeps between attempts, has a
separate hold token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from typing import Protocol

from stanchion.stores.cas.chunks import PastLocks, at_once, chunks
from stanchion.stores.cas.entries import Hold, hold_of, holds_of
from stanchion.stores.cas.jobs import Change, Jobs, Result, Seen
from stanchion.stores.records.jobs import QUEUED, JobRow
from stanchion.stores.records.slots import NODE, ORDER, Slot
from stanchion.stores.rules.capacity.slots import Asking
from stanchion.stores.rules.lifecycle import claims as claim_rules


class SlotRows(Protocol):
    """Primitives on the slots of a store; each item of a call is one atomic operation and may be repeated."""

    def take_each(self, wanted: Sequence[Hold]) -> list[bool]:
        """Take slots; True also if the hold token holds it already. An unknown semaphore has one slot."""

    def free_each(self, held: Sequence[Hold]) -> None:
        """Free slots; a hold token that holds none frees nothing."""

    def first_live_each(self, keys: Sequence[tuple[str, str]]) -> list[Seen | None]:
        """Return the first live job of each of these queues and order keys, by (enqueued_at, id)."""

    def first_waiting_each(self, slots: Sequence[Slot]) -> list[Seen | None]:
        """Return the job that has waited longest for each of these slots, by (waits_since, id)."""

    def spend(self, asking: Sequence[Asking]) -> list[int | None]:
        """Take a start from the bucket of each rate: return None, or the time to ask again; see `Bucket.asked`."""

    def holds(self) -> Iterable[Hold]:
        """Return all slots that are held."""

    def slots_waited_at(self) -> Iterable[Slot]:
        """Return the slots that jobs wait for; full ones may be left out."""


class Taking(Enum):
    """The answer to a job that asks for a slot."""

    TAKEN = auto()
    FULL = auto()
    BEHIND = auto()
    """The head of line of its order key is due and not reserved: the same claim may reach it."""


class Slots:
    """Takes, frees and grants slots."""

    def __init__(self, jobs: Jobs, rows: SlotRows, past_locks: PastLocks = at_once) -> None:
        self.jobs, self.rows, self._past_locks = jobs, rows, past_locks

    def take(self, wanted: Sequence[tuple[JobRow, Slot]]) -> list[Taking]:
        """Take a slot for each of these reserved jobs; an order key only for its head of line."""
        keyed = {row.id: (row.queue, row.order_key) for row, slot in wanted if row.order_key and slot.kind == ORDER}
        first = dict(zip(keyed, self.rows.first_live_each(list(keyed.values())), strict=True))
        heads = [first.get(row.id) for row, _ in wanted]
        entitlements = [head is None or head.row.id == row.id for (row, _), head in zip(wanted, heads, strict=True)]
        holds = [hold_of(row, slot) for (row, slot), entitled in zip(wanted, entitlements, strict=True) if entitled]
        got = self.rows.take_each(holds)
        taken = iter(self._confirmed(holds, got) if keyed else got)
        return [
            (Taking.TAKEN if next(taken) else Taking.FULL) if entitled else _behind(row, head)
            for (row, _), head, entitled in zip(wanted, heads, entitlements, strict=True)
        ]

    def _confirmed(self, holds: Sequence[Hold], taken: Sequence[bool]) -> list[bool]:
        """Give back the order keys of jobs that are not the head of line any more; return which slots remain taken.

        After the head was read, its chunk may have been divided: the parts, which come first, were stored before the
        key was freed.
        """
        of_keys = [hold for hold, got in zip(holds, taken, strict=True) if got and hold.slot.kind == ORDER]
        if not of_keys:
            return list(taken)
        heads = self.rows.first_live_each([(hold.slot.queue, hold.slot.name) for hold in of_keys])
        behind = [hold for hold, head in zip(of_keys, heads, strict=True) if head and head.row.id != hold.job]
        self.free(behind)
        return [got and hold not in behind for hold, got in zip(holds, taken, strict=True)]

    def free(self, holds: Sequence[Hold]) -> None:
        """Free slots, and grant them to waiters."""
        if holds:
            self.rows.free_each(holds)
            self.wake(*(hold.slot for hold in holds))

    def wake(self, *slots: Slot) -> None:
        """Grant free slots to the waiters entitled to them, until either runs out."""
        left = list(dict.fromkeys(slots))
        while left:
            firsts = [(slot, first) for slot, first in zip(left, self.next_at(left), strict=True) if first is not None]
            holds = [hold_of(first.row, slot) for slot, first in firsts]
            given = zip(firsts, holds, self._confirmed(holds, self.rows.take_each(holds)), strict=True)
            granted = [(first, hold) for (_, first), hold, taken in given if taken]
            self.give_each(granted)
            left = [hold.slot for _, hold in granted]

    def next_at(self, slots: Sequence[Slot]) -> list[Seen | None]:
        """For each slot, return the waiter entitled to it next.

        None if no job waits, or the head of the order key is not waiting.
        """
        firsts = self.rows.first_waiting_each(slots)
        keyed = {
            slot: (first.row.queue, first.row.order_key)
            for slot, first in zip(slots, firsts, strict=True)
            if first is not None and first.row.order_key is not None and slot.kind == ORDER
        }
        first_live = dict(zip(keyed, self.rows.first_live_each(list(keyed.values())), strict=True))
        heads = [first_live.get(slot) if slot in keyed else first for slot, first in zip(slots, firsts, strict=True)]
        return [
            head if head is not None and head.row.waits_for == slot else None
            for slot, head in zip(slots, heads, strict=True)
        ]

    def give_each(self, given: Sequence[tuple[Seen, Hold]]) -> None:
        """Record granted slots in the waiting jobs; free the slots of jobs that do not wait any more."""
        left = list(given)
        while left:
            # A job to which another process granted the slot waits for another one by now, or for none.
            waiting = [(seen, hold) for seen, hold in left if seen.row.waits_for == hold.slot]
            if not waiting:
                return
            changes = [Change(seen, claim_rules.granted(seen.row, seen.at)) for seen, _ in waiting]
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
        """Free slots held without entitlement, and grant free slots to waiters."""
        for holds in chunks(self.rows.holds()):
            self._past_locks(holds, self.check)
        for slots in chunks(slot for slot in self.rows.slots_waited_at() if slot.kind != NODE):
            self._past_locks(slots, lambda some: self.wake(*some))

    def check(self, holds: Sequence[Hold]) -> None:
        """Free slots held without entitlement, and record those held in the jobs that still wait for them."""
        # The slots were read first: a job that took one since is read with its present entitlement.
        seen = self._free_forfeited(holds, self._settled)
        found = [(seen[hold.job], hold) for hold in holds if hold.job in seen]
        waiting = [(one, hold) for one, hold in found if one.row.waits_for == hold.slot and hold in holds_of(one.row)]
        held = [hold for _, hold in waiting]
        entitled = self._confirmed(held, [True] * len(held))
        self.give_each([one for one, still in zip(waiting, entitled, strict=True) if still])

    def free_forfeited(self, holds: Sequence[Hold]) -> dict[str, Seen]:
        """Free the slots that their job is not entitled to; return the jobs as they were then.

        Outbox recovery also checks this, because a claim may reserve a deferred job again under the same token.
        """
        return self._free_forfeited(holds, list)

    def _free_forfeited(
        self, holds: Sequence[Hold], freed: Callable[[Sequence[Hold]], Sequence[Hold]]
    ) -> dict[str, Seen]:
        seen = self.jobs.read([hold.job for hold in holds])[1] if holds else {}
        self.free(freed([one for one in holds if (job := seen.get(one.job)) is None or one not in holds_of(job.row)]))
        return seen

    def _settled(self, holds: Sequence[Hold]) -> list[Hold]:
        """Leave out order keys of jobs with an outbox entry, which stores parts in line before it frees the key."""
        if not any(hold.slot.kind == ORDER for hold in holds):
            return list(holds)
        waiting = {entry.job for entry in self.jobs.entries(self.jobs.now() + 1)}
        return [hold for hold in holds if hold.slot.kind != ORDER or hold.job not in waiting]


def _behind(row: JobRow, head: Seen | None) -> Taking:
    """Return the answer to a job reserved just now that is not the head of line."""
    may_be_claimed = head is not None and head.row.state == QUEUED and head.row.run_at <= (row.started_at or 0)
    return Taking.BEHIND if may_be_claimed else Taking.FULL

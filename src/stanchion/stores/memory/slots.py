"""Semaphores, order keys, and the starts of rates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from stanchion.stores.memory.jobs import Jobs
from stanchion.stores.memory.values import Values
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.queues import SemaphoreRow
from stanchion.stores.records.slots import NODE, SEMAPHORE, Slot
from stanchion.stores.rules.capacity import slots as slot_rules
from stanchion.stores.rules.capacity.declared_rates import declared_rates
from stanchion.stores.rules.capacity.rate_limit import Bucket
from stanchion.stores.rules.capacity.slots import Verdict
from stanchion.stores.rules.lifecycle import claims as claim_rules


class Slots:
    """Counts slots, free and held; a free slot is granted immediately to the waiter entitled to it next."""

    def __init__(self, jobs: Jobs, values: Values) -> None:
        self.held: Counter[Slot] = Counter()
        self._jobs, self._values = jobs, values
        self._capacity: dict[str, int] = {}
        self._declared: dict[str, int] = {}
        self._buckets: dict[str, Bucket] = {}

    # -- semaphores

    def set_semaphore(self, name: str, capacity: int | None, *, declared: bool) -> bool:
        """Make a semaphore, or change its capacity."""
        last = self._declared.get(name)
        wanted = last if capacity is None else capacity
        if wanted is None or (declared and wanted == last):
            return False
        self._capacity[name] = wanted
        if declared:
            self._declared[name] = wanted
        self._grant(slot_rules.semaphore_slot(name))
        return True

    def semaphores(self, names: Iterable[str] | None = None) -> list[SemaphoreRow]:
        """Return semaphores, by name: all, or the known ones among `names`."""
        wanted = self._capacity.keys() if names is None else self._capacity.keys() & set(names)
        slots = {name: slot_rules.semaphore_slot(name) for name in sorted(wanted)}
        return [
            SemaphoreRow(name, self._capacity[name], self.held[slot], len(self._jobs.waiting_ids(slot)))
            for name, slot in slots.items()
        ]

    def recount(self) -> None:
        """Recount the held slots, and grant the free ones."""
        self.held = Counter(slot for row in self._jobs.live() for slot in slot_rules.held_slots(row))
        for slot in self._jobs.waited_for():
            if slot.kind != NODE:
                self._grant(slot)

    # -- steps of jobs

    def admit(self, row: JobRow, now: int) -> Verdict:
        """Let a due job take its slots and its start, as far as there are any."""
        wanted, rates = slot_rules.wanted_slots([row]), slot_rules.wanted_rates([row])
        declared = declared_rates(rates, self._values.values)
        slots = slot_rules.Slots(
            free={slot: self._free(slot) for slot in wanted},
            heads={slot: head for slot in wanted if (head := self._jobs.head_of_key(slot)) is not None},
            buckets={
                name: replace(self._buckets.get(name, Bucket(1.0, 0.0, 0)), rate=declared.get(name, rate.per_second))
                for name, rate in rates.items()
            },
        )
        (verdict,) = slot_rules.admit([row], slots, now)
        self.held.update(slots.taken)
        self._buckets |= slots.buckets
        return verdict

    def release(self, before: JobRow, after: JobRow | None) -> None:
        """Free the slots that a job does not hold after a step (None: its deletion), and grant them."""
        held = slot_rules.held_slots(before)
        for slot in slot_rules.freed_slots(before, after):
            if slot in held:
                self._give_back(slot)
            self._grant(slot)

    def _give_back(self, slot: Slot) -> None:
        self.held[slot] -= 1
        if not self.held[slot]:
            del self.held[slot]  # order keys may be very many

    def _grant(self, slot: Slot) -> None:
        while self._free(slot) > 0 and (row := self._next(slot)) is not None:
            self.held[slot] += 1
            self._jobs.put(claim_rules.granted(row, self._jobs.now()))

    def _next(self, slot: Slot) -> JobRow | None:
        """Return the waiter entitled to a slot next; None if no job waits, or the head of the order key does not."""
        if slot.kind == SEMAPHORE:
            return next(self._jobs.waiting(slot), None)
        head = self._jobs.head_of_key(slot)
        row = None if head is None else self._jobs.find(head)
        return row if row is not None and row.waits_for == slot else None

    def _free(self, slot: Slot) -> int:
        capacity = self._capacity.get(slot.name, 1) if slot.kind == SEMAPHORE else 1
        return capacity - self.held[slot]

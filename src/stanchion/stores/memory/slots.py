"""What jobs must hold to run: semaphores, order keys, and tokens of keyed rates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from stanchion.stores.memory.jobs import Jobs
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.queues import SemaphoreRow
from stanchion.stores.rules import claims as claim_rules
from stanchion.stores.rules import slots as slot_rules
from stanchion.stores.rules.rate_limit import Bucket
from stanchion.stores.rules.slots import Verdict


class Slots:
    """How many slots there are and are held; a free one is granted at once to the waiter entitled to it next."""

    def __init__(self, jobs: Jobs) -> None:
        self.held: Counter[str] = Counter()
        self._jobs = jobs
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
        self._grant(slot_rules.semaphore_gate(name))
        return True

    def semaphores(self, names: Iterable[str] | None = None) -> list[SemaphoreRow]:
        """Return semaphores, by name: all, or those of these names that there are."""
        wanted = self._capacity.keys() if names is None else self._capacity.keys() & set(names)
        slots = {name: slot_rules.semaphore_gate(name) for name in sorted(wanted)}
        return [
            SemaphoreRow(name, self._capacity[name], self.held[slot], len(self._jobs.waiting_ids(slot)))
            for name, slot in slots.items()
        ]

    def recount(self) -> None:
        """Count anew the slots that are held, and grant the free ones, whatever has left them so."""
        self.held = Counter(slot for row in self._jobs.live() for slot in slot_rules.held_gates(row))
        for slot in self._jobs.waited_for():
            if not slot_rules.is_node_gate(slot):
                self._grant(slot)

    # -- steps of jobs

    def admit(self, row: JobRow, now: int) -> Verdict:
        """Let a due job take the slots and the start that it needs, as far as there are any."""
        wanted = slot_rules.wanted_gates([row])
        slots = slot_rules.Slots(
            free={slot: self._free(slot) for slot in wanted},
            turns={slot: head for slot in wanted if (head := self._jobs.head_of_key(slot)) is not None},
            buckets={
                name: replace(self._buckets.get(name, Bucket(1.0, 0.0, 0)), rate=rate.per_second)
                for name, rate in slot_rules.wanted_rates([row]).items()
            },
        )
        (verdict,) = slot_rules.admit([row], slots, now)
        self.held.update(slots.taken)
        self._buckets |= slots.buckets
        return verdict

    def release(self, before: JobRow, after: JobRow | None) -> None:
        """Free the slots that a job no longer holds after a step (None: it was deleted), and grant them."""
        held = slot_rules.held_gates(before)
        for slot in slot_rules.freed(before, after):
            if slot in held:
                self._give_back(slot)
            self._grant(slot)

    def _give_back(self, slot: str) -> None:
        self.held[slot] -= 1
        if not self.held[slot]:
            del self.held[slot]  # there may be a slot for each of very many order keys

    def _grant(self, slot: str) -> None:
        while self._free(slot) > 0 and (row := self._next(slot)) is not None:
            self.held[slot] += 1
            self._jobs.put(claim_rules.granted(row))

    def _next(self, slot: str) -> JobRow | None:
        """Return the waiter entitled to a slot next; None if nobody waits, or the head of the order key does not."""
        if slot_rules.semaphore_of(slot) is not None:
            return next(self._jobs.waiting(slot), None)
        head = self._jobs.head_of_key(slot)
        row = None if head is None else self._jobs.find(head)
        return row if row is not None and row.waits_for == slot else None

    def _free(self, slot: str) -> int:
        return self._capacity.get(slot_rules.semaphore_of(slot) or "", 1) - self.held[slot]

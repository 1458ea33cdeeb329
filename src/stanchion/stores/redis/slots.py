"""Slots in Redis: one set of keys per slot; waiters are stored with the jobs of their queue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from stanchion.stores.cas.chunks import chunks
from stanchion.stores.cas.entries import Hold, key_of, slot_of
from stanchion.stores.cas.jobs import Seen
from stanchion.stores.cas.slots import Slots
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.queues import SemaphoreRow
from stanchion.stores.records.slots import NODE, ORDER, Slot
from stanchion.stores.redis.client.layout import FIELD
from stanchion.stores.redis.client.rows import seen_in
from stanchion.stores.redis.client.server import Call
from stanchion.stores.redis.jobs import Jobs
from stanchion.stores.rules.capacity.limits import Rate
from stanchion.stores.rules.capacity.rate_limit import Promise
from stanchion.stores.rules.capacity.slots import Asking, semaphore_slot

_AT_ONCE = 500
_LISTED_MICROS = 60 * SECOND
"""Minimum microseconds that a slot without holders stays listed."""


class SlotRows:
    """The primitives of `stores.cas` on slots, waiters and rates."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs, self._server, self._keys = jobs, jobs.server, jobs.server.keys

    # -- slots

    def take_each(self, wanted: Sequence[Hold]) -> list[bool]:
        """Take slots; True also if the hold token holds it already."""
        # Slots are listed first, so that `holds` finds every held slot after a death.
        if not wanted:
            return []
        enlisted = self._server.enlist("slots", *{key_of(hold.slot) for hold in wanted})
        takes = [self._server.script("take_slot", self._keys.slot(hold.slot), _holder(hold)) for hold in wanted]
        if self._server.address.cluster:
            self._server.all([enlisted])
            return [taken == 1 for taken in self._server.all(takes)]
        return [taken == 1 for taken in self._server.all([enlisted, *takes])[1:]]

    def free_each(self, held: Sequence[Hold]) -> None:
        """Free slots; a hold token that holds none frees nothing."""
        self._server.all([Call(("SREM", self._keys.slot(hold.slot) + "holders", _holder(hold))) for hold in held])

    def holds(self) -> Iterator[Hold]:
        """Return all slots that are held."""
        listed = self._keys.own("slots")
        for part in chunks(
            [slot_of(slot.decode()) for slot in self._server.command("ZRANGE", listed, 0, -1)], _AT_ONCE
        ):
            idle = []
            for slot, holders in zip(part, self.holders(part), strict=True):
                yield from holders
                if not holders:
                    idle.append(slot)
            if idle:
                # A slot that a slow process takes now is listed again by the next one that wants it.
                self._server.all(
                    [self._server.script("unlist", listed, self._server.now() - _LISTED_MICROS, *map(key_of, idle))]
                )

    def holders(self, slots: Sequence[Slot]) -> list[list[Hold]]:
        """Return the holders of each of these slots."""
        answers = self._server.all([Call(("SMEMBERS", self._keys.slot(slot) + "holders")) for slot in slots])
        return [
            [Hold(slot, *holder.decode().split(FIELD)) for holder in sorted(holders)]
            for slot, holders in zip(slots, answers, strict=True)
        ]

    # -- waiters

    def first_live_each(self, keys: Sequence[tuple[str, str]]) -> list[Seen | None]:
        """Return the first live job of each of these queues and order keys."""
        return self._jobs.first_each([(queue, "orders", key) for queue, key in keys])

    def first_waiting_each(self, slots: Sequence[Slot]) -> list[Seen | None]:
        """Return the job that has waited longest for each of these slots."""
        places = [
            (queue, slot) for slot, queues in zip(slots, self._queues_at_each(slots), strict=True) for queue in queues
        ]
        firsts: dict[Slot, Seen] = {}
        found = self._jobs.first_each([(queue, "waits", key_of(slot)) for queue, slot in places])
        for (_, slot), seen in zip(places, found, strict=True):
            if seen is not None and (slot not in firsts or _since(seen) < _since(firsts[slot])):
                firsts[slot] = seen
        return [firsts.get(slot) for slot in slots]

    def waiting_at(self, slot: Slot, limit: int) -> list[Seen]:
        """Return up to `limit` jobs that wait for a slot, the longest wait first."""
        found: list[Seen] = []
        for queue in self.queues_at(slot):
            clock, text = self._jobs.script("first", queue, "waits", key_of(slot), limit)
            here = seen_in(text.decode(), queue, int(clock))
            self._jobs.places.remember(queue, (seen.row.id for seen in here))
            found += here
        return sorted(found, key=_since)[:limit]

    def queues_at(self, slot: Slot) -> list[str]:
        """Return the queues where jobs may wait for a slot."""
        return self._queues_at_each([slot])[0]

    def _queues_at_each(self, slots: Sequence[Slot]) -> list[list[str]]:
        with_queues = [slot for slot in slots if slot.kind != ORDER]
        asked = self._server.all([Call(("SMEMBERS", self._keys.slot(slot) + "queues")) for slot in with_queues])
        found = {
            slot: sorted(queue.decode() for queue in queues) for slot, queues in zip(with_queues, asked, strict=True)
        }
        return [[slot.queue] if slot.kind == ORDER else found[slot] for slot in slots]

    def slots_waited_at(self) -> Iterator[Slot]:
        """Return the slots that jobs wait for and that may be free."""
        places = self._jobs.places
        for queue in places.with_any(places.queues(), "waits"):
            after = ""
            while True:
                keys = [key.decode() for key in self._jobs.script("waited_at", queue, after, _AT_ONCE)]
                shut = [slot for slot in map(slot_of, keys) if slot.kind != NODE]
                used = self.usage(shut)
                yield from (
                    slot
                    for slot, (capacity, held) in zip(shut, used, strict=True)
                    if held < (1 if capacity is None else capacity)
                )
                if len(keys) < _AT_ONCE:
                    break
                after = keys[-1]

    def usage(self, slots: Sequence[Slot]) -> list[tuple[int | None, int]]:
        """Return for each slot its capacity, if set, and the number of holders."""
        asked = [
            Call(parts)
            for slot in slots
            for parts in (("GET", self._keys.slot(slot) + "capacity"), ("SCARD", self._keys.slot(slot) + "holders"))
        ]
        answers = chunks(self._server.all(asked), 2)
        return [(None if capacity is None else int(capacity), held) for capacity, held in answers]

    # -- rates

    def spend(self, asking: Sequence[Asking]) -> list[int | None]:
        """Take a start from the bucket of each rate: return None, or the time to ask again."""
        promises: dict[Rate, list[Promise | None]] = {}
        for one in asking:
            promises.setdefault(one.rate, []).append(one.promise)
        answers = self._server.all([self._spend(rate, its) for rate, its in promises.items()])
        dues = {rate: iter(answer) for rate, answer in zip(promises, answers, strict=True)}
        return [int(due) if (due := next(dues[rate])) else None for rate, _ in asking]

    def _spend(self, rate: Rate, promises: Sequence[Promise | None]) -> Call:
        each = ["" if one is None else "again" if one.again else one.at for one in promises]
        return self._server.script("spend", self._keys.own(f"rate:{rate.name}"), rate.per_second, *each)


class Semaphores:
    """Sets and reads semaphores."""

    def __init__(self, jobs: Jobs, rows: SlotRows, slots: Slots) -> None:
        self._server, self._keys = jobs.server, jobs.server.keys
        self._rows, self._slots = rows, slots

    def set_semaphore(self, name: str, capacity: int | None, *, declared: bool = False) -> bool:
        """Make a semaphore, or change its capacity: waiters get free slots now; holders beyond the capacity finish."""
        key = self._keys.slot(semaphore_slot(name))
        if declared or capacity is None:
            listed = Call(("SISMEMBER", self._keys.own("semaphores"), name))
            last, known, is_listed = self._server.all(
                [Call(("GET", key + "declared")), Call(("GET", key + "capacity")), listed]
            )
            wanted = last if capacity is None else str(capacity).encode()
            # A server may have lost any of the three.
            if wanted is None or (declared and wanted == last and known is not None and is_listed):
                return False
            capacity = int(wanted)
        self._server.command("SADD", self._keys.own("semaphores"), name)
        self._server.command("SET", key + "capacity", capacity)
        if declared:  # written last: a death before this makes the next call repeat all
            self._server.command("SET", key + "declared", capacity)
        self._slots.wake(semaphore_slot(name))
        return True

    def semaphores(self, names: Iterable[str] | None = None) -> list[SemaphoreRow]:
        """Return semaphores, by name: all, or the known ones among `names`."""
        if names is None:
            names = [name.decode() for name in self._server.command("SMEMBERS", self._keys.own("semaphores"))]
        wanted = sorted(set(names))
        used = self._rows.usage([semaphore_slot(name) for name in wanted])
        return [
            SemaphoreRow(name, capacity, held, self._waiting(semaphore_slot(name)))
            for name, (capacity, held) in zip(wanted, used, strict=True)
            if capacity is not None  # else its creation is unfinished
        ]

    def _waiting(self, slot: Slot) -> int:
        ends = _entries_at(slot)
        calls = [Call(("ZLEXCOUNT", self._keys.queue(queue) + "waits", *ends)) for queue in self._rows.queues_at(slot)]
        return sum(self._server.all(calls))


def _entries_at(slot: Slot) -> tuple[str, str]:
    """Return the bounds of the entries of a slot among all that wait in a queue."""
    key = key_of(slot)
    return f"[{key}{FIELD}", f"({key} "


def _since(seen: Seen) -> tuple[int, str]:
    return seen.row.waits_since or 0, seen.row.id


def _holder(hold: Hold) -> str:
    return f"{hold.job}{FIELD}{hold.token}"

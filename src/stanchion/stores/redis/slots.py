"""Gates in Redis: the slots of each in keys of its own, those who wait for one with the jobs of their queue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from stanchion.stores.cas.mixins.jobs import Duty, Seen
from stanchion.stores.cas.mixins.outbox import Hold
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.queues import SemaphoreRow
from stanchion.stores.redis.client.rows import FIELD, seen_in
from stanchion.stores.redis.client.server import Call
from stanchion.stores.redis.jobs import RedisBase, duties_in, portions
from stanchion.stores.rules.limits import Rate
from stanchion.stores.rules.rate_limit import Promise
from stanchion.stores.rules.slots import Asking, is_node_gate, semaphore_gate, semaphore_of

_AT_ONCE = 500
_LISTED = 60 * SECOND
"""For so long, at least, a gate that nobody holds is among those that are looked at."""


class Gating(RedisBase):
    """Slots, the lines in front of them, rates, and what is left to be done."""

    # -- slots

    def take_each(self, wanted: Sequence[Hold]) -> list[bool]:
        # Noted first: a slot that is held, whoever died meanwhile, is of a gate that `holds` looks at.
        if not wanted:
            return []
        note = self.enlist("gates", *{hold.gate for hold in wanted})
        takes = [self.server.script("hold", self.gate_key(hold.gate), _holder(hold)) for hold in wanted]
        if self.server.address.cluster:
            self.server.all([note])
            return [taken == 1 for taken in self.server.all(takes)]
        return [taken == 1 for taken in self.server.all([note, *takes])[1:]]

    def free_each(self, held: Sequence[Hold]) -> None:
        self.server.all([Call(("SREM", self.gate_key(hold.gate) + "holders", _holder(hold))) for hold in held])

    def holds(self) -> Iterator[Hold]:
        listed = self.own_key("gates")
        for part in portions([gate.decode() for gate in self.server.command("ZRANGE", listed, 0, -1)], _AT_ONCE):
            idle = []
            for gate, holders in zip(part, self._holders(part), strict=True):
                yield from holders
                if not holders:
                    idle.append(gate)
            if idle:
                # One that is taken right now, by somebody slow, is listed again by the next who wants it.
                self.server.all([self.server.script("unlist", listed, self.now() - _LISTED, *idle)])

    def _holders(self, gates: Sequence[str]) -> list[list[Hold]]:
        answers = self.server.all([Call(("SMEMBERS", self.gate_key(gate) + "holders")) for gate in gates])
        return [
            [Hold(gate, *holder.decode().split(FIELD)) for holder in sorted(holders)]
            for gate, holders in zip(gates, answers, strict=True)
        ]

    # -- lines

    def first_live(self, queue: str, order_key: str) -> Seen | None:
        return self.first_live_each([(queue, order_key)])[0]

    def first_waiting(self, gate: str) -> Seen | None:
        return self.first_waiting_each([gate])[0]

    def first_live_each(self, keys: Sequence[tuple[str, str]]) -> list[Seen | None]:
        return self._firsts([(queue, "orders", key) for queue, key in keys])

    def first_waiting_each(self, gates: Sequence[str]) -> list[Seen | None]:
        places = [
            (queue, gate) for gate, queues in zip(gates, self._queues_at_each(gates), strict=True) for queue in queues
        ]
        firsts: dict[str, Seen] = {}
        found = self._firsts([(queue, "waits", gate) for queue, gate in places])
        for (_, gate), seen in zip(places, found, strict=True):
            if seen is not None and (gate not in firsts or _place(seen) < _place(firsts[gate])):
                firsts[gate] = seen
        return [firsts.get(gate) for gate in gates]

    def _firsts(self, wanted: Sequence[tuple[str, str, str]]) -> list[Seen | None]:
        """Return the first job of each of these: queue, index and the name in it."""
        calls = [self.server.script("first", self.key(queue), index, name, 1) for queue, index, name in wanted]
        found: list[Seen | None] = []
        for (queue, _, _), text in zip(wanted, self.server.all(calls), strict=True):
            found.append(next(iter(seen_in(text.decode(), queue)), None))
            self.remember(queue, [seen.row.id for seen in found[-1:] if seen])
        return found

    def waiting_at(self, gate: str, limit: int) -> list[Seen]:
        found: list[Seen] = []
        for queue in self._queues_at(gate):
            here = seen_in(self.script("first", queue, "waits", gate, limit).decode(), queue)
            self.remember(queue, (seen.row.id for seen in here))
            found += here
        return sorted(found, key=_place)[:limit]

    def _queues_at(self, gate: str) -> list[str]:
        return self._queues_at_each([gate])[0]

    def _queues_at_each(self, gates: Sequence[str]) -> list[list[str]]:
        """Return for each gate the queues in which jobs may wait there."""
        noted = [gate for gate in gates if _of_one_queue(gate) is None]
        asked = self.server.all([Call(("SMEMBERS", self.gate_key(gate) + "queues")) for gate in noted])
        found = {gate: sorted(queue.decode() for queue in queues) for gate, queues in zip(noted, asked, strict=True)}
        return [found[gate] if (queue := _of_one_queue(gate)) is None else [queue] for gate in gates]

    def gates_waited_at(self) -> Iterator[str]:
        """Return those that may have a free slot."""
        for queue in self.queue_names():
            after = ""
            while True:
                gates = [gate.decode() for gate in self.script("gates", queue, after, _AT_ONCE)]
                shut = [gate for gate in gates if not is_node_gate(gate)]
                used = self._usage(shut)
                yield from (
                    gate
                    for gate, (capacity, held) in zip(shut, used, strict=True)
                    if held < (1 if capacity is None else capacity)
                )
                if len(gates) < _AT_ONCE:
                    break
                after = gates[-1]

    def _usage(self, gates: Sequence[str]) -> list[tuple[int | None, int]]:
        """Return the capacity of each gate, if it was set, and how many slots are held."""
        asked = [
            Call(parts)
            for gate in gates
            for parts in (("GET", self.gate_key(gate) + "capacity"), ("SCARD", self.gate_key(gate) + "holders"))
        ]
        answers = portions(self.server.all(asked), 2)
        return [(None if capacity is None else int(capacity), held) for capacity, held in answers]

    # -- rates

    def spend(self, asking: Sequence[Asking]) -> list[int | None]:
        promises: dict[Rate, list[Promise | None]] = {}
        for one in asking:
            promises.setdefault(one.rate, []).append(one.promise)
        answers = self.server.all([self._spend(rate, its) for rate, its in promises.items()])
        dues = {rate: iter(answer) for rate, answer in zip(promises, answers, strict=True)}
        return [int(due) if (due := next(dues[rate])) else None for rate, _ in asking]

    def _spend(self, rate: Rate, promises: Sequence[Promise | None]) -> Call:
        each = ["" if one is None else "again" if one.again else one.at for one in promises]
        return self.server.script("spend", self.own_key(f"rate:{rate.name}"), rate.per_second, *each)

    # -- duties

    def duties(self, before: int) -> Iterator[Duty]:
        for queue in self.queue_names():
            yield from (duty for duty in self.duties_of(queue) if duty.noted_at < before)

    def duties_of(self, queue: str) -> list[Duty]:
        """Return what is left to be done for jobs of this queue."""
        return duties_in(queue, self.server.command("HGETALL", self.key(queue) + "duties"))

    def strike_off(self, duties: Sequence[Duty]) -> None:
        marks: dict[str, list[str]] = {}
        for duty in duties:
            marks.setdefault(duty.queue, []).append(duty.mark)
        self.server.all([Call(("HDEL", self.key(queue) + "duties", *its)) for queue, its in marks.items()])

    # -- semaphores

    def set_semaphore(
        self,
        name: str,
        capacity: int | None,
        *,
        declared: bool = False,
        tx: Any = None,
    ) -> bool:
        """Make a semaphore, or change its capacity: waiters get what is free now; holders beyond it finish."""
        key = self.gate_key(semaphore_gate(name))
        if declared or capacity is None:
            listed = Call(("SISMEMBER", self.own_key("semaphores"), name))
            last, known, is_listed = self.server.all(
                [Call(("GET", key + "declared")), Call(("GET", key + "capacity")), listed]
            )
            wanted = last if capacity is None else str(capacity).encode()
            # A server may have lost any of the three.
            if wanted is None or (declared and wanted == last and known is not None and is_listed):
                return False
            capacity = int(wanted)
        self.server.command("SADD", self.own_key("semaphores"), name)
        self.server.command("SET", key + "capacity", capacity)
        if declared:  # last: what dies before that is done again
            self.server.command("SET", key + "declared", capacity)
        self.wake(semaphore_gate(name))
        return True

    def semaphores(self, names: Iterable[str] | None = None) -> list[SemaphoreRow]:
        """Return semaphores, by name: all, or those of these names that there are."""
        if names is None:
            names = [name.decode() for name in self.server.command("SMEMBERS", self.own_key("semaphores"))]
        wanted = sorted(set(names))
        used = self._usage([semaphore_gate(name) for name in wanted])
        return [
            SemaphoreRow(name, capacity, held, self._waiting(semaphore_gate(name)))
            for name, (capacity, held) in zip(wanted, used, strict=True)
            if capacity is not None  # otherwise whoever was about to make it died, or is about to
        ]

    def _waiting(self, gate: str) -> int:
        ends = f"[{gate}{FIELD}", f"({gate} "
        calls = [Call(("ZLEXCOUNT", self.key(queue) + "waits", *ends)) for queue in self._queues_at(gate)]
        return sum(self.server.all(calls))

    def permits(self, name: str) -> tuple[list[str], list[str]]:
        """Return the ids of the jobs that hold a slot of a semaphore, and of those that wait for one, in line."""
        gate = semaphore_gate(name)
        ends = f"[{gate}{FIELD}", f"({gate} "
        queues = self._queues_at(gate)
        lines = self.server.all([Call(("ZRANGEBYLEX", self.key(queue) + "waits", *ends)) for queue in queues])
        waiting = sorted(entry.decode().split(FIELD)[1:] for line in lines for entry in line)
        (holders,) = self._holders([gate])
        return sorted(hold.job for hold in holders), [job_id for _, job_id in waiting]


def _of_one_queue(gate: str) -> str | None:
    """Return the queue of an order gate, which is in its name."""
    if is_node_gate(gate) or semaphore_of(gate) is not None:
        return None
    length, _, rest = gate[1:].partition(":")
    return rest[: int(length)]


def _place(seen: Seen) -> tuple[int, str]:
    return seen.row.waits_since or 0, seen.row.id


def _holder(hold: Hold) -> str:
    return f"{hold.job}{FIELD}{hold.permit}"

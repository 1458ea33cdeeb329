"""Gates as rows: what a claim must ask before a job may run, and what follows when a slot comes free.

Whoever decides anything about a gate has its row locked until the end of the transaction, and has written it: so
the one who parks a job there and the one who sets a slot free never miss each other, at any level of isolation.

No two transactions wait for each other in a circle, as each locks

    1. jobs, those of a claim past what others have locked
    2. nodes of flows
    3. gates, once: all of them together, in the order of their names; those of order keys and of rates are made there
    4. jobs that wait at these gates, past what others have locked

So a claim that has parked jobs goes on in another transaction, and the slots that steps set free are passed on at the
very end. A waiting job that another transaction has locked, to cancel it perhaps, is passed over in step 4; where a
slot stays free for that, its gate is looked at once more afterwards. Calls in a caller's transaction lock as they come.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Executable

from stanchion.stores import transitions
from stanchion.stores.gates import (
    HOLDER_BOOST,
    Slots,
    Verdict,
    admit,
    freed,
    gated,
    held_gates,
    limits_in,
    order_gate,
    order_of,
    semaphore_gate,
    semaphore_of,
    wanted_gates,
    wanted_rates,
)
from stanchion.stores.records import SECOND, Claim, JobRow, JobState, QueueSettings, SemaphoreRow
from stanchion.stores.sql.base import SqlBase, Step
from stanchion.stores.sql.connection import Params, Row, Runner
from stanchion.stores.sql.database import Database
from stanchion.stores.sql.gate_statements import GateStatements
from stanchion.stores.sql.joining import joined
from stanchion.stores.throttle import Bucket

AT_ONCE = 1000
"""So many jobs one transaction parks at most, however many wait at a gate without a slot."""

_PICKED_AT_GATES = 100
"""So many jobs are looked at together, at least, once one had to be parked: few of them may be allowed to run."""

_SECONDS = 2.0
"""So long one claim goes on looking past jobs that have to wait at gates; at most half of its lease."""

_LOOKS = (0.005, 0.02, 0.1)
"""Seconds before each further look at a gate whose waiters others had locked; what is left then is for `sweep`."""

_PARKED = ("waits_for", "waits_since", "held", "permit", "priority")
_RATES_KEPT = 30 * 86_400 * SECOND


class Gate(NamedTuple):
    """A row of stanchion_gates.

    `capacity` None: nobody has set one, so it is 1. `waited`: somebody may wait there; nobody does where it is not set.
    """

    name: str
    capacity: int | None
    used: int
    waited: bool
    tokens: float | None
    filled_at: int | None
    promised: int | None
    promised_again: int | None

    @property
    def free(self) -> int:
        """Slots to be had; below 0 where the capacity was lowered."""
        return (1 if self.capacity is None else self.capacity) - self.used

    def bucket(self, rate: float) -> Bucket:
        """Return the state of a rate; a new one is full."""
        promised = self.promised or 0, self.promised_again or 0
        return Bucket(rate, self.tokens or 0.0, self.filled_at or 0, *promised)


@dataclass(slots=True)
class Search:
    """What a claim takes along from one of its transactions to the next."""

    picks: int = 0
    """So many jobs are looked at together, at least."""
    at: int | None = None
    """When the first one asked at gates: all that one claim parks wait since then, and so in the order of their ids."""
    seconds: float = _SECONDS
    """How long the claim may go on."""


class Admission(NamedTuple):
    """Jobs that a transaction of a claim has reserved.

    `more`: it had to park some, and there may be more behind them. `asked`: some had to ask at gates. `retry_in`:
    seconds until a limit of the queue may allow more.
    """

    rows: list[JobRow]
    more: bool = False
    asked: bool = False
    retry_in: float | None = None


class Gating(SqlBase):
    """Semaphores, order keys, keyed rates."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._gates = self.dialect.once(GateStatements)
        self._lasting: set[str] = set()
        """Gates whose rows are there for good: those of semaphores."""

    # -- semaphores

    def set_semaphore(self, name: str, capacity: int | None, *, declared: bool = False, tx: Any = None) -> bool:
        gate = semaphore_gate(name)

        def as_before(run: Runner) -> bool:
            ((last,),) = run.rows(self._gates.declared, {"name": gate}) or [(None,)]
            return capacity == last if declared else last is None

        def work(run: Runner, _again: bool) -> bool:
            if (declared or capacity is None) and as_before(run):
                return False
            self._lock(run, [gate])
            run.change(self._gates.resize, {"name": gate, "capacity": capacity})
            if declared:
                run.change(self._gates.declare, {"name": gate, "capacity": capacity})
            run.freed[gate] += 0
            return True

        if declared and self.database.read(as_before):
            return False
        if tx is not None and self.dialect.single_writer:
            with joined(self.database, tx) as run:
                work(run, False)
            return True  # also where it was done before in this transaction, which may be rolled back
        return self.write(work)

    def semaphores(self) -> list[SemaphoreRow]:
        rows = self.database.read(lambda run: run.rows(self._gates.semaphores))
        return sorted(
            SemaphoreRow(semaphore_of(gate) or "", capacity, used, int(waiting))
            for gate, capacity, used, waiting in rows
        )

    def permits(self, name: str) -> tuple[list[str], list[str]]:
        gate = semaphore_gate(name)
        quoted = json.dumps(name, ensure_ascii=False)
        for special in ("|", "%", "_"):
            quoted = quoted.replace(special, f"|{special}")

        def work(run: Runner) -> tuple[list[str], list[str]]:
            found = [light(*row) for row in run.rows(self._gates.holding, {"pattern": f"%{quoted}%"})]
            waiting = run.rows(self._gates.waiting, {"gate": gate})
            return sorted(row.id for row in found if gate in held_gates(row)), [str(row[0]) for row in waiting]

        return self.database.read(work)

    # -- claims

    def admit_in(
        self, run: Runner, claim: Claim, search: Search, settings: QueueSettings, ids: Sequence[str], room: int
    ) -> Admission:
        """Reserve up to `room` of these queued jobs, which are locked, in their order, as far as their gates allow.

        Those before them that may not run yet wait at their gates by then.
        """
        found = {row.id: row for row in map(_asking, run.rows(self._gates.asking, {"ids": self.dialect.listed(ids)}))}
        rows = [found[one] for one in ids if one in found]
        rates = wanted_rates(rows)
        # One that its rate puts off lets go of the slot that it was granted.
        held = [gate for row in rows if row.held and limits_in(row.limits).rate for gate in held_gates(row)]
        gates = self._lock(run, [*wanted_gates(rows), *held, *map(_rate_gate, rates)])
        now = self.clock(run)
        search.at = search.at or now
        slots = Slots(
            free={name: gate.free for name, gate in gates.items()},
            turns=self._turns(run, claim.queue, rows),
            buckets={name: gates[_rate_gate(name)].bucket(rate.per_second) for name, rate in rates.items()},
        )
        admitted: list[Verdict] = []
        kept: list[Step] = []
        for row in rows:
            if len(admitted) == room:
                break
            (verdict,) = admit([row], slots, now)
            if verdict.admitted:
                admitted.append(verdict)
            else:
                kept.append(Step(row, transitions.kept_back(row, verdict, claim.token, search.at)))
        if kept:
            search.picks = min(AT_ONCE, max(_PICKED_AT_GATES, 2 * search.picks))
        self._use(run, slots.taken)
        run.change_each(self._gates.fill, [_filled(name, bucket) for name, bucket in slots.buckets.items()])
        self._keep_back(run, kept)
        reserved = self._reserve_admitted(run, claim, settings, admitted, now)
        self.free_gates(run, kept)  # they are locked already
        asked = any(map(gated, rows))
        return Admission([reserved[one] for one in ids if one in reserved], bool(kept) and len(admitted) < room, asked)

    def reserve_with_slots(
        self,
        run: Runner,
        claim: Claim,
        settings: QueueSettings,
        ids: Sequence[str],
    ) -> list[JobRow]:
        """Reserve locked jobs that need nothing but semaphores, all or none, for a store with a short way."""
        return []

    def _reserve_admitted(
        self, run: Runner, claim: Claim, settings: QueueSettings, admitted: Sequence[Verdict], now: int
    ) -> dict[str, JobRow]:
        lease = settings.lease if claim.lease is None else claim.lease
        alike: defaultdict[tuple[int, bool], list[str]] = defaultdict(list)
        for verdict in admitted:
            alike[verdict.held, gated(verdict.row)].append(verdict.row.id)
        params = {
            "token": claim.token,
            "worker": claim.worker,
            "started_at": now,
            "lease_until": None if claim.worker else now + int(lease * SECOND),
        }
        reserved: dict[str, JobRow] = {}
        for (held, at_gates), ids in alike.items():
            given = {**params, "held": held, "gated": int(at_gates), "ids": self.dialect.listed(ids)}
            reserved |= {row.id: row for row in self.reserve_these(run, self._gates.reserve, given, ids)}
        return reserved

    def reserve_these(self, run: Runner, reserve: Executable, given: Params, ids: Sequence[str]) -> list[JobRow]:
        """Mark jobs as reserved; return them as they are now."""
        return [JobRow(*row) for row in run.rows(reserve, given)]

    def _keep_back(self, run: Runner, steps: Sequence[Step]) -> None:
        """Write jobs that may not run yet, and mark the gates at which they wait."""
        kept = [step.after for step in steps if step.after is not None]
        run.change_each(self._gates.postpone, [row._asdict() for row in kept if row.waits_for is None])
        alike: defaultdict[tuple[Any, ...], list[str]] = defaultdict(list)
        for row in kept:
            if row.waits_for is not None:
                alike[tuple(getattr(row, name) for name in _PARKED)].append(row.id)
        for place, ids in alike.items():
            given = dict(zip(_PARKED, place, strict=True))
            run.change(self._gates.park, {**given, "ids": self.dialect.listed(ids)})
        if alike:
            gates = {place[0] for place in alike}
            run.change(self._gates.mark, {"waited": True, "names": self.dialect.listed(gates)})

    def _turns(self, run: Runner, queue: str, rows: Iterable[JobRow]) -> dict[str, str]:
        """Return the first live job of each order gate that one of these jobs has still to take."""
        keys = {row.order_key for row in rows if row.order_key is not None and not row.held}
        return self._first_of(run, queue, keys) if keys else {}

    # -- what follows a step

    def free_gates(self, run: Runner, steps: Iterable[Step]) -> None:
        """Note the slots that these steps have set free, to be passed on as the last step of the transaction."""
        for before, after, _ in steps:
            for gate in freed(before, after):
                run.freed[gate] += before.held > 0  # where it held none, it may have stood before others of its key

    def pass_on_slots(self, run: Runner) -> None:
        slots = self.free_unwaited(run, run.freed) if run.freed else {}
        if slots:
            locked = self._lock(run, slots).values()
            self._grant(run, [gate._replace(used=gate.used - slots[gate.name]) for gate in locked], slots)

    def look_again(self, gates: set[str]) -> None:
        for pause in _LOOKS:
            time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - spreading load
            gates = self.write_once(lambda run, _again, left=gates: run.freed.update(dict.fromkeys(left, 0)))[1]  # type: ignore[misc]
            if not gates:
                return

    def free_unwaited(self, run: Runner, slots: Mapping[str, int]) -> Mapping[str, int]:
        """Give back slots of semaphores at which nobody waits; return the others, for a store with a short way."""
        return slots

    def _grant(self, run: Runner, gates: Sequence[Gate], freed: Mapping[str, int]) -> None:
        """Give what is free at these locked gates to the first in line; `freed`: what was set free there just now."""
        more = Counter({name: -n for name, n in freed.items()})
        free = [gate for gate in gates if gate.free > 0]
        more.update(self._grant_slots(run, [gate for gate in free if gate.waited and semaphore_of(gate.name)]))
        turns, unused = self._grant_turns(run, [gate for gate in free if not semaphore_of(gate.name)])
        more.update(turns)
        if unused:
            run.change(self._gates.drop, {"names": self.dialect.listed(unused)})
        self._use(run, {name: n for name, n in more.items() if name not in unused})

    def _grant_slots(self, run: Runner, gates: Sequence[Gate]) -> Counter[str]:
        """Give the free slots of semaphores to those who wait longest; return how many of each."""
        lines = {gate: run.rows(self._gates.in_line, {"gate": gate.name, "most": gate.free}) for gate in gates}
        self._let_on(run, [row for line in lines.values() for row in line], HOLDER_BOOST)
        left = {gate.name for gate, line in lines.items() if len(line) < gate.free}
        if left and not run.joined:
            # Those who are still there were locked by others.
            given = {"gates": json.dumps(sorted(left), ensure_ascii=False)}
            missed = {name for (name,) in run.rows(self._gates.waited_at, given)}
            run.passed_over |= missed
            if left > missed:
                run.change(self._gates.mark, {"waited": False, "names": self.dialect.listed(left - missed)})
        return Counter({gate.name: len(line) for gate, line in lines.items()})

    def _grant_turns(self, run: Runner, gates: Sequence[Gate]) -> tuple[Counter[str], set[str]]:
        """Let on the first live jobs of order keys, where they wait; return at which gates, and which are unused."""
        firsts = self._firsts(run, [gate.name for gate in gates if gate.waited])
        given = {"ids": self.dialect.listed(firsts.values())}
        waiting = {str(row[0]): row for row in run.rows(self._gates.waiting_of, given)} if firsts else {}
        on = {gate: row for gate, one in firsts.items() if (row := waiting.get(one)) and row[2] == gate}
        self._let_on(run, list(on.values()), 0)
        if locked := {one: gate for gate, one in firsts.items() if one not in waiting}:
            found = run.rows(self._gates.still_waiting, {"ids": self.dialect.listed(locked)})
            run.passed_over.update(locked[str(one)] for one, gate in found if locked[str(one)] == gate)
        # The row of an order key is there for as long as somebody has the gate, or may wait at it.
        return Counter(on.keys()), {gate.name for gate in gates if gate.name not in firsts}

    def _let_on(self, run: Runner, rows: Sequence[Row], boost: int) -> None:
        """Queue jobs again that have got what they waited for."""
        if rows:
            run.change(self._gates.grant, {"boost": boost, "ids": self.dialect.listed(str(row[0]) for row in rows)})
            run.woken.update(row[1] for row in rows)

    def _firsts(self, run: Runner, gates: Iterable[str]) -> dict[str, str]:
        """Return the first live job of each order key, by its gate."""
        keys: defaultdict[str, list[str]] = defaultdict(list)
        for gate in gates:
            queue, key = order_of(gate)
            keys[queue].append(key)
        return {name: one for queue, names in keys.items() for name, one in self._first_of(run, queue, names).items()}

    def _first_of(self, run: Runner, queue: str, keys: Iterable[str]) -> dict[str, str]:
        """Return the first live job of each of these keys of a queue, by its gate."""
        statement = self._gates.turns_now if run.joined else self._gates.turns
        found = run.rows(statement, {"queue": queue, "keys": json.dumps(sorted(keys), ensure_ascii=False)})
        return {order_gate(queue, key): first for key, first in found if first is not None}

    def _lock(self, run: Runner, names: Iterable[str]) -> dict[str, Gate]:
        """Return these gates, locked; those that are not there are made."""
        wanted = set(names)
        if not wanted:
            return {}
        given = {"names": self.dialect.listed(wanted)}
        found: dict[str, Gate] = {}
        if wanted <= self._lasting:
            found = {row[0]: Gate(*row) for row in run.rows(self._gates.lock, given)}
        if len(found) < len(wanted):
            run.change(self._gates.make, {"wanted": json.dumps(sorted(wanted), ensure_ascii=False)})
            found = {row[0]: Gate(*row) for row in run.rows(self._gates.lock, given)}
        self._lasting.update(name for name, gate in found.items() if gate.capacity is not None)
        return found

    def _use(self, run: Runner, more: Mapping[str, int]) -> None:
        """Add to the number of slots that are used at each gate; also to write a row that a decision was based on."""
        alike: defaultdict[int, list[str]] = defaultdict(list)
        for name, n in more.items():
            alike[n].append(name)
        for n, names in alike.items():
            run.change(self._gates.use, {"more": n, "names": self.dialect.listed(names)})

    def forget_rates(self, run: Runner) -> None:
        """Forget the rates that nobody has asked for a month."""
        run.change(self._gates.idle_rates, {"oldest": self.clock(run) - _RATES_KEPT})


def light(id_: str, queue: str, order_key: str | None, limits: str | None, flow: str | None, held: int) -> JobRow:
    """Return what is to be known of a job for what follows its end."""
    return _ANY._replace(id=str(id_), queue=queue, order_key=order_key, limits=limits, flow=flow, held=held)


_ANY = JobRow("", "", 0, JobState.RUNNING.value, 0, 0, 0, "")


def _asking(row: Row) -> JobRow:
    """Return what is to be known of a queued job that asks at gates."""
    id_, queue, state, priority, run_at, order_key, limits, flow, held, permit, since = row
    known = {
        "order_key": order_key,
        "limits": limits,
        "flow": flow,
        "held": held,
        "permit": permit,
        "waits_since": since,
    }
    return JobRow(str(id_), queue, 0, state, priority, run_at, 0, "", **known)


def _rate_gate(name: str) -> str:
    return f"r:{name}"


def _filled(name: str, bucket: Bucket) -> Params:
    state = {name: getattr(bucket, name) for name in ("tokens", "filled_at", "promised", "promised_again")}
    return {"name": _rate_gate(name), **state}

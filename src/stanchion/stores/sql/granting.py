"""Slots that come free, and who has them next: the rows of gates, their locks, and the lines before them.

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
from typing import NamedTuple

from stanchion.stores.records.jobs import JobRow, JobState
from stanchion.stores.rules.rate_limit import Bucket
from stanchion.stores.rules.slots import HOLDER_BOOST, freed, order_gate, order_of, semaphore_of
from stanchion.stores.sql.base import SqlBase
from stanchion.stores.sql.engine.database import Database
from stanchion.stores.sql.engine.runner import Asked, Params, Row, Runner
from stanchion.stores.sql.gate_statements import GateStatements
from stanchion.stores.sql.jobs import Step

_LOOKS = (0.005, 0.02, 0.1)
"""Seconds before each further look at a gate whose waiters others had locked; what is left then is for `sweep`."""


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


class Granting(SqlBase):
    """Gives slots back, and grants them to those who wait."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._gates = self.dialect.once(GateStatements)
        self._lasting: set[str] = set()
        """Gates whose rows are there for good: those of semaphores."""

    # -- what follows a step

    def free_gates(self, run: Runner, steps: Iterable[Step]) -> None:
        """Note the slots that these steps have set free, to be passed on as the last step of the transaction."""
        for before, after, _ in steps:
            for gate in freed(before, after):
                run.freed[gate] += before.held > 0  # where it held none, it may have stood before others of its key

    def pass_on_slots(self, run: Runner) -> None:
        slots = self.free_unwaited(run, run.freed) if run.freed else {}
        if slots:
            orders = _by_queue(name for name in slots if semaphore_of(name) is None)
            turns = self._gates.turns_to_grant_now if run.joined else self._gates.turns_to_grant
            asked = [(turns, _of_keys(*one)) for one in orders.items()]
            gates, answers = self.lock_and_ask(run, slots, asked)
            firsts = _firsts(orders, answers)
            self._grant(
                run, [gate._replace(used=gate.used - slots[gate.name]) for gate in gates.values()], slots, firsts
            )

    def look_again(self, gates: set[str]) -> None:
        for pause in _LOOKS:
            time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - spreading load
            gates = self.write_once(lambda run, _again, left=gates: run.freed.update(dict.fromkeys(left, 0)))[1]  # type: ignore[misc]
            if not gates:
                return

    def free_unwaited(self, run: Runner, slots: Mapping[str, int]) -> Mapping[str, int]:
        """Give back slots of semaphores at which nobody waits; return the others, for a store with a short way."""
        return slots

    def _grant(self, run: Runner, gates: Sequence[Gate], freed: Mapping[str, int], firsts: Mapping[str, Row]) -> None:
        """Give what is free at these locked gates to the next; `freed`: what was set free there just now.

        Those are the first in line at a semaphore, and the first live job of an order key, if it waits there; `firsts`
        has these jobs, and where they wait. One that does not is left alone: a claim has locked it, perhaps, and waits
        for this gate.
        """
        more = Counter({name: -n for name, n in freed.items()})
        free = [gate for gate in gates if gate.free > 0]
        lined = [gate for gate in free if gate.waited and semaphore_of(gate.name)]
        keyed = [gate for gate in free if semaphore_of(gate.name) is None]
        known = {gate.name: firsts[gate.name] for gate in keyed if gate.waited and gate.name in firsts}
        turns = {name: job for name, (job, waits_for) in known.items() if waits_for == name}
        asked: list[Asked] = [(self._gates.in_line, {"gate": gate.name, "most": gate.free}) for gate in lined]
        if turns:
            asked.append((self._gates.waiting_of, {"ids": self.dialect.listed(turns.values())}))
        answers = run.all_rows(asked)
        more.update(self._grant_slots(run, dict(zip(lined, answers, strict=False))))
        if turns:
            more.update(self._grant_turns(run, turns, answers[-1]))
        # The row of an order key is there for as long as somebody has the gate, or may wait at it.
        if unused := {gate.name for gate in keyed if gate.name not in known}:
            run.send(self._gates.drop, {"names": self.dialect.listed(unused)})
        self._use(run, {name: n for name, n in more.items() if name not in unused})

    def _grant_slots(self, run: Runner, lines: Mapping[Gate, list[Row]]) -> Counter[str]:
        """Give the free slots of semaphores to those who wait longest; return how many of each."""
        self._let_on(run, [row for line in lines.values() for row in line], HOLDER_BOOST)
        left = {gate.name for gate, line in lines.items() if len(line) < gate.free}
        if left and not run.joined:
            # Those who are still there were locked by others.
            given = {"gates": json.dumps(sorted(left), ensure_ascii=False)}
            missed = {name for (name,) in run.rows(self._gates.waited_at, given)}
            run.passed_over |= missed
            if left > missed:
                run.send(self._gates.mark, {"waited": False, "names": self.dialect.listed(left - missed)})
        return Counter({gate.name: len(line) for gate, line in lines.items()})

    def _grant_turns(self, run: Runner, firsts: Mapping[str, str], unlocked: Sequence[Row]) -> Counter[str]:
        """Let on the first live jobs of order keys, where they wait there; return at which gates."""
        waiting = {str(row[0]): row for row in unlocked}
        on = {gate: row for gate, one in firsts.items() if (row := waiting.get(one)) and row[2] == gate}
        self._let_on(run, list(on.values()), 0)
        if locked := {one: gate for gate, one in firsts.items() if one not in waiting}:
            found = run.rows(self._gates.still_waiting, {"ids": self.dialect.listed(locked)})
            run.passed_over.update(locked[str(one)] for one, gate in found if locked[str(one)] == gate)
        return Counter(on.keys())

    def _let_on(self, run: Runner, rows: Sequence[Row], boost: int) -> None:
        """Queue jobs again that have got what they waited for."""
        if rows:
            run.send(self._gates.grant, {"boost": boost, "ids": self.dialect.listed(str(row[0]) for row in rows)})
            run.woken.update(row[1] for row in rows)

    def firsts(self, run: Runner, gates: Iterable[str]) -> dict[str, str]:
        """Return the first live job of each order key, by its gate."""
        orders = _by_queue(gates)
        found = _firsts(orders, run.all_rows([self.asks_first(run, *one) for one in orders.items()]))
        return {gate: first for gate, (first,) in found.items()}

    def asks_first(self, run: Runner, queue: str, keys: Iterable[str]) -> Asked:
        """Return the question for the first live job of each of these keys of a queue."""
        statement = self._gates.turns_now if run.joined else self._gates.turns
        return statement, _of_keys(queue, keys)

    def lock_and_ask(
        self, run: Runner, names: Iterable[str], asked: Sequence[Asked] = ()
    ) -> tuple[dict[str, Gate], list[list[Row]]]:
        """Return these gates, locked, and what is answered under the locks; those that are not there are made."""
        wanted = set(names)
        if not wanted:
            return {}, run.all_rows(asked)
        make = self._gates.make, {"wanted": json.dumps(sorted(wanted), ensure_ascii=False)}
        lock = self._gates.lock, {"names": self.dialect.listed(wanted)}
        if not wanted <= self._lasting:
            run.send(*make)
        found, *answers = run.all_rows([lock, *asked])
        if len(found) < len(wanted):  # the row of a semaphore was taken away
            run.send(*make)
            found, *answers = run.all_rows([lock, *asked])
        gates = {row[0]: Gate(*row) for row in found}
        self._lasting.update(name for name, gate in gates.items() if gate.capacity is not None)
        return gates, answers

    def _use(self, run: Runner, more: Mapping[str, int]) -> None:
        """Add to the number of slots that are used at each gate; also to write a row that a decision was based on."""
        alike: defaultdict[int, list[str]] = defaultdict(list)
        for name, n in more.items():
            alike[n].append(name)
        for n, names in alike.items():
            run.send(self._gates.use, {"more": n, "names": self.dialect.listed(names)})


def _by_queue(gates: Iterable[str]) -> dict[str, list[str]]:
    """Return the order keys of these gates, by their queues."""
    keys: defaultdict[str, list[str]] = defaultdict(list)
    for gate in gates:
        queue, key = order_of(gate)
        keys[queue].append(key)
    return keys


def _of_keys(queue: str, keys: Iterable[str]) -> Params:
    return {"queue": queue, "keys": json.dumps(sorted(keys), ensure_ascii=False)}


def _firsts(queues: Iterable[str], answers: Sequence[Sequence[Row]]) -> dict[str, Row]:
    """Return what was asked for of the first live jobs, queue by queue, by their gates."""
    asked = zip(queues, answers, strict=True)
    return {order_gate(queue, row[0]): row[1:] for queue, rows in asked for row in rows if row[1] is not None}


def light(id_: str, queue: str, order_key: str | None, limits: str | None, flow: str | None, held: int) -> JobRow:
    """Return what is to be known of a job for what follows its end."""
    return _ANY._replace(id=str(id_), queue=queue, order_key=order_key, limits=limits, flow=flow, held=held)


_ANY = JobRow("", "", 0, JobState.RUNNING.value, 0, 0, 0, "")

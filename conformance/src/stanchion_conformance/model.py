"""Any store against the reference, step by step, in sequences that Hypothesis generates."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any, cast

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from stanchion.core.ids import new_id
from stanchion.errors import DuplicateKey
from stanchion.queues.operating import purge
from stanchion.stores.memory import FrozenClock, MemoryStore
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import Lease, NewJob
from stanchion.stores.records.outcomes import Abandon, Bury, Commit, Extend, Move, Outcome, Progress, Rollback
from stanchion.stores.records.slots import SEMAPHORE
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.rules.capacity.limits import Limits, limits_text
from stanchion.stores.rules.capacity.slots import held_slots
from stanchion.stores.rules.lifecycle.jobs import copy_of, state_of
from stanchion.waits.pop import pop
from stanchion_conformance.harness import NewStore, StoreClock, counts_of, deleted, sizes_of, slot_of

# All spans are multiples of STEP, and leases and heartbeats end half-way between two steps, so that a few
# seconds of real time between two calls never decide what is due or lost.
STEP = 200
INSTANT = 0.001
"""Every step has its own instant, as it would with a clock that runs: what is due by then is due on both."""

LEASE = 300.0
HEARTBEAT = 100.0
WORKERS = ("w1", "w2")
KEYS = (None, None, "k1", "k2")
ORDER_KEYS = (None, None, None, "o1", "o2")
SEMAPHORES = ("a", "b")

_runs = itertools.count()

_WORDS: dict[str, Callable[..., Any]] = {"pop": pop, "purge": purge, "delete": deleted}
"""What consists of several verbs."""


class Comparison(RuleBasedStateMachine):
    """Makes the same calls on two stores and compares all visible state."""

    store: Store
    clock: StoreClock

    def __init__(self) -> None:
        super().__init__()
        run = next(_runs)
        self.queue, self.next, self.letters = (f"{name}{run}" for name in ("queue", "next", "letters"))
        self.workers = {name: f"{name}-{run}" for name in WORKERS}
        self.reference = MemoryStore(FrozenClock())
        self.stores: tuple[Store, Store] = (self.reference, self.store)
        self.semaphores = [f"{name}{run}" for name in SEMAPHORES]
        self.ids: list[str] = []
        self.held: list[Lease] = []

    def teardown(self) -> None:
        """Leave nothing that the next run would see."""
        for queue in (self.queue, self.next, self.letters):
            self.store.drop_queue(queue)
        for worker in self.workers.values():
            self.store.leave(worker)

    def same(self, verb: str, *args: Any) -> Any:
        """Call both stores, check that they answer alike, and return the answer."""
        self.reference.clock_offset += INSTANT
        expected, answer = (self.answer(store, verb, *args) for store in self.stores)
        assert answer == expected, verb
        return answer

    def answer(self, store: Store, verb: str, *args: Any) -> Any:
        """Call a store and reduce the answer to what does not depend on its clock."""
        try:
            answer: Any = _WORDS[verb](store, *args) if verb in _WORDS else getattr(store, verb)(*args)
        except DuplicateKey as error:
            return error.job_id
        match verb:
            case "push":
                return [pushed and (pushed.id, pushed.duplicate) for pushed in answer]
            case "claim":
                return [(row.id, row.attempts, row.payload) for row in answer.rows]
            case "pop":
                return [(row.id, row.state) for row in answer.rows]
            case "recover":
                return {(row.id, row.state, row.queue) for row in answer}
            case "beat":
                return answer.live, set(answer.cancelled)
        return answer

    def pick(self, data: st.DataObject, among: list[Any]) -> Any:
        return among[data.draw(st.integers(0, len(among) - 1))]

    def pick_held(self, data: st.DataObject) -> Lease:
        """Draw a reservation, more often a valid one than a lost one."""
        rows = self.reference.fetch([held.id for held in self.held])
        in_force = [held for held in self.held if held.id in rows and rows[held.id].lease == held]
        return cast(Lease, self.pick(data, in_force * 3 + self.held))

    @property
    def needs(self) -> list[list[str]]:
        """The sets of semaphores that a job may need; most need none."""
        return [[], [], [], self.semaphores[:1], self.semaphores[1:], self.semaphores]

    # -- jobs in

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        for name in self.semaphores:
            self.same("set_semaphore", name, 1)
        for _ in range(3):
            self.push(data)

    @rule(data=st.data())
    def push(self, data: st.DataObject) -> None:
        count = data.draw(st.integers(1, 3))
        options: dict[str, Any] = {
            "priority": data.draw(st.integers(-1, 1)),
            "delay": data.draw(st.sampled_from([0, 0, 0, STEP, 3 * STEP])),
            "key": data.draw(st.sampled_from(KEYS)),
            "on_duplicate": data.draw(st.sampled_from(["return", "raise", "replace"])),
            "max_attempts": data.draw(st.integers(1, 3)),
            "order_key": data.draw(st.sampled_from(ORDER_KEYS)),
            "limits": limits_text(Limits(tuple(data.draw(st.sampled_from(self.needs))))),
        }
        jobs = [NewJob(new_id(), self.queue, str(len(self.ids) + n), **options) for n in range(count)]
        self.same("push", jobs)
        self.ids += [job.id for job in jobs]

    @rule(data=st.data())
    def push_again(self, data: st.DataObject) -> None:
        stored = list(self.reference.fetch(self.ids))
        if stored:
            self.same("push", [NewJob(self.pick(data, stored), self.queue, '"again"', priority=1)])

    # -- jobs out

    @rule(limit=st.integers(1, 4))
    def reserve(self, limit: int) -> None:
        self.claim(limit, None)

    @rule(limit=st.integers(1, 2), worker=st.sampled_from(WORKERS))
    def claim_for_a_worker(self, limit: int, worker: str) -> None:
        self.claim(limit, self.workers[worker])

    def claim(self, limit: int, worker: str | None) -> None:
        token = new_id()
        rows = self.same("claim", Claim(self.queue, limit, token, worker, None if worker else LEASE))
        leases = [Lease(self.queue, row[0], token) for row in rows]
        self.held += leases + [lease._replace(queue=self.next) for lease in leases[:1]]

    @rule()
    def pop(self) -> None:
        self.same("pop", Claim(self.queue, 1, new_id()))

    @precondition(lambda self: self.held)
    @rule(data=st.data(), delay=st.sampled_from([0, STEP]))
    def give_back(self, data: st.DataObject, delay: int) -> None:
        held = self.pick_held(data)
        ways: list[dict[str, Any]] = [{}, {"error": "failed"}, {"refund": True}]
        self.settle(held, Rollback(held, delay, **self.pick(data, ways)))

    @precondition(lambda self: self.held)
    @rule(data=st.data(), delay=st.sampled_from([0, STEP]))
    def finish(self, data: st.DataObject, delay: int) -> None:
        held = self.pick_held(data)
        ways: list[Outcome] = [
            Commit(held, result='"result"', payload='"payload"'),
            Move(held, self.next, payload='"moved"', delay=delay),
            Bury(held, error="buried"),
            Abandon(held, reason="abandoned"),
        ]
        self.settle(held, self.pick(data, ways))

    def settle(self, held: Lease, outcome: Outcome) -> None:
        self.same("settle", [outcome])
        # Whether a word repeated after a lost answer is an error or a repeat is the store's own affair.
        self.held.remove(held)
        self.held.append(held._replace(token=new_id()))

    @precondition(lambda self: self.held)
    @rule(data=st.data(), value=st.sampled_from([0.25, 0.5]))
    def hold(self, data: st.DataObject, value: float) -> None:
        held = self.pick_held(data)
        if data.draw(st.booleans()):
            self.same("settle", [Extend(held, LEASE)])
        else:
            self.same("settle", [Progress(held, value)])

    # -- time and liveness

    @rule(steps=st.integers(1, 3))
    def advance(self, steps: int) -> None:
        self.reference.clock_offset += steps * STEP + INSTANT
        self.clock.advance(steps * STEP)

    @rule(name=st.sampled_from(WORKERS))
    def beat(self, name: str) -> None:
        self.same("beat", [WorkerRow(self.workers[name], "host", 1, (self.queue,), 1, HEARTBEAT)])

    @rule(data=st.data())
    def look_after(self, data: st.DataObject) -> None:
        match data.draw(st.sampled_from(["recover", "recover", "purge", "maintain"])):
            case "purge":
                self.same("purge", self.queue, data.draw(st.integers(0, 3)) * STEP + STEP / 2)
            case verb:
                self.same(verb)

    # -- operating

    @rule(data=st.data(), verb=st.sampled_from(["cancel", "retry", "replay", "delete"]))
    def operate(self, data: st.DataObject, verb: str) -> None:
        finished = [row.id for row in self.reference.fetch(self.ids).values() if row.finished_at is not None]
        likely = [held.id for held in self.held] if verb == "cancel" else finished
        job_id = self.pick(data, likely + self.ids)
        if verb != "replay":
            self.same(verb, [job_id])
            return
        row = self.reference.fetch([job_id]).get(job_id)
        if row is not None and row.finished_at is not None:
            copy = copy_of(row, new_id())
            self.same("push", [copy])
            self.ids.append(copy.id)

    @rule(data=st.data())
    def configure(self, data: st.DataObject) -> None:
        changes = [
            {"max_running": 2},
            {"max_running": None},
            {"dead_letter": self.letters},
            {"dead_letter": None},
            {"history_ttl": 0.0},
            {"history_ttl": 1e6},
        ]
        self.same("configure", self.queue, self.pick(data, changes))

    @rule(data=st.data(), capacity=st.integers(0, 2))
    def resize(self, data: st.DataObject, capacity: int) -> None:
        self.same("set_semaphore", self.pick(data, self.semaphores), capacity)

    # -- what is seen

    @invariant()
    def all_jobs_are_the_same(self) -> None:
        expected, seen = (self.jobs(store) for store in self.stores)
        assert seen == expected

    @invariant()
    def all_numbers_are_the_same(self) -> None:
        for queue in (self.queue, self.next, self.letters):
            assert sizes_of(self.store, queue) == sizes_of(self.reference, queue)
            assert counts_of(self.store, queue) == counts_of(self.reference, queue)
        for name in self.semaphores:
            expected, seen = (slot_of(store, name) for store in (self.reference, self.store))
            assert (sorted(seen[0]), seen[1]) == (sorted(expected[0]), expected[1])

    def jobs(self, store: Store) -> dict[str, Any]:
        """Return all visible fields of the jobs, except times."""
        now = store.now()
        return {
            row.id: {
                "state": state_of(row, now),
                "errors": [entry["error"] for entry in json.loads(row.errors or "[]")],
                "headers": json.loads(row.headers or "{}"),
                "started": row.started_at is not None,
                "finished": row.finished_at is not None,
                "cancel": row.cancel_requested,
                # Between two attempts it is the slot that knows the head of line of an order key.
                "slots": [slot for slot in held_slots(row) if slot.kind == SEMAPHORE],
                **{
                    name: getattr(row, name)
                    for name in (
                        "queue",
                        "priority",
                        "payload",
                        "key",
                        "origin",
                        "attempts",
                        "failures",
                        "max_attempts",
                        "progress",
                        "worker",
                        "result",
                        "waits_kind",
                        "waits_queue",
                        "waits_name",
                    )
                },
            }
            for row in store.fetch(self.ids).values()
        }


class TestAgainstTheReference:
    def test_any_sequence_of_steps(self, new_store: NewStore, clock: StoreClock) -> None:
        shared = {"store": new_store(), "clock": clock}
        run_state_machine_as_test(
            type("Comparison", (Comparison,), shared),
            settings=settings(
                max_examples=40,
                stateful_step_count=40,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )

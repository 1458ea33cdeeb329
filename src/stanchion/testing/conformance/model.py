"""Any store against the reference, step by step, along paths that Hypothesis finds."""

from __future__ import annotations

import itertools
import json
from typing import Any, NamedTuple

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from stanchion.errors import DuplicateKey
from stanchion.ids import new_id
from stanchion.stores.memory import MemoryStore
from stanchion.stores.protocol import Store
from stanchion.stores.records import (
    Abandon,
    Bury,
    Claim,
    Commit,
    Extension,
    Move,
    NewJob,
    Outcome,
    Progress,
    Rollback,
    WorkerRow,
)
from stanchion.stores.transitions import state_of
from stanchion.testing.conformance.harness import NewStore, StoreClock

# All spans are multiples of STEP, and leases and heartbeats end half-way between two steps, so that a few
# seconds of real time between two calls never decide what is due or lost.
STEP = 20
LEASE = 30.0
HEARTBEAT = 10.0
SETTLING = st.sampled_from(["commit", "rollback", "fail", "refund", "move", "bury", "abandon"])
WORKERS = ("w1", "w2")
KEYS = (None, None, "k1", "k2")

_runs = itertools.count()


class Held(NamedTuple):
    """A reservation that was made, in force or not."""

    id: str
    token: str


class Comparison(RuleBasedStateMachine):
    """Does the same to two stores and compares all that can be seen."""

    store: Store
    clock: StoreClock

    def __init__(self) -> None:
        super().__init__()
        run = next(_runs)
        self.queue, self.next, self.letters = (f"{name}{run}" for name in ("queue", "next", "letters"))
        self.workers = {name: f"{name}-{run}" for name in WORKERS}
        self.reference = MemoryStore(frozen=True)
        self.stores: tuple[Store, Store] = (self.reference, self.store)
        self.ids: list[str] = []
        self.held: list[Held] = []

    def teardown(self) -> None:
        """Leave nothing that the next run would see."""
        for queue in (self.queue, self.next, self.letters):
            self.store.drop_queue(queue)
        for worker in self.workers.values():
            self.store.leave(worker)

    def same(self, verb: str, *args: Any) -> Any:
        """Call both stores, check that they answer alike, and return the answer."""
        # Every step has its own instant, as it would with a clock that runs.
        self.reference.skew += 0.001
        expected, answer = (self.answer(store, verb, *args) for store in self.stores)
        assert answer == expected, verb
        return answer

    def answer(self, store: Store, verb: str, *args: Any) -> Any:
        """Call a store and reduce the answer to what does not depend on its clock."""
        try:
            answer = getattr(store, verb)(*args)
        except DuplicateKey as error:
            return error.job_id
        match verb:
            case "push" | "replay":
                return [pushed and (pushed.id, pushed.duplicate) for pushed in answer]
            case "claim":
                return [(row.id, row.attempts, row.payload) for row in answer.rows]
            case "pop":
                return [(row.id, row.state) for row in answer]
            case "recover":
                return {(row.id, row.state, row.queue) for row in answer}
            case "beat":
                return answer.live, set(answer.cancelled)
        return answer

    def pick(self, data: st.DataObject, among: list[Any]) -> Any:
        return among[data.draw(st.integers(0, len(among) - 1))]

    # -- jobs in

    @rule(
        count=st.integers(1, 3),
        priority=st.integers(-1, 1),
        delay=st.sampled_from([0, 0, 0, STEP, 3 * STEP]),
        key=st.sampled_from(KEYS),
        on_duplicate=st.sampled_from(["return", "raise", "replace"]),
        max_attempts=st.integers(1, 3),
    )
    def push(
        self, count: int, priority: int, delay: int, key: str | None, on_duplicate: str, max_attempts: int
    ) -> None:
        jobs = [
            NewJob(
                id=new_id(),
                queue=self.queue,
                payload=str(len(self.ids) + n),
                priority=priority,
                delay=delay,
                key=key,
                on_duplicate=on_duplicate,
                max_attempts=max_attempts,
            )
            for n in range(count)
        ]
        self.same("push", jobs)
        self.ids += [job.id for job in jobs]

    @precondition(lambda self: self.ids)
    @rule(data=st.data())
    def push_again(self, data: st.DataObject) -> None:
        job_id = self.pick(data, list(self.stores[0].fetch(self.ids)) or self.ids)
        if self.reference.fetch([job_id]):
            self.same("push", [NewJob(job_id, self.queue, '"again"', priority=1)])

    # -- jobs out

    @rule(limit=st.integers(1, 4), worker=st.sampled_from([None, None, *WORKERS]))
    def claim(self, limit: int, worker: str | None) -> None:
        token = new_id()
        holder = self.workers[worker] if worker else None
        rows = self.same("claim", Claim(self.queue, limit, token, holder, None if worker else LEASE))
        self.held += [Held(row[0], token) for row in rows]

    @rule()
    def pop(self) -> None:
        self.same("pop", Claim(self.queue, 1, new_id()))

    @precondition(lambda self: self.held)
    @rule(data=st.data(), how=SETTLING, delay=st.sampled_from([0, STEP]))
    def settle(self, data: st.DataObject, how: str, delay: int) -> None:
        held = self.pick(data, self.held)
        outcomes: dict[str, Outcome] = {
            "commit": Commit(held.id, held.token, result='"result"', payload='"payload"'),
            "rollback": Rollback(held.id, held.token, delay),
            "fail": Rollback(held.id, held.token, delay, error="failed"),
            "refund": Rollback(held.id, held.token, delay, refund=True),
            "move": Move(held.id, held.token, self.next, payload='"moved"', delay=delay),
            "bury": Bury(held.id, held.token, error="buried"),
            "abandon": Abandon(held.id, held.token, reason="abandoned"),
        }
        self.same("settle", [outcomes[how]])
        # Whether a word repeated after a lost answer is an error or a repeat is the store's own affair.
        self.held.remove(held)
        self.held.append(Held(held.id, new_id()))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def extend(self, data: st.DataObject) -> None:
        held = self.pick(data, self.held)
        self.same("extend", [Extension(held.id, held.token, LEASE)])

    @precondition(lambda self: self.held)
    @rule(data=st.data(), value=st.sampled_from([0.25, 0.5]))
    def progress(self, data: st.DataObject, value: float) -> None:
        held = self.pick(data, self.held)
        self.same("progress", [Progress(held.id, held.token, value)])

    # -- time and liveness

    @rule(steps=st.integers(1, 3))
    def advance(self, steps: int) -> None:
        self.reference.skew += steps * STEP
        self.clock.advance(steps * STEP)

    @rule()
    def recover(self) -> None:
        self.same("recover")

    @rule(name=st.sampled_from(WORKERS))
    def beat(self, name: str) -> None:
        self.same("beat", WorkerRow(self.workers[name], "host", 1, (self.queue,), 1, HEARTBEAT))

    # -- operating

    @precondition(lambda self: self.ids)
    @rule(data=st.data(), verb=st.sampled_from(["cancel", "retry"]))
    def operate(self, data: st.DataObject, verb: str) -> None:
        self.same(verb, [self.pick(data, self.ids)])

    @precondition(lambda self: self.ids)
    @rule(data=st.data())
    def replay(self, data: st.DataObject) -> None:
        copy = new_id()
        self.same("replay", [self.pick(data, self.ids)], [copy])
        self.ids.append(copy)

    @rule(steps=st.integers(0, 3))
    def purge(self, steps: int) -> None:
        self.same("purge", self.queue, steps * STEP + STEP / 2)

    @rule(
        changes=st.sampled_from(
            [
                {"paused": True},
                {"paused": False},
                {"paused": False},
                {"max_running": 2},
                {"max_running": None},
                {"dead_letter": "letters"},
                {"dead_letter": None},
                {"history_ttl": 0.0},
                {"history_ttl": 1e6},
            ]
        )
    )
    def configure(self, changes: dict[str, Any]) -> None:
        if changes.get("dead_letter"):
            changes = {"dead_letter": self.letters}
        self.same("configure", self.queue, changes)

    @rule()
    def maintain(self) -> None:
        self.same("maintain")

    # -- what is seen

    @invariant()
    def all_jobs_are_the_same(self) -> None:
        expected, seen = (self.jobs(store) for store in self.stores)
        assert seen == expected

    @invariant()
    def all_numbers_are_the_same(self) -> None:
        for queue in (self.queue, self.next, self.letters):
            assert self.store.sizes(queue) == self.reference.sizes(queue)
            assert self.store.counts(queue) == self.reference.counts(queue)

    def jobs(self, store: Store) -> dict[str, Any]:
        """Return all that the outside sees of the jobs, but for times."""
        now = store.now()
        return {
            row.id: {
                "state": state_of(row, now),
                "errors": [entry["error"] for entry in json.loads(row.errors or "[]")],
                "headers": {
                    name: value for name, value in json.loads(row.headers or "{}").items() if name != "x-dead-at"
                },
                "started": row.started_at is not None,
                "finished": row.finished_at is not None,
                "cancel": row.cancel_requested,
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
                    )
                },
            }
            for row in store.fetch(self.ids).values()
        }


class TestAgainstTheReference:
    @pytest.mark.timeout(600)
    def test_any_sequence_of_steps(self, new_store: NewStore, clock: StoreClock) -> None:
        shared = {"store": new_store(), "clock": clock}
        run_state_machine_as_test(
            type("Comparison", (Comparison,), shared),
            settings=settings(
                max_examples=30,
                stateful_step_count=40,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )

"""What holds of semaphores and order keys after every step, along paths that Hypothesis finds.

never more holders than slots, unless the capacity was lowered under them
no slot held by a job that is finished, nor by one that is postponed
no waiter while a slot is free
a running job holds all that it needs
one job at a time holds an order key, the earliest live one, unless that one came back from the dead
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

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
from stanchion.jobs.lookup import push_copies
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRow, JobState, Lease, NewJob
from stanchion.stores.records.outcomes import Abandon, Bury, Commit, Move, Outcome, Rollback
from stanchion.stores.records.slots import SEMAPHORE
from stanchion.stores.rules.capacity.limits import Limits, limits_text
from stanchion.stores.rules.capacity.slots import held_slots, order_slot, semaphore_slot, slots_of
from stanchion.waits.pop import pop
from stanchion_conformance.harness import NewStore, StoreClock, deleted, slot_of, worker

LEASE = 300.0
STEP = 200.0
KEYS = (None, None, "k1", "k2")

_runs = itertools.count()


class Semaphores(RuleBasedStateMachine):
    """Does anything to jobs that need semaphores and have order keys, in two queues."""

    store: Store
    clock: StoreClock

    def __init__(self) -> None:
        super().__init__()
        run = next(_runs)
        self.queues = [f"queue{run}", f"other{run}"]
        self.names = [f"{name}{run}" for name in "abc"]
        self.ids: list[str] = []
        self.held: list[Lease] = []
        self.most: Counter[str] = Counter()
        self.redriven: set[str] = set()

    def teardown(self) -> None:
        """Leave nothing that the next run would see."""
        for queue in self.queues:
            self.store.drop_queue(queue)
        for name in self.names:
            assert slot_of(self.store, name) == ([], [])

    # -- steps

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        for name in self.names:
            self.store.set_semaphore(name, 1)
        for _ in range(3):
            self.push(data)

    @rule(data=st.data())
    def push(self, data: st.DataObject) -> None:
        jobs = []
        for _ in range(data.draw(st.integers(1, 4))):
            needed = data.draw(
                st.sets(st.sampled_from(self.names), min_size=data.draw(st.sampled_from([0, 1, 1])), max_size=3)
            )
            jobs.append(
                NewJob(
                    new_id(),
                    data.draw(st.sampled_from([self.queues[0], *self.queues])),
                    "{}",
                    priority=data.draw(st.integers(-1, 1)),
                    delay=data.draw(st.sampled_from([0.0, 0.0, 0.0, STEP])),
                    order_key=data.draw(st.sampled_from(KEYS)),
                    limits=limits_text(Limits(tuple(needed))),
                    max_attempts=data.draw(st.integers(1, 3)),
                )
            )
        self.store.push(jobs)
        self.ids += [job.id for job in jobs]

    @rule(limit=st.integers(1, 6))
    def claim(self, limit: int) -> None:
        self.claim_from(self.queues[0], limit)

    @rule(data=st.data())
    def claim_all(self, data: st.DataObject) -> None:
        self.claim_from(data.draw(st.sampled_from(self.queues)), 20)

    def claim_from(self, queue: str, limit: int) -> None:
        token = new_id()
        rows = self.store.claim(Claim(queue, limit, token, lease=LEASE)).rows
        self.held += [row.lease for row in rows]

    @rule(data=st.data())
    def pop(self, data: st.DataObject) -> None:
        pop(self.store, Claim(data.draw(st.sampled_from(self.queues)), 1, new_id()))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        lease = data.draw(st.sampled_from(self.held))
        ways: list[Outcome] = [
            *[Commit(lease)] * 3,
            Rollback(lease, 0.0, error="no"),
            Rollback(lease, STEP),
            Rollback(lease, 0.0, refund=True),
            Move(lease, data.draw(st.sampled_from(self.queues))),
            Bury(lease, "no"),
            Abandon(lease),
        ]
        self.store.settle([data.draw(st.sampled_from(ways))], repeat=data.draw(st.booleans()))

    @precondition(lambda self: self.ids)
    @rule(data=st.data(), verb=st.sampled_from(["cancel", "cancel", "retry", "delete", "replay"]))
    def operate(self, data: st.DataObject, verb: str) -> None:
        jobs = data.draw(st.lists(st.sampled_from(self.ids), min_size=1, max_size=3, unique=True))
        if verb == "replay":
            copies = [new_id() for _ in jobs]
            push_copies(self.store, jobs, copies)
            self.ids += copies
            return
        if verb == "delete":
            deleted(self.store, jobs)
            return
        if verb == "retry":
            self.redriven |= set(jobs)
        getattr(self.store, verb)(jobs)

    @rule(data=st.data(), capacity=st.integers(0, 3))
    def resize(self, data: st.DataObject, capacity: int) -> None:
        self.store.set_semaphore(data.draw(st.sampled_from(self.names)), capacity)

    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        if data.draw(st.integers(0, 4)) == 0:
            self.store.drop_queue(data.draw(st.sampled_from(self.queues)))

    @rule()
    def look_after(self) -> None:
        self.clock.advance(STEP)
        self.store.beat([worker("lives", heartbeat=1e9)])
        while self.store.recover():
            pass

    # -- what is always so

    @invariant()
    def semaphores_are_sound(self) -> None:
        rows = self.store.fetch(self.ids)
        known = {row.name: row for row in self.store.semaphores()}
        for name in self.names:
            if name not in known:
                continue
            holders, waiters = slot_of(self.store, name)
            slot, capacity = semaphore_slot(name), known[name].capacity
            assert (known[name].held, known[name].waiting) == (len(holders), len(waiters))
            assert len(holders) <= max(capacity, self.most[name]), "more holders than slots"
            self.most[name] = max(capacity, len(holders)) if len(holders) > capacity else capacity
            assert sorted(holders) == sorted(row.id for row in rows.values() if slot in held_slots(row))
            assert not waiters or len(holders) >= capacity, "a job waits although a slot is free"
            waiting = [row for row in rows.values() if row.waits_for == slot]
            waiting.sort(key=lambda row: (row.waits_since or 0, row.id))
            assert waiters == [row.id for row in waiting]

    @invariant()
    def jobs_are_sound(self) -> None:
        rows = list(self.store.fetch(self.ids).values())
        for row in rows:
            assert (row.state == JobState.WAITING) == (row.waits_for is not None)
            if row.state == JobState.RUNNING:
                assert held_slots(row) == slots_of(row)
            if row.finished_at is not None:
                assert (row.slots_held, row.order_hold, row.slots_hold, row.waits_for) == (0, None, None, None)
            if row.run_at > self.store.now():
                assert [slot for slot in held_slots(row) if slot.kind == SEMAPHORE] == []
        for queue in self.queues:
            for key in KEYS[2:]:
                self.order_is_sound([row for row in rows if (row.queue, row.order_key) == (queue, key)])

    def order_is_sound(self, rows: list[JobRow]) -> None:
        live = sorted((row for row in rows if row.finished_at is None), key=lambda row: (row.enqueued_at, row.id))
        holders = [row for row in live if row.slots_held]
        assert len(holders) <= 1, "two jobs hold an order key"
        if live and not holders:
            slot = order_slot(live[0].queue, live[0].order_key or "")
            assert live[0].waits_for != slot, "the first of an order key does not wait"
        moved = any(row.started_at is None and row.attempts == 0 for row in live[:1])
        if holders and not moved and not self.redriven & {row.id for row in live}:
            assert holders == live[:1]


class TestPermitsAlongAnyPath:
    def test_any_sequence_of_steps(self, new_store: NewStore, clock: StoreClock) -> None:
        shared: dict[str, Any] = {"store": new_store(), "clock": clock}
        run_state_machine_as_test(
            type("Semaphores", (Semaphores,), shared),
            settings=settings(
                max_examples=15, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
            ),
        )

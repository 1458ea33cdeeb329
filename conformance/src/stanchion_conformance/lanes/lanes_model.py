"""Lanes in random sequences of calls: a store serves them as the memory store does."""

from __future__ import annotations

from itertools import count
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, example, given, settings

from stanchion.core.ids import new_id
from stanchion.stores.memory import FrozenClock, MemoryStore
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import UNLANED, JobRow
from stanchion.stores.records.outcomes import Rollback
from stanchion.waits.pop import pop
from stanchion_conformance.harness import LONG_LEASE, StoreClock, new_job

PLACES = st.sampled_from([UNLANED, 1, 2, 3, 5])

RANGES = st.sampled_from([None, None, None, (0, 2), (2, 3), (3, 9)])

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("push"), st.lists(st.tuples(PLACES, st.integers(0, 2), st.sampled_from([0, 0, 0, 100])))),
        st.tuples(st.just("claim"), st.integers(1, 9), RANGES),
        st.tuples(st.just("pop"), st.integers(1, 3), RANGES),
        st.tuples(st.just("give back")),
        st.tuples(st.just("advance")),
        st.tuples(st.just("max_running"), st.sampled_from([None, 4])),
    ),
    max_size=40,
)


class Both:
    """A store and the reference get the same calls, and must hand out the same jobs in the same order."""

    def __init__(self, store: Store, clock: StoreClock, queue: str) -> None:
        self._reference, self._store, self._clock, self._queue = MemoryStore(FrozenClock()), store, clock, queue
        self._held: list[JobRow] = []

    def step(self, what: str, *args: Any) -> None:
        """Do this to both."""
        self._reference.clock_offset += 0.001  # each step has its own instant, as it has with a clock that runs
        stores = (self._reference, self._store)
        match what, *args:
            case "push", places:
                fields = [{"lane": lane, "priority": priority, "delay": delay} for lane, priority, delay in places]
                jobs = [new_job(queue=self._queue, **each) for each in fields]
                for store in stores:
                    store.push(jobs)
            case "claim" | "pop", limit, lanes:
                wish = Claim(self._queue, limit, new_id(), lease=LONG_LEASE, lanes=lanes)
                expected, got = (
                    (store.claim(wish).rows if what == "claim" else pop(store, wish).rows) for store in stores
                )
                assert [(row.id, row.lane) for row in got] == [(row.id, row.lane) for row in expected]
                self._held += got if what == "claim" else []
            case ("give back",):
                back = [Rollback(row.lease, 0.0, refund=True) for row in self._held]
                self._held = []
                for store in stores:
                    store.settle(back)
            case ("advance",):
                self._reference.clock_offset += 60
                self._clock.advance(60)
            case "max_running", limit:
                for store in stores:
                    store.configure(self._queue, {"max_running": limit})
        assert self._store.lane_depths(self._queue) == self._reference.lane_depths(self._queue)


class TestRoundRobinAgainstTheReference:
    def test_a_lane_that_was_served_alone_comes_last(self, store: Store, clock: StoreClock) -> None:
        both = Both(store, clock, "laned")
        both.step("push", [(UNLANED, 0, 0), (1, 0, 0), (1, 0, 0)])
        both.step("claim", 2, None)
        both.step("claim", 1, None)
        both.step("give back")
        both.step("claim", 1, None)


class TestLanesAgainstTheReference:
    def test_any_sequence_of_steps(self, store: Store, clock: StoreClock) -> None:
        queues = (f"laned{n}" for n in count())

        @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
        @given(steps=STEPS)
        @example(steps=[("push", [(0, 0, 0), (0, 0, 0), (3, 0, 0), (3, 1, 100), (3, 2, 0)]), ("claim", 4, None)])
        def run(steps: list[tuple[Any, ...]]) -> None:
            both = Both(store, clock, next(queues))
            for step in steps:
                both.step(*step)

        run()

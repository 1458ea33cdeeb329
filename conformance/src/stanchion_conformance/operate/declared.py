"""Declarations of queues and semaphores in code: stored if they are new. No start undoes an operator's change."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from stanchion import Push, Queue, Stanchion
from stanchion.context import context_of
from stanchion.context.queues.declared_settings import AFFIRM_SECONDS, GONE_SECONDS, DeclaredQueues
from stanchion.context.queues.options import QueueOptions
from stanchion.errors import CannotJoin, InvalidInput
from stanchion.stores.protocol import Store
from stanchion.stores.records.queues import QueueSettings
from stanchion_conformance.harness import QUEUE, NewStore, StoreClock, all_at_once
from stanchion_conformance.jobs.transactions import rolled_back

Start = Callable[..., Queue]
"""Starts a process whose code declares these settings, and uses the queue once."""

SMTP = "smtp"


@pytest.fixture
def start(new_store: NewStore) -> Start:
    """Return a function that starts a process with settings in its code."""

    def started(**settings: Any) -> Queue:
        queue = Stanchion(store=new_store()).queue(QUEUE, **settings)
        queue.push(1)
        return queue

    return started


class TestDeclaredSettings:
    def test_what_an_operator_has_set_outlives_a_start(self, q: Queue, start: Start) -> None:
        start(max_rate=5, lease=60)
        q.configure(max_rate=50)
        assert start(max_rate=5, lease=60).settings == QueueSettings(QUEUE, max_rate=50, lease=60)
        q.configure(max_rate=None)
        assert start(max_rate=5, lease=60).settings.max_rate is None

    def test_a_declaration_that_has_changed_is_stored(self, q: Queue, start: Start) -> None:
        start(max_rate=5, max_running=3, dead_letter="letters")
        q.configure(max_rate=50, max_running=30, dead_letter=None)
        changed = start(max_rate=7, max_running=3, dead_letter="letters")
        assert changed.settings == QueueSettings(QUEUE, max_rate=7, max_running=30)
        assert start(max_rate=None, dead_letter="others").settings == QueueSettings(
            QUEUE, max_running=30, dead_letter="others"
        )

    def test_one_that_says_less_takes_nothing_back(self, start: Start) -> None:
        start(max_rate=5, lease=60)
        assert start(lease=60).settings == QueueSettings(QUEUE, max_rate=5, lease=60)
        assert start(history_ttl=9).settings == QueueSettings(QUEUE, max_rate=5, lease=60, history_ttl=9)

    def test_reset_returns_to_the_code(self, q: Queue, start: Start) -> None:
        mine = start(max_rate=5, history_ttl=60, dead_letter="letters")
        declared = mine.settings
        q.configure(max_rate=50, history_ttl=9, lease=99, max_running=1, dead_letter=None)
        assert mine.reset("max_rate", "lease") == QueueSettings(QUEUE, max_rate=5, history_ttl=9, max_running=1)
        assert q.reset() == declared
        assert start(max_rate=5, history_ttl=60, dead_letter="letters").settings == declared

    def test_a_retention_is_reset_with_those_by_outcome(self, q: Queue, start: Start) -> None:
        q.configure(history_ttl={"done": 60, "dead": 90}, history_max=9)
        assert q.reset("history_ttl") == QueueSettings(QUEUE, history_max=9)
        mine = start(history_ttl={"done": 60, "default": 100})
        declared = mine.settings
        q.configure(history_ttl={"dead": 30, "cancelled": 20})
        assert q.reset("history_ttl") == declared
        assert declared.shorter_ttls == {"done": 60.0}
        q.configure(history_ttl_done=9, history_ttl_dead=8)
        assert q.reset("history_ttl_done").shorter_ttls == {"done": 60.0, "dead": 8.0}

    def test_reset_resumes_nobody(self, q: Queue, start: Start) -> None:
        start(max_rate=5)
        q.pause()
        assert q.reset().paused
        assert not q.reset("paused").paused
        start(paused=True).resume()
        assert q.reset().paused

    def test_a_queue_that_was_deleted_is_declared_anew(self, q: Queue, start: Start) -> None:
        start(max_rate=5)
        q.configure(max_rate=50)
        q.delete()
        assert start(max_rate=5).settings.max_rate == 5

    def test_a_queue_that_was_deleted_meanwhile_is_declared_again(
        self, q: Queue, start: Start, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        running = start(max_rate=5, max_running=3)
        q.configure(max_rate=50)
        monkeypatch.setattr("stanchion.context.queues.declared_settings.LOOK_SECONDS", 0)
        q.delete()
        context_of(running).keep_declared()
        assert context_of(q).store.queues() == []  # no call has used it
        running.push(1)
        running.push(2)
        assert q.settings == QueueSettings(QUEUE, max_rate=5, max_running=3)
        q.delete()
        q.push(3)
        context_of(running).keep_declared()
        assert q.settings == QueueSettings(QUEUE, max_rate=5, max_running=3)

    def test_a_start_that_changes_nothing_writes_nothing(
        self, start: Start, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        start(max_rate=5, lanes=4)
        configure, written = store.configure, list[Any]()

        def recorded(queue: str, changes: Any, *tx: Any) -> QueueSettings:
            written.append(changes)
            return configure(queue, changes, *tx)

        monkeypatch.setattr(store, "configure", recorded)
        for _ in range(2):
            started = Stanchion(store=store).queue(QUEUE, max_rate=5, lanes=4)
            started.push(1)
            started.push(2)
        assert [changes for changes in written if changes] == []

    def test_setup_stores_what_the_code_declares(self, new_store: NewStore, store: Store, q: Queue) -> None:
        def declaring() -> Stanchion:
            app = Stanchion(store=new_store())
            app.queue(QUEUE, max_running=1)
            app.semaphore(SMTP, capacity=2)
            app.setup()
            return app

        declaring()
        assert store.queues() == [QueueSettings(QUEUE, max_running=1)]
        assert [(row.name, row.capacity) for row in store.semaphores()] == [(SMTP, 2)]
        q.configure(max_running=9)
        assert declaring().queue(QUEUE).settings.max_running == 9

    def test_they_are_shown(self, q: Queue, start: Start) -> None:
        start(max_rate=5, dead_letter=None)
        q.configure(max_rate=50)
        assert q.settings.declared == {"max_rate": 5, "dead_letter": None}


class TestDeclaredLanes:
    def test_what_an_operator_has_set_outlives_a_start(self, q: Queue, start: Start) -> None:
        start(lanes=8, lanes_per_tenant=3)
        q.configure(lanes=32)
        assert start(lanes=8, lanes_per_tenant=3).settings.lanes == 32
        q.configure(lanes=2)
        settings = start(lanes=8, lanes_per_tenant=4).settings
        assert (settings.lanes, settings.lanes_per_tenant) == (2, 2)
        assert q.reset("lanes").lanes == 8
        assert (q.settings.lanes, q.settings.lanes_per_tenant) == (8, 4)

    def test_of_two_the_larger_is_in_force(self, q: Queue, start: Start) -> None:
        assert start(lanes=4).settings.lanes == 4
        for lanes in (16, 4, 8, 16, 4):
            assert start(lanes=lanes).settings.lanes == 16
        assert q.reset().lanes == 16

    def test_whichever_of_many_starts_is_the_last_to_write(self, q: Queue, start: Start) -> None:
        all_at_once([lambda lanes=lanes: start(lanes=lanes, max_rate=1e6) for lanes in (16, 4, 8, 16, 4, 8)])  # type: ignore[misc]
        assert (q.settings.lanes, q.settings.max_rate) == (16, 1e6)

    def test_until_the_processes_with_it_are_gone(self, q: Queue, start: Start, clock: StoreClock) -> None:
        start(lanes=16)
        clock.advance(GONE_SECONDS * 10)
        new = start(lanes=4)
        assert q.settings.lanes == 16
        clock.advance(GONE_SECONDS / 2)
        start(lanes=4)
        assert q.settings.lanes == 16
        clock.advance(GONE_SECONDS)
        start(lanes=4)
        assert q.settings.lanes == 4
        assert new.reset().lanes == 4
        clock.advance(GONE_SECONDS * 10)
        assert start(lanes=4).settings.lanes == 4

    def test_processes_that_run_say_so(
        self, q: Queue, start: Start, clock: StoreClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("stanchion.context.queues.declared_settings.LOOK_SECONDS", 0)
        old, new = start(lanes=16), start(lanes=4)
        for _ in range(3):
            clock.advance(AFFIRM_SECONDS + GONE_SECONDS / 2)
            for running in (old, new):
                running.push(1)
            assert q.settings.lanes == 16
        for _ in range(2):
            clock.advance(AFFIRM_SECONDS + GONE_SECONDS / 2)
            new.push(1)
        assert q.settings.lanes == 4
        assert len(q.reserve(99)) == q.counts().pushed

    def test_an_operator_may_set_others_meanwhile(self, q: Queue, start: Start, clock: StoreClock) -> None:
        start(lanes=16)
        start(lanes=4)
        q.configure(lanes=32)
        clock.advance(GONE_SECONDS + 1)
        start(lanes=4)
        assert q.settings.lanes == 32


class TestDeclaredSemaphores:
    def started(self, new_store: NewStore, capacity: int) -> Stanchion:
        app = Stanchion(store=new_store())
        app.semaphore(SMTP, capacity=capacity)
        app.queue(QUEUE).push(1, limits=[SMTP])
        return app

    def test_one_that_was_closed_stays_closed(self, app: Stanchion, new_store: NewStore) -> None:
        self.started(new_store, 2)
        app.semaphore(SMTP).resize(0)
        assert self.started(new_store, 2).semaphore(SMTP).capacity == 0
        assert app.queue(QUEUE).reserve(5) == []

    def test_a_capacity_that_has_changed_is_stored(self, app: Stanchion, new_store: NewStore) -> None:
        self.started(new_store, 2)
        app.semaphore(SMTP).resize(9)
        assert self.started(new_store, 3).semaphore(SMTP).capacity == 3

    def test_reset_returns_to_the_code(self, app: Stanchion, new_store: NewStore) -> None:
        self.started(new_store, 1)
        semaphore = app.semaphore(SMTP)
        semaphore.resize(0)
        self.started(new_store, 1)
        assert app.queue(QUEUE).reserve(5) == []
        assert semaphore.reset() == 1
        assert len(app.queue(QUEUE).reserve(5)) == 1

    def test_one_of_no_code_has_nothing_to_return_to(self, app: Stanchion, store: Store) -> None:
        assert store.set_semaphore(SMTP, 3)
        with pytest.raises(InvalidInput, match="no code has declared"):
            app.semaphore(SMTP).reset()
        assert app.semaphore(SMTP).capacity == 3
        assert store.set_semaphore(SMTP, 3, declared=True)
        assert not store.set_semaphore(SMTP, 3, declared=True)


class TestDeclaredInATransaction:
    """For stores that join transactions; others refuse them."""

    def declaring(self, new_store: NewStore, **settings: Any) -> Stanchion:
        app = Stanchion(store=new_store())
        app.queue(QUEUE, max_running=1, **settings)
        app.semaphore(SMTP, capacity=2)
        return app

    def push(self, app: Stanchion, tx: Any) -> None:
        app.queue(QUEUE).push_many([1, Push(2, limits=[SMTP])], tx=tx)
        app.queue(QUEUE).push(3, tx=tx)

    def test_the_first_push_of_a_process(self, app: Stanchion, new_store: NewStore, q: Queue) -> None:
        if not app.store.capabilities.joins_transactions:
            with pytest.raises(CannotJoin):
                self.push(self.declaring(new_store), object())
            return
        for settings in ({}, {}, {"max_rate": 1e6}, {"lanes": 4}):
            process = self.declaring(new_store, **settings)
            with process.transaction() as tx:
                self.push(process, tx)
            assert q.settings.max_running == 1
            assert app.semaphore(SMTP).capacity == 2
            q.configure(max_running=1)
        assert (q.settings.max_rate, q.settings.lanes) == (1e6, 4)
        assert q.size().total == 12

    def test_one_that_is_rolled_back(self, app: Stanchion, new_store: NewStore, q: Queue) -> None:
        if not app.store.capabilities.joins_transactions:
            return
        process = self.declaring(new_store)
        with rolled_back(process) as tx:
            self.push(process, tx)
        assert q.size().total == 0
        process.queue(QUEUE).push(1)
        assert q.settings.max_running == 1
        assert app.semaphore(SMTP).capacity == 2


class TestDeclaredAtTheCall:
    """Concerns only the model."""

    def test_several_declarations_add_up(self, app: Stanchion, store: Store) -> None:
        app.queue(QUEUE, max_rate=5, lease=9)
        app.queue(QUEUE, max_running=3, lease=60)
        app.queue(QUEUE).push(1)
        assert store.queues() == [QueueSettings(QUEUE, max_rate=5, max_running=3, lease=60)]
        app.queue(QUEUE, history_ttl=9).push(1)
        assert store.queues() == [QueueSettings(QUEUE, max_rate=5, max_running=3, lease=60, history_ttl=9)]

    def test_lanes_that_do_not_go_together_are_refused(self, app: Stanchion, store: Store) -> None:
        wrong: tuple[QueueOptions, ...] = ({"lanes": 4, "lanes_per_tenant": 5}, {"lanes": 1, "lanes_per_tenant": 2})
        for bad in wrong:
            with pytest.raises(InvalidInput, match="lanes of queue"):
                app.queue(QUEUE, **bad)
        app.queue(QUEUE, lanes_per_tenant=5)
        with pytest.raises(InvalidInput, match="lanes of queue"):
            app.queue(QUEUE, lanes=4)
        app.queue(QUEUE, lanes=8).push(1)
        assert (store.queues()[0].lanes, store.queues()[0].lanes_per_tenant) == (8, 5)

    def test_reset_knows_its_settings(self, q: Queue) -> None:
        with pytest.raises(InvalidInput, match="did you mean 'max_rate'"):
            q.reset("max_rates")

    def test_another_store_gets_them_too(self, app: Stanchion, store: Store) -> None:
        queue = app.queue(QUEUE, max_running=1)
        with app.testing():
            queue.push(1)
            assert queue.settings.max_running == 1
        queue.push(1)
        assert store.queues() == [QueueSettings(QUEUE, max_running=1)]

    def test_they_go_to_other_processes(self, store: Store) -> None:
        declared = DeclaredQueues()
        declared.declare(QUEUE, {"max_running": 1})
        assert declared.store(store, [QUEUE])
        there = pickle.loads(pickle.dumps(declared))  # noqa: S301 - our own
        store.drop_queue(QUEUE)
        assert not declared.store(store, [QUEUE])
        assert there.store(store, [QUEUE])
        assert store.queues() == [QueueSettings(QUEUE, max_running=1)]

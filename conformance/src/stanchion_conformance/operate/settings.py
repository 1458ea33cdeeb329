"""Queue settings are stored: every process obeys the settings of any other."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta

import pytest

from stanchion import Queue, Stanchion
from stanchion.context import context_of
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.queues import QueueSettings
from stanchion_conformance.harness import QUEUE, StoreClock, claim, new_job, sizes_of

QUIET = 0.3
"""Seconds within which a sign would have come."""


class TestSettings:
    def test_begin_at_the_defaults(self, q: Queue) -> None:
        assert q.settings == QueueSettings(
            QUEUE,
            paused=False,
            max_rate=None,
            max_running=None,
            lanes=1,
            lanes_per_tenant=1,
            history_ttl=7 * 86_400,
            dead_letter=None,
            lease=30,
        )

    def test_are_seen_by_other_processes(self, q: Queue, other_q: Queue) -> None:
        q.configure(
            paused=True, max_rate=2.5, max_running=3, history_ttl=60, dead_letter="letters", lease=timedelta(seconds=5)
        )
        assert other_q.settings == QueueSettings(
            QUEUE, paused=True, max_rate=2.5, max_running=3, history_ttl=60, dead_letter="letters", lease=5
        )

    def test_the_default_time_out(self, q: Queue, other_q: Queue) -> None:
        q.configure(timeout=timedelta(minutes=5))
        assert other_q.settings == QueueSettings(QUEUE, timeout=300)
        assert q.reset("timeout") == QueueSettings(QUEUE)

    def test_that_are_not_named_stay(self, q: Queue) -> None:
        q.configure(max_running=3)
        assert q.configure(lease=5) == QueueSettings(QUEUE, max_running=3, lease=5)
        assert q.configure(max_running=None) == QueueSettings(QUEUE, lease=5)

    def test_given_in_code_are_stored_at_the_first_use(self, app: Stanchion, store: Store) -> None:
        queue = app.queue(QUEUE, max_running=1)
        assert store.queues() == []
        queue.push_many([1, 2])
        assert store.queues() == [QueueSettings(QUEUE, max_running=1)]
        assert len(queue.reserve(2)) == 1

    def test_queues_are_listed_by_name(self, app: Stanchion, store: Store) -> None:
        assert store.queues() == []
        for name in ("b", "a", "c"):
            app.queue(name).push(1)
        app.queue("d").configure()
        assert [settings.name for settings in store.queues()] == ["a", "b", "c", "d"]
        assert [queue.name for queue in app.queues()] == ["a", "b", "c", "d"]

    def test_reading_them_changes_nothing(self, app: Stanchion, q: Queue, store: Store, other_store: Store) -> None:
        q.configure(lease=5)
        with closing(other_store.listen([QUEUE, "unknown"])) as listener:
            while listener.wait(QUIET):  # what came before
                listener.signs()
            assert q.settings == QueueSettings(QUEUE, lease=5)
            assert app.queue("unknown").settings == QueueSettings("unknown")
            assert not listener.wait(QUIET), "a waiter was woken"
        assert store.queues() == [QueueSettings(QUEUE, lease=5)]

    def test_are_read_by_name(self, app: Stanchion, store: Store, other_store: Store) -> None:
        for name in ("b", "a", "é", "B"):
            app.queue(name).configure(lease=5)
        app.queue("pushed").push(1)
        assert other_store.queues(["b"]) == [QueueSettings("b", lease=5)]
        names = ("é", "a", "unknown", "pushed", "a")
        assert [settings.name for settings in other_store.queues(names)] == ["a", "pushed", "é"]
        assert store.queues([]) == store.queues(["unknown"]) == []
        assert [settings.name for settings in store.queues()] == ["B", "a", "b", "pushed", "é"]

    def test_a_claim_makes_no_queue(self, store: Store) -> None:
        claim(store, queue="nowhere")
        assert store.queues() == []


class TestPause:
    def test_holds_for_every_process(self, q: Queue, other_q: Queue) -> None:
        q.push_many([1, 2])
        q.pause()
        assert other_q.reserve() == []
        assert other_q.pop() is None
        other_q.resume()
        assert len(q.reserve()) == 1
        assert q.pop() is not None

    def test_lets_running_jobs_finish_and_new_ones_in(self, q: Queue) -> None:
        q.push(1)
        (job,) = q.reserve()
        q.pause()
        q.push(2)
        job.commit()
        assert q.size().ready == 1

    def test_stops_no_other_queue(self, app: Stanchion, q: Queue) -> None:
        q.pause()
        app.queue("other").push(1)
        assert len(app.queue("other").reserve()) == 1


class TestMaxRunning:
    def test_counts_the_jobs_of_all_processes(self, q: Queue, other_q: Queue) -> None:
        q.configure(max_running=3)
        q.push_many(range(5))
        (one, *_rest) = q.reserve(2)
        assert len(other_q.reserve(5)) == 1
        assert q.reserve() == []
        assert q.pop() is None
        one.commit()
        assert len(other_q.reserve(5)) == 1

    @pytest.mark.parametrize("end", ["rollback", "move", "bury", "abandon", "release"])
    def test_every_end_frees_a_place(self, q: Queue, end: str) -> None:
        q.configure(max_running=1)
        q.push_many([1, 2])
        (job,) = q.reserve()
        job.move("next") if end == "move" else getattr(job, end)()
        assert len(q.reserve(5)) == 1

    def test_a_lost_lease_frees_a_place(self, q: Queue, clock: StoreClock) -> None:
        q.configure(max_running=1)
        q.push_many([1, 2])
        q.reserve(lease=10)
        clock.advance(11)
        assert len(q.reserve(5)) == 1

    def test_can_be_raised_and_lowered(self, q: Queue) -> None:
        q.push_many(range(10))
        q.configure(max_running=2)
        assert len(q.reserve(10)) == 2
        q.configure(max_running=4)
        assert len(q.reserve(10)) == 2
        q.configure(max_running=1)
        assert q.reserve(10) == []
        q.configure(max_running=None)
        assert len(q.reserve(10)) == 6


class TestMaxRate:
    """A bucket of a tenth of a second's worth of jobs, at least one, that fills at the rate."""

    def test_one_job_and_then_one_per_interval(self, q: Queue, clock: StoreClock) -> None:
        q.configure(max_rate=0.01)
        q.push_many(range(10))
        assert len(q.reserve(10)) == 1
        clock.advance(90)
        assert q.reserve(10) == []
        clock.advance(11)
        assert len(q.reserve(10)) == 1
        assert q.reserve(10) == []

    def test_idle_time_saves_up_no_more_than_the_bucket_holds(self, q: Queue, clock: StoreClock) -> None:
        q.configure(max_rate=0.01)
        q.push_many(range(10))
        q.reserve(10)
        clock.advance(10_000)
        assert len(q.reserve(10)) == 1

    def test_the_bucket_of_a_fast_queue(self, q: Queue, clock: StoreClock) -> None:
        q.configure(max_rate=1000)
        q.push_many(range(1000))
        assert 100 <= len(q.reserve(1000)) <= 110
        clock.advance(1)
        assert 100 <= len(q.reserve(1000)) <= 110

    def test_all_processes_drink_from_one_bucket(self, q: Queue, other_q: Queue, clock: StoreClock) -> None:
        q.configure(max_rate=0.01)
        q.push_many(range(10))
        assert len(q.reserve(10)) == 1
        assert other_q.reserve(10) == []
        assert other_q.pop() is None
        clock.advance(101)
        assert other_q.pop() is not None
        assert q.reserve(10) == []

    def test_an_empty_claim_takes_nothing(self, q: Queue) -> None:
        q.configure(max_rate=0.01)
        for _ in range(5):
            assert q.reserve(10) == []
        q.push(1)
        assert len(q.reserve()) == 1

    def test_says_when_the_next_job_may_start(self, q: Queue, store: Store, clock: StoreClock) -> None:
        q.configure(max_rate=0.01)
        q.push_many(range(10))
        first = store.claim(Claim(QUEUE, 10, "one"))
        assert len(first.rows) == 1
        second = store.claim(Claim(QUEUE, 10, "two"))
        assert second.rows == []
        assert second.retry_in is not None
        assert 50 < second.retry_in <= 100.001
        clock.advance(second.retry_in + 0.01)
        assert len(store.claim(Claim(QUEUE, 10, "three")).rows) == 1

    def test_has_nothing_to_say_when_it_forbids_nothing(self, q: Queue, store: Store) -> None:
        q.push(1)
        assert store.claim(Claim(QUEUE, 10, "one")).retry_in is None
        q.pause()
        assert store.claim(Claim(QUEUE, 10, "two")) == Claimed([])

    def test_names_no_time_for_running_jobs_whose_end_is_signalled(self, q: Queue, store: Store) -> None:
        q.configure(max_running=1, max_rate=100)
        q.push_many([1, 2])
        assert len(store.claim(Claim(QUEUE, 10, "one", lease=5)).rows) == 1
        assert store.claim(Claim(QUEUE, 10, "two")) == Claimed([])

    def test_can_be_lifted(self, q: Queue) -> None:
        q.configure(max_rate=0.01)
        q.push_many(range(10))
        assert len(q.reserve(10)) == 1
        q.configure(max_rate=None)
        assert len(q.reserve(10)) == 9


class TestDelete:
    def test_takes_everything_along(self, q: Queue, other_q: Queue) -> None:
        q.push_many([1, 2, 3])
        done, _running = q.reserve(2)
        done.commit()
        q.configure(paused=True)
        assert q.delete() == 2
        assert context_of(q).store.queues() == []
        assert other_q.size().total == 0
        assert other_q.history() == []
        assert other_q.get(done.id) is None
        assert other_q.counts().pushed == 0
        assert not other_q.settings.paused

    def test_leaves_other_queues_alone(self, app: Stanchion, q: Queue) -> None:
        kept = app.queue("kept").push(1)
        q.push(1)
        q.delete()
        assert app.get(kept.id) is not None
        assert app.queue("kept").counts().pushed == 1

    def test_frees_keys_and_begins_anew(self, q: Queue) -> None:
        q.push(1, key="k")
        q.delete()
        assert not q.push(2, key="k").duplicate
        assert q.counts().pushed == 1
        assert [job.payload for job in q.reserve(5)] == [2]

    def test_of_an_unknown_queue_is_nothing(self, store: Store) -> None:
        assert store.drop_queue("nowhere") == 0

    def test_with_many_jobs(self, store: Store) -> None:
        for _ in range(3):
            store.push([new_job() for _ in range(1000)])
        assert store.drop_queue(QUEUE) == 3000
        assert sizes_of(store, QUEUE).total == 0

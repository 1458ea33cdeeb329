"""Liveness: a worker is alive while it sends heartbeats, and keeps its jobs for that time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.outcomes import Commit, Progress, Rollback
from stanchion_conformance.harness import (
    QUEUE,
    StoreClock,
    about,
    claim,
    new_job,
    row_of,
    seconds_until,
    sizes_of,
    state,
    worker,
)


class TestHeartbeat:
    def test_answers_with_the_number_of_live_workers(self, store: Store, other_store: Store, clock: StoreClock) -> None:
        assert store.beat([worker("a")]).live == 1
        assert other_store.beat([worker("b")]).live == 2
        assert store.beat([worker("a")]).live == 2
        clock.advance(31)
        assert store.beat([worker("a")]).live == 1

    def test_several_at_once_are_answered_together(self, store: Store, other_store: Store, clock: StoreClock) -> None:
        a, b, c, d = (worker(name, heartbeat=1000.0) for name in "abcd")
        store.beat([c])
        store.push([new_job() for _ in range(3)])
        (one,), (two,), (three,) = (claim(store, worker=name) for name in "abc")
        other_store.cancel([one.id, two.id, three.id])
        clock.advance(100)
        beat = store.beat([replace(b, queues=(QUEUE, "mail")), a])
        assert (beat.live, sorted(beat.cancelled), beat.sharing) == (3, sorted([one.id, two.id]), 1)
        clock.advance(100)
        beat = store.beat([a, d])
        assert (beat.live, beat.cancelled, beat.sharing) == (4, [one.id], 4)
        seen = {row.id: row for row in other_store.workers()}
        assert {name: (row.queues, row.running) for name, row in seen.items()} == {
            "a": ((QUEUE,), 1),
            "b": ((QUEUE, "mail"), 1),
            "c": ((QUEUE,), 1),
            "d": ((QUEUE,), 0),
        }
        assert seconds_until(store, seen["a"].started_at) == about(-100)
        assert seconds_until(store, seen["a"].last_seen_at) == about(0)
        assert seconds_until(store, seen["b"].last_seen_at) == about(-100)

    def test_describes_the_worker(self, store: Store, other_store: Store, clock: StoreClock) -> None:
        store.beat([worker("a", heartbeat=5.0)])
        store.push([new_job(), new_job()])
        claim(store, 2, worker="a")
        clock.advance(10)
        store.beat([replace(worker("a", heartbeat=5.0), state="stopping")])
        (seen,) = other_store.workers()
        assert replace(seen, started_at=0, last_seen_at=0) == replace(
            worker("a", heartbeat=5.0), state="stopping", running=2
        )
        assert seconds_until(store, seen.started_at) == about(-10)
        assert seconds_until(store, seen.last_seen_at) == about(0)

    def test_of_a_worker_that_left_is_forgotten(self, store: Store) -> None:
        store.beat([worker("a")])
        store.beat([worker("b")])
        store.leave("a")
        assert [row.id for row in store.workers()] == ["b"]
        assert store.beat([worker("b")]).live == 1

    def test_a_late_worker_is_still_shown(self, store: Store, clock: StoreClock) -> None:
        store.beat([worker("a")])
        clock.advance(100)
        store.beat([worker("b")])
        assert {row.id for row in store.workers()} == {"a", "b"}

    def test_one_that_comes_back_counts_again(self, store: Store, clock: StoreClock) -> None:
        store.beat([worker("a")])
        clock.advance(100)
        assert store.beat([worker("a")]).live == 1

    def test_tells_a_worker_which_of_its_jobs_are_to_stop(self, store: Store, other_store: Store) -> None:
        for name in ("a", "b"):
            store.beat([worker(name)])
        store.push([new_job() for _ in range(3)])
        (one,), (two,), (_kept,) = (claim(store, worker=name) for name in ("a", "b", "a"))
        assert other_store.cancel([one.id, two.id]) == [JobState.RUNNING, JobState.RUNNING]
        assert store.beat([worker("a")]).cancelled == [one.id]
        assert store.beat([worker("b")]).cancelled == [two.id]
        store.settle([Rollback(one.lease, 0.0)])
        assert store.beat([worker("a")]).cancelled == []

    def test_maintenance_forgets_the_dead_that_hold_nothing(self, store: Store, clock: StoreClock) -> None:
        for name in ("idle", "busy", "alive"):
            store.beat([worker(name)])
        store.push([new_job()])
        claim(store, worker="busy")
        clock.advance(100_000)
        store.beat([worker("alive")])
        store.maintain()
        assert {row.id for row in store.workers()} == {"busy", "alive"}
        assert len(store.recover()) == 1


class TestSharedPolling:
    """The answer to a heartbeat gives the number of workers that share the polling of a queue."""

    @staticmethod
    def sharing(store: Store, name: str, *queues: str, state: str = "running", heartbeat: float = 10.0) -> int:
        """Send the heartbeat of a worker of these queues; return the answer."""
        return store.beat([replace(worker(name, heartbeat), queues=queues, state=state)]).sharing

    def test_workers_of_other_queues_do_not_count(self, store: Store, other_store: Store) -> None:
        for number in range(10):
            self.sharing(store, f"busy {number}", "busy")
        assert self.sharing(other_store, "alone", "quiet") == 1
        assert self.sharing(store, "one more", "busy") == 11

    def test_it_is_the_least_over_one_s_own_queues(self, store: Store) -> None:
        for name, queues in {"a": ["x"], "b": ["x", "y"], "c": ["y"], "d": ["y", "x"], "e": ["z", "y"]}.items():
            self.sharing(store, name, *queues)
        assert self.sharing(store, "a", "x") == 3
        assert self.sharing(store, "b", "x", "y") == 3
        assert self.sharing(store, "c", "y") == 4
        assert self.sharing(store, "e", "z", "y") == 1

    def test_one_that_leaves_or_stops_counts_no_more(self, store: Store, other_store: Store) -> None:
        for name in ("a", "b", "c"):
            self.sharing(store, name, QUEUE)
        assert self.sharing(store, "a", QUEUE) == 3
        other_store.leave("b")
        assert self.sharing(store, "a", QUEUE) == 2
        self.sharing(other_store, "c", QUEUE, state="stopping")
        assert self.sharing(store, "a", QUEUE) == 1

    def test_one_that_is_late_counts_no_more_until_it_is_back(self, store: Store, clock: StoreClock) -> None:
        self.sharing(store, "quick", QUEUE, heartbeat=100.0)
        self.sharing(store, "slow", QUEUE, heartbeat=1000.0)
        clock.advance(150)
        assert self.sharing(store, "me", QUEUE, heartbeat=1000.0) == 3
        clock.advance(51)
        beat = store.beat([replace(worker("me", heartbeat=1000.0), queues=(QUEUE,))])
        assert (beat.live, beat.sharing) == (3, 2)
        assert self.sharing(store, "quick", QUEUE, heartbeat=100.0) == 3

    def test_names_that_are_part_of_each_other_are_told_apart(self, store: Store) -> None:
        self.sharing(store, "a", "mail")
        self.sharing(store, "b", "mail.fast", 'ma"il')
        assert self.sharing(store, "c", "mail") == 2
        assert self.sharing(store, "d", 'ma"il') == 2


class TestRecovery:
    def test_after_exactly_three_missed_heartbeats(self, store: Store, clock: StoreClock) -> None:
        store.beat([worker("w", heartbeat=1000.0)])
        job = new_job()
        store.push([job])
        (late,) = claim(store, worker="w")
        clock.advance(2900)
        store.beat([worker("other")])
        assert store.recover() == []
        assert claim(store) == []
        clock.advance(100.001)
        (back,) = store.recover()
        assert (back.id, back.state, back.worker, back.attempts) == (job.id, "queued", None, 1)
        (again,) = claim(store)
        assert again.attempts == 2
        assert store.settle([Commit(late.lease)]) == [None]
        assert store.settle([Progress(late.lease, 0.5)]) == [None]
        assert store.settle([Commit(again.lease)]) == [JobState.DONE]

    def test_judges_as_of_the_given_time(self, store: Store, clock: StoreClock) -> None:
        for name in ("held up", "alive"):
            store.beat([worker(name)])
        store.push([new_job(), new_job()])
        lost = claim(store, worker="held up") + claim(store, worker="unknown")
        clock.advance(10)
        before = store.now()
        clock.advance(30)  # no worker could beat
        store.beat([worker("alive")])
        assert store.recover(as_of=before) == []
        assert {row.id for row in store.recover(as_of=store.now())} == {row.id for row in lost}

    def test_goes_by_the_worker_s_own_heartbeat(self, store: Store, clock: StoreClock) -> None:
        store.beat([worker("quick", heartbeat=1.0)])
        store.beat([worker("calm", heartbeat=100.0)])
        store.push([new_job(), new_job()])
        (quick,), (calm,) = claim(store, worker="quick"), claim(store, worker="calm")
        clock.advance(4)
        assert [row.id for row in store.recover()] == [quick.id]
        clock.advance(250)
        assert store.recover() == []
        clock.advance(50)
        assert [row.id for row in store.recover()] == [calm.id]

    def test_a_slow_worker_that_beats_keeps_its_jobs(self, store: Store, clock: StoreClock) -> None:
        store.push([new_job()])
        store.beat([worker("slow")])
        (row,) = claim(store, worker="slow")
        for _ in range(20):
            clock.advance(25)
            store.beat([worker("slow")])
            store.beat([worker("other")])
            assert store.recover() == []
            assert claim(store, worker="other") == []
        assert store.settle([Commit(row.lease)]) == [JobState.DONE]

    def test_a_worker_that_beats_again_in_time_keeps_them(self, store: Store, clock: StoreClock) -> None:
        store.push([new_job()])
        store.beat([worker("w", heartbeat=100.0)])
        (row,) = claim(store, worker="w")
        clock.advance(280)
        store.beat([worker("w", heartbeat=100.0)])
        clock.advance(50)
        assert store.recover() == []
        assert store.settle([Commit(row.lease)]) == [JobState.DONE]

    def test_takes_from_the_dead_only(self, store: Store, clock: StoreClock) -> None:
        for name in ("dead", "alive"):
            store.beat([worker(name)])
        store.push([new_job() for _ in range(10)])
        lost = claim(store, 5, worker="dead")
        kept = claim(store, 5, worker="alive")
        clock.advance(20)
        store.beat([worker("alive")])
        clock.advance(11)
        assert {row.id for row in store.recover()} == {row.id for row in lost}
        assert {row_of(store, row.id).worker for row in kept} == {"alive"}
        assert sizes_of(store, QUEUE).running == 5

    def test_an_empty_list_of_workers_frees_nothing(self, store: Store, clock: StoreClock) -> None:
        store.push([new_job()])
        (row,) = claim(store, worker="unknown")
        clock.advance(1_000_000)
        assert store.recover() == []
        assert claim(store) == []
        assert store.settle([Commit(row.lease)]) == [JobState.DONE]

    def test_a_job_of_no_known_worker_waits_for_a_live_witness(self, store: Store, clock: StoreClock) -> None:
        store.push([new_job()])
        (row,) = claim(store, worker="unknown")
        clock.advance(1000)
        assert store.recover() == []
        store.beat([worker("alive")])
        assert [back.id for back in store.recover()] == [row.id]

    def test_a_witness_that_is_late_itself_is_none(self, store: Store, clock: StoreClock) -> None:
        store.beat([worker("late")])
        store.push([new_job()])
        claim(store, worker="unknown")
        clock.advance(1000)
        assert store.recover() == []

    def test_a_worker_may_claim_before_its_first_beat(self, store: Store, clock: StoreClock) -> None:
        store.beat([worker("alive")])
        store.push([new_job()])
        (row,) = claim(store, worker="new")
        clock.advance(20)
        store.beat([worker("alive")])
        assert store.recover() == []
        store.beat([worker("new")])
        clock.advance(20)
        store.beat([worker("new")])
        assert store.recover() == []
        assert store.settle([Commit(row.lease)]) == [JobState.DONE]

    def test_a_worker_that_left_with_its_jobs_loses_them_in_the_end(self, store: Store, clock: StoreClock) -> None:
        for name in ("gone", "alive"):
            store.beat([worker(name)])
        store.push([new_job()])
        claim(store, worker="gone")
        store.leave("gone")
        assert store.recover() == []
        clock.advance(20)
        store.beat([worker("alive")])
        clock.advance(11)
        assert len(store.recover()) == 1

    @pytest.mark.parametrize("young", ["a", "unknown"])
    def test_young_jobs_of_unknown_workers_hide_no_lost_one(self, store: Store, clock: StoreClock, young: str) -> None:
        store.push([new_job() for _ in range(5)])
        (first,) = store.push([new_job(priority=1)])
        assert [row.id for row in claim(store, worker="unknown")] == [first.id]
        clock.advance(31)
        store.beat([worker("alive")])
        assert len(claim(store, 5, worker=young)) == 5
        assert [row.id for row in store.recover(limit=2)] == [first.id]
        assert sizes_of(store, QUEUE).running == 5

    def test_reaches_every_queue_and_no_more_than_asked(self, store: Store, clock: StoreClock) -> None:
        store.beat([worker("w")])
        store.push([new_job(queue=f"q{number}") for number in range(4)])
        for number in range(4):
            claim(store, queue=f"q{number}", worker="w")
        clock.advance(31)
        assert len(store.recover(limit=3)) == 3
        assert len(store.recover(limit=3)) == 1
        assert store.recover() == []

    def test_of_a_job_that_was_to_be_cancelled_ends_it(self, store: Store, clock: StoreClock) -> None:
        store.beat([worker("w")])
        job = new_job()
        store.push([job])
        claim(store, worker="w")
        store.cancel([job.id])
        clock.advance(31)
        (row,) = store.recover()
        assert row.state == JobState.CANCELLED
        assert state(store, job.id) is JobState.CANCELLED
        assert claim(store) == []

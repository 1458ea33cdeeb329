"""The outcomes of a reservation: commit, rollback, move, bury, abandon."""

from __future__ import annotations

import pytest

from stanchion import Bury as BuryJob
from stanchion import Cancel, JobState, Queue, Stanchion
from stanchion.context import context_of
from stanchion.core.text.error_texts import MAX_ERROR, MAX_TRACEBACK
from stanchion.jobs.lookup import push_copies
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import POPPED
from stanchion.stores.records.outcomes import Abandon, Bury, Commit, Move, Outcome, Rollback
from stanchion_conformance.harness import (
    QUEUE,
    StoreClock,
    about,
    claim,
    new_job,
    payloads,
    row_of,
    seconds_until,
    state,
)


class TestCommit:
    def test_ends_the_job_for_good(self, q: Queue, clock: StoreClock) -> None:
        q.push({"id": 1})
        (job,) = q.reserve()
        job.commit({"rows": [1, 2]})
        done = q.get(job.id)
        assert done is not None
        assert (done.state, done.result, done.payload) == (JobState.DONE, {"rows": [1, 2]}, {"id": 1})
        assert done.finished_at is not None
        assert done.started_at is not None
        assert done.enqueued_at <= done.started_at <= done.finished_at
        assert q.size().total == 0
        clock.advance(3600)
        assert context_of(q).store.recover() == []
        assert q.reserve() == []

    def test_may_replace_the_payload(self, q: Queue) -> None:
        q.push({"step": 1})
        (job,) = q.reserve()
        job.commit(payload={"step": 2})
        done = q.get(job.id)
        assert done is not None
        assert (done.payload, done.result) == ({"step": 2}, None)

    def test_on_leaving_a_with_block(self, q: Queue) -> None:
        q.push({})
        (job,) = q.reserve()
        with job:
            pass
        assert job.state is JobState.DONE
        done = q.get(job.id)
        assert done is not None
        assert done.state is JobState.DONE

    def test_inside_a_with_block_is_left_alone(self, q: Queue) -> None:
        q.push({})
        with q.reserve()[0] as job:
            job.bury("mine")
        buried = q.get(job.id)
        assert buried is not None
        assert buried.state is JobState.DEAD


class TestRollback:
    def test_gives_back_now(self, q: Queue) -> None:
        q.push({"id": 1})
        (job,) = q.reserve()
        job.rollback(delay=0)
        (again,) = q.reserve()
        assert (again.id, again.payload, again.attempt, again.failures) == (job.id, {"id": 1}, 2, 0)

    def test_gives_back_for_later(self, q: Queue, store: Store, clock: StoreClock) -> None:
        q.push({})
        (job,) = q.reserve()
        job.rollback(delay=60)
        assert job.state is JobState.SCHEDULED
        assert state(store, job.id) is JobState.SCHEDULED
        assert seconds_until(store, row_of(store, job.id).run_at) == about(60)
        clock.advance(50)
        assert q.reserve() == []
        clock.advance(11)
        assert len(q.reserve()) == 1

    def test_keeps_the_error_and_counts_the_failure(self, q: Queue, store: Store) -> None:
        q.push({})
        (job,) = q.reserve()
        try:
            raise ValueError("no such user")
        except ValueError as error:
            job.rollback(delay=0, error=error)
        (again,) = q.reserve()
        (entry,) = again.errors
        assert again.failures == 1
        assert entry["error"] == "ValueError: no such user"
        assert entry["attempt"] == 1
        assert "raise ValueError" in entry["traceback"]
        assert entry["at"] * 1e6 - store.now() == pytest.approx(0, abs=60e6)

    def test_on_an_exception_that_leaves_a_with_block(self, q: Queue) -> None:
        q.push({})
        (job,) = q.reserve()
        with pytest.raises(ZeroDivisionError), job:
            1 / 0  # noqa: B018
        given_back = q.get(job.id)
        assert given_back is not None
        assert (given_back.state, given_back.failures) == (JobState.SCHEDULED, 1)
        assert given_back.errors[0]["error"].startswith("ZeroDivisionError")

    def test_an_interrupt_is_not_the_job_s_fault(self, q: Queue) -> None:
        q.push({})
        (job,) = q.reserve()
        with pytest.raises(KeyboardInterrupt), job:
            raise KeyboardInterrupt
        given_back = q.get(job.id)
        assert given_back is not None
        assert (given_back.state, given_back.attempts, given_back.failures) == (JobState.READY, 0, 0)

    def test_the_last_ten_errors_are_kept(self, q: Queue) -> None:
        pushed = q.push({})
        for number in range(13):
            q.reserve()[0].rollback(delay=0, error=f"error {number}")
        job = q.get(pushed.id)
        assert job is not None
        assert [entry["error"] for entry in job.errors] == [f"error {number}" for number in range(3, 13)]
        assert job.failures == 13

    def test_refund_takes_back_the_attempt(self, store: Store) -> None:
        job = new_job(max_attempts=1)
        store.push([job])
        for _ in range(3):
            (row,) = claim(store)
            assert row.attempts == 1
            assert store.settle([Rollback(row.lease, 0.0, refund=True)]) == [JobState.READY]
        assert row_of(store, job.id).attempts == 0


class TestMove:
    def test_goes_on_in_the_next_queue(self, app: Stanchion, q: Queue) -> None:
        q.push({"raw": 1}, priority=5, headers={"trace": "t"}, tenant="acme")
        (job,) = q.reserve()
        job.move("clean", payload={"clean": 1})
        assert q.size().total == 0
        assert q.reserve() == []
        (moved,) = app.queue("clean").reserve()
        assert moved.id == job.id
        assert (moved.payload, moved.priority, moved.tenant) == ({"clean": 1}, 5, "acme")
        assert moved.headers == {"trace": "t"}
        assert moved.token != job.token

    def test_keeps_the_payload_unless_told(self, app: Stanchion, q: Queue) -> None:
        q.push({"raw": 1})
        q.reserve()[0].move("clean")
        assert app.queue("clean").reserve()[0].payload == {"raw": 1}

    def test_is_due_at_once_and_not_when_its_lease_would_have_ended(self, app: Stanchion, q: Queue) -> None:
        q.push({})
        q.reserve(lease=3600)[0].move("clean")
        assert app.queue("clean").size().ready == 1
        assert len(app.queue("clean").reserve()) == 1

    def test_is_due_at_once_also_after_a_retry(self, app: Stanchion, q: Queue, clock: StoreClock) -> None:
        q.push({})
        q.reserve()[0].rollback(delay=100)
        clock.advance(101)
        q.reserve()[0].move("clean")
        assert len(app.queue("clean").reserve()) == 1

    def test_may_be_delayed(self, app: Stanchion, q: Queue, clock: StoreClock) -> None:
        q.push({})
        q.reserve()[0].move("clean", delay=60)
        assert app.queue("clean").reserve() == []
        clock.advance(61)
        assert len(app.queue("clean").reserve()) == 1

    def test_counts_attempts_from_0(self, app: Stanchion, q: Queue) -> None:
        q.push({}, max_attempts=2)
        q.reserve()[0].rollback(delay=0, error="once")
        q.reserve()[0].move("clean")
        (moved,) = app.queue("clean").reserve()
        assert (moved.attempt, moved.failures, moved.errors) == (1, 0, [])
        moved.rollback(delay=0, error="again")
        assert len(app.queue("clean").reserve()) == 1

    def test_leaves_the_key_behind(self, app: Stanchion, q: Queue) -> None:
        q.push({}, key="k")
        app.queue("clean").push("other", key="k")
        (job,) = q.reserve()
        job.move("clean")
        assert not q.push({}, key="k").duplicate
        assert app.queue("clean").size().total == 2
        moved = app.queue("clean").get(job.id)
        assert moved is not None
        assert moved.key is None

    def test_makes_the_queue(self, store: Store, q: Queue) -> None:
        q.push({})
        q.reserve()[0].move("clean")
        assert [settings.name for settings in store.queues()] == ["clean", QUEUE]

    def test_into_its_own_queue(self, q: Queue) -> None:
        q.push(1)
        (job,) = q.reserve()
        job.move(QUEUE, payload=2)
        (again,) = q.reserve()
        assert (again.id, again.payload, again.attempt) == (job.id, 2, 1)

    def test_is_counted_where_it_left(self, app: Stanchion, q: Queue) -> None:
        q.push({})
        q.reserve()[0].move("clean")
        assert q.counts().moved == 1
        assert app.queue("clean").counts().moved == 0


class TestBuryAndAbandon:
    def test_bury_ends_as_dead_whatever_attempts_were_left(self, q: Queue) -> None:
        q.push({"id": 1})
        (job,) = q.reserve()
        job.bury("poison")
        dead = q.get(job.id)
        assert dead is not None
        assert (dead.state, dead.payload, dead.failures) == (JobState.DEAD, {"id": 1}, 1)
        assert dead.errors[-1]["error"] == "poison"
        assert dead.finished_at is not None
        assert q.reserve() == []

    def test_abandon_ends_as_cancelled(self, q: Queue) -> None:
        q.push({})
        (job,) = q.reserve()
        job.abandon("not needed")
        ended = q.get(job.id)
        assert ended is not None
        assert (ended.state, ended.failures) == (JobState.CANCELLED, 0)
        assert "not needed" in ended.errors[-1]["error"]
        assert q.counts().cancelled == 1


class TestLongReasons:
    """A reason is kept as far as the text of an error is, whoever writes it."""

    def test_of_a_reservation(self, q: Queue) -> None:
        q.push_many([{}] * 3)
        buried, abandoned, rolled_back = q.reserve(3)
        buried.bury("y" * 20_000_000)
        abandoned.abandon("y" * 20_000_000)
        rolled_back.rollback(delay=60, error="y" * 20_000_000)
        for one in (buried, abandoned, rolled_back):
            assert _lengths(q, one.id) == [MAX_ERROR]

    def test_of_a_task(self, app: Stanchion, q: Queue) -> None:
        @app.task(queue=QUEUE, name="end")
        def end(how: str) -> None:
            raise {"bury": BuryJob, "cancel": Cancel}[how]("y" * 20_000_000)

        bury, cancel = end.enqueue("bury"), end.enqueue("cancel")
        assert app.drain() == 2
        assert (bury.state, cancel.state) == (JobState.DEAD, JobState.CANCELLED)
        assert _lengths(q, bury.id) == _lengths(q, cancel.id) == [MAX_ERROR]

    @pytest.mark.parametrize("reason", ["nul\0", "half \ud800", "\U0001f600" * 5_000], ids=["nul", "surrogate", "wide"])
    def test_of_strange_characters(self, app: Stanchion, q: Queue, reason: str) -> None:
        @app.task(queue=QUEUE, name="end")
        def end(how: str) -> None:
            raise {"bury": BuryJob, "cancel": Cancel, "fail": ValueError}[how](reason)

        handles = [end.enqueue(how) for how in ("bury", "cancel", "fail")]
        assert app.drain() == 3
        assert [handle.state for handle in handles] == [JobState.DEAD, JobState.CANCELLED, JobState.SCHEDULED]
        q.push({"id": 4})
        (job,) = q.reserve()
        job.abandon(reason)
        for one in [*(handle.id for handle in handles), job.id]:
            ended = q.get(one)
            assert ended is not None
            assert reason[:3] in ended.errors[-1]["error"]

    def test_of_another_program(self, q: Queue, store: Store) -> None:
        jobs = [new_job() for _ in range(4)]
        store.push(jobs)
        long, trace = "y" * 500_000, "z" * 500_000
        first, second, third, fourth = (row.lease for row in claim(store, 4))
        states = store.settle(
            [
                Bury(first, long, trace),
                Abandon(second, long),
                Rollback(third, 60.0, long, trace),
                Rollback(fourth, 60.0, long, refund=True),
            ]
        )
        assert states == [JobState.DEAD, JobState.CANCELLED, JobState.SCHEDULED, JobState.SCHEDULED]
        for job in jobs:
            assert _lengths(q, job.id) == [MAX_ERROR]
            found = q.get(job.id)
            assert found is not None
            assert len(found.errors[-1].get("traceback", "")) <= MAX_TRACEBACK


def _lengths(q: Queue, job_id: str) -> list[int]:
    """Return the lengths of the errors kept with a job."""
    job = q.get(job_id)
    assert job is not None
    return [len(entry["error"]) for entry in job.errors]


class TestBatches:
    def test_an_old_token_beside_the_one_in_force(self, store: Store) -> None:
        # A worker that was thought dead, or whose claim a crash of the server undid, has both in one batch.
        jobs = [new_job() for _ in range(2)]
        store.push(jobs)
        first = [job.id for job in jobs]
        old = claim(store, 2)
        store.settle([Rollback(row.lease, 0.0) for row in old])
        new = claim(store, 2)
        outcomes: list[Outcome] = [Commit(row.lease, "1") for row in (old[0], new[0], new[1], old[1])]
        assert store.settle(outcomes) == [None, JobState.DONE, JobState.DONE, None]
        assert [store.fetch([one])[one].token for one in first] == [row.token for row in new]

    def test_each_outcome_for_itself(self, store: Store) -> None:
        jobs = [new_job(str(number)) for number in range(7)]
        store.push(jobs)
        rows = claim(store, 7)
        ids = [row.id for row in rows]
        outcomes: list[Outcome] = [
            Commit(rows[0].lease, result='"done"'),
            Commit(rows[1].lease._replace(token="other")),
            Rollback(rows[2].lease, 60.0),
            Rollback(rows[3].lease, 0.0, error="again"),
            Move(rows[4].lease, "next"),
            Bury(rows[5].lease, "bad"),
            Abandon(rows[6].lease),
        ]
        assert store.settle(outcomes) == [
            JobState.DONE,
            None,
            JobState.SCHEDULED,
            JobState.READY,
            JobState.READY,
            JobState.DEAD,
            JobState.CANCELLED,
        ]
        assert [state(store, job_id) for job_id in ids] == [
            JobState.DONE,
            JobState.RUNNING,
            JobState.SCHEDULED,
            JobState.READY,
            JobState.READY,
            JobState.DEAD,
            JobState.CANCELLED,
        ]

    def test_the_first_of_two_words_on_one_job_counts(self, store: Store) -> None:
        store.push([new_job()])
        (row,) = claim(store)
        words: list[Outcome] = [Rollback(row.lease, 60.0), Commit(row.lease)]
        assert store.settle(words) == [JobState.SCHEDULED, None]
        assert state(store, row.id) is JobState.SCHEDULED

    def test_many_at_once(self, q: Queue, store: Store) -> None:
        q.push_many(range(1200))
        rows = claim(store, 1200)
        assert len(rows) == 1200
        commits = [Commit(row.lease, result=row.payload) for row in rows]
        for start in range(0, 1200, 400):
            assert store.settle(commits[start : start + 400]) == [JobState.DONE] * 400
        assert q.size().total == 0
        assert sorted(payloads(q.history(limit=2000))) == list(range(1200))

    def test_popped_and_reserved_jobs_of_several_queues(self, app: Stanchion, store: Store) -> None:
        queues = [QUEUE, "next"]
        store.push([new_job(queue=queue) for queue in queues for _ in range(4)])
        ways = [(queue, delivery) for queue in queues for delivery in (None, POPPED)]
        rows = [row for queue, delivery in ways for row in claim(store, 2, queue=queue, delivery=delivery)]
        results = {row.id: str(number) if number % 2 else None for number, row in enumerate(rows)}
        assert store.settle([Commit(row.lease, results[row.id]) for row in rows]) == [JobState.DONE] * 8
        assert {job_id: row.result for job_id, row in store.fetch(list(results)).items()} == results
        counts = [app.queue(queue).counts() for queue in queues]
        assert [(one.committed, one.popped) for one in counts] == [(2, 2)] * 2

    def test_none_is_none(self, store: Store) -> None:
        assert store.settle([]) == []
        assert store.push([]) == []
        assert store.fetch([]) == {}
        assert store.cancel([]) == []
        assert store.retry([]) == []
        assert push_copies(store, [], []) == []

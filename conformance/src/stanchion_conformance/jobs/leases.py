"""Reservations: fenced by their token, valid for their lease, lost when it expires."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stanchion import Queue, Reservation
from stanchion.app import app_of
from stanchion.context import context_of
from stanchion.errors import LeaseLost
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.jobs import JobState, Lease
from stanchion.stores.records.outcomes import Abandon, Bury, Commit, Extend, Move, Outcome, Progress, Rollback
from stanchion_conformance.harness import (
    QUEUE,
    StoreClock,
    about,
    claim,
    counts_of,
    new_job,
    row_of,
    seconds_until,
    sizes_of,
    worker,
)

Act = Callable[[Reservation], None]

ACTS: dict[str, Act] = {
    "commit": lambda job: job.commit("late", payload={"by": "late"}),
    "rollback": lambda job: job.rollback(delay=0, error="late"),
    "move": lambda job: job.move("elsewhere", payload="late"),
    "bury": lambda job: job.bury("late"),
    "abandon": lambda job: job.abandon("late"),
    "release": lambda job: job.release(),
    "extend": lambda job: job.extend(60),
    "progress": lambda job: job.progress(0.9),
}


def _ran_out(q: Queue, clock: StoreClock) -> None:  # noqa: ARG001
    clock.advance(31)


def _given_back(q: Queue, clock: StoreClock) -> None:
    clock.advance(31)
    context_of(q).store.recover()


def _reserved_again(q: Queue, clock: StoreClock) -> None:
    clock.advance(31)
    assert len(q.reserve()) == 1


def _reserved_and_committed(q: Queue, clock: StoreClock) -> None:
    clock.advance(31)
    q.reserve()[0].commit("in time")


def _reserved_and_moved(q: Queue, clock: StoreClock) -> None:
    clock.advance(31)
    q.reserve()[0].move("next")


def _reserved_in_the_next_queue(q: Queue, clock: StoreClock) -> None:
    _reserved_and_moved(q, clock)
    assert len(app_of(context_of(q)).queue("next").reserve()) == 1


def _popped(q: Queue, clock: StoreClock) -> None:
    clock.advance(31)
    assert q.pop() is not None


def _deleted(q: Queue, clock: StoreClock) -> None:  # noqa: ARG001
    assert q.delete() == 1


LOSSES = [
    _ran_out,
    _given_back,
    _reserved_again,
    _reserved_and_committed,
    _reserved_and_moved,
    _reserved_in_the_next_queue,
    _popped,
    _deleted,
]


class TestFencing:
    @pytest.mark.parametrize("lose", LOSSES, ids=lambda lose: lose.__name__.strip("_"))
    @pytest.mark.parametrize("act", ACTS)
    def test_a_late_word_is_refused_and_changes_nothing(
        self, q: Queue, store: Store, clock: StoreClock, lose: Callable[..., None], act: str
    ) -> None:
        q.push({"by": "first"})
        (late,) = q.reserve(lease=30)
        lose(q, clock)
        queues = (QUEUE, "next", "elsewhere")
        before = store.fetch([late.id]), [(sizes_of(store, name), counts_of(store, name)) for name in queues]
        with pytest.raises(LeaseLost):
            ACTS[act](late)
        assert before == (store.fetch([late.id]), [(sizes_of(store, name), counts_of(store, name)) for name in queues])

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            (first, second)
            for first in ("rollback", "release", "move", "bury", "abandon")
            for second in ("commit", "rollback", "move", "bury", "extend", "progress")
            if first != second
        ],
    )
    def test_a_reservation_ends_once(self, q: Queue, store: Store, first: str, second: str) -> None:
        q.push({})
        (job,) = q.reserve()
        ACTS[first](job)
        before = row_of(store, job.id)
        with pytest.raises(LeaseLost):
            ACTS[second](job)
        assert row_of(store, job.id) == before

    def test_a_committed_job_takes_no_other_outcome(self, q: Queue) -> None:
        q.push({})
        (job,) = q.reserve()
        job.commit("kept")
        for act in ("rollback", "move", "bury", "abandon", "extend", "progress"):
            with pytest.raises(LeaseLost):
                ACTS[act](job)
        done = q.get(job.id)
        assert done is not None
        assert (done.state, done.result) == (JobState.DONE, "kept")
        assert q.reserve() == []

    def test_every_reservation_has_a_fresh_token(self, q: Queue) -> None:
        q.push({})
        tokens = set()
        for _ in range(5):
            (job,) = q.reserve()
            tokens.add(job.token)
            job.rollback(delay=0)
        assert len(tokens) == 5

    @pytest.mark.parametrize(
        "outcome",
        [
            lambda lease: Commit(lease),
            lambda lease: Rollback(lease, 0.0),
            lambda lease: Move(lease, "elsewhere"),
            lambda lease: Bury(lease, "late"),
            lambda lease: Abandon(lease),
        ],
        ids=["commit", "rollback", "move", "bury", "abandon"],
    )
    def test_a_token_opens_no_other_job(self, store: Store, outcome: Callable[[Lease], Outcome]) -> None:
        store.push([new_job(), new_job()])
        (one,), (two,) = claim(store), claim(store)
        before = row_of(store, one.id)
        unknown = new_job().id
        mixed_up = one.lease._replace(token=two.token or "")
        assert store.settle([outcome(mixed_up), outcome(two.lease._replace(id=unknown))]) == [None, None]
        renewals: list[Outcome] = [Extend(mixed_up, 60.0), Progress(mixed_up, 0.5)]
        assert store.settle(renewals) == [None, None]
        assert row_of(store, one.id) == before

    def test_a_late_worker_in_a_with_block_hears_of_it(self, q: Queue, clock: StoreClock) -> None:
        q.push({})
        (late,) = q.reserve(lease=10)
        clock.advance(11)
        (again,) = q.reserve()
        with pytest.raises(LeaseLost), late:
            pass
        again.commit()

    def test_an_error_after_the_lease_was_lost_gives_nothing_back(
        self, q: Queue, store: Store, clock: StoreClock
    ) -> None:
        q.push({})
        (late,) = q.reserve(lease=10)
        clock.advance(11)
        (again,) = q.reserve()
        with pytest.raises((LeaseLost, RuntimeError)), late:
            raise RuntimeError
        assert row_of(store, late.id).token == again.token


class TestLease:
    def test_lasts_as_long_as_asked(self, q: Queue, clock: StoreClock) -> None:
        q.push({})
        q.reserve(lease=100)
        clock.advance(90)
        assert q.reserve() == []
        clock.advance(11)
        assert len(q.reserve()) == 1

    def test_is_30_seconds_by_default(self, q: Queue, store: Store) -> None:
        q.push({})
        (job,) = q.reserve()
        assert seconds_until(store, row_of(store, job.id).lease_until or 0) == about(30)

    def test_is_that_of_the_queue(self, q: Queue, store: Store) -> None:
        q.configure(lease=300)
        q.push_many([1, 2])
        (settings,), (asked,) = q.reserve(), q.reserve(lease=60)
        assert seconds_until(store, row_of(store, settings.id).lease_until or 0) == about(300)
        assert seconds_until(store, row_of(store, asked.id).lease_until or 0) == about(60)

    def test_extend_counts_from_now(self, q: Queue, clock: StoreClock) -> None:
        q.push({})
        (job,) = q.reserve(lease=30)
        clock.advance(20)
        job.extend(30)
        clock.advance(20)
        assert q.reserve() == []
        job.extend(5)
        clock.advance(6)
        with pytest.raises(LeaseLost):
            job.extend(30)
        assert len(q.reserve()) == 1

    def test_extend_in_a_batch(self, store: Store, clock: StoreClock) -> None:
        store.push([new_job(), new_job(), new_job()])
        rows = claim(store, 3, lease=10.0)
        wishes = [Extend(row.lease, 60.0) for row in rows]
        states = store.settle([wishes[0], Extend(rows[1].lease._replace(token="other"), 60.0), wishes[2]])
        assert states == [JobState.RUNNING, None, JobState.RUNNING]
        clock.advance(11)
        assert [row.id for row in store.recover()] == [rows[1].id]

    def test_that_ran_out_counts_the_attempt_and_says_so(self, q: Queue, clock: StoreClock) -> None:
        pushed = q.push({})
        q.reserve(lease=10)
        clock.advance(11)
        (again,) = q.reserve()
        assert again.id == pushed.id
        assert again.attempt == 2
        assert [entry["error"].split(":")[0] for entry in again.errors] == ["LeaseLost"]
        assert again.errors[0]["attempt"] == 1
        assert q.counts().expired == 1

    def test_that_ran_out_leaves_the_job_due_at_once(self, q: Queue, clock: StoreClock) -> None:
        pushed = q.push({})
        q.reserve(lease=10)
        clock.advance(11)
        context_of(q).store.recover()
        job = q.get(pushed.id)
        assert job is not None
        assert (job.state, job.run_at, job.worker) == (JobState.READY, pushed.run_at, None)

    def test_pop_takes_back_what_ran_out(self, q: Queue, clock: StoreClock) -> None:
        pushed = q.push({})
        q.reserve(lease=10)
        clock.advance(11)
        job = q.pop()
        assert job is not None
        assert job.id == pushed.id

    def test_recover_returns_what_it_took_back(self, store: Store, clock: StoreClock) -> None:
        store.push([new_job() for _ in range(5)])
        short, long = claim(store, 3, lease=10.0), claim(store, 2, lease=100.0)
        clock.advance(11)
        first = store.recover(limit=2)
        rest = store.recover()
        assert (len(first), len(rest)) == (2, 1)
        assert {row.id for row in first + rest} == {row.id for row in short}
        assert {row.state for row in first + rest} == {"queued"}
        assert store.recover() == []
        assert {row_of(store, row.id).state for row in long} == {"running"}

    def test_one_that_was_given_back_in_time_is_not_taken_back_again(self, q: Queue, clock: StoreClock) -> None:
        q.push({})
        q.reserve(lease=10)[0].rollback(delay=0)
        q.reserve(lease=100)
        clock.advance(11)
        assert context_of(q).store.recover() == []
        assert q.counts().expired == 0

    def test_a_job_of_a_worker_has_none_to_run_out(self, store: Store, clock: StoreClock) -> None:
        store.beat([worker("w")])
        store.push([new_job()])
        (row,) = claim(store, worker="w")
        assert row.lease_until is None
        assert store.settle([Extend(row.lease, 1.0)]) == [JobState.RUNNING]
        clock.advance(20)
        store.beat([worker("w")])
        clock.advance(20)
        assert store.recover() == []
        assert store.settle([Commit(row.lease)]) == [JobState.DONE]


class TestRepeatedClaim:
    def test_gives_what_the_token_holds_already(self, store: Store) -> None:
        store.push([new_job() for _ in range(5)])
        wish = Claim(QUEUE, 2, "token-of-a-lost-answer", lease=30)
        first = store.claim(wish).rows
        again = store.claim(wish._replace(repeat=True)).rows
        assert [row.id for row in again] == [row.id for row in first]
        assert [row.attempts for row in again] == [1, 1]
        assert sizes_of(store, QUEUE).running == 2

    def test_claims_when_the_first_never_arrived(self, store: Store) -> None:
        store.push([new_job() for _ in range(5)])
        rows = store.claim(Claim(QUEUE, 2, "token-of-a-lost-call", lease=30, repeat=True)).rows
        assert len(rows) == 2

    def test_with_limit_0_gives_what_is_held_and_reserves_nothing(self, store: Store) -> None:
        look = Claim(QUEUE, 0, "token-of-a-lost-answer", worker="w", repeat=True)
        assert store.claim(look) == Claimed([])
        store.push([new_job() for _ in range(2)])
        assert store.claim(look) == Claimed([])
        (row,) = store.claim(look._replace(limit=1)).rows
        assert [held.id for held in store.claim(look).rows] == [row.id]
        store.configure(QUEUE, {"max_rate": 100.0, "max_running": 5})
        assert store.claim(look._replace(token="another")).rows == []
        assert counts_of(store, QUEUE).reserved == 1


class TestRepeatedOutcome:
    """A caller repeats a call whose reply was lost; the repeat returns the effect of the first call, and adds none."""

    @pytest.mark.parametrize(
        ("outcome", "state"),
        [
            (lambda lease: Commit(lease, '"done"'), JobState.DONE),
            (lambda lease: Rollback(lease, 60.0, "failed"), JobState.SCHEDULED),
            (lambda lease: Move(lease, "elsewhere"), JobState.READY),
            (lambda lease: Bury(lease, "broken"), JobState.DEAD),
            (lambda lease: Abandon(lease), JobState.CANCELLED),
        ],
        ids=["commit", "rollback", "move", "bury", "abandon"],
    )
    def test_is_known_again(self, store: Store, outcome: Callable[[Lease], Outcome], state: JobState) -> None:
        store.push([new_job()])
        (row,) = claim(store)
        said = outcome(row.lease)
        assert store.settle([said]) == [state]
        before, counts = store.fetch([row.id]), counts_of(store, QUEUE)
        assert store.settle([said], repeat=True) == [state]
        assert (store.fetch([row.id]), counts_of(store, QUEUE)) == (before, counts)
        assert store.settle([said]) == [None]

    def test_that_never_arrived_is_carried_out(self, store: Store) -> None:
        store.push([new_job()])
        (row,) = claim(store)
        assert store.settle([Commit(row.lease)], repeat=True) == [JobState.DONE]

    def test_of_another_reservation_is_refused(self, store: Store, clock: StoreClock) -> None:
        store.push([new_job()])
        (late,) = claim(store, lease=10.0)
        clock.advance(100)
        claim(store)
        assert store.settle([Commit(late.lease)], repeat=True) == [None]

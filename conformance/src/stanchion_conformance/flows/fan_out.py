"""A job that continues as several others, in one step; and the headers that a move may set."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from stanchion.core.ids import new_ids
from stanchion.errors import CannotJoin
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRow, JobState, NewJob
from stanchion.stores.records.outcomes import Commit, Move, Outcome, Rollback
from stanchion.stores.records.queues import Counts
from stanchion.stores.rules.capacity.limits import Limits, limits_text
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
    state,
    transaction,
)

NEXT, OTHER = "next", "other"
LONG = 20.0
"""Seconds that no wait takes here, unless its wake-up was lost."""


@pytest.fixture
def parent(store: Store) -> JobRow:
    """A running job."""
    store.push([new_job('"parent"')])
    return claim(store)[0]


def into(row: JobRow, *jobs: NewJob, **fields: Any) -> Commit:
    """Return the outcome by which a job continues as others."""
    return Commit(row.lease, jobs=jobs, **fields)


def all_of(store: Store, queue: str) -> list[JobRow]:
    """Claim all that is due in a queue."""
    return claim(store, 1000, queue=queue)


class TestFanOut:
    def test_stores_the_jobs_in_their_queues_and_ends_the_job(self, store: Store, parent: JobRow) -> None:
        children = [new_job("1", queue=NEXT), new_job("2", queue=OTHER), new_job("3", queue=NEXT), new_job("4")]
        assert store.settle([into(parent, *children)]) == [JobState.DONE]
        done = row_of(store, parent.id)
        assert (done.state, done.result, done.payload) == ("done", None, '"parent"')
        assert [(row.id, row.payload) for row in all_of(store, NEXT)] == [
            (children[0].id, "1"),
            (children[2].id, "3"),
        ]
        assert [row.id for row in all_of(store, OTHER)] == [children[1].id]
        assert [row.id for row in all_of(store, QUEUE)] == [children[3].id]

    def test_counts_as_moved_there_and_as_pushed_here(self, store: Store, parent: JobRow) -> None:
        store.settle([into(parent, new_job(queue=NEXT), new_job(queue=NEXT), new_job(queue=OTHER))])
        assert counts_of(store, QUEUE) == Counts(pushed=1, reserved=1, moved=1)
        assert counts_of(store, NEXT) == Counts(pushed=2)
        assert counts_of(store, OTHER) == Counts(pushed=1)

    def test_makes_the_queues(self, store: Store, parent: JobRow) -> None:
        store.settle([into(parent, new_job(queue=NEXT))])
        assert [settings.name for settings in store.queues()] == [NEXT, QUEUE]

    def test_keeps_what_is_said_of_each_job(self, store: Store, parent: JobRow) -> None:
        child = NewJob(
            *(new_ids(1)[0], NEXT, '{"a": "ü"}'),
            task="work",
            priority=7,
            delay=60.0,
            headers='{"x":1}',
            tenant="acme",
            key="k",
            order_key="o",
            limits=limits_text(Limits(("s",))),
            max_attempts=3,
            timeout=9.5,
            origin=parent.id,
            enqueued_at=parent.enqueued_at,
        )
        store.settle([into(parent, child)])
        row = row_of(store, child.id)
        for name in set(NewJob._fields) & set(JobRow._fields) - {"run_at"}:
            assert getattr(row, name) == getattr(child, name), name
        assert seconds_until(store, row.run_at) == about(60)

    def test_may_replace_the_payload_of_what_has_ended(self, store: Store, parent: JobRow) -> None:
        store.settle([into(parent, new_job(queue=NEXT), payload='"seen"')])
        assert row_of(store, parent.id).payload == '"seen"'

    def test_stores_nothing_when_the_lease_is_lost(self, store: Store, clock: StoreClock) -> None:
        store.push([new_job()])
        (late,) = claim(store, lease=10)
        clock.advance(11)
        (again,) = claim(store)
        child = new_job(queue=NEXT)
        assert store.settle([into(late, child), into(again._replace(token="other"), child)]) == [None, None]
        assert store.fetch([child.id]) == {}
        assert sizes_of(store, NEXT).total == 0
        assert store.settle([into(again, child)]) == [JobState.DONE]
        assert [row.id for row in all_of(store, NEXT)] == [child.id]

    def test_a_repeat_stores_each_once(self, store: Store, other_store: Store, parent: JobRow) -> None:
        outcome = into(parent, new_job(queue=NEXT), new_job(queue=OTHER))
        assert store.settle([outcome]) == [JobState.DONE]
        assert other_store.settle([outcome], repeat=True) == [JobState.DONE]
        assert other_store.settle([outcome]) == [None]
        first = all_of(store, NEXT)
        assert store.settle([Commit(row.lease) for row in first]) == [JobState.DONE]
        assert other_store.settle([outcome], repeat=True) == [JobState.DONE]
        assert (sizes_of(store, NEXT).total, sizes_of(store, OTHER).total) == (0, 1)
        assert (counts_of(store, NEXT).pushed, counts_of(store, OTHER).pushed) == (1, 1)
        assert counts_of(store, QUEUE).moved == 1

    def test_a_repeat_of_what_was_never_done_does_it(self, store: Store, parent: JobRow) -> None:
        assert store.settle([into(parent, new_job(queue=NEXT))], repeat=True) == [JobState.DONE]
        assert sizes_of(store, NEXT).ready == 1

    def test_one_that_was_asked_to_stop_is_cancelled(self, store: Store, parent: JobRow) -> None:
        assert store.cancel([parent.id]) == [JobState.RUNNING]
        child = new_job(queue=NEXT)
        assert store.settle([into(parent, child)]) == [JobState.CANCELLED]
        assert store.fetch([child.id]) == {}
        assert (counts_of(store, QUEUE).cancelled, counts_of(store, QUEUE).moved) == (1, 0)

    def test_in_a_batch_with_others(self, store: Store) -> None:
        store.push([new_job(str(number)) for number in range(6)])
        rows = claim(store, 6)
        children = [new_job(queue=NEXT) for _ in range(4)]
        outcomes: list[Outcome] = [
            Commit(rows[0].lease, result="1"),
            into(rows[1], *children[:2]),
            Commit(rows[2].lease._replace(token="other"), jobs=(new_job(queue=NEXT),)),
            Move(rows[3].lease, OTHER),
            into(rows[4], *children[2:]),
            Rollback(rows[5].lease, 60.0),
        ]
        assert store.settle(outcomes) == [
            *(JobState.DONE, JobState.DONE, None),
            *(JobState.READY, JobState.DONE, JobState.SCHEDULED),
        ]
        assert [row.id for row in all_of(store, NEXT)] == [child.id for child in children]
        counts = counts_of(store, QUEUE)
        assert (counts.committed, counts.moved, counts.rolled_back) == (1, 3, 1)

    def test_of_many_jobs_into_many(self, store: Store) -> None:
        store.push([new_job() for _ in range(200)])
        rows = claim(store, 200)
        assert store.settle([into(row, *(new_job(queue=NEXT) for _ in range(10))) for row in rows]) == (
            [JobState.DONE] * 200
        )
        assert sizes_of(store, NEXT).ready == 2000
        assert counts_of(store, NEXT).pushed == 2000

    def test_a_key_that_is_taken_harms_nothing(self, store: Store) -> None:
        holder = new_job("1", queue=NEXT, key="k")
        store.push([holder, new_job("2"), new_job("3")])
        first, second = claim(store, 2)
        children = [
            new_job("10", queue=NEXT, key="k"),
            new_job("11", queue=NEXT, key="k", on_duplicate="raise"),
            new_job("12", queue=NEXT, key="new"),
            new_job("13", queue=NEXT, key="new", on_duplicate="raise"),
        ]
        assert store.settle([into(first, *children), into(second, new_job("14", queue=NEXT))]) == [JobState.DONE] * 2
        assert sorted(row.payload for row in all_of(store, NEXT)) == ["1", "12", "14"]
        assert counts_of(store, NEXT).pushed == 3

    def test_a_key_may_be_replaced(self, store: Store, parent: JobRow) -> None:
        holder = new_job("1", queue=NEXT, key="k")
        store.push([holder])
        store.settle([into(parent, new_job("2", queue=NEXT, key="k", on_duplicate="replace"))])
        assert [(row.id, row.payload) for row in all_of(store, NEXT)] == [(holder.id, "2")]

    def test_the_key_of_the_job_itself_is_free_for_one_of_them(self, store: Store) -> None:
        store.push([new_job("1", key="k")])
        (row,) = claim(store)
        child = new_job("2", key="k")
        assert store.settle([into(row, child)]) == [JobState.DONE]
        assert [row.id for row in claim(store, 9)] == [child.id]

    def test_frees_what_the_job_held(self, store: Store) -> None:
        store.set_semaphore("slot", 1)
        limits = limits_text(Limits(("slot",)))
        store.push([new_job(limits=limits), new_job(limits=limits), new_job(order_key="o"), new_job(order_key="o")])
        rows = claim(store, 9)
        assert len(rows) == 2
        assert store.settle([into(row, new_job(queue=NEXT)) for row in rows]) == [JobState.DONE] * 2
        assert len(claim(store, 9)) == 2
        assert sizes_of(store, NEXT).ready == 2

    def test_into_lanes(self, store: Store, parent: JobRow) -> None:
        store.configure(NEXT, {"lanes": 2, "uses_lanes": True})
        store.settle([into(parent, *(new_job(queue=NEXT, lane=lane) for lane in (1, 1, 1, 2)))])
        assert [row.lane for row in all_of(store, NEXT)] == [1, 2, 1, 1]

    def test_where_no_history_is_kept(self, store: Store) -> None:
        store.configure(QUEUE, {"history_ttl": 0.0})
        store.push([new_job()])
        (row,) = claim(store)
        assert store.settle([into(row, new_job(queue=NEXT))]) == [JobState.DONE]
        assert store.fetch([row.id]) == {}
        assert sizes_of(store, NEXT).ready == 1

    def test_wakes_those_who_wait_there(self, store: Store, parent: JobRow) -> None:
        listener = store.listen([NEXT])
        try:
            while listener.wait(0.2):
                pass
            store.settle([into(parent, new_job(queue=NEXT))])
            assert listener.wait(LONG)
        finally:
            listener.close()


class TestHeadersOfAMove:
    def test_are_replaced(self, store: Store) -> None:
        store.push([new_job(headers='{"a":1}')])
        (row,) = claim(store)
        store.settle([Move(row.lease, NEXT, headers='{"b":2}')])
        assert row_of(store, row.id).headers == '{"b":2}'

    def test_stay_as_they_are_for_none(self, store: Store) -> None:
        store.push([new_job(headers='{"a":1}'), new_job()])
        for row in claim(store, 2):
            store.settle([Move(row.lease, NEXT, payload="1")])
        assert [row.headers for row in store.claim(Claim(NEXT, 2, "t")).rows] == ['{"a":1}', None]

    def test_may_come_to_a_job_that_had_none(self, store: Store) -> None:
        store.push([new_job()])
        (row,) = claim(store)
        store.settle([Move(row.lease, NEXT, headers='{"way":[["a",1,2]]}')])
        assert row_of(store, row.id).headers == '{"way":[["a",1,2]]}'


class TestFanOutInTransactions:
    def test_lives_and_dies_with_the_caller_s_transaction(self, store: Store, parent: JobRow) -> None:
        child = new_job(queue=NEXT)
        if not store.capabilities.joins_transactions:
            with pytest.raises(CannotJoin):
                store.settle([into(parent, child)], object())
            assert state(store, parent.id) is JobState.RUNNING
            return
        with suppress(ZeroDivisionError), transaction(store) as tx:
            assert store.settle([into(parent, child)], tx) == [JobState.DONE]
            raise ZeroDivisionError
        assert state(store, parent.id) is JobState.RUNNING
        assert store.fetch([child.id]) == {}
        assert counts_of(store, NEXT) == Counts()
        with transaction(store) as tx:
            assert store.settle([into(parent, child)], tx) == [JobState.DONE]
        assert state(store, parent.id) is JobState.DONE
        assert [row.id for row in all_of(store, NEXT)] == [child.id]

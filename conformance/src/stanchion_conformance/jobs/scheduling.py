"""The time when a job is due, by the store's clock."""

from __future__ import annotations

import datetime as datetime_module
import sys
import time
from datetime import UTC, datetime, timedelta, timezone

import pytest

from stanchion import JobState, Push, Queue
from stanchion.app import app_of
from stanchion.context import context_of
from stanchion.core import ids
from stanchion.core.times import micros, moment
from stanchion.errors import LeaseLost
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND
from stanchion_conformance.harness import (
    StoreClock,
    about,
    claim,
    due_of,
    new_job,
    row_of,
    seconds_until,
    state,
    worker,
)

HOUR = 3600


class TestDue:
    def test_after_its_delay(self, q: Queue, store: Store, clock: StoreClock) -> None:
        pushed = q.push({}, delay=60)
        assert pushed.state is JobState.SCHEDULED
        assert seconds_until(store, row_of(store, pushed.id).run_at) == about(60)
        clock.advance(50)
        assert (state(store, pushed.id), q.reserve()) == (JobState.SCHEDULED, [])
        clock.advance(11)
        assert state(store, pushed.id) is JobState.READY
        assert len(q.reserve()) == 1

    @pytest.mark.parametrize("delay", [0.05, timedelta(milliseconds=50)])
    def test_delays_may_be_short(self, q: Queue, delay: float | timedelta) -> None:
        pushed = q.push({}, delay=delay)
        assert (pushed.run_at - pushed.enqueued_at) == timedelta(milliseconds=50)
        (job,) = q.reserve(wait=10)
        assert job.pickup_delay is not None
        assert job.pickup_delay >= 0

    def test_at_its_run_at(self, q: Queue, store: Store, clock: StoreClock) -> None:
        at = moment(store.now() + 100 * SECOND)
        pushed = q.push({}, run_at=at)
        job = q.get(pushed.id)
        assert job is not None
        assert job.run_at == pushed.run_at == at
        clock.advance(90)
        assert q.reserve() == []
        clock.advance(11)
        assert len(q.reserve()) == 1

    def test_run_at_is_kept_to_the_microsecond_in_any_zone(self, q: Queue) -> None:
        at = datetime(2100, 2, 28, 23, 59, 59, 123457, tzinfo=timezone(timedelta(hours=5, minutes=45)))
        pushed = q.push({}, run_at=at)
        job = q.get(pushed.id)
        assert job is not None
        assert job.run_at == at
        assert job.run_at.tzinfo is UTC

    def test_in_the_past_is_due_now_and_keeps_its_place(self, q: Queue) -> None:
        q.push("now")
        past = q.push("past", run_at=datetime(2001, 1, 1, tzinfo=UTC))
        assert past.state is JobState.READY
        assert [job.payload for job in q.reserve(2)] == ["past", "now"]

    def test_due_means_not_later_than_now(self, store: Store) -> None:
        for _ in range(50):
            store.push([new_job(run_at=store.now())])
            assert len(claim(store)) == 1

    def test_delays_count_from_the_store_s_now(self, store: Store, clock: StoreClock) -> None:
        clock.advance(1000)
        job = new_job(delay=60.0)
        (pushed,) = store.push([job])
        assert seconds_until(store, pushed.enqueued_at) == about(0)
        assert pushed.run_at - pushed.enqueued_at == 60 * SECOND


class TestNextDue:
    def test_is_the_earliest_of_the_unreserved_jobs(self, q: Queue, store: Store) -> None:
        assert q.next_due() is None
        far = q.push_many([Push(1, delay=500), Push(2, delay=100, priority=-5), Push(3, delay=300, priority=5)])
        assert q.next_due() == far[1].run_at
        near = q.push(4, priority=-100)
        assert q.next_due() == near.run_at
        q.reserve()
        assert q.next_due() == far[1].run_at
        q.cancel(far[1].id)
        assert q.next_due() == far[2].run_at
        assert due_of(store, "elsewhere") is None

    def test_is_the_end_of_a_lease_that_has_expired(self, q: Queue, store: Store, clock: StoreClock) -> None:
        q.push_many([1, 2])
        (first,), (_,) = q.reserve(lease=10), q.reserve(lease=100)
        assert q.next_due() is None
        ends = row_of(store, first.id).lease_until
        clock.advance(11)
        assert due_of(store, q.name) == ends
        later = q.push(3)
        assert due_of(store, q.name) == ends
        assert due_of(store, "elsewhere") is None
        assert {job.id for job in q.reserve(2)} == {first.id, later.id}
        assert q.next_due() is None

    def test_of_several_queues(self, q: Queue, store: Store) -> None:
        q.push(1, delay=500)
        other = app_of(context_of(q)).queue("other").push(1, delay=100)
        stats = store.stats([q.name, "other", "nowhere"], ["next_due"])
        assert {queue: one.next_due for queue, one in stats.items()} == {
            q.name: due_of(store, q.name),
            "other": micros(other.run_at),
            "nowhere": None,
        }
        assert due_of(store, q.name) != micros(other.run_at)


@pytest.fixture(params=[HOUR, -HOUR], ids=["ahead", "behind"])
def wrong_clock(request: pytest.FixtureRequest, store: Store, monkeypatch: pytest.MonkeyPatch) -> int:
    """Set only the clock of this process wrong by an hour; return the time of the store's clock before."""
    offset: int = request.param
    before = store.now()
    true_time, true_time_ns, true_datetime = time.time, time.time_ns, datetime

    class Kind(type(datetime)):  # type: ignore[misc]
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, true_datetime)

    class WrongDatetime(datetime, metaclass=Kind):
        @classmethod
        def now(cls, tz: datetime_module.tzinfo | None = None) -> WrongDatetime:
            return cls.fromtimestamp(true_time() + offset, tz)

    monkeypatch.setattr(time, "time", lambda: true_time() + offset)
    monkeypatch.setattr(time, "time_ns", lambda: true_time_ns() + offset * 10**9)
    monkeypatch.setattr(ids, "_last", ids._last)  # ids never go back: those of later tests would stay ahead
    monkeypatch.setattr(datetime_module, "datetime", WrongDatetime)
    for name, module in list(sys.modules.items()):
        if name.startswith("stanchion.") and getattr(module, "datetime", None) is true_datetime:
            monkeypatch.setattr(module, "datetime", WrongDatetime)
    return before


@pytest.mark.usefixtures("wrong_clock")
class TestAWrongClockOfTheClient:
    def test_is_not_the_store_s(self, store: Store, wrong_clock: int) -> None:
        assert seconds_until(store, wrong_clock) == about(0)

    def test_holds_up_no_job(self, q: Queue) -> None:
        assert q.push({}).state is JobState.READY
        assert len(q.reserve()) == 1

    def test_fires_no_job_early_or_late(self, q: Queue, clock: StoreClock) -> None:
        assert q.push({}, delay=60).state is JobState.SCHEDULED
        assert q.reserve() == []
        assert q.pop() is None
        clock.advance(50)
        assert q.reserve() == []
        clock.advance(11)
        assert len(q.reserve()) == 1

    def test_does_not_change_run_at(self, q: Queue, store: Store, clock: StoreClock) -> None:
        at = moment(store.now() + 60 * SECOND)
        q.push({}, run_at=at)
        clock.advance(50)
        assert q.reserve() == []
        clock.advance(11)
        (job,) = q.reserve()
        assert job.run_at == at

    def test_does_not_change_the_delay_of_a_retry(self, q: Queue, clock: StoreClock) -> None:
        q.push({})
        q.reserve()[0].rollback(delay=60)
        clock.advance(50)
        assert q.reserve() == []
        clock.advance(11)
        assert len(q.reserve()) == 1

    def test_does_not_change_that_of_a_move(self, q: Queue, clock: StoreClock) -> None:
        target = app_of(context_of(q)).queue("next")
        q.push({})
        q.reserve()[0].move("next", delay=60)
        clock.advance(50)
        assert target.reserve() == []
        clock.advance(11)
        assert len(target.reserve()) == 1

    def test_ends_no_lease_early_or_late(self, q: Queue, clock: StoreClock) -> None:
        q.push({})
        (job,) = q.reserve(lease=60)
        clock.advance(50)
        assert q.reserve() == []
        job.extend(60)
        clock.advance(50)
        assert context_of(q).store.recover() == []
        clock.advance(11)
        with pytest.raises(LeaseLost):
            job.commit()
        assert len(q.reserve()) == 1

    def test_kills_no_worker(self, store: Store, clock: StoreClock) -> None:
        store.beat([worker("w")])
        store.push([new_job()])
        claim(store, worker="w")
        clock.advance(25)
        assert store.beat([worker("v")]).live == 2
        assert store.recover() == []
        clock.advance(6)
        assert len(store.recover()) == 1

    def test_purges_nothing_early(self, q: Queue, clock: StoreClock) -> None:
        q.configure(history_ttl=60)
        q.push({})
        q.pop()
        clock.advance(50)
        assert q.purge_history() == 0
        clock.advance(11)
        assert q.purge_history() == 1

    def test_shows_in_no_stored_time(self, q: Queue, store: Store) -> None:
        q.push({})
        (job,) = q.reserve()
        job.commit()
        row = row_of(store, job.id)
        for stored in (row.enqueued_at, row.run_at, row.started_at, row.finished_at):
            assert stored is not None
            assert seconds_until(store, stored) == about(0)
        assert job.pickup_delay is not None
        assert 0 <= job.pickup_delay < 10

"""Keyed rates: a bound on the starts per second of all jobs that share a key, across all claimers."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion import Push, Queue, Stanchion
from stanchion.context import context_of
from stanchion.core.ids import new_id
from stanchion.errors import InvalidInput
from stanchion.jobs.lookup import push_copies
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import SECOND, JobRow, JobState, NewJob
from stanchion.stores.records.outcomes import Rollback
from stanchion.stores.rules.capacity.limits import Limits, Rate, limits_in
from stanchion.waits.pop import pop
from stanchion_conformance.harness import (
    QUEUE,
    StoreClock,
    all_at_once,
    claim,
    counts_of,
    due_of,
    new_job,
    row_of,
    seconds_until,
    sizes_of,
    slot_of,
    state,
)
from stanchion_conformance.limits.semaphores import SMTP, commit, limited, push, settle, took, took_at_last, usage
from stanchion_conformance.operate.wakeup import LONG, SOON, Counting

SLOW = Rate("welcome/acme", 0.01)
"""One start in 100 seconds."""

IN_TIME = 45_000
"""Microseconds by which a start may come late, and those behind it keep their times and their order."""


def rated(rate: Rate = SLOW, **fields: Any) -> NewJob:
    """Return a job that shares a rate."""
    return limited(rate=rate, **fields)


class TestKeyedRates:
    """Each has a bucket like that of a queue's max_rate: a tenth of a second's worth of jobs, at least one."""

    def test_one_job_and_then_one_per_interval(self, store: Store, clock: StoreClock) -> None:
        ids = push(store, *(rated() for _ in range(4)))
        served = []
        for _ in range(4):
            served += took(store, 4)
            assert took(store, 4) == []
            clock.advance(90)
            assert took(store, 4) == []
            clock.advance(10.5)
        assert served == ids, "first come, first served"

    def test_others_are_postponed_one_behind_the_other(self, store: Store) -> None:
        ids = push(store, *(rated() for _ in range(4)))
        (row,) = claim(store, 4)
        assert row.id == ids[0]
        waits = [seconds_until(store, row_of(store, job).run_at) for job in ids[1:]]
        for wait, expected in zip(waits, (100, 200, 300), strict=True):
            assert expected - 10 < wait <= expected + 0.001
        assert {state(store, job) for job in ids[1:]} == {JobState.SCHEDULED}
        due = due_of(store, QUEUE)
        assert due is not None
        assert 90 < seconds_until(store, due) <= 100.001

    def test_a_postponed_job_was_not_delivered(self, store: Store) -> None:
        _, second = push(store, rated(), rated())
        claim(store, 2)
        row = row_of(store, second)
        assert (row.attempts, row.failures, row.started_at, row.token, row.slots_held) == (0, 0, None, None, 0)
        assert counts_of(store, QUEUE).reserved == 1
        assert counts_of(store, QUEUE).rolled_back == 0

    def test_keys_are_independent(self, store: Store) -> None:
        ids = push(store, rated(), rated(Rate("welcome/ajax", 0.01)), rated(), new_job(priority=-5))
        assert took(store, 4) == [ids[0], ids[1], ids[3]]

    def test_queues_and_processes_drink_from_one_bucket(
        self, store: Store, other_store: Store, clock: StoreClock
    ) -> None:
        push(store, rated())
        there = push(store, rated(queue="other"))
        assert len(claim(store)) == 1
        assert took(other_store, queue="other") == []
        clock.advance(101)
        assert took(other_store, queue="other") == there

    def test_idle_time_saves_up_no_more_than_the_bucket_holds(self, store: Store, clock: StoreClock) -> None:
        push(store, rated())
        claim(store)
        clock.advance(10_000)
        push(store, *(rated() for _ in range(5)))
        assert len(claim(store, 5)) == 1

    def test_the_bucket_of_a_fast_one(self, store: Store, clock: StoreClock) -> None:
        fast = Rate("fast", 1000.0)
        assert len(claim(store, len(push(store, *(rated(fast) for _ in range(100)))))) == 100
        clock.advance(1)
        # A slow claim may start more than the bucket holds, as it fills meanwhile. There are enough for each.
        push(store, *(rated(fast) for _ in range(400)))
        began = store.now()
        started = len(claim(store, 400))
        meanwhile = (store.now() - began) / SECOND * 1000.0
        assert 100 <= started <= 102 + meanwhile  # a store's clock may go by the millisecond

    def test_starts_that_come_late_cost_nothing(self, store: Store, clock: StoreClock) -> None:
        for number in range(3):
            rates = [Rate(f"{per_second}/s {number}", per_second) for per_second in (2.0, 5.0, 10.0)]
            ids = {rate: push(store, *(rated(rate) for _ in range(7))) for rate in rates}
            started, in_time = self.started(store, clock)
            for rate in rates:
                at, interval = [started[job] for job in ids[rate]], round(SECOND / rate.per_second)
                assert max(at) - min(at) >= 6 * interval, "never above the rate"
                if in_time:
                    assert at == sorted(at), "in their order"
                    assert at[-1] - at[0] <= 6 * interval + 45_000, "late, but not later each time"
            if in_time:
                break  # else the machine was so slow that starts came later than is made up for

    def started(self, store: Store, clock: StoreClock) -> tuple[dict[str, int], bool]:
        """Work off the queue, always up to 5 ms late; return when each job was started, and whether none was later."""
        started: dict[str, int] = {}
        latest = 0
        for visit in range(1000):
            due = due_of(store, QUEUE)
            if due is None:
                break
            clock.advance(max(0.0, seconds_until(store, due)) + visit % 6 / 1000)
            started |= {row.id: row.started_at or 0 for row in claim(store, 4)}
            latest = max(latest, store.now() - due) if visit else 0
        return started, latest < IN_TIME

    def test_after_a_standstill_they_keep_their_order(self, store: Store, clock: StoreClock) -> None:
        for number in range(3):
            ids = push(store, *(rated(Rate(f"standstill {number}", 0.01)) for _ in range(6)))
            served = took(store, 6)
            clock.advance(250)  # two were promised times that are over: one of them starts, the other is not passed
            served += took(store, 6)
            latest = 0
            for _ in range(50):
                due = due_of(store, QUEUE)
                if due is None:
                    break
                clock.advance(max(0.0, seconds_until(store, due)) + 0.001)
                served += took(store, 6)
                latest = max(latest, store.now() - due)
            assert sorted(served) == sorted(ids)
            if latest < IN_TIME:
                assert served == ids
                break  # else the machine was so slow that starts came later than is made up for

    def test_one_that_is_promised_another_time_is_not_passed(self, store: Store, clock: StoreClock) -> None:
        ids = push(store, *(rated() for _ in range(4)))
        served = took(store, 4)
        clock.advance(250)
        served += took(store, 4)  # the second; the third is promised a time behind that of the fourth
        clock.advance(105)
        served += took(store, 4)  # both return, and the fourth is due before the third
        clock.advance(105)
        assert served + took(store, 4) == ids

    def test_a_job_that_comes_back_in_time_is_not_passed(self, store: Store, clock: StoreClock) -> None:
        ids = push(store, *(rated() for _ in range(3)))
        served = took(store, 3)
        due = due_of(store, QUEUE)
        assert due is not None
        clock.advance(seconds_until(store, due) - 1)
        ids += push(store, rated())  # is due before them
        clock.advance(1.001)
        served += took(store, 4)
        in_time = store.now() - due < IN_TIME  # on a slow machine it is not, and then it may be passed
        for _ in range(2):
            clock.advance(100)
            served += took(store, 4)
        assert served == ids or not in_time

    def test_a_start_that_nobody_takes_is_for_the_next(self, store: Store, clock: StoreClock) -> None:
        ids = push(store, *(rated() for _ in range(3)))
        assert took(store, 3) == ids[:1]
        store.cancel([ids[1]])
        clock.advance(106)
        late = push(store, rated())
        assert took(store, 3) == late

    def test_every_start_counts(self, store: Store, clock: StoreClock) -> None:
        push(store, rated())
        (row,) = claim(store)
        settle(store, Rollback(row.lease, 0.0, error="no"))
        assert took(store) == []
        clock.advance(101)
        (row,) = claim(store)
        assert row.attempts == 2

    def test_of_popped_jobs(self, store: Store, clock: StoreClock) -> None:
        push(store, rated(), rated())
        assert len(pop(store, Claim(QUEUE, 1, new_id())).rows) == 1
        assert pop(store, Claim(QUEUE, 1, new_id())).rows == []
        clock.advance(101)
        assert len(pop(store, Claim(QUEUE, 1, new_id())).rows) == 1

    def test_a_new_rate_holds_from_the_next_start_on(self, store: Store, clock: StoreClock) -> None:
        push(store, rated())
        claim(store)
        push(store, rated(Rate(SLOW.name, 0.1)))
        clock.advance(11)
        assert len(claim(store)) == 1

    def test_copies_keep_it(self, store: Store) -> None:
        (job,) = push(store, rated())
        (row,) = claim(store)
        commit(store, row)
        copy = new_id()
        push_copies(store, [job], [copy])
        assert limits_in(row_of(store, copy).limits) == Limits((), SLOW)
        assert took(store) == []

    def test_thousands_are_in_nobodys_way(self, store: Store) -> None:
        for _ in range(2):
            push(store, *(rated() for _ in range(1000)))
        plain = push(store, new_job(priority=-1))
        assert len(took(store)) == 1
        assert took_at_last(store, 5) == plain
        plain = push(store, new_job())
        assert took(store) == plain
        assert took_at_last(store, 5) == []
        assert sizes_of(store, QUEUE).scheduled == 1999

    def test_holds_for_racing_claimers(self, store: Store, stores: list[Store], clock: StoreClock) -> None:
        ids = push(store, *(rated() for _ in range(30)))
        started: list[JobRow] = []
        for step in range(1, 6):
            all_at_once(
                [lambda one=one: started.extend(claim(one, 3)) for one in stores[:4]]  # type: ignore[misc]
            )
            # Which of them starts is for those who race to settle: that of all who came, not that of the first in line.
            assert len({row.id for row in started} & set(ids)) == len(started) == step
            clock.advance(101)

    def test_a_waiter_does_not_spin(self, store: Store) -> None:
        push(store, rated(), rated(), rated())
        claim(store)
        counting: Any = Counting(store)
        waiting = Stanchion(store=counting, poll=0.2).queue(QUEUE)
        assert waiting.reserve(wait=1.0) == []
        assert 2 <= counting.calls["claim"] <= 12

    def test_a_waiter_comes_when_the_next_may_start(self, store: Store) -> None:
        push(store, rated(Rate("often", 4.0)), rated(Rate("often", 4.0)))
        waiting = Stanchion(store=store, poll=LONG).queue(QUEUE)
        (first,) = waiting.reserve(2)
        (second,) = waiting.reserve(wait=LONG)
        assert first.started_at is not None
        assert second.started_at is not None
        assert 0.2 < (second.started_at - first.started_at).total_seconds() < SOON


class TestRatesAndOtherLimits:
    def test_who_is_postponed_holds_no_slot(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        push(store, rated())
        claim(store)
        postponed, other = push(store, limited(SMTP, rate=SLOW, priority=1), limited(SMTP))
        assert took(store, 2) == [other]
        assert usage(store) == (1, 0)
        assert state(store, postponed) == JobState.SCHEDULED

    def test_who_waits_for_a_slot_spends_nothing(self, store: Store) -> None:
        store.set_semaphore(SMTP, 0)
        parked, other = push(store, limited(SMTP, rate=SLOW), rated())
        assert took(store, 2) == [other]
        assert state(store, parked) == JobState.WAITING

    def test_who_may_not_use_his_slot_passes_it_on(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        _, granted, third = push(store, limited(SMTP), limited(SMTP, rate=SLOW), limited(SMTP))
        (row,) = claim(store, 3)
        push(store, rated(priority=9))
        assert len(claim(store)) == 1
        commit(store, row)
        assert slot_of(store, SMTP) == ([granted], [third])
        rows = claim(store, 3) or claim(store, 3)
        assert [row.id for row in rows] == [third]
        assert (state(store, granted), row_of(store, granted).priority) == (JobState.SCHEDULED, 0)
        assert usage(store) == (1, 0)

    def test_the_first_of_an_order_key_is_waited_for(self, store: Store, clock: StoreClock) -> None:
        push(store, rated())
        claim(store)
        first, second = push(store, rated(order_key="k"), new_job(order_key="k"))
        assert took(store, 2) == []
        assert state(store, second) == JobState.WAITING
        clock.advance(101)
        (row,) = claim(store, 2)
        assert row.id == first
        commit(store, row)
        assert took(store, 2) == [second]

    def test_beside_the_rate_of_the_queue(self, store: Store) -> None:
        store.configure(QUEUE, {"max_rate": 0.001})
        push(store, rated(), rated(Rate("other", 1.0)))
        assert len(claim(store, 2)) == 1
        assert took(store, 2) == []


class TestRatesOfTheModel:
    def rate(self, app: Stanchion, **options: Any) -> Rate | None:
        """Return the rate of a job that is enqueued with these options."""

        def welcome() -> None: ...

        task = app.tasks.get("welcome") or app.task(name="welcome", queue=QUEUE)(welcome)
        handle = task.using(**options).enqueue()
        return limits_in(row_of(app.store, handle.id).limits).rate

    @pytest.mark.parametrize(
        ("given", "per_second"),
        [("20/s", 20), (5, 5), (0.5, 0.5), ("120/m", 2), ("1800 / h", 0.5), ("8640/d", 0.1), ("1.5/s", 1.5)],
    )
    def test_ways_to_say_it(self, app: Stanchion, given: Any, per_second: float) -> None:
        rate = self.rate(app, rate=given)
        assert rate is not None
        assert rate.name == "task:welcome"
        assert rate.per_second == pytest.approx(per_second)

    @pytest.mark.parametrize("rate", ["fast", "20", "20/x", "-1/s", "0/s", 0, -1, True, float("nan"), 1e9, [1]])
    def test_what_is_none(self, app: Stanchion, rate: Any) -> None:
        with pytest.raises(InvalidInput, match="rate must be"):
            self.rate(app, rate=rate)

    def test_who_shares_it(self, app: Stanchion, q: Queue) -> None:
        by_tenant = self.rate(app, rate=1, rate_by="tenant", tenant="acme")
        assert by_tenant == self.rate(app, rate=1, rate_by="tenant", tenant="acme")
        names = [
            self.rate(app, rate=1),
            by_tenant,
            self.rate(app, rate=1, rate_by="tenant", tenant="ajax"),
            self.rate(app, rate=1, rate_by="tenant"),
            self.rate(app, rate=1, rate_by="queue"),
            self.rate(app, rate=1, rate_key="welcome"),
        ]
        assert len(set(names)) == 6
        assert self.rate(app, rate=1, rate_by="task") == self.rate(app, rate=1, tenant="acme") == names[0]
        pushed = q.push(1, rate=1, tenant="acme")
        assert limits_in(row_of(app.store, pushed.id).limits).rate == names[4]

    def test_the_longest_names(self, app: Stanchion, store: Store) -> None:
        task = app.task(name="x" * 200, queue=QUEUE)(lambda: None)
        task.using(rate=0.01, rate_by="tenant", tenant="y" * 200).enqueue()
        task.using(rate=0.01, rate_by="tenant", tenant="y" * 200).enqueue()
        assert len(claim(store, 2)) == 1

    def test_of_a_task_and_without_it(self, app: Stanchion) -> None:
        task = app.task(name="often", queue=QUEUE, rate="10/s", rate_by="tenant")(lambda: None)
        handle = task.using(rate=None).enqueue()
        assert row_of(app.store, handle.id).limits is None

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"rate_by": "tenant"}, "give the rate too"),
            ({"rate_key": "k"}, "give the rate too"),
            ({"rate": 1, "rate_by": "colour"}, "rate_by must be one of"),
            ({"rate": 1, "rate_key": ""}, "rate_key must be"),
            ({"rate": 1, "rate_by": "tenant", "rate_key": "k"}, "not both"),
        ],
    )
    def test_what_does_not_go_together(self, q: Queue, options: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            q.push_many([Push(1, **options)])

    def test_due_times_are_those_of_the_store(self, q: Queue) -> None:
        q.push_many([Push(number, rate="36/h") for number in range(2)])
        assert len(q.reserve(2)) == 1
        due = q.next_due()
        assert due is not None
        assert 90 < due.timestamp() - context_of(q).store.now() / SECOND <= 100.001

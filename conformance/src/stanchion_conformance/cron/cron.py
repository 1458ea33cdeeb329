"""Schedules: one job for each tick, whatever the number of processes that fire it."""

from __future__ import annotations

from functools import partial

import pytest

from stanchion import Stanchion
from stanchion.app import tick
from stanchion.context import context_of
from stanchion.cron.plan import KIND
from stanchion.cron.ticker import Ticker
from stanchion_conformance.cron.schedules import QUEUE, Calendar, declare, ticks
from stanchion_conformance.harness import NewStore, all_at_once

SCHEDULERS = 10


class TestTicks:
    def test_each_makes_one_job(self, app: Stanchion, calendar: Calendar) -> None:
        declare(app, args=[7], kwargs={"lang": "fr"}, priority=30, headers={"by": "me"}, max_attempts=3)
        for hour in (13, 14):
            calendar.go(minutes=59)
            assert tick(app) == 0
            calendar.go(minutes=1)
            assert tick(app) == 1
            assert tick(app) == 0
            (job, *_) = app.find(queue=QUEUE)
            assert job.headers == {"by": "me", "x-cron": "report", "x-cron-tick": f"2031-05-14T{hour}:00:00+00:00"}
        assert (job.task, job.priority, job.max_attempts) == ("report", 30, 3)
        assert job.payload == {"args": [7], "kwargs": {"lang": "fr"}}
        assert job.state == "ready"
        assert app.drain([QUEUE]) == 2

    def test_of_the_past_make_none(self, app: Stanchion, calendar: Calendar) -> None:
        calendar.go(seconds=1)
        declare(app, missed="all")
        assert tick(app) == 0
        assert ticks(app) == []

    def test_of_many_schedules(self, app: Stanchion, calendar: Calendar) -> None:
        declare(app, schedule="hourly", args=["hour"])
        declare(app, "30 * * * *", schedule="halves", args=["half"])
        for _ in range(4):
            calendar.go(minutes=30)
            assert tick(app) == 1
        assert len(ticks(app, "hourly")) == len(ticks(app, "halves")) == 2
        assert [job.payload["args"][0] for job in app.find(queue=QUEUE)] == ["hour", "half"] * 2

    def test_seen_by_one_scheduler_are_dealt_with_for_all(
        self, app: Stanchion, other_app: Stanchion, calendar: Calendar
    ) -> None:
        for one in (app, other_app):
            declare(one)
        calendar.go(hours=1)
        assert [tick(app), tick(other_app), tick(app)] == [1, 0, 0]

    def test_go_to_the_queue_once_while_their_key_is_taken(self, app: Stanchion, calendar: Calendar) -> None:
        declare(app, key="one at a time")
        for found in (1, 0):
            calendar.go(hours=1)
            assert tick(app) == found
        app.drain([QUEUE])
        calendar.go(hours=1)
        assert tick(app) == 1
        assert len(ticks(app)) == 2

    def test_wait_for_their_delay(self, app: Stanchion, calendar: Calendar) -> None:
        declare(app, delay=90)
        calendar.go(hours=1)
        tick(app)
        assert app.drain([QUEUE]) == 0
        calendar.go(seconds=90)
        assert app.drain([QUEUE]) == 1

    def test_that_can_t_be_enqueued_keep_no_other_schedule_from_its_own(
        self, app: Stanchion, calendar: Calendar
    ) -> None:
        for name in ("a", "b", "c"):
            declare(app, schedule=name)
        (value,) = (value for value in app.store.values(KIND) if value.name == "b")
        app.store.compare_and_set(KIND, "b", "{}", value.version)
        calendar.go(hours=1)
        with pytest.raises(KeyError):
            tick(app)
        assert len(ticks(app, "a")) == len(ticks(app, "c")) == 1


class TestManySchedulers:
    def test_make_one_job_a_tick(self, app: Stanchion, new_store: NewStore, calendar: Calendar) -> None:
        apps = [app, *(Stanchion(store=new_store()) for _ in range(SCHEDULERS - 1))]
        for one in apps:
            declare(one, missed="all")
        tickers = [Ticker(context_of(one)) for one in apps]
        for _ in range(5):
            calendar.go(hours=1)
            all_at_once([ticker.tick for ticker in tickers])
        calendar.go(hours=3)
        all_at_once([ticker.tick for ticker in tickers])
        assert ticks(app) == [f"2031-05-14T{hour}:00" for hour in range(13, 21)]
        assert app.queue(QUEUE).counts().pushed == 8

    def test_begin_it_together(self, app: Stanchion, new_store: NewStore, calendar: Calendar) -> None:
        apps = [app, *(Stanchion(store=new_store()) for _ in range(3))]
        all_at_once([lambda one=one: declare(one) for one in apps])  # type: ignore[misc]
        calendar.go(hours=1)
        all_at_once([partial(tick, one) for one in apps])
        assert ticks(app) == ["2031-05-14T13:00"]

    def test_while_it_is_paused_resumed_and_triggered(
        self, app: Stanchion, other_app: Stanchion, new_store: NewStore, calendar: Calendar
    ) -> None:
        schedule = declare(app)
        declare(other_app)
        operator = Stanchion(store=new_store()).schedule("report")

        def operate() -> None:
            for _ in range(3):
                operator.pause()
                operator.trigger()
                operator.resume()

        calendar.go(minutes=30)
        all_at_once([partial(tick, app), partial(tick, other_app), operate])
        assert not app.schedule("report").paused
        calendar.go(minutes=30)
        assert tick(app) + tick(other_app) == 1
        assert len(app.find(queue=QUEUE)) == 4
        assert schedule.name == "report"

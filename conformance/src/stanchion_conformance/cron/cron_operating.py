"""Schedules that operators and new releases change."""

from __future__ import annotations

import pytest

from stanchion import Stanchion
from stanchion.app import tick
from stanchion.context import context_of
from stanchion.cron.ticker import Ticker
from stanchion.errors import InvalidInput
from stanchion_conformance.cron.schedules import QUEUE, Calendar, Death, declare, dying, plan, report, ticks


class TestOperatingSchedules:
    def test_they_tell_of_themselves(self, app: Stanchion, other_app: Stanchion, calendar: Calendar) -> None:
        declare(app, "0 3 * * *", tz="Europe/Paris", missed="once")
        (schedule,) = other_app.schedules()
        assert (schedule.name, schedule.expression, schedule.tz) == ("report", "0 3 * * *", "Europe/Paris")
        assert (schedule.missed, schedule.task, schedule.queue) == ("once", "report", QUEUE)
        assert (schedule.last, schedule.paused, schedule.declared) == (None, False, True)
        assert [tick.isoformat() for tick in schedule.next(2)] == [
            "2031-05-15T03:00:00+02:00",
            "2031-05-16T03:00:00+02:00",
        ]
        calendar.set("2031-05-15 01:00")
        tick(app)
        last = other_app.schedule("report").last
        assert last is not None
        assert last.isoformat() == "2031-05-15T03:00:00+02:00"
        assert other_app.schedule("report").next()[0].day == 16

    def test_one_that_no_worker_has_seen_is_told_and_can_be_paused(self, app: Stanchion, calendar: Calendar) -> None:
        app.cron("0 * * * *", name="report", queue=QUEUE)(report)
        (schedule,) = app.schedules()
        assert not schedule.declared
        schedule.pause()
        calendar.go(hours=1)
        assert tick(app) == 0
        assert app.schedule("report").declared
        assert app.schedule("report").paused

    def test_its_own_queue_is_served(self, app: Stanchion, calendar: Calendar) -> None:
        task = app.task(name="report", queue="by hand")(report)
        app.cron("0 * * * *", queue=QUEUE)(task)
        tick(app)
        calendar.go(hours=1)
        assert tick(app) == 1
        assert app.drain() == 1
        (job,) = app.find(task="report")
        assert (job.queue, job.state) == (QUEUE, "done")

    def test_a_paused_one_lets_its_ticks_pass(self, app: Stanchion, other_app: Stanchion, calendar: Calendar) -> None:
        schedule = declare(app, missed="all")
        other_app.schedule("report").pause()
        calendar.go(hours=3)
        assert tick(app) == 0
        assert app.schedule("report").paused
        other_app.schedule("report").resume()
        assert tick(app) == 0
        calendar.go(hours=1)
        assert tick(app) == 1
        assert ticks(app) == ["2031-05-14T16:00"]
        assert not schedule.paused

    def test_a_resumed_one_fires_nothing_twice_where_the_clock_was_set_back(
        self, app: Stanchion, calendar: Calendar
    ) -> None:
        schedule = declare(app)
        calendar.go(hours=1)
        assert tick(app) == 1
        schedule.pause()
        calendar.go(minutes=-30)
        schedule.resume()
        calendar.go(minutes=30)
        assert tick(app) == 0

    def test_resuming_one_that_is_not_paused_loses_no_tick(self, app: Stanchion, calendar: Calendar) -> None:
        schedule = declare(app)
        calendar.go(hours=1)
        schedule.resume()
        assert tick(app) == 1

    @pytest.mark.usefixtures("calendar")
    def test_a_triggered_one_enqueues_now(self, app: Stanchion, other_app: Stanchion) -> None:
        declare(app, args=[3]).pause()
        handle = other_app.schedule("report").trigger()
        job = handle.job()
        assert (job.payload, job.queue, job.task) == ({"args": [3]}, QUEUE, "report")
        assert job.headers["x-cron"] == "report"
        assert job.headers["x-cron-triggered"] is True
        assert app.drain([QUEUE]) == 1
        assert app.schedule("report").last is None

    def test_one_that_left_the_code_neither_fires_nor_goes(
        self, app: Stanchion, other_app: Stanchion, calendar: Calendar, caplog: pytest.LogCaptureFixture
    ) -> None:
        declare(app, missed="all")
        calendar.go(hours=1)
        assert tick(other_app) == 0
        assert not other_app.schedule("report").declared
        for _ in range(2):
            tick(other_app)
        (told,) = (record.getMessage() for record in caplog.records if "by any live worker" in record.getMessage())
        assert "stanchion cron remove report" in told
        other_app.schedule("report").remove()
        assert other_app.schedules() == []
        assert ticks(app) == []

    def test_a_live_scheduler_says_so_again_and_again(
        self, app: Stanchion, other_app: Stanchion, calendar: Calendar
    ) -> None:
        declare(app, "0 0 1 1 *")
        for _ in range(10):
            calendar.go(minutes=2)
            tick(app)
            assert other_app.schedule("report").declared
        calendar.go(minutes=4)
        assert not other_app.schedule("report").declared

    def test_removed_from_the_store_it_begins_anew_where_the_code_has_it(
        self, app: Stanchion, calendar: Calendar
    ) -> None:
        schedule = declare(app, missed="all")
        calendar.go(hours=2)
        schedule.remove()
        assert tick(app) == 0
        assert ticks(app) == []
        calendar.go(hours=1)
        assert tick(app) == 1

    def test_after_it_is_removed_and_the_clock_set_back_no_tick_comes_twice(
        self, app: Stanchion, calendar: Calendar
    ) -> None:
        schedule = declare(app)
        calendar.go(hours=1)
        tick(app)
        calendar.go(minutes=-30)
        schedule.remove()
        tick(app)
        calendar.go(minutes=30)
        tick(app)
        assert ticks(app) == ["2031-05-14T13:00"]

    @pytest.mark.usefixtures("calendar")
    def test_unknown_ones_are_refused(self, app: Stanchion, other_app: Stanchion) -> None:
        with pytest.raises(InvalidInput, match="known: none"):
            app.schedule("report")
        declare(app)
        schedule = other_app.schedule("report")
        with pytest.raises(InvalidInput, match="known: report"):
            app.schedule("reprot")
        schedule.remove()
        with pytest.raises(InvalidInput, match="removed"):
            schedule.pause()
        schedule.remove()


class TestANewRelease:
    """`app` has the current code, `other_app` that of the next release."""

    def test_with_other_ticks_begins_them_now(self, app: Stanchion, other_app: Stanchion, calendar: Calendar) -> None:
        declare(app, missed="all")
        calendar.go(hours=2, minutes=15)
        declare(other_app, "*/10 * * * *", missed="all")
        assert ticks(app) == []
        calendar.go(minutes=5)
        assert tick(other_app) == 1
        assert ticks(app) == ["2031-05-14T14:20"]

    def test_is_what_older_processes_go_by(self, app: Stanchion, other_app: Stanchion, calendar: Calendar) -> None:
        declare(app, args=["old"])
        declare(other_app, "30 * * * *", args=["new"])
        for _ in range(4):
            calendar.go(minutes=30)
            tick(app)
        assert ticks(app) == ["2031-05-14T12:30", "2031-05-14T13:30"]
        assert {job.payload["args"][0] for job in app.find(queue=QUEUE)} == {"new"}
        assert tick(other_app) == 0

    def test_with_other_arguments_misses_no_tick(
        self, app: Stanchion, other_app: Stanchion, calendar: Calendar
    ) -> None:
        declare(app, args=["old"])
        calendar.go(hours=1)
        declare(other_app, args=["new"])
        assert [job.payload["args"][0] for job in app.find(queue=QUEUE)] == ["new"]
        assert ticks(app) == ["2031-05-14T13:00"]

    def test_keeps_it_paused(self, app: Stanchion, other_app: Stanchion, calendar: Calendar) -> None:
        declare(app).pause()
        declare(other_app, "*/5 * * * *")
        calendar.go(hours=1)
        assert tick(other_app) == 0
        assert app.schedule("report").paused

    def test_first_sees_to_a_tick_on_its_way(self, app: Stanchion, other_app: Stanchion, calendar: Calendar) -> None:
        declare(app, args=["old"])
        calendar.go(hours=1)
        with pytest.raises(Death):
            Ticker(context_of(dying(app, 1))).tick()
        calendar.go(seconds=10)
        declare(other_app, "*/10 * * * *", args=["new"])
        assert [job.payload["args"][0] for job in app.find(queue=QUEUE)] == ["old"]
        assert plan(app).expression == "*/10 * * * *"

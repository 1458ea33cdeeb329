"""Schedules while the clock jumps: each tick has its job, once."""

from __future__ import annotations

import pytest

from stanchion import Stanchion
from stanchion.app import tick
from stanchion.context import context_of
from stanchion.cron.plan import MOST
from stanchion.cron.ticker import Ticker
from stanchion_conformance.cron.schedules import QUEUE, Calendar, Death, declare, dying, ticks


class TestTheClock:
    def test_set_forth_misses_ticks(self, app: Stanchion, calendar: Calendar) -> None:
        declare(app)
        calendar.go(hours=5, minutes=30)
        assert tick(app) == 0
        calendar.go(minutes=30)
        assert tick(app) == 1
        assert ticks(app) == ["2031-05-14T18:00"]

    def test_set_back_fires_nothing_twice(self, app: Stanchion, other_app: Stanchion, calendar: Calendar) -> None:
        for one in (app, other_app):
            declare(one, missed="all")
        calendar.go(hours=3)
        assert tick(app) == 3
        app.drain([QUEUE])
        calendar.go(hours=-2, minutes=-30)
        for _ in range(5):
            assert tick(app) + tick(other_app) == 0
            calendar.go(minutes=30)
        assert tick(app) == 0
        calendar.go(hours=1)
        assert tick(app) == 1
        assert ticks(app) == [f"2031-05-14T{hour}:00" for hour in (13, 14, 15, 16)]

    def test_set_back_in_the_middle_of_a_tick(self, app: Stanchion, other_app: Stanchion, calendar: Calendar) -> None:
        for one in (app, other_app):
            declare(one)
        calendar.go(hours=1)
        with pytest.raises(Death):
            Ticker(context_of(dying(app, 1))).tick()
        calendar.go(hours=-6)
        assert tick(other_app) == 1
        assert ticks(app) == ["2031-05-14T13:00"]

    def test_that_is_wrong_in_a_client_is_not_asked(
        self, app: Stanchion, calendar: Calendar, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        declare(app)
        calendar.go(minutes=59)
        monkeypatch.setattr("time.time", lambda: 4_000_000_000.0)
        assert tick(app) == 0

    def test_goes_forward_in_spring(self, app: Stanchion, calendar: Calendar) -> None:
        calendar.set("2031-03-29 12:00")  # in Paris, 2:00 to 3:00 is left out on the 30th: 1:00 UTC
        declare(app, "30 2 * * *", schedule="at half past two", tz="Europe/Paris")
        declare(app, "0,30 2 * * *", schedule="twice", tz="Europe/Paris")
        declare(app, "*/30 * * * *", schedule="always", tz="Europe/Paris")
        assert [f"{tick:%d %H:%M}" for tick in app.schedule("twice").next(3)] == ["30 03:00", "31 02:00", "31 02:30"]
        hours(app, calendar, 48)
        assert ticks(app, "at half past two") == ["2031-03-30T01:00", "2031-03-31T00:30"]
        assert ticks(app, "twice") == ["2031-03-30T01:00", "2031-03-31T00:00", "2031-03-31T00:30"]
        assert len(ticks(app, "always")) == 96

    def test_goes_back_in_autumn(self, app: Stanchion, calendar: Calendar) -> None:
        calendar.set("2031-10-25 12:00")  # in Paris, 2:00 to 3:00 comes twice on the 26th: 0:00 and 1:00 UTC
        declare(app, "30 2 * * *", schedule="at half past two", tz="Europe/Paris")
        declare(app, "30 2,3 * * *", schedule="two times", tz="Europe/Paris")
        declare(app, "30 * * * *", schedule="always", tz="Europe/Paris")
        hours(app, calendar, 13)
        assert [f"{tick:%d %H:%M}" for tick in app.schedule("at half past two").next()] == ["27 02:30"]
        hours(app, calendar, 35)
        assert ticks(app, "at half past two") == ["2031-10-26T00:30", "2031-10-27T01:30"]
        assert ticks(app, "two times") == [f"2031-10-{at}:30" for at in ("26T00", "26T02", "27T01", "27T02")]
        assert len(ticks(app, "always")) == 48


def hours(app: Stanchion, calendar: Calendar, count: int) -> None:
    """Let hours pass, and run a tick each half hour."""
    for _ in range(2 * count):
        calendar.go(minutes=30)
        tick(app)


class TestMissedTicks:
    """No ticker runs from noon to 18:00:45; the last tick is 45 seconds late, which is not too late."""

    @pytest.mark.parametrize(
        ("missed", "found"),
        [("skip", ["18:00"]), ("once", ["18:00"]), ("all", ["13:00", "14:00", "15:00", "16:00", "17:00", "18:00"])],
    )
    def test_up_to_one_that_is_in_time(self, app: Stanchion, calendar: Calendar, missed: str, found: list[str]) -> None:
        declare(app, missed=missed)
        calendar.go(hours=6, seconds=40)
        assert tick(app) == len(found)
        assert tick(app) == 0
        assert ticks(app) == [f"2031-05-14T{hour}" for hour in found]

    @pytest.mark.parametrize(("missed", "found"), [("skip", 0), ("once", 1), ("all", 6)])
    def test_all_of_them_late(self, app: Stanchion, calendar: Calendar, missed: str, found: int) -> None:
        declare(app, missed=missed)
        calendar.go(hours=6, minutes=10)
        assert tick(app) == found
        assert ticks(app) == [f"2031-05-14T{hour}:00" for hour in range(19 - found, 19)]
        calendar.go(minutes=50)
        assert tick(app) == 1

    def test_are_made_up_for_up_to_a_bound(self, app: Stanchion, calendar: Calendar) -> None:
        declare(app, "* * * * *", missed="all")
        calendar.go(days=2)
        assert tick(app) == MOST
        found = ticks(app)
        assert (len(found), found[-1], found[0]) == (MOST, "2031-05-16T12:00", "2031-05-15T19:21")
        assert tick(app) == 0

    def test_none_is_while_they_are_late_by_less_than_a_minute(self, app: Stanchion, calendar: Calendar) -> None:
        declare(app, "* * * * *")
        calendar.go(seconds=105)
        for _ in range(3):
            assert tick(app) == 1
            calendar.go(minutes=1)
        assert ticks(app) == [f"2031-05-14T12:{minute:02}" for minute in (1, 2, 3)]

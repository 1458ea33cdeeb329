"""Schedules: one job for each tick, whoever and however many see to it, whatever the clock does."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stanchion import Retry, Schedule, Stanchion
from stanchion.errors import InvalidInput
from stanchion.ids import new_id
from stanchion.plan import KIND, MOST, Firing, Plan
from stanchion.stores.protocol import Store
from stanchion.stores.records import NewJob
from stanchion.testing.conformance.harness import NewStore, StoreClock, all_at_once
from stanchion.ticker import Ticker

SCHEDULERS = 10
QUEUE = "reports"


class Calendar:
    """The clock of the test as a calendar."""

    def __init__(self, store: Store, clock: StoreClock) -> None:
        self._store, self._clock = store, clock

    def set(self, text: str) -> None:
        """Set the clock, forth or back, to five seconds after a time in UTC."""
        moment = datetime.fromisoformat(text).replace(tzinfo=UTC) + timedelta(seconds=5)
        self._clock.advance(moment.timestamp() - self._store.now() / 1_000_000)

    def go(self, **parts: float) -> None:
        """Move the clock."""
        units = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86_400}
        self._clock.advance(sum(units[unit] * number for unit, number in parts.items()))


@pytest.fixture
def calendar(store: Store, clock: StoreClock) -> Calendar:
    """The clock, just after noon of a Wednesday that is no end of anything."""
    calendar = Calendar(store, clock)
    calendar.set("2031-05-14 12:00")
    return calendar


def report(*args: Any, **kwargs: Any) -> None:
    """Do nothing."""


def declare(app: Stanchion, expression: str = "0 * * * *", **options: Any) -> Schedule:
    """Have `report` called at these ticks, seen by a scheduler of the app, and from now on."""
    app.cron(expression, **{"name": "report", "queue": QUEUE, **options})(report)
    app.tick()
    return app.schedule(options.get("schedule", "report"))


def ticks(app: Stanchion, name: str = "report") -> list[str]:
    """Return the ticks of the jobs that are there, in order, as 2031-05-14T13:00."""
    jobs = app.find(queue=QUEUE, limit=10_000)
    assert len(jobs) < 10_000
    return sorted(
        job.headers["x-cron-tick"].removesuffix(":00+00:00") for job in jobs if job.headers.get("x-cron") == name
    )


def plan(app: Stanchion, name: str = "report") -> Plan:
    """Return what the store has of a schedule."""
    return next(Plan.of(note.text) for note in app.store.notes(KIND) if note.name == name)


class TestTicks:
    def test_each_makes_one_job(self, app: Stanchion, calendar: Calendar) -> None:
        declare(app, args=[7], kwargs={"lang": "fr"}, priority=30, headers={"by": "me"}, max_attempts=3)
        for hour in (13, 14):
            calendar.go(minutes=59)
            assert app.tick() == 0
            calendar.go(minutes=1)
            assert app.tick() == 1
            assert app.tick() == 0
            (job, *_) = app.find(queue=QUEUE)
            assert job.headers == {"by": "me", "x-cron": "report", "x-cron-tick": f"2031-05-14T{hour}:00:00+00:00"}
        assert (job.task, job.priority, job.max_attempts) == ("report", 30, 3)
        assert job.payload == {"args": [7], "kwargs": {"lang": "fr"}}
        assert job.state == "ready"
        assert app.drain([QUEUE]) == 2

    def test_of_the_past_make_none(self, app: Stanchion, calendar: Calendar) -> None:
        calendar.go(seconds=1)
        declare(app, missed="all")
        assert app.tick() == 0
        assert ticks(app) == []

    def test_of_many_schedules(self, app: Stanchion, calendar: Calendar) -> None:
        declare(app, schedule="hourly", args=["hour"])
        declare(app, "30 * * * *", schedule="halves", args=["half"])
        for _ in range(4):
            calendar.go(minutes=30)
            assert app.tick() == 1
        assert len(ticks(app, "hourly")) == len(ticks(app, "halves")) == 2
        assert [job.payload["args"][0] for job in app.find(queue=QUEUE)] == ["hour", "half"] * 2

    def test_seen_by_one_scheduler_are_dealt_with_for_all(
        self, app: Stanchion, other_app: Stanchion, calendar: Calendar
    ) -> None:
        for one in (app, other_app):
            declare(one)
        calendar.go(hours=1)
        assert [app.tick(), other_app.tick(), app.tick()] == [1, 0, 0]

    def test_go_to_the_queue_once_while_their_key_is_taken(self, app: Stanchion, calendar: Calendar) -> None:
        declare(app, key="one at a time")
        for found in (1, 0):
            calendar.go(hours=1)
            assert app.tick() == found
        app.drain([QUEUE])
        calendar.go(hours=1)
        assert app.tick() == 1
        assert len(ticks(app)) == 2

    def test_wait_for_their_delay(self, app: Stanchion, calendar: Calendar) -> None:
        declare(app, delay=90)
        calendar.go(hours=1)
        app.tick()
        assert app.drain([QUEUE]) == 0
        calendar.go(seconds=90)
        assert app.drain([QUEUE]) == 1

    def test_that_can_t_be_enqueued_keep_no_other_schedule_from_its_own(
        self, app: Stanchion, calendar: Calendar
    ) -> None:
        for name in ("a", "b", "c"):
            declare(app, schedule=name)
        (note,) = (note for note in app.store.notes(KIND) if note.name == "b")
        app.store.set_note(KIND, "b", "{}", note.version)
        calendar.go(hours=1)
        with pytest.raises(KeyError):
            app.tick()
        assert len(ticks(app, "a")) == len(ticks(app, "c")) == 1


class TestManySchedulers:
    def test_make_one_job_a_tick(self, app: Stanchion, new_store: NewStore, calendar: Calendar) -> None:
        apps = [app, *(Stanchion(store=new_store()) for _ in range(SCHEDULERS - 1))]
        for one in apps:
            declare(one, missed="all")
        tickers = [Ticker(one) for one in apps]
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
        all_at_once([one.tick for one in apps])
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
        all_at_once([app.tick, other_app.tick, operate])
        assert not app.schedule("report").paused
        calendar.go(minutes=30)
        assert app.tick() + other_app.tick() == 1
        assert len(app.find(queue=QUEUE)) == 4
        assert schedule.name == "report"


class TestTheClock:
    def test_set_forth_misses_ticks(self, app: Stanchion, calendar: Calendar) -> None:
        declare(app)
        calendar.go(hours=5, minutes=30)
        assert app.tick() == 0
        calendar.go(minutes=30)
        assert app.tick() == 1
        assert ticks(app) == ["2031-05-14T18:00"]

    def test_set_back_fires_nothing_twice(self, app: Stanchion, other_app: Stanchion, calendar: Calendar) -> None:
        for one in (app, other_app):
            declare(one, missed="all")
        calendar.go(hours=3)
        assert app.tick() == 3
        app.drain([QUEUE])
        calendar.go(hours=-2, minutes=-30)
        for _ in range(5):
            assert app.tick() + other_app.tick() == 0
            calendar.go(minutes=30)
        assert app.tick() == 0
        calendar.go(hours=1)
        assert app.tick() == 1
        assert ticks(app) == [f"2031-05-14T{hour}:00" for hour in (13, 14, 15, 16)]

    def test_set_back_in_the_middle_of_a_tick(self, app: Stanchion, other_app: Stanchion, calendar: Calendar) -> None:
        for one in (app, other_app):
            declare(one)
        calendar.go(hours=1)
        with pytest.raises(Death):
            Ticker(dying(app, 1)).tick()
        calendar.go(hours=-6)
        assert other_app.tick() == 1
        assert ticks(app) == ["2031-05-14T13:00"]

    def test_that_is_wrong_in_a_client_is_not_asked(
        self, app: Stanchion, calendar: Calendar, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        declare(app)
        calendar.go(minutes=59)
        monkeypatch.setattr("time.time", lambda: 4_000_000_000.0)
        assert app.tick() == 0

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
    """Let hours pass, with a look at the schedules each half."""
    for _ in range(2 * count):
        calendar.go(minutes=30)
        app.tick()


class TestMissedTicks:
    """From noon to 18:00:45 nobody looks; the last tick is 45 seconds late, which is not too late."""

    @pytest.mark.parametrize(
        ("missed", "found"),
        [("skip", ["18:00"]), ("once", ["18:00"]), ("all", ["13:00", "14:00", "15:00", "16:00", "17:00", "18:00"])],
    )
    def test_up_to_one_that_is_in_time(self, app: Stanchion, calendar: Calendar, missed: str, found: list[str]) -> None:
        declare(app, missed=missed)
        calendar.go(hours=6, seconds=40)
        assert app.tick() == len(found)
        assert app.tick() == 0
        assert ticks(app) == [f"2031-05-14T{hour}" for hour in found]

    @pytest.mark.parametrize(("missed", "found"), [("skip", 0), ("once", 1), ("all", 6)])
    def test_all_of_them_late(self, app: Stanchion, calendar: Calendar, missed: str, found: int) -> None:
        declare(app, missed=missed)
        calendar.go(hours=6, minutes=10)
        assert app.tick() == found
        assert ticks(app) == [f"2031-05-14T{hour}:00" for hour in range(19 - found, 19)]
        calendar.go(minutes=50)
        assert app.tick() == 1

    def test_are_made_up_for_up_to_a_bound(self, app: Stanchion, calendar: Calendar) -> None:
        declare(app, "* * * * *", missed="all")
        calendar.go(days=2)
        assert app.tick() == MOST
        found = ticks(app)
        assert (len(found), found[-1], found[0]) == (MOST, "2031-05-16T12:00", "2031-05-15T19:21")
        assert app.tick() == 0

    def test_none_is_while_they_are_late_by_less_than_a_minute(self, app: Stanchion, calendar: Calendar) -> None:
        declare(app, "* * * * *")
        calendar.go(seconds=105)
        for _ in range(3):
            assert app.tick() == 1
            calendar.go(minutes=1)
        assert ticks(app) == [f"2031-05-14T12:{minute:02}" for minute in (1, 2, 3)]


class Death(BaseException):
    """Kills a scheduler in the test."""


class Dying:
    """A store that changes so many things more, and kills whoever asks for another, before or after it is done."""

    def __init__(self, store: Store, changes: int, *, after: bool = False) -> None:
        self._store, self._changes, self._after = store, changes, after

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        if name not in ("push", "set_note"):
            return verb

        def call(*args: Any, **kwargs: Any) -> Any:
            self._changes -= 1
            if self._changes < 0 and not self._after:
                raise Death
            answer = verb(*args, **kwargs)
            if self._changes < 0:
                raise Death
            return answer

        return call


def dying(app: Stanchion, changes: int, *, after: bool = False) -> Stanchion:
    """Return the app of a process that dies at a change of the store."""
    doomed = Stanchion(store=Dying(app.store, changes, after=after))
    doomed.tasks, doomed.crons = app.tasks, app.crons
    return doomed


class TestDeath:
    """At each step of a tick: it is noted, its job is enqueued, that is noted."""

    @pytest.fixture(params=[(step, after) for step in range(3) for after in (False, True)], ids=str)
    def killed(self, request: pytest.FixtureRequest) -> Iterator[Callable[[Stanchion], None]]:
        """Let a scheduler die in its next tick."""
        step, after = request.param

        def kill(app: Stanchion) -> None:
            with pytest.raises(Death):
                Ticker(dying(app, step, after=after)).tick()

        return kill  # type: ignore[return-value]

    def test_another_goes_on(
        self, app: Stanchion, other_app: Stanchion, calendar: Calendar, killed: Callable[[Stanchion], None]
    ) -> None:
        for one in (app, other_app):
            declare(one)
        calendar.go(hours=1)
        killed(app)
        other_app.tick()
        calendar.go(seconds=10)
        other_app.tick()
        assert ticks(app) == ["2031-05-14T13:00"]
        assert plan(app).firing is None
        calendar.go(hours=1)
        assert other_app.tick() == 1

    def test_another_goes_on_after_its_job_is_done(
        self, app: Stanchion, other_app: Stanchion, calendar: Calendar, killed: Callable[[Stanchion], None]
    ) -> None:
        for one in (app, other_app):
            declare(one)
        calendar.go(hours=1)
        killed(app)
        app.drain([QUEUE])
        calendar.go(seconds=10)
        other_app.tick()
        app.drain([QUEUE])
        assert ticks(app) == ["2031-05-14T13:00"]
        assert app.queue(QUEUE).counts().committed == 1

    def test_many_go_on_at_once(
        self, app: Stanchion, new_store: NewStore, calendar: Calendar, killed: Callable[[Stanchion], None]
    ) -> None:
        others = [Stanchion(store=new_store()) for _ in range(3)]
        for one in (app, *others):
            declare(one)
        calendar.go(hours=1)
        killed(app)
        calendar.go(seconds=10)
        all_at_once([one.tick for one in others])
        assert ticks(app) == ["2031-05-14T13:00"]

    def test_one_without_the_schedule_in_its_code_goes_on(
        self, app: Stanchion, other_app: Stanchion, calendar: Calendar
    ) -> None:
        declare(app, args=[1])
        calendar.go(hours=1)
        with pytest.raises(Death):
            Ticker(dying(app, 1)).tick()
        assert other_app.tick() == 0
        calendar.go(seconds=10)
        assert other_app.tick() == 1
        assert other_app.find(queue=QUEUE)[0].payload == {"args": [1]}
        calendar.go(hours=1)
        assert other_app.tick() == 0

    def test_one_that_was_thought_dead_comes_back(
        self, app: Stanchion, other_app: Stanchion, calendar: Calendar
    ) -> None:
        for one in (app, other_app):
            declare(one)
        calendar.go(hours=1)
        slept: list[int] = []

        class Sleepy(Dying):
            """A store whose caller sleeps before it pushes."""

            def push(self, jobs: list[NewJob], tx: Any = None) -> Any:
                calendar.go(seconds=10)
                slept.append(other_app.tick())
                other_app.drain([QUEUE])
                return self._store.push(jobs, tx)

        late = dying(app, 0)
        late._store = Sleepy(app.store, 100)  # type: ignore[assignment]
        Ticker(late).tick()
        assert slept == [1]
        assert ticks(app) == ["2031-05-14T13:00"]
        assert plan(app).firing is None

    @pytest.mark.parametrize("paused", [False, True])
    def test_one_who_was_overtaken_looks_anew(
        self, app: Stanchion, other_store: Store, calendar: Calendar, paused: bool
    ) -> None:
        declare(app)
        calendar.go(hours=1)

        class Overtaken(Dying):
            """A store in which another changes the schedule first."""

            def set_note(self, *note: Any) -> bool:
                (name, text, version) = other_store.notes(KIND)[0]
                if version == 1:
                    other_store.set_note(KIND, name, Plan.of(text)._replace(paused=paused).text(), version)
                return self._store.set_note(*note)

        late = dying(app, 0)
        late._store = Overtaken(app.store, 100)
        assert Ticker(late).tick().jobs == (0 if paused else 1)
        assert ticks(app) == ([] if paused else ["2031-05-14T13:00"])

    def test_removing_loses_no_tick_on_its_way(self, app: Stanchion, calendar: Calendar) -> None:
        schedule = declare(app)
        calendar.go(hours=1)
        with pytest.raises(Death):
            Ticker(dying(app, 1)).tick()
        schedule.remove()
        assert ticks(app) == ["2031-05-14T13:00"]
        assert app.store.notes(KIND) == []

    def test_a_random_one_at_every_tick(self, app: Stanchion, new_store: NewStore, calendar: Calendar) -> None:
        dice = random.Random(7)
        declare(app, "*/10 * * * *")
        other = Stanchion(store=new_store())
        declare(other, "*/10 * * * *")
        for _ in range(20):
            calendar.go(minutes=10)
            with pytest.raises(Death):
                Ticker(dying(app, dice.randrange(3), after=dice.random() < 0.5)).tick()
            calendar.go(seconds=10)
            other.tick()
            calendar.go(seconds=-10)
        found = Counter(ticks(app))
        assert len(found) == 20
        assert set(found.values()) == {1}


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
        app.tick()
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
        assert app.tick() == 0
        assert app.schedule("report").declared
        assert app.schedule("report").paused

    def test_a_paused_one_lets_its_ticks_pass(self, app: Stanchion, other_app: Stanchion, calendar: Calendar) -> None:
        schedule = declare(app, missed="all")
        other_app.schedule("report").pause()
        calendar.go(hours=3)
        assert app.tick() == 0
        assert app.schedule("report").paused
        other_app.schedule("report").resume()
        assert app.tick() == 0
        calendar.go(hours=1)
        assert app.tick() == 1
        assert ticks(app) == ["2031-05-14T16:00"]
        assert not schedule.paused

    def test_a_resumed_one_fires_nothing_twice_where_the_clock_was_set_back(
        self, app: Stanchion, calendar: Calendar
    ) -> None:
        schedule = declare(app)
        calendar.go(hours=1)
        assert app.tick() == 1
        schedule.pause()
        calendar.go(minutes=-30)
        schedule.resume()
        calendar.go(minutes=30)
        assert app.tick() == 0

    def test_resuming_one_that_is_not_paused_loses_no_tick(self, app: Stanchion, calendar: Calendar) -> None:
        schedule = declare(app)
        calendar.go(hours=1)
        schedule.resume()
        assert app.tick() == 1

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
        assert other_app.tick() == 0
        assert not other_app.schedule("report").declared
        for _ in range(2):
            other_app.tick()
        (told,) = (record.getMessage() for record in caplog.records if "no live worker" in record.getMessage())
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
            app.tick()
            assert other_app.schedule("report").declared
        calendar.go(minutes=4)
        assert not other_app.schedule("report").declared

    def test_removed_from_the_store_it_begins_anew_where_the_code_has_it(
        self, app: Stanchion, calendar: Calendar
    ) -> None:
        schedule = declare(app, missed="all")
        calendar.go(hours=2)
        schedule.remove()
        assert app.tick() == 0
        assert ticks(app) == []
        calendar.go(hours=1)
        assert app.tick() == 1

    def test_after_it_is_removed_and_the_clock_set_back_no_tick_comes_twice(
        self, app: Stanchion, calendar: Calendar
    ) -> None:
        schedule = declare(app)
        calendar.go(hours=1)
        app.tick()
        calendar.go(minutes=-30)
        schedule.remove()
        app.tick()
        calendar.go(minutes=30)
        app.tick()
        assert ticks(app) == ["2031-05-14T13:00"]

    @pytest.mark.usefixtures("calendar")
    def test_unknown_ones_are_refused(self, app: Stanchion, other_app: Stanchion) -> None:
        with pytest.raises(InvalidInput, match="there are: none"):
            app.schedule("report")
        declare(app)
        schedule = other_app.schedule("report")
        with pytest.raises(InvalidInput, match="there are: report"):
            app.schedule("reprot")
        schedule.remove()
        with pytest.raises(InvalidInput, match="removed"):
            schedule.pause()
        schedule.remove()


class TestANewRelease:
    """The code of `app` is of today, that of `other_app` of tomorrow."""

    def test_with_other_ticks_begins_them_now(self, app: Stanchion, other_app: Stanchion, calendar: Calendar) -> None:
        declare(app, missed="all")
        calendar.go(hours=2, minutes=15)
        declare(other_app, "*/10 * * * *", missed="all")
        assert ticks(app) == []
        calendar.go(minutes=5)
        assert other_app.tick() == 1
        assert ticks(app) == ["2031-05-14T14:20"]

    def test_is_what_older_processes_go_by(self, app: Stanchion, other_app: Stanchion, calendar: Calendar) -> None:
        declare(app, args=["old"])
        declare(other_app, "30 * * * *", args=["new"])
        for _ in range(4):
            calendar.go(minutes=30)
            app.tick()
        assert ticks(app) == ["2031-05-14T12:30", "2031-05-14T13:30"]
        assert {job.payload["args"][0] for job in app.find(queue=QUEUE)} == {"new"}
        assert other_app.tick() == 0

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
        assert other_app.tick() == 0
        assert app.schedule("report").paused

    def test_first_sees_to_a_tick_on_its_way(self, app: Stanchion, other_app: Stanchion, calendar: Calendar) -> None:
        declare(app, args=["old"])
        calendar.go(hours=1)
        with pytest.raises(Death):
            Ticker(dying(app, 1)).tick()
        calendar.go(seconds=10)
        declare(other_app, "*/10 * * * *", args=["new"])
        assert [job.payload["args"][0] for job in app.find(queue=QUEUE)] == ["old"]
        assert plan(app).expression == "*/10 * * * *"


class TestDeclaring:
    @pytest.mark.parametrize(
        ("expression", "message"),
        [
            ("61 * * * *", "bad minute"),
            ("* 24 * * *", "bad hour"),
            ("* * 0 * *", "bad day-of-month"),
            ("* * * JANUARY *", "bad month"),
            ("* * * * 8", "bad day-of-week"),
            ("* * * *", "has 4 fields"),
            ("*/10 * * * * *", "has 6 fields"),
            ("", "has 0 fields"),
            ("0 0 30 2 *", "bad day-of-month"),
            ("* * */20 * 1L", "no date that ever comes"),
            ("@reboot", "@daily"),
            (7, "text of five fields"),
        ],
    )
    def test_bad_expressions_are_refused(self, app: Stanchion, expression: str, message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            app.cron(expression, name="report")(report)
        assert app.crons == {}

    @pytest.mark.parametrize("tz", ["Europe/Pairs", "", "../etc/passwd", "Europe", 3])
    def test_unknown_zones_are_refused(self, app: Stanchion, tz: Any) -> None:
        with pytest.raises(InvalidInput, match="no time zone"):
            app.cron("* * * * *", tz=tz, name="report")(report)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"missed": "some"}, "missed must be one of"),
            ({"run_at": datetime(2031, 1, 1, tzinfo=UTC)}, "run_at"),
            ({"tx": object()}, "tx"),
            ({"on_duplicate": "raise"}, "nobody to raise to"),
            ({"schedule": ""}, "the name of a schedule"),
            ({"args": "abc"}, "args is a list"),
            ({"args": [object()]}, "JSON"),
            ({"colour": "red"}, "unknown option"),
        ],
    )
    def test_bad_options_are_refused(self, app: Stanchion, options: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            app.cron("* * * * *", **{"name": "report", **options})(report)

    def test_arguments_that_do_not_fit_are_refused(self, app: Stanchion) -> None:
        def greet(name: str) -> None: ...

        with pytest.raises(InvalidInput, match="give args="):
            app.cron("* * * * *", name="greet")(greet)
        app.cron("* * * * *", name="greet", schedule="greet", args=["you"])(greet)

    def test_two_of_one_name_are_refused(self, app: Stanchion) -> None:
        app.cron("0 * * * *", name="report")(report)
        app.cron("0 * * * *", name="report")(report)  # its module, imported again
        with pytest.raises(InvalidInput, match="give one of them schedule="):
            app.cron("5 * * * *", name="report")(report)

    def test_above_a_task(self, app: Stanchion, calendar: Calendar) -> None:
        @app.cron("0 * * * *", schedule="hourly", priority=1)
        @app.cron("30 * * * *")
        @app.task(name="tidy", queue=QUEUE, priority=5, retry=Retry(max_attempts=2))
        def tidy() -> int:
            return 7

        assert tidy() == 7
        assert sorted(app.crons) == ["hourly", "tidy"]
        app.tick()
        for _ in range(2):
            calendar.go(minutes=30)
            app.tick()
        jobs = app.find(queue=QUEUE)
        assert [(job.task, job.priority, job.max_attempts) for job in jobs] == [("tidy", 1, 2), ("tidy", 5, 2)]
        with pytest.raises(InvalidInput, match="to its @app"):
            app.cron("0 * * * *", name="other")(tidy)

    def test_below_a_task_is_refused(self, app: Stanchion) -> None:
        task = app.cron("0 * * * *", name="report")(report)
        with pytest.raises(InvalidInput, match="stands above"):
            app.task(name="other")(task)
        with pytest.raises(InvalidInput, match="stands above"):
            app.task(task)

    @pytest.mark.usefixtures("calendar")
    def test_short_forms(self, app: Stanchion) -> None:
        schedule = declare(app, "@daily", tz="America/New_York")
        assert schedule.next()[0].isoformat() == "2031-05-15T00:00:00-04:00"


class TestWhatIsStored:
    def test_it_is_read_as_it_was_written(self) -> None:
        job = NewJob("", QUEUE, "{}", "report", priority=3, headers='{"a":1}', delay=1.5)
        full = Plan("0 * * * *", "UTC", "all", job, 1, 2, 3, True, Firing(new_id(), 4, (5, 6)))
        assert Plan.of(full.text()) == full
        assert Plan.of(full._replace(firing=None).text()).firing is None

    def test_what_a_later_release_adds_is_left_out(self) -> None:
        plan = Plan("0 * * * *", "UTC", "all", NewJob("", QUEUE, "{}", "report"))
        text = plan.text().replace('"expression"', '"colour":"red","expression"').replace('"job":{', '"job":{"size":1,')
        assert Plan.of(text) == plan

    def test_sealed_arguments_are_compared_as_they_are_meant(
        self, store: Store, other_store: Store, calendar: Calendar
    ) -> None:
        pytest.importorskip("cryptography")
        from cryptography.fernet import Fernet

        key = Fernet.generate_key()
        app, other_app = (Stanchion(store=one, keys=[key]) for one in (store, other_store))
        declare(app, args=["secret"])
        (before,) = store.notes(KIND)
        declare(other_app, args=["secret"])
        assert store.notes(KIND) == [before]
        assert "secret" not in before.text
        calendar.go(hours=1)
        assert other_app.tick() == 1
        assert app.find(queue=QUEUE)[0].payload == {"args": ["secret"]}

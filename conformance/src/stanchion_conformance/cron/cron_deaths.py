"""Schedules whose schedulers die, or are overtaken, at any step of a tick."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from stanchion import Stanchion
from stanchion.app import tick
from stanchion.context import context_of
from stanchion.cron.plan import KIND, Plan
from stanchion.cron.ticker import Ticker
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND, NewJob
from stanchion_conformance.cron.schedules import QUEUE, Calendar, Death, Dying, declare, dying, plan, ticks
from stanchion_conformance.harness import NewStore, all_at_once

Killed = Callable[..., None]


class TestDeath:
    """The steps of a tick: it is recorded as begun, its job is enqueued, it is recorded as done."""

    @pytest.fixture(params=[(step, after) for step in range(3) for after in (False, True)], ids=str)
    def killed(self, request: pytest.FixtureRequest, calendar: Calendar) -> Killed:
        """Let schedulers see a schedule; the first of them dies in its tick an hour later."""
        step, after = request.param

        def kill(app: Stanchion, *others: Stanchion) -> None:
            for one in (app, *others):
                declare(one)
            calendar.go(hours=1)
            with pytest.raises(Death):
                Ticker(context_of(dying(app, step, after=after))).tick()

        return kill

    def test_another_goes_on(self, app: Stanchion, other_app: Stanchion, calendar: Calendar, killed: Killed) -> None:
        killed(app, other_app)
        tick(other_app)
        calendar.go(seconds=10)
        tick(other_app)
        assert ticks(app) == ["2031-05-14T13:00"]
        assert plan(app).firing is None
        calendar.go(hours=1)
        assert tick(other_app) == 1

    def test_another_goes_on_after_its_job_is_done(
        self, app: Stanchion, other_app: Stanchion, calendar: Calendar, killed: Killed
    ) -> None:
        killed(app, other_app)
        app.drain([QUEUE])
        calendar.go(seconds=10)
        tick(other_app)
        app.drain([QUEUE])
        assert ticks(app) == ["2031-05-14T13:00"]
        assert app.queue(QUEUE).counts().committed == 1

    def test_many_go_on_at_once(self, app: Stanchion, new_store: NewStore, calendar: Calendar, killed: Killed) -> None:
        others = [Stanchion(store=new_store()) for _ in range(3)]
        killed(app, *others)
        calendar.go(seconds=10)
        all_at_once([partial(tick, one) for one in others])
        assert ticks(app) == ["2031-05-14T13:00"]

    def test_one_without_the_schedule_in_its_code_goes_on(
        self, app: Stanchion, other_app: Stanchion, calendar: Calendar, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("stanchion.cron.ticker.TAKE_OVER", 60 * SECOND)
        declare(app, args=[1])
        calendar.go(hours=1)
        with pytest.raises(Death):
            Ticker(context_of(dying(app, 1))).tick()
        assert tick(other_app) == 0
        calendar.go(seconds=60)
        assert tick(other_app) == 1
        assert other_app.find(queue=QUEUE)[0].payload == {"args": [1]}
        calendar.go(hours=1)
        assert tick(other_app) == 0

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
                slept.append(tick(other_app))
                other_app.drain([QUEUE])
                return self._store.push(jobs, tx)

        late = dying(app, 0)
        context_of(late)._store = Sleepy(app.store, 100)  # type: ignore[assignment]
        Ticker(context_of(late)).tick()
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
            """A store in which another process changes the schedule first."""

            def compare_and_set(self, *value: Any) -> bool:
                (name, text, version) = other_store.values(KIND)[0]
                if version == 1:
                    other_store.compare_and_set(KIND, name, Plan.of(text)._replace(paused=paused).text(), version)
                return self._store.compare_and_set(*value)

        late = dying(app, 0)
        context_of(late)._store = Overtaken(app.store, 100)
        assert Ticker(context_of(late)).tick().jobs == (0 if paused else 1)
        assert ticks(app) == ([] if paused else ["2031-05-14T13:00"])

    def test_removing_loses_no_tick_on_its_way(self, app: Stanchion, calendar: Calendar) -> None:
        schedule = declare(app)
        calendar.go(hours=1)
        with pytest.raises(Death):
            Ticker(context_of(dying(app, 1))).tick()
        schedule.remove()
        assert ticks(app) == ["2031-05-14T13:00"]
        assert app.store.values(KIND) == []

    def test_a_random_one_at_every_tick(self, app: Stanchion, new_store: NewStore, calendar: Calendar) -> None:
        dice = random.Random(7)
        declare(app, "*/10 * * * *")
        other = Stanchion(store=new_store())
        declare(other, "*/10 * * * *")
        for _ in range(20):
            calendar.go(minutes=10)
            with pytest.raises(Death):
                Ticker(context_of(dying(app, dice.randrange(3), after=dice.random() < 0.5))).tick()
            calendar.go(seconds=10)
            tick(other)
            calendar.go(seconds=-10)
        found = Counter(ticks(app))
        assert len(found) == 20
        assert set(found.values()) == {1}

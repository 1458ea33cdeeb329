"""The clock of `app.testing()`: it starts where told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from stanchion import Stanchion
from stanchion.app import tick
from stanchion.errors import InvalidInput

START = datetime(2031, 5, 1, 8, 59, 59, 999_999, tzinfo=UTC)


@pytest.mark.parametrize("start", [START, START.astimezone(timezone(timedelta(hours=5, minutes=30)))])
def test_it_starts_where_told(start: datetime) -> None:
    app = Stanchion("memory://")
    with app.testing(start) as clock:
        assert clock.now() == START
        job = app.queue("q").push(1)
        assert job.enqueued_at == START
        clock.advance(1.5)
        assert clock.now() == START + timedelta(seconds=1.5)


@pytest.mark.parametrize("minute", [0, 1, 29, 59])
def test_ticks_of_schedules_are_those_of_the_clock(minute: int) -> None:
    app = Stanchion("memory://")

    @app.cron("30 * * * *")
    @app.task(name="half", queue="q")
    def half() -> None:
        pass

    with app.testing(at=datetime(2031, 5, 1, 8, minute, tzinfo=UTC)) as clock:
        ticks = 0
        for _ in range(60):
            clock.advance(60)
            ticks += tick(app)
        assert ticks == 1
        (job,) = app.queue("q").find()
        assert job.enqueued_at.minute == 30


def test_a_start_without_a_zone_is_refused() -> None:
    app = Stanchion("memory://")
    with pytest.raises(InvalidInput, match="at="), app.testing(datetime(2031, 5, 1)):
        pass


def test_without_a_start_each_run_has_the_same_ticks() -> None:
    app, told = Stanchion("memory://"), []

    @app.cron("30 8 * * 1")
    @app.task(name="mondays", queue="q")
    def mondays() -> None:
        pass

    for _ in range(2):
        with app.testing() as clock:
            assert clock.now() == datetime(2024, 1, 1, tzinfo=UTC)
            clock.advance(8.5 * 3600 - 1)
            assert tick(app) == 0
            clock.advance(1)
            assert tick(app) == 1
            told.append([job.run_at for job in app.queue("q").find()])
    assert told == [[datetime(2024, 1, 1, 8, 30, tzinfo=UTC)]] * 2


def test_a_test_may_start_at_the_present() -> None:
    with Stanchion("memory://").testing(at=datetime.now(UTC)) as clock:
        assert abs(datetime.now(UTC) - clock.now()) < timedelta(hours=1)

"""Schedules as declared in code, and their stored form."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from stanchion import Retry, Stanchion
from stanchion.app import tick
from stanchion.context import context_of
from stanchion.core.ids import new_id
from stanchion.cron.plan import KIND, Firing, Plan
from stanchion.errors import InvalidInput
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import NewJob
from stanchion_conformance.cron.schedules import QUEUE, Calendar, declare, report


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
            ("* * */20 * 1L", "never matches a date"),
            ("@reboot", "@daily"),
            (7, "text of five fields"),
        ],
    )
    def test_bad_expressions_are_refused(self, app: Stanchion, expression: str, message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            app.cron(expression, name="report")(report)
        assert context_of(app).registry.crons == {}

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
            ({"on_duplicate": "raise"}, "no caller gets it"),
            ({"schedule": ""}, "the name of a schedule"),
            ({"args": "abc"}, "args must be a list"),
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
        assert sorted(context_of(app).registry.crons) == ["hourly", "tidy"]
        tick(app)
        for _ in range(2):
            calendar.go(minutes=30)
            tick(app)
        jobs = app.find(queue=QUEUE)
        assert [(job.task, job.priority, job.max_attempts) for job in jobs] == [("tidy", 1, 2), ("tidy", 5, 2)]
        with pytest.raises(InvalidInput, match="to its @app"):
            app.cron("0 * * * *", name="other")(tidy)

    def test_below_a_task_is_refused(self, app: Stanchion) -> None:
        task = app.cron("0 * * * *", name="report")(report)
        with pytest.raises(InvalidInput, match="put @app"):
            app.task(name="other")(task)
        with pytest.raises(InvalidInput, match="put @app"):
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
        (before,) = store.values(KIND)
        declare(other_app, args=["secret"])
        assert store.values(KIND) == [before]
        assert "secret" not in before.text
        calendar.go(hours=1)
        assert tick(other_app) == 1
        assert app.find(queue=QUEUE)[0].payload == {"args": ["secret"]}

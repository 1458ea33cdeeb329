"""Alerts and figures by band, as the readings of each store give them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from stanchion import Push, Queue, Stanchion
from stanchion.alerts.alerts import store_limits
from stanchion.alerts.reading import heads
from stanchion.alerts.records import Alert, BandFigures
from stanchion.app import tick
from stanchion.context import context_of
from stanchion.core.text.error_kinds import group_of
from stanchion.stores.protocol import Store
from stanchion.stores.records.outcomes import Bury, Rollback
from stanchion.telemetry.failures import FailureTally
from stanchion_conformance.harness import QUEUE, SLACK, StoreClock, claim, worker

VERBS = (
    *("check", "now", "queues", "stats", "select", "partition", "fetch", "workers", "values", "semaphores"),
    *("compare_and_set", "lane_depths", "flow_nodes", "flow_ends"),
)


def past(seconds: float) -> Any:
    """Return a value that equals a time that began so many seconds ago, or up to SLACK before."""
    return pytest.approx(seconds + SLACK / 2, abs=SLACK / 2 + 0.001)


def told(app: Stanchion, **limits: float) -> list[Alert]:
    """Return the alerts but those of managers, which are late where a case moves the clock."""
    return [alert for alert in app.alerts(limits) if alert.kind != "manager"]


def by_rule(app: Stanchion, **limits: float) -> dict[str, Alert]:
    """Return the alerts by the rules that they are about, also those merged into others."""
    return {rule: alert for alert in told(app, **limits) for rule in (alert.rule, *alert.merged)}


def of_band(app: Stanchion, queue: str, band: str) -> BandFigures | None:
    """Return the figures of one band of a queue."""
    queues = {one.queue: one for one in app.monitor().queues}
    return next((one for one in queues[queue].bands if one.band == band), None)


class TestMonitor:
    def test_age_is_of_claimable_jobs_only(self, app: Stanchion, q: Queue, store: Store, clock: StoreClock) -> None:
        q.push({"runs": True}, priority=80)
        claim(store)
        clock.advance(500)
        q.push({"later": True}, priority=80, delay=9000)
        one = of_band(app, QUEUE, "interactive")
        assert one is not None
        assert (one.max_age, one.max_lease_age) == (0.0, past(500))
        q.push({"due": True}, priority=80)
        clock.advance(100)
        one = of_band(app, QUEUE, "interactive")
        assert one is not None
        assert (one.max_age, one.max_lease_age) == (past(100), past(600))

    def test_a_job_that_waits_for_a_slot_has_no_age(
        self, app: Stanchion, q: Queue, store: Store, clock: StoreClock
    ) -> None:
        app.semaphore("none", 0)
        q.push({}, priority=80, limits=["none"])
        assert claim(store) == []
        clock.advance(500)
        one = of_band(app, QUEUE, "interactive")
        assert one is not None
        assert (one.waiting, one.max_age) == (1, 0.0)

    def test_counts_by_band_and_state(self, app: Stanchion, q: Queue, store: Store) -> None:
        for priority, count in ((100, 2), (60, 1), (20, 1), (0, 3), (-100, 1)):
            q.push_many(Push({}, priority=priority) for _ in range(count))
        q.push({}, priority=-20, delay=900)
        claim(store)
        monitor = app.monitor()
        bands = {one.band: one for one in monitor.bands}
        assert monitor.exact
        assert {name: (one.scheduled, one.ready, one.running) for name, one in bands.items()} == {
            "interactive": (0, 2, 1),
            "user_visible": (0, 1, 0),
            "eventual": (1, 3, 0),
            "reporting": (0, 1, 0),
        }
        assert monitor.queues[0].size.total == 9
        assert not any(one.erroring for one in monitor.bands)

    def test_erroring_jobs_and_attempts(self, app: Stanchion, q: Queue, store: Store) -> None:
        q.push({}, priority=80)
        for _ in range(2):
            (row,) = claim(store)
            store.settle([Rollback(row.lease, 0.0, "no")])
        one = of_band(app, QUEUE, "interactive")
        assert one is not None
        assert (one.erroring, one.max_attempts) == (1, 2)
        assert one.alert_percent >= 66.7

    def test_an_empty_store(self, app: Stanchion) -> None:
        monitor = app.monitor()
        assert (monitor.queues, monitor.alerts, monitor.exact) == ((), (), True)
        assert [one.band for one in monitor.bands] == ["interactive", "user_visible", "eventual", "reporting"]


class TestAlerts:
    def test_a_late_job_with_and_without_a_worker(
        self, app: Stanchion, q: Queue, store: Store, clock: StoreClock
    ) -> None:
        q.push({}, priority=80)
        assert told(app) == []
        clock.advance(300)
        (alert,) = told(app)
        assert (alert.level, alert.rule, alert.subject, alert.merged) == ("now", "no-worker", QUEUE, ("age",))
        assert alert.value == past(300)
        store.beat([worker("w1")])
        (alert,) = told(app)
        assert (alert.rule, alert.band, alert.merged) == ("age", "interactive", ())

    def test_a_long_attempt(self, app: Stanchion, q: Queue, store: Store, clock: StoreClock) -> None:
        q.push({}, priority=80)
        (row,) = claim(store)
        assert by_rule(app) == {}
        clock.advance(60)
        alert = by_rule(app)["run-time"]
        assert (alert.value, alert.limit) == (past(60), 30)
        assert any(row.id in line for line in alert.evidence)

    def test_many_attempts(self, app: Stanchion, q: Queue, store: Store) -> None:
        q.push({}, priority=80)
        for _ in range(3):
            (row,) = claim(store)
            store.settle([Rollback(row.lease, 0.0, "no")])
        assert by_rule(app)["attempts"].value == 3

    def test_dead_jobs_in_history_and_as_letters(self, app: Stanchion, store: Store, clock: StoreClock) -> None:
        app.queue("kept").configure(dead_letter="kept-dead")
        for queue in (QUEUE, "kept"):
            app.queue(queue).push({})
            (row,) = claim(store, queue=queue)
            store.settle([Bury(row.lease, "no")])
        found = {alert.subject: alert for alert in told(app) if alert.rule == "dead-letters"}
        assert {name: (one.value, one.level) for name, one in found.items()} == {
            QUEUE: (1, "soon"),
            "kept": (1, "soon"),
        }
        clock.advance(3700)
        assert "dead-letters" not in by_rule(app)

    def test_the_heaviest_error_is_named(self, app: Stanchion, q: Queue, store: Store) -> None:
        tally = FailureTally()
        for number, error in enumerate(("E: timed out", "E: timed out", "F: broken")):
            q.push(number)
            (row,) = claim(store)
            store.settle([Bury(row.lease, error)])
            tally.add(QUEUE, None, group_of(error, None), error, row.id, new=True, dead=True)
        tally.merge(store)
        alert, key = by_rule(app)["dead-letters"], group_of("E: timed out", None)
        assert alert.error == key
        assert any(f"error {key}." in line for line in alert.evidence)
        assert f"stanchion retry --error {key} --queue {QUEUE}" in [action.command for action in alert.actions]
        assert {job.error_group for job in q.find(state="dead")} == {key, group_of("F: broken", None)}

    def test_an_idle_station_is_known_without_its_code(
        self, app: Stanchion, other_app: Stanchion, clock: StoreClock
    ) -> None:
        etl = app.pipeline("etl")
        etl.station("raw", to=["clean"])(lambda item: item)
        etl.station("clean")(lambda item: item)
        etl.push(1)
        clock.advance(200)
        assert "idle-station" not in by_rule(other_app)
        clock.advance(200)
        assert not context_of(other_app).registry.pipelines
        assert "idle-station" in by_rule(other_app)
        assert "clean of etl is idle" in " ".join(
            line for alert in told(other_app) for line in (alert.summary, *alert.evidence)
        )

    def test_a_paused_queue_that_grows(self, app: Stanchion, q: Queue, clock: StoreClock) -> None:
        q.push({})
        q.pause()
        q.push({})
        assert by_rule(app)["paused"].subject == QUEUE
        clock.advance(9000)
        assert by_rule(app) == {}  # nothing came since, and it has no age while it is paused

    def test_a_line_that_does_not_move(self, app: Stanchion, q: Queue, store: Store, clock: StoreClock) -> None:
        app.semaphore("smtp", 1)
        q.push_many(Push({}, limits=["smtp"]) for _ in range(2))
        assert len(claim(store, 2)) == 1
        assert "semaphore" not in by_rule(app)
        clock.advance(400)  # the holder runs for longer than its band allows
        assert by_rule(app)["semaphore"].subject == "smtp"

    def test_a_task_that_nobody_knows(self, app: Stanchion) -> None:
        app.enqueue("gone", queue=QUEUE)
        app.task(name="known", queue=QUEUE)(print)
        app.drain()
        alert = by_rule(app)["unknown-task"]
        assert (alert.kind, alert.subject) == ("task", "gone")

    def test_a_tick_that_nobody_fires(self, app: Stanchion, clock: StoreClock) -> None:
        app.cron("*/5 * * * *", schedule="tidy")(app.task(name="tidy", queue=QUEUE)(print))
        tick(app)
        assert "missed-tick" not in by_rule(app)
        clock.advance(600)
        assert by_rule(app)["missed-tick"].subject == "tidy"
        tick(app)
        assert "missed-tick" not in by_rule(app)

    def test_history_that_is_not_deleted(self, app: Stanchion, q: Queue, store: Store, clock: StoreClock) -> None:
        q.configure(history_ttl=60)
        q.push({})
        (row,) = claim(store)
        store.settle([Bury(row.lease, "no")])
        clock.advance(3000)
        assert "purge" not in by_rule(app)
        clock.advance(3000)
        assert by_rule(app)["purge"].subject == QUEUE

    def test_failed_attempts_since_the_reading_some_minutes_ago(
        self, app: Stanchion, q: Queue, store: Store, clock: StoreClock
    ) -> None:
        assert told(app) == []
        clock.advance(290)
        q.push_many([{}] * 60)
        rows = claim(store, 60)
        store.settle([Rollback(row.lease, 90.0, "no") for row in rows])
        clock.advance(20)
        assert by_rule(app)["failed-attempts"].value == 1.0

    def test_expired_jobs_since_the_reading_some_minutes_ago(
        self, app: Stanchion, q: Queue, store: Store, clock: StoreClock
    ) -> None:
        assert told(app) == []
        clock.advance(200)
        q.configure(jobs_expire=30)
        q.push_many([{}] * 10)
        clock.advance(100)
        store.maintain()
        assert by_rule(app)["expired-jobs"].value == 1.0

    def test_limits_for_all_processes(self, app: Stanchion, other_app: Stanchion, q: Queue, clock: StoreClock) -> None:
        q.push({})
        store_limits(context_of(app), {"no_worker": 1000, "eventual.max_age": 200})
        clock.advance(500)
        assert set(by_rule(other_app)) == {"age"}
        assert set(by_rule(other_app, **{"queue.orders.max_age": 900})) == set()
        store_limits(context_of(other_app), {"no_worker": None})
        assert set(by_rule(app)) == {"age", "no-worker"}


class TestOfJobsThatWaited:
    @pytest.fixture(params=["semaphore", "order key"])
    def limit(self, request: pytest.FixtureRequest) -> dict[str, Any]:
        """What only one job has at a time."""
        return {"limits": ["smtp"]} if request.param == "semaphore" else {"order_key": "k"}

    @pytest.fixture
    def free(self, app: Stanchion, q: Queue, clock: StoreClock, limit: dict[str, Any]) -> Callable[[], None]:
        """Return what lets a job go on that could have run 500 s ago but for another one."""
        app.semaphore("smtp", 1)
        q.push({}, priority=80, **limit)
        q.push({}, priority=80, **limit)
        (first,) = q.reserve(2)
        first.extend(1000)
        clock.advance(500)
        return first.commit

    def test_the_age_begins_when_they_could_run(
        self, app: Stanchion, clock: StoreClock, free: Callable[[], None]
    ) -> None:
        free()
        one = of_band(app, QUEUE, "interactive")
        assert one is not None
        assert (one.ready, one.max_age) == (1, past(0))
        assert told(app) == []
        clock.advance(100)
        one = of_band(app, QUEUE, "interactive")
        assert one is not None
        assert one.max_age == past(100)
        assert by_rule(app)["age"].value == past(100)

    def test_others_beside_them_count(
        self, app: Stanchion, q: Queue, clock: StoreClock, free: Callable[[], None]
    ) -> None:
        q.push({}, priority=80)
        clock.advance(100)
        free()
        assert by_rule(app)["age"].value == past(100)

    def test_those_beyond_what_is_read_count_from_when_they_were_due(
        self, app: Stanchion, free: Callable[[], None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        free()
        monkeypatch.setattr(heads, "BEHIND_MAX", 1)
        assert by_rule(app)["age"].value == past(500)
        monkeypatch.setattr(heads, "BEHIND_MAX", 50)
        monkeypatch.setattr(heads, "HEADS_MAX", 0)
        assert by_rule(app)["age"].value == past(500)


class TestReads:
    def test_the_number_of_jobs_and_queues_costs_no_reads(self, app: Stanchion) -> None:
        with counted(app) as calls:
            app.alerts()
            few = calls.copy()
            calls.clear()
            for number in range(20):
                app.queue(f"queue {number}").push_many([{}] * 5)
            calls.clear()
            app.alerts()
        assert calls["compare_and_set"] == 0  # the first reading wrote the totals for later ones
        assert calls["select"] <= 3 + 8 + heads.HEADS_MAX
        assert calls.total() - calls["select"] <= few.total() - few["select"] + 1
        assert not calls["fetch"] + calls["partition"] + calls["lane_depths"]


@contextmanager
def counted(app: Stanchion) -> Iterator[Counter[str]]:
    """Count the calls of each verb of the app's store that reads."""
    calls: Counter[str] = Counter()
    store = context_of(app).fresh_store
    with pytest.MonkeyPatch.context() as patch:
        for verb in VERBS:
            patch.setattr(store, verb, _counting(getattr(store, verb), calls, verb))
        yield calls


def _counting(call: Callable[..., Any], calls: Counter[str], verb: str) -> Callable[..., Any]:
    def counted(*args: Any, **options: Any) -> Any:
        calls[verb] += 1
        return call(*args, **options)

    return counted

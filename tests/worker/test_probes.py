"""Liveness, readiness and metrics of a worker."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from stanchion import InvalidInput, Job, Retry, Stanchion, Worker
from stanchion.alerts.collector import StoreMetrics
from stanchion.app import on_store
from stanchion.jobs.outcome import Bury
from tests.telemetry.scrape import families, get, probe, value
from tests.worker.conftest import Faulty, ended, until, working


def port_of(worker: Worker) -> int:
    assert worker.health_port
    return worker.health_port


def test_a_store_that_is_away_makes_it_unready_but_alive(app: Stanchion) -> None:
    app.task(name="t", queue="q")(print)
    store: Any = Faulty(app.store)
    with on_store(app, store), working(app, health_port=0, heartbeat=0.2) as worker:
        port = port_of(worker)
        until(lambda: probe(port, "/readyz")[0] == 200)
        store.broken = True
        until(lambda: probe(port, "/readyz")[0] == 503)
        assert probe(port, "/livez") == (200, None)
        store.broken = False
        until(lambda: probe(port, "/readyz")[0] == 200)


def test_a_thread_that_has_died_takes_a_restart(app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
    app.task(name="t", queue="q")(print)
    with working(app, health_port=0) as worker:
        port = port_of(worker)
        assert probe(port, "/livez") == (200, None)
        monkeypatch.setattr(type(worker._finisher), "alive", False)
        assert probe(port, "/livez") == (503, "the finisher has died")


def test_one_that_stops_is_not_ready(app: Stanchion) -> None:
    begun, go_on = threading.Event(), threading.Event()

    @app.task(name="t", queue="q")
    def task() -> None:
        begun.set()
        go_on.wait(60)

    task.enqueue()
    with working(app, health_port=0, grace=60) as worker:
        assert begun.wait(60)
        stopping = threading.Thread(target=worker.stop, args=(60,))
        stopping.start()
        until(lambda: probe(port_of(worker), "/readyz") == (503, "stopping"))
        assert probe(port_of(worker), "/livez")[0] == 200
        go_on.set()
        stopping.join(60)


def test_metrics_are_not_served_unless_asked_for(app: Stanchion) -> None:
    app.task(name="t", queue="q")(print)
    with working(app, health_port=0) as worker:
        assert get(port_of(worker), "/metrics")[0] == 404
    with pytest.raises(InvalidInput, match="pass both"):
        Worker(app, store_metrics=True)


def test_attempts_by_outcome(app: Stanchion) -> None:
    @app.task(name="good", queue="q")
    def good() -> None: ...

    @app.task(name="bad", queue="q", retry=Retry.exponential(0.01, max_attempts=2))
    def bad() -> None:
        raise ValueError

    @app.task(name="own", queue="other")
    def own(job: Job) -> None:
        job.commit()  # type: ignore[attr-defined]

    @app.task(name="buried", queue="q")
    async def buried() -> Bury:
        return Bury("no")

    jobs = [good.enqueue(), good.enqueue(), bad.enqueue(), app.enqueue("own"), buried.enqueue()]
    with working(app, health_port=0, metrics=True) as worker:
        for job in jobs:
            ended(app, job.id)
        port = port_of(worker)
        until(lambda: value(port, "stanchion_job_run_seconds_count", task="own") == 1)
        attempts = {
            (one.labels["queue"], one.labels["task"], one.labels["outcome"]): one.value
            for one in families(port)["stanchion_job_attempts"].samples
            if one.name.endswith("_total")
        }
        assert attempts == {
            ("q", "good", "done"): 2,
            ("q", "bad", "failed"): 2,
            ("other", "own", "settled"): 1,
            ("q", "buried", "dead"): 1,
        }
        assert value(port, "stanchion_job_run_seconds_count", queue="q", task="good") == 2
        assert value(port, "stanchion_job_pickup_delay_seconds_count", queue="q") == 5
        assert value(port, "stanchion_jobs_died_total", queue="q") == 2
        assert value(port, "stanchion_job_leases_lost_total") == 0
        assert value(port, "stanchion_worker_slots") == 4
        assert value(port, "stanchion_worker_healthy") == 1
        assert value(port, "process_open_fds")


def test_the_figures_of_the_store_are_read_once_for_many_scrapes(app: Stanchion) -> None:
    app.task(name="t", queue="q")(print)
    app.queue("idle").push({}, priority="interactive")
    with working(app, ["q"], health_port=0, metrics=True, store_metrics=True) as worker:
        port = port_of(worker)
        assert value(port, "stanchion_queue_jobs", queue="idle", state="ready") == 1
        assert value(port, "stanchion_queue_events_total", queue="idle", event="pushed") == 1
        assert value(port, "stanchion_oldest_job_age_seconds", queue="idle", band="interactive") is not None
        assert value(port, "stanchion_store_up") == 1
        app.queue("idle").push({})
        assert value(port, "stanchion_queue_jobs", queue="idle", state="ready") == 1


def test_alerts_and_a_silent_store_as_metrics(app: Stanchion) -> None:
    def sample(name: str, **limits: float) -> dict[tuple[str, ...], float]:
        text = StoreMetrics.of(lambda: app.monitor(limits)).text(openmetrics=False).decode()
        return {
            tuple(one.labels.values()): one.value
            for family in text_string_to_metric_families(text)
            for one in family.samples
            if one.name == name
        }

    app.queue("q").push(1)
    assert sample("stanchion_alerts") == {}
    assert sample("stanchion_alerts", no_worker=1e-6) == {("now", "no-worker", "queue", "q"): 1}
    store: Any = Faulty(app.store)
    with on_store(app, store):
        from stanchion import StoreUnavailable

        store.error, store.broken = StoreUnavailable("away"), True
        assert sample("stanchion_store_up") == {(): 0}
        assert sample("stanchion_alerts") == {("now", "store", "store", "store"): 1}

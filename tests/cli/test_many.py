"""Thousands of queues: lists are bounded, and pages and metrics answer."""

from __future__ import annotations

import pytest

from stanchion import Stanchion
from stanchion.alerts.figures import monitor_of
from stanchion.alerts.snapshot import QueueSample, Snapshot
from stanchion.alerts.thresholds import Thresholds
from stanchion.core.ids import new_id
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.queues import QueueSettings, QueueStats
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.registry import open_store
from tests.cli.conftest import Run
from tests.web.conftest import Browser, site_of

QUEUES = 300


def filled(app: Stanchion, queues: int) -> None:
    app.store.push([NewJob(new_id(), f"queue-{number:05d}", "1") for number in range(queues)])


@pytest.mark.parametrize("args", [["queues"], ["top", "--once", "--interval", "100ms"], ["alerts", "--monitor"]])
def test_a_list_is_bounded_and_says_so(run: Run, app: Stanchion, args: list[str]) -> None:
    app.setup()
    filled(app, QUEUES)
    said = run(*args)
    assert said.out.count("queue-0") == 100
    assert f"{QUEUES}" in said.err or f"and {QUEUES - 100} more" in said.out


@pytest.mark.parametrize("args", [["queues"], ["top", "--once", "--interval", "100ms"]])
def test_a_limit_shows_more(run: Run, app: Stanchion, args: list[str]) -> None:
    app.setup()
    filled(app, QUEUES)
    assert run(*args, "--limit", "250").out.count("queue-0") == 250
    assert "more" not in run("queues", "--limit", "1000").err
    assert len(run("queues", "--json", "--limit", "1").json) == QUEUES


def test_pages_and_metrics_answer_with_thousands_of_queues() -> None:
    app = Stanchion(store=open_store("memory://"))
    filled(app, 5000)
    site = site_of(app)
    browser = Browser(site)
    for path in ("/", "/queues", "/queues/queue-00001", "/errors", "/metrics", "/api/v1/queues", "/api/v1/alerts"):
        assert browser.get(path).status_code == 200, path
    site.close()
    app.close()


def test_figures_look_at_each_queue_a_few_times() -> None:
    """Not at all queues for each queue: 5,000 took 25 million looks."""
    looks = 0

    class Settings(QueueSettings):
        def __getattribute__(self, name: str) -> object:
            nonlocal looks
            looks += name == "dead_letter"
            return super().__getattribute__(name)

    queues = tuple(QueueSample(Settings(f"q{number}"), QueueStats()) for number in range(200))
    monitor_of(Snapshot(at=1, queues=queues), Thresholds())
    assert 0 < looks < 200 * 20


def test_alerts_of_one_rule_are_one_line(run: Run, app: Stanchion) -> None:
    app.setup()
    due = app.store.now() - 3_600_000_000
    app.store.push([NewJob(new_id(), f"queue-{number:05d}", "1", run_at=due) for number in range(QUEUES)])
    said = run("alerts")
    assert f"NOW   {QUEUES} queues have no live worker: queue-00000, queue-00001, queue-00002 and 297 more." in said.out
    assert said.out.count("NOW ") == 1
    assert "more: --all" not in said.out
    assert run("alerts", "--all").out.count("NOW ") == QUEUES


def test_the_page_tells_how_many_there_are_and_how_many_it_shows() -> None:
    app = Stanchion(store=open_store("memory://"))
    due = app.store.now() - 3_600_000_000
    app.store.push([NewJob(new_id(), f"queue-{number:05d}", "1", run_at=due) for number in range(1200)])
    app.store.push([NewJob(new_id(), "calm", "1", delay=3600)])
    site = site_of(app)
    browser = Browser(site)
    overview = browser.get("/").text
    assert "1,200 things need a person" in overview
    assert '<a href="/queues?alert=no-worker">1,200 queues have no live worker</a>' in overview
    assert overview.count('<li class="alert') == overview.count('<li class="alert brief"') == 1
    listed = browser.get("/queues").text
    assert "<h1>1,200 of 1,201 queues need attention</h1>" in listed
    assert "The first 200 of 1,201 queues are shown." in listed
    app.store.beat([WorkerRow("w1", "host", 1, tuple(f"spare-{number}" for number in range(1020)), 8, 10.0)])
    assert "spare-19 and 1,000 more" in browser.get("/workers").text
    filtered = browser.get("/queues?alert=no-worker").text
    assert "<h1>1,200 queues need attention</h1>" in filtered
    assert "200 of 1,200 queues, 1,201 in all" in filtered
    assert "/queues/calm" not in filtered
    assert "/queues/calm" in browser.get("/queues?name=calm").text
    assert "No queue has an alert of this rule" in browser.get("/queues?alert=age&name=calm").text
    site.close()
    app.close()

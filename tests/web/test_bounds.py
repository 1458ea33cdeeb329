"""What pages read of a large store is bounded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from stanchion import Push, Stanchion
from stanchion.alerts.alerts import store_limits
from stanchion.context import context_of
from stanchion.context.queues.options import QueueOptions
from stanchion.core.text.error_kinds import group_of
from stanchion.ops.reads import lists
from stanchion.ops.reads.lists import page_of
from stanchion.ops.web.live import figures, sampler
from stanchion.stores.records.query import Query
from stanchion.stores.registry import open_store
from stanchion.telemetry.failures import FailureTally
from stanchion_conformance.operate.alerts import counted
from tests.web.conftest import Browser, site_of
from tests.web.test_pages import READS_MAX


@pytest.fixture
def many():
    app = Stanchion(store=open_store("memory://"))
    app.setup()
    app.queue("orders").push_many([{"n": number, "odd": "yes" if number % 2 else "no"} for number in range(1000)])
    yield app
    app.close()


def walked(app: Stanchion, query: Query, limit: int) -> list[list[str]]:
    pages, after = [], None
    while True:
        page = page_of(context_of(app), app.store, query, app.store.now(), after, limit)
        pages.append([job.id for job in page.jobs])
        after = page.next
        if after is None:
            return pages


@pytest.mark.parametrize(("text", "found"), [('"odd":"yes"', 500), ('"n":7,', 1), ("nowhere", 0), ("{", 1000)])
def test_a_search_for_text_finds_each_job_once_in_pages(many, text, found):
    pages = walked(many, Query(text=text), 30)
    together = [job for page in pages for job in page]
    assert len(together) == len(set(together)) == found
    assert together == sorted(together, reverse=True)
    assert all(len(page) <= 30 for page in pages)


def test_a_search_stops_after_a_number_of_jobs_and_goes_on_from_there(many, monkeypatch):
    monkeypatch.setattr(lists, "SEARCHED", 100)
    page = page_of(context_of(many), many.store, Query(text='"n":7,'), many.store.now(), None, 30)
    assert page.jobs == []
    assert page.next is not None
    assert page.looked_at is not None
    assert 100 <= page.looked_at < 1000
    assert sum(map(len, walked(many, Query(text='"n":7,'), 30))) == 1


def test_a_search_stops_when_its_time_is_over_and_the_page_says_so(many, monkeypatch):
    monkeypatch.setattr(lists, "SEARCH_SECONDS", 0.0)
    with Browser(site_of(many)) as browser:
        text = browser.get("/jobs?text=nowhere").text
    assert "None of the next 50 has this text" in text
    assert "after=" in text


def test_a_slow_count_of_queues_is_not_repeated_for_each_page(many, monkeypatch):
    monkeypatch.setattr(figures, "QUICK", -1.0)
    with Browser(site_of(many)) as browser:
        browser.get("/")
        asked: list[object] = []
        stats = many.store.stats

        def noted(names: Sequence[str], *rest: Any) -> Any:
            asked.extend(names)
            return stats(names, *rest)

        monkeypatch.setattr(many.store, "stats", noted)
        text = browser.get("/queues").text
        assert "Counted " in text
        assert "1,000" in text
        assert browser.get("/api/v1/queues").json()["items"][0]["size"]["ready"] == 1000
        assert asked == []
        many.queue("fresh").push(1)
        assert "fresh" in browser.get("/queues").text
        assert set(asked) == {"fresh"}


@pytest.fixture
def laden() -> Iterator[tuple[Browser, Stanchion]]:
    """A queue with all that its page may show: lanes, tenants, failures, tallies, changed settings, alerts, a note."""
    app = Stanchion("memory://")
    shapes: dict[str, QueueOptions] = {"orders": {"lanes": 4}, "wide": {"lanes": 4, "partitions": 4}}
    queue, wide = (app.queue(name, **more) for name, more in shapes.items())
    tally = FailureTally()
    app.setup()
    queue.push_many([Push({"n": number}, tenant=f"t{number % 3}") for number in range(20)])
    queue.reserve()[0].bury("E: no stock")
    tally.add("orders", "ship", group_of("E: no stock", "ship"), "E: no stock", "id", new=True, dead=True)
    tally.merge(app.store)
    store_limits(context_of(app), {"no_worker": 1e-6})
    wide.push_many([Push({"n": number}, tenant=f"t{number % 3}") for number in range(20)])
    wide.reserve()[0].bury("E: no stock")
    site = site_of(app)
    yield Browser(site), app
    site.close()
    app.close()


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("name", ["orders", "wide"])
def test_the_page_of_a_queue_with_everything_reads_little(laden, monkeypatch, name, paused):
    browser, app = laden
    assert browser.submit(f"/set/{name}", setting="lease", value="20s", note="why").status_code == 303
    if paused:
        assert browser.submit(f"/pause/{name}", note="the provider is down").status_code == 303
    browser.submit("/on-it", key=f"queue:{name}")
    monkeypatch.setattr(sampler, "SHORTEST", 1e6)  # what it reads is not of a page
    path = f"/queues/{name}?span=2d"
    browser.get(path)
    with counted(app) as reads:
        text = browser.get(path).text
    for shown in (
        "Queued jobs in each lane",
        "E: no stock",
        "the provider is down" if paused else "local is on it",
    ):
        assert shown in text
    assert ("Ready jobs by tenant" in text) == (name == "orders")
    assert ('<th scope="row">wide#' in text) == (name == "wide")
    assert reads.total() <= READS_MAX + 1, reads  # one finds the dead letters of the queue, wherever they lie

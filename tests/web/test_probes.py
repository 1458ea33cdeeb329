"""Probes and metrics on the port of the page."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from stanchion import Stanchion
from stanchion.alerts.alerts import monitor
from stanchion.alerts.records import Monitor
from stanchion.context.context import Context
from stanchion.errors import MissingExtra, StoreUnavailable
from stanchion.ops.web import probes
from stanchion.ops.web.live.deadlines import Deadlines, Missed
from stanchion.ops.web.site import FIRST_SECONDS, Site
from stanchion.telemetry.prometheus import exposed
from tests.web.conftest import READ, Browser, site_of


def samples(text: str) -> dict[str, Any]:
    return {one.name: one for family in text_string_to_metric_families(text) for one in family.samples}


@pytest.mark.parametrize("path", ["/livez", "/healthz", "/readyz"])
def test_a_probe_takes_no_token_and_tells_no_more_than_its_status(guarded: Site, path: str) -> None:
    answer = Browser(guarded, "http://10.1.2.3:7118", client="10.9.8.7").get(path)
    assert (answer.status_code, answer.json()) == (200, {"status": "ok", "reason": None})


def test_it_is_alive_and_not_ready_without_its_store(guarded: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent() -> int:
        raise StoreUnavailable("postgresql://app:secret@db is away")

    monkeypatch.setattr(guarded.store, "now", silent)
    browser = Browser(guarded)
    assert browser.get("/healthz").status_code == 200
    answer = browser.get("/readyz")
    assert (answer.status_code, answer.json()["reason"]) == (503, "the store does not answer")


def test_metrics_take_a_token_of_any_role_or_a_session(guarded: Site) -> None:
    browser = Browser(guarded)
    refused = browser.get("/metrics")
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, 'Bearer realm="stanchion"')
    assert browser.get("/metrics", headers={"Authorization": f"Bearer {READ}"}).status_code == 200
    browser.log_in(READ)
    assert browser.get("/metrics").status_code == 200


def test_unknown_tokens_are_bounded(guarded: Site) -> None:
    browser = Browser(guarded)
    known = [browser.get("/metrics", headers={"Authorization": "Bearer wrong"}).status_code for _ in range(6)]
    assert known == [401] * 5 + [429]
    assert browser.get("/api/v1/queues", headers={"Authorization": "Bearer wrong"}).status_code == 429


def test_without_tokens_they_are_for_this_machine(site: Site) -> None:
    assert Browser(site).get("/metrics").status_code == 200
    assert Browser(site, "http://evil.example:7118").get("/metrics").status_code == 401
    assert Browser(site, client="10.9.8.7").get("/metrics").status_code == 401


def test_they_have_the_figures_of_the_store_and_of_the_page(site: Site) -> None:
    browser = Browser(site)
    browser.get("/queues/mail", headers={"HX-Request": "true"})
    found = samples(browser.get("/metrics").text)
    assert found["stanchion_store_up"].value == 1
    assert found["stanchion_web_renders_total"].value == 1
    assert found["stanchion_web_streams"].value == 0
    assert "process_cpu_seconds_total" in found


def test_without_the_library_they_say_so(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise MissingExtra("metrics", "serving metrics")

    monkeypatch.setattr(probes, "new_registry", missing)
    answer = Browser(site).get("/metrics")
    assert answer.status_code == 501
    assert "stanchion[metrics]" in answer.text


def test_the_deadline_is_of_the_reading_and_not_of_the_text(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of thousands of queues takes seconds, and no store is slow because of it."""
    threads: list[str] = []
    more: list[float] = []

    def noted(what: Any) -> Any:
        def call(*args: Any) -> Any:
            threads.append(threading.current_thread().name)
            return what(*args)

        return call

    monkeypatch.setattr(probes, "exposed", lambda *given: noted(exposed(*given)))
    monkeypatch.setattr(probes, "monitor", noted(monitor))
    monkeypatch.setattr(site.deadlines, "allow", more.append)
    assert Browser(site).get("/metrics").status_code == 200
    text, reading = threads
    assert reading == "stanchion-web-read" != text
    assert more == [FIRST_SECONDS]


def test_a_late_reading_is_served_to_the_next_scrape(app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database whose reading takes longer than a scrape waits is not unavailable for ever."""
    site, go_on = site_of(app, deadlines=Deadlines(0.2)), threading.Event()
    more: list[float] = []

    def slow(context: Context) -> Monitor:
        assert go_on.wait(60)
        return monitor(context)

    monkeypatch.setattr(probes, "monitor", slow)
    monkeypatch.setattr(probes, "FIRST_SECONDS", 0.1)
    monkeypatch.setattr(site.deadlines, "allow", more.append)
    browser = Browser(site)
    assert [browser.get("/metrics").status_code for _ in range(2)] == [503, 503]
    go_on.set()
    site.deadlines.join()
    assert browser.get("/metrics").status_code == 200
    assert more == [0.1]
    site.close()


def test_a_late_reading_is_named(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: object) -> None:
        raise Missed("The metrics could not be read within 2 s: the store is slow")

    monkeypatch.setattr(site.deadlines, "read", late)
    answer = Browser(site).get("/metrics")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert "the store is slow" in answer.text

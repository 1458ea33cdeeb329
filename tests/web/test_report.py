"""The report on the page."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from stanchion import Stanchion
from stanchion.ops.web.live import reports
from stanchion.ops.web.live.reports import Key, Reports
from stanchion.ops.web.site import Site
from stanchion.reporting.report import report
from tests.web.attacks import SECRET
from tests.web.conftest import Browser


class Held:
    """A report that is counted only once it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go, self.calls = threading.Event(), 0
        original = report

        def held(*args: Any, **options: Any) -> Any:
            self.calls += 1
            options["counted"](17)
            self.go.wait(60)
            return original(*args, **options)

        monkeypatch.setattr(reports, "report", held)
        monkeypatch.setattr(reports, "WAIT", 0.0)


class TestReport:
    def test_the_verdict_comes_first_and_nothing_hidden_is_shown(self, browser: Browser, site: Site) -> None:
        browser.get("/report")
        site.reports.join()
        text = browser.get("/report").text
        assert "<h1>17 of 127 jobs died, 10 of them in payments" in text
        assert text.index("<h1>") < text.index("Oldest waiting job") < text.index("Throughput")
        assert "password=•••" in text
        assert SECRET not in text

    def test_it_is_of_a_period_and_a_queue(self, browser: Browser, site: Site) -> None:
        browser.get("/report?since=1h&queue=payments")
        site.reports.join()
        assert "10 of 10 jobs died, in payments" in browser.get("/report?since=1h&queue=payments").text
        browser.get("/report?since=1h&queue=webhooks")
        site.reports.join()
        assert (
            "No job has finished in the last hour in webhooks." in browser.get("/report?since=1h&queue=webhooks").text
        )
        assert browser.get("/report?since=soon").status_code == 400

    def test_its_progress_is_shown_and_it_is_counted_once(
        self, browser: Browser, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        held = Held(monkeypatch)
        browser.get("/report")
        while "Counting: 17 jobs so far" not in browser.get("/report").text:
            pass
        assert held.calls == 1
        held.go.set()
        site.reports.join()
        assert "jobs died" in browser.get("/report").text

    def test_an_old_one_is_shown_with_its_age_while_the_next_is_counted(
        self, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = site.app.store.now()
        site.reports.ask(Key(3600), now)
        site.reports.join()
        assert site.reports.ask(Key(3600), now).counted is None
        held = Held(monkeypatch)
        later = site.reports.ask(Key(3600), now + 2 * reports.FRESH)
        assert later.made is not None
        assert later.counted is not None
        held.go.set()
        site.reports.join()

    def test_too_many_jobs_are_said_to_be(self, browser: Browser, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(reports, "MOST", 5)
        browser.get("/report")
        site.reports.join()
        text = browser.get("/report").text
        assert "<h1>The report could not be made</h1>" in text
        assert "more than 5 jobs have finished" in text

    def test_few_are_kept(self, app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(reports, "KEPT", 2)
        made = Reports(app)
        for number in range(4):
            made.ask(Key(3600, f"q{number}"), app.store.now())
            made.join()
        assert len(made._made) == 2

    def test_the_page_ends_while_one_is_counted(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        held = Held(monkeypatch)
        site.reports.ask(Key(3600), 0)
        held.go.set()
        site.close()
        assert site.reports._thread is None

"""Dead letters are dead jobs of the queue where they died, on each page and in the API."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from stanchion import Push, Stanchion
from stanchion.ops.web.live import sampler
from stanchion_conformance.operate.alerts import counted
from tests.web.conftest import Browser, site_of
from tests.web.test_pages import READS_MAX


@pytest.fixture
def app() -> Iterator[Stanchion]:
    """A queue whose four dead jobs ran twice each, and lie in another queue."""
    app = Stanchion("memory://")
    app.setup()
    payments = app.queue("payments", dead_letter="payments.dead")
    payments.push_many([Push({"order": number}, max_attempts=2, priority=80) for number in range(4)])
    for _ in range(2):
        for job in payments.reserve(4):
            job.rollback(delay=0, error="GatewayTimeout: no answer")
    yield app
    app.close()


def text_of(browser: Browser, page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", browser.get(page).text).split())


def test_the_page_of_a_job_says_how_often_it_ran(browser: Browser, app: Stanchion) -> None:
    job = app.queue("payments").find(state="dead")[0]
    text = text_of(browser, f"/jobs/{job.id}")
    assert "is dead after two attempts" in text
    assert "Dead: its two attempts are used up" in text
    assert "never ran" not in text
    assert "Died in payments" in text
    assert "It becomes ready in payments immediately" in text_of(browser, f"/jobs/{job.id}/retry")


def test_each_page_counts_the_same(browser: Browser) -> None:
    assert "4 dead jobs in payments" in text_of(browser, "/jobs?state=dead&queue=payments")
    assert "4 dead jobs in payments.dead" in text_of(browser, "/jobs?state=dead&queue=payments.dead")
    assert "Retry 4 jobs?" in text_of(browser, "/bulk?act=retry&state=dead&queue=payments")
    assert "Dead 4 now; 4 ever" in text_of(browser, "/queues/payments")
    assert "payments.dead keeps 4 dead letters" in text_of(browser, "/queues/payments.dead")
    assert "Dead 4 dead letters that lie here" in text_of(browser, "/queues/payments.dead")
    assert "1 cause of 4 dead jobs" in text_of(browser, "/errors")
    assert "payments.dead 4 dead letters – 0 0 0 0 0 0 0" in text_of(browser, "/queues")
    overview = text_of(browser, "/")
    assert "4 jobs of payments died within the last hour." in overview
    row = re.search(r"payments dead letters ([\d–. ]+)", overview)
    assert row is not None
    assert row[1].split()[-1] == "4"


def test_letters_are_no_ready_work(browser: Browser) -> None:
    bands = browser.get("/api/v1/monitor").json()["bands"]
    assert [(one["ready"], one["max_age"]) for one in bands] == [(0, 0.0)] * 4
    queue = browser.get("/api/v1/queues/payments.dead").json()["queue"]
    assert (queue["size"]["ready"], queue["dead_letters"], queue["lag"]) == (0, 4, None)
    assert all("ready" not in one["summary"] for one in browser.get("/api/v1/alerts").json()["items"])


def test_the_list_shows_them_once_retried(browser: Browser, app: Stanchion) -> None:
    browser.get("/queues/payments")
    browser.submit("/bulk", act="retry", where="state=dead&queue=payments", total="4", back="/jobs")
    browser.site.runner.close()
    while browser.site.runner.step() == 0.0:
        pass
    assert app.queue("payments").size().ready == 4
    assert "No dead job in payments" in text_of(browser, "/jobs?state=dead&queue=payments")


@pytest.mark.parametrize("page", ["/queues/payments", "/jobs?state=dead&queue=payments", "/queues/payments.dead"])
def test_pages_read_little(browser: Browser, app: Stanchion, monkeypatch: pytest.MonkeyPatch, page: str) -> None:
    monkeypatch.setattr(sampler, "SHORTEST", 1e6)  # what it reads is not of a page
    browser.get(page)
    with counted(app) as reads:
        browser.get(page)
    assert reads.total() <= READS_MAX, reads


def test_without_a_dead_letter_queue_the_pages_say_the_same(app: Stanchion) -> None:
    app.queue("mail").push({}, max_attempts=1)
    app.queue("mail").reserve()[0].bury("E: bad")
    with Browser(site_of(app)) as browser:
        assert "Dead 1 now; 1 ever" in text_of(browser, "/queues/mail")
        assert "1 dead job in mail" in text_of(browser, "/jobs?state=dead&queue=mail")

"""The page, its acts and the lists of the API, on stores of each kind."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from stanchion import Job, Stanchion, chain
from stanchion.ops.web.api.asgi import OPERATIONS
from stanchion.ops.web.bulk_work.bulk import BulkWork
from stanchion.ops.web.site import Site
from tests.web.api.conftest import Client
from tests.web.conftest import Browser, site_of
from tests.web.stores import KINDS, store_of

PAGES = ("/", "/errors", "/jobs", "/queues", "/queues/mail", "/flows", "/pipelines", "/pipelines/etl", "/schedules",
         "/workers", "/managers", "/streams", "/semaphores", "/semaphores/smtp", "/report", "/audit")  # fmt: skip


@pytest.fixture(params=KINDS)
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stanchion]:
    """An app with a bit of all that pages show."""
    with store_of(request.param, request, tmp_path) as store:
        app = Stanchion(store=store)
        fill(app)
        yield app
        app.close()


def fill(app: Stanchion) -> None:
    @app.task(name="send", queue="mail", max_attempts=1)
    def send(number: int = 0) -> int:
        if number == 2:
            raise TimeoutError("no answer")
        return number

    app.cron("0 3 * * *", schedule="nightly")(send)
    app.semaphore("smtp", capacity=1)
    app.pipeline("etl").station("load")(len)
    app.setup()
    app.schedules()
    send.enqueue_many([{"number": number} for number in range(4)])
    chain(send.s(), send.s()).enqueue()
    app.drain()
    app.queue("mail").push_many([{"n": number} for number in range(6)])
    app.queue("etl.load").push("x")
    for number in range(2):
        app.queue("limited").push(number, limits=["smtp"])
    app.queue("limited").reserve(holder="billing")


@pytest.fixture
def site(app: Stanchion) -> Iterator[Site]:
    site = site_of(app)
    yield site
    site.close()


def found(app: Stanchion, job_id: str) -> Job:
    job = app.get(job_id)
    assert job is not None
    return job


def test_each_page_is_shown(site: Site, app: Stanchion) -> None:
    browser = Browser(site)
    dead = app.find(state="dead", limit=1)[0].id
    for path in (*PAGES, f"/jobs/{dead}"):
        answer = browser.get(path)
        assert answer.status_code == 200, (path, answer.text)
    assert "1 dead job" in browser.get("/jobs?state=dead").text


def test_each_list_of_the_api_is_answered(site: Site) -> None:
    client = Client(site)
    for one in OPERATIONS:
        if one.method == "GET" and "{" not in one.path and one.id not in ("getDocument",):
            answer = client.get(one.path.removeprefix("/"))
            assert answer.status_code == 200, (one.path, answer.text)
    flow = next(job.flow for job in site.app.find(limit=100) if job.flow)
    assert len(client.asks("listJobs", "jobs", params={"flow": flow})["items"]) == 2
    assert client.asks("getSemaphore", "semaphores/smtp")["semaphore"]["held"] == 1


def test_acts_on_one_thing(site: Site, app: Stanchion) -> None:
    browser = Browser(site)
    browser.submit("/pause/mail", note="why")
    assert app.queue("mail").settings.paused
    assert "why" in browser.get("/queues/mail").text
    browser.submit("/resume/mail")
    assert not app.queue("mail").settings.paused
    dead, ready = app.find(state="dead", limit=1)[0].id, app.find(state="ready", queue="mail", limit=1)[0].id
    assert browser.submit(f"/jobs/{dead}/retry").status_code == 303
    assert browser.submit(f"/jobs/{ready}/cancel").status_code == 303
    assert (found(app, dead).state, found(app, ready).state) == ("ready", "cancelled")
    assert browser.submit("/semaphores/smtp", capacity="2").status_code == 303
    assert app.semaphore("smtp").usage().capacity == 2
    name = quote("nightly", safe="")
    browser.submit(f"/schedules/pause/{name}", note="why")
    assert app.schedule("nightly").paused
    browser.submit(f"/schedules/resume/{name}")
    browser.submit(f"/schedules/run/{name}")
    assert not app.schedule("nightly").paused
    acts = re.findall(r'<td class="nowrap">([\w ]+)</td>', browser.get("/audit").text)
    assert acts == ["run schedule", "resume schedule", "pause schedule", "resize semaphore", "cancel", "retry",
                    "resume", "pause"]  # fmt: skip


def test_bulk_work(site: Site, app: Stanchion) -> None:
    browser = Browser(site)
    browser.submit("/bulk", act="cancel", where="queue=mail&state=ready", total="6", back="/jobs")
    assert finished(site).done == len(app.find(queue="mail", state="cancelled", limit=100)) == 6
    client = Client(site)
    client.asks("beginBulkWork", "bulk", {"act": "retry", "where": {"state": ["dead"], "queue": "mail"}})
    assert finished(site).done == 1
    assert app.find(queue="mail", state="dead") == []


def finished(site: Site) -> BulkWork:
    for _ in range(6000):
        (work, _), *_ = site.bulk.all()
        if work.state != "running":
            return work
        site.runner.nudge()
        time.sleep(0.01)
    raise AssertionError("the work does not end")

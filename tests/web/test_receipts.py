"""After each act, the next page says what was done, and leads to it."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stanchion import Stanchion
from stanchion.ops.web.access.receipts import Receipt, opened, sealed
from stanchion.ops.web.bulk_work.bulk import BulkWork
from stanchion.ops.web.site import Site
from tests.acts import fill
from tests.web.conftest import Browser, site_of
from tests.web.test_acts import FORMS

SAID = re.compile(r'<p class="receipt" role="status">.*?<span>(.*?)</span></p>', re.DOTALL)


def after(browser: Browser, path: str, **fields: Any) -> tuple[str, str]:
    """Send a form; return the receipt on the page that follows, and where its link leads."""
    answer = browser.submit(path, **fields)
    assert answer.status_code == 303, answer.text
    page = browser.get(answer.headers["location"]).text
    found = SAID.search(page)
    assert found is not None, page
    assert SAID.search(browser.get(answer.headers["location"]).text) is None, "it is shown once"
    link = re.search(r'href="([^"]*)"', found[1])
    return html.unescape(re.sub(r"<[^>]*>", "", found[1])), html.unescape(link[1]) if link else ""


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[tuple[Site, dict[str, str]]]:
    """A site over a filled store, and ids of jobs."""
    app = Stanchion(f"sqlite:///{tmp_path}/jobs.db?synchronous=off")
    dead, site = fill(app), site_of(app)
    site.bulk.write(BulkWork("a" * 16, "cancel", "queue=mail", (), "eva", app.store.now(), 3, owner="other"), 0)
    yield site, {"dead": dead, "ready": app.find(queue="mail", state="ready", limit=1)[0].id}
    site.close()
    app.close()


@pytest.mark.parametrize("form", FORMS)
def test_each_act_has_a_receipt(filled: tuple[Site, dict[str, str]], form: str) -> None:
    site, ids = filled
    path, fields, _ = FORMS[form]
    assert after(Browser(site), path.format(**ids), **fields)[0]


def test_what_was_done_is_said(filled: tuple[Site, dict[str, str]]) -> None:
    site, ids = filled
    browser, dead, ready = Browser(site), ids["dead"], ids["ready"]
    assert after(browser, "/set/mail", setting="max_rate", value="5")[0] == "max_rate of mail is 5; it was none"
    assert after(browser, "/pause/mail", note="why")[0] == "mail is paused"
    assert after(browser, f"/jobs/{dead}/retry")[0] == "The job is ready again, in mail"
    assert after(browser, f"/jobs/{dead}/cancel")[0] == "The job is cancelled"
    assert after(browser, f"/jobs/{dead}/cancel")[0] == "Not cancelled: the job is cancelled already"
    assert "is a copy of" in after(browser, f"/jobs/{dead}/replay")[0]
    assert after(browser, "/resume/mail")[0] == "mail is resumed"
    assert after(browser, f"/jobs/{ready}/move", value="slow")[0] == "The job was moved from mail to slow"
    assert "runs now · see its job" in after(browser, "/schedules/run/nightly")[0]


@pytest.fixture
def app() -> Iterator[Stanchion]:
    app = Stanchion("memory://")
    app.setup()
    yield app
    app.close()


def with_dead(app: Stanchion, number: int) -> list[str]:
    ids = [job.id for job in app.queue("mail").push_many(range(number))]
    for job in app.queue("mail").reserve(number):
        job.bury("no")
    return ids


def listed(browser: Browser, path: str) -> set[str]:
    """Return the jobs of all pages of a list."""
    found: set[str] = set()
    while path:
        page = browser.get(path).text
        found |= set(re.findall(r'href="/jobs/([0-9a-f-]{36})"', page))
        more = re.search(r'class="button older" href="([^"]*)"', page)
        path = html.unescape(more[1]) if more else ""
    return found


@pytest.mark.parametrize("number", [1, 33, 120])
def test_the_link_lists_exactly_the_jobs_that_were_changed(app: Stanchion, number: int) -> None:
    dead = with_dead(app, number)
    app.queue("mail").push_many(range(7))
    with Browser(site_of(app)) as browser:
        said, link = after(
            browser, "/bulk", act="retry", where="state=dead&queue=mail", total=str(number), back="/queues"
        )
        assert said == f"{number} {'job' if number == 1 else 'jobs'} retried · see them"
        assert listed(browser, link) == set(dead)
        said, link = after(browser, "/bulk", act="cancel", id=dead[:1], total="1", back="/jobs")
        assert listed(browser, link) == set(dead[:1])
        said, link = after(browser, "/bulk", act="replay", id=dead[:1], total="1", back="/jobs")
        assert said == "1 job copied · see them"
        assert app.get(listed(browser, link).pop()).origin == dead[0]  # type: ignore[union-attr]


def test_an_act_that_did_only_part_says_why(app: Stanchion) -> None:
    dead = with_dead(app, 4)
    app.retry_job(dead[0])
    app.queue("mail").reserve(1)
    with Browser(site_of(app)) as browser:
        said, link = after(browser, "/bulk", act="retry", id=dead, total="4", back="/jobs")
        assert said == "3 jobs retried, 1 was running · see them"
        assert listed(browser, link) == set(dead[1:])
        assert "3 jobs retried, 1 was running" in browser.get("/jobs").text


def test_jobs_that_were_cancelled_before_do_not_count(app: Stanchion) -> None:
    ids = [job.id for job in app.queue("mail").push_many(range(3))]
    app.queue("mail").cancel(ids[0])
    time.sleep(0.001)  # the clock counts microseconds
    with Browser(site_of(app)) as browser:
        said, link = after(browser, "/bulk", act="cancel", id=ids, total="3", back="/jobs")
        assert said == "2 jobs cancelled, 1 was cancelled already · see them"
        assert listed(browser, link) == set(ids[1:])
        (work, _), *_ = browser.site.bulk.all()
        repeated = browser.site.runner._act(work, ids)
        assert [one.ok for one in repeated] == [False, True, True], "a round that is repeated counts the same jobs"


def test_where_too_many_were_changed_the_list_is_of_their_new_state(
    app: Stanchion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stanchion.ops.web.bulk_work.bulk.CHANGED", 2)
    dead = with_dead(app, 3)
    with Browser(site_of(app)) as browser:
        link = after(browser, "/bulk", act="retry", where="state=dead&queue=mail", total="3", back="/jobs")[1]
        assert link == "/jobs?state=ready&queue=mail"
        assert listed(browser, link) == set(dead)


def test_retried_letters_are_listed_where_they_died(app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stanchion.ops.web.bulk_work.bulk.CHANGED", 0)
    app.queue("mail").configure(dead_letter="letters")
    dead = with_dead(app, 2)
    with Browser(site_of(app)) as browser:
        browser.site.sampler.take()
        link = after(browser, "/bulk", act="retry", where="state=dead&queue=letters", total="2", back="/jobs")[1]
        assert listed(browser, link) == set(dead)


def test_work_that_takes_long_says_so(app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stanchion.ops.web.bulk_work.runner.Runner.nudge", lambda _: None)
    monkeypatch.setattr("stanchion.ops.web.bulk_work.runner.SOON", 0.0)
    with_dead(app, 2)
    with Browser(site_of(app)) as browser:
        said, link = after(browser, "/bulk", act="retry", where="state=dead&queue=mail", total="2", back="/")
        assert said == "Retry is under way: 0 jobs retried · 2 to go · see how far it is"
        assert link == "/jobs"


def test_a_page_that_is_read_again_in_place_leaves_the_receipt(app: Stanchion) -> None:
    app.queue("mail").push(1)
    with Browser(site_of(app)) as browser:
        answer = browser.submit("/pause/mail", note="why")
        again = browser.get(answer.headers["location"], headers={"HX-Request": "true"})
        assert SAID.search(again.text) is None
        assert SAID.search(browser.get(answer.headers["location"]).text) is not None


def test_a_receipt_of_another_session_is_not_shown() -> None:
    receipt = Receipt("33 jobs retried", "/jobs?work=1", "see them")
    assert opened(sealed(receipt, "mine"), "mine") == receipt
    assert opened(sealed(receipt, "theirs"), "mine") is None
    assert opened(sealed(Receipt("x", "//evil.example"), "mine"), "mine") is None
    for broken in ("", ".", "x.y", "é", "x.é", sealed(receipt, "mine")[:-1]):
        assert opened(broken, "mine") is None
    assert len(sealed(Receipt("ü" * 9000, "/" + "x" * 9000), "mine")) < 3500

"""What the pages say, how much they read, and that nothing of a job is obeyed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote

import pytest

from stanchion import Stanchion
from stanchion.errors import StoreUnavailable
from stanchion.ops.web.live import sampler
from stanchion.ops.web.site import Site
from stanchion.stores.registry import open_store
from tests.web.attacks import ATTACKS, SECRET
from tests.web.conftest import Browser, site_of
from tests.web.seed import shop

READS_MAX = 6


class CountingStore:
    """A store that counts the calls of its verbs."""

    def __init__(self, inner: Any) -> None:
        self._inner, self.calls = inner, Counter[str]()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.calls[name] += 1
            return found(*args, **kwargs)

        return counted


def pages_of(app: Stanchion) -> list[str]:
    """Return the address of each page, with jobs in each state."""
    dead, waiting, done, running = (app.find(state=state, limit=1)[0].id for state in STATES)
    odd = quote("<b>xss</b> & 'co'", safe="")
    return [
        *(
            "/",
            "/errors",
            f"/errors/{app.find(state='dead', limit=1)[0].error_group}",
            "/queues",
            f"/queues/{odd}",
            "/queues/orders",
            "/queues/mail",
            "/pause/mail",
            "/resume/mail",
        ),
        *("/queues/payments", "/set/orders?setting=max_rate", "/push/orders"),
        *("/jobs", "/jobs?state=dead", "/jobs?state=ready&queue=mail", "/jobs?text=img&since=1h&band=eventual"),
        *(f"/jobs/{job}" for job in (dead, waiting, done, running)),
        *(f"/jobs/{dead}/retry", f"/jobs/{running}/cancel", f"/jobs/{done}/replay"),
        *("/bulk?act=cancel&queue=mail", "/bulk?act=retry&state=dead"),
        "/flows",
        *(f"/flows/{flow}" for flow in flows_of(app)),
        *("/pipelines", "/pipelines/flights", "/pause-pipeline/flights", "/resume-pipeline/flights"),
        *("/streams", f"/streams/release/{quote('flights.long <b>', safe='')}"),
        *(
            "/managers",
            "/workers",
            "/schedules",
            "/semaphores",
            "/semaphores/psp",
            "/report",
            "/runbook",
            "/audit",
            "/more",
        ),
        f"/schedules/run/{quote('<b>nightly</b>', safe='')}",
    ]


def flows_of(app: Stanchion) -> list[str]:
    """Return the flows of the seed: one that failed, one of many members, and one under way."""
    found = (job.flow for job in app.find(task="trips.book <i>", limit=200))
    return [flow for flow in dict.fromkeys(found) if flow is not None][::-1]


STATES = ("dead", "waiting", "done", "running")


@pytest.fixture
def counted() -> Iterator[tuple[Browser, CountingStore, Stanchion]]:
    store = CountingStore(open_store("memory://"))
    app = shop(store)
    site = site_of(app)
    yield Browser(site), store, app
    site.close()


def test_each_page_reads_little(
    counted: tuple[Browser, CountingStore, Stanchion], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler, "SHORTEST", 1e6)  # what it reads is not of a page
    browser, store, app = counted
    reads = {}
    for page in pages_of(app):
        browser.get(page)
        browser.site.reports.join()  # nor is what is counted in the background
        store.calls.clear()
        assert browser.get(page).status_code == 200, page
        reads[page] = sum(store.calls.values())
    assert {page: count for page, count in reads.items() if count > READS_MAX} == {}


class Elements(HTMLParser):
    """The elements of a page, and what could run."""

    def __init__(self) -> None:
        super().__init__()
        self.tags, self.scripts, self.handlers = Counter[str](), list[str | None](), list[str | None]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags[tag] += tag not in ("i", "textarea") or "class" not in given  # these are ours
        if tag == "script":
            self.scripts.append(given.get("src"))
        self.handlers += [name for name in given if name.startswith(("on", "hx-on")) or name == "style"]
        self.handlers += [value for name, value in attrs if name in ("href", "src") and not _own(value or "")]


def _own(link: str) -> bool:
    return link.startswith(("/", "#")) and not link.startswith("//")


def test_nothing_of_a_job_becomes_an_element(browser: Browser, app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "SHORTEST", 1e6)  # plots, which a second sample brings, have <i> of their own
    for page in pages_of(app):
        text = browser.get(page).text
        found = Elements()
        found.feed(text)
        assert len(found.scripts) == 3, page
        assert all((script or "").startswith("/static/") for script in found.scripts), page
        assert found.handlers == [], page
        assert not {"img", "i", "u", "textarea", "iframe"} & set(+found.tags), page
        assert "\u202e" not in text
        assert text.count("hx-get=") - text.count("&#34; hx-get=") - text.count("\\&#34; hx-get=") <= 1, page


def test_the_attacks_are_shown_as_text(browser: Browser, app: Stanchion) -> None:
    shown = set()
    for job in app.find(queue="mail", state="ready", limit=100):
        text = browser.get(f"/jobs/{job.id}").text
        shown |= {attack for attack in ATTACKS if _escaped(attack) in text}
    assert len(shown) == len(ATTACKS)


def _escaped(attack: str) -> str:
    import json

    from markupsafe import escape

    from stanchion.ops.web.show.foreign import visible

    return str(escape(visible(json.dumps(attack, ensure_ascii=False))))


def test_hidden_values_are_nowhere(browser: Browser, app: Stanchion) -> None:
    for page in pages_of(app):
        assert SECRET not in browser.get(page).text, page


def test_hidden_values_are_shown_on_request_and_audited(browser: Browser, app: Stanchion) -> None:
    job = app.find(task="payments.capture", limit=1)[0]
    page = browser.submit(f"/jobs/{job.id}/reveal")
    assert SECRET in page.text
    audit = browser.get("/audit").text
    assert "show hidden" in audit
    assert job.id in audit


class TestQueues:
    def test_those_in_trouble_come_first(self, browser: Browser, app: Stanchion) -> None:
        app.queue("webhooks").pause()
        text = browser.get("/queues").text
        names = re.findall(r'<th scope="row"><a href="/queues/(\w+)"', text)
        assert names.index("mail") < names.index("webhooks")
        assert "need attention" in text

    def test_a_pause_has_a_note(self, browser: Browser, app: Stanchion) -> None:
        assert browser.submit("/pause/orders", note=" ").status_code == 400
        assert not app.queue("orders").settings.paused
        browser.submit("/pause/orders", note="provider <down> until 10:00")
        assert app.queue("orders").settings.paused
        text = browser.get("/queues/orders").text
        assert "provider &lt;down&gt; until 10:00" in text
        assert "orders is paused with 60 ready jobs" in text
        browser.submit("/resume/orders")
        assert not app.queue("orders").settings.paused
        assert "provider" not in browser.get("/queues/orders").text
        app.queue("orders").pause()
        text = browser.get("/queues/orders").text
        assert "<b>Someone</b> paused it" in text
        assert ", without a note. No live worker takes jobs of it." in text

    def test_an_unknown_one_is_said_to_be(self, browser: Browser) -> None:
        assert browser.get("/queues/nothing").status_code == 404

    def test_lanes_are_bars(self, browser: Browser, app: Stanchion) -> None:
        text = browser.get("/queues/orders").text
        assert text.count("<title>lane ") == len(app.queue("orders").lanes())


class TestJobs:
    def test_pages_follow_the_cursor(self, browser: Browser) -> None:
        seen, path = [], "/jobs?queue=mail&state=ready"
        while path:
            text = browser.get(path).text
            seen += re.findall(r'name="id" value="([\w-]+)"', text)
            more = re.search(r'href="([^"]+)">Older', text)
            path = more[1].replace("&amp;", "&") if more else ""
        assert len(seen) == len(set(seen)) == 70

    def test_the_count_is_exact_up_to_its_bound(self, browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
        assert "<h1>70 ready jobs in mail</h1>" in browser.get("/jobs?queue=mail&state=ready").text
        monkeypatch.setattr("stanchion.ops.reads.lists.COUNTED", 60)
        monkeypatch.setattr("stanchion.ops.web.pages.jobs.job_list.COUNTED", 60)
        assert "<h1>More than 60 ready jobs in mail</h1>" in browser.get("/jobs?queue=mail&state=ready").text

    def test_filters_hold(self, browser: Browser) -> None:
        assert "<h1>10 dead jobs of payments.capture</h1>" in browser.get("/jobs?state=dead&task=payments.capture").text
        assert "<h1>10 jobs for acme</h1>" in browser.get("/jobs?tenant=acme&band=interactive").text
        assert "<h1>No job for acme</h1>" in browser.get("/jobs?tenant=acme&band=reporting").text
        assert "<h1>No job in mail</h1>" in browser.get("/jobs?queue=mail&until=2001-01-01").text

    @pytest.mark.parametrize("search", ["state=odd", "band=odd", "since=soon", "until=2001-13-01"])
    def test_wrong_ones_are_refused(self, browser: Browser, search: str) -> None:
        assert browser.get(f"/jobs?{search}").status_code == 400

    def test_an_id_leads_to_its_job(self, browser: Browser, app: Stanchion) -> None:
        job = app.find(state="dead", limit=1)[0].id
        assert browser.get(f"/jobs?text={job}").headers["location"] == f"/jobs/{job}"

    def test_a_job_tells_its_story(self, browser: Browser, app: Stanchion) -> None:
        dead = browser.get(f"/jobs/{app.find(state='dead', limit=1)[0].id}").text
        assert "payments.capture is dead after one attempt" in dead
        assert "TimeoutError: no answer from psp-" in dead
        waiting = browser.get(f"/jobs/{app.find(state='waiting', limit=1)[0].id}").text
        assert "waits for a slot of psp" in waiting

    def test_a_ready_one_is_moved_to_a_known_queue(self, browser: Browser, app: Stanchion) -> None:
        job = app.find(state="ready", queue="mail", limit=1)[0].id
        assert "To which queue?" in browser.get(f"/jobs/{job}/move").text
        assert browser.submit(f"/jobs/{job}/move", value="nothing").status_code == 400
        assert browser.submit(f"/jobs/{job}/move", value="mail").status_code == 400
        assert browser.submit(f"/jobs/{job}/move", value="orders").status_code == 303
        moved = app.get(job)
        assert moved is not None
        assert (moved.queue, moved.state, moved.attempts) == ("orders", "ready", 0)
        assert "mail → orders" in browser.get("/audit").text

    def test_one_of_a_paused_queue_stays(self, browser: Browser, app: Stanchion) -> None:
        job = app.find(state="ready", queue="mail", limit=1)[0].id
        app.queue("mail").pause()
        answer = browser.submit(f"/jobs/{job}/move", value="orders")
        assert answer.status_code == 400
        assert "can’t be moved now" in answer.text or "can&#39;t be moved now" in answer.text
        assert app.get(job).queue == "mail"  # type: ignore[union-attr]

    def test_an_unknown_one_is_not_found(self, browser: Browser) -> None:
        assert browser.get("/jobs/019f863a-9c1b-7d02-8f41-5e1f7f3e1c08").status_code == 404
        answer = browser.get("/no/such/page")
        assert answer.status_code == 404
        assert "There is no such page" in answer.text

    @pytest.mark.parametrize(
        ("states", "told"),
        [("state=dead", "Ended"), ("state=running", "Started"), ("state=ready", "Due"), ("", "Due, started, ended")],
    )
    def test_a_list_says_what_its_times_are(self, browser: Browser, states: str, told: str) -> None:
        assert f'<th scope="col" class="num">{told}</th>' in browser.get(f"/jobs?{states}").text

    def test_retry_cancel_and_replay(self, browser: Browser, app: Stanchion) -> None:
        dead, ready = app.find(state="dead", limit=1)[0], app.find(state="ready", queue="mail", limit=1)[0]
        copy = browser.submit(f"/jobs/{dead.id}/replay").headers["location"].rpartition("/")[2]
        assert app.get(copy).origin == dead.id  # type: ignore[union-attr]
        assert browser.submit(f"/jobs/{dead.id}/retry").status_code == 303
        assert app.get(dead.id).state == "ready"  # type: ignore[union-attr]
        assert browser.submit(f"/jobs/{ready.id}/cancel").status_code == 303
        assert app.get(ready.id).state == "cancelled"  # type: ignore[union-attr]
        acts = re.findall(r'<td class="nowrap">(\w+)</td>', browser.get("/audit").text)
        assert acts[:3] == ["cancel", "retry", "replay"]


def test_a_schedule_is_paused_and_run(browser: Browser, app: Stanchion) -> None:
    name = quote("<b>nightly</b>", safe="")
    browser.submit(f"/schedules/pause/{name}", note="why")
    assert app.schedule("<b>nightly</b>").paused
    before = len(app.find(task="mail.send", limit=100))
    browser.submit(f"/schedules/run/{name}")
    assert len(app.find(task="mail.send", limit=100)) == before + 1


def test_a_semaphore_is_resized(browser: Browser, app: Stanchion) -> None:
    browser.submit("/semaphores/psp", capacity="2")
    assert app.semaphore("psp").usage().capacity == 2
    assert browser.submit("/semaphores/psp", capacity="-1").status_code == 400
    assert "1 → 2" in browser.get("/audit").text


def test_a_silent_store_is_said_to_be(browser: Browser, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("no answer from postgresql://ana:hunter2@db-1 in 5 s")

    monkeypatch.setattr(site.app.store, "now", silent)
    answer = browser.get("/queues")
    assert answer.status_code == 503
    assert "The store does not answer" in answer.text
    assert "hunter2" not in answer.text

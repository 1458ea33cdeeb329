"""What tabs hear and fetch: topics, versions, pages rendered once, bounds of streams."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.types import ASGIApp

from stanchion import Stanchion
from stanchion.ops.web import events
from stanchion.ops.web.asgi import site_app
from stanchion.ops.web.live import sampler
from stanchion.ops.web.live.topics import REPEAT, Board, News, Tab, parts_of
from stanchion.ops.web.site import Site
from stanchion.stores.registry import open_store
from tests.web.conftest import OPERATE, READ, Browser, site_of
from tests.web.test_pages import CountingStore

AGAIN = {"HX-Request": "true"}


@pytest.fixture
def store() -> CountingStore:
    return CountingStore(open_store("memory://?clock=frozen"))


@pytest.fixture
def app(store: CountingStore) -> Iterator[Stanchion]:
    app = Stanchion(store=store)
    app.setup()
    yield app
    app.close()


@pytest.fixture
def site(app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A page whose sampler reads when the test says so."""
    monkeypatch.setattr(sampler, "SHORTEST", 1e6)
    site = site_of(app)
    yield site
    site.close()


class Stream:
    """A tab's stream, or another answer, by the ASGI app itself."""

    def __init__(self, app: ASGIApp, query: str, path: str = "/events", **headers: str) -> None:
        self._app, self._query, self._path = app, query, path
        self._headers = {"host": "127.0.0.1", **headers}
        self._gone, self._said = asyncio.Event(), asyncio.Condition()
        self.status, self.text, self.reads = 0, "", asyncio.Event()
        self.reads.set()
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": self._path,
            "raw_path": self._path.encode(),
            "query_string": self._query.encode(),
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in self._headers.items()],
            "client": ("127.0.0.1", 50_000),
            "server": ("127.0.0.1", 7118),
        }
        await self._app(scope, self._receive, self._send)

    async def _receive(self) -> Any:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        await self.reads.wait()
        async with self._said:
            self.status = message.get("status", self.status)
            self.text += message.get("body", b"").decode()
            self._said.notify_all()

    @property
    def stale(self) -> list[dict[str, Any]]:
        """What was said to be stale."""
        blocks = [block.splitlines() for block in self.text.split("\n\n")]
        return [json.loads(block[-1].removeprefix("data: ")) for block in blocks if "event: stale" in block]

    async def until(self, heard: Any) -> None:
        async with asyncio.timeout(60), self._said:
            await self._said.wait_for(lambda: heard(self))

    async def end(self) -> None:
        """Go away, and wait until the server has seen it."""
        self._gone.set()
        await self.ended()

    async def ended(self) -> None:
        async with asyncio.timeout(60):
            await self._task


def hello(stream: Stream) -> bool:
    return "event: hello" in stream.text


class TestBoard:
    def test_a_tab_hears_of_its_own_topics_once_and_merged(self) -> None:
        async def run() -> None:
            board, tab = Board(), Tab(["a", "b"])
            board.join(tab, board.place())
            for number in range(50):
                board.read({"a": number, "b": number // 25, "c": number}, 0.0)
            assert await tab.news(60) == News(("a", "b"), 50)
            assert await tab.news(0) is None
            board.leave(tab)
            board.touch()
            assert await tab.news(0) is None

        asyncio.run(run())

    def test_what_has_not_changed_keeps_its_version_and_moves_once_more_after_a_change(self) -> None:
        board = Board()
        board.read({"a": 1, "b": 1}, 0.0)
        board.read({"a": 2, "b": 1}, 1.0)
        assert [board.version_of([one]) for one in ("a", "b", "unknown")] == [2, 1, 0]
        board.read({"a": 2, "b": 1}, 2.0)  # rates are differences of two readings
        board.read({"a": 2, "b": 1}, 3.0)
        assert [board.version_of([one]) for one in ("a", "b")] == [3, 1]
        board.read({"a": 2, "b": 1}, REPEAT)
        assert [board.version_of([one]) for one in ("a", "b")] == [3, 5]

    def test_an_act_makes_all_stale(self) -> None:
        board = Board()
        board.read({"a": 1}, 0.0)
        board.touch()
        assert (board.version_of(["a"]), board.version_of([])) == (2, 2)

    def test_what_is_gone_is_stale_and_forgotten(self) -> None:
        async def run() -> None:
            board, tab = Board(), Tab(["queue:a"])
            board.read({"queue:a": 1}, 0.0)
            board.join(tab, board.place())
            board.read({}, 1.0)
            assert await tab.news(60) == News(("queue:a",), 2)

        asyncio.run(run())

    @pytest.mark.parametrize(
        ("since", "told"), [("", True), ("{epoch}-1", True), ("{epoch}-2", False), ("beef-9", True)]
    )
    def test_who_comes_back_hears_of_what_it_has_missed(self, since: str, told: bool) -> None:
        async def run() -> None:
            board, tab = Board(), Tab(["a"])
            board.read({"a": 1}, 0.0)
            board.read({"a": 2}, 0.0)
            board.join(tab, since.format(epoch=board.epoch))
            assert (await tab.news(0) is not None) is told

        asyncio.run(run())

    def test_topics_follow_the_figures(self, app: Stanchion, site: Site) -> None:
        app.queue("mail").push({}, delay=3600)
        app.queue("news").push({}, delay=3600)
        before = parts_of(site.sampler.take())
        app.queue("mail").push({}, delay=3600)
        after = parts_of(site.sampler.take())
        changed = {name for name in after if after[name] != before[name]}
        assert changed == {"verdict", "queues", "queue:mail"}


class TestStreams:
    def test_a_tab_hears_of_its_topics_only(self, app: Stanchion, site: Site) -> None:
        async def run() -> None:
            app.queue("mail").push({}, delay=3600)
            site.sampler.latest()
            web, since = site_app(site), site.board.place()
            mail = Stream(web, f"topics=queue:mail&since={since}")
            other = Stream(web, f"topics=queue:news&topics=errors&since={since}")
            await mail.until(hello)
            await other.until(hello)
            app.queue("mail").push({}, delay=3600)
            site.sampler.take()
            await mail.until(lambda one: one.stale)
            assert mail.stale == [{"topics": ["queue:mail"], "v": 2}]
            assert f"id: {site.board.place(2)}\n" in mail.text
            assert mail.text.startswith("retry: 3000\n")
            assert other.stale == []
            for one in (mail, other):
                await one.end()

        asyncio.run(run())

    def test_events_come_at_most_once_in_a_while(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        async def run() -> None:
            monkeypatch.setattr(events, "LEAST", 60.0)
            web = site_app(site)
            first = Stream(web, "topics=verdict")
            await first.until(lambda one: one.stale)
            for _ in range(3):
                site.board.touch()
                later = Stream(web, "topics=verdict")
                await later.until(lambda one: one.stale)
                await later.end()
            assert len(first.stale) == 1
            await first.end()

        asyncio.run(run())

    def test_a_quiet_stream_says_that_it_is_there(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        async def run() -> None:
            monkeypatch.setattr(events, "QUIET", 0.001)
            tab = Stream(site_app(site), f"topics=verdict&since={site.board.place()}")
            await tab.until(lambda one: ": still here\n\n" in one.text)
            await tab.end()

        asyncio.run(run())

    def test_who_has_missed_something_hears_at_once(self, site: Site) -> None:
        async def run() -> None:
            site.sampler.latest()
            cut = Stream(site_app(site), "topics=verdict&since=", last_event_id="gone-7")
            await cut.until(lambda one: one.stale)
            await cut.end()

        asyncio.run(run())

    def test_they_need_a_session(self, guarded: Site) -> None:
        assert Browser(guarded).get("/events?topics=verdict").status_code == 403

    @pytest.mark.parametrize("query", ["", "?" + "&".join(["topics=a"] * 21)])
    def test_they_name_some_topics(self, site: Site, query: str) -> None:
        assert Browser(site).get(f"/events{query}").status_code == 400

    def test_they_are_bounded_and_a_place_becomes_free(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        async def run() -> None:
            monkeypatch.setattr(events, "STREAMS_MAX", 2)
            web = site_app(site)
            first, second = (Stream(web, "topics=verdict") for _ in range(2))
            await first.until(hello)
            await second.until(hello)
            refused = Stream(web, "topics=verdict")
            await refused.ended()
            assert refused.status == 503
            await first.end()
            third = Stream(web, "topics=verdict")
            await third.until(hello)
            for one in (second, third):
                await one.end()

        asyncio.run(run())

    def test_who_does_not_read_is_cut_off(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        async def run() -> None:
            monkeypatch.setattr(events, "STALLED", 0.01)
            monkeypatch.setattr(events, "STREAMS_MAX", 1)
            web = site_app(site)
            stuck = Stream(web, "topics=verdict")
            stuck.reads.clear()
            await stuck.ended()
            assert not hello(stuck)
            monkeypatch.setattr(events, "STALLED", 60.0)
            after = Stream(web, "topics=verdict")
            await after.until(hello)
            await after.end()

        asyncio.run(run())

    def test_they_end_with_the_site(self, site: Site) -> None:
        async def run() -> None:
            tab = Stream(site_app(site), "topics=verdict")
            await tab.until(hello)
            site.end_streams()
            await tab.ended()

        asyncio.run(run())


class TestFragments:
    def test_a_page_that_is_fetched_again_is_the_part_in_the_middle(self, site: Site) -> None:
        browser = Browser(site)
        whole, part = browser.get("/"), browser.get("/", headers=AGAIN)
        assert part.text.startswith('<title>Nothing needs a person · Stanchion</title>\n<main id="main">')
        assert 'id="as-of"' in part.text
        assert "<nav" in whole.text
        assert "<nav" not in part.text
        assert 'data-events="/events?topics=verdict&amp;since=' in whole.text

    def test_it_is_rendered_once_for_a_version(self, app: Stanchion, site: Site, store: CountingStore) -> None:
        app.queue("mail").push({})
        first, second = Browser(site), Browser(site)
        pages = [one.get("/queues/mail", headers=AGAIN) for one in (first, second)]
        assert pages[0].text == pages[1].text
        store.calls.clear()
        assert first.get("/queues/mail", headers=AGAIN).text == pages[0].text
        assert (site.fragments.renders, dict(store.calls)) == (1, {})
        assert first.get("/queues/mail?x=1", headers=AGAIN).status_code == 200
        assert site.fragments.renders == 2

    def test_it_is_new_after_a_reading_that_differs(self, app: Stanchion, site: Site) -> None:
        browser = Browser(site)
        app.queue("mail").push({}, delay=3600)
        answer = browser.get("/queues/mail", headers=AGAIN)
        tag = {**AGAIN, "If-None-Match": answer.headers["ETag"]}
        same = browser.get("/queues/mail", headers=tag)
        assert (same.status_code, same.content, same.headers["ETag"]) == (304, b"", answer.headers["ETag"])
        app.queue("other").push({}, delay=3600)
        site.sampler.take()
        assert browser.get("/queues/mail", headers=tag).status_code == 304
        app.queue("mail").push({}, delay=3600)
        site.sampler.take()
        assert browser.get("/queues/mail", headers=tag).status_code == 200

    def test_it_is_new_after_an_act(self, app: Stanchion, site: Site) -> None:
        app.queue("mail").push({})
        browser = Browser(site)
        before = browser.get("/", headers=AGAIN)
        assert browser.submit("/pause/mail", note="a test").status_code == 303
        after = browser.get("/", headers={**AGAIN, "If-None-Match": before.headers["ETag"]})
        assert after.status_code == 200
        assert "pause, mail" in after.text
        assert browser.post("/api/v1/queues/mail/resume").status_code == 200
        assert "resume, mail" in browser.get("/", headers=AGAIN).text

    def test_it_is_new_after_an_act_that_no_reading_sees(self, site: Site) -> None:
        browser = Browser(site)
        before = browser.get("/", headers=AGAIN)
        assert browser.submit("/on-it", key="no-worker queue mail").status_code == 303
        after = browser.get("/", headers={**AGAIN, "If-None-Match": before.headers["ETag"]})
        assert (after.status_code, "on it, no-worker queue mail" in after.text) == (200, True)

    def test_a_page_without_topics_is_new_after_a_while(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        browser = Browser(site)
        monkeypatch.setattr("stanchion.ops.web.endpoints.POLLED", 1e12)
        tag = browser.get("/jobs", headers=AGAIN).headers["ETag"]
        known = {**AGAIN, "If-None-Match": tag}
        assert browser.get("/jobs", headers=known).status_code == 304
        monkeypatch.setattr("stanchion.ops.web.endpoints.POLLED", 1e-9)
        assert browser.get("/jobs", headers=known).status_code == 200

    def test_each_session_gets_its_own_forms_and_its_role(
        self, app: Stanchion, guarded: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("stanchion.ops.web.endpoints.POLLED", 1e9)  # no other version of the page meanwhile
        app.store.set_semaphore("psp", 1)
        ana, ben, eve = Browser(guarded), Browser(guarded), Browser(guarded)
        ana.log_in(OPERATE)
        eve.log_in(OPERATE)
        ben.log_in(READ)
        assert ana.csrf() != eve.csrf()
        for one in (ana, eve):
            text = one.get("/semaphores/psp", headers=AGAIN).text
            assert f'value="{one.csrf()}"' in text
        assert 'name="csrf"' not in ben.get("/semaphores/psp", headers=AGAIN).text
        assert guarded.fragments.renders == 2
        assert "ana · operate" in ana.get("/more", headers=AGAIN).text
        tag = {**AGAIN, "If-None-Match": ana.get("/semaphores/psp", headers=AGAIN).headers["ETag"]}
        assert eve.get("/semaphores/psp", headers=tag).status_code == 200

    def test_what_is_no_page_is_not_kept(self, site: Site) -> None:
        browser = Browser(site)
        for _ in range(2):
            answer = browser.get("/queues/nowhere", headers=AGAIN)
            assert answer.status_code == 404
            assert "ETag" not in answer.headers
        assert site.fragments.renders == 2

    def test_few_are_kept(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("stanchion.ops.web.live.fragments.MOST", 3)
        browser = Browser(site)
        for number in range(5):
            browser.get(f"/workers?{number}", headers=AGAIN)
        browser.get("/workers?4", headers=AGAIN)
        assert site.fragments.renders == 5
        browser.get("/workers?1", headers=AGAIN)
        assert site.fragments.renders == 6


TABS, READINGS = 200, 3


def test_the_store_sees_one_reader_for_all_tabs(
    site: Site, store: CountingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hundred tabs hear of three readings, and each fetches the page after each of them."""

    async def run(tabs: int) -> tuple[dict[str, int], int]:
        web, begin = site_app(site), site.board.place()
        streams = [Stream(web, f"topics=verdict&since={begin}") for _ in range(tabs)]
        for stream in streams:
            await stream.until(hello)
        store.calls.clear()
        rendered = site.fragments.renders
        for number in range(1, READINGS + 1):
            await asyncio.to_thread(other.queue("mail").push, {})
            await asyncio.to_thread(site.sampler.take)
            for stream in streams:
                await stream.until(lambda one, number=number: len(one.stale) == number)
            pages = [Stream(web, "", "/", hx_request="true") for _ in range(tabs)]
            await asyncio.gather(*(page.ended() for page in pages))
            assert (len({page.text for page in pages}), pages[0].status) == (1, 200)
        for stream in streams:
            await stream.end()
        return dict(store.calls), site.fragments.renders - rendered

    monkeypatch.setattr(events, "LEAST", 0.0)
    other = Stanchion(store=store._inner)  # whose calls are not counted
    other.queue("mail").push({})
    site.sampler.latest()
    asyncio.run(run(1))  # what a process reads once
    one, many = asyncio.run(run(1)), asyncio.run(run(TABS))
    assert (one[1], many[1]) == (READINGS, READINGS)
    more = {verb: calls - one[0].get(verb, 0) for verb, calls in many[0].items()}
    assert max(more.values()) <= READINGS  # what is known for some seconds may be read again meanwhile

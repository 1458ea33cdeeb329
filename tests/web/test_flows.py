"""Flows on the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from stanchion import Stanchion, chain, group
from stanchion.context import context_of
from stanchion.ops.reads import flows as reads
from stanchion.ops.reads.flows import read_flow
from stanchion.ops.web.pages.jobs import flow_graph
from stanchion.stores.registry import open_store
from tests.web.attacks import SECRET
from tests.web.conftest import Browser, site_of
from tests.web.seed_parts import trips


@pytest.fixture
def app() -> Iterator[Stanchion]:
    app = Stanchion(store=open_store("memory://"))
    yield app
    app.close()


@pytest.fixture
def roots(app: Stanchion) -> dict[str, str]:
    return trips(app)


@pytest.fixture
def browser(app: Stanchion) -> Iterator[Browser]:
    site = site_of(app)
    yield Browser(site)
    site.close()


def title(text: str) -> str:
    found = re.search(r"<h1>(.*?)</h1>", text)
    assert found is not None
    return found[1]


class TestFlows:
    def test_those_with_dead_members_come_first(self, browser: Browser, roots: dict[str, str]) -> None:
        text = browser.get("/flows").text
        assert title(text) == "1 flow of 3 has dead members"
        order = re.findall(r'href="/flows/([\w-]+)"', text)
        assert order[0] == roots["failed"]
        assert set(order) == set(roots.values())
        assert "From all jobs that are still in the store" in text

    def test_they_are_of_the_newest_jobs(
        self, browser: Browser, roots: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(reads, "NEWEST", 5)
        monkeypatch.setattr("stanchion.ops.web.pages.jobs.flows.NEWEST", 5)
        text = browser.get("/flows").text
        assert "From the newest 5 jobs" in text
        assert roots["failed"] not in text

    def test_without_any_there_is_a_hint(self, browser: Browser) -> None:
        assert "No flow is among them." in browser.get("/flows").text

    def test_an_id_leads_to_its_flow(self, browser: Browser, roots: dict[str, str]) -> None:
        assert browser.get(f"/flows?id={roots['many']}").headers["location"] == f"/flows/{roots['many']}"


class TestFlow:
    def test_one_that_failed_says_where(self, browser: Browser, roots: dict[str, str]) -> None:
        text = browser.get(f"/flows/{roots['failed']}").text
        assert title(text) == "Flow of trips.book &lt;i&gt; failed at trips.book &lt;i&gt;"
        assert "ValueError: no seat" in text
        assert SECRET not in text
        assert "Re-drive its dead…" in text

    def test_one_under_way_says_what_it_waits_for(self, browser: Browser, roots: dict[str, str]) -> None:
        text = browser.get(f"/flows/{roots['under_way']}").text
        assert title(text) == "Flow of trips.book &lt;i&gt; is running: 2 of 5 members have ended"
        assert "trips.tell ×2 are scheduled; 1 waits for others." in text

    def test_results_are_shown_redacted(self, browser: Browser, roots: dict[str, str]) -> None:
        text = browser.get(f"/flows/{roots['many']}").text
        assert text.count("&#34;token&#34;: &#34;hidden&#34;") > 40
        assert SECRET not in text

    def test_many_members_are_drawn_as_one(self, browser: Browser, roots: dict[str, str]) -> None:
        text = browser.get(f"/flows/{roots['many']}").text
        assert "Members of a group that do the same are drawn as one" in text
        (wide,) = re.findall(r'<svg class="wide".*?</svg>', text, re.DOTALL)
        assert wide.count("<rect") == 4
        assert "×86" in wide
        assert "86 done" in wide

    def test_its_dead_are_re_driven_with_their_number(
        self, browser: Browser, app: Stanchion, roots: dict[str, str]
    ) -> None:
        path = re.search(r'href="(/bulk\?[^"]+)"', browser.get(f"/flows/{roots['failed']}").text)
        assert path is not None
        asked = browser.get(path[1].replace("&amp;", "&")).text
        assert "Retry 1 job?" in asked
        where = re.search(r'name="where" value="([^"]+)"', asked)
        assert where is not None
        browser.submit("/bulk", act="retry", where=where[1].replace("&amp;", "&"), total="1", back="/flows")
        for _ in range(1000):
            if not app.find(state="dead"):
                break
            browser.get("/jobs")
        assert app.find(state="dead") == []

    def test_its_jobs_are_listed(self, browser: Browser, roots: dict[str, str]) -> None:
        assert "<h1>88 jobs</h1>" in browser.get(f"/jobs?flow={roots['many']}").text
        assert "<h1>1 dead job</h1>" in browser.get(f"/jobs?flow={roots['failed']}&state=dead").text

    def test_an_unknown_one_is_not_found(self, browser: Browser) -> None:
        assert browser.get("/flows/019f863a-9c1b-7d02-8f41-5e1f7f3e1c08").status_code == 404

    def test_members_that_left_history_are_looked_up_a_few_times(
        self, browser: Browser, app: Stanchion, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        @app.task(name="one", queue="q")
        def one(*_: object) -> None:
            pass

        flow = chain(*(group([one.s(), one.s()]) for _ in range(5))).enqueue()
        app.drain()
        app.queue("q").purge_history(0)
        looks: list[tuple[object, ...]] = []
        original = app.store.flow_ends

        def counted(*args: Any, **options: Any) -> Any:
            looks.append(args)
            return original(*args, **options)

        monkeypatch.setattr(app.store, "flow_ends", counted)
        text = browser.get(f"/flows/{flow.id}").text
        assert title(text) == "Flow of unknown members is done"
        assert "10 of 10 members ended" in text
        assert len(looks) == reads.LOOKS


def test_groups_of_groups_are_folded(app: Stanchion) -> None:
    @app.task(name="one", queue="q")
    def one(*_: object) -> None:
        pass

    flow = group([chain(one.s(), one.s()) for _ in range(40)]).enqueue()
    found = read_flow(context_of(app), app.store, flow.id, app.store.now())
    assert found is not None
    drawing, folded = flow_graph.drawing(found)
    assert folded
    assert [box.name for box in drawing.boxes.values()] == ["chain of one ×40", "group"]
    assert (found.size, found.ended) == (80, 0)

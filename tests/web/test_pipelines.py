"""Pipelines and streams on the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape

from stanchion import Push, Stanchion, Table, Worker
from stanchion.alerts.changes import BEGINS
from stanchion.core.ids import new_id
from stanchion.core.retry import Retry
from stanchion.ops.reads import pipelines as reads
from stanchion.ops.reads.pipelines import Known
from stanchion.ops.reads.track import Track
from stanchion.ops.web.show.graph import Box, Drawing, Wire
from stanchion.ops.web.site import Site
from stanchion.pipelines.record import PipelineRecord, StationRecord
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.workers import QueueTimes, WorkerRow
from stanchion.stores.registry import open_store
from stanchion.streams import StreamSource
from stanchion.telemetry.rollups import Point
from stanchion_conformance.harness import new_job
from stanchion_conformance.jobs.chunk_contents import chunk
from tests.web.attacks import ATTACKS
from tests.web.conftest import READ, Browser, site_of
from tests.web.seed_parts import flights


@pytest.fixture
def app() -> Iterator[Stanchion]:
    """The app of a pipeline, whose clock the test moves."""
    app = Stanchion(store=open_store("memory://?clock=frozen"))
    flights(app)
    yield app
    app.close()


@pytest.fixture
def site(app: Stanchion) -> Iterator[Site]:
    site = site_of(app)
    yield site
    site.close()


@pytest.fixture
def browser(site: Site) -> Browser:
    return Browser(site)


def later(site: Site, seconds: float) -> None:
    """Let time pass in which only the workers beat, and read anew until alerts fire."""
    store: Any = site.app.store
    store.clock_offset += seconds
    store.beat([one for one in store.workers() if one.threads])
    for _ in range(BEGINS):
        site.sampler.take()


def without_code(app: Stanchion) -> Site:
    return site_of(Stanchion(store=app.store))


class TestExpectations:
    def test_what_failed_them_is_shown_with_and_without_the_code(self, app: Stanchion) -> None:
        etl = app.pipeline("checked")

        @etl.station("raw")
        @etl.expect("'<b>' is not null", on_fail="stop")
        @etl.expect("item < 3")
        def raw(item: int) -> int:
            return item

        etl.push_many([1, 3, 4, 5])
        Worker(app, queues=etl.queues, threads=1, until_empty=True).run()
        for site in (site_of(app), without_code(app)):
            with closing(site):
                text = Browser(site).get("/pipelines/checked").text
                assert "<code>&#39;&lt;b&gt;&#39; is not null</code></td><td>pauses the station</td>" in text
                assert '<code>item &lt; 3</code></td><td>is dead</td><td class="num warm">3</td>' in text
                assert text.count('<a class="id" href="/jobs/') == 2
                found = Browser(site).get("/api/v1/pipelines/checked").json()["expectations"]
                assert [(one["condition"], one["failed"]) for one in found] == [
                    ("'<b>' is not null", 0),
                    ("item < 3", 3),
                ]

    def test_a_pipeline_without_any_says_nothing_of_them(self, browser: Browser) -> None:
        assert "Expectations" not in browser.get("/pipelines/flights").text


class TestPipeline:
    def test_a_station_with_chunks_shows_how_many_items_a_job_has(self, app: Stanchion) -> None:
        etl = app.pipeline("packed")
        etl.station("raw", to="end")(lambda item: item)
        etl.station("end")(lambda item: item)
        app.store.push([chunk(290, queue="packed.raw"), chunk(30, queue="packed.raw"), new_job(queue="packed.end")])
        with closing(site_of(app)) as site:
            text = Browser(site).get("/pipelines/packed").text
        assert (text.count("items a job"), text.count(">160 items a job<")) == (1, 1)

    def test_the_station_that_holds_the_rest_is_named(self, browser: Browser, site: Site) -> None:
        assert "<h1>flights fails at clean</h1>" in browser.get("/pipelines/flights").text
        later(site, 70)
        text = browser.get("/pipelines/flights").text
        assert "<h1>flights has stopped from long onward</h1>" in text
        assert "<b>long</b> has had no driver for 1 min 10 s." in text
        assert "<b>daily</b> downstream is idle." in text
        assert "<b>raw</b> and <b>short</b> keep up." in text

    def test_a_paused_station_and_one_without_worker_hold_it(self, app: Stanchion, site: Site) -> None:
        app.queue("flights.raw").pause()
        app.pipeline("flights").push_many([Push({"n": 0})] * 2)
        site.sampler.take()
        assert "flights has stopped from raw onward" in Browser(site).get("/pipelines/flights").text
        app.queue("flights.raw").resume()
        site.app.store.clock_offset += 70  # its workers are silent
        for _ in range(BEGINS):
            site.sampler.take()
        text = Browser(site).get("/pipelines/flights").text
        assert "flights has stopped at raw and long" in text
        assert "<b>raw</b> has no live worker" in text

    def test_late_items_are_said_to_be(self, app: Stanchion, site: Site) -> None:
        app.pipeline("late").station("one")(lambda item: item)
        app.store.beat([WorkerRow(new_id(), "etl-2", 1, ("late.one",), 2, 10.0)])
        app.pipeline("late").push_many([Push(one, priority=80) for one in (1, 2)])
        for _ in range(3):
            later(site, 25)
        text = Browser(site).get("/pipelines/late").text
        assert "<h1>late falls behind at one</h1>" in text
        assert "<b>one</b> falls behind. <b>2 items</b> wait there, the oldest for 1 min 15 s." in text

    def test_a_station_of_which_all_attempts_fail_does_not_keep_up(self, app: Stanchion, site: Site) -> None:
        etl = app.pipeline("sick")
        etl.station("one", retry=Retry.constant(3600.0))(lambda item: item / 0)
        for few in (True, False):
            etl.push_many(range(3 if few else 60))
            site.sampler.take()
            app.store.clock_offset += 20
            for job in app.queue("sick.one").reserve(100):
                job.rollback(delay=3600, error="ZeroDivisionError: division by zero")
            later(site, 1)
            text = Browser(site).get("/pipelines/sick").text
            (shape,) = Browser(site).get("/api/v1/pipelines/sick").json()["stations"]
            assert "keeps up" not in text
            assert f"<h1>sick {'retries items of' if few else 'fails at'} one</h1>" in text
            assert ("100% of the attempts of sick.one failed" in text) == (not few)
            assert (shape["retrying"], shape["failed"], shape["trouble"]) == (
                (3, 1.0, "") if few else (63, 1.0, "attempts fail")
            )

    def test_queues_and_the_overview_name_the_same_queues(self, browser: Browser, site: Site) -> None:
        for seconds in (0, 70):
            later(site, seconds)
            named = [
                set(re.findall(r'/queues/([^"]+)">[^<]+</a> <span class="tag t-(needs|risk)">', browser.get(page).text))
                for page in ("/", "/queues")
            ]
            assert named[0] == named[1] != set()

    def test_a_driver_is_no_worker_of_its_station(self, app: Stanchion, site: Site) -> None:
        app.pipeline("read").station("one")(lambda item: item)
        app.pipeline("read").push(1)
        StreamSource(app.store, "reader", "read.one").initial()
        site.sampler.take()
        text = Browser(site).get("/pipelines/read").text
        assert "<h1>read keeps up</h1>" in text
        assert ">Spark</td>" in text

    def test_percentiles_of_a_station_are_those_that_its_workers_tell(self, app: Stanchion, site: Site) -> None:
        assert ">2 ms</td>" not in Browser(site).get("/pipelines/flights").text
        times = QueueTimes("flights.clean", "eventual", (8, 0, 0, 4), (0,) * 30 + (9,))
        app.store.beat([WorkerRow("w", "h", 1, ("flights.clean",), 1, 600.0, times=(times,))])
        site.sampler.renew()
        text = Browser(site).get("/pipelines/flights").text
        assert re.search(r'>clean</a>.*?title="p50 1 ms, of 5 min">2 ms</td><td[^>]*>0.4 s</td>', text)
        found = Browser(site).get("/api/v1/pipelines/flights").json()["stations"]
        told = {one["name"]: one["last_5_min"] for one in found}
        assert told["clean"]["jobs"] == 12
        assert told["long"] is None

    def test_the_last_error_and_the_dead_are_those_of_the_station(self, browser: Browser) -> None:
        text = browser.get("/pipelines/flights").text
        row = next(row for row in text.split("<tr>") if '/queues/flights.clean"' in row)
        assert ">6</a>" in row
        assert "KeyError" in row
        assert "token=•••" in row
        assert "/bulk?act=retry&amp;state=dead&amp;queue=flights.dead" in text

    def test_its_dead_are_re_driven(self, browser: Browser) -> None:
        page = browser.get("/bulk?act=retry&state=dead&queue=flights.dead").text
        assert "Retry 6 jobs?" in page

    def test_it_is_known_without_code(self, app: Stanchion) -> None:
        with_code, site = site_of(app), without_code(app)
        texts = [Browser(one).get("/pipelines/flights").text for one in (with_code, site)]
        svgs = [re.findall(r"<svg class=\"(?:wide|tall)\".*?</svg>", text, re.DOTALL) for text in texts]
        assert svgs[0] == svgs[1]
        assert len(svgs[0]) == 2
        assert "as a process with its code has stored them" in texts[1]
        with_code.close()
        site.close()

    def test_it_is_known_by_its_queues_and_says_that_links_are_not(self, app: Stanchion) -> None:
        for value in app.store.values("pipeline"):
            app.store.compare_and_set("pipeline", value.name, None, value.version)
        site = without_code(app)
        text = Browser(site).get("/pipelines/flights").text
        assert "The links between its stations are unknown" in text
        assert text.count('<th scope="row"') == 5
        site.close()

    def test_an_unknown_one_is_said_to_be(self, browser: Browser) -> None:
        assert browser.get("/pipelines/nothing").status_code == 404

    def test_it_is_paused_with_a_note_and_resumed(self, app: Stanchion, browser: Browser) -> None:
        assert browser.submit("/pause-pipeline/flights", note="").status_code == 400
        browser.submit("/pause-pipeline/flights", note="the source <sends> twice")
        assert all(app.queue(name).settings.paused for name in app.pipeline("flights").queues)
        assert "the source &lt;sends&gt; twice" in browser.get("/queues/flights.raw").text
        assert "Resume…" in browser.get("/pipelines/flights").text
        browser.submit("/resume-pipeline/flights")
        assert not any(app.queue(name).settings.paused for name in app.pipeline("flights").queues)
        assert browser.get("/audit").text.count('<td class="nowrap">resume</td>') == 5

    def test_who_reads_is_shown_no_act(self, app: Stanchion) -> None:
        site = site_of(app, tokens=True)
        browser = Browser(site)
        browser.log_in(READ)
        assert "Pause the pipeline" not in browser.get("/pipelines/flights").text
        assert browser.submit("/pause-pipeline/flights", note="x").status_code == 403
        site.close()

    def test_without_any_there_is_a_hint(self) -> None:
        app = Stanchion(store=open_store("memory://"))
        site = site_of(app)
        assert "No pipeline is known." in Browser(site).get("/pipelines").text
        assert "No query of Spark reads a queue." in Browser(site).get("/streams").text
        site.close()
        app.close()

    def test_those_in_trouble_come_first(self, app: Stanchion, site: Site) -> None:
        app.pipeline("also").station("one")(lambda item: item)
        app.pipeline("also").push(1)
        app.drain(["also.one"])
        later(site, 70)
        text = Browser(site).get("/pipelines").text
        assert "<h1>flights needs attention</h1>" in text
        assert text.index("/pipelines/flights") < text.index("/pipelines/also")


class TestStreams:
    def test_a_live_driver_and_a_silent_one(self, browser: Browser, site: Site) -> None:
        assert "The stream keeps up" in browser.get("/streams").text
        later(site, 70)
        text = browser.get("/streams").text
        assert "<h1>flights.long &lt;b&gt; has work and no live driver</h1>" in text
        assert "#1 is reserved and not acknowledged. It goes out again" in text
        assert "9 ready jobs" in text

    def test_what_it_reads_lacks_a_driver_and_no_worker(self, browser: Browser, site: Site) -> None:
        assert "of Spark reads it." in browser.get("/queues/flights.long").text
        later(site, 70)
        text = browser.get("/queues/flights.long").text
        assert "flights.long has 9 ready jobs and no driver" in text
        assert "The driver of its stream is not alive" in text
        assert "</svg>stream</span>" in browser.get("/queues").text

    @pytest.mark.parametrize(
        ("address", "shown"),
        [("http://etl-1:4040/?a=1&b", True), ("https://etl", True), ("javascript:alert(1)", False), ("", False)],
    )
    def test_only_addresses_of_the_web_are_links(self, app: Stanchion, site: Site, address: str, shown: bool) -> None:
        StreamSource(app.store, "with-ui", "flights.short", ui=address).initial()
        site.sampler.take()
        text = Browser(site).get("/streams").text
        assert ("Spark UI ↗" in text) == shown
        assert "javascript:" not in text
        assert (f'href="{escape(address)}" rel="noreferrer noopener"' in text) == shown

    def test_its_jobs_are_given_back(self, app: Stanchion, browser: Browser) -> None:
        name = "flights.long%20%3Cb%3E"
        assert "The driver may be alive" in browser.get(f"/streams/release/{name}").text
        before = app.queue("flights.long").size()
        browser.submit(f"/streams/release/{name}", note="gone")
        after = app.queue("flights.long").size()
        assert (before.running, after.running, after.ready) == (3, 0, before.ready + 3)
        assert "release stream" in browser.get("/audit").text


class TestFigures:
    def test_rates_are_of_what_came_and_what_was_done(self) -> None:
        track = Track()
        track.add(Point(0, 10, 0.0, 0, 0, 0, 0))
        track.add(Point(30 * SECOND, 40, 0.0, 0, 60, 0, 3))
        track.add(Point(60 * SECOND, 40, 0.0, 0, 90, 0, 3))
        assert reads.rates(track) == ((90 + 3 + 30) / 60, 1.5)
        assert reads.rates(Track()) == (None, None)

    def test_idle_is_since_the_last_item_was_done(self) -> None:
        track = Track()
        for second, done in ((0, 1), (30, 2), (60, 2), (90, 2)):
            track.add(Point(second * SECOND, 0, 0.0, 0, done, 0, 0))
        assert reads.idle_for(track) == 60
        assert reads.idle_for(Track()) is None

    def test_stations_follow_those_that_lead_to_them(self) -> None:
        record = PipelineRecord(
            "p",
            (StationRecord("last"), StationRecord("mid", ("last", "first")), StationRecord("first", ("mid",))),
        )
        assert [one.name for one in reads.ordered(record)] == ["last", "mid", "first"]
        straight = PipelineRecord("p", (StationRecord("b"), StationRecord("a", ("b",))))
        assert [one.name for one in reads.ordered(straight)] == ["a", "b"]
        assert Known(record, "code").behind("first") == {"mid", "last"}


class TestTables:
    @pytest.fixture
    def lake(self, app: Stanchion, tmp_path: Path) -> Stanchion:
        """An app with a pipeline that writes to a table of the store and to one in a folder."""
        etl = app.pipeline("trips")
        tables = Table("reports.daily", schema="n bigint"), Table(f"delta://{tmp_path}/legs", schema="n bigint")
        etl.station("raw", to="priced")(lambda item: item)
        etl.station("priced", to=tables)(lambda item: item)
        etl.push({"n": 1})
        return app

    @pytest.mark.parametrize("known", [True, False])
    def test_they_are_boxes_that_stations_lead_to(self, lake: Stanchion, known: bool) -> None:
        lake.pipeline("trips")
        site = site_of(lake) if known else without_code(lake)
        page = Browser(site).get("/pipelines/trips").text
        assert "priced leads to legs and table reports.daily" in page
        wide = page.partition('<svg class="wide')[2].partition("</svg>")[0]
        assert wide.count("<rect") == 4
        assert wide.count('class="wire') == 3
        assert wide.count("n-table") == wide.count("#m-table") == 2
        assert ">daily</text>" in wide
        assert ">reports.daily</text>" in wide
        assert ">delta</text>" in wide
        site.close()


class TestGraph:
    def drawn(self, names: int, links: dict[str, list[str]], **options: Any) -> Drawing:
        boxes = {f"n{number}": Box(ATTACKS[number % len(ATTACKS)], "ready", big="1") for number in range(names)}
        return Drawing("a <graph>", boxes, links, **options)

    @pytest.mark.parametrize("names", [1, 2, 5, 12])
    def test_all_boxes_are_within_it(self, names: int) -> None:
        links = {f"n{number}": [f"n{number + 1}"] for number in range(names - 1)}
        drawing = self.drawn(names, links)
        for drawn in (str(drawing.wide), str(drawing.tall)):
            left, top, width, height = map(float, re.search(r'viewBox="(\S+) (\S+) (\S+) (\S+)"', drawn).groups())  # type: ignore[union-attr]
            for x, y, wide, high in re.findall(r'<rect[^>]* x="(\S+)" y="(\S+)" width="(\S+)" height="(\S+)"', drawn):
                assert left <= float(x) <= left + width - float(wide)
                assert top <= float(y) <= top + height - float(high)
            assert drawn.count("<rect") == names

    def test_loops_and_stations_that_nothing_leads_to_are_drawn(self) -> None:
        drawing = self.drawn(4, {"n0": ["n0", "n1"], "n1": ["n0", "n2"]})
        for drawn in (str(drawing.wide), str(drawing.tall)):
            assert drawn.count("wire back") == 2
            assert drawn.count("<rect") == 4

    def test_texts_are_escaped(self) -> None:
        wires = {("n0", "n1"): Wire(3, "<b>1/s", stopped=True)}
        for drawn in (str(self.drawn(10, {"n0": ["n1"]}, wires=wires).wide), str(self.drawn(10, {}).tall)):
            assert "<script" not in drawn
            assert "<b>" not in drawn
            assert "\u202e" not in drawn

"""The verdict, the sampler, the last hour, and the streams of tabs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from stanchion import Stanchion
from stanchion.context import context_of
from stanchion.core.text.durations import spelled
from stanchion.ops.reads.track import HOUR, STEP, Track, between
from stanchion.ops.web.live import sampler as sampling
from stanchion.ops.web.live.sampler import Sampler
from stanchion.ops.web.pages.overview import headline
from stanchion.ops.web.show.hour import plots_of
from stanchion.ops.web.show.plots import POINTS, Line, Plot, round_step, thinned, unbroken
from stanchion.ops.web.site import Site
from stanchion.ops.words import number
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.registry import open_store
from stanchion.telemetry import rollups
from stanchion.telemetry.rollups import Point
from tests.web.conftest import Browser, site_of


def point(at: int, **fields: Any) -> Point:
    return Point(at, 0, 0.0, 0, 0, 0, 0)._replace(**fields)


class TestTrack:
    def test_it_keeps_an_hour_in_steps_and_the_newest(self) -> None:
        track = Track()
        for second in range(0, 7200, 5):
            track.add(point(second * SECOND, ready=second))
        points = track.points
        assert points[-1].ready == 7195
        assert points[0].at >= 7195 * SECOND - HOUR
        assert len(points) <= HOUR // STEP + 2
        assert all(after.at > before.at for before, after in pairwise(points))

    def test_rates_are_differences(self) -> None:
        track = Track()
        track.add(point(0))
        assert track.rates is None
        track.add(point(10 * SECOND, pushed=50, done=20))
        assert track.rates is not None
        assert (track.rates.pushed, track.rates.done, track.rates.dead) == (5.0, 2.0, 0.0)

    def test_a_queue_that_begins_again_has_no_negative_rate(self) -> None:
        assert between(point(0, done=100), point(SECOND, done=3)).done == 0

    def test_a_clock_that_stands_adds_nothing(self) -> None:
        track = Track()
        track.add(point(5))
        track.add(point(5, ready=9))
        assert [one.ready for one in track.points] == [0]


class TestPlot:
    def plot(self, *values: float, label: str = "now", limit: tuple[float, str] | None = None) -> Plot:
        line = Line(label, "ready", [(place * 60 * SECOND, value) for place, value in enumerate(values)], filled=True)
        return Plot("Ready jobs", [line], "a <sentence>", number, limit)

    def test_lines_stay_within_the_frame(self) -> None:
        for values in ((0.0, 0.0), (1.0, 7.0, 3.0), (0.0, 0.001), (5e6, 1.0), (99.0, 100.0, 101.0)):
            drawn = str(self.plot(*values).svg())
            found = re.findall(r"(-?[\d.]+),(-?[\d.]+)", " ".join(re.findall(r'points="([^"]*)"', drawn)))
            assert all(0 <= float(x) <= 1000 and 12 <= float(y) <= 116.01 for x, y in found), values

    def test_labels_are_escaped(self) -> None:
        plot = self.plot(1.0, 2.0, label="<b>", limit=(1.5, "<i>"))
        assert "<b>" not in str(plot.key)
        assert "<i>" not in str(plot.svg())
        assert "a &lt;sentence&gt;" in str(plot.svg())

    @pytest.mark.parametrize("highest", [0.001, 0.7, 1, 3, 9.5, 100, 1342, 5e6])
    def test_ticks_are_round_and_few(self, highest: float) -> None:
        step = round_step(highest)
        assert f"{step:e}"[0] in "125"
        assert 1 <= highest / step <= 4

    def test_ticks_of_durations_are_those_of_a_clock(self) -> None:
        assert [spelled(round_step(one, seconds=True)) for one in (90, 130, 3600)] == ["30 s", "1 min", "20 min"]

    def test_nothing_is_drawn_where_nothing_is_known(self) -> None:
        known = [(minute * rollups.MINUTE, 1.0) for minute in (0, 1, 2, 8, 9, 14)]
        assert [len(part) for part in unbroken(known)] == [3, 2, 1]
        drawn = str(Plot("", [Line("now", "ready", known)], "", number).svg())
        assert drawn.count("<polyline") == 2
        points = [Point(at, 0, 0.0, 60 * place, 0, 0, 0) for place, (at, _) in enumerate(known)]
        rates = next(plot for plot in plots_of(points) if plot.title == "Jobs per second").lines[0].values
        assert rates == [(minute * rollups.MINUTE, 1.0) for minute in (1, 2, 9)]

    def test_many_points_keep_the_least_and_the_greatest(self) -> None:
        values = [(minute * rollups.MINUTE, 100.0 + minute % 7) for minute in range(2880)]
        values[1000] = values[1000][0], 9e3
        values[2000] = values[2000][0], 1.0
        few = thinned(values, 0, 2880 * rollups.MINUTE)
        assert len(few) <= POINTS + 2
        assert few == sorted(few)
        assert {values[1000], values[2000]} < set(few)
        assert thinned(values[:60], 0, 60 * rollups.MINUTE) == values[:60]

    def test_the_edges_are_those_of_the_time_asked_for(self) -> None:
        day = 24 * rollups.HOUR
        line = Line("now", "ready", [(day, 1.0), (day + rollups.MINUTE, 2.0)])
        drawn = str(Plot("", [line], "", number, span=(0, 2 * day)).svg())
        assert 'points="500,64.0 500,12.0"' in drawn
        assert ">2 Jan</text>" in drawn
        assert drawn.count("12:00</text>") == 2

    def test_one_point_is_no_plot(self) -> None:
        assert self.plot(1.0).empty
        assert not self.plot(1.0, 2.0).empty


@pytest.fixture
def app() -> Iterator[Stanchion]:
    """An app without jobs, whose clock the test moves."""
    app = Stanchion(store=open_store("memory://?clock=frozen"))
    yield app
    app.close()


def late(app: Stanchion, seconds: float) -> None:
    app.store.clock_offset += seconds


class TestSampler:
    def test_it_reads_once_for_all_who_ask(self, app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sampling, "SHORTEST", 1e6)
        sampler = Sampler(lambda: context_of(app))
        assert {sampler.latest().number for _ in range(20)} == {1}
        assert sampler.ask() == 1
        sampler.close()

    def test_it_goes_on_while_it_is_asked_and_then_rests(self, app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sampling, "SHORTEST", 0.001)
        sampler = Sampler(lambda: context_of(app))
        sampler.latest()
        while sampler.ask() < 3:
            pass
        monkeypatch.setattr(sampling, "ASKED", -1.0)
        thread = sampler._thread
        assert thread is not None
        thread.join(60)
        assert not thread.is_alive()
        sampler.close()

    def test_the_first_reading_is_not_held_back_and_later_ones_are(self, app: Stanchion) -> None:
        sampler = Sampler(lambda: context_of(app))
        app.queue("mail").push({})
        late(app, 120)
        assert [alert.subject for alert in sampler.take().firing] == ["mail"]
        app.queue("news").push({})
        late(app, 120)
        assert [alert.subject for alert in sampler.take().firing] == ["mail"]
        assert {alert.subject for alert in sampler.take().firing} == {"mail", "news"}

    def test_deleted_queues_are_forgotten(self, app: Stanchion) -> None:
        sampler = Sampler(lambda: context_of(app))
        app.queue("mail").push({})
        sampler.take()
        assert set(sampler.queues) == {"mail"}
        app.queue("mail").delete()
        late(app, 1)
        sampler.take()
        assert sampler.queues == {}


class TestOverview:
    @pytest.fixture
    def site(self, app: Stanchion) -> Iterator[Site]:
        site = site_of(app)
        yield site
        site.close()

    def test_nothing_needs_a_person(self, app: Stanchion, site: Site) -> None:
        app.queue("mail").push({})
        text = Browser(site).get("/").text
        assert "<title>Nothing needs a person · Stanchion</title>" in text
        assert "The queue keeps its service levels." in text

    def test_the_verdict_comes_first(self, app: Stanchion, site: Site) -> None:
        app.queue("<b>mail</b>").push({}, priority="interactive")
        app.queue("calm").push({}, delay=3600)
        late(app, 300)
        text = Browser(site).get("/").text
        assert "One thing needs a person</h1>" in text
        assert "&lt;b&gt;mail&lt;/b&gt; has no live worker" in text
        assert "The other queue keeps its service levels." in text
        assert 'href="/queues/%3Cb%3Email%3C%2Fb%3E">See the queue' in text
        assert text.index("alert") < text.index("Service levels")

    def test_who_is_on_it_is_shown_for_four_hours(self, app: Stanchion, site: Site) -> None:
        app.queue("mail").push({})
        late(app, 300)
        browser = Browser(site)
        assert "on-it" in browser.get("/").text
        assert browser.submit("/on-it", key="queue:mail").status_code == 303
        assert "local is on it" in browser.get("/").text
        late(app, 4 * 3600)
        site.sampler.renew()
        assert "local is on it" not in browser.get("/").text
        assert browser.submit("/on-it", key="").status_code == 400

    def test_the_page_of_its_queue_has_the_same_alert(self, app: Stanchion, site: Site) -> None:
        app.queue("<b>mail</b>").push({})
        app.queue("calm").push({}, delay=3600)
        late(app, 300)
        browser = Browser(site)
        text = browser.get("/queues/%3Cb%3Email%3C%2Fb%3E").text
        assert "<h1>&lt;b&gt;mail&lt;/b&gt; needs a person</h1>" in text
        assert "&lt;b&gt;mail&lt;/b&gt; has no live worker" in text
        assert "See the queue" not in text
        told = browser.submit("/on-it", key="queue:<b>mail</b>", back="/queues/%3Cb%3Email%3C%2Fb%3E")
        assert told.headers["location"] == "/queues/%3Cb%3Email%3C%2Fb%3E"
        assert "local is on it" in browser.get("/queues/%3Cb%3Email%3C%2Fb%3E").text
        assert 'class="alert"' not in browser.get("/queues/calm").text

    def test_plots_begin_with_the_second_reading(self, app: Stanchion, site: Site) -> None:
        browser = Browser(site)
        app.queue("mail").push({})
        assert "Ready jobs</b>" not in browser.get("/").text
        for _ in range(3):
            late(app, 60)
            app.queue("mail").push({})
            site.sampler.take()
        assert browser.get("/").text.count('class="axes"') == 4
        assert browser.get("/queues/mail").text.count('class="axes"') == 4

    def test_the_numbers_are_in_words(self) -> None:
        assert [headline(one) for one in (0, 1, 3, 12)] == [
            "Nothing needs a person",
            "One thing needs a person",
            "Three things need a person",
            "12 things need a person",
        ]


def test_a_page_that_starts_knows_the_past() -> None:
    app = Stanchion(store=open_store("memory://"))
    with app.testing() as clock:
        for _ in range(3):
            app.queue("mail").push({})
            assert rollups.take(app.store)
            clock.advance(60)
        sampler = Sampler(lambda: context_of(app))
        sampler.take()
        assert [one.ready for one in sampler.all.points] == [1, 2, 3, 3]
        assert [one.ready for one in sampler.queues["mail"].points] == [1, 2, 3, 3]
        found = rollups.past(app.store, ["mail"], 1, app.store.now())["mail"]
        assert [one.ready for one in found] == [1, 2, 3, 3]  # it has kept this minute itself
        sampler.close()
    app.close()

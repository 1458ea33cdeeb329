"""The columns of the overview about failures, and what the navigation says that a person should look at."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from stanchion import Stanchion
from stanchion.alerts.records import Alert
from stanchion.ops.reads.track import Track
from stanchion.ops.web.live import sampler as sampling
from stanchion.ops.web.live.day import DAY, Day
from stanchion.ops.web.show.alerts import needs_of
from stanchion.ops.words import percent
from stanchion.stores.registry import open_store
from stanchion.telemetry import rollups
from stanchion.telemetry.rollups import ALL, HOUR, MINUTE, Point
from tests.web.conftest import Browser, site_of
from tests.web.seed import shop
from tests.web.test_pages import CountingStore, pages_of

NOW = 1000 * DAY


@pytest.fixture
def app() -> Iterator[Stanchion]:
    app = Stanchion(store=open_store("memory://"))
    app.setup()
    yield app
    app.close()


def track_of(*points: tuple[float, int, int, int]) -> Track:
    """Return a track of points: minutes ago, and how many were done, failed and died."""
    track = Track()
    for ago, done, failed, dead in points:
        track.add(Point(NOW - int(ago * MINUTE), 0, 0.0, 0, done, failed, dead))
    return track


@pytest.mark.parametrize(
    ("points", "share"),
    [
        ([], None),
        ([(0, 5, 5, 5)], None),
        ([(1, 0, 0, 0), (0, 0, 0, 0)], None),
        ([(1, 0, 0, 0), (0, 6, 3, 1)], 0.4),
        ([(20, 0, 0, 0), (5.5, 50, 0, 0), (3, 50, 7, 0), (0, 80, 8, 2)], 0.25),  # what failed 20 min ago is over
        ([(20, 0, 0, 0), (0, 6, 3, 1)], None),
        ([(1, 9, 9, 9), (0, 0, 0, 0)], None),  # it was deleted meanwhile
    ],
)
def test_failed_attempts_of_five_minutes(points: list[tuple[float, int, int, int]], share: float | None) -> None:
    assert track_of(*points).failed == share


def test_shares_are_percents() -> None:
    shares = (None, 0, 0.0004, 0.024, 0.0996, 0.36, 1)
    assert [percent(share) for share in shares] == ["\N{EN DASH}", "0 %", "< 0.1 %", "2.4 %", "10 %", "36 %", "100 %"]


class TestDay:
    @staticmethod
    def watched(app: Stanchion, minutes: range, *queues: str) -> None:
        """Keep figures as many minutes before NOW: of each queue one more job has died each minute."""
        for ago in minutes:
            at = NOW - ago * MINUTE
            rollups.keep(app.store, {name: Point(at, 0, 0.0, 0, 0, 0, 10_000 - ago) for name in queues}, at)

    def test_counts_what_has_died_within_a_day(self, app: Stanchion) -> None:
        self.watched(app, range(24 * 60 + 30, 24 * 60 - 90, -1), "mail")
        day = Day()
        day.read(app.store, NOW, ["mail", "new"])
        assert day.dead("mail", 10_000, NOW) == 24 * 60
        assert day.dead("mail", 10_020, NOW + 20 * MINUTE) == 24 * 60
        assert day.dead("new", 3, NOW) == 3
        assert day.dead("mail", 2, NOW) == 2  # deleted, and made again
        assert day.since(NOW) is None

    def test_says_since_when_it_counts_on_the_first_day(self, app: Stanchion) -> None:
        self.watched(app, range(90, 0, -1), "mail")
        day = Day()
        day.read(app.store, NOW, ["mail"])
        assert day.dead("mail", 10_000, NOW) == 90
        assert day.since(NOW) == NOW - 90 * MINUTE

    def test_knows_nothing_where_nothing_was_kept(self, app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
        day = Day()
        day.read(app.store, NOW, ["mail"])
        assert (day.dead("mail", 7, NOW), day.since(NOW)) == (None, None)
        self.watched(app, range(1), "mail")
        day.read(app.store, NOW, ["mail"])  # it looks again as soon as there may be something
        assert day.dead("mail", 10_007, NOW) == 7
        monkeypatch.setattr("stanchion.ops.web.live.day.QUEUES_MAX", 1)
        assert day.dead("other", 7, NOW) is None

    def test_is_read_once_in_an_hour(self, app: Stanchion) -> None:
        self.watched(app, range(1), "mail")
        store = CountingStore(app.store)
        day = Day()
        for at in (0, 59, 0, 60, 119):
            day.read(store, NOW + at * MINUTE, ["mail", ALL])
        assert store.calls == {"values": 4}
        assert NOW % HOUR == 0


def cells(text: str, queue: str) -> list[str]:
    """Return the cells of a queue's row on the overview."""
    (row,) = re.findall(rf'<tr><th scope="row"><a href="/queues/{queue}">.*?</tr>', text)
    return re.findall(r"<td[^>]*>(.*?)</td>", row)


def test_the_overview_shows_what_failed_and_died(app: Stanchion) -> None:
    mail = app.queue("mail")
    site = site_of(app)
    with app.testing() as clock:
        mail.push_many(range(4))
        site.sampler.take()
        clock.advance(60)
        for job, ends in zip(mail.reserve(4), ("commit", "commit", "commit", "bury"), strict=True):
            job.commit() if ends == "commit" else job.bury("no")
        site.sampler.take()
        text = Browser(site).get("/").text
    assert cells(text, "mail")[-2:] == ["25 %", "1"]
    assert "Dead jobs are counted since" in text
    site.close()


def alert(rule: str, *merged: str) -> Alert:
    return Alert("now", rule, "queue", "mail", "", 1, 1, "jobs", merged=merged)  # type: ignore[arg-type]


def test_the_navigation_counts_alerts_by_their_pages() -> None:
    dead, stream = alert("dead-letters", "age", "attempts"), alert("stream", "failed-attempts")
    firing = [alert("age"), dead, stream, alert("stream")]
    assert needs_of(firing) == {"/errors": 2, "/streams": 2}
    assert needs_of([]) == {"/errors": 0, "/streams": 0}


def badges(text: str) -> list[tuple[str, str, str]]:
    return re.findall(r'data-need="(\w+)"( hidden)?>(\d+)<', text)


def test_every_page_says_what_needs_a_person_and_reads_nothing_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "SHORTEST", 1e6)
    app = shop(open_store("memory://"))
    site = site_of(app)
    browser = Browser(site)
    browser.get("/")
    errors, streams = (str(count) for count in needs_of(site.sampler.latest().firing).values())
    assert errors != "0"
    for page in pages_of(app):
        found = set(badges(browser.get(page).text))
        assert found == {("errors", "", errors), ("streams", "" if streams != "0" else " hidden", streams)}, page
    assert site.sampler.latest().number == 1
    site.close()
    app.close()


def test_a_page_that_needs_no_reading_begins_one_and_does_not_wait(app: Stanchion) -> None:
    app.queue("mail").push({})
    app.queue("mail").reserve()[0].bury("no")
    site = site_of(app)
    browser = Browser(site)
    assert set(badges(browser.get("/audit").text)) == {("errors", " hidden", "0"), ("streams", " hidden", "0")}
    while site.sampler.sample is None:
        pass
    assert ("errors", "", "1") in badges(browser.get("/audit").text)
    site.close()

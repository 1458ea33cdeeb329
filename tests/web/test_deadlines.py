"""Pages over a store that answers late: what was read stands, the rest says so, and late reads do not pile up."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from stanchion import Stanchion
from stanchion.ops.web.live import deadlines, sampler
from stanchion.ops.web.live.deadlines import Deadlines, Missed, seconds_set
from stanchion.ops.web.site import Site
from stanchion.stores.registry import open_store
from tests.web.conftest import Browser, site_of
from tests.web.seed import shop
from tests.web.test_streams import AGAIN


class Late:
    """A store that holds some reads until it is told to let them go. Time passes only while one is held."""

    def __init__(self, inner: Any) -> None:
        self._inner, self._held = inner, set[str]()
        self._free = threading.Event()
        self.calls, self._time = Counter[str](), 0.0

    def hold(self, *verbs: str) -> None:
        """Hold these reads from now on."""
        self._free.clear()
        self._held = set(verbs)

    def let_go(self) -> None:
        """Let all reads go on."""
        self._held = set()
        self._free.set()

    def clock(self) -> float:
        """Return the time of the deadlines."""
        return self._time

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def called(*args: Any, **kwargs: Any) -> Any:
            kind = f"{name} {args[0]}" if name == "values" else name
            if {name, kind} & self._held:
                self.calls[kind] += 1
                self._time += 1000
                assert self._free.wait(120)
            return found(*args, **kwargs)

        return called


@pytest.fixture
def late() -> Iterator[Late]:
    store = Late(open_store("memory://"))
    yield store
    store.let_go()


@pytest.fixture
def site(late: Late, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(sampler, "SHORTEST", 1e6)
    app = shop(late)
    site = site_of(app, deadlines=Deadlines(0.02, late.clock))
    site.sampler.latest()
    yield site
    late.let_go()
    site.close()
    app.close()


SLOW = "could not be read within 0.02 s: the store is slow."


def test_a_part_that_is_late_says_so_and_the_rest_stands(late: Late, site: Site) -> None:
    late.hold("lane_depths", "select")
    answer = Browser(site).get("/queues/orders")
    assert answer.status_code == 200
    assert f"The queued jobs of each lane {SLOW}" in answer.text
    assert f"Ready jobs by tenant {SLOW}" in answer.text
    assert "orders has 60 ready jobs" in answer.text
    assert "No job is queued in its" not in answer.text
    late.let_go()
    assert "could not be read" not in Browser(site).get("/queues/orders").text


@pytest.mark.parametrize(
    ("path", "verb", "said"),
    [
        ("/", "values web-audit", f"Operator actions {SLOW}"),
        ("/jobs?state=ready", "values web-bulk", f"Bulk work under way {SLOW}"),
        ("/queues/payments", "select", f"What fails, and what ended its dead jobs {SLOW}"),
        ("/queues/mail", "values web-settings", f"Who changed them {SLOW}"),
    ],
)
def test_each_part_names_itself(late: Late, site: Site, path: str, verb: str, said: str) -> None:
    late.hold(verb)
    answer = Browser(site).get(path)
    assert answer.status_code == 200
    assert said in answer.text
    assert "<h1" in answer.text


def test_what_a_page_needs_is_answered_by_a_sentence(late: Late, site: Site) -> None:
    late.hold("workers")
    answer = Browser(site).get("/workers")
    assert (answer.status_code, answer.headers["retry-after"], answer.headers["refresh"]) == (503, "5", "5")
    assert "This page could not be read within 0.02 s: the store is slow" in answer.text


def test_the_api_answers_by_a_problem(late: Late, site: Site) -> None:
    late.hold("workers")
    answer = Browser(site).get("/api/v1/workers")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.json()["code"] == "store-unavailable"
    assert "within 0.02 s" in answer.json()["detail"]


def test_late_reads_do_not_pile_up(late: Late, site: Site) -> None:
    """While one is late, no other of its kind begins; once it has ended, they do."""
    late.hold("workers")
    browser = Browser(site)
    for _ in range(5):
        assert browser.get("/workers").status_code == 503
        assert browser.get("/workers", headers=AGAIN).status_code == 503
        assert browser.get("/api/v1/workers").status_code == 503
    assert late.calls["workers"] == 2  # one of the page, one of the API
    late.let_go()
    site.deadlines.join()
    assert browser.get("/workers").status_code == 200


def test_reads_of_a_kind_are_bounded_before_one_is_late() -> None:
    found, begun, free = Deadlines(60), threading.Semaphore(0), threading.Event()

    def read() -> None:
        begun.release()
        assert free.wait(60)

    asking = [threading.Thread(target=found.read, args=("a", "A", read), daemon=True) for _ in range(10)]
    for thread in asking:
        thread.start()
    for _ in range(deadlines.MOST):
        assert begun.acquire(timeout=60)
    assert not begun.acquire(blocking=False)
    free.set()
    for thread in asking:
        thread.join(60)
    assert not any(thread.is_alive() for thread in asking)


def test_an_act_is_not_left_in_its_middle(late: Late, site: Site) -> None:
    browser = Browser(site)
    csrf = browser.csrf()
    answers: list[Any] = []

    def act() -> None:
        form = {"csrf": csrf, "note": "a test"}
        answers.append(browser.post("/pause/mail", data=form, headers={"Sec-Fetch-Site": "same-origin"}))

    late.hold("configure")
    acting = threading.Thread(target=act)
    acting.start()
    while not late.calls["configure"]:
        pass
    acting.join(1)  # a read that is as late would be answered
    late.let_go()
    acting.join(60)
    assert answers[0].status_code == 303


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class TestDeadlines:
    def test_the_time_of_a_part_is_not_that_of_its_page(self) -> None:
        clock = Clock()
        found = Deadlines(0.01, clock)

        def part() -> int:
            clock.now += 0.009
            threading.Event().wait(0.1)  # meanwhile its page would notice that its own time is over
            return 1

        def page() -> int:
            clock.now += 0.005
            return sum(found.read("part", "Part", part) for _ in range(3))

        assert found.read("page", "It", page) == 3

    def test_more_time_can_be_allowed(self) -> None:
        clock = Clock()
        found = Deadlines(0.01, clock)

        def read() -> str:
            found.allow(5)
            clock.now += 4
            return "read"

        assert found.read("a", "It", read) == "read"

    def test_what_a_read_raises_is_raised(self) -> None:
        with pytest.raises(KeyError):
            Deadlines(60).read("a", "It", lambda: dict[str, int]()["b"])

    def test_a_late_read_is_told(self) -> None:
        clock, free = Clock(), threading.Event()
        found = Deadlines(0.01, clock)

        def read() -> None:
            clock.now += 1
            assert free.wait(60)

        with pytest.raises(Missed, match=r"It could not be read within 0\.01 s"):
            found.read("a", "It", read)
        with pytest.raises(Missed):
            found.read("a", "It", read)
        free.set()
        found.join()
        assert found.read("a", "It", lambda: 7) == 7

    @pytest.mark.parametrize(("given", "seconds"), [("", 2.0), ("7.5", 7.5), ("never", 2.0), ("0", 2.0)])
    def test_the_environment_sets_it(self, monkeypatch: pytest.MonkeyPatch, given: str, seconds: float) -> None:
        monkeypatch.setenv(deadlines.VARIABLE, given)
        assert seconds_set() == seconds


def test_the_first_reading_may_take_longer(late: Late) -> None:
    app = Stanchion(store=late)
    clock = Clock()
    site = site_of(app, deadlines=Deadlines(0.01, clock))
    take = site.sampler.take

    def slowly() -> Any:
        clock.now += 5
        return take()

    site.sampler.take = slowly  # type: ignore[method-assign]
    assert Browser(site).get("/").status_code == 200
    site.close()
    app.close()

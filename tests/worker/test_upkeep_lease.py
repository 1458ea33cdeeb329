"""The lease of the upkeep: one process of a fleet does it, another one soon after its death, and the cost stays."""

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from stanchion.context import upkeep_lease
from stanchion.context.upkeep_lease import KIND, NAME, UpkeepLease
from stanchion.errors import StoreUnavailable
from stanchion.manager.service.manager import StoreHost
from stanchion.stores.memory import MemoryStore
from stanchion.worker import reaper
from stanchion.worker.reaper import Reaper

EVERY, LASTS, DEAD = 5.0, 15.0, 30.0


class Counted:
    """A store that counts the calls of its verbs, and loses the next replies of some."""

    def __init__(self) -> None:
        self._store: Any = MemoryStore()
        self.calls: Counter[str] = Counter()
        self.lost: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found):
            return found

        def call(*args: Any, **options: Any) -> Any:
            self.calls[name] += 1
            answer = found(*args, **options)
            if name in self.lost:
                self.lost.remove(name)
                raise StoreUnavailable("the reply was lost")
            return answer

        return call

    def advance(self, seconds: float) -> None:
        """Move the store's clock."""
        self._store.clock_offset += seconds


@pytest.fixture
def store() -> Iterator[Any]:
    store = Counted()
    yield store
    store.close()


def lease(every: float = EVERY, **options: Any) -> UpkeepLease:
    return UpkeepLease(every, LASTS, **options)


def takes(store: Any, one: UpkeepLease, *, steady: bool = True, renew: bool = True) -> bool:
    return one.take(store, steady=steady, renew=renew) is not None


def test_one_process_has_it_and_renews_it(store: Any) -> None:
    first, second = lease(), lease()
    assert (takes(store, first), takes(store, second)) == (True, False)
    store.advance(LASTS - 1)
    assert takes(store, first)
    store.advance(LASTS - 1)
    assert not takes(store, second)
    assert (first.is_held, second.is_held) == (True, False)


def test_a_renewal_reads_no_value(store: Any) -> None:
    one = lease()
    takes(store, one)
    store.calls.clear()
    assert takes(store, one)
    assert store.calls == {"now": 1, "compare_and_set": 1}


def test_another_takes_it_once_it_has_ended_and_the_late_one_is_refused(store: Any) -> None:
    late, other = lease(), lease()
    takes(store, late)
    store.advance(LASTS)
    assert takes(store, other)
    assert not takes(store, late)
    assert not late.is_held


def test_it_tells_the_time_before_it_was_taken(store: Any) -> None:
    before = store.now()
    at = lease().take(store, steady=True)
    assert at is not None
    assert before <= at <= store.now()


@pytest.mark.parametrize("seconds", [-3600.0, -1.0])
def test_one_from_the_future_has_ended(store: Any, seconds: float) -> None:
    takes(store, lease())
    store.advance(seconds)
    assert takes(store, lease())


@pytest.mark.parametrize("text", ["", "[]", "{}", "1", '{"holder": "a", "at": "soon"}'])
def test_one_that_cannot_be_read_is_free(store: Any, text: str) -> None:
    store.compare_and_set(KIND, NAME, text, 0)
    assert takes(store, lease())


def test_a_holder_that_leaves_lets_it_go(store: Any) -> None:
    first, second = lease(), lease()
    takes(store, first)
    second.let_go(store)
    assert not takes(store, second)
    first.let_go(store)
    assert takes(store, second)


@pytest.mark.parametrize(
    ("holder", "other", "taken"),
    [
        ((10.0, True), (5.0, True), True),  # jobs of workers with quick heartbeats come back as soon as before
        ((5.0, True), (5.0, True), False),
        ((5.0, True), (10.0, True), False),
        ((5.0, False), (10.0, True), True),  # it takes back no lost jobs yet
        ((10.0, True), (5.0, False), False),
        ((10.0, False), (5.0, False), True),
    ],
)
def test_a_process_of_more_use_takes_it_over(
    store: Any, holder: tuple[float, bool], other: tuple[float, bool], taken: bool
) -> None:
    one, two = lease(holder[0]), lease(other[0])
    takes(store, one, steady=holder[1])
    assert takes(store, two, steady=other[1]) is taken
    assert takes(store, one, steady=holder[1]) is not taken


@pytest.mark.parametrize("verb", ["now", "values", "compare_and_set"])
def test_no_lost_reply_leaves_it_to_nobody(store: Any, verb: str) -> None:
    one = lease()
    store.lost.add(verb)
    with pytest.raises(StoreUnavailable):
        takes(store, one)
    assert takes(store, one)
    store.lost.add("compare_and_set")
    with pytest.raises(StoreUnavailable):
        takes(store, one)
    assert takes(store, one)
    assert not takes(store, lease())


def test_a_share_leaves_it_alone_as_long_as_it_lasts(store: Any) -> None:
    one = lease()
    assert [takes(store, one, renew=renew) for renew in (False, False, True)] == [True, False, True]
    store.advance(LASTS)
    assert takes(store, one, renew=False)


def test_the_next_look_comes_when_it_may_have_ended(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep_lease, "time", SimpleNamespace(monotonic=lambda: 100.0))
    takes(store, lease())
    store.advance(5)
    other = lease()
    assert other.look_in(2) == 0
    takes(store, other)
    monkeypatch.setattr(other, "_spread", 1.0)
    assert LASTS - 6 < other.look_in(2) < LASTS - 4
    assert other.look_in(100) == EVERY * 100
    assert other.look_in(99) == 0  # one has died: it may be the holder


# -- a fleet, in simulated time


class Fleet:
    """Reapers of one store whose threads are played, one round after the other, by a clock of the test."""

    def __init__(self, store: Any, size: int, clock: SimpleNamespace) -> None:
        self.store, self._clock, self.size = store, clock, size
        self.reapers = [Reaper(StoreHost(store), EVERY, lambda: True, fleet=lambda: self.size) for _ in range(size)]
        self._due = {one: clock.now + one.pause() for one in self.reapers}
        self._noticed: list[float] = []

    @property
    def holder(self) -> Reaper:
        """The one that has the lease."""
        (found,) = (one for one in self.reapers if one._lease.is_held)
        return found

    def step(self) -> None:
        """Play the next round of any of them."""
        one = min(self._due, key=lambda one: self._due[one])
        self.store.advance(self._due[one] - self._clock.now)
        self._clock.now = self._due[one]
        while self._noticed and self._noticed[0] <= self._clock.now:
            self._noticed.pop(0)
            self.size -= 1
        one.round()
        self._due[one] = self._clock.now + one.pause()

    def run(self, seconds: float) -> Counter[str]:
        """Play for some seconds; return the calls of the store."""
        self.store.calls.clear()
        end = self._clock.now + seconds
        while min(self._due.values()) < end:
            self.step()
        return Counter(self.store.calls)

    def kill(self, one: Reaper) -> None:
        """Play no more rounds of it; heartbeats of the others tell after DEAD seconds that one is missing."""
        self.reapers.remove(one)
        del self._due[one]
        self._noticed.append(self._clock.now + DEAD)

    def seconds_to(self, verb: str) -> float:
        """Play until a verb is called; return the seconds until then."""
        before, began = self.store.calls[verb], self._clock.now
        while self.store.calls[verb] == before:
            self.step()
        return float(self._clock.now - began)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=1000.0)
    played = SimpleNamespace(monotonic=lambda: clock.now)
    monkeypatch.setattr(upkeep_lease, "time", played)
    monkeypatch.setattr(reaper, "time", played)
    random.seed(7)
    return clock


@pytest.mark.parametrize("size", [2, 8, 16, 100])
def test_a_fleet_costs_what_one_worker_costs(clock: SimpleNamespace, size: int) -> None:
    def cost(workers: int) -> Counter[str]:
        fleet = Fleet(Counted(), workers, clock)
        fleet.run(300)
        return fleet.run(1800)

    alone, together = cost(1), cost(size)
    for verb in ("recover", "maintain", "queues"):
        assert 0 < together[verb] <= 1.05 * alone[verb] + 1
    assert together.total() <= 1.3 * alone.total()


@pytest.mark.parametrize("size", [2, 16, 100])
def test_the_work_goes_on_within_about_a_lease_of_the_holders_death(clock: SimpleNamespace, size: int) -> None:
    waited = []
    for _ in range(20):
        fleet = Fleet(Counted(), size, clock)
        fleet.run(300 * random.random() + 60)
        fleet.kill(fleet.holder)
        waited.append(fleet.seconds_to("recover"))
    # A worker is dead 30 s after its last heartbeat: by then mostly another does the upkeep.
    assert sorted(waited)[10] < LASTS + 2 * EVERY
    assert max(waited) < DEAD + 1.3 * EVERY


def test_the_last_one_left_goes_on_as_soon_as_it_knows(clock: SimpleNamespace) -> None:
    fleet = Fleet(Counted(), 16, clock)
    fleet.run(300)
    for one in fleet.reapers[:-1]:
        fleet.kill(one)
    assert fleet.seconds_to("recover") < DEAD + 1.3 * EVERY


def test_a_holder_that_stops_lets_the_lease_go() -> None:
    store = Counted()
    one = Reaper(StoreHost(store), 0.01, lambda: True)
    one.start()
    deadline = time.monotonic() + 60
    while not store.values(KIND, [NAME]):
        assert time.monotonic() < deadline
    one.stop()
    while store.values(KIND, [NAME]):
        assert time.monotonic() < deadline


def test_the_value_says_who_has_it(store: Any) -> None:
    takes(store, lease())
    (value,) = store.values(KIND, [NAME])
    assert set(json.loads(value.text)) == {"holder", "at", "lasts", "every", "steady"}

"""Workers of partitioned queues behind managers: streams bring the jobs of all partitions."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from types import SimpleNamespace
from typing import Any

import pytest

from stanchion import Stanchion
from stanchion.partitions.store import PartitionedStore
from stanchion.stores.grpc.receiving import receiver
from stanchion.stores.grpc.receiving.receiver import Feeding, Link, Receiver
from stanchion.stores.memory import MemoryStore
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.jobs import JobState
from stanchion.stores.rules.lifecycle.jobs import created
from stanchion.worker.worker import Worker
from stanchion_conformance.harness import new_job, worker
from tests.servers.manager import ManagerThread
from tests.worker.conftest import until

PARTITIONS = 4


class Searched(MemoryStore):
    """A store that knows the claims made of it that search for jobs."""

    def __init__(self) -> None:
        super().__init__()
        self.searches: list[str] = []
        made = self.claim

        def claimed(claim: Claim) -> Claimed:
            if not claim.ids:
                self.searches.append(claim.queue)
            return made(claim)

        self.claim = claimed


class Fleet:
    """Apps behind managers of one store, each with a worker."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.store = Searched()
        manager = stack.enter_context(ManagerThread(self.store, lease=1.0))
        self.url = manager.url
        self.ran: Counter[int] = Counter()
        self.app = self.opened()

    def opened(self, partitions: int = PARTITIONS) -> Stanchion:
        app = self._stack.enter_context(closing(Stanchion(self.url)))
        app.queue("orders", partitions=partitions)

        @app.task(queue="orders", name="t")
        def task(number: int) -> None:
            self.ran[number] += 1

        return app

    def started(self, app: Stanchion, **options: Any) -> Worker:
        """Start a worker; return it once all partitions are fed."""
        one = Worker(app, **{"queues": ["orders"], "threads": 2, "heartbeat": 0.5, **options})
        one.start()
        self._stack.callback(one.stop, 0)
        until(lambda: one._claimer.due.fed)
        return one

    def push(self, first: int, count: int) -> None:
        self.app.tasks["t"].enqueue_many([(number,) for number in range(first, first + count)])

    def done(self) -> int:
        return self.app.queue("orders").counts().committed


def calls_of(app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the calls of managers by an app from now on."""
    store: Any = app.store
    made: Counter[str] = Counter()
    make = store.within._calls.make

    def counted(verb: str, *args: Any, **fields: Any) -> Any:
        made[verb] += 1
        return make(verb, *args, **fields)

    monkeypatch.setattr(store.within._calls, "make", counted)
    return made


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with ExitStack() as stack:
        yield Fleet(stack)


@pytest.mark.parametrize("order", ["priority", "fair"])
def test_jobs_of_all_partitions_come_without_being_asked_for(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    app = fleet.opened()
    fleet.started(app, order=order)
    fleet.store.searches.clear()
    made = calls_of(app, monkeypatch)
    fleet.push(0, 200)
    until(lambda: fleet.done() == 200)
    assert set(fleet.ran.values()) == {1}
    assert fleet.store.searches == []
    assert not made.keys() & {"claim", "stats", "settle"}, "neither polls nor outcomes by calls"
    assert len(queues_with_ends(fleet.store)) == PARTITIONS


def queues_with_ends(store: MemoryStore) -> set[str]:
    names = [one.name for one in store.queues()]
    return {name for name, one in store.stats(names, ["totals"]).items() if one.totals.committed}


def test_a_worker_that_leaves_hands_the_partitions_over(fleet: Fleet) -> None:
    first = fleet.started(fleet.opened())
    fleet.push(0, 100)
    until(lambda: fleet.done() >= 20)
    fleet.started(fleet.opened())
    fleet.push(100, 100)
    first.stop()
    fleet.store.searches.clear()
    until(lambda: fleet.done() == 200)
    assert set(fleet.ran.values()) == {1}
    assert len(fleet.ran) == 200
    assert fleet.store.searches == []


@pytest.mark.nightly
def test_partitions_that_are_added_are_fed_too(fleet: Fleet) -> None:
    app = fleet.opened()
    one = fleet.started(app)
    fleet.app.queue("orders").configure(partitions=2 * PARTITIONS)
    store: Any = app.store
    store.layouts.read()
    until(lambda: not one._claimer.due.fed or len(feeding(store).queues) == 2 * PARTITIONS + 1)
    until(lambda: len(feeding(store).queues) == 2 * PARTITIONS + 1 and one._claimer.due.fed)
    fleet.push(0, 300)
    until(lambda: fleet.done() == 300)
    assert len(queues_with_ends(fleet.store)) == 2 * PARTITIONS
    assert set(fleet.ran.values()) == {1}


def feeding(store: Any) -> Feeding:
    (one,) = store.within._receivers._workers.values()
    found: Feeding = one.receiver.feeding
    return found


def test_jobs_of_partitions_that_go_in_turn_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow worker must not give back jobs of partitions only because claims take those of others first."""
    clock: Any = SimpleNamespace(now=100.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(receiver, "time", clock)
    one, link = Receiver(worker("w"), Feeding(("orders", "orders#0", "orders#1", "mail")), lambda _: None), Link()
    link.up = True
    rows = [
        created(new_job(), 0)._replace(state=JobState.RUNNING, token="m:1:x", queue=queue)
        for queue in ("orders#0", "orders#1", "mail")
    ]
    one.take_in(link, rows, [False] * 3)
    clock.now += 2 * receiver.PASSED_OVER_SECONDS
    assert one.claim(Claim("orders#0", 1, "t", worker="w")) == rows[:1]
    assert [refused.lease for refused in link.outgoing] == [rows[2].lease]
    assert one.claim(Claim("orders#1", 1, "t", worker="w")) == rows[1:2]


def test_a_store_without_streams_is_asked() -> None:
    store = PartitionedStore(Searched())
    store.layouts.resize("orders", 2)
    assert store.claim(Claim("orders", 1, "t", worker="w")).rows == []
    within: Any = store.within
    assert within.searches

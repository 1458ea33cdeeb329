"""An idle fleet costs MongoDB next to nothing, by the commands of the driver: upkeep follows the busy queues."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from pymongo import MongoClient, monitoring

from stanchion.core.ids import new_id
from stanchion.stores.mongo import queues as counters
from stanchion.stores.mongo.client.server import PATIENCE, patience_of
from stanchion.stores.protocol import Store
from stanchion.stores.records import calls
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.registry import open_store
from stanchion.telemetry.rollups import Rollups
from stanchion_conformance.harness import NewStore, StoreClock, claim, counts_of, new_job
from stanchion_conformance.operate.shapes import shape
from tests.mongo.test_shapes import set_back
from tests.servers.mongo import MongoServer

FEW, MANY = 10, 300
DAY = 86_400.0


class Commands(monitoring.CommandListener):
    """Counts the commands of all clients made from now on, by name."""

    def __init__(self) -> None:
        self.counted = Counter[str]()

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        self.counted[event.command_name] += 1

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None: ...

    def failed(self, event: monitoring.CommandFailedEvent) -> None: ...


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Commands:
    heard = Commands()
    made: Callable[..., Any] = MongoClient
    monkeypatch.setattr(
        "stanchion.stores.mongo.client.server.MongoClient",
        lambda *args, **options: made(*args, **options, event_listeners=[heard]),
    )
    return heard


@pytest.fixture
def beside(mongo_server: MongoServer, clock: StoreClock) -> Iterator[Callable[[int], Store]]:
    """A function that makes a store with this many idle queues."""

    def made(queues: int) -> Store:
        store = open_store(url)
        clock.governs(store)
        for number in range(queues):
            store.configure(f"idle {queues} {number}", {"lease": 31.0})
        return store

    with mongo_server.database() as url:
        yield made


def cost(commands: Commands, work: Callable[[], object]) -> int:
    before = commands.counted.total()
    work()
    return commands.counted.total() - before


@pytest.mark.parametrize(
    "what", ["recover", *(pytest.param(one, marks=pytest.mark.nightly) for one in ("maintain", "figures", "looks"))]
)
def test_upkeep_beside_many_idle_queues_costs_what_it_costs_beside_few(
    beside: Callable[[int], Store], commands: Commands, clock: StoreClock, what: str
) -> None:
    def costs(queues: int) -> int:
        with closing(beside(queues)) as store:
            figures, names = Rollups(), [one.name for one in store.queues()]
            works: dict[str, Callable[[], object]] = {
                "recover": store.recover,
                "maintain": store.maintain,
                "figures": lambda: figures.take(store),
                "looks": lambda: store.stats(names, ["states", "totals"]),
            }
            clock.advance(3600 - store.now() / SECOND % 3600)  # each hour begins with the figures of all queues
            for _ in range(2):  # the first round looks at each queue once
                works[what]()
                clock.advance(60)
            return cost(commands, works[what])

    few = costs(FEW)
    assert costs(MANY) <= few + 4


def test_many_idle_queues_that_expire_take_few_commands(beside: Callable[[int], Store], commands: Commands) -> None:
    with closing(beside(FEW)) as store:
        for number in range(60):
            store.configure(f"expiring {number}", {"expires": DAY})
        for _ in range(2):  # the first round stores the use of each
            store.maintain()
        assert cost(commands, store.maintain) < 60


@pytest.mark.parametrize("ttl", [60.0, DAY])
def test_a_queue_at_rest_is_purged_in_time(new_store: NewStore, clock: StoreClock, ttl: float) -> None:
    store, queue = new_store(), new_id()
    store.configure(queue, {"history_ttl": ttl})
    store.maintain()
    clock.advance(1)
    store.push([new_job(queue=queue)])
    (row,) = claim(store, queue=queue)
    store.settle([Commit(row.lease)])
    store.maintain()
    clock.advance(ttl - 30)
    store.maintain()
    assert store.fetch([row.id])
    clock.advance(31)
    store.maintain()
    assert not store.fetch([row.id])


def test_a_queue_at_rest_is_purged_by_its_new_retention(new_store: NewStore, clock: StoreClock) -> None:
    store, queue = new_store(), new_id()
    store.push([new_job(queue=queue)])
    (row,) = claim(store, queue=queue)
    store.settle([Commit(row.lease)])
    clock.advance(60)
    store.maintain()
    new_store().configure(queue, {"history_ttl": 30.0})
    store.maintain()
    assert not store.fetch([row.id])


def test_the_shape_of_a_queue_at_rest_is_set_right_once_something_happens(
    new_store: NewStore, clock: StoreClock
) -> None:
    store, other, queue = new_store(), new_store(), new_id()
    other.push([new_job(queue=queue, order_key="k")])
    set_back(store, queue)
    store.maintain()
    assert shape(store, queue) == "slots"
    (row,) = claim(other, queue=queue)
    other.settle([Commit(row.lease)])
    for _ in range(2):
        store.maintain()
        clock.advance(1)
    assert shape(store, queue) == "plain"
    store.maintain()
    other.push([new_job(queue=queue, order_key="k")])
    set_back(store, queue)
    store.maintain()
    assert shape(store, queue) == "slots"


def test_many_totals_are_read_while_another_process_counts(
    new_store: NewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other, queues = new_store(), new_store(), [new_id() for _ in range(3)]
    store.push([new_job(queue=queue) for queue in queues for _ in range(5)])
    read: Callable[..., Any] = counters._events_of

    def late(*args: Any) -> Any:
        monkeypatch.undo()
        other.maintain()
        return read(*args)

    monkeypatch.setattr(counters, "_events_of", late)
    stats = store.stats([*queues, "unknown"], ["totals"])
    assert [stats[queue].totals.pushed for queue in (*queues, "unknown")] == [5, 5, 5, 0]
    assert counts_of(store, queues[0]).pushed == 5


# -- waits for signals


def test_a_waiting_process_asks_the_server_rarely(commands: Commands, new_store: NewStore) -> None:
    store = new_store()
    with closing(store.listen([new_id()])) as listener:
        while listener.wait(0.2):
            pass
        commands.counted.clear()
        assert not listener.wait(3.5)
        assert commands.counted["getMore"] <= 1


def test_closing_a_store_ends_its_waits_on_the_server(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stanchion.stores.mongo.wakeup.patience_of", lambda _client: 300.0)
    options = "&" if "?" in database else "?"
    store = open_store(f"{database}{options}socketTimeoutMS=300000")
    listener = store.listen([new_id()])
    thread = store._tail._work._thread  # type: ignore[attr-defined]
    assert not listener.wait(0.5)
    listener.close()
    store.close()
    thread.join(30)
    assert not thread.is_alive()


@pytest.mark.parametrize(("limit", "patience"), [(None, PATIENCE), (300.0, PATIENCE), (1.0, 0.5)])
def test_the_server_answers_before_the_client_gives_up(limit: float | None, patience: float) -> None:
    client: Any = SimpleNamespace(options=SimpleNamespace(pool_options=SimpleNamespace(socket_timeout=limit)))
    assert patience_of(client) == patience


def test_by_default_a_lost_connection_is_noticed_one_call_later(new_store: NewStore) -> None:
    client = new_store().server.outside.place.database.client  # type: ignore[attr-defined]
    assert client.options.pool_options.socket_timeout == PATIENCE + calls.CALL_SECONDS
    assert patience_of(client) == PATIENCE

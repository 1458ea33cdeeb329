"""Idle queues cost Redis next to nothing, by its own count of commands: upkeep follows the busy ones."""

from collections.abc import Callable
from contextlib import closing

import pytest
from redis import Redis

from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.registry import open_store
from stanchion.telemetry.rollups import Rollups

FEW, MANY, VERY_MANY = 10, 300, 1300


@pytest.fixture
def stores(redis_server: object, redis_url: str) -> Callable[[int], tuple[Store, Redis]]:  # noqa: ARG001
    def made(queues: int) -> tuple[Store, Redis]:
        store, client = open_store(redis_url), Redis.from_url(redis_url)
        client.flushdb()
        store.setup()
        for number in range(queues):
            store.configure(f"idle {number}", {"lease": 31.0})
        return store, client

    return made


def commands(client: Redis, work: Callable[[], object]) -> int:
    before = client.info("stats")["total_commands_processed"]
    work()
    return int(client.info("stats")["total_commands_processed"] - before)


@pytest.mark.parametrize(
    "what", ["recover", *(pytest.param(one, marks=pytest.mark.nightly) for one in ("maintain", "looks"))]
)
def test_upkeep_beside_many_idle_queues_costs_what_it_costs_beside_few(
    stores: Callable[[int], tuple[Store, Redis]], what: str
) -> None:
    def cost(queues: int) -> int:
        store, client = stores(queues)
        names = [f"idle {number}" for number in range(queues)]
        works: dict[str, Callable[[], object]] = {
            "recover": store.recover,
            "maintain": store.maintain,
            "looks": lambda: store.stats(names, ["next_due", "states"]),
        }
        with closing(store), closing(client):
            store.maintain()  # the first one looks at each queue once
            store.maintain()
            return commands(client, works[what])

    assert cost(VERY_MANY) <= cost(FEW) + 4


def test_the_figures_of_idle_queues_are_read_in_turn(stores: Callable[[int], tuple[Store, Redis]]) -> None:
    store, client = stores(MANY)
    with closing(store), closing(client):
        figures = Rollups()
        store.clock_offset += 3600 - store.now() / SECOND % 3600  # each hour begins with the figures of all queues
        figures.take(store)
        counts = []
        for _ in range(3):
            store.clock_offset += 60
            counts.append(commands(client, lambda: figures.take(store)))
        assert max(counts) < MANY / 3

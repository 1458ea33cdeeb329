"""Pushes by SQL beside workers of the app: every job is stored once, and no two of them meet in a deadlock."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from benchmarks.limits_contention import mariadb_deadlocks, postgresql_deadlocks

from stanchion import Stanchion
from stanchion.stores.protocol import Store
from stanchion.stores.registry import open_store
from tests.plain_push.conftest import SQL_WAYS
from tests.plain_push.ways import SqlWay

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("kind", SQL_WAYS, indirect=True)]


@pytest.fixture
def deadlocks(kind: str, request: pytest.FixtureRequest) -> Callable[[], int]:
    """What counts the deadlocks of the server so far."""
    if kind == "postgresql":
        server = request.getfixturevalue("postgres_server")
        return lambda: postgresql_deadlocks(server.url())
    if kind == "mariadb":
        server = request.getfixturevalue("mariadb_server")
        return lambda: mariadb_deadlocks(server)
    return lambda: 0


# On MariaDB two inserts of a key, while the job that had it is deleted, may meet in a deadlock, also those of the app.
# So the jobs with keys stay.
LATER = 3600
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"key": "k{}", "delay": LATER},
    {"order_key": "o"},
    {"limits": ["smtp"]},
    {"key": "k{}", "order_key": "later", "tenant": "t{}", "delay": LATER},
)
TURNS = 90
QUEUES = [f"q{n}" for n in range(3)]


def session(way: SqlWay) -> list[str]:
    """Push jobs with all kinds of options; return their ids."""
    pushes = []
    for n in range(TURNS):
        options = OPTIONS[n % len(OPTIONS)].items()
        given = {name: value.format(n // 2) if isinstance(value, str) else value for name, value in options}
        pushes.append(way.pushing(QUEUES[n % len(QUEUES)], str(n), given))
    return way.run(pushes)


def worker(url: str, pushed: threading.Event) -> int:
    """Finish jobs until all are pushed and none is left; return how many."""
    done = 0
    with closing(Stanchion(url)) as app:
        while True:
            last = pushed.is_set()
            taken = [job for queue in QUEUES for job in app.queue(queue).reserve(10)]
            done += sum(state is not None for state in app.settle([job.committed() for job in taken]))
            if last and not taken:
                return done


def test_four_sessions_and_two_workers(way: SqlWay, url: str, store: Store, deadlocks: Callable[[], int]) -> None:
    store.set_semaphore("smtp", 3)
    before, pushed = deadlocks(), threading.Event()
    with ThreadPoolExecutor(6) as pool:
        workers = [pool.submit(worker, url, pushed) for _ in range(2)]
        try:
            ids = [one for each in pool.map(lambda _: session(way), range(4)) for one in each]
        finally:
            pushed.set()
        done = sum(one.result(300) for one in workers)
    assert deadlocks() - before == 0
    with closing(open_store(url)) as other:
        stats = other.stats(QUEUES, ["totals", "states"]).values()
    total = len(set(ids))
    assert total == 4 * TURNS * 3 // 5 + sum(each.states.scheduled for each in stats)
    assert total == sum(each.totals.pushed for each in stats) == done + sum(each.states.scheduled for each in stats)
    assert sum(each.states.total for each in stats) == sum(each.states.scheduled for each in stats)

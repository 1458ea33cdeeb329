"""What a station on Spark settles goes to the server together: the round trips do not grow with the items."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from pymongo import MongoClient, monitoring
from pymysql.connections import Connection
from redis.connection import AbstractConnection

from stanchion.core.ids import new_id, new_ids
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRow, JobState, NewJob
from stanchion.stores.records.outcomes import Commit, Move, Outcome
from stanchion.stores.registry import open_store

MANY = 200
MOST = 20
"""Far more than any store needs for so many items, with what its threads send meanwhile."""

Trips = list[None]


class Listener(monitoring.CommandListener):
    """Counts the commands of a client."""

    def __init__(self, trips: Trips) -> None:
        self._trips = trips

    def started(self, event: monitoring.CommandStartedEvent) -> None:  # noqa: ARG002
        self._trips.append(None)

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        pass

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        pass


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> Trips:
    """The round trips of all clients that are made from now on."""
    trips: Trips = []

    def counting(owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def counted(*args: Any, **options: Any) -> Any:
            trips.append(None)
            return real(*args, **options)

        monkeypatch.setattr(owner, name, counted)

    counting(AbstractConnection, "send_packed_command")
    counting(Connection, "_execute_command")
    made = MongoClient.__init__
    monkeypatch.setattr(
        MongoClient,
        "__init__",
        lambda self, *args, **options: made(self, *args, **options, event_listeners=[Listener(trips)]),
    )
    return trips


@pytest.fixture(params=["redis_url", "mongo_url", "mariadb_url"])
def store(request: pytest.FixtureRequest, trips: Trips) -> Iterator[Store]:  # noqa: ARG001 - it comes first
    with closing(open_store(request.getfixturevalue(request.param))) as store:
        store.setup()
        yield store


def moved(row: JobRow) -> Outcome:
    return Move(row.lease, "next", '{"m":1}')


def committed(row: JobRow) -> Outcome:
    return Commit(row.lease)


@pytest.mark.parametrize("outcome", [moved, committed])
def test_they_do_not_grow_with_the_items(store: Store, trips: Trips, outcome: Callable[[JobRow], Outcome]) -> None:
    for number in (1, MANY):  # the first makes the queue
        store.push([NewJob(one, "queue", "{}") for one in new_ids(number)])
        rows = store.claim(Claim("queue", number, new_id(), lease=60.0)).rows
        trips.clear()
        states = store.settle([outcome(row) for row in rows])
        assert len(states) == number
        assert set(states) <= {JobState.READY, JobState.DONE}
    assert 0 < len(trips) <= MOST

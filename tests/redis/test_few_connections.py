"""A client with few connections: threads wait for one that is free."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

from stanchion import Stanchion
from tests.sql.test_connection_limits import THREADS, in_threads


@pytest.mark.parametrize("connections", [1, 3])
def test_threads_wait_for_a_free_connection(redis_url: str, connections: int) -> None:
    mark = "&" if "?" in redis_url else "?"
    with closing(Stanchion(f"{redis_url}{mark}max_connections={connections}")) as app:
        app.setup()
        queue, other = app.queue("orders"), app.queue("others")
        found: list[object] = []
        waiting = threading.Thread(target=lambda: found.extend(queue.reserve(wait=60)))
        waiting.start()
        refused = app.store.server.client.connection_pool  # type: ignore[attr-defined]
        assert type(refused).__name__ == "BlockingConnectionPool"
        assert in_threads(lambda n: [other.push([n, times]) for times in range(5)]) == []
        assert other.size().ready == 5 * THREADS
        queue.push(1)
        waiting.join(60)
        assert len(found) == 1

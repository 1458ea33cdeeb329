"""A client with few connections: waits for signals take none of them."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

from stanchion import Stanchion
from tests.crash.scene import until
from tests.sql.test_connection_limits import THREADS, in_threads


@pytest.mark.parametrize("connections", [1, 2])
def test_a_waiting_call_blocks_no_other(mongo_url: str, connections: int) -> None:
    mark = "&" if "?" in mongo_url else "?"
    with closing(Stanchion(f"{mongo_url}{mark}maxPoolSize={connections}")) as app:
        app.setup()
        queue, other = app.queue("orders"), app.queue("others")
        found: list[object] = []
        waiting = threading.Thread(target=lambda: found.extend(queue.reserve(wait=60)))
        result = threading.Thread(target=lambda: found.append(other.push("held").id))
        waiting.start()
        result.start()
        result.join(60)
        until(lambda: any(thread.name.startswith("stanchion") for thread in threading.enumerate()), 60, "listener")
        assert in_threads(other.push) == []
        assert other.size().ready == THREADS + 1
        queue.push(1)
        waiting.join(60)
        assert not waiting.is_alive()
        assert len(found) == 2

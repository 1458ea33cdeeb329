"""A process that forks after it has used its store."""

from __future__ import annotations

import os

from stanchion import Stanchion


def test_a_forked_child_has_connections_of_its_own(app: Stanchion) -> None:
    queue = app.queue("orders")
    queue.push("parent")
    child = os.fork()
    if child == 0:
        try:
            queue.push("child")
            os._exit(0)
        finally:
            os._exit(1)
    for _ in range(20):
        queue.push("parent")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    payloads = [job.payload for job in queue.reserve(100)]
    assert (payloads.count("parent"), payloads.count("child")) == (21, 1)

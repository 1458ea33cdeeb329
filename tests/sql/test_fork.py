"""A process that forks after it has used its store."""

from __future__ import annotations

import os

from stanchion import Stanchion
from stanchion.ids import new_id


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


def test_parent_and_child_make_different_ids() -> None:
    for _ in range(20):
        new_id()
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writing, new_id().encode())
            os._exit(0)
        mine = new_id()
        os.waitpid(child, 0)
        assert os.read(reading, 36).decode() != mine
        os.close(reading)
        os.close(writing)

"""A process that forks after it has used its store."""

from __future__ import annotations

import os
import signal
import time

import pytest

from stanchion import Stanchion
from stanchion.context import context_of
from stanchion.core.ids import new_id
from stanchion.jobs.handle import JobHandle
from stanchion_conformance.harness import in_threads


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


def test_a_forked_child_waits_by_threads_of_its_own(app: Stanchion) -> None:
    queue = app.queue("orders")
    job = queue.push("parent")
    with in_threads([lambda: app.queue("thread").reserve(wait=30), JobHandle(app, job.id).result]):
        (first,) = queue.reserve(wait=10)
        time.sleep(0.3)
        context_of(app).waits.lock.acquire()  # any thread of the parent may hold it then
        child = os.fork()
        if child == 0:
            signal.alarm(40)  # or it hangs for ever
            try:
                (mine,) = app.queue("of the child").reserve(wait=30)
                mine.commit(result=mine.payload)
                os._exit(0 if JobHandle(app, mine.id).result(timeout=60) == "go on" else 2)
            finally:
                os._exit(1)
        context_of(app).waits.lock.release()
        app.queue("of the child").push("go on")
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        app.queue("thread").push("go on, too")
        first.commit()


@pytest.mark.slow
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

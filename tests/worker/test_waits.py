"""Waiting, beside a worker and at the end of a process."""

import subprocess
import sys
import threading
import time
from contextlib import suppress

import pytest

from stanchion import Stanchion
from stanchion.context import context_of
from stanchion.errors import StoreUnavailable
from stanchion.jobs.handle import JobHandle
from stanchion.stores.records.claims import Claim
from tests.worker.conftest import failed, until, working

OUTLIVES = """
import sys, threading, time
from stanchion import Stanchion
from stanchion.jobs.handle import JobHandle
app = Stanchion(sys.argv[1])
q = app.queue("orders")
job = q.push(1)

def end():
    time.sleep(0.5)
    held, = app.queue("orders").reserve(wait=30)
    held.commit(result="done")
    app.queue("later").push(2)

threading.Thread(target=end).start()
threading.Thread(target=lambda: print(JobHandle(app, job.id).result(timeout=60), flush=True)).start()
threading.Thread(target=lambda: print(app.queue("later").reserve(wait=30)[0].payload, flush=True)).start()
"""

ENDS = """
import asyncio, sys
from stanchion import Stanchion
from stanchion.jobs.handle import JobHandle
app = Stanchion(sys.argv[1])
job = app.queue("orders").push(1)

async def main():
    waits = [asyncio.create_task(JobHandle(app, job.id).aresult()) for _ in range(20)]
    waits += [asyncio.create_task(app.queue("another").areserve(wait=600)) for _ in range(20)]
    await asyncio.sleep(0.3)

asyncio.run(main())
print("over", flush=True)
"""


def run(code: str, url: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code, url], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    return sorted(done.stdout.split())


if sys.version_info < (3, 12):  # which starts no thread after the main thread has ended

    def test_threads_that_outlive_the_main_thread_wait_on(tmp_path):
        assert run(OUTLIVES, f"sqlite:///{tmp_path}/jobs.db") == ["2", "done"]


def test_pending_waits_keep_no_process_from_its_end(tmp_path):
    assert run(ENDS, f"sqlite:///{tmp_path}/jobs.db") == ["over"]


def test_the_time_out_of_a_task_interrupts_its_wait(app):
    @app.task(timeout=0.3, max_attempts=1)
    def waits() -> None:
        app.queue("empty").reserve(wait=600)

    with working(app):
        handle = waits.enqueue()
        assert "0.3 s" in failed(app, handle.id).errors[-1]["error"]
    until(lambda: not any(len(poll) for poll in context_of(app).waits._polls.values()))


def test_a_job_comes_to_no_wait_that_has_timed_out(app):
    q = app.queue("orders")
    for _ in range(20):
        waiting = threading.Thread(target=lambda: q.reserve(wait=0.01))
        waiting.start()
        waiting.join()
    q.push(1)
    time.sleep(0.05)
    assert [job.attempt for job in q.reserve()] == [1]


@pytest.mark.slow
def test_the_threads_of_waits_end_after_the_last_one(app, monkeypatch):
    monkeypatch.setattr("stanchion.waits.coordinator.LINGER_SECONDS", 0.1)
    monkeypatch.setattr("stanchion.core.concurrency.threads._IDLE_SECONDS", 0.1)
    others = set(threading.enumerate())
    job = app.queue("orders").push(1)
    app.queue("orders").pop()
    assert JobHandle(app, job.id).result(timeout=60) is None
    assert app.queue("orders").reserve(wait=0.1) == []
    of_waits = ("stanchion-waits", "stanchion-poll")
    until(lambda: not [one for one in {*threading.enumerate()} - others if one.name.startswith(of_waits)])


def test_a_store_that_fails_otherwise_is_told_to_all_who_wait():
    store = Stanchion("memory://").store
    app = Stanchion(store=store)
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            app.queue("orders").reserve(wait=60)
        except RuntimeError as error:
            errors.append(error)

    threads = [threading.Thread(target=wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    until(lambda: sum(len(poll) for poll in context_of(app).waits._polls.values()) == 3)

    def broken(_claim: Claim) -> None:
        raise RuntimeError("a fault in the store")

    store.claim = broken  # type: ignore[method-assign,assignment]
    app.queue("orders").push(1)
    for thread in threads:
        thread.join(60)
    assert len(errors) == 3


def test_close_while_a_thread_waits(app):
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            app.queue("orders").reserve(wait=60)
        except StoreUnavailable as error:
            errors.append(error)

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    until(lambda: sum(len(poll) for poll in context_of(app).waits._polls.values()))
    with suppress(StoreUnavailable):
        app.close()
    waiting.join(60)
    assert "closed" in str(errors[0])


@pytest.mark.parametrize("ends", ["committed", "timed out"])
def test_many_short_waits_leave_nothing_behind(app, ends):
    q = app.queue("orders")
    for _ in range(30):
        if ends == "committed":
            q.push(1)
            held = q.pop(wait=1)
            assert held is not None
            JobHandle(app, held.id).result(timeout=60)
        else:
            assert q.pop(wait=0.001) is None
    until(lambda: not any(len(poll) for poll in context_of(app).waits._polls.values()))

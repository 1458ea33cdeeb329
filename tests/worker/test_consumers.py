"""Consumers in processes of their own: killed, suspended, forked."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stanchion import LeaseLost, Stanchion
from stanchion.errors import InvalidInput
from stanchion.queues.consumer import heart_of

HOLDS = """
import sys, time
from stanchion import Stanchion

app = Stanchion(sys.argv[1])
with app.consumer("billing", heartbeat=0.2) as consumer:
    (job,) = app.queue("orders").reserve(holder=consumer)
    print(job.id, flush=True)
    sys.stdin.readline()
    job.commit()
"""


def wait_until(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'jobs.db'}"


@pytest.fixture
def app(url: str) -> Iterator[Stanchion]:
    app = Stanchion(url)
    app.queue("orders").push("x")
    yield app
    app.close()


@pytest.fixture
def process(url: str) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the job by its heartbeats, until it gets a line."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield process
        process.kill()


@pytest.mark.slow
class TestProcesses:
    def test_a_killed_one_loses_its_job_to_others(self, app: Stanchion, process: subprocess.Popen[str]) -> None:
        orders = app.queue("orders")
        assert app.maintain().recovered == 0
        assert orders.reserve() == []
        process.kill()
        wait_until(lambda: app.maintain().recovered == 1)
        (job,) = orders.reserve(wait=60)
        assert job.attempt == 2
        job.commit()
        wait_until(lambda: (app.maintain(), not app.workers())[1])

    def test_a_suspended_one_is_refused_afterwards(self, app: Stanchion, process: subprocess.Popen[str]) -> None:
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: app.maintain().recovered == 1)
        with app.queue("orders").reserve(wait=60)[0]:
            process.send_signal(signal.SIGCONT)
            _, error = process.communicate("go\n", timeout=60)
        assert process.returncode == 1
        assert LeaseLost.__name__ in error
        assert app.queue("orders").counts().committed == 1

    def test_a_live_one_finishes_it(self, app: Stanchion, process: subprocess.Popen[str]) -> None:
        time.sleep(1.0)  # five heartbeats
        assert app.maintain().recovered == 0
        process.communicate("go\n", timeout=60)
        assert process.returncode == 0
        assert app.queue("orders").counts().committed == 1
        assert app.workers() == []


def test_a_forked_process_makes_its_own(app: Stanchion) -> None:
    with app.consumer("billing", heartbeat=1000) as consumer:
        parent, child = multiprocessing.Pipe()
        if (pid := os.fork()) == 0:
            try:
                app.queue("orders").reserve(holder=consumer)
            except InvalidInput as error:
                child.send(str(error))
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        assert parent.poll(60)
        assert "forked process" in parent.recv()
        assert app.workers()[0].id == consumer.id


def test_a_forked_process_may_leave_the_block(app: Stanchion) -> None:
    parent, child = multiprocessing.Pipe()
    try:
        with app.consumer("billing", heartbeat=1000) as consumer:
            pid = os.fork()
        if pid == 0:
            child.send("left")
    finally:
        if pid == 0:
            os._exit(0)
    os.waitpid(pid, 0)
    assert parent.poll(60)
    assert (parent.recv(), heart_of(consumer).ended) == ("left", True)

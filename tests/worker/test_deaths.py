"""Jobs that kill their worker, and the jobs beside them."""

import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from stanchion import JobState, Stanchion
from stanchion.stores.records.claims import Claim
from tests.worker.conftest import ended, until, working

JOBS = """
import os, signal, sys, time
from stanchion import Job, Retry, Stanchion

app = Stanchion("sqlite:///jobs.db?synchronous=off")

def begun(job):
    with open("begun", "a") as file:
        file.write(f"{job.id}\\n")

@app.task(name="fatal", retry=Retry.constant(0.1))
def fatal(job: Job):
    begun(job)
    os.kill(os.getpid(), signal.SIGKILL)

@app.task(name="healthy", max_attempts=3, retry=Retry.constant(0.1, max_attempts=3))
def healthy(job: Job, seconds: float):
    begun(job)
    time.sleep(seconds)

@app.task(name="quick", max_attempts=1, retry=Retry.constant(0.1, max_attempts=1))
def quick(job: Job):
    begun(job)
    time.sleep(0.001)

@app.task(name="lasting", max_attempts=1, retry=Retry.constant(0.1, max_attempts=1))
def lasting(job: Job):
    begun(job)
    time.sleep(600)

if __name__ == "__main__":
    from stanchion.context import steadiness
    steadiness.RETURN = 0.5
    app.run(heartbeat=float(sys.argv[1]), until_finished=True)
"""


class Workers:
    """Worker processes in a folder, one after the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "jobs.py").write_text(textwrap.dedent(JOBS))
        self.app = Stanchion(f"sqlite:///{folder}/jobs.db?synchronous=off")

    def start(self, heartbeat: float = 0.2) -> subprocess.Popen[bytes]:
        command = [sys.executable, "jobs.py", str(heartbeat)]
        return subprocess.Popen(command, cwd=self._folder, stderr=subprocess.DEVNULL)

    def begun(self) -> list[str]:
        """The jobs whose function was entered, once for each time."""
        file = self._folder / "begun"
        return file.read_text().split() if file.exists() else []


@pytest.fixture
def workers(tmp_path) -> Workers:
    return Workers(tmp_path)


@pytest.mark.slow
@pytest.mark.nightly
def test_the_culprit_alone_ends_dead(workers):
    healthy = [workers.app.enqueue("healthy", 0.05, max_attempts=3) for _ in range(20)]
    fatal = workers.app.enqueue("fatal")
    healthy += [workers.app.enqueue("healthy", 0.05, max_attempts=3) for _ in range(20)]
    deaths = 0
    while workers.start().wait(600) == -signal.SIGKILL:
        deaths += 1
        assert deaths <= 5
    assert fatal.state is JobState.DEAD
    assert {handle.state for handle in healthy} == {JobState.DONE}
    assert deaths == workers.begun().count(fatal.id) == 5


@pytest.mark.slow
def test_prefetched_jobs_with_a_single_attempt_survive(workers):
    quick = [workers.app.enqueue("quick", max_attempts=1) for _ in range(300)]
    blocking = [workers.app.enqueue("lasting", max_attempts=1) for _ in range(8)]
    last = [workers.app.enqueue("quick", max_attempts=1) for _ in range(300)]
    worker = workers.start(heartbeat=2)  # beats that come in time on a busy machine too: it is to die of the kill alone
    until(lambda: len(workers.begun()) == 308, 600)
    until(lambda: sum(len(row.began or ()) for row in workers.app.workers()) == 8)
    assert workers.app.queue("default").size().running > 8
    worker.kill()
    worker.wait()
    worker = workers.start()
    assert worker.wait(600) == 0
    assert {handle.state for handle in blocking} == {JobState.DEAD}
    assert {handle.state for handle in quick + last} == {JobState.DONE}
    assert max(map(workers.begun().count, {handle.id for handle in quick + last})) == 1


def lost_twice(app: Stanchion, task: str) -> str:
    """Enqueue a job that has lost its lease twice, and is due."""
    handle = app.enqueue(task)
    for number in range(2):
        (row,) = app.store.claim(Claim("default", 1, f"lost {number}", lease=10.0)).rows
        assert row.id == handle.id
        app.store.clock_offset += 11
        app.store.recover()
        app.store.clock_offset += 1000
    return handle.id


def test_a_job_that_lost_two_leases_has_no_company(app):
    running: list[str] = []
    seen: list[list[str]] = []
    lock, hold = threading.Lock(), threading.Event()

    def work(name: str) -> None:
        with lock:
            running.append(name)
            seen.append(list(running))
        if name == "first":
            hold.wait(30)
        with lock:
            running.remove(name)

    app.task(name="first")(lambda: work("first"))
    app.task(name="alone")(lambda: work("alone"))
    app.task(name="other")(lambda: work("other"))
    lone = lost_twice(app, "alone")
    first = app.enqueue("first", priority=1)
    others = [app.enqueue("other") for _ in range(3)]
    with working(app):
        until(lambda: seen == [["first"]])
        states = [JobState.RUNNING] + [JobState.READY] * 3
        until(lambda: [app.get(one).state for one in (lone, *(other.id for other in others))] == states)
        hold.set()
        for handle in (first, *others):
            ended(app, handle.id)
    assert ended(app, lone).state is JobState.DONE
    assert ["alone"] in seen
    assert all("alone" not in names or names == ["alone"] for names in seen)


def test_a_job_that_waits_to_run_alone_goes_back_when_the_worker_stops(app):
    hold = threading.Event()
    app.task(name="first")(lambda: hold.wait(30))
    app.task(name="alone")(lambda: None)
    lone = lost_twice(app, "alone")
    app.enqueue("first", priority=1)
    with working(app):
        until(lambda: app.get(lone).state is JobState.RUNNING)
    job = app.get(lone)
    hold.set()
    assert (job.state, job.attempts) == (JobState.READY, 2)


def test_the_start_of_a_lone_job_is_stored_before_it_begins(app):
    told: list[bool] = []

    def alone() -> None:
        (worker,) = app.workers()
        told.append(any(lone in start for start in worker.began))

    app.task(name="alone")(alone)
    lone = lost_twice(app, "alone")
    with working(app):
        ended(app, lone)
    assert told == [True]

"""Workers as processes: alone, supervised, killed, stuck, orphaned."""

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stanchion import Stanchion
from stanchion.service.settings import WorkerSettings
from tests.worker.conftest import until

JOBS = """
import os, time
from pathlib import Path
from stanchion import Stanchion

app = Stanchion("sqlite:///jobs.db?synchronous=off")

@app.task(name="pid")
def pid():
    time.sleep(0.02)
    return os.getpid()

@app.task(name="sleep")
def sleep(seconds):
    Path("begun").touch()
    time.sleep(seconds)
    return seconds

@app.task(name="stuck", timeout=0.2)
def stuck():
    Path("stuck").touch()
    time.sleep(60)
"""

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def app(tmp_path) -> Stanchion:
    (tmp_path / "jobs.py").write_text(textwrap.dedent(JOBS))
    return Stanchion(f"sqlite:///{tmp_path}/jobs.db?synchronous=off")


@pytest.fixture
def start(tmp_path) -> Iterator[Start]:
    started = []

    def start(processes: int = 1, **settings: Any) -> subprocess.Popen[bytes]:
        given = replace(WorkerSettings("jobs:app", heartbeat=0.5, grace=5.0), **settings)
        code = (
            f"import sys; from stanchion.service.process import *; sys.exit(run_worker_process({given!r}, {processes}))"
        )
        with (tmp_path / "log").open("ab") as log:
            started.append(subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stderr=log))
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()


def pids(app: Stanchion) -> list[int]:
    return sorted(row.pid for row in app.workers() if row.state == "running")


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_one_process_until_empty(app, start):
    for _ in range(20):
        app.enqueue("pid")
    assert start(until_empty=True).wait(90) == 0
    assert app.queue("default").counts().committed == 20
    assert app.workers() == []


@pytest.mark.slow
def test_several_processes_stop_together(app, start, tmp_path):
    supervisor = start(2, health_file=str(tmp_path / "health"))
    until(lambda: len(pids(app)) == 2, 90)
    until(lambda: (tmp_path / "health").read_text().startswith("ok"))
    seen: set[int] = set()
    while seen != set(pids(app)):
        seen |= {handle.result(timeout=90) for handle in [app.enqueue("pid") for _ in range(60)]}
    last = app.enqueue("sleep", 0.5)
    until((tmp_path / "begun").exists, 90)  # a job that is only reserved goes back
    supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait(90) == 0
    assert last.state == "done"
    assert app.workers() == []


@pytest.mark.slow
def test_a_process_that_dies_is_replaced(app, start):
    start(2)
    first = until(lambda: len(pids(app)) == 2 and pids(app), 90)
    os.kill(first[0], signal.SIGKILL)
    until(lambda: len(set(pids(app)) - set(first)) == 1, 90)
    assert app.enqueue("sleep", 0).result(timeout=90) == 0


@pytest.mark.nightly
def test_a_process_with_a_stuck_thread_is_replaced(app, start, tmp_path):
    start(threads=2)
    stuck = app.enqueue("stuck")
    until((tmp_path / "stuck").exists, 90)
    before = app.workers()[0].id
    until(lambda: stuck.job().failures == 1, 90)
    until(lambda: [row.id for row in app.workers()] not in ([before], []), 90)
    assert app.enqueue("sleep", 0).result(timeout=90) == 0
    assert "TaskTimeout" in stuck.job().errors[-1]["error"]
    assert "restarting this process" in (tmp_path / "log").read_text()


@pytest.mark.slow
def test_processes_without_a_supervisor_stop(app, start):
    supervisor = start(2)
    orphans = until(lambda: len(pids(app)) == 2 and pids(app), 90)
    supervisor.kill()
    supervisor.wait()
    until(lambda: all(gone(pid) for pid in orphans), 90)
    assert app.workers() == []


@pytest.mark.usefixtures("app")
def test_what_cannot_work_ends_at_once(start, tmp_path):
    assert start(2, target="no_such_module:app").wait(90) == 2
    assert "no_such_module" in (tmp_path / "log").read_text()


@pytest.mark.parametrize("processes", [1, 2])
def test_until_empty_ends_on_tables_of_a_newer_release(app, start, tmp_path, processes):
    """This process can never see whether the queues are empty."""
    app.setup()
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection, connection:
        connection.execute("UPDATE stanchion_meta SET version = 99")
    assert start(processes, until_empty=True).wait(90) != 0
    assert "upgrade this process" in (tmp_path / "log").read_text()

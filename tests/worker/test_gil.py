"""Tasks that hold the GIL, so that no thread of their process runs, for longer than three heartbeats."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stanchion import JobState, Stanchion
from stanchion.core import boot_clock
from stanchion.service.settings import WorkerSettings
from stanchion.service.stand_in import StandIn, stands_still
from stanchion.stores.records.workers import WorkerRow
from stanchion.worker.process.pulse import PulseWriter, pulse_in
from tests.worker.conftest import until, working

JOBS = """
import ctypes, sqlite3, time
from stanchion import Stanchion

app = Stanchion("sqlite:///jobs.db?synchronous=off")

def begun(name):
    with open(name, "a") as file:
        file.write("x")

@app.task(name="hold")
def hold(seconds):
    begun("held")
    if len(open("held").read()) == 1:
        ctypes.PyDLL(None).sleep(seconds)  # a call that keeps the GIL

@app.task(name="hold_amid_a_transaction")
def hold_amid_a_transaction(seconds):
    other = sqlite3.connect("jobs.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")  # as a heartbeat may have done when the lock was taken
    hold(seconds)

@app.task(name="neighbour")
def neighbour(seconds):
    begun("beside")
    time.sleep(seconds)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "jobs.py").write_text(textwrap.dedent(JOBS))
    return tmp_path


@pytest.fixture
def app(folder, monkeypatch) -> Iterator[Stanchion]:
    """The app of the test's own worker, which takes over what it can."""
    monkeypatch.chdir(folder)
    app = Stanchion(f"sqlite:///{folder}/jobs.db?synchronous=off")
    app.setup()
    monkeypatch.setattr("stanchion.context.steadiness.RETURN", 1.0)

    @app.task(name="hold")
    def hold(_seconds: float) -> None:
        with (folder / "held").open("a") as file:
            file.write("o")

    app.task(name="hold_amid_a_transaction")(hold.function)

    @app.task(name="neighbour")
    def neighbour(_seconds: float) -> None:
        with (folder / "beside").open("a") as file:
            file.write("o")

    yield app
    app.close()


def start(folder: Path, processes: int, **settings: Any) -> subprocess.Popen[bytes]:
    given = WorkerSettings("jobs:app", **{"heartbeat": 2.0, "grace": 1.0, **settings})
    code = f"import sys; from stanchion.service.process import *; sys.exit(run_worker_process({given!r}, {processes}))"
    return subprocess.Popen([sys.executable, "-c", code], cwd=folder)


def marks(folder: Path, name: str) -> str:
    file = folder / name
    return file.read_text() if file.exists() else ""


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_its_jobs_and_their_neighbours_run_once(app, folder, processes):
    process = start(folder, processes, threads=4)
    try:
        until(lambda: len(app.workers()) == processes)
        beside = app.enqueue("neighbour", 20.0)
        until(lambda: marks(folder, "beside"))
        held = app.enqueue("hold", 15)
        until(lambda: marks(folder, "held"))
        with working(app, heartbeat=2.0):
            until(lambda: held.state is JobState.DONE and beside.state is JobState.DONE)
        assert (marks(folder, "held"), marks(folder, "beside")) == ("x", "x")
        assert [app.get(handle.id).attempts for handle in (held, beside)] == [1, 1]
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("task", ["hold", "hold_amid_a_transaction"])
def test_jobs_that_are_out_of_time_go_to_others(app, folder, task):
    process = start(folder, 1, stall=1.0)
    try:
        held = app.enqueue(task, 600)
        until(lambda: marks(folder, "held") == "x")
        with working(app, heartbeat=2.0):
            until(lambda: held.state is JobState.DONE)
        assert marks(folder, "held") == "xo"
        assert process.wait(120) == -signal.SIGKILL
    finally:
        process.kill()
        process.wait()


class Beats:
    """A store that notes for which workers heartbeats come."""

    def __init__(self) -> None:
        self.of: list[str] = []

    def workers(self) -> list[WorkerRow]:
        return [WorkerRow(name, "h", 1, ("q",), 1, 10.0) for name in ("w1", "w2")]

    def beat(self, rows: list[WorkerRow]) -> None:
        self.of += [row.id for row in rows]


def looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, silent: float, process: int, timeout: float) -> list[str]:
    """Return for which workers a stand-in beats after so many seconds of silence."""
    file, store = tmp_path / "pulse", Beats()
    writer = PulseWriter(file, unlimited=300.0)
    writer.start("w1", lambda _: None)
    writer.begins(timeout)
    writer._stopping.set()
    monkeypatch.setattr("stanchion.service.stand_in.boot_clock", lambda: boot_clock.boot_clock() + silent)
    stand_in: Any = StandIn(list, 10.0, lambda: store)  # type: ignore[arg-type, return-value]
    stand_in._look(process, file)
    return store.of


def test_it_beats_for_a_process_whose_threads_are_silent(tmp_path, monkeypatch):
    assert looks(tmp_path, monkeypatch, silent=11.0, process=os.getpid(), timeout=60.0) == ["w1"]


def test_it_does_not_beat_while_the_threads_run(tmp_path, monkeypatch):
    assert looks(tmp_path, monkeypatch, silent=5.0, process=os.getpid(), timeout=60.0) == []


def test_it_does_not_beat_beyond_the_time_out(tmp_path, monkeypatch):
    assert looks(tmp_path, monkeypatch, silent=61.0, process=os.getpid(), timeout=60.0) == []


def test_it_kills_only_what_stays_silent_beyond_its_time(tmp_path, monkeypatch):
    """After a sleep of the machine the pulse of a healthy process is old for a moment."""
    file, now = tmp_path / "pulse", [0.0]
    sleeper = subprocess.Popen(["sleep", "600"])
    writer = PulseWriter(file, unlimited=300.0)
    writer.begins(60.0)
    monkeypatch.setattr("stanchion.service.stand_in.boot_clock", lambda: boot_clock.boot_clock() + 3600.0)
    monkeypatch.setattr("stanchion.service.stand_in.time.monotonic", lambda: now[0])
    stand_in = StandIn(list, 10.0, Beats)  # type: ignore[arg-type]
    try:
        for now[0] in (0.0, 29.0):
            stand_in._look(sleeper.pid, file)
            with pytest.raises(subprocess.TimeoutExpired):
                sleeper.wait(1)
        now[0] = 30.0
        stand_in._look(sleeper.pid, file)
        assert sleeper.wait(60) == -signal.SIGKILL
    finally:
        sleeper.kill()
        sleeper.wait()


def test_it_does_not_beat_for_a_process_that_is_stopped_or_gone(tmp_path, monkeypatch):
    sleeper = subprocess.Popen(["sleep", "600"])
    try:
        assert not stands_still(sleeper.pid)
        sleeper.send_signal(signal.SIGSTOP)
        until(lambda: stands_still(sleeper.pid))
        assert looks(tmp_path, monkeypatch, silent=11.0, process=sleeper.pid, timeout=60.0) == []
    finally:
        sleeper.kill()
        sleeper.wait()
    assert stands_still(sleeper.pid)


def test_a_job_that_has_just_begun_counts(tmp_path):
    file = tmp_path / "pulse"
    writer = PulseWriter(file, unlimited=300.0)
    writer.begins(60.0)
    pulse = pulse_in(file)
    assert pulse is not None
    assert 50.0 < pulse.until - pulse.at <= 60.0
    writer.begins(None)
    pulse = pulse_in(file)
    assert pulse is not None
    assert pulse.until - pulse.at > 290.0

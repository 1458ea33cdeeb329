"""Workers whose output nobody reads: pipes that stay full."""

import io
import json
import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from stanchion import JobState, Stanchion
from stanchion.service.logs import JsonLines, TextLines, UnblockedHandler
from stanchion.service.settings import WorkerSettings
from tests.telemetry.scrape import get
from tests.worker.conftest import until

JOBS = """
import logging, sys, time, warnings
from stanchion import Stanchion

app = Stanchion("sqlite:///jobs.db?synchronous=off")

@app.task(name="fails", max_attempts=1)
def fails():
    raise ValueError("no")

@app.task(name="warns")
def warns():
    warnings.warn("beware " * 1000)

@app.task(name="prints")
def prints():
    print("x" * 100_000)

@app.task(name="says")
def says():
    print("done")  # stays in the buffer of stdout until the process ends

@app.task(name="quick")
def quick():
    pass
"""

OWN_HANDLER = """
handler = logging.StreamHandler(sys.stderr)
# Other lines, such as a warning at the start, would block before the first end is stored.
handler.addFilter(lambda line: line.name == "stanchion.jobs" or " stops; " in line.msg)
logging.getLogger().handlers = [handler]
"""

EXIT_SECONDS = 120.0


class Pipe:
    """A pipe that nobody reads."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()

    def fill(self) -> None:
        """Let each further write wait."""
        os.set_blocking(self.writer, False)
        try:
            while os.write(self.writer, b"x" * 4096):
                pass
        except BlockingIOError:
            pass
        try:
            while os.write(self.writer, b"x"):
                pass
        except BlockingIOError:
            os.set_blocking(self.writer, True)

    def close(self) -> None:
        os.close(self.reader)
        os.close(self.writer)


Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "jobs.py").write_text(textwrap.dedent(JOBS))
    return tmp_path


@pytest.fixture
def app(folder) -> Iterator[Stanchion]:
    app = Stanchion(f"sqlite:///{folder}/jobs.db?synchronous=off")
    app.setup()
    yield app
    app.close()


@pytest.fixture
def start(folder) -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []
    pipe = Pipe()
    pipe.fill()

    def start(processes: int = 1, stdout: Any = None, **settings: Any) -> subprocess.Popen[bytes]:
        given = WorkerSettings("jobs:app", **{"heartbeat": 1.0, "grace": 1.0, **settings})
        code = (
            f"import sys; from stanchion.service.process import *; sys.exit(run_worker_process({given!r}, {processes}))"
        )
        command = [sys.executable, "-c", code]
        buffered = {**os.environ, "PYTHONUNBUFFERED": ""}  # else each print waits for the reader
        process = subprocess.Popen(command, cwd=folder, env=buffered, stderr=pipe.writer, stdout=stdout or pipe.writer)
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()
    pipe.close()


def health(folder) -> str:
    file = folder / "health"
    return file.read_text() if file.exists() else ""


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_its_log_is_not_read(app, folder, start, processes):
    failing = [app.enqueue("fails", max_attempts=1) for _ in range(60)]
    warning = app.enqueue("warns")
    process = start(processes, stdout=subprocess.DEVNULL, log_level="DEBUG", health_file=str(folder / "health"))
    until(lambda: {handle.state for handle in failing} == {JobState.DEAD})
    until(lambda: warning.state is JobState.DONE)
    until(lambda: health(folder).startswith("ok"))
    process.send_signal(signal.SIGTERM)
    assert process.wait(EXIT_SECONDS) == 0
    assert app.workers() == []


def test_its_stdout_is_not_read(app, start):
    stuck = app.enqueue("prints")
    process = start()
    until(lambda: stuck.state is JobState.RUNNING)
    quick = app.enqueue("quick")
    until(lambda: quick.state is JobState.DONE)
    process.send_signal(signal.SIGTERM)
    assert process.wait(EXIT_SECONDS) == 0
    assert stuck.state is JobState.READY
    assert app.get(stuck.id).attempts == 0


def test_its_stdout_is_not_read_at_its_end(app, start):
    said = app.enqueue("says")
    process = start()
    until(lambda: said.state is JobState.DONE)
    process.send_signal(signal.SIGTERM)
    assert process.wait(EXIT_SECONDS) == 0


def test_a_handler_of_the_app_blocks(app, folder, start):
    """The jobs of a worker whose own log calls block are not stored; its health says so, and it can be stopped."""
    with (folder / "jobs.py").open("a") as file:
        file.write(OWN_HANDLER)
    first = app.enqueue("quick")
    process = start(stdout=subprocess.DEVNULL, health_file=str(folder / "health"))
    until(lambda: first.state is JobState.DONE)
    later = app.enqueue("quick")
    until(lambda: "outcomes wait" in health(folder))
    assert health(folder).startswith("red")
    assert later.state is JobState.RUNNING
    process.send_signal(signal.SIGTERM)
    assert process.wait(EXIT_SECONDS) == 0


@pytest.mark.parametrize("served", ["web", "manager"])
def test_nobody_reads_the_log_of_a_server(app, served):
    pipe = Pipe()
    command = [sys.executable, "-c", "from stanchion.ops.cli import main; main()", served, "--url", app.url, "--json"]
    options = ["--log-level", "debug", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=pipe.writer)
    try:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        pipe.fill()
        for _ in range(20):
            if served == "web":
                assert get(urlsplit(url).port or 0, "/queues")[0] == 200
            else:
                client = Stanchion(url)
                client.enqueue("quick")
                client.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(EXIT_SECONDS) == 0
    finally:
        process.kill()
        process.communicate()
        pipe.close()


class Slow(io.StringIO):
    """A stream whose writes wait until it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.free, self.asked = threading.Event(), threading.Event()
        self.lines: list[str] = []

    def write(self, text: str) -> int:
        self.asked.set()
        self.free.wait()
        self.lines += text.splitlines()
        return len(text)


@pytest.mark.parametrize("form", [TextLines, JsonLines])
def test_lines_that_are_not_read_are_dropped_and_counted(form):
    stream = Slow()
    handler = UnblockedHandler(stream, waiting_max=1000)
    handler.setFormatter(form())
    log = logging.Logger("test")
    log.addHandler(handler)
    log.info("first")
    assert stream.asked.wait(60)
    for number in range(1000):
        log.info("line %d", number)
    stream.free.set()
    until(lambda: len(stream.lines) > 2)
    handler.flush()
    log.info("last")
    handler.flush()
    texts = [json.loads(line)["message"] if form is JsonLines else line for line in stream.lines]
    told = next(number for number, text in enumerate(texts) if "lines of the log were dropped" in text)
    dropped = int(texts[told].partition(" lines of the log")[0].rpartition(" ")[2])
    assert dropped == 1000 - (len(texts) - 3)
    assert texts[-1].endswith("last")
    assert dropped > 900

"""The shops of docs/servers.md under real servers: SIGTERM ends them well, and loses no job."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from stanchion import JobState, Stanchion
from tests.docs.pages import ROOT, blocks
from tests.servers.process import free_port

pytestmark = pytest.mark.nightly

PATIENCE = 60.0

SLOW = """

@app.task(name="pack", queue="mail")
def pack(order: int) -> None:
    import time

    time.sleep(2)
"""
"""A task that is still running when the signal comes, appended to the page's jobs."""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with the files of the page."""
    for block in blocks(ROOT / "docs" / "servers.md"):
        if block.file is not None:
            path = tmp_path / block.file
            path.parent.mkdir(exist_ok=True)
            path.write_text(block.text)
    jobs = tmp_path / "shop" / "jobs.py"
    jobs.write_text(jobs.read_text() + SLOW)
    return tmp_path


@pytest.fixture
def app(shop: Path) -> Iterator[Stanchion]:
    """An app on the database of the shop."""
    with closing(Stanchion(f"sqlite:///{shop}/shop.db")) as app:
        app.setup()
        yield app


@contextmanager
def serving(shop: Path, *command: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run a server in the folder of the shop, until it answers."""
    port = free_port()
    environment = {**os.environ, "PYTHONPATH": f"{shop}:{ROOT / 'src'}"}
    command = (sys.executable, "-m", *(part.replace("PORT", str(port)) for part in command))
    with (shop / "log").open("wb") as log:
        server = subprocess.Popen(command, cwd=shop, env=environment, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + PATIENCE
        while True:
            with closing(socket.socket()) as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert server.poll() is None, (shop / "log").read_text()
            assert time.monotonic() < deadline, (shop / "log").read_text()
            time.sleep(0.05)
        yield server, port
    finally:
        server.kill()
        server.wait()


def ordered(port: int, order: int) -> str:
    """Place an order; return the id of its job."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/orders/{order}", method="POST")
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310
        assert answer.status == 201
        job: str = json.load(answer)["job"]
        return job


def ended(server: subprocess.Popen[bytes], shop: Path) -> None:
    """Send SIGTERM, and see that the server ends by itself, without an error."""
    server.send_signal(signal.SIGTERM)
    code = server.wait(PATIENCE)
    log = (shop / "log").read_text()
    assert code in (0, -signal.SIGTERM), log  # uvicorn ends by the signal once all is closed
    assert "Traceback" not in log, log


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("uvicorn", "shop.asgi:web", "--port", "PORT"), id="uvicorn"),
        pytest.param(("gunicorn", "shop.wsgi:web", "--bind", "127.0.0.1:PORT", "--workers", "2"), id="gunicorn"),
    ],
)
def test_a_server_that_only_enqueues(command: tuple[str, ...], shop: Path, app: Stanchion) -> None:
    if command[0] == "gunicorn":
        pytest.importorskip("gunicorn")
    with serving(shop, *command) as (server, port):
        placed = [ordered(port, order) for order in range(5)]
        ended(server, shop)
    jobs = app.queue("mail").find(state="ready")
    assert sorted(job.id for job in jobs) == sorted(placed)


def test_a_worker_inside_ends_its_job_and_leaves_the_others(shop: Path, app: Stanchion) -> None:
    with serving(shop, "uvicorn", "shop.all_in_one:web", "--port", "PORT") as (server, port):
        first = ordered(port, 1)
        deadline = time.monotonic() + PATIENCE
        while (done := app.get(first)) is None or done.state is not JobState.DONE:
            assert time.monotonic() < deadline, done
            time.sleep(0.05)
        slow = [app.enqueue("pack", order, queue="mail") for order in (2, 3)]
        while len(app.queue("mail").find(state="running")) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        waiting = app.enqueue("pack", 4, queue="mail")
        ended(server, shop)
    assert [handle.state for handle in slow] == [JobState.DONE] * 2
    left = waiting.job()
    assert (left.state, left.attempts) in ((JobState.READY, 0), (JobState.DONE, 1))
    assert app.workers() == []

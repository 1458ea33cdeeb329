"""Probes and metrics of worker and manager processes."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable

import pytest

from stanchion import Stanchion
from tests.cli.conftest import Run
from tests.cli.test_manager import started
from tests.telemetry.scrape import families, get, probe, value
from tests.worker.conftest import until

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def answers(port: int, path: str) -> bool:
    try:
        return get(port, path)[0] == 200
    except OSError:
        return False


def test_of_several_processes_are_added_up(start: Start, app: Stanchion, shop: str, port: int) -> None:
    for number in range(20):
        app.enqueue("welcome", number, queue="mail")
    options = "--processes", "2", "--threads", "3", "--health-port", str(port), "--store-metrics"
    start("worker", shop, *options)
    until(lambda: answers(port, "/readyz"))
    until(lambda: value(port, "stanchion_job_attempts_total", task="welcome", outcome="done") == 20)
    until(lambda: value(port, "stanchion_worker_slots") == 6)
    assert value(port, "stanchion_worker_healthy") == 1
    assert value(port, "stanchion_queue_jobs", queue="mail", state="ready") is not None
    assert probe(port, "/livez") == (200, None)


def test_of_a_manager(start: Start, port: int) -> None:
    _, said = started(start, "--health-port", str(port), "--store-metrics")
    client = Stanchion(said["url"])
    client.queue("orders").push({"id": 1})
    (job,) = client.queue("orders").reserve(wait=30)
    job.commit()
    client.close()
    assert [probe(port, path) for path in ("/livez", "/readyz", "/")] == [(200, None)] * 3
    assert value(port, "stanchion_manager_serving") == 1
    assert value(port, "stanchion_queue_events_total", queue="orders", event="committed") == 1
    assert {"stanchion_manager_receivers", "stanchion_manager_lag_seconds"} <= set(families(port))


def test_need_a_port(run: Run, shop: str) -> None:
    for args in (["worker", shop, "--metrics"], ["manager", "--store-metrics"]):
        assert "--health-port" in run(*args).error


def test_without_the_library_they_say_what_brings_it(run: Run, shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    refused = run("worker", shop, "--metrics", "--health-port", "0")
    assert refused.code == 1
    assert "pip install 'stanchion[metrics]'" in refused.error

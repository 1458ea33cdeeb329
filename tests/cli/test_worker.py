import json
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from stanchion import JobState, Stanchion
from tests.cli.conftest import Answer, Run

Start = Callable[..., subprocess.Popen[str]]


def wait_until(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def ended(process: subprocess.Popen[str]) -> Answer:
    out, err = process.communicate(timeout=60)
    return Answer(process.returncode, out, err)


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["1", "2"])
def test_until_empty(process: Run, app: Stanchion, shop: str, processes: str) -> None:
    for user in range(20):
        app.enqueue("welcome", user, queue="mail")
    app.enqueue("charge", 1, queue="orders")
    assert process("worker", shop, "--until-empty", "--processes", processes).code == 0
    assert app.queue("mail").counts().committed == 20
    assert app.workers() == []


def test_named_queues_only(process: Run, app: Stanchion, shop: str) -> None:
    app.enqueue("welcome", 1, queue="mail")
    app.enqueue("charge", 1, queue="orders", max_attempts=1)
    assert process("worker", "--app", shop, "--until-empty", "--queues", "orders,other").code == 0
    assert app.queue("mail").size().ready == 1
    assert app.find(state="dead")[0].errors[0]["error"] == "ValueError: no money for 1"


@pytest.mark.slow
def test_is_seen_and_stops_on_a_signal(start: Start, run: Run, app: Stanchion, shop: str, tmp_path: Path) -> None:
    health = tmp_path / "health"
    given = "--threads", "3", "--health-file", str(health), "--heartbeat", "1s", "--name", "billing"
    worker = start("worker", shop, *given)
    wait_until(lambda: bool(app.workers()) and health.exists() and health.read_text().startswith("ok"))
    (seen,) = run("workers", "--json").json
    assert seen.keys() == {
        *("id", "host", "pid", "queues", "threads", "heartbeat", "state", "started_at", "last_seen_at"),
        *("running", "late", "lanes", "order"),
    }
    assert (seen["pid"], seen["threads"], seen["queues"], seen["late"]) == (worker.pid, 3, ["mail", "orders"], False)
    assert seen["id"].startswith(f"billing-{worker.pid}-")
    assert run("workers").out.splitlines()[1].split()[1:4] == ["running", "0", "3"]
    handle = app.enqueue("welcome", 7, queue="mail")
    assert handle.result(timeout=60) == "en 7"
    worker.send_signal(signal.SIGTERM)
    assert ended(worker).code == 0
    assert run("workers").code == 1


def test_health_port(start: Start, app: Stanchion, shop: str) -> None:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    start("worker", shop, "--health-port", str(port))
    wait_until(lambda: bool(app.workers()))
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
        assert json.load(answer)["status"] == "ok"


def test_health_host(start: Start, app: Stanchion, shop: str) -> None:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.2", 0))
        port = probe.getsockname()[1]
    start("worker", shop, "--health-port", str(port), "--health-host", "127.0.0.2")
    wait_until(lambda: bool(app.workers()))
    with urllib.request.urlopen(f"http://127.0.0.2:{port}/", timeout=5) as answer:
        assert json.load(answer)["status"] == "ok"


@pytest.mark.slow
def test_url_is_for_an_app_that_names_none(process: Run, app: Stanchion, shop: str, tmp_path: Path, url: str) -> None:
    app.enqueue("welcome", 1, queue="mail")
    assert process("worker", shop, "--until-empty", "--url", url, STANCHION_URL="").code == 0
    assert app.find()[0].state is JobState.DONE
    (tmp_path / "own.py").write_text("from stanchion import Stanchion\napp = Stanchion('sqlite:///own.db')\n")
    refused = process("worker", "own:app", "--url", url)
    assert refused.code == 2
    assert "names its own store" in refused.error


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "which app?"),
        (["shop:empty"], "has no tasks"),
        (["shop:nothing"], "is not a Stanchion app"),
        (["nowhere:app"], "can't import 'nowhere'"),
        (["shop:app", "--threads", "0"], "threads must be"),
        (["shop:app", "--health-port", "0", "--health-host", "203.0.113.7"], "health can't be served"),
        (["shop:app", "--processes", "0"], "processes must be"),
        (["shop:app", "--grace", "long"], "--grace must be"),
        (["shop:app", "--heartbeat", "0"], "heartbeat must be"),
        (["shop:app", "--log-level", "loud"], "--log-level"),
    ],
)
def test_bad_input_is_refused(run: Run, args: list[str], message: str) -> None:
    answer = run("worker", *args)
    assert answer.code == 2
    assert message in answer.error


def test_workers_lists_who_else_holds_jobs(run: Run, app: Stanchion) -> None:
    app.queue("mail").push_many(range(5))
    app.queue("mail").reserve(2, holder="billing: 4711")
    with app.consumer("reports", heartbeat=1000) as consumer:
        (job,) = app.queue("mail").reserve(holder=consumer)
        consumer.beat()
        seen, holder = run("workers", "--json").json
        lines = run("workers").out.splitlines()
    assert (seen["id"], seen["state"], seen["running"], seen["late"]) == (consumer.id, "consumer", 1, False)
    assert holder["id"] == "billing: 4711"
    assert (holder["state"], holder["running"], holder["queues"], holder["late"]) == ("holder", 2, ["mail"], False)
    assert [holder[name] for name in ("heartbeat", "host", "pid", "threads")] == [None] * 4
    assert lines[1].split()[1:3] == ["consumer", "1"]
    assert lines[2].split()[:4] == ["billing:", "4711", "holder", "2"]
    assert run("show", job.id, "--json").json["worker"] == consumer.id
    assert f"worker       {consumer.id}" in run("show", job.id).out
    assert {one["worker"] for one in run("jobs", "--json").json} == {None, "billing: 4711", consumer.id}


def test_no_workers_is_nothing_found(run: Run) -> None:
    run("setup")
    answer = run("workers")
    assert answer.code == 1
    assert "stanchion worker module:app" in answer.err

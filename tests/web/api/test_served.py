"""The API over HTTP: clients that hang up, servers that stop, names as they are on the wire."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uvicorn

from stanchion import Stanchion
from stanchion.context import context_of
from stanchion.ops.web.api.routes import outcomes
from stanchion.ops.web.asgi import site_app
from stanchion.ops.web.site import Site
from stanchion.queues.queue import Queue
from stanchion.stores.registry import open_store
from tests.web.conftest import Served, site_of


@pytest.fixture
def served_empty() -> Iterator[Served]:
    app = Stanchion(store=open_store("memory://"))
    site = site_of(app)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        free.listen()
        server = uvicorn.Server(uvicorn.Config(site_app(site), log_config=None, timeout_graceful_shutdown=5))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [free]}, daemon=True)
        thread.start()
        yield Served(app, site, f"127.0.0.1:{free.getsockname()[1]}")
        server.should_exit = True
        thread.join(20)
    site.close()
    app.close()


def ask(served: Served, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(served.url, timeout=60)
    headers = {"Content-Type": "application/json"} if body is not None else {}
    connection.request(method, f"/api/v1{path}", None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read())
    connection.close()
    return found


def wait_until(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def waiting(site: Site) -> int:
    """Return the number of requests that wait for jobs in the coordinator."""
    return sum(len(poll) for poll in context_of(site.app).waits._polls.values())


def test_who_hangs_up_gets_no_job(served_empty: Served) -> None:
    connection = http.client.HTTPConnection(served_empty.url, timeout=60)
    connection.request(
        "POST", "/api/v1/queues/mail/reserve", json.dumps({"wait": 20}), {"Content-Type": "application/json"}
    )
    wait_until(lambda: waiting(served_empty.site) == 1)
    connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()
    wait_until(lambda: waiting(served_empty.site) == 0)
    job = served_empty.app.queue("mail").push("kept")
    status, found = ask(served_empty, "POST", "/queues/mail/reserve", {"wait": 20})
    assert (status, [one["id"] for one in found["jobs"]]) == (200, [job.id])
    assert found["jobs"][0]["attempts"] == 1


def test_a_wait_ends_as_the_client_hangs_up(served_empty: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    began, ended = threading.Event(), threading.Event()

    async def endless(*_: Any, **__: Any) -> Any:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.set()
            raise

    monkeypatch.setattr(Queue, "areserve", endless)
    connection = http.client.HTTPConnection(served_empty.url, timeout=60)
    connection.request("POST", "/api/v1/queues/mail/reserve")
    assert began.wait(60)
    connection.sock.shutdown(socket.SHUT_RDWR)
    assert ended.wait(60)
    connection.close()


def test_a_job_that_comes_as_the_client_hangs_up_goes_back(
    served_empty: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, came = Queue.areserve, asyncio.Event()

    async def reserving(self: Queue, *args: Any, **options: Any) -> Any:
        jobs = await original(self, *args, **options)
        came.set()  # the client hangs up in the same round of the loop
        return jobs

    async def gone(_: Any) -> None:
        await came.wait()

    monkeypatch.setattr(Queue, "areserve", reserving)
    monkeypatch.setattr(outcomes, "_disconnected", gone)
    job = served_empty.app.queue("mail").push(1)
    status, found = ask(served_empty, "POST", "/queues/mail/reserve", {})
    assert (status, found["jobs"]) == (200, [])
    now = served_empty.app.get(job.id)
    assert now is not None
    assert (str(now.state), now.attempts) == ("ready", 0)


def test_a_server_that_stops_ends_the_waits(served_empty: Served) -> None:
    found: list[Any] = []
    asking = threading.Thread(
        target=lambda: found.append(ask(served_empty, "POST", "/queues/mail/reserve", {"wait": 20}))
    )
    asking.start()
    wait_until(lambda: waiting(served_empty.site) == 1)
    served_empty.site.closed = True
    asking.join(60)
    assert found[0][1]["jobs"] == []
    wait_until(lambda: waiting(served_empty.site) == 0)


def test_waits_take_no_thread_and_are_bounded(served_empty: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes, "WAITING_MAX", 60)
    connections = []
    for _ in range(60):  # more than there are threads
        connection = http.client.HTTPConnection(served_empty.url, timeout=60)
        connection.request(
            "POST", "/api/v1/queues/mail/reserve", json.dumps({"wait": 20}), {"Content-Type": "application/json"}
        )
        connections.append(connection)
    wait_until(lambda: waiting(served_empty.site) == 60)
    status, problem = ask(served_empty, "POST", "/queues/mail/reserve", {"wait": 1})
    assert (status, problem["code"]) == (503, "busy")
    status, _ = ask(served_empty, "POST", "/queues/mail/jobs", {"jobs": [{"payload": n} for n in range(60)]})
    assert status == 201
    ids = [json.loads(one.getresponse().read())["jobs"][0]["id"] for one in connections]
    assert len(set(ids)) == 60
    for one in connections:
        one.close()


@pytest.mark.parametrize(("wire", "name"), [("..", ".."), ("%2E%2E", ".."), ("a%2Fb", "a/b"), ("%252F", "%2F")])
def test_names_on_the_wire(served_empty: Served, wire: str, name: str) -> None:
    status, _ = ask(served_empty, "POST", f"/queues/{wire}/jobs", {"jobs": [{"payload": 1}]})
    assert status == 201
    assert ask(served_empty, "GET", f"/queues/{wire}")[1]["queue"]["name"] == name

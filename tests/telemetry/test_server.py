"""The port of probes."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from urllib.request import Request, urlopen

import pytest

from stanchion import InvalidInput
from stanchion.telemetry.prometheus import exposed, new_registry
from stanchion.telemetry.server import Answer, ProbeServer, probes
from tests.telemetry.scrape import get, probe

TROUBLE: dict[str, str | None] = {"alive": None, "ready": None}


def failing(_accept: str) -> Answer:
    raise ValueError("a secret")


@pytest.fixture
def port() -> Iterator[int]:
    TROUBLE.update(alive=None, ready=None)
    routes = probes(lambda: TROUBLE["alive"], lambda: TROUBLE["ready"])
    server = ProbeServer({**routes, "/fails": failing}, "127.0.0.1", 0)
    server.start()
    yield server.port
    server.stop()


def test_liveness_does_not_depend_on_readiness(port: int) -> None:
    assert [probe(port, path) for path in ("/livez", "/healthz", "/readyz")] == [(200, None)] * 3
    TROUBLE["ready"] = "the store is away"
    assert [probe(port, path) for path in ("/livez", "/healthz", "/readyz?verbose")] == [
        (200, None),
        (200, None),
        (503, "the store is away"),
    ]
    TROUBLE.update(alive="frozen", ready=None)
    assert [probe(port, path)[0] for path in ("/livez", "/healthz", "/readyz")] == [503, 503, 200]


def test_other_paths(port: int) -> None:
    status, body = get(port, "/metric")
    assert status == 404
    assert "/livez" in body


def test_a_route_that_fails_says_no_more_than_that(port: int) -> None:
    assert get(port, "/fails") == (500, "ValueError\n")


def test_metrics_come_in_the_format_that_is_accepted() -> None:
    server = ProbeServer({"/metrics": exposed(new_registry())}, "127.0.0.1", 0)
    server.start()
    told = {}
    for accept in ("application/openmetrics-text; version=1.0.0,text/plain;q=0.5", "text/plain", "*/*"):
        request = Request(f"http://127.0.0.1:{server.port}/metrics", headers={"Accept": accept})
        with urlopen(request) as answer:  # noqa: S310
            told[accept[:10]] = answer.headers["Content-Type"].partition(";")[0], answer.read().endswith(b"# EOF\n")
    server.stop()
    text = ("text/plain", False)
    assert told == {"applicatio": ("application/openmetrics-text", True), "text/plain": text, "*/*": text}


def test_a_client_that_has_gone_prints_nothing(port: int, capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"GET /livez HTTP/1.1\r\n\r\nGET /livez HTTP/1.1\r\n\r\n")
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert get(port, "/livez")[0] == 200
    assert capfd.readouterr().err == ""


def test_a_port_that_is_taken(port: int) -> None:
    with pytest.raises(InvalidInput, match="health can't be served"):
        ProbeServer({}, "127.0.0.1", port)

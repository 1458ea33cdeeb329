"""The port of probes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stanchion import InvalidInput
from stanchion.telemetry.server import Answer, ProbeServer, probes
from tests.telemetry.scrape import get, probe

TROUBLE: dict[str, str | None] = {"alive": None, "ready": None}


def failing() -> Answer:
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


def test_a_port_that_is_taken(port: int) -> None:
    with pytest.raises(InvalidInput, match="health can't be served"):
        ProbeServer({}, "127.0.0.1", port)

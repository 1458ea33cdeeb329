"""Methods of addresses, names with slashes, help with a 401, and clients that go in the middle of a request."""

from __future__ import annotations

import json
import logging
import socket
import struct
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from stanchion import Stanchion
from stanchion.ops.web.api.asgi import OPERATIONS
from stanchion.ops.web.repeats import EVERY, OncePerMinute
from stanchion.ops.web.site import Site
from stanchion.stores.registry import open_store
from tests.cli.test_worker import wait_until
from tests.web.conftest import Browser, site_of
from tests.web.seed import shop
from tests.web.serve import served
from tests.web.test_serving import running

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        *((path, "POST") for path in ("/logout", "/on-it", "/theme", "/keys", "/bulk/x/stop")),
        ("/jobs/0198c6be-0000-7000-8000-000000000000/reveal", "POST"),
        *((path, "GET, HEAD") for path in ("/queues", "/queues/mail", "/jobs/x", "/audit.csv", "/static/page.css")),
        *((path, "GET, HEAD, POST") for path in ("/pause/mail", "/login", "/bulk", "/jobs/x/retry", "/semaphores/x")),
    ],
)
def test_a_page_tells_its_methods(browser: Browser, path: str, allowed: str) -> None:
    refused = [method for method in METHODS if method not in allowed]
    assert refused
    for method in refused:
        answer = browser.request(method, path)
        assert (answer.status_code, answer.headers["allow"]) == (405, allowed), method
        assert allowed in answer.text


def test_the_api_tells_the_methods_of_each_address(browser: Browser) -> None:
    offered: dict[str, set[str]] = {}
    for one in OPERATIONS:
        offered.setdefault(one.shown_path, set()).add(one.method)
    for path, methods in offered.items():
        allowed = ", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set())))
        for method in {*METHODS} - methods:
            answer = browser.request(method, "/api/v1" + path.replace("{", "").replace("}", ""))
            assert (answer.status_code, answer.headers["allow"]) == (405, allowed), (method, path)


def test_an_encoded_slash_is_part_of_a_name(browser: Browser, app: Stanchion) -> None:
    for queue in ("x", "x/pause", "50% off/now", "a/b"):
        app.queue(queue).push({})

    def paused() -> set[str]:
        return {one.name for one in app.store.queues() if one.paused} - before

    before = {one.name for one in app.store.queues() if one.paused}
    assert browser.post("/api/v1/queues/x%2Fpause", json={"note": "no"}).status_code == 405
    assert paused() == set()
    assert browser.post("/api/v1/queues/x%2Fpause/pause", json={"note": "yes"}).status_code == 200
    assert browser.post("/api/v1/queues/50%25%20off%2fnow/pause", json={"note": "yes"}).status_code == 200
    assert browser.post("/api/v1/queues/a/b/pause", json={"note": "yes"}).status_code == 200
    assert paused() == {"x/pause", "50% off/now", "a/b"}
    assert browser.get("/api/v1/queues/x%2Fpause").json()["queue"]["name"] == "x/pause"


def test_an_encoded_slash_is_part_of_a_name_below_a_root(site: Site, app: Stanchion) -> None:
    app.queue("x/pause").push({})
    for before in ("", "/jobs"):
        below = Browser(site, root="/jobs")
        assert below.get(f"{before}/api/v1/queues/x%2Fpause").json()["queue"]["name"] == "x/pause"


def test_the_help_of_a_401_takes_no_token(guarded: Site) -> None:
    stranger = Browser(guarded, client="10.9.8.7")
    for headers in ({}, {"Authorization": "Bearer unknown"}):
        problem = stranger.get("/api/v1/queues", headers=headers)
        assert problem.status_code == 401
        help_ = stranger.get(problem.json()["type"], headers=headers)
        assert help_.status_code == 200
        assert "Authorization: Bearer TOKEN" in help_.json()["detail"]
    assert stranger.get("/api/v1/problems").status_code == 200


def _killed(url: str, request: bytes, *, answered: bool = False) -> None:
    """Send a part of a request, and reset the connection as the end of a process does."""
    with socket.create_connection((urlsplit(url).hostname, urlsplit(url).port)) as client:
        client.sendall(request)
        if answered:
            client.recv(1000)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


FORM = b"Host: 127.0.0.1\r\nContent-Length: 1000\r\nContent-Type: application/x-www-form-urlencoded\r\n\r\na=b"


def test_a_client_that_is_killed_leaves_no_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    app = shop(open_store("memory://"))
    site = site_of(app)
    with served(site) as url:
        for path in (b"/pause/mail", b"/logout", b"/api/v1/queues/mail/pause"):
            _killed(url, b"POST " + path + b" HTTP/1.1\r\n" + FORM)
        _killed(url, b"GET /events?topics=verdict HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", answered=True)
        _killed(url, b"GET /audit.csv HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        wait_until(lambda: caplog.text.count("a client has gone") == 2)
        site.end_streams()
    app.close()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_a_client_that_sends_nonsense_leaves_one_line(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    Stanchion(url).setup()
    with running("--url", url, "--listen", "127.0.0.1:0", "--json") as process:
        assert process.stdout is not None
        page = json.loads(process.stdout.readline())["url"]
        for number in range(100):
            nonsense = b"\x16\x03\x01\x02\x00%d" % number if number % 2 else b"GET / HTTP/1.1\r\nHost: \0\r\n\r\n"
            _killed(page, nonsense, answered=True)
            _killed(page, b"POST /pause/mail HTTP/1.1\r\n" + FORM)
        process.terminate()
        _, log = process.communicate(timeout=60)
    lines = log.splitlines()
    assert [line for line in lines if "INFO" not in line] == [line for line in lines if "Invalid HTTP request" in line]
    assert sum("Invalid HTTP request" in line for line in lines) == 1


def test_a_line_that_repeats_is_counted() -> None:
    now = 0.0
    passes = OncePerMinute(lambda: now)

    def logged(level: int, text: str) -> str | None:
        record = logging.LogRecord("uvicorn.error", level, "", 0, text, (), None)
        return record.getMessage() if passes.filter(record) else None

    assert [logged(logging.WARNING, "no") for _ in range(4)] == ["no", None, None, None]
    assert logged(logging.WARNING, "other") == "other"
    assert [logged(logging.ERROR, "fault") for _ in range(2)] == ["fault", "fault"]
    now = EVERY
    assert logged(logging.WARNING, "no") == "no (3 more like it before)"
    assert logged(logging.WARNING, "no") is None


@pytest.mark.parametrize("accept", ["application/openmetrics-text; version=1.0.0", "", "text/plain;version=0.0.4"])
def test_metrics_come_in_the_format_that_is_accepted(browser: Browser, accept: str) -> None:
    answer = browser.get("/metrics", headers={"Accept": accept})
    wanted = "openmetrics" in accept
    assert answer.headers["content-type"].startswith("application/openmetrics-text" if wanted else "text/plain")
    assert answer.text.endswith("# EOF\n") == wanted
    if wanted:
        names = {family.name for family in text_string_to_metric_families(answer.text)}
        assert {"stanchion_store_up", "stanchion_web_renders"} <= names

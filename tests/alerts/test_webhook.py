"""Posts of changes to a server that fails at times."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Literal

import pytest

from stanchion import InvalidInput
from stanchion.alerts.changes import Change
from stanchion.alerts.webhook import LONGEST_PAUSE, Webhook
from tests.alerts.test_changes import A, B


class Receiver:
    """A server that answers with these codes, then with 200; it keeps what it gets."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.got: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver.headers.append(dict(self.headers))
                receiver.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(receiver.answers.pop(0) if receiver.answers else 200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    thread = threading.Thread(target=receiver.server.serve_forever, daemon=True)
    thread.start()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def change(status: Literal["firing", "resolved"] = "firing", alert: Any = A) -> Change:
    return Change(status, alert, None)


def test_a_change_is_posted_once(receiver: Receiver) -> None:
    hook = Webhook(receiver.url, "sqlite:///jobs.db", "secret")
    hook.add([change()])
    assert [hook.deliver(), hook.deliver()] == [1, 0]
    (body,) = receiver.got
    assert (body["status"], body["source"], body["alert"]["subject"]) == ("firing", "sqlite:///jobs.db", "mail")
    assert receiver.headers[0]["Authorization"] == "Bearer secret"


def test_it_is_tried_again_after_growing_pauses(receiver: Receiver) -> None:
    clock = Clock()
    hook = Webhook(receiver.url, "", clock=clock)
    receiver.answers = [503, 429]
    hook.add([change()])
    assert [hook.deliver(), hook.deliver(), len(receiver.got)] == [0, 0, 1]  # too soon
    clock.now = 1.0
    assert [hook.deliver(), hook.deliver(), len(receiver.got)] == [0, 0, 2]
    clock.now = 3.0
    assert [hook.deliver(), hook.waiting, len(receiver.got)] == [1, 0, 3]
    assert len({body["id"] for body in receiver.got}) == 1


def test_the_order_stays_behind_a_failure(receiver: Receiver) -> None:
    clock = Clock()
    hook = Webhook(receiver.url, "", clock=clock)
    receiver.answers = [500]
    hook.add([change(), change(alert=B)])
    hook.deliver()
    clock.now = LONGEST_PAUSE
    assert hook.deliver() == 2
    assert [body["alert"]["subject"] for body in receiver.got] == ["mail", "mail", "post"]


def test_what_is_refused_for_good_is_dropped(receiver: Receiver) -> None:
    hook = Webhook(receiver.url, "")
    receiver.answers = [404]
    hook.add([change(), change(alert=B)])
    assert (hook.deliver(), hook.waiting, len(receiver.got)) == (2, 0, 2)


def test_what_ended_before_it_was_told_is_not_told(receiver: Receiver) -> None:
    clock = Clock()
    hook = Webhook(receiver.url, "", clock=clock)
    receiver.answers = [500]
    hook.add([change()])
    hook.deliver()
    hook.add([change("resolved")])
    clock.now = LONGEST_PAUSE
    assert (hook.deliver(), len(receiver.got)) == (0, 1)


def test_of_one_alert_the_newest_change_counts(receiver: Receiver) -> None:
    hook = Webhook(receiver.url, "")
    hook.add([change(), change(alert=replace(A, level="now"))])
    hook.deliver()
    hook.add([change("resolved")])
    hook.deliver()
    assert [(body["status"], body["alert"]["level"]) for body in receiver.got] == [
        ("firing", "now"),
        ("resolved", "soon"),
    ]


def test_nobody_listens() -> None:
    clock = Clock()
    hook = Webhook("http://127.0.0.1:1/", "", clock=clock)
    hook.add([change()])
    assert (hook.deliver(), hook.waiting) == (0, 1)


@pytest.mark.parametrize("url", ["ftp://example.org", "example.org", "file:///etc/passwd", "http://"])
def test_other_addresses(url: str) -> None:
    with pytest.raises(InvalidInput, match="http"):
        Webhook(url, "")

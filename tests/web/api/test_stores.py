"""Text that databases are strict about, by the API, on each of them: none of it is a fault."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stanchion import Stanchion
from tests.web.api.conftest import Client
from tests.web.conftest import site_of
from tests.web.stores import KINDS, store_of

ODD = ("a\0b", "\ud800", "\udc00\ud800", "😀" * 50, "\u202e", "\uffff", "'; drop table jobs; --", "%_\\", "")


class Sender:
    """Sends what `json=` of a client refuses, such as lone surrogates; nothing may be a fault."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def post(self, path: str, body: Any) -> Any:
        headers = {"Content-Type": "application/json"}
        answer = self.client.post(path, content=json.dumps(body), headers=headers)
        assert answer.status_code < 500, (path, body, answer.text)
        return answer


@pytest.mark.nightly_except("sqlite")
@pytest.mark.parametrize("kind", KINDS)
def test_odd_text_is_no_fault(kind: str, request: pytest.FixtureRequest, tmp_path: Any) -> None:
    with store_of(kind, request, tmp_path) as store:
        app = Stanchion(store=store)
        site = site_of(app)
        client = Client(site)
        sender = Sender(client)
        for text in ODD[:3] if kind in ("sqlite", "manager") else ODD:
            push_everywhere(sender, text)
            finish_everywhere(sender, text)
            if text.isprintable() or text == "a\0b":
                for query in ({"text": text}, {"task": text}, {"queue": text}, {"since": text}, {"after": text}):
                    assert client.get("jobs", params=query).status_code in (200, 400, 422), query
        for page in ("jobs", "queues", "errors", "audit", "workers", "alerts", "monitor"):
            answer = client.get(page)
            assert answer.status_code == 200, (page, answer.text)
        for job in app.find(limit=100):
            client.asks("getJob", f"jobs/{job.id}")
        site.close()
        app.close()


def push_everywhere(sender: Sender, text: str) -> None:
    path = "queues/mail/jobs"
    sender.post(path, {"jobs": [{"payload": {text: text}, "headers": {text: text}}]})
    sender.post(path, {"jobs": [{"payload": 1}] * 7})
    for field in ("task", "tenant", "key", "order_key", "rate_key", "run_at", "on_duplicate"):
        sender.post(path, {"jobs": [{"payload": 1, field: text}]})
    sender.post("queues/mail/pause", {"note": text})
    sender.post("queues/mail/resume", {"note": text})
    sender.post("alerts/on-it", {"key": text})
    sender.post("bulk?dry_run=true", {"act": "retry", "where": {"text": text}})
    sender.post("bulk?dry_run=true", {"act": "retry", "ids": [text]})


def finish_everywhere(sender: Sender, text: str) -> None:
    sender.post("queues/mail/reserve", {"holder": text})
    bodies = (
        ("commit", {"result": text}),
        ("rollback", {"error": text, "delay": 0}),
        ("rollback", {"payload": text, "delay": 0}),
        ("bury", {"reason": text}),
        ("abandon", {"reason": text}),
        ("move", {"queue": text or "x"}),
    )
    for act, body in bodies:
        jobs = sender.post("queues/mail/reserve", {}).json()["jobs"]
        for job in jobs:
            sender.post(f"jobs/{job['id']}/{act}", {"token": text or "x", **body})
            answer = sender.post(f"jobs/{job['id']}/{act}", {"token": job["token"], **body})
            if answer.status_code == 422:
                sender.post(f"jobs/{job['id']}/release", {"token": job["token"]})

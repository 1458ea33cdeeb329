"""Queues with the longest names have all that others have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from stanchion import Stanchion
from stanchion.alerts.alerts import store_limits
from stanchion.context import context_of
from stanchion.errors import InvalidInput
from stanchion.ops.web.live import sampler
from stanchion.stores.registry import open_store
from stanchion.telemetry.rollups import ALL, past, take
from tests.web.conftest import Browser

LONG = "ö" * 199 + "x"


@pytest.fixture
def app() -> Iterator[Stanchion]:
    app = Stanchion(store=open_store("memory://"))
    app.setup()
    app.queue(LONG).push_many([{}] * 3)
    app.queue("mail").push({})
    store_limits(context_of(app), {"no_worker": 1e-6})
    yield app
    app.close()


def test_pages_and_the_api_answer(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "SHORTEST", 1e6)
    name = quote(LONG, safe="")
    for path in ("/", f"/queues/{name}", f"/queues/{name}?span=2d", f"/jobs?queue={name}", "/queues"):
        assert browser.get(path).status_code == 200, path
    for path in (f"/api/v1/queues/{name}", f"/api/v1/samples?queue={name}", "/api/v1/alerts", "/api/v1/monitor"):
        assert browser.get(path).status_code == 200, path


def test_someone_can_be_on_it(browser: Browser) -> None:
    keys = [one["key"] for one in browser.get("/api/v1/alerts").json()["items"]]
    assert len(keys) == 2
    for key in keys:
        assert browser.post("/api/v1/alerts/on-it", json={"key": key}).status_code == 200
        assert browser.submit("/on-it", key=key).status_code == 303
    assert [one["on_it"]["who"] for one in browser.get("/api/v1/alerts").json()["items"]] == ["local", "local"]


def test_a_key_that_is_refused_is_not_in_the_audit_log(browser: Browser) -> None:
    assert browser.submit("/on-it", key="queue:" + LONG).status_code == 400
    assert "on it" not in browser.get("/audit").text


def test_a_point_that_is_refused_ends_no_other(app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
    write = app.store.compare_and_set

    def refusing(kind: str, name: str, *rest: Any) -> bool:
        if kind == "rollup" and name.startswith("ö"):
            raise InvalidInput("no")
        return write(kind, name, *rest)

    monkeypatch.setattr(app.store, "compare_and_set", refusing)
    assert take(app.store)
    found = past(app.store, [LONG, "mail", ALL], 1, app.store.now())
    assert [len(points) for points in found.values()] == [0, 1, 1]

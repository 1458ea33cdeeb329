"""Managers on the page."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from stanchion import Stanchion
from stanchion.ops.reads.wings.managers import ManagerFigures, manager_figures
from stanchion.ops.web.pages.managers import headline
from stanchion.stores.ports import BehindManagers
from stanchion.stores.records.managers import ManagerStatus, QueueFigures, ReceiverFigures
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.registry import open_store
from tests.web.conftest import Browser, site_of
from tests.web.seed_parts import managers


@pytest.fixture
def app() -> Iterator[Stanchion]:
    app = Stanchion(store=open_store("memory://"))
    yield app
    app.close()


def status(**changes: Any) -> ManagerStatus:
    """Return what the living manager of the seed says, with changes."""
    queue = QueueFigures("mail", 1, 80, 0.0, 4, 90, 50, 2, 1, 0, 25)
    receiver = ReceiverFigures("r", "w", 8, 4, connected=True, silent=0.1, slow=False)
    usual = ManagerStatus("manager-1:7117 <b>", "s1", False, True, 30, 0, 0, (queue,), (receiver,))
    return usual._replace(**changes)


def figures(app: Stanchion, *said: ManagerStatus) -> list[ManagerFigures]:
    return manager_figures(app.store, said, app.store.now(), 5.0)


def test_the_store_tells_who_lives_and_owns_what(app: Stanchion) -> None:
    managers(app)
    site = site_of(app)
    text = Browser(site).get("/managers").text
    assert "<h1>1 manager is alive, 1 is gone</h1>" in text
    assert "manager-1:7117 &lt;b&gt;" in text
    assert "To see their activity, start this page with their address" in text
    site.close()
    gone, alive = sorted(figures(app), key=lambda one: one.state != "gone")
    assert (gone.address, gone.queues) == ("manager-2:7117", ())
    assert [(one.queue, one.slices) for one in alive.queues] == [("mail", 1), ("orders", 2)]


def test_without_any_there_is_a_hint(app: Stanchion) -> None:
    site = site_of(app)
    assert "No manager serves this store." in Browser(site).get("/managers").text
    site.close()


def test_what_they_say_is_shown(app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
    managers(app)
    site = site_of(app)
    asked = SimpleNamespace(manager_status=lambda: [status()])
    monkeypatch.setattr(app.store, "extension", {BehindManagers: asked}.get)
    text = Browser(site).get("/managers").text
    assert "0.500" in text
    assert "To see their activity" not in text
    site.close()


@pytest.mark.parametrize(
    ("said", "state", "title"),
    [
        (status(), "alive", "1 manager is alive, 1 is gone"),
        (ManagerStatus("manager-1:7117 <b>"), "silent", "manager-1:7117 <b> does not answer"),
        (status(store_answers=False), "store silent", "manager-1:7117 <b> has lost its store"),
        (status(draining=True), "ending", "1 manager is alive, 1 is gone"),
        (
            status(queues=(QueueFigures("mail", 1, 80, 7.0, 0, 0, 0, 0, 0, 0, 0),)),
            "late",
            "manager-1:7117 <b> is 7 s behind",
        ),
        (
            status(queues=(QueueFigures("mail", 1, 80, 7.0, 0, 0, 0, 0, 0, 0, 0),), receivers=()),
            "alive",
            "1 manager is alive, 1 is gone",
        ),
    ],
)
def test_those_in_trouble_come_first(app: Stanchion, said: ManagerStatus, state: str, title: str) -> None:
    managers(app)
    app.store.beat([WorkerRow("w", "host", 1, ("mail",), 8, 10.0)])
    found = figures(app, said)
    assert len(found) == 2
    assert next(one.state for one in found if one.address == said.address) == state
    assert headline(found) == title
    assert found[0].troubled == (state in ("silent", "store silent", "late"))


def test_the_sentence_counts_those_that_are_gone(app: Stanchion) -> None:
    managers(app)
    alive, gone = sorted(figures(app), key=lambda one: one.state)
    said = {
        "No manager": [],
        "The manager is alive": [alive],
        "The manager is gone": [gone],
        "All 2 managers are alive": [alive, alive],
        "All 2 managers are gone": [gone, gone],
        "2 managers are alive, 1 is gone": [gone, alive, alive],
        "1 manager is alive, 2 are gone": [gone, gone, alive],
    }
    assert {headline(found): found for found in said.values()} == said


def test_one_that_has_no_session_is_listed_too(app: Stanchion) -> None:
    (found,) = figures(app, status(session="other"))
    assert (found.until, found.state) == (None, "alive")

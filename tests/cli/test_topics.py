import json

import pytest

from stanchion import Stanchion
from stanchion.topics import directory
from tests.cli.conftest import Run


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each push reads the subscriptions."""
    monkeypatch.setattr(directory, "CACHE_SECONDS", -1.0)
    monkeypatch.setattr(directory, "UNDER_WAY", 0.0)


def test_lists_subscribers_with_their_lag(run: Run, app: Stanchion) -> None:
    orders = app.topic("orders")
    orders.subscribe("audit")
    orders.subscribe("stock", queue="warehouse", filter={"payload.n": {">": 1}}, priority=20)
    orders.push_many([{"n": 1}, {"n": 2}])
    app.queue("warehouse").reserve()
    heading, audit, stock = run("topics").out.splitlines()
    assert heading.split() == ["TOPIC", "SUBSCRIPTION", "QUEUE", "TASK", "FILTER", "LAG", "RUNNING", "AGE"]
    assert audit.split()[:5] == ["orders", "audit", "orders.audit", "2", "0"]
    assert stock.split()[:3] == ["orders", "stock", "warehouse"]
    listed = run("topics", "--json").json
    assert listed[1] == {
        "topic": "orders",
        "name": "stock",
        "queue": "warehouse",
        "task": None,
        "filter": {"payload.n": {">": 1}},
        "options": {"priority": 20},
        "lag": {"jobs": 1, "ready": 0, "running": 1, "age": 0.0},
    }


def test_none_is_nothing_found(run: Run) -> None:
    run("setup")
    assert run("topics").code == 1
    assert run("topics", "--json").json == []


def test_subscribes_and_unsubscribes(run: Run, app: Stanchion) -> None:
    run("setup")
    wanted = json.dumps({"payload.n": 1})
    answer = run("topics", "subscribe", "orders", "audit", "--queue", "q", "--filter", wanted, "--json")
    assert (answer.json["queue"], answer.json["filter"]) == ("q", {"payload.n": {"=": 1}})
    app.topic("orders").push_many([{"n": 1}, {"n": 2}])
    assert run("topics", "subscribe", "orders", "late", "--since", "1h").code == 0
    assert app.queue("orders.late").size().total == 1
    assert run("topics", "catch-up", "orders", "late", "--json").json["events"] == 1
    assert run("topics", "catch-up", "orders", "late", "--since", "all").out == "orders: 1 past events for late\n"
    assert run("topics", "unsubscribe", "orders", "audit", "--delete").code == 0
    assert app.queue("q").size().total == 0
    assert [one.name for one in app.topic("orders").subscriptions()] == ["late"]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (["subscribe", "orders", "audit", "--filter", "{"], "--filter is not JSON"),
        (["subscribe", "orders", "audit", "--filter", '{"x": 1}'], "payload.FIELD"),
        (["subscribe", "orders", "audit", "--since", "yesterday"], "--since must be"),
        (["unsubscribe", "orders", "audit"], "no subscription 'audit'"),
        (["catch-up", "orders", "audit"], "no subscription 'audit'"),
    ],
)
def test_wrong_ones_are_refused(run: Run, wrong: list[str], why: str) -> None:
    run("setup")
    answer = run("topics", *wrong)
    assert answer.code != 0
    assert why in answer.out + answer.err

"""Subscriptions that change while several processes push."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable

import pytest

from stanchion import Stanchion, Topic
from stanchion.errors import InvalidInput
from stanchion.topics import directory
from stanchion.topics.terms import KIND
from stanchion_conformance.harness import NewStore, all_at_once, in_threads, payloads, sizes_of
from stanchion_conformance.topics.topics import all_of

PUSHERS = 4
Patch = pytest.MonkeyPatch


@pytest.fixture
def apps(app: Stanchion, new_store: NewStore, monkeypatch: Patch) -> list[Stanchion]:
    """Apps of four processes, which cache the subscriptions."""
    monkeypatch.setattr(directory, "CACHE_SECONDS", 0.1)
    app.topic("busy").subscribe("always")
    return [app, *(Stanchion(store=new_store()) for _ in range(PUSHERS - 1))]


def while_they_push(apps: list[Stanchion], change: Callable[[Callable[[], None]], None]) -> None:
    """Push numbered events from all apps, and change something meanwhile; it may wait for further events of each."""
    stop, pushed = threading.Event(), [0] * len(apps)
    progress = threading.Condition()

    def push(number: int) -> None:
        topic = apps[number].topic("busy")
        while not stop.is_set():
            topic.push([number, pushed[number]])
            with progress:
                pushed[number] += 1
                progress.notify_all()

    def further() -> None:
        with progress:
            wanted = [count + 5 for count in pushed]
            assert progress.wait_for(lambda: all(map(int.__ge__, pushed, wanted)), 60)

    with in_threads([lambda n=n: push(n) for n in range(len(apps))]):  # type: ignore[misc]
        try:
            further()
            change(further)
        finally:
            stop.set()


def got(app: Stanchion, queue: str) -> list[list[int]]:
    """Return for each pusher the numbers of its events in a queue."""
    events = payloads(app.queue(queue).find(limit=100_000))
    return [sorted(count for pusher, count in events if pusher == number) for number in range(PUSHERS)]


class TestSubscriptionsMeanwhile:
    def test_begin_for_each_process_at_one_event(self, apps: list[Stanchion]) -> None:
        def change(further: Callable[[], None]) -> None:
            apps[0].topic("busy").subscribe("late")
            further()
            apps[0].topic("busy")._directory.wait_until_known()
            further()

        while_they_push(apps, change)
        for late, always in zip(got(apps[0], "busy.late"), got(apps[0], "busy.always"), strict=True):
            assert always == [*range(len(always))]
            assert late
            assert late == always[-len(late) :]

    def test_begin_with_all_events(self, apps: list[Stanchion]) -> None:
        def change(further: Callable[[], None]) -> None:
            apps[1].topic("busy").subscribe("late", since="all")
            further()

        while_they_push(apps, change)
        apps[0].topic("busy").catch_up("late")  # of pushes that took longer than subscriptions are cached
        assert got(apps[0], "busy.late") == got(apps[0], "busy.always")

    def test_end_for_good(self, topic: Topic, app: Stanchion, new_store: NewStore, monkeypatch: Patch) -> None:
        monkeypatch.setattr(directory, "CACHE_SECONDS", 3600.0)
        other = Stanchion(store=new_store()).topic("sales")
        other.push("it caches the subscriptions")
        monkeypatch.setattr(directory.TopicDirectory, "wait_until_known", lambda _: other.push("meanwhile"))
        assert topic.unsubscribe("stock", delete=True)
        assert "warehouse" not in {settings.name for settings in app.queues()}
        assert payloads(all_of(app, "sales.audit"))[-1] == "meanwhile"

    def test_of_many_subscribers_at_once(self, apps: list[Stanchion]) -> None:
        def subscribe(number: int) -> None:
            for n in range(10):
                apps[number].topic("busy").subscribe(f"{number}.{n}")

        all_at_once([lambda n=n: subscribe(n) for n in range(PUSHERS)])  # type: ignore[misc]
        assert len(apps[0].topic("busy").subscriptions()) == 41
        assert len(apps[0].topic("busy").push(1).jobs) == 41


class TestTermsThatHarmNobody:
    def test_a_filter_of_another_release(self, topic: Topic, app: Stanchion) -> None:
        (value,) = app.store.values(KIND, ["sales"])
        terms = json.loads(value.text)
        terms["subscriptions"]["audit"]["filter"] = {"payload": {"like": "a%"}}
        assert app.store.compare_and_set(KIND, "sales", json.dumps(terms), value.version)
        with pytest.raises(InvalidInput, match="'like', which this release does not know"):
            topic.push("abc")
        assert sizes_of(app.store, "warehouse").total == 0

    def test_an_unknown_semaphore(self, topic: Topic, app: Stanchion) -> None:
        with pytest.raises(InvalidInput, match="no semaphore 'none'"):
            topic.subscribe("third", limits=["none"])

        @topic.subscriber("fourth", limits=["none"])
        @app.task(name="fourth")
        def fourth(_: object) -> None: ...

        with pytest.raises(InvalidInput, match="no semaphore 'none'"):
            app.drain()
        assert len(Stanchion(store=app.store).topic("sales").push(1).jobs) == 2

    def test_filters_that_are_too_long(self, topic: Topic, monkeypatch: Patch) -> None:
        monkeypatch.setattr(directory, "MOST_CHARACTERS", 1000)
        with pytest.raises(InvalidInput, match="shorten their filters"):
            topic.subscribe("third", filter={"payload.x": "y" * 1000})
        assert Counter(topic.push(1).jobs.keys()) == Counter(["audit", "stock"])

    def test_more_subscribers_than_there_may_be(self, topic: Topic, monkeypatch: Patch) -> None:
        monkeypatch.setattr(directory, "MOST_SUBSCRIPTIONS", 2)
        topic.subscribe("audit", filter={"payload": 1})
        with pytest.raises(InvalidInput, match="limit"):
            topic.subscribe("third")

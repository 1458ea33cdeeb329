"""Subscribers that come late: from now on, or with events of the past."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stanchion import Push, Stanchion, Topic
from stanchion.core.ids import beside, new_id
from stanchion.errors import InvalidInput, StanchionError
from stanchion.stores.protocol import Store
from stanchion.topics import directory
from stanchion.topics import topic as topics
from stanchion_conformance.harness import StoreClock, payloads, sizes_of
from stanchion_conformance.jobs.encryption import new_key
from stanchion_conformance.topics.topics import all_of

MILLISECOND = len("019a0000-0000")
"""Characters of an id that are its time."""


class TestLateSubscribers:
    def test_get_events_of_the_past(self, topic: Topic, app: Stanchion) -> None:
        first, _, third = topic.push_many([1, 2, Push(3, tenant="acme", order_key="o", headers={"a": 1}, priority=7)])
        app.queue("warehouse").pop()
        for job in app.queue("sales.audit").reserve(2):
            job.commit()
        topic.subscribe("late", since="all")
        assert payloads(all_of(app, "sales.late")) == [1, 2, 3]
        last = all_of(app, "sales.late")[-1]
        assert (last.tenant, last.order_key, last.priority) == ("acme", "o", 7)
        assert last.headers == {"a": 1, "x-event": third.id, "x-topic": "sales"}
        assert [job.payload for job in app.queue("sales.late").reserve(3)] == [3, 1, 2]
        assert first.id in {job.headers["x-event"] for job in all_of(app, "sales.late")}

    def test_get_each_event_once(self, topic: Topic, app: Stanchion) -> None:
        topic.push_many(range(5))
        assert topic.catch_up("audit") == 5  # of the other one; it has them all
        topic.subscribe("late")
        topic.push(5)
        for _ in range(2):
            assert topic.catch_up("late") == 6
        for job in app.queue("sales.late").reserve(3):
            job.commit()
        topic.catch_up("late")
        assert payloads(all_of(app, "sales.late")) == [0, 1, 2, 3, 4, 5]
        assert sizes_of(app.store, "sales.late").total == 3

    def test_get_past_events_before_later_ones(
        self, topic: Topic, app: Stanchion, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patched:  # a client whose clock is wrong
            patched.setattr(topics, "new_id", lambda: beside(new_id(), 3_600_000 << 74))
            topic.push("past")
        topic.subscribe("late")
        topic.push("new")
        topic.catch_up("late")
        topic.unsubscribe("audit")
        topic.unsubscribe("stock")
        topic.subscribe("later", since="all")
        for queue in ("sales.late", "sales.later"):
            assert [job.payload for job in app.queue(queue).reserve(2)] == ["past", "new"]

    def test_since_a_time(self, topic: Topic, app: Stanchion, clock: StoreClock) -> None:
        topic.push("long ago")
        clock.advance(3600)
        topic.push("lately")
        topic.subscribe("late", since=timedelta(minutes=30))
        assert payloads(all_of(app, "sales.late")) == ["lately"]
        topic.catch_up("late", datetime.now(UTC) - timedelta(days=1))
        assert sorted(payloads(all_of(app, "sales.late"))) == ["lately", "long ago"]

    def test_filter_and_call_their_task(self, topic: Topic, app: Stanchion) -> None:
        seen = []

        @app.task(name="note")
        def note(event: Any) -> None:
            seen.append(event)

        topic.subscribe("first", task=note)
        topic.push_many([{"n": n} for n in range(4)])
        assert app.drain() == 4
        topic.unsubscribe("audit")
        topic.unsubscribe("stock")
        topic.subscribe("late", task=note, filter={"payload.n": [1, 3]}, delay=100, since="all")
        assert app.drain() == 0
        topic.subscribe("plain", since="all")
        assert payloads(all_of(app, "sales.plain")) == [{"n": n} for n in range(4)]

    def test_get_events_as_they_were_pushed(self, topic: Topic, app: Stanchion) -> None:
        topic.unsubscribe("stock")
        topic.push_many([1, 2])
        rolled, committed = app.queue("sales.audit").reserve(2)
        rolled.rollback(delay=1000, payload="half done")
        committed.commit(payload="done")
        topic.push("later", delay=1000)
        topic.subscribe("late", since="all")
        assert payloads(all_of(app, "sales.late")) == [1, 2, "later"]
        assert [job.payload for job in app.queue("sales.late").reserve(3)] == [1, 2]

    def test_get_no_replays(self, topic: Topic, app: Stanchion) -> None:
        event, _ = topic.push_many([1, 2])
        app.queue("warehouse").pop()
        while new_id()[:MILLISECOND] == event.id[:MILLISECOND]:
            pass  # ids of one millisecond are in no certain order
        app.queue("warehouse").replay([event.jobs["stock"]])
        topic.subscribe("late")
        assert topic.catch_up("late") == 2

    def test_of_encrypted_events(self, store: Store, topic: Topic) -> None:
        app = Stanchion(store=store, keys=[new_key()])
        mine = app.topic("secret")
        mine.subscribe("a")
        mine.push({"kind": "new"})
        mine.subscribe("late", filter={"payload.kind": "new"}, since="all")
        assert payloads(all_of(app, "secret.late")) == [{"kind": "new"}]
        with pytest.raises(StanchionError, match="no keys"):
            Stanchion(store=store).topic("secret").catch_up("late")
        assert topic.catch_up("audit") == 0

    def test_of_many_events(self, topic: Topic, app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(directory, "CACHE_SECONDS", 3600.0)
        topic.push_many(range(1200))
        topic.subscribe("late")
        assert topic.catch_up("late") == 1200
        assert sizes_of(app.store, "sales.late").total == 1200
        assert [job.payload for job in app.queue("sales.late").reserve(1200)] == [*range(1200)]

    def test_from_a_wrong_time(self, topic: Topic) -> None:
        for wrong in ("yesterday", 3, datetime(2026, 1, 1), timedelta(-1)):
            with pytest.raises(InvalidInput, match="since"):
                topic.subscribe("late", since=wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="no subscription"):
            topic.catch_up("late")
        assert [one.name for one in topic.subscriptions()] == ["audit", "stock"]

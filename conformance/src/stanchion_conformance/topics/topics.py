"""Topics: an event becomes a job for each subscription."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stanchion import Job, JobState, Push, Stanchion, Topic
from stanchion.context import context_of
from stanchion.errors import CannotJoin, DuplicateKey, InvalidInput
from stanchion.stores.protocol import Store
from stanchion.topics import directory
from stanchion_conformance.harness import NO_TRANSACTION, StoreClock, all_at_once, payloads, sizes_of, transaction
from stanchion_conformance.jobs.encryption import new_key
from stanchion_conformance.jobs.strange_names import NAMES


@pytest.fixture
def uncached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each push reads the subscriptions."""
    monkeypatch.setattr(directory, "CACHE_SECONDS", -1.0)
    monkeypatch.setattr(directory, "UNDER_WAY", 0.0)


@pytest.fixture
def topic(app: Stanchion, uncached: None) -> Topic:  # noqa: ARG001 - it prepares
    """A topic with two subscribers."""
    topic = app.topic("sales")
    topic.subscribe("audit")
    topic.subscribe("stock", queue="warehouse")
    return topic


def all_of(app: Stanchion, queue: str) -> list[Job]:
    """Return the jobs of a queue, oldest first."""
    return app.queue(queue).find()[::-1]


class TestTopics:
    def test_each_subscriber_gets_a_job(self, topic: Topic, app: Stanchion) -> None:
        event = topic.push({"n": 1}, priority=7, tenant="acme", order_key="o", headers={"a": 1})
        assert set(event.jobs) == {"audit", "stock"}
        for name, queue in (("audit", "sales.audit"), ("stock", "warehouse")):
            (job,) = all_of(app, queue)
            assert (job.id, job.payload, job.task) == (event.jobs[name], {"n": 1}, None)
            assert (job.priority, job.tenant, job.order_key) == (7, "acme", "o")
            assert job.headers == {"a": 1, "x-event": event.id, "x-topic": "sales"}

    def test_they_go_on_apart(self, topic: Topic, app: Stanchion) -> None:
        events = topic.push_many([1, Push(2, priority=5), 3])
        (job,) = app.queue("warehouse").reserve()
        assert job.payload == 2
        job.bury("broken")
        assert [job.payload for job in app.queue("sales.audit").reserve(5)] == [2, 1, 3]
        assert {job.id for job in app.queue("warehouse").find()} == {event.jobs["stock"] for event in events}
        lags = topic.lag()
        assert (lags["audit"].jobs, lags["audit"].running) == (3, 3)
        assert (lags["stock"].jobs, lags["stock"].ready) == (2, 2)

    def test_nobody_gets_what_nobody_wants(self, app: Stanchion) -> None:
        event = app.topic("lonely").push({"n": 1})
        assert (event.jobs, event.duplicates) == ({}, ())
        assert app.queues() == []
        with pytest.raises(InvalidInput, match="JSON"):
            app.topic("lonely").push(object())

    def test_another_process_sees_it(self, topic: Topic, other_app: Stanchion) -> None:
        other = other_app.topic("sales")
        assert [one.name for one in other.subscriptions()] == ["audit", "stock"]
        assert set(other.push(1).jobs) == {"audit", "stock"}
        assert other.unsubscribe("stock")
        assert set(topic.push(2).jobs) == {"audit"}
        assert [one.name for one in other_app.topics()] == ["sales"]

    def test_it_gets_what_comes_from_then_on(self, topic: Topic, app: Stanchion) -> None:
        topic.push("before")
        topic.subscribe("late")
        topic.push("after")
        assert payloads(all_of(app, "sales.late")) == ["after"]

    def test_to_subscribe_again_changes_the_terms(self, topic: Topic, app: Stanchion) -> None:
        topic.subscribe("audit", queue="elsewhere", filter={"payload": "x"}, max_attempts=2)
        topic.push("x")
        topic.push("y")
        assert payloads(all_of(app, "elsewhere")) == ["x"]
        assert all_of(app, "elsewhere")[0].max_attempts == 2
        assert topic.subscription("audit").queue.name == "elsewhere"

    def test_unsubscribed_leaves_its_jobs(self, topic: Topic, app: Stanchion) -> None:
        topic.push(1)
        assert topic.unsubscribe("audit")
        assert not topic.unsubscribe("audit")
        topic.push(2)
        assert sizes_of(app.store, "sales.audit").total == 1
        topic.unsubscribe("stock", delete=True)
        assert sizes_of(app.store, "warehouse").total == 0
        assert app.topics() == []
        with pytest.raises(InvalidInput, match="no subscription"):
            topic.subscription("audit")

    def test_a_deleted_queue_comes_again(self, topic: Topic, app: Stanchion) -> None:
        topic.push(1)
        app.queue("warehouse").delete()
        topic.push(2)
        assert payloads(all_of(app, "warehouse")) == [2]

    def test_a_paused_subscriber_keeps_its_jobs(self, topic: Topic, app: Stanchion, clock: StoreClock) -> None:
        app.queue("warehouse").pause()
        topic.push(1)
        clock.advance(100)
        assert app.queue("warehouse").reserve() == []
        lag = topic.subscription("stock").lag()
        assert (lag.jobs, lag.ready) == (1, 1)
        assert lag.age >= 100
        assert len(app.queue("sales.audit").reserve()) == 1

    def test_many_subscribers(self, app: Stanchion, uncached: None) -> None:  # noqa: ARG002 - it prepares
        topic = app.topic("wide")
        for number in range(100):
            topic.subscribe(f"s{number}", queue=f"many.{number}")
        event = topic.push({"n": 1})
        assert len(event.jobs) == 100
        assert set(app.store.fetch(list(event.jobs.values()))) == set(event.jobs.values())

    def test_lanes_and_limits_are_those_of_each_queue(self, topic: Topic, app: Stanchion) -> None:
        app.queue("warehouse").configure(lanes=8, lanes_per_tenant=1)
        app.semaphore("one", 1)
        topic.subscribe("audit", limits=["one"])
        topic.push_many([Push(n, tenant="acme") for n in range(3)])
        assert len({job.lane for job in all_of(app, "warehouse")}) == 1
        assert all_of(app, "warehouse")[0].lane is not None
        assert len(app.queue("sales.audit").reserve(3)) == 1

    def test_encrypted(self, store: Store) -> None:
        app = Stanchion(store=store, keys=[new_key()])
        topic = app.topic("secret")
        topic.subscribe("a", filter={"payload.kind": "new"})
        event = topic.push({"kind": "new", "secret": 4711})
        row = store.fetch(list(event.jobs.values()))[event.jobs["a"]]
        assert "4711" not in row.payload
        assert all_of(app, "secret.a")[0].payload == {"kind": "new", "secret": 4711}

    @pytest.mark.usefixtures("uncached")
    def test_strange_names(self, app: Stanchion) -> None:
        names = [name for name in NAMES if name.isprintable()]
        for name in names:
            app.topic(name).subscribe(name)
            app.topic(name).push(name)
        for name in names:
            assert payloads(all_of(app, f"{name}.{name}")) == [name]

    def test_async_pushes(self, topic: Topic, app: Stanchion) -> None:
        async def push() -> None:
            await topic.asubscribe("third")
            event = await topic.apush(1)
            await topic.apush_many([2, 3])
            assert set(event.jobs) == {"audit", "stock", "third"}
            assert (await topic.alag())["third"].jobs == 3

        asyncio.run(push())
        assert payloads(all_of(app, "warehouse")) == [1, 2, 3]

    def test_many_events_at_once(
        self, topic: Topic, app: Stanchion, other_app: Stanchion, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(directory, "CACHE_SECONDS", 3600.0)

        def push(mine: Stanchion) -> None:
            for n in range(10):
                mine.topic("sales").push(n)

        all_at_once([lambda one=one: push(one) for one in [app, other_app] * 2])  # type: ignore[misc]
        for queue in ("sales.audit", "warehouse"):
            assert sorted(payloads(all_of(app, queue))) == sorted([*range(10)] * 4)
        events = topic.push_many(range(1500))
        assert len({event.id for event in events}) == 1500
        assert sizes_of(app.store, "warehouse").total == 1540


class TestKeysOfEvents:
    def test_are_unique_in_each_queue(self, topic: Topic, app: Stanchion) -> None:
        first = topic.push(1, key="k")
        app.queue("warehouse").pop()
        second = topic.push(2, key="k")
        assert set(first.jobs) == {"audit", "stock"}
        assert set(second.jobs) == {"stock"}
        assert second.duplicates == ("audit",)
        assert payloads(all_of(app, "sales.audit")) == [1]

    def test_that_refuse_store_nothing(self, topic: Topic, app: Stanchion) -> None:
        topic.push(1, key="k")
        app.queue("warehouse").pop()
        with pytest.raises(DuplicateKey):
            topic.push(2, key="k", on_duplicate="raise")
        assert sizes_of(app.store, "warehouse").total == 0

    def test_replace_in_each_queue(self, topic: Topic, app: Stanchion) -> None:
        topic.push(1, key="k")
        event = topic.push(2, key="k", on_duplicate="replace")
        assert sorted(event.duplicates) == ["audit", "stock"]
        assert payloads(all_of(app, "warehouse")) == [2]


class TestTopicsInTransactions:
    """For stores that join transactions, and for stores that refuse to."""

    def test_all_or_nothing(self, topic: Topic, app: Stanchion) -> None:
        if not app.store.capabilities.joins_transactions:
            with pytest.raises(CannotJoin):
                topic.push(1, tx=NO_TRANSACTION)
            assert sizes_of(app.store, "warehouse").total == 0
            return
        with pytest.raises(ZeroDivisionError), transaction(app.store) as tx:  # noqa: PT012
            topic.push(1, tx=tx)
            raise ZeroDivisionError
        assert (sizes_of(app.store, "sales.audit").total, sizes_of(app.store, "warehouse").total) == (0, 0)
        with transaction(app.store) as tx:
            topic.push(2, tx=tx)
            topic.push_many([3, 4], tx=tx)
        assert payloads(all_of(app, "sales.audit")) == [2, 3, 4]
        assert payloads(all_of(app, "warehouse")) == [2, 3, 4]

    def test_the_same_again(self, topic: Topic, app: Stanchion) -> None:
        if not app.store.capabilities.joins_transactions:
            return
        event_id = topic.new_id()
        topic.push(1, id=event_id)
        app.queue("warehouse").pop()
        with transaction(app.store) as tx:
            topic.push(1, id=event_id, tx=tx)
        assert payloads(all_of(app, "warehouse")) == [1]

    def test_with_declared_subscribers(self, app: Stanchion) -> None:
        topic = app.topic("declared")

        @topic.subscriber("run")
        @app.task(name="run", queue="tasks")
        def run(payload: Any) -> Any:
            return payload

        if app.store.capabilities.joins_transactions:
            with transaction(app.store) as tx:
                assert set(topic.push(1, tx=tx).jobs) == {"run"}
        else:
            topic.push(1)
        assert app.drain() == 1


class TestSubscribedTasks:
    def test_run_in_workers(self, app: Stanchion, other_app: Stanchion) -> None:
        seen: list[Any] = []
        topic = app.topic("orders")

        @topic.subscriber("mail", filter={"payload.n": {">": 1}})
        @app.task(name="mail", priority=20, max_attempts=3)
        def mail(order: dict[str, Any]) -> int:
            seen.append(order)
            return int(order["n"])

        assert "orders.mail" in context_of(app).registry.own_queues()
        events = topic.push_many([{"n": 1}, {"n": 2}])
        assert app.drain() == 1
        assert seen == [{"n": 2}]
        done = app.get(events[1].jobs["mail"])
        assert done is not None
        assert (done.task, done.result, done.priority, done.max_attempts) == ("mail", 2, 20, 3)
        other_app.topic("orders").push({"n": 7})
        assert app.drain() == 1
        assert seen[-1] == {"n": 7}

    def test_by_subscribe(self, app: Stanchion) -> None:
        @app.task(name="note")
        def note(order: Any) -> Any:
            return order

        app.topic("orders").subscribe("note", task=note, timeout=9)
        event = app.topic("orders").push("x", priority=3)
        job = app.get(event.jobs["note"])
        assert job is not None
        assert (job.timeout, job.priority) == (9, 3)
        assert app.drain() == 1

    def test_an_operator_is_not_undone(self, store: Store, other_store: Store) -> None:
        def start(mine: Store, **terms: Any) -> Topic:
            app = Stanchion(store=mine)
            topic = app.topic("orders")

            @topic.subscriber("mail", **terms)
            @app.task(name="mail")
            def mail(order: Any) -> Any:
                return order

            app.drain()
            return topic

        assert set(start(store).push(1).jobs) == {"mail"}
        Stanchion(store=other_store).topic("orders").unsubscribe("mail")
        assert start(other_store).push(1).jobs == {}
        assert set(start(store, filter={"payload": 1}).push(1).jobs) == {"mail"}

    def test_a_missing_task_is_waited_for(self, app: Stanchion, other_app: Stanchion) -> None:
        @app.topic("orders").subscriber("mail")
        @app.task(name="mail")
        def mail(order: Any) -> Any:
            return order

        app.drain()
        event = other_app.topic("orders").push(1)
        other_app.drain(["orders.mail"])
        assert app.get(event.jobs["mail"]).state is JobState.SCHEDULED  # type: ignore[union-attr]


class TestTopicsAtTheDoor:
    def test_wrong_terms(self, topic: Topic, app: Stanchion) -> None:
        with pytest.raises(InvalidInput, match="each event twice"):
            topic.subscribe("third", queue="warehouse")
        with pytest.raises(InvalidInput, match="option of a subscription"):
            topic.subscribe("third", key="k")
        with pytest.raises(InvalidInput, match="priority"):
            topic.subscribe("third", priority=1000)
        with pytest.raises(InvalidInput, match="subscription must be"):
            topic.subscribe("")
        with pytest.raises(InvalidInput, match="queue must be"):
            topic.subscribe("x" * 199)
        with pytest.raises(InvalidInput, match="@app"):
            topic.subscribe("third", task=print)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="@app"):
            topic.subscriber("third")(print)  # type: ignore[type-var]
        with pytest.raises(InvalidInput, match="topic must be"):
            app.topic(" \n")

    def test_dots_lead_to_no_shared_queue(self, app: Stanchion) -> None:
        app.topic("a").subscribe("b.c")
        with pytest.raises(InvalidInput, match="already uses the queue"):
            app.topic("a.b").subscribe("c")
        app.topic("a.b").subscribe("c", queue="a.b.c")  # on purpose

    def test_wrong_events(self, topic: Topic, app: Stanchion) -> None:
        for wrong in ({"x-event": 1}, {"x-topic": "t"}):
            with pytest.raises(InvalidInput, match="set by the topic"):
                topic.push(1, headers=wrong)
        with pytest.raises(InvalidInput, match="unknown option"):
            topic.push(1, prioriti=2)  # type: ignore[call-arg]
        with pytest.raises(InvalidInput, match="names a queue"):
            topic.push_many([Push(1, queue="q")])
        assert sizes_of(app.store, "warehouse").total == 0

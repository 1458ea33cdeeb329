"""Events that are pushed again, as their answer was lost."""

from __future__ import annotations

import pytest

from stanchion import Push, Stanchion, Topic
from stanchion.errors import DuplicateKey, InvalidInput
from stanchion_conformance.harness import payloads, sizes_of
from stanchion_conformance.topics.topics import all_of


class TestRepeatedEvents:
    def test_are_stored_once(self, topic: Topic, app: Stanchion) -> None:
        event_id = topic.new_id()
        first = topic.push(1, id=event_id, key="k", on_duplicate="raise")
        assert first.id == event_id
        app.queue("warehouse").pop()
        (running,) = app.queue("sales.audit").reserve()
        assert topic.push(1, id=event_id, key="k", on_duplicate="raise") == first
        running.bury("broken")
        assert topic.push(1, id=event_id, key="k") == first
        assert topic.push(1, id=event_id.upper()) == first
        assert (payloads(all_of(app, "warehouse")), payloads(all_of(app, "sales.audit"))) == ([1], [1])

    def test_are_known_as_dead_letters(self, topic: Topic, app: Stanchion) -> None:
        app.queue("warehouse").configure(dead_letter="letters")
        event_id = topic.new_id()
        topic.push(1, id=event_id)
        app.queue("warehouse").reserve()[0].bury("broken")
        topic.push(1, id=event_id)
        assert sizes_of(app.store, "warehouse").total == 0
        assert sizes_of(app.store, "letters").total == 1

    def test_complete_what_is_missing(self, topic: Topic, app: Stanchion) -> None:
        event_id = topic.new_id()
        topic.push(1, id=event_id)
        topic.subscribe("third")
        assert set(topic.push(1, id=event_id).jobs) == {"audit", "stock", "third"}
        assert [len(all_of(app, queue)) for queue in ("sales.audit", "warehouse", "sales.third")] == [1, 1, 1]

    def test_of_a_batch(self, topic: Topic, app: Stanchion) -> None:
        first_id = topic.new_id()
        events = topic.push_many([1, Push(2, priority=3), 3], id=first_id)
        app.queue("warehouse").pop()
        assert topic.push_many([1, Push(2, priority=3), 3], id=first_id) == events
        assert (events[0].id, len({event.id for event in events})) == (first_id, 3)
        assert payloads(all_of(app, "warehouse")) == [1, 2, 3]
        assert payloads(all_of(app, "sales.audit")) == [1, 2, 3]

    def test_of_two_topics_are_two(self, topic: Topic, app: Stanchion) -> None:
        app.topic("returns").subscribe("audit")
        event_id = topic.new_id()
        topic.push(1, id=event_id)
        app.topic("returns").push(2, id=event_id)
        assert payloads(all_of(app, "returns.audit")) == [2]

    def test_with_a_key_only_while_it_lives(self, topic: Topic, app: Stanchion) -> None:
        topic.push(1, key="k")
        with pytest.raises(DuplicateKey):
            topic.push(1, key="k", on_duplicate="raise")
        app.queue("warehouse").pop()
        app.queue("sales.audit").pop()
        assert topic.push(1, key="k").duplicates == ()

    def test_with_a_key_that_holds_longer(self, topic: Topic, app: Stanchion) -> None:
        topic.push(1, key="k", key_ttl=3600)
        app.queue("warehouse").pop()
        event = topic.push(1, key="k", key_ttl=3600)
        assert (event.jobs, sorted(event.duplicates)) == ({}, ["audit", "stock"])
        assert sizes_of(app.store, "warehouse").total == 0

    @pytest.mark.parametrize("wrong", ["", "order-17", 17, "6f6d9c0e-5a39-4c52-9a1b-7f3d0c8a2e41"])
    def test_with_ids_that_are_none(self, topic: Topic, wrong: object) -> None:
        with pytest.raises(InvalidInput, match="UUID of version 7"):
            topic.push(1, id=wrong)  # type: ignore[arg-type]

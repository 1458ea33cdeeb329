"""Topics: the ids of their jobs, what a push reads, and tests of code that uses them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stanchion import Stanchion
from stanchion.core.ids import beside, first_id_at, new_ids
from stanchion.topics.fan_out import copy_id

moments = st.integers(0, 2**48 - 2).map(lambda ms: ms * 1000)
distances = st.integers(0, 2**72 - 1)


def micros_of(one: str) -> int:
    return (UUID(one).int >> 80) * 1000


@given(distances)
def test_ids_at_a_distance_keep_their_order_and_time(distance: int) -> None:
    ids = new_ids(50)
    moved = [beside(one, distance) for one in ids]
    assert moved == sorted(set(moved))
    assert [micros_of(one) for one in moved] == [micros_of(one) for one in ids]
    assert {UUID(one).version for one in moved} == {7}
    assert {str(UUID(one)) for one in moved} == set(moved)
    assert beside(ids[0], 0) == ids[0]


@given(moments)
def test_the_first_id_of_a_time_is_before_all_others(moment: int) -> None:
    first = first_id_at(moment)
    assert micros_of(first) == moment
    assert first < beside(first, 1)
    assert first_id_at(moment + 1000) > beside(first, 2**74 - 1)


def test_ids_of_copies_are_what_they_always_were() -> None:
    """Another release that made others would give an event that is pushed again to everyone twice."""
    event = "019a0000-0000-7000-8000-000000000000"
    assert copy_id(event, "orders", "audit") == "019a0000-0000-7168-b9c2-1ee928c50998"
    assert (
        len({copy_id(event, topic, name) for topic, name in [("a", "b.c"), ("a.b", "c"), ("a", "b"), ("b", "a")]}) == 4
    )


def test_a_push_reads_the_subscriptions_once_in_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = Stanchion(f"sqlite:///{tmp_path}/jobs.db")
    topic = app.topic("orders")
    topic.subscribe("audit")
    topic.push(1)
    reads, read = [], app.store.values

    def values(kind: str, names: Sequence[str] | None = None) -> Any:
        reads.append(kind)
        return read(kind, names)

    monkeypatch.setattr("stanchion.topics.directory.CACHE_SECONDS", 3600.0)
    monkeypatch.setattr(app.store, "values", values)
    topic.push(2)
    topic.push_many(range(100))
    assert reads == []
    topic.subscribe("stock")
    reads.clear()
    assert set(topic.push(3).jobs) == {"audit", "stock"}
    assert reads == ["topic"]
    app.close()


def test_within_testing() -> None:
    app = Stanchion("memory://")
    topic, seen = app.topic("orders"), []

    @topic.subscriber("mail", filter={"payload.n": {">": 1}})
    @app.task(name="mail")
    def mail(order: dict[str, int]) -> None:
        seen.append(order["n"])

    for n in (3, 4):
        with app.testing() as clock:
            topic.push_many([{"n": 1}, {"n": n}])
            app.assert_enqueued(mail, ({"n": n},))
            topic.subscribe("late", since="all", delay=60)
            assert app.drain() == 1
            clock.advance(100)
            assert topic.lag()["late"].ready == 1
            assert topic.unsubscribe("late", delete=True)
    assert seen == [3, 4]
    assert [one.name for one in topic.subscriptions()] == ["mail"]

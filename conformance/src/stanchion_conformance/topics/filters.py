"""Filters of subscriptions: data that select events."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion import Stanchion
from stanchion.errors import InvalidInput

EVENT: dict[str, Any] = {"kind": "new", "n": 5, "yes": True, "none": None, "deep": {"er": {"x": "y"}}, "list": [1]}

MET: list[dict[str, Any]] = [
    {"payload.kind": "new"},
    {"payload.kind": ["old", "new"]},
    {"payload.kind": {"!=": "old"}},
    {"payload.kind": {"not in": ["old"]}},
    {"payload.n": 5, "payload.yes": True},
    {"payload.n": 5.0},
    {"payload.n": {">": 4, "<=": 5}},
    {"payload.kind": {">=": "n", "<": "o"}},
    {"payload.deep.er.x": "y"},
    {"payload.none": None, "payload.missing": None, "payload.kind.deeper": None},
    {"headers.region": "eu"},
    {"tenant": "acme", "priority": {">=": 20}},
    {"tenant": {"!=": None}},
]

NOT_MET: list[dict[str, Any]] = [
    {"payload.kind": "New"},
    {"payload.kind": "new", "payload.n": 6},
    {"payload.n": "5"},
    {"payload.yes": 1},
    {"payload.n": {">": "4"}},
    {"payload.yes": {">": 0}},
    {"payload.none": {"<": 1}},
    {"payload.missing": {"!=": None}},
    {"payload.list": 1},
    {"payload.list.0": 1},
    {"headers.region": []},
    {"tenant": "ACME"},
    {"priority": {"<": 20}},
]

WRONG: list[Any] = [
    {},
    [],
    "payload.kind",
    {"payload..x": 1},
    {"payload.": 1},
    {"id": 1},
    {"tenant.x": 1},
    {1: 2},
    {"payload.x": {}},
    {"payload.x": {"like": "a"}},
    {"payload.x": {"in": "abc"}},
    {"payload.x": {"<": True}},
    {"payload.x": {"<": None}},
    {"payload.x": object()},
    {"payload.x": [[1]]},
    {"payload.x": {"=": {}}},
    {"payload.x": float("nan")},
    {"payload.x": "y" * 20_000},
    {f"payload.x{n}": 1 for n in range(51)},
]


class TestFilters:
    def test_select_events(self, app: Stanchion) -> None:
        topic = app.topic("filtered")
        for number, wanted in enumerate(MET):
            topic.subscribe(f"met {number}", filter=wanted)
        for number, wanted in enumerate(NOT_MET):
            topic.subscribe(f"not {number}", filter=wanted)
        event = topic.push(EVENT, headers={"region": "eu"}, tenant="acme", priority=20)
        assert sorted(event.jobs) == sorted(f"met {number}" for number in range(len(MET)))
        stored = {one.name: one.filter for one in topic.subscriptions()}
        assert stored["met 0"] == {"payload.kind": {"=": "new"}}

    def test_a_payload_may_be_anything(self, app: Stanchion) -> None:
        topic = app.topic("anything")
        topic.subscribe("a", filter={"payload.kind": "new"})
        topic.subscribe("b", filter={"payload": 3})
        assert [sorted(event.jobs) for event in topic.push_many([3, None, [1], {"kind": "new"}])] == [
            ["b"],
            [],
            [],
            ["a"],
        ]

    @pytest.mark.parametrize("wrong", WRONG, ids=range(len(WRONG)))
    def test_that_are_wrong_are_refused(self, app: Stanchion, wrong: Any) -> None:
        with pytest.raises(InvalidInput):
            app.topic("wrong").subscribe("a", filter=wrong)
        assert app.topic("wrong").subscriptions() == []

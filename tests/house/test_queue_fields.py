"""The conditions on rows of queues are the properties of their settings."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from itertools import product
from typing import Any, cast

import pytest

from stanchion.stores.fields.queues import BOUNDED, LIMITED, MERGED, SETTINGS, SHAPE
from stanchion.stores.records.queues import STORED_SETTINGS, QueueSettings

FLAGS = ("paused", "uses_lanes", "uses_slots", "ordered")
QUEUES = [
    replace(QueueSettings("q", max_rate=rate, max_running=running), **given)
    for flags in product((False, True), repeat=len(FLAGS))
    for rate in (None, 1.5)
    for running in (None, 2)
    for given in [cast(Any, dict(zip(FLAGS, flags, strict=True)))]
]


@pytest.mark.parametrize(
    ("condition", "name"), [(BOUNDED, "bounded"), (LIMITED, "limited"), (SHAPE, "shape")], ids=["b", "l", "s"]
)
def test_a_condition_is_the_property(condition: str, name: str) -> None:
    columns = ("name", *FLAGS, "max_rate", "max_running")
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE TABLE queues ({', '.join(columns)})")
        for queue in QUEUES:
            connection.execute("DELETE FROM queues")
            row = [getattr(queue, column) for column in columns]
            connection.execute(f"INSERT INTO queues VALUES ({', '.join('?' * len(row))})", row)
            (found,) = connection.execute(f"SELECT {condition} FROM queues").fetchone()
            assert found == getattr(queue, name), queue


def test_each_stored_setting_has_its_kind() -> None:
    assert tuple(one.name for one in SETTINGS) == STORED_SETTINGS
    defaults = QueueSettings("q")
    assert {one.name for one in SETTINGS if not one.required} == {
        *MERGED,
        *(name for name in STORED_SETTINGS if getattr(defaults, name) is None),
    }

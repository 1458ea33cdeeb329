"""What begins and ends between readings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stanchion.alerts.changes import Changes
from stanchion.alerts.records import Alert

A = Alert("soon", "age", "queue", "mail", "mail falls behind", 2, 1, "seconds")
B = replace(A, subject="post")


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        ([[A]], [[]]),
        ([[A], [A]], [[], ["firing"]]),
        ([[A], [], [A]], [[], [], []]),
        ([[A]] * 9, [[], ["firing"], *[[]] * 7]),
        ([[A], [A], [], [], []], [[], ["firing"], [], [], ["resolved"]]),
        ([[A], [A], [], [], [A], [], [], []], [[], ["firing"], [], [], [], [], [], ["resolved"]]),
        ([[A], [A], [], [], [], [A], [A]], [[], ["firing"], [], [], ["resolved"], [], ["firing"]]),
        ([[A], [A], [replace(A, value=9, summary="worse")]], [[], ["firing"], []]),
        ([[A], [A], [replace(A, level="now")]], [[], ["firing"], ["firing"]]),
        ([[A], [A], [replace(A, rule="no-worker")]], [[], ["firing"], ["firing"]]),
        ([[A], [A, B], [B]], [[], ["firing"], ["firing"]]),
    ],
)
def test_changes(readings: list[list[Alert]], expected: list[list[str]]) -> None:
    changes = Changes()
    assert [[change.status for change in changes.add(alerts, None)] for alerts in readings] == expected


def test_those_that_fire_are_as_read_last() -> None:
    changes = Changes()
    worse: Any = replace(A, value=9)
    for alerts in ([A], [A], [worse]):
        changes.add(alerts, None)
    assert changes.firing == {A.key: worse}

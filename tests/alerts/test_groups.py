"""Many alerts of one rule are one line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

import pytest

from stanchion.alerts.groups import ALIKE, Group, grouped
from stanchion.alerts.records import SHOWN, Alert, Kind, Rule


def alert(rule: Rule, number: int, kind: Kind = "queue", level: str = "now") -> Alert:
    return Alert(level, rule, kind, f"{kind}-{number}", f"{kind}-{number}: {rule}.", 2, 1, "seconds")  # type: ignore[arg-type]


def sentences(groups: Iterable[Group]) -> list[str]:
    return [one.summary for one in groups]


def test_few_alerts_have_a_line_each() -> None:
    alerts = [alert("no-worker", number) for number in range(SHOWN)]
    groups, more = grouped(alerts)
    assert ([one.alerts for one in groups], more) == ([(one,) for one in alerts], 0)


def test_thousands_of_one_rule_are_one_line_beside_the_others() -> None:
    alerts = [
        alert("store", 0, "store"),
        *(alert("no-worker", number) for number in range(4800)),
        *(alert("age", number) for number in range(ALIKE)),
        *(alert("semaphore", number, "semaphore", "soon") for number in range(5)),
    ]
    groups, more = grouped(alerts)
    assert more == 0
    assert sentences(groups) == [
        "store-0: store.",
        "4,800 queues have no live worker: queue-0, queue-1, queue-2 and 4,797 more.",
        *("queue-0: age.", "queue-1: age.", "queue-2: age."),
        "5 semaphores have a line that does not move: semaphore-0, semaphore-1, semaphore-2 and 2 more.",
    ]


def test_those_without_a_line_are_counted() -> None:
    rules: list[Rule] = ["age", "paused", "run-time", "attempts"]
    alerts = [alert(rule, number) for rule in rules for number in range(ALIKE)]
    groups, more = grouped(alerts)
    assert (len(groups), more) == (SHOWN, len(alerts) - SHOWN)


@pytest.mark.parametrize("rule", get_args(Rule))
def test_each_rule_has_words(rule: Rule) -> None:
    groups, _ = grouped([alert(rule, number) for number in range(SHOWN + 1)])
    assert sentences(groups)[0].startswith(f"{SHOWN + 1} queues ")

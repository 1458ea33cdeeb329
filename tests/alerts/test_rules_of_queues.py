"""Rules about queues, from samples."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion.alerts.snapshot import Snapshot, Window
from stanchion.context.queues.pauses import Pause
from stanchion.stores.records.queues import Counts
from stanchion.stores.records.workers import CONSUMER, LaneRange
from stanchion.stores.rules.capacity.slots import HOLDER_BOOST
from tests.alerts.samples import ago, alerts, head, queue, seen, told, worker

served = worker("mail")

NOTED = Pause("ana", 1, "why")

CASES: dict[str, tuple[Snapshot, list[tuple[str, str, str]]]] = {
    "nothing": (seen(), []),
    "an empty queue": (seen(queue()), []),
    "due just now": (seen(queue("mail", head(80, 1))), []),
    "no worker for a minute": (seen(queue("mail", head(0, 60))), [("now", "no-worker", "mail")]),
    "no worker for less": (seen(queue("mail", head(0, 59))), []),
    "no worker, only a future job": (seen(queue("mail", head(0, -9000))), []),
    "a worker of another queue": (
        seen(queue("mail", head(0, 60)), workers=(worker("other"),)),
        [("now", "no-worker", "mail")],
    ),
    "a worker": (seen(queue("mail", head(0, 60)), workers=(served,)), []),
    "a worker that is silent": (
        seen(queue("mail", head(0, 60)), workers=(worker("mail", silent=31),)),
        [("now", "no-worker", "mail")],
    ),
    "a consumer with heartbeats": (seen(queue("mail", head(0, 60)), workers=(worker("mail", state=CONSUMER),)), []),
    "someone without heartbeats runs a job": (seen(queue("mail", head(0, 60), running=1)), []),
    "no worker for its lane": (
        seen(queue("mail", head(0, 60, lane=5), lanes=8), workers=(worker("mail", lanes=(LaneRange("mail", 0, 3),)),)),
        [("now", "no-worker", "mail")],
    ),
    "a worker for its lane": (
        seen(queue("mail", head(0, 60, lane=3), lanes=8), workers=(worker("mail", lanes=(LaneRange("mail", 0, 3),)),)),
        [],
    ),
    "interactive, late": (seen(queue("mail", head(80, 60)), workers=(served,)), [("now", "age", "mail")]),
    "interactive, nearly late": (seen(queue("mail", head(80, 59)), workers=(served,)), []),
    "user visible, late": (seen(queue("mail", head(40, 180)), workers=(served,)), [("now", "age", "mail")]),
    "eventual, late": (seen(queue("mail", head(0, 5400)), workers=(served,)), [("soon", "age", "mail")]),
    "eventual, twice as late": (seen(queue("mail", head(0, 10_800)), workers=(served,)), [("now", "age", "mail")]),
    "reporting, in time": (seen(queue("mail", head(-60, 14_399)), workers=(served,)), []),
    "an old job of a low band behind a young one of a high band": (
        seen(queue("mail", head(80, 1), head(-60, 14_400)), workers=(served,)),
        [("soon", "age", "mail")],
    ),
    "it got a semaphore: its priority is as given": (
        seen(queue("mail", head(-60, 100, boost=HOLDER_BOOST)), workers=(served,)),
        [],
    ),
    "a dead-letter queue": (seen(queue("mail", dead_letter="mail-dead"), queue("mail-dead", head(80, 9000))), []),
    "paused": (seen(queue("mail", head(80, 9000), paused=True)), []),
    "paused, and grows": (
        seen(queue("mail", head(80, 9000), paused=True), arrivals={"mail": 3}),
        [("soon", "paused", "mail")],
    ),
    "paused, and gets only future jobs": (seen(queue("mail", head(80, -900), paused=True), arrivals={"mail": 3}), []),
    "paused for a day, and grows": (
        seen(queue("mail", head(0, 86_400), paused=True), arrivals={"mail": 1}),
        [("now", "paused", "mail")],
    ),
    "paused for a day with a note, and grows": (
        seen(
            queue("mail", head(0, 86_400), paused=True), arrivals={"mail": 1}, pauses={"mail": Pause("ana", 1, "why")}
        ),
        [("soon", "paused", "mail")],
    ),
    "paused for a day without a note, and grows": (
        seen(
            queue("mail", head(0, 86_400), paused=True), arrivals={"mail": 1}, pauses={"mail": NOTED._replace(note="")}
        ),
        [("now", "paused", "mail")],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_rules(case: str) -> None:
    snapshot, expected = CASES[case]
    assert told(snapshot) == expected


def test_a_late_queue_says_how_late() -> None:
    (alert,) = alerts(seen(queue("mail", head(80, 320), ready=15, running=2), workers=(served,)))
    assert alert.summary == (
        "mail falls behind: its oldest interactive job could have run 5 min 20 s ago, the limit is 1 min."
    )
    assert alert.evidence == ("15 jobs can run, 2 jobs run.",)
    assert (alert.value, alert.limit, alert.unit, alert.band) == (320, 60, "seconds", "interactive")
    assert round(alert.percent) == 533
    assert alert.since is not None
    assert alert.since.isoformat() == "2030-03-17T17:42:20+00:00"  # when the limit was reached
    assert alert.runbook == "https://github.com/stanchion-queue/stanchion/blob/main/docs/alerts.md#age"


def test_a_limit_of_one_queue() -> None:
    late = seen(queue("mail", head(0, 20)), queue("post", head(0, 20)), workers=(worker("mail", "post"),))
    assert told(late, **{"queue.mail.max_age": 20}) == [("soon", "age", "mail")]


@pytest.mark.parametrize(
    ("totals", "expected"),
    [
        ({"rolled_back": 49, "committed": 0}, []),
        ({"rolled_back": 50, "committed": 201}, []),
        ({"rolled_back": 50, "committed": 200}, [("soon", "failed-attempts", "mail")]),
        ({"rolled_back": 30, "expired": 20, "committed": 50}, [("now", "failed-attempts", "mail")]),
        ({"rolled_back": 50, "moved": 300}, []),
    ],
)
def test_failed_attempts_since_some_minutes(totals: dict[str, Any], expected: list[Any]) -> None:
    before = Counts(committed=1000, rolled_back=900)
    after = Counts(*(a + b for a, b in zip(before, Counts(**totals), strict=True)))
    recent = Window(ago(300), {"mail": before})
    assert told(seen(queue("mail", totals=after), recent=recent)) == expected
    assert told(seen(queue("mail", totals=after))) == []


@pytest.mark.parametrize(
    ("totals", "expected"),
    [
        ({"lapsed": 9}, []),
        ({"lapsed": 10}, [("soon", "expired-jobs", "mail")]),
        ({"lapsed": 10, "committed": 80, "popped": 5, "moved": 5}, [("soon", "expired-jobs", "mail")]),
        ({"lapsed": 10, "committed": 91}, []),
        ({"cancelled": 100}, []),
    ],
)
def test_expired_jobs_since_some_minutes(totals: dict[str, Any], expected: list[Any]) -> None:
    before = Counts(committed=1000, lapsed=900)
    after = Counts(*(a + b for a, b in zip(before, Counts(**totals), strict=True)))
    recent = Window(ago(300), {"mail": before})
    assert told(seen(queue("mail", totals=after), recent=recent)) == expected


def test_a_paused_queue_says_who_paused_it_and_why() -> None:
    pause = Pause("ana", ago(7200), "the provider is down")
    grows = seen(queue("mail", head(80, 9000), paused=True), arrivals={"mail": 3}, pauses={"mail": pause})
    (alert,) = alerts(grows)
    assert alert.evidence[-1] == "ana paused it 2 h ago: “the provider is down”"

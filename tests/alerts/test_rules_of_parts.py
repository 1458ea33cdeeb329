"""Rules about streams, pipelines, semaphores, schedules, history, managers and the store, from samples."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion.alerts.snapshot import (
    Holder,
    Overdue,
    ScheduleSample,
    SemaphoreSample,
    Snapshot,
    Station,
    StreamSample,
)
from stanchion.stores.records.managers import ManagerStatus, QueueFigures, ReceiverFigures
from stanchion.stores.records.queues import SemaphoreRow
from tests.alerts.samples import ago, alerts, head, queue, seen, told, worker


def stream(**fields: Any) -> StreamSample:
    usual = {"live": True, "last_beat": ago(1), "pending": False, "replays": 0, "stopped": False, "error": None}
    return StreamSample("daily", "etl.in", **(usual | fields))


def semaphore(waited: float = 600, held: int = 1, capacity: int = 1, *holders: Holder) -> SemaphoreSample:
    return SemaphoreSample(SemaphoreRow("smtp", capacity, held, 4), ago(waited), holders)


def figures(lag: float) -> QueueFigures:
    return QueueFigures("mail", 1, 0, lag, 0, 0, 0, 0, 0, 0, 0)


def manager(lag: float = 0, **fields: Any) -> ManagerStatus:
    usual = ManagerStatus("m:7117", "s", store_answers=True, queues=(figures(lag),), receivers=(receiver(),))
    return usual._replace(**fields)


def receiver(**fields: Any) -> ReceiverFigures:
    return ReceiverFigures("r1", "w1", 8, 7, connected=True, silent=0.0, slow=False)._replace(**fields)


items = queue("etl.in", head(0, 20), ready=7)
CASES: dict[str, tuple[Snapshot, list[tuple[str, str, str]]]] = {
    "a stream with its driver": (seen(items, streams=(stream(),)), []),
    "a stream without a driver or items": (seen(queue("etl.in"), streams=(stream(live=False),)), []),
    "a stream without a driver": (seen(items, streams=(stream(live=False),)), [("now", "stream", "daily")]),
    "a batch without a driver": (
        seen(queue("etl.in"), streams=(stream(live=False, pending=True),)),
        [("now", "stream", "daily")],
    ),
    "a stream that repeats": (seen(items, streams=(stream(replays=3),)), [("soon", "stream", "daily")]),
    "a stream that repeats a bit": (seen(items, streams=(stream(replays=2),)), []),
    "a stream that stands still": (seen(items, streams=(stream(stopped=True),)), [("now", "stream", "daily")]),
    "a line with a free slot": (seen(semaphores=(semaphore(300, 0),)), [("now", "semaphore", "smtp")]),
    "a line with a free slot for a bit": (seen(semaphores=(semaphore(120, 0),)), [("soon", "semaphore", "smtp")]),
    "a line with a free slot just now": (seen(semaphores=(semaphore(119, 0),)), []),
    "a closed semaphore": (seen(semaphores=(semaphore(9000, 0, 0),)), []),
    "a line behind short jobs": (seen(semaphores=(semaphore(9000, 1, 1, Holder(0, ago(299))),)), []),
    "a line behind jobs that hang": (
        seen(semaphores=(semaphore(300, 2, 2, Holder(0, ago(300)), Holder(80, ago(30))),)),
        [("now", "semaphore", "smtp")],
    ),
    "a line behind one that hangs": (
        seen(semaphores=(semaphore(300, 2, 2, Holder(0, ago(300)), Holder(80, ago(29))),)),
        [],
    ),
    "a line behind one that has not begun": (seen(semaphores=(semaphore(300, 1, 1, Holder(0, None)),)), []),
    "a tick just now": (seen(schedules=(ScheduleSample("nightly", "mail", True, ago(59)),)), []),
    "a tick ahead": (seen(schedules=(ScheduleSample("nightly", "mail", True, ago(-600)),)), []),
    "a missed tick": (
        seen(schedules=(ScheduleSample("nightly", "mail", True, ago(60)),)),
        [("soon", "missed-tick", "nightly")],
    ),
    "history that is nearly in time": (seen(overdue=(Overdue("mail", ago(604_800 + 3599), 604_800),)), []),
    "history that is late": (
        seen(overdue=(Overdue("mail", ago(604_800 + 3600), 604_800), Overdue("b", ago(8000), 0))),
        [("soon", "purge", "mail")],
    ),
    "a manager": (seen(queue(), workers=(worker("mail"),), managers=(manager(4.9),)), []),
    "a manager that is late": (
        seen(queue(), workers=(worker("mail"),), managers=(manager(5),)),
        [("soon", "manager", "m:7117")],
    ),
    "a manager that has no receiver": (
        seen(queue(), workers=(worker("mail"),), managers=(manager(5, receivers=()),)),
        [],
    ),
    "a manager with busy receivers": (
        seen(queue(), workers=(worker("mail"),), managers=(manager(5, receivers=(receiver(in_flight=8),)),)),
        [],
    ),
    "a manager with receivers that are gone": (
        seen(queue(), workers=(worker("mail"),), managers=(manager(5, receivers=(receiver(connected=False),)),)),
        [],
    ),
    "a manager with receivers for other queues": (
        seen(queue(), workers=(worker("orders"),), managers=(manager(5),)),
        [],
    ),
    "a manager of a limited queue": (
        seen(queue(max_rate=1.0), workers=(worker("mail"),), managers=(manager(5),)),
        [],
    ),
    "a manager of a paused queue": (seen(queue(paused=True), workers=(worker("mail"),), managers=(manager(5),)), []),
    "a manager that is silent": (seen(managers=(ManagerStatus("m:7117"),)), [("soon", "manager", "m:7117")]),
    "a manager without its store": (
        seen(managers=(manager(store_answers=False),)),
        [("soon", "manager", "m:7117")],
    ),
    "a store that can't be used": (Snapshot(trouble="no answer"), [("now", "store", "store")]),
    "a slow store": (seen(seconds=1.0), [("soon", "store", "store")]),
    "a store": (seen(seconds=0.9), []),
}


@pytest.mark.parametrize("case", CASES)
def test_rules(case: str) -> None:
    snapshot, expected = CASES[case]
    assert told(snapshot, **{"no_worker": 1e9}) == expected


class TestIdleStations:
    stations = (
        Station("etl", "clean", "etl.clean", ("etl.raw",)),
        Station("etl", "load", "etl.load", ("etl.clean",)),
        Station("etl", "raw", "etl.raw", ()),
    )

    def told(self, *queues: Any) -> list[tuple[str, str, str]]:
        busy = worker("etl.raw", "etl.clean", "etl.load")
        return told(seen(*queues, stations=self.stations, workers=(busy,)))

    def test_behind_one_that_does_not_move(self) -> None:
        assert self.told(queue("etl.raw", head(0, 300))) == [("soon", "idle-station", "etl")]

    def test_only_the_first_one_is_told(self) -> None:
        stopped = queue("etl.raw", head(0, 5400)), queue("etl.clean"), queue("etl.load")
        assert self.told(*stopped) == [("soon", "age+idle-station", "etl.raw")]

    @pytest.mark.parametrize("fields", [{"running": 1}, {"paused": True}])
    def test_behind_one_that_moves_or_is_paused(self, fields: dict[str, Any]) -> None:
        assert self.told(queue("etl.raw", head(0, 300), **fields)) == []

    def test_with_items_of_its_own(self) -> None:
        assert self.told(queue("etl.raw", head(0, 300)), queue("etl.clean", head(0, 1))) == []


def test_what_a_stream_reads_needs_no_worker() -> None:
    late = queue("etl.in", head(0, 600), ready=7)
    (alert,) = alerts(seen(late, streams=(stream(live=False, last_beat=ago(90)),)))
    assert (alert.rule, alert.merged) == ("stream", ())
    assert [one.rule for one in alerts(seen(late))] == ["no-worker"]


def test_what_helps_a_stream_that_falls_behind() -> None:
    late = queue("etl.in", head(0, 5400), ready=7)
    see, faster = ("See the stream that reads it", "stanchion streams"), "Give its query more cores"
    (alert,) = alerts(seen(late, streams=(stream(),)))
    assert (alert.rule, alert.actions[1]) == ("age", see)
    assert alert.actions[-1].text.startswith(faster)
    (alert,) = alerts(seen(late, streams=(stream(live=False),)))
    assert (alert.rule, alert.actions[0].text) == ("stream", "Start the query that reads it again")
    assert see in alert.actions
    assert not any(one.text.startswith((faster, "Add workers")) for one in alert.actions)


def test_a_silent_driver_is_evidence_of_its_queue() -> None:
    late = queue("etl.in", head(0, 5400), ready=7)
    (alert,) = alerts(seen(late, streams=(stream(live=False, last_beat=ago(90)),)), no_worker=1e9)
    assert alert.summary == "daily has no driver: its driver is silent for 1 min 30 s, and 7 items can run."
    assert alert.merged == ("age",)
    assert alert.evidence[0].startswith("etl.in falls behind")


def test_a_station_for_spark_that_no_query_reads_lacks_a_driver_and_no_worker() -> None:
    late = queue("etl.load", head(priority=80, age=90), ready=4)
    station = Station("etl", "load", "etl.load", (), on_spark=True)
    (alert,) = alerts(seen(late, stations=(station,)))
    assert (alert.level, alert.rule, alert.merged, alert.subject) == ("now", "stream", ("age",), "etl.load")
    assert alert.summary.startswith("etl.load has no driver: 4 items can run, the oldest for 1 min 30 s")
    commands = [one.command for one in alert.actions if one.command]
    assert commands[0] == "stanchion pipeline run MODULE:PIPELINE --engine spark"
    assert not any("stanchion worker" in one for one in commands)
    assert "no-worker" in {one.rule for one in alerts(seen(late, stations=(station._replace(on_spark=False),)))}
    assert told(seen(queue("etl.load", head(age=30)), stations=(station,))) == []

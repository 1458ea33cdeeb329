"""The metrics of a store: one reading, written once for each format, and served until a new one is there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from threading import Event, Thread
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_families
from prometheus_client.parser import text_string_to_metric_families as families

from stanchion.alerts import collector
from stanchion.alerts.collector import KEPT_SECONDS, READ_SECONDS, Keep, StoreMetrics
from stanchion.alerts.records import Alert, BandFigures, Monitor, QueueFigures
from stanchion.errors import StoreUnavailable
from stanchion.stores.records.queues import Counts, Sizes
from stanchion.telemetry import text
from stanchion.telemetry.prometheus import exposed

STRANGE = 'a "b"\\c\nd é'
AT = datetime(2026, 5, 1, tzinfo=UTC)


def reading(pushed: int = 0, queue: str = STRANGE, bands: int = 1) -> Monitor:
    figures = (BandFigures("interactive", ready=2, max_age=3.5, alert_percent=150.0),) * bands
    one = QueueFigures(queue, True, Sizes(3, 2, 1, 0, 0), figures, Counts(pushed))
    alert = Alert("now", "no-worker", "queue", queue, "It has none.", 70.0, 60.0, "seconds")
    return Monitor(AT, True, (), (one,), (alert,))


def test_items_of_queues_with_chunks() -> None:
    whole = reading()
    (one,) = whole.queues
    chunks = replace(one, queue="etl", items=Sizes(300, 200, 100, 0, 0))
    seen = replace(whole, queues=(one, chunks))
    served = families(StoreMetrics.of(lambda: seen).text(openmetrics=False).decode())
    items = {
        (sample.labels["queue"], sample.labels["state"]): sample.value
        for family in served
        for sample in family.samples
        if sample.name == "stanchion_queue_items"
    }
    assert items == {("etl", "ready"): 200, ("etl", "scheduled"): 100, ("etl", "waiting"): 0, ("etl", "running"): 0}


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def readings(metrics: StoreMetrics) -> float:
    """Return how many jobs were pushed by the reading that is served."""
    served = families(metrics.text(openmetrics=False).decode())
    samples = [one for family in served for one in family.samples]
    return next(one.value for one in samples if one.labels.get("event") == "pushed")


@pytest.mark.parametrize(
    ("accept", "parse"), [("", families), ("application/openmetrics-text; version=1.0.0", open_families)]
)
def test_both_formats_have_all_figures(accept: str, parse: Callable[[str], Any]) -> None:
    answer = exposed(CollectorRegistry(), StoreMetrics.of(lambda: reading(7)))(accept)
    found = {
        (one.name, *one.labels.values()): one.value for family in parse(answer.body.decode()) for one in family.samples
    }
    assert found["stanchion_store_up",] == 1
    assert found["stanchion_store_read_timestamp_seconds",] == AT.timestamp()
    assert found["stanchion_queue_jobs", STRANGE, "ready"] == 2
    assert "stanchion_queue_items" not in {name for name, *_ in found}
    assert found["stanchion_queue_paused", STRANGE] == 1
    assert found["stanchion_queue_events_total", STRANGE, "pushed"] == 7
    assert found["stanchion_oldest_job_age_seconds", STRANGE, "interactive"] == 3.5
    assert found["stanchion_service_level_ratio", STRANGE, "interactive"] == 1.5
    assert found["stanchion_alerts", "now", "no-worker", "queue", STRANGE] == 1


def test_a_silent_store_is_down() -> None:
    silent = replace(reading(), at=None, queues=(), alerts=())
    body = StoreMetrics.of(lambda: silent).text(openmetrics=False).decode()
    assert "stanchion_store_up 0.0" in body
    assert "timestamp" not in body


def test_a_reading_is_written_once_for_each_format(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bool] = []
    clock = Clock()

    def noted(found: Any, *, openmetrics: bool) -> bytes:
        written.append(openmetrics)
        return text.written(found, openmetrics=openmetrics)

    monkeypatch.setattr(collector, "written", noted)
    read: list[Monitor] = []

    def take(keep: Keep) -> None:
        read.append(reading())
        keep(read[-1])

    metrics = StoreMetrics(take, clock)
    for _ in range(3):
        for openmetrics in (False, True):
            metrics.text(openmetrics=openmetrics)
    assert (len(read), written) == (1, [False, True])
    clock.now += READ_SECONDS
    metrics.text(openmetrics=False)
    assert (len(read), written) == (2, [False, True, False])


def test_the_sampled_reading_is_not_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open pages may read less often than every 15 seconds."""
    clock, same = Clock(), reading(1)
    metrics = StoreMetrics(lambda keep: keep(same), clock)
    first = metrics.text(openmetrics=False)
    clock.now += READ_SECONDS
    monkeypatch.setattr(collector, "written", lambda *_: pytest.fail("it is written again"))
    assert metrics.text(openmetrics=False) is first


def test_a_queue_is_escaped_once_for_all_its_metrics() -> None:
    class Name(str):
        escaped = 0
        __slots__ = ()

        def translate(self, table: Any) -> str:
            Name.escaped += 1
            return str.translate(self, table)

    monitor = replace(reading(queue=Name("mail"), bands=4), alerts=())
    StoreMetrics.of(lambda: monitor).text(openmetrics=True)
    assert Name.escaped == 1


def test_a_late_reading_is_kept_for_the_next_scrape() -> None:
    """A scrape that has waited too long fails; the reading goes on, and is there for the next one."""
    late: list[Keep] = []

    def read(keep: Keep) -> None:
        late.append(keep)
        raise StoreUnavailable("the metrics could not be read within 10 s")

    clock = Clock()
    metrics = StoreMetrics(read, clock)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            metrics.text(openmetrics=False)
    late[0](reading(1))
    assert readings(metrics) == 1
    clock.now += READ_SECONDS
    assert readings(metrics) == 1  # the next one is late as well
    late[-1](reading(2))
    assert readings(metrics) == 2
    assert len(late) == 3
    clock.now += KEPT_SECONDS
    with pytest.raises(StoreUnavailable):
        metrics.text(openmetrics=False)


def test_scrapes_do_not_wait_for_a_slow_reading_once_there_is_one() -> None:
    begun, go_on = Event(), Event()
    clock, number = Clock(), 0

    def read(keep: Keep) -> None:
        nonlocal number
        number += 1
        if number > 1:
            begun.set()
            assert go_on.wait(60)
        keep(reading(number))

    metrics = StoreMetrics(read, clock)
    assert readings(metrics) == 1
    clock.now += READ_SECONDS
    slow = Thread(target=lambda: metrics.text(openmetrics=False))
    slow.start()
    assert begun.wait(60)
    assert readings(metrics) == 1
    go_on.set()
    slow.join(60)
    assert readings(metrics) == number == 2

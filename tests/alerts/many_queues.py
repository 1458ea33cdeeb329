"""Thousands of queues: the work on a snapshot grows with their number, not with its square."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from types import FrameType

from stanchion.alerts.figures import monitor_of
from stanchion.alerts.snapshot import LiveJob, Snapshot
from stanchion.alerts.thresholds import Thresholds
from stanchion.ops.reads.queues import figures_as_seen
from stanchion.stores.memory.store import MemoryStore
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.rules.leases.liveness import least_sharing
from tests.alerts.samples import NOW, ago, head, queue, worker


def snapshot(queues: int, *, served: bool) -> Snapshot:
    """Return a snapshot of queues with one late job each; `served`: two workers take all of them."""
    names = [f"tenant-{number}" for number in range(queues)]
    workers = [worker(*names), worker(*names)] if served else []
    live = [LiveJob(name, name, "ready", 0, ago(7200), 0, 0) for name in names]
    samples = [queue(name, head(age=7200.0)) for name in names]
    return Snapshot(at=NOW, queues=tuple(samples), workers=tuple(workers), live=tuple(live))


def calls(work: Callable[[], object]) -> Counter[str]:
    """Return how often each function was called, and all calls under ""; a generator counts each time it is resumed."""
    found = Counter[str]()

    def note(frame: FrameType, event: str, _function: object) -> None:
        if event == "call":
            found[frame.f_code.co_name] += 1
        if event in ("call", "c_call"):
            found[""] += 1

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def grows_with_the_queues(work: Callable[[Snapshot], object], *, served: bool) -> None:
    few, many = snapshot(100, served=served), snapshot(400, served=served)
    work(few)  # what is imported and cached once
    small, large = calls(lambda: work(few)), calls(lambda: work(many))
    assert large[""] < 5 * small[""], f"{large['']:,} calls for 400 queues, {small['']:,} for 100"


def test_figures_and_alerts_grow_with_the_queues() -> None:
    grows_with_the_queues(lambda seen: monitor_of(seen, Thresholds()), served=False)


def test_figures_and_alerts_grow_with_the_queues_of_workers() -> None:
    grows_with_the_queues(lambda seen: monitor_of(seen, Thresholds()), served=True)


def test_figures_of_pages_grow_with_the_queues_of_workers() -> None:
    store = MemoryStore()

    def read(seen: Snapshot) -> object:
        found = figures_as_seen(store, seen, [one.settings for one in seen.queues], NOW)
        assert [len(one.workers) for one in found] == [2] * len(seen.queues)
        return found

    grows_with_the_queues(read, served=True)


def test_an_alert_is_copied_once() -> None:
    seen = snapshot(100, served=False)
    made = calls(lambda: monitor_of(seen, Thresholds()))
    assert len(monitor_of(seen, Thresholds()).alerts) == 100
    assert made["replace"] <= 100 + len(("the limits",))


class Name(str):
    """The name of a queue that counts how often it is compared."""

    __slots__ = ()
    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Name.compared += 1
        return str.__eq__(self, other)


def test_a_heartbeat_compares_no_queue_with_each_other() -> None:
    names = tuple(Name(f"tenant-{number}") for number in range(300))
    row = WorkerRow("w1", "host", 1, names, 8, 10.0)
    equal = replace(row, id="w2", queues=tuple(Name(name) for name in names))
    Name.compared = 0
    assert least_sharing([row], [(row, 1), (equal, 1)]) == 2
    assert Name.compared < 20 * len(names)

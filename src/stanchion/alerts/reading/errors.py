"""Reads the errors of failed attempts and dead jobs, as tallied by the workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from stanchion.alerts.snapshot import DeadJob, ErrorSample, LiveJob, QueueSample, Window
from stanchion.core.names.partition_names import logical_name
from stanchion.core.text.error_kinds import type_of
from stanchion.stores.protocol import Store
from stanchion.stores.records.queues import Counts
from stanchion.telemetry.failures import OTHER, Failures, tallied

QUEUES_MAX: Final = 20
"""Queues whose tallies are read, the ones with most recent failures."""

GROUPS_MAX: Final = 5
"""Groups of a queue that are kept, the ones with most failed attempts in the last hour."""


def failing(
    queues: Iterable[QueueSample], dead: Iterable[DeadJob], live: Iterable[LiveJob], windows: Iterable[Window | None]
) -> list[str]:
    """Return the queues with recent failures, most failures first."""
    failures = {logical_name(job.queue): 1 for job in live if job.failures}
    failures |= {logical_name(job.queue): 1 for job in dead}
    for queue in queues:
        name = queue.settings.name
        for window in windows:
            before = Counts() if window is None else window.totals.get(name, Counts())
            if window is not None and (more := _failed(queue.stats.totals) - _failed(before)) > 0:
                failures[name] = max(more, failures.get(name, 0))
    return sorted(failures, key=lambda name: (-failures[name], name))


def read_tallies(store: Store, queues: list[str]) -> dict[str, dict[str, Failures]]:
    """Return the workers' tallies for the first of these queues; empty where there are none."""
    asked = queues[:QUEUES_MAX]
    return {**{queue: {} for queue in asked}, **tallied(store, asked)} if asked else {}


def heaviest(tallies: Mapping[str, dict[str, Failures]], now: int) -> dict[str, tuple[ErrorSample, ...]]:
    """Return the errors of the last hour, by queue, the heaviest first."""
    return {queue: _heaviest(groups, now) for queue, groups in tallies.items() if groups}


def _heaviest(groups: dict[str, Failures], now: int) -> tuple[ErrorSample, ...]:
    samples = [
        ErrorSample(key, type_of(one.error), one.task, failed, one.dead)
        for key, one in groups.items()
        if key != OTHER and (failed := sum(one.in_the_hour(now)))
    ]
    return tuple(sorted(samples, key=lambda one: (-one.failed, one.key))[:GROUPS_MAX])


def _failed(totals: Counts) -> int:
    return totals.rolled_back + totals.buried + totals.expired

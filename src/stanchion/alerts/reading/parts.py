"""The reads of semaphores, streams and schedules; the stations come from the code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stanchion import wings
from stanchion.alerts.snapshot import Holder, ScheduleSample, SemaphoreSample, Station, StreamSample
from stanchion.cron.plan import KIND as SCHEDULE
from stanchion.cron.plan import Plan
from stanchion.cron.schedule import UNDECLARED
from stanchion.pipelines.plan import PipelinePlan
from stanchion.pipelines.record import PipelineRecord, recorded
from stanchion.stores.protocol import Store
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.rules.capacity.slots import semaphore_slot

SEMAPHORES_MAX = 10
"""Semaphores that are checked closely, the ones with most waiters."""

HOLDERS_MAX = 100


def read_semaphores(store: Store) -> tuple[SemaphoreSample, ...]:
    """Return the semaphores that jobs wait for, with the head of line and the holders of some."""
    waited = sorted((row for row in store.semaphores() if row.waiting), key=lambda row: -row.waiting)
    found = []
    for row in waited[:SEMAPHORES_MAX]:
        slot = semaphore_slot(row.name)
        first = Query("live", (Condition("waits_for", "=", slot),), order="arrival", limit=1, columns=("waits_since",))
        held = Condition("holds", "=", slot)
        holders = Query("live", (held,), order="id", limit=HOLDERS_MAX, columns=("priority", "state", "started_at"))
        head = next((row[0] for row in store.select(first).rows), None)
        jobs = tuple(Holder(one[0], one[2] if one[1] == "running" else None) for one in store.select(holders).rows)
        found.append(SemaphoreSample(row, head, jobs))
    return tuple(found)


def read_streams(store: Store, workers: Sequence[WorkerRow], now: int) -> tuple[StreamSample, ...]:
    """Return all streams."""
    found: tuple[StreamSample, ...] = wings.module("alerts", "streams").samples(store, workers, now)
    return found


def read_schedules(store: Store, now: int) -> tuple[ScheduleSample, ...]:
    """Return the schedules that are not paused."""
    plans = ((value.name, Plan.of(value.text)) for value in store.values(SCHEDULE))
    return tuple(
        ScheduleSample(name, plan.job.queue, abs(now - plan.declared_at) < UNDECLARED, plan.next_tick())
        for name, plan in plans
        if not plan.paused
    )


def read_stations(store: Store, pipelines: Iterable[PipelinePlan]) -> tuple[Station, ...]:
    """Return the stations declared by this process, and stored stations of other pipelines."""
    declared = {one.name: one.record for one in pipelines}
    records = {one.name: one for one in recorded(store)} | declared
    return tuple(station for record in records.values() for station in stations_of(record))


def stations_of(record: PipelineRecord) -> tuple[Station, ...]:
    """Return the stations of a pipeline."""
    return tuple(
        Station(
            record.name,
            one.name,
            record.queue(one.name),
            tuple(map(record.queue, record.before(one.name))),
            one.engine == "spark",
        )
        for one in record.stations
    )

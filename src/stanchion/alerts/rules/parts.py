"""Rules about streams, pipelines, semaphores, schedules, and history."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from stanchion.alerts.records import Action, Alert
from stanchion.alerts.rules.finding import Found, of_queue
from stanchion.alerts.snapshot import QueueSample, SemaphoreSample, Snapshot, StreamSample
from stanchion.alerts.thresholds import Thresholds
from stanchion.alerts.words import command, number
from stanchion.core.service_levels import band_of
from stanchion.core.text.durations import spelled
from stanchion.core.text.redaction import redacted
from stanchion.core.times import moment
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.rules.leases.liveness import MISSED_BEATS


def stream(seen: Snapshot, limits: Thresholds) -> Iterator[Found]:
    """A stream has a backlog and no live driver, or its query fails on the same batch again and again."""
    ready = {queue.settings.name: queue.stats.states.ready for queue in seen.queues}
    for one in seen.streams:
        behind = ready.get(one.queue, 0) > 0 or one.pending
        if one.stopped or (one.live and one.replays >= limits.replays):
            yield Found(of_queue(one.queue), _failing(one, limits))
        elif behind and not one.live:
            yield Found(of_queue(one.queue), _driverless(seen, one, ready.get(one.queue, 0)))
    yield from _never_started(seen, limits)


def _never_started(seen: Snapshot, limits: Thresholds) -> Iterator[Found]:
    """Yield the stations for Spark that no query has read yet, though items can run there."""
    read, queues = {one.queue for one in seen.streams}, {one.settings.name: one for one in seen.queues}
    for station in seen.stations:
        queue = queues.get(station.queue)
        if not station.on_spark or station.queue in read or queue is None or queue.settings.paused:
            continue
        age = _oldest_age(seen, queue)
        if age >= limits.no_worker:
            said = (
                f"{station.queue} has no driver: {number(queue.stats.states.ready, 'item')} can run, the oldest "
                f"for {spelled(age)}, and no query has read it yet."
            )
            alert = Alert("now", "stream", "queue", station.queue, said, age, limits.no_worker, "seconds")
            run = Action("Run the pipeline on Spark", "stanchion pipeline run MODULE:PIPELINE --engine spark")
            yield _found(seen, station.queue, alert, run)


def _failing(one: StreamSample, limits: Thresholds) -> Alert:
    said = f"{one.name} stands still: its query fails on one job after the other."
    again = f"{one.name} repeats a batch: its query failed {number(one.replays, 'time')} on it."
    return Alert(
        *("now" if one.stopped else "soon", "stream", "stream", one.name, said if one.stopped else again),
        value=max(one.replays, limits.replays) if one.stopped else one.replays,
        limit=limits.replays,
        unit="batches",
        evidence=() if one.error is None else (f"Its last error: {redacted(one.error).splitlines()[0][:200]}",),
        actions=(Action("See the stream", "stanchion streams"),),
    )


def _driverless(seen: Snapshot, one: StreamSample, ready: int) -> Alert:
    silent = None if one.last_beat is None else seen.ago(one.last_beat)
    waits = "a batch is not finished" if one.pending else f"{number(ready, 'item')} can run"
    known = "its driver is unknown" if silent is None else f"its driver is silent for {spelled(silent)}"
    return Alert(
        *("now", "stream", "stream", one.name, f"{one.name} has no driver: {known}, and {waits}."),
        value=MISSED_BEATS,
        limit=MISSED_BEATS,
        unit="batches",
        since=moment(one.last_beat),
        actions=(
            Action("Start the query that reads it again"),
            Action("If it is gone for good, give its jobs back", command("streams release", one.name)),
        ),
    )


def idle_station(seen: Snapshot, limits: Thresholds) -> Iterator[Found]:
    """A station has no items while one before it has work that does not move. The stopped station is the cause."""
    queues = {queue.settings.name: queue for queue in seen.queues}
    for station in seen.stations:
        here = queues.get(station.queue)
        if here is not None and here.stats.states.total:
            continue
        for name in station.before:
            before = queues.get(name)
            if before is None or before.settings.paused or before.stats.states.running:
                continue
            age = _oldest_age(seen, before)
            if age >= limits.idle:
                said = (
                    f"{station.station} of {station.pipeline} is idle: {name} before it has "
                    f"{number(before.stats.states.ready, 'item')}, the oldest for {spelled(age)}, and none runs."
                )
                alert = Alert("soon", "idle-station", "pipeline", station.pipeline, said, age, limits.idle, "seconds")
                yield _found(seen, name, alert, Action("See its stations", "stanchion pipeline status MODULE:PIPELINE"))


def _found(seen: Snapshot, queue: str, alert: Alert, action: Action) -> Found:
    """Return an alert of a queue whose oldest item waits for `alert.value` seconds."""
    since = moment(seen.at - int(alert.value * SECOND))
    return Found(of_queue(queue), replace(alert, since=since, actions=(action,)))


def _oldest_age(seen: Snapshot, queue: QueueSample) -> float:
    return max((-head.due_in / SECOND for _, head in seen.due(queue)), default=0.0)


def semaphore(seen: Snapshot, limits: Thresholds) -> Iterator[Found]:
    """The line of a semaphore does not move though a slot is free, or all its holders run for too long."""
    for one in seen.semaphores:
        if one.head_since is None:
            continue
        row, waited = one.row, seen.ago(one.head_since)
        free = row.capacity - row.held
        if row.capacity == 0 or waited < limits.semaphore_soon or (free <= 0 and not _stuck(seen, one, limits)):
            continue
        why = f"{number(free, 'slot')} of it {'is' if free == 1 else 'are'} free" if free > 0 else "its holders hang"
        now = waited >= limits.semaphore_now
        limit = limits.semaphore_now if now else limits.semaphore_soon
        yield Found(
            f"semaphore:{row.name}",
            Alert(
                *("now" if now else "soon", "semaphore", "semaphore", row.name),
                f"The line of {row.name} does not move: {number(row.waiting, 'job')} wait, the first for "
                f"{spelled(waited)}, and {why}.",
                value=waited,
                limit=limit,
                unit="seconds",
                since=moment(one.head_since + int(limit * SECOND)),
                actions=(Action("See who holds it and who waits", command("semaphores", row.name)),),
            ),
        )


def _stuck(seen: Snapshot, one: SemaphoreSample, limits: Thresholds) -> bool:
    """Return True if all holders that are known run for longer than their bands allow."""
    return bool(one.holders) and all(
        holder.started_at is not None
        and seen.ago(holder.started_at) >= limits.levels[band_of(holder.priority).name].max_run
        for holder in one.holders
    )


def missed_tick(seen: Snapshot, limits: Thresholds) -> Iterator[Found]:
    """A tick of a schedule is over, and no worker has fired it."""
    for one in seen.schedules:
        if one.tick is None or (late := seen.ago(one.tick)) < limits.missed_tick:
            continue
        why = "no live worker fires it" if one.declared else "no code of a live worker has it any more"
        yield Found(
            f"schedule:{one.name}",
            Alert(
                *("soon", "missed-tick", "schedule", one.name),
                f"{one.name} missed its tick {spelled(late)} ago: {why}.",
                value=late,
                limit=limits.missed_tick,
                unit="seconds",
                since=moment(one.tick),
                actions=(
                    Action("Start a worker of the app that declares it", "stanchion worker MODULE:APP"),
                    Action("If it is gone for good", command("cron remove", one.name)),
                ),
            ),
        )


def purge(seen: Snapshot, limits: Thresholds) -> Iterator[Found]:
    """Finished jobs are kept for longer than their retention."""
    for one in seen.overdue:
        behind = seen.ago(one.finished_at) - one.history_ttl
        if behind < limits.purge:
            continue
        yield Found(
            "purge",
            Alert(
                *("soon", "purge", "queue", one.queue),
                f"History of {one.queue} is deleted {spelled(behind)} late, the limit is {spelled(limits.purge)}.",
                value=behind,
                limit=limits.purge,
                unit="seconds",
                since=moment(one.finished_at + int((one.history_ttl + limits.purge) * SECOND)),
                actions=(Action("Delete it faster than workers do", "stanchion maintain --every 1s"),),
            ),
        )

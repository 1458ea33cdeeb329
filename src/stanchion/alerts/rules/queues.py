"""Rules about queues: no live worker, age, a paused queue that grows."""

from __future__ import annotations

from collections.abc import Iterator

from stanchion.alerts.records import Action, Alert
from stanchion.alerts.rules.finding import Found, of_queue
from stanchion.alerts.snapshot import QueueSample, Snapshot
from stanchion.alerts.thresholds import Thresholds
from stanchion.alerts.words import command, number
from stanchion.context.queues.pauses import Pause
from stanchion.core.service_levels import BANDS, Band
from stanchion.core.text.durations import spelled
from stanchion.core.times import moment
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.queues import Head
from stanchion.stores.rules.leases.serving import unserved

_URGENT = frozenset(band.name for band in BANDS[:2])


def no_worker(seen: Snapshot, limits: Thresholds) -> Iterator[Found]:
    """A queue has claimable jobs, and no live worker takes them. Consumers without heartbeats show by running jobs.

    A stream's queue takes a driver and no worker: the rule of streams covers it.
    """
    for queue in (one for one in _worked(seen) if one.settings.name not in seen.streamed):
        due = [(band, head) for band, head in seen.due(queue) if not _is_served(seen, queue, head)]
        if not due:
            continue
        band, oldest = _oldest(due)
        age = -oldest.due_in / SECOND
        if age < limits.no_worker:
            continue
        name, ready = queue.settings.name, queue.stats.states.ready
        lanes = "" if name not in seen.serving else " for some of its lanes"
        yield Found(
            of_queue(name),
            Alert(
                *("now", "no-worker", "queue", name),
                f"{name} has no live worker{lanes}: {number(ready, 'job')} can run, the oldest for {spelled(age)}.",
                value=age,
                limit=limits.no_worker,
                unit="seconds",
                band=band.name,
                since=moment(oldest.run_at),
                actions=(Action("Start a worker that takes it", command("worker MODULE:APP --queues", name)),),
            ),
        )


def age(seen: Snapshot, limits: Thresholds) -> Iterator[Found]:
    """The oldest claimable job of a band is due for longer than its limit; running and future jobs don't count."""
    for queue in _worked(seen):
        name = queue.settings.name
        late = [(band, head) for band, head in seen.due(queue) if _age(head) >= limits.of(name, band.name).max_age]
        for band in {one for one, _ in late}:
            _, oldest = _oldest([one for one in late if one[0] == band])
            age, limit = _age(oldest), limits.of(name, band.name).max_age
            urgent = band.name in _URGENT or age >= limits.age_now * limit
            yield Found(
                of_queue(name),
                Alert(
                    *("now" if urgent else "soon", "age", "queue", name),
                    f"{name} falls behind: its oldest {_spoken(band)} job could have run {spelled(age)} ago, the limit "
                    f"is {spelled(limit)}.",
                    value=age,
                    limit=limit,
                    unit="seconds",
                    band=band.name,
                    since=moment(oldest.run_at + int(limit * SECOND)),
                    evidence=(f"{number(queue.stats.states.ready, 'job')} can run, {_running(queue)}.",),
                    actions=(
                        Action("See the jobs that wait", command("jobs --state ready --queue", name)),
                        *_faster(seen, name),
                    ),
                ),
            )


def _faster(seen: Snapshot, queue: str) -> Iterator[Action]:
    """Yield what helps a queue that falls behind: workers, or what its stream needs."""
    if queue not in seen.streamed:
        yield Action("Add workers", command("worker MODULE:APP --queues", queue))
        return
    if not any(one.queue == queue for one in seen.streams):
        return  # the rule of streams explains how to start one
    yield Action("See the stream that reads it", "stanchion streams")
    if any(one.live for one in seen.streams if one.queue == queue):
        yield Action("Give its query more cores, and higher options partitions and maxRecordsPerBatch")


def paused(seen: Snapshot, limits: Thresholds) -> Iterator[Found]:
    """A paused queue gets jobs. It replaces the rule of age there."""
    for queue in seen.queues:
        name, came = queue.settings.name, seen.arrivals.get(queue.settings.name, 0)
        due = list(seen.due(queue))
        if not queue.settings.paused or not due or not came:
            continue
        band, oldest = _oldest(due)
        age, pause = _age(oldest), seen.pauses.get(name)
        said = () if pause is None else (_told(pause, seen.ago(pause.at)),)
        urgent = age >= limits.paused_now and (pause is None or not pause.note)
        yield Found(
            of_queue(name),
            Alert(
                *("now" if urgent else "soon", "paused", "queue", name),
                f"{name} is paused and grows: {number(queue.stats.states.ready, 'job')} can run, the oldest for "
                f"{spelled(age)}.",
                value=age,
                limit=limits.paused_now,
                unit="seconds",
                band=band.name,
                since=moment(oldest.run_at),
                evidence=(f"{number(came, 'job')} came in the last 5 min.", *said),
                actions=(Action("Hand out its jobs again", command("resume", name)),),
            ),
        )


def _told(pause: Pause, seconds: float) -> str:
    """Return who paused a queue, and why, as a sentence."""
    note = f": “{pause.note}”" if pause.note else ", without a note."
    return f"{pause.who or 'Someone'} paused it {spelled(seconds)} ago{note}"


def _worked(seen: Snapshot) -> Iterator[QueueSample]:
    """Yield the queues that someone should work on: neither paused, nor for dead letters."""
    letters = seen.letter_queues
    for queue in seen.queues:
        if not queue.settings.paused and queue.settings.name not in letters:
            yield queue


def _is_served(seen: Snapshot, queue: QueueSample, head: Head) -> bool:
    name = queue.settings.name
    if name not in seen.divided:
        return name in seen.serving or queue.stats.states.running > 0
    lane = max(0, head.lane)
    return not any(first <= lane <= last for first, last in unserved(queue.settings, [lane], seen.workers, seen.at))


def _oldest(due: list[tuple[Band, Head]]) -> tuple[Band, Head]:
    """Return the most urgent band, and the job that has been due for longest."""
    band = min((band for band, _ in due), key=BANDS.index)
    return band, min((head for _, head in due), key=lambda head: head.due_in)


def _age(head: Head) -> float:
    return -head.due_in / SECOND


def _running(queue: QueueSample) -> str:
    running = queue.stats.states.running
    return f"{number(running, 'job')} {'runs' if running == 1 else 'run'}"


def _spoken(band: Band) -> str:
    return band.name.replace("_", "-")

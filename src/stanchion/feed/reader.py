"""Reads the events of a feed, look by look, and remembers which it has delivered.

A look reads the events after `position.after`. Those that are settled, so that none can appear before them any more,
move the position; the others are read again by the next look, and `_delivered` tells which of them are new.

    position.after          settled                       now
    ───────┼───────────────────┼────────────────────────────┼──►  time, by the store's clock
    read   │ read for the last │ read again: a transaction  │
    before │ time              │ may be open                │
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from stanchion.core.times import moment
from stanchion.feed.event import FeedEvent, Kind, Position
from stanchion.feed.horizon import Settled
from stanchion.feed.sources import (
    Period,
    Seen,
    Selection,
    Source,
    deaths,
    letters_query,
    made_at,
    pushes,
    starts_and_ends,
)
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND, JobState
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.records.queues import QueueSettings

CHUNK = 5000
"""Events that are sorted and delivered together."""
DELIVERED_MAX = 100_000
"""Delivered events that are remembered; beyond that the feed delivers only what is settled."""

_SLICE_FROM_MICROS = 5 * SECOND
_SLICE_MICROS_MIN = SECOND // 10
_SETTINGS_SECONDS = 2.0
_LONG_LOOK_SECONDS, _LONG_LOOKS_APART = 0.25, 8
_AGAIN_MICROS = 2 * SECOND
_NOW = Query(
    "live",
    (Condition("queue", "=", "-"), Condition("id", "=", "")),
    order="id",
    limit=1,
    columns=("id",),
    horizon=True,
)
"""Finds nothing, and reads the horizon."""


class Found(NamedTuple):
    """An event that a look has found. `at` comes first: events are delivered in its order."""

    at: int
    rank: int
    kind: Kind
    job: Seen


class TooManyEvents(Exception):
    """A period with an end has more events than are delivered together."""


Key = tuple[Kind, int, str]
"""The kind of an event, its time, and the id of its job."""


class Reader:
    """Reads the events of a selection from a position on."""

    def __init__(self, store: Store, wanted: Selection, start: Position, overlap: int, skew: int) -> None:
        self._store, self._wanted, self._skew = store, wanted, skew
        self.position = start
        self._start = start.after
        self._settled = Settled(start.after, overlap)
        self._delivered: set[Key] = set()
        self._running: dict[str, int] = {}
        """Delivered starts of jobs whose end was not delivered, by id."""
        self._names: tuple[str, ...] = wanted.queues or ()
        self._letter_queues: tuple[str, ...] = ()
        self._settings: list[QueueSettings] = []
        self._settings_at = self._whole_at = self._clock_at = float("-inf")
        self._whole_took = 0.0
        self._now = 0
        self._slice = SECOND
        self._complete_until = start.after
        """The time up to which some look has read everything that was visible then."""
        self._told_gaps: set[str] = set()
        self.reads = 0
        """Statements of the last look."""
        self.behind = False
        """There is more to read at once."""

    @property
    def names(self) -> tuple[str, ...]:
        """The queues that are read; those known so far if all are wanted."""
        return self._names

    def look(self) -> Iterator[list[FeedEvent]]:
        """Yield the new events, in chunks; the position moves once all were taken."""
        self.reads = 0
        if self._clock_at == float("-inf"):
            self._read(_NOW)
        if gaps := self._gaps():
            yield gaps
        ripe = self._settled.at - self.position.after
        if ripe > _SLICE_FROM_MICROS or self._full:
            if self._full:
                self._read(_NOW)
            yield from self._slices()
        else:
            yield from self._latest()

    # -- looks

    @property
    def _full(self) -> bool:
        return len(self._delivered) > DELIVERED_MAX

    def _slices(self) -> Iterator[list[FeedEvent]]:
        """Deliver one slice of what is settled; its events appear in it for the last time."""
        begin = self.position.after
        while True:
            end = min(begin + self._slice, self._settled.at)
            self.behind = end > begin  # then the next slice, or what is not settled
            if not self.behind:
                return
            number = 0
            try:
                for chunk in self._events(Period(begin, end, self._skew, end), end):
                    number += len(chunk)
                    yield chunk
            except TooManyEvents:
                self._slice = max(_SLICE_MICROS_MIN, (end - begin) // 4)
                continue
            if number < CHUNK // 4:
                self._slice *= 2
            self._move(end)
            return

    def _latest(self) -> Iterator[list[FeedEvent]]:
        """Deliver all that is visible now."""
        began, self.behind = time.monotonic(), False
        apart = _LONG_LOOKS_APART * self._whole_took
        whole = self._whole_took < _LONG_LOOK_SECONDS or began - self._whole_at >= apart
        now = self._estimated_now()
        if whole:
            yield from self._events(Period(self.position.after, None, self._skew, now), None)
            self._whole_at, self._whole_took = began, time.monotonic() - began
            self._move(self._settled.at)
        else:  # the part of the period where most events appear
            recent = max(self.position.after, self._complete_until - _AGAIN_MICROS)
            yield from self._events(Period(recent, None, min(self._skew, _AGAIN_MICROS), now), self.position.after)
        self._complete_until = now

    def _move(self, after: int) -> None:
        """Move the position: all events up to it were delivered."""
        if after > self.position.after:
            self.position = self.position._replace(after=after)
            self._complete_until = max(self._complete_until, after)
            self._delivered = {one for one in self._delivered if one[1] > after}

    def _moved(self) -> int:
        return int(self._store.clock_offset * SECOND)

    def _estimated_now(self) -> int:
        return self._now + int((time.monotonic() - self._clock_at) * SECOND)

    # -- events

    def _events(self, period: Period, complete_until: int | None) -> Iterator[list[FeedEvent]]:
        """Yield the new events of a period, in order if they are few, else chunk by chunk.

        `complete_until`: the time up to which the position may follow the events; None: what is settled by then. Raises
        TooManyEvents for a period that should be divided; none of its events is delivered then.
        """
        found: dict[Key, Found] = {}
        split = False
        for source, jobs in self._jobs(period):
            found |= self._new(source, jobs, period)
            if len(found) >= CHUNK:
                if not split and period.until is not None and period.until - period.after > _SLICE_MICROS_MIN:
                    raise TooManyEvents
                split = True
                yield self._chunk(found, period, self.position.after)
                found = {}
        until = self._settled.at if complete_until is None else complete_until
        if found:
            yield self._chunk(found, period, self.position.after if split else until)

    def _jobs(self, period: Period) -> Iterator[tuple[Source, list[Seen]]]:
        """Yield the jobs with events in a period, page by page. The horizon is read first."""
        first = pushes(self._wanted, period, self._moved()) if "pushed" in self._wanted.kinds else _NOW
        for page in self._pages(replace(first, horizon=True)):
            yield "pushes", [Seen(*row) for row in page]
        if self._wanted.queues is None:
            # A queue is made before its first job is visible. So all queues with settled events are among these.
            self._read_settings()
        for source, query in starts_and_ends(self._wanted, self._names, period) if self._names else ():
            for page in self._pages(query):
                yield source, [Seen(*row) for row in page]
        if self._letter_queues and "finished" in self._wanted.kinds:
            for page in self._pages(letters_query(self._wanted, self._letter_queues, period)):
                yield "deaths", list(deaths(page, self._names))

    def _pages(self, query: Query) -> Iterator[list[tuple[Any, ...]]]:
        after: str | None = None
        while True:
            rows, after = self._read(replace(query, after=after, horizon=query.horizon and after is None))
            if rows:
                yield rows
            if after is None:
                return

    def _read(self, query: Query) -> tuple[list[tuple[Any, ...]], str | None]:
        self.reads += 1 + query.horizon
        page = self._store.select(query)
        if page.horizon is not None:
            self._now, self._clock_at = page.horizon.now, time.monotonic()
            self._settled.move(page.horizon)
        return page.rows, page.next

    def _new(self, source: Source, jobs: Iterable[Seen], period: Period) -> dict[Key, Found]:
        """Return the events of these jobs that were not delivered yet."""
        events = (event for job in jobs for event in self._of(source, job, period))
        keys = (((event.kind, event.at, event.job.id), event) for event in events if event.kind in self._wanted.kinds)
        return {key: event for key, event in keys if key not in self._delivered}

    def _of(self, source: Source, job: Seen, period: Period) -> Iterator[Found]:
        """Yield the events of a job in a period, and those that could not be found in an earlier one."""
        if source == "pushes":
            yield Found(job.enqueued_at, 0, "pushed", job)
            return
        # Tests move the clock of the store, and not that of the ids.
        off = abs(made_at(job.id) - job.enqueued_at), abs(made_at(job.id) + self._moved() - job.enqueued_at)
        strange = min(off) > self._skew
        if source == "ends" and strange and job.enqueued_at > self.position.origin:
            yield Found(job.enqueued_at, 0, "pushed", job)
        fresh = source == "running" or (source == "ends" and (job.started_at or 0) > self._start)
        if fresh and job.started_at is not None and self._running.get(job.id) != job.started_at:
            yield Found(job.started_at, 1, "started", job)
        if job.finished_at is not None and period.contains(job.finished_at):
            yield Found(job.finished_at, 2, "finished", job)

    def _remember(self, found: Mapping[Key, Found], period: Period) -> None:
        """Remember that these events are delivered; those of a period with an end are not read again."""
        if period.until is None:
            self._delivered.update(found)
        for kind, at, job_id in found:
            if kind == "started" and found[kind, at, job_id].job.finished_at is None:
                self._running[job_id] = at
                if len(self._running) > DELIVERED_MAX:
                    del self._running[next(iter(self._running))]
            elif kind == "finished":
                self._running.pop(job_id, None)

    def _chunk(self, found: Mapping[Key, Found], period: Period, until: int) -> list[FeedEvent]:
        """Return events in their order, as delivered; each has the position after it, at most `until`."""
        self._remember(found, period)
        ordered = sorted(found.values(), key=lambda one: (one.at, one.rank, one.job.id))
        events = []
        for one, following in zip(ordered, [*ordered[1:], None], strict=True):
            # Of events of one time, only the last leaves nothing behind.
            alone = following is None or following.at > one.at
            reached = min(until, one.at if alone else one.at - 1)
            position = self.position._replace(after=max(self.position.after, reached))
            events.append(_event(one, str(position)))
        return events

    # -- queues

    def _read_settings(self) -> None:
        self.reads += 1
        self._settings_at = time.monotonic()
        self._settings = self._store.queues(self._wanted.queues)
        if self._wanted.queues is None:
            self._names = tuple(one.name for one in self._settings)
        targets = {one.dead_letter for one in self._settings if one.dead_letter != one.name}
        self._letter_queues = tuple(sorted(name for name in targets if name is not None))

    def _gaps(self) -> list[FeedEvent]:
        """Return the events for queues that keep too short a history. Their settings are read from time to time."""
        if time.monotonic() - self._settings_at >= _SETTINGS_SECONDS:
            self._read_settings()
        return [event for one in self._settings if (event := self._gap(one)) is not None]

    def _gap(self, queue: QueueSettings) -> FeedEvent | None:
        """Return the event for a queue whose history does not reach back to the last look, once."""
        kept_from = self._estimated_now() - int(queue.history_ttl * SECOND)
        if kept_from <= max(self.position.after, self._complete_until):
            self._told_gaps.discard(queue.name)
            return None
        if queue.name in self._told_gaps:
            return None
        self._told_gaps.add(queue.name)
        return FeedEvent("gap", queue.name, moment(kept_from), str(self.position))


def _event(found: Found, position: str) -> FeedEvent:
    job = found.job
    attempt = 0 if found.kind == "pushed" else job.attempts
    return FeedEvent(
        found.kind, job.queue, moment(found.at), position, job.id, _state(found), attempt, job.task, job.tenant
    )


def _state(found: Found) -> JobState:
    """Return the state of a job right after an event."""
    job = found.job
    match found.kind:
        case "finished":
            return JobState(job.state)
        case "started":
            return JobState.RUNNING
    if job.state == JobState.WAITING:
        return JobState.WAITING
    return JobState.SCHEDULED if job.run_at > job.enqueued_at else JobState.READY

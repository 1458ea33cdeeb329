"""Reads the events of a feed, look by look, and remembers which it has delivered.

A poll reads the events after `position.after`. Settled events, before which no event can appear any more, advance the
position; the next poll reads the others again, and `_delivered` identifies the new ones.

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

from stanchion.core.ids import first_id_at
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
"""Events that are sorted and delivered together; more only come out of order if they are not settled."""
DELIVERED_MAX = 100_000
"""Maximum number of delivered events remembered; beyond that the feed delivers only settled events."""

_SLICE_FROM_MICROS = 5 * SECOND
_SLICE_MICROS_MIN = SECOND // 10
_SETTINGS_SECONDS = 2.0
_LONG_LOOK_SECONDS, _LONG_LOOKS_APART = 0.25, 8
_AGAIN_MICROS = 2 * SECOND
_PUSHED, _STARTED, _FINISHED, _DIED = range(4)
"""Ranks: the order of the events of one time. Ends are found in the order of time, dead letters after them."""
NOW = Query(
    "live",
    (Condition("queue", "=", "-"), Condition("id", "=", first_id_at(0))),
    order="id",
    limit=1,
    columns=("id",),
    horizon=True,
)
"""Finds nothing, and reads the horizon."""


class Found(NamedTuple):
    """An event found by a poll, with its time. `found_by`: the time that the poll reads by, of the event or the end.

    Events are delivered in order of time and rank. Events with equal time and rank are found in order of ids.
    """

    at: int
    rank: int
    kind: Kind
    job: Seen
    found_by: int


class TooManyEvents(Exception):
    """A period with an end has more events than are delivered together; half of them may come before `middle`."""

    def __init__(self, middle: int) -> None:
        super().__init__(middle)
        self.middle = middle


Key = tuple[Kind, int, str]
"""The kind of an event, its time, and the id of its job."""


class Reader:
    """Reads the events of a selection from a position on."""

    def __init__(self, store: Store, wanted: Selection, start: Position, overlap: int, skew: int) -> None:
        self._store, self._wanted, self._skew = store, wanted, skew
        self.position = self._start = self._reached_last = start
        self._settled = Settled(start.after, overlap)
        self._delivered: dict[Key, int] = {}
        """Delivered events that a later poll may find again, each with the time that the poll reads by."""
        self._running: dict[str, int] = {}
        """Delivered starts of jobs whose end was not delivered, by id."""
        self._by_name = wanted.queues is not None and not wanted.queues.open
        """All queues are given by their names, so that no other one comes."""
        self._names: tuple[str, ...] = wanted.queues.given if wanted.queues is not None and self._by_name else ()
        self._settings: list[QueueSettings] = []
        self._has_letters = False
        self._settings_at = self._whole_at = self._clock_at = float("-inf")
        self._whole_took = 0.0
        self._now = self._ids_until = 0
        self._slice = SECOND
        self._complete_until = start.after
        """The time up to which some poll has read all events visible then."""
        self._told_gaps: set[str] = set()
        self.reads, self.seconds = 0, 0.0
        """Statements of the last look, and the time that they took."""
        self.behind = False
        """There is more to read immediately."""

    @property
    def names(self) -> tuple[str, ...]:
        """The queues that are read; those known so far if all are wanted."""
        return self._names

    def look(self) -> Iterator[list[FeedEvent]]:
        """Yield the new events, in chunks; the position moves once all were taken."""
        self.reads, self.seconds = 0, 0.0
        if self._clock_at == float("-inf"):
            self._read(NOW)
        if gaps := self._gaps():
            yield gaps
        ripe = self._settled.at - self.position.after
        if ripe > _SLICE_FROM_MICROS or self._full:
            if self._full:
                self._read(NOW)
            yield from self._slices()
        else:
            yield from self._latest()

    # -- looks

    @property
    def _full(self) -> bool:
        return len(self._delivered) > DELIVERED_MAX

    def _slices(self) -> Iterator[list[FeedEvent]]:
        """Deliver one slice of the settled time, whose events are read for the last time."""
        begin = self.position.after
        end = min(begin + self._slice, self._settled.at)
        while end > begin:
            self._ids_until, number = end, 0
            try:
                for chunk in self._events(Period(begin, end, self._skew, end)):
                    number += len(chunk)
                    yield chunk
            except TooManyEvents as many:
                self._slice = max(_SLICE_MICROS_MIN, self._slice // 4)
                end = max(begin + 1, many.middle - 1)
                continue
            if number < CHUNK // 4:
                self._slice *= 2
            self._move(end)
            break
        self.behind = end > begin  # then the next slice, or the unsettled events

    def _latest(self) -> Iterator[list[FeedEvent]]:
        """Deliver all that is visible now."""
        began, self.behind = time.monotonic(), False
        apart = _LONG_LOOKS_APART * self._whole_took
        whole = self._whole_took < _LONG_LOOK_SECONDS or began - self._whole_at >= apart
        now = self._estimated_now()
        if whole:
            self._ids_until = now
            yield from self._events(Period(self.position.after, None, self._skew, now))
            self._whole_at, self._whole_took = began, self.seconds
            self._move(self._complete)
            # After a clock step, or a sleep of this computer, the poll did not reach as far as it should have.
            self.behind = self._settled.at - self._complete > SECOND
        else:  # the part of the period where most events appear
            self._ids_until = self.position.after
            recent = max(self.position.after, self._complete_until - _AGAIN_MICROS)
            yield from self._events(Period(recent, None, min(self._skew, _AGAIN_MICROS), now))
        self._complete_until = now

    @property
    def _complete(self) -> int:
        """The time up to which this poll finds all events, and no more can appear."""
        return min(self._settled.at, self._ids_until)

    def _move(self, after: int) -> None:
        """Move the position: all events up to it were delivered."""
        if after > self.position.after:
            self.position = Position(after, self.position.origin)
            self._complete_until = max(self._complete_until, after)
            self._delivered = {one: found_by for one, found_by in self._delivered.items() if found_by > after}

    def _moved(self) -> int:
        return int(self._store.clock_offset * SECOND)

    def _estimated_now(self) -> int:
        return self._now + int((time.monotonic() - self._clock_at) * SECOND)

    # -- events

    def _events(self, period: Period) -> Iterator[list[FeedEvent]]:
        """Yield the new events of a period, in order if they are few, else chunk by chunk.

        Raises TooManyEvents for a period that can be divided, and then delivers no event of it.
        """
        found: dict[Key, Found] = {}
        in_order, one_tick = True, period.until == period.after + 1
        for source, jobs in self._jobs(period):
            found |= self._new(source, jobs, period)
            if len(found) >= CHUNK:
                if period.until is not None and not one_tick:
                    raise TooManyEvents(sorted(one.found_by for one in found.values())[CHUNK // 2])
                in_order = one_tick  # the events of one microsecond are found in their order
                yield self._chunk(found, period, self._complete if in_order else self.position.after)
                found = {}
        if found:
            yield self._chunk(found, period, self._complete if in_order else self.position.after, last=True)

    def _jobs(self, period: Period) -> Iterator[tuple[Source, list[Seen]]]:
        """Yield the jobs with events in a period, page by page. The horizon is read first."""
        by_pattern = self._wanted.queues is not None and not self._by_name
        if by_pattern:
            # A queue is made before its first job is visible. So all queues with settled events are read after this.
            self._read(NOW)
            self._read_settings()
            if not self._names:
                return
        names = () if self._wanted.queues is None else self._names
        first = pushes(self._wanted, names, period, self._moved()) if "pushed" in self._wanted.kinds else NOW
        for page in self._pages(replace(first, horizon=not by_pattern)):
            yield "pushes", [Seen(*row) for row in page]
        if self._wanted.queues is None:
            self._read_settings()  # after the horizon too
        for source, query in starts_and_ends(self._wanted, self._names, period) if self._names else ():
            for page in self._pages(query):
                yield source, [Seen(*row) for row in page]
        if self._has_letters and "finished" in self._wanted.kinds:
            for page in self._pages(letters_query(self._wanted, period)):
                yield "deaths", list(deaths(page, self._names))

    def _pages(self, query: Query) -> Iterator[list[tuple[Any, ...]]]:
        after: str | None = None
        while True:
            rows, after = self._read(replace(query, after=after, horizon=query.horizon and after is None))
            if rows:
                yield rows
            if after is None:
                return

    def _read(self, query: Query) -> tuple[list[tuple[object, ...]], str | None]:
        self.reads += 1 + query.horizon
        began = time.monotonic()
        page = self._store.select(query)
        self.seconds += time.monotonic() - began
        if page.horizon is not None:
            self._now, self._clock_at = page.horizon.now, time.monotonic()
            self._settled.move(page.horizon)
        return page.rows, page.next

    def _new(self, source: Source, jobs: Iterable[Seen], period: Period) -> dict[Key, Found]:
        """Return the events of these jobs that were not delivered yet."""
        events = (event for job in jobs for event in self._of(source, job, period))
        keys = (((event.kind, event.at, event.job.id), event) for event in events if event.kind in self._wanted.kinds)
        return {key: event for key, event in keys if key not in self._delivered and not self._before_start(event)}

    def _before_start(self, event: Found) -> bool:
        """Return whether the feed that this one continues has delivered an event of its last microsecond.

        Starts are delivered again, as they are not found in order.
        """
        at_once = event.at == event.found_by == self._start.after + 1 and event.rank != _STARTED
        return at_once and self._start.covers(event.at, event.rank, event.job.id)

    def _of(self, source: Source, job: Seen, period: Period) -> Iterator[Found]:
        """Yield the events of a job in a period, and events that an earlier period could not find."""
        if source == "pushes":
            yield Found(job.enqueued_at, _PUSHED, "pushed", job, job.enqueued_at)
            return
        found_by = job.finished_at or job.started_at or 0
        # Tests move the store's clock, but not the clock of the ids.
        off = abs(made_at(job.id) - job.enqueued_at), abs(made_at(job.id) + self._moved() - job.enqueued_at)
        strange = min(off) > self._skew
        if source == "ends" and strange and job.enqueued_at > self.position.origin:
            yield Found(job.enqueued_at, _PUSHED, "pushed", job, found_by)
        fresh = source == "running" or (source == "ends" and (job.started_at or 0) > self.position.origin)
        if fresh and job.started_at is not None and self._running.get(job.id) != job.started_at:
            yield Found(job.started_at, _STARTED, "started", job, found_by)
        if job.finished_at is not None and period.contains(job.finished_at):
            yield Found(job.finished_at, _DIED if source == "deaths" else _FINISHED, "finished", job, found_by)

    def _remember(self, found: Mapping[Key, Found], period: Period) -> None:
        """Remember that these events are delivered; events of a period with an end are not read again."""
        delivered = {key: event.found_by for key, event in found.items()}
        for kind, at, job_id in found:
            if kind == "started" and found[kind, at, job_id].job.finished_at is None:
                self._running[job_id] = at
                if len(self._running) > DELIVERED_MAX:
                    del self._running[next(iter(self._running))]
            elif kind == "finished" and (started_at := self._running.pop(job_id, None)) is not None:
                delivered["started", started_at, job_id] = at
        if period.until is None:
            self._delivered |= delivered

    def _chunk(self, found: Mapping[Key, Found], period: Period, until: int, *, last: bool = False) -> list[FeedEvent]:
        """Return events in their order, as delivered; each has the position after it, at most `until`.

        `last`: no other event of the period follows.
        """
        self._remember(found, period)
        ordered = sorted(found.values(), key=lambda one: (one.at, one.rank, one.job.id))
        events, position = [], max(self.position, self._reached_last)
        for one, following in zip(ordered, [*ordered[1:], None], strict=True):
            ends_its_time = last if following is None else following.at > one.at
            reached = self._reached(one, until, ends_its_time=ends_its_time)
            position = max(position, reached)
            events.append(_event(one, str(position)))
        self._reached_last = position
        return events

    def _reached(self, one: Found, until: int, *, ends_its_time: bool) -> Position:
        """Return the position after an event and all before it, complete up to `until`."""
        origin = self.position.origin
        if one.at > until:
            return Position(until, origin)
        return Position(one.at, origin) if ends_its_time else Position(one.at - 1, origin, one.rank, one.job.id)

    # -- queues

    def _read_settings(self) -> None:
        self.reads += 1
        self._settings_at = time.monotonic()
        self._settings = self._store.queues(self._names if self._by_name else None)
        if not self._by_name:
            known, wanted = [one.name for one in self._settings], self._wanted.queues
            self._names = tuple(known if wanted is None else wanted.among(known))
            self._settings = [one for one in self._settings if wanted is None or one.name in self._names]
        self._has_letters = any(one.dead_letter not in (None, one.name) for one in self._settings)

    def _gaps(self) -> list[FeedEvent]:
        """Return the events for queues that keep too short a history. Their settings are read from time to time."""
        if time.monotonic() - self._settings_at >= _SETTINGS_SECONDS:
            self._read_settings()
        return [event for one in self._settings if (event := self._gap(one)) is not None]

    def _gap(self, queue: QueueSettings) -> FeedEvent | None:
        """Return the event for a queue whose history does not reach back to the last look, once."""
        kept_from = self._estimated_now() - int(queue.shortest_ttl * SECOND)
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

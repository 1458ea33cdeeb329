"""The trail of a job: the queues that it has passed, and the payloads that it had there.

A job that has not moved has none. A move writes [queue, entered_at, attempts, left] for the queue that it leaves, and
[queue, entered_at] for its next one. `left` is 0 if the job left with the payload of its arrival, 1 with another one, 2
as one of several jobs; the stops up to the last 2 belong to the job that it was split from. A part that was cut from a
chunk and stays in its queue repeats that stop, with its time. A trail of STOPS_MAX stops may lack some after the first
one. Partitions are named like their queue.

Where a queue keeps the payloads that arrive there, a job that has left it has them as a JSON object: by queue, when the
job came there, and the payload as text. A later visit takes the place of an earlier one, except at the queue where the
job entered, which keeps the payload of the entry.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from stanchion.core.names.partition_names import logical_name
from stanchion.core.values.framing import Content, as_content, as_text, items_in
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Passage
from stanchion.stores.rules.lifecycle.jobs import arrival_payload

STOPS_MAX: Final = 100
"""Stops kept of a trail: the first one, and the newest."""

UNCHANGED, CHANGED, SPLIT = 0, 1, 2

KEPT_MOST: Final = 3 << 20
"""Characters of the payloads that a job keeps: beyond, the ones that were kept first are dropped.

MongoDB stores a job as one document of at most 16 MiB, of which a chunk and its parts may take 12.
"""
KEPT_BYTES: Final = KEPT_MOST * 3 // 4
"""Maximum number of bytes of a payload that is kept for certain; as text, a chunk takes a third more."""

_Kept = dict[str, tuple[int, str]]


class Stop(NamedTuple):
    """A queue on the way of a job, and when it came there. `attempts` and `left` are None where the job is now."""

    queue: str
    entered_at: int
    attempts: int | None = None
    left: int | None = None


class Lasting(NamedTuple):
    """What the trail of a job follows from."""

    trail: str | None
    queue: str
    enqueued_at: int


def stops_of(row: JobRow | Lasting) -> list[Stop]:
    """Return the queues that a job has passed, oldest first; the last one is where it is.

    A trail that can't be read counts as none: a move must not fail by it.
    """
    try:
        stops = [] if row.trail is None else [Stop(*stop) for stop in json.loads(row.trail)]
    except (ValueError, TypeError, RecursionError):
        stops = []
    if not stops or stops[-1].left is not None:
        stops.append(Stop(logical_name(row.queue), row.enqueued_at))
    return stops


def own_stops_of(row: JobRow) -> list[Stop]:
    """Return the queues that a job has passed since it was pushed, or split from another."""
    return _own(stops_of(row))


def arrivals_of(row: JobRow) -> list[Stop]:
    """Return the queues where a job arrived itself: not that where it was cut from a chunk, which had arrived there."""
    whole = stops_of(row)
    own = _own(whole)
    before = whole[: len(whole) - len(own)]
    if not before or not _is_same_visit(before[-1], own[0]):
        return own
    return [stop for stop in own if stop.queue != own[0].queue]


def was_split(row: JobRow) -> bool:
    """Return True if a job was split from another one, its `origin`."""
    return len(own_stops_of(row)) < len(stops_of(row))


def passed(row: JobRow, queue: str) -> bool:
    """Return True if a job is in this queue, or has passed it."""
    return row.queue == queue or (row.trail is not None and entry_in_trail(queue) in row.trail)


def entry_in_trail(queue: str) -> str:
    """Return the text that begins each stop at a queue in a trail; it occurs nowhere else there."""
    return f"[{_dumps(queue)},"


def moved_job(
    row: JobRow, queue: str, now: int, payload: Content, *, keep_entry: bool = False, keep_arrival: bool = False
) -> JobRow:
    """Return a job after a move to a queue with a payload.

    `keep_entry`: if this is the first change of the payload, keep the one with which the job entered its first
    queue. `keep_arrival`: keep the one with which it came to the queue that it leaves.
    """
    came_with = arrival_payload(row)
    passage = Passage(queue, payload != came_with, came_with if keep_arrival else None)
    return passed_job(row, (passage,), now, payload, keep_entry=keep_entry)


class Moved(NamedTuple):
    """The trail of a job after a move. `first`: with its payload of before, no move has changed it."""

    text: str
    first: bool


@lru_cache(maxsize=256)
def moved_trail(row: Lasting, attempts: int, queue: str, now: int, *, changed: bool) -> Moved:
    """Return the trail of a job after a move; jobs that were pushed and claimed together mostly have the same.

    `changed`: it leaves with another payload.
    """
    stops = stops_of(row)
    first = not _changes(_own(stops))
    stops[-1] = stops[-1]._replace(attempts=attempts, left=CHANGED if changed else UNCHANGED)
    return Moved(_text(_bounded([*stops, Stop(logical_name(queue), now)])), first)


def passed_job(row: JobRow, passages: Iterable[Passage], now: int, payload: Content, *, keep_entry: bool) -> JobRow:
    """Return a job after it has passed queues in one attempt, each as by a move; `payload`: in the last one.

    `keep_entry`: see `moved_job`.
    """
    came_with, entry, queue = arrival_payload(row), row.entry_payload, row.queue
    stops, attempts, kept_payloads = stops_of(row), row.attempts, row.kept_payloads
    for queue, changed, kept in passages:
        own, here = _own(stops), stops[-1]
        if changed and keep_entry and not _changes(own):
            entry = came_with
        if kept is not None:
            kept_payloads = with_kept(kept_payloads, here.queue, here.entered_at, kept, own[0].entered_at)
        stops[-1] = stops[-1]._replace(attempts=attempts, left=CHANGED if changed else UNCHANGED)
        stops.append(Stop(logical_name(queue), now))
        attempts = 1
    return row._replace(
        queue=queue,
        payload=payload,
        items=items_in(payload),
        arrival_payload=None,
        trail=_text(_bounded(stops)),
        entry_payload=entry,
        kept_payloads=kept_payloads,
    )


def trail_to(row: JobRow, queue: str, now: int) -> str:
    """Return the trail of a job that goes to a queue with its work unchanged."""
    return _text(_bounded([*_left(row, UNCHANGED), Stop(logical_name(queue), now)]))


def split_trail(row: JobRow) -> str:
    """Return the trail of the jobs that a job is split into; each begins where it is stored."""
    return _text(_bounded(_left(row, SPLIT)))


def cut_trail(row: JobRow, *, left: bool = False) -> str:
    """Return the trail of the parts of a chunk that go on with its visit. `left`: they have left its queue since."""
    stops = _left(row, SPLIT)
    here = stops[-1]._replace(left=UNCHANGED) if left else Stop(*stops[-1][:2])
    return _text(_bounded([*stops, here]))


def arrived(trail: str, queue: str, now: int) -> str:
    """Return the trail of a part that comes to a queue now, though it counts as enqueued with its chunk."""
    return _text(_bounded([*(Stop(*stop) for stop in json.loads(trail)), Stop(logical_name(queue), now)]))


def payload_at(row: JobRow, queue: str) -> Content | None:
    """Return a job's payload on arrival in a queue, since it was pushed or split; None if unknown.

    For its first queue it is the payload of its entry, for others the one of its last visit.
    """
    whole = stops_of(row)
    stops = _own(whole)
    visits = [number for number, stop in enumerate(stops) if stop.queue == queue]
    if not visits:
        return None
    lacks_entry = len(whole) == STOPS_MAX and whole[0].left == SPLIT
    place = 0 if visits[0] == 0 and not lacks_entry else visits[-1]
    if not _changes(stops[place:]):
        return arrival_payload(row)
    if not lacks_entry and not _changes(stops[:place]) and row.entry_payload is not None:
        return row.entry_payload
    return kept_at(row.kept_payloads, queue, stops[place].entered_at)


def entry_payload(row: JobRow) -> Content | None:
    """Return a job's payload on entry to its first queue; None if it was not kept."""
    return payload_at(row, own_stops_of(row)[0].queue)


def _own(stops: list[Stop]) -> list[Stop]:
    return stops[max((number for number, stop in enumerate(stops, 1) if stop.left == SPLIT), default=0) :]


def _is_same_visit(one: Stop, other: Stop) -> bool:
    return one[:2] == other[:2]


def _changes(stops: list[Stop]) -> bool:
    return any(stop.left for stop in stops)


def _left(row: JobRow, how: int) -> list[Stop]:
    """Return the stops of a job that leaves its queue."""
    *before, here = stops_of(row)
    return [*before, here._replace(attempts=row.attempts, left=how)]


def _bounded(stops: list[Stop]) -> list[Stop]:
    """Drop the oldest stops but the first one, which takes on how the dropped ones were left."""
    first, *others = stops
    while len(others) >= STOPS_MAX:
        dropped = others.pop(0)
        first = first._replace(left=max(first.left or UNCHANGED, dropped.left or UNCHANGED))
        if dropped.left == SPLIT and others and _is_same_visit(dropped, others[0]):
            others.pop(0)
    return [first, *others]


def _text(stops: list[Stop]) -> str:
    return _dumps([stop if stop.left is not None else stop[:2] for stop in stops])


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def with_kept(kept: str | None, queue: str, came_at: int, payload: Content, entered_at: int) -> str | None:
    """Return the kept payloads of a job that leaves a queue. `entered_at`: when it came to its first queue."""
    found = _read(kept)
    if queue in found and found[queue][0] == entered_at != came_at:
        return kept
    found.pop(queue, None)
    found[queue] = came_at, as_text(payload)
    size = sum(len(text) for _, text in found.values())
    while size > KEPT_MOST:
        size -= len(found.pop(next(iter(found)))[1])
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")) if found else None


def kept_at(kept: str | None, queue: str, came_at: int) -> Content | None:
    """Return the payload with which a job came to a queue at this time; None if it was not kept."""
    there, text = _read(kept).get(queue, (None, ""))
    return as_content(text) if there == came_at else None


def are_kept(value: object) -> bool:
    """Return whether a JSON value is the kept payloads of a job."""
    return isinstance(value, dict) and all(
        isinstance(one, list) and list(map(type, one)) == [int, str] for one in value.values()
    )


def _read(kept: str | None) -> _Kept:
    """Return the kept payloads by queue, oldest first; none of a text that another program has stored."""
    try:
        found = {} if kept is None else json.loads(kept)
    except (ValueError, RecursionError):
        return {}
    return {queue: (at, text) for queue, (at, text) in found.items()} if are_kept(found) else {}

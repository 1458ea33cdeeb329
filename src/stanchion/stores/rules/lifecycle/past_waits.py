"""Finished waits of a job: slot, start and end.

A job that never waited has none. The write that ends a wait appends a line: [kind, queue, name, since, until] of the
slot, as JSON. The newest WAITS_MAX lines are kept; MORE, before the first one, marks that older ones were dropped.

A job deferred by its rate waits for that rate until the promised time. If it is deferred again, its wait continues
in a further line.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.slots import Slot
from stanchion.stores.rules.capacity.limits import limits_in
from stanchion.stores.rules.capacity.slots import promise_of, rate_slot

WAITS_MAX: Final = 10
"""Lines kept of a job's waits: the newest."""

MORE: Final = "+"
"""Prefix of the first line if older ones were dropped."""


class PastWait(NamedTuple):
    """A wait that is over: the slot, and from when to when the job waited for it."""

    slot: Slot
    since: int
    until: int


def past_waits_of(row: JobRow) -> list[PastWait]:
    """Return the waits of a job that are over, oldest first; none begins before the one before it has ended.

    Where a store claims in several steps, a job is parked with the time of the first step, as its place in the line
    needs it, and the wait before may have ended at a later step.
    """
    found: list[PastWait] = []
    for wait in filter(None, map(wait_in, lines_of(row))):
        if found and (found[-1].slot, found[-1].until) == (wait.slot, wait.since):
            found.append(found.pop()._replace(until=wait.until))
        elif found:
            found.append(wait._replace(since=min(wait.until, max(wait.since, found[-1].until))))
        else:
            found.append(wait)
    return found


def lines_of(row: JobRow) -> list[str]:
    """Return the lines of a job's waits that are over; JSON has no raw end of line."""
    return [line for line in (row.past_waits or "").removeprefix(MORE).split("\n") if line]


def wait_in(line: str) -> PastWait | None:
    """Return the wait of a line; None for a text that another program has stored."""
    try:
        parts = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(parts, list) or [type(part) for part in parts] != [str, str, str, int, int]:
        return None
    return PastWait(Slot(*parts[:3]), *parts[3:])


def has_older_waits(row: JobRow) -> bool:
    """Return True if a job has more past waits than were kept."""
    return (row.past_waits or "").startswith(MORE)


def last_wait_until(past_waits: str | None) -> int:
    """Return when the last wait of a job was over, from the lines of its row; 0 if it never waited."""
    last = wait_in(past_waits[:-1].rpartition("\n")[2]) if past_waits else None
    return 0 if last is None else last.until


def wait_over(row: JobRow, now: int) -> JobRow:
    """Return a job with its present wait, if any, added to the past ones; it is still parked.

    A job that its rate has deferred does not wait until the promised time any more.
    """
    slot, since = row.waits_for, row.waits_since
    if slot is not None and since is not None:
        return _with_wait(row, PastWait(slot, since, now))
    if row.past_waits is None or promise_of(row) is None or row.run_at <= now:
        return row
    before, end, line = row.past_waits[:-1].rpartition("\n")
    if (last := wait_in(line)) is None:
        return row
    return row._replace(past_waits=before + end + _line(*last.slot, last.since, now))


def deferred(row: JobRow, run_at: int, now: int) -> JobRow:
    """Return a job with the added wait for the rate that defers it."""
    rate, promise = limits_in(row.limits).rate, promise_of(row)
    if rate is None:
        return row
    return _with_wait(row, PastWait(rate_slot(rate.name), now if promise is None else promise.at, run_at))


def _with_wait(row: JobRow, wait: PastWait) -> JobRow:
    before = row.past_waits or ""
    if before.count("\n") >= WAITS_MAX:
        before = MORE + before.partition("\n")[2]
    return row._replace(past_waits=before + _line(*wait.slot, wait.since, wait.until))


def _line(*parts: str | int) -> str:
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":")) + "\n"

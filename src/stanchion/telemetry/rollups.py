"""The figures of queues by the minute, kept in the store for two days: what plots know of the past.

One small value for each queue and hour has up to 60 points; one with an empty name has the sums of all. A point of a
minute is written by one process: the first that moves the value `last` to this minute, by compare-and-set. If it dies
before it has written, the minute is missing, which is a gap in a plot. Workers, managers and the page take part.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple
from zlib import crc32

from stanchion.core.names.fitted_names import fitted
from stanchion.errors import StanchionError, StoreUnavailable
from stanchion.stores.letters import read_letters
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.queues import Counts, QueueSettings, QueueStats, Sizes

_log = logging.getLogger("stanchion.telemetry")

KIND: Final = "rollup"
LAST: Final = "last"
"""The name of the value that has the last minute that was taken."""

ALL: Final = ""
"""Name for all queues together."""

MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
HOURS_KEPT: Final = 48
QUEUES_MAX: Final = 100
"""Queues whose figures are kept, the ones with most jobs so far."""

MANY: Final = 200
"""Number of queues from which idle ones are read less often than every minute."""

REREAD: Final = 15
"""Minutes between two readings of these, and of the list of queues."""


class Point(NamedTuple):
    """Figures at a time of the store's clock; counts since the queue was made. `lag`: of the oldest ready job, in s."""

    at: int
    ready: int
    lag: float
    pushed: int
    done: int
    failed: int
    dead: int


def point_of(at: int, sizes: Sizes, totals: Counts, lag: float) -> Point:
    """Return the figures of a queue as a point."""
    done = totals.committed + totals.popped + totals.moved
    failed = totals.rolled_back + totals.expired
    return Point(at, sizes.ready, lag, totals.pushed, done, failed, totals.buried)


def sum_of(points: Sequence[Point], at: int) -> Point:
    """Return the figures of several queues together."""
    if not points:
        return Point(at, 0, 0.0, 0, 0, 0, 0)
    return Point(
        at,
        sum(one.ready for one in points),
        max(one.lag for one in points),
        *(sum(column) for column in zip(*(one[3:] for one in points), strict=True)),
    )


class Rollups:
    """Takes the figures of minutes, and reads few of the idle queues of a store that has very many.

    From MANY queues on, the totals of queues without live jobs that did not change at their last reading are read every
    REREAD minutes, each queue in a different minute, and the list of queues as often.
    """

    def __init__(self) -> None:
        self._settings: list[QueueSettings] = []
        self._listed_at = 0
        self._totals: dict[str, Counts] = {}
        self._moving: set[str] = set()

    def take(self, store: Store) -> bool:
        """Read all queues, keep their figures of this minute; False, after one small read, if they are kept already."""
        now = store.now()
        if not take_minute(store, now):
            return False
        minute = now // MINUTE
        if len(self._settings) < MANY or not 0 <= minute - self._listed_at < REREAD:
            self._settings, self._listed_at = store.queues(), minute
        stats = self._read(store, [one.name for one in self._settings], minute)
        letters = read_letters(store, self._settings, stats)
        points = {}
        for name, one in stats.items():
            sizes = letters.work(name, one.states)
            idle = one.next_due is None or not sizes.ready
            lag = 0.0 if idle else max(0.0, (now - (one.next_due or now)) / SECOND)
            points[name] = point_of(now, sizes, one.totals, lag)
        keep(store, points, now)
        return True

    def _read(self, store: Store, names: Sequence[str], minute: int) -> dict[str, QueueStats]:
        if len(names) < MANY:
            return store.stats(names, ["states", "totals", "next_due"]) if names else {}
        stats = store.stats(names, ["states", "next_due"])
        live = {name for name in names if stats[name].states.total}
        turn = {name for name in names if crc32(name.encode()) % REREAD == minute % REREAD}
        asked = sorted(live | self._moving | turn | (stats.keys() - self._totals.keys()))
        read = {name: one.totals for name, one in store.stats(asked, ["totals"]).items()} if asked else {}
        self._moving = live | {name for name, totals in read.items() if self._totals.get(name, totals) != totals}
        self._moving &= stats.keys()
        self._totals = {name: read.get(name) or self._totals[name] for name in names}
        return {name: one._replace(totals=self._totals[name]) for name, one in stats.items()}


def take(store: Store) -> bool:
    """Take the figures of this minute once; see `Rollups.take`."""
    return Rollups().take(store)


def take_minute(store: Store, now: int) -> bool:
    """Return whether this process is to keep the figures of this minute."""
    minute = now // MINUTE
    last = next(iter(store.values(KIND, [LAST])), None)
    if last is not None and minute <= int(last.text) <= minute + 1:  # else the clock was set back
        return False
    return store.compare_and_set(KIND, LAST, str(minute), 0 if last is None else last.version)


def keep(store: Store, points: Mapping[str, Point], now: int) -> None:
    """Keep the points of one minute; none for an unchanged queue: see `in_hours`."""
    busiest = sorted(points, key=lambda name: -points[name].pushed)[:QUEUES_MAX]
    wanted = {_name(name, now): points[name] for name in busiest}
    wanted[_name(ALL, now)] = sum_of([*points.values()], now)
    known = {value.name: value for value in store.values(KIND, list(wanted))}
    for name, point in wanted.items():
        value = known.get(name)
        stored = [] if value is None else json.loads(value.text)
        new = [*point[:2], round(point.lag, 1), *point[3:]]
        if stored and stored[-1][1:] == new[1:] and name != _name(ALL, now):
            continue
        text = json.dumps([*stored[-59:], new], separators=(",", ":"))
        try:
            store.compare_and_set(KIND, name, text, 0 if value is None else value.version)
        except StoreUnavailable:
            raise
        except StanchionError as error:  # of this queue alone: the others are kept
            _log.warning("the figures of a queue are not kept: %s: %s", name, error)
    if _name(ALL, now) not in known:
        _forget_old(store, now)


def past(store: Store, queues: Sequence[str], hours: int, now: int) -> dict[str, list[Point]]:
    """Return the points of these queues in the last hours, oldest first."""
    found = in_hours(store, queues, range(now // HOUR - hours, now // HOUR + 1))
    begin = now - hours * HOUR
    return {queue: [point for point in points if begin <= point.at <= now] for queue, points in found.items()}


def in_hours(store: Store, queues: Sequence[str], hours: Iterable[int]) -> dict[str, list[Point]]:
    """Return the points of these queues in whole hours since 1970, oldest first.

    A minute that is kept of all queues together, but not of a queue that has earlier points in its hour, has changed
    nothing for the queue: it gets the point before once more.
    """
    wanted = {*queues, ALL}
    names = {_name(queue, hour * HOUR): (queue, hour) for hour in hours for queue in wanted}
    stored: dict[tuple[str, int], list[Point]] = {}
    for value in store.values(KIND, [*names]):
        stored[names[value.name]] = sorted(Point(*point) for point in json.loads(value.text))
    found: dict[str, list[Point]] = {queue: [] for queue in queues}
    for (queue, hour), points in sorted(stored.items()):
        if queue in found:
            found[queue] += _filled(points, [point.at for point in stored.get((ALL, hour), ())])
    return found


def _filled(points: Sequence[Point], minutes: Iterable[int]) -> list[Point]:
    """Return the points of a queue in an hour, those repeated that were not kept as nothing had changed."""
    by_time = {point.at: point for point in points}
    filled, last = list[Point](), points[0] if points else None
    for at in sorted({*by_time, *minutes}):
        if last is not None and at >= points[0].at:
            last = by_time.get(at) or last._replace(at=at)
            filled.append(last)
    return filled


def _name(queue: str, at: int) -> str:
    return fitted(queue, f"@{at // HOUR}")


def _forget_old(store: Store, now: int) -> None:
    """Delete the values of hours long past; done by the first write of an hour."""
    oldest = now // HOUR - HOURS_KEPT
    for value in store.values(KIND):
        hour = value.name.rpartition("@")[2]
        if hour.isdecimal() and int(hour) < oldest:
            store.compare_and_set(KIND, value.name, None, value.version)

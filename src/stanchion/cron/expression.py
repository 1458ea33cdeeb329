"""Cron expressions in a time zone: the ticks between two times.

At clock changes, ticks follow the rules of Debian's cron. A schedule at a fixed time, or less often than hourly, runs
once: at the first occurrence of the time if clocks go back, right after the gap if they skip it. A schedule whose
minutes or hours start with `*` follows elapsed time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from stanchion.core.times import micros, moment
from stanchion.errors import InvalidInput

_SHORT = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day of month", 1, 31), ("month", 1, 12), ("day of week", 0, 6))
"""The fields, with their least and greatest values."""

_MARGIN = timedelta(days=1)
"""More than the shift of a tick by a change of the clock."""


class Timetable:
    """The ticks of one expression in one time zone; times are stored ones, in microseconds since 1970 UTC."""

    def __init__(self, expression: str, tz: str) -> None:
        self._zone = zone(tz)
        self._expression = _fields(expression)
        _refuse_long_steps(self._expression)
        try:
            first = next(self.after(0), None)
        except CronSimError as error:
            raise InvalidInput(
                f"the cron expression {expression!r} has a {_said(error)}; write minute, hour, day of month, month and "
                f"day of week, such as '0 3 * * *' for each day at 3:00 or '*/15 9-17 * * MON-FRI'"
            ) from None
        if first is None:
            raise InvalidInput(f"the cron expression {expression!r} never matches a date; correct its days")

    def after(self, since: int) -> Iterator[int]:
        """Yield the ticks after `since`, in order; stop if there is none for 50 years."""
        latest = since
        for tick in self._run(moment(since)):
            if tick > latest:  # ticks of a skipped hour are merged, and a repeated hour counts once
                yield tick
                latest = tick

    def newest(self, since: int, until: int, count: int) -> list[int]:
        """Return the last `count` ticks, or fewer, later than `since` and not later than `until`, in order."""
        found = self._between(since, until, count + 1)
        if len(found) <= count:
            return found
        # Too many to visit them all: go back from the end to about where the last `count` start.
        back = deque(islice(self._run(moment(until) + timedelta(seconds=1), reverse=True), count), maxlen=1)
        begin = max(since, micros(moment(back.pop()) - _MARGIN))
        return list(deque(self._between(begin, until, None), maxlen=count))

    def _between(self, since: int, until: int, count: int | None) -> list[int]:
        found = []
        for tick in islice(self.after(since), count):
            if tick > until:
                break
            found.append(tick)
        return found

    def _run(self, begin: datetime, *, reverse: bool = False) -> Iterator[int]:
        return (micros(tick) for tick in CronSim(self._expression, begin.astimezone(self._zone), reverse=reverse))


@lru_cache(maxsize=1000)
def timetable(expression: str, tz: str) -> Timetable:
    """Return the timetable of an expression. Raises InvalidInput if it is wrong."""
    return Timetable(expression, tz)


def zone(name: Any) -> ZoneInfo:
    """Return a time zone by its name. Raises InvalidInput if it is unknown."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError):
        raise InvalidInput(
            f"there is no time zone {name!r} here; use a name such as 'Europe/Paris' or 'UTC', and if the system "
            f"has no time zone data: pip install tzdata"
        ) from None


def _fields(expression: object) -> str:
    if not isinstance(expression, str):
        raise InvalidInput(f"a cron expression is a text of five fields, such as '0 3 * * *', not {expression!r}")
    if expression.lstrip().startswith("@"):
        found = _SHORT.get(expression.strip().lower())
        if found is None:
            raise InvalidInput(f"there is no {expression!r}; write five fields, or one of {', '.join(_SHORT)}")
        return found
    count = len(expression.split())
    if count != 5:
        raise InvalidInput(
            f"the cron expression {expression!r} has {count} fields; it needs five: minute, hour, day of month, month, "
            f"day of week"
        )
    return expression


def _refuse_long_steps(expression: str) -> None:
    """Refuse a step beyond its field: only the first value matches, so that its period is another than it says."""
    for field, (name, least, most) in zip(expression.split(), _FIELDS, strict=True):
        for part in field.split(","):
            base, slash, step = part.partition("/")
            first, _, last = base.partition("-")
            if not slash or not step.isdecimal() or not (base == "*" or (first + last).isdecimal()):
                continue  # names of months and days, and mistakes that the parser reports
            values = int(last or most) - (least if base == "*" else int(first)) + 1
            if int(step) > max(values, 1):
                raise InvalidInput(
                    f"{part!r} in the cron expression {expression!r} does not mean each {step}: there are {values} "
                    f"values of the {name}, and only the first one matches. Write that value, or a step up to {values}"
                )


def _said(error: CronSimError) -> str:
    text = str(error)
    return text[:1].lower() + text[1:]


def tick_text(tick: int) -> str:
    """Return a tick as ISO 8601, in UTC."""
    return moment(tick).isoformat(timespec="seconds")

"""Checks of single arguments. Each raises InvalidInput with a one-sentence message."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from stanchion.core.ids import ID
from stanchion.core.service_levels import BANDS
from stanchion.errors import InvalidInput

C = TypeVar("C")

_PLACE_DIGITS = 10


def refuse_unknown(given: Iterable[object], known: Collection[str], what: str = "option") -> None:
    """Refuse unknown names, so that a misspelt option is not ignored."""
    for name in given:
        if name not in known:
            from difflib import get_close_matches

            near = get_close_matches(str(name), known, 1)
            meant = f" (did you mean {near[0]!r}?)" if near else ""
            raise InvalidInput(f"unknown {what} {brief(name)}{meant}; choose from {', '.join(sorted(known))}")


def chosen(given: object, choices: Iterable[C]) -> C | None:
    """Return the choice that is equal to a value; None: it is none of them."""
    return next((one for one in choices if one == given), None)


def checked_id(value: object, what: str = "the id of a job") -> str:
    """Return an id as given, if it is text that a database can hold. The id may be unknown."""
    if not isinstance(value, str) or not value.isprintable():
        raise InvalidInput(f"{what} is a string, such as job.id, not {brief(value)}")
    return value


def acted_id(value: object) -> str:
    """Return the id of a job to act on. Text in another form is refused, as no job ever had it."""
    if not isinstance(value, str) or not ID.fullmatch(value):
        if (item := named_item(value)) is not None:
            raise InvalidInput(f"item {item[1]} is part of chunk {item[0]}, which ends as a whole: give its id")
        raise InvalidInput(f"{brief(value)} is not the id of a job; pass job.id, which `stanchion jobs` lists too")
    return value


def named_item(name: object) -> tuple[str, int] | None:
    """Return the job and the place in the name of an item, `<id>/<place>`; None for what is none."""
    job, slash, place = name.partition("/") if isinstance(name, str) else ("", "", "")
    is_place = slash and place.isascii() and place.isdecimal() and len(place) < _PLACE_DIGITS
    return (job, int(place)) if is_place and ID.fullmatch(job) else None


def acted_ids(values: object) -> list[str]:
    """Return the ids of jobs to act on."""
    return [acted_id(value) for value in several(values, "ids of jobs", "[job.id]")]


def whole(value: Any, what: str, least: int = 1, most: int | None = None) -> int:
    """Return a whole number within its bounds."""
    within = isinstance(value, int) and value >= least and (most is None or value <= most)
    if isinstance(value, bool) or not within:
        bounds = f"from {least} up" if most is None else f"from {least} to {most:,}"
        raise InvalidInput(f"{what} must be a whole number {bounds}, not {brief(value)}")
    return int(value)


def number(value: object, what: str, least: float = 0.0, most: float = math.inf) -> float:
    """Return a finite number within its bounds, inclusive."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= min(most, _GREATEST):
        bounds = f"from {least:g} up" if most == math.inf else f"from {least:g} to {most:g}"
        raise InvalidInput(f"{what} must be a number {bounds}, not {brief(value)}")
    return float(value)


def several(values: object, what: str, such_as: str) -> Iterable[Any]:
    """Return an iterable of values as given; refuse a single value, such as a string."""
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise InvalidInput(f"{what} must be a list, or another iterable, such as {such_as}, not {brief(values)}")
    return values


def aware(value: object, what: str) -> datetime:
    """Return a datetime as given, if it has a time zone, and is one of the years 1 to 9999 in UTC."""
    if not isinstance(value, datetime):
        raise InvalidInput(f"{what} must be an aware datetime, not {brief(value)}")
    if value.tzinfo is None or value.utcoffset() is None:
        raise InvalidInput(
            f"{what}={value!r} has no time zone; pass an aware datetime, such as datetime.now(timezone.utc)"
        )
    try:
        value.astimezone(UTC)
    except OverflowError:
        raise InvalidInput(f"{what}={value.isoformat()} is not within the years 1 to 9999 in UTC") from None
    return value


def brief(value: object) -> str:
    """Return a value for an error message: its repr, of bounded length."""
    try:
        text = repr(value)
    except Exception:  # a faulty __repr__ must not hide the error
        text = f"an object of {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


_SHOWN = 200

_GREATEST = sys.float_info.max

MAX_NAME = 200
MIN_PRIORITY, MAX_PRIORITY = -100, 100

LONGEST_DELAY = 100 * 365 * 86_400.0
"""In seconds."""

MAX_HEADERS = 64 * 1024
"""Characters of the headers of a job, as JSON."""

MAX_LIMITS = 16
"""Semaphores of a job."""


def checked_name(value: object, what: str, most: int = MAX_NAME) -> str:
    """Return a name or key as given, if it is printable and at most `most` characters long."""
    if not isinstance(value, str) or not value or len(value) > most or not value.isprintable():
        raise InvalidInput(f"{what} must be 1 to {most} printable characters, not {brief(value)}")
    return value


def positive_seconds(value: object, what: str) -> float:
    """Return seconds from a number or timedelta, more than 0."""
    seconds = seconds_of(value, what)
    if seconds == 0:
        raise InvalidInput(f"{what} must be more than 0 seconds")
    return seconds


SHORTEST_LEASE = 0.01
"""Seconds: a claim itself takes milliseconds, and a lease that ends before its reply helps no caller."""


def lease_seconds(value: object, what: str = "lease") -> float:
    """Return the seconds of a lease from a number or timedelta, long enough for a claim."""
    seconds = seconds_of(value, what)
    if seconds < SHORTEST_LEASE:
        raise InvalidInput(
            f"{what} must be at least {SHORTEST_LEASE} seconds, not {brief(value)}: a shorter one ends before the "
            f"claim has returned"
        )
    return seconds


def seconds_of(value: object, what: str) -> float:
    """Return seconds from a number or timedelta, from 0 to 100 years."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise InvalidInput(f"{what} must be a number of seconds or a timedelta, not {brief(value)}")
    if not 0 <= seconds <= LONGEST_DELAY:
        raise InvalidInput(f"{what} must be from 0 seconds to 100 years, not {brief(value)}")
    return float(seconds)


def checked_priority(value: object) -> int:
    """Return a priority from -100 to 100, as given or by the name of its band."""
    if not isinstance(value, str):
        return whole(value, "priority", MIN_PRIORITY, MAX_PRIORITY)
    if value not in _OF_BANDS:
        bounds = f"from {MIN_PRIORITY} to {MAX_PRIORITY}"
        raise InvalidInput(f"priority must be a whole number {bounds}, or {' or '.join(_OF_BANDS)}, not {brief(value)}")
    return _OF_BANDS[value]


_OF_BANDS = {band.name: band.priority for band in BANDS}

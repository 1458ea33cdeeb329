"""Numbers, durations and times in words, always in UTC."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from stanchion.core.text.durations import UNKNOWN, spelled
from stanchion.core.times import moment
from stanchion.stores.records.jobs import SECOND

SPAN_NAMES: Final = {"1h": "the last hour", "24h": "the last 24 h", "7d": "the last 7 days", "30d": "the last 30 days"}

_MINUTE = 60


def number(value: float) -> str:
    """Return `1,246`, or `10.2 million` from a million up."""
    return f"{value:,.0f}" if value < 1_000_000 else f"{value / 1_000_000:,.1f} million"


def rate(value: float) -> str:
    """Return a rate with suitable precision: `0.4`, `24`, `1,003`."""
    return f"{value:.1f}".removesuffix(".0") if value < 100 else number(value)


def percent(share: float | None) -> str:
    """Return a share as `36 %`, or `2.4 %` below ten; a dash for None."""
    if share is None:
        return UNKNOWN
    value = 100 * share
    if 0 < value < 0.1:
        return "< 0.1 %"
    return f"{value:.0f} %" if value >= 9.95 or not value else f"{value:.1f} %"


def plural(count: int, one: str, many: str | None = None) -> str:
    """Return `1 job`, `1,246 jobs`."""
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


def listed(parts: list[str]) -> str:
    """Return `a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def waited(kind: str, name: str, seconds: float) -> str:
    """Return a wait that is over, as `Waited 4 min for semaphore mail`, or a pause, as `mail was paused for 4 min`."""
    long = spelled(seconds)
    match kind:
        case "pause":
            return f"{name} was paused for {long}"
        case "order_key":
            return f"Waited {long} behind order key {name}"
        case "flow":
            return f"Waited {long} for a part of its flow"
        case "rate":
            return f"Waited {long} for {_rate_of(name)}"
        case _:
            return f"Waited {long} for {kind} {name}"


def _rate_of(name: str) -> str:
    """Return a rate as people name it, from the name that `jobs.options` gives it."""
    kind, _, owner = name.partition(":")
    if kind == "key":
        return f"rate {owner}"
    if kind in ("task", "queue"):
        return f"the rate of {kind} {owner}"
    if not kind.isdecimal():
        return f"rate {name}"
    of, tenant = owner[: int(kind)], owner[int(kind) + 1 :]
    return f"{_rate_of(of)}, tenant {tenant}"


def clock(at: datetime, now: datetime) -> str:
    """Return `03:12:40` today, `yesterday 04:02`, `tomorrow 04:02`, else `29 Nov, 03:12`; the year if it differs."""
    days = (at.date() - now.date()).days
    if days == 0:
        return f"{at:%H:%M:%S}"
    near = {-1: "yesterday", 1: "tomorrow"}.get(days)
    if near is not None:
        return f"{near} {at:%H:%M}"
    return f"{at.day} {at:%b}, {at:%H:%M}" if at.year == now.year else f"{at.day} {at:%b %Y}, {at:%H:%M}"


def near(at: datetime, now: datetime) -> str:
    """Return `2 s ago` or `in 5 min` within an hour, else the clock."""
    distance = at - now
    if abs(distance) >= timedelta(hours=1):
        return clock(at, now)
    seconds = abs(distance.total_seconds())
    rough = f"{int(seconds)} s" if seconds < _MINUTE else f"{int(seconds // _MINUTE)} min"
    return "now" if seconds < 1 else f"in {rough}" if distance > timedelta() else f"{rough} ago"


def moment_of(stored: int | datetime | float) -> datetime:
    """Return a time as a datetime: of a store in microseconds, or a datetime as it is."""
    return stored if isinstance(stored, datetime) else moment(int(stored))


def exact(at: datetime) -> str:
    """Return a whole time, such as `2026-11-26 03:12:40.123 UTC`."""
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d} UTC"


def seconds_since(stored: int, now: int) -> float:
    """Return the seconds between two stored times, at least 0."""
    return max(0, now - stored) / SECOND


def short_id(job_id: str) -> str:
    """Return the two ends of an id."""
    return job_id if len(job_id) < 20 else f"{job_id[:8]}{job_id[9:11]}…{job_id[-6:]}"

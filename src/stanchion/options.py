"""The options of an enqueue, checked at the door."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict, get_args

from stanchion.codec import Codec
from stanchion.errors import InvalidInput
from stanchion.times import micros

OnDuplicate = Literal["return", "raise", "replace"]

MAX_HEADERS = 64 * 1024
MAX_NAME = 200
MIN_PRIORITY, MAX_PRIORITY = -100, 100
_LONGEST_DELAY = 100 * 365 * 86_400.0


class PushOptions(TypedDict, total=False):
    """How to enqueue one job.

    `run_at`: an aware datetime; `delay`: seconds or a timedelta from now; `priority`: -100 to 100, higher
    first; `tenant`: whose job it is; `key`: unique among the queue's live jobs; `headers`: JSON beside the
    payload; `timeout`: seconds that one attempt may run.
    """

    run_at: datetime | None
    delay: float | timedelta | None
    priority: int
    tenant: str | None
    key: str | None
    on_duplicate: OnDuplicate
    order_key: str | None
    limits: Sequence[str]
    headers: Mapping[str, Any] | None
    max_attempts: int
    timeout: float | None


class EnqueueOptions(PushOptions, total=False):
    """PushOptions, and the queue and the transaction to enqueue in."""

    queue: str
    tx: Any


def checked(options: Mapping[str, Any], codec: Codec) -> dict[str, Any]:
    """Return the fields of a NewJob for PushOptions; InvalidInput says what to mend."""
    fields: dict[str, Any] = {}
    for name, value in options.items():
        check = _CHECKS.get(name)
        if check is None:
            raise InvalidInput(f"unknown option {name!r}; there are {', '.join(sorted(_CHECKS))}")
        if value is not None:
            fields[name] = check(value)
    if "run_at" in fields and "delay" in fields:
        raise InvalidInput("give run_at or delay, not both")
    if headers := fields.get("headers"):
        text = codec.plain(headers, "headers")
        if len(text) > MAX_HEADERS:
            raise InvalidInput(f"the headers take {len(text):,} bytes, more than the limit of {MAX_HEADERS:,}")
        fields["headers"] = text
    return fields


def checked_name(value: Any, what: str) -> str:
    """Return a name or key as given, if a database can hold it."""
    if not isinstance(value, str) or not value or len(value) > MAX_NAME or not value.isprintable():
        raise InvalidInput(f"{what} must be 1 to {MAX_NAME} printable characters, not {value!r}")
    return value


def seconds_of(value: Any, what: str) -> float:
    """Return seconds from a number or timedelta, refusing negative and endless ones."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not math.isfinite(seconds):
        raise InvalidInput(f"{what} must be a number of seconds or a timedelta, not {value!r}")
    if not 0 <= seconds <= _LONGEST_DELAY:
        raise InvalidInput(f"{what} must be from 0 seconds to 100 years, not {value!r}")
    return float(seconds)


def _run_at(value: Any) -> int:
    if not isinstance(value, datetime):
        raise InvalidInput(f"run_at must be an aware datetime, not {value!r}; for seconds from now use delay")
    if value.tzinfo is None or value.utcoffset() is None:
        raise InvalidInput(
            f"run_at={value!r} has no time zone; pass an aware datetime, such as datetime.now(timezone.utc)"
        )
    return micros(value)


def _priority(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not MIN_PRIORITY <= value <= MAX_PRIORITY:
        raise InvalidInput(f"priority must be a whole number from {MIN_PRIORITY} to {MAX_PRIORITY}, not {value!r}")
    return value


def _on_duplicate(value: Any) -> str:
    if value not in get_args(OnDuplicate):
        raise InvalidInput(f"on_duplicate must be one of {', '.join(get_args(OnDuplicate))}, not {value!r}")
    return str(value)


def _max_attempts(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1_000_000:
        raise InvalidInput(f"max_attempts must be a whole number from 1 to 1,000,000, not {value!r}")
    return value


def _timeout(value: Any) -> float:
    seconds = seconds_of(value, "timeout")
    if seconds == 0:
        raise InvalidInput("timeout must be more than 0 seconds; leave it out for none")
    return seconds


def _headers(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"headers must be a mapping of strings to JSON values, not {value!r}")
    return dict(value)


def _later(name: str) -> Any:
    def refuse(value: Any) -> None:
        if value:
            raise InvalidInput(f"{name} is not supported by this release; leave it out")

    return refuse


_CHECKS: dict[str, Any] = {
    "run_at": _run_at,
    "delay": lambda value: seconds_of(value, "delay"),
    "priority": _priority,
    "tenant": lambda value: checked_name(value, "tenant"),
    "key": lambda value: checked_name(value, "key"),
    "on_duplicate": _on_duplicate,
    "order_key": _later("order_key"),
    "limits": _later("limits"),
    "headers": _headers,
    "max_attempts": _max_attempts,
    "timeout": _timeout,
}

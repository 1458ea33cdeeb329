"""The options of an enqueue, and their checks."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal, TypedDict, Unpack, get_args

from stanchion.core.checks import (
    MAX_HEADERS,
    MAX_LIMITS,
    aware,
    brief,
    checked_name,
    checked_priority,
    refuse_unknown,
    seconds_of,
    several,
    whole,
)
from stanchion.core.names.partition_names import checked_queue
from stanchion.core.retry import MOST_ATTEMPTS
from stanchion.core.service_levels import BandName
from stanchion.core.times import micros
from stanchion.core.types import Transaction
from stanchion.core.values.codec import Codec
from stanchion.errors import InvalidInput
from stanchion.stores.fields.jobs import OPTIONS, SPANS, Kind, Option
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.rules.capacity.limits import FASTEST, SLOWEST, Limits, Rate, limits_text

OnDuplicate = Literal["return", "raise", "replace"]


RateBy = Literal["task", "tenant", "queue"]


class PushOptions(TypedDict, total=False):
    """Options of one job."""

    run_at: datetime | None
    """Due time, an aware datetime."""
    delay: float | timedelta | None
    """Seconds, or a timedelta, until the job is due."""
    priority: int | BandName
    """Number from -100 to 100, higher first, or the name of a band, such as "interactive"."""
    tenant: str | None
    """Owner of the job; a tenant's jobs share a few lanes."""
    key: str | None
    """Idempotency key, unique among the queue's live jobs."""
    key_ttl: float | timedelta | None
    """Seconds, or a timedelta, that a finished job still holds its key."""
    on_duplicate: OnDuplicate
    """Action if the key is taken: "return" the live job, "raise" DuplicateKey, or "replace" a job not yet running."""
    order_key: str | None
    """Key whose jobs run one at a time, in enqueue order."""
    limits: Collection[str] | None
    """Names of semaphores that the job holds while it runs."""
    rate: str | float | None
    """Starts per second, a number or text such as "100/m", of all jobs of the task, or of the queue for a payload."""
    rate_by: RateBy | None
    """Jobs that share the rate: of the "task", of its "tenant", or of the "queue"."""
    rate_key: str | None
    """Name of a rate that jobs of any queue share; `app.rate` declares it."""
    headers: Mapping[str, object] | None
    """JSON metadata stored with the payload."""
    max_attempts: int
    """Number of attempts before the job is dead."""
    timeout: float | None
    """Seconds that one attempt may run."""
    expires: float | timedelta | None
    """Seconds, or a timedelta, after the push until the job is cancelled, unless an attempt has begun by then."""


class EnqueueOptions(PushOptions, total=False):
    """PushOptions, and the queue and the transaction to enqueue in."""

    queue: str
    """Name of the queue."""
    tx: Transaction | None
    """Transaction of yours that the job becomes part of."""


ENQUEUE_OPTIONS = EnqueueOptions.__optional_keys__
"""The names of all options of an enqueue."""


DeclaredRate = Callable[[str], float | None]
"""Returns the starts per second that are declared for a rate; None for an undeclared one."""


def checked(
    options: Mapping[str, object],
    codec: Codec,
    *,
    queue: str = "default",
    task: str | None = None,
    declared: DeclaredRate | None = None,
) -> dict[str, Any]:
    """Return the fields of a NewJob for PushOptions. Raises InvalidInput for options that are wrong.

    `declared`: the rates of a `rate_key` without `rate`; None: such options are wrong.
    """
    refuse_unknown(options, _CHECKS)
    fields = {name: _CHECKS[name](value) for name, value in options.items() if value is not None}
    if "run_at" in fields and "delay" in fields:
        raise InvalidInput("give run_at or delay, not both")
    if "key_ttl" in fields and "key" not in fields:
        raise InvalidInput("key_ttl says how long a key holds; give the key too, such as key='order-17'")
    if headers := fields.pop("headers", None):
        text = codec.plain(headers, "headers")
        if len(text) > MAX_HEADERS:
            raise InvalidInput(f"the headers take {len(text):,} bytes, more than the limit of {MAX_HEADERS:,}")
        fields["headers"] = text
    if "limits" in options or not _RATES.isdisjoint(options):
        limits = Limits(fields.pop("limits", ()), _rate(fields, queue, task, declared, lifted="rate" in options))
        if limits != Limits():
            fields["limits"] = limits_text(limits)
    return fields


_RATES = frozenset({"rate", "rate_by", "rate_key"})


def sharing(options: Mapping[str, object], of_task: Mapping[str, object]) -> Mapping[str, object]:
    """Return options of a call, with the rate of its task, `of_task`, unless they set one."""
    return {**of_task, **options} if _RATES.isdisjoint(options) else options


def keyed_rate(key: object, rate: object) -> Rate:
    """Return the rate that jobs with this `rate_key` share."""
    return Rate(_of_key(checked_name(key, "rate_key")), per_second_of(rate))


def _of_key(key: str) -> str:
    return f"key:{key}"


def checked_rate_name(name: str) -> str:
    """Return the name of a rate that can be declared."""
    kind, colon, rest = name.partition(":")
    if not colon or kind not in ("key", "task", "queue"):
        raise InvalidInput(
            f"a rate is named by a rate_key, a task or a queue, such as key:stripe, task:shop.pay or queue:hooks, not "
            f"{brief(name)}"
        )
    checked_name(rest, f"the {kind} of a rate")
    return name


def undeclared(key: str) -> InvalidInput:
    """Return the error for an undeclared `rate_key` without a rate."""
    return InvalidInput(
        f"no rate is declared for rate_key={key!r}: declare it with app.rate({key!r}, '20/s') in the code, or give the "
        f"rate too, such as rate='20/s'"
    )


def _rate(
    fields: dict[str, Any], queue: str, task: str | None, declared: DeclaredRate | None, *, lifted: bool
) -> Rate | None:
    """Remove the options about the rate from the fields; return the rate they describe."""
    per_second, by, key = (fields.pop(name, None) for name in ("rate", "rate_by", "rate_key"))
    if by and key and not (per_second is None and lifted):
        raise InvalidInput("give rate_by or rate_key, not both")
    if per_second is None:
        if lifted or not (by or key):
            return None
        if by or declared is None:
            raise InvalidInput("rate_by and rate_key select who shares a rate; give the rate too, such as rate='20/s'")
        per_second = declared(_of_key(key))
        if per_second is None:
            raise undeclared(key)
    owner = f"queue:{queue}" if task is None or by == "queue" else f"task:{task}"
    if key is not None:
        name = _of_key(key)
    elif by == "tenant":
        name = f"{len(owner)}:{owner}/{fields.get('tenant', '')}"  # the length makes the name unambiguous
    else:
        name = owner
    return Rate(name, per_second)


def named_queues(value: object) -> list[str]:
    """Return a list of names of queues, each once."""
    return list(dict.fromkeys(checked_queue(queue) for queue in several(value, "queues", "['mail']")))


def _run_at(value: object) -> int:
    if not isinstance(value, datetime):
        raise InvalidInput(f"run_at must be an aware datetime, not {brief(value)}; for seconds from now use delay")
    return micros(aware(value, "run_at"))


def _on_duplicate(value: object) -> str:
    if value not in get_args(OnDuplicate):
        raise InvalidInput(f"on_duplicate must be one of {', '.join(get_args(OnDuplicate))}, not {brief(value)}")
    return str(value)


def _max_attempts(value: object) -> int:
    return whole(value, "max_attempts", 1, MOST_ATTEMPTS)


def checked_span(value: object, name: str = "timeout") -> float | None:
    """Return a time limit in seconds; None for no limit."""
    if value is None:
        return None
    seconds = seconds_of(value, name)
    if seconds == 0:
        raise InvalidInput(f"{name} must be more than 0 seconds; leave it out for none")
    return seconds


def _headers(value: object) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"headers must be a mapping of strings to JSON values, not {brief(value)}")
    return dict(value)


def limits_names(value: object) -> tuple[str, ...]:
    """Return the names of semaphores that `limits` gives, each once."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Collection):
        raise InvalidInput(f"limits is a list of names of semaphores, such as ['smtp'], not {brief(value)}")
    names = tuple(sorted({checked_name(name, "the name of a semaphore in limits") for name in value}))
    if len(names) > MAX_LIMITS:
        raise InvalidInput(f"limits names {len(names)} semaphores; a job may need at most {MAX_LIMITS}")
    return names


def per_second_of(value: object) -> float:
    """Return the starts per second of a rate such as "20/s"."""
    per_second: float | None = None
    if isinstance(value, str) and (text := _RATE.fullmatch(value.strip())):
        per_second = float(text["count"]) / _SPANS[text["span"]]
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        per_second = value
    if per_second is None or not SLOWEST <= per_second <= FASTEST:
        raise InvalidInput(
            f"rate must be starts per second, or such as '20/s', '100/m', '5000/h' or '10/d', not {brief(value)}"
        )
    return float(per_second)


_SPANS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def spelled_rate(per_second: float) -> str:
    """Return a rate in the span that gives a whole number of starts, such as "20/s"; else in one that gives some."""
    counts = [(per_second * seconds, span) for span, seconds in _SPANS.items()]
    whole = [(count, span) for count, span in counts if count >= 0.5 and abs(count - round(count)) < 1e-6 * count]
    some = [(count, span) for count, span in counts if count >= 1]
    count, span = (whole or some or counts[-1:])[0]
    return f"{round(count) if whole else f'{count:.6g}'}/{span}"


_RATE = re.compile(r"(?P<count>\d+(\.\d+)?)\s*/\s*(?P<span>[smhd])")


def _rate_by(value: object) -> str:
    if value not in get_args(RateBy):
        raise InvalidInput(f"rate_by must be one of {', '.join(get_args(RateBy))}, not {brief(value)}")
    return str(value)


def _check(option: Option, value: object) -> object:
    return _OF_KIND[option.kind](value, option.name)


_OF_KIND: dict[Kind, Callable[[object, str], object]] = {Kind.NAME: checked_name, Kind.REAL: seconds_of}
_CHECKS: dict[str, Callable[[object], Any]] = {
    **{one.name: partial(_check, one) for one in OPTIONS if one.kind in _OF_KIND},
    "run_at": _run_at,
    "priority": checked_priority,
    "on_duplicate": _on_duplicate,
    "limits": limits_names,
    "rate": per_second_of,
    "rate_by": _rate_by,
    "rate_key": lambda value: checked_name(value, "rate_key"),
    "headers": _headers,
    "max_attempts": _max_attempts,
    **{name: partial(checked_span, name=name) for name in SPANS},
}
"""The checks of options: of some, the check of their kind."""


def member(job: NewJob) -> NewJob:
    """Return a job as a member of a flow: a duplicate key is an error there, as the member would be missing."""
    if job.key_ttl is not None:
        raise InvalidInput("a part of a flow can't have key_ttl, as a job of before is none of it; leave it out")
    return job if job.key is None else job._replace(on_duplicate="raise")


class FlowElement:
    """A call, a payload, or several of them: the elements of a flow, and of a task's continuation."""

    __slots__ = ()


class Push(FlowElement):
    """A payload with its options, for `push_many`; with its `queue`, also a part of a flow."""

    __slots__ = ("options", "payload", "queue")

    def __init__(self, payload: object, *, queue: str | None = None, **options: Unpack[PushOptions]) -> None:
        refuse_unknown(options, {*PushOptions.__optional_keys__, "queue"})
        self.payload, self.options = payload, options
        self.queue = None if queue is None else checked_queue(queue)

    def __repr__(self) -> str:
        given = {**({} if self.queue is None else {"queue": self.queue}), **self.options}
        return f"Push({', '.join([brief(self.payload), *(f'{name}={brief(value)}' for name, value in given.items())])})"

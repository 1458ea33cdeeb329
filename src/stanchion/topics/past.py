"""Past events for a late subscriber, read from the queues of the topic's other subscriptions."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, groupby
from operator import itemgetter
from typing import Any

from stanchion.context.context import Context
from stanchion.core.ids import first_id_at
from stanchion.core.times import moment
from stanchion.jobs.call import called_with
from stanchion.jobs.options import Push
from stanchion.stores.fields.jobs import OPTIONS, Kind
from stanchion.stores.protocol import pages
from stanchion.stores.records.jobs import QUEUED, SECOND
from stanchion.stores.records.query import Condition, Query
from stanchion.topics.fan_out import EVENT, TOPIC
from stanchion.topics.terms import Terms

_READ_AT_ONCE = 5000
"""Jobs of all queues together that are held in memory."""

_SKEW = 86_400 * SECOND

_OF_EVENT = tuple(one.name for one in OPTIONS if one.of_event and one.kind is Kind.NAME and one.name != "key")
"""Options of an event, which its jobs keep as they are."""
_COLUMNS = (
    *("id", "state", "priority", "run_at", "payload", "arrival_payload", "task", "headers"),
    *("origin", "attempts", "enqueued_at", *_OF_EVENT),
)

_Found = tuple[str, dict[str, object], dict[str, Any], Terms]
"""The id of an event, the headers and the columns of a job of it, and the terms of that job's subscription."""


def past_events(
    context: Context, topic: str, subscriptions: Mapping[str, Terms], since: int | None, delay: float
) -> Iterator[tuple[str, Push]]:
    """Yield the events whose jobs were stored since then (None: all), oldest first, each with its id, as it was pushed.

    An event is due `delay` seconds after its push, by the store's clock, so it precedes later ones. It has no key: of
    several events with one key, each had its job.
    """
    now = context.store.now()
    where = () if since is None else _stored_since(since, now)
    size = min(1000, max(50, _READ_AT_ONCE // max(1, len(subscriptions))))
    of_each = [_jobs_of(context, topic, its, where, size) for its in subscriptions.values()]
    for event, jobs in groupby(heapq.merge(*of_each, key=itemgetter(0)), itemgetter(0)):
        found = list(jobs)
        if (push := _pushed(context, found[0])) is not None:
            due = _scheduled(found[0], now) or _pushed_at(found, now) + round(delay * SECOND)
            push.options["run_at"] = moment(due)
            yield event, push


def _stored_since(since: int, now: int) -> tuple[Condition, ...]:
    # Ids have the times of other clocks, so their bound has a margin; it spares the store from reading older jobs.
    first = first_id_at(min(since, time.time_ns() // 1000 - (now - since)) - _SKEW)
    return Condition("id", ">=", first), Condition("enqueued_at", ">=", since)


def _jobs_of(context: Context, topic: str, terms: Terms, where: tuple[Condition, ...], size: int) -> Iterator[_Found]:
    query = Query("all", (Condition("queue", "=", terms.queue), *where), order="id", limit=size, columns=_COLUMNS)
    for values in chain.from_iterable(pages(context.store, query)):
        row = dict(zip(_COLUMNS, values, strict=True))
        headers = context.codec.decode(row["headers"]) or {}
        # A replay has a new id, and the headers of the job that it repeats.
        if headers.get(TOPIC) == topic and EVENT in headers and row["origin"] is None:
            yield headers[EVENT], headers, row, terms


def _scheduled(found: _Found, now: int) -> int | None:
    """Return when an event is due that was pushed for later; None if that is not known any more."""
    _, _, row, terms = found
    untouched = row["state"] == QUEUED and row["attempts"] == 0 and "delay" not in terms.options
    return row["run_at"] if untouched and row["run_at"] > now else None


def _pushed_at(found: Sequence[_Found], now: int) -> int:
    # A job that came late itself is due at the time of the event; a retry moves that, but seldom in all queues.
    times: list[int] = [row[name] for _, _, row, _ in found for name in ("run_at", "enqueued_at")]
    return min(now, *times)


def _pushed(context: Context, found: _Found) -> Push | None:
    """Return the event of a job, to be pushed again; None if the job has another payload now."""
    _, headers, row, terms = found
    stored = row["payload"] if row["arrival_payload"] is None else row["arrival_payload"]
    if isinstance(stored, bytes):  # an event is one item
        return None
    payload = context.codec.decode(stored)
    if row["task"] is not None:
        try:
            (payload,), _ = called_with(payload)
        except ValueError:
            return None
    options: dict[str, Any] = {
        "headers": {name: value for name, value in headers.items() if name not in (EVENT, TOPIC)},
        **{name: row[name] for name in _OF_EVENT},
    }
    if row["priority"] != terms.options.get("priority", 0):
        options["priority"] = row["priority"]
    return Push(payload, **options)

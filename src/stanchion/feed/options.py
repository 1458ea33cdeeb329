"""Check the options of a feed."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TypedDict

from stanchion.context.context import Context
from stanchion.context.queue_patterns import QueuePatterns
from stanchion.core.checks import aware, brief, checked_name, refuse_unknown, seconds_of, several
from stanchion.core.times import micros
from stanchion.errors import InvalidInput
from stanchion.feed.event import KINDS, Position, position_in
from stanchion.feed.feed import Feed
from stanchion.feed.sources import Selection

OVERLAP_SECONDS, SKEW_SECONDS = 30.0, 60.0


class FeedOptions(TypedDict, total=False):
    """Options of a feed.

    `task`, `tenant`: only jobs of these. `overlap`: on a store whose capabilities say `feed: overlap`, the seconds
    after which an event is visible at the latest; a caller's transaction must not be open for longer. `skew`: maximum
    seconds between the clocks of pushing clients and the store's.
    """

    task: str | None
    tenant: str | None
    overlap: float | timedelta
    skew: float | timedelta


def watch(context: Context, queues: object, events: Iterable[str], since: object, options: FeedOptions) -> Feed:
    """Return the checked feed; see `Stanchion.watch`."""
    refuse_unknown(options, FeedOptions.__optional_keys__, "option of a feed")
    task, tenant = options.get("task"), options.get("tenant")
    wanted = Selection(
        _kinds(events),
        None if queues is None else QueuePatterns(context, _queues(queues)),
        None if task is None else checked_name(task, "task"),
        None if tenant is None else checked_name(tenant, "tenant"),
    )
    overlap, skew = options.get("overlap", OVERLAP_SECONDS), options.get("skew", SKEW_SECONDS)
    return Feed(context, wanted, _start(since), seconds_of(overlap, "overlap"), seconds_of(skew, "skew"))


def _kinds(events: object) -> frozenset[str]:
    kinds = frozenset(several(events, "events", '{"pushed", "finished"}'))
    refuse_unknown(kinds, KINDS, "kind of event")
    if not kinds:
        raise InvalidInput(f"events is empty; choose from {', '.join(KINDS)}")
    return kinds


def _queues(queues: object) -> tuple[str, ...]:
    names = several(queues, "queues", '["mail", "orders"]')
    found = tuple(dict.fromkeys(checked_name(name, "queue") for name in names))
    if not found:
        raise InvalidInput("queues is empty; leave it out to watch all queues")
    return found


def _start(since: object) -> Position | None:
    if since is None:
        return None
    if isinstance(since, datetime):
        after = max(0, micros(aware(since, "since")) - 1)
        return Position(after, after)
    if not isinstance(since, str):
        raise InvalidInput(
            f"since must be a position, such as event.position, or an aware datetime, not {brief(since)}"
        )
    return position_in(since)

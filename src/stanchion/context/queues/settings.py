"""Queue settings and their checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from stanchion.context.shard import MAX_LANES
from stanchion.core.checks import brief, checked_name, lease_seconds, refuse_unknown, seconds_of
from stanchion.core.names.partition_names import MAX_PARTITIONS, checked_queue
from stanchion.errors import InvalidInput
from stanchion.stores.fields.jobs import Kind
from stanchion.stores.fields.queues import SETTABLE
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.queues import OUTCOMES, QueueSettings

LANES_PER_TENANT = 6
"""Lanes per tenant, if only the number of lanes is given."""


def checked_settings(settings: Mapping[str, object]) -> dict[str, Any]:
    """Return checked changes. Raises InvalidInput for settings that are wrong."""
    refuse_unknown(settings, _CHECKS, "queue setting")
    if "history_ttl" in settings:
        settings = _retention(settings["history_ttl"]) | {n: one for n, one in settings.items() if n != "history_ttl"}
    return {name: _CHECKS[name](name, value) for name, value in settings.items()}


def _retention(given: object) -> dict[str, object]:
    """Return the settings for which `history_ttl` stands: a duration for all finished jobs, or one for each outcome."""
    if not isinstance(given, Mapping):
        return {"history_ttl": given, **dict.fromkeys(BY_OUTCOME)}
    refuse_unknown(given, (*OUTCOMES, _OTHERS), "outcome in history_ttl")
    named = {one: _span_or_text(f"history_ttl[{one!r}]", ttl) for one, ttl in given.items() if ttl is not None}
    kept = {one: named.get(one, named.get(_OTHERS, QueueSettings("").history_ttl)) for one in OUTCOMES}
    longest = max(kept.values())
    shorter = {f"history_ttl_{one}": ttl if ttl < longest else None for one, ttl in kept.items()}
    return {"history_ttl": longest, **shorter}


BY_OUTCOME = tuple(f"history_ttl_{outcome}" for outcome in OUTCOMES)
"""The settings that a new `history_ttl` replaces, and that are reset with it."""

_OTHERS = "default"
"""The key for the outcomes that a mapping does not name."""


def check_changes(changes: Mapping[str, object]) -> None:
    """Raise InvalidInput for changes, as stores take them, that are wrong. Some of these have no setting's name."""
    checked_settings({name: value for name, value in changes.items() if name in _CHECKS})


def check_names(names: Iterable[str]) -> None:
    """Raise InvalidInput for a name that no setting has."""
    refuse_unknown(names, _CHECKS, "queue setting")


def store_settings(store: Store, queue: str, changes: Mapping[str, Any]) -> QueueSettings:
    """Store checked changes, and adjust the lanes of a tenant to them.

    Raises InvalidInput if dead-letter queues would form a circle.
    """
    check_lanes(queue, changes)
    if changes.get("dead_letter") is not None:
        check_letters(store, queue, changes, {})
    if "lanes" in changes:
        changes = {**changes, **lanes_changes(changes, settings_of(store, queue), changes["lanes"])}
    elif "lanes_per_tenant" in changes:
        changes = {**changes, **tenant_lanes(changes, settings_of(store, queue))}
    if not CONCERN_ORDER.isdisjoint(changes):
        changes = {**changes, **ordered_changes(changes, settings_of(store, queue))}
    return store.configure(queue, changes)


def settings_of(store: Store, queue: str) -> QueueSettings:
    """Return the stored settings of a queue, or the defaults if it does not exist."""
    return next(iter(store.queues([queue])), QueueSettings(queue))


# -- what new jobs get from the settings of their queue


def concern_new_jobs(settings: QueueSettings) -> bool:
    """Return whether new jobs of a queue get a lane, a time-out or another field by its settings."""
    return settings.lanes > 1 or settings.timeout is not None or has_defaults(settings)


def has_defaults(settings: QueueSettings) -> bool:
    """Return whether a queue gives fields to jobs that enter it without them."""
    return settings.ordered_by is not None or settings.jobs_expire is not None


def with_defaults(job: NewJob, settings: QueueSettings) -> NewJob:
    """Return a job that enters a queue with the fields that the queue gives to jobs without them."""
    ordered = settings.ordered_by is not None and job.order_key is None
    return job._replace(
        order_key=job.tenant if ordered else job.order_key,
        expires=settings.jobs_expire if job.expires is None else job.expires,
    )


# -- rules between settings


def check_letters(store: Store, queue: str, changes: Mapping[str, Any], known: Mapping[str, QueueSettings]) -> None:
    """Raise InvalidInput if dead-letter queues would form a circle. `known`: settings that need not be read."""
    letters = {queue: changes.get("dead_letter")}
    following = letters[queue]
    while following is not None and following not in letters:
        letters[following] = (known.get(following) or settings_of(store, following)).dead_letter
        following = letters[following]
    refuse_circle(queue, letters)


def refuse_circle(queue: str, letters: Mapping[str, str | None]) -> None:
    """Refuse dead-letter queues that form a circle. `letters`: the dead-letter queue of each queue.

    A queue that names itself keeps its dead jobs in its history.
    """
    path = [queue]
    while (following := letters.get(path[-1])) is not None and following != path[-1]:
        path.append(following)
        if following in path[:-1]:
            raise InvalidInput(
                f"dead-letter queues would form a circle: {' -> '.join(path)}; "
                f"leave out dead_letter for the last queue of the chain"
            )


def check_lanes(queue: str, settings: Mapping[str, Any]) -> None:
    """Raise InvalidInput if a tenant gets more lanes than there are."""
    if "lanes" in settings and settings.get("lanes_per_tenant", 0) > settings["lanes"]:
        raise _too_many(queue, settings["lanes_per_tenant"], settings["lanes"])


def lanes_changes(settings: Mapping[str, Any], current: QueueSettings, lanes: int) -> dict[str, object]:
    """Return the changes for this number of lanes, with the lanes per tenant bounded by it."""
    mine = settings.get("lanes_per_tenant", current.lanes_per_tenant if current.lanes > 1 else LANES_PER_TENANT)
    return {"lanes": lanes, "lanes_per_tenant": min(lanes, mine), **({"uses_lanes": True} if lanes > 1 else {})}


def tenant_lanes(settings: Mapping[str, Any], current: QueueSettings) -> dict[str, object]:
    """Return the change to the lanes per tenant. Raises InvalidInput for more than the queue has.

    If the number of lanes is declared too, an operator may have lowered it since: then the value is bounded instead.
    """
    mine = settings["lanes_per_tenant"]
    if mine > current.lanes and "lanes" not in settings:
        raise _too_many(current.name, mine, current.lanes)
    return {"lanes_per_tenant": min(mine, current.lanes)}


def check_order(queue: str, settings: Mapping[str, Any]) -> None:
    """Raise InvalidInput for an ordered queue with several lanes or running jobs."""
    if not settings.get("ordered"):
        return
    if settings.get("max_running") not in (None, 1):
        raise InvalidInput(
            f"queue {queue!r} is ordered: it runs one job at a time, so max_running={settings['max_running']} can't "
            f"be; leave it out, or set ordered=False"
        )
    if settings.get("lanes", 1) > 1:
        raise InvalidInput(
            f"queue {queue!r} can't be ordered with {settings['lanes']} lanes, which take turns; set lanes=1, or use "
            f"ordered_by='tenant' instead, which orders the jobs of each tenant"
        )


def ordered_changes(changes: Mapping[str, object], current: QueueSettings) -> dict[str, object]:
    """Return what else changes with these settings: an ordered queue has `max_running=1`.

    Raises InvalidInput for an ordered queue with several lanes or running jobs.
    """
    if not changes.get("ordered", current.ordered):
        return {"max_running": None} if current.ordered and "max_running" not in changes else {}
    check_order(current.name, {"lanes": current.lanes, **changes, "ordered": True})
    return {"max_running": 1}


CONCERN_ORDER = frozenset({"ordered", "max_running", "lanes"})
"""Settings for whose changes `ordered_changes` must be asked."""


def _ordered_by(name: str, value: object) -> str | None:
    if value not in (None, "tenant"):
        raise InvalidInput(f"{name} must be 'tenant', or None for no default of order_key, not {brief(value)}")
    return None if value is None else str(value)


def _too_many(queue: str, mine: int, lanes: int) -> InvalidInput:
    return InvalidInput(
        f"lanes_per_tenant={mine} is more than the {lanes} lanes of queue {queue!r}; "
        f"raise lanes, or lower lanes_per_tenant"
    )


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} must be True or False, not {brief(value)}")
    return value


def _rate(name: str, value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1e9:
        raise InvalidInput(f"{name} must be jobs per second, more than 0, or None for no limit, not {brief(value)}")
    return float(value)


def _count_or_none(name: str, value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST_RUNNING:
        raise InvalidInput(
            f"{name} must be a whole number from 1 to {_MOST_RUNNING:,}, or None for no limit, not {brief(value)}"
        )
    return value


_MOST_RUNNING = 1_000_000_000


def _lanes(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_LANES:
        raise InvalidInput(f"{name} must be a whole number from 1 to {MAX_LANES}, not {brief(value)}")
    return value


def _partitions(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_PARTITIONS:
        raise InvalidInput(f"{name} must be a whole number from 1 to {MAX_PARTITIONS}, not {brief(value)}")
    return value


def _queue_or_none(name: str, value: object) -> str | None:
    return None if value is None else checked_queue(value, name)


def _span(name: str, value: object) -> float:
    seconds = seconds_of(value, name)
    if seconds == 0:
        raise InvalidInput(f"{name} must be more than 0 seconds")
    return seconds


def _span_or_text(name: str, value: object) -> float:
    if not isinstance(value, str):
        return _span(name, value)
    from stanchion.core.text.durations import duration  # few programs use it

    return _span(name, duration(value, name))


def _span_or_none(name: str, value: object) -> float | None:
    return None if value is None else _span(name, value)


def _name_or_none(name: str, value: object) -> str | None:
    return None if value is None else checked_name(value, name)


_OF_KIND: dict[Kind, Callable[[str, object], object]] = {
    Kind.FLAG: _flag,
    Kind.INT: _count_or_none,
    Kind.REAL: _span_or_none,
    Kind.NAME: _name_or_none,
}
_CHECKS: dict[str, Callable[[str, object], object]] = {
    **{one.name: _OF_KIND[one.kind] for one in SETTABLE if one.kind in _OF_KIND},
    "max_rate": _rate,
    "lanes": _lanes,
    "lanes_per_tenant": _lanes,
    "history_ttl": lambda name, value: seconds_of(value, name),
    "dead_letter": _queue_or_none,
    "lease": lambda name, value: lease_seconds(value, name),
    "ordered_by": _ordered_by,
    "partitions": _partitions,
}
"""The checks of settings: of some, the check of their kind."""

SETTINGS = tuple(_CHECKS)
"""The names of all settings."""

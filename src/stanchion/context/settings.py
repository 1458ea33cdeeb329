"""Queue settings, checked at the door."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from stanchion.context.shard import MAX_LANES
from stanchion.core.checks import checked_name, refuse_unknown, seconds_of, shown
from stanchion.errors import InvalidInput
from stanchion.stores.protocol import Store
from stanchion.stores.records.queues import QueueSettings

LANES_PER_TENANT = 6
"""How many a tenant has where only the number of lanes is given."""


def checked_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes to store; InvalidInput says what to mend."""
    refuse_unknown(settings, _CHECKS, "queue setting")
    return {name: _CHECKS[name](name, value) for name, value in settings.items()}


def check_names(names: Iterable[str]) -> None:
    """Raise InvalidInput for a name that no setting has."""
    refuse_unknown(names, _CHECKS, "queue setting")


def store_settings(store: Store, queue: str, changes: Mapping[str, Any]) -> QueueSettings:
    """Store checked changes, with what follows from them for the lanes of a tenant.

    InvalidInput where dead letters would go round in a circle.
    """
    check_lanes(queue, changes)
    if changes.get("dead_letter") is not None:
        check_letters(store, queue, changes, {})
    if "lanes" in changes:
        changes = {**changes, **lanes_changes(changes, settings_of(store, queue), changes["lanes"])}
    elif "lanes_per_tenant" in changes:
        changes = {**changes, **tenant_lanes(changes, settings_of(store, queue))}
    return store.configure(queue, changes)


def settings_of(store: Store, queue: str) -> QueueSettings:
    """Return the stored settings of a queue; the defaults where it is not there."""
    return next(iter(store.queues([queue])), QueueSettings(queue))


def check_letters(store: Store, queue: str, changes: Mapping[str, Any], known: Mapping[str, QueueSettings]) -> None:
    """Raise InvalidInput where changes would have dead letters go round in a circle; `known`: what need not be read."""
    letters = {queue: changes.get("dead_letter")}
    following = letters[queue]
    while following is not None and following not in letters:
        letters[following] = (known.get(following) or settings_of(store, following)).dead_letter
        following = letters[following]
    refuse_circle(queue, letters)


def refuse_circle(queue: str, letters: Mapping[str, str | None]) -> None:
    """Refuse a dead-letter queue whose own dead letters come back, by way of others; `letters`: that of each queue.

    A queue that names itself keeps its dead jobs in its history.
    """
    way = [queue]
    while (following := letters.get(way[-1])) is not None and following != way[-1]:
        way.append(following)
        if following in way[:-1]:
            raise InvalidInput(
                f"dead letters would go round in a circle: {' -> '.join(way)}; "
                f"leave out dead_letter for the last queue of the chain"
            )


def check_lanes(queue: str, settings: Mapping[str, Any]) -> None:
    """Raise InvalidInput where a tenant is given more lanes than there are."""
    if "lanes" in settings and settings.get("lanes_per_tenant", 0) > settings["lanes"]:
        raise _too_many(queue, settings["lanes_per_tenant"], settings["lanes"])


def lanes_changes(settings: Mapping[str, Any], current: QueueSettings, lanes: int) -> dict[str, Any]:
    """Return the changes that give a queue so many lanes, and a tenant as many as it says, as far as they go."""
    mine = settings.get("lanes_per_tenant", current.lanes_per_tenant if current.lanes > 1 else LANES_PER_TENANT)
    return {"lanes": lanes, "lanes_per_tenant": min(lanes, mine), **({"laned": True} if lanes > 1 else {})}


def tenant_lanes(settings: Mapping[str, Any], current: QueueSettings) -> dict[str, Any]:
    """Return the change that gives a tenant more lanes, or fewer, of those that there are; InvalidInput for too many.

    Where the number of lanes is declared along with it, an operator may have lowered that since: then as many as go.
    """
    mine = settings["lanes_per_tenant"]
    if mine > current.lanes and "lanes" not in settings:
        raise _too_many(current.name, mine, current.lanes)
    return {"lanes_per_tenant": min(mine, current.lanes)}


def _too_many(queue: str, mine: int, lanes: int) -> InvalidInput:
    return InvalidInput(
        f"lanes_per_tenant={mine} is more than the lanes of queue {queue!r}, which are {lanes}; "
        f"give it more lanes, or a tenant fewer"
    )


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} must be True or False, not {shown(value)}")
    return value


def _rate(name: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1e9:
        raise InvalidInput(f"{name} must be jobs per second, more than 0, or None for no limit, not {shown(value)}")
    return float(value)


def _count_or_none(name: str, value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST_RUNNING:
        raise InvalidInput(
            f"{name} must be a whole number from 1 to {_MOST_RUNNING:,}, or None for no limit, not {shown(value)}"
        )
    return value


_MOST_RUNNING = 1_000_000_000


def _lanes(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_LANES:
        raise InvalidInput(f"{name} must be a whole number from 1 to {MAX_LANES}, not {shown(value)}")
    return value


def _queue_or_none(name: str, value: Any) -> str | None:
    return None if value is None else checked_name(value, name)


def _span(name: str, value: Any) -> float:
    seconds = seconds_of(value, name)
    if seconds == 0:
        raise InvalidInput(f"{name} must be more than 0 seconds")
    return seconds


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "paused": _flag,
    "max_rate": _rate,
    "max_running": _count_or_none,
    "lanes": _lanes,
    "lanes_per_tenant": _lanes,
    "history_ttl": lambda name, value: seconds_of(value, name),
    "dead_letter": _queue_or_none,
    "lease": _span,
    "expires": lambda name, value: None if value is None else _span(name, value),
    "expires_with_jobs": _flag,
}

SETTINGS = tuple(_CHECKS)
"""The names of all settings."""

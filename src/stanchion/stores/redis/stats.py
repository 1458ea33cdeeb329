"""Figures of queues in Redis: sizes, totals, next due time, and lane depths."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from stanchion.stores.records.queues import Counts, Head, QueueStats, Sizes, Stat
from stanchion.stores.redis.client.places import Places
from stanchion.stores.redis.client.server import Call, Server

_FEW = 4
"""Number of queues from which it pays to ask first which of them have live jobs."""


class Stats:
    """Counts jobs: several queues in one round trip, all queues without jobs by one command."""

    def __init__(self, server: Server, places: Places) -> None:
        self._server, self._places, self._key = server, places, server.keys.queue

    def stats(self, queues: Collection[str], fields: Collection[Stat]) -> dict[str, QueueStats]:
        """Return the figures of these queues, only the fields named."""
        asked = [field for field in _READ if field in fields]
        names = list(dict.fromkeys(queues))
        alone = len(names) < _FEW or self._server.address.cluster or asked == ["totals"]
        busy = set(names if alone else self._places.with_any(names, "live"))
        wanted = [(queue, field) for queue in names for field in asked if field == "totals" or queue in busy]
        found: dict[str, dict[str, Any]] = {queue: {} for queue in names}
        answers = self._server.all([self._call(field, queue) for queue, field in wanted])
        for (queue, field), answer in zip(wanted, answers, strict=True):
            found[queue][field] = _READ[field](answer)
        return {queue: QueueStats(**figures) for queue, figures in found.items()}

    def _call(self, field: Stat, queue: str) -> Call:
        key = self._key(queue)
        if field == "totals":
            return Call(("HGETALL", f"{key}counts"))
        return self._server.script("sizes" if field == "states" else field, key)

    def lane_depths(self, queue: str, lanes: Sequence[int] | None = None, at_most: int = 1000) -> dict[int, int]:
        """Count the queued jobs of these lanes (None: of all), each up to `at_most`."""
        wanted = ("all",) if lanes is None else ("", *lanes)
        (found,) = self._server.all([self._server.script("depths", self._key(queue), at_most, *wanted)])
        return {lane: depth for lane, depth in zip(found[::2], found[1::2], strict=True) if depth}


def _sizes(answer: Sequence[int]) -> Sizes:
    total, ready, scheduled, running = answer
    return Sizes(total, ready, scheduled, total - ready - scheduled - running, running)


def _counts(answer: Any) -> Counts:
    pairs = answer.items() if isinstance(answer, dict) else zip(answer[::2], answer[1::2], strict=True)
    return Counts(**{name.decode(): int(number) for name, number in pairs})


def _due(answer: bytes | int) -> int | None:
    return int(answer) if answer else None


def _heads(answer: Sequence[bytes]) -> tuple[Head, ...]:
    now, *pairs = answer
    found = []
    for name, run_at in zip(pairs[::2], pairs[1::2], strict=True):
        lane, rank = name.decode().split(":")
        found.append(Head(int(lane), _TOP - int(rank), int(run_at), int(run_at) - int(now)))
    return tuple(found)


_TOP = 5000
"""A ready list is named by its lane, and by this minus its rank."""

_READ: dict[Stat, Callable[[Any], Any]] = {"states": _sizes, "totals": _counts, "next_due": _due, "heads": _heads}

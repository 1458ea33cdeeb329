"""Totals of queues some minutes ago, kept in the store, so that a single reading knows what happened since.

Two samples are kept of each window. A reader that finds the newer one older than the period moves it to the place
of the older one and writes a new one, by compare-and-set: at most one small write per period, by all readers together.
A reader that may not write does without.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from stanchion.alerts.snapshot import QueueSample, Window
from stanchion.errors import StanchionError
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.queues import Counts
from stanchion.stores.records.values import VersionedValue

KIND: Final = "alerts"
RECENT, HOUR = "recent", "hour"

PERIODS: Final = {RECENT: 300 * SECOND, HOUR: 1800 * SECOND}
"""Between two samples: a window is one to two periods long."""

QUEUES_MAX = 200
"""Queues in a sample, the ones with most jobs so far."""

_KEPT = ("committed", "popped", "moved", "rolled_back", "buried", "expired", "lapsed")


LIMITS: Final = "limits"
"""The name of the value that has the limits changed for all processes."""


def read_values(store: Store) -> dict[str, VersionedValue]:
    """Return the values that alerts keep in the store, by name."""
    return {value.name: value for value in store.values(KIND)}


def limits_in(known: Mapping[str, VersionedValue]) -> dict[str, float]:
    """Return the limits that are stored, by name."""
    return dict(json.loads(known[LIMITS].text)) if LIMITS in known else {}


def windows_in(
    store: Store, known: Mapping[str, VersionedValue], now: int, queues: Sequence[QueueSample]
) -> tuple[Window | None, Window | None]:
    """Return the totals of some minutes ago and of about an hour ago, where they are known; keep samples."""
    for name, period in PERIODS.items():
        samples = _samples(known.get(name))
        if not samples or not 0 <= now - samples[-1].at < period:
            _keep(store, name, known.get(name), [*samples[-1:], _sample(now, queues)])
    return known_windows(known, now)


def known_windows(known: Mapping[str, VersionedValue], now: int) -> tuple[Window | None, Window | None]:
    """Return the totals of some minutes ago and of about an hour ago, where they are known; keep nothing."""
    recent, hour = (_window(_samples(known.get(name)), now, PERIODS[name]) for name in (RECENT, HOUR))
    return recent, hour


def _window(samples: Sequence[Window], now: int, period: int) -> Window | None:
    """Return the oldest sample that is not too old."""
    return next((one for one in samples if 0 < now - one.at <= 2 * period + period // 10), None)


def _sample(now: int, queues: Sequence[QueueSample]) -> Window:
    busiest = sorted(queues, key=lambda one: -sum(one.stats.totals))[:QUEUES_MAX]
    return Window(now, {one.settings.name: one.stats.totals for one in busiest})


def _keep(store: Store, name: str, known: VersionedValue | None, samples: Sequence[Window]) -> None:
    text = json.dumps([_stored(one) for one in samples], separators=(",", ":"), ensure_ascii=False)
    with suppress(StanchionError):
        store.compare_and_set(KIND, name, text, 0 if known is None else known.version)


def _stored(one: Window) -> dict[str, object]:
    return {"at": one.at, "of": {name: [getattr(of, kept) for kept in _KEPT] for name, of in one.totals.items()}}


def _samples(value: VersionedValue | None) -> list[Window]:
    stored = [] if value is None else json.loads(value.text)
    return [
        Window(one["at"], {name: Counts(**dict(zip(_KEPT, of, strict=True))) for name, of in one["of"].items()})
        for one in stored
    ]

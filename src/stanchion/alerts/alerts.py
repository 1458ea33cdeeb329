"""The alerts and the monitor of an app."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from stanchion.alerts.figures import monitor_of
from stanchion.alerts.reading.reader import snapshot_of
from stanchion.alerts.reading.windows import KIND, LIMITS, limits_in, read_values
from stanchion.alerts.records import Monitor
from stanchion.alerts.snapshot import Snapshot
from stanchion.alerts.thresholds import Thresholds
from stanchion.context.context import Context
from stanchion.partitions.opening import with_partitions
from stanchion.pipelines.plan import PipelinePlan
from stanchion.stores.protocol import Store


def monitor(context: Context, limits: Mapping[str, object] | None = None) -> Monitor:
    """Read the store once; return its figures and alerts. `limits`: in addition to stored ones, see `Thresholds`."""
    return _monitor(lambda: context.fresh_store, context.registry.pipelines.values(), limits or {})


def reading(context: Context) -> tuple[Snapshot, Monitor]:
    """Read the store once; return the snapshot, and its alerts."""
    seen = snapshot_of(lambda: context.fresh_store, context.registry.pipelines.values())
    return seen, monitor_of(seen, Thresholds().changed(seen.limits))


def monitor_of_store(store: Store) -> Monitor:
    """Return the same for a store without an app; the stations of pipelines are as stored by processes."""
    return _monitor(lambda: with_partitions(store), (), {})


def _monitor(store: Callable[[], Store], pipelines: Iterable[PipelinePlan], limits: Mapping[str, object]) -> Monitor:
    Thresholds().changed(limits)  # refuse wrong ones before reading
    seen = snapshot_of(store, pipelines)
    return monitor_of(seen, Thresholds().changed({**seen.limits, **limits}))


def stored_limits(context: Context) -> dict[str, float]:
    """Return the limits that are stored for all processes, by name."""
    return limits_in(read_values(context.store))


def store_limits(context: Context, changes: Mapping[str, Any]) -> dict[str, float]:
    """Change limits for all processes, None: back to the default; return those stored. Raises InvalidInput."""
    Thresholds().changed({name: limit for name, limit in changes.items() if limit is not None})
    while True:
        known = read_values(context.store)
        value = known.get(LIMITS)
        found = {name: limit for name, limit in {**limits_in(known), **changes}.items() if limit is not None}
        if context.store.compare_and_set(KIND, LIMITS, json.dumps(found), 0 if value is None else value.version):
            return found

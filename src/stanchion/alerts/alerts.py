"""The alerts and the monitor of an app."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from stanchion.alerts.figures import monitor_of
from stanchion.alerts.reading.reader import snapshot_of
from stanchion.alerts.reading.windows import KIND
from stanchion.alerts.records import Monitor
from stanchion.alerts.thresholds import Thresholds
from stanchion.context.context import Context

LIMITS: Final = "limits"
"""The name of the value that has the limits changed for all processes."""


def monitor(context: Context, limits: Mapping[str, Any] | None = None) -> Monitor:
    """Read the store once; return its figures and alerts. `limits`: beside those stored, see `Thresholds`."""
    checked = Thresholds().changed(limits or {})
    seen = snapshot_of(context)
    if seen.trouble is None:
        checked = Thresholds().changed(stored_limits(context) | dict(limits or {}))
    return monitor_of(seen, checked)


def stored_limits(context: Context) -> dict[str, Any]:
    """Return the limits that are stored, by name."""
    value = next(iter(context.store.values(KIND, [LIMITS])), None)
    return {} if value is None else dict(json.loads(value.text))


def store_limits(context: Context, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Change limits for all processes, None: back to the default; return those stored. Raises InvalidInput."""
    Thresholds().changed({name: limit for name, limit in changes.items() if limit is not None})
    while True:
        value = next(iter(context.store.values(KIND, [LIMITS])), None)
        known = {} if value is None else json.loads(value.text)
        found = {name: limit for name, limit in {**known, **changes}.items() if limit is not None}
        if context.store.compare_and_set(KIND, LIMITS, json.dumps(found), 0 if value is None else value.version):
            return found

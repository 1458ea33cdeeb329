"""Rate options of tasks, for processes without their code: versioned values by task name.

The text is JSON, such as `{"rate":20.0,"rate_key":"stripe"}`. A task without a rate has none.
"""

from __future__ import annotations

import json
from typing import Final

from stanchion.core.checks import checked_name
from stanchion.errors import InvalidInput
from stanchion.stores.rules.capacity.limits import FASTEST, SLOWEST

KIND: Final = "task-rate"


def task_rate(text: str) -> dict[str, object]:
    """Return the options about the rate of a task from a stored text; none if it has another form."""
    try:
        options = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(options, dict) or not options.keys() <= {"rate", "rate_by", "rate_key"}:
        return {}
    rate, by, key = options.get("rate"), options.get("rate_by"), options.get("rate_key")
    if not isinstance(rate, float) or not SLOWEST <= rate <= FASTEST or by not in (None, "task", "tenant", "queue"):
        return {}
    try:
        return options if key is None or (by is None and checked_name(key, "rate_key")) else {}
    except InvalidInput:
        return {}

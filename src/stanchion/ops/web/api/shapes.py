"""Jobs and queues as JSON values, with what the pages hide hidden."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from stanchion.core.hiding import MASK, Hidden
from stanchion.core.times import iso
from stanchion.jobs.job import Job
from stanchion.ops.job_json import job_json
from stanchion.ops.reads.queues import QueueFigures
from stanchion.ops.web.show.redaction import HIDDEN, Redaction
from stanchion.ops.web.show.story import last_error
from stanchion.stores.records.queues import QueueSettings

_VALUES: Final = ("payload", "checkpoint", "entry_payload", "headers", "result")
_SUMMARY: Final = (
    *("id", "queue", "task", "priority", "tenant", "lane", "key"),
    *("attempts", "failures", "max_attempts", "worker"),
)
_SETTINGS: Final = (
    *("max_rate", "max_running", "lanes", "lanes_per_tenant", "history_ttl", "dead_letter", "lease", "expires"),
    *("expires_with_jobs", "timeout", "ordered", "ordered_by", "partitions"),
)


def job_shape(job: Job, redaction: Redaction | None, hidden: Hidden | None) -> dict[str, Any]:
    """Return a whole job; without a redaction, nothing is hidden. `hidden`: what its task hides."""
    found = job_json(job, None if redaction is None else hidden)
    if redaction is None:
        return found
    try:
        found |= {name: masked(redaction.value(found[name])) for name in _VALUES}
    except RecursionError:
        found |= dict.fromkeys(_VALUES) | {"headers": {}, "unreadable": "nested too deeply to be shown"}
    for error in found["errors"]:
        error |= {name: redaction.text(error[name]) for name in ("error", "traceback") if error[name] is not None}
    return found


def summary_shape(job: Job, redaction: Redaction) -> dict[str, Any]:
    """Return a job in a list."""
    return {
        **{name: getattr(job, name) for name in _SUMMARY},
        "state": str(job.state),
        **{name: iso(getattr(job, name)) for name in ("run_at", "enqueued_at", "started_at", "finished_at")},
        "error": last_error(job, redaction) or None,
    }


def queue_shape(queue: QueueFigures) -> dict[str, Any]:
    """Return a queue and its figures."""
    return {
        "name": queue.name,
        "verdict": queue.sentence,
        "paused": queue.settings.paused,
        "size": queue.sizes._asdict(),
        "dead_letters": queue.letters,
        "totals": queue.totals._asdict(),
        "lag": queue.lag,
        "workers": len(queue.workers),
        "threads": queue.threads,
        "last_5_min": None if queue.times is None else queue.times.as_json(),
        "settings": settings_shape(queue.settings),
    }


def settings_shape(settings: QueueSettings) -> dict[str, Any]:
    """Return the settings of a queue."""
    values = asdict(settings)
    return {name: values[name] for name in _SETTINGS}


def masked(value: Any) -> Any:
    """Return a redacted value with a mask in place of hidden ones."""
    if value is HIDDEN:
        return MASK
    if isinstance(value, dict):
        return {key: masked(one) for key, one in value.items()}
    return [masked(one) for one in value] if isinstance(value, list) else value

"""Jobs and queues as JSON values, redacted as on the pages."""

from __future__ import annotations

from typing import Final

from stanchion.jobs.job import Job
from stanchion.ops.job_json import last_error, plain
from stanchion.ops.reads.queues import QueueFigures
from stanchion.stores.fields.jobs import FIELDS
from stanchion.stores.fields.queues import SETTABLE
from stanchion.stores.records.queues import QueueSettings

_SUMMARY: Final = tuple(field.shown_as for field in FIELDS if field.listed)


def summary_shape(job: Job) -> dict[str, object]:
    """Return a job in a list."""
    return {**{name: plain(getattr(job, name)) for name in _SUMMARY}, "error": last_error(job) or None}


def queue_shape(queue: QueueFigures) -> dict[str, object]:
    """Return a queue and its figures."""
    return {
        "name": queue.name,
        "verdict": queue.sentence,
        "paused": queue.settings.paused,
        "size": queue.sizes._asdict(),
        "items": queue.items._asdict(),
        "dead_letters": queue.letters,
        "totals": queue.totals._asdict(),
        "lag": queue.lag,
        "workers": len(queue.workers),
        "threads": queue.threads,
        "last_5_min": None if queue.times is None else queue.times.as_json(),
        "settings": settings_shape(queue.settings),
    }


def settings_shape(settings: QueueSettings) -> dict[str, object]:
    """Return the settings of a queue."""
    return {one.name: getattr(settings, one.name) for one in SETTABLE if one.name != "paused"}
